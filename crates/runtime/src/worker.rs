//! Workers: agents that do the work of a phase, each a process of its own. What they say about it is
//! shown; what counts is what they leave behind.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use phasegate_engine::step::Work;

use crate::fault_point;
use crate::outside;
use crate::paths;
use crate::process::{self, End, Streams};
use crate::run::RunId;

/// Where workers leave their logs.
pub const FOLDER: &str = ".phasegate/workers";

/// How often what a worker prints is looked at.
const POLL: Duration = Duration::from_millis(100);

/// Files that are written within so short a time may have the same date.
const TICK: SignedDuration = SignedDuration::from_millis(1);

/// Who sees what a worker prints, as it prints it.
pub type Watch = dyn Fn(&[u8]);

/// How a worker ended.
#[derive(Clone, Debug)]
pub struct Worked {
    /// None where it did not end by itself.
    pub exit_code: Option<i32>,
    /// That, in words.
    pub end: String,
    pub seconds: u64,
    pub started: Timestamp,
    /// All that it printed.
    pub log: String,
}

/// Has work done, and shows what the worker prints to whoever watches.
///
/// # Errors
/// Where the worker's files cannot be made.
pub fn work(root: &Path, run: &RunId, work: &Work, watch: Option<&Watch>) -> io::Result<Worked> {
    let name = process::log_name(run, &work.worker);
    let place = |kind: &str| {
        let place = format!("{FOLDER}/{name}.{kind}");
        paths::inside(root, &place).map_err(|why| io::Error::other(why.to_string()))
    };
    let (input, log) = (place("prompt")?, place("log")?);
    fault_point::reach("before-work");
    fs::write(&input, &work.prompt)?;
    let made = File::create(&log)?.metadata()?.modified()?;
    // By the clock of the files, which is behind ours: what the worker writes is not older than this.
    let started = Timestamp::try_from(made).map_err(io::Error::other)? - TICK;
    let since = Instant::now();
    let (command, folder, timeout) = (work.run.clone(), root.to_path_buf(), work.timeout);
    let (own_input, own_log) = (input.clone(), log.clone());
    let (ended, end) = channel();
    std::thread::spawn(move || {
        let streams = Streams { input: Some(&own_input), output: None, log: &own_log };
        let _ = ended.send(process::run(&command, &folder, timeout, &streams, &[]));
    });
    let mut shown = 0;
    let mut show = || {
        if let Some(watch) = watch {
            shown += pass_on(&log, shown, watch);
        }
    };
    let end = loop {
        match end.recv_timeout(POLL) {
            Ok(end) => break end,
            Err(RecvTimeoutError::Timeout) => show(),
            Err(RecvTimeoutError::Disconnected) => break Err(io::Error::other("it was given up")),
        }
    };
    show();
    fault_point::reach("after-work");
    let _ = fs::remove_file(&input);
    let end = end?;
    let exit_code = match end {
        End::Exited(code) => Some(code),
        _ => None,
    };
    let end = end.in_words(timeout);
    let (seconds, log) = (since.elapsed().as_secs(), format!("{FOLDER}/{name}.log"));
    Ok(Worked { exit_code, end, seconds, started, log })
}

/// Shows what was added to a log; how much that was.
fn pass_on(log: &Path, from: u64, watch: &Watch) -> u64 {
    let Ok((mut file, _)) = outside::open(log) else { return 0 };
    let mut bytes = Vec::new();
    let moved = io::Seek::seek(&mut file, io::SeekFrom::Start(from));
    if moved.and_then(|_| file.read_to_end(&mut bytes)).is_ok() && !bytes.is_empty() {
        watch(&bytes);
    }
    bytes.len() as u64
}
