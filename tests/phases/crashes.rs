//! Whatever is killed, whenever: the next call tells the truth, and the run goes on.

use serde_json::json;

use super::{Phases, RUN, eventually, kill, processes};

/// Kills the supervisors, or those of one agent.
fn kill_supervisors(phases: &Phases, agent: Option<&str>) {
    for pid in processes(phases.scene.root(), agent) {
        kill(pid);
    }
}

/// The process of an agent itself.
fn agent_process(phases: &Phases, agent: &str) -> i32 {
    let folder = phases.folder(agent);
    let started = std::fs::read_to_string(folder.join("started.json")).unwrap();
    let started: serde_json::Value = serde_json::from_str(&started).unwrap();
    i32::try_from(started["pid"].as_i64().unwrap()).unwrap()
}

#[test]
fn a_worker_that_is_killed_has_failed_and_not_finished() {
    let phases = Phases::new();
    phases.script("worker-1", "sleep 600");
    phases.ok(&["deploy", "--prompt", "x"]);
    kill(agent_process(&phases, "worker-1"));
    eventually("its end is known", || phases.agent("worker-1")["ended"] == true);
    let agent = phases.agent("worker-1");
    assert_eq!((&agent["status"], &agent["ok"]), (&json!("crashed"), &json!(false)));
    assert!(agent["end"].as_str().unwrap().contains("killed by signal 9"), "{agent}");
    assert_eq!(phases.status(0), "ACTIVE");
    phases.ok(&["deploy", "--prompt", "again"]);
    phases.becomes(0, "APPROVED");
}

#[test]
fn a_supervisor_that_is_killed_takes_its_agent_with_it() {
    let phases = Phases::new();
    phases.script("worker-1", "sleep 600");
    phases.ok(&["deploy", "--prompt", "x"]);
    let agent = agent_process(&phases, "worker-1");
    kill_supervisors(&phases, Some("worker-1"));
    // Whoever looks is told, and nothing else happens.
    eventually("its end is known", || phases.agent("worker-1")["ended"] == true);
    assert_eq!(phases.agent("worker-1")["status"], "crashed");
    assert_eq!(phases.heard("job-ended", "worker-1"), 0);
    phases.settle();
    let left = std::path::Path::new("/proc").join(agent.to_string()).join("cmdline");
    eventually("the agent is gone, too", || std::fs::read(&left).unwrap_or_default().is_empty());
    assert_eq!(phases.heard("job-ended", "worker-1"), 1);
    phases.ok(&["deploy", "--prompt", "again"]);
    phases.becomes(0, "APPROVED");
}

#[test]
fn reviewers_that_are_killed_are_replaced_and_then_the_phase_is_escalated() {
    let phases = Phases::new();
    phases.script("reviewer", "sleep 600");
    phases.ok(&["deploy", "--prompt", "x"]);
    phases.becomes(0, "UNDER_REVIEW");
    phases.refused(&["abort-review"], "has not stalled: 3 of 3 reviewers are at work");
    phases.refused(&["kill", "--agent-id", "reviewer-2"], "nobody kills reviewers");
    kill_supervisors(&phases, None);
    // Who looks sees it; who acts next settles it, and all three are replaced.
    assert!(phases.ok(&["status"]).contains("crashed: its supervisor was killed"));
    assert_eq!(phases.agents().len(), 4);
    let shown = phases.settled();
    assert!(shown.contains("crashed: its supervisor was killed"), "{shown}");
    assert!(shown.contains("REVIEW IN PROGRESS: 0/3"), "{shown}");
    let agents = phases.agents();
    let replaced = agents.iter().filter(|agent| agent["kind"] == "replacement").count();
    assert_eq!(replaced, 3, "{agents:?}");
    kill_supervisors(&phases, None);
    let shown = phases.settled();
    assert_eq!(phases.status(0), "ESCALATED");
    assert!(
        shown.contains("ESCALATED - MANUAL INTERVENTION REQUIRED: All reviewers crashed."),
        "{shown}"
    );
    let why = "All 3 reviewer agents terminated without submitting verdicts";
    assert_eq!(phases.task()["phases"][0]["escalation"], why);
    phases.stop(false).allows_saying("ESCALATED - MANUAL INTERVENTION REQUIRED");
    phases.refused(&["deploy", "--prompt", "x"], "resolve its review first");
    phases.refused(&["review"], "use abort_stalled_review first");
    // No replacement is left in this round: each further review that crashes escalates at once.
    for attempt in 2..=3 {
        phases.ok(&["abort-review"]);
        phases.ok(&["review"]);
        phases.becomes(0, "UNDER_REVIEW");
        assert_eq!(phases.task()["phases"][0]["attempts"], attempt);
        kill_supervisors(&phases, None);
        phases.settled();
        assert_eq!(phases.status(0), "ESCALATED");
    }
    phases.ok(&["abort-review"]);
    phases.refused(&["review"], "3 reviews of this round have failed: a person must look at it.");
    phases.script("reviewer", "\"$PHASEGATE\" phases verdict --verdict approved");
    assert_eq!(phases.by_person(&["review", "web"]).code, Some(0));
    phases.becomes(0, "APPROVED");
}

