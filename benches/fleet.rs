//! The view over all machines with ten thousand runs and a million lines, beside its SQL by hand: both in turns, so that
//! a busy moment of the machine meets both. It fails where the view takes more than three times as long.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark reports, and may panic")]

#[path = "../tests/postgres/server.rs"]
mod server;

use std::process::Command;
use std::time::{Duration, Instant};

use server::Server;

/// How many times as long as its SQL the view may take.
const MOST: f64 = 3.0;

const ROUNDS: usize = 21;

/// Fills a database: runs of 20 projects on 20 machines, half of them open, with a hundred lines each.
const FILL: &str = "INSERT INTO phasegate.run (project, site, workflow, name, open, over_at, seq, changed, condition, \
       standing, phase, owner, since, needs, fired, started, micro_dollars, untold, writer) \
     SELECT 'github.com/team/project-' || i % 20, m, 'ship', 'run-' || i, i % 2 = 0, \
       CASE WHEN i % 2 = 1 THEN now() - i * interval '1 second' END, 100, \
       now() - i * interval '1 second', c, c, 'working', 'session-' || i, now(), \
       CASE WHEN c <> 'working' THEN repeat('What it needs from somebody, in a sentence. ', 3) END, \
       now(), now(), i, i % 3, m \
     FROM (SELECT i, 'host-' || i % 20 || '-1a2b3c4d:/srv/team/project-' || i % 20 AS m, \
       CASE WHEN i % 2 = 1 THEN 'done' WHEN i % 50 = 0 THEN 'stuck' WHEN i % 10 = 0 THEN 'waiting' \
       ELSE 'working' END AS c FROM generate_series(1, 10000) i) x; \
     INSERT INTO phasegate.journal SELECT r.id, l, repeat('a line of a journal ', 20) \
     FROM phasegate.run r, generate_series(1, 100) l; \
     ANALYZE phasegate.run; ANALYZE phasegate.journal";

/// What somebody would ask by hand.
const BY_HAND: &str = "(SELECT project, site, writer, workflow, name, open, seq, changed, condition, standing, phase, \
       owner, since, needs, until, fired, started, micro_dollars, untold FROM phasegate.run WHERE open) \
     UNION ALL (SELECT project, site, writer, workflow, name, open, seq, changed, condition, standing, phase, owner, \
       since, needs, until, fired, started, micro_dollars, untold FROM phasegate.run WHERE NOT open \
       ORDER BY over_at DESC NULLS LAST LIMIT 11); \
     SELECT * FROM phasegate.job WHERE state IN ('ready', 'leased'); \
     SELECT split_part(writer, ':', 1), max(changed) FROM phasegate.run GROUP BY 1";

fn main() {
    let Some(server) = Server::start(&["fsync=off"]) else { return server::skip("PostgreSQL") };
    let home = tempfile::tempdir().unwrap();
    let url = server.database();
    let database = url.rsplit('/').next().unwrap().split('?').next().unwrap();
    let phasegate = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_phasegate"));
        command.args(arguments).current_dir(home.path()).env("HOME", home.path());
        let output = command.env("PHASEGATE_STORE", &url).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        output.stdout.len()
    };
    phasegate(&["store", "migrate"]);
    server.sql(database, FILL);
    let timed = |work: &dyn Fn() -> usize| {
        let begun = Instant::now();
        // Both have answered with all of it.
        assert!(work() > 1_000_000);
        begun.elapsed()
    };
    let (mut by_hand, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        by_hand.push(timed(&|| server.sql(database, BY_HAND).len()));
        ours.push(timed(&|| phasegate(&["fleet", "--json"])));
    }
    let [by_hand, ours] = [by_hand, ours].map(median);
    let ratio = ours.as_secs_f64() / by_hand.as_secs_f64();
    println!(
        "10,000 runs, 1,000,000 lines: {ours:.1?}, by hand {by_hand:.1?} ({ratio:.2} ×, at most {MOST} ×)"
    );
    assert!(ratio <= MOST, "the view takes {ratio:.2} times its SQL");
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
