//! A store in memory: what every store must do, without anything that only files do. Tests run the gate on
//! it, so that nothing file-shaped comes back into the interface.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{
    Batch, Held, Key, Lines, Lock, RunCopy, Sizes, Store, StoreError, Stored, Version, Watch,
};
use crate::journal;
use crate::run::RunId;

/// How long a lock is waited for.
const PATIENCE: Duration = Duration::from_secs(20);

/// A handle on a store: a clone is a handle on the same one.
#[derive(Clone, Default)]
pub struct MemoryStore(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    released: Condvar,
}

#[derive(Default)]
struct State {
    values: BTreeMap<Key, (u64, Vec<u8>)>,
    journals: BTreeMap<RunId, Vec<String>>,
    open: BTreeSet<RunId>,
    over: Vec<RunId>,
    locked: Vec<Lock>,
    aside: Vec<(String, Vec<u8>)>,
    pieces: BTreeMap<(RunId, String), Arc<[u8]>>,
    watchers: Vec<Watcher>,
    /// The number of the last version, and of the last watcher.
    count: u64,
}

/// Who is told of the changes of a run: a number, the run, and how.
type Watcher = (u64, RunId, Box<dyn Fn() + Send>);

struct Guard(Arc<Shared>, Lock);

impl Drop for Guard {
    fn drop(&mut self) {
        lock(&self.0.state).locked.retain(|lock| *lock != self.1);
        self.0.released.notify_all();
    }
}

struct Watching(Arc<Shared>, u64);

impl Watch for Watching {}

impl Drop for Watching {
    fn drop(&mut self) {
        lock(&self.0.state).watchers.retain(|(id, ..)| *id != self.1);
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    fn version(&self, key: &Key) -> Option<Version> {
        let (version, bytes) = self.values.get(key)?;
        Some(match key {
            Key::Document(_) => Version::of_document(bytes),
            _ => Version::new(version.to_string()),
        })
    }

    fn note_over(&mut self, run: &RunId) {
        if self.open.remove(run) {
            self.over.push(run.clone());
        }
    }
}

impl std::fmt::Debug for MemoryStore {
    fn fmt(&self, out: &mut std::fmt::Formatter) -> std::fmt::Result {
        out.write_str("MemoryStore")
    }
}

impl MemoryStore {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0.state)
    }
}

impl Store for MemoryStore {
    fn lock(&self, wanted: &Lock) -> Result<Held, StoreError> {
        let since = Instant::now();
        let mut state = self.state();
        while state.locked.contains(wanted) {
            let left = PATIENCE.saturating_sub(since.elapsed());
            if left.is_zero() {
                return Err(StoreError::Busy(wanted.clone(), PATIENCE.as_secs()));
            }
            let waited = self.0.released.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.locked.push(wanted.clone());
        let guard = Box::new(Guard(self.0.clone(), wanted.clone()));
        Ok(Held { repairs: Vec::new(), guard })
    }

    fn runs(&self) -> Result<Vec<RunId>, StoreError> {
        let state = self.state();
        let runs = state.values.keys().map(Key::run).chain(state.journals.keys());
        Ok(runs.cloned().collect::<BTreeSet<_>>().into_iter().collect())
    }

    fn has(&self, run: &RunId) -> Result<bool, StoreError> {
        let state = self.state();
        Ok(state.journals.contains_key(run) || state.values.keys().any(|key| key.run() == run))
    }

    fn open_runs(&self) -> Result<Vec<RunId>, StoreError> {
        Ok(self.state().open.iter().cloned().collect())
    }

    fn over_runs(&self, most: usize) -> Result<Vec<RunId>, StoreError> {
        let mut found: Vec<RunId> = Vec::new();
        for run in self.state().over.iter().rev() {
            if found.len() < most && !found.contains(run) {
                found.push(run.clone());
            }
        }
        Ok(found)
    }

    fn note_over(&self, run: &RunId) {
        self.state().note_over(run);
    }

    fn get(&self, key: &Key) -> Result<Option<Stored>, StoreError> {
        let state = self.state();
        let version = state.version(key);
        let value = state.values.get(key).zip(version);
        Ok(value.map(|((_, bytes), version)| Stored { bytes: bytes.clone(), version }))
    }

    fn version(&self, key: &Key) -> Result<Option<Version>, StoreError> {
        Ok(self.state().version(key))
    }

    fn commit(&self, run: &RunId, batch: &Batch) -> Result<(), StoreError> {
        let mut state = self.state();
        let expected = batch.puts.iter().map(|put| (&put.key, put.expected.as_ref()));
        let removed = batch.remove.iter().map(|(key, version)| (key, Some(version)));
        if expected.chain(removed).any(|(key, version)| state.version(key).as_ref() != version) {
            return Err(StoreError::Conflict(format!("the bookkeeping of run {run}")));
        }
        for piece in &batch.pieces {
            state.pieces.insert((run.clone(), piece.digest.clone()), piece.bytes.clone());
        }
        if let Some(line) = batch.line {
            state.journals.entry(run.clone()).or_default().push(line.to_string());
        }
        for put in &batch.puts {
            state.count += 1;
            let value = (state.count, put.bytes.clone());
            state.values.insert(put.key.clone(), value);
        }
        for (key, _) in &batch.remove {
            state.values.remove(key);
        }
        if batch.open {
            state.open.insert(run.clone());
        } else {
            state.note_over(run);
        }
        for (_, _, changed) in state.watchers.iter().filter(|(_, watched, _)| watched == run) {
            changed();
        }
        Ok(())
    }

    fn piece_size(&self, run: &RunId, digest: &str) -> Option<u64> {
        let state = self.state();
        state.pieces.get(&(run.clone(), digest.to_string())).map(|bytes| bytes.len() as u64)
    }

    fn piece(&self, run: &RunId, digest: &str) -> Option<Vec<u8>> {
        let state = self.state();
        state.pieces.get(&(run.clone(), digest.to_string())).map(|bytes| bytes.to_vec())
    }

    fn pieces(&self, run: &RunId) -> Result<Vec<String>, StoreError> {
        let state = self.state();
        let own = state.pieces.keys().filter(|(of, _)| of == run);
        Ok(own.map(|(_, digest)| digest.clone()).collect())
    }

    fn restore(&self, run: &RunId, copy: &RunCopy) -> Result<(), StoreError> {
        let mut state = self.state();
        for (key, bytes) in &copy.values {
            state.count += 1;
            let value = (state.count, bytes.clone());
            state.values.insert(key.clone(), value);
        }
        for piece in &copy.pieces {
            state.pieces.insert((run.clone(), piece.digest.clone()), piece.bytes.clone());
        }
        state.journals.insert(run.clone(), copy.lines.clone());
        state.open.insert(run.clone());
        if !copy.open {
            state.note_over(run);
        }
        Ok(())
    }

    fn set_aside(&self, key: &Key) -> Result<String, StoreError> {
        let mut state = self.state();
        let name = format!("{key:?}, number {}", state.aside.len() + 1);
        if let Some((_, bytes)) = state.values.remove(key) {
            state.aside.push((name.clone(), bytes));
        }
        Ok(name)
    }

    fn set_journal_aside(&self, run: &RunId) -> Result<String, StoreError> {
        let mut state = self.state();
        let name = format!("the journal of {run}, number {}", state.aside.len() + 1);
        let lines = state.journals.remove(run).unwrap_or_default();
        state.aside.push((name.clone(), lines.join("\n").into_bytes()));
        Ok(name)
    }

    fn forwards(&self, run: &RunId) -> Lines<'_> {
        let lines = self.state().journals.get(run).cloned().unwrap_or_default();
        Box::new(lines.into_iter().map(Ok))
    }

