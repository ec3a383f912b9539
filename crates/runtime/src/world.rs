//! Evidence from the disk, the clock, the environment and the client's payload.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use indexmap::IndexMap;
use jiff::Timestamp;
use phasegate_clients::Client;
use phasegate_engine::changes::Changes;
use phasegate_engine::check::CheckResult;
use phasegate_engine::evidence::{Evidence, NoEvidence};
use phasegate_engine::json::Json;

use crate::checks::Checks;
use crate::config::Sizes;
use crate::git;
use crate::jobs::{self, Record};
use crate::origin::Origin;
use crate::outside;
use crate::paths::{Walk, inside, meant};
use crate::project::Project;
use crate::tree::Kept;
use crate::workspace::place::Place;
use crate::workspace::topics;

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
    /// Who has called: only a client's word counts.
    pub origin: Origin,
}

impl ClientReport {
    /// The agent's shell that has called in the place of the client.
    pub fn shell(&self) -> Option<&str> {
        match &self.origin {
            Origin::Shell(shell) => Some(shell),
            Origin::Client | Origin::Unknown => None,
        }
    }

    /// Whether the agent used a tool since it was last told to go on, as far as the transcript
    /// says.
    pub fn used_tools(&self) -> Option<bool> {
        self.client.used_tools(self.current_transcript()?)
    }

    /// Whether the agent used a tool since a moment that can change files, as far as the transcript says.
    pub fn wrote_since(&self, since: Timestamp) -> Option<bool> {
        self.client.wrote_since(self.current_transcript()?, since)
    }

    /// Whether the user spoke since a moment, as far as the transcript says.
    pub fn prompted_since(&self, since: Timestamp) -> Option<bool> {
        self.client.prompted_since(self.current_transcript()?, since)
    }

    /// When the user spoke last, as far as the transcript says.
    pub fn prompted_at(&self) -> Option<Timestamp> {
        self.client.prompted_at(self.current_transcript()?)
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
    /// The tree that evidence is from.
    root: PathBuf,
    /// The project: absolute paths in it are what they are there.
    home: PathBuf,
    told: ClientReport,
    turn: OnceLock<Vec<String>>,
    checks: Option<Checks>,
    jobs: IndexMap<String, Record>,
    /// A larger file is not evidence.
    most: u64,
    /// Whether it is only looked at: then nothing is kept, and a check that has not run can be taken for one
    /// that failed.
    looks: Option<Unrun>,
}

/// What a check is taken for that has not run, by one who only looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unrun {
    Missing,
    Failed,
}

impl World {
    /// The world of the project at `root`.
    pub fn new(root: &Path, told: ClientReport) -> World {
        let (root, turn, jobs) = (root.to_path_buf(), OnceLock::new(), IndexMap::new());
        let home = root.clone();
        World {
            root,
            home,
            told,
            turn,
            checks: None,
            jobs,
            most: Sizes::default().evidence(),
            looks: None,
        }
    }

    /// The world of a project, as that is configured.
    pub fn of(project: &Project, told: ClientReport) -> World {
        let world = World::new(&project.site, told);
        World { home: project.root.clone(), most: project.config.sizes.evidence(), ..world }
    }

    /// The same world, with evidence from another folder.
    #[must_use]
    pub fn at(self, site: &Path) -> World {
        World { root: site.to_path_buf(), ..self }
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

    /// The same world, for one who only looks.
    #[must_use]
    pub fn looked_at(self, unrun: Unrun) -> World {
        World { looks: Some(unrun), ..self }
    }

    /// The same world, with the jobs of a run.
    #[must_use]
    pub fn with_jobs(self, jobs: &IndexMap<String, Record>) -> World {
        World { jobs: jobs.clone(), ..self }
    }

    /// The same world, with the results of a workflow's checks.
    #[must_use]
    pub fn with_checks(self, checks: Checks) -> World {
        World { checks: Some(checks), ..self }
    }
}

impl Evidence for World {
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, NoEvidence> {
        if let Place::Topic(folder, topic) = Place::of(path) {
            let topic = topics::Topic::new(&self.home, inside(&self.home, folder)?, topic);
            let latest = topic.latest();
            let latest = latest.map_err(|error| NoEvidence::Unreadable(format!("{path}: {error}")));
            return Ok(latest?.map(|message| message.body.into_bytes()));
        }
        let full = meant(&self.home, &self.root, path)?;
        match outside::read(&full, self.most) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::IsADirectory
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(NoEvidence::Unreadable(format!("cannot read {path}: {error}"))),
        }
    }

    fn list(&self, pattern: &str) -> Result<Vec<String>, NoEvidence> {
        let Ok(relative) = Path::new(pattern).strip_prefix(&self.home) else {
            return Walk::new(&self.root).files(pattern);
        };
        // Who asks with an absolute path is answered with absolute paths.
        let found = Walk::new(&self.home).files(&relative.to_string_lossy())?;
        let home = self.home.display();
        Ok(found.into_iter().map(|path| format!("{home}/{path}")).collect())
    }

    fn modified(&self, path: &str) -> Result<Option<Timestamp>, NoEvidence> {
        let mut full = meant(&self.home, &self.root, path)?;
        if let Place::Topic(folder, topic) = Place::of(path) {
            full = inside(&self.home, folder)?;
            let latest = topics::Topic::new(&self.home, full.clone(), topic).latest();
            if let Some(at) = latest.ok().flatten().and_then(|message| message.at) {
                return Ok(Some(at));
            }
            full.push(topics::MESSAGES);
        }
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
        Ok(git::changed_files(&meant(&self.home, &self.root, folder)?))
    }

    fn new_id(&self) -> String {
        topics::new_id().unwrap_or_default()
    }

    fn tree(&self) -> Option<String> {
        self.checks.as_ref()?.tree()
    }

    fn snapshot(&self, beside: &[String]) -> Option<String> {
        if self.looks.is_some() {
            return self.tree();
        }
        self.checks.as_ref()?.files().keep(beside).ok()?
    }

    fn changes(&self, base: &str, beside: &[String]) -> Result<Changes, NoEvidence> {
        let none = || NoEvidence::Unreadable("the files are not looked at".into());
        let tree = self.checks.as_ref().ok_or_else(none)?.files();
        tree.changes(base, beside).map_err(NoEvidence::Unreadable)
    }

    fn applied(&self, base: &str, patch: &[u8]) -> Option<String> {
        Kept::open(&self.home).ok()?.applied(base, patch).ok()?
    }

    fn agents(&self) -> Json {
        let background = self.jobs.iter().filter(|(_, job)| job.is_background());
        let rows: Vec<Json> = background.map(|(id, job)| job.row(id)).collect();
        if rows.is_empty() { Json::Null } else { Json::from(rows) }
    }

    fn log(&self, agent: &str, from: u64, most: u64) -> Option<(Vec<u8>, u64)> {
        jobs::part(&self.home, self.jobs.get(agent)?, from, most).ok()
    }

    fn message(&self, agent: &str) -> Option<String> {
        jobs::message(&self.home, self.jobs.get(agent)?)
    }

    fn check(&self, name: &str) -> Option<(CheckResult, String)> {
        let result = self.checks.as_ref()?.result(name);
        let failed = || (CheckResult::default(), "not run".to_string());
        result.or_else(|| (self.looks == Some(Unrun::Failed)).then(failed))
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
