//! The signature of a person under an action, as a journal keeps it. Engine and rules only carry it: the runtime makes it
//! and checks it.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The signature of a person, with those parts of what was signed that the event and its run do not tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signed {
    /// By which name the list of signers knows the key.
    pub principal: String,
    /// The fingerprint of the key.
    pub key: String,
    /// The type of the key, as the signature itself has it.
    pub kind: String,
    pub at: Timestamp,
    /// The line of the journal that the person had seen last, and its hash.
    pub line: u64,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub head: String,
    /// What the tree was known by; none where it cannot be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<String>,
    /// What the definition was known by.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub definition: String,
    /// The digest of the list of signers.
    pub signers: String,
    /// The SSH signature, as `ssh-keygen` writes it.
    pub signature: String,
}

impl fmt::Display for Signed {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let kind = self.kind.strip_suffix("@openssh.com").unwrap_or(&self.kind);
        write!(out, "signed by {} ({kind} {})", self.principal, self.key)
    }
}
