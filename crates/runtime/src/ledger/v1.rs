//! The ledger of version 0.1.0: the same facts, all in one record.

use std::collections::BTreeMap;
use std::time::Duration;

use indexmap::IndexMap;
use jiff::Timestamp;
use phasegate_engine::job::{CommandRun, JobKind, Manner};
use phasegate_engine::json::Json;
use phasegate_engine::step::Actor;
use serde::Deserialize;

use super::{
    Cancelled, Last, LastBlock, Ledger, Owner, Pinned, Position, SCHEMA, Session, Tamper, Tampered,
    Waits, Work,
};
use crate::governor::Tally;
use crate::jobs::{Ended, Record};
use crate::store::Version;

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct Flat {
    run: String,
    seq: u64,
    head: String,
    started_at: Option<Timestamp>,
    document: String,
    definition: String,
    definition_copy: String,
    definition_told: String,
    protected: BTreeMap<String, String>,
    tampered: Vec<Tampered>,
    tampered_in_all: u64,
    owner: Option<Owner>,
    fired: Option<Timestamp>,
    cancelled: Option<Cancelled>,
    last: Option<Last>,
    insisting: Option<LastBlock>,
    tally: Tally,
    agents: IndexMap<String, Agent>,
    untold: Vec<String>,
    phase: String,
    ended_by_hand: bool,
    written: bool,
    removed: bool,
    finished: Option<Version>,
}

/// Where agents had their folders.
const FOLDER: &str = ".phasegate/agents";

/// An agent, the only kind of process that outlived the one that had started it.
#[derive(Deserialize)]
struct Agent {
    kind: String,
    role: Actor,
    facts: Json,
    folder: String,
    run: Vec<String>,
    timeout: Duration,
    recorded: Timestamp,
    #[serde(default)]
    secret: String,
    #[serde(default)]
    starts: u32,
    #[serde(default)]
    started: Option<Timestamp>,
    #[serde(default)]
    ended: Option<Ended>,
    #[serde(default)]
    ended_by: Option<Actor>,
}

impl From<Agent> for Record {
    fn from(old: Agent) -> Record {
        let run = vec![CommandRun { words: old.run, timeout: old.timeout }];
        Record {
            manner: Manner::of(&JobKind::Agent),
            kind: JobKind::Agent,
            name: old.kind,
            role: Some(old.role),
            facts: old.facts,
            folder: format!("{FOLDER}/{}", old.folder),
            site: None,
            elsewhere: None,
            run,
            inputs: Vec::new(),
            file: None,
            model: None,
            timeout: old.timeout,
            recorded: old.recorded,
            document: String::new(),
            secret: old.secret,
            starts: old.starts,
            started: old.started,
            ended: old.ended,
            ended_by: old.ended_by,
            answer: None,
            used: false,
        }
    }
}

/// Reads a ledger of version 0.1.0. What it remembers of checks that passed is not taken over: they run
/// once more.
pub(super) fn read(bytes: &[u8]) -> serde_json::Result<Ledger> {
    let old: Flat = serde_json::from_slice(bytes)?;
    Ok(Ledger {
        schema: SCHEMA,
        run: old.run,
        started_at: old.started_at,
        stored: String::new(),
        position: Position {
            evidence: 0,
            pruned: None,
            seq: old.seq,
            head: old.head,
            turn: 0,
            document: old.document,
            phase: old.phase,
            denied: None,
            ended_by_hand: old.ended_by_hand,
            written: old.written,
            removed: old.removed,
            begins_with: None,
            finished: old.finished,
            intended: None,
            passed: Vec::new(),
            taken_back: String::new(),
        },
        definition: Pinned {
            digest: old.definition,
            copy: old.definition_copy,
            told: old.definition_told,
        },
        tamper: Tamper {
            protected: old.protected,
            changes: old.tampered,
            count: old.tampered_in_all,
            accepted: old.tampered_in_all,
        },
        session: Session {
            owner: old.owner,
            former: None,
            fired: old.fired,
            last_block: old.insisting,
            last: old.last,
            cancelled: old.cancelled,
            delivered: None,
            waits: Waits::default(),
            paused: None,
            stands: None,
            question: None,
            copy: None,
            pending_notices: old.untold,
        },
        work: Work {
            tally: old.tally,
            jobs: old.agents.into_iter().map(|(id, agent)| (id, agent.into())).collect(),
            ..Work::default()
        },
    })
}
