//! Decides the lines of a journal again, from what was kept of them: with the definition that they were decided
//! with, or with another.
//!
//! The rules are asked again, and their answer is compared with what they answered then. What the gate made of that answer,
//! because of a limit or of another hook, is decided again on the facts that were kept for it; without them it is a part of
//! the record, and no more.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use phasegate_engine::answer::{Answer, FAULT, Outcome};
use phasegate_engine::digest::digest;
use phasegate_engine::job::Job;
use phasegate_engine::json::Json;
use phasegate_engine::scene::{Again, SCHEMA, Scene, fingerprint};
use phasegate_engine::step::{Actor, Step};
use phasegate_engine::workflow::Workflow;

use super::document::{parse, restyle};
use super::overrule::{At, Overruled};
use super::pin::{known_by, resolve_copy};
use super::{Found, GateError, Runs};
use crate::approval::{Checked, List, Signatures};
use crate::journal::{Basis, Line, MAX_TEXT, Ruling};
use crate::store::Key;

/// What differs where the rules answer the same, and the gate does not.
const OF_GATE: &str = "what the gate makes of it";

/// A line of a journal, decided again.
#[derive(Clone, Debug)]
pub struct Decided {
    pub seq: u64,
    pub at: Timestamp,
    /// The event's name.
    pub event: String,
    /// What the gate answered.
    pub gave: Answer,
    /// What the rules answered, where the gate gave another answer.
    pub ruled: Option<Answer>,
    /// The rules were asked again, and what the gate made of their answer is only on record.
    pub is_recorded: bool,
    pub again: Comparison,
    /// Its signature, where it has one or should have one.
    pub signature: Option<Checked>,
}

/// How a decision compares with the one on record.
#[derive(Clone, Debug, PartialEq)]
pub enum Comparison {
    /// No rule was asked: a note of the gate's own.
    Unasked,
    Same,
    /// What the rules answer now, and what differs.
    Different {
        now: Answer,
        what: Vec<&'static str>,
    },
    /// It cannot be told, and why.
    Unknown(String),
}

impl Decided {
    /// What was answered then: by the rules, or by the gate where only that differs.
    pub fn was(&self) -> &Answer {
        let by_gate =
            matches!(&self.again, Comparison::Different { what, .. } if what == &[OF_GATE]);
        self.ruled.as_ref().filter(|_| !by_gate).unwrap_or(&self.gave)
    }

    /// Whether something is let go or accepted now that was held or refused.
    pub fn opens(&self) -> bool {
        let Comparison::Different { now, .. } = &self.again else { return false };
        matches!(self.was(), Answer::Block { .. } | Answer::Deny { .. })
            && matches!(now, Answer::Allow { .. })
    }
}

/// Finds a piece of evidence by its digest.
pub type Pieces<'p> = dyn Fn(&str) -> Option<Vec<u8>> + 'p;

/// Decides the lines of one run again.
pub struct Replay<'p> {
    workflow: String,
    pieces: Box<Pieces<'p>>,
    /// The definition that takes the place of each line's own.
    another: Option<Arc<Workflow>>,
    definitions: HashMap<String, Result<Arc<Workflow>, String>>,
    /// The definition that the run keeps to now, by its digest.
    copy: Option<(String, Vec<u8>)>,
    /// The last document: mostly the next line is about the same.
    document: Option<(String, Document)>,
    signatures: Signatures,
}

/// A document's text, and what it says.
type Document = (Arc<[u8]>, Json);

impl<'p> Replay<'p> {
    /// The lines of a run of a workflow, whose definition is kept as this copy.
    pub fn new(workflow: &str, copy: Option<Vec<u8>>, pieces: Box<Pieces<'p>>) -> Replay<'p> {
        Replay {
            workflow: workflow.to_string(),
            pieces,
            another: None,
            definitions: HashMap::new(),
            copy: copy.map(|bytes| (digest(&bytes), bytes)),
            document: None,
            signatures: Signatures::default(),
        }
    }

    /// The same, with what signatures are checked with: whose run it is, and the list of signers as it is now.
    #[must_use]
    pub fn signed(mut self, run: String, list: Option<Vec<u8>>) -> Replay<'p> {
        self.signatures = Signatures::new(run, list);
        self
    }

