//! A year of journals: random runs of every workflow, whose lines are all decided again.

use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};

use crate::roles::Role;
use crate::stage::Stage;
use crate::{BINARY, PLANTED, sequence};

/// What `replay` says.
fn replayed(stage: &Stage, args: &[&str]) -> Value {
    let output = stage.looks().args(["replay", "--all", "--json"]).args(args).output().unwrap();
    let told = serde_json::from_slice(&output.stdout);
    told.unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// Plays random sequences of a workflow, and shows each project as it is in the end.
fn play(role: &Role, seeds: std::ops::Range<u64>, mut look: impl FnMut(u64, &Stage)) {
    for seed in seeds {
        let mut steps = 0;
        sequence(role, seed, Path::new(BINARY), |stage, _| {
            steps += 1;
            if steps == crate::LENGTH {
                look(seed, stage);
            }
        });
    }
}

#[test]
fn every_line_of_random_runs_is_decided_again_and_is_the_same() {
    let mut decisions = 0;
    for role in Role::all() {
        play(&role, 5000..5002, |seed, stage| {
            let told = replayed(stage, &[]);
            let place = format!("{} {seed}", role.name());
            assert_eq!(told["different"], json!([]), "{place}: {told:#}");
            assert_eq!(told["unknown"], json!([]), "{place}: {told:#}");
            decisions += told["decisions"].as_u64().unwrap();
        });
    }
    assert!(decisions > 150, "{decisions} decisions");
}

/// 100,000 lines: random runs, each kept many times under other names, since to play them takes longer than to
/// decide them again.
#[test]
#[ignore = "takes minutes: `cargo test --release --test differ year -- --ignored --nocapture`"]
fn a_year_of_journals_is_decided_again_in_seconds() {
    let number =
        |name: &str, usual| std::env::var(name).map_or(usual, |text| text.parse().unwrap());
    let (seeds, wanted) = (number("YEAR_SEEDS", 8), number("YEAR_LINES", 100_000));
    let roles = Role::all();
    let mut first = None;
    let year = tempfile::tempdir().unwrap();
    let mut runs: Vec<(String, std::path::PathBuf, u64)> = Vec::new();
    for role in &roles {
        play(role, 6000..6000 + seeds, |seed, stage| {
            let folder = stage.path(&format!(".phasegate/runs/{}", role.name()));
            let runs_there = std::fs::read_dir(folder).into_iter().flatten().flatten();
            for run in runs_there.filter(|it| it.path().is_dir()) {
                let lines = std::fs::read_to_string(run.path().join("journal.jsonl"));
                let lines = lines.unwrap_or_default().lines().count() as u64;
                let to = year.path().join(format!("{}-{seed}-{}", role.name(), runs.len()));
                copy(&run.path(), &to);
                runs.push((role.name().to_string(), to, lines));
            }
        });
    }
    let played: u64 = runs.iter().map(|(.., lines)| lines).sum();
    let copies = wanted / played + 1;
    // Any project can hold the year: its own runs go.
    sequence(&roles[0], 1, Path::new(BINARY), |stage, _| {
        if first.is_some() {
            return;
        }
        let home = stage.path(".phasegate/runs");
        let _ = std::fs::remove_dir_all(&home);
        for copy_number in 0..copies {
            for (at, (workflow, from, _)) in runs.iter().enumerate() {
                copy(from, &home.join(workflow).join(format!("run-{copy_number}-{at}")));
            }
        }
        let since = Instant::now();
        let told = replayed(stage, &[]);
        let took = since.elapsed();
        println!(
            "{} runs, {} lines ({played} played), {} decisions: {} same, {} recorded, {} different, {} unknown, in {took:.1?}",
            told["runs"],
            played * copies,
            told["decisions"],
            told["same"],
            told["recorded"],
            told["different"].as_array().unwrap().len(),
            told["unknown"].as_array().unwrap().len(),
        );
        assert_eq!((&told["different"], &told["unknown"]), (&json!([]), &json!([])));
        // A changed guard shows the same lines of every copy of a run, and none of another workflow.
        for (workflow, was, now) in PLANTED {
            let Some(definition) = planted(year.path(), workflow, was, now) else { continue };
            let changed = replayed(stage, &["--definition", &definition]);
            let changed = changed["different"].as_array().unwrap();
            println!("{workflow}: {} lines change with {now:?}", changed.len());
            assert!(
                !changed.is_empty() && (changed.len() as u64).is_multiple_of(copies),
                "{workflow}"
            );
            let is_own = |row: &Value| row["run"].as_str().unwrap().starts_with(workflow);
            assert!(changed.iter().all(is_own));
        }
        first = Some(());
    });
}

/// The definition of today with a mistake in it; none where that has no such place.
fn planted(folder: &Path, workflow: &str, was: &str, now: &str) -> Option<String> {
    let folder = folder.join("planted").join(workflow);
    let mut is_planted = false;
    for (path, text) in phasegate_runtime::catalog::builtin_files(workflow) {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        is_planted |= text.contains(was);
        std::fs::write(path, text.replace(was, now)).unwrap();
    }
    let definition = folder.join("workflow.toml").to_string_lossy().into_owned();
    is_planted.then_some(definition)
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy(&path, &to);
        } else {
            // A link costs no room.
            std::fs::hard_link(&path, &to).unwrap();
        }
    }
}
