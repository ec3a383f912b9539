//! Clients without a person: how they are called, and what they have said and cost in the end.

use std::fmt;
use std::io;
use std::path::PathBuf;

use phasegate_engine::step::Actor;
use serde::Deserialize;

/// What an agent has cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// In millionths of a dollar.
    pub micro_dollars: u64,
    pub turns: u64,
}

impl Cost {
    /// The cost as clients print it.
    pub fn of(dollars: Option<f64>, turns: Option<u64>) -> Cost {
        Cost { micro_dollars: micro_dollars(dollars.unwrap_or(0.0)), turns: turns.unwrap_or(0) }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not below zero")]
fn micro_dollars(dollars: f64) -> u64 {
    // A cost above a million dollars is bogus; clamp it.
    (dollars.clamp(0.0, 1e6) * 1e6).round() as u64
}

/// What a reviewer has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judged {
    pub pass: bool,
    pub cost: Cost,
}

/// What an agent that we start may do.
#[derive(Clone, Debug, Default)]
pub struct Rights {
    /// Everything, without being asked. Otherwise what its role needs.
    pub all: bool,
    /// The project in which it works.
    pub root: PathBuf,
    /// The one file that a reviewer writes, below that.
    pub file: Option<String>,
    /// Commands that it may run: those of declared checks.
    pub commands: Vec<Vec<String>>,
}

/// What an agent may ask git. None of these changes the repository.
const GIT: &[&str] = &["diff", "log", "show", "status", "blame", "ls-files", "rev-parse"];

impl Rights {
    /// Commands that it may run with whatever stands behind them: git, where it only looks.
    pub fn prefixes(&self) -> impl Iterator<Item = String> {
        GIT.iter().map(|command| format!("git {command}"))
    }

    /// Commands that it may run as they stand. A word that a shell or a client would read in another way
    /// is not one that can be allowed.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        let plain = |word: &String| {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:@+".contains(c);
            !word.is_empty() && word.chars().all(is_plain)
        };
        let commands = self.commands.iter().filter(move |words| words.iter().all(plain));
        commands.map(|words| words.join(" "))
    }

    /// Flags that allow a client's tools one by one: its shell for these commands, and more.
    pub fn allow(&self, flag: &str, shell: impl Fn(&str) -> String, more: &[&str]) -> Vec<String> {
        let commands = self.prefixes().chain(self.lines()).map(|command| shell(&command));
        let tools = commands.chain(words(more));
        tools.flat_map(|tool| [flag.to_string(), tool]).collect()
    }
}

/// A client that works and reviews on its own. It is told what to do on stdin.
pub trait Headless: fmt::Debug + Sync {
    /// The program that people know it by.
    fn program(&self) -> &'static str;

    /// The command of an agent in a project: it prints what it does as it does it, and has our own MCP
    /// server and no other.
    ///
    /// # Errors
    /// Where the model has no plain name, or our own program cannot be found.
    fn agent(&self, role: Actor, model: Option<&str>, rights: &Rights) -> io::Result<Vec<String>>;

    /// What an agent has cost, by the end of what it printed.
    fn cost(&self, printed: &str) -> Cost;

    /// What an agent said last, by the end of what it printed; none where it has said nothing, or another
    /// program printed it.
    fn message(&self, printed: &str) -> Option<String>;

    /// The command of a reviewer, which prints a verdict.
    ///
    /// # Errors
    /// Where the model has no plain name.
    fn reviewer(&self, model: Option<&str>, rights: &Rights) -> Result<Vec<String>, String>;

    /// The verdict in what a reviewer printed, never one in prose. A program that a workflow runs
    /// instead may print the same, or an object with a `verdict` alone.
    ///
    /// # Errors
    /// Why there is none.
    fn verdict(&self, printed: &[u8]) -> Result<Judged, String>;
}

/// The result of a turn.
#[derive(Clone, Debug, Default)]
pub struct Spoken {
    pub text: String,
    /// The conversation, by which the next turn goes on with it.
    pub session: Option<String>,
    pub cost: Cost,
}

impl Spoken {
    /// What a program has said that prints only what it says.
    pub fn plain(printed: &str) -> Spoken {
        Spoken { text: printed.trim().to_string(), ..Spoken::default() }
    }
}

/// A client that works turn by turn, each turn a process. It is told what to do on stdin.
pub trait Dialogue: fmt::Debug + Sync {
    /// The command of the next turn, of a conversation if one has begun.
    fn command(&self, session: Option<&str>, rights: &Rights) -> Vec<String>;

    /// What the agent has said in a turn, by what its process printed.
    fn spoken(&self, printed: &str) -> Spoken;
}

/// Any other program and its arguments: what it prints is what it says.
#[derive(Clone, Debug)]
pub struct Program(pub Vec<String>);

impl Dialogue for Program {
    fn command(&self, _session: Option<&str>, _rights: &Rights) -> Vec<String> {
        self.0.clone()
    }

    fn spoken(&self, printed: &str) -> Spoken {
        Spoken::plain(printed)
    }
}

/// An agent that speaks the Agent Client Protocol. Our own program talks to it, a turn at a time.
#[derive(Clone, Debug)]
pub struct AcpAgent {
    /// Our own program.
    pub program: String,
    /// The agent's program and its arguments.
    pub agent: Vec<String>,
}

/// What our program prints of a turn.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AcpTurn {
    text: String,
    session: Option<String>,
    dollars: Option<f64>,
}

impl Dialogue for AcpAgent {
    fn command(&self, session: Option<&str>, rights: &Rights) -> Vec<String> {
        let mut command = words(&[&self.program, "acp-turn"]);
        if rights.all {
            command.push("--all-rights".into());
        } else {
            let lines = rights.lines().flat_map(|line| ["--may-run".to_string(), line]);
            command.extend(lines);
        }
        if let Some(session) = session {
            command.extend(words(&["--session", session]));
        }
        command.push("--".into());
        command.extend(self.agent.iter().cloned());
        command
    }

    fn spoken(&self, printed: &str) -> Spoken {
        let turn: AcpTurn = serde_json::from_str(printed).unwrap_or_default();
        Spoken { text: turn.text, session: turn.session, cost: Cost::of(turn.dollars, Some(1)) }
    }
}

/// Words as arguments.
pub fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}
