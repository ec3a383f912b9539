//! The protocol: rmcp's handler, by hand, since the tools come from the workflow; and stdio.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestMethod,
    CompleteRequestParams, CompleteResult, CustomRequest, CustomResult, ErrorCode, Implementation,
    ListPromptsRequestMethod, ListPromptsResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult,
    Resource, ResourceContents, ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::{RequestContext, ServerInitializeError, ServiceExt as _};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::overview;
use super::tools::{MAX_SECONDS, Refusal, SECONDS, Tools, UNKNOWN_TOOL, WAIT, Who};
use crate::waiting::{Until, Wait};

/// How often a run is looked at by somebody who waits for it, beside every change.
const POLL: Duration = Duration::from_secs(1);

const STATUS: &str = "phasegate://status";
const DIAGRAM: &str = "phasegate://diagram";

const INSTRUCTIONS: &str = "Each answer has `guidance`: where the run stands (`status`), what to do \
    next (`action`), and which tools would be accepted now (`can`). Call `wait_for_change` instead \
    of asking again and again; with `until: \"settled\"` it returns when it is your turn, in any run.";

/// The tools of a workflow, as a client sees them.
pub struct Server {
    tools: Tools,
    /// Who is at the other end of stdio; over HTTP every request says so.
    own: Option<Who>,
    /// Cancelled when the server is about to end, so that waiting calls are answered at once.
    stopping: CancellationToken,
}

impl Server {
    pub fn new(tools: Tools, own: Option<Who>, stopping: CancellationToken) -> Server {
        Server { tools, own, stopping }
    }

    /// Whether a token is that of an agent that lives.
    pub async fn knows(&self, token: &str) -> bool {
        let token = token.to_string();
        self.work(move |tools| tools.knows(&token)).await.unwrap_or(false)
    }

    fn who(&self, context: &RequestContext<RoleServer>) -> Result<Who, ErrorData> {
        let parts = context.extensions.get::<http::request::Parts>();
        let asked = parts.and_then(|parts| parts.extensions.get::<Who>());
        let who = asked.or(self.own.as_ref()).cloned();
        who.ok_or_else(|| ErrorData::invalid_request("nobody is known to ask", None))
    }

    /// Works off the only thread of the runtime. What panics there is answered, too.
    async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Tools) -> T + Send + 'static,
    ) -> Result<T, ErrorData> {
        let tools = self.tools.clone();
        let done = tokio::task::spawn_blocking(move || work(&tools)).await;
        done.map_err(|_| ErrorData::internal_error("the call failed unexpectedly", None))
    }

    async fn tool_list(&self, who: &Who) -> Result<Vec<Tool>, ErrorData> {
        let (who, general) = (who.clone(), overview::tools(who));
        let tools = self.work(move |tools| tools.list(&who)).await?;
        let mut tools = tools.map_err(|why| ErrorData::internal_error(why, None))?;
        // An action of the workflow is called before one that all have.
        let own: Vec<String> = tools.iter().map(|tool| tool.name.clone()).collect();
        tools.extend(general.into_iter().filter(|tool| !own.contains(&tool.name)));
        let output = Arc::new(output_schema());
        let tools = tools.into_iter().map(|tool| {
            Tool::new(tool.name, tool.about, Arc::new(tool.input))
                .with_annotations(
                    ToolAnnotations::new().read_only(tool.looks).destructive(tool.destroys),
                )
                .with_raw_output_schema(output.clone())
        });
        Ok(tools.collect())
    }

    async fn wait(
        &self,
        who: &Who,
        mut arguments: Map<String, Value>,
        context: &RequestContext<RoleServer>,
    ) -> Result<Result<Value, Refusal>, ErrorData> {
        let invalid = |message: &str| Ok(Err(Refusal::new("invalid_params", message)));
        let mut take = |name: &str| arguments.remove(name).filter(|value| !value.is_null());
        let (run, since, seconds) = (take("run"), take("since"), take("seconds"));
        let until = take("until").unwrap_or_else(|| "change".into());
        if let Some(unknown) = arguments.keys().next() {
            return invalid(&format!("there is no parameter `{unknown}`"));
        }
        let seconds = match seconds.map(|seconds| seconds.as_u64()) {
            None => SECONDS,
            Some(Some(seconds)) if seconds <= MAX_SECONDS => seconds,
            Some(_) => {
                return invalid(&format!("seconds is a whole number up to {MAX_SECONDS}"));
            }
        };
        let since = match since.map(|since| since.as_u64()) {
            None => None,
            Some(Some(since)) => Some(since),
            Some(None) => return invalid("since is the revision that an answer told"),
        };
        let run = match run {
            None => None,
            Some(Value::String(run)) => Some(run),
            Some(_) => return invalid("run is not a string"),
        };
        let Value::String(until) = until else { return invalid("until is not a string") };
        let deadline = Instant::now() + Duration::from_secs(seconds);
        let mut wait = Wait::new(Until::named(&until, since));
        let wake = Arc::new(Notify::new());
        let (asked, wanted, woken) = (who.clone(), run.clone(), wake.clone());
        // Before the first look, so that nothing is missed behind it. What cannot be watched is looked at
        // every second.
        let _watches =
            self.work(move |tools| tools.watch(&asked, wanted.as_deref(), &woken)).await?;
        loop {
            let is_over = Instant::now() >= deadline || self.stopping.is_cancelled();
            let (asked, wanted, mut own) = (who.clone(), run.clone(), wait);
            let (own, seen) = self
                .work(move |tools| {
                    let seen = tools.look(&asked, wanted.as_deref(), &mut own, is_over);
                    (own, seen)
                })
                .await?;
            wait = own;
            match seen {
                Ok(None) => {}
                Ok(Some(answer)) => return Ok(Ok(answer)),
                Err(refusal) => return Ok(Err(refusal)),
            }
            tokio::select! {
                () = wake.notified() => {}
                () = sleep(POLL.min(deadline.saturating_duration_since(Instant::now()))) => {}
                () = self.stopping.cancelled() => {}
                // Nobody reads the answer to a call that was cancelled.
                () = context.ct.cancelled() => {
                    return Err(ErrorData::internal_error("cancelled", None));
                }
            }
        }
    }
}

