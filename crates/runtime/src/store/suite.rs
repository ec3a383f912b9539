//! What every store must do. The same tests run on each.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::mpsc;
use std::time::Duration;

use phasegate_engine::digest::digest;

use super::memory::MemoryStore;
use super::transfer::{Transferred, in_order, transfer};
use super::{
    Batch, FileStore, Key, Lock, Piece, PostgresStore, Put, RunCopy, Store, StoreError, Version,
};
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
        mod postgres {
            $(#[test]
            fn $name() {
                let Some(server) = crate::store::server::shared() else { return };
                let url = server.database();
                let folder = tempfile::tempdir().unwrap();
                let store = || super::PostgresStore::new(folder.path(), &url, Some("project"));
                store().migrate().unwrap();
                super::$name(&|| Box::new(store()));
            })*
        }
    };
}

on_each_store!(
    a_value_is_replaced_only_if_it_is_still_what_was_read,
    a_batch_counts_as_a_whole_or_not_at_all,
    a_value_that_is_superfluous_goes_with_the_batch,
    a_journal_is_read_from_both_ends,
    a_journal_is_read_from_any_line,
    a_lock_is_held_by_one,
    the_index_knows_what_is_open_and_what_was_over_last,
    what_cannot_be_understood_is_kept_aside,
    whoever_watches_a_run_hears_of_its_changes,
    evidence_is_found_by_its_digest,
    what_is_over_can_be_stripped_or_removed,
    a_document_is_known_by_its_content,
    a_run_is_copied_byte_for_byte,
);

fn run(name: &str) -> RunId {
    RunId { workflow: "work flow".into(), name: name.into() }
}

fn put(key: Key, expected: Option<Version>, text: &str) -> Put {
    Put { key, expected, bytes: format!("{text}\n").into_bytes() }
}

fn batch(line: Option<&str>, puts: Vec<Put>) -> Batch<'_> {
    Batch { line, puts, open: true, ..Batch::default() }
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
    let remove = vec![(old.clone(), version)];
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

