//! Output: data on stdout, everything else on stderr, colour only where someone looks at it.

use std::io::{self, IsTerminal, Write};

/// Writes to stdout. A reader that has gone away is no error.
pub fn out(text: &str) {
    let _ = io::stdout().lock().write_all(text.as_bytes());
}

/// Writes a line to stdout.
pub fn line(text: &str) {
    out(&format!("{text}\n"));
}

/// Where a run stands and what to do next, on a line; what says it itself is not said twice.
pub fn headline((status, action): &(String, String)) -> String {
    if action.starts_with(status.as_str()) { action.clone() } else { format!("{status}: {action}") }
}

/// Writes bytes to stdout, as they are.
pub fn bytes(bytes: &[u8]) {
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(bytes).and_then(|()| stdout.flush());
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
    let head = paint(Paint::Dim, &line(head.to_vec()));
    std::iter::once(head).chain(rows).map(|line| line + "\n").collect()
}

/// Writes a line to stderr.
pub fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
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

/// Passes on what a worker prints, as it is.
pub fn pass_on(bytes: &[u8]) {
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_all(bytes).and_then(|()| stderr.flush());
}