    /// The same with another definition.
    #[must_use]
    pub fn with(self, another: Option<Arc<Workflow>>) -> Replay<'p> {
        Replay { another, ..self }
    }

    /// Decides a line again.
    ///
    /// # Errors
    /// Where the line cannot be read.
    pub fn line(&mut self, text: &str) -> Result<Decided, serde_json::Error> {
        let line: Line = serde_json::from_str(text)?;
        let ruled = match &line.basis {
            Some(Basis::Rules(ruling)) => ruling.answer.clone(),
            _ => None,
        };
        let mut is_recorded = false;
        let again = match &line.basis {
            None => Comparison::Unknown("an older version wrote it, without its evidence".into()),
            Some(Basis::Gate) => Comparison::Unasked,
            Some(Basis::Rules(ruling)) => {
                let compared = self.compare(&line, ruling, &mut is_recorded);
                compared.unwrap_or_else(Comparison::Unknown)
            }
        };
        let signature = self.signature(&line);
        let Line { seq, at, event, answer: gave, .. } = line;
        Ok(Decided { seq, at, event: event.name, gave, ruled, is_recorded, again, signature })
    }

    /// Checks only the signature of a line.
    ///
    /// # Errors
    /// Where the line cannot be read.
    pub fn signature_of(&mut self, text: &str) -> Result<Option<Checked>, serde_json::Error> {
        Ok(self.signature(&serde_json::from_str(text)?))
    }

    /// The scene of a line, and the document that it is about.
    ///
    /// # Errors
    /// Why it is not known.
    pub fn scene(&mut self, ruling: &Ruling) -> Result<(Scene, Arc<[u8]>, Json), String> {
        if ruling.scene.is_empty() {
            return Err("its evidence was not kept".into());
        }
        let lost = || format!("piece {} is gone or was changed", &ruling.scene[..12]);
        let bytes = (self.pieces)(&ruling.scene).ok_or_else(lost)?;
        let mut scene: Scene = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
        if scene.schema > SCHEMA {
            return Err("a later version of Phasegate kept it; use that version".into());
        }
        if scene.redacted {
            return Err("a part of its evidence was redacted".into());
        }
        scene.seen = scene.seen.with_contents(&self.pieces);
        let (text, document) = self.document(&scene.document)?;
        Ok((scene, text, document))
    }

    /// Checks the signature of a line, or that it needs none.
    fn signature(&mut self, line: &Line) -> Option<Checked> {
        if line.event.signed.is_none() && line.event.actor != Actor::Human {
            self.signatures.pass(line);
            return None;
        }
        let scene = match &line.basis {
            Some(Basis::Rules(ruling)) => (self.pieces)(&ruling.scene),
            _ => None,
        };
        // Which definition it was is known, whatever else was redacted.
        let scene = scene.and_then(|scene| serde_json::from_slice::<Scene>(&scene).ok());
        let definition = scene.map(|scene| scene.definition);
        let action = |workflow: &Arc<Workflow>| workflow.action(&line.event.name).cloned();
        let workflow = definition.as_deref().and_then(|name| self.definition(name).ok());
        let action = workflow.as_ref().and_then(action);
        let must_be = action.is_some_and(|action| action.signed)
            && matches!(line.answer, Answer::Allow { .. });
        let known_by = definition.and_then(|name| known_by(&self.copied(&name)?));
        let list = line.event.signed.as_ref().and_then(|it| (self.pieces)(&it.signers));
        self.signatures.check(line, must_be, known_by.as_deref(), list.as_deref())
    }

    fn compare(
        &mut self,
        line: &Line,
        ruling: &Ruling,
        is_recorded: &mut bool,
    ) -> Result<Comparison, String> {
        let (scene, text, document) = self.scene(ruling)?;
        let workflow = match &self.another {
            Some(another) => another.clone(),
            None => self.definition(&scene.definition)?,
        };
        let mut step = match scene.decide(&workflow, document, |name| std::env::var(name).ok()) {
            Again::Known(step) => step,
            Again::Unknown(missing) => {
                return Err(format!("it was not looked up then: {}", missing.join(", ")));
            }
        };
        let was = ruling.answer.as_ref().unwrap_or(&line.answer);
        let now = step.answer.clone().shortened(MAX_TEXT);
        let mut what = differences(was, &now);
        if fingerprint(&step) != ruling.step {
            what.push("what is done");
        }
        let is_done = ruling.answer.is_none() && !is_deferred(line, &scene, &step);
        if is_done && after(line, &step, &text) != line.after {
            what.push("the document");
        }
        if ruling.answer.is_some() {
            let reasons = reasons(&scene);
            *is_recorded = reasons.is_empty();
            let run = format!("{}/{}", self.workflow, scene.run.name);
            let at =
                At { run: &run, workflow: &workflow, event: &scene.event, before: &line.before };
            // A reason that no longer holds changes nothing, and that shows in the answer.
            for reason in &reasons {
                reason.apply(&at, &mut step);
            }
            let given = step.answer.shortened(MAX_TEXT);
            if what.is_empty()
                && !reasons.is_empty()
                && !differences(&line.answer, &given).is_empty()
            {
                what.push(OF_GATE);
                return Ok(Comparison::Different { now: given, what });
            }
        }
        Ok(if what.is_empty() { Comparison::Same } else { Comparison::Different { now, what } })
    }

    fn document(&mut self, name: &str) -> Result<Document, String> {
        if let Some((known, document)) = &self.document
            && known == name
        {
            return Ok(document.clone());
        }
        let bytes = (self.pieces)(name).ok_or("the document was not kept")?;
        let document = parse("the document", &bytes).map_err(|error| error.to_string())?;
        let document = (Arc::from(bytes), document);
        self.document = Some((name.to_string(), document.clone()));
        Ok(document)
    }

    /// The definition that a line was decided with.
    fn definition(&mut self, name: &str) -> Result<Arc<Workflow>, String> {
        if let Some(known) = self.definitions.get(name) {
            return known.clone();
        }
        let resolved = match self.copied(name) {
            None => Err("the definition that it was decided with is gone".to_string()),
            Some(bytes) => resolve_copy(&self.workflow, &bytes)
                .map(Arc::new)
                .map_err(|error| error.to_string()),
        };
        self.definitions.insert(name.to_string(), resolved.clone());
        resolved
    }

    /// The copy of a definition.
    fn copied(&self, name: &str) -> Option<Vec<u8>> {
        let own = self.copy.as_ref().filter(|(digest, _)| name.is_empty() || digest == name);
        own.map(|(_, bytes)| bytes.clone()).or_else(|| (self.pieces)(name))
    }
}

