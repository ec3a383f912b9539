//! One transition, as the server is asked for it.

use phasegate_engine::digest::digest as digest_of;
use postgres::error::SqlState;
use postgres::types::Type;

use super::connect::UNTIL_KNOWN;
use super::identity::Identity;
use super::{Parameter, PostgresStore, kind, number};
use crate::jobs::secret;
use crate::journal;
use crate::run::RunId;
use crate::store::{Batch, StoreError, Version};

impl PostgresStore {
    /// Has the server carry out a transition. Where its answer is lost, the same operation is asked for again: the server
    /// tells one that has happened from one that has not.
    pub(super) fn transition(&self, run: &RunId, batch: &Batch) -> Result<String, StoreError> {
        let Identity { project, site } = self.identity()?;
        let operation = secret().map_err(|error| StoreError::Failed(error.to_string()))?;
        let operation = &operation.as_bytes()[..32];
        let puts = &batch.puts;
        let kinds: Vec<&str> = puts.iter().map(|put| kind(&put.key)).collect();
        let expected: Vec<Option<&str>> =
            puts.iter().map(|put| put.expected.as_ref().map(Version::as_str)).collect();
        let versions: Vec<String> = puts.iter().map(|put| digest_of(&put.bytes)).collect();
        let bytes: Vec<&[u8]> = puts.iter().map(|put| put.bytes.as_slice()).collect();
        let removed: Vec<&str> = batch.remove.iter().map(|(key, _)| kind(key)).collect();
        let removed_versions: Vec<&str> =
            batch.remove.iter().map(|(_, version)| version.as_str()).collect();
        let seq = batch.line.and_then(journal::seq).map(number);
        let prev = batch.line.and_then(journal::before);
        let hash = batch.line.and_then(journal::position).map(|(_, hash)| hash);
        let digests: Vec<&str> = batch.pieces.iter().map(|piece| &*piece.digest).collect();
        let pieces: Vec<&[u8]> = batch.pieces.iter().map(|piece| &*piece.bytes).collect();
        let json = |value: serde_json::Result<String>| {
            value.map_err(|error| StoreError::Failed(error.to_string()))
        };
        let summary = batch.summary.as_ref().map(serde_json::to_string);
        let summary = summary.map(json).transpose()?;
        let jobs = (!batch.jobs.is_empty()).then(|| serde_json::to_string(&batch.jobs));
        let jobs = jobs.map(json).transpose()?;
        let parameters: [Parameter; 21] = [
            (&operation, Type::BYTEA),
            (project, Type::TEXT),
            (site, Type::TEXT),
            (&batch.shared, Type::BOOL),
            (&run.workflow, Type::TEXT),
            (&run.name, Type::TEXT),
            (&kinds, Type::TEXT_ARRAY),
            (&expected, Type::TEXT_ARRAY),
            (&versions, Type::TEXT_ARRAY),
            (&bytes, Type::BYTEA_ARRAY),
            (&removed, Type::TEXT_ARRAY),
            (&removed_versions, Type::TEXT_ARRAY),
            (&batch.line, Type::TEXT),
            (&seq, Type::INT8),
            (&prev, Type::TEXT),
            (&hash, Type::TEXT),
            (&digests, Type::TEXT_ARRAY),
            (&pieces, Type::BYTEA_ARRAY),
            (&batch.open, Type::BOOL),
            (&summary, Type::TEXT),
            (&jobs, Type::TEXT),
        ];
        let query = "SELECT phasegate.commit_1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, \
             $13, $14, $15, $16, $17, $18, $19, $20::jsonb, $21::jsonb)";
        self.link.ask(UNTIL_KNOWN, |connection| match connection.often(query, &parameters) {
            Ok(said) => Ok(said[0].get(0)),
            // What was written before it was noticed was taken back.
            Err(error) => match error.code().map(SqlState::code) {
                Some("PH001") => Ok("done".into()),
                Some("PH002") => Ok("conflict".into()),
                _ => Err(error),
            },
        })
    }
}
