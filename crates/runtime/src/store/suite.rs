//! What every store must do. The same tests run on each.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::mpsc;
use std::time::Duration;

use phasegate_engine::digest::digest;

use super::memory::MemoryStore;
use super::{Batch, FileStore, Key, Lock, Piece, Put, Store, StoreError, Version};
use crate::run::RunId;

/// Makes another handle on the same store, as another process would have.
type Handle<'h> = &'h (dyn Fn() -> Box<dyn Store> + Sync);

macro_rules! on_each_store {
    ($($name:ident),* $(,)?) => {
        mod files {
            $(#[test]
            fn $name() {
                let folder = tempfile::tempdir().unwrap();
                let root = folder.path().canonicalize().unwrap();
                super::$name(&|| Box::new(super::FileStore::new(&root)));
            })*
        }
        mod memory {
            $(#[test]
            fn $name() {
                // A handle is given to each thread, never the store itself.
                let store = std::sync::Mutex::new(super::MemoryStore::default());
                super::$name(&|| Box::new(store.lock().unwrap().clone()));
            })*
        }
    };
}

on_each_store!(
    a_value_is_replaced_only_if_it_is_still_what_was_read,
    a_batch_counts_as_a_whole_or_not_at_all,
    a_value_that_is_superfluous_goes_with_the_batch,
    a_journal_is_read_from_both_ends,
    a_lock_is_held_by_one,
    the_index_knows_what_is_open_and_what_was_over_last,
    what_cannot_be_understood_is_kept_aside,
    whoever_watches_a_run_hears_of_its_changes,
    evidence_is_found_by_its_digest,
);

fn run(name: &str) -> RunId {
    RunId { workflow: "work flow".into(), name: name.into() }
}

fn put(key: Key, expected: Option<Version>, text: &str) -> Put {
    Put { key, expected, bytes: format!("{text}\n").into_bytes() }
}

fn batch(line: Option<&str>, puts: Vec<Put>) -> Batch<'_> {
    Batch { line, puts, remove: None, open: true, pieces: Vec::new() }
}

fn text(store: &dyn Store, key: &Key) -> Option<String> {
    let stored = store.get(key).unwrap()?;
    assert_eq!(store.version(key).unwrap(), Some(stored.version));
    Some(String::from_utf8(stored.bytes).unwrap())
}

fn lines(store: &dyn Store, run: &RunId) -> Vec<String> {
    store.forwards(run).map(Result::unwrap).collect()
}

fn locked(store: &dyn Store, run: &RunId) -> super::Held {
    store.lock(&Lock::Run(run.clone())).unwrap()
}

fn a_value_is_replaced_only_if_it_is_still_what_was_read(store: Handle) {
    let (one, other, run) = (store(), store(), run("a"));
    let key = Key::Ledger(run.clone());
    let _held = locked(&*one, &run);
    assert_eq!(one.version(&key).unwrap(), None);
    one.commit(&run, &batch(None, vec![put(key.clone(), None, "first")])).unwrap();
    let first = other.version(&key).unwrap();
    other.commit(&run, &batch(None, vec![put(key.clone(), first.clone(), "second")])).unwrap();
    for expected in [None, first] {
        let late = batch(None, vec![put(key.clone(), expected, "late")]);
        assert!(matches!(one.commit(&run, &late), Err(StoreError::Conflict(_))));
    }
    assert_eq!(text(&*one, &key).unwrap(), "second\n");
    assert_eq!(text(&*one, &Key::Ledger(self::run("b"))), None, "another run has its own");
    assert_eq!(text(&*one, &Key::Definition(run)), None);
}

fn a_batch_counts_as_a_whole_or_not_at_all(store: Handle) {
    let (store, run) = (store(), run("a/b"));
    let (ledger, definition) = (Key::Ledger(run.clone()), Key::Definition(run.clone()));
    let _held = locked(&*store, &run);
    let both = |expected: Option<Version>, text: &str| {
        vec![put(ledger.clone(), expected, text), put(definition.clone(), None, text)]
    };
    store.commit(&run, &batch(Some("1"), both(None, "one"))).unwrap();
    assert_eq!(lines(&*store, &run), ["1"]);
    assert_eq!(text(&*store, &definition).unwrap(), "one\n");
    // The ledger fits, the definition does not.
    let version = store.version(&ledger).unwrap();
    assert!(store.commit(&run, &batch(Some("2"), both(version, "two"))).is_err());
    assert_eq!(lines(&*store, &run), ["1"], "the line is not written either");
    assert_eq!(text(&*store, &ledger).unwrap(), "one\n");
}

fn a_value_that_is_superfluous_goes_with_the_batch(store: Handle) {
    let (store, run) = (store(), run("a"));
    let (new, old) = (Key::Ledger(run.clone()), Key::OldLedger(run.clone()));
    let _held = locked(&*store, &run);
    store.commit(&run, &batch(None, vec![put(old.clone(), None, "old")])).unwrap();
    let version = store.version(&old).unwrap().unwrap();
    let remove = Some((old.clone(), version));
    let puts = vec![put(new.clone(), None, "new")];
    store.commit(&run, &Batch { remove, ..batch(None, puts) }).unwrap();
    assert_eq!(text(&*store, &new).unwrap(), "new\n");
    assert_eq!(text(&*store, &old), None);
}

