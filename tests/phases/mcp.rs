//! The MCP server, by its raw protocol: stdio and HTTP, both generations, and who may do what.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use super::{Phases, eventually, kill};
use crate::scene::Scene;

/// A client at the other end of stdio.
pub struct Client {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    asked: u64,
}

impl Client {
    /// A server for the task's project, started as a client does, with more environment.
    pub fn start(phases: &Phases, args: &[&str], env: &[(&str, &str)]) -> Client {
        let token = env.iter().find(|(name, _)| *name == "PHASEGATE_TOKEN");
        let mut command = token.map_or_else(|| phases.command(), |(_, token)| phases.below(token));
        command.arg("mcp").args(args).envs(env.iter().copied());
        Client::of(command)
    }

    /// The client of a server that is started so.
    pub fn of(mut command: Command) -> Client {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take(), child.stdout.take().unwrap());
        let mut client = Client { child, input, output: BufReader::new(output), asked: 0 };
        let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
        let answer = client.ask("initialize", &hello);
        assert_eq!(answer["result"]["protocolVersion"], "2025-11-25", "{answer}");
        client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        client
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    pub fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.asked += 1;
        let message =
            json!({ "jsonrpc": "2.0", "id": self.asked, "method": method, "params": params });
        self.send(&message);
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(answer["id"], self.asked, "{answer}");
        answer
    }

    pub fn tools(&mut self) -> Vec<String> {
        let answer = self.ask("tools/list", &json!({}));
        let tools = answer["result"]["tools"].as_array().unwrap().iter();
        tools.map(|tool| tool["name"].as_str().unwrap().to_string()).collect()
    }

    /// Calls a tool; whether it was an error, and the answer, which is small and the same twice.
    pub fn call(&mut self, name: &str, arguments: &Value) -> (bool, Value) {
        let answer = self.ask("tools/call", &json!({ "name": name, "arguments": arguments }));
        let result = &answer["result"];
        let told = &result["structuredContent"];
        let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
        assert_eq!(&serde_json::from_str::<Value>(text).unwrap(), told);
        // What others found or did comes in pages.
        let most = if name == "get_review_status" || name == "status" || name.starts_with("list_") {
            9_000
        } else {
            2_000
        };
        assert!(text.len() <= most, "{name} answers {} bytes: {text}", text.len());
        (result["isError"] == true, told.clone())
    }

    #[track_caller]
    pub fn ok(&mut self, name: &str, arguments: &Value) -> Value {
        let (is_error, told) = self.call(name, arguments);
        assert!(!is_error && told["success"] == true, "{name}: {told}");
        told
    }

    /// A call that is refused with a code, and still tells what to do.
    #[track_caller]
    pub fn refused(&mut self, name: &str, arguments: &Value, code: &str) -> String {
        let (is_error, told) = self.call(name, arguments);
        assert!(is_error && told["success"] == false, "{name}: {told}");
        assert_eq!(told["code"], code, "{name}: {told}");
        assert!(told["guidance"]["status"].is_string(), "{name}: {told}");
        told["error"].as_str().unwrap().to_string()
    }

    /// A call that is refused with a code, and is about no run.
    #[track_caller]
    pub fn refused_plainly(&mut self, name: &str, arguments: &Value, code: &str) {
        let (is_error, told) = self.call(name, arguments);
        assert!(is_error && told["code"] == code, "{name}: {told}");
    }

    /// Waits until the run stands so.
    #[track_caller]
    pub fn wait_for(&mut self, status: &str) -> Value {
        let mut told = self.ok("wait_for_change", &json!({ "seconds": 0 }));
        for _ in 0..60 {
            if told["guidance"]["status"] == status {
                return told;
            }
            let since = &told["revision"];
            told = self.ok("wait_for_change", &json!({ "seconds": 10, "since": since }));
        }
        panic!("it never comes to {status}: {told}")
    }

    /// Closes the input: the server ends by itself, and has printed nothing more.
    pub fn end(mut self) {
        drop(self.input.take());
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        assert_eq!((rest.as_str(), self.child.wait().unwrap().code()), ("", Some(0)));
    }
}

const PLAN: &str =
    r#"{"title": "Web", "phases": [{"name": "Design"}, {"name": "Implementation Phase"}]}"#;

