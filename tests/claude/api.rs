//! A Messages API on loopback, whose model is a closure.
//!
//! One request to a connection, a thread to each: what the client needs, and nothing else of HTTP.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

/// A client that says nothing for so long is gone.
const SILENCE: Duration = Duration::from_secs(30);

/// How long a script waits for a test, and a test for a script.
pub const LONG: Duration = Duration::from_secs(40);

/// What the client puts before the reason of a block.
const FEEDBACK: &str = "Stop hook feedback:\n";

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// A session, its own or that of a process that Phasegate has started.
    Session,
    /// A sub-agent of a session.
    SubAgent,
    /// A session that is asked for a structured verdict.
    Reviewer,
    /// The client itself, as for a title: no tools.
    Side,
}

/// What the model is asked.
#[derive(Clone, Debug)]
pub struct Request {
    pub asker: Asker,
    pub model: String,
    #[expect(dead_code, reason = "shown where a test fails, and for scripts to come")]
    pub system: String,
    pub messages: Vec<Value>,
    pub tools: Vec<String>,
    /// The session that asks, as the client says in a header.
    pub session: String,
}

/// What the model answers.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    blocks: Vec<Value>,
    /// How long the conversation is said to be, beyond a few tokens.
    tokens: u64,
}

/// A place where a script waits until the test lets it go on.
#[derive(Clone)]
pub struct Hold {
    arrived: Arc<Mutex<Sender<()>>>,
    opened: Arc<Mutex<Receiver<()>>>,
}

impl Hold {
    /// The place, who comes there, and what opens it.
    pub fn new() -> (Hold, Receiver<()>, Sender<()>) {
        let ((arrived, arrival), (opening, opened)) = (channel(), channel());
        let hold =
            Hold { arrived: Arc::new(Mutex::new(arrived)), opened: Arc::new(Mutex::new(opened)) };
        (hold, arrival, opening)
    }

    pub fn wait(&self) {
        let _ = self.arrived.lock().unwrap().send(());
        // Whoever does not open it any more has gone.
        let _ = self.opened.lock().unwrap().recv_timeout(LONG);
    }
}

/// The API, until it is dropped.
pub struct Api {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepts: Option<JoinHandle<()>>,
}

struct Shared {
    script: Box<dyn Fn(&Request) -> Reply + Send + Sync>,
    requests: Mutex<Vec<Request>>,
    /// What the script has panicked with.
    faults: Mutex<Vec<String>>,
    answers: AtomicUsize,
    is_over: AtomicBool,
}

impl Request {
    fn new(body: &Value, headers: &[(String, String)]) -> Request {
        let header = |name: &str| headers.iter().find(|(known, _)| known == name);
        let named = |tool: &Value| tool["name"].as_str().map(str::to_string);
        let tools: Vec<String> =
            body["tools"].as_array().into_iter().flatten().filter_map(named).collect();
        let offers = |name: &str| tools.iter().any(|tool| tool == name);
        let asker = if tools.is_empty() {
            Asker::Side
        } else if offers("StructuredOutput") {
            Asker::Reviewer
        } else if header("x-claude-code-agent-id").is_some() {
            Asker::SubAgent
        } else {
            Asker::Session
        };
        let session = header("x-claude-code-session-id").map(|(_, value)| value.clone());
        Request {
            asker,
            model: body["model"].as_str().unwrap_or_default().into(),
            system: text_of(&body["system"]),
            messages: body["messages"].as_array().cloned().unwrap_or_default(),
            tools,
            session: session.unwrap_or_default(),
        }
    }

    pub fn offers(&self, tool: &str) -> bool {
        self.tools.iter().any(|known| known == tool)
    }

    /// What was said to the model since it last answered: prompts, the feedback of hooks, and the
    /// results of tools.
    pub fn last(&self) -> String {
        let after = self.messages.iter().rposition(|message| message["role"] == "assistant");
        texts(&self.messages[after.map_or(0, |at| at + 1)..])
    }

    /// What the model was last told to do, by a hook that sent it back or by a prompt, and the tools
    /// that it has used since.
    pub fn order(&self) -> (String, Vec<(String, Value)>) {
        let orders = |message: &Value| message["role"] == "user" && !has_results(message);
        let at = self.messages.iter().rposition(orders).unwrap_or_default();
        let order = texts(&self.messages[at..=at]);
        let order = order.rsplit(FEEDBACK).next().unwrap_or_default().to_string();
        (order, uses(&self.messages[at..]))
    }

    /// How often a hook has sent the model back.
    pub fn blocks(&self) -> usize {
        let told = self.messages.iter().filter(|message| message["role"] == "user");
        told.map(|message| text_of(&message["content"]).matches(FEEDBACK).count()).sum()
    }

