//! Which project a session belongs to, and which of its runs answer, wherever the agent goes.

use std::path::Path;

use serde_json::{Value, json};

use crate::scene::{Said, Scene, finish};

/// A gate that wants a file.
const NOTES: &str = "name = \"notes\"\nabout = \"x\"\ninitial = \"a\"\n[phase.a]\nrules = [\n{ on = \"stop\", when = \"not exists('NOTES.md')\", block = \"Write NOTES.md for {{ run.document }}.\" },\n{ on = \"stop\", goto = \"b\", allow = \"done\" },\n]\n[phase.b]\nfinal = true\n";

/// A repository with the gate, in a folder of its own, and a run that session `s1` has begun.
fn repository() -> Scene {
    let scene = Scene::bare();
    scene.file("repo/.phasegate/workflows/notes.toml", NOTES).file("repo/src/a.rs", "");
    scene.file("repo/.gitignore", "home\n.phasegate/notes\n");
    scene.file("repo/.phasegate/config.toml", "[limits]\nsame_reason = 0\n");
    git(&scene, &["init", "-q"]);
    git(&scene, &["add", "-A"]);
    git(&scene, &["commit", "-qm", "first"]);
    scene
}

fn git(scene: &Scene, args: &[&str]) {
    let mut command = std::process::Command::new("git");
    command.args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(args);
    let output = command.current_dir(scene.path("repo")).output().unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
}

fn run(scene: &Scene, folder: &Path, args: &[&str], session: Option<&str>) -> crate::scene::Ran {
    let mut command = scene.command();
    command.current_dir(folder).args(args);
    if let Some(session) = session {
        command.env("CLAUDECODE", "1").env("CLAUDE_CODE_SESSION_ID", session);
    }
    finish(scene.spawn(command, b""))
}

fn hook(scene: &Scene, event: &str, session: &str, cwd: &Path, project: Option<&Path>) -> Said {
    let payload = json!({ "session_id": session, "cwd": cwd, "stop_hook_active": false });
    let mut command = scene.command();
    command.current_dir("/").args(["hook", event]);
    if let Some(project) = project {
        command.env("CLAUDE_PROJECT_DIR", project);
    }
    let ran = finish(scene.spawn(command, payload.to_string().as_bytes()));
    Said { code: ran.code, json: serde_json::from_str(&ran.stdout).unwrap_or(Value::Null) }
}

fn stop(scene: &Scene, session: &str, cwd: &Path) -> Said {
    hook(scene, "stop", session, cwd, None)
}

#[test]
fn a_run_answers_wherever_its_session_goes() {
    let scene = repository();
    let repo = scene.path("repo");
    assert_eq!(run(&scene, &repo, &["notes", "start"], Some("s1")).code, Some(0));
    stop(&scene, "s1", &repo).blocks("Write NOTES.md");
    // Out of it, into a project inside it, and where nothing is any more.
    std::fs::create_dir_all(scene.path("repo/x/.phasegate")).unwrap();
    std::fs::create_dir_all(scene.path("other/.phasegate")).unwrap();
    for place in [".", "repo/x", "other", "repo/gone"] {
        stop(&scene, "s1", &scene.path(place)).blocks("Write NOTES.md");
        assert!(run(&scene, &repo, &["status"], None).stdout.contains("working"), "{place}");
    }
    // Another session that begins there is not concerned.
    stop(&scene, "s2", &scene.path("other")).allows();
    scene.file("repo/NOTES.md", "x");
    stop(&scene, "s1", &scene.path("other")).allows_saying("Run notes/notes is done");
    assert!(run(&scene, &repo, &["status"], None).stdout.contains("done in phase b"));
}

#[test]
fn the_project_that_the_client_names_comes_before_the_folder() {
    let scene = repository();
    let repo = scene.path("repo");
    assert_eq!(run(&scene, &repo, &["notes", "start"], None).code, Some(0));
    // The first hook of a session that has already gone elsewhere.
    hook(&scene, "stop", "s1", &scene.path("."), Some(&repo)).blocks("Write NOTES.md");
    // It is bound from then on, also where a hook has no such variable.
    stop(&scene, "s1", &scene.path(".")).blocks("Write NOTES.md");
}

