//! The store of several machines, on PostgreSQL.
//!
//! One transition is one transaction and one round trip: the function `commit_1` compares what was read with what is
//! there, and writes all of it or nothing. Between the processes of a machine the kernel's locks decide, as with files;
//! between machines whoever comes first, and the other decides again.

mod address;
mod connect;
pub mod fleet;
pub mod identity;
mod lines;
#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::print_stdout, reason = "a test may panic and print")]
mod measured;
pub mod queue;
mod restore;
mod schema;
mod status;
mod tls;
mod transition;

use std::cell::OnceCell;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use phasegate_engine::digest::digest as digest_of;
use phasegate_engine::functions::filename;
use postgres::types::{ToSql, Type};
use postgres::{Client, Error, Row};

use super::locks::locked;
use super::{
    Batch, Held, Key, Lines, Lock, RunCopy, Sizes, Store, StoreError, Stored, Version, Watch,
};
use crate::fault_point;
use crate::paths::ignored_by_git;
use crate::run::RunId;
use crate::whole_file::failed;
use address::Address;
pub use connect::jittered;
use connect::{Link, UNTIL_KNOWN};
use identity::Identity;
use lines::Pages;
pub use status::Status;

/// How often a run that is watched is looked at.
const POLL: Duration = Duration::from_secs(1);

/// How long transitions are remembered whose answers may still be asked for.
const REMEMBERED: &str = "1 day";

/// A store on PostgreSQL, as one project on one machine sees it.
pub struct PostgresStore {
    root: PathBuf,
    /// What the configuration calls the project.
    named: Option<String>,
    identity: OnceCell<Identity>,
    link: Link,
}

/// The run that a machine means by a name, its own or else the one of all machines: `$1` to `$4` are its project, this
/// machine's site, its workflow and its name.
const FIND: &str = "(SELECT id FROM phasegate.run WHERE project = $1 AND workflow = $3 \
     AND name = $4 AND site IN ($2, '') ORDER BY site DESC LIMIT 1)";

type Parameter<'p> = (&'p (dyn ToSql + Sync), Type);

impl PostgresStore {
    /// The store at an address, for the project at `root`. Nothing is asked of the server yet.
    pub fn new(root: &Path, url: &str, named: Option<&str>) -> PostgresStore {
        PostgresStore::with(root, Address::read(url), named)
    }

    /// A store that is not asked, and why: whoever wants something of it is told.
    pub fn refusing(root: &Path, why: String) -> PostgresStore {
        PostgresStore::with(root, Err(why), None)
    }

    fn with(root: &Path, address: Result<Address, String>, named: Option<&str>) -> PostgresStore {
        PostgresStore {
            root: root.to_path_buf(),
            named: named.map(str::to_string),
            identity: OnceCell::new(),
            link: Link::new(address),
        }
    }

    /// Which project this is, and on which machine.
    pub fn identity(&self) -> Result<&Identity, StoreError> {
        if let Some(identity) = self.identity.get() {
            return Ok(identity);
        }
        let identity = Identity::of(&self.root, self.named.as_deref())?;
        Ok(self.identity.get_or_init(|| identity))
    }

    /// Where the server is, as people are told.
    pub fn name(&self) -> String {
        self.link.name()
    }

    /// What was passed over on the way to the server, and why.
    pub fn notes(&self) -> &[String] {
        self.link.notes()
    }

    /// Makes the tables that are missing; which versions were.
    pub fn migrate(&self) -> Result<Vec<i32>, StoreError> {
        let by = format!("phasegate {} on {}", env!("CARGO_PKG_VERSION"), identity::machine()?);
        self.ask(|client| schema::migrate(client, &by))
    }

    /// Asks something that changes nothing, or that comes to the same when it happens twice.
    pub fn ask<T>(
        &self,
        mut question: impl FnMut(&mut Client) -> Result<T, Error>,
    ) -> Result<T, StoreError> {
        self.link.ask(Duration::ZERO, |connection| question(&mut connection.client))
    }

    /// The same, where it must be known what has become of it.
    pub fn insist<T>(
        &self,
        mut question: impl FnMut(&mut Client) -> Result<T, Error>,
    ) -> Result<T, StoreError> {
        self.link.ask(UNTIL_KNOWN, |connection| question(&mut connection.client))
    }

