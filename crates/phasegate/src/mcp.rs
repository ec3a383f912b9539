//! The MCP server: the actions of a workflow as tools, over stdio or HTTP. It keeps nothing: every
//! call opens the project anew, so that a server that is killed has lost nothing.

mod overview;
mod tools;
mod transport;
mod web;

use std::net::{SocketAddr, ToSocketAddrs};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use phasegate_runtime::caller;
use phasegate_runtime::catalog::{Entry, Memory};
use phasegate_runtime::gate::GateError;
use phasegate_runtime::jobs;
use phasegate_runtime::project::Project;
use phasegate_runtime::variables;
use tokio_util::sync::CancellationToken;

use crate::outcome::{Failed, Outcome};
use tools::{Tools, Who};
use transport::Server;

/// How many calls work at the same time; a wait does not work.
const MAX_THREADS: usize = 8;

#[derive(Debug, Args)]
pub struct Options {
    /// The workflow whose actions are the tools; by default an agent's own, else the one that has agents
    #[arg(long, value_name = "NAME")]
    workflow: Option<String>,
    /// Serve streamable HTTP at this loopback address instead of stdio; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT")]
    http: Option<String>,
}

/// Serves until the client has gone, or until a signal.
pub fn run(project: &Project, options: &Options) -> Outcome {
    let memory: Arc<Memory> = Arc::default();
    let workflow = served(project, &memory, options.workflow.as_deref())?;
    let tools = Tools { root: project.root.clone(), workflow, memory };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        // One thread is held by stdin, one by stdout.
        .max_blocking_threads(MAX_THREADS)
        .thread_keep_alive(Duration::from_secs(5))
        .build()?;
    let address = options.http.as_deref().map(address).transpose()?;
    let served = runtime.block_on(serve(tools, address));
    // A read of stdin that never returns must not keep the process.
    runtime.shutdown_timeout(Duration::from_secs(2));
    served.map_err(Failed::new)?;
    Ok(ExitCode::SUCCESS)
}

async fn serve(tools: Tools, address: Option<SocketAddr>) -> Result<(), String> {
    let stopping = CancellationToken::new();
    match address {
        None => {
            let server = Server::new(tools, Some(own()), stopping.clone());
            transport::stdio(server, stopping).await
        }
        Some(address) => {
            let server = Arc::new(Server::new(tools, None, stopping.clone()));
            let given = std::env::var(variables::HTTP_TOKEN).ok();
            let given = given.filter(|token| !token.trim().is_empty());
            web::serve(address, server, given.as_deref().map(str::trim), stopping).await
        }
    }
}

/// The workflow that is meant.
fn served(project: &Project, memory: &Memory, named: Option<&str>) -> Result<String, Failed> {
    if let Some(name) = named {
        return match project.workflow(name) {
            Some(_) => Ok(name.to_string()),
            None => Err(GateError::UnknownWorkflow(name.to_string()).into()),
        };
    }
    // An agent works for one run, and needs the tools of that.
    let token = std::env::var(variables::TOKEN).ok();
    let own = token.as_deref().and_then(jobs::parts).and_then(|(_, run, _)| run.split_once('/'));
    if let Some((workflow, _)) = own {
        return Ok(workflow.to_string());
    }
    // What is resolved here serves the first call.
    let has_agents = |entry: &&Entry| {
        let resolved = || entry.recall(&project.config, memory);
        entry.may_have_agents() && resolved().is_ok_and(|workflow| workflow.has_agents())
    };
    let entries = project.workflows.iter().filter(has_agents);
    match entries.map(|entry| entry.name.as_str()).collect::<Vec<_>>().as_slice() {
        [one] => Ok((*one).to_string()),
        all => Err(Failed::new(format!("choose a workflow with `--workflow`: {}", all.join(", ")))),
    }
}

/// The address that is meant, `localhost` included.
fn address(text: &str) -> Result<SocketAddr, Failed> {
    let found = text.to_socket_addrs().ok().and_then(|mut all| all.next());
    found.ok_or_else(|| Failed::new(format!("{text:?} is not an address such as 127.0.0.1:7421")))
}

/// Who holds the other end of stdio: the agent whose secret we were given, or the orchestrator that has others
/// work. A person never speaks through a client.
fn own() -> Who {
    match std::env::var(variables::TOKEN) {
        Ok(token) => Who::Agent(token),
        Err(_) if caller::is_supervised() => Who::Stranger,
        Err(_) => Who::Orchestrator,
    }
}
