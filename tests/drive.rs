//! Headless agents, turn by turn: the exit code tells how it ended, and a drive that was killed goes on.

use serde_json::json;

use crate::scene::{Ran, STATE, Scene, finish};

fn drive(scene: &Scene, args: &[&str]) -> Ran {
    let mut command = scene.command();
    command.arg("drive").args(args).env("PHASEGATE_TRUST_ALL", "1");
    let path = format!("{}:{}", scene.path("bin").display(), std::env::var("PATH").unwrap());
    command.env("PATH", path);
    finish(scene.spawn(command, b""))
}

/// Two entries, and an agent that writes the results it is asked for.
fn notes() -> Scene {
    let scene = Scene::new();
    scene.file(
        ".phasegate/workflows/notes.toml",
        "name = \"notes\"\nabout = \"x\"\ninitial = \"a\"\n[phase.a]\nrules = [\n{ on = \"stop\", when = \"text('NOTES.md') | length < 9\", block = \"Say more: {{ text('NOTES.md') | length }}.\" },\n{ on = \"stop\", goto = \"b\", allow = \"done\" },\n]\n[phase.b]\nfinal = true\n",
    );
    scene.ok(&["notes", "start", "--name", "x"]);
    scene
}

const AGENT: &str =
    "cat > said-$(ls said-* 2>/dev/null | wc -l); printf 'abc' >> NOTES.md; echo I wrote";

#[test]
fn an_agent_works_until_the_gate_says_done() {
    let scene = notes();
    let ran = drive(&scene, &["notes", "--prompt", "Take notes.", "--", "sh", "-c", AGENT]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("notes/x: ALLOW done"), "{ran:?}");
    assert!(ran.stderr.contains("turn 3"), "{ran:?}");
    let first = scene.read("said-0");
    assert!(first.starts_with("Take notes.") && first.contains("Say more: 0."), "{first}");
    let second = scene.read("said-1");
    assert!(!second.contains("Take notes.") && second.contains("Say more: 3."), "{second}");
    let stops =
        scene.journal("notes/x").iter().filter(|line| line["event"]["name"] == "stop").count();
    assert_eq!(stops, 4);
    let again = drive(&scene, &["notes", "--", "sh", "-c", AGENT]);
    assert_eq!(again.code, Some(0));
    assert!(again.stdout.contains("is done already"), "{again:?}");
}

