//! A situation out of what a line of a journal was decided on, to go on from there otherwise than it went.

use std::sync::Arc;

use jiff::Timestamp;

use super::{Model, Move, RUN, Situation, World};
use crate::changes::Changes;
use crate::decide::RunFacts;
use crate::json::Json;
use crate::scene::Scene;

/// What is taken over from a line as it was, as long as nothing of it is changed.
#[derive(Clone, Debug)]
pub struct Recorded {
    pub(super) run: RunFacts,
    pub(super) now: Option<Timestamp>,
    pub(super) tree: Option<String>,
    pub(super) applied: Option<String>,
    pub(super) changes: Option<Changes>,
}

impl Model<'_> {
    /// The situation before the event of a scene, and that event. The run is called as in a case: where its folder is named, that is
    /// the folder of the case.
    pub fn recorded(&self, scene: &Scene, document: &Json) -> (Situation, Move) {
        let seen = &scene.seen;
        let renamed = |text: &str| match self.workflow.document.split_once('*') {
            Some((before, _)) => {
                let (own, case) = (format!("{before}{}", scene.run.name), format!("{before}{RUN}"));
                text.replace(&own, &case)
            }
            None => text.to_string(),
        };
        let document = Json::parse(renamed(&document.to_text(None)).as_bytes())
            .unwrap_or_else(|_| document.clone());
        let mut world = World::default();
        for path in seen.listed() {
            world.files.entry(renamed(&path)).or_default();
        }
        for (path, digest) in seen.files() {
            let content =
                seen.content_of(digest).map(|it| String::from_utf8_lossy(it).into_owned());
            let content = content.unwrap_or_default();
            world.files.insert(renamed(path), content);
        }
        world.files.remove(&self.place());
        world.message = seen.message();
        world.checks = seen.results();
        world.agents = match seen.agents() {
            Some(Json::List(list)) => list.0.clone(),
            _ => Vec::new(),
        };
        world.reviews = scene.run.reviews;
        let last = scene.run.last_review.clone();
        world.last_review = last.map(|(file, verdict)| (renamed(&file), verdict));
        world.recorded = Some(Arc::new(Recorded {
            run: scene.run.clone(),
            now: seen.now(),
            tree: seen.tree(),
            applied: seen.applied(),
            changes: seen.changes(),
        }));
        let passed = scene.run.passed.clone();
        let situation = Situation { document, world, passed, over: false };
        (situation, Move::Event(scene.event.clone()))
    }
}
