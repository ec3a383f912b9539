//! Machines that die, sleep, are told to go, or cannot reach the store: each result counts once.

use std::time::Duration;

use rustix::process::Signal;

use super::{LEASE, SHIP, Team, eventually};
use crate::postgres::server::Server;

/// A test that says where it runs, and takes as long as a file says.
const SLOW: &str = "echo run >> $PHASEGATE_TEST_LOG/runs; sleep $(cat seconds)\n";

/// The check with a place to say that it ran: a job has the environment of its worker.
fn slow(seconds: &str) -> Option<(Team, tempfile::TempDir)> {
    let log = tempfile::tempdir().unwrap();
    let test = SLOW.replace("$PHASEGATE_TEST_LOG", log.path().to_str().unwrap());
    let team = Team::new(SHIP, &[("test", &test), ("seconds", seconds)])?;
    Some((team, log))
}

fn runs(log: &tempfile::TempDir) -> usize {
    std::fs::read_to_string(log.path().join("runs")).unwrap_or_default().lines().count()
}

#[test]
fn two_workers_do_each_job_once() {
    let Some((team, log)) = slow("0.1") else { return };
    let (_one, one) = team.worker("ship", &["--jobs", "2"]);
    let (_other, other) = team.worker("ship", &["--jobs", "2"]);
    let count = 6;
    for number in 0..count {
        team.own.ok(&["start", "ship", "--name", &format!("web-{number}")]);
        // Nobody waits for it.
        team.own.stop_within("4");
    }
    let done = "SELECT count(*) FROM phasegate.job_history WHERE attempts = 1";
    eventually("all are done", || {
        team.own.stop_within("4");
        team.sql(done) == count.to_string()
    });
    assert_eq!(runs(&log), count);
    let took = |said: &str| said.matches("took ").count();
    assert_eq!(took(&one.said()) + took(&other.said()), count);
}

#[test]
fn the_job_of_a_machine_that_dies_is_taken_by_another() {
    let Some((team, log)) = slow("4") else { return };
    let (_one, mut one) = team.worker("ship", &[]);
    team.own.ok(&["start", "ship", "--name", "web"]);
    team.own.stop_within("4").allows_saying("waits for check tests");
    eventually("it runs", || runs(&log) == 1);
    one.child.kill().unwrap();
    one.child.wait().unwrap();
    let (_other, other) = team.worker("ship", &[]);
    other.says("took ship/web/check.tests, which was taken 2 times");
    team.own.stop().allows_saying("done");
    assert_eq!(runs(&log), 2);
    assert_eq!(team.sql("SELECT count(*), max(attempts) FROM phasegate.job_history"), "1|2");
    let heard = team.own.ok(&["log", "ship/web", "--json"]);
    assert_eq!(heard.matches("\"job-ended\"").count(), 1, "{heard}");
}

#[test]
fn what_a_machine_brings_that_slept_past_its_lease_is_refused() {
    let Some((team, log)) = slow("2") else { return };
    let (_one, one) = team.worker("ship", &[]);
    team.own.ok(&["start", "ship", "--name", "web"]);
    team.own.stop_within("4").allows_saying("waits for check tests");
    eventually("it runs", || runs(&log) == 1);
    one.signal(Signal::STOP);
    std::thread::sleep(Duration::from_millis(LEASE + 500));
    let (_other, other) = team.worker("ship", &[]);
    other.says("took ship/web/check.tests");
    one.signal(Signal::CONT);
    one.says("lost; what came of it does not count");
    team.own.stop().allows_saying("done");
    let owner = team.sql("SELECT split_part(owner, '/', 2), attempts FROM phasegate.job_history");
    let own = other.child.id().to_string();
    assert!(owner.starts_with(&format!("{own}-")) && owner.ends_with("|2"), "{owner}");
}

#[test]
fn a_worker_that_is_told_to_go_finishes_what_it_has() {
    let Some((team, log)) = slow("3") else { return };
    let (_machine, mut worker) = team.worker("ship", &[]);
    team.own.ok(&["start", "ship", "--name", "web"]);
    team.own.ok(&["start", "ship", "--name", "other"]);
    team.own.stop_within("4");
    eventually("it runs", || runs(&log) == 1);
    worker.signal(Signal::TERM);
    worker.says("draining: 1 at work");
    assert!(worker.child.wait().unwrap().success());
    assert!(worker.said().contains("ended"), "{}", worker.said());
    assert_eq!(team.sql("SELECT count(*) FROM phasegate.job_history"), "1");
    assert_eq!(runs(&log), 1);
}

#[test]
fn a_worker_that_is_told_twice_gives_back_what_it_has() {
    let Some((team, log)) = slow("60") else { return };
    let (_machine, mut worker) = team.worker("ship", &[]);
    team.own.ok(&["start", "ship", "--name", "web"]);
    team.own.stop_within("4");
    eventually("it runs", || runs(&log) == 1);
    worker.signal(Signal::TERM);
    worker.says("draining");
    worker.signal(Signal::TERM);
    assert!(worker.child.wait().unwrap().success());
    assert_eq!(team.sql("SELECT state, attempts FROM phasegate.job"), "ready|0");
}

#[test]
fn a_cancel_reaches_a_job_elsewhere() {
    let Some((team, log)) = slow("60") else { return };
    let (_machine, worker) = team.worker("ship", &[]);
    team.own.ok(&["start", "ship", "--name", "web"]);
    team.own.stop_within("4").allows_saying("waits for check tests");
    eventually("it runs", || runs(&log) == 1);
    let job = team.own.job();
    assert_eq!(job["elsewhere"]["state"], "working", "{job}");
    team.own.ok(&["jobs", "end", "check.tests"]);
    worker.says("ship/web/check.tests: ");
    eventually("its end is known", || team.own.job()["status"] == "killed");
    team.own.stop_within("4").blocks("The tests fail");
    // The next one waits for a machine, and is ended before any takes it.
    drop(worker);
    team.own.stop_within("4").allows_saying("waits for check tests");
    team.own.ok(&["cancel", "ship/web"]);
    assert_eq!(team.sql("SELECT count(*) FROM phasegate.job"), "0");
    assert_eq!(team.own.job()["status"], "killed");
    eventually("the remote is as it was", || team.references() == "refs/heads/main\n");
}

#[test]
fn a_worker_goes_on_when_the_store_is_back() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let server: &'static Server = Box::leak(Box::new(server));
    let log = tempfile::tempdir().unwrap();
    let test = SLOW.replace("$PHASEGATE_TEST_LOG", log.path().to_str().unwrap());
    let files = [("test", test.as_str()), ("seconds", "3")];
    let team = Team::on(server, "ship", Some(SHIP), &files);
    let (_machine, worker) = team.worker("ship", &[]);
    team.own.ok(&["start", "ship", "--name", "web"]);
    team.own.stop_within("4").allows_saying("waits for check tests");
    eventually("it runs", || runs(&log) == 1);
    server.kill();
    worker.says("cannot be reached");
    std::thread::sleep(Duration::from_millis(LEASE));
    server.go();
    worker.says("the store answers again");
    // Its own deadline is over, so it does the job anew.
    team.own.stop().allows_saying("done");
    assert_eq!(team.sql("SELECT count(*) FROM phasegate.job_history"), "1");
    drop(worker);
    server.kill();
}
