//! Output: data on stdout, everything else on stderr, colour only where someone looks at it.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

use phasegate_engine::answer::{Answer, Outcome};
use phasegate_runtime::plain;
use schemars::JsonSchema;
use serde::Serialize;

/// Whether what people are told goes to stderr.
static ASIDE: AtomicBool = AtomicBool::new(false);

/// From now on what people are told goes to stderr, where a program reads stdout: that gets one object.
pub fn aside_for(is_program: bool) {
    ASIDE.store(is_program, Ordering::Relaxed);
}

/// Writes to stdout. A reader that has gone away is not an error.
pub fn out(text: &str) {
    if ASIDE.load(Ordering::Relaxed) {
        let _ = io::stderr().lock().write_all(shown(text, colour_stderr).as_bytes());
    } else {
        let _ = io::stdout().lock().write_all(shown(text, colour).as_bytes());
    }
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

/// Writes a text for people: on a terminal its lines are broken at blanks where they do not fit, and what follows is
/// indented by so many columns. A pipe gets each line whole.
pub fn wrapped(text: &str, indent: usize) {
    out(&fitted(text, indent));
}

/// A text as [`wrapped`] writes it, with the end of its last line.
pub fn fitted(text: &str, indent: usize) -> String {
    match width() {
        Some(width) => broken(text, indent, width) + "\n",
        None => format!("{text}\n"),
    }
}

/// Clears the screen, and begins at its top again.
pub fn clear() {
    let _ = io::stdout().lock().write_all(b"\x1b[H\x1b[2J");
}

/// The same for what must stay one line in a pipe.
pub fn wrapped_row(text: &str, indent: usize) {
    wrapped(&one_line(text), indent);
}

/// How many columns the terminal has on which stdout is shown; none where it is not one.
pub fn width() -> Option<usize> {
    if !io::stdout().is_terminal() {
        return None;
    }
    let (columns, _) = terminal_size::terminal_size()?;
    Some(usize::from(columns.0)).filter(|columns| *columns >= MIN_WIDTH)
}

/// Whether a drawing, whose lines cannot be broken, fits on the terminal; a pipe takes any.
pub fn fits(drawing: &str) -> bool {
    let widest = drawing.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    let size = terminal_size::terminal_size().filter(|_| io::stdout().is_terminal());
    size.is_none_or(|(columns, _)| widest <= usize::from(columns.0))
}

/// How many lines the terminal has; none where stdout is not one.
pub fn height() -> Option<usize> {
    let (_, rows) = terminal_size::terminal_size().filter(|_| io::stdout().is_terminal())?;
    Some(usize::from(rows.0)).filter(|rows| *rows > 0)
}

/// A terminal that is narrower than this is left to break lines itself.
const MIN_WIDTH: usize = 40;

/// A text with its lines broken at blanks, so that none is wider than `width` where that can be. Colours take no
/// room.
fn broken(text: &str, indent: usize, width: usize) -> String {
    let mut shown = String::new();
    for (at, line) in text.split('\n').enumerate() {
        if at > 0 {
            shown.push('\n');
        }
        let lead = line.len() - line.trim_start_matches(' ').len();
        let hang = " ".repeat(indent.max(lead).min(width / 2));
        let mut column = 0;
        for word in line.split_inclusive(' ') {
            let visible = visible(word.trim_end_matches(' '));
            if column + visible > width && column > hang.len() {
                shown.truncate(shown.trim_end_matches(' ').len());
                shown.push('\n');
                shown.push_str(&hang);
                column = hang.len();
                if visible == 0 {
                    continue;
                }
            }
            shown.push_str(word);
            column += visible + (word.len() - word.trim_end_matches(' ').len());
        }
    }
    shown
}

/// How many columns a word takes, without its colours.
fn visible(word: &str) -> usize {
    let mut rest = word.to_string();
    if rest.contains('\x1b') {
        for code in Paint::ALL {
            rest = rest.replace(code, "");
        }
    }
    rest.chars().count()
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

/// The version of what `--json` prints. It grows when a member goes or means something else; new members come
/// without it.
pub const VERSION: u32 = 1;

/// What is told to programs, with the version of its form.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Versioned<T> {
    /// The version of this form.
    pub version: u32,
    #[serde(flatten)]
    pub body: T,
}

/// Writes a value as JSON to stdout: an object with a version. A list becomes the member `items`.
pub fn json(value: &impl Serialize) {
    let object = serde_json::to_string_pretty(&Versioned { version: VERSION, body: value });
    let text = object.or_else(|_| {
        serde_json::to_string_pretty(&serde_json::json!({ "version": VERSION, "items": value }))
    });
    match text {
        // JSON escapes what a terminal would obey, but for this one, in what is ASCII.
        Ok(text) if text.is_ascii() && !text.as_bytes().contains(&0x7f) => json_line(&text),
        Ok(text) => json_line(&shown(&text, colour)),
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
    Blue,
    Magenta,
    Cyan,
    Bold,
    Dim,
}

impl Paint {
    /// How painted text begins and ends.
    const ALL: [&str; 9] = [
        "\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[34m",
        "\x1b[35m", "\x1b[36m",
    ];

    /// The colour of a phase, wherever one is named.
    pub const PHASE: Paint = Paint::Cyan;

    /// The colour of an answer: a block is yellow, a refusal magenta, done green, a wait blue, trouble red.
    pub fn of(answer: &Answer) -> Paint {
        match answer {
            Answer::Block { .. } => Paint::Yellow,
            Answer::Deny { .. } => Paint::Magenta,
            Answer::Allow { outcome, .. } => match outcome {
                Some(Outcome::Done) => Paint::Green,
                Some(Outcome::Waiting) => Paint::Blue,
                Some(Outcome::Stuck | Outcome::Capped | Outcome::Budget | Outcome::Fault) => {
                    Paint::Red
                }
                Some(Outcome::Aborted | Outcome::Inactive) | None => Paint::Bold,
            },
        }
    }
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
        Paint::Blue => 34,
        Paint::Magenta => 35,
        Paint::Cyan => 36,
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

#[cfg(test)]
mod tests {
    use super::{broken, visible};

    #[test]
    fn lines_are_broken_at_blanks_and_what_follows_is_indented() {
        assert_eq!(broken("one two three four", 2, 9), "one two\n  three\n  four");
        assert_eq!(broken("  a list of words", 0, 10), "  a list\n  of words");
        assert_eq!(broken("averylongword here", 2, 6), "averylongword\n  here");
        assert_eq!(broken("short\nlines", 2, 40), "short\nlines");
    }

    #[test]
    fn colours_take_no_room() {
        assert_eq!(visible("\x1b[33mBLOCK\x1b[0m"), 5);
    }
}
