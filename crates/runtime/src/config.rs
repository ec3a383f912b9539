//! Configuration: `.phasegate/config.toml` in the project, over `config.toml` in the user's
//! configuration folder.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use memchr::memmem;
use phasegate_engine::job::Rights;
use phasegate_engine::json::Json;
use phasegate_engine::resolve::Overrides;
use regex_lite::Regex;
use serde::Deserialize;

use crate::governor::Limits;
pub use crate::machine::state_folder;
use crate::notify::Notify;
use crate::outpost::Configured;
use crate::outside;
use crate::workspace::place::in_store;

/// What stands for the store where a place could.
const STORE: &str = "store";

/// What can be configured.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// What a run may use up.
    #[serde(default)]
    pub limits: Limits,
    /// Who is told that a run needs somebody, or is done: only in the user's own configuration.
    #[serde(default)]
    pub notify: Notify,
    /// How large a file may be that is read.
    #[serde(default)]
    pub sizes: Sizes,
    /// What is kept of what decisions rest on.
    #[serde(default)]
    pub evidence: Evidence,
    /// What people sign with, and whose signatures count.
    #[serde(default)]
    pub approvals: Approvals,
    /// Whether a session that was let go because of a job is woken when that ends.
    #[serde(default)]
    wake: Option<bool>,
    /// Where runs are kept.
    #[serde(default)]
    pub store: StoreConfig,
    /// The store keeps the documents of workflows that name no place for them.
    #[serde(skip)]
    pub keeps_documents: bool,
    /// By workflow.
    #[serde(default)]
    pub workflow: BTreeMap<String, WorkflowConfig>,
}

/// Where runs are kept.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreConfig {
    /// The URL of a PostgreSQL server; `files` is the project's own folder, as without any.
    pub url: Option<String>,
    /// What the project is called there, where its git remote does not say it.
    pub project: Option<String>,
    /// The git remote by which other machines get what a job works on.
    pub remote: Option<String>,
    /// The project's own configuration has the URL: then that needs consent.
    #[serde(skip)]
    pub is_by_project: bool,
}

/// How large a file may be that is read, in MB.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sizes {
    /// A file that a rule looks at.
    pub evidence: Option<u64>,
    /// A state document.
    pub document: Option<u64>,
}

impl Sizes {
    /// The most bytes that are read of a file which a rule looks at.
    pub fn evidence(self) -> u64 {
        self.evidence.unwrap_or(16).saturating_mul(1 << 20)
    }

    /// The most bytes that are read of a state document.
    pub fn document(self) -> u64 {
        self.document.unwrap_or(128).saturating_mul(1 << 20)
    }
}

/// What people sign with, and whose signatures count.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Approvals {
    /// The SSH key to sign with: only in the user's own configuration.
    pub key: Option<String>,
    /// The list of signers, as `ssh-keygen` knows it.
    pub signers: Option<String>,
}

/// What is kept of what decisions rest on.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    #[serde(default)]
    pub keep: Keep,
    /// Regular expressions: what they match is taken out before anything is kept.
    #[serde(default)]
    redact: Vec<Pattern>,
}

/// How much is kept, from all to nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Keep {
    /// The document and what was looked up, so that every line can be decided again.
    #[default]
    Content,
    /// Only digests, by which one can tell whether it was this or that.
    Digest,
    /// Not even those.
    None,
}

/// A regular expression.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
struct Pattern(Regex);

impl TryFrom<String> for Pattern {
    type Error = String;

    fn try_from(text: String) -> Result<Pattern, String> {
        let compiled = Regex::new(&text);
        let why = |error| format!("{text:?} is not a regular expression: {error}");
        Ok(Pattern(compiled.map_err(why)?))
    }
}

/// What stands where something was taken out.
const REDACTED: &str = "[redacted]";

impl Evidence {
    /// The text without what must not be kept; none where there is nothing of that in it. What is not text is
    /// left as it is: the patterns are about texts.
    pub fn redacted(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        if self.redact.is_empty() {
            return None;
        }
        let mut text = Cow::Borrowed(std::str::from_utf8(bytes).ok()?);
        for Pattern(pattern) in &self.redact {
            if let Cow::Owned(without) = pattern.replace_all(&text, REDACTED) {
                text = Cow::Owned(without);
            }
        }
        match text {
            Cow::Borrowed(_) => None,
            Cow::Owned(text) => Some(text.into_bytes()),
        }
    }

    /// Both together: the less is kept, the better for the one who says so.
    fn and(self, other: Evidence) -> Evidence {
        let redact = self.redact.into_iter().chain(other.redact).collect();
        Evidence { keep: self.keep.max(other.keep), redact }
    }
}

/// What can be configured about a workflow.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkflowConfig {
    /// Whether its runs are looked for at all.
    pub enabled: Option<bool>,
    /// Whether it holds every session that changes files, without being started.
    pub standing: Option<bool>,
    /// The project's own configuration says that.
    #[serde(skip)]
    stands_by_project: bool,
    /// Where its state documents are; `store` is with the rest of their runs.
    pub document: Option<String>,
    /// What a run of it may use up.
    #[serde(default)]
    pub limits: Limits,
    /// What its agents may do that are started with the usual client.
    pub rights: Option<Rights>,
    /// What a machine must have to take its jobs from a store's queue, for those that do not say it themselves.
    pub labels: Option<Vec<String>>,
    /// Values of its constants.
    #[serde(default, rename = "const")]
    pub constants: BTreeMap<String, Json>,
}

impl Config {
    /// The configuration of a project.
    ///
    /// # Errors
    /// A sentence with file, line and column, where a file cannot be read or understood.
    pub fn load(project: &Path) -> Result<Config, String> {
        Config::read(user_folder().into_iter().chain([project.join(".phasegate")]))
    }