    /// Makes the folder by which the project is found here, where it has none.
    fn mark(&self) -> io::Result<()> {
        let folder = self.root.join(".phasegate");
        if folder.exists() {
            return Ok(());
        }
        fs::create_dir_all(folder.join("runs"))?;
        ignored_by_git(&folder.join("runs"))
    }

    /// Where this machine's processes wait for each other.
    fn lock_folder(&self, lock: &Lock) -> Result<PathBuf, StoreError> {
        Ok(self.identity()?.locks()?.join(filename(&lock.to_string())))
    }

    /// Asks something about a run: `$1` to `$4` say which.
    fn about(
        &self,
        run: &RunId,
        query: &str,
        others: &[Parameter],
    ) -> Result<Vec<Row>, StoreError> {
        let Identity { project, site } = self.identity()?;
        let mut parameters: Vec<Parameter> = vec![
            (project, Type::TEXT),
            (site, Type::TEXT),
            (&run.workflow, Type::TEXT),
            (&run.name, Type::TEXT),
        ];
        parameters.extend(others.iter().cloned());
        self.ask(|client| client.query_typed(query, &parameters))
    }

    /// Asks for runs of the project: `$1` is the project, `$2` this machine's site.
    fn find(&self, query: &str, others: &[Parameter]) -> Result<Vec<RunId>, StoreError> {
        let Identity { project, site } = self.identity()?;
        let mut parameters: Vec<Parameter> = vec![(project, Type::TEXT), (site, Type::TEXT)];
        parameters.extend(others.iter().cloned());
        let rows = self.ask(|client| client.query_typed(query, &parameters))?;
        let run = |row: Row| RunId { workflow: row.get(0), name: row.get(1) };
        Ok(rows.into_iter().map(run).collect())
    }
}

impl std::fmt::Debug for PostgresStore {
    fn fmt(&self, out: &mut std::fmt::Formatter) -> std::fmt::Result {
        out.write_str(&self.name())
    }
}

/// What a value is called in the store. Its version is the digest of its content, which is what every version must be of
/// a document, and does for the others: a ledger counts how often it was written.
fn kind(key: &Key) -> &'static str {
    match key {
        Key::Ledger(_) => "ledger",
        Key::OldLedger(_) => "ledger of 0.1",
        Key::Definition(_) => "definition",
        Key::Document(_) => "document",
    }
}

impl Store for PostgresStore {
    fn shared(&self) -> Option<&PostgresStore> {
        Some(self)
    }

    fn lock(&self, lock: &Lock) -> Result<Held, StoreError> {
        let folder = self.lock_folder(lock)?;
        fs::create_dir_all(&folder).map_err(failed("create", &folder))?;
        self.mark().map_err(failed("write in", &self.root))?;
        fault_point::reach("before-lock");
        let file = locked(&folder.join("lock"), lock)?;
        Ok(Held { repairs: Vec::new(), guard: Box::new(file) })
    }

    fn runs(&self) -> Result<Vec<RunId>, StoreError> {
        self.find(
            "SELECT DISTINCT workflow, name FROM phasegate.run WHERE project = $1 AND site IN ($2, '')",
            &[],
        )
    }

    fn has(&self, run: &RunId) -> Result<bool, StoreError> {
        Ok(self.about(run, &format!("SELECT {FIND} IS NOT NULL"), &[])?[0].get(0))
    }

    fn open_runs(&self) -> Result<Vec<RunId>, StoreError> {
        self.find(
            "SELECT DISTINCT workflow, name FROM phasegate.run \
             WHERE open AND project = $1 AND site IN ($2, '')",
            &[],
        )
    }

