//! Every workflow with the real Claude Code, offline: its model is a script behind a Messages API
//! on loopback. What is judged is what Phasegate has written down, stop by stop.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../real/mod.rs"]
#[allow(dead_code, reason = "shared with the tests of the other clients")]
mod real;
use real::api;

mod client;
mod scene;

mod caps;
mod drives;
mod loops;
mod phases;
mod plans;
mod plugin;
mod sessions;
mod tasks;
mod triage;