fn a_journal_is_read_from_both_ends(store: Handle) {
    let (store, run) = (store(), run("a"));
    let _held = locked(&*store, &run);
    assert!(store.backwards(&run).next().is_none());
    // Longer and shorter than whatever is read at once.
    let wanted: Vec<String> = (0..200).map(|at| format!("{at} {}", "é".repeat(at * 37))).collect();
    for line in &wanted {
        store.commit(&run, &batch(Some(line), Vec::new())).unwrap();
    }
    assert_eq!(lines(&*store, &run), wanted);
    let mut back: Vec<String> = store.backwards(&run).map(Result::unwrap).collect();
    back.reverse();
    assert_eq!(back, wanted);
}

fn a_lock_is_held_by_one(store: Handle) {
    let run = run("a");
    let (said, heard) = mpsc::channel();
    let held = locked(&*store(), &run);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let other = store();
            // Another run, or the workflow, is another thing.
            drop(other.lock(&Lock::Run(self::run("b"))).unwrap());
            drop(other.lock(&Lock::Workflow(run.workflow.clone())).unwrap());
            let _held = locked(&*other, &run);
            said.send(()).unwrap();
        });
        assert!(heard.recv_timeout(Duration::from_millis(200)).is_err(), "it has the lock, too");
        drop(held);
        heard.recv_timeout(Duration::from_secs(10)).unwrap();
    });
}

fn the_index_knows_what_is_open_and_what_was_over_last(store: Handle) {
    let store = store();
    let names = ["a", "b", "c", "d"].map(run);
    let change = |run: &RunId, open: bool| {
        let key = Key::Ledger(run.clone());
        let _held = locked(&*store, run);
        let puts = vec![put(key.clone(), store.version(&key).unwrap(), "x")];
        store.commit(run, &Batch { open, ..batch(None, puts) }).unwrap();
    };
    for run in &names {
        change(run, true);
    }
    for at in [2, 0] {
        change(&names[at], false);
        change(&names[at], false);
    }
    store.note_over(&names[1]);
    let mut open = store.open_runs();
    open.sort();
    assert_eq!(open, [names[3].clone()]);
    assert_eq!(store.over_runs(2), [names[1].clone(), names[0].clone()]);
    // One that is begun again is open again.
    change(&names[1], true);
    assert_eq!(store.open_runs().len(), 2);
    change(&names[1], false);
    assert_eq!(store.over_runs(9).len(), 3, "nobody is listed twice");
    let mut all = store.runs();
    all.sort();
    assert_eq!(all, names);
    assert!(store.has(&names[2]) && !store.has(&run("z")));
}

fn what_cannot_be_understood_is_kept_aside(store: Handle) {
    let (store, run) = (store(), run("a"));
    let key = Key::Ledger(run.clone());
    let _held = locked(&*store, &run);
    let mut kept = Vec::new();
    for _ in 0..2 {
        store.commit(&run, &batch(Some("?"), vec![put(key.clone(), None, "{{{")])).unwrap();
        kept.push(store.set_aside(&key).unwrap());
        assert_eq!(text(&*store, &key), None);
        kept.push(store.set_journal_aside(&run).unwrap());
        assert_eq!(lines(&*store, &run), Vec::<String>::new());
    }
    kept.sort();
    kept.dedup();
    assert_eq!(kept.len(), 4, "nothing is kept over something else: {kept:?}");
}

fn whoever_watches_a_run_hears_of_its_changes(store: Handle) {
    let (one, other, run) = (store(), store(), run("a"));
    let commit = |text: &str| {
        let key = Key::Ledger(run.clone());
        let puts = vec![put(key.clone(), other.version(&key).unwrap(), text)];
        other.commit(&run, &batch(None, puts)).unwrap();
    };
    drop(locked(&*one, &run));
    commit("first");
    let (said, heard) = mpsc::channel();
    let told = move || {
        let _ = said.send(());
    };
    let watch = one.watch(&run, Box::new(told)).unwrap();
    while heard.recv_timeout(Duration::from_millis(100)).is_ok() {}
    commit("second");
    heard.recv_timeout(Duration::from_secs(10)).unwrap();
    drop(watch);
    while heard.recv_timeout(Duration::from_millis(100)).is_ok() {}
    commit("third");
    assert!(heard.recv_timeout(Duration::from_millis(300)).is_err());
}

fn evidence_is_found_by_its_digest(store: Handle) {
    let (one, other, run) = (store(), store(), run("a"));
    let _held = locked(&*one, &run);
    let piece =
        |text: &str| Piece { digest: digest(text.as_bytes()), bytes: text.as_bytes().into() };
    let (first, second) = (piece("first"), piece("second"));
    let pieces = vec![first.clone(), second.clone()];
    one.commit(&run, &Batch { pieces, ..batch(Some("1"), Vec::new()) }).unwrap();
    one.commit(&run, &Batch { pieces: vec![first.clone()], ..batch(Some("2"), Vec::new()) })
        .unwrap();
    assert_eq!(other.piece(&run, &first.digest).as_deref(), Some(&b"first"[..]));
    assert_eq!(other.piece_size(&run, &second.digest), Some(6));
    assert_eq!(other.piece(&run, &digest(b"third")), None);
    assert_eq!(other.piece(&run, "../../journal.jsonl"), None);
    assert_eq!(other.piece(&self::run("b"), &first.digest), None, "another run has its own");
}
