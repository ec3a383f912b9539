//! The line by line mode, in a real terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use super::Tasks;

struct Terminal {
    line: File,
    child: Child,
    seen: String,
}

impl Terminal {
    fn open(tasks: &Tasks, args: &[&str]) -> Terminal {
        use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let open = || std::fs::OpenOptions::new().read(true).write(true).open(&name).unwrap();
        let mut command = std::process::Command::new("setsid");
        // A session of its own, with this terminal: only then Ctrl-C is a signal.
        command.args(["--ctty", "--wait", env!("CARGO_BIN_EXE_phasegate"), "repl"]).args(args);
        command.current_dir(tasks.scene.root()).env_clear();
        command.env("HOME", tasks.scene.path("home")).env("TERM", "xterm");
        command.env("PATH", std::env::var_os("PATH").unwrap()).env("PHASEGATE_TRUST_ALL", "1");
        command.stdin(Stdio::from(open())).stdout(Stdio::from(open())).stderr(Stdio::from(open()));
        let child = command.spawn().unwrap();
        let flags = rustix::fs::fcntl_getfl(&master).unwrap();
        rustix::fs::fcntl_setfl(&master, flags | rustix::fs::OFlags::NONBLOCK).unwrap();
        Terminal { line: File::from(master), child, seen: String::new() }
    }

    /// Waits until the terminal shows a text, behind what was waited for before.
    #[track_caller]
    fn shows(&mut self, text: &str) {
        let since = Instant::now();
        loop {
            if let Some(at) = self.seen.find(text) {
                self.seen.drain(..at + text.len());
                return;
            }
            assert!(
                since.elapsed() < Duration::from_secs(20),
                "{text:?} is not in {:?}",
                self.seen
            );
            let mut bytes = [0; 4096];
            match self.line.read(&mut bytes) {
                Ok(count) => self.seen.push_str(&String::from_utf8_lossy(&bytes[..count])),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    fn types(&mut self, text: &str) {
        self.line.write_all(text.as_bytes()).unwrap();
    }

    fn ends(&mut self) -> Option<i32> {
        let since = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(since.elapsed() < Duration::from_secs(20), "it does not end");
            let _ = self.line.read(&mut [0; 4096]);
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn a_task_is_worked_on_line_by_line() {
    let tasks = Tasks::with(
        "[workflow.task.const]\nTESTS = [\"true\"]\nPLANNER = [\"sh\", \"planner.sh\"]\n",
    );
    tasks.scene.file("planner.sh", "echo at work; sleep 4715.1\n");
    let mut terminal = Terminal::open(&tasks, &[]);
    terminal.shows("greet planning> ");
    terminal.types("/help\r");
    terminal.shows("/review plan");
    terminal.shows("Say how the plan is reviewed");
    terminal.types("/next\r");
    terminal.shows("planning.ai.json is missing");
    terminal.shows("greet planning> ");
    // Tab completes.
    terminal.types("/sta\t\r");
    terminal.shows("plan_review: not yet");
    terminal.shows("greet planning> ");
    // Ctrl-C gives a line up, and not the session.
    terminal.types("/redo --nonsense\x03");
    terminal.shows("(Ctrl-D ends.)");
    terminal.shows("greet planning> ");
    // A worker works in the background.
    terminal.types("/plan\r");
    terminal.shows("planning has begun in the background");
    terminal.shows("greet planning> ");
    terminal.types("/next\r");
    terminal.shows("planning is at work");
    terminal.shows("greet planning> ");
    assert_eq!(tasks.scene.by_hand(&["jobs", "end", "planning-1"]).code, Some(0));
    let since = Instant::now();
    while crate::plans::is_alive("4715.1") {
        assert!(since.elapsed() < Duration::from_secs(10), "the worker is left behind");
        std::thread::sleep(Duration::from_millis(50));
    }
    tasks.up_to("accept");
    terminal.types("\r");
    terminal.shows("greet accept> ");
    terminal.types("/status\r");
    terminal.shows("- greet.sh +1 -1");
    terminal.shows("What is odd:");
    terminal.shows("greet accept> ");
    // Here somebody is at a terminal.
    terminal.types("/accept --reason \"it is fine\"\r");
    terminal.shows("greet done> ");
    terminal.types("/new --title Another\r");
    terminal.shows("another planning> ");
    terminal.types("/use greet\r");
    terminal.shows("greet done> ");
    terminal.types("/nonsense\r");
    terminal.shows("unrecognized subcommand");
    terminal.shows("greet done> ");
    terminal.types("\x04");
    assert_eq!(terminal.ends(), Some(0));
    let history = tasks.scene.read("home/.local/state/phasegate/history");
    assert!(history.contains("/use greet"), "{history}");
}
