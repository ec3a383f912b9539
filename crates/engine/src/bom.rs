//! The byte order mark that some editors put before UTF-8 text. It is not part of the text.

const MARK: char = '\u{feff}';

/// The text without a mark before it.
pub fn strip(text: &str) -> &str {
    text.strip_prefix(MARK).unwrap_or(text)
}

/// The bytes of a text without a mark before it.
pub fn strip_bytes(bytes: &[u8]) -> &[u8] {
    let mut mark = [0; MARK.len_utf8()];
    bytes.strip_prefix(MARK.encode_utf8(&mut mark).as_bytes()).unwrap_or(bytes)
}
