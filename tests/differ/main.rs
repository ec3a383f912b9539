//! The program beside version 0.1.0: the same events, and their results.
//!
//! A *trace* is a project, and steps with what 0.1.0 made of them: its answer, the files that changed
//! and the bodies of the journal's new lines. Traces are in `tests/traces`, made by that binary: random
//! sequences of events for each workflow, and projects as it left them, at every phase and with
//! something at work. Here they are played to the program of today. Whatever differs on purpose stands
//! in `tests/traces/differences.toml`, with its reason.
//!
//! Where a definition decides otherwise on purpose, that of 0.1.0 is in `tests/definitions/0.1/NAME`, and random
//! sequences are played to it: they compare the program, and `docs/conformance` says what the definition does now.
//!
//! `just differ` builds 0.1.0 and plays new random sequences to both; `just differ record` makes the
//! traces anew.
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![expect(clippy::print_stdout, reason = "the long test says how long it took")]

mod as_it_was;
mod dice;
mod differences;
mod roles;
mod stage;
mod trace;
mod year;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use dice::Dice;
use differences::Differences;
use roles::Role;
use stage::Stage;
use trace::{Op, Step, Trace};

const BINARY: &str = env!("CARGO_BIN_EXE_phasegate");

/// How many events a random sequence has.
const LENGTH: usize = 36;

/// How many random sequences of each workflow are kept.
const KEPT: u64 = 4;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/traces")
}

fn traces() -> Vec<(String, Trace)> {
    let mut found = Vec::new();
    for workflow in std::fs::read_dir(folder()).unwrap().flatten().map(|entry| entry.path()) {
        for file in std::fs::read_dir(workflow).into_iter().flatten().flatten() {
            let path = file.path();
            let name = path.strip_prefix(folder()).unwrap().with_extension("");
            found.push((name.to_string_lossy().into_owned(), Trace::read(&path)));
        }
    }
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    found
}

/// Plays a trace, and says where it differs first.
fn play(
    name: &str,
    trace: &Trace,
    plant: impl Fn(&Stage),
    differences: &Differences,
) -> Option<String> {
    let mut stage = Stage::new(Path::new(BINARY), trace);
    plant(&stage);
    for (number, step) in trace.steps.iter().enumerate() {
        if differences.is_gone(&step.op) {
            continue;
        }
        // 0.1.0 did not decide about a stop that another hook's block had caused. Today it is decided, and only
        // the block is withheld: what follows in the trace has another beginning.
        if as_it_was::was_undecided(&step.seen) {
            break;
        }
        let seen = differences.leave_out_note(stage.play(&step.op));
        if as_it_was::parts_ways(&step.seen, &seen) {
            break;
        }
        let expected = as_it_was::seen(&differences.apply(&step.seen));
        let seen = as_it_was::seen(&seen);
        if expected != seen {
            if differences.parts_at(name, number + 1) {
                return None;
            }
            let parts = trace::difference(&expected, &seen);
            return Some(format!("step {}: {:?}\n{parts}", number + 1, step.op));
        }
    }
    None
}

/// Plays many traces, several at a time since they mostly wait for processes. Returns the ones that differ.
fn play_all(
    traces: &[(String, Trace)],
    plant: impl Fn(&Stage) + Sync,
    differences: &Differences,
) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let found = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some((name, trace)) = traces.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Some(how) = play(name, trace, &plant, differences) {
                        found.lock().unwrap().push(format!("{name}: {how}"));
                    }
                }
            });
        }
    });
    found.into_inner().unwrap()
}

#[test]
fn what_0_1_0_made_of_them_is_made_of_them_today() {
    let differences = Differences::read(&folder().join("differences.toml"));
    let all = traces();
    let (of_old, all): (Vec<_>, Vec<_>) = all.into_iter().partition(|(name, _)| {
        // A run that 0.1.0 has begun keeps to its own copy of the definition anyway.
        let workflow = name.split_once("/random").map(|(workflow, _)| workflow);
        workflow.is_some_and(|workflow| stage::old_definition(workflow).is_some())
    });
    let mut found = play_all(&all, |_| {}, &differences);
    for trace in of_old {
        let workflow = trace.0.split('/').next().unwrap().to_string();
        found.extend(play_all(&[trace], |stage| stage.eject(&workflow, "", ""), &differences));
    }
    let (count, all) = (found.len(), all.len());
    assert!(found.is_empty(), "{count} of {all} traces differ:\n{}", found.join("\n"));
    assert_eq!(differences.unused(), Vec::<String>::new(), "rows that no trace needs any more");
    assert!(differences.has_noted(), "the definitions are those of 0.1.0 again");
}

#[test]
fn the_traces_have_every_workflow_at_every_phase_and_all_that_can_be_at_work() {
    use phasegate_runtime::catalog::{Origin, general};
    let names: Vec<String> = traces().into_iter().map(|(name, _)| name).collect();
    for entry in general().into_iter().filter(|entry| entry.origin == Origin::BuiltIn) {
        let role = Role::of(&entry.name);
        for phase in role.phases() {
            let name = format!("{}/at-{phase}", entry.name);
            assert!(names.contains(&name), "{name} is missing");
        }
        let random =
            names.iter().filter(|name| name.starts_with(&format!("{}/random", entry.name)));
        assert_eq!(random.count() as u64, KEPT, "{}", entry.name);
    }
    for name in roles::AT_WORK {
        assert!(names.iter().any(|known| known == name), "{name} is missing");
    }
}

