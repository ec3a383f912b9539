//! Streamable HTTP on the loopback interface: no other host's page gets in, and nobody without a
//! token.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HOST, HeaderValue, ORIGIN, WWW_AUTHENTICATE};
use http::{Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use phasegate_engine::digest::digest;
use phasegate_runtime::jobs;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::tools::Who;
use super::transport::Server;
use crate::print;

type Body = BoxBody<Bytes, Infallible>;

const PATH: &str = "/mcp";

/// How long a client may take to say what it wants.
const HEADER_TIME: Duration = Duration::from_secs(10);

/// And to say all of it.
const BODY_TIME: Duration = Duration::from_secs(10);

/// How long answers may take after the server was told to end.
const GRACE: Duration = Duration::from_secs(1);

/// A larger request is none of ours.
const MAX_BYTES: usize = 1 << 20;

struct Door {
    hosts: [String; 3],
    /// The digest of the orchestrator's token.
    token: String,
    server: Arc<Server>,
    /// Without sessions: a server that was killed and started again goes on.
    mcp: StreamableHttpService<Arc<Server>, NeverSessionManager>,
}

impl Door {
    async fn answer(&self, mut request: Request<Incoming>) -> Response<Body> {
        let header = |name| request.headers().get(name).map(HeaderValue::to_str);
        let host = header(HOST).and_then(Result::ok).unwrap_or_default();
        let origin = header(ORIGIN).map(Result::unwrap_or_default);
        let is_own = |host: &str| self.hosts.iter().any(|own| own.eq_ignore_ascii_case(host));
        let from_own = origin.is_none_or(|it| it.strip_prefix("http://").is_some_and(is_own));
        // First of all: a page of another host must learn nothing, not even that a token is wanted.
        if !is_own(host) || !from_own {
            return plain(StatusCode::FORBIDDEN, "Forbidden: another host or origin\n");
        }
        if request.uri().path() != PATH {
            return plain(StatusCode::NOT_FOUND, "Not Found: the server is at /mcp\n");
        }
        let given = header(AUTHORIZATION).and_then(Result::ok).and_then(bearer);
        let who = match given.map(str::to_string) {
            Some(token) => self.who(token).await,
            None => None,
        };
        let Some(who) = who else {
            let text = "Unauthorized: send the server's token or an agent's\n";
            let mut response = plain(StatusCode::UNAUTHORIZED, text);
            let challenge = HeaderValue::from_static("Bearer realm=\"phasegate\"");
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
            return response;
        };
        request.extensions_mut().insert(who);
        // A body that never comes keeps nobody.
        let (parts, body) = request.into_parts();
        let body = timeout(BODY_TIME, Limited::new(body, MAX_BYTES).collect()).await;
        let Ok(Ok(body)) = body else {
            return plain(
                StatusCode::BAD_REQUEST,
                "Bad Request: the body is too large or incomplete\n",
            );
        };
        self.mcp.handle(Request::from_parts(parts, Full::new(body.to_bytes()))).await
    }

    /// Whose token it is. Digests are compared, so the time tells nothing.
    async fn who(&self, token: String) -> Option<Who> {
        if digest(token.as_bytes()) == self.token {
            return Some(Who::Orchestrator);
        }
        self.server.knows(&token).await.then_some(Who::Agent(token))
    }
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn plain(status: StatusCode, text: &'static str) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())).boxed());
    *response.status_mut() = status;
    response
}

/// Serves until a signal.
pub async fn serve(
    address: SocketAddr,
    server: Arc<Server>,
    token: Option<&str>,
    stopping: CancellationToken,
) -> Result<(), String> {
    if !address.ip().is_loopback() {
        return Err(format!(
            "{address} is not a loopback address; the server serves this machine only"
        ));
    }
    let failed = |error: std::io::Error| format!("{address}: {error}");
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let streams = CancellationToken::new();
    let hosts = ["localhost", "127.0.0.1", "[::1]"].map(|it| format!("{it}:{}", address.port()));
    let config = StreamableHttpServerConfig::default()
        .with_allowed_hosts(hosts.clone())
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(MAX_BYTES)
        .with_cancellation_token(streams.clone());
    let served = server.clone();
    let make = move || Ok(served.clone());
    let mcp = StreamableHttpService::new(make, Arc::new(NeverSessionManager::default()), config);
    let token = match token {
        Some(token) => digest(token.as_bytes()),
        None => {
            let token = jobs::secret().map_err(failed)?;
            print::note(&format!("token: {token}"));
            digest(token.as_bytes())
        }
    };
    let door = Arc::new(Door { hosts, token, server, mcp });
    accept(listener, door, stopping, streams).await.map_err(failed)
}

async fn accept(
    listener: TcpListener,
    door: Arc<Door>,
    stopping: CancellationToken,
    streams: CancellationToken,
) -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    // A reader of this line may already tell us to end.
    print::note(&format!("listening on http://{}{PATH}", listener.local_addr()?));
    let connections = TaskTracker::new();
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // For example too many open files: wait rather than spin or end.
                    print::note(&format!("accept: {error}"));
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            },
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
        };
        let (door, stopping) = (door.clone(), stopping.clone());
        connections.spawn(async move {
            let service = service_fn(|request| {
                let door = door.clone();
                async move { Ok::<_, Infallible>(door.answer(request).await) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_TIME)
                .serve_connection(TokioIo::new(stream), service);
            let mut connection = std::pin::pin!(connection);
            // Errors are those of a client that went away.
            tokio::select! {
                _ = connection.as_mut() => {}
                () = stopping.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    let _ = connection.await;
                }
            }
        });
    }
    drop(listener);
    stopping.cancel();
    connections.close();
    if timeout(GRACE, connections.wait()).await.is_err() {
        streams.cancel();
        let _ = timeout(GRACE, connections.wait()).await;
    }
    Ok(())
}
