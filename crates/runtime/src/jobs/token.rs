//! Secrets: how a job that may ask for things proves who it is.

use std::fs::File;
use std::io::{self, Read};

use phasegate_engine::digest::digest;
use rustix::process::{Pid, Signal};

use crate::proc;
use crate::run::RunId;
use crate::variables;

/// How long a secret is, with the sign that follows it in a token.
pub(super) const LENGTH: usize = 65;

/// A new secret.
///
/// # Errors
/// Where no random bytes can be read.
pub fn secret() -> io::Result<String> {
    let mut random = [0; 32];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    // A digest of random bytes is as random, and printable.
    Ok(digest(&random))
}

/// What a job shows to prove who it is.
pub(crate) fn token(run: &RunId, id: &str, secret: &str) -> String {
    format!("{secret}~{run}~{id}")
}

/// The secret, the run and the job that a token names.
pub fn parts(token: &str) -> Option<(&str, &str, &str)> {
    let (secret, rest) = token.split_once('~')?;
    let (run, id) = rest.rsplit_once('~')?;
    Some((secret, run, id))
}

/// Makes secrets unreadable: a job that prints its environment must not give its own away.
pub(super) fn mask(bytes: &mut [u8]) {
    let mut run = 0;
    for at in 0..bytes.len() {
        if bytes[at].is_ascii_hexdigit() {
            run += 1;
        } else {
            if bytes[at] == b'~' && run >= LENGTH - 1 {
                bytes[at + 1 - LENGTH..at].fill(b'x');
            }
            run = 0;
        }
    }
}

/// Ends every process that has a secret in its environment: what a supervisor that was killed has left
/// behind in other groups.
pub(super) fn end_holders(is_own: impl Fn(&str) -> bool) {
    let mark = format!("{}=", variables::TOKEN);
    for pid in proc::all() {
        let variables = proc::variables(pid);
        let mut tokens = variables.iter().filter_map(|it| it.strip_prefix(mark.as_bytes()));
        let token = tokens.next().map(String::from_utf8_lossy);
        let secret = token.as_deref().and_then(parts).map(|(secret, ..)| secret);
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        if let (Some(pid), true) = (pid, secret.is_some_and(&is_own)) {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
    }
}
