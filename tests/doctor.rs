//! Broken installations: each is found, with the right remedy.

use serde_json::{Value, json};

use crate::scene::{Ran, STATE, Scene, finish};

/// A project with the hook installed for Claude Code, and the program on PATH.
fn installed() -> Scene {
    let scene = Scene::bare();
    std::fs::create_dir(scene.path("bin")).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_phasegate"), scene.path("bin/phasegate"))
        .unwrap();
    scene.git(&["init", "-q"]);
    assert_eq!(run(&scene, &["init", "--client", "claude"]).code, Some(0));
    // The starter wants consent, and that is another matter.
    std::fs::remove_file(scene.path(".phasegate/workflows/ship.toml")).unwrap();
    scene
}

fn run(scene: &Scene, args: &[&str]) -> Ran {
    let mut command = scene.command();
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", scene.path("bin").display())).args(args);
    finish(scene.spawn(command, b""))
}

fn rows(scene: &Scene) -> Vec<Value> {
    let ran = run(scene, &["doctor", "--json"]);
    rows_of(&ran.stdout)
}

fn rows_of(printed: &str) -> Vec<Value> {
    let shown: Value =
        serde_json::from_str(printed).unwrap_or_else(|error| panic!("{error}: {printed}"));
    shown["rows"].as_array().unwrap().clone()
}

/// Doctor finds it: the row, its status, and a part of what to do.
#[track_caller]
fn finds(scene: &Scene, id: &str, status: &str, summary: &str, remedy: &str) {
    let rows = rows(scene);
    let fits = |row: &&Value| {
        row["id"].as_str().unwrap().starts_with(id)
            && row["status"] == status
            && row["summary"].as_str().unwrap().contains(summary)
    };
    let row = rows
        .iter()
        .find(fits)
        .unwrap_or_else(|| panic!("no {id} {status} {summary:?} in {rows:#?}"));
    let told = row["remediation"].as_str().unwrap_or_default();
    assert!(told.contains(remedy), "{remedy:?} is not in {told:?}");
    let shown = run(scene, &["doctor"]);
    assert!(shown.stdout.contains(summary), "{shown:?}");
    assert_eq!(shown.code, Some(i32::from(status == "fail")));
    assert_eq!(run(scene, &["doctor", "--strict"]).code, Some(1));
}

fn settings(scene: &Scene, change: impl Fn(&mut Value)) {
    let mut value = scene.json(".claude/settings.json");
    change(&mut value);
    scene.file(".claude/settings.json", serde_json::to_string_pretty(&value).unwrap());
}

#[test]
fn a_good_installation_is_good_and_stays_as_it_is() {
    let scene = installed();
    let before = scene.snapshot();
    let rows = rows(&scene);
    assert!(rows.iter().all(|row| row["status"] == "ok"), "{rows:#?}");
    let fired = rows.iter().find(|row| row["id"] == "hook.claude").unwrap();
    assert!(fired["summary"].as_str().unwrap().contains("blocks and allows"), "{fired}");
    assert!(fired["duration"].is_number() && fired["category"] == "client");
    assert_eq!(run(&scene, &["doctor", "--strict"]).code, Some(0));
    assert_eq!(scene.snapshot(), before);
}

#[test]
fn a_folder_that_is_copied_to_other_machines() {
    let scene = installed();
    scene.file(".stfolder/marker", "");
    finds(&scene, "place.synced", "warn", "a folder that Syncthing copies", "move ");
}

#[test]
fn the_program_is_not_on_the_path() {
    let scene = installed();
    std::fs::remove_file(scene.path("bin/phasegate")).unwrap();
    let mut command = scene.command();
    command.args(["doctor", "--json"]);
    let rows = rows_of(&finish(scene.spawn(command, b"")).stdout);
    let failed: Vec<&Value> = rows.iter().filter(|row| row["status"] == "fail").collect();
    assert!(failed.iter().any(|row| row["id"] == "program.path"), "{rows:#?}");
    let hook = failed.iter().find(|row| row["id"] == "hook.claude").unwrap();
    assert!(hook["summary"].as_str().unwrap().contains("phasegate cannot be run"), "{hook}");
    assert!(hook["remediation"].as_str().unwrap().contains("on the client's PATH"));
}

