//! The time of a hook beside that of other ways to do the same, in one run: each round starts every
//! contestant once, so that a busy moment of the machine meets all of them.
#![expect(clippy::print_stdout, reason = "a benchmark reports")]

mod project;

use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use project::{payload, project, state};

const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../benches/equivalents");

/// What runs, and how it is started.
const CONTESTANTS: [(&str, &[&str]); 4] = [
    ("/bin/true", &["/bin/true"]),
    ("phasegate", &[env!("CARGO_BIN_EXE_phasegate"), "hook", "stop"]),
    ("bash and jq", &["bash", "stop.sh"]),
    ("node", &["node", "stop.mjs"]),
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("Median time of a stop that is blocked, and its ratio to phasegate's.");
    println!("phasegate also locks, journals and flushes to the disk; the scripts do not.\n");
    println!("| entries | {} |", CONTESTANTS.map(|(name, _)| name).join(" | "));
    println!("|---|{}", "---|".repeat(CONTESTANTS.len()));
    for (entries, rounds) in [(10, 40), (1_000, 40), (100_000, 8)] {
        let folder = tempfile::tempdir()?;
        project(folder.path(), Some(&state(entries)))?;
        let mut times: Vec<Vec<Duration>> = vec![Vec::new(); CONTESTANTS.len()];
        for _ in 0..rounds {
            for (index, (_, command)) in CONTESTANTS.iter().enumerate() {
                times[index].extend(run(command, folder.path())?);
            }
        }
        let medians: Vec<Option<Duration>> = times.into_iter().map(median).collect();
        let ours = medians[1].unwrap_or_default().as_secs_f64();
        let cells = medians.iter().map(|time| match time {
            None => "not installed".to_string(),
            Some(time) => {
                let ratio = time.as_secs_f64() / ours;
                format!("{:.1} ms ({ratio:.2} ×)", time.as_secs_f64() * 1e3)
            }
        });
        println!("| {entries} | {} |", cells.collect::<Vec<_>>().join(" | "));
    }
    Ok(())
}

fn median(mut times: Vec<Duration>) -> Option<Duration> {
    times.sort();
    times.get(times.len() / 2).copied()
}

/// The time of one run; none where the program is not installed.
fn run(command: &[&str], root: &Path) -> Result<Option<Duration>, Box<dyn Error>> {
    let input = payload(root);
    let since = Instant::now();
    let child = Command::new(command[0])
        .args(&command[1..])
        .current_dir(HERE)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut child) = child else { return Ok(None) };
    // `/bin/true` does not read what it is given.
    let _ = child.stdin.take().ok_or("no stdin")?.write_all(input.as_bytes());
    let output = child.wait_with_output()?;
    let time = since.elapsed();
    Ok(output.status.success().then_some(time))
}
