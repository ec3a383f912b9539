//! The queue of jobs: taken for a time, by one machine at a time. Who has a job is told by its fence, which counts how
//! often it was taken; a result counts with the last one only, and once.

use std::time::Duration;

use jiff::Timestamp;
use postgres::Row;
use postgres::types::Type;
use serde_json::Value;

use super::{Parameter, PostgresStore};
use crate::store::{Piece, StoreError};

/// A job that a machine has.
#[derive(Clone, Debug)]
pub struct Lease {
    pub id: i64,
    pub fence: i64,
    pub project: String,
    /// Its id, as the run knows it.
    pub job: String,
    pub folder: String,
    pub labels: Vec<String>,
    pub attempts: i32,
    pub spec: Value,
}

/// A definition of which jobs wait, and a run that keeps to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    pub project: String,
    pub run: i64,
    pub workflow: String,
    pub definition: String,
}

/// What the one who takes a job will take.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Only of this project.
    pub project: Option<String>,
    /// Only of these definitions.
    pub definitions: Option<Vec<String>>,
    /// Only those that need no other labels.
    pub labels: Option<Vec<String>>,
}

/// How a job of the queue stands.
#[derive(Clone, Debug)]
pub struct Entry {
    pub labels: Vec<String>,
    /// What it works on was sent.
    pub is_sent: bool,
    /// The machine that has it, or had it last.
    pub owner: Option<String>,
    /// Until when that machine has it, if nothing is heard of it; none where none has it.
    pub held_until: Option<Timestamp>,
    pub started: Option<Timestamp>,
    pub attempts: i32,
    /// No machine takes it any more.
    pub is_used_up: bool,
    pub is_cancelled: bool,
    /// The digest of the secret of the agent that has it.
    pub secret: Option<String>,
    pub spec: Value,
    /// What came of it, once that was accepted.
    pub result: Option<Value>,
}

/// A job of the queue or of its history, for [`entry`].
const LOOK: &str = "SELECT labels, run_at < 'infinity', owner, \
    CASE WHEN phasegate.is_held_1(j) THEN extract(epoch FROM lease_until)::double precision END, \
    extract(epoch FROM started)::double precision, attempts, attempts >= max_attempts, cancelled, \
    secret, spec::text, NULL::text FROM phasegate.job j WHERE project = $1 AND folder = $2 \
    UNION ALL SELECT labels, true, owner, NULL, extract(epoch FROM started)::double precision, \
    attempts, true, false, NULL, spec::text, coalesce(result, 'null')::text \
    FROM phasegate.job_history WHERE project = $1 AND folder = $2";

fn moment(seconds: Option<f64>) -> Option<Timestamp> {
    #[expect(clippy::cast_possible_truncation, reason = "milliseconds of this age")]
    Timestamp::from_millisecond((seconds? * 1000.0) as i64).ok()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}

fn entry(row: &Row) -> Entry {
    Entry {
        labels: row.get(0),
        is_sent: row.get(1),
        owner: row.get(2),
        held_until: moment(row.get(3)),
        started: moment(row.get(4)),
        attempts: row.get(5),
        is_used_up: row.get(6),
        is_cancelled: row.get(7),
        secret: row.get(8),
        spec: json(row.get(9)),
        result: row.get::<_, Option<&str>>(10).map(json),
    }
}

fn interval(lease: Duration) -> String {
    format!("{} milliseconds", lease.as_millis())
}

impl PostgresStore {
    /// How a job of this project stands; none where it was never queued.
    ///
    /// # Errors
    /// Where the store cannot be asked.
    pub fn queued(&self, folder: &str) -> Result<Option<Entry>, StoreError> {
        let parameters: [Parameter; 2] =
            [(&self.identity()?.project, Type::TEXT), (&folder, Type::TEXT)];
        let rows = self.ask(|client| client.query_typed(LOOK, &parameters))?;
        Ok(rows.first().map(entry))
    }

    /// Lets machines take a job, now that they can get what it works on.
    ///
    /// # Errors
    /// Where the store cannot be asked.
    pub fn release(&self, folder: &str, sent: &Value) -> Result<(), StoreError> {
        let sent = sent.to_string();
        let parameters: [Parameter; 3] =
            [(&self.identity()?.project, Type::TEXT), (&folder, Type::TEXT), (&sent, Type::TEXT)];
        let query = "UPDATE phasegate.job SET run_at = clock_timestamp(), \
             spec = spec || jsonb_build_object('sent', $3::jsonb) \
             WHERE project = $1 AND folder = $2 AND run_at = 'infinity'";
        self.insist(|client| client.query_typed(query, &parameters)).map(drop)
    }

