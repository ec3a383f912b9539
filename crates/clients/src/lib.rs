//! The clients of coding agents. Each has one file, which holds everything that is known of it: what
//! it sends to a hook and what it understands, its settings, its command lines, what it prints, its
//! transcript, and what sets it apart. Nothing outside this crate knows a client by its name.
//!
//! To add a client: its file, its two lines here, and a payload of it in `tests/clients.rs`. Its row in
//! `docs/clients.md` is drawn from them.

mod client;
mod facts;
mod headless;
pub mod outside;
mod payload;
mod problem;
mod reply;
pub mod settings;
pub mod splice;
pub mod surroundings;
pub mod table;
mod toml_table;
mod transcript;
pub mod variables;

mod antigravity;
mod claude;
mod codex;
mod copilot;
mod cursor;
mod droid;
mod gemini;
mod opencode;
mod qwen;
mod vscode;

pub use client::Client;
pub use facts::{Cap, Facts, Quirk};
pub use headless::{AcpAgent, Cost, Dialogue, Headless, Judged, Program, Rights, Spoken};
pub use payload::{Payload, Sample, StatusLine, Task, Work, WorkKind};
pub use problem::{Here, Problem};
pub use reply::Reply;

/// All clients. The first is the usual one.
pub static CLIENTS: &[&dyn Client] = &[
    &claude::Claude,
    &codex::Codex,
    &gemini::Gemini,
    &qwen::Qwen,
    &copilot::Copilot,
    &vscode::Vscode,
    &cursor::Cursor,
    &droid::Droid,
    &opencode::Opencode,
    &antigravity::Antigravity,
];

/// So many characters of a reason reach the model of every client: some promise to pass on 10,000.
pub const MAX_REASON: usize = 9_000;

/// The client of that name.
pub fn named(name: &str) -> Option<&'static dyn Client> {
    CLIENTS.iter().copied().find(|client| client.name() == name)
}

/// The client that is meant where none is named.
pub fn usual() -> &'static dyn Client {
    CLIENTS[0]
}

/// The client that works and reviews without a person, where a workflow names no program of its own.
pub fn headless() -> &'static dyn Headless {
    &claude::Claude
}

impl Default for &'static dyn Client {
    fn default() -> Self {
        usual()
    }
}
