//! `phasegate web`: who gets in, what is shown, and what a person can do from the page.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::scene::Scene;

/// A page that is served.
struct Served {
    child: Child,
    port: u16,
    token: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What was answered to a request.
#[derive(Debug)]
struct Response {
    status: u16,
    head: String,
    body: String,
}

impl Response {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Served {
    fn of(scene: &Scene) -> Served {
        let mut command = scene.command();
        command.args(["web", "--port", "0"]).stdout(Stdio::piped()).stderr(Stdio::null());
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

    fn send(&self, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    /// A request as it is sent, word for word.
    fn raw(&self, request: &str) -> Response {
        let mut text = String::new();
        self.send(request).read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        Response { status: status.unwrap(), head: head.to_lowercase(), body: body.to_string() }
    }

    fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Response {
        let line = |(name, value): &(&str, &str)| format!("{name}: {value}\r\n");
        let lines: Vec<String> = headers.iter().map(line).collect();
        let lines = lines.concat();
        self.raw(&format!("GET {path} HTTP/1.1\r\n{lines}Connection: close\r\n\r\n"))
    }

    fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    fn get(&self, path: &str) -> Response {
        let bearer = format!("Bearer {}", self.token);
        self.get_with(path, &[("Host", &self.host()), ("Authorization", &bearer)])
    }

    fn post(&self, path: &str, kind: &str, body: &str) -> Response {
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
    assert!(health["chain"].as_str().unwrap().contains("chain intact"), "{health}");
    scene.stop_again();
    let stuck = served.get("/api/overview").json();
    assert_eq!(stuck["runs"][0]["group"], "stuck");
    assert_eq!(served.get("/api/run?run=triage/nothing").status, 404);
}

/// Reads events of a stream until one fits.
fn event(stream: &mut impl BufRead, fits: impl Fn(&str, &str, &Value) -> bool) -> Value {
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

/// A page that a person has started at a terminal of their own, and what that terminal shows.
fn with_actions(scene: &Scene) -> (Served, impl Fn() -> String) {
    // Not among the project's files, which an act is bound to.
    let shown = tempfile::NamedTempFile::new().unwrap().into_temp_path();
    let mut command = Command::new("script");
    let gate = env!("CARGO_BIN_EXE_phasegate");
    let line = format!("exec {gate} web --port 0 --actions");
    command.args(["-q", "-f", "-e", "-c", &line]).arg(&*shown);
    command.current_dir(scene.root()).env_clear().env("HOME", scene.path("home"));
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    // A terminal that stays open.
    let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut served = Served { child, port: 0, token: String::new() };
    let read = move || std::fs::read_to_string(&*shown).unwrap_or_default();
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let text = read();
        if let Some(line) = text.lines().find(|line| line.contains("/#token=")) {
            served.find(line);
            return (served, read);
        }
        assert!(Instant::now() < deadline, "nothing is served: {text}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The code for what was proposed with this reason, once the terminal shows it.
fn code(shown: &impl Fn() -> String, reason: &str) -> String {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let text = shown();
        let line = text.lines().find(|line| line.contains(reason));
        if let Some((_, rest)) = line.and_then(|line| line.split_once("Code ")) {
            return rest[..6].to_string();
        }
        assert!(Instant::now() < deadline, "no code is shown: {text}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn an_approval_needs_the_code_and_is_for_what_the_person_saw() {
    let scene = Scene::new();
    scene.file(".phasegate/workflows/release.toml", APPROVAL);
    scene.ok(&["start", "release"]);
    scene.stop();
    let (served, shown) = with_actions(&scene);
    let run = served.get("/api/run?run=release/release").json();
    assert_eq!(run["standing"], "needs you");
    assert_eq!(run["acts"][0]["act"], "approve", "{run}");
    let seq = run["seq"].as_u64().unwrap();
    let propose = |seq: u64, reason: &str| {
        let body = json!({
            "run": "release/release", "seq": seq, "act": "approve", "params": { "reason": reason },
        });
        served.post("/api/propose", "application/json", &body.to_string())
    };
    let confirm = |id: &Value, code: &str| {
        let body = json!({ "id": id, "code": code }).to_string();
        served.post("/api/confirm", "application/json", &body)
    };
    // What a page of another host could send without asking first is not taken.
    assert_eq!(served.post("/api/propose", "text/plain", "{}").status, 415);
    assert_eq!(propose(seq + 7, "x").status, 409);
    let unfit = json!({ "run": "release/release", "seq": seq, "act": "approve" }).to_string();
    assert_eq!(served.post("/api/propose", "application/json", &unfit).status, 422);
    // Guessing ends it.
    let id = propose(seq, "guessed").json()["id"].clone();
    let right = code(&shown, "guessed");
    let wrong = if right == "000000" { "000001" } else { "000000" };
    for _ in 0..3 {
        assert_eq!(confirm(&id, wrong).status, 422);
    }
    assert_eq!(confirm(&id, &right).status, 404);
    // Files that change in between, and a run that moves on, are not what was approved.
    let id = propose(seq, "before the change").json()["id"].clone();
    scene.file("src.rs", "changed");
    let ran = confirm(&id, &code(&shown, "before the change"));
    assert!(ran.status == 409 && ran.body.contains("the files have changed"), "{ran:?}");
    let id = propose(seq, "before the stop").json()["id"].clone();
    scene.stop();
    let ran = confirm(&id, &code(&shown, "before the stop"));
    assert!(ran.status == 409 && ran.body.contains("has moved on"), "{ran:?}");
    let id = propose(seq + 1, "it is good").json()["id"].clone();
    let right = code(&shown, "it is good");
    let ran = confirm(&id, &right);
    assert_eq!(ran.status, 200, "{ran:?}");
    assert_eq!(confirm(&id, &right).status, 404, "a code counts once");
    let last = scene.journal("release/release").pop().unwrap();
    assert_eq!(
        (&last["event"]["name"], &last["event"]["actor"]),
        (&"approve".into(), &"human".into())
    );
    assert_eq!(last["event"]["params"]["reason"], "it is good");
    assert_eq!(last["to"], "approved");
}
