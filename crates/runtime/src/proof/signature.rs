//! SSH signatures over a statement, made and checked by `ssh-keygen`.

use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use super::NAMESPACE;

/// Who has signed a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signer {
    /// The fingerprint of the key.
    pub key: String,
    /// By which name the list of signers knows the key; none where there is no list.
    pub principal: Option<String>,
}

/// Signs a statement with a key.
///
/// # Errors
/// What `ssh-keygen` says.
pub fn sign(statement: &str, key: &Path) -> io::Result<String> {
    let mut command = Command::new("ssh-keygen");
    command.args(["-q", "-Y", "sign", "-n", NAMESPACE, "-f"]).arg(key);
    let output = said(command, statement)?;
    String::from_utf8(output.stdout).map_err(io::Error::other)
}

/// Checks a signature: that it fits, and whose it is where a list of signers is given, as `ssh-keygen` knows
/// them.
///
/// # Errors
/// Where it does not fit, or its key is not in the list.
pub fn verify(statement: &str, signature: &str, signers: Option<&Path>) -> io::Result<Signer> {
    let mut file = tempfile::NamedTempFile::new()?;
    file.write_all(signature.as_bytes())?;
    let ask = |words: &[&str], signers: Option<&Path>| {
        let mut command = Command::new("ssh-keygen");
        command.arg("-Y").args(words).arg("-s").arg(file.path());
        if let Some(signers) = signers {
            command.arg("-f").arg(signers);
        }
        command
    };
    let fits = said(ask(&["check-novalidate", "-n", NAMESPACE], None), statement)?;
    let told = String::from_utf8_lossy(&fits.stdout);
    let key = told.split_whitespace().last().unwrap_or_default().to_string();
    let Some(signers) = signers else { return Ok(Signer { key, principal: None }) };
    let found = said(ask(&["find-principals"], Some(signers)), "").map_err(|_| {
        io::Error::other(format!("key {key} is not in the list of signers {}", signers.display()))
    })?;
    let names = String::from_utf8_lossy(&found.stdout);
    let name = names.lines().next().unwrap_or_default().to_string();
    said(ask(&["verify", "-n", NAMESPACE, "-I", &name], Some(signers)), statement)?;
    Ok(Signer { key, principal: Some(name) })
}

/// What a command says to a text; why it failed, where it did.
fn said(mut command: Command, text: &str) -> io::Result<Output> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env("LC_ALL", "C");
    let mut child = command.spawn().map_err(|error| {
        io::Error::new(error.kind(), format!("ssh-keygen cannot be started: {error}"))
    })?;
    if let Some(mut input) = child.stdin.take() {
        // A program that does not read its input closes the pipe early.
        let _ = input.write_all(text.as_bytes());
    }
    let output = child.wait_with_output()?;
    if output.status.success() {
        return Ok(output);
    }
    let why = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
    Err(io::Error::other(format!("ssh-keygen: {why}")))
}