    fn over_runs(&self, most: usize) -> Result<Vec<RunId>, StoreError> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let query = "SELECT workflow, name FROM phasegate.run \
             WHERE NOT open AND project = $1 AND site IN ($2, '') \
             ORDER BY over_at DESC NULLS LAST LIMIT $3";
        self.find(query, &[(&most, Type::INT8)])
    }

    fn note_over(&self, run: &RunId) {
        let query = format!(
            "UPDATE phasegate.run SET open = false, over_at = clock_timestamp() \
             WHERE open AND id = {FIND}"
        );
        // Where that fails, it is looked at again.
        let _ = self.about(run, &query, &[]);
    }

    fn get(&self, key: &Key) -> Result<Option<Stored>, StoreError> {
        let query =
            format!("SELECT bytes, version FROM phasegate.value WHERE run = {FIND} AND kind = $5");
        let rows = self.about(key.run(), &query, &[(&kind(key), Type::TEXT)])?;
        let stored = |row: Row| Stored { bytes: row.get(0), version: Version::new(row.get(1)) };
        Ok(rows.into_iter().next().map(stored))
    }

    fn version(&self, key: &Key) -> Result<Option<Version>, StoreError> {
        let query = format!("SELECT version FROM phasegate.value WHERE run = {FIND} AND kind = $5");
        let rows = self.about(key.run(), &query, &[(&kind(key), Type::TEXT)])?;
        Ok(rows.first().map(|row| Version::new(row.get(0))))
    }

    fn commit(&self, run: &RunId, batch: &Batch) -> Result<(), StoreError> {
        fault_point::reach("before-journal");
        let said = self.transition(run, batch)?;
        fault_point::reach("after-journal");
        match said.as_str() {
            "done" => Ok(()),
            _ => Err(StoreError::Conflict(format!("the bookkeeping of run {run}"))),
        }
    }

    fn piece_size(&self, run: &RunId, digest: &str) -> Option<u64> {
        let query = format!(
            "SELECT octet_length(bytes)::bigint FROM phasegate.piece \
             WHERE run = {FIND} AND digest = $5"
        );
        let rows = self.about(run, &query, &[(&digest, Type::TEXT)]).ok()?;
        u64::try_from(rows.first()?.get::<_, i64>(0)).ok()
    }

    fn piece(&self, run: &RunId, digest: &str) -> Option<Vec<u8>> {
        let query = format!("SELECT bytes FROM phasegate.piece WHERE run = {FIND} AND digest = $5");
        let rows = self.about(run, &query, &[(&digest, Type::TEXT)]).ok()?;
        let bytes: Vec<u8> = rows.first()?.get(0);
        (digest_of(&bytes) == digest).then_some(bytes)
    }

    fn pieces(&self, run: &RunId) -> Result<Vec<String>, StoreError> {
        let query =
            format!("SELECT digest FROM phasegate.piece WHERE run = {FIND} ORDER BY digest");
        let rows = self.about(run, &query, &[])?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    fn restore(&self, run: &RunId, copy: &RunCopy) -> Result<(), StoreError> {
        self.restore_run(run, copy)
    }

    fn set_aside(&self, key: &Key) -> Result<String, StoreError> {
        let query = format!(
            "WITH gone AS (DELETE FROM phasegate.value WHERE run = {FIND} AND kind = $5 \
                           RETURNING run, kind, bytes) \
             INSERT INTO phasegate.aside (run, what, bytes) SELECT * FROM gone RETURNING id"
        );
        let rows = self.about(key.run(), &query, &[(&kind(key), Type::TEXT)])?;
        Ok(aside(&rows))
    }

    fn set_journal_aside(&self, run: &RunId) -> Result<String, StoreError> {
        let query = format!(
            "WITH moved AS (UPDATE phasegate.run SET seq = 0, head = '' WHERE id = {FIND} \
                            RETURNING id), \
                  gone AS (DELETE FROM phasegate.journal USING moved WHERE run = moved.id \
                           RETURNING run, seq, line) \
             INSERT INTO phasegate.aside (run, what, bytes) \
             SELECT run, 'journal', convert_to(string_agg(line, chr(10) ORDER BY seq), 'UTF8') \
             FROM gone GROUP BY run RETURNING id"
        );
        Ok(aside(&self.about(run, &query, &[])?))
    }

    fn forwards(&self, run: &RunId) -> Lines<'_> {
        Box::new(Pages::new(self, run, i64::MIN, true))
    }

    fn backwards(&self, run: &RunId) -> Lines<'_> {
        Box::new(Pages::new(self, run, i64::MAX, false))
    }

    fn after(&self, run: &RunId, seq: u64) -> Lines<'_> {
        Box::new(Pages::new(self, run, number(seq), true))
    }

    fn before(&self, run: &RunId, seq: u64) -> Lines<'_> {
        Box::new(Pages::new(self, run, number(seq), false))
    }

    fn sizes(&self, run: &RunId) -> Sizes {
        let query = format!(
            "SELECT (SELECT coalesce(sum(octet_length(bytes)), 0)::bigint FROM phasegate.value \
                     WHERE run = r AND kind <> 'definition'), \
                    (SELECT coalesce(sum(octet_length(line) + 1), 0)::bigint \
                     FROM phasegate.journal WHERE run = r), \
                    (SELECT coalesce(sum(octet_length(bytes)), 0)::bigint FROM phasegate.value \
                     WHERE run = r AND kind = 'definition'), \
                    (SELECT coalesce(sum(octet_length(bytes)), 0)::bigint FROM phasegate.piece \
                     WHERE run = r) \
             FROM (SELECT {FIND} AS r) AS wanted"
        );
        let Ok(rows) = self.about(run, &query, &[]) else { return Sizes::default() };
        let size = |column: usize| u64::try_from(rows[0].get::<_, i64>(column)).unwrap_or(0);
        let apart = size(2) + size(3);
        Sizes { all: apart + size(0) + size(1), apart }
    }

    fn strip(&self, run: &RunId, first: u64) -> Result<(), StoreError> {
        let query = format!(
            "WITH definition AS (DELETE FROM phasegate.value WHERE run = {FIND} \
                                 AND kind = 'definition'), \
                  pieces AS (DELETE FROM phasegate.piece WHERE run = {FIND}) \
             DELETE FROM phasegate.journal WHERE run = {FIND} AND seq < $5"
        );
        self.about(run, &query, &[(&number(first), Type::INT8)]).map(|_| ())
    }

    fn remove(&self, run: &RunId) -> Result<(), StoreError> {
        self.about(run, &format!("DELETE FROM phasegate.run WHERE id = {FIND}"), &[])?;
        // The lock is ours, and whoever waits for it makes a new one.
        let _ = fs::remove_dir_all(self.lock_folder(&Lock::Run(run.clone()))?);
        Ok(())
    }

    fn half_removed(&self) -> u64 {
        0
    }

    fn tidy(&self) -> Result<(), StoreError> {
        let query = format!(
            "DELETE FROM phasegate.operation WHERE at < clock_timestamp() - interval '{REMEMBERED}'"
        );
        self.ask(|client| client.batch_execute(&query))
    }

    fn watch(
        &self,
        run: &RunId,
        changed: Box<dyn Fn() + Send>,
    ) -> Result<Box<dyn Watch>, StoreError> {
        let (run, link) = (run.clone(), self.link.another());
        let Identity { project, site } = self.identity()?.clone();
        let (ended, end) = mpsc::channel();
        let query = format!("SELECT rev FROM phasegate.run WHERE id = {FIND}");
        let revision = |rows: &[Row]| rows.first().map(|row| row.get::<_, i64>(0));
        // Before anybody hears that it is watched.
        let mut known = revision(&self.about(&run, &query, &[])?);
        thread::spawn(move || {
            let look = || {
                let parameters: [Parameter; 4] = [
                    (&project, Type::TEXT),
                    (&site, Type::TEXT),
                    (&run.workflow, Type::TEXT),
                    (&run.name, Type::TEXT),
                ];
                link.ask(Duration::ZERO, |it| it.client.query_typed(&query, &parameters))
            };
            while end.recv_timeout(POLL) == Err(RecvTimeoutError::Timeout) {
                // While it cannot be asked, nothing is known to have changed.
                let Ok(now) = look().map(|rows| revision(&rows)) else { continue };
                if std::mem::replace(&mut known, now) != now {
                    changed();
                }
            }
        });
        Ok(Box::new(Watching(ended)))
    }
}

/// Where something was kept that could not be understood, as people find it.
fn aside(rows: &[Row]) -> String {
    match rows.first() {
        Some(row) => format!("row {} of phasegate.aside", row.get::<_, i64>(0)),
        None => "nothing".into(),
    }
}

/// A line's number, as the server counts.
fn number(seq: u64) -> i64 {
    i64::try_from(seq).unwrap_or(i64::MAX)
}

struct Watching(
    #[expect(dead_code, reason = "held, not read: dropping it ends the watch")] Sender<()>,
);

impl Watch for Watching {}
