//! `phasegate web`: the runs of a project as a page, on this machine only. The server keeps nothing: every answer is
//! read anew, so that a page goes on after the server was started again.

mod acts;
mod live;
mod refused;
mod view;

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use phasegate_engine::digest::digest;
use phasegate_runtime::project::Project;
use phasegate_runtime::{caller, jobs};
use serde_json::{Value, json};
use tokio::task::{JoinError, spawn_blocking};
use tokio_util::sync::CancellationToken;

use crate::loopback::{self, Body, Hosts, plain};
use crate::outcome::{Failed, Outcome};
use crate::print;
use acts::Desk;
use refused::Refused;

/// What the page is made of.
const PAGE: [(&str, &str, &str); 3] = [
    ("/", "text/html; charset=utf-8", include_str!("web/page/index.html")),
    ("/page.css", "text/css; charset=utf-8", include_str!("web/page/page.css")),
    ("/page.js", "text/javascript; charset=utf-8", include_str!("web/page/page.js")),
];

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
}

/// Serves until a signal.
pub fn run(project: &Project, options: &Options) -> Outcome {
    if options.actions {
        caller::must_be_human("acting from the page")?;
    }
    let desk = options.actions.then(Desk::default);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(MAX_THREADS)
        .build()?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, options.port));
    let served = runtime.block_on(serve(project.root.clone(), address, desk));
    runtime.shutdown_timeout(Duration::from_secs(2));
    served.map_err(Failed)?;
    Ok(ExitCode::SUCCESS)
}

async fn serve(root: PathBuf, address: SocketAddr, desk: Option<Desk>) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{address}: {error}");
    let (listener, hosts) = loopback::bind(address).await?;
    let token = jobs::secret().map_err(failed)?;
    let stopping = CancellationToken::new();
    let streams = stopping.clone();
    let token_digest = digest(token.as_bytes());
    let desk = desk.map(Arc::new);
    let door = Door { hosts, token: token_digest, root, desk, stopping: stopping.clone() };
    // Behind the #, so that no server's log and no other page ever sees it.
    let listening = |address| {
        print::line(&format!("http://{address}/#token={token}"));
        print::note("Open this address in a browser on this machine. Ctrl-C ends the server.");
    };
    loopback::serve(listener, Arc::new(door), stopping, streams, listening).await.map_err(failed)
}

struct Door {
    hosts: Hosts,
    /// The digest of the token.
    token: String,
    root: PathBuf,
    /// Where acts wait for their codes; none where the page only reads.
    desk: Option<Arc<Desk>>,
    stopping: CancellationToken,
}

impl loopback::Door for Door {
    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
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
        if let Some((_, kind, text)) = PAGE.iter().find(|(name, ..)| *name == path) {
            return of_kind(kind, Bytes::from_static(text.as_bytes()));
        }
        let Some(name) = path.strip_prefix("/api/") else {
            return plain(StatusCode::NOT_FOUND, "Not Found\n");
        };
        // Digests are compared, so the time tells nothing.
        let given = loopback::bearer(headers).map(|token| digest(token.as_bytes()));
        if given.as_ref() != Some(&self.token) {
            return plain(StatusCode::UNAUTHORIZED, "Unauthorized: send the token\n");
        }
        let worked = match *request.method() {
            Method::GET => {
                let query = query(request.uri().query().unwrap_or_default());
                let (root, acts) = (self.root.clone(), self.desk.is_some());
                if name == "live" {
                    return live::stream(root, query, acts, self.stopping.clone());
                }
                let name = name.to_string();
                spawn_blocking(move || view::answer(&root, &name, &query, acts)).await
            }
            Method::POST => {
                let name = name.to_string();
                return self.act(&name, request).await;
            }
            _ => return only("GET"),
        };
        answered(worked)
    }

    /// Takes an act down, or carries it out.
    async fn act(&self, name: &str, request: Request<Incoming>) -> Response<Body> {
        let Some(desk) = self.desk.clone() else { return only("GET") };
        // A page of another host can send a form or plain text without asking us, but no JSON.
        if loopback::text(request.headers(), &CONTENT_TYPE) != Some("application/json") {
            return plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Send application/json\n");
        }
        let Some(body) = loopback::whole(request.into_body()).await else {
            return plain(StatusCode::BAD_REQUEST, "The body is too large or incomplete\n");
        };
        let (root, name) = (self.root.clone(), name.to_string());
        let unfit = |why: serde_json::Error| Refused::Wrong(why.to_string());
        let worked = spawn_blocking(move || match name.as_str() {
            "propose" => desk.propose(&root, serde_json::from_slice(&body).map_err(unfit)?),
            "confirm" => desk.confirm(&root, &serde_json::from_slice(&body).map_err(unfit)?),
            _ => Err(Refused::Unknown(format!("there is no /api/{name}"))),
        });
        answered(worked.await)
    }
}

fn answered(worked: Result<Result<Value, Refused>, JoinError>) -> Response<Body> {
    match worked {
        Ok(Ok(value)) => of_kind("application/json", Bytes::from(value.to_string())),
        Ok(Err(Refused::Unknown(what))) => error(StatusCode::NOT_FOUND, &what),
        Ok(Err(Refused::Wrong(what))) => error(StatusCode::UNPROCESSABLE_ENTITY, &what),
        Ok(Err(Refused::Moved(what))) => error(StatusCode::CONFLICT, &what),
        Ok(Err(Refused::Failed(what))) => error(StatusCode::INTERNAL_SERVER_ERROR, &what),
        Err(_) => error(StatusCode::INTERNAL_SERVER_ERROR, "the answer failed unexpectedly"),
    }
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

fn error(status: StatusCode, what: &str) -> Response<Body> {
    let mut response =
        of_kind("application/json", Bytes::from(json!({ "error": what }).to_string()));
    *response.status_mut() = status;
    response
}

/// What is asked for behind the question mark.
type Query = HashMap<String, String>;

fn query(text: &str) -> Query {
    let parts = text.split('&').filter_map(|part| part.split_once('='));
    parts.map(|(name, value)| (name.to_string(), decoded(value))).collect()
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
