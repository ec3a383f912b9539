//! Real clients, offline: their models are a script behind an API on loopback. Each goes through
//! the same steps, and the results are printed as a table.
//!
//! `PHASEGATE_TEST_CLIENTS=install` fetches them from npm; without it, or without a network, they are
//! skipped, which is said. Arguments choose clients by name.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![expect(clippy::print_stdout, reason = "the table is what this prints")]

#[path = "../real/mod.rs"]
#[allow(dead_code, reason = "shared with the tests of one client")]
mod real;

mod kits;
mod server;
mod steps;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Instant;

use kits::{KITS, Kit};
use real::npm;
use real::scene::repository;
use steps::{Bench, STEPS};

/// `install` fetches the clients; `required` makes it a failure if one cannot be had.
const CHOICE: &str = "PHASEGATE_TEST_CLIENTS";

/// What has the table that this prints.
const DOCS: &str = "docs/clients.md";

/// What came of a client.
enum Row {
    Skipped(String),
    /// What is said in each column, or why it failed.
    Ran(Vec<Result<String, String>>),
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // Others ask only which tests there are.
    if arguments.iter().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS;
    }
    let names: Vec<&String> = arguments.iter().filter(|it| !it.starts_with('-')).collect();
    let is_meant = |kit: &&Kit| names.is_empty() || names.iter().any(|name| *name == kit.name);
    let began = Instant::now();
    let rows: Vec<(&'static Kit, Row)> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            KITS.iter().filter(is_meant).map(|kit| (kit, scope.spawn(move || row(kit)))).collect();
        threads.into_iter().map(|(kit, thread)| (kit, thread.join().unwrap())).collect()
    });
    report(&rows, began)
}

/// Takes a client through all steps. One that fails does not keep the others from it.
fn row(kit: &'static Kit) -> Row {
    let choice = std::env::var(CHOICE).unwrap_or_default();
    let scene = match choice.as_str() {
        "install" | "required" => kit.scene(),
        _ => Err(format!("{CHOICE}=install fetches it")),
    };
    let scene = match scene {
        Ok(scene) => scene,
        Err(why) if choice == "required" => return Row::Ran(vec![Err(why)]),
        Err(why) => return Row::Skipped(why),
    };
    let bench = Bench::new(kit, scene);
    let done = STEPS.iter().map(|(_, step)| {
        catch_unwind(AssertUnwindSafe(|| step(&bench))).map_err(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
            text.unwrap_or_else(|| "it panicked".into())
        })
    });
    Row::Ran(done.collect())
}

/// Prints the table, why something failed, and the counts.
fn report(rows: &[(&Kit, Row)], began: Instant) -> ExitCode {
    let columns: Vec<&str> = STEPS.iter().map(|(column, _)| *column).collect();
    println!("\n| client | version | {} |", columns.join(" | "));
    println!("|{}", "---|".repeat(columns.len() + 2));
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    let docs = std::fs::read_to_string(repository().join(DOCS)).unwrap();
    let mut unsaid = 0;
    for (kit, row) in rows {
        let cells: Vec<String> = match row {
            Row::Skipped(_) => vec!["skipped".into(); columns.len()],
            Row::Ran(cells) => {
                let shown = |cell: &Result<String, String>| match cell {
                    Ok(text) => text.clone(),
                    Err(_) => "FAILED".into(),
                };
                cells.iter().map(shown).collect()
            }
        };
        let line = format!("| {} | {} | {} |", kit.name, kit.version, cells.join(" | "));
        println!("{line}");
        unsaid += usize::from(matches!(row, Row::Ran(_)) && !docs.contains(&line));
    }
    println!();
    if unsaid > 0 {
        println!("FAILED: {DOCS} does not have {unsaid} of these lines\n");
    }
    for (kit, row) in rows {
        match row {
            Row::Skipped(why) => {
                skipped += columns.len();
                npm::skip(&format!("clients: {} {} is not there: {why}", kit.name, kit.version));
            }
            Row::Ran(cells) => {
                for (column, cell) in columns.iter().zip(cells) {
                    match cell {
                        Ok(_) => passed += 1,
                        Err(why) => {
                            failed += 1;
                            println!("FAILED: {}: {column}: {why}\n", kit.name);
                        }
                    }
                }
            }
        }
    }
    failed += unsaid;
    let result = if failed == 0 { "ok" } else { "FAILED" };
    println!(
        "test result: {result}. {passed} passed; {failed} failed; {skipped} skipped; \
         finished in {:.2}s\n",
        began.elapsed().as_secs_f64()
    );
    ExitCode::from(u8::from(failed > 0))
}
