//! HTTP on the loopback interface, for the doors that speak it: no other host's page gets in. Each door says for
//! itself who may ask what.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HOST, HeaderName, HeaderValue, ORIGIN};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::print;

pub type Body = BoxBody<Bytes, Infallible>;

/// How long a client may take to say what it wants.
const HEADER_TIME: Duration = Duration::from_secs(10);

/// And to say all of it.
const BODY_TIME: Duration = Duration::from_secs(10);

/// How long answers may take after the server was told to end.
const GRACE: Duration = Duration::from_secs(1);

/// No request of ours is larger.
pub const MAX_BYTES: usize = 1 << 20;

/// An answer that is being worked out.
pub type Answering<'d> = Pin<Box<dyn Future<Output = Response<Body>> + Send + 'd>>;

/// What answers requests. It is called through a pointer, so that the code of a connection is in the program once
/// for all doors.
pub trait Door: Send + Sync + 'static {
    fn answer(&self, request: Request<Incoming>) -> Answering<'_>;
}

/// The names by which this machine may be called: a page of another host that has its name resolved to this machine
/// sends another one.
#[derive(Clone, Debug)]
pub struct Hosts(pub [String; 3]);

impl Hosts {
    fn at(address: SocketAddr) -> Hosts {
        Hosts(["localhost", "127.0.0.1", "[::1]"].map(|it| format!("{it}:{}", address.port())))
    }

    /// Whether a request comes from this machine, and from a page of ours if from a page.
    pub fn admit(&self, headers: &HeaderMap) -> bool {
        let is_own = |host: &str| self.0.iter().any(|own| own.eq_ignore_ascii_case(host));
        let host = text(headers, &HOST).unwrap_or_default();
        let origin = headers.get(ORIGIN).map(|it| it.to_str().unwrap_or_default());
        is_own(host) && origin.is_none_or(|it| it.strip_prefix("http://").is_some_and(is_own))
    }
}

/// A header, where it is text.
pub fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    headers.get(name).map(HeaderValue::to_str).and_then(Result::ok)
}

/// The token that a request shows.
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = text(headers, &AUTHORIZATION)?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The whole body of a request; none where it is too large or does not come.
pub async fn whole(body: Incoming) -> Option<Bytes> {
    let read = timeout(BODY_TIME, Limited::new(body, MAX_BYTES).collect()).await;
    Some(read.ok()?.ok()?.to_bytes())
}

/// An answer of one sentence.
pub fn plain(status: StatusCode, text: &str) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::from(text.to_string())).boxed());
    *response.status_mut() = status;
    response
}

/// Takes an address, which has to be of this machine only; port 0 takes a free one.
pub async fn bind(address: SocketAddr) -> Result<(TcpListener, Hosts), String> {
    if !address.ip().is_loopback() {
        return Err(format!(
            "{address} is not a loopback address; the server serves this machine only"
        ));
    }
    let failed = |error: std::io::Error| format!("{address}: {error}");
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, Hosts::at(address)))
}

/// Serves until a signal. `stopping` tells the answers that are under way, `streams` those that do not end by
/// themselves. Nothing here depends on the kind of door, so that it is compiled once.
pub async fn serve(
    listener: TcpListener,
    door: Arc<dyn Door>,
    stopping: CancellationToken,
    streams: CancellationToken,
    listening: &(dyn Fn(SocketAddr) + Sync),
) -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    // A reader of this line may already tell us to end.
    listening(listener.local_addr()?);
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
