//! The real client in its terminal: what a person types, and what the hooks answer until it is the
//! person's turn again.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::api::Api;
use crate::real::hooks::Fired;
use crate::real::running::Running;
use crate::real::terminal::{self, Person, Size};
use crate::scene::Scene;

/// How long the client may be open, and how long it may take for one turn.
const OPEN: Duration = Duration::from_mins(8);
const TURN: Duration = Duration::from_mins(2);

/// How long nothing must move before something is typed.
const QUIET: Duration = Duration::from_millis(700);

/// The client, open in a terminal.
pub struct Terminal<'a> {
    scene: &'a Scene,
    person: Person,
    client: Running,
}

impl<'a> Terminal<'a> {
    /// Opens the client where its user has seen its welcome before, and waits until it listens. What its
    /// hooks are asked is recorded.
    pub fn open(scene: &'a Scene, api: &Api, args: &[&str]) -> Terminal<'a> {
        Terminal::open_sized(scene, api, args, terminal::USUAL)
    }

    /// The same, with these variables, which the hooks have too.
    pub fn open_with(
        scene: &'a Scene,
        api: &Api,
        args: &[&str],
        env: &[(&str, &str)],
    ) -> Terminal<'a> {
        Terminal::start(scene, api, args, env, terminal::USUAL)
    }

    /// The same, in a terminal of some size.
    pub fn open_sized(scene: &'a Scene, api: &Api, args: &[&str], size: Size) -> Terminal<'a> {
        Terminal::start(scene, api, args, &[], size)
    }

    fn start(
        scene: &'a Scene,
        api: &Api,
        args: &[&str],
        env: &[(&str, &str)],
        size: Size,
    ) -> Terminal<'a> {
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
        command.env("TERM", "xterm-256color").envs(env.iter().copied());
        command.args(["--dangerously-skip-permissions", "--model", "sonnet"]).args(args);
        let (person, line) = terminal::open_sized(size);
        let began = scene.fired().len();
        let client = Running::at_terminal(command, OPEN, &line).unwrap();
        let open = Terminal { scene, person: Person::at(person), client };
        open.wait("it does not open", || scene.fired().len() > began);
        open.settle();
        open
    }

    /// Waits until the terminal shows something; everything that it was sent. On a busy machine the screen may stand
    /// still before the client has drawn all that it knows.
    #[track_caller]
    pub fn shows(&self, what: &str, is_there: impl Fn(&[u8]) -> bool) -> Vec<u8> {
        self.wait(what, || is_there(&self.person.shown()));
        self.settle();
        self.person.shown()
    }

    /// Types a line, and waits until it is the person's turn again; the stops until then.
    #[track_caller]
    pub fn says(&mut self, text: &str) -> Vec<Fired> {
        let before = self.scene.fired_stops().len();
        self.person.types(text);
        let scene = self.scene;
        self.wait(text, || {
            let stops = scene.fired_stops();
            stops.len() > before && stops.last().is_some_and(|stop| stop.block().is_none())
        });
        self.settle();
        self.scene.fired_stops().split_off(before)
    }

    /// Waits until its stops are as they should be, though nobody types anything; the stops behind the first ones.
    #[track_caller]
    pub fn goes_on(&mut self, after: usize, is_there: impl Fn(&[Fired]) -> bool) -> Vec<Fired> {
        let scene = self.scene;
        self.wait("it does not go on", || {
            let stops = scene.fired_stops();
            stops.len() > after && is_there(&stops)
        });
        self.settle();
        self.scene.fired_stops().split_off(after)
    }

    /// Clears the conversation: that is another session.
    #[track_caller]
    pub fn clears(&mut self) {
        let starts = || self.scene.fired().iter().filter(|it| it.is("SessionStart")).count();
        let before = starts();
        self.person.types("/clear");
        self.wait("/clear", || starts() > before);
        self.settle();
    }

    /// Leaves; the session that was open last.
    #[track_caller]
    pub fn leaves(mut self) -> String {
        self.person.types("/exit");
        // It may ask about a server that runs, or a worktree: what it proposes is taken.
        let began = Instant::now();
        while !self.client.is_over() {
            assert!(began.elapsed() < TURN, "it does not leave: {}", self.person.shown_last());
            std::thread::sleep(QUIET);
            self.person.enters();
        }
        self.scene.fired().last().map(|fired| fired.session().to_string()).unwrap_or_default()
    }

    /// Waits until the screen stands still.
    fn settle(&self) {
        self.wait("the screen moves", || self.person.quiet() > QUIET);
    }

    #[track_caller]
    fn wait(&self, what: &str, is_there: impl Fn() -> bool) {
        let began = Instant::now();
        while !is_there() {
            assert!(began.elapsed() < TURN, "{what}: {}", self.person.shown_last());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}