/// A line of a journal, and all that it was decided on.
#[derive(Debug)]
pub struct Recorded {
    pub line: u64,
    /// What the gate answered.
    pub answer: Answer,
    pub scene: Scene,
    pub document: Json,
    pub workflow: Arc<Workflow>,
}

impl Runs<'_> {
    /// What a line of a run's journal was decided on.
    ///
    /// # Errors
    /// Where there is no such line, or where not all of that is known.
    pub fn scene_of(&self, found: &Found, seq: u64) -> Result<Recorded, GateError> {
        let mut replay = self.replaying(found)?;
        let unknown = |why: String| GateError::Other(format!("line {seq} of {}: {why}", found.id));
        for text in self.store.forwards(&found.id) {
            let line: Line = serde_json::from_str(&text?)
                .map_err(|error| GateError::Unreadable(error.to_string()))?;
            if line.seq != seq {
                continue;
            }
            let ruling = match line.basis {
                Some(Basis::Rules(ruling)) => ruling,
                Some(Basis::Gate) => return Err(unknown("no rule was asked".into())),
                None => {
                    return Err(unknown("an older version wrote it, without its evidence".into()));
                }
            };
            let (scene, _, document) = replay.scene(&ruling).map_err(unknown)?;
            let workflow = replay.definition(&scene.definition).map_err(unknown)?;
            return Ok(Recorded { line: seq, answer: line.answer, scene, document, workflow });
        }
        Err(unknown("the journal has no such line; `phasegate log` lists them".into()))
    }

    /// Decides the lines of a run again, with their own definition or with another.
    pub fn replay(
        &self,
        found: &Found,
        another: Option<Arc<Workflow>>,
    ) -> Result<Vec<Decided>, GateError> {
        let mut replay = self.replaying(found)?.with(another);
        let lines = self.store.forwards(&found.id);
        let pruned = found.ledger.position.pruned;
        lines
            .map(|text| {
                let broken = |error: serde_json::Error| GateError::Unreadable(error.to_string());
                let mut line = replay.line(&text?).map_err(broken)?;
                if let (Comparison::Unknown(why), Some(pruned)) = (&mut line.again, pruned)
                    && pruned.covers(line.seq)
                {
                    *why = format!("its evidence was pruned on {}", day(pruned.at));
                }
                Ok(line)
            })
            .collect()
    }

    /// The signatures of a run, checked.
    pub fn signatures(&self, found: &Found) -> Result<Vec<Checked>, GateError> {
        let mut replay = self.replaying(found)?;
        let mut checked = Vec::new();
        for text in self.store.forwards(&found.id) {
            let line = replay.signature_of(&text?);
            checked.extend(line.map_err(|error| GateError::Unreadable(error.to_string()))?);
        }
        Ok(checked)
    }

    /// The copy of the definition that a run keeps to, as it is kept.
    pub fn copy_of(&self, found: &Found) -> Result<Option<Vec<u8>>, GateError> {
        Ok(self.store.get(&Key::Definition(found.id.clone()))?.map(|stored| stored.bytes))
    }

    /// A piece of a run's evidence.
    pub fn piece(&self, found: &Found, digest: &str) -> Option<Vec<u8>> {
        self.store.piece(&found.id, digest)
    }

    /// What decides the lines of a run again.
    pub fn replaying(&self, found: &Found) -> Result<Replay<'_>, GateError> {
        let (copy, id) = (self.copy_of(found)?, found.id.clone());
        let pieces = Box::new(move |digest: &str| self.store.piece(&id, digest));
        let list = || List::of(self.project).ok().map(|list| list.bytes);
        let list = self.list.get_or_init(list).clone();
        Ok(Replay::new(&found.id.workflow, copy, pieces).signed(found.id.to_string(), list))
    }
}

