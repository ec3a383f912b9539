//! The doors of Phasegate. The hook is dispatched before anything else is set up: it runs at every
//! stop of every agent, and must cost nothing where there is nothing to do.

mod cli;
mod hook;
mod print;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    if args.next().is_some_and(|first| first == "hook") {
        return hook::main(args);
    }
    cli::main()
}