#[test]
fn in_a_linked_worktree_the_run_answers_with_what_is_there() {
    let scene = repository();
    let repo = scene.path("repo");
    assert_eq!(run(&scene, &repo, &["notes", "start"], Some("s1")).code, Some(0));
    stop(&scene, "s1", &repo).blocks("Write NOTES.md for .phasegate/notes/notes.json");
    let tree = scene.path("elsewhere");
    git(&scene, &["worktree", "add", "-q", tree.to_str().unwrap(), "-b", "side"]);
    // The document is named by where it really is, and what the agent asks for there reaches it.
    let document = repo.canonicalize().unwrap().join(".phasegate/notes/notes.json");
    stop(&scene, "s1", &tree).blocks(&format!("Write NOTES.md for {}", document.display()));
    let status = run(&scene, &tree, &["status"], Some("s1")).stdout;
    assert!(status.contains("notes/notes") && status.contains("working"), "{status}");
    // The file in the project's own tree is not what this session works on.
    scene.file("repo/NOTES.md", "x");
    stop(&scene, "s1", &tree).blocks("Write NOTES.md");
    scene.file("elsewhere/NOTES.md", "x");
    stop(&scene, "s1", &tree).allows_saying("Run notes/notes is done");
    assert!(run(&scene, &repo, &["status"], None).stdout.contains("done in phase b"));
}

