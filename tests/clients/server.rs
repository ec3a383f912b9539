//! A client that is a server: it is started, given a prompt, and waited for until it is idle for good.
//! Its headless command would end with the first idle moment, and our plugin goes on only after it.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::kits::Kit;
use crate::real::api::{Api, http};
use crate::real::running::{Ended, Running};
use crate::real::scene::Scene;

/// How long a session may take, and how long it must be idle to be over.
const TIMEOUT: Duration = Duration::from_mins(3);
const QUIET: Duration = Duration::from_secs(2);

/// Lets it work on a prompt.
pub fn turn(kit: &Kit, scene: &Scene, api: &Api, prompt: &str) -> Ended {
    let port = free_port();
    let program = scene.home().with_file_name("bin").join(kit.name);
    let mut command = scene.command(program.to_str().unwrap());
    command.args(["serve", "--port", &port.to_string()]).envs(kit.variables(api));
    let server = Running::start(command, TIMEOUT).unwrap();
    let began = Instant::now();
    // A connection that comes too early is never answered.
    let mut session = None;
    while session.is_none() && began.elapsed() < TIMEOUT {
        std::thread::sleep(Duration::from_millis(200));
        session = call(port, "POST", "/session", &json!({}), Duration::from_secs(5));
    }
    let Some(session) = session else { return server.end() };
    let id = session["id"].as_str().unwrap_or_default();
    let parts = json!([{ "type": "text", "text": prompt }]);
    call(port, "POST", &format!("/session/{id}/message"), &json!({ "parts": parts }), TIMEOUT);
    // It asks the gate only now, and may be sent on.
    let mut quiet = Instant::now();
    while quiet.elapsed() < QUIET && began.elapsed() < TIMEOUT {
        std::thread::sleep(Duration::from_millis(100));
        let status = call(port, "GET", "/session/status", &Value::Null, QUIET).unwrap_or_default();
        if status.as_object().is_some_and(|busy| !busy.is_empty()) {
            quiet = Instant::now();
        }
    }
    server.end()
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// The JSON that a server answers; none where it cannot be reached.
fn call(port: u16, method: &str, path: &str, body: &Value, time: Duration) -> Option<Value> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(time)).ok()?;
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).ok()?;
    let mut reader = BufReader::new(stream);
    let mut status = String::new();
    reader.read_line(&mut status).ok()?;
    let headers = http::headers(&mut reader).ok()?;
    let body = http::body(&mut reader, &headers).ok()?;
    serde_json::from_slice(&body).ok()
}
