//! The environment variables of ours.

/// With `1`, hooks let every stop go. Processes that we start have it: an agent in one of them is not
/// the one that is gated.
pub const DISABLE: &str = "PHASEGATE_DISABLE";

/// The secret of an agent that a run has started.
pub const TOKEN: &str = "PHASEGATE_TOKEN";

/// The run of an agent that a run has started.
pub const RUN: &str = "PHASEGATE_RUN";

/// The id of an agent that a run has started.
pub const AGENT: &str = "PHASEGATE_AGENT";

/// The token that the MCP server wants over HTTP. Who has it leads the work, so that no process that
/// we start gets it.
pub const HTTP_TOKEN: &str = "PHASEGATE_HTTP_TOKEN";

/// For how many seconds a hook may run, where the client's settings say otherwise than usual.
pub const HOOK_SECONDS: &str = "PHASEGATE_HOOK_SECONDS";

/// The file that a reviewer writes.
pub const REVIEW: &str = "PHASEGATE_REVIEW";

/// The model that a reviewer is to use.
pub const MODEL: &str = "PHASEGATE_MODEL";

/// With `1`, every workflow may run commands: for places where nobody can be asked.
pub const TRUST_ALL: &str = "PHASEGATE_TRUST_ALL";

/// Where runs are kept: the URL of a PostgreSQL server, or `files`.
pub const STORE: &str = "PHASEGATE_STORE";

/// For how many milliseconds a worker takes a job, in a test.
pub const LEASE: &str = "PHASEGATE_LEASE";

/// Where a process of a test dies.
pub const FAULT_POINT: &str = "PHASEGATE_FAULT_POINT";

/// What a process of a test runs instead of dying.
pub const FAULT_COMMAND: &str = "PHASEGATE_FAULT_COMMAND";

/// Whether a variable is `1`.
pub fn is_on(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| value == "1")
}
