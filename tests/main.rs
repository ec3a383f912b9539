//! End-to-end tests, by behaviour, against the real binary.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod scene;

mod architecture;
mod bad_input;
mod builtins;
mod checks;
mod clients;
mod commands;
mod concurrency;
mod crashes;
mod definitions;
mod doctor;
mod drive;
mod foreign_json;
mod governor;
mod history;
mod hook_contract;
mod init;
mod jobs;
mod kill_points;
mod loops;
mod machines;
mod notifications;
mod outputs;
mod outside;
mod own_gate;
mod people;
mod phases;
mod places;
mod plans;
mod projects;
mod properties;
mod random_events;
mod reentry;
mod reviewers;
mod sessions;
mod standing;
mod tampering;
mod tasks;
mod terminal;
mod trees;
mod triage_run;
mod waits;
mod watchdog;
mod words;
