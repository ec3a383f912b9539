//! What an answer rests on, as it is kept: the scene that the rules were given, and its pieces by digest.
//!
//! It is written with the line that it belongs to and never again. What is too large, or what the configuration
//! does not want kept, is left out: the line can be read without it, and no longer decided again.

use std::sync::Arc;

use phasegate_engine::answer::Answer;
use phasegate_engine::digest::digest;
use phasegate_engine::evidence::Reading;
use phasegate_engine::json::Json;
use phasegate_engine::scene::{SCHEMA, Scene};
use serde::Serialize;

use super::Gate;
use super::asked::{Asked, Question};
use super::overrule::Overruled;
use super::transaction::Open;
use crate::config::Keep;
use crate::journal::{Basis, Ruling};
use crate::store::Piece;

/// How large a piece is that is kept, and how large a document.
const MAX_PIECE: usize = 256 << 10;
const MAX_DOCUMENT: usize = 4 << 20;

/// How much evidence is kept of one run.
const MAX_RUN: u64 = 256 << 20;

/// Why the gate gave another answer than the rules.
#[derive(Serialize)]
struct Knew<'g> {
    because: &'g [Overruled],
}

impl Gate<'_> {
    /// The basis of a line that is about to be written; its pieces are written with it.
    pub(super) fn basis(&self, open: &mut Open, answer: &Answer) -> Basis {
        let Some((ruling, ruled)) = self.ruling(open, Some(answer)) else { return Basis::Gate };
        Basis::Rules(Ruling { answer: (ruled != *answer).then_some(ruled), ..ruling })
    }

    /// What the rules were given, which is kept with the next line, and what they answered. The gate may give
    /// another answer, where that is known already.
    pub(super) fn ruling(
        &self,
        open: &mut Open,
        given: Option<&Answer>,
    ) -> Option<(Ruling, Answer)> {
        let (ruling, ruled) = match open.asked.take()? {
            Asked::Kept(ruling, ruled) => (ruling, ruled),
            Asked::Now(question) => {
                let (step, ruled) = (question.step.clone(), question.answer.clone());
                let overruled = given.filter(|given| **given != ruled);
                let is_kept = self.project.config.evidence.keep == Keep::Content;
                let scene = is_kept.then(|| {
                    let because = overruled.map_or(&[][..], |answer| open.overruled.of(answer));
                    let gate = known(because);
                    self.keep(open, *question, gate)
                });
                (Ruling { scene: scene.flatten().unwrap_or_default(), step, answer: None }, ruled)
            }
        };
        open.asked = Some(Asked::Kept(ruling.clone(), ruled.clone()));
        Some((ruling, ruled))
    }

    /// Keeps a scene and its pieces; its digest, none where it is too large.
    fn keep(&self, open: &mut Open, asked: Question, gate: Option<Json>) -> Option<String> {
        let redact = &self.project.config.evidence;
        let (mut redacted, mut pieces) = (false, Vec::new());
        let mut keep = |known: Option<&str>, bytes: Arc<[u8]>, most: usize| {
            let name = || known.map_or_else(|| digest(&bytes), str::to_string);
            match redact.redacted(&bytes) {
                _ if bytes.len() > most => name(),
                None => {
                    let digest = name();
                    pieces.push(Piece { digest: digest.clone(), bytes });
                    digest
                }
                Some(rest) => {
                    redacted = true;
                    let digest = digest(&rest);
                    pieces.push(Piece { digest: digest.clone(), bytes: rest.into() });
                    digest
                }
            }
        };
        let document = match asked.text {
            Some(text) => keep(None, text.into(), MAX_DOCUMENT),
            None => keep(Some(&open.before), open.read.text.as_slice().into(), MAX_DOCUMENT),
        };
        for (digest, bytes) in asked.seen.contents() {
            keep(Some(digest), bytes.clone(), MAX_PIECE);
        }
        let mut scene = Scene {
            schema: SCHEMA,
            definition: open.run.ledger.definition.copy.clone(),
            document,
            event: asked.event,
            run: asked.run,
            seen: asked.seen,
            gate,
            redacted,
        };
        let mut text = serde_json::to_vec(&scene).ok()?;
        if let Some(rest) = redact.redacted(&text) {
            // What is taken out may reach beyond a text: then nothing of it is kept.
            scene = serde_json::from_slice(&rest).ok()?;
            scene.redacted = true;
            text = serde_json::to_vec(&scene).ok()?;
        }
        if text.len() > MAX_PIECE {
            return None;
        }
        let name = digest(&text);
        pieces.push(Piece { digest: name.clone(), bytes: text.into() });
        let run = open.run.found;
        pieces.retain(|piece| {
            self.store.piece_size(&run.id, &piece.digest) != Some(piece.bytes.len() as u64)
        });
        let kept = &mut open.run.ledger.position.evidence;
        *kept += pieces.iter().map(|piece| piece.bytes.len() as u64).sum::<u64>();
        if *kept > MAX_RUN {
            return None;
        }
        open.run.pieces.extend(pieces);
        Some(name)
    }

    /// The readings as the journal has them.
    pub(super) fn told(&self, readings: Vec<Reading>) -> Vec<Reading> {
        if self.project.config.evidence.keep != Keep::None {
            return readings;
        }
        let without = |reading| Reading { digest: String::new(), ..reading };
        readings.into_iter().map(without).collect()
    }
}

/// Why the gate has answered, as it is kept; none where nothing explains it.
fn known(because: &[Overruled]) -> Option<Json> {
    if because.is_empty() {
        return None;
    }
    Json::parse(&serde_json::to_vec(&Knew { because }).ok()?).ok()
}
