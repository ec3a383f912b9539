//! The doors of Phasegate. The hook is dispatched before anything else is set up: it runs at every
//! stop of every agent, and must cost nothing where there is nothing to do.

mod cli;
mod hook;
mod print;

use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    let (folder, args) = cli::chosen_folder(&args);
    if args.first().is_some_and(|first| first == "hook") {
        return hook::main(folder, &args[1..]);
    }
    cli::main(folder)
}
