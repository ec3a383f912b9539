//! SSH signatures, made and checked by `ssh-keygen`.

mod blob;

use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use jiff::Timestamp;
use jiff::tz::TimeZone;

pub use blob::Blob;

/// The program, and where a system has its programs: nobody who calls us chooses those by a `PATH` of their own.
const PROGRAM: &str = "ssh-keygen";
const SYSTEM: [&str; 4] = ["/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin"];

/// Who has signed a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signer {
    /// The fingerprint of the key.
    pub key: String,
    /// By which name the list of signers knows the key; none where there is no list.
    pub principal: Option<String>,
}

/// A list of signers, as `ssh-keygen` knows them, and the time at which its keys must be valid; by default now.
#[derive(Clone, Copy, Debug)]
pub struct Signers<'s> {
    pub list: &'s Path,
    pub at: Option<Timestamp>,
}

/// Signs a statement with a key. What `ssh-keygen` says meanwhile, such as that a key wants to be touched, it says to
/// the person.
///
/// # Errors
/// Where it did not sign.
pub fn sign(namespace: &str, statement: &str, key: &Path) -> io::Result<String> {
    let mut command = Command::new(PROGRAM);
    command.args(["-q", "-Y", "sign", "-n", namespace, "-f"]).arg(key);
    command.stderr(Stdio::inherit());
    let output = said(command, statement)?;
    String::from_utf8(output.stdout).map_err(io::Error::other)
}

/// Checks a signature: that it fits, and whose it is where a list of signers is given.
///
/// # Errors
/// Where it does not fit, or its key is not in the list. Where there is no `ssh-keygen`, the kind is `NotFound`.
pub fn verify(
    namespace: &str,
    statement: &str,
    signature: &str,
    signers: Option<Signers>,
) -> io::Result<Signer> {
    let mut file = tempfile::NamedTempFile::new()?;
    file.write_all(signature.as_bytes())?;
    let system = system_program();
    let ask = |words: &[&str], signers: Option<Signers>| {
        let mut command = Command::new(system.as_deref().unwrap_or(Path::new(PROGRAM)));
        command.arg("-Y").args(words).arg("-s").arg(file.path());
        if let Some(Signers { list, at }) = signers {
            command.arg("-f").arg(list);
            command.args(at.map(|at| format!("-Overify-time={}", compact(at))));
        }
        // Nothing that the caller has set changes what the system's own program says.
        command.env_clear().env("TZ", "UTC").stderr(Stdio::piped());
        let path = std::env::var_os("PATH").filter(|_| system.is_none());
        command.envs(path.map(|path| ("PATH", path)));
        command
    };
    let fits = said(ask(&["check-novalidate", "-n", namespace], None), statement)?;
    let told = String::from_utf8_lossy(&fits.stdout);
    let key = told.split_whitespace().last().unwrap_or_default().to_string();
    let Some(signers) = signers else { return Ok(Signer { key, principal: None }) };
    let found = said(ask(&["find-principals"], Some(signers)), "").map_err(|_| {
        let list = signers.list.display();
        io::Error::other(format!("key {key} is not in the list of signers {list}"))
    })?;
    let names = String::from_utf8_lossy(&found.stdout);
    // A line of the list may have several names.
    let name = names.lines().next().and_then(|names| names.split(',').next());
    let name = name.unwrap_or_default().to_string();
    said(ask(&["verify", "-n", namespace, "-I", &name], Some(signers)), statement)?;
    Ok(Signer { key, principal: Some(name) })
}

/// The `ssh-keygen` of the system.
pub fn system_program() -> Option<PathBuf> {
    SYSTEM.map(|folder| Path::new(folder).join(PROGRAM)).into_iter().find(|path| path.is_file())
}

/// `20261118054300`, in UTC.
fn compact(at: Timestamp) -> String {
    at.to_zoned(TimeZone::UTC).strftime("%Y%m%d%H%M%S").to_string()
}

/// What a command says to a text; why it failed, where it did.
fn said(mut command: Command, text: &str) -> io::Result<Output> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command.env("LC_ALL", "C");
    let mut child = command.spawn().map_err(|error| {
        let program = Path::new(command.get_program());
        let name = program.file_name().unwrap_or(OsStr::new(PROGRAM)).to_string_lossy();
        let why = format!("{name} cannot be started: {error}; it comes with OpenSSH");
        io::Error::new(error.kind(), why)
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
    let why = if why.is_empty() { output.status.to_string() } else { why };
    Err(io::Error::other(format!("{PROGRAM}: {why}")))
}
