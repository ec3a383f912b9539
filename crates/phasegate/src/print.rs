//! Output: data on stdout, everything else on stderr, colour only where someone looks at it.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};

use phasegate_runtime::plain;

/// Writes to stdout. A reader that has gone away is not an error.
pub fn out(text: &str) {
    let _ = io::stdout().lock().write_all(shown(text, colour).as_bytes());
}

/// Writes a line of JSON to stdout whose texts are plain.
pub fn json_line(text: &str) {
    let _ = io::stdout().lock().write_all(format!("{text}\n").as_bytes());
}

/// Writes a line to stdout.
pub fn line(text: &str) {
    out(&format!("{text}\n"));
}

/// Writes exactly one line to stdout, whatever is in the text: a name or a reason with a new line in it must
/// not look like a line of ours.
pub fn row(text: &str) {
    line(&one_line(text));
}

/// The text on one line.
pub fn one_line(text: &str) -> String {
    let mut lines = text.split('\n');
    let first = lines.next().unwrap_or_default().to_string();
    let more = lines.map(str::trim).filter(|line| !line.is_empty());
    more.fold(first, |all, line| all + " " + line)
}

/// The text as it may reach a terminal: characters that one would obey are shown as JSON writes them, so that
/// JSON stays JSON. Our own colours pass where there are colours.
fn shown(text: &str, has_colour: fn() -> bool) -> Cow<'_, str> {
    if !text.contains(plain::is_control) {
        return Cow::Borrowed(text);
    }
    let has_colour = has_colour();
    let mut shown = String::with_capacity(text.len() + 16);
    for (at, c) in text.char_indices() {
        let rest = &text[at..];
        if !plain::is_control(c)
            || has_colour && Paint::ALL.iter().any(|code| rest.starts_with(code))
        {
            shown.push(c);
        } else {
            let _ = write!(shown, "\\u{:04x}", u32::from(c));
        }
    }
    Cow::Owned(shown)
}

/// Where a run stands and what to do next, on a line; what says it itself is not said twice.
pub fn headline((status, action): &(String, String)) -> String {
    if action.starts_with(status.as_str()) { action.clone() } else { format!("{status}: {action}") }
}

/// Writes bytes to stdout: as they are, unless that is a terminal.
pub fn bytes(bytes: &[u8]) {
    let mut stdout = io::stdout().lock();
    let bytes = for_stream(bytes, stdout.is_terminal());
    let _ = stdout.write_all(&bytes).and_then(|()| stdout.flush());
}

/// What another program has printed, as it is or as a terminal may have it.
fn for_stream(bytes: &[u8], is_terminal: bool) -> Cow<'_, [u8]> {
    if !is_terminal {
        return Cow::Borrowed(bytes);
    }
    let text = String::from_utf8_lossy(bytes);
    Cow::Owned(plain::text(&text).into_owned().into_bytes())
}

/// Rows below a head, in columns.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        let own = head[column].chars().count();
        cells.map(|cell| cell.chars().count()).chain([own]).max().unwrap_or(own)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: Vec<&str>| {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_string()
    };
    let rows = rows.iter().map(|row| line(row.iter().map(String::as_str).collect()));
    let rows = rows.map(|row| one_line(&row));
    let head = paint(Paint::Dim, &line(head.to_vec()));
    std::iter::once(head).chain(rows).map(|line| line + "\n").collect()
}

/// Asks something on stderr, and leaves the rest of the line for the answer.
pub fn ask(question: &str) {
    let mut stderr = io::stderr().lock();
    let _ = write!(stderr, "{}", shown(question, colour_stderr)).and_then(|()| stderr.flush());
}

/// Writes a line to stderr.
pub fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", shown(text, colour_stderr));
}

/// Writes a value as JSON to stdout.
pub fn json(value: &impl serde::Serialize) {
    match serde_json::to_string_pretty(value) {
        Ok(text) => line(&text),
        Err(error) => note(&format!("error: {error}")),
    }
}

/// Whether stdout may be coloured.
pub fn colour() -> bool {
    io::stdout().is_terminal() && allowed()
}

/// Whether stderr may be coloured.
pub fn colour_stderr() -> bool {
    io::stderr().is_terminal() && allowed()
}

fn allowed() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Colours that are used.
#[derive(Clone, Copy, Debug)]
pub enum Paint {
    Red,
    Green,
    Yellow,
    Bold,
    Dim,
}

impl Paint {
    /// How painted text begins and ends.
    const ALL: [&str; 6] = ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m"];
}

/// The text, painted if stdout may be coloured.
pub fn paint(paint: Paint, text: &str) -> String {
    if !colour() {
        return text.to_string();
    }
    let code = match paint {
        Paint::Red => 31,
        Paint::Green => 32,
        Paint::Yellow => 33,
        Paint::Bold => 1,
        Paint::Dim => 2,
    };
    format!("\x1b[{code}m{text}\x1b[0m")
}

/// Passes on what a worker prints.
pub fn pass_on(bytes: &[u8]) {
    let mut stderr = io::stderr().lock();
    let bytes = for_stream(bytes, stderr.is_terminal());
    let _ = stderr.write_all(&bytes).and_then(|()| stderr.flush());
}
