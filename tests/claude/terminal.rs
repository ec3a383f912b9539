//! The real client in its terminal: what a person types, and what the hooks answer until it is the
//! person's turn again.

use std::fs::File;
use std::io::{Read, Write};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::api::Api;
use crate::real::hooks::Fired;
use crate::real::running::Running;
use crate::real::terminal;
use crate::scene::Scene;

/// How long the client may be open, and how long it may take for one turn.
const OPEN: Duration = Duration::from_mins(8);
const TURN: Duration = Duration::from_mins(2);

/// How long nothing must move before something is typed, and between a text and its Enter: what comes
/// at once is taken for a paste.
const QUIET: Duration = Duration::from_millis(700);
const PAUSE: Duration = Duration::from_millis(400);

/// The client, open in a terminal.
pub struct Terminal<'a> {
    scene: &'a Scene,
    person: File,
    client: Running,
    screen: Arc<Mutex<(Vec<u8>, Instant)>>,
}

impl<'a> Terminal<'a> {
    /// Opens the client where its user has seen its welcome before, and waits until it listens. What its
    /// hooks are asked is recorded.
    pub fn open(scene: &'a Scene, api: &Api, args: &[&str]) -> Terminal<'a> {
        let before = json!({
            "hasCompletedOnboarding": true, "bypassPermissionsModeAccepted": true, "theme": "dark",
            "customApiKeyResponses": { "approved": ["dummy"], "rejected": [] },
            "projects": { scene.root().to_str().unwrap(): {
                "hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true,
            } },
        });
        let config = scene.home().join(".claude.json");
        if !config.exists() {
            std::fs::write(config, before.to_string()).unwrap();
        }
        let mut command = scene.client(api);
        command.env("TERM", "xterm-256color");
        command.args(["--dangerously-skip-permissions", "--model", "sonnet"]).args(args);
        let (person, line) = terminal::open();
        let began = scene.fired().len();
        let client = Running::at_terminal(command, OPEN, &line).unwrap();
        let screen = Arc::new(Mutex::new((Vec::new(), Instant::now())));
        let (mut shown, own) = (person.try_clone().unwrap(), Arc::clone(&screen));
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read) = shown.read(&mut bytes) {
                let mut screen = own.lock().unwrap();
                screen.0.extend_from_slice(&bytes[..read]);
                screen.1 = Instant::now();
            }
        });
        let open = Terminal { scene, person, client, screen };
        open.wait("it does not open", || scene.fired().len() > began);
        open.settle();
        open
    }

    /// Types a line, and waits until it is the person's turn again; the stops until then.
    #[track_caller]
    pub fn says(&mut self, text: &str) -> Vec<Fired> {
        let before = self.scene.fired_stops().len();
        self.types(text);
        let scene = self.scene;
        self.wait(text, || {
            let stops = scene.fired_stops();
            stops.len() > before && stops.last().is_some_and(|stop| stop.block().is_none())
        });
        self.settle();
        self.scene.fired_stops().split_off(before)
    }

    /// Clears the conversation: that is another session.
    #[track_caller]
    pub fn clears(&mut self) {
        let starts = || self.scene.fired().iter().filter(|it| it.is("SessionStart")).count();
        let before = starts();
        types(&self.person, "/clear");
        self.wait("/clear", || starts() > before);
        self.settle();
    }

    /// Leaves; the session that was open last.
    #[track_caller]
    pub fn leaves(mut self) -> String {
        self.types("/exit");
        // It may ask about a server that runs, or a worktree: what it proposes is taken.
        let began = Instant::now();
        while !self.client.is_over() {
            assert!(began.elapsed() < TURN, "it does not leave: {}", self.screen());
            std::thread::sleep(QUIET);
            let _ = self.person.write_all(b"\r");
        }
        self.scene.fired().last().map(|fired| fired.session().to_string()).unwrap_or_default()
    }

    fn types(&mut self, text: &str) {
        types(&self.person, text);
    }

    /// Waits until the screen stands still.
    fn settle(&self) {
        self.wait("the screen moves", || self.screen.lock().unwrap().1.elapsed() > QUIET);
    }

    /// What was shown last.
    fn screen(&self) -> String {
        let screen = self.screen.lock().unwrap();
        let from = screen.0.len().saturating_sub(4000);
        String::from_utf8_lossy(&screen.0[from..]).into_owned()
    }

    #[track_caller]
    fn wait(&self, what: &str, is_there: impl Fn() -> bool) {
        let began = Instant::now();
        while !is_there() {
            assert!(began.elapsed() < TURN, "{what}: {}", self.screen());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn types(mut person: &File, text: &str) {
    // The first character may choose another mode.
    let (first, rest) = text.split_at(1);
    for part in [first, rest, "\r"] {
        person.write_all(part.as_bytes()).unwrap();
        std::thread::sleep(PAUSE);
    }
}
