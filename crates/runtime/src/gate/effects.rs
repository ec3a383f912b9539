//! What a step wants done in the world.

use phasegate_engine::step::Effect;

use super::{Gate, GateError};
use crate::outside;
use crate::paths::meant;
use crate::tree::Kept;

/// The largest file that is copied.
const MAX_COPY: u64 = 1 << 30;

impl Gate<'_> {
    /// Does what a step wants done before it counts; whether the document is to be removed.
    pub(super) fn carry_out(&self, effects: &[Effect]) -> Result<bool, GateError> {
        let places = effects.iter().flat_map(|effect| match effect {
            Effect::Write { place, .. }
            | Effect::Append { place, .. }
            | Effect::Patch { place, .. }
            | Effect::Copy { place, .. } => vec![place],
            Effect::Move { from, to } => vec![from, to],
            Effect::Run { .. } | Effect::Start(_) | Effect::End(_) | Effect::Remove => Vec::new(),
        });
        for place in places {
            if place.split('/').any(|part| part == ".git") {
                let message = format!("{place} belongs to git; rules cannot write there");
                return Err(GateError::Effect(message));
            }
        }
        // Nothing is moved where one of them could not be. What is no longer where it was, but is
        // where it should go, was moved by a process that died before its step counted.
        for effect in effects {
            if let Effect::Move { from, to } = effect
                && self.workspace.has(to)?
                && self.workspace.has(from)?
            {
                return Err(GateError::Effect(format!("{to} exists and is not overwritten")));
            }
        }
        let mut removed = false;
        for effect in effects {
            match effect {
                // Where a rule has nowhere to write, it does not.
                Effect::Write { place, .. } if place.trim().is_empty() => {}
                Effect::Write { place, text } => {
                    self.workspace.write(place, format!("{text}\n").as_bytes())?;
                }
                Effect::Patch { place, from, to } => {
                    let kept = Kept::open(&self.project.root);
                    let patch = kept.and_then(|kept| kept.patch(from, to));
                    self.workspace.write(place, &patch.map_err(GateError::Effect)?)?;
                }
                Effect::Copy { place, paths } => self.copy(place, paths)?,
                Effect::Move { from, to } => self
                    .workspace
                    .rename(from, to)
                    .map_err(|error| GateError::Effect(error.to_string()))?,
                Effect::Remove => removed = true,
                // Before the step, as a job; or once it counts.
                Effect::Run { .. } | Effect::Append { .. } | Effect::Start(_) | Effect::End(_) => {}
            }
        }
        Ok(removed)
    }

    /// Copies the files of the tree that are there, each to its path below a place.
    fn copy(&self, place: &str, paths: &[String]) -> Result<(), GateError> {
        for path in paths {
            let from = meant(&self.project.root, &self.project.site, path);
            let from = from.map_err(|why| GateError::Effect(why.to_string()))?;
            // What a link leads to is another file.
            if from.symlink_metadata().is_ok_and(|meta| meta.is_file()) {
                let bytes = outside::read(&from, MAX_COPY);
                let bytes = bytes.map_err(|error| GateError::Effect(format!("{path}: {error}")))?;
                self.workspace.write(&format!("{place}/{path}"), &bytes)?;
            }
        }
        Ok(())
    }

    /// Adds the lines of a step to the workflow's own record. The journal has all of it already, so one
    /// that cannot be written is only said.
    pub(super) fn transcribe(&self, effects: &[Effect], notes: &mut Vec<String>) {
        for effect in effects {
            if let Effect::Append { place, line } = effect
                && let Err(error) = self.workspace.append(place, line)
            {
                notes.push(error.to_string());
            }
        }
    }
}
