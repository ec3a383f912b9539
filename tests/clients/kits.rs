//! The clients: which packages of npm they are, how they are made to talk to nobody but our API, and
//! what their tools are called.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::real::api::{Api, Reply};
use crate::real::npm;
use crate::real::scene::Scene;

/// A tool, and what it is given for a text.
pub type Call = (&'static str, fn(&str) -> Value);

/// What a test must know of a client. Everything else is asked of the client.
pub struct Kit {
    pub name: &'static str,
    pub version: &'static str,
    packages: &'static [&'static str],
    /// Programs to link into PATH, by their place below `node_modules`; the first is the client.
    programs: &'static [(&'static str, &'static str)],
    /// Settings of the user that have it ask our API.
    pub settle: fn(&Scene, &Api),
    variables: fn(&Api) -> Vec<(&'static str, String)>,
    /// Its own step of trust, where it has one.
    pub trust: Option<fn(&Scene)>,
    /// A turn without a person; none where it is a server.
    pub turn: &'static [&'static str],
    /// A command in its shell.
    pub shell: fn(&str) -> Reply,
    /// A new file of the project, as it is written without a shell: its path, and the text.
    pub writes: fn(&Path, &str) -> Reply,
    /// Its tool for a sub-agent, and what it is given.
    pub agent: Call,
    /// The name of one of our MCP tools.
    pub server: &'static str,
    /// The tool that finds ours where they are not offered at once.
    pub search: Option<Call>,
    /// How it speaks the Agent Client Protocol, where it does.
    pub acp: &'static [&'static str],
    /// Whether it loads a session of that again. Gemini says that it does, and then knows of none.
    pub loads: bool,
    /// How many blocks it gets before the gate ends the turn as capped; none where it has no cap.
    pub cap: Option<usize>,
    /// Files that `init` writes.
    pub files: &'static [&'static str],
}

impl Kit {
    /// An empty project with the client.
    ///
    /// # Errors
    /// Where the client cannot be had.
    pub fn scene(&self) -> Result<Scene, String> {
        let modules = Path::new("node_modules");
        let first = modules.join(self.programs[0].1);
        let cache = format!("{}-{}", self.name, self.version);
        let folder = npm::install(&cache, self.packages, &first)?;
        let programs: Vec<(&str, PathBuf)> = self
            .programs
            .iter()
            .map(|(name, place)| (*name, folder.join(modules).join(place)))
            .collect();
        let programs: Vec<(&str, &Path)> =
            programs.iter().map(|(name, path)| (*name, path.as_path())).collect();
        Ok(Scene::with(&programs))
    }

    /// What has it ask this API.
    pub fn variables(&self, api: &Api) -> Vec<(&'static str, String)> {
        (self.variables)(api)
    }
}

