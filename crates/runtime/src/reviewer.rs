//! Reviewers: agents that judge, each a process of its own. Its word counts only as the verdict in
//! the structured output of the process that we started, and only if the review that it was asked
//! for is on the disk, and new.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use phasegate_clients::{Cost, Judged};
use phasegate_engine::digest::digest;
use phasegate_engine::step::Review;

use crate::fault_point;
use crate::outside::{self, MAX_RECORD};
use crate::paths;
use crate::process::{self, End, Streams};
use crate::run::RunId;
use crate::variables;

/// Where reviewers leave their logs, while there is something to see in them.
pub const FOLDER: &str = ".phasegate/reviews";

/// More output than this is no verdict.
const MAX_OUTPUT: u64 = 16 << 20;

/// What came of a review.
#[derive(Clone, Debug, PartialEq)]
pub struct Reviewed {
    pub pass: bool,
    /// The digest of the review.
    pub digest: String,
    /// What it cost, in millionths of a dollar.
    pub micro_dollars: u64,
    pub turns: u64,
}

/// Makes a review.
///
/// # Errors
/// Why there is no verdict, in a sentence that names the log.
pub fn review(root: &Path, run: &RunId, wanted: &Review) -> Result<Reviewed, String> {
    let inside = |place: &str| paths::inside(root, place).map_err(|why| why.to_string());
    let file = inside(&wanted.file)?;
    if file.exists() {
        return Err(format!("{} is there already, and no review is overwritten", wanted.file));
    }
    let name = process::log_name(run, &wanted.reviewer);
    let place = |kind: &str| inside(&format!("{FOLDER}/{name}.{kind}"));
    let (log, input, output) = (place("log")?, place("prompt")?, place("json")?);
    let shown = format!("{FOLDER}/{name}.log");
    let prepared = || -> io::Result<()> {
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        fault_point::reach("before-review");
        fs::write(&input, &wanted.prompt)
    };
    let failed = |error: io::Error| format!("reviewer {}: {error}", wanted.reviewer);
    prepared().map_err(failed)?;
    let command = command(wanted)?;
    let streams = Streams { input: Some(&input), output: Some(&output), log: &log };
    let model = wanted.model.as_deref().unwrap_or_default();
    let told = [(variables::REVIEW, wanted.file.as_str()), (variables::MODEL, model)];
    let end = process::run(&command, root, wanted.timeout, &streams, &told).map_err(failed);
    let judged = end.and_then(|end| judge(&end, wanted, &output, &file));
    fault_point::reach("after-review");
    let _ = fs::remove_file(&input);
    match &judged {
        // What went wrong can be seen; what went well need not.
        Ok(_) => [&log, &output].into_iter().for_each(|file| drop(fs::remove_file(file))),
        Err(_) => {
            let said = outside::read(&output, MAX_RECORD).unwrap_or_default();
            let text = [b"\n--- its answer ---\n", said.as_slice()].concat();
            let kept = outside::open_with(OpenOptions::new().append(true), &log);
            let _ = kept.and_then(|mut kept| io::Write::write_all(&mut kept, &text));
            let _ = fs::remove_file(&output);
        }
    }
    judged.map_err(|why| format!("reviewer {}: {why} (see {shown})", wanted.reviewer))
}

/// The program and its arguments: those of the workflow, or the usual client's.
fn command(wanted: &Review) -> Result<Vec<String>, String> {
    if !wanted.run.is_empty() {
        return Ok(wanted.run.clone());
    }
    let command = phasegate_clients::headless().reviewer(wanted.model.as_deref());
    command.map_err(|why| format!("reviewer {}: {why}", wanted.reviewer))
}

fn judge(end: &End, wanted: &Review, output: &PathBuf, file: &Path) -> Result<Reviewed, String> {
    match end {
        End::Exited(0) => {}
        End::NotStarted(why) => return Err(why.clone()),
        other => return Err(format!("it {}", other.in_words(wanted.timeout))),
    }
    if fs::metadata(output).map_or(0, |meta| meta.len()) > MAX_OUTPUT {
        return Err("its answer is too long".into());
    }
    let printed = outside::read(output, MAX_RECORD).unwrap_or_default();
    let Judged { pass, cost } = phasegate_clients::headless().verdict(&printed)?;
    let review =
        outside::read(file, MAX_RECORD).ok().filter(|review| !review.trim_ascii().is_empty());
    let review =
        review.ok_or_else(|| format!("it gave a verdict, but wrote no {}", wanted.file))?;
    let Cost { micro_dollars, turns } = cost;
    Ok(Reviewed { pass, digest: digest(&review), micro_dollars, turns })
}