#[test]
fn a_whole_task_by_tools_alone() {
    let phases = Phases::without_task("");
    let mut client = Client::start(&phases, &[], &[]);
    let tools = client.tools();
    for tool in [
        "create_task",
        "deploy_headless_agent",
        "get_agent_output",
        "kill_real_agent",
        "get_phase_status",
        "get_review_status",
        "submit_phase_for_review",
        "trigger_agentic_review",
        "abort_stalled_review",
        "approve_phase_review",
        "reject_phase_review",
        "advance_to_next_phase",
        "get_phase_handover",
        "wait_for_change",
    ] {
        assert!(tools.iter().any(|known| known == tool), "{tool}: {tools:?}");
    }
    // What is not the orchestrator's is not shown to it.
    assert!(
        !tools
            .iter()
            .any(|tool| tool == "submit_review_verdict" || tool == "update_agent_progress")
    );
    let plan: Value = serde_json::from_str(PLAN).unwrap();
    assert_eq!(client.ok("create_task", &plan)["run"], "phases/web");
    let told = client.ok("get_phase_status", &json!({}));
    assert_eq!(
        told["guidance"]["can"],
        json!(["deploy_headless_agent", "submit_phase_for_review"])
    );
    client.refused("advance_to_next_phase", &json!({}), "phase_not_approved");
    let told = client.ok("deploy_headless_agent", &json!({ "prompt": "Think." }));
    assert_eq!(told["agents"], json!(["worker-1"]));
    let told = client.wait_for("APPROVED");
    assert_eq!(told["review"]["final_verdict"], "approved");
    assert_eq!(told["review"]["reviewers_submitted"], 3);
    let told = client.ok("get_phase_handover", &json!({}));
    assert!(told["handover"].as_str().unwrap().contains("Handover of phase 1"));
    client.ok("get_review_status", &json!({}));
    client.ok("advance_to_next_phase", &json!({}));
    client.ok("deploy_headless_agent", &json!({ "prompt": "Build." }));
    client.wait_for("APPROVED");
    let told = client.ok("advance_to_next_phase", &json!({}));
    assert_eq!(
        told["guidance"]["action"],
        "TASK COMPLETE: All phases approved. Task finished successfully."
    );
    client.end();
}

#[test]
fn refusals_have_codes_and_say_what_to_do() {
    let phases = Phases::new();
    let mut client = Client::start(&phases, &[], &[]);
    client.refused("reject_phase_review", &json!({}), "manual_rejection");
    client.refused("approve_phase_review", &json!({}), "no_review");
    let why = client.refused(
        "approve_phase_review",
        &json!({ "force_escalated": true, "reason": "x" }),
        "needs_human",
    );
    assert!(
        why.contains("`phasegate phases approve web --force-escalated --reason WHY` in a terminal"),
        "{why}"
    );
    client.refused("submit_review_verdict", &json!({ "verdict": "approved" }), "not_permitted");
    client.refused("update_agent_progress", &json!({ "status": "working" }), "not_permitted");
    client.refused("deploy_headless_agent", &json!({}), "invalid_params");
    client.refused("deploy_headless_agent", &json!({ "prompt": 5 }), "invalid_params");
    client.refused(
        "deploy_headless_agent",
        &json!({ "prompt": "x", "reviewer_id": "r" }),
        "invalid_params",
    );
    client.refused("deploy_headless_agent", &json!({ "prompt": "x", "phase": 2 }), "wrong_phase");
    client.refused("kill_real_agent", &json!({ "agent_id": "worker-1" }), "unknown_agent");
    client.refused("get_agent_output", &json!({ "agent_id": "worker-1" }), "invalid_params");
    let (is_error, told) = client.call("get_phase_status", &json!({ "run": "nope" }));
    assert!(is_error && told["code"] == "unknown_run", "{told}");
    let answer = client.ask("tools/call", &json!({ "name": "nope", "arguments": {} }));
    assert_eq!(answer["error"]["code"], -32602);
    let answer = client.ask("resources/read", &json!({ "uri": "phasegate://nope" }));
    assert_eq!(answer["error"]["code"], -32002);
    let answer = client.ask("resources/read", &json!({ "uri": "phasegate://status" }));
    let text = answer["result"]["contents"][0]["text"].as_str().unwrap();
    let status: Value = serde_json::from_str(text).unwrap();
    assert_eq!(status["runs"][0]["guidance"]["status"], "ACTIVE");
    let answer = client.ask("resources/read", &json!({ "uri": "phasegate://diagram" }));
    assert!(answer["result"]["contents"][0]["text"].as_str().unwrap().contains("UNDER_REVIEW"));
    client.end();
}

