//! What a workflow does in the world beyond deciding: what a person consents to.

use std::collections::HashSet;

use crate::check::Check;
use crate::workflow::{AgentKind, Command, Reviewer, TextId, Worker, Workflow};

/// Something that a workflow does in the world.
#[derive(Clone, Copy, Debug)]
pub enum Deed<'w> {
    Check(&'w Check),
    /// Runs a command, of that name.
    Command(&'w str, &'w Command),
    Review(&'w Reviewer),
    Work(&'w Worker),
    Start(&'w AgentKind),
    /// Writes a file.
    Write(TextId),
    /// Moves a file or folder, and where to.
    Move(TextId, TextId),
    /// Adds lines to a file.
    Append(TextId),
}

impl Workflow {
    /// All that the workflow does in the world. To remove its own document is not one of them: that
    /// harms nobody.
    pub fn deeds(&self) -> impl Iterator<Item = Deed<'_>> {
        let jobs = self.checks.iter().map(Deed::Check);
        let jobs = jobs.chain(self.reviewers.iter().map(Deed::Review));
        let jobs = jobs.chain(self.workers.iter().map(Deed::Work));
        let jobs = jobs.chain(self.agents.iter().map(Deed::Start));
        let mut seen = HashSet::new();
        let commands = self.rules().flat_map(|(_, rule)| rule.run.iter().copied());
        let commands = commands.filter(move |command| seen.insert(*command));
        let commands = commands.map(|command| {
            let (name, command) = &self.commands[command];
            Deed::Command(name, command)
        });
        let files = self.rules().flat_map(|(_, rule)| {
            let writes = rule.write.iter().map(|(place, _)| Deed::Write(*place));
            writes.chain(rule.moved.iter().map(|(from, to)| Deed::Move(*from, *to)))
        });
        let appends = self.transcript.iter().map(|(place, _)| Deed::Append(*place));
        jobs.chain(commands).chain(files).chain(appends)
    }

    /// Whether it does anything in the world, so that a person must consent to it.
    pub fn acts(&self) -> bool {
        self.deeds().next().is_some()
    }
}
