//! All runs of all projects and machines of a store, with what waits in its queue: three statements, however many there
//! are. No journal and no ledger is read.

use std::time::SystemTime;

use jiff::Timestamp;
use postgres::Row;
use postgres::types::Type;

use super::identity::Identity;
use super::{FIND, Parameter, PostgresStore};
use crate::run::RunId;
use crate::store::{StoreError, Summary};

/// What is wanted of a fleet.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Only a project, by its name or the end of that, and only a machine, by the beginning of its name.
    pub project: Option<String>,
    pub machine: Option<String>,
    /// How many of the runs that are over, the latest first.
    pub ended: i64,
}

impl Wanted {
    /// Whether a project is wanted.
    fn is_of(&self, project: &str) -> bool {
        self.project.as_deref().is_none_or(|wanted| {
            let rest = project.strip_suffix(wanted);
            rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
        })
    }
}

/// A run of some project on some machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its row in the store.
    pub row: i64,
    pub project: String,
    /// MACHINE:ROOT where its document is a file there; empty where every machine may act.
    pub site: String,
    /// MACHINE:ROOT of whoever wrote last.
    pub writer: String,
    pub id: RunId,
    pub open: bool,
    pub seq: i64,
    /// When it was last written, by the server's clock.
    pub changed: Timestamp,
    pub summary: Summary,
}

/// A job that waits for a machine, or is at work on one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    pub project: String,
    pub run: RunId,
    pub job: String,
    pub kind: String,
    pub labels: Vec<String>,
    pub queued: Timestamp,
    /// How often it was taken.
    pub attempts: i32,
    /// The worker that has it, and for how many more seconds; not more than 0 where its lease has ended.
    pub lease: Option<(String, i64)>,
}

/// A machine, and when it was last heard of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    pub name: String,
    pub seen: Timestamp,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Members {
    pub runs: Vec<Member>,
    /// Whether there are others that are over.
    pub has_more: bool,
    pub jobs: Vec<Waiting>,
    pub machines: Vec<Machine>,
}

/// The columns of a run that a view shows, in the order in which [`member`] reads them.
const COLUMNS: &str = "id, project, site, writer, workflow, name, open, seq, changed, condition, \
     standing, phase, owner, since, needs, until, fired, started, micro_dollars, untold";

/// Which runs are wanted: `$1` is a project, `$2` a machine.
const FITS: &str = "($1::text IS NULL OR project = $1 OR right(project, length($1) + 1) = '/' || $1) \
     AND ($2::text IS NULL OR starts_with(writer, $2))";

impl PostgresStore {
    /// The same store, as another project on another machine sees it.
    #[must_use]
    pub fn seen_as(&self, identity: Identity) -> PostgresStore {
        let (root, link) = (self.root.clone(), self.link.another());
        PostgresStore { root, named: None, identity: identity.into(), link }
    }

    /// The runs of the fleet that are open, and some of those that are over.
    pub fn fleet(&self, wanted: &Wanted) -> Result<Members, StoreError> {
        let most = wanted.ended.saturating_add(1);
        let query = format!(
            "(SELECT {COLUMNS} FROM phasegate.run WHERE open AND {FITS}) UNION ALL \
             (SELECT {COLUMNS} FROM phasegate.run WHERE NOT open AND {FITS} \
              ORDER BY over_at DESC NULLS LAST LIMIT $3)"
        );
        let parameters: [Parameter; 3] =
            [(&wanted.project, Type::TEXT), (&wanted.machine, Type::TEXT), (&most, Type::INT8)];
        let rows = self.ask(|client| client.query_typed(&query, &parameters))?;
        let mut runs: Vec<Member> = rows.iter().map(member).collect();
        let ended = runs.iter().filter(|run| !run.open).count();
        let has_more = i64::try_from(ended).is_ok_and(|ended| ended > wanted.ended);
        if has_more {
            runs.pop();
        }
        Ok(Members {
            runs,
            has_more,
            jobs: self.waiting(wanted)?,
            machines: self.machines(wanted)?,
        })
    }

    /// The runs of the fleet that were written after a time, by the server's clock.
    pub fn fleet_since(&self, wanted: &Wanted, time: Timestamp) -> Result<Vec<Member>, StoreError> {
        let query = format!("SELECT {COLUMNS} FROM phasegate.run WHERE {FITS} AND changed > $3");
        let time = SystemTime::from(time);
        let parameters: [Parameter; 3] = [
            (&wanted.project, Type::TEXT),
            (&wanted.machine, Type::TEXT),
            (&time, Type::TIMESTAMPTZ),
        ];
        let rows = self.ask(|client| client.query_typed(&query, &parameters))?;
        Ok(rows.iter().map(member).collect())
    }