    /// Ends a job that nobody has, with this result; the machine that has it is told, if it is not wanted any more.
    ///
    /// # Errors
    /// Where the store cannot be asked.
    pub fn end_queued(
        &self,
        folder: &str,
        is_unwanted: bool,
        result: &Value,
    ) -> Result<(), StoreError> {
        let result = result.to_string();
        let parameters: [Parameter; 4] = [
            (&self.identity()?.project, Type::TEXT),
            (&folder, Type::TEXT),
            (&is_unwanted, Type::BOOL),
            (&result, Type::TEXT),
        ];
        let query = "SELECT phasegate.end_1($1, $2, $3, $4::jsonb)";
        self.insist(|client| client.query_typed(query, &parameters)).map(drop)
    }

    /// The definitions of which jobs wait that could be taken.
    ///
    /// # Errors
    /// Where the store cannot be asked.
    pub fn offers(&self, project: Option<&str>) -> Result<Vec<Offer>, StoreError> {
        let parameters: [Parameter; 1] = [(&project, Type::TEXT)];
        let query = "SELECT project, run, workflow, definition FROM phasegate.offers_1($1)";
        let rows = self.ask(|client| client.query_typed(query, &parameters))?;
        let offer = |row: &Row| Offer {
            project: row.get(0),
            run: row.get(1),
            workflow: row.get(2),
            definition: row.get::<_, Option<String>>(3).unwrap_or_default(),
        };
        Ok(rows.iter().map(offer).collect())
    }

    /// The copy of the definition that a run keeps to, whichever machine it belongs to.
    ///
    /// # Errors
    /// Where the store cannot be asked.
    pub fn definition_of(&self, run: i64) -> Result<Option<Vec<u8>>, StoreError> {
        let parameters: [Parameter; 1] = [(&run, Type::INT8)];
        let query = "SELECT bytes FROM phasegate.value WHERE run = $1 AND kind = 'definition'";
        let rows = self.ask(|client| client.query_typed(query, &parameters))?;
        Ok(rows.first().map(|row| row.get(0)))
    }

    /// Takes a job for a time; none where there is none. `known` are those that this owner knows it has.
    ///
    /// # Errors
    /// Where the store cannot be asked.
    pub fn take(
        &self,
        owner: &str,
        known: &[i64],
        wanted: &Wanted,
        secret: &str,
        lease: Duration,
    ) -> Result<Option<Lease>, StoreError> {
        let lease = interval(lease);
        let Wanted { project, definitions, labels } = wanted;
        let parameters: [Parameter; 7] = [
            (&owner, Type::TEXT),
            (&known, Type::INT8_ARRAY),
            (project, Type::TEXT),
            (definitions, Type::TEXT_ARRAY),
            (labels, Type::TEXT_ARRAY),
            (&secret, Type::TEXT),
            (&lease, Type::TEXT),
        ];
        let query = "SELECT id, fence, project, job, folder, labels, attempts, spec::text \
             FROM phasegate.take_1($1, $2, $3, $4, $5, $6, $7::interval)";
        let rows = self.ask(|client| client.query_typed(query, &parameters))?;
        let lease = |row: &Row| Lease {
            id: row.get(0),
            fence: row.get(1),
            project: row.get(2),
            job: row.get(3),
            folder: row.get(4),
            labels: row.get(5),
            attempts: row.get(6),
            spec: json(row.get(7)),
        };
        Ok(rows.first().map(lease))
    }

    /// Lengthens leases: which of them are still held, and whether each is still wanted.
    ///
    /// # Errors
    /// Where the store cannot be asked.
    pub fn beat(
        &self,
        owner: &str,
        held: &[(i64, i64)],
        lease: Duration,
    ) -> Result<Vec<(i64, bool)>, StoreError> {
        let (ids, fences): (Vec<i64>, Vec<i64>) = held.iter().copied().unzip();
        let lease = interval(lease);
        let parameters: [Parameter; 4] = [
            (&owner, Type::TEXT),
            (&ids, Type::INT8_ARRAY),
            (&fences, Type::INT8_ARRAY),
            (&lease, Type::TEXT),
        ];
        let query = "SELECT id, NOT cancelled FROM phasegate.beat_1($1, $2, $3, $4::interval)";
        let rows = self.ask(|client| client.query_typed(query, &parameters))?;
        Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
    }

