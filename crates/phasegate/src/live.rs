//! A line that lives on a terminal while something is at work: drawn again and again, and gone in the end.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::print;

/// How often it is drawn.
const POLL: Duration = Duration::from_millis(500);

/// Whether somebody looks at it.
pub fn is_seen() -> bool {
    std::io::stderr().is_terminal()
}

/// Draws the line, in the place of the one before. It is cut to the width of the terminal: two lines would not be
/// drawn over.
pub fn draw(line: &str) {
    let width = terminal_size::terminal_size_of(std::io::stderr());
    let width = width.map_or(80, |(columns, _)| usize::from(columns.0)).saturating_sub(1);
    let line: String =
        print::one_line(line).chars().filter(|c| !c.is_control()).take(width).collect();
    let mut stderr = std::io::stderr().lock();
    let _ = write!(stderr, "\r\x1b[2K{line}").and_then(|()| stderr.flush());
}

/// Takes the line away.
pub fn clear() {
    let mut stderr = std::io::stderr().lock();
    let _ = write!(stderr, "\r\x1b[2K").and_then(|()| stderr.flush());
}

/// A line that is drawn until this is dropped; nothing where nobody looks.
pub struct Live {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Live {
    /// Draws what is told each time, if anything is.
    pub fn start(line: impl Fn() -> Option<String> + Send + 'static) -> Live {
        let ended = Arc::new(AtomicBool::new(false));
        if !is_seen() {
            return Live { ended, thread: None };
        }
        let stop = ended.clone();
        let thread = std::thread::spawn(move || {
            let mut is_drawn = false;
            while !stop.load(Ordering::Relaxed) {
                match line() {
                    Some(line) => draw(&line),
                    None if is_drawn => clear(),
                    None => {}
                }
                is_drawn = true;
                std::thread::park_timeout(POLL);
            }
            clear();
        });
        Live { ended, thread: Some(thread) }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}