pub static KITS: &[Kit] = &[
    Kit {
        name: "claude",
        version: "2.1.325",
        packages: &["@anthropic-ai/claude-code@2.1.325"],
        programs: &[("claude", "@anthropic-ai/claude-code-linux-x64/claude")],
        settle: |scene, _| {
            home(scene, ".claude/settings.json", &json!({ "enableAllProjectMcpServers": true }));
        },
        variables: |api| {
            let one = || "1".to_string();
            vec![
                ("ANTHROPIC_BASE_URL", api.url()),
                ("ANTHROPIC_API_KEY", "dummy".into()),
                ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", one()),
                ("DISABLE_TELEMETRY", one()),
                ("DISABLE_AUTOUPDATER", one()),
                ("DISABLE_ERROR_REPORTING", one()),
                ("IS_SANDBOX", one()),
            ]
        },
        trust: None,
        turn: &["--print", "--dangerously-skip-permissions", "--model", "sonnet", "--"],
        shell: |command| {
            Reply::tool("Bash", json!({ "command": command, "description": "Writes notes" }))
        },
        writes: |path, text| Reply::write(path, text),
        agent: (
            "Agent",
            |prompt| json!({ "description": "Says it", "prompt": prompt, "subagent_type": "general-purpose" }),
        ),
        server: "mcp__phasegate__wait_for_change",
        search: Some(("ToolSearch", |tool| json!({ "query": format!("select:{tool}") }))),
        acp: &[],
        loads: false,
        cap: Some(7),
        files: &[".claude/settings.json", ".mcp.json"],
    },
    Kit {
        name: "codex",
        version: "0.166.0",
        packages: &["@openai/codex@0.166.0"],
        programs: &[(
            "codex",
            "@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex",
        )],
        settle: |scene, api| {
            let config = format!(
                "model = \"fake\"\nmodel_provider = \"fake\"\n\n[model_providers.fake]\nname = \"fake\"\n\
                 base_url = \"{}/v1\"\nwire_api = \"responses\"\nenv_key = \"OPENAI_API_KEY\"\n",
                api.url()
            );
            write(scene, ".codex/config.toml", &config);
        },
        variables: |_| vec![("OPENAI_API_KEY", "dummy".into())],
        trust: Some(codex_trust),
        turn: &["exec", "--json", "--sandbox", "workspace-write"],
        shell: |command| Reply::tool("exec_command", json!({ "cmd": command })),
        // Its least is a sandbox, in which it may use its shell.
        writes: |path, text| {
            Reply::tool(
                "exec_command",
                json!({ "cmd": format!("printf '{text}' > {}", path.display()) }),
            )
        },
        agent: ("multi_agent_v1/spawn_agent", |prompt| json!({ "message": prompt })),
        server: "mcp__phasegate/wait_for_change",
        search: None,
        acp: &[],
        loads: false,
        cap: None,
        files: &[".codex/hooks.json", ".codex/config.toml"],
    },
    Kit {
        name: "gemini",
        version: "0.61.0",
        packages: &["@google/gemini-cli@0.61.0"],
        programs: &[("gemini", ".bin/gemini")],
        settle: |scene, _| {
            let settings = json!({
                "security": { "auth": { "selectedType": "gemini-api-key" } },
                "model": { "name": "gemini-2.5-flash" },
                "general": { "enableAutoUpdate": false },
                "privacy": { "usageStatisticsEnabled": false },
            });
            home(scene, ".gemini/settings.json", &settings);
        },
        variables: |api| {
            vec![("GEMINI_API_KEY", "dummy".into()), ("GOOGLE_GEMINI_BASE_URL", api.url())]
        },
        trust: Some(|scene| {
            let root = scene.root().canonicalize().unwrap();
            let rules = json!({ root.to_str().unwrap(): "TRUST_FOLDER" });
            home(scene, ".gemini/trustedFolders.json", &rules);
        }),
        turn: &["--yolo", "--prompt"],
        shell: |command| {
            let input = json!({ "command": command, "description": "Writes notes" });
            Reply::tool("run_shell_command", input)
        },
        writes: |path, text| {
            Reply::tool("write_file", json!({ "file_path": path, "content": text }))
        },
        agent: ("invoke_agent", |prompt| json!({ "agent_name": "generalist", "prompt": prompt })),
        server: "mcp_phasegate_wait_for_change",
        search: None,
        acp: &["--acp", "--skip-trust"],
        loads: false,
        cap: None,
        files: &[".gemini/settings.json"],
    },
    Kit {
        name: "qwen",
        version: "0.24.4",
        packages: &["@qwen-code/qwen-code@0.24.4", "node@22.23.3"],
        programs: &[("qwen", ".bin/qwen"), ("node", ".bin/node")],
        settle: |scene, _| {
            let settings = json!({ "security": { "auth": { "selectedType": "openai" } } });
            home(scene, ".qwen/settings.json", &settings);
        },
        variables: |api| {
            vec![
                ("OPENAI_API_KEY", "dummy".into()),
                ("OPENAI_BASE_URL", format!("{}/v1", api.url())),
                ("OPENAI_MODEL", "fake".into()),
            ]
        },
        trust: None,
        turn: &["--yolo", "--prompt"],
        shell: |command| {
            let input = json!({ "command": command, "description": "Writes notes", "is_background": false });
            Reply::tool("run_shell_command", input)
        },
        writes: |path, text| {
            Reply::tool("write_file", json!({ "file_path": path, "content": text }))
        },
        agent: (
            "agent",
            |prompt| json!({ "description": "Says it", "prompt": prompt, "subagent_type": "general-purpose" }),
        ),
        server: "mcp__phasegate__wait_for_change",
        search: Some(("tool_search", |tool| json!({ "query": tool }))),
        acp: &["--acp"],
        loads: true,
        cap: Some(7),
        files: &[".qwen/settings.json"],
    },
    Kit {
        name: "copilot",
        version: "1.0.102",
        packages: &["@github/copilot@1.0.102"],
        programs: &[("copilot", "@github/copilot-linux-x64/copilot")],
        settle: |_, _| {},
        variables: |api| {
            vec![
                ("COPILOT_PROVIDER_BASE_URL", format!("{}/v1", api.url())),
                ("COPILOT_MODEL", "gpt-5".into()),
                ("COPILOT_OFFLINE", "true".into()),
            ]
        },
        trust: Some(|scene| {
            let root = scene.root().canonicalize().unwrap();
            home(scene, ".copilot/config.json", &json!({ "trustedFolders": [root] }));
        }),
        turn: &["--allow-all-tools", "--silent", "--prompt"],
        shell: |command| {
            Reply::tool("bash", json!({ "command": command, "description": "Writes notes" }))
        },
        writes: |path, text| Reply::tool("create", json!({ "path": path, "file_text": text })),
        agent: ("task", |prompt| {
            json!({
                "description": "Says it", "prompt": prompt, "agent_type": "general-purpose",
                "name": "sayer",
            })
        }),
        server: "phasegate-wait_for_change",
        search: None,
        acp: &["--acp"],
        loads: true,
        cap: Some(7),
        files: &[".github/hooks/phasegate.json", ".github/mcp.json"],
    },
    Kit {
        name: "droid",
        version: "0.225.2",
        packages: &["@factory/cli-linux-x64@0.225.2"],
        programs: &[("droid", "@factory/cli-linux-x64/bin/droid")],
        settle: |scene, api| {
            let model = json!({
                "model": "fake", "displayName": "fake", "apiKey": "dummy",
                "baseUrl": format!("{}/v1", api.url()), "maxOutputTokens": 1000,
                "provider": "generic-chat-completion-api",
            });
            let settings = json!({
                "customModels": [model], "sessionDefaultSettings": { "model": "custom:fake-0" },
            });
            home(scene, ".factory/settings.json", &settings);
        },
        variables: |api| {
            vec![
                ("FACTORY_API_KEY", "fk-dummy".into()),
                // It keeps its sessions there, too.
                ("FACTORY_API_BASE_URL", api.url()),
                ("FACTORY_TELEMETRY_INGEST_BASE_URL", api.url()),
                ("FACTORY_DROID_AUTO_UPDATE_ENABLED", "false".into()),
            ]
        },
        trust: None,
        turn: &["exec", "--auto", "high"],
        shell: |command| {
            // The model says how risky it is.
            let risk = if command.starts_with("git") { "low" } else { "medium" };
            let input = json!({
                "command": command, "summary": "Write some notes down", "timeout": 60,
                "riskLevel": risk, "riskLevelReason": "It runs a command.",
            });
            Reply::tool("Execute", input)
        },
        writes: |path, text| Reply::tool("Create", json!({ "file_path": path, "content": text })),
        agent: (
            "Task",
            |prompt| json!({ "description": "Says it", "prompt": prompt, "subagent_type": "worker" }),
        ),
        server: "phasegate___wait_for_change",
        search: Some(("ToolSearch", |tool| json!({ "query": tool }))),
        acp: &[],
        loads: false,
        cap: None,
        files: &[".factory/settings.json", ".factory/mcp.json"],
    },
    Kit {
        name: "opencode",
        version: "1.18.33",
        packages: &["opencode-ai@1.18.33"],
        programs: &[("opencode", "opencode-linux-x64/bin/opencode")],
        settle: |scene, api| {
            let options = json!({ "baseURL": format!("{}/v1", api.url()), "apiKey": "dummy" });
            let provider = json!({
                "npm": "@ai-sdk/openai-compatible", "name": "fake", "options": options,
                "models": { "fake": { "name": "fake" } },
            });
            let settings = json!({
                "model": "fake/fake", "small_model": "fake/fake", "autoupdate": false,
                "share": "disabled", "provider": { "fake": provider },
            });
            home(scene, ".config/opencode/opencode.json", &settings);
        },
        variables: |_| {
            let yes = || "true".to_string();
            vec![
                ("OPENCODE_DISABLE_AUTOUPDATE", yes()),
                ("OPENCODE_DISABLE_MODELS_FETCH", yes()),
                ("OPENCODE_DISABLE_LSP_DOWNLOAD", yes()),
            ]
        },
        trust: None,
        turn: &[],
        shell: |command| {
            Reply::tool("bash", json!({ "command": command, "description": "Writes notes" }))
        },
        writes: |path, text| Reply::tool("write", json!({ "filePath": path, "content": text })),
        agent: (
            "task",
            |prompt| json!({ "description": "Says it", "prompt": prompt, "subagent_type": "general" }),
        ),
        server: "phasegate_wait_for_change",
        search: None,
        acp: &["acp"],
        loads: true,
        cap: None,
        files: &[".opencode/plugins/phasegate.js", "opencode.json"],
    },
];