    fn backwards(&self, run: &RunId) -> Lines<'_> {
        let lines = self.state().journals.get(run).cloned().unwrap_or_default();
        Box::new(lines.into_iter().rev().map(Ok))
    }

    fn after(&self, run: &RunId, seq: u64) -> Lines<'_> {
        let is_known = move |line: &Result<String, StoreError>| {
            line.as_ref().is_ok_and(|line| journal::seq(line).is_none_or(|number| number <= seq))
        };
        Box::new(self.forwards(run).skip_while(is_known))
    }

    fn before(&self, run: &RunId, seq: u64) -> Lines<'_> {
        let is_newer = move |line: &Result<String, StoreError>| {
            line.as_ref().is_ok_and(|line| journal::seq(line).is_none_or(|number| number >= seq))
        };
        Box::new(self.backwards(run).skip_while(is_newer))
    }

    fn sizes(&self, run: &RunId) -> Sizes {
        let state = self.state();
        let own = |key: &Key| key.run() == run;
        let values = state.values.iter().filter(|(key, _)| own(key));
        let values = values.map(|(key, (_, bytes))| (matches!(key, Key::Definition(_)), bytes));
        let lines = state.journals.get(run).into_iter().flatten().map(|line| line.len() + 1);
        let pieces = state.pieces.iter().filter(|((of, _), _)| of == run);
        let pieces: usize = pieces.map(|(_, bytes)| bytes.len()).sum();
        let (definitions, ledgers): (Vec<_>, Vec<_>) = values.partition(|(is_one, _)| *is_one);
        let sum = |all: Vec<(bool, &Vec<u8>)>| all.iter().map(|(_, it)| it.len()).sum::<usize>();
        let apart = pieces + sum(definitions);
        let all = apart + sum(ledgers) + lines.sum::<usize>();
        Sizes { all: all as u64, apart: apart as u64 }
    }

    fn strip(&self, run: &RunId, first: u64) -> Result<(), StoreError> {
        let mut state = self.state();
        state.values.remove(&Key::Definition(run.clone()));
        state.pieces.retain(|(of, _), _| of != run);
        if let Some(lines) = state.journals.get_mut(run) {
            lines.retain(|line| journal::position(line).is_none_or(|(seq, _)| seq >= first));
        }
        Ok(())
    }

    fn remove(&self, run: &RunId) -> Result<(), StoreError> {
        let mut state = self.state();
        state.values.retain(|key, _| key.run() != run);
        state.pieces.retain(|(of, _), _| of != run);
        state.journals.remove(run);
        Ok(())
    }

    fn half_removed(&self) -> u64 {
        0
    }

    fn tidy(&self) -> Result<(), StoreError> {
        let mut state = self.state();
        let known: BTreeSet<RunId> = state.values.keys().map(|key| key.run().clone()).collect();
        state.over.retain(|run| known.contains(run));
        Ok(())
    }

    fn watch(
        &self,
        run: &RunId,
        changed: Box<dyn Fn() + Send>,
    ) -> Result<Box<dyn Watch>, StoreError> {
        let mut state = self.state();
        state.count += 1;
        let id = state.count;
        state.watchers.push((id, run.clone(), changed));
        Ok(Box::new(Watching(self.0.clone(), id)))
    }
}
