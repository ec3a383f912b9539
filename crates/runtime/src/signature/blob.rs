//! What an SSH signature says of its key: which one it is, of which type, and whether it was touched.
//!
//! `ssh-keygen` checks that a signature fits; it does not say of which type the key is in a form that is meant to be
//! read, nor whether somebody was there. Both are in the signature (OpenSSH's `PROTOCOL.sshsig` and `PROTOCOL.u2f`):
//! the public key that it is checked with, and for a key on a security key the flags over which the key has signed.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use sha2::{Digest, Sha256};

const BEGIN: &str = "-----BEGIN SSH SIGNATURE-----";
const END: &str = "-----END SSH SIGNATURE-----";
const MAGIC: &[u8] = b"SSHSIG";

/// The types of keys that a security key has, and never gives away.
const HARDWARE: [&str; 2] = ["sk-ssh-ed25519@openssh.com", "sk-ecdsa-sha2-nistp256@openssh.com"];

/// The flag of a security key that somebody has touched it.
const TOUCHED: u8 = 0x01;

/// What a signature says of its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    /// The fingerprint of the key, as `ssh-keygen` tells it.
    pub key: String,
    /// The type of the key.
    pub kind: String,
    /// Somebody has touched the security key for it.
    is_touched: bool,
}

/// Why a text cannot be read as a signature.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is not an SSH signature: {0}")]
pub struct NotASignature(&'static str);

impl Blob {
    /// Reads a signature as `ssh-keygen` writes it.
    ///
    /// # Errors
    /// Where it is something else.
    pub fn read(signature: &str) -> Result<Blob, NotASignature> {
        let armour = NotASignature("it does not begin and end as one");
        let inner = signature.trim().strip_prefix(BEGIN).and_then(|rest| rest.strip_suffix(END));
        let inner: String = inner.ok_or(armour)?.split_whitespace().collect();
        let bytes = STANDARD.decode(inner).map_err(|_| NotASignature("it is not base 64"))?;
        let mut rest = Bytes(bytes.strip_prefix(MAGIC).ok_or(NotASignature("no SSHSIG"))?);
        if rest.number()? != 1 {
            return Err(NotASignature("another version"));
        }
        let public = rest.string()?;
        // Namespace, a reserved string, and the hash: `ssh-keygen` looks at them.
        for _ in 0..3 {
            rest.string()?;
        }
        let signed = rest.string()?;
        rest.must_end()?;
        let kind = Bytes(public).text()?;
        let is_touched = HARDWARE.contains(&kind.as_str()) && is_touched(&kind, signed)?;
        let print = STANDARD_NO_PAD.encode(Sha256::digest(public));
        Ok(Blob { key: format!("SHA256:{print}"), kind, is_touched })
    }

    /// Whether a person must have been there: an agent can use any other key that the user can.
    pub fn is_of_person(&self) -> bool {
        self.is_touched
    }
}

/// Whether a security key was touched: the type again, what it signed, its flags, and its counter.
fn is_touched(kind: &str, signed: &[u8]) -> Result<bool, NotASignature> {
    let mut rest = Bytes(signed);
    if rest.text()? != kind {
        return Err(NotASignature("key and signature are of different types"));
    }
    rest.string()?;
    let flags = rest.take(1)?[0];
    rest.number()?;
    rest.must_end()?;
    Ok(flags & TOUCHED != 0)
}

/// Bytes that are read from the front.
struct Bytes<'b>(&'b [u8]);