/// What every answer has. A refusal must fit, too: clients check it.
fn output_schema() -> Map<String, Value> {
    let text = json!({ "type": "string" });
    let schema = json!({
        "type": "object",
        "properties": {
            "success": { "type": "boolean" },
            "code": text,
            "error": text,
            "run": text,
            "revision": { "type": "integer" },
            "message": text,
            "guidance": {
                "type": "object",
                "properties": { "status": text, "action": { "type": ["string", "null"] } },
                "required": ["status", "action"],
            },
            "review": { "type": "object" },
        },
        "required": ["success"],
    });
    match schema {
        Value::Object(schema) => schema,
        _ => Map::new(),
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_resources().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("phasegate", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let who = self.who(&context)?;
        Ok(ListToolsResult::with_all_items(self.tool_list(&who).await?))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let who = self.who(&context)?;
        let name = request.name.to_string();
        let arguments = request.arguments.unwrap_or_default();
        let answered = if name == WAIT {
            self.wait(&who, arguments, &context).await?
        } else {
            let (asked, called) = (who, name.clone());
            self.work(move |tools| match tools.call(&asked, &called, arguments.clone()) {
                Err(refusal) if refusal.code == UNKNOWN_TOOL => {
                    let general = overview::call(tools, &asked, &called, arguments);
                    general.unwrap_or(Err(refusal))
                }
                answer => answer,
            })
            .await?
        };
        let result = match answered {
            Ok(answer) => CallToolResult::structured(answer),
            Err(refusal) if refusal.code == UNKNOWN_TOOL => {
                return Err(ErrorData::invalid_params(format!("Unknown tool: {name}"), None));
            }
            Err(refusal) => CallToolResult::structured_error(refusal.into_value()),
        };
        Ok(result.into())
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let resources = vec![
            Resource::new(STATUS, "status")
                .with_description("The runs of the workflow, and what to do next in each.")
                .with_mime_type("application/json"),
            Resource::new(DIAGRAM, "diagram")
                .with_description("The workflow as a Mermaid diagram.")
                .with_mime_type("text/vnd.mermaid"),
        ];
        Ok(ListResourcesResult::with_all_items(resources))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.who(&context)?;
        let uri = request.uri;
        let (kind, text) = match uri.as_str() {
            STATUS => ("application/json", self.work(Tools::status).await?),
            DIAGRAM => ("text/vnd.mermaid", self.work(Tools::diagram).await?),
            _ => {
                let data = json!({ "uri": uri });
                return Err(ErrorData::resource_not_found("Resource not found", Some(data)));
            }
        };
        let text = text.map_err(|why| ErrorData::internal_error(why, None))?;
        let contents = ResourceContents::text(text, uri).with_mime_type(kind);
        Ok(ReadResourceResult::new(vec![contents]).into())
    }

    // These two are answered with empty lists otherwise, although nobody has promised them.

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListPromptsRequestMethod>())
    }

    async fn complete(
        &self,
        _request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Err(ErrorData::method_not_found::<CompleteRequestMethod>())
    }

    /// A known method whose parameters do not fit arrives here, too.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = request.method;
        Err(match method.as_str() {
            "tools/call" | "tools/list" | "resources/read" | "resources/list" => {
                ErrorData::invalid_params(format!("Invalid params of {method}"), None)
            }
            _ => ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method, None),
        })
    }
}

/// Serves one client until it closes our stdin.
pub async fn stdio(server: Server, ended: CancellationToken) -> Result<(), String> {
    let (input, output) = rmcp::transport::stdio_pipes();
    match server.serve((EndWatch { input, ended }, output)).await {
        Ok(running) => running.waiting().await.map(drop).map_err(|error| error.to_string()),
        // It was closed before anything was asked: an ordinary end.
        Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// Signals the end of the input, so that waiting calls are answered before the server ends.
struct EndWatch<R> {
    input: R,
    ended: CancellationToken,
}

impl<R: AsyncRead + Unpin> AsyncRead for EndWatch<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let outcome = ready!(Pin::new(&mut self.input).poll_read(context, buffer));
        if outcome.is_err() || (buffer.filled().len() == before && buffer.remaining() > 0) {
            self.ended.cancel();
        }
        Poll::Ready(outcome)
    }
}