/// Asks the client itself what it would have to be told to trust, and writes that where its dialogue
/// would.
fn codex_trust(scene: &Scene) {
    let root = scene.root().canonicalize().unwrap();
    let config = scene.home().join(".codex/config.toml");
    let before = std::fs::read_to_string(&config).unwrap();
    // Whoever names a sandbox has trusted the folder, but not the hooks.
    let is_known = before.contains("[projects.");
    let folder = format!("\n[projects.\"{}\"]\ntrust_level = \"trusted\"\n", root.display());
    let folder = if is_known { String::new() } else { folder };
    std::fs::write(&config, format!("{before}{folder}")).unwrap();
    let mut command = scene.command("codex");
    let mut server = command
        .arg("app-server")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let asks = [
        json!({ "id": 0, "method": "initialize", "params": { "clientInfo": { "name": "t", "version": "1" } } }),
        json!({ "method": "initialized" }),
        json!({ "id": 1, "method": "hooks/list", "params": { "cwds": [root] } }),
    ];
    let mut stdin = server.stdin.take().unwrap();
    for ask in asks {
        writeln!(stdin, "{ask}").unwrap();
    }
    let lines = BufReader::new(server.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut answers = lines.filter_map(|line| serde_json::from_str::<Value>(&line).ok());
    let listed = answers.find(|answer| answer["id"] == 1).unwrap_or_default();
    server.kill().unwrap();
    server.wait().unwrap();
    let hooks = listed["result"]["data"][0]["hooks"].as_array().cloned().unwrap_or_default();
    assert_eq!(hooks.len(), 4, "{listed}");
    let state = |hook: &Value| {
        format!("[hooks.state.{}]\ntrusted_hash = {}\n", hook["key"], hook["currentHash"])
    };
    let state: String = hooks.iter().map(state).collect();
    std::fs::write(&config, format!("{before}{folder}\n{state}")).unwrap();
}

/// Writes a file into the home folder.
fn write(scene: &Scene, path: &str, text: &str) {
    let path = scene.home().join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// Writes a file of JSON into the home folder.
fn home(scene: &Scene, path: &str, value: &Value) {
    write(scene, path, &value.to_string());
}
