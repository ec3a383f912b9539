//! What jobs print.

use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use phasegate_engine::job::JobKind;

use super::token::{LENGTH, mask};
use super::{Record, place};
use crate::outside;
use crate::plain;

/// The end of a log, from a whole line on.
///
/// # Errors
/// Where it cannot be read.
pub fn tail(log: &Path, most: u64) -> io::Result<String> {
    let (mut log, _) = outside::open(log)?;
    let length = log.metadata()?.len();
    let start = length.saturating_sub(most);
    log.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    log.take(most).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let text = plain::text(&text).into_owned();
    let whole = match text.split_once('\n') {
        Some((_, rest)) if start > 0 => rest,
        _ => &text,
    };
    Ok(whole.trim_end().to_string())
}

/// A part of the log of a job without its secrets, and how long the log is.
pub(crate) fn part(root: &Path, job: &Record, from: u64, most: u64) -> io::Result<(Vec<u8>, u64)> {
    let mut log = match outside::open(&place(root, &job.log_place())?) {
        Ok((log, _)) => log,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), 0)),
        Err(error) => return Err(error),
    };
    let size = log.metadata()?.len();
    let (from, most) = (from.min(size), most.min(size));
    // With what is around it: a secret may begin before, or end after.
    let start = from.saturating_sub(LENGTH as u64);
    log.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    log.take(from - start + most + LENGTH as u64).read_to_end(&mut bytes)?;
    mask(&mut bytes);
    let skipped = usize::try_from(from - start).unwrap_or(usize::MAX);
    let wanted = bytes.into_iter().skip(skipped);
    Ok((wanted.take(usize::try_from(most).unwrap_or(usize::MAX)).collect(), size))
}

/// How much of the end of a log is looked at for a message.
const MAX_MESSAGE: u64 = 256 << 10;

/// What an agent said last, without secrets; none where the program is not one whose words we know.
pub(crate) fn message(root: &Path, job: &Record) -> Option<String> {
    let (_, size) = part(root, job, 0, 0).ok()?;
    let (bytes, _) = part(root, job, size.saturating_sub(MAX_MESSAGE), MAX_MESSAGE).ok()?;
    let said = phasegate_clients::headless().message(&String::from_utf8_lossy(&bytes))?;
    Some(plain::text(&said).into_owned())
}

/// How much of the end of a log is looked at for its last line, and how much of that is shown.
const MAX_ENDING: u64 = 4 << 10;
const MAX_LINE: usize = 100;

/// The last line that a job has printed, without secrets; of an agent whose words we know, the last that it said.
pub(crate) fn last_line(root: &Path, job: &Record) -> Option<String> {
    let is_agent = !matches!(job.kind, JobKind::Check | JobKind::Command);
    let said = is_agent.then(|| message(root, job)).flatten();
    let printed = || {
        let (_, size) = part(root, job, 0, 0).ok()?;
        let (bytes, _) = part(root, job, size.saturating_sub(MAX_ENDING), MAX_ENDING).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    };
    last_line_of(&said.or_else(printed)?)
}

/// The last line of a text that is not blank, plain and not too long.
pub fn last_line_of(text: &str) -> Option<String> {
    let text = plain::text(text);
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
    Some(match line.char_indices().nth(MAX_LINE) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_string(),
    })
}

/// Shows what was added to the log of a job since the last time; how long the log is now.
pub(crate) fn follow(root: &Path, job: &Record, from: u64, show: &dyn Fn(&[u8])) -> u64 {
    match part(root, job, from, u64::MAX) {
        Ok((bytes, _)) if !bytes.is_empty() => {
            show(&bytes);
            from + bytes.len() as u64
        }
        _ => from,
    }
}
