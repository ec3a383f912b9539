//! The doors of Phasegate. What a client runs all the time, the hook and the status line, is
//! dispatched before anything else is set up: it must cost nothing where there is nothing to do.

mod acp;
mod cli;
mod hook;
mod live;
mod loopback;
mod mcp;
mod openings;
mod outcome;
mod payload;
mod perform;
mod print;
mod request;
mod statusline;
mod supervise;
mod waiting;
mod watchdog;
mod web;

use std::ffi::OsString;
use std::process::ExitCode;

use phasegate_runtime::jobs;

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let Some(jobs::SUPERVISE | jobs::SUPERVISE_SESSION) = args.first().and_then(|it| it.to_str())
    {
        return supervise::main(&args);
    }
    if args.first().is_some_and(|first| first == jobs::SETTLE) {
        return supervise::settle(&args);
    }
    let (folder, args) = cli::chosen_folder(args);
    match args.first().and_then(|first| first.to_str()) {
        Some("hook") => hook::main(folder.as_deref(), &args[1..]),
        Some("statusline") if args.len() == 1 => statusline::main(folder.as_deref()),
        None => cli::help(),
        _ => cli::main(folder.as_deref(), &args),
    }
}