    /// What the conversation began with.
    pub fn first(&self) -> String {
        texts(&self.messages[..self.messages.len().min(1)])
    }

    /// All that was said.
    pub fn all(&self) -> String {
        texts(&self.messages)
    }

    /// The tools that the model has used so far, with what it gave them.
    pub fn used(&self) -> Vec<(String, Value)> {
        uses(&self.messages)
    }
}

impl Reply {
    pub fn text(text: impl Into<String>) -> Reply {
        Reply::default().and_text(text)
    }

    pub fn tool(name: &str, input: Value) -> Reply {
        Reply::default().and_tool(name, input)
    }

    /// Writes a file.
    pub fn write(file: impl AsRef<std::path::Path>, content: impl Into<String>) -> Reply {
        Reply::default().and_write(file, content)
    }

    /// Runs a command.
    pub fn bash(command: impl Into<String>) -> Reply {
        let input = json!({ "command": command.into(), "description": "Does what was asked for" });
        Reply::tool("Bash", input)
    }

    pub fn and_text(mut self, text: impl Into<String>) -> Reply {
        self.blocks.push(json!({ "type": "text", "text": text.into() }));
        self
    }

    pub fn and_tool(mut self, name: &str, input: Value) -> Reply {
        let mut block = json!({ "type": "tool_use", "name": name });
        block["input"] = input;
        self.blocks.push(block);
        self
    }

    pub fn and_write(self, file: impl AsRef<std::path::Path>, content: impl Into<String>) -> Reply {
        self.and_tool("Write", json!({ "file_path": file.as_ref(), "content": content.into() }))
    }

    /// Says that the conversation is so long already.
    pub fn with_tokens(self, tokens: u64) -> Reply {
        Reply { tokens, ..self }
    }

    fn stop_reason(&self) -> &'static str {
        let uses_tools = self.blocks.iter().any(|block| block["type"] == "tool_use");
        if uses_tools { "tool_use" } else { "end_turn" }
    }
}

impl Api {
    /// An API whose model answers so. A script that panics ends the turn, and fails the test when
    /// the API is dropped.
    pub fn start(script: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Api {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            script: Box::new(script),
            requests: Mutex::default(),
            faults: Mutex::default(),
            answers: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
        });
        let own = Arc::clone(&shared);
        let accepts = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if own.is_over.load(Ordering::SeqCst) {
                    break;
                }
                let (Ok(stream), own) = (stream, Arc::clone(&own)) else { continue };
                std::thread::spawn(move || {
                    // A client that was killed has hung up.
                    let _ = own.serve(&stream);
                });
            }
        });
        Api { address, shared, accepts: Some(accepts) }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All that was asked so far.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.requests.lock().unwrap().clone()
    }

    /// What one kind of asker asked.
    pub fn requests_of(&self, asker: Asker) -> Vec<Request> {
        self.requests().into_iter().filter(|request| request.asker == asker).collect()
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        // So that it looks up.
        drop(TcpStream::connect(self.address));
        drop(self.accepts.take().map(JoinHandle::join));
        let faults = self.shared.faults.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        assert!(faults.is_empty() || std::thread::panicking(), "the script panicked: {faults:?}");
    }
}

impl Shared {
    fn serve(&self, stream: &TcpStream) -> std::io::Result<()> {
        stream.set_read_timeout(Some(SILENCE))?;
        stream.set_write_timeout(Some(SILENCE))?;
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let mut words = line.split(' ');
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let path = path.split('?').next().unwrap_or_default();
        let headers = headers(&mut reader)?;
        let body = body(&mut reader, &headers)?;
        match (method, path) {
            ("POST", "/v1/messages") => {
                let body: Value = serde_json::from_slice(&body)?;
                let request = Request::new(&body, &headers);
                let reply = self.reply(&request);
                let number = self.answers.fetch_add(1, Ordering::SeqCst);
                if body["stream"] == true {
                    let events = events(&request, &reply, number);
                    send(stream, "text/event-stream", &events)
                } else {
                    let mut message = message(&request, &reply, number);
                    message["content"] = numbered(&reply, number).into();
                    message["stop_reason"] = reply.stop_reason().into();
                    send(stream, "application/json", &message.to_string())
                }
            }
            ("POST", "/v1/messages/count_tokens") => {
                send(stream, "application/json", r#"{"input_tokens":10}"#)
            }
            _ => send(stream, "application/json", "{}"),
        }
    }

    fn reply(&self, request: &Request) -> Reply {
        self.requests.lock().unwrap().push(request.clone());
        if request.asker == Asker::Side {
            return Reply::text("A title");
        }
        let reply = catch_unwind(AssertUnwindSafe(|| (self.script)(request)));
        reply.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
            self.faults.lock().unwrap().push(text.unwrap_or_else(|| "something".into()));
            Reply::text("I do not know what to do.")
        })
    }
}