    /// Whether the configuration of a project can name a store, told without understanding it: the client asks before
    /// every use of a tool.
    pub fn mentions_store(project: &Path) -> bool {
        user_folder().into_iter().chain([project.join(".phasegate")]).any(|folder| {
            let text = outside::read(&folder.join("config.toml"), outside::MAX_SETTINGS);
            text.is_ok_and(|text| memmem::find(&text, b"store").is_some())
        })
    }

    /// The user's own configuration.
    ///
    /// # Errors
    /// As for a project's.
    pub fn of_user() -> Result<Config, String> {
        Config::read(user_folder())
    }

    fn read(folders: impl IntoIterator<Item = PathBuf>) -> Result<Config, String> {
        let mut config = Config::default();
        let own = user_folder();
        for folder in folders {
            let is_own = own.as_ref() == Some(&folder);
            let file = folder.join("config.toml");
            match outside::read_text(&file, outside::MAX_SETTINGS) {
                Ok(text) => {
                    let mut read: Config = toml::from_str(&text).map_err(|error| {
                        let at = error.span().map_or(0, |span| span.start);
                        let line = text[..at.min(text.len())].matches('\n').count() + 1;
                        format!("{}:{line}: {}", file.display(), error.message())
                    })?;
                    if !is_own && read.notify != Notify::default() {
                        let why = "`notify` belongs in your own configuration";
                        return Err(format!("{}: {why}", file.display()));
                    }
                    if !is_own && read.approvals.key.is_some() {
                        let why = "`approvals.key` belongs in your own configuration";
                        return Err(format!("{}: {why}", file.display()));
                    }
                    read.store.is_by_project = !is_own && read.store.url.is_some();
                    for workflow in read.workflow.values_mut().filter(|_| !is_own) {
                        workflow.stands_by_project = workflow.standing == Some(true);
                    }
                    config.add(read);
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(format!("cannot read {}: {error}", file.display())),
            }
        }
        Ok(config)
    }

    /// Adds a configuration that wins over what is there.
    fn add(&mut self, over: Config) {
        self.limits = over.limits.or(self.limits);
        self.evidence = std::mem::take(&mut self.evidence).and(over.evidence);
        self.sizes.evidence = over.sizes.evidence.or(self.sizes.evidence);
        self.sizes.document = over.sizes.document.or(self.sizes.document);
        self.approvals.key = over.approvals.key.or(self.approvals.key.take());
        self.approvals.signers = over.approvals.signers.or(self.approvals.signers.take());
        self.wake = over.wake.or(self.wake);
        if over.store.url.is_some() {
            self.store.url = over.store.url;
            self.store.is_by_project = over.store.is_by_project;
        }
        self.store.project = over.store.project.or(self.store.project.take());
        self.store.remote = over.store.remote.or(self.store.remote.take());
        if over.notify != Notify::default() {
            self.notify = over.notify;
        }
        for (name, over) in over.workflow {
            let here = self.workflow.entry(name).or_default();
            here.enabled = over.enabled.or(here.enabled);
            here.standing = over.standing.or(here.standing);
            here.stands_by_project |= over.stands_by_project;
            here.document = over.document.or(here.document.take());
            here.rights = over.rights.or(here.rights);
            here.labels = over.labels.or(here.labels.take());
            here.limits = over.limits.or(here.limits);
            here.constants.extend(over.constants);
        }
    }

    /// Whether a session that was let go because of a job is woken when that ends, where its client can.
    pub fn wakes(&self) -> bool {
        self.wake.unwrap_or(false)
    }

    /// Whether runs of the workflow are looked for.
    pub fn enabled(&self, workflow: &str) -> bool {
        self.workflow.get(workflow).and_then(|config| config.enabled).unwrap_or(true)
    }

    /// Whether the workflow holds sessions without being started, where that is configured.
    pub fn stands(&self, workflow: &str) -> Option<bool> {
        self.workflow.get(workflow)?.standing
    }

    /// Whether the project's own configuration makes the workflow stand: then that needs consent, too.
    pub fn stands_by_project(&self, workflow: &str) -> bool {
        self.workflow.get(workflow).is_some_and(|config| config.stands_by_project)
    }

    /// What a machine must have to take jobs of the workflow, where that is configured.
    pub fn labels(&self, workflow: &str) -> Option<Vec<String>> {
        self.workflow.get(workflow)?.labels.clone()
    }

    /// Has a workflow mean what it means on another machine.
    pub(crate) fn follow(&mut self, told: &Configured) {
        let here = self.workflow.entry(told.name.clone()).or_default();
        here.document = Some(told.document.clone());
        here.constants = told.constants.iter().cloned().collect();
        here.rights = told.rights;
    }

    /// What a run of the workflow may use up.
    pub fn limits(&self, workflow: &str) -> Limits {
        let own = self.workflow.get(workflow).map(|config| config.limits).unwrap_or_default();
        own.or(self.limits).or(Limits::usual())
    }

    /// What the configuration changes about a workflow.
    pub fn overrides(&self, workflow: &str) -> Overrides {
        match self.workflow.get(workflow) {
            None => Overrides::default(),
            Some(config) => Overrides {
                document: config.document.as_ref().map(|place| match place.as_str() {
                    STORE => in_store(workflow),
                    place => place.to_string(),
                }),
                constants: config.constants.clone().into_iter().collect(),
                rights: config.rights,
            },
        }
    }
}

/// The user's configuration folder for Phasegate.
pub fn user_folder() -> Option<PathBuf> {
    let base = match std::env::var_os("XDG_CONFIG_HOME") {
        Some(folder) if !folder.is_empty() => PathBuf::from(folder),
        _ => PathBuf::from(std::env::var_os("HOME")?).join(".config"),
    };
    Some(base.join("phasegate"))
}
