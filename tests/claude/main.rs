//! Every workflow with the real Claude Code, offline: its model is a script behind a Messages API
//! on loopback. What is judged is what Phasegate has written down, stop by stop.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../real/mod.rs"]
#[allow(dead_code, reason = "shared with the tests of the other clients")]
mod real;
use real::api;

mod client;
mod model;
mod scene;
mod terminal;

mod caps;
mod day;
mod drives;
mod first_use;
mod loops;
mod old;
mod people;
mod phases;
mod picture;
mod places;
mod plans;
mod plugin;
mod questions;
mod rights;
mod sessions;
mod settings;
mod standing;
mod tasks;
mod tools;
mod triage;
mod waits;
mod wakes;
