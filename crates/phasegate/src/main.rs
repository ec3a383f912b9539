//! The doors of Phasegate. What a client runs all the time, the hook and the status line, is
//! dispatched before anything else is set up: it must cost nothing where there is nothing to do.

mod cli;
mod hook;
mod print;
mod statusline;

use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    let (folder, args) = cli::chosen_folder(&args);
    match args.first().and_then(|first| first.to_str()) {
        Some("hook") => hook::main(folder, &args[1..]),
        Some("statusline") if args.len() == 1 => statusline::main(folder),
        _ => cli::main(folder),
    }
}
