//! What the rules were asked in a transaction, and what they answered before the gate had its say.

use phasegate_engine::answer::Answer;
use phasegate_engine::decide::RunFacts;
use phasegate_engine::evidence::Account;
use phasegate_engine::json::Json;
use phasegate_engine::scene::{fingerprint, heard};
use phasegate_engine::step::{Event, Step};

use crate::journal::Ruling;

/// What the rules were asked and answered, before the gate has had its say.
pub(super) enum Asked {
    /// In this transaction.
    Now(Box<Question>),
    /// It is kept already, with what they answered.
    Kept(Ruling, Answer),
}

/// What the rules were asked in this transaction.
pub(super) struct Question {
    pub(super) event: Event,
    pub(super) run: RunFacts,
    pub(super) seen: Account,
    pub(super) answer: Answer,
    /// The fingerprint of their step.
    pub(super) step: String,
    /// The text of the document, where it was not read.
    pub(super) text: Option<Vec<u8>>,
}

impl Asked {
    /// What the rules were asked, and the step that they want.
    pub(super) fn new(event: &Event, run: RunFacts, step: &mut Step) -> Asked {
        Asked::Now(Box::new(Question {
            event: event.clone(),
            run,
            seen: std::mem::take(&mut step.account),
            answer: heard(event, step),
            step: fingerprint(step),
            text: None,
        }))
    }

    /// The same about a document that is not there yet.
    pub(super) fn beginning(
        event: &Event,
        run: RunFacts,
        step: &mut Step,
        document: &Json,
    ) -> Asked {
        let mut asked = Asked::new(event, run, step);
        if let Asked::Now(question) = &mut asked {
            question.text = Some(document.to_text(None).into_bytes());
        }
        asked
    }
}
