//! `phasegate web`: the runs of a project as a page, on this machine only. The server keeps nothing: every answer is
//! read anew, so that a page goes on after the server was started again.

mod acts;
mod fleet;
mod live;
mod object;
mod questions;
mod refused;
mod view;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName,
    HeaderValue, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use phasegate_engine::digest::digest;
use phasegate_runtime::project::Project;
use phasegate_runtime::{caller, jobs};
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use crate::cli::fleet::store as shared_store;
use crate::loopback::{self, Answering, Body, Hosts, plain};
use crate::outcome::{Failed, Outcome};
use crate::print;
use acts::Desk;
use object::Object;
use refused::Refused;

/// A file of the page, as it was pressed while building.
macro_rules! pressed {
    ($name:literal) => {
        include_bytes!(concat!(env!("OUT_DIR"), "/", $name))
    };
}

/// What the page is made of.
const PAGE: [(&str, &str, &[u8]); 3] = [
    ("/", "text/html; charset=utf-8", pressed!("index.html")),
    ("/page.css", "text/css; charset=utf-8", pressed!("page.css")),
    ("/page.js", "text/javascript; charset=utf-8", pressed!("page.js")),
];

/// How those are pressed. Whoever asks is a browser, and every browser unfolds it.
const PRESSED: &str = "deflate";

/// What the page shows was written by agents: nothing of it can run, load or be framed.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Sent by browsers, and by them alone: where a request comes from.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// How many answers are worked out at the same time.
const MAX_THREADS: usize = 8;

#[derive(Debug, Args)]
pub struct Options {
    /// The port on this machine; 0 takes a free one
    #[arg(long, default_value_t = 7420)]
    port: u16,
    /// Let a person act from the page: each act needs a code that this terminal shows
    #[arg(long)]
    actions: bool,
    /// Show the runs of all projects and machines of the store; those of others only to look at
    #[arg(long)]
    fleet: bool,
}

/// What a page shows.
#[derive(Clone, Copy)]
struct Shows {
    /// What a person can do.
    acts: bool,
    /// All projects and machines of the store.
    fleet: bool,
}

/// Serves until a signal.
pub fn run(project: &Project, options: &Options) -> Outcome {
    if options.actions {
        caller::must_be_human("acting from the page")?;
    }
    if options.fleet {
        shared_store(project)?;
    }
    let desk = options.actions.then(Desk::default);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(MAX_THREADS)
        .build()?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, options.port));
    let served = runtime.block_on(serve(project.root.clone(), address, desk, options.fleet));
    runtime.shutdown_timeout(Duration::from_secs(2));
    served.map_err(Failed::new)?;
    Ok(ExitCode::SUCCESS)
}

async fn serve(
    root: PathBuf,
    address: SocketAddr,
    desk: Option<Desk>,
    fleet: bool,
) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{address}: {error}");
    let (listener, hosts) = loopback::bind(address).await?;
    let token = jobs::secret().map_err(failed)?;
    let stopping = CancellationToken::new();
    let streams = stopping.clone();
    let token_digest = digest(token.as_bytes());
    let desk = desk.map(Arc::new);
    let shows = Shows { acts: desk.is_some(), fleet };
    let door = Door { hosts, token: token_digest, root, desk, shows, stopping: stopping.clone() };
    // Behind the #, so that no server's log and no other page ever sees it.
    let listening = |address| {
        print::line(&format!("http://{address}/#token={token}"));
        print::note("Open this address in a browser on this machine. Ctrl-C ends the server.");
    };
    loopback::serve(listener, Arc::new(door), stopping, streams, &listening).await.map_err(failed)
}

struct Door {
    hosts: Hosts,
    /// The digest of the token.
    token: String,
    root: PathBuf,
    /// Where acts wait for their codes; none where the page only reads.
    desk: Option<Arc<Desk>>,
    shows: Shows,
    stopping: CancellationToken,
}

impl loopback::Door for Door {
    fn answer(&self, request: Request<Incoming>) -> Answering<'_> {
        Box::pin(async {
            let mut response = self.route(request).await;
            let headers = response.headers_mut();
            for (name, value) in [
                (CONTENT_SECURITY_POLICY, POLICY),
                (X_CONTENT_TYPE_OPTIONS, "nosniff"),
                (REFERRER_POLICY, "no-referrer"),
                (CACHE_CONTROL, "no-store"),
            ] {
                headers.insert(name, HeaderValue::from_static(value));
            }
            response
        })
    }
}