/// One mistake in each definition, as somebody could make it.
const PLANTED: [(&str, &str, &str); 5] = [
    ("triage", r#"goto = "meta-review""#, r#"goto = "complete", allow = "done""#),
    ("loop", r#""frame.iter" = "iter + 1""#, r#""frame.iter" = "iter + 2""#),
    ("plan", "clean >= REQUIRED_CLEAN", "clean >= 1"),
    ("task", r#"goto = "codegen""#, r#"goto = "review""#),
    ("phases", "judged and verdict == 'approved'", "judged"),
];

#[test]
fn a_change_that_is_planted_is_found() {
    for (workflow, was, now) in PLANTED {
        let traces: Vec<(String, Trace)> = traces()
            .into_iter()
            .filter(|(name, _)| name.starts_with(&format!("{workflow}/random")))
            .collect();
        let differences = Differences::read(&folder().join("differences.toml"));
        let found = |was: &str, now: &str| {
            play_all(&traces, |stage| stage.eject(workflow, was, now), &differences)
        };
        // A copy of the definition decides as the definition does …
        assert_eq!(found("", ""), Vec::<String>::new(), "{workflow}: a faithful copy differs");
        // … and one with a mistake does not.
        assert!(!found(was, now).is_empty(), "{workflow}: nobody noticed {now:?}");
    }
}

/// Makes the traces anew, with the binary of 0.1.0.
#[test]
#[ignore = "needs the binary of 0.1.0: `just differ record`"]
fn record() {
    let old = PathBuf::from(std::env::var_os("PHASEGATE_OLD").unwrap());
    for role in Role::all() {
        let folder = folder().join(role.name());
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let mut at: Vec<String> = Vec::new();
        for seed in 0.. {
            let missing: Vec<&str> = role
                .phases()
                .iter()
                .copied()
                .filter(|phase| !at.contains(&(*phase).to_string()))
                .collect();
            if seed >= KEPT && missing.is_empty() {
                break;
            }
            assert!(seed < 400, "{}: no sequence leads to {missing:?}", role.name());
            let mut left = Vec::new();
            let trace = sequence(&role, seed, &old, |stage, phase| {
                let known =
                    || at.iter().chain(left.iter().map(|(phase, _)| phase)).any(|it| it == phase);
                if role.phases().contains(&phase) && !known() {
                    left.push((phase.to_string(), stage.left()));
                }
            });
            for (phase, left) in left {
                stage::afterwards(left, &old).write(&folder.join(format!("at-{phase}.jsonl")));
                at.push(phase);
            }
            if seed < KEPT {
                trace.write(&folder.join(format!("random-{seed}.jsonl")));
            }
        }
        roles::at_work(&role, &old, |name, trace| {
            trace.write(&self::folder().join(format!("{name}.jsonl")));
        });
    }
}

/// A random sequence of events, played to a binary; `look` is shown the stage after each step, with the
/// phase that the run is in.
fn sequence(role: &Role, seed: u64, binary: &Path, mut look: impl FnMut(&Stage, &str)) -> Trace {
    let mut dice = Dice::new(seed);
    let mut trace = role.opening(&mut dice);
    let mut stage = Stage::new(binary, &trace);
    let mut ops: Vec<Op> = role.begin();
    while trace.steps.len() < LENGTH {
        if ops.is_empty() {
            ops = role.next(&mut dice, &stage);
        }
        let op = ops.remove(0);
        let seen = stage.play(&op);
        trace.steps.push(Step { op, seen });
        look(&stage, &role.phase(&stage));
    }
    trace
}

/// New random sequences, played to 0.1.0 and to the program of today.
#[test]
#[ignore = "needs the binary of 0.1.0: `just differ`"]
fn live() {
    let old = PathBuf::from(std::env::var_os("PHASEGATE_OLD").unwrap());
    let number =
        |name: &str, usual| std::env::var(name).map_or(usual, |text| text.parse().unwrap());
    let (first, count) = (number("DIFFER_FIRST", 1000), number("DIFFER_COUNT", 20));
    let differences = Differences::read(&folder().join("differences.toml"));
    let mut found = Vec::new();
    for role in Role::all() {
        for seed in first..first + count {
            let trace = sequence(&role, seed, &old, |_, _| {});
            if let Some(how) = play("", &trace, |_| {}, &differences) {
                found.push(format!("{} {seed}: {how}", role.name()));
            }
        }
    }
    assert!(found.is_empty(), "{} sequences differ:\n{}", found.len(), found.join("\n"));
}

/// Both versions at work in one project, event by event: nothing is lost, and nobody is held by what
/// the other one has ended.
#[test]
#[ignore = "needs the binary of 0.1.0: `just differ`"]
fn beside() {
    let old = PathBuf::from(std::env::var_os("PHASEGATE_OLD").unwrap());
    for role in Role::all() {
        for seed in 0..6 {
            let mut dice = Dice::new(seed);
            let mut stage = Stage::new(&old, &role.opening(&mut dice));
            let mut ops: Vec<Op> = role.begin();
            let mut lines = 0;
            for number in 0..LENGTH {
                if ops.is_empty() {
                    ops = role.next(&mut dice, &stage);
                }
                stage.binary = if dice.percent(50) { old.clone() } else { PathBuf::from(BINARY) };
                let seen = stage.play(&ops.remove(0));
                let place = format!("{} {seed} step {number}", role.name());
                assert!(!seen.err.contains("panicked"), "{place}: {}", seen.err);
                for line in &seen.journal {
                    assert!(line["event"].is_object(), "{place}: a broken line");
                }
                let now = stage.journal_lines();
                assert!(now >= lines, "{place}: a line was lost");
                lines = now;
            }
            for (cancels, stops) in [(&old, Path::new(BINARY)), (&old, &old)] {
                stage.binary = cancels.clone();
                stage.play(&roles::cancel());
                stage.binary = stops.to_path_buf();
                let seen = stage.play(&roles::stop(false));
                assert!(!seen.out.contains("block"), "{} {seed}: held: {}", role.name(), seen.out);
            }
        }
    }
}
