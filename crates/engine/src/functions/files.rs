//! What expressions ask about the files of the project as a whole: how they were, and what has changed.

use std::sync::Arc;

use minijinja::{Environment, Error, Value};

use super::refused;
use crate::changes::Changes;
use crate::evidence::{NoEvidence, Recorder};
use crate::glob;

/// Adds what expressions ask about the files of the project as a whole.
pub(super) fn look_ups(env: &mut Environment, evidence: &Arc<Recorder>) {
    let world = evidence.clone();
    env.add_function("snapshot", move |beside: Option<Vec<String>>| {
        let kept = world.snapshot(&beside.unwrap_or_default());
        kept.map_or(Value::from(()), Value::from)
    });
    let world = evidence.clone();
    env.add_function("changes", move |base: Option<String>, beside: Option<Vec<String>>| {
        let told = match &base {
            Some(base) => {
                let told = world.changes(base, &beside.unwrap_or_default());
                told.map_err(|why| why.to_string())
            }
            None => Err("the files as they were are not kept".to_string()),
        };
        Changes::to_json(base.as_deref(), told.as_ref().map_err(Clone::clone)).to_value()
    });
    let world = evidence.clone();
    env.add_function("applied", move |path: &str, base: Option<String>| {
        let patch = match world.read(path) {
            Ok(Some(patch)) => patch,
            Ok(None) | Err(NoEvidence::Unreadable(_) | NoEvidence::Outside(_)) => {
                return Ok(Value::from(()));
            }
            Err(NoEvidence::Refused(why)) => return Err(refused(why)),
        };
        let tree = base.and_then(|base| world.applied(&base, path, &patch));
        Ok(tree.map_or(Value::from(()), Value::from))
    });
    env.add_test("like", |path: &Value, patterns: &Value| {
        let path = path.as_str().unwrap_or_default();
        let mut patterns = patterns.try_iter()?;
        let fits = |pattern: Value| pattern.as_str().is_some_and(|it| glob::matches(it, path));
        Ok::<bool, Error>(patterns.any(fits))
    });
}
