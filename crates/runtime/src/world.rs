//! Evidence from the disk, the clock, the environment and the client's payload.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use indexmap::IndexMap;
use jiff::Timestamp;
use phasegate_clients::Client;
use phasegate_engine::check::CheckResult;
use phasegate_engine::evidence::{Evidence, NoEvidence};
use phasegate_engine::json::Json;

use crate::agents::Record;
use crate::checks::Checks;
use crate::git;
use crate::paths::{Walk, inside};
use crate::workspace::place::Place;
use crate::workspace::topics;

/// A file larger than this is no evidence.
const MAX_BYTES: u64 = 64 << 20;

/// What the client told about the agent.
#[derive(Clone, Debug, Default)]
pub struct ClientReport {
    /// Who told it, and can read the transcript.
    pub client: &'static dyn Client,
    /// The last message, where the payload has it.
    pub last_message: Option<String>,
    /// All that was said since the user spoke, where the client tells no more than that.
    pub said: Option<String>,
    /// The transcript's file.
    pub transcript: Option<PathBuf>,
    /// What the transcript has once it is up to date, where it lags behind.
    pub mark: Option<String>,
}

impl ClientReport {
    /// Whether the agent used a tool since it was last told to go on, as far as the transcript
    /// says.
    pub fn used_tools(&self) -> Option<bool> {
        self.client.used_tools(self.current_transcript()?)
    }

    /// The transcript, up to date.
    fn current_transcript(&self) -> Option<&Path> {
        let path = self.transcript.as_deref()?;
        if let Some(mark) = &self.mark {
            self.client.catch_up(path, mark);
        }
        Some(path)
    }
}

/// The world as seen from a project.
#[derive(Debug)]
pub struct World {
    root: PathBuf,
    told: ClientReport,
    turn: OnceLock<Vec<String>>,
    checks: Option<Checks>,
    agents: IndexMap<String, Record>,
}

impl World {
    /// The world of the project at `root`.
    pub fn new(root: &Path, told: ClientReport) -> World {
        let (root, turn, agents) = (root.to_path_buf(), OnceLock::new(), IndexMap::new());
        World { root, told, turn, checks: None, agents }
    }

    /// The transcript lags behind the payload: the last message may not be in it yet.
    fn with_last_message(&self, texts: &mut Vec<String>) {
        if let Some(message) = &self.told.last_message
            && texts.last() != Some(message)
        {
            texts.push(message.clone());
        }
        // A transcript that cannot be read does not tell where the last message begins.
        if texts.is_empty() {
            texts.extend(self.told.said.clone());
        }
    }

    /// The same world, with the agents of a run.
    #[must_use]
    pub fn with_agents(self, agents: &IndexMap<String, Record>) -> World {
        World { agents: agents.clone(), ..self }
    }

    /// The same world, with what came of a workflow's checks.
    #[must_use]
    pub fn with_checks(self, checks: Checks) -> World {
        World { checks: Some(checks), ..self }
    }
}

impl Evidence for World {
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, NoEvidence> {
        if let Place::Topic(folder, topic) = Place::of(path) {
            let topic = topics::Topic::new(&self.root, inside(&self.root, folder)?, topic);
            let latest = topic.latest();
            let latest = latest.map_err(|error| NoEvidence::Unreadable(format!("{path}: {error}")));
            return Ok(latest?.map(|message| message.body.into_bytes()));
        }
        let full = inside(&self.root, path)?;
        match fs::metadata(&full) {
            Ok(meta) if meta.is_dir() => Ok(None),
            Ok(meta) if meta.len() > MAX_BYTES => Err(NoEvidence::Unreadable(format!(
                "{path} has {} MB, which is too large",
                meta.len() >> 20
            ))),
            Ok(meta) if !meta.is_file() => {
                Err(NoEvidence::Unreadable(format!("{path} is no ordinary file")))
            }
            Ok(_) => match fs::read(&full) {
                Ok(bytes) => Ok(Some(bytes)),
                Err(error) => Err(NoEvidence::Unreadable(format!("cannot read {path}: {error}"))),
            },
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                Ok(None)
            }
            Err(error) => Err(NoEvidence::Unreadable(format!("cannot read {path}: {error}"))),
        }
    }

    fn list(&self, pattern: &str) -> Result<Vec<String>, NoEvidence> {
        Walk::new(&self.root).files(pattern)
    }

    fn modified(&self, path: &str) -> Result<Option<Timestamp>, NoEvidence> {
        let full = inside(&self.root, path)?;
        let file = fs::metadata(&full).ok().filter(fs::Metadata::is_file);
        let time = file.and_then(|meta| meta.modified().ok());
        Ok(time.and_then(|time| Timestamp::try_from(time).ok()))
    }

    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn last_message(&self) -> Option<String> {
        match &self.told.last_message {
            Some(message) => Some(message.clone()),
            None => self.turn().pop(),
        }
    }

    fn said(&self, since: Option<Timestamp>) -> Vec<String> {
        let mut said = match self.told.current_transcript() {
            Some(path) => self.told.client.since_spoken_to(path, since),
            None => Vec::new(),
        };
        self.with_last_message(&mut said);
        said
    }

    fn changed_files(&self, folder: &str) -> Result<Vec<String>, NoEvidence> {
        Ok(git::changed_files(&inside(&self.root, folder)?))
    }

    fn new_id(&self) -> String {
        topics::new_id().unwrap_or_default()
    }

    fn tree(&self) -> Option<String> {
        self.checks.as_ref()?.tree()
    }

    fn agents(&self) -> Json {
        if self.agents.is_empty() {
            return Json::Null;
        }
        let rows = self.agents.iter().map(|(id, agent)| agent.row(id));
        Json::from(rows.collect::<Vec<_>>())
    }

    fn log(&self, agent: &str, from: u64, most: u64) -> Option<(Vec<u8>, u64)> {
        self.agents.get(agent)?.log(&self.root, from, most).ok()
    }

    fn check(&self, name: &str) -> Option<(CheckResult, String)> {
        self.checks.as_ref()?.result(name)
    }

    fn turn(&self) -> Vec<String> {
        let turn = self.turn.get_or_init(|| {
            let mut turn = match self.told.current_transcript() {
                Some(path) => self.told.client.current_turn(path),
                None => Vec::new(),
            };
            self.with_last_message(&mut turn);
            turn
        });
        turn.clone()
    }
}