#[test]
fn another_program_of_that_name_is_on_the_path() {
    let scene = installed();
    std::fs::remove_file(scene.path("bin/phasegate")).unwrap();
    std::fs::copy(env!("CARGO_BIN_EXE_phasegate"), scene.path("bin/phasegate")).unwrap();
    finds(&scene, "program.path", "warn", "is another one", "remove the old one");
}

#[test]
fn nothing_is_installed() {
    let scene = installed();
    assert_eq!(run(&scene, &["uninstall"]).code, Some(0));
    finds(&scene, "hook", "fail", "not installed in any client", "`phasegate init`");
}

#[test]
fn the_installed_command_is_wrong() {
    let scene = installed();
    settings(&scene, |it| {
        it["hooks"]["Stop"][0]["hooks"][0]["args"] = json!(["hook", "stop", "--client", "nobody"]);
    });
    finds(
        &scene,
        "hook.claude",
        "fail",
        "does not block where it must",
        "phasegate init --client claude",
    );
}

#[test]
fn the_installed_command_prints_something_else() {
    let scene = installed();
    settings(&scene, |it| {
        it["hooks"]["Stop"][0]["hooks"][0] = json!({ "type": "command", "command": "echo hello; phasegate hook stop --client claude" });
    });
    finds(
        &scene,
        "hook.claude",
        "fail",
        "its answer was not JSON",
        "phasegate init --client claude",
    );
}

#[test]
fn hooks_are_switched_off() {
    let scene = installed();
    scene.file(
        ".claude/settings.local.json",
        "{ /* the model did it */ \"disableAllHooks\": true }",
    );
    finds(
        &scene,
        "settings.claude",
        "fail",
        "has `disableAllHooks`",
        "remove it from .claude/settings.local.json",
    );
}

#[test]
fn the_gate_is_switched_off_in_the_settings() {
    let scene = installed();
    settings(&scene, |it| it["env"] = json!({ "PHASEGATE_DISABLE": "1" }));
    finds(
        &scene,
        "settings.claude",
        "fail",
        "sets PHASEGATE_DISABLE=1",
        "remove it from .claude/settings.json",
    );
}

#[test]
fn the_settings_are_no_json() {
    let scene = installed();
    scene.file(".claude/settings.local.json", "{ \"a\": ");
    finds(
        &scene,
        "settings.claude",
        "fail",
        "cannot be read",
        "repair .claude/settings.local.json",
    );
}

#[test]
fn it_is_installed_twice() {
    let scene = installed();
    // The same command in two places is run once; in another form it is run again.
    assert_eq!(run(&scene, &["init", "--user", "--client", "claude"]).code, Some(0));
    assert!(rows(&scene).iter().all(|row| row["status"] == "ok"));
    let line = "phasegate hook stop --client claude";
    let hooks =
        json!({ "hooks": { "Stop": [{ "hooks": [{ "type": "command", "command": line }] }] } });
    scene.file(".claude/settings.local.json", hooks.to_string());
    finds(&scene, "hook.claude.twice", "warn", "installed 3 times", "keep one");
    let start = scene.hook_of("session-start", "s1", &serde_json::json!({ "source": "startup" }));
    start.allows_saying("has the hook installed 3 times");
    let init = scene.run(&["init", "--client", "claude"]);
    assert!(init.stderr.contains("has the hook installed"), "{init:?}");
}

#[test]
fn two_clients_read_the_same_file() {
    let scene = installed();
    assert_eq!(run(&scene, &["init", "--client", "vscode"]).code, Some(0));
    finds(&scene, "hook.twice", "warn", "may fire twice", "install it in one of them");
}

