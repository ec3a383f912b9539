//! How a command ends.

use std::process::ExitCode;

/// What a command failed with: a sentence for the user.
pub struct Failed(pub String);

impl<E: std::fmt::Display> From<E> for Failed {
    fn from(error: E) -> Failed {
        Failed(error.to_string())
    }
}

pub type Outcome = Result<ExitCode, Failed>;
