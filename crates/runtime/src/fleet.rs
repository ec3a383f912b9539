//! The runs of all projects and machines of a store: what they say of themselves, and what has changed with time alone.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};

use crate::condition::{Condition, Group};
use crate::cost::Cost;
use crate::run::RunId;
use crate::store::postgres::fleet::{Machine, Member, Members, Waiting, Wanted};
use crate::store::postgres::identity::Identity;
use crate::store::{PostgresStore, StoreError, Summary};
use crate::words::{self, Because};

/// How far back is looked for changes: one that was stamped before the last look may be seen only after it, and the
/// server gives every statement up before that.
const OVERLAP: SignedDuration = SignedDuration::from_secs(30);

/// After how long all of it is read again: what was removed leaves no change.
const ANEW: Duration = Duration::from_mins(1);

/// A run of the fleet, as it stands now.
#[derive(Clone, Debug)]
pub struct FleetRun {
    /// Its row in the store.
    pub row: i64,
    pub id: RunId,
    /// Its project and, where its document is a file, the only place that may act on it.
    pub place: Identity,
    /// The machine that has it or wrote last, and the project's folder there.
    pub machine: String,
    pub folder: String,
    pub group: Group,
    pub condition: Condition,
    pub standing: String,
    pub phase: String,
    /// What a person must do or know.
    pub needs: Option<String>,
    /// The session that has it.
    pub owner: Option<String>,
    pub since: Option<Timestamp>,
    /// When it was last written, by the server's clock.
    pub changed: Timestamp,
    /// When a hook last fired for it, and when it began.
    pub fired: Option<Timestamp>,
    pub started: Option<Timestamp>,
    pub cost: Cost,
}

/// What a store knows of runs, in the order in which somebody should look at it.
#[derive(Clone, Debug, Default)]
pub struct Fleet {
    pub runs: Vec<FleetRun>,
    /// Whether there are others that are over.
    pub has_more: bool,
    /// What waits for a machine or is at work on one, the oldest first.
    pub jobs: Vec<Waiting>,
    pub machines: Vec<Machine>,
}

impl Fleet {
    /// Asks a store for its runs.
    ///
    /// # Errors
    /// Where it cannot be asked.
    pub fn of(store: &PostgresStore, wanted: &Wanted) -> Result<Fleet, StoreError> {
        Ok(Fleet::now(store.fleet(wanted)?))
    }

    fn now(members: Members) -> Fleet {
        let Members { runs, has_more, jobs, machines } = members;
        let now = Timestamp::now();
        let mut runs: Vec<FleetRun> = runs.into_iter().map(|run| FleetRun::at(run, now)).collect();
        runs.sort_by_cached_key(FleetRun::rank);
        Fleet { runs, has_more, jobs, machines }
    }

    /// How many runs are in a group.
    pub fn count(&self, group: Group) -> usize {
        self.runs.iter().filter(|run| run.group == group).count()
    }
}

/// Looks at a fleet again and again, and reads only what has changed.
#[derive(Debug)]
pub struct Lookout {
    wanted: Wanted,
    runs: BTreeMap<i64, Member>,
    has_more: bool,
    machines: BTreeMap<String, Timestamp>,
    /// When all of it was last read.
    read: Option<Instant>,
}

impl Lookout {
    /// One who has seen nothing yet.
    pub fn new(wanted: Wanted) -> Lookout {
        let (runs, machines) = (BTreeMap::new(), BTreeMap::new());
        Lookout { wanted, runs, has_more: false, machines, read: None }
    }

    /// How the fleet stands now.
    ///
    /// # Errors
    /// Where the store cannot be asked.
    pub fn look(&mut self, store: &PostgresStore) -> Result<Fleet, StoreError> {
        let last = self.runs.values().map(|run| run.changed).max();
        let is_known = self.read.is_some_and(|read| read.elapsed() < ANEW);
        let jobs = match last.filter(|_| is_known) {
            Some(last) => {
                // By the last change that was seen: the server's clock, not ours.
                for run in store.fleet_since(&self.wanted, last - OVERLAP)? {
                    self.note(run);
                }
                self.forget_oldest();
                store.waiting(&self.wanted)?
            }
            None => {
                let Members { runs, has_more, jobs, machines } = store.fleet(&self.wanted)?;
                self.runs = runs.into_iter().map(|run| (run.row, run)).collect();
                self.machines = machines.into_iter().map(|it| (it.name, it.seen)).collect();
                (self.has_more, self.read) = (has_more, Some(Instant::now()));
                jobs
            }
        };
        let machines = self.machines.iter();
        let machines = machines.map(|(name, seen)| Machine { name: name.clone(), seen: *seen });
        let (machines, has_more) = (machines.collect(), self.has_more);
        let runs = self.runs.values().cloned().collect();
        Ok(Fleet::now(Members { runs, has_more, jobs, machines }))
    }

