//! Terminals, as people have them.

use std::fs::File;
use std::io::{Read, Write};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// Between a text and its Enter: what comes at once is taken for a paste.
const PAUSE: Duration = Duration::from_millis(400);

/// The rows and columns of a terminal.
#[derive(Clone, Copy, Debug)]
pub struct Size(pub u16, pub u16);

/// A usual one.
pub const USUAL: Size = Size(50, 150);

/// A terminal: the end of a person, and the end of a program.
pub fn open() -> (File, File) {
    open_sized(USUAL)
}

/// The same, of some size.
pub fn open_sized(Size(ws_row, ws_col): Size) -> (File, File) {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
    let line = File::options().read(true).write(true).open(name).unwrap();
    let size = Winsize { ws_row, ws_col, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&line, size).unwrap();
    (terminal.into(), line)
}

/// The end of a person: what was shown there, and a keyboard.
pub struct Person {
    keyboard: File,
    shown: Arc<Mutex<(Vec<u8>, Instant)>>,
}

impl Person {
    /// Somebody who looks at a terminal from now on.
    pub fn at(terminal: File) -> Person {
        let shown = Arc::new(Mutex::new((Vec::new(), Instant::now())));
        let (mut screen, own) = (terminal.try_clone().unwrap(), Arc::clone(&shown));
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read) = screen.read(&mut bytes) {
                let mut shown = own.lock().unwrap();
                shown.0.extend_from_slice(&bytes[..read]);
                shown.1 = Instant::now();
            }
        });
        Person { keyboard: terminal, shown }
    }

    /// Types a line.
    pub fn types(&self, text: &str) {
        // The first character may choose another mode.
        let (first, rest) = text.split_at(text.len().min(1));
        for part in [first, rest, "\r"] {
            (&self.keyboard).write_all(part.as_bytes()).unwrap();
            std::thread::sleep(PAUSE);
        }
    }

    /// Presses Enter, whether or not somebody listens.
    pub fn enters(&self) {
        let _ = (&self.keyboard).write_all(b"\r");
    }

    /// Everything that was shown.
    pub fn shown(&self) -> Vec<u8> {
        self.shown.lock().unwrap().0.clone()
    }

    /// What was shown last, as text.
    pub fn shown_last(&self) -> String {
        let shown = self.shown();
        String::from_utf8_lossy(&shown[shown.len().saturating_sub(4000)..]).into_owned()
    }

    /// For how long nothing has moved.
    pub fn quiet(&self) -> Duration {
        self.shown.lock().unwrap().1.elapsed()
    }
}