#[test]
fn a_client_that_drops_arguments_fires_nothing_twice_unless_it_is_one_line() {
    let scene = installed();
    assert_eq!(run(&scene, &["init", "--client", "copilot"]).code, Some(0));
    let is_twice = |scene: &Scene| rows(scene).iter().any(|row| row["id"] == "hook.twice");
    assert!(!is_twice(&scene));
    settings(&scene, |it| {
        it["hooks"]["Stop"][0]["hooks"][0] =
            json!({ "type": "command", "command": "phasegate hook stop --client claude" });
    });
    assert!(is_twice(&scene));
}

/// The rows about trust.
fn trust_rows(scene: &Scene, client: &str) -> Vec<Value> {
    let id = format!("hook.{client}.trust");
    rows(scene).into_iter().filter(|row| row["id"] == id.as_str()).collect()
}

#[test]
fn a_folder_that_its_client_does_not_trust_is_said() {
    let scene = installed();
    let root = scene.root().canonicalize().unwrap();
    let above = root.parent().unwrap();
    for (client, file, trusted) in [
        (
            "gemini",
            "home/.gemini/trustedFolders.json",
            json!({ root.to_str().unwrap(): "TRUST_FOLDER" }),
        ),
        (
            "gemini",
            "home/.gemini/trustedFolders.json",
            json!({ root.join("x").to_str().unwrap(): "TRUST_PARENT" }),
        ),
        (
            "gemini",
            "home/.gemini/settings.json",
            json!({ "security": { "folderTrust": { "enabled": false } } }),
        ),
        ("copilot", "home/.copilot/config.json", json!({ "trustedFolders": [root] })),
        ("copilot", "home/.copilot/config.json", json!({ "trustedFolders": [above] })),
    ] {
        assert_eq!(run(&scene, &["init", "--client", client]).code, Some(0));
        let said = trust_rows(&scene, client);
        assert_eq!(said.len(), 1, "{client}: {said:?}");
        assert_eq!(said[0]["status"], "fail");
        assert!(said[0]["remediation"].as_str().unwrap().contains("trust the folder"), "{said:?}");
        scene.file(file, trusted.to_string());
        assert_eq!(trust_rows(&scene, client), Vec::<Value>::new(), "{client} {file}");
        std::fs::remove_file(scene.path(file)).unwrap();
    }
    // A rule about the folder itself counts more than one about a folder above.
    let rules =
        json!({ above.to_str().unwrap(): "TRUST_FOLDER", root.to_str().unwrap(): "DO_NOT_TRUST" });
    scene.file("home/.gemini/trustedFolders.json", rules.to_string());
    assert_eq!(trust_rows(&scene, "gemini").len(), 1);
}

#[test]
fn a_hook_that_its_client_does_not_trust_is_said() {
    let scene = installed();
    assert_eq!(run(&scene, &["init", "--client", "codex"]).code, Some(0));
    let root = scene.root().canonicalize().unwrap();
    let root = root.display();
    let folder = format!("[projects.\"{root}\"]\ntrust_level = \"trusted\"\n");
    let said = trust_rows(&scene, "codex");
    assert!(said[0]["summary"].as_str().unwrap().contains("does not trust"), "{said:?}");
    scene.file("home/.codex/config.toml", &folder);
    let said = trust_rows(&scene, "codex");
    let summary = said[0]["summary"].as_str().unwrap();
    assert!(summary.contains("for SessionStart, SessionEnd, UserPromptSubmit, Stop"), "{said:?}");
    assert!(said[0]["remediation"].as_str().unwrap().contains("Trust all"), "{said:?}");
    // What version 0.166.0 writes for these hooks.
    let hash = [
        ("session_start", "e0e72ccd9b6b19835515bd0688d0adb67c32aec3b3a1f974c39d67a271c57c46"),
        ("session_end", "12866c48522d9a863a24cd2f954b2924e1333edfe7eff27c55261eb7da84675c"),
        ("user_prompt_submit", "19dfe78e0b67451eede1d372a60aef9c50f891f391af3310cb7c14b13ae5e477"),
        ("stop", "85b67af6ed404e9a91f7bdf5dd009236d90bdc94b67d2e3116513d482c18eb21"),
    ];
    let state = |(event, hash): &(&str, &str)| {
        format!(
            "[hooks.state.\"{root}/.codex/hooks.json:{event}:0:0\"]\ntrusted_hash = \"sha256:{hash}\"\n"
        )
    };
    let all: String = hash.iter().map(state).collect();
    scene.file("home/.codex/config.toml", format!("{folder}{all}"));
    assert_eq!(trust_rows(&scene, "codex"), Vec::<Value>::new());
    // One that only tells signs of life is worth a look.
    let stop: String = hash[3..].iter().map(state).collect();
    scene.file("home/.codex/config.toml", format!("{folder}{stop}"));
    let said = trust_rows(&scene, "codex");
    assert_eq!((said.len(), &said[0]["status"]), (1, &json!("warn")));
    // A hook that was changed since is another one.
    scene.file(
        "home/.codex/config.toml",
        format!("{folder}{}", all.replace("sha256:85", "sha256:86")),
    );
    let said = trust_rows(&scene, "codex");
    assert!(
        said[0]["summary"].as_str().unwrap().contains("hook for Stop is not trusted"),
        "{said:?}"
    );
    assert_eq!(said[0]["status"], "fail");
}

