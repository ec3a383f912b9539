//! Content digests: BLAKE3, in hexadecimal. It is made for large inputs, and a state document of
//! 60 MB is one.

/// The digest of some bytes.
pub fn digest(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

/// The digest of several pieces; where one ends and the next begins counts too.
pub fn digest_of<'p>(pieces: impl IntoIterator<Item = &'p [u8]>) -> String {
    let mut hasher = blake3::Hasher::new();
    for piece in pieces {
        hasher.update(&(piece.len() as u64).to_le_bytes());
        hasher.update(piece);
    }
    hasher.finalize().to_hex().to_string()
}
