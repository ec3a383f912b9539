//! With which key a person signs.

use std::path::{Path, PathBuf};

use clap::Arg;
use phasegate_runtime::approval::at_home;
use phasegate_runtime::git;
use phasegate_runtime::project::Project;

use super::Failed;

/// The option of actions.
pub const SIGN: &str = "sign";

/// What the option is for; `accept` has it, too.
pub const HELP: &str = "Sign it with your SSH key, for the journal; by default that of `approvals.key`, then of git's \
                        user.signingKey, then ~/.ssh";

/// The keys of a user, those on a security key first.
const USUAL: [&str; 5] = ["id_ed25519_sk", "id_ecdsa_sk", "id_ed25519", "id_ecdsa", "id_rsa"];

/// `--sign` or `--sign=KEY`: without the sign between them, a run would be taken for a key.
pub fn option() -> Arg {
    let key = clap::value_parser!(PathBuf);
    Arg::new(SIGN)
        .long(SIGN)
        .value_name("KEY")
        .value_parser(key)
        .num_args(0..=1)
        .help(HELP)
        .require_equals(true)
}

/// The key to sign with: the one that is named, or the user's own.
pub fn key(project: &Project, named: Option<&Path>) -> Result<PathBuf, Failed> {
    if let Some(key) = named {
        return Ok(at_home(&key.to_string_lossy()));
    }
    let configured = project.config.approvals.key.clone();
    let configured = configured.or_else(|| git::signing_key(&project.root));
    let usual = USUAL.map(|name| format!("~/.ssh/{name}"));
    // Where an agent of SSH holds the key, only the public half is a file.
    let halves =
        |key: String| [format!("{key}.pub"), key].map(|key| at_home(&key)).into_iter().rev();
    let found = configured.into_iter().chain(usual).flat_map(halves).find(|key| key.is_file());
    found.ok_or_else(|| {
        Failed::new("there is no SSH key to sign with; `ssh-keygen -t ed25519-sk` makes one".into())
    })
}
