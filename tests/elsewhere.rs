//! Sessions in places that are not the usual ones: a second project beside the first, no project at first, a home folder
//! that cannot be written or is another one, a project in a project, a project without git.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::scene::{Ran, Said, Scene, finish};

/// A gate that wants a file.
fn gate(name: &str, file: &str) -> String {
    format!(
        r#"
name = "{name}"
about = "No stop before {file} is there."
initial = "working"
[phase.working]
rules = [
  {{ on = "stop", when = "not exists('{file}')", block = "Write {file}." }},
  {{ on = "stop", goto = "done", allow = "done" }},
]
[phase.done]
final = true
"#
    )
}

/// Repositories, and a folder without anything.
struct Places {
    scene: Scene,
    /// Variables that all hooks and commands have.
    env: Vec<(&'static str, String)>,
}

impl Places {
    fn new() -> Places {
        let scene = Scene::bare();
        std::fs::create_dir_all(scene.path("outside")).unwrap();
        Places { scene, env: Vec::new() }
    }

    /// A project with a gate; under git.
    fn repository(self, folder: &str, name: &str, file: &str) -> Places {
        self.project(folder, name, file);
        self.git(folder, &["init", "-q"]);
        self.commit(folder)
    }

    fn project(&self, folder: &str, name: &str, file: &str) -> &Places {
        let place = format!("{folder}/.phasegate/workflows/{name}.toml");
        self.scene.file(&place, gate(name, file)).file(&format!("{folder}/src/a.rs"), "");
        self.scene.file(&format!("{folder}/.phasegate/.gitignore"), "/*\n!/workflows/\n");
        self
    }

    fn commit(self, folder: &str) -> Places {
        self.git(folder, &["add", "-A"]);
        self.git(folder, &["commit", "-qm", "all"]);
        self
    }

