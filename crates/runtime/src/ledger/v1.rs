//! The ledger of version 0.1.0: the same facts, all in one record.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use jiff::Timestamp;
use serde::Deserialize;

use super::{
    Cancelled, Intent, Last, LastBlock, Ledger, Owner, Pinned, Position, SCHEMA, Session, Tamper,
    Tampered, Work,
};
use crate::agents::Record;
use crate::checks::{Passed, Ran};
use crate::governor::Tally;
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
    checking: Option<Intent>,
    checks: BTreeMap<String, Passed>,
    unreviewed: Option<String>,
    failed: BTreeMap<String, Ran>,
    agents: IndexMap<String, Record>,
    untold: Vec<String>,
    phase: String,
    ended_by_hand: bool,
    written: bool,
    removed: bool,
    finished: Option<Version>,
}

pub(super) fn read(bytes: &[u8]) -> serde_json::Result<Ledger> {
    let old: Flat = serde_json::from_slice(bytes)?;
    Ok(Ledger {
        schema: SCHEMA,
        run: old.run,
        started_at: old.started_at,
        position: Position {
            seq: old.seq,
            head: old.head,
            document: old.document,
            phase: old.phase,
            ended_by_hand: old.ended_by_hand,
            written: old.written,
            removed: old.removed,
            finished: old.finished,
            intended: None,
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
        },
        session: Session {
            owner: old.owner,
            fired: old.fired,
            last_block: old.insisting,
            last: old.last,
            cancelled: old.cancelled,
            pending_notices: old.untold,
        },
        work: Work {
            tally: old.tally,
            checking: old.checking,
            checks: old.checks,
            failed: old.failed,
            unreviewed: old.unreviewed,
            agents: old.agents,
        },
    })
}
