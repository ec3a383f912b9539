//! Streamable HTTP on the loopback interface: nobody gets in without a token.

use std::net::SocketAddr;
use std::sync::Arc;

use http::header::{HeaderValue, WWW_AUTHENTICATE};
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use phasegate_engine::digest::digest;
use phasegate_runtime::jobs;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;

use super::tools::Who;
use super::transport::Server;
use crate::loopback::{self, Answering, Body, Hosts, MAX_BYTES, plain};
use crate::print;

const PATH: &str = "/mcp";

struct Door {
    hosts: Hosts,
    /// The digest of the orchestrator's token.
    token: String,
    server: Arc<Server>,
    /// Without sessions: a server that was killed and started again goes on.
    mcp: StreamableHttpService<Arc<Server>, NeverSessionManager>,
}

impl loopback::Door for Door {
    fn answer(&self, request: Request<Incoming>) -> Answering<'_> {
        Box::pin(self.answered(request))
    }
}

impl Door {
    async fn answered(&self, mut request: Request<Incoming>) -> Response<Body> {
        // First of all: a page of another host must learn nothing, not even that a token is wanted.
        if !self.hosts.admit(request.headers()) {
            return plain(StatusCode::FORBIDDEN, "Forbidden: another host or origin\n");
        }
        if request.uri().path() != PATH {
            return plain(StatusCode::NOT_FOUND, "Not Found: the server is at /mcp\n");
        }
        let who = match loopback::bearer(request.headers()).map(str::to_string) {
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
        let Some(body) = loopback::whole(body).await else {
            return plain(
                StatusCode::BAD_REQUEST,
                "Bad Request: the body is too large or incomplete\n",
            );
        };
        self.mcp.handle(Request::from_parts(parts, Full::new(body))).await
    }
}

impl Door {
    /// Whose token it is. Digests are compared, so the time tells nothing.
    async fn who(&self, token: String) -> Option<Who> {
        if digest(token.as_bytes()) == self.token {
            return Some(Who::Orchestrator);
        }
        self.server.knows(&token).await.then_some(Who::Agent(token))
    }
}

/// Serves until a signal.
pub async fn serve(
    address: SocketAddr,
    server: Arc<Server>,
    token: Option<&str>,
    stopping: CancellationToken,
) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{address}: {error}");
    let (listener, hosts) = loopback::bind(address).await?;
    let streams = CancellationToken::new();
    let config = StreamableHttpServerConfig::default()
        .with_allowed_hosts(hosts.0.clone())
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
    let listening = |address| print::note(&format!("listening on http://{address}{PATH}"));
    loopback::serve(listener, door, stopping, streams, &listening).await.map_err(failed)
}
