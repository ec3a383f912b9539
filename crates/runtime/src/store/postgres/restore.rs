//! A run as another store has it, in one transaction.

use postgres::Error;
use postgres::types::Type;

use super::identity::Identity;
use super::{PostgresStore, kind, number};
use crate::jobs::secret;
use crate::journal;
use crate::run::RunId;
use crate::store::{RunCopy, StoreError};
use phasegate_engine::digest::digest;

/// How many lines are sent at once.
const LINES: usize = 500;

impl PostgresStore {
    pub(super) fn restore_run(&self, run: &RunId, copy: &RunCopy) -> Result<(), StoreError> {
        let Identity { project, site } = self.identity()?;
        let site = if copy.shared { "" } else { site };
        let operation = secret().map_err(|error| StoreError::Failed(error.to_string()))?;
        let operation = &operation.as_bytes()[..32];
        let mut seq = 0;
        let lines: Vec<(i64, &str)> = copy
            .lines
            .iter()
            .map(|line| {
                seq = journal::seq(line).map_or(seq + 1, number);
                (seq, line.as_str())
            })
            .collect();
        let last = copy.lines.last().and_then(|line| journal::position(line));
        let head = last.map(|(_, hash)| hash).unwrap_or_default();
        self.insist(|client| -> Result<(), Error> {
            let mut transaction = client.transaction()?;
            let note = "INSERT INTO phasegate.operation (id) VALUES ($1) ON CONFLICT DO NOTHING";
            if transaction.execute(note, &[&operation])? == 0 {
                return Ok(());
            }
            let row = transaction.query_one(
                "INSERT INTO phasegate.run (project, site, workflow, name, open, over_at, seq, head) \
                 VALUES ($1, $2, $3, $4, $5, CASE WHEN $5 THEN NULL ELSE clock_timestamp() END, $6, $7) \
                 ON CONFLICT (project, site, workflow, name) DO UPDATE \
                 SET open = excluded.open, over_at = excluded.over_at, seq = excluded.seq, \
                     head = excluded.head, rev = run.rev + 1, changed = clock_timestamp() \
                 RETURNING id",
                &[project, &site, &run.workflow, &run.name, &copy.open, &seq, &head],
            )?;
            let id: i64 = row.get(0);
            for (key, bytes) in &copy.values {
                transaction.execute(
                    "INSERT INTO phasegate.value (run, kind, version, bytes) \
                     VALUES ($1, $2, $3, $4) ON CONFLICT (run, kind) DO UPDATE \
                     SET version = excluded.version, bytes = excluded.bytes",
                    &[&id, &kind(key), &digest(bytes), bytes],
                )?;
            }
            for lines in lines.chunks(LINES) {
                let (numbers, texts): (Vec<i64>, Vec<&str>) = lines.iter().copied().unzip();
                transaction.query_typed(
                    "INSERT INTO phasegate.journal (run, seq, line) \
                     SELECT $1, l.seq, l.line FROM unnest($2, $3) AS l (seq, line) \
                     ON CONFLICT DO NOTHING",
                    &[(&id, Type::INT8), (&numbers, Type::INT8_ARRAY), (&texts, Type::TEXT_ARRAY)],
                )?;
            }
            for piece in &copy.pieces {
                transaction.execute(
                    "INSERT INTO phasegate.piece (run, digest, bytes) VALUES ($1, $2, $3) \
                     ON CONFLICT DO NOTHING",
                    &[&id, &piece.digest, &&*piece.bytes],
                )?;
            }
            transaction.commit()
        })
    }
}
