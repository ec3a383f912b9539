//! `phasegate web`: who gets in, what is shown, and what a person can do from the page.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::reviewers::{honest, with_reviewer};
use crate::scene::Scene;

mod acts;

/// A page that is served.
pub struct Served {
    child: Child,
    port: u16,
    pub token: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What was answered to a request.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    head: String,
    pub body: String,
    /// How many bytes of it were sent, before they were unfolded.
    sent: usize,
}

impl Response {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Served {
    fn of(scene: &Scene) -> Served {
        let mut command = scene.command();
        command.args(["web", "--port", "0"]);
        Served::by(command)
    }

    /// By a command that serves it.
    pub fn by(mut command: Command) -> Served {
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.stdin(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let mut served = Served { child, port: 0, token: String::new() };
        served.find(&line);
        served
    }

    /// Where it is, by the line that it prints.
    fn find(&mut self, line: &str) {
        let (address, token) = line.trim().split_once("/#token=").unwrap();
        self.port = address.rsplit_once(':').unwrap().1.parse().unwrap();
        self.token = token.to_string();
    }

    pub fn send(&self, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    /// A request as it is sent, word for word.
    fn raw(&self, request: &str) -> Response {
        let mut bytes = Vec::new();
        self.send(request).read_to_end(&mut bytes).unwrap();
        let end = bytes.windows(4).position(|it| it == b"\r\n\r\n").unwrap_or(bytes.len());
        let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let body = bytes.get(end + 4..).unwrap_or_default();
        let sent = body.len();
        let body = if head.contains("content-encoding: deflate") {
            miniz_oxide::inflate::decompress_to_vec_zlib(body).unwrap()
        } else {
            body.to_vec()
        };
        let body = String::from_utf8(body).unwrap();
        Response { status: status.unwrap(), head, body, sent }
    }

    fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Response {
        let line = |(name, value): &(&str, &str)| format!("{name}: {value}\r\n");
        let lines: Vec<String> = headers.iter().map(line).collect();
        let lines = lines.concat();
        self.raw(&format!("GET {path} HTTP/1.1\r\n{lines}Connection: close\r\n\r\n"))
    }

    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn get(&self, path: &str) -> Response {
        let bearer = format!("Bearer {}", self.token);
        self.get_with(path, &[("Host", &self.host()), ("Authorization", &bearer)])
    }

    pub fn post(&self, path: &str, kind: &str, body: &str) -> Response {
        self.raw(&format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: {kind}\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            self.host(),
            self.token,
            body.len()
        ))
    }
}

const RUN: &str = "triage/web";

#[test]
fn a_page_of_another_host_learns_nothing() {
    let scene = Scene::with_triage(2);
    let served = Served::of(&scene);
    let (host, bearer) = (served.host(), format!("Bearer {}", served.token));
    let own = [("Host", host.as_str()), ("Authorization", bearer.as_str())];
    let with = |more: (&'static str, &'static str)| [own[0], own[1], more];
    assert_eq!(served.get("/api/overview").status, 200);
    // A name that resolves to this machine, a prefix of ours, none at all.
    for other in ["evil.example", "127.0.0.1.evil.example", "127.0.0.1", "localhost:1"] {
        let ran = served.get_with("/", &[("Host", other), own[1]]);
        assert_eq!((ran.status, ran.body.contains("Phasegate")), (403, false), "{other}: {ran:?}");
    }
    assert_eq!(served.get_with("/", &[own[1]]).status, 403);
    for (name, value, status) in [
        ("Origin", "http://evil.example", 403),
        ("Origin", "null", 403),
        ("Sec-Fetch-Site", "cross-site", 403),
        ("Sec-Fetch-Site", "same-site", 403),
        ("Sec-Fetch-Site", "same-origin", 200),
        ("Sec-Fetch-Site", "none", 200),
    ] {
        let ran = served.get_with("/api/overview", &with((name, value)));
        assert_eq!(ran.status, status, "{name}: {value}");
        assert!(!ran.head.contains("access-control"), "{ran:?}");
    }
}

#[test]
fn nobody_reads_without_the_token_and_no_answer_has_it() {
    let scene = Scene::with_triage(2);
    let served = Served::of(&scene);
    let host = served.host();
    for path in ["overview", "run?run=triage/web", "log?run=triage/web", "live", "nothing"] {
        let path = format!("/api/{path}");
        assert_eq!(served.get_with(&path, &[("Host", &host)]).status, 401, "{path}");
        let wrong = [("Host", host.as_str()), ("Authorization", "Bearer 0")];
        assert_eq!(served.get_with(&path, &wrong).status, 401, "{path}");
    }
    // A cookie is sent by every page of this machine, whatever its port: it counts for nothing.
    let cookie = format!("token={}", served.token);
    let ran = served.get_with("/api/overview", &[("Host", &host), ("Cookie", &cookie)]);
    assert_eq!(ran.status, 401);
    let query = format!("/api/overview?token={}", served.token);
    assert_eq!(served.get_with(&query, &[("Host", &host)]).status, 401);
    for path in ["/", "/page.js", "/page.css", "/api/overview", "/api/run?run=triage/web", "/x"] {
        let ran = served.get(path);
        assert!(!ran.body.contains(&served.token) && !ran.head.contains(&served.token), "{path}");
        assert!(!ran.head.contains("set-cookie"), "{path}");
    }
}

#[test]
fn nothing_that_is_shown_can_run() {
    let scene = Scene::with_triage(1);
    let nasty = "<script>alert(1)</script>\u{1b}]0;title\u{7}";
    scene.file(
        ".phasegate/triage/<img src=x onerror=alert(1)>_triage.json",
        format!("{{\"x\": {nasty:?}}}"),
    );
    let served = Served::of(&scene);
    for path in ["/", "/page.js", "/api/overview", "/nothing"] {
        let head = served.get(path).head;
        for part in [
            "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'",
            "frame-ancestors 'none'",
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "cache-control: no-store",
        ] {
            assert!(head.contains(part), "{path} lacks {part}: {head}");
        }
    }
    assert!(served.get("/api/overview").head.contains("content-type: application/json"));
    // The page makes elements, never HTML out of text.
    let page = served.get("/page.js").body;
    for unsafe_way in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("] {
        assert!(!page.contains(unsafe_way), "{unsafe_way}");
    }
    assert!(!served.get("/").body.contains("http"), "the page asks for something from outside");
}

/// How much of the program the files of the page may be. What the page adds in all is measured by
/// `packaging/page-size`, which links the program twice.
const MOST_SENT: usize = 16 << 10;

#[test]
fn the_page_is_small_and_is_what_was_written() {
    let scene = Scene::new();
    let served = Served::of(&scene);
    let mut sent = 0;
    for (path, file) in [("/", "index.html"), ("/page.css", "page.css"), ("/page.js", "page.js")] {
        let ran = served.get(path);
        let written = format!("{}/src/web/page/{file}", env!("CARGO_MANIFEST_DIR"));
        assert_eq!(ran.body, std::fs::read_to_string(written).unwrap(), "{file}");
        sent += ran.sent;
    }
    assert!(sent <= MOST_SENT, "the files of the page take {sent} bytes");
}

#[test]
fn a_page_that_only_reads_does_not_act() {
    let scene = Scene::with_triage(1);
    let served = Served::of(&scene);
    let body = json!({ "run": RUN, "seq": 1, "act": "cancel" }).to_string();
    let ran = served.post("/api/propose", "application/json", &body);
    assert_eq!(ran.status, 405, "{ran:?}");
    assert!(ran.body.contains("--actions"), "{ran:?}");
    assert_eq!(served.get("/api/run?run=triage/web").json()["acts"], json!([]));
    // And nobody but a person at a terminal can have one that acts.
    let ran = scene.run(&["web", "--port", "0", "--actions"]);
    assert!(ran.code == Some(1) && ran.stderr.contains("is for people"), "{ran:?}");
}

#[test]
fn the_words_are_those_of_status() {
    let scene = Scene::with_triage(3);
    scene.stop();
    let served = Served::of(&scene);
    let overview = served.get("/api/overview").json();
    let row = &overview["runs"][0];
    assert_eq!((&row["run"], &row["group"]), (&RUN.into(), &"working".into()), "{overview}");
    let run = served.get("/api/run?run=triage/web").json();
    assert_eq!((&run["phase"], &run["standing"]), (&"triage".into(), &"working".into()));
    assert!(run["picture"].as_str().unwrap().starts_with("<svg"), "{run}");
    let log = served.get("/api/log?run=triage/web").json();
    let last = &log["lines"][0];
    assert_eq!(last["answer"]["decision"], "block");
    assert!(!last["trace"]["tried"].as_array().unwrap().is_empty());
    let before = format!("/api/log?run=triage/web&before={}", last["seq"]);
    assert!(served.get(&before).json()["lines"][0]["seq"].as_u64() < last["seq"].as_u64());
    let health = served.get("/api/health?run=triage/web").json();
    assert!(health["chain"]["text"].as_str().unwrap().contains("chain intact"), "{health}");
    scene.stop_again();
    let stuck = served.get("/api/overview").json();
    assert_eq!(stuck["runs"][0]["group"], "stuck");
    assert_eq!(served.get("/api/run?run=triage/nothing").status, 404);
}

/// Reads events of a stream until one fits.
pub fn event(stream: &mut impl BufRead, fits: impl Fn(&str, &str, &Value) -> bool) -> Value {
    let deadline = Instant::now() + Duration::from_secs(15);
    let (mut name, mut id) = (String::new(), String::new());
    while Instant::now() < deadline {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        let line = line.trim();
        if let Some(given) = line.strip_prefix("event: ") {
            (name, id) = (given.to_string(), String::new());
        } else if let Some(given) = line.strip_prefix("id: ") {
            id = given.to_string();
        } else if let Some(data) = line.strip_prefix("data: ") {
            let value = serde_json::from_str(data).unwrap();
            if fits(&name, &id, &value) {
                return value;
            }
        }
    }
    panic!("the event did not come");
}

#[test]
fn what_happens_is_told_as_it_happens_and_after_a_break() {
    let scene = Scene::with_triage(3);
    scene.stop();
    let served = Served::of(&scene);
    let seq = served.get("/api/run?run=triage/web").json()["seq"].as_u64().unwrap();
    let listen = |served: &Served, since: u64| {
        let request = format!(
            "GET /api/live?run=triage%2Fweb&since={since} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\r\n",
            served.host(),
            served.token
        );
        BufReader::new(served.send(&request))
    };
    let mut stream = listen(&served, seq);
    scene.result(0, true, "g");
    scene.stop();
    let line = event(&mut stream, |name, id, line| {
        name == "line" && id == (seq + 1).to_string() && line["seq"] == seq + 1
    });
    assert_eq!(line["answer"]["decision"], "block");
    // Another server, a page that was away: it has what it missed, and once.
    drop(served);
    scene.result(1, true, "g");
    scene.stop();
    let served = Served::of(&scene);
    let mut stream = listen(&served, seq + 1);
    let line = event(&mut stream, |name, _, _| name == "line");
    assert_eq!(line["seq"], seq + 2);
    event(&mut stream, |name, _, run| name == "run" && run["seq"] == seq + 2);
}

/// What the server has read from files so far.
fn bytes_read(served: &Served) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/io", served.child.id())).unwrap();
    text.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap().parse().unwrap()
}

/// Gives a run a journal of so many lines, each of about 400 bytes.
fn with_journal(scene: &Scene, count: u64) {
    let text = "x".repeat(200);
    let line = |seq: u64| {
        let (from, to) =
            if seq.is_multiple_of(1000) { ("analysis", "triage") } else { ("triage", "triage") };
        format!(
            "{{\"seq\":{seq},\"at\":\"2026-01-01T00:00:00Z\",\"event\":{{\"name\":\"stop\",\"actor\":\"worker\"}},\
             \"from\":\"{from}\",\"to\":\"{to}\",\"answer\":{{\"decision\":\"block\",\"reason\":\"{text}\"}},\
             \"before\":\"\",\"after\":\"\",\"prev\":\"{}\",\"hash\":\"{seq}\"}}\n",
            seq - 1
        )
    };
    let journal: String = (1..=count).map(line).collect();
    scene.file(".phasegate/runs/triage/web/journal.jsonl", journal);
    let path = ".phasegate/runs/triage/web/run.json";
    let mut ledger = scene.json(path);
    ledger["position"]["seq"] = count.into();
    ledger["position"]["head"] = count.to_string().into();
    scene.file(path, format!("{ledger}\n"));
}

fn seqs(lines: &Value) -> Vec<u64> {
    lines.as_array().unwrap().iter().map(|line| line["seq"].as_u64().unwrap()).collect()
}

#[test]
fn a_long_journal_costs_what_is_asked_for() {
    let scene = Scene::with_triage(3);
    scene.stop();
    with_journal(&scene, 100_000);
    let served = Served::of(&scene);
    let cost = |path: &str| {
        let before = bytes_read(&served);
        let answer = served.get(path).json();
        (answer, bytes_read(&served) - before)
    };
    let (log, read) = cost("/api/log?run=triage/web");
    assert_eq!(seqs(&log["lines"]), (99_801..=100_000).rev().collect::<Vec<_>>());
    assert!(read < 2 << 20, "the newest lines: {read}");
    // Older ones wherever they are, and the first.
    for before in [99_801, 50_001, 201] {
        let (log, read) = cost(&format!("/api/log?run=triage/web&before={before}"));
        assert_eq!(seqs(&log["lines"]), (before - 200..before).rev().collect::<Vec<_>>());
        assert!(read < 2 << 20, "before {before}: {read}");
    }
    assert_eq!(seqs(&cost("/api/log?run=triage/web&before=1").0["lines"]), Vec::<u64>::new());
    // The picture counts the newest 5,000, and says so.
    let (run, read) = cost("/api/run?run=triage/web");
    let picture = run["picture"].as_str().unwrap();
    assert!(picture.contains("counted from line 95001 of the journal on"), "{picture}");
    assert!(picture.contains("5000 blocks"), "{picture}");
    assert!(read < 6 << 20, "the run: {read}");
    let (health, read) = cost("/api/health?run=triage/web");
    assert!(health["chain"]["text"].as_str().unwrap().contains("log --verify"), "{health}");
    assert!(read < 2 << 20, "its health: {read}");
}

#[test]
fn a_page_that_was_away_for_long_misses_nothing() {
    let scene = Scene::with_triage(3);
    scene.stop();
    with_journal(&scene, 1_000);
    let served = Served::of(&scene);
    let mut stream = BufReader::new(served.send(&format!(
        "GET /api/live?run=triage%2Fweb&since=3 HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\r\n",
        served.host(),
        served.token
    )));
    for seq in 4..=1_000_u64 {
        let line = event(&mut stream, |name, _, _| name == "line");
        assert_eq!(line["seq"], seq);
    }
    // What has been told is not read again: a look at a run at rest costs the same whatever its journal has.
    event(&mut stream, |name, _, run| name == "run" && run["seq"] == 1_000);
}

#[test]
fn five_hundred_runs_are_listed_at_a_bounded_cost() {
    let scene = Scene::with_triage(1);
    scene.file(".phasegate/workflows/release.toml", APPROVAL);
    for n in 0..500 {
        let phase = if n % 2 == 0 { "asking" } else { "approved" };
        scene.file(&format!(".phasegate/release/r{n}.json"), format!("{{\"phase\":{phase:?}}}"));
    }
    let served = Served::of(&scene);
    let before = bytes_read(&served);
    let answer = served.get("/api/overview");
    let read = bytes_read(&served) - before;
    let runs = answer.json()["runs"].as_array().unwrap().len();
    assert!(runs > 250, "{runs}");
    assert!(answer.body.len() < 200 << 10, "{} bytes are sent", answer.body.len());
    assert!(read < 4 << 20, "{read} bytes are read");
}

#[test]
fn parts_of_a_guard_that_were_not_reached_are_told() {
    let scene = Scene::new();
    scene.file(".phasegate/workflows/ship.toml", r#"
name = "ship"
about = "a"
initial = "working"
[phase.working]
rules = [
  { on = "stop", when = "exists('a') and (exists('b') or not exists('c'))", goto = "done", allow = "done" },
  { on = "stop", when = "not exists('a') or exists('d')", block = "Write a." },
]
[phase.done]
final = true
"#);
    scene.ok(&["start", "ship"]);
    scene.stop();
    let served = Served::of(&scene);
    let log = served.get("/api/log?run=ship/ship").json();
    let tried = &log["lines"][0]["trace"]["tried"];
    assert_eq!(tried[0]["parts"][0]["text"], "exists('a')", "{tried}");
    assert_eq!(tried[1]["parts"][0]["text"], "not exists('a')", "{tried}");
    let unreached = &log["lines"][0]["unreached"];
    assert_eq!(unreached, &json!([["exists('b')", "not exists('c')"], ["exists('d')"]]), "{log}");
    // A definition that says something else tells nothing about the old line.
    let other = scene.read(".phasegate/workflows/ship.toml").replace("exists('a')", "exists('x')");
    scene.file(".phasegate/workflows/ship.toml", other);
    scene.ok_by_hand(&["accept", "ship/ship", "--reason", "x"]);
    let log = served.get("/api/log?run=ship/ship").json();
    let line = log["lines"].as_array().unwrap().iter().find(|line| line["seq"] == 2).unwrap();
    assert_eq!(line["unreached"], json!([[], []]), "{line}");
}

#[test]
fn a_cost_that_nobody_has_told_is_unknown() {
    let scene = with_reviewer(&honest("FAIL").replace("0.25", "0"));
    scene.stop().blocks("post-1.md");
    let served = Served::of(&scene);
    let run = served.get("/api/run?run=polish/polish").json();
    assert_eq!(run["jobs"][0]["cost"], "unknown", "{run}");
    let limits = run["limits"].as_array().unwrap();
    let cost = limits.iter().find(|it| it["what"] == "cost of agents and reviews").unwrap();
    assert_eq!((&cost["told"], &cost["limit"]), (&"unknown (limit $100)".into(), &Value::Null));
    // The words of each limit are those of `status`.
    let status = scene.ok(&["status", "--verbose"]);
    for limit in limits {
        let (what, told) = (limit["what"].as_str().unwrap(), limit["told"].as_str().unwrap());
        let words = [format!("{told} {what}"), format!("{what}: {told}")];
        assert!(words.iter().any(|words| status.contains(words)), "{words:?}: {status}");
    }
}

#[test]
fn a_run_that_is_removed_is_told_to_be_gone() {
    let scene = Scene::with_triage(1);
    scene.stop();
    let served = Served::of(&scene);
    let mut stream = BufReader::new(served.send(&format!(
        "GET /api/live?run=triage%2Fweb&since=0 HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\r\n",
        served.host(),
        served.token
    )));
    event(&mut stream, |name, _, _| name == "run");
    std::fs::remove_file(scene.path(".phasegate/triage/web_triage.json")).unwrap();
    std::fs::remove_dir_all(scene.path(".phasegate/runs/triage/web")).unwrap();
    event(&mut stream, |name, _, _| name == "gone");
}

#[test]
fn what_would_open_the_gate_is_worked_out_when_somebody_asks() {
    let scene = Scene::new();
    scene.file(".phasegate/workflows/release.toml", APPROVAL.replace(
        "  { on = \"stop\", allow",
        "  { on = \"stop\", when = \"not exists('NOTES.md')\", block = \"Write NOTES.md.\" },\n  { on = \"stop\", allow",
    ));
    scene.ok(&["start", "release"]);
    scene.stop();
    let served = Served::of(&scene);
    let now = served.get("/api/now?run=release/release").json();
    let told: Value =
        serde_json::from_str(&scene.ok(&["why", "--now", "--json", "release/release"])).unwrap();
    assert_eq!((&now["ways"], &now["about_ways"]), (&told["ways"], &told["about_ways"]));
    assert_eq!(now["about_ways"], "What would open the gate", "{now}");
    assert_eq!(now["ways"][0]["facts"][0]["fact"], "exists('NOTES.md')", "{now}");
    assert_eq!(now["seq"], 2);
    // It is no part of what is sent on each change.
    assert!(!served.get("/api/run?run=release/release").body.contains("about_ways"));
    scene.file(".phasegate/release/release.json", "{ broken");
    let now = served.get("/api/now?run=release/release").json();
    assert!(now["not_computed"].as_str().unwrap().contains("release.json"), "{now}");
}

const APPROVAL: &str = r#"
name = "release"
about = "A person says when."
initial = "asking"

[action.approve]
about = "Let it go out"
by = "human"
param.reason = { type = "string", about = "Why" }

[phase.asking]
rules = [
  { on = "approve", goto = "approved" },
  { on = "stop", allow = "waiting", until = "human", message = "Waits for approval." },
]
[phase.approved]
final = true
"#;
