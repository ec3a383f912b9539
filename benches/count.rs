//! Calls of the program, and how many instructions they take, from start to end: counted by callgrind, so
//! that the numbers do not depend on what else the machine does.

use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitCode, Output, Stdio};

use crate::program::program;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A call of the program: its arguments, and what it reads on stdin.
pub struct Call {
    args: Vec<String>,
    input: String,
}

impl Call {
    pub fn new(args: &[&str], input: &str) -> Call {
        Call { args: args.iter().map(ToString::to_string).collect(), input: input.to_string() }
    }

    /// Runs it; what it says on stdout.
    pub fn run(&self, folder: &Path) -> Result<String> {
        let output = self.finish(folder, &mut Command::new(program()))?;
        if !matches!(output.status.code(), Some(0 | 2)) {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(format!("{:?}: {}: {said}", self.args, output.status).into());
        }
        Ok(String::from_utf8(output.stdout)?)
    }

    fn finish(&self, folder: &Path, command: &mut Command) -> Result<Output> {
        let mut child = command
            .args(&self.args)
            .current_dir(folder)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        child.stdin.take().ok_or("no stdin")?.write_all(self.input.as_bytes())?;
        Ok(child.wait_with_output()?)
    }
}

/// Whether instructions can be counted here.
pub fn is_possible() -> bool {
    let valgrind = Command::new("valgrind").arg("--version").output();
    valgrind.is_ok_and(|output| output.status.success())
}

/// Says that nothing was counted. In CI that is a failure.
pub fn skipped() -> ExitCode {
    println!("SKIPPED: valgrind is not installed, so no instruction was counted");
    let required = std::env::var_os("CI").is_some();
    if required { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// How many instructions a call takes.
pub fn instructions(folder: &Path, call: &Call) -> Result<u64> {
    let mut counted = Command::new("valgrind");
    counted.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program());
    let output = call.finish(folder, &mut counted)?;
    let report = String::from_utf8(output.stderr)?;
    let line = report.lines().find_map(|line| line.split_once("Collected :"));
    Ok(line.ok_or("callgrind counted nothing")?.1.trim().parse()?)
}
