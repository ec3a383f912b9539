//! Jobs that are done on another machine: what such a machine is told, and what it brings back.

use jiff::Timestamp;
use phasegate_engine::job::{Gives, Manner};
use phasegate_engine::step::Actor;
use phasegate_engine::workflow::Workflow;
use serde::{Deserialize, Serialize};

use super::{About, EndStatus, Ended, Record, Seen, Spec};
use crate::outpost::Configured;
use crate::store::postgres::queue::Entry;

/// What the ledger knows of a job that is done on another machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Elsewhere {
    /// What a machine must have to take it.
    pub labels: Vec<String>,
    /// `MACHINE:ROOT` of the tree that its changes are for. What a machine wants that does a job is for the same one.
    pub origin: String,
}

/// What a machine needs to do a job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    /// The definition that consent is asked for.
    pub definition: String,
    pub run: String,
    /// Every machine may act on the run: its document is in the store.
    pub shared: bool,
    pub record: Record,
    /// What the supervisor must know.
    pub spec: Spec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The usual client is meant, as it is installed on the machine that does the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<UsualClient>,
    /// Where the tree is on the machine that wants the job: texts may name files in it.
    pub site: String,
    /// Files that git ignores, and that the job may want to see all the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<String>,
    pub workflow: Configured,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<Sent>,
}

impl Order {
    /// That of a job, before its run is known.
    pub(super) fn new(
        record: Record,
        spec: Spec,
        (prompt, client): (Option<String>, Option<UsualClient>),
        site: String,
    ) -> Order {
        // What the tree is called here says nothing to others.
        let about = spec.about.clone().map(|about| About { before: None, starter: 0, ..about });
        let spec = Spec { about, site: None, held: None, ..spec };
        Order {
            definition: String::new(),
            run: String::new(),
            shared: false,
            record,
            spec,
            prompt,
            client,
            site,
            beside: Vec::new(),
            workflow: Configured::default(),
            sent: None,
        }
    }
}

/// What the usual client may do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct UsualClient {
    pub all: bool,
    /// Commands of declared checks.
    pub commands: Vec<Vec<String>>,
}

/// What a job works on, as it was sent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sent {
    /// Where git gets it.
    pub remote: String,
    pub reference: String,
    pub commit: String,
    /// The commit that was checked out, where the tree was another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// What the files are known by that the result is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<String>,
}

/// What a machine brings back.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    pub ended: Ended,
    pub machine: String,
    /// The digest of what it printed, or of the end of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    /// The digest of the file that it was asked to write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// What it changed: a branch of the remote, and the commit that is its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<Branch>,
}

/// A branch with what a job changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Branch {
    pub name: String,
    pub commit: String,
}

impl Outcome {
    /// That of a job that nobody did.
    pub(crate) fn none(ended: Ended) -> Outcome {
        Outcome { ended, machine: String::new(), log: None, file: None, branch: None }
    }
}

impl Record {
    /// How a job stands that is done elsewhere, by what the queue knows.
    pub(crate) fn look_in(&self, entry: Option<&Entry>, is_here: bool) -> Seen {
        let Some(entry) = entry else {
            return Seen::Lost(None, self.crash("it is not in the queue"));
        };
        let since = entry.started;
        if let Some(result) = &entry.result {
            let outcome: Option<Outcome> = serde_json::from_value(result.clone()).ok();
            let ended = outcome.map(|outcome| outcome.ended);
            return match ended {
                Some(ended) => Seen::Ended(since, ended),
                None => Seen::Lost(since, self.crash("its result cannot be read")),
            };
        }
        let machine = entry.owner.as_deref().unwrap_or("no machine");
        match (entry.held_until, since) {
            (Some(_), Some(since)) => Seen::Working(since),
            _ if entry.is_cancelled => Seen::Lost(since, self.killed()),
            _ if entry.is_used_up => {
                let why = format!(
                    "it was taken {} times, last by {machine}, and never came back",
                    entry.attempts
                );
                Seen::Lost(since, self.crash(&why))
            }
            _ if entry.is_sent => Seen::Queued,
            // Only the machine that wants it can send it.
            _ if is_here && self.starts >= super::MAX_STARTS => {
                let why = format!("it could not be sent, {} times", super::MAX_STARTS);
                Seen::Lost(None, self.crash(&why))
            }
            _ if is_here => Seen::Waiting,
            _ => match self.seen_afar() {
                Seen::Lost(..) => Seen::Lost(None, self.crash("it was never sent")),
                _ => Seen::Queued,
            },
        }
    }

    /// How a job ended that was ended before any machine did it.
    pub(crate) fn killed(&self) -> Ended {
        let words = "was ended before a machine did it".to_string();
        let problem = Some(format!("it {words}"));
        Ended { status: EndStatus::Killed, words, problem, ..self.crash("") }
    }

    /// The command of the usual client at a tree, and what it may do there.
    pub(crate) fn usual(
        &self,
        client: &UsualClient,
        root: &std::path::Path,
        file: Option<String>,
    ) -> std::io::Result<Vec<String>> {
        let UsualClient { all, commands } = client.clone();
        let rights = phasegate_clients::Rights { all, root: root.to_path_buf(), file, commands };
        command(self.manner, self.role, self.model.as_deref(), &rights)
    }

    /// Since when it waits or works, for people.
    pub fn since(&self) -> Timestamp {
        self.started.unwrap_or(self.recorded)
    }
}

/// The command line of the usual client.
pub(super) fn command(
    manner: Manner,
    role: Option<Actor>,
    model: Option<&str>,
    rights: &phasegate_clients::Rights,
) -> std::io::Result<Vec<String>> {
    let client = phasegate_clients::headless();
    match manner.gives {
        Gives::Verdict => client.reviewer(model, rights).map_err(std::io::Error::other),
        Gives::Exit => client.agent(role.unwrap_or(Actor::Worker), model, rights),
    }
}

impl UsualClient {
    /// What an agent of a workflow may do.
    pub(crate) fn of(rights: phasegate_engine::job::Rights, workflow: &Workflow) -> UsualClient {
        let rights = super::rights(std::path::Path::new(""), rights, None, workflow);
        UsualClient { all: rights.all, commands: rights.commands }
    }
}
