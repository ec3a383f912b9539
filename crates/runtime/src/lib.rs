//! The world around the engine: where projects, workflows and runs are found, how they are stored,
//! what evidence the disk holds, and the one way that every event takes.

pub mod agents;
pub mod caller;
pub mod catalog;
pub mod checks;
pub mod condition;
pub mod config;
pub mod fault_log;
pub mod fault_point;
pub mod file_store;
pub mod frontmatter;
pub mod gate;
pub mod git;
pub mod governor;
pub mod headless;
pub mod journal;
pub mod ledger;
pub mod notify;
mod paths;
pub mod place;
mod proc;
pub mod process;
pub mod project;
pub mod reviewer;
pub mod run;
pub mod store;
pub mod topics;
pub mod transcript;
pub mod trust;
pub mod worker;
pub mod world;