#[test]
fn a_limit_on_a_hook_is_said() {
    let scene = installed();
    assert_eq!(run(&scene, &["init", "--client", "cursor"]).code, Some(0));
    assert!(!rows(&scene).iter().any(|row| row["id"] == "settings.cursor"));
    let text =
        scene.read(".cursor/hooks.json").replace("\"loop_limit\": null", "\"loop_limit\": 3");
    scene.file(".cursor/hooks.json", text);
    finds(&scene, "settings.cursor", "warn", "to 3 continuations", "loop_limit");
}

#[test]
fn the_hook_has_too_little_time() {
    let scene = installed();
    settings(&scene, |it| it["hooks"]["Stop"][0]["hooks"][0]["timeout"] = json!(2));
    finds(&scene, "hook.claude.timeout", "warn", "has only 2 seconds", "phasegate init --print");
}

#[test]
fn the_cap_is_too_low() {
    let scene = installed();
    settings(&scene, |it| it["env"] = json!({ "CLAUDE_CODE_STOP_HOOK_BLOCK_CAP": "1" }));
    finds(
        &scene,
        "settings.claude",
        "warn",
        "block only 1 times",
        "raise CLAUDE_CODE_STOP_HOOK_BLOCK_CAP",
    );
}

#[test]
fn a_workflow_wants_consent() {
    let scene = installed();
    scene.file(".phasegate/workflows/own.toml", "name = \"own\"\nabout = \"x\"\ninitial = \"a\"\n[check.t]\nrun = [\"true\"]\n[phase.a]\nrules = [{ on = \"stop\", when = \"check.t.ok\", goto = \"b\", allow = \"done\" }]\n[phase.b]\nfinal = true\n");
    finds(&scene, "workflow.own", "warn", "you have not consented", "`phasegate trust own`");
}

#[test]
fn a_workflow_is_broken() {
    let scene = installed();
    scene.file(".phasegate/workflows/own.toml", "name = \"own\"\nphases = 3\n");
    finds(&scene, "workflow.own", "fail", "own", "`phasegate lint own`");
}

#[test]
fn a_state_document_is_broken() {
    let scene = installed();
    scene.file(STATE, "{ not json");
    finds(
        &scene,
        "run.triage/web",
        "fail",
        "is not valid JSON",
        "repair .phasegate/triage/web_triage.json",
    );
}

#[test]
fn a_run_is_armed_and_no_hook_fires() {
    let scene = installed();
    assert_eq!(run(&scene, &["loop", "start", "--prompt", "x"]).code, Some(0));
    finds(&scene, "run.loop", "warn", "no session has stopped on it", "let the agent stop once");
}

#[test]
fn the_owner_of_a_run_is_gone() {
    let scene = installed();
    scene.file(STATE, "{\"phase\": \"triage\", \"batch_size\": 2, \"entries\": [{\"entry_index\": 0, \"name\": \"e\", \"status\": \"pending\"}]}");
    scene.stop();
    let ledger = ".phasegate/runs/triage/web/run.json";
    let mut value = scene.json(ledger);
    value["session"]["owner"]["seen"] = json!("2026-01-01T00:00:00Z");
    scene.file(ledger, value.to_string());
    finds(
        &scene,
        "run.triage/web.owner",
        "warn",
        "belongs to session s1",
        "`phasegate release triage/web`",
    );
}

