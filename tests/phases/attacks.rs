//! What an orchestrator, a worker or a reviewer would try.

use serde_json::json;

use super::{Phases, RUN, eventually};
use crate::scene::finish;

/// A phase under review whose reviewers wait, and the token of one of them.
fn under_review() -> (Phases, String) {
    let phases = Phases::new();
    phases.script("reviewer-2", "echo $PHASEGATE_TOKEN > said/token; sleep 600");
    phases.script("reviewer", "sleep 600");
    phases.ok(&["deploy", "--prompt", "x"]);
    phases.becomes(0, "UNDER_REVIEW");
    let token = phases.token();
    (phases, token)
}

const APPROVE: [&str; 3] = ["verdict", "--verdict", "approved"];

#[test]
fn the_orchestrator_gives_no_verdict() {
    let (phases, _token) = under_review();
    phases.refused(&APPROVE, "is for reviewer, and this caller is orchestrator");
    phases.refused(&["approve"], "BLOCKED: This phase has an auto-review in progress");
    phases.refused(&["approve", "--force-escalated", "--reason", "x"], "Only a person approves");
    phases.refused(&["reject"], "BLOCKED: Manual rejection is not allowed");
    phases.refused(&["advance"], "PHASE_NOT_APPROVED: Cannot advance phase");
    // The attempt is on record.
    let journal = phases.scene.journal(RUN);
    let tried = journal.iter().find(|line| line["event"]["name"] == "submit_review_verdict");
    assert_eq!(tried.unwrap()["answer"]["code"], "not_permitted");
}

#[test]
fn a_person_gives_no_verdict_either() {
    let (phases, _token) = under_review();
    let ran = phases.by_person(&["verdict", "web", "--verdict", "approved"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stdout.contains("is for reviewer, and this caller is human"), "{ran:?}");
}

#[test]
fn a_worker_gives_no_verdict() {
    let phases = Phases::new();
    phases.script("worker-1", "echo $PHASEGATE_TOKEN > said/token; \"$PHASEGATE\" phases verdict --verdict approved > said/tried; sleep 600");
    phases.ok(&["deploy", "--prompt", "x"]);
    let token = phases.token();
    eventually("it has tried", || {
        phases.scene.exists("said/tried") && !phases.scene.read("said/tried").is_empty()
    });
    assert!(phases.scene.read("said/tried").contains("is for reviewer, and this caller is worker"));
    // Nor does it do what the orchestrator does.
    for args in [
        ["advance"].as_slice(),
        &["submit"],
        &["deploy", "--prompt", "x"],
        &["kill", "--agent-id", "worker-1"],
    ] {
        let ran = phases.with_token(&token, args);
        assert_eq!(ran.code, Some(1), "{args:?}");
        assert!(ran.stdout.contains("this caller is worker"), "{args:?}: {ran:?}");
    }
}

#[test]
fn an_agent_without_its_secret_is_nobody() {
    let phases = Phases::new();
    phases.script("worker-1", "unset PHASEGATE_TOKEN CLAUDECODE\nfor act in advance submit 'deploy --prompt x'; do \"$PHASEGATE\" phases $act; done > said/tried 2>&1\n\"$PHASEGATE\" phases approve --force-escalated --reason x >> said/tried 2>&1\necho over >> said/tried; sleep 600");
    phases.ok(&["deploy", "--prompt", "x"]);
    eventually("it has tried", || {
        phases.scene.exists("said/tried") && phases.scene.read("said/tried").contains("over")
    });
    let tried = phases.scene.read("said/tried");
    assert_eq!(tried.matches("this caller is worker").count(), 4, "{tried}");
    assert_eq!(phases.status(0), "ACTIVE");
}

#[test]
fn one_verdict_a_reviewer_on_its_own_review() {
    let (phases, token) = under_review();
    let other =
        phases.with_token(&token, &["verdict", "--verdict", "approved", "--review-id", "review-9"]);
    assert!(other.stdout.contains("You are a reviewer of review-1, not of review-9."), "{other:?}");
    assert_eq!(phases.with_token(&token, &APPROVE).code, Some(0));
    let second = phases.with_token(&token, &["verdict", "--verdict", "rejected"]);
    assert_eq!(second.code, Some(1));
    assert!(
        second.stdout.contains("You have given your verdict on review-1 already"),
        "{second:?}"
    );
    let review = &phases.task()["phases"][0]["review"];
    assert_eq!(review["verdicts"].as_array().unwrap().len(), 1);
    // A reviewer does nothing but judge.
    for args in [["advance"].as_slice(), &["approve"], &["submit"], &["review"]] {
        let ran = phases.with_token(&token, args);
        assert!(ran.stdout.contains("this caller is reviewer"), "{args:?}: {ran:?}");
    }
}

#[test]
fn a_stolen_secret_gives_no_verdict() {
    let (phases, token) = under_review();
    let mut command = phases.command();
    command.arg("phases").args(APPROVE).env("PHASEGATE_TOKEN", &token);
    let ran = finish(phases.scene.spawn(command, b""));
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("has the token of reviewer reviewer-2"), "{ran:?}");
    let last = phases.scene.journal(RUN).pop().unwrap();
    assert_eq!(last["event"]["name"], "submit_review_verdict", "{last}");
    assert_eq!(last["answer"]["code"], "not_permitted", "{last}");
    assert!(phases.task()["phases"][0]["review"]["verdicts"].as_array().unwrap().is_empty());
    // The reviewer itself still can.
    assert_eq!(phases.with_token(&token, &APPROVE).code, Some(0));
}

