//! The tables of the store, and how they come about: one migration after the other, each in a file, each at most once.
//!
//! What is asked of the server names a version where its meaning could change (`commit_1`), so that nothing is asked
//! about versions beforehand: a program that is newer than the schema is told by the server that something is missing,
//! and an older one goes on with what it knows.

use postgres::{Client, Error};

/// The migrations, in their order; the first is version 1.
const MIGRATIONS: &[&str] = &[include_str!("migrations/0001.sql")];

/// The version that this program wants.
pub fn wanted() -> i32 {
    (1..).zip(MIGRATIONS).map(|(version, _)| version).last().unwrap_or(0)
}

/// The version that the server has; none where it has nothing of ours.
pub fn version(client: &mut Client) -> Result<Option<i32>, Error> {
    let is_there = "SELECT to_regclass('phasegate.migration') IS NOT NULL";
    let is_there: bool = client.query_one(is_there, &[])?.get(0);
    if !is_there {
        return Ok(None);
    }
    let version = client.query_one("SELECT max(version) FROM phasegate.migration", &[])?;
    Ok(version.get(0))
}

/// Brings the schema to the version that this program wants; the versions that were missing. One that is newer is left
/// as it is.
pub fn migrate(client: &mut Client, by: &str) -> Result<Vec<i32>, Error> {
    // Two at once: the second finds what the first has made, or fails to make the schema and is told so.
    client.batch_execute(
        "CREATE SCHEMA IF NOT EXISTS phasegate;
         CREATE TABLE IF NOT EXISTS phasegate.migration (
           version int PRIMARY KEY,
           at timestamptz NOT NULL DEFAULT clock_timestamp(),
           by text NOT NULL
         )",
    )?;
    let mut done = Vec::new();
    let mut transaction = client.transaction()?;
    transaction.batch_execute("LOCK TABLE phasegate.migration IN EXCLUSIVE MODE")?;
    let now = transaction.query_one("SELECT max(version) FROM phasegate.migration", &[])?;
    let now: i32 = now.get::<_, Option<i32>>(0).unwrap_or(0);
    for (version, sql) in (1..).zip(MIGRATIONS).filter(|(version, _)| *version > now) {
        transaction.batch_execute(sql)?;
        let note = "INSERT INTO phasegate.migration (version, by) VALUES ($1, $2)";
        transaction.execute(note, &[&version, &by])?;
        done.push(version);
    }
    transaction.commit()?;
    Ok(done)
}