    fn note(&mut self, run: Member) {
        let machine = run.writer.split(':').next().unwrap_or_default();
        if !machine.is_empty() {
            let seen = self.machines.entry(machine.to_string()).or_default();
            *seen = run.changed.max(*seen);
        }
        self.runs.insert(run.row, run);
    }

    /// Keeps as many of those that are over as are wanted.
    fn forget_oldest(&mut self) {
        let over = self.runs.values().filter(|run| !run.open);
        let mut over: Vec<(Reverse<Timestamp>, i64)> =
            over.map(|run| (Reverse(run.changed), run.row)).collect();
        over.sort_unstable();
        for (_, row) in over.iter().skip(usize::try_from(self.wanted.ended).unwrap_or(usize::MAX)) {
            self.runs.remove(row);
            self.has_more = true;
        }
    }
}

impl From<Member> for FleetRun {
    fn from(member: Member) -> FleetRun {
        FleetRun::at(member, Timestamp::now())
    }
}

impl FleetRun {
    /// A run as it stands at a time.
    fn at(member: Member, now: Timestamp) -> FleetRun {
        let Member { row, project, site, writer, id, changed, summary, .. } = member;
        let Summary { condition, mut standing, phase, owner, since, mut needs, until, .. } =
            summary;
        let Summary { fired, started, micro_dollars, untold, .. } = summary;
        // A later version has written a word that this one does not know: it cannot say how the run stands.
        let condition = Condition::of_word(&condition).unwrap_or(Condition::Broken);
        let mut group = Group::of(condition, &standing);
        if group == Group::Waiting && until.is_some_and(|until| until < now) {
            standing = words::standing(condition, None, true, None);
            needs = Some(words::sentence(&id.to_string(), &phase, Because::TooLong));
            group = Group::of(condition, &standing);
        }
        let place = if site.is_empty() { &writer } else { &site };
        let (machine, folder) = place.split_once(':').unwrap_or((place, ""));
        FleetRun {
            row,
            machine: machine.to_string(),
            folder: folder.to_string(),
            place: Identity { project, site },
            id,
            group,
            condition,
            standing,
            phase,
            needs,
            owner,
            since,
            changed,
            fired,
            started,
            cost: Cost { micro_dollars, untold },
        }
    }

    /// Whether every machine of its project may act on it.
    pub fn is_shared(&self) -> bool {
        self.place.site.is_empty()
    }

    /// Where it is in a list: what has waited for somebody longest comes first, and of the rest what happened last.
    fn rank(&self) -> (Group, i64, RunId) {
        let time = match self.group {
            Group::NeedsYou | Group::Stuck | Group::Broken => {
                self.since.map_or(i64::MAX, Timestamp::as_microsecond)
            }
            Group::Working | Group::Waiting | Group::Ended => -self.changed.as_microsecond(),
        };
        (self.group, time, self.id.clone())
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    #[test]
    fn a_wait_that_has_lasted_too_long_needs_a_person() {
        let now = Timestamp::now();
        let summary = Summary {
            condition: "waiting".into(),
            standing: "waiting".into(),
            phase: "working".into(),
            until: Some(now),
            ..Summary::default()
        };
        let member = Member {
            row: 1,
            project: "team/ship".into(),
            site: "here-1:/srv/ship".into(),
            writer: "here-1:/srv/ship".into(),
            id: RunId { workflow: "ship".into(), name: "web".into() },
            open: true,
            seq: 1,
            changed: now,
            summary,
        };
        let before = FleetRun::at(member.clone(), now);
        assert_eq!((before.group, before.needs), (Group::Waiting, None));
        assert_eq!((before.machine.as_str(), before.folder.as_str()), ("here-1", "/srv/ship"));
        let after = FleetRun::at(member, now + SignedDuration::from_secs(1));
        assert_eq!(after.group, Group::NeedsYou);
        assert!(after.needs.is_some_and(|needs| needs.contains("waits no longer")));
    }
}
