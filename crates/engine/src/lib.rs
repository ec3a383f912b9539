//! The pure half of Phasegate: definitions of workflows, and the decision they lead to.
//!
//! Nothing here touches a disk, a clock, a process or the environment. A decision asks for what it
//! needs through [`evidence::Evidence`], and says everything it wants done in its [`step::Step`].

mod actor;
mod advice;
mod algebra;
pub mod answer;
pub mod bom;
pub mod case;
pub mod changes;
pub mod check;
pub mod decide;
pub mod deeds;
pub mod definition;
pub mod diagnostic;
pub mod digest;
pub mod draw;
pub mod events;
pub mod evidence;
pub mod functions;
pub mod glob;
pub mod graph;
pub mod identity;
pub mod job;
pub mod json;
pub mod lint;
mod markdown;
pub mod model;
pub mod mutate;
mod names;
pub mod patch;
pub mod resolve;
pub mod scene;
pub mod schema;
pub mod signed;
pub mod step;
mod syntax;
pub mod test_count;
pub mod types;
pub mod unreached;
pub mod verify;
pub mod workflow;
