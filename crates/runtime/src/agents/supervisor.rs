//! The other side: whoever supervises an agent holds its lock, and writes down its start and its end.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use jiff::Timestamp;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::{EndStatus, Ended, Record, Started, place, write};
use crate::outside;
use crate::proc;
use crate::process::{self, End, Orphans};
use crate::variables;

/// How much of the end of a log is searched for what an agent has cost.
const MAX_TAIL: u64 = 256 << 10;

/// The supervisor's own main. Its stdin is the lock.
///
/// # Errors
/// Where the agent has run already, or its files cannot be made.
pub fn supervise(root: &Path, record: &Record) -> io::Result<()> {
    let folder = place(root, &record.folder)?;
    let own =
        outside::open_with(OpenOptions::new().create(true).append(true), &folder.join("lock"))?;
    let meta = own.metadata()?;
    if (meta.dev(), meta.ino()) != given()? && own.try_lock().is_err() {
        return Err(io::Error::other("somebody else supervises it"));
    }
    if folder.join("started.json").exists() || folder.join("end.json").exists() {
        return Err(io::Error::other("it has run already"));
    }
    process::adopt_orphans();
    let told = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        let _ = signal_hook::flag::register(signal, told.clone());
    }
    let asked = folder.join("end-asked");
    let log = outside::open_with(
        OpenOptions::new().create(true).append(true).mode(0o600),
        &folder.join("log"),
    )?;
    let since = Instant::now();
    let end = match start(root, record, &folder, &log) {
        Err(why) => End::NotStarted(why),
        Ok(child) => {
            let started =
                Started { at: Timestamp::now(), pid: child.id(), birth: proc::birth(child.id()) };
            write(&folder.join("started.json"), &started)?;
            let gone = || told.load(Ordering::Relaxed) || asked.exists() || !folder.exists();
            let printed = || log.metadata().map_or(0, |meta| meta.len());
            process::watch(child, record.timeout, &gone, &printed, Orphans::All)
        }
    };
    let printed = process::tail(&folder.join("log"), MAX_TAIL).unwrap_or_default();
    let cost = phasegate_clients::headless().cost(&printed);
    let (status, exit_code) = match &end {
        End::Exited(0) => (EndStatus::Exited, Some(0)),
        End::Exited(code) => (EndStatus::Failed, Some(*code)),
        End::TimedOut => (EndStatus::TimedOut, None),
        End::GivenUp | End::Flooded => (EndStatus::Killed, None),
        End::Killed(_) | End::NotStarted(_) => (EndStatus::Crashed, None),
    };
    let ended = Ended {
        at: Timestamp::now(),
        status,
        exit_code,
        words: end.in_words(record.timeout),
        seconds: since.elapsed().as_secs(),
        micro_dollars: cost.micro_dollars,
        turns: cost.turns,
    };
    write(&folder.join("end.json"), &ended)
}

fn start(
    root: &Path,
    record: &Record,
    folder: &Path,
    log: &File,
) -> Result<std::process::Child, String> {
    let Some((program, arguments)) = record.run.split_first() else {
        return Err("nothing to run".into());
    };
    let streams = || -> io::Result<(File, File, File)> {
        Ok((outside::open(&folder.join("prompt"))?.0, log.try_clone()?, log.try_clone()?))
    };
    let (input, output, errors) = streams().map_err(|error| error.to_string())?;
    let spawned = Command::new(program)
        .args(arguments)
        .current_dir(root)
        .env(variables::DISABLE, "1")
        .stdin(input)
        .stdout(output)
        .stderr(errors)
        .process_group(0)
        .spawn();
    spawned.map_err(|error| format!("cannot run {program}: {error}"))
}

/// Which file our stdin is.
fn given() -> io::Result<(u64, u64)> {
    let stat = rustix::fs::fstat(io::stdin())?;
    Ok((stat.st_dev, stat.st_ino))
}