#[test]
fn what_can_be_done_is_what_this_caller_can_do() {
    let phases = Phases::with("REPLACEMENTS = 0\n");
    phases.script("reviewer", "exit 1");
    phases.ok(&["deploy", "--prompt", "x"]);
    phases.becomes(0, "ESCALATED");
    let mut client = Client::start(&phases, &[], &[]);
    let forced = json!({ "force_escalated": true, "reason": "x" });
    let (_, told) = client.call("approve_phase_review", &forced);
    assert_eq!(told["guidance"]["can"], json!(["abort_stalled_review"]), "{told}");
    assert!(told["guidance"]["action"].as_str().unwrap().contains("(2) a person approves it"));
    client.end();
    // The same, asked by a person.
    let shown = phases.by_person(&["status", "web"]).stdout;
    assert!(shown.contains("You can: abort_stalled_review, approve_phase_review"), "{shown}");
    let phases = Phases::new();
    phases.script("worker-1", "sleep 600");
    phases.ok(&["deploy", "--prompt", "x"]);
    let mut client = Client::start(&phases, &[], &[]);
    // That there is no such agent says nothing about the others.
    let (_, told) = client.call("kill_real_agent", &json!({ "agent_id": "worker-9" }));
    let can = told["guidance"]["can"].as_array().unwrap();
    assert!(can.contains(&json!("kill_real_agent")), "{told}");
    client.end();
}

#[test]
fn at_the_budget_and_without_consent_no_agent_is_offered() {
    let phases = Phases::without_task("[limits]\ndollars = 2\n");
    let plan: Value = serde_json::from_str(PLAN).unwrap();
    phases.script("worker-1", "echo '{\"type\":\"result\",\"total_cost_usd\":2.5}'; exit 1");
    let mut client = Client::start(&phases, &[], &[("PHASEGATE_TRUST_ALL", "0")]);
    let told = client.ok("create_task", &plan);
    assert_eq!(told["guidance"]["can"], json!([]), "{told}");
    assert!(told["guidance"]["action"].as_str().unwrap().starts_with("NO AGENTS: "), "{told}");
    client.end();
    let mut client = Client::start(&phases, &[], &[]);
    client.ok("deploy_headless_agent", &json!({ "prompt": "x" }));
    eventually("it has ended", || phases.agent("worker-1")["ended"] == true);
    let (_, told) = client.call("deploy_headless_agent", &json!({ "prompt": "y" }));
    assert_eq!((&told["code"], &told["guidance"]["can"]), (&json!("budget"), &json!([])), "{told}");
    let action = told["guidance"]["action"].as_str().unwrap();
    assert!(action.contains("has used its limit of 2 dollars"), "{told}");
    client.end();
}

#[test]
fn a_reviewer_gives_its_verdict_by_the_tool_and_sees_no_other_power() {
    let phases = Phases::new();
    phases.script("reviewer-2", "echo $PHASEGATE_TOKEN > said/token; sleep 600");
    phases.ok(&["deploy", "--prompt", "x"]);
    phases.becomes(0, "UNDER_REVIEW");
    let token = phases.token();
    let mut client = Client::start(&phases, &[], &[("PHASEGATE_TOKEN", &token)]);
    let tools = client.tools();
    assert!(tools.iter().any(|tool| tool == "submit_review_verdict"), "{tools:?}");
    assert!(!tools.iter().any(|tool| tool.starts_with("deploy") || tool.starts_with("advance")));
    client.refused("advance_to_next_phase", &json!({}), "not_permitted");
    client.refused("submit_review_verdict", &json!({ "verdict": "fine" }), "invalid_params");
    client.refused(
        "submit_review_verdict",
        &json!({ "verdict": "approved", "findings": [{ "type": "issue" }] }),
        "invalid_params",
    );
    let finding = json!({ "type": "issue", "severity": "high", "message": "slow", "file": "work.txt", "line": 1 });
    client.ok("submit_review_verdict", &json!({ "verdict": "approved", "findings": [finding] }));
    let findings = &phases.task()["phases"][0]["review"]["findings"];
    assert_eq!(findings[0]["line"], 1);
    client.end();
    phases.becomes(0, "APPROVED");
}