/// `2026-11-18`
fn day(time: Timestamp) -> String {
    time.to_zoned(TimeZone::system()).date().to_string()
}

/// Why the gate has answered otherwise than the rules, as it was kept; nothing where that was not, or not by this version.
fn reasons(scene: &Scene) -> Vec<Overruled> {
    let because = scene.gate.as_ref().and_then(|gate| gate.get("because"));
    let text = because.map(|because| because.to_text(None)).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// Whether the step waits for commands: then its line says only that they have begun.
fn is_deferred(line: &Line, scene: &Scene, step: &Step) -> bool {
    line.event != scene.event && Job::of_commands(&step.effects).is_some()
}

/// The digest of the document after a step.
fn after(line: &Line, step: &Step, text: &[u8]) -> String {
    // A run that begins writes its first document in any case.
    if line.before.is_empty() || line.before == digest(b"") {
        return digest(step.document.to_text(Some("  ")).as_bytes());
    }
    if step.changed { digest(&restyle(&step.document, text)) } else { line.before.clone() }
}

/// What differs between two answers.
fn differences(was: &Answer, now: &Answer) -> Vec<&'static str> {
    let kind = |answer: &Answer| match answer {
        Answer::Deny { code, .. } => format!("{answer} {}", code.as_deref().unwrap_or_default()),
        answer => answer.to_string(),
    };
    // The text of a fault names the place of the definition's file.
    let is_fault = |answer: &Answer| match answer {
        Answer::Deny { code, .. } => code.as_deref() == Some(FAULT),
        answer => answer.outcome() == Some(Outcome::Fault),
    };
    if kind(was) != kind(now) {
        return vec!["the answer"];
    }
    if was.text() != now.text() && !is_fault(was) { vec!["the text"] } else { Vec::new() }
}