#[test]
fn a_majority_decides_without_a_reviewer_that_is_lost() {
    let phases = Phases::with("REPLACEMENTS = 1\n");
    phases.script("reviewer-4", "exit 1").script("replacement-5", "exit 1");
    phases.ok(&["deploy", "--prompt", "x"]);
    phases.becomes(0, "APPROVED");
    let handover = phases.ok(&["handover"]);
    assert!(handover.contains("Approved by review-1, 2 of 3 reviewers"), "{handover}");
    assert_eq!(phases.agents().len(), 5);
}

#[test]
fn three_lost_reviewers_are_replaced_by_three() {
    let phases = Phases::new();
    for reviewer in ["reviewer-2", "reviewer-3", "reviewer-4"] {
        phases.script(reviewer, "exit 1");
    }
    phases.ok(&["deploy", "--prompt", "x"]);
    phases.becomes(0, "APPROVED");
    assert_eq!(phases.task()["phases"][0]["review"]["verdicts"].as_array().unwrap().len(), 3);
}

#[test]
fn everything_is_killed_at_once_at_any_moment() {
    let phases = Phases::with("REPLACEMENTS = 50\nROUNDS = 50\nTOTAL = 1000\nCONCURRENT = 50\n");
    phases.script("reviewer", "sleep 0.05; \"$PHASEGATE\" phases verdict --verdict approved");
    for round in 0..12 {
        if phases.status(0) == "ACTIVE" {
            phases.act(&["deploy", "--prompt", "x"]);
        }
        std::thread::sleep(std::time::Duration::from_millis(round * 9));
        kill_supervisors(&phases, None);
        // Whatever it was, it is told, and nothing is stuck.
        phases.settled();
    }
    if phases.status(0) == "ACTIVE" {
        phases.ok(&["deploy", "--prompt", "x"]);
    }
    eventually("it is approved in the end", || {
        let shown = phases.settled();
        if shown.contains("AGENTS FAILED") || shown.contains("DEPLOY AGENTS") {
            phases.ok(&["deploy", "--prompt", "x"]);
        }
        phases.status(0) == "APPROVED"
    });
    for agent in phases.agents() {
        let id = agent["id"].as_str().unwrap();
        assert_eq!(phases.heard("job-ended", id), usize::from(agent["ended"] == true), "{id}");
    }
    assert!(phases.scene.ok(&["log", "--verify", RUN]).contains("chain intact"));
}

#[test]
fn an_agent_that_was_recorded_and_never_started_is_started() {
    let phases = Phases::new();
    let mut command = phases.command();
    // The process dies between its commit and the start.
    command
        .args(["phases", "deploy", "--prompt", "x"])
        .env("PHASEGATE_FAULT_POINT", "after-ledger");
    let ran = crate::scene::finish(phases.scene.spawn(command, b""));
    assert_ne!(ran.code, Some(0));
    phases.settled();
    phases.becomes(0, "APPROVED");
    assert_eq!(phases.heard("job-started", "worker-1"), 1);
}

#[test]
fn a_folder_that_is_gone_is_an_agent_that_has_crashed() {
    let phases = Phases::new();
    phases.script("worker-1", "sleep 600");
    phases.ok(&["deploy", "--prompt", "x"]);
    kill_supervisors(&phases, None);
    std::fs::remove_dir_all(phases.scene.path(".phasegate/jobs")).unwrap();
    let shown = phases.settled();
    assert!(shown.contains("crashed"), "{shown}");
    phases.ok(&["deploy", "--prompt", "x"]);
    phases.becomes(0, "APPROVED");
}