#[test]
fn an_agent_is_at_work_that_no_run_knows() {
    let scene = installed();
    scene.file(".phasegate/jobs/phases-web/worker-1-x/lock", "");
    let lock =
        std::fs::File::open(scene.path(".phasegate/jobs/phases-web/worker-1-x/lock")).unwrap();
    lock.lock().unwrap();
    finds(&scene, "jobs", "warn", "1 job running that no run knows", "end-asked");
}

#[test]
fn failures_of_our_own_are_shown() {
    let scene = installed();
    scene.file(STATE, "{ not json");
    scene.stop();
    std::fs::remove_file(scene.path(STATE)).unwrap();
    let rows = rows(&scene);
    let row = rows.iter().find(|row| row["id"] == "faults").unwrap();
    assert_eq!(row["status"], "warn", "{rows:#?}");
}

#[test]
fn settings_that_the_client_cannot_read() {
    let scene = installed();
    let text = scene.read(".claude/settings.json");
    scene.file(".claude/settings.json", format!("// mine\n{text}"));
    finds(&scene, "settings.claude", "fail", "Claude Code ignores it", "take them out");
}

#[test]
fn a_hook_under_another_event_is_none() {
    let scene = installed();
    let text = scene.read(".claude/settings.json").replace("\"Stop\"", "\"PreToolUse\"");
    scene.file(".claude/settings.json", text);
    finds(&scene, "hook", "fail", "not installed in any client", "`phasegate init`");
}

/// A program of the user's, by its script.
fn program(scene: &Scene, path: &str, script: &str) {
    scene.file(path, format!("#!/bin/sh\n{script}\n"));
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(scene.path(path), mode).unwrap();
}