    /// A run of the fleet; none where it is gone.
    pub fn member(&self, row: i64) -> Result<Option<Member>, StoreError> {
        let query = format!("SELECT {COLUMNS} FROM phasegate.run WHERE id = $1");
        let parameters: [Parameter; 1] = [(&row, Type::INT8)];
        let rows = self.ask(|client| client.query_typed(&query, &parameters))?;
        Ok(rows.first().map(member))
    }

    /// What waits for a machine, or is at work on one.
    pub fn waiting(&self, wanted: &Wanted) -> Result<Vec<Waiting>, StoreError> {
        let query = "SELECT j.project, r.workflow, r.name, j.job, j.kind, j.labels, j.queued, \
             j.attempts, j.owner, \
             extract(epoch FROM j.lease_until - clock_timestamp())::bigint, j.state = 'leased' \
             FROM phasegate.job j JOIN phasegate.run r ON r.id = j.run \
             WHERE j.state IN ('ready', 'leased') AND NOT j.cancelled \
             ORDER BY j.queued, j.id";
        let rows = self.ask(|client| client.query_typed(query, &[]))?;
        Ok(rows.iter().map(waiting).filter(|job| wanted.is_of(&job.project)).collect())
    }

    /// The machines that have ever written, also those whose runs are all over.
    fn machines(&self, wanted: &Wanted) -> Result<Vec<Machine>, StoreError> {
        let query = "SELECT split_part(writer, ':', 1), max(changed) FROM phasegate.run \
             WHERE writer <> '' GROUP BY 1 ORDER BY 1";
        let rows = self.ask(|client| client.query_typed(query, &[]))?;
        let machines = rows.iter().map(|row| Machine { name: row.get(0), seen: time(row, 1) });
        let is_wanted = |machine: &Machine| {
            wanted.machine.as_deref().is_none_or(|wanted| machine.name.starts_with(wanted))
        };
        Ok(machines.filter(is_wanted).collect())
    }

    /// Says that a run stands otherwise than its last transition said.
    pub fn note_standing(&self, run: &RunId, summary: &Summary) -> Result<(), StoreError> {
        let summary = serde_json::to_string(summary);
        let summary = summary.map_err(|error| StoreError::Failed(error.to_string()))?;
        let query = format!(
            "UPDATE phasegate.run r SET changed = clock_timestamp(), condition = n.condition, \
             standing = n.standing, phase = n.phase, owner = n.owner, needs = n.needs, \
             since = CASE WHEN (r.condition, r.standing, r.phase) = (n.condition, n.standing, n.phase) \
               THEN r.since ELSE n.since END, \
             until = n.until, fired = n.fired, started = n.started, \
             micro_dollars = n.micro_dollars, untold = n.untold, writer = $2 \
             FROM jsonb_populate_record(NULL::phasegate.run, $5::jsonb) n WHERE r.id = {FIND} \
             AND (r.condition, r.standing, r.phase, r.needs) \
               IS DISTINCT FROM (n.condition, n.standing, n.phase, n.needs)"
        );
        self.about(run, &query, &[(&summary, Type::TEXT)]).map(|_| ())
    }
}

fn time(row: &Row, column: usize) -> Timestamp {
    moment(Some(row.get(column))).unwrap_or_default()
}

fn moment(time: Option<SystemTime>) -> Option<Timestamp> {
    Timestamp::try_from(time?).ok()
}

fn member(row: &Row) -> Member {
    let count = |column: usize| u64::try_from(row.get::<_, i64>(column)).unwrap_or(0);
    Member {
        row: row.get(0),
        project: row.get(1),
        site: row.get(2),
        writer: row.get(3),
        id: RunId { workflow: row.get(4), name: row.get(5) },
        open: row.get(6),
        seq: row.get(7),
        changed: time(row, 8),
        summary: Summary {
            condition: row.get(9),
            standing: row.get(10),
            phase: row.get(11),
            owner: row.get(12),
            since: moment(row.get(13)),
            needs: row.get(14),
            until: moment(row.get(15)),
            fired: moment(row.get(16)),
            started: moment(row.get(17)),
            micro_dollars: count(18),
            untold: count(19),
        },
    }
}

fn waiting(row: &Row) -> Waiting {
    let is_leased: bool = row.get(10);
    let lease = row.get::<_, Option<String>>(8).zip(row.get::<_, Option<i64>>(9));
    Waiting {
        project: row.get(0),
        run: RunId { workflow: row.get(1), name: row.get(2) },
        job: row.get(3),
        kind: row.get(4),
        labels: row.get(5),
        queued: time(row, 6),
        attempts: row.get(7),
        lease: lease.filter(|_| is_leased),
    }
}