#[test]
fn a_ledger_that_is_lost_leaves_no_phase_under_review_for_ever() {
    let phases = Phases::new();
    phases.script("reviewer", "sleep 600");
    phases.ok(&["deploy", "--prompt", "x"]);
    phases.becomes(0, "UNDER_REVIEW");
    kill_supervisors(&phases, None);
    std::fs::remove_file(phases.scene.path(&format!(".phasegate/runs/{RUN}/run.json"))).unwrap();
    // Nobody is known any more who could give a verdict.
    phases.stop(false);
    eventually("somebody is called", || {
        phases.act(&["submit"]);
        phases.status(0) == "ESCALATED"
    });
}

#[test]
fn what_a_killed_supervisor_leaves_behind_is_ended_wherever_it_hides() {
    let phases = Phases::new();
    phases.script("worker-1", "setsid sh -c 'echo $$ > said/far; sleep 600' &\nsleep 600");
    phases.ok(&["deploy", "--prompt", "x"]);
    eventually("its daemon runs", || phases.scene.exists("said/far"));
    kill_supervisors(&phases, None);
    phases.settled();
    let daemon = std::path::Path::new("/proc").join(phases.scene.read("said/far").trim());
    let cmdline = daemon.join("cmdline");
    eventually("it is gone", || std::fs::read(&cmdline).unwrap_or_default().is_empty());
}

#[test]
fn an_agent_whose_folder_is_removed_ends() {
    let phases = Phases::new();
    phases.script("worker-1", "sleep 600");
    phases.ok(&["deploy", "--prompt", "x"]);
    std::fs::remove_dir_all(phases.scene.path(".phasegate/jobs")).unwrap();
    eventually("its supervisor ends", || processes(phases.scene.root(), None).is_empty());
    assert!(phases.settled().contains("its folder is gone"));
}

#[test]
fn nobody_is_started_below_an_agent_that_will_end() {
    let phases = Phases::new();
    phases.script("reviewer", "sleep 1; \"$PHASEGATE\" phases verdict --verdict approved");
    phases.ok(&["deploy", "--prompt", "x"]);
    phases.becomes(0, "UNDER_REVIEW");
    kill_supervisors(&phases, Some("reviewer-2"));
    // The next to look are the other reviewers, with their verdicts.
    phases.becomes(0, "APPROVED");
    let agents = phases.agents();
    let replacement = agents.iter().find(|agent| agent["kind"] == "replacement").unwrap();
    eventually("it has ended", || {
        phases.agent(replacement["id"].as_str().unwrap())["ended"] == true
    });
    assert_eq!(phases.agent(replacement["id"].as_str().unwrap())["status"], "exited");
}

#[test]
fn to_look_writes_nothing_and_starts_nothing() {
    let phases = Phases::new();
    phases.script("worker-1", "sleep 600");
    phases.ok(&["deploy", "--prompt", "x"]);
    kill_supervisors(&phases, None);
    // What the tree was like is remembered, to be faster the next time; that is all.
    let files = || {
        let mut files = phases.scene.snapshot();
        files.retain(|(path, _)| !path.to_string_lossy().contains(".phasegate/tree"));
        files
    };
    phases.ok(&["status"]);
    let before = files();
    for args in [
        &["status"][..],
        &["status", "--json"],
        &["why"],
        &["log"],
        &["jobs", "--all"],
        &["jobs", "logs"],
        &["wait", "--seconds", "0"],
        &["wait", "--settled", "--seconds", "0"],
        &["phases", "status"],
        &["phases", "review-status"],
        &["doctor"],
        &["draw", "phases", "--run", "phases/web"],
        &["completions", "bash"],
    ] {
        let mut command = phases.command();
        command.args(args);
        let ran = crate::scene::finish(phases.scene.spawn(command, b""));
        assert!(!ran.stderr.contains("panicked"), "{args:?}: {ran:?}");
        let after = files();
        let changed: Vec<_> = after.iter().filter(|file| !before.contains(file)).collect();
        assert!(changed.is_empty() && after.len() == before.len(), "{args:?}: {changed:?}");
        assert!(processes(phases.scene.root(), None).is_empty(), "{args:?} started something");
    }
    assert_eq!(phases.agent("worker-1")["status"], "crashed");
    assert_eq!(phases.heard("job-ended", "worker-1"), 0);
}
