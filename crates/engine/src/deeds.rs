//! What a workflow does in the world beyond deciding: what a person consents to.

use crate::job::JobKind;
use crate::workflow::{JobSpec, TextId, Workflow};

/// Something that a workflow does in the world.
#[derive(Clone, Copy, Debug)]
pub enum Deed<'w> {
    /// Starts a process.
    Job(&'w JobSpec),
    /// Writes a file.
    Write(TextId),
    /// Moves a file or folder, and where to.
    Move(TextId, TextId),
    /// Adds lines to a file.
    Append(TextId),
}

impl Workflow {
    /// All that the workflow does in the world. To remove its own document is not one of them: that
    /// harms nobody. Nor is a command that no rule runs.
    pub fn deeds(&self) -> impl Iterator<Item = Deed<'_>> {
        let is_used = |at: usize| self.rules().any(|(_, rule)| rule.run.contains(&at));
        let jobs = self.jobs.iter().enumerate();
        let jobs = jobs.filter(move |(at, job)| job.kind != JobKind::Command || is_used(*at));
        let jobs = jobs.map(|(_, job)| Deed::Job(job));
        let files = self.rules().flat_map(|(_, rule)| {
            let writes = rule.write.iter().map(|(place, _)| Deed::Write(*place));
            writes.chain(rule.moved.iter().map(|(from, to)| Deed::Move(*from, *to)))
        });
        let appends = self.transcript.iter().map(|(place, _)| Deed::Append(*place));
        jobs.chain(files).chain(appends)
    }

    /// Whether it does anything in the world, so that a person must consent to it.
    pub fn acts(&self) -> bool {
        self.deeds().next().is_some()
    }
}