fn a_journal_is_read_from_any_line(store: Handle) {
    let (store, run) = (store(), run("a"));
    let _held = locked(&*store, &run);
    assert!(store.after(&run, 0).next().is_none() && store.before(&run, 9).next().is_none());
    let line = |at: u64| {
        let long = "é".repeat(usize::try_from(at % 50).unwrap() * 211);
        format!("{{\"seq\":{at},\"text\":\"{long}\"}}")
    };
    let wanted: Vec<String> = (1..=300).map(line).collect();
    for line in &wanted {
        store.commit(&run, &batch(Some(line), Vec::new())).unwrap();
    }
    for at in [0, 1, 2, 49, 50, 51, 149, 150, 299, 300, 301, 1000] {
        let after: Vec<String> = store.after(&run, at).map(Result::unwrap).collect();
        let known = usize::try_from(at).unwrap().min(300);
        assert_eq!(after, wanted[known..], "after {at}");
        let mut before: Vec<String> = store.before(&run, at).map(Result::unwrap).collect();
        before.reverse();
        let count = usize::try_from(at.saturating_sub(1)).unwrap().min(300);
        assert_eq!(before, wanted[..count], "before {at}");
    }
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
    let mut open = store.open_runs().unwrap();
    open.sort();
    assert_eq!(open, [names[3].clone()]);
    assert_eq!(store.over_runs(2).unwrap(), [names[1].clone(), names[0].clone()]);
    // One that is begun again is open again.
    change(&names[1], true);
    assert_eq!(store.open_runs().unwrap().len(), 2);
    change(&names[1], false);
    assert_eq!(store.over_runs(9).unwrap().len(), 3, "nobody is listed twice");
    let mut all = store.runs().unwrap();
    all.sort();
    assert_eq!(all, names);
    assert!(store.has(&names[2]).unwrap() && !store.has(&run("z")).unwrap());
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

fn what_is_over_can_be_stripped_or_removed(store: Handle) {
    let (one, other, run) = (store(), store(), run("a"));
    let line = |seq: u64| {
        let before = if seq > 1 { (seq - 1).to_string() } else { String::new() };
        format!("{{\"seq\":{seq},\"prev\":\"{before}\",\"hash\":\"{seq}\"}}")
    };
    let keys = [Key::Ledger(run.clone()), Key::Definition(run.clone())];
    let piece = Piece { digest: digest(b"first"), bytes: b"first".as_slice().into() };
    {
        let _held = locked(&*one, &run);
        for seq in 1..=3 {
            let puts = if seq == 1 {
                keys.iter().map(|key| put(key.clone(), None, "text")).collect()
            } else {
                Vec::new()
            };
            let (pieces, line) = (vec![piece.clone()], line(seq));
            one.commit(&run, &Batch { pieces, open: seq < 3, ..batch(Some(&line), puts) }).unwrap();
        }
        let _removal = one.lock(&Lock::Removal).unwrap();
        assert_eq!(other.sizes(&run).apart, 5 + 5);
        one.strip(&run, 2).unwrap();
        assert_eq!(other.sizes(&run).apart, 0);
        let left: Vec<String> = other.forwards(&run).map(Result::unwrap).collect();
        assert_eq!(left, [line(2), line(3)]);
        assert!(other.get(&keys[0]).unwrap().is_some() && other.get(&keys[1]).unwrap().is_none());
        assert_eq!(other.piece(&run, &piece.digest), None);
        assert_eq!(other.over_runs(2).unwrap(), std::slice::from_ref(&run));
        one.remove(&run).unwrap();
        one.tidy().unwrap();
    }
    assert!(
        !other.has(&run).unwrap()
            && other.over_runs(2).unwrap().is_empty()
            && other.half_removed() == 0
    );
    // Its name is free.
    let _held = locked(&*other, &run);
    other.commit(&run, &batch(Some(&line(1)), Vec::new())).unwrap();
    assert_eq!(one.forwards(&run).count(), 1);
}

fn a_document_is_known_by_its_content(store: Handle) {
    let (one, other, run) = (store(), store(), run("a"));
    let (ledger, document) = (Key::Ledger(run.clone()), Key::Document(run.clone()));
    let _held = locked(&*one, &run);
    assert_eq!(one.version(&document).unwrap(), None);
    let puts = vec![put(ledger.clone(), None, "l"), put(document.clone(), None, "first")];
    one.commit(&run, &Batch { shared: true, ..batch(Some("1"), puts) }).unwrap();
    assert_eq!(text(&*other, &document).unwrap(), "first\n");
    let first = Version::of_document(b"first\n");
    assert_eq!(other.version(&document).unwrap().as_ref(), Some(&first));
    // What is expected is compared before anything is written.
    let known = one.version(&ledger).unwrap();
    let late = vec![
        put(ledger.clone(), known.clone(), "late"),
        put(document.clone(), Some(Version::of_document(b"another")), "late"),
    ];
    assert!(matches!(one.commit(&run, &batch(Some("2"), late)), Err(StoreError::Conflict(_))));
    assert_eq!((text(&*one, &ledger).unwrap(), lines(&*one, &run).len()), ("l\n".into(), 1));
    let puts = vec![put(document.clone(), Some(first.clone()), "second")];
    one.commit(&run, &batch(Some("2"), puts)).unwrap();
    let gone = |version: Version| {
        let remove = vec![(document.clone(), version)];
        Batch { remove, ..batch(Some("3"), vec![put(ledger.clone(), known.clone(), "end")]) }
    };
    assert!(matches!(one.commit(&run, &gone(first)), Err(StoreError::Conflict(_))));
    assert_eq!(text(&*one, &ledger).unwrap(), "l\n");
    one.commit(&run, &gone(Version::of_document(b"second\n"))).unwrap();
    assert_eq!((text(&*other, &document), lines(&*other, &run).len()), (None, 3));
}

fn a_run_is_copied_byte_for_byte(store: Handle) {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let files = FileStore::new(folder.path());
    let names = ["over first", "b/c", "over last"].map(run);
    let line = |seq: u64| {
        let before = if seq > 7 { (seq - 1).to_string() } else { "pruned".into() };
        format!("{{\"seq\":{seq},\"text\":\"é\\n\",\"prev\":\"{before}\",\"hash\":\"{seq}\"}}")
    };
    for run in &names {
        let _held = locked(&files, run);
        let keys = [Key::Definition(run.clone()), Key::Document(run.clone())];
        let values = keys.into_iter().chain([Key::Ledger(run.clone())]);
        let text = format!("{run}\0\n").into_bytes();
        let piece = Piece { digest: digest(&text), bytes: text.clone().into() };
        let copy = RunCopy {
            values: values.map(|key| (key, text.clone())).collect(),
            // Of one that was pruned, the first lines are gone.
            lines: (7..1200).map(line).collect(),
            pieces: vec![piece],
            open: !run.name.starts_with("over"),
            shared: true,
        };
        files.restore(run, &copy).unwrap();
    }
    // There, and back to another folder.
    let (there, back) = (store(), FileStore::new(other.path()));
    for (from, to) in [(&files as &dyn Store, &*there), (&*there, &back as &dyn Store)] {
        for run in in_order(from).unwrap() {
            assert_eq!(transfer(from, to, &run).unwrap(), Transferred::New);
            assert_eq!(transfer(from, to, &run).unwrap(), Transferred::Same, "once is enough");
        }
        assert_eq!(to.over_runs(9).unwrap(), [names[2].clone(), names[0].clone()]);
        assert_eq!(to.open_runs().unwrap(), [names[1].clone()]);
    }
    let read = |store: &FileStore, run: &RunId| {
        let key = [Key::Ledger, Key::Definition, Key::Document].map(|key| key(run.clone()));
        let values = key.map(|key| store.get(&key).unwrap().unwrap().bytes);
        let pieces = store.pieces(run).unwrap();
        let piece = store.piece(run, &pieces[0]).unwrap();
        (values, lines(store, run), pieces, piece)
    };
    for run in &names {
        assert_eq!(read(&files, run), read(&back, run));
        // The next line follows.
        let held = locked(&*there, run);
        there.commit(run, &batch(Some(&line(1200)), Vec::new())).unwrap();
        drop(held);
        assert!(matches!(transfer(&files, &*there, run), Err(StoreError::Refused(_))));
    }
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
