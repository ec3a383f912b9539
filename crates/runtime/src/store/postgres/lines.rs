//! The lines of a journal, page by page.

use std::collections::VecDeque;

use postgres::types::Type;

use super::{FIND, Parameter, PostgresStore};
use crate::run::RunId;
use crate::store::StoreError;

/// How many lines of a journal are fetched first, and at most: most often only the last one is wanted.
const PAGES: (i64, i64) = (2, 512);

/// Lines of a journal, fetched as they are wanted.
pub struct Pages<'s> {
    store: &'s PostgresStore,
    run: RunId,
    /// The number of the last line that was fetched.
    at: i64,
    is_forwards: bool,
    /// How many lines are fetched next; none where there are no more.
    size: i64,
    ready: VecDeque<String>,
}

impl<'s> Pages<'s> {
    /// The lines behind the number `at`, or before it.
    pub fn new(store: &'s PostgresStore, run: &RunId, at: i64, is_forwards: bool) -> Pages<'s> {
        let (run, size, ready) = (run.clone(), PAGES.0, VecDeque::new());
        Pages { store, run, at, is_forwards, size, ready }
    }

    fn fetch(&mut self) -> Result<(), StoreError> {
        let (sign, order) = if self.is_forwards { (">", "ASC") } else { ("<", "DESC") };
        let query = format!(
            "SELECT seq, line FROM phasegate.journal WHERE run = {FIND} AND seq {sign} $5 \
             ORDER BY seq {order} LIMIT $6"
        );
        let others: [Parameter; 2] = [(&self.at, Type::INT8), (&self.size, Type::INT8)];
        let rows = self.store.about(&self.run, &query, &others)?;
        self.at = rows.last().map_or(self.at, |row| row.get(0));
        let is_last = i64::try_from(rows.len()).is_ok_and(|count| count < self.size);
        self.size = if is_last { 0 } else { (self.size * 8).min(PAGES.1) };
        self.ready.extend(rows.iter().map(|row| row.get::<_, String>(1)));
        Ok(())
    }
}

impl Iterator for Pages<'_> {
    type Item = Result<String, StoreError>;

    fn next(&mut self) -> Option<Result<String, StoreError>> {
        if self.ready.is_empty()
            && self.size > 0
            && let Err(error) = self.fetch()
        {
            self.size = 0;
            return Some(Err(error));
        }
        self.ready.pop_front().map(Ok)
    }
}