impl<'b> Bytes<'b> {
    fn take(&mut self, count: usize) -> Result<&'b [u8], NotASignature> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(NotASignature("it is cut off"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u32, NotASignature> {
        let bytes = self.take(4)?.try_into().map_err(|_| NotASignature("it is cut off"))?;
        Ok(u32::from_be_bytes(bytes))
    }

    fn string(&mut self) -> Result<&'b [u8], NotASignature> {
        let length = self.number()?;
        self.take(usize::try_from(length).unwrap_or(usize::MAX))
    }

    fn text(&mut self) -> Result<String, NotASignature> {
        let text = self.string()?;
        String::from_utf8(text.to_vec()).map_err(|_| NotASignature("a type is not text"))
    }

    fn must_end(&self) -> Result<(), NotASignature> {
        if self.0.is_empty() { Ok(()) } else { Err(NotASignature("something follows it")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SK: &str = "sk-ssh-ed25519@openssh.com";

    fn string(bytes: &[u8]) -> Vec<u8> {
        let length = u32::try_from(bytes.len()).unwrap_or_default().to_be_bytes();
        [&length, bytes].concat()
    }

    /// A signature with a key of one type, a signature of a type, and what follows in it.
    fn crafted(kind: &str, of: &str, behind: &[u8]) -> Vec<u8> {
        let public = [string(kind.as_bytes()), string(&[7; 32]), string(b"ssh:")].concat();
        let signed = [&string(of.as_bytes()), &string(&[9; 64]), behind].concat();
        let strings =
            [&public[..], b"phasegate-approval", b"", b"sha512", &signed].map(string).concat();
        [MAGIC, &1u32.to_be_bytes(), &strings].concat()
    }

    fn armoured(bytes: &[u8]) -> String {
        format!("{BEGIN}\n{}\n{END}\n", STANDARD.encode(bytes))
    }

    fn read(kind: &str, of: &str, behind: &[u8]) -> Result<Blob, NotASignature> {
        Blob::read(&armoured(&crafted(kind, of, behind)))
    }

    #[test]
    fn only_a_touched_security_key_is_a_person() {
        for (kind, behind, is_person) in [
            (SK, &[0x01, 0, 0, 0, 5][..], true),
            (SK, &[0x05, 0, 0, 0, 5], true),
            // Verified by a PIN, and not touched; a key that wants no touch.
            (SK, &[0x04, 0, 0, 0, 5], false),
            (SK, &[0x00, 0, 0, 0, 5], false),
            ("sk-ecdsa-sha2-nistp256@openssh.com", &[0x01, 0, 0, 0, 5], true),
            // Ordinary keys, also with what looks like flags, and names that only look alike.
            ("ssh-ed25519", &[], false),
            ("ssh-ed25519", &[0x01, 0, 0, 0, 5], false),
            ("sk-ssh-ed25519", &[0x01, 0, 0, 0, 5], false),
            ("sk-ssh-ed25519@example.org", &[0x01, 0, 0, 0, 5], false),
            ("sk-ssh-ed25519-cert-v01@openssh.com", &[0x01, 0, 0, 0, 5], false),
        ] {
            let blob = read(kind, kind, behind);
            let known = blob.map(|blob| (blob.is_of_person(), blob.kind));
            assert_eq!(known, Ok((is_person, kind.to_string())), "{behind:?}");
        }
    }

    #[test]
    fn what_is_cut_off_or_has_more_behind_it_is_not_read() {
        assert!(read(SK, "ssh-ed25519", &[0x01, 0, 0, 0, 5]).is_err());
        assert!(read(SK, SK, &[0x01]).is_err());
        assert!(read(SK, SK, &[]).is_err());
        assert!(read(SK, SK, &[0x01, 0, 0, 0, 5, 0]).is_err());
        let whole = crafted(SK, SK, &[0x01, 0, 0, 0, 5]);
        for length in 0..whole.len() {
            assert!(Blob::read(&armoured(&whole[..length])).is_err(), "{length}");
        }
        let more = [&whole[..], b"x"].concat();
        assert!(Blob::read(&armoured(&more)).is_err());
        let armour = armoured(&whole);
        assert!(Blob::read(&armour).is_ok());
        assert!(Blob::read(&format!("{armour}{armour}")).is_err());
        assert!(Blob::read(&format!("x{armour}")).is_err());
        assert!(Blob::read("").is_err());
    }
}
