//! What happens, as it happens: a stream of events for one page. A page says what it has last seen, so that it misses
//! nothing when the connection, or the server, was away.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http::header::{CONTENT_TYPE, HeaderValue};
use http_body_util::BodyExt as _;
use http_body_util::channel::{Channel, Sender};
use phasegate_runtime::gate::Runs;
use phasegate_runtime::project::Project;
use phasegate_runtime::store::Watch;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{Query, view};
use crate::loopback::Body;

/// How often is looked where nothing tells of a change: for new runs, and for jobs, whose logs grow unseen.
const POLL: Duration = Duration::from_secs(1);

/// How many events wait for a page that reads slowly.
const MAX_WAITING: usize = 16;

/// How often a page is told that nothing happens, so that either side notices when the other is gone.
const HEARTBEAT: u32 = 15;

/// What one page has been told.
#[derive(Default)]
struct Told {
    overview: Option<Value>,
    run: Option<Value>,
    /// The last line of the journal; none where the page asks for the newest ones itself.
    seq: Option<u64>,
}

/// An event for the page.
struct Event {
    name: &'static str,
    id: Option<u64>,
    data: Value,
}

/// The stream for one page: `run` names the run that it shows, `since` the last line that it has.
pub fn stream(
    root: PathBuf,
    query: Query,
    acts: bool,
    stopping: CancellationToken,
) -> Response<Body> {
    let (sender, body) = Channel::<Bytes, Infallible>::new(MAX_WAITING);
    tokio::spawn(async move {
        // A page that went away is the usual end.
        tokio::select! {
            _ = send(sender, root, query, acts) => {}
            () = stopping.cancelled() => {}
        }
    });
    let mut response = Response::new(body.boxed());
    let kind = HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

async fn send(
    mut sender: Sender<Bytes, Infallible>,
    root: PathBuf,
    query: Query,
    acts: bool,
) -> Result<(), http_body_util::channel::SendError> {
    let changed = Arc::new(Notify::new());
    let run = query.get("run").cloned();
    let _watch = run.as_deref().and_then(|run| watch(&root, run, changed.clone()));
    let since = query.get("since").and_then(|since| since.parse().ok());
    let mut told = Told { seq: since, ..Told::default() };
    let mut quiet = 0;
    loop {
        let (root, run) = (root.clone(), run.clone());
        let looked = tokio::task::spawn_blocking(move || {
            let events = look(&root, run.as_deref(), acts, &mut told);
            (events, told)
        });
        let Ok((events, after)) = looked.await else { return Ok(()) };
        told = after;
        quiet = if events.is_empty() { quiet + 1 } else { 0 };
        for event in events {
            sender.send_data(event.text()).await?;
        }
        if quiet == HEARTBEAT {
            quiet = 0;
            sender.send_data(Bytes::from_static(b": nothing new\n\n")).await?;
        }
        let _ = timeout(POLL, changed.notified()).await;
    }
}

/// Tells of changes of a run at once; where the system cannot, each look is soon enough.
fn watch(root: &Path, run: &str, changed: Arc<Notify>) -> Option<Box<dyn Watch>> {
    let project = Project::open(root).ok()?;
    let runs = Runs::new(&project);
    let found = runs.run(run).ok()?;
    runs.watch(&found.id, move || changed.notify_one()).ok()
}

/// What is new for a page since it was last told.
fn look(root: &Path, run: Option<&str>, acts: bool, told: &mut Told) -> Vec<Event> {
    let mut events = Vec::new();
    let Ok(project) = Project::open(root) else { return events };
    let gate = Runs::new(&project);
    let overview = view::overview(&project, &gate);
    if told.overview.as_ref() != Some(&overview) {
        events.push(Event { name: "overview", id: None, data: overview.clone() });
        told.overview = Some(overview);
    }
    let Some(found) = run.and_then(|run| gate.run(run).ok()) else { return events };
    // The lines first: what stands beside them may already speak of them.
    if let Some(seen) = told.seq {
        for (seq, line) in view::lines_after(&gate, &found, seen) {
            events.push(Event { name: "line", id: Some(seq), data: line });
            told.seq = Some(seq);
        }
    }
    let details = view::run(&project, &gate, &found, acts);
    if told.run.as_ref() != Some(&details) {
        events.push(Event { name: "run", id: None, data: details.clone() });
        told.run = Some(details);
    }
    events
}

impl Event {
    fn text(&self) -> Bytes {
        let id = self.id.map(|id| format!("id: {id}\n")).unwrap_or_default();
        Bytes::from(format!("event: {}\n{id}data: {}\n\n", self.name, self.data))
    }
}