#[test]
fn a_server_that_is_killed_in_mid_review_has_lost_nothing() {
    let phases = Phases::new();
    phases.script("reviewer", "sleep 0.5; \"$PHASEGATE\" phases verdict --verdict approved");
    let mut client = Client::start(&phases, &[], &[]);
    client.ok("deploy_headless_agent", &json!({ "prompt": "x" }));
    client.wait_for("UNDER_REVIEW");
    kill(i32::try_from(client.child.id()).unwrap());
    client.child.wait().unwrap();
    let mut client = Client::start(&phases, &[], &[]);
    let told = client.ok("get_phase_status", &json!({}));
    assert!(["UNDER_REVIEW", "APPROVED"].contains(&told["guidance"]["status"].as_str().unwrap()));
    client.wait_for("APPROVED");
    client.end();
}

#[test]
fn both_generations_of_the_protocol_are_spoken() {
    let phases = Phases::new();
    let mut command = phases.command();
    command.arg("mcp");
    let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {} });
    let lines = [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": { "_meta": meta } }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": { "name": "get_phase_status", "arguments": {}, "_meta": meta } }),
    ];
    let input = format!("{}\n{}\n", lines[0], lines[1]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut answers = Vec::new();
    for _ in 0..2 {
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        answers.push(serde_json::from_str::<Value>(&line).unwrap());
    }
    answers.sort_by_key(|answer| answer["id"].as_u64());
    let known = answers[0]["result"]["supportedVersions"].to_string();
    assert!(known.contains("2026-07-28"), "{}", answers[0]);
    assert_eq!(answers[1]["result"]["structuredContent"]["guidance"]["status"], "ACTIVE");
    drop(stdin);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn any_other_workflow_is_served_the_same_way() {
    let phases = Phases::new();
    let mut client = Client::start(&phases, &["--workflow", "task"], &[]);
    let tools = client.tools();
    assert!(
        tools.iter().any(|tool| tool == "review_plan") && tools.iter().any(|tool| tool == "next")
    );
    // What is for people only is not a tool.
    assert!(!tools.iter().any(|tool| tool == "accept"), "{tools:?}");
    client.ok("new", &json!({ "title": "Greet" }));
    let why = client.refused("next", &json!({ "override": "trust me" }), "needs_human");
    assert!(why.contains("phasegate task next greet --override"), "{why}");
    client.refused("accept", &json!({}), "needs_human");
    let told = client.ok("status", &json!({}));
    assert_eq!(told["guidance"]["status"], "planning");
    client.end();
}

#[test]
fn what_is_shown_of_a_run_with_an_older_definition_is_the_right_text() {
    let phases = Phases::new();
    let define = |rules: &str| {
        let text = format!(
            "name = \"own\"\nabout = \"x\"\ninitial = \"a\"\n[phase.a]\nrules = [{rules}]\n[action.look]\nabout = \"Look.\"\nshows = \"look.md\"\n"
        );
        phases.scene.file(".phasegate/workflows/own.toml", &text);
    };
    phases.scene.file(".phasegate/workflows/own/templates/look.md", "Here it is.");
    define("{ on = \"stop\", block = \"Go on.\" }");
    phases.scene.ok(&["own", "start", "--name", "x"]);
    // The texts of the new definition have other numbers.
    define(
        "{ on = \"stop\", when = \"1 == 2\", block = \"No.\" }, { on = \"stop\", block = \"Go on.\" }",
    );
    let mut client = Client::start(&phases, &["--workflow", "own"], &[]);
    assert_eq!(client.ok("look", &json!({}))["text"], "Here it is.");
    client.end();
    assert_eq!(phases.scene.ok(&["own", "look"]).trim_end(), "Here it is.");
}

/// A server over HTTP.
struct Web {
    child: Child,
    port: u16,
}

impl Web {
    pub fn start(phases: &Phases) -> Web {
        let mut command = phases.command();
        command.args(["mcp", "--http", "127.0.0.1:0"]).env("PHASEGATE_HTTP_TOKEN", "own-token");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let port =
            line.trim().rsplit_once(':').and_then(|(_, rest)| rest.split('/').next()?.parse().ok());
        Web { child, port: port.unwrap_or_else(|| panic!("{line}")) }
    }

    /// Posts a request; the status, and the body.
    fn post(&self, headers: &[(&str, &str)], body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let host = format!("127.0.0.1:{}", self.port);
        let own = [
            ("Host", host.as_str()),
            ("Accept", "application/json, text/event-stream"),
            ("Content-Type", "application/json"),
            ("Connection", "close"),
        ];
        let given = |name: &str| headers.iter().any(|(known, _)| *known == name);
        let all = own.iter().filter(|(name, _)| !given(name)).chain(headers);
        let head: Vec<String> = all.map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let head = head.concat();
        write!(stream, "POST /mcp HTTP/1.1\r\n{head}Content-Length: {}\r\n\r\n{body}", body.len())
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, body.to_string())
    }

    /// Calls a tool with a token.
    pub fn call(&self, token: &str, name: &str, arguments: &Value) -> Value {
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": name, "arguments": arguments } });
        let bearer = format!("Bearer {token}");
        let headers = [("Authorization", bearer.as_str()), ("MCP-Protocol-Version", "2025-11-25")];
        let (status, body) = self.post(&headers, &message.to_string());
        assert_eq!(status, 200, "{body}");
        let json = body.find('{').map(|at| &body[at..=body.rfind('}').unwrap()]).unwrap();
        serde_json::from_str::<Value>(json).unwrap()["result"]["structuredContent"].clone()
    }

    /// How much memory it has, in kilobytes.
    fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn over_http_no_other_host_and_nobody_without_a_token_gets_in() {
    let phases = Phases::new();
    let web = Web::start(&phases);
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }).to_string();
    let token = ("Authorization", "Bearer own-token");
    assert_eq!(web.post(&[], &list).0, 401);
    assert_eq!(web.post(&[("Authorization", "Bearer guessed")], &list).0, 401);
    assert_eq!(web.post(&[("Authorization", "own-token")], &list).0, 401);
    // A page of another origin, and a name that was bound to this address.
    assert_eq!(web.post(&[token, ("Origin", "https://evil.example")], &list).0, 403);
    assert_eq!(web.post(&[("Origin", "null")], &list).0, 403);
    assert_eq!(web.post(&[token, ("Host", "evil.example")], &list).0, 403);
    let own = format!("http://localhost:{}", web.port);
    let (status, body) =
        web.post(&[token, ("Origin", &own), ("MCP-Protocol-Version", "2025-11-25")], &list);
    assert!(status == 200 && body.contains("advance_to_next_phase"), "{status}: {body}");
    assert_eq!(
        web.call("own-token", "get_phase_status", &json!({}))["guidance"]["status"],
        "ACTIVE"
    );
    // A token that looks like an agent's and is none.
    assert_eq!(web.post(&[("Authorization", "Bearer 0~phases/web~worker-1")], &list).0, 401);
    let large = "x".repeat(2 << 20);
    assert_ne!(web.post(&[token], &large).0, 200);
}

