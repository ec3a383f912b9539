//! How a store is, as people are told.

use postgres::types::Type;

use super::{PostgresStore, schema};
use crate::store::StoreError;

/// How a store is.
#[derive(Clone, Debug)]
pub struct Status {
    /// The version of the server.
    pub server: String,
    /// The version of the tables, none where there are none; and the one that this program wants.
    pub schema: Option<i32>,
    pub wanted: i32,
    /// It follows another server, and cannot be written to.
    pub follows: bool,
    /// What is acknowledged can be lost in a crash: `synchronous_commit` is off, or the server does not wait for its disk.
    pub forgets: bool,
    /// The runs of this project that this machine sees, and how many of them are open.
    pub runs: i64,
    pub open: i64,
    /// How many projects there are in all, and jobs that wait or are at work.
    pub projects: i64,
    pub jobs: i64,
}

impl PostgresStore {
    /// How the store is.
    pub fn status(&self) -> Result<Status, StoreError> {
        let (schema, wanted) = self.schema()?;
        let row = self.ask(|client| {
            client.query_one(
                "SELECT current_setting('server_version'), pg_is_in_recovery(), \
                 current_setting('synchronous_commit') = 'off' OR current_setting('fsync') = 'off'",
                &[],
            )
        })?;
        let mut status = Status {
            server: row.get(0),
            schema,
            wanted,
            follows: row.get(1),
            forgets: row.get(2),
            runs: 0,
            open: 0,
            projects: 0,
            jobs: 0,
        };
        if schema.is_none() {
            return Ok(status);
        }
        let identity = self.identity()?;
        let query = "SELECT count(*), count(*) FILTER (WHERE open), \
             (SELECT count(DISTINCT project) FROM phasegate.run), \
             (SELECT count(*) FROM phasegate.job WHERE state <> 'done') \
             FROM phasegate.run WHERE project = $1 AND site IN ($2, '')";
        let parameters: [super::Parameter; 2] =
            [(&identity.project, Type::TEXT), (&identity.site, Type::TEXT)];
        let rows = self.ask(|client| client.query_typed(query, &parameters))?;
        (status.runs, status.open) = (rows[0].get(0), rows[0].get(1));
        (status.projects, status.jobs) = (rows[0].get(2), rows[0].get(3));
        Ok(status)
    }

    /// The version of the tables that the server has, none where it has none; and the one that this program wants.
    fn schema(&self) -> Result<(Option<i32>, i32), StoreError> {
        Ok((self.ask(schema::version)?, schema::wanted()))
    }
}