    fn git(&self, folder: &str, args: &[&str]) {
        let mut git = std::process::Command::new("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(args);
        let done = git.current_dir(self.at(folder)).output().unwrap();
        assert!(done.status.success(), "{args:?}: {done:?}");
    }

    /// Makes the gate of a project stand.
    fn stands(self, folder: &str, name: &str) -> Places {
        let file = format!("{folder}/.phasegate/workflows/{name}.toml");
        let text = format!("standing = true\n{}", self.scene.read(&file));
        self.scene.file(&file, text);
        let mut command = self.scene.command();
        command.current_dir(self.at(folder)).args(["trust", name, "--yes"]);
        let ran = self.scene.at_terminal(command);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        if self.at(folder).join(".git").exists() { self.commit(folder) } else { self }
    }

    fn at(&self, folder: &str) -> PathBuf {
        self.scene.path(folder)
    }

    /// A command of the agent of a session.
    fn by(&self, session: &str, folder: &str, args: &[&str]) -> Ran {
        let mut command = self.scene.command();
        command.current_dir(self.at(folder)).args(args).envs(self.env.iter().cloned());
        command.env("CLAUDECODE", "1").env("CLAUDE_CODE_SESSION_ID", session);
        finish(self.scene.spawn(command, b""))
    }

    /// A hook of a session that began in one folder and is in another.
    fn hook(&self, event: &str, session: &str, began: &str, cwd: &str) -> Said {
        self.hook_with(event, session, began, &self.at(cwd), &[])
    }

    fn hook_with(
        &self,
        event: &str,
        session: &str,
        began: &str,
        cwd: &Path,
        env: &[(&str, &str)],
    ) -> Said {
        let transcript = self.at(&format!("outside/{session}.jsonl"));
        let payload = json!({
            "session_id": session, "cwd": cwd, "stop_hook_active": false,
            "transcript_path": transcript,
        });
        let mut command = self.scene.command();
        command.current_dir("/").args(["hook", event]).env("CLAUDE_PROJECT_DIR", self.at(began));
        command.envs(self.env.iter().cloned()).envs(env.iter().copied());
        let ran = finish(self.scene.spawn(command, payload.to_string().as_bytes()));
        Said { code: ran.code, json: serde_json::from_str(&ran.stdout).unwrap_or(Value::Null) }
    }

    fn stop(&self, session: &str, began: &str, cwd: &str) -> Said {
        self.hook("stop", session, began, cwd)
    }

    /// A line of a session's transcript, now.
    fn told(&self, session: &str, mut line: Value) -> &Places {
        let path = self.at(&format!("outside/{session}.jsonl"));
        let mut text = std::fs::read_to_string(&path).unwrap_or_default();
        line["timestamp"] = json!(jiff::Timestamp::now().to_string());
        text.push_str(&line.to_string());
        text.push('\n');
        std::fs::write(path, text).unwrap();
        self
    }

    /// A person says something. The times of files are not as exact as those of a transcript.
    fn prompts(&self, session: &str) -> &Places {
        self.told(session, json!({ "type": "user", "message": { "content": "Go on." } }));
        std::thread::sleep(std::time::Duration::from_millis(30));
        self
    }

    fn uses(&self, session: &str, tool: &str) -> &Places {
        let block = json!({ "type": "tool_use", "name": tool, "input": {} });
        self.told(session, json!({ "type": "assistant", "message": { "content": [block] } }))
    }

    fn journal(&self, folder: &str, run: &str) -> usize {
        let path = self.at(&format!("{folder}/.phasegate/runs/{run}/journal.jsonl"));
        std::fs::read_to_string(path).unwrap_or_default().lines().count()
    }
}

#[test]
fn a_project_in_an_added_folder_is_asked_only_after_a_run_was_begun_there() {
    let places = Places::new().repository("one", "notes", "NOTES.md");
    let places = places.repository("two", "plans", "PLAN.md").repository("two", "rests", "REST.md");
    let places = places.stands("two", "rests");
    places.hook("session-start", "s1", "one", "one");
    assert_eq!(places.by("s1", "one", &["notes", "start", "--name", "x"]).code, Some(0));
    // What is open and what stands in the other project is not this session's, wherever it goes.
    assert_eq!(places.by("s2", "two", &["plans", "start", "--name", "y"]).code, Some(0));
    places.prompts("s1").uses("s1", "Bash");
    places.scene.file("two/src/a.rs", "changed by s1");
    let before = places.journal("two", "plans/y");
    places.stop("s1", "one", "two").blocks("Write NOTES.md.");
    places.scene.file("one/NOTES.md", "");
    places.stop("s1", "one", "two").allows_saying("Run notes/x is done.");
    places.stop("s1", "one", "two").allows();
    assert_eq!(places.journal("two", "plans/y"), before);
    // A run of its own there answers from then on, and so does what stands there.
    assert_eq!(places.by("s1", "two", &["plans", "start", "--name", "z"]).code, Some(0));
    places.stop("s1", "one", "one").blocks("Write PLAN.md.");
    assert_eq!(places.by("s1", "one", &["notes", "start", "--name", "v"]).code, Some(0));
    places.scene.file("two/PLAN.md", "");
    let said = places.stop("s1", "one", "outside");
    said.blocks("Write REST.md.");
    said.blocks_telling("Run plans/z is done.");
}

#[test]
fn a_session_that_begins_outside_is_held_where_it_works() {
    let places = Places::new().repository("one", "notes", "NOTES.md").stands("one", "notes");
    places.hook("session-start", "s1", "outside", "outside");
    places.prompts("s1");
    places.stop("s1", "outside", "outside").allows();
    // A look changes nothing.
    places.uses("s1", "Bash").stop("s1", "outside", "one").allows();
    let places2 = Places::new().repository("one", "notes", "NOTES.md").stands("one", "notes");
    places2.hook("session-start", "s1", "outside", "outside");
    places2.prompts("s1").uses("s1", "Bash");
    places2.scene.file("one/src/a.rs", "changed before the project knew of the session");
    places2.stop("s1", "outside", "one").blocks("Write NOTES.md.");
    // From then on it is bound, wherever it goes.
    places2.scene.file("one/src/a.rs", "changed again");
    places2.stop("s1", "outside", "outside").blocks("Write NOTES.md.");
    places2.scene.file("one/NOTES.md", "");
    places2.stop("s1", "outside", "outside").allows_saying("is done");
}

#[test]
fn a_home_that_cannot_be_written_opens_nothing() {
    for state in ["/dev/null", "/proc/nothing"] {
        let mut places = Places::new().repository("one", "notes", "NOTES.md");
        places = places.repository("two", "stays", "STAYS.md").stands("two", "stays");
        places.env = vec![("XDG_STATE_HOME", state.into())];
        // A run that was started answers, also after a `cd`: the client tells where the session began.
        places.hook("session-start", "s1", "one", "one");
        assert_eq!(places.by("s1", "one", &["notes", "start", "--name", "x"]).code, Some(0));
        places.stop("s1", "one", "one").blocks("Write NOTES.md.");
        places.scene.file("one/src/a.rs", "1");
        places.stop("s1", "one", "outside").blocks("Write NOTES.md.");
        // A gate that stands holds who has changed something, and nobody else.
        let said = places.hook("session-start", "s2", "two", "two");
        assert_eq!(said.json.get("systemMessage"), None, "{said:?}");
        places.prompts("s2").uses("s2", "Read").stop("s2", "two", "two").allows();
        places.prompts("s2").uses("s2", "Bash");
        places.stop("s2", "two", "two").allows();
        places.prompts("s2").uses("s2", "Edit");
        places.scene.file("two/src/a.rs", "2");
        places.stop("s2", "two", "two").blocks("Write STAYS.md.");
        places.scene.file("two/STAYS.md", "");
        places.stop("s2", "two", "two").allows_saying("is done");
        places.prompts("s2").uses("s2", "Read").stop("s2", "two", "two").allows();
        // Where nothing tells what the session has done, that is said.
        places.scene.file("two/src/a.rs", "3");
        std::fs::remove_file(places.at("two/STAYS.md")).unwrap();
        let said = places.stop("s3", "two", "two");
        said.allows_saying("Standing gates do not hold this session");
    }
}

#[test]
fn with_another_home_at_each_hook_the_run_holds() {
    let places = Places::new().repository("one", "notes", "NOTES.md");
    let homes = ["home", "container", "sandbox"].map(|home| places.at(home).display().to_string());
    let hook = |event: &str, cwd: &str, home: &String| {
        places.hook_with(event, "s1", "one", &places.at(cwd), &[("HOME", home)])
    };
    hook("session-start", "one", &homes[0]);
    assert_eq!(places.by("s1", "one", &["notes", "start", "--name", "x"]).code, Some(0));
    for (number, home) in homes.iter().cycle().take(6).enumerate() {
        places.scene.file("one/src/a.rs", number.to_string());
        let said = hook("stop", if number % 2 == 0 { "one" } else { "outside" }, home);
        said.blocks("Write NOTES.md.");
        assert!(!said.json.to_string().contains("not by Phasegate"), "{said:?}");
        hook("user-prompt-submit", "one", home);
    }
    hook("session-end", "one", &homes[1]);
    hook("session-start", "one", &homes[2]);
    places.scene.file("one/src/a.rs", "once more");
    hook("stop", "one", &homes[0]).blocks("Write NOTES.md.");
    places.scene.file("one/NOTES.md", "");
    hook("stop", "one", &homes[1]).allows_saying("is done");
}

#[test]
fn a_gate_that_nobody_has_consented_to_in_another_home_says_so() {
    let places = Places::new().repository("one", "notes", "NOTES.md").stands("one", "notes");
    places.hook("session-start", "s1", "one", "one");
    places.prompts("s1").uses("s1", "Bash");
    places.scene.file("one/src/a.rs", "1");
    places.stop("s1", "one", "one").blocks("Write NOTES.md.");
    let other = places.at("container").display().to_string();
    let hook = |event: &str, session: &str| {
        places.hook_with(event, session, "one", &places.at("one"), &[("HOME", &other)])
    };
    // The run that is open still holds its session; a session that begins there hears that nothing stands.
    places.scene.file("one/src/a.rs", "2");
    hook("stop", "s1").blocks("Write NOTES.md.");
    let said = hook("session-start", "s2").json.to_string();
    assert!(said.contains("Gate notes does not stand: you have not consented"), "{said}");
}

#[test]
fn a_project_in_a_project_has_its_own_gate_and_neither_hides_the_other() {
    let places = Places::new().repository("mono", "outer", "OUTER.md");
    places.project("mono/inner", "inner", "INNER.md");
    let places = places.commit("mono").stands("mono", "outer");
    // `stands` of the inner one is committed in the repository around it.
    let places = places.stands("mono/inner", "inner").commit("mono");
    // A session that begins in the inner project is that one's.
    places.hook("session-start", "s1", "mono/inner", "mono/inner");
    places.prompts("s1").uses("s1", "Edit");
    places.scene.file("mono/inner/src/a.rs", "1");
    places.stop("s1", "mono/inner", "mono/inner").blocks("Write INNER.md.");
    // In the outer one it stays that.
    places.scene.file("mono/inner/src/a.rs", "2");
    places.stop("s1", "mono/inner", "mono").blocks("Write INNER.md.");
    places.scene.file("mono/inner/INNER.md", "");
    places.stop("s1", "mono/inner", "mono").allows_saying("Run inner/s1 is done.");
    // One that begins in the outer project is held by that one's gate for what it does in the inner one.
    places.hook("session-start", "s2", "mono", "mono");
    places.prompts("s2").uses("s2", "Edit");
    places.scene.file("mono/inner/src/a.rs", "3");
    std::fs::remove_file(places.at("mono/inner/INNER.md")).unwrap();
    places.stop("s2", "mono", "mono/inner").blocks("Write OUTER.md.");
    // Evidence is from the project of the gate, and not from where the agent is.
    places.scene.file("mono/inner/OUTER.md", "");
    places.stop("s2", "mono", "mono/inner").blocks("Write OUTER.md.");
    places.scene.file("mono/OUTER.md", "");
    places.stop("s2", "mono", "mono/inner").allows_saying("Run outer/s2 is done.");
    // A run that it begins in the inner one is asked beside the other.
    assert_eq!(places.by("s2", "mono/inner", &["start", "inner", "--name", "x"]).code, Some(0));
    places.stop("s2", "mono", "mono").blocks("Write INNER.md.");
}

#[test]
fn without_git_a_project_holds_in_its_folders_and_not_above() {
    let places = Places::new();
    places.project("home/code/one", "notes", "NOTES.md");
    let places = places.stands("home/code/one", "notes");
    std::fs::create_dir_all(places.at("home/code/one/deep/er")).unwrap();
    std::fs::create_dir_all(places.at("home/code/two")).unwrap();
    places.hook("session-start", "s1", "home/code/one/deep/er", "home/code/one/deep/er");
    places.prompts("s1").uses("s1", "Edit");
    places.scene.file("home/code/one/src/a.rs", "1");
    places.stop("s1", "home/code/one/deep", "home/code/one/deep").blocks("Write NOTES.md.");
    places.scene.file("home/code/one/src/a.rs", "2");
    places.stop("s1", "home/code/one/deep", "outside").blocks("Write NOTES.md.");
    places.scene.file("home/code/one/NOTES.md", "");
    places.stop("s1", "home/code/one/deep", "outside").allows_saying("is done");
    // Work on other files is a change, as it is with git.
    std::fs::remove_file(places.at("home/code/one/NOTES.md")).unwrap();
    places.prompts("s1").uses("s1", "Edit");
    let again = |active: bool| {
        let payload = json!({
            "session_id": "s1", "cwd": places.at("home/code/one"), "stop_hook_active": active,
            "transcript_path": places.at("outside/s1.jsonl"),
        });
        places.scene.hook(&payload)
    };
    again(false).blocks("Write NOTES.md.");
    places.scene.file("home/code/one/src/a.rs", "3");
    again(true).blocks("Write NOTES.md.");
    again(true).allows_saying("stuck");
    // Beside it, nothing holds anybody.
    places.prompts("s2").uses("s2", "Edit").scene.file("home/code/two/a", "1");
    places.stop("s2", "home/code/two", "home/code/two").allows();
}