#[test]
fn over_http_an_agent_is_known_by_its_own_token() {
    let phases = Phases::new();
    phases.script("worker-1", "echo $PHASEGATE_TOKEN > said/token; sleep 600");
    let web = Web::start(&phases);
    web.call("own-token", "deploy_headless_agent", &json!({ "prompt": "x" }));
    let token = phases.token();
    let told =
        web.call(&token, "update_agent_progress", &json!({ "status": "working", "progress": 10 }));
    assert_eq!(told["success"], true, "{told}");
    assert_eq!(phases.task()["claims"][0]["agent"], "worker-1");
    let told = web.call(&token, "advance_to_next_phase", &json!({}));
    assert_eq!(told["code"], "not_permitted", "{told}");
    web.call("own-token", "kill_real_agent", &json!({ "agent_id": "worker-1" }));
    // Its token has ended with it.
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }).to_string();
    let bearer = format!("Bearer {token}");
    assert_eq!(web.post(&[("Authorization", &bearer)], &list).0, 401);
}

#[test]
fn fifty_agents_by_a_server_that_stays_small() {
    let phases = Phases::with("CONCURRENT = 64\nREVIEWERS = [\"all of it\"]\n");
    let web = Web::start(&phases);
    std::thread::scope(|scope| {
        for _ in 0..5 {
            scope.spawn(|| {
                for _ in 0..10 {
                    let told = web.call(
                        "own-token",
                        "deploy_headless_agent",
                        &json!({ "prompt": "x", "expect": 50 }),
                    );
                    assert_eq!(told["success"], true, "{told}");
                }
            });
        }
    });
    phases.becomes(0, "APPROVED");
    for number in 1..=50 {
        assert_eq!(phases.heard("job-ended", &format!("worker-{number}")), 1, "{number}");
    }
    let memory = web.memory();
    assert!(memory < 50_000, "{memory} kB");
    // Whoever the server has started is not left as a zombie.
    let children = || {
        let listed =
            std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", web.child.id()));
        listed.unwrap_or_default().split_whitespace().count()
    };
    eventually("nobody is left", || children() == 0);
}

