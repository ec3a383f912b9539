//! Content digests: SHA-256, in hexadecimal.

use sha2::{Digest, Sha256};

/// The digest of some bytes.
pub fn digest(bytes: &[u8]) -> String {
    digest_of(&[bytes])
}

/// The digest of several pieces, one after the other.
pub fn digest_of(pieces: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for piece in pieces {
        hash.update(piece);
    }
    let mut text = String::with_capacity(64);
    for byte in hash.finalize() {
        for half in [byte >> 4, byte & 15] {
            text.push(char::from_digit(u32::from(half), 16).unwrap_or('0'));
        }
    }
    text
}
