//! What a client writes to our stdin: one JSON object. It is read up to its end, and not up to the end of
//! stdin, which some clients leave open.

use std::io::{ErrorKind, Read, Result};

/// Reads one JSON object from stdin, and whatever came with it; at most so many bytes and one more.
///
/// # Errors
/// Where stdin cannot be read.
pub fn read(most: usize) -> Result<Vec<u8>> {
    read_from(std::io::stdin().lock(), most)
}

fn read_from(mut from: impl Read, most: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // Most payloads fit in a small piece, and to make room for a large one costs more than to read them.
    let mut piece = vec![0; 4 << 10];
    let mut brackets = Brackets::default();
    loop {
        let room = piece.len().min(most + 1 - bytes.len());
        match from.read(&mut piece[..room]) {
            Ok(0) => return Ok(bytes),
            Ok(read) => {
                bytes.extend_from_slice(&piece[..read]);
                if read == piece.len() {
                    piece.resize(64 << 10, 0);
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if bytes.len() > most || brackets.are_closed(&bytes) {
            return Ok(bytes);
        }
    }
}

/// Follows a JSON object to its end, without looking at anything but its brackets and texts.
#[derive(Default)]
struct Brackets {
    /// How much was looked at.
    seen: usize,
    depth: usize,
    is_in_text: bool,
    is_escaped: bool,
}

impl Brackets {
    /// Whether the text, which has grown since it was last asked about, ends with the end of the object.
    fn are_closed(&mut self, text: &[u8]) -> bool {
        let text = text.trim_ascii_end();
        // It is looked through only where that may be.
        if !text.ends_with(b"}") || self.seen >= text.len() {
            return false;
        }
        for byte in &text[self.seen..] {
            match (self.is_in_text, byte) {
                (true, _) if self.is_escaped => self.is_escaped = false,
                (true, b'\\') => self.is_escaped = true,
                (_, b'"') => self.is_in_text = !self.is_in_text,
                (false, b'{' | b'[') => self.depth += 1,
                (false, b'}' | b']') => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
        self.seen = text.len();
        self.depth == 0 && !self.is_in_text
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    /// Gives its pieces, and fails where more is wanted.
    struct Pieces(Vec<&'static str>);

    impl Read for Pieces {
        fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
            assert!(!self.0.is_empty(), "more is read than there is");
            let piece = self.0.remove(0).as_bytes();
            buffer[..piece.len()].copy_from_slice(piece);
            Ok(piece.len())
        }
    }

    #[test]
    fn the_end_of_the_object_is_the_end() {
        for pieces in [
            vec!["{\"a\": {\"b\": \"}\"}}"],
            vec!["{\"a\": [{}", "], \"b\": \"\\\"}", "\\\\\"}\n"],
            vec!["\u{feff}{}"],
            vec![" {", "}"],
        ] {
            let whole = pieces.concat();
            assert_eq!(read_from(Pieces(pieces), 100).unwrap(), whole.as_bytes());
        }
    }

    #[test]
    fn what_is_no_object_is_read_to_its_end_and_never_too_much_of_it() {
        assert_eq!(read_from(Pieces(vec!["{} x", ""]), 100).unwrap(), b"{} x");
        assert_eq!(read_from(&b"12345"[..], 3).unwrap(), b"1234");
    }
}