#[test]
fn an_edited_copy_of_the_document_in_a_worktree_is_reported_and_not_read() {
    let scene = repository();
    let repo = scene.path("repo");
    assert_eq!(run(&scene, &repo, &["notes", "start"], Some("s1")).code, Some(0));
    stop(&scene, "s1", &repo).blocks("Write NOTES.md");
    let tree = scene.path("elsewhere");
    git(&scene, &["worktree", "add", "-q", tree.to_str().unwrap(), "-b", "side"]);
    // A copy that says the same is nothing to speak of.
    scene.file(
        "elsewhere/.phasegate/notes/notes.json",
        scene.read("repo/.phasegate/notes/notes.json"),
    );
    let said = stop(&scene, "s1", &tree);
    said.blocks("Write NOTES.md");
    assert!(!said.json.to_string().contains("is a copy"), "{said:?}");
    // One that would end the run does not, and that is said, once.
    scene.file("elsewhere/.phasegate/notes/notes.json", r#"{"phase":"b"}"#);
    let said = stop(&scene, "s1", &tree);
    said.blocks("Write NOTES.md");
    let told = said.json["systemMessage"].as_str().unwrap();
    let copy = tree.canonicalize().unwrap().join(".phasegate/notes/notes.json");
    let says = format!("{} is a copy of the state document of run notes/notes", copy.display());
    assert!(told.contains(&says) && told.contains("not read"), "{told}");
    let line = journal(&repo).pop().unwrap();
    assert!(line["notes"].to_string().contains("is a copy of the state document"), "{line}");
    let said = stop(&scene, "s1", &tree);
    said.blocks("Write NOTES.md");
    assert!(!said.json.to_string().contains("is a copy"), "{said:?}");
    // Edited again, it is said again; in the project's own tree nobody speaks of it.
    scene.file("elsewhere/.phasegate/notes/notes.json", r#"{"phase":"b","more":1}"#);
    assert!(!stop(&scene, "s1", &repo).json.to_string().contains("is a copy"));
    assert!(stop(&scene, "s1", &tree).json.to_string().contains("is a copy"));
}

#[test]
fn a_copy_of_the_document_that_the_checkout_brought_is_not_reported() {
    let scene = repository();
    let repo = scene.path("repo");
    scene.file("repo/.gitignore", "home\n");
    assert_eq!(run(&scene, &repo, &["notes", "start"], Some("s1")).code, Some(0));
    git(&scene, &["add", "-A"]);
    git(&scene, &["commit", "-qm", "with the document"]);
    let tree = scene.path("elsewhere");
    git(&scene, &["worktree", "add", "-q", tree.to_str().unwrap(), "-b", "side"]);
    scene.file("repo/.phasegate/notes/notes.json", r#"{"phase":"a","more":1}"#);
    let said = stop(&scene, "s1", &tree);
    said.blocks("Write NOTES.md");
    assert!(!said.json.to_string().contains("is a copy"), "{said:?}");
}

fn journal(project: &Path) -> Vec<Value> {
    let path = project.join(".phasegate/runs/notes/notes/journal.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_document_that_came_with_a_checkout_holds_nobody_before_it_is_adopted() {
    let scene = repository();
    scene
        .file("repo/.gitignore", "home\n")
        .file("repo/.phasegate/notes/old.json", r#"{"phase":"a"}"#);
    git(&scene, &["add", "-A"]);
    git(&scene, &["commit", "-qm", "a run of long ago"]);
    let repo = scene.path("repo");
    let said = hook(&scene, "session-start", "s1", &repo, None);
    assert!(said.json.to_string().contains("notes/old came with this checkout"), "{said:?}");
    stop(&scene, "s1", &repo).allows();
    assert_eq!(run(&scene, &repo, &["adopt", "notes/old"], Some("s1")).code, Some(0));
    stop(&scene, "s1", &repo).blocks("Write NOTES.md");
    // One that a tool has just written is a run.
    let scene = repository();
    scene
        .file("repo/.gitignore", "home\n")
        .file("repo/.phasegate/notes/new.json", r#"{"phase":"a"}"#);
    stop(&scene, "s1", &scene.path("repo")).blocks("Write NOTES.md");
}

#[test]
fn all_runs_are_asked_at_one_stop_until_one_blocks() {
    let scene = repository();
    let repo = scene.path("repo");
    let other = NOTES.replace("notes", "other").replace("NOTES.md", "OTHER.md");
    scene
        .file("repo/.phasegate/workflows/other.toml", other)
        .file("repo/.gitignore", "home\n.phasegate\n");
    for name in ["notes", "other"] {
        assert_eq!(run(&scene, &repo, &[name, "start"], None).code, Some(0));
    }
    stop(&scene, "s1", &repo).blocks("Write NOTES.md");
    // When the first ends, the second is asked at the same stop.
    scene.file("repo/NOTES.md", "x");
    stop(&scene, "s1", &repo).blocks("Write OTHER.md");
}

#[test]
fn a_run_that_is_over_owns_nothing() {
    let scene = repository();
    let repo = scene.path("repo");
    scene.file("repo/.phasegate/notes/again.json", r#"{"phase":"a"}"#).file("repo/NOTES.md", "");
    stop(&scene, "s1", &repo).allows_saying("is done");
    std::fs::remove_file(scene.path("repo/NOTES.md")).unwrap();
    // Another document in its place is another run, and the session that comes first has it.
    scene.file("repo/.phasegate/notes/again.json", r#"{"phase":"a","new":true}"#);
    stop(&scene, "s2", &repo).blocks("Write NOTES.md");
    stop(&scene, "s1", &repo).allows();
}

#[test]
fn a_plan_that_nobody_has_touched_for_a_day_is_said() {
    let scene = Scene::new();
    scene.file(".taskie/plans/web/plan.md", "# A plan\n");
    scene.stop();
    let old = std::time::SystemTime::now() - std::time::Duration::from_hours(50);
    let folder = scene.path(".taskie/plans/web");
    let grows_old = || {
        for entry in std::fs::read_dir(&folder).unwrap().flatten() {
            let file = std::fs::File::options().append(true).open(entry.path()).unwrap();
            file.set_modified(old).unwrap();
        }
    };
    grows_old();
    assert_eq!(scene.run(&["release"]).code, Some(0));
    grows_old();
    scene.stop_of("s9", false).allows_saying("nothing in its folder has changed for a day");
}
