//! Lines of a journal, from a place on: what is read depends on how many are asked for, not on how long the journal is.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;

use crate::journal;

/// How much of a journal's end is read at first.
const TAIL: u64 = 16 << 10;

/// How much is read at once to find where a line begins.
const PIECE: usize = 4 << 10;

/// And to read the number of a line.
const HEAD: usize = 40;

fn text(line: &[u8]) -> String {
    String::from_utf8_lossy(line).into_owned()
}

/// The whole lines of a file, from where it is.
pub fn forwards(file: File) -> impl Iterator<Item = io::Result<String>> {
    let mut file = BufReader::new(file);
    std::iter::from_fn(move || {
        let mut line = Vec::new();
        match file.read_until(b'\n', &mut line) {
            // What has no end is not whole yet.
            Ok(_) => line.strip_suffix(b"\n").map(|line| Ok(text(line))),
            Err(error) => Some(Err(error)),
        }
    })
}

/// Where the first line with a higher number begins, or the end: found by halving, since the numbers rise.
pub fn place_after(file: &File, length: u64, seq: u64) -> io::Result<u64> {
    let (mut low, mut high) = (0, length);
    while low < high {
        let middle = low + (high - low) / 2;
        match numbered(file, middle)? {
            Some((begin, number)) if number <= seq => low = begin + 1,
            _ => high = middle,
        }
    }
    Ok(numbered(file, low)?.map_or(length, |(begin, _)| begin))
}

/// The first line with a number that begins at a place or behind it: where it begins, and its number.
fn numbered(file: &File, from: u64) -> io::Result<Option<(u64, u64)>> {
    let mut piece = [0; PIECE];
    // A line begins behind the end of the one before.
    let mut place = from.saturating_sub(1);
    let mut begins = from == 0;
    loop {
        if begins {
            let read = file.read_at(&mut piece[..HEAD], place)?;
            if let Some(number) = journal::seq(&text(&piece[..read])) {
                return Ok(Some((place, number)));
            }
        }
        let read = file.read_at(&mut piece, place)?;
        if read == 0 {
            return Ok(None);
        }
        let newline = memchr::memchr(b'\n', &piece[..read]);
        begins = newline.is_some();
        place += newline.map_or(read, |at| at + 1) as u64;
    }
}

/// The whole lines of a file from its end, read piece by piece: the first ones cost the same however long
/// the file is.
pub struct Backwards {
    file: File,
    /// Where what was read begins.
    start: u64,
    /// What was read and not given yet.
    read: Vec<u8>,
    size: u64,
    begun: bool,
}

impl Backwards {
    pub fn new(file: File, length: u64) -> Backwards {
        Backwards { file, start: length, read: Vec::new(), size: TAIL, begun: false }
    }

    /// Reads one piece more; whether there was one.
    fn more(&mut self) -> io::Result<bool> {
        let size = self.size.min(self.start);
        if size == 0 {
            return Ok(false);
        }
        self.start -= size;
        self.size *= 2;
        let mut piece = vec![0; usize::try_from(size).map_err(io::Error::other)?];
        self.file.seek(SeekFrom::Start(self.start))?;
        self.file.read_exact(&mut piece)?;
        piece.append(&mut self.read);
        self.read = piece;
        Ok(true)
    }

    /// Where the last whole line ends.
    pub fn whole(mut self) -> io::Result<u64> {
        loop {
            if let Some(newline) = memchr::memrchr(b'\n', &self.read) {
                return Ok(self.start + newline as u64 + 1);
            }
            if !self.more()? {
                return Ok(0);
            }
        }
    }

    fn step(&mut self) -> io::Result<Option<String>> {
        if !self.begun {
            // What is behind the last newline is not whole yet.
            while memchr::memrchr(b'\n', &self.read).is_none() {
                if !self.more()? {
                    return Ok(None);
                }
            }
            let end = memchr::memrchr(b'\n', &self.read).unwrap_or(0);
            self.read.truncate(end);
            self.begun = true;
        } else if self.start == 0 && self.read.is_empty() {
            return Ok(None);
        }
        loop {
            if let Some(newline) = memchr::memrchr(b'\n', &self.read) {
                let line = text(&self.read[newline + 1..]);
                self.read.truncate(newline);
                return Ok(Some(line));
            }
            if !self.more()? {
                let line = text(&self.read);
                self.read.clear();
                return Ok(Some(line));
            }
        }
    }
}

impl Iterator for Backwards {
    type Item = io::Result<String>;

    fn next(&mut self) -> Option<io::Result<String>> {
        self.step().transpose()
    }
}