#[test]
fn twenty_verdicts_at_once_with_one_secret_are_one() {
    let (phases, token) = under_review();
    let children: Vec<_> = (0..20)
        .map(|_| {
            let mut command = phases.below(&token);
            command.arg("phases").args(APPROVE);
            phases.scene.spawn(command, b"")
        })
        .collect();
    let accepted = children.into_iter().filter(|_| true).map(finish);
    assert_eq!(accepted.filter(|ran| ran.code == Some(0)).count(), 1);
    let review = &phases.task()["phases"][0]["review"];
    assert_eq!(review["verdicts"].as_array().unwrap().len(), 1);
}

#[test]
fn a_late_verdict_on_an_aborted_review_does_not_count() {
    let (phases, token) = under_review();
    assert_eq!(
        phases.by_person(&["abort-review", "web", "--reason", "wrong branch"]).code,
        Some(0)
    );
    assert_eq!(phases.status(0), "ESCALATED");
    let late = phases.with_token(&token, &APPROVE);
    assert_eq!(late.code, Some(1));
    assert!(late.stderr.contains("agent reviewer-2 of run phases/web has ended"), "{late:?}");
    assert_eq!(phases.status(0), "ESCALATED");
    assert_eq!(phases.agent("reviewer-2")["status"], "killed");
}

#[test]
fn a_secret_is_not_guessed_and_not_kept() {
    let (phases, token) = under_review();
    let guessed = format!("{}~{RUN}~reviewer-2", "0".repeat(64));
    for wrong in [
        guessed.as_str(),
        "",
        "~",
        "x~phases/web~reviewer-2",
        &token.replace("reviewer-2", "reviewer-3"),
        &token.replace("web", "other"),
    ] {
        let ran = phases.with_token(wrong, &APPROVE);
        assert_eq!(ran.code, Some(1), "{wrong}: {ran:?}");
        assert!(
            ran.stderr.contains("the token does not belong to an agent of this project"),
            "{wrong}: {ran:?}"
        );
    }
    let secret = token.split('~').next().unwrap();
    for (path, content) in phases.scene.snapshot() {
        let told = path.ends_with("said/token");
        assert!(told || !String::from_utf8_lossy(&content).contains(secret), "{}", path.display());
    }
}

