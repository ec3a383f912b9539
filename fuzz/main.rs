//! Mutated inputs against everything that reads what others write. The seeds are the corpus beside this file, and
//! what other tests have recorded. `cargo test` tries a fixed number of cases, the same each time; `just fuzz` tries new
//! ones for as long as it is told. An input that fails is made small and kept in the corpus.
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test may panic, and tells how far it is"
)]

mod books;
mod definitions;
mod documents;
mod hooks;
mod mutation;
mod settings;
mod texts;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mutation::{Mutation, mutated, mutations};
use phasegate_engine::digest::digest;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

/// For how many minutes new cases are tried, instead of the fixed ones.
const MINUTES: &str = "PHASEGATE_FUZZ_MINUTES";

/// How long one case may take. Machines are busy, and inputs small.
const MAX_TIME: Duration = Duration::from_secs(20);

/// How many cases are tried between two looks at the clock.
const BATCH: u32 = 64;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The files of a folder with their contents, in order.
fn files_in(folder: &str) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(root().join(folder)).into_iter().flatten().flatten();
    let files = entries.filter(|entry| entry.path().is_file()).map(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        (name, std::fs::read(entry.path()).unwrap())
    });
    files.collect::<BTreeMap<_, _>>().into_iter().collect()
}

/// Tries mutations of the corpus `name` and of more seeds; what a case must not do is an error.
#[track_caller]
fn fuzz(name: &str, cases: u32, more: Vec<Vec<u8>>, check: impl Fn(&[u8]) -> Result<(), String>) {
    let kept = files_in(&format!("fuzz/corpus/{name}"));
    let timed = |input: &[u8]| {
        let since = Instant::now();
        check(input)?;
        let took = since.elapsed();
        if took > MAX_TIME { Err(format!("it took {} seconds", took.as_secs())) } else { Ok(()) }
    };
    for (file, input) in &kept {
        timed(input).unwrap_or_else(|why| panic!("fuzz/corpus/{name}/{file}: {why}"));
    }
    let seeds: Vec<Vec<u8>> = kept.into_iter().map(|(_, input)| input).chain(more).collect();
    assert!(!seeds.is_empty(), "there is no seed for {name}");
    let strategy = (any::<prop::sample::Index>(), prop::collection::vec(mutations(), 1..8));
    let input = |(seed, changes): &(prop::sample::Index, Vec<Mutation>)| {
        mutated(&seeds, seed.index(seeds.len()), changes)
    };
    let one = |case: (prop::sample::Index, Vec<Mutation>)| {
        timed(&input(&case)).map_err(TestCaseError::fail)
    };
    let config = |cases| Config { cases, failure_persistence: None, ..Config::default() };
    let minutes: Option<f64> = std::env::var(MINUTES).ok().and_then(|it| it.parse().ok());
    let outcome = match minutes {
        None => {
            let same = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
            TestRunner::new_with_rng(config(cases), same).run(&strategy, one)
        }
        Some(minutes) => {
            let until = Instant::now() + Duration::from_secs_f64(minutes * 60.0);
            let mut tried = 0u64;
            loop {
                let outcome = TestRunner::new(config(BATCH)).run(&strategy, one);
                tried += u64::from(BATCH);
                if outcome.is_err() || Instant::now() > until {
                    eprintln!("{name}: {tried} cases");
                    break outcome;
                }
            }
        }
    };
    if let Err(TestError::Fail(why, case)) = &outcome {
        let found = input(case);
        let file = format!("fuzz/corpus/{name}/found-{}", &digest(&found)[..12]);
        let path = root().join(&file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &found).unwrap();
        panic!("{why}\nThe input is kept in {file}: {:?}", String::from_utf8_lossy(&found));
    }
    outcome.unwrap();
}
