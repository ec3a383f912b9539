//! `phasegate supervise ROOT FOLDER [RUN JOB]`: the process that watches over a job. Phasegate starts it itself,
//! with the lock of the job's folder as its stdin.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use phasegate_runtime::fault_log;
use phasegate_runtime::gate::Gate;
use phasegate_runtime::jobs;
use phasegate_runtime::project::Project;

use crate::print;

/// The supervisor. Nobody reads what it prints, so that what goes wrong is logged.
pub fn main(args: &[OsString]) -> ExitCode {
    let words: Vec<String> = args.iter().map(|it| it.to_string_lossy().into_owned()).collect();
    let (root, folder, run) = match words.as_slice() {
        [_, root, folder] => (Path::new(root), folder, None),
        [_, root, folder, run, _] => (Path::new(root), folder, Some(run)),
        _ => return ExitCode::FAILURE,
    };
    let is_session = words[0] == jobs::SUPERVISE_SESSION;
    match watch(root, folder, run.map(String::as_str), is_session) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            fault_log::note(Some(root), &format!("the supervisor of {folder}: {why}"));
            ExitCode::FAILURE
        }
    }
}

/// `phasegate settle-run ROOT RUN`: tells the rules of a run what has become of its jobs. A worker starts it in the tree
/// in which it does a job.
pub fn settle(args: &[OsString]) -> ExitCode {
    let [_, root, run] = args else { return ExitCode::FAILURE };
    let (root, run) = (Path::new(root), run.to_string_lossy());
    let settled = Project::open(root).map_err(|error| error.to_string()).and_then(|project| {
        let gate = Gate::new(&project).supervising();
        gate.settle_run(&run).map_err(|error| error.to_string())
    });
    match settled {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            print::note(&why);
            ExitCode::FAILURE
        }
    }
}

fn watch(root: &Path, folder: &str, run: Option<&str>, is_session: bool) -> Result<(), String> {
    jobs::supervise(root, folder, is_session).map_err(|error| error.to_string())?;
    let Some(run) = run else { return Ok(()) };
    // The run goes on by itself: its rules hear of the end now, not when something else happens in it.
    let project = Project::open(root).map_err(|error| error.to_string())?;
    Gate::new(&project).supervising().settle_run(run).map_err(|error| error.to_string())
}