#[test]
fn an_agent_of_one_task_is_nobody_in_another() {
    let (phases, token) = under_review();
    let create = ["create", "--title", "Other", "--phases", "[{\"name\":\"Design\"}]"];
    assert_eq!(phases.act(&create).code, Some(0));
    let ran = phases.with_token(&token, &["verdict", "other", "--verdict", "approved"]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stderr.contains("agent reviewer-2 of run phases/web and may act only there"),
        "{ran:?}"
    );
}

#[test]
fn no_phase_is_skipped_and_none_is_worked_on_before_its_turn() {
    let phases = Phases::new();
    phases.refused(&["deploy", "--prompt", "x", "--phase", "2"], "wrong phase");
    phases.refused(&["submit", "--phase", "2"], "not active");
    phases.refused(&["advance", "--phase", "2"], "PHASE_NOT_APPROVED");
    for phase in ["0", "3", "-1", "9223372036854775807"] {
        phases.refused(&["deploy", "--prompt", "x", "--phase", phase], "There is no phase");
        phases.refused(&["advance", "--phase", phase], "There is no phase");
    }
}

#[test]
fn an_agent_that_has_ended_is_not_revived() {
    let phases = Phases::new();
    phases.script("worker-1", "echo $PHASEGATE_TOKEN > said/token; exit 1");
    phases.ok(&["deploy", "--prompt", "x"]);
    let token = phases.token();
    eventually("it has ended", || phases.agent("worker-1")["ended"] == true);
    let ran = phases.with_token(&token, &["progress", "--status", "working"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("has ended"), "{ran:?}");
    let mut command = phases.command();
    let folder = phases.agent("worker-1")["log"].as_str().unwrap().replace("/log", "");
    command.arg("supervise").arg(phases.scene.root()).args([&folder, RUN, "worker-1"]);
    command.env("PHASEGATE_TOKEN", &token);
    assert_eq!(finish(phases.scene.spawn(command, b"")).code, Some(1));
    let ran = phases.with_token(&token, &["progress", "--status", "banana"]);
    assert!(ran.stderr.contains("banana"), "{ran:?}");
    assert_eq!(phases.agent("worker-1")["status"], "failed");
}

#[test]
fn only_a_person_approves_an_escalated_phase_and_says_why() {
    let phases = Phases::with("REPLACEMENTS = 0\n");
    phases.script("reviewer", "exit 1");
    phases.ok(&["deploy", "--prompt", "x"]);
    phases.becomes(0, "ESCALATED");
    phases.refused(&["approve"], "`phasegate phases approve web --force-escalated --reason WHY`");
    phases.refused(
        &["approve", "--force-escalated", "--reason", "trust me"],
        "Only a person approves",
    );
    let without = phases.by_person(&["approve", "web", "--force-escalated"]);
    assert!(without.stdout.contains("needs a reason"), "{without:?}");
    let ran = phases.by_person(&["approve", "web", "--force-escalated", "--reason", "read it all"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let step = &phases.task()["phases"][0];
    assert_eq!(step["approved"]["by"], "human");
    assert_eq!(step["approved"]["reason"], "read it all");
    let journal = phases.scene.journal(RUN);
    let forced = journal.iter().rfind(|line| line["event"]["name"] == "approve_phase_review");
    assert_eq!(forced.unwrap()["event"]["params"]["reason"], "read it all");
    phases.ok(&["advance"]);
}

#[test]
fn a_person_who_approves_changed_files_hands_them_over() {
    let phases = Phases::new();
    phases.ok(&["deploy", "--prompt", "x"]);
    phases.becomes(0, "APPROVED");
    phases.scene.file("work.txt", "by hand");
    let approve = ["approve", "web", "--force-escalated", "--reason", "my own change"];
    assert_eq!(phases.by_person(&approve).code, Some(0));
    assert!(phases.ok(&["handover"]).contains("Approved by a person, without reviewers: my own"));
    phases.ok(&["advance"]);
}

#[test]
fn the_books_are_kept_by_the_rules_and_by_nobody_else() {
    let phases = Phases::new();
    let mut task = phases.task();
    for step in task["phases"].as_array_mut().unwrap() {
        step["status"] = json!("COMPLETED");
    }
    phases.scene.file(&format!("{}/task.json", super::DIR), task.to_string());
    let shown = phases.stop(false).json.to_string();
    assert!(shown.contains("was changed from") && shown.contains("not by Phasegate"), "{shown}");
    assert!(shown.contains("BOOKS CHANGED"), "{shown}");
    assert_eq!(phases.task()["phase"], "running");
    let ran = phases.scene.run(&["accept", RUN, "--reason", "x"]);
    assert_ne!(ran.code, Some(0), "{ran:?}");
    task["phases"][0]["status"] = json!("APPROVED");
    task["phases"][1]["status"] = json!("PENDING");
    phases.scene.file(&format!("{}/task.json", super::DIR), task.to_string());
    phases.refused(&["advance"], "BOOKS CHANGED");
    phases.refused(&["deploy", "--prompt", "x"], "BOOKS CHANGED");
    // A person puts it right, and says so.
    task["phases"][0]["status"] = json!("ACTIVE");
    phases.scene.file(&format!("{}/task.json", super::DIR), task.to_string());
    let ran = phases.scene.by_hand(&["accept", RUN, "--reason", "it was me"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    phases.ok(&["deploy", "--prompt", "x"]);
    phases.becomes(0, "APPROVED");
    phases.ok(&["advance"]);
}

#[test]
fn who_changes_the_books_does_not_accept_that_too() {
    let phases = Phases::new();
    let mut task = phases.task();
    task["accepted_changes"] = json!(99);
    for step in task["phases"].as_array_mut().unwrap() {
        step["status"] = json!("COMPLETED");
    }
    let document = format!("{}/task.json", super::DIR);
    phases.scene.file(&document, task.to_string());
    phases.refused(&["deploy", "--prompt", "x"], "BOOKS CHANGED");
    phases.stop(false).allows_saying("BOOKS CHANGED");
    assert_eq!(phases.task()["phase"], "running");
    // Nor after a person has accepted an earlier change.
    let accept = ["accept", RUN, "--reason", "it was me"];
    assert_eq!(phases.scene.by_hand(&accept).code, Some(0));
    task["phases"][0]["status"] = json!("APPROVED");
    phases.scene.file(&document, task.to_string());
    phases.refused(&["advance"], "BOOKS CHANGED");
}

#[test]
fn nobody_is_asked_again_until_somebody_approves() {
    let phases = Phases::with("REPLACEMENTS = 0\n");
    phases.script("reviewer-2", "\"$PHASEGATE\" phases verdict --verdict rejected --findings '[{\"type\":\"blocker\",\"severity\":\"high\",\"message\":\"No tests\"}]'");
    phases.script("reviewer", "sleep 600");
    phases.ok(&["deploy", "--prompt", "x"]);
    eventually("one has judged", || {
        !phases.task()["phases"][0]["review"]["verdicts"].as_array().is_none_or(Vec::is_empty)
    });
    // The others are killed, so that the review could be aborted and made again.
    for agent in ["reviewer-3", "reviewer-4"] {
        for pid in super::processes(phases.scene.root(), Some(agent)) {
            super::kill(pid);
        }
    }
    phases.settle();
    assert_eq!(phases.status(0), "REJECTED");
    // Nor is the same asked again after something else was.
    phases.scene.file("other.txt", "x");
    phases.script("reviewer", "exit 1").script("reviewer-2", "exit 1");
    phases.ok(&["review"]);
    phases.becomes(0, "ESCALATED");
    phases.ok(&["abort-review"]);
    std::fs::remove_file(phases.scene.path("other.txt")).unwrap();
    phases.refused(&["review"], "These files were reviewed and refused before");
}

#[test]
fn depth_hides_nobody() {
    let phases = Phases::new();
    phases.script(
        "worker-1",
        "unset PHASEGATE_TOKEN CLAUDECODE\ncat > said/deep.sh <<'X'\n[ $1 -gt 0 ] && { sh said/deep.sh $(($1-1)); exit; }\n\"$PHASEGATE\" phases deploy --prompt x\nX\nsh said/deep.sh 30 > said/tried 2>&1; echo over >> said/tried; sleep 600",
    );
    phases.ok(&["deploy", "--prompt", "x"]);
    eventually("it has tried", || {
        phases.scene.exists("said/tried") && phases.scene.read("said/tried").contains("over")
    });
    let tried = phases.scene.read("said/tried");
    assert!(tried.contains("this caller is worker"), "{tried}");
}

#[test]
fn an_agent_does_nothing_but_its_own_work() {
    let phases = Phases::new();
    phases.script("worker-1", "echo $PHASEGATE_TOKEN > said/token; sleep 600");
    phases.ok(&["deploy", "--prompt", "x"]);
    let token = phases.token();
    let create = ["create", "--title", "Mine", "--phases", "[{\"name\":\"A\"}]"];
    let ran = phases.with_token(&token, &create);
    assert!(ran.stderr.contains("`create_task` is not for worker"), "{ran:?}");
    for args in [["cancel", RUN, "--reason", "x"].as_slice(), &["release", RUN], &["adopt", RUN]] {
        let mut command = phases.command();
        command.args(args).env("PHASEGATE_TOKEN", &token);
        let ran = finish(phases.scene.spawn(command, b""));
        assert!(ran.stderr.contains("is not for an agent that a run has started"), "{ran:?}");
    }
    let mut command = phases.command();
    command.args(["task", "next"]).env("PHASEGATE_TOKEN", &token);
    let ran = finish(phases.scene.spawn(command, b""));
    assert!(
        ran.stderr.contains("agent worker-1 of run phases/web and may act only there"),
        "{ran:?}"
    );
}

#[test]
fn a_worker_without_its_secret_ends_no_run() {
    let phases = Phases::new();
    phases.script("worker-1", "for act in cancel release adopt; do env -u PHASEGATE_TOKEN -u CLAUDECODE \"$PHASEGATE\" $act phases/web; done > said/tried 2>&1\nenv -i setsid \"$PHASEGATE\" cancel phases/web --reason x >> said/tried 2>&1\necho over >> said/tried; sleep 600");
    phases.ok(&["deploy", "--prompt", "x"]);
    eventually("it has tried", || {
        phases.scene.exists("said/tried") && phases.scene.read("said/tried").contains("over")
    });
    let tried = phases.scene.read("said/tried");
    let refused = "is not for an agent that a run has started";
    assert_eq!(tried.matches(refused).count(), 4, "{tried}");
    assert!(phases.scene.ok(&["status"]).contains("working"));
}

#[test]
fn a_secret_that_an_agent_prints_is_not_shown() {
    let phases = Phases::new();
    phases.script("worker-1", "echo $PHASEGATE_TOKEN > said/token; env; echo over; sleep 600");
    phases.ok(&["deploy", "--prompt", "x"]);
    let token = phases.token();
    let secret = token.split('~').next().unwrap();
    eventually("it has printed", || {
        phases.ok(&["output", "--agent-id", "worker-1", "--bytes", "8000"]).contains("over")
    });
    let mut whole = phases.scene.ok(&["jobs", "logs", "worker-1"]);
    for cursor in (0..2000).step_by(7) {
        let cursor = cursor.to_string();
        let args =
            ["output", "--agent-id", "worker-1", "--cursor", &cursor, "--bytes", "7", "--json"];
        if cursor.ends_with('7') {
            whole += &phases.ok(&args);
        }
    }
    assert!(whole.contains("PHASEGATE_TOKEN=xxxxxxxx"), "{whole}");
    for part in [&secret[..8], &secret[20..28], &secret[56..]] {
        assert!(!whole.contains(part), "{part}");
    }
}
