//! Our entries in other people's settings: in, and out again.

use serde_json::Value;

use crate::scene::Scene;

/// Settings as people write them: comments, odd indents, trailing commas, other hooks.
const ODD: &[(&str, &str)] = &[
    (
        ".claude/settings.json",
        "{\n    // mine\n    \"permissions\": { \"allow\": [\"Bash(ls:*)\"] },\n    \"hooks\": {\n        \"Stop\": [\n            { \"hooks\": [ { \"type\": \"command\", \"command\": \"say done\" } ] }, // keep\n        ],\n        /* two */ \"PreToolUse\": []\n    },\n}\n",
    ),
    (".mcp.json", "{\"mcpServers\":{\"other\":{\"command\":\"x\"}}}"),
    (".codex/hooks.json", "{}"),
    (".codex/config.toml", "# mine\nmodel = \"gpt\"\n\n[mcp_servers.other]\ncommand = \"x\"\n"),
    (".gemini/settings.json", "{\"theme\":\"dark\",\"hooks\":{}}"),
    (".qwen/settings.json", "{\n\n  \"hooks\" : {\n    \"Stop\" : [ ]\n  }\n\n}"),
    (".cursor/hooks.json", "{\r\n\t\"version\": 1,\r\n\t\"hooks\": {\r\n\t}\r\n}\r\n"),
    (".cursor/mcp.json", "{ \"mcpServers\": { } } // no newline at the end"),
    (
        ".vscode/mcp.json",
        "// servers\n{\n\t\"servers\": {\n\t\t\"a\": { \"command\": \"a\" }\n\t}\n}\n",
    ),
    (".factory/settings.json", "{\n  \"a\": [1, 2,\n    3]\n}\n"),
    ("opencode.json", "{\n  \"theme\": \"dark\", // mine\n  \"mcp\": {}\n}\n"),
    (
        ".agents/hooks.json",
        "{\n  \"lint\": {\n    \"Stop\": [{ \"command\": \"make lint\" }]\n  }\n}\n",
    ),
];

/// All clients, with our MCP server.
const ALL: &[&str] = &["--mcp", "--client", NAMES];

const NAMES: &str = "claude,codex,gemini,qwen,copilot,vscode,cursor,droid,opencode,antigravity";

fn odd() -> Scene {
    let scene = Scene::bare();
    scene.file("Cargo.toml", "");
    for (path, text) in ODD {
        scene.file(path, text);
    }
    scene
}

