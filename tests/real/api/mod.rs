//! An API on loopback whose model is a closure: Messages, Responses, Chat Completions and Gemini, by
//! the path that is asked. Whatever the client speaks, the closure sees the messages in one shape, that
//! of the Messages API.
//!
//! One request to a connection, a thread to each: what the clients need, and nothing else of HTTP.

mod chat;
mod gemini;
pub mod http;
mod messages;
mod responses;

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

use self::messages::{events, message, numbered};

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
    pub system: String,
    pub messages: Vec<Value>,
    pub tools: Vec<String>,
    /// The session that asks, as the client says in a header.
    pub session: String,
    /// All of it, as it came.
    pub body: Value,
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
            body: body.clone(),
        }
    }

    /// What a client of another API asks, in our shape. Without tools it is the client itself that asks.
    fn other(body: &Value, messages: Vec<Value>, tools: Vec<String>) -> Request {
        let asker = if tools.is_empty() { Asker::Side } else { Asker::Session };
        let model = body["model"].as_str().unwrap_or_default().into();
        let (system, session) = (String::new(), String::new());
        Request { asker, model, system, messages, tools, session, body: body.clone() }
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

    /// Whether the conversation began with this order.
    pub fn has_order(&self, order: &str) -> bool {
        let first = self.messages.iter().position(|message| message["role"] == "assistant");
        texts(&self.messages[..first.unwrap_or(self.messages.len())]).contains(order)
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

/// The other APIs.
#[derive(Clone, Copy)]
enum Other {
    Responses,
    Chat,
    Gemini,
}

impl Other {
    fn of(method: &str, path: &str) -> Option<Other> {
        let known = [
            ("/responses", Other::Responses),
            ("/chat/completions", Other::Chat),
            (":streamGenerateContent", Other::Gemini),
            (":generateContent", Other::Gemini),
        ];
        let found = known.into_iter().find(|(end, _)| path.ends_with(end));
        found.filter(|_| method == "POST").map(|(_, api)| api)
    }

    fn request(self, body: &Value) -> Request {
        match self {
            Other::Responses => responses::request(body),
            Other::Chat => chat::request(body),
            Other::Gemini => gemini::request(body),
        }
    }

    /// The kind of an answer, and its text.
    fn answer(
        self,
        body: &Value,
        path: &str,
        reply: &Reply,
        number: usize,
    ) -> (&'static str, String) {
        let is_stream = body["stream"] == true || path.contains(":stream");
        let events = match self {
            Other::Responses => responses::events(reply, number),
            Other::Chat if is_stream => chat::events(reply, number),
            Other::Chat => return ("application/json", chat::whole(reply, number)),
            Other::Gemini if is_stream => gemini::events(reply),
            Other::Gemini => return ("application/json", gemini::whole(reply)),
        };
        ("text/event-stream", events)
    }
}

/// A message in our shape.
fn said(role: &str, blocks: &[Value]) -> Value {
    json!({ "role": role, "content": blocks })
}

fn text_block(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn use_block(name: &str, input: Value) -> Value {
    let mut block = json!({ "type": "tool_use", "name": name });
    block["input"] = input;
    block
}

fn result_block(content: &str) -> Value {
    json!({ "type": "tool_result", "content": content })
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
        let headers = http::headers(&mut reader)?;
        let body = http::body(&mut reader, &headers)?;
        let send = http::send;
        if let Some(other) = Other::of(method, path) {
            let body: Value = serde_json::from_slice(&body)?;
            let reply = self.reply(&other.request(&body));
            let number = self.answers.fetch_add(1, Ordering::SeqCst);
            let (kind, text) = other.answer(&body, path, &reply, number);
            return send(stream, kind, &text);
        }
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
            // Without a user and an organization, one client starts no sub-agents.
            ("GET", "/api/cli/whoami") => {
                send(stream, "application/json", r#"{"userId":"user","orgId":"organization"}"#)
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