    /// The jobs of an owner that nobody wants any more.
    ///
    /// # Errors
    /// Where the store cannot be asked.
    pub fn unwanted(&self, owner: &str) -> Result<Vec<i64>, StoreError> {
        let parameters: [Parameter; 1] = [(&owner, Type::TEXT)];
        let query = "SELECT id FROM phasegate.job \
             WHERE state = 'leased' AND owner = $1 AND cancelled";
        let rows = self.ask(|client| client.query_typed(query, &parameters))?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    /// Gives a job back that was not done: another may take it at once. Where it could not be done, it is a while before
    /// anybody tries, and the try counts.
    ///
    /// # Errors
    /// Where the store cannot be asked.
    pub fn give_back(
        &self,
        owner: &str,
        (id, fence): (i64, i64),
        has_failed: bool,
    ) -> Result<(), StoreError> {
        let parameters: [Parameter; 4] = [
            (&owner, Type::TEXT),
            (&id, Type::INT8),
            (&fence, Type::INT8),
            (&has_failed, Type::BOOL),
        ];
        let query = "UPDATE phasegate.job SET state = 'ready', owner = NULL, lease_until = NULL, \
             secret = NULL, started = NULL, fence = fence + 1, \
             attempts = attempts - CASE WHEN $4 THEN 0 ELSE 1 END, \
             run_at = CASE WHEN $4 THEN clock_timestamp() + interval '5 s' ELSE run_at END \
             WHERE owner = $1 AND id = $2 AND fence = $3 AND state = 'leased'";
        self.ask(|client| client.query_typed(query, &parameters)).map(drop)
    }

    /// Hands in the result of a job: whether it was accepted, which happens once, and only from the one who has the job.
    ///
    /// # Errors
    /// Where the store cannot be asked.
    pub fn finish(
        &self,
        owner: &str,
        (id, fence): (i64, i64),
        result: &Value,
        pieces: &[Piece],
    ) -> Result<bool, StoreError> {
        let result = result.to_string();
        let digests: Vec<&str> = pieces.iter().map(|piece| &*piece.digest).collect();
        let bytes: Vec<&[u8]> = pieces.iter().map(|piece| &*piece.bytes).collect();
        let parameters: [Parameter; 6] = [
            (&id, Type::INT8),
            (&owner, Type::TEXT),
            (&fence, Type::INT8),
            (&result, Type::TEXT),
            (&digests, Type::TEXT_ARRAY),
            (&bytes, Type::BYTEA_ARRAY),
        ];
        let query = "SELECT phasegate.finish_1($1, $2, $3, $4::jsonb, $5, $6)";
        let rows = self.insist(|client| client.query_typed(query, &parameters))?;
        Ok(rows[0].get(0))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::run::RunId;
    use crate::store::{Batch, Queued, Store, server};

    const LEASE: Duration = Duration::from_mins(1);
    const PAST: Duration = Duration::ZERO;

    /// A store with one job that can be taken; none where PostgreSQL is not installed.
    fn with_job() -> Option<(PostgresStore, tempfile::TempDir)> {
        let url = server::shared()?.database();
        let folder = tempfile::tempdir().unwrap();
        let store = PostgresStore::new(folder.path(), &url, Some("project"));
        store.migrate().unwrap();
        let (job, folder_name, kind) = ("check.tests".into(), "f".to_string(), "check".into());
        let labels = vec!["linux".to_string()];
        let spec = json!({ "definition": "d" });
        let jobs = vec![Queued { job, folder: folder_name, kind, labels, spec }];
        let run = RunId { workflow: "w".into(), name: "a".into() };
        store.commit(&run, &Batch { jobs, open: true, ..Batch::default() }).unwrap();
        Some((store, folder))
    }

    fn take(store: &PostgresStore, owner: &str, lease: Duration) -> Option<Lease> {
        store.take(owner, &[], &Wanted::default(), "s", lease).unwrap()
    }

    fn state(store: &PostgresStore) -> Entry {
        store.queued("f").unwrap().unwrap()
    }

    #[test]
    fn a_job_is_taken_once_it_was_sent_and_by_one() {
        let Some((store, _folder)) = with_job() else { return };
        assert!(take(&store, "one", LEASE).is_none() && !state(&store).is_sent);
        assert!(store.offers(Some("project")).unwrap().is_empty());
        store.release("f", &json!({ "commit": "c" })).unwrap();
        assert_eq!(state(&store).spec["sent"]["commit"], "c");
        assert_eq!(store.offers(None).unwrap()[0].definition, "d");
        let not = |wanted: Wanted| store.take("one", &[], &wanted, "s", LEASE).unwrap().is_none();
        let some = |text: &str| Some(vec![text.to_string()]);
        assert!(not(Wanted { labels: some("windows"), ..Wanted::default() }));
        assert!(not(Wanted { definitions: some("e"), ..Wanted::default() }));
        assert!(not(Wanted { project: Some("other".into()), ..Wanted::default() }));
        let lease = take(&store, "one", LEASE).unwrap();
        assert_eq!((lease.fence, lease.attempts, lease.job.as_str()), (1, 1, "check.tests"));
        assert!(take(&store, "other", LEASE).is_none());
        assert!(store.take("one", &[lease.id], &Wanted::default(), "s", LEASE).unwrap().is_none());
        // Who has it without knowing it is given it again.
        assert_eq!(take(&store, "one", LEASE).unwrap().fence, 2);
    }

    #[test]
    fn only_the_last_one_who_took_it_hands_in_and_once() {
        let Some((store, _folder)) = with_job() else { return };
        store.release("f", &json!({})).unwrap();
        let old = take(&store, "old", PAST).unwrap();
        let new = take(&store, "new", LEASE).unwrap();
        assert_eq!((old.fence, new.fence), (1, 2));
        let finish = |owner: &str, lease: &Lease, said: &str| {
            store.finish(owner, (lease.id, lease.fence), &json!(said), &[]).unwrap()
        };
        assert!(store.beat("old", &[(old.id, old.fence)], LEASE).unwrap().is_empty());
        assert!(!finish("old", &old, "old") && !finish("new", &old, "old"));
        assert_eq!(store.beat("new", &[(new.id, new.fence)], LEASE).unwrap(), [(new.id, true)]);
        assert!(finish("new", &new, "new"));
        // The answer was lost, and it is asked again; what is on record stays.
        assert!(finish("new", &new, "newer") && !finish("old", &old, "old"));
        assert_eq!(state(&store).result, Some(json!("new")));
        assert!(take(&store, "third", LEASE).is_none());
    }

    #[test]
    fn what_is_not_wanted_ends_at_once_or_is_told_to() {
        let Some((store, _folder)) = with_job() else { return };
        store.release("f", &json!({})).unwrap();
        let lease = take(&store, "one", LEASE).unwrap();
        store.end_queued("f", false, &json!("lost")).unwrap();
        assert!(state(&store).result.is_none() && store.unwanted("one").unwrap().is_empty());
        store.end_queued("f", true, &json!("unwanted")).unwrap();
        assert_eq!(store.unwanted("one").unwrap(), [lease.id]);
        assert_eq!(store.beat("one", &[(lease.id, 1)], PAST).unwrap(), [(lease.id, false)]);
        // Its machine is gone, so that nobody takes it again.
        assert!(take(&store, "other", LEASE).is_none());
        store.end_queued("f", true, &json!("unwanted")).unwrap();
        assert_eq!(state(&store).result, Some(json!("unwanted")));
        assert!(!store.finish("one", (lease.id, lease.fence), &json!("late"), &[]).unwrap());
    }

    #[test]
    fn what_is_given_back_is_taken_by_another_and_a_failure_counts() {
        let Some((store, _folder)) = with_job() else { return };
        store.release("f", &json!({})).unwrap();
        let lease = take(&store, "one", LEASE).unwrap();
        store.give_back("one", (lease.id, lease.fence), false).unwrap();
        assert!(!store.finish("one", (lease.id, lease.fence), &json!("late"), &[]).unwrap());
        let lease = take(&store, "other", LEASE).unwrap();
        assert_eq!(lease.attempts, 1);
        store.give_back("other", (lease.id, lease.fence), true).unwrap();
        assert!(take(&store, "one", LEASE).is_none() && state(&store).attempts == 1);
    }
}