/// The JSON without comments and trailing commas.
fn plain(text: &str) -> Value {
    let mut plain = String::new();
    for line in text.lines() {
        let line = line.split("//").next().unwrap().replace("/* two */", "");
        plain += &line;
        plain.push('\n');
    }
    let mut packed: String = plain.split_whitespace().collect();
    for (from, to) in [(",]", "]"), (",}", "}")] {
        packed = packed.replace(from, to);
    }
    serde_json::from_str(&packed).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn settings_survive_init_and_uninstall_byte_for_byte() {
    let scene = odd();
    let said = scene.ok(&[&["init"], ALL].concat());
    assert!(said.contains("change .claude/settings.json (Claude Code)"), "{said}");
    assert!(said.contains("new .github/hooks/phasegate.json (Copilot CLI)"), "{said}");
    // Everything that others wrote is still there, and so is ours.
    let claude = plain(&scene.read(".claude/settings.json"));
    assert_eq!(claude["hooks"]["Stop"][0]["hooks"][0]["command"], "saydone");
    assert_eq!(claude["hooks"]["Stop"][1]["hooks"][0]["command"], "phasegate");
    assert_eq!(claude["hooks"]["SessionStart"][0]["hooks"][0]["args"][1], "session-start");
    assert_eq!(plain(&scene.read(".mcp.json"))["mcpServers"]["phasegate"]["args"][0], "mcp");
    let gemini = plain(&scene.read(".gemini/settings.json"));
    assert_eq!(gemini["hooks"]["AfterAgent"][0]["hooks"][0]["timeout"], 300_000);
    assert_eq!(gemini["hooks"]["SessionEnd"][0]["hooks"][0]["timeout"], 30_000);
    assert_eq!(
        plain(&scene.read(".cursor/hooks.json"))["hooks"]["stop"][0]["command"],
        "phasegatehookstop--clientcursor"
    );
    assert_eq!(
        plain(&scene.read(".qwen/settings.json"))["hooks"]["Stop"][0]["hooks"][0]["type"],
        "command"
    );
    assert_eq!(
        plain(&scene.read(".qwen/settings.json"))["hooks"]["Stop"][0]["hooks"][0]["timeout"],
        60_000
    );
    let cursor = plain(&scene.read(".cursor/hooks.json"));
    assert_eq!(cursor["hooks"]["stop"][0].get("loop_limit"), Some(&Value::Null));
    let codex = scene.read(".codex/config.toml");
    assert!(
        codex.ends_with("\n\n[mcp_servers.phasegate]\ncommand = \"phasegate\"\nargs = [\"mcp\"]\n"),
        "{codex}"
    );
    for path in [".github/mcp.json", ".factory/mcp.json"] {
        assert_eq!(plain(&scene.read(path))["mcpServers"]["phasegate"]["args"][0], "mcp", "{path}");
    }
    let antigravity = plain(&scene.read(".agents/hooks.json"));
    assert_eq!(antigravity["lint"]["Stop"][0]["command"], "makelint");
    assert_eq!(antigravity["phasegate"]["Stop"][0]["timeout"], 30);
    assert!(
        scene.read(".cursor/hooks.json").contains("\r\n")
            && !scene.read(".cursor/hooks.json").replace("\r\n", "").contains('\n')
    );
    // Twice is once.
    let before = scene.snapshot();
    assert!(scene.ok(&[&["init"], ALL].concat()).contains("Everything is already installed."));
    assert_eq!(scene.snapshot(), before);
    scene.ok(&["uninstall"]);
    for (path, text) in ODD {
        assert_eq!(&scene.read(path), text, "{path}");
    }
    assert!(!scene.exists(".github"), "what was made only for us is gone");
    assert!(!scene.exists(".opencode"), "and so is the plugin");
    assert!(scene.ok(&["uninstall"]).contains("nothing to remove"));
}

#[test]
fn what_is_ours_is_removed_also_where_nobody_remembers_how_it_came_there() {
    let scene = odd();
    scene.ok(&[&["init"], ALL].concat());
    std::fs::remove_file(scene.path(".phasegate/installed.json")).unwrap();
    // Somebody has tidied up meanwhile.
    let text = scene.read(".claude/settings.json").replace("\"timeout\": 600", "\"timeout\": 300");
    scene.file(".claude/settings.json", text);
    scene.ok(&["uninstall"]);
    for (path, text) in ODD {
        let now = scene.read(path);
        assert!(!now.contains("phasegate"), "{path}: {now}");
        if *path == ".codex/config.toml" {
            assert_eq!(now, *text);
            continue;
        }
        if !text.contains("{}")
            && !text.contains("[ ]")
            && !text.contains("{ }")
            && !text.contains("{\r\n\t}")
        {
            let (now, text) = (plain(&now), plain(text));
            let kept = text.as_object().unwrap().keys().all(|key| now.get(key).is_some());
            assert!(kept, "{path}: {now}");
        }
    }
}

#[test]
fn print_only_shows() {
    let scene = odd();
    let before = scene.snapshot();
    let said = scene.ok(&[&["init", "--print"], ALL].concat());
    assert!(said.contains("Nothing was written"), "{said}");
    assert_eq!(scene.snapshot(), before);
}

#[test]
fn settings_that_cannot_be_read_are_not_touched() {
    for text in ["{ not json", "[]", "{\"hooks\": 5}", "{\"hooks\": {\"Stop\": {}}}"] {
        let scene = Scene::bare();
        scene.file(".claude/settings.json", text);
        let ran = scene.run(&["init", "--client", "claude"]);
        assert_eq!(ran.code, Some(1), "{text}");
        assert!(ran.stderr.contains(".claude/settings.json cannot be changed"), "{ran:?}");
        assert_eq!(scene.read(".claude/settings.json"), text);
    }
}

#[test]
fn a_project_gets_what_it_needs_to_begin() {
    let scene = Scene::bare();
    scene.file("Cargo.toml", "");
    scene.ok(&["init"]);
    // Documents that are committed would come back in every clone.
    scene.git(&["init", "-q"]);
    scene.file(".phasegate/notes/x.json", "{}").file(".phasegate/config.toml", "");
    let listed = scene.git(&["status", "--porcelain", "--untracked-files=all", ".phasegate"]);
    assert!(listed.contains("config.toml") && listed.contains("ship.toml"), "{listed}");
    assert!(!listed.contains("x.json"), "{listed}");
    let starter = scene.read(".phasegate/workflows/ship.toml");
    assert!(starter.contains("run = [\"cargo\", \"test\"]"), "{starter}");
    scene.ok(&["lint", "ship", "--strict"]);
    scene.ok(&["ship", "start"]);
    // Its own workflow is not overwritten, and its client's folder is found the next time.
    scene.file(".phasegate/workflows/ship.toml", "mine");
    scene.ok(&["init"]);
    assert_eq!(scene.read(".phasegate/workflows/ship.toml"), "mine");
}

#[test]
fn the_gate_that_it_writes_stands_at_once_with_the_projects_own_tests() {
    let scene = Scene::bare();
    scene.file("Cargo.toml", "");
    let said = scene.ok(&["init"]);
    assert!(said.contains("Gate ship stands: it holds every session that changes files"), "{said}");
    assert!(scene.ok(&["status"]).contains("Gate ship stands: "));
    let doctor = scene.run(&["doctor"]).stdout;
    assert!(doctor.contains("gate.ship            Gate ship stands: "), "{doctor}");
    // The hooks alone: tools in every session are asked for.
    assert!(!scene.exists(".mcp.json"));
    scene.ok(&["init", "--mcp"]);
    assert!(scene.exists(".mcp.json"));
}

#[test]
fn without_a_known_command_nothing_stands_and_what_to_fill_in_is_said() {
    let scene = Scene::bare();
    let said = scene.ok(&["init"]);
    assert!(said.contains("No command for the tests was found, so nothing stands yet"), "{said}");
    assert!(!scene.ok(&["status"]).contains("stands"), "{said}");
    let linted = scene.ok(&["lint", "ship"]);
    assert!(linted.contains("stands for the command of your tests"), "{linted}");
    assert!(linted.contains("ship: 0 errors, 1 warning"), "{linted}");
    // Not even by hand does it pass for something.
    scene.ok_by_hand(&["trust", "ship", "--yes"]);
    scene.ok(&["ship", "start"]);
    scene.stop().blocks("The tests fail");
}

#[test]
fn for_a_user_it_is_the_users_own_files() {
    let scene = Scene::bare();
    scene.file("home/.claude/settings.json", "{}\n");
    scene.ok(&["init", "--user", "--client", "claude,codex"]);
    assert!(scene.read("home/.claude/settings.json").contains("phasegate"));
    assert!(scene.exists("home/.codex/hooks.json"));
    assert!(!scene.exists(".claude") && !scene.exists(".mcp.json") && !scene.exists(".phasegate"));
    scene.ok(&["uninstall", "--user"]);
    assert_eq!(scene.read("home/.claude/settings.json"), "{}\n");
    assert!(!scene.exists("home/.codex"));
    scene.ok(&["init", "--user", "--mcp", "--client", "copilot,codex"]);
    assert!(scene.read("home/.copilot/hooks/phasegate.json").contains("agentStop"));
    assert!(scene.read("home/.copilot/mcp-config.json").contains("mcpServers"));
    scene.ok(&["uninstall", "--user"]);
    assert!(!scene.exists("home/.copilot") && !scene.exists("home/.codex"));
    let ran = scene.run(&["init", "--user", "--client", "vscode"]);
    assert!(ran.stderr.contains("for projects only"), "{ran:?}");
}

#[test]
fn what_others_have_written_beside_ours_stays_theirs() {
    let scene = Scene::bare();
    let settings = r#"{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"phasegate hook stop"},{"type":"command","command":"./my-own-stop.sh"}]},{"hooks":[{"type":"command","command":"/opt/phasegate-tools/hooks/notify.sh --client-id 3"}]}]}}"#;
    scene.file(".claude/settings.json", settings);
    let mcp = r#"{"mcpServers":{"phasegate":{"command":"phasegate","args":["mcp","--workflow","mine"]}}}"#;
    scene.file(".mcp.json", mcp);
    scene.ok(&["init", "--client", "claude"]);
    // One is there already, and stays the only one.
    let now = scene.read(".claude/settings.json");
    assert_eq!(now.matches("\"stop\"").count() + now.matches("hook stop").count(), 1, "{now}");
    scene.ok(&["uninstall"]);
    let now = scene.read(".claude/settings.json");
    assert!(now.contains("./my-own-stop.sh") && now.contains("notify.sh --client-id 3"), "{now}");
    assert!(!now.contains("phasegate hook stop"), "{now}");
    assert_eq!(scene.read(".mcp.json"), mcp);
}

#[test]
fn an_edit_between_init_and_uninstall_stays() {
    let scene = Scene::bare();
    scene.file(".claude/settings.json", "{}");
    scene.ok(&["init", "--client", "claude"]);
    let text = scene.read(".claude/settings.json");
    let edited = format!("{}, \"model\": \"opus\"}}", text.trim_end().strip_suffix('}').unwrap());
    scene.file(".claude/settings.json", &edited);
    scene.ok(&["uninstall"]);
    let now = scene.json(".claude/settings.json");
    assert_eq!(now["model"], "opus");
    assert!(!now.to_string().contains("phasegate"), "{now}");
}

#[test]
fn one_file_that_cannot_be_changed_does_not_keep_the_others_from_it() {
    let scene = Scene::bare();
    scene.file(".codex/hooks.json", "[]").file(".claude/settings.json", "\u{feff}{}\n");
    let ran = scene.run(&["init", "--client", "codex,claude"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains(".codex/hooks.json cannot be changed"), "{ran:?}");
    assert!(scene.read(".claude/settings.json").contains("phasegate"));
    let ran = scene.run(&["uninstall", "--client", "claude"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(scene.read(".claude/settings.json"), "\u{feff}{}\n");
    assert!(!scene.exists(".mcp.json"));
}

#[test]
fn what_was_empty_is_empty_again() {
    let scene = Scene::bare();
    scene.file(".claude/settings.json", "\n");
    std::fs::create_dir(scene.path(".codex")).unwrap();
    scene.ok(&["init", "--client", "claude,codex"]);
    scene.ok(&["uninstall"]);
    assert_eq!(scene.read(".claude/settings.json"), "\n");
    assert!(scene.path(".codex").is_dir());
}

#[test]
fn a_table_does_not_get_where_it_does_not_fit() {
    let scene = Scene::bare();
    let own = "mcp_servers = { phasegate = { command = \"mine\" } }\n";
    scene.file(".codex/config.toml", own);
    scene.ok(&["init", "--mcp", "--client", "codex"]);
    assert_eq!(scene.read(".codex/config.toml"), own);
    let inline = "mcp_servers = { other = { command = \"x\" } }\n";
    scene.file(".codex/config.toml", inline);
    let ran = scene.run(&["init", "--mcp", "--client", "codex"]);
    assert!(ran.stderr.contains("does not fit into it"), "{ran:?}");
    scene.file(".codex/config.toml", "not toml at all\n");
    let ran = scene.run(&["init", "--mcp", "--client", "codex"]);
    assert!(ran.stderr.contains(".codex/config.toml cannot be changed"), "{ran:?}");
    assert_eq!(scene.read(".codex/config.toml"), "not toml at all\n");
}

#[test]
fn what_a_person_must_do_before_it_works_is_said() {
    let scene = Scene::bare();
    for (client, words) in [
        ("codex", "Trust all and continue"),
        ("gemini", "trust the folder"),
        ("copilot", "trust the folder"),
    ] {
        let said = scene.ok(&["init", "--client", client]);
        assert!(said.contains("Before it works: ") && said.contains(words), "{client}: {said}");
    }
    for client in ["claude", "qwen", "droid"] {
        let said = scene.ok(&["init", "--client", client]);
        assert!(!said.contains("Before it works"), "{client}: {said}");
    }
}

#[test]
fn a_program_of_ours_that_somebody_has_changed_stays() {
    let scene = Scene::bare();
    let place = ".opencode/plugins/phasegate.js";
    scene.ok(&["init", "--client", "opencode"]);
    let own = scene.read(place);
    // Nobody remembers how it came there, and it is ours all the same.
    std::fs::remove_file(scene.path(".phasegate/installed.json")).unwrap();
    scene.ok(&["uninstall"]);
    assert!(!scene.exists(place));
    scene.file(place, format!("{own}// mine\n"));
    let ran = scene.run(&["init", "--client", "opencode"]);
    assert!(
        ran.stderr.contains(
            "phasegate.js cannot be changed: it does not have the form that Phasegate writes"
        ),
        "{ran:?}"
    );
    scene.ok(&["uninstall"]);
    assert!(scene.read(place).ends_with("// mine\n"));
}

#[test]
fn the_settings_for_an_organisation_are_printed_and_nothing_is_written() {
    let scene = Scene::bare();
    let ran = scene.run(&["init", "--managed", "--print"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let settings: Value = serde_json::from_str(&ran.stdout).unwrap();
    let hook = &settings["hooks"]["Stop"][0]["hooks"][0];
    assert_eq!((&hook["command"], &hook["args"][1]), (&"phasegate".into(), &"stop".into()));
    assert_eq!(settings["disableAllHooks"], false);
    assert_eq!(settings["env"]["PHASEGATE_DISABLE"], "");
    assert!(ran.stderr.contains("/etc/claude-code/managed-settings.json"), "{ran:?}");
    assert!(scene.snapshot().is_empty());
    assert_eq!(scene.run(&["init", "--managed"]).code, Some(2));
    let other = scene.run(&["init", "--managed", "--print", "--client", "gemini"]);
    assert!(other.stderr.contains("has no settings for organisations"), "{other:?}");
}
