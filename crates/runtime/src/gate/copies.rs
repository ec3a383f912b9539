//! Copies of a run's document in a linked worktree. The document stays in the tree where the run began; what somebody
//! edits elsewhere is said, so that it is not lost without a word, and is never read.

use phasegate_engine::digest::digest;

use super::Gate;
use super::transaction::Open;
use crate::git;
use crate::outside;
use crate::paths;
use crate::words;
use crate::workspace::place::Place;

impl Gate<'_> {
    /// Notes that a copy of the document lies in the worktree where the session works, once for each content. One that
    /// git has checked out there, or that says the same, is not an edit.
    pub(super) fn note_copy(&self, open: &mut Open) {
        let (root, site) = (&self.project.root, &self.project.site);
        let found = open.run.found;
        if site == root || matches!(Place::of(&found.place), Place::Topic(..) | Place::Store(_)) {
            return;
        }
        let Ok(path) = paths::inside(site, &found.place) else { return };
        let Ok(bytes) = outside::read(&path, self.project.config.sizes.document()) else { return };
        let content = digest(&bytes);
        let told = &mut open.run.ledger.session.copy;
        if told.as_ref() == Some(&content) {
            return;
        }
        let is_edit = content != open.before && !git::is_as_committed(site, &found.place);
        *told = Some(content);
        if is_edit {
            let own = root.join(&found.place);
            let note = words::copied(&found.id.to_string(), &path, &own);
            open.run.notes.push(note);
        }
    }
}