#[test]
fn outcomes_have_their_exit_codes() {
    // An agent that does nothing.
    let scene = notes();
    let ran = drive(&scene, &["notes", "--", "true"]);
    assert_eq!(ran.code, Some(4), "{ran:?}");
    assert!(ran.stdout.contains("ALLOW stuck"), "{ran:?}");
    // One that cannot go on.
    let scene = notes();
    let ran = drive(&scene, &["notes", "--", "sh", "-c", "echo no key >&2; exit 7"]);
    assert_eq!(ran.code, Some(10), "{ran:?}");
    assert!(
        ran.stderr.contains("ended with exit code 7") && ran.stderr.contains("no key"),
        "{ran:?}"
    );
    let ran = drive(&scene, &["notes", "--", "no-such-agent"]);
    assert_eq!(ran.code, Some(10), "{ran:?}");
    // Not enough turns; but a completion on the last one wins.
    let scene = notes();
    let ran = drive(&scene, &["notes", "--turns", "1", "--", "sh", "-c", AGENT]);
    assert_eq!(ran.code, Some(6), "{ran:?}");
    let ran = drive(&scene, &["notes", "--turns", "2", "--", "sh", "-c", AGENT]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    // A phase that waits for a person.
    let scene = Scene::new();
    scene.file(".phasegate/workflows/ask.toml", "name = \"ask\"\nabout = \"x\"\ninitial = \"a\"\n[phase.a]\nrules = [{ on = \"stop\", allow = \"waiting\", until = \"human\", message = \"Look.\" }, { on = \"go\", goto = \"b\" }]\n[phase.b]\nfinal = true\n[action.go]\nabout = \"Go.\"\n");
    scene.ok(&["ask", "start"]);
    let ran = drive(&scene, &["ask", "--", "true"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    // A document that cannot be read.
    let scene = notes();
    scene.file(".phasegate/notes/x.json", "not json");
    let ran = drive(&scene, &["notes", "--", "true"]);
    assert_ne!(ran.code, Some(0), "{ran:?}");
    // No run at all.
    let ran = drive(&Scene::new(), &["triage", "--", "true"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("there is no run of workflow triage"), "{ran:?}");
}

#[test]
fn a_budget_ends_it() {
    let scene = notes();
    scene.file(".phasegate/config.toml", "[limits]\nblocks = 2\n");
    let ran = drive(&scene, &["notes", "--", "sh", "-c", "cat >/dev/null; printf a >> NOTES.md"]);
    assert_eq!(ran.code, Some(5), "{ran:?}");
    assert!(ran.stdout.contains("blocks in all"), "{ran:?}");
}

#[test]
fn a_drive_that_is_killed_leaves_no_agent_and_goes_on() {
    let scene = notes();
    let mut command = scene.command();
    command.args([
        "drive",
        "notes",
        "--",
        "sh",
        "-c",
        "cat >/dev/null; printf abc >> NOTES.md; echo $$ > pid; sleep 600",
    ]);
    let mut child = scene.spawn(command, b"");
    super::phases::eventually("the agent works", || scene.exists("pid"));
    child.kill().unwrap();
    child.wait().unwrap();
    let agent = std::path::Path::new("/proc").join(scene.read("pid").trim());
    super::phases::eventually("the agent is gone", || !agent.exists());
    let ran = drive(&scene, &["notes", "--prompt", "Take notes.", "--", "sh", "-c", AGENT]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stderr.contains("goes on after 1 turns"), "{ran:?}");
    // Its first turn came to nothing, so it is told all of it.
    assert!(scene.read("said-0").contains("Take notes."));
}

#[test]
fn the_usual_client_keeps_its_conversation_and_its_cost_is_counted() {
    let scene = notes();
    scene.file("bin/claude", "#!/bin/sh\nprintf '%s ' \"$@\" >> arguments; echo >> arguments\ncat > /dev/null; printf abc >> NOTES.md\necho '{\"type\":\"result\",\"result\":\"I wrote\",\"session_id\":\"c-1\",\"total_cost_usd\":0.5,\"num_turns\":2}'\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(scene.path("bin/claude"), mode).unwrap();
    let ran = drive(&scene, &["notes"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stderr.contains("$1.00"), "{ran:?}");
    let arguments = scene.read("arguments");
    let lines: Vec<&str> = arguments.lines().collect();
    assert!(!lines[0].contains("--resume") && lines[1].contains("--resume c-1"), "{arguments}");
    assert!(arguments.contains("disableAllHooks"));
    let status: serde_json::Value = serde_json::from_str(&scene.ok(&["status", "--json"])).unwrap();
    assert_eq!(status["runs"][0]["tally"]["micro_dollars"], json!(1_500_000));
}

#[test]
fn what_an_agent_says_is_heard() {
    let scene = Scene::new();
    scene.ok(&["loop", "start", "--prompt", "Make it green.", "--max", "5"]);
    let ran = drive(
        &scene,
        &[
            "loop",
            "--",
            "sh",
            "-c",
            "cat >/dev/null; echo x >> n; [ $(wc -l < n) -lt 3 ] && echo working || echo '<loop-done>COMPLETE</loop-done>'",
        ],
    );
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(scene.read("n").lines().count(), 3);
    assert!(!scene.exists(STATE));
}

#[test]
fn another_run_of_the_same_name_is_another_one() {
    let scene = Scene::new();
    scene.ok(&["loop", "start", "--max", "5", "--prompt", "one"]);
    let over = "echo '<loop-done>COMPLETE</loop-done>'; exit 1";
    assert_eq!(drive(&scene, &["loop", "--", "sh", "-c", over]).code, Some(10));
    scene.ok(&["loop", "cancel"]);
    scene.ok(&["loop", "start", "--max", "2", "--prompt", "two"]);
    drive(&scene, &["loop", "--", "sh", "-c", "cat > /dev/null; echo x >> ran"]);
    assert!(scene.exists("ran"));
}

#[test]
fn a_run_is_driven_once_at_a_time() {
    let scene = notes();
    let mut command = scene.command();
    command.args(["drive", "notes", "--", "sh", "-c", "echo > began; sleep 600"]);
    let mut first = scene.spawn(command, b"");
    super::phases::eventually("it works", || scene.exists("began"));
    let ran = drive(&scene, &["notes", "--", "true"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("is being driven already"), "{ran:?}");
    first.kill().unwrap();
    first.wait().unwrap();
}

#[test]
fn money_ends_it_before_the_next_turn() {
    let scene = notes();
    scene.file(".phasegate/config.toml", "[limits]\ndollars = 1\n");
    scene.file("bin/claude", "#!/bin/sh\ncat > /dev/null; printf a >> NOTES.md\necho '{\"result\":\"x\",\"session_id\":\"c\",\"total_cost_usd\":0.6}'\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(scene.path("bin/claude"), mode).unwrap();
    let ran = drive(&scene, &["notes"]);
    assert_eq!(ran.code, Some(6), "{ran:?}");
    assert!(ran.stdout.contains("limit of 1 dollars"), "{ran:?}");
    assert_eq!(scene.read("NOTES.md").len(), 2);
}

#[test]
fn what_it_is_told_first_is_not_lost_and_why_it_failed_is_said() {
    let scene = notes();
    let ran =
        drive(&scene, &["notes", "--prompt", "THE TASK", "--", "sh", "-c", "echo no key; exit 7"]);
    assert!(ran.stderr.contains("no key"), "{ran:?}");
    drive(&scene, &["notes", "--prompt", "THE TASK", "--", "sh", "-c", AGENT]);
    assert!(scene.read("said-0").contains("THE TASK"));
}

#[test]
fn a_driven_agent_leads_the_work_and_is_no_person() {
    let scene = Scene::new();
    scene.file("agent.sh", "cat > /dev/null; sleep 0.8; echo done >> ended\n");
    scene.file(".phasegate/config.toml", "[workflow.phases.const]\nWORKER = [\"sh\", \"agent.sh\"]\nREVIEWER = [\"sh\", \"agent.sh\"]\nREPLACEMENTS = 0\n");
    let mut command = scene.command();
    command.args(["phases", "create", "--title", "Web", "--phases", "[{\"name\":\"Design\"}]"]);
    command.env("PHASEGATE_TRUST_ALL", "1");
    assert_eq!(finish(scene.spawn(command, b"")).code, Some(0));
    let bin = env!("CARGO_BIN_EXE_phasegate");
    let agent = format!(
        "cat > /dev/null; {bin} phases deploy --prompt hi > said 2>&1; {bin} phases approve --force-escalated --reason x >> said 2>&1; echo done"
    );
    let ran = drive(&scene, &["phases", "--", "sh", "-c", &agent]);
    let said = scene.read("said");
    assert!(said.contains("Agent worker-1 works on phase 1"), "{said}");
    assert!(said.contains("Only a person approves"), "{said}");
    // The worker outlives the turn that asked for it, and so do the reviewers. They give no verdict, and
    // then a person is needed.
    assert_eq!(scene.read("ended").lines().count(), 4);
    assert_eq!(ran.code, Some(3), "{ran:?}");
}

/// An agent that speaks the Agent Client Protocol: it asks for a permission, says what it was told, and
/// has a session that costs a quarter of a dollar each turn.
const ACP: &str = r#"
say() { printf '%s\n' "$1"; }
update() { say "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"s1\",\"update\":$1}}"; }
text() { update "{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"$1\"}}"; }
cost() { update "{\"sessionUpdate\":\"usage_update\",\"used\":10,\"size\":100,\"cost\":{\"amount\":$1,\"currency\":\"USD\"}}"; }
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\("[^"]*"\|[0-9]*\).*/\1/p')
  case $line in
  *'"method":"initialize"'*) say "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"protocolVersion\":1,\"agentCapabilities\":{\"loadSession\":true}}}" ;;
  *'"method":"session/new"'*) echo new >>"$LOG"; say "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"sessionId\":\"s1\"}}" ;;
  *'"method":"session/load"'*)
    echo load >>"$LOG"; text 'said before'; cost 0.25
    say "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{}}" ;;
  *'"method":"session/prompt"'*)
    prompt=$id
    say '{"jsonrpc":"2.0","id":"p1","method":"session/request_permission","params":{"sessionId":"s1","toolCall":'"${CALL:-{\"kind\":\"edit\"\}}"',"options":[{"optionId":"no","name":"No","kind":"reject_once"},{"optionId":"yes","name":"Yes","kind":"allow_once"}]}}' ;;
  *'"id":"p1"'*)
    case $line in *'"optionId":"yes"'*) echo allowed >>"$LOG" ;; esac
    text 'I work.'
    update '{"sessionUpdate":"tool_call","toolCallId":"c1","title":"write"}'
    printf x >>NOTES.md; text 'Part one, '; text 'part two.'
    if grep -q load "$LOG"; then cost 0.5; else cost 0.25; fi
    say "{\"jsonrpc\":\"2.0\",\"id\":$prompt,\"result\":{\"stopReason\":\"end_turn\"}}" ;;
  esac
done
"#;

#[test]
fn an_agent_that_speaks_acp_is_driven_in_one_conversation() {
    let scene = Scene::new();
    let gate = "name = \"two\"\nabout = \"x\"\ninitial = \"a\"\n[phase.a]\nrules = [\n{ on = \"stop\", when = \"text('NOTES.md') | length < 2\", block = \"More than: {{ last_message() }}\" },\n{ on = \"stop\", goto = \"b\", allow = \"done\" },\n]\n[phase.b]\nfinal = true\n";
    scene.file(".phasegate/workflows/two.toml", gate).file("agent.sh", ACP);
    scene.ok(&["two", "start", "--name", "x"]);
    let mut command = scene.command();
    command.env("LOG", scene.path("log"));
    command.args(["drive", "two", "--acp", "--", "sh", "agent.sh"]);
    let ran = finish(scene.spawn(command, b""));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("two/x: ALLOW done"), "{ran:?}");
    // The second turn has loaded the session of the first, and each permission was given.
    assert_eq!(scene.read("log"), "new\nallowed\nload\nallowed\n");
    // Only what was said last, after the tool, and nothing of what was said before.
    let reasons: Vec<String> = scene
        .journal("two/x")
        .iter()
        .filter_map(|line| line["answer"]["reason"].as_str().map(str::to_string))
        .collect();
    assert!(reasons[1].starts_with("More than: Part one, part two."), "{reasons:?}");
    // A quarter for each turn, not what the session has cost in all.
    assert!(ran.stderr.contains("turn 2") && ran.stderr.contains("$0.25"), "{ran:?}");
    let spent = &scene.json(".phasegate/runs/two/x/run.json")["work"]["tally"];
    assert!(spent.to_string().contains("500000"), "{spent}");
}

#[test]
fn an_acp_agent_may_do_what_its_rights_are() {
    let scene = Scene::new();
    scene.file("agent.sh", ACP);
    let inside = scene.path("src/a.rs").display().to_string();
    let edit = |path: &str| json!({ "kind": "edit", "locations": [{ "path": path }] });
    let run = |line: &str| json!({ "kind": "execute", "rawInput": { "command": line } });
    let asked = [
        (json!({ "kind": "read" }), true),
        (edit(&inside), true),
        (edit("src/a.rs"), true),
        (edit("/etc/passwd"), false),
        (edit(&format!("{inside}/../../../x")), false),
        (run("git log --oneline"), true),
        (json!({ "kind": "execute", "title": "`git status`" }), true),
        (run("git log > x"), false),
        (run("git diff; rm -r src"), false),
        (run("git push"), false),
        (run("git logs"), false),
        (run("cargo test"), true),
        (run("cargo test; rm -r src"), false),
        (run("rm -r src"), false),
        (json!({ "kind": "fetch" }), false),
        (json!({ "kind": "delete" }), false),
        (json!({}), false),
    ];
    let is_allowed = |call: &serde_json::Value, rights: &[&str]| {
        let _ = std::fs::remove_file(scene.path("log"));
        let mut command = scene.command();
        command.env("LOG", scene.path("log")).env("CALL", call.to_string());
        command.arg("acp-turn").args(rights).args(["--", "sh", "agent.sh"]);
        let ran = finish(scene.spawn(command, b"Work."));
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let is_allowed = scene.read("log").contains("allowed");
        assert_eq!(ran.stderr.contains("refused to the agent"), !is_allowed, "{ran:?}");
        is_allowed
    };
    for (call, expected) in asked {
        assert_eq!(is_allowed(&call, &["--may-run", "cargo test"]), expected, "{call}");
        assert!(is_allowed(&call, &["--all-rights"]), "{call}");
    }
}

#[test]
fn all_rights_are_for_people_and_mean_nothing_to_any_program() {
    let scene = notes();
    let ran = drive(&scene, &["notes", "--all-rights", "--agent", "codex"]);
    assert!(ran.stderr.contains("`drive --all-rights` is for people"), "{ran:?}");
    let ran = scene.by_hand(&["drive", "notes", "--all-rights", "--", "my-agent"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("`--all-rights` means nothing to my-agent"), "{ran:?}");
}

#[test]
fn an_acp_agent_that_cannot_be_started_is_said() {
    let scene = Scene::new();
    let gate = "name = \"two\"\nabout = \"x\"\ninitial = \"a\"\n[phase.a]\nrules = [{ on = \"stop\", block = \"go on\" }]\n[phase.b]\nfinal = true\n";
    scene.file(".phasegate/workflows/two.toml", gate);
    scene.ok(&["two", "start", "--name", "x"]);
    let ran = scene.run(&["drive", "two", "--acp", "--", "there-is-none"]);
    assert_eq!(ran.code, Some(10), "{ran:?}");
    assert!(ran.stderr.contains("there-is-none: No such file"), "{ran:?}");
    let ran = scene.run(&["drive", "two", "--acp"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
}
