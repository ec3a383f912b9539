//! The doors of Phasegate. What a client runs all the time, the hook and the status line, is
//! dispatched before anything else is set up: it must cost nothing where there is nothing to do.

mod acp;
mod cli;
mod hook;
mod mcp;
mod outcome;
mod perform;
mod print;
mod request;
mod statusline;

use std::ffi::OsString;
use std::process::ExitCode;

use phasegate_runtime::process;

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    let (folder, args) = cli::chosen_folder(&args);
    match args.first().and_then(|first| first.to_str()) {
        Some(process::SUPERVISE) => supervise(&args[1..], false),
        Some(process::SUPERVISE_SESSION) => supervise(&args[1..], true),
        Some("hook") => hook::main(folder, &args[1..]),
        Some("statusline") if args.len() == 1 => statusline::main(folder),
        // Old clients start a hook without its arguments: to them an exit code of 2 would be a block.
        None => cli::help(),
        _ => cli::main(folder),
    }
}

/// The side of [`process::run`] that watches.
fn supervise(args: &[OsString], is_session: bool) -> ExitCode {
    let args: Vec<String> = args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let end = process::supervise(&args, is_session);
    print::out(&serde_json::to_string(&end).unwrap_or_default());
    ExitCode::SUCCESS
}
