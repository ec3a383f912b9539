//! The world around the engine: where projects, workflows and runs are found, how they are stored,
//! what evidence the disk holds, and the one way that every event takes.

pub mod baseline;
pub mod bindings;
pub mod caller;
pub mod catalog;
mod checks;
pub mod condition;
pub mod config;
pub mod exclusive;
pub mod fault_log;
mod fault_point;
pub mod filesystem;
pub mod flakes;
pub mod gate;
pub mod git;
mod governor;
pub mod jobs;
pub mod journal;
pub mod ledger;
mod notify;
pub mod origin;
mod paths;
pub mod paused;
pub mod plain;
mod proc;
pub mod project;
pub mod proof;
pub mod question;
pub mod remains;
pub mod run;
mod site;
pub mod store;
mod tree;
pub mod trust;
mod whole_file;
pub mod witness;
pub mod words;
mod workspace;
pub mod world;

pub use phasegate_clients::{outside, variables};