fn headers(reader: &mut impl BufRead) -> std::io::Result<Vec<(String, String)>> {
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        match line.trim_end().split_once(':') {
            Some((name, value)) => {
                headers.push((name.to_ascii_lowercase(), value.trim().to_string()));
            }
            None => return Ok(headers),
        }
    }
}

fn body(reader: &mut impl BufRead, headers: &[(String, String)]) -> std::io::Result<Vec<u8>> {
    let header = |name: &str| headers.iter().find(|(known, _)| known == name);
    let bad = || std::io::Error::from(ErrorKind::InvalidData);
    let mut body = Vec::new();
    if header("transfer-encoding").is_some_and(|(_, value)| value == "chunked") {
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let size = usize::from_str_radix(line.trim(), 16).map_err(|_| bad())?;
            let mut chunk = vec![0; size + 2];
            reader.read_exact(&mut chunk)?;
            if size == 0 {
                return Ok(body);
            }
            body.extend_from_slice(&chunk[..size]);
        }
    }
    if let Some((_, length)) = header("content-length") {
        body.resize(length.parse().map_err(|_| bad())?, 0);
        reader.read_exact(&mut body)?;
    }
    Ok(body)
}

fn send(mut stream: &TcpStream, kind: &str, body: &str) -> std::io::Result<()> {
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n{body}"
    )?;
    stream.flush()
}

/// A message without content.
fn message(request: &Request, reply: &Reply, number: usize) -> Value {
    json!({
        "id": format!("msg_{number}"), "type": "message", "role": "assistant",
        "model": request.model, "content": [], "stop_reason": null, "stop_sequence": null,
        "usage": { "input_tokens": 5 + reply.tokens, "output_tokens": 5 },
    })
}

/// The blocks of a reply, with ids that no other reply has.
fn numbered(reply: &Reply, number: usize) -> Vec<Value> {
    let blocks = reply.blocks.iter().enumerate().map(|(index, block)| {
        let mut block = block.clone();
        if block["type"] == "tool_use" {
            block["id"] = format!("toolu_{number}_{index}").into();
        }
        block
    });
    blocks.collect()
}

/// A reply as the events of a stream.
fn events(request: &Request, reply: &Reply, number: usize) -> String {
    let mut events =
        vec![json!({ "type": "message_start", "message": message(request, reply, number) })];
    for (index, mut block) in numbered(reply, number).into_iter().enumerate() {
        let delta = if block["type"] == "text" {
            json!({ "type": "text_delta", "text": std::mem::replace(&mut block["text"], "".into()) })
        } else {
            let input = std::mem::replace(&mut block["input"], json!({}));
            json!({ "type": "input_json_delta", "partial_json": input.to_string() })
        };
        events.extend([
            json!({ "type": "content_block_start", "index": index, "content_block": block }),
            json!({ "type": "content_block_delta", "index": index, "delta": delta }),
            json!({ "type": "content_block_stop", "index": index }),
        ]);
    }
    let delta = json!({ "stop_reason": reply.stop_reason(), "stop_sequence": null });
    events.extend([
        json!({ "type": "message_delta", "delta": delta, "usage": { "output_tokens": 5 } }),
        json!({ "type": "message_stop" }),
    ]);
    let lines = events.iter().map(|event| {
        format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default())
    });
    lines.collect()
}

/// What was said by people, hooks, tools and the model; not the client's own remarks.
fn texts(messages: &[Value]) -> String {
    let said = messages.iter().filter(|message| message["role"] != "system");
    said.map(|message| text_of(&message["content"])).collect::<Vec<_>>().join("\n")
}

fn uses(messages: &[Value]) -> Vec<(String, Value)> {
    let blocks = messages.iter().filter_map(|message| message["content"].as_array()).flatten();
    let uses = blocks.filter(|block| block["type"] == "tool_use");
    let name = |block: &Value| block["name"].as_str().unwrap_or_default().to_string();
    uses.map(|block| (name(block), block["input"].clone())).collect()
}

fn has_results(message: &Value) -> bool {
    let blocks = message["content"].as_array().into_iter().flatten();
    blocks.into_iter().any(|block| block["type"] == "tool_result")
}

/// The text in a content: a string, or blocks of text and of results.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts = blocks.iter().map(|block| match block["type"].as_str() {
                Some("tool_result") => text_of(&block["content"]),
                _ => block["text"].as_str().unwrap_or_default().to_string(),
            });
            texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}