#[test]
fn a_client_that_forgets_arguments_gets_hooks_of_one_line() {
    let scene = installed();
    program(&scene, "bin/claude", "echo '2.0.76 (Claude Code)'");
    let remedy = "`phasegate uninstall --client claude`, then `phasegate init --client claude`";
    finds(&scene, "client.claude", "fail", "starts hooks without their arguments", remedy);
    // What it says helps.
    for command in ["uninstall", "init"] {
        assert_eq!(run(&scene, &[command, "--client", "claude"]).code, Some(0));
    }
    let hooks = scene.json(".claude/settings.json");
    let stop = &hooks["hooks"]["Stop"][0]["hooks"][0];
    assert_eq!(stop["command"], "phasegate hook stop --client claude", "{hooks}");
    assert_eq!((stop.get("args"), &stop["timeout"]), (None, &json!(600)), "{hooks}");
    let ran = run(&scene, &["doctor", "--strict"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(run(&scene, &["uninstall"]).code, Some(0));
    assert!(!scene.exists(".claude"));
}

#[test]
fn a_newer_client_gets_hooks_with_arguments() {
    let scene = installed();
    assert_eq!(run(&scene, &["uninstall"]).code, Some(0));
    program(&scene, "bin/claude", "echo '2.1.140 (Claude Code)'");
    assert_eq!(run(&scene, &["init", "--client", "claude"]).code, Some(0));
    let hooks = scene.json(".claude/settings.json");
    assert_eq!(hooks["hooks"]["Stop"][0]["hooks"][0]["command"], "phasegate", "{hooks}");
}

#[test]
fn a_script_that_starts_this_version_is_the_program() {
    let scene = installed();
    std::fs::remove_file(scene.path("bin/phasegate")).unwrap();
    let start = format!("exec '{}' \"$@\"", env!("CARGO_BIN_EXE_phasegate"));
    program(&scene, "bin/phasegate", &start);
    let ran = run(&scene, &["doctor", "--strict"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    // But not one that starts another.
    program(&scene, "bin/phasegate", "[ \"$1\" = --version ] || exit 1; echo phasegate 0.0.9");
    let mut command = scene.command();
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", scene.path("bin").display()));
    command.args(["doctor", "--json"]);
    let ran = finish(scene.spawn(command, b""));
    assert!(ran.stdout.contains("is another one"), "{ran:?}");
}

#[test]
fn the_plugin_is_fired_where_the_client_keeps_it() {
    let scene = installed();
    assert_eq!(run(&scene, &["uninstall"]).code, Some(0));
    let plugin = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugin");
    let installed = json!({ "version": 2, "plugins": { "phasegate@phasegate": [
        { "scope": "user", "installPath": plugin.canonicalize().unwrap() }
    ] } });
    scene.file("home/.claude/plugins/installed_plugins.json", installed.to_string());
    let enabled = json!({ "enabledPlugins": { "phasegate@phasegate": true } });
    scene.file("home/.claude/settings.json", enabled.to_string());
    let ran = run(&scene, &["doctor", "--strict"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("the hook in home/.claude/settings.json blocks"), "{ran:?}");
}

#[test]
fn something_keeps_the_output_open() {
    let scene = installed();
    settings(&scene, |it| {
        it["hooks"]["Stop"][0]["hooks"][0] = json!({ "type": "command", "command": "sleep 60 & phasegate hook stop --client claude" });
    });
    let rows = rows(&scene);
    let row = rows.iter().find(|row| row["id"] == "hook.claude").unwrap();
    assert!(row["summary"].as_str().unwrap().contains("keeps its output open"), "{row}");
}

#[test]
fn the_configuration_cannot_be_read() {
    let scene = installed();
    scene.file(".phasegate/config.toml", "[limits\n");
    finds(&scene, "project", "fail", "config.toml:1", "repair that file");
}

#[test]
fn two_clients_read_the_same_folder() {
    let scene = installed();
    assert_eq!(run(&scene, &["uninstall"]).code, Some(0));
    assert_eq!(run(&scene, &["init", "--client", "copilot,vscode"]).code, Some(0));
    let trusted = json!({ "trustedFolders": [scene.root().canonicalize().unwrap()] });
    scene.file("home/.copilot/config.json", trusted.to_string());
    finds(&scene, "hook.twice", "warn", "both read .github/hooks", "in one of them");
}

#[test]
fn hooks_in_named_groups_are_found_and_fired() {
    let scene = installed();
    assert_eq!(run(&scene, &["init", "--client", "antigravity"]).code, Some(0));
    let rows = rows(&scene);
    let fired = rows.iter().find(|row| row["id"] == "hook.antigravity").unwrap();
    assert_eq!(fired["status"], "ok", "{fired}");
    assert!(fired["summary"].as_str().unwrap().contains(".agents/hooks.json"), "{fired}");
    let text = scene.read(".agents/hooks.json");
    scene.file(".agents/hooks.json", format!("// mine\n{text}"));
    finds(&scene, "settings.antigravity", "fail", "Antigravity CLI ignores it", "take them out");
}

/// What the project could not keep itself is in the user's log.
#[test]
fn failures_that_a_project_could_not_keep_are_found() {
    let scene = installed();
    std::fs::create_dir_all(scene.path(".phasegate/faults.jsonl")).unwrap();
    scene.file(".phasegate/config.toml", "[");
    for _ in 0..2 {
        scene.hook(&scene.payload());
    }
    // Half a line that a full disk has left does not swallow the next one.
    let log = scene.path("home/.local/state/phasegate/faults.jsonl");
    let text = std::fs::read_to_string(&log).unwrap();
    assert_eq!(text.lines().count(), 2, "{text}");
    std::fs::write(&log, text.trim_end().rsplit_once('"').unwrap().0).unwrap();
    scene.hook(&scene.payload());
    std::fs::remove_file(scene.path(".phasegate/config.toml")).unwrap();
    let rows = rows(&scene);
    let row = rows.iter().find(|row| row["id"] == "faults").unwrap();
    assert_eq!(row["details"].as_array().unwrap().len(), 2, "{row}");
}