impl Door {
    async fn route(&self, request: Request<Incoming>) -> Response<Body> {
        let headers = request.headers();
        let site = loopback::text(headers, &FETCH_SITE);
        let is_own = site.is_none_or(|site| matches!(site, "same-origin" | "none"));
        // First of all: a page of another host must learn nothing, not even that a token is wanted.
        if !self.hosts.admit(headers) || !is_own {
            return plain(StatusCode::FORBIDDEN, "Forbidden: another host or origin\n");
        }
        let path = request.uri().path();
        if let Some((_, kind, pressed)) = PAGE.iter().find(|(name, ..)| *name == path) {
            let mut response = of_kind(kind, Bytes::from_static(pressed));
            response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static(PRESSED));
            return response;
        }
        let Some(name) = path.strip_prefix("/api/") else {
            return plain(StatusCode::NOT_FOUND, "Not Found\n");
        };
        // Digests are compared, so the time tells nothing.
        let given = loopback::bearer(headers).map(|token| digest(token.as_bytes()));
        if given.as_ref() != Some(&self.token) {
            return plain(StatusCode::UNAUTHORIZED, "Unauthorized: send the token\n");
        }
        let name = name.to_string();
        match *request.method() {
            Method::GET => {
                let query = Query::read(request.uri().query().unwrap_or_default());
                let (root, shows) = (self.root.clone(), self.shows);
                if name == "live" {
                    return live::stream(root, query, shows, self.stopping.clone());
                }
                worked(Box::new(move || questions::answer(&root, &name, &query, shows))).await
            }
            Method::POST => self.act(name, request).await,
            _ => only("GET"),
        }
    }

    /// Takes an act down, or carries it out.
    async fn act(&self, name: String, request: Request<Incoming>) -> Response<Body> {
        let Some(desk) = self.desk.clone() else { return only("GET") };
        // A page of another host can send a form or plain text without asking us, but no JSON.
        if loopback::text(request.headers(), &CONTENT_TYPE) != Some("application/json") {
            return plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Send application/json\n");
        }
        let Some(body) = loopback::whole(request.into_body()).await else {
            return plain(StatusCode::BAD_REQUEST, "The body is too large or incomplete\n");
        };
        let root = self.root.clone();
        worked(Box::new(move || {
            let given = std::str::from_utf8(&body).unwrap_or_default();
            let given = serde_json::from_str(given);
            let given = given.map_err(|why| Refused::Wrong(why.to_string()))?;
            match name.as_str() {
                "propose" => desk.propose(&root, &given),
                "confirm" => desk.confirm(&root, &given),
                _ => Err(Refused::Unknown(format!("there is no /api/{name}"))),
            }
        }))
        .await
    }
}

/// What is worked out apart from the thread that serves. It is called through a pointer, so that what a task needs is
/// in the program once.
type Work = Box<dyn FnOnce() -> Result<String, Refused> + Send>;

async fn worked(work: Work) -> Response<Body> {
    let unexpected = Err(Refused::Failed("the answer failed unexpectedly".into()));
    let (status, what) = match spawn_blocking(work).await.unwrap_or(unexpected) {
        Ok(told) => return of_kind("application/json", Bytes::from(told)),
        Err(Refused::Unknown(what)) => (StatusCode::NOT_FOUND, what),
        Err(Refused::Wrong(what)) => (StatusCode::UNPROCESSABLE_ENTITY, what),
        Err(Refused::Moved(what)) => (StatusCode::CONFLICT, what),
        Err(Refused::Failed(what)) => (StatusCode::INTERNAL_SERVER_ERROR, what),
    };
    let mut told = Object::new();
    told.text("error", &what);
    let mut response = of_kind("application/json", Bytes::from(told.end()));
    *response.status_mut() = status;
    response
}

fn only(method: &'static str) -> Response<Body> {
    let text = "This page only reads: `phasegate web --actions` lets a person act.\n";
    let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, text);
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(method));
    response
}

fn of_kind(kind: &'static str, bytes: Bytes) -> Response<Body> {
    let mut response = Response::new(Full::new(bytes).boxed());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// What is asked for behind the question mark.
struct Query(Vec<(String, String)>);

impl Query {
    fn read(text: &str) -> Query {
        let parts = text.split('&').filter_map(|part| part.split_once('='));
        Query(parts.map(|(name, value)| (name.to_string(), decoded(value))).collect())
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.parse().ok()
    }
}

/// A value without its percent signs.
fn decoded(value: &str) -> String {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match (first, hex.and_then(|digits| u8::from_str_radix(digits, 16).ok())) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            (b'+', _) => {
                bytes.push(b' ');
                rest = after;
            }
            _ => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