#[test]
fn a_server_that_is_told_to_end_ends() {
    let phases = Phases::new();
    let mut web = Web::start(&phases);
    let pid = rustix::process::Pid::from_raw(i32::try_from(web.child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(web.child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_workflow_or_an_address_that_is_not_there_is_said() {
    let scene = Scene::new();
    let ran = scene.run(&["mcp", "--workflow", "nope"]);
    assert!(ran.stderr.contains("there is no workflow \"nope\""), "{ran:?}");
    let ran = scene.run(&["mcp", "--http", "192.0.2.1:0"]);
    assert!(ran.stderr.contains("is not a loopback address"), "{ran:?}");
}

#[test]
fn answers_stay_small_whatever_is_found() {
    let phases = Phases::with("REVIEWERS = [\"a\", \"b\", \"c\", \"d\", \"e\"]\n");
    let finding = json!({ "type": "issue", "severity": "high", "message": "m".repeat(2_000), "file": "f".repeat(300), "line": 7 });
    let findings = Value::from(vec![finding; 20]).to_string();
    phases.scene.file("said/findings.json", findings);
    phases.script(
        "reviewer",
        "\"$PHASEGATE\" phases verdict --verdict rejected --findings @said/findings.json",
    );
    phases.ok(&["deploy", "--prompt", "x"]);
    phases.becomes(0, "REJECTED");
    let mut client = Client::start(&phases, &[], &[]);
    let told = client.ok("get_phase_status", &json!({}));
    let reasons = told["guidance"]["blocked_reason"].as_array().unwrap();
    assert!(reasons[0].as_str().unwrap().ends_with("mm…"), "{told}");
    assert_eq!(reasons[5], "… and 95 more: get_review_status has all of them.");
    // Nothing is lost on the way: every finding, whole, by its reviewer.
    let (mut cursor, mut found) = (json!(0), Vec::new());
    while cursor.is_number() {
        let told = client.ok("get_review_status", &json!({ "cursor": cursor }));
        found.extend(told["findings"].as_array().unwrap().clone());
        cursor = told["next_cursor"].clone();
    }
    assert_eq!(found.len(), 100);
    for finding in &found {
        assert_eq!(finding["message"].as_str().unwrap().len(), 2_000);
        assert_eq!((&finding["line"], finding["file"].as_str().unwrap().len()), (&json!(7), 300));
        assert!(finding["reviewer"].as_str().unwrap().starts_with("reviewer-"), "{finding}");
    }
    for cursor in [-3, i64::MAX, i64::MIN, 100] {
        let told = client.ok("get_review_status", &json!({ "cursor": cursor }));
        let ended = told["next_cursor"].is_null() || told["next_cursor"] == 2;
        assert!(ended, "{cursor}: {told}");
    }
    for cursor in [-3, i64::MAX, i64::MIN] {
        client.ok(
            "get_agent_output",
            &json!({ "agent_id": "worker-1", "cursor": cursor, "bytes": 50 }),
        );
    }
    client.end();
}
