//! Who causes events.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who caused an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "actor")]
pub enum Actor {
    Human,
    Worker,
    Reviewer,
    Orchestrator,
    Engine,
}

impl fmt::Display for Actor {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str(match self {
            Actor::Human => "human",
            Actor::Worker => "worker",
            Actor::Reviewer => "reviewer",
            Actor::Orchestrator => "orchestrator",
            Actor::Engine => "engine",
        })
    }
}
