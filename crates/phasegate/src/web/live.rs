//! What happens, as it happens: a stream of events for one page. A page says what it has last seen, so that it misses
//! nothing when the connection, or the server, was away.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Frame;
use phasegate_runtime::course::Course;
use phasegate_runtime::fleet::Lookout;
use phasegate_runtime::gate::Runs;
use phasegate_runtime::project::Project;
use phasegate_runtime::store::Watch;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio_util::sync::CancellationToken;

use super::fleet::{self, Elsewhere};
use super::refused::Refused;
use super::{Query, Shows, view};
use crate::loopback::{self, Body};

/// How often is looked where nothing tells of a change: for new runs, and for jobs, whose logs grow unseen.
const POLL: Duration = Duration::from_secs(1);

/// How soon is noticed that the server ends.
const BREATH: Duration = Duration::from_millis(100);

/// How many events wait for a page that reads slowly.
const MAX_WAITING: usize = 16;

/// How often a page is told that nothing happens, so that either side notices when the other is gone.
const HEARTBEAT: u32 = 15;

/// The overview may take this part of the time: with many runs it is looked at less often.
const SHARE: u32 = 20;

/// What one page has been told.
#[derive(Default)]
struct Told {
    overview: Option<String>,
    /// What is known of the fleet, where the page shows one.
    fleet: Option<Lookout>,
    /// When the overview is looked at again.
    due: Option<Instant>,
    run: Option<String>,
    /// The last line of the journal; none where the page asks for the newest ones itself.
    seq: Option<u64>,
    /// Where the run has been, so that only its new lines are read.
    course: Course,
}

/// An event for the page.
struct Event {
    name: &'static str,
    id: Option<u64>,
    data: String,
}

/// What is sent as it comes.
struct Stream(Receiver<Bytes>);

impl hyper::body::Body for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|sent| sent.map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// The stream for one page: `run` names the run that it shows, `since` the last line that it has.
pub fn stream(
    root: PathBuf,
    query: Query,
    shows: Shows,
    stopping: CancellationToken,
) -> Response<Body> {
    let (sender, receiver) = channel(MAX_WAITING);
    // All of it waits and reads files, so that it is a thread.
    let begun = thread::Builder::new().spawn(move || {
        // A page that went away is the usual end.
        let _ = send(&sender, &root, &query, shows, &stopping);
    });
    if let Err(error) = begun {
        return loopback::plain(StatusCode::SERVICE_UNAVAILABLE, &format!("{error}\n"));
    }
    let mut response = Response::new(Stream(receiver).boxed());
    let kind = HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// Tells a page what happens; none when it, or the server, is gone.
fn send(
    sender: &Sender<Bytes>,
    root: &Path,
    query: &Query,
    shows: Shows,
    stopping: &CancellationToken,
) -> Option<()> {
    let changed = Arc::new(AtomicBool::new(false));
    let run = query.get("run");
    let _watch = run.and_then(|run| watch(root, run, changed.clone()));
    let mut told = Told { seq: query.number("since"), ..Told::default() };
    let mut quiet = 0;
    loop {
        let before = told.seq;
        let events = look(root, run, shows, &mut told);
        quiet = if events.is_empty() { quiet + 1 } else { 0 };
        for event in events {
            sender.blocking_send(event.text()).ok()?;
        }
        if quiet == HEARTBEAT {
            quiet = 0;
            sender.blocking_send(Bytes::from_static(b": nothing new\n\n")).ok()?;
        }
        // New lines may be followed by more than are sent at once.
        let until = Instant::now() + if before == told.seq { POLL } else { Duration::ZERO };
        while !changed.swap(false, Ordering::Relaxed) && Instant::now() < until {
            if stopping.is_cancelled() || sender.is_closed() {
                return None;
            }
            thread::park_timeout(BREATH);
        }
    }
}

/// Tells of changes of a run at once; where the system cannot, each look is soon enough.
fn watch(root: &Path, run: &str, changed: Arc<AtomicBool>) -> Option<Box<dyn Watch>> {
    let project = Project::open(root).ok()?;
    let runs = Runs::new(&project);
    let found = runs.run(run).ok()?;
    let page = thread::current();
    let told = move || {
        changed.store(true, Ordering::Relaxed);
        page.unpark();
    };
    runs.watch(&found.id, told).ok()
}

/// What is new for a page since it was last told.
fn look(root: &Path, run: Option<&str>, shows: Shows, told: &mut Told) -> Vec<Event> {
    let mut events = Vec::new();
    let Ok(project) = Project::open(root) else { return events };
    let gate = Runs::new(&project);
    let begun = Instant::now();
    if told.due.is_none_or(|due| due <= begun) {
        let overview = if shows.fleet {
            fleet::overview(&project, told.fleet.get_or_insert_with(fleet::lookout))
        } else {
            view::overview(&project, &gate)
        };
        told.due = Some(begun + begun.elapsed() * SHARE);
        if told.overview.as_ref() != Some(&overview) {
            events.push(Event { name: "overview", id: None, data: overview.clone() });
            told.overview = Some(overview);
        }
    }
    let Some(run) = run else { return events };
    // The lines first: what stands beside them may already speak of them.
    let details = match fleet::elsewhere(run).filter(|_| shows.fleet) {
        Some(row) => Elsewhere::find(project, row).and_then(|elsewhere| {
            told.lines(|seen| elsewhere.lines_after(seen), &mut events);
            elsewhere.details(&mut told.course)
        }),
        None => match gate.run(run) {
            Ok(found) => {
                told.lines(|seen| view::lines_after(&gate, &found, seen), &mut events);
                Ok(view::run(&project, &gate, &found, shows.acts, &mut told.course))
            }
            Err(error) => Err(Refused::Unknown(error.to_string())),
        },
    };
    match details {
        Ok(details) if told.run.as_ref() != Some(&details) => {
            events.push(Event { name: "run", id: None, data: details.clone() });
            told.run = Some(details);
        }
        Err(Refused::Unknown(_)) if told.run.take().is_some() => {
            events.push(Event { name: "gone", id: None, data: "null".into() });
        }
        // A store that is away for a moment has lost nothing.
        _ => {}
    }
    events
}

impl Told {
    /// Tells of the lines of a journal that are new to the page.
    fn lines(&mut self, after: impl Fn(u64) -> Vec<(u64, String)>, events: &mut Vec<Event>) {
        let Some(seen) = self.seq else { return };
        for (seq, line) in after(seen) {
            events.push(Event { name: "line", id: Some(seq), data: line });
            self.seq = Some(seq);
        }
    }
}

impl Event {
    fn text(&self) -> Bytes {
        let id = self.id.map(|id| format!("id: {id}\n")).unwrap_or_default();
        Bytes::from(format!("event: {}\n{id}data: {}\n\n", self.name, self.data))
    }
}
