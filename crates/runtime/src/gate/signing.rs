//! Acts that a person signs: made under no lock, since a key may want to be touched, and bound to the run as it was.

use std::io;
use std::path::Path;

use jiff::Timestamp;
use phasegate_engine::digest::digest;
use phasegate_engine::signed::Signed;
use phasegate_engine::step::{Actor, Event};

use super::{Found, Gate, GateError};
use crate::approval::{self, List};
use crate::caller;
use crate::config::Keep;
use crate::ledger::Position;
use crate::run::RunId;
use crate::signature;
use crate::store::Piece;

/// The act by which a person has a run keep to the present definition.
pub const ACCEPT_DEFINITION: &str = "accept-definition";

/// Why an act was not signed.
enum Unsigned {
    /// Something is not there that is needed.
    Failed(String),
    /// The signature does not count.
    Refused(String),
}

impl From<io::Error> for Unsigned {
    fn from(error: io::Error) -> Unsigned {
        Unsigned::Failed(error.to_string())
    }
}

impl Gate<'_> {
    /// Has a person sign an act on a run as it is now; the event is then that person's. A key on a security key that
    /// was touched counts for every caller: an agent cannot touch it. Any other key counts only at a terminal.
    ///
    /// # Errors
    /// Where the signature was not made or does not count; the journal tells of that.
    pub fn sign_act(&self, found: &Found, event: &Event, key: &Path) -> Result<Event, GateError> {
        // The ends of its jobs come before what is signed.
        self.settle_now(found)?;
        let found = &self.refreshed(found);
        let stranger = caller::why_not_a_person();
        let (why, is_told) = match self.signed(found, event, key, stranger.as_deref()) {
            Ok(signed) => {
                let (params, signed) = (event.params.clone(), Some(Box::new(signed)));
                return Ok(Event { params, signed, ..Event::new(&event.name, Actor::Human) });
            }
            Err(Unsigned::Failed(why)) => (why, stranger.is_some()),
            Err(Unsigned::Refused(why)) => (why, true),
        };
        let why = format!("`{}` was not signed: {why}", event.name);
        if is_told {
            self.refuse(found, event, "not_signed", &why)?;
        }
        Err(GateError::NotPermitted(why))
    }

    fn signed(
        &self,
        found: &Found,
        event: &Event,
        key: &Path,
        stranger: Option<&str>,
    ) -> Result<Signed, Unsigned> {
        let list = List::of(self.project)?;
        if !list.is_trusted(&self.project.root) {
            return Err(Unsigned::Failed(format!(
                "nobody has consented to the list of signers {} as it is now; `phasegate trust --signers` shows it",
                list.path.display()
            )));
        }
        // A program that the caller chooses would find every signature good.
        if stranger.is_some() && signature::system_program().is_none() {
            return Err(Unsigned::Failed("this system has no ssh-keygen to check it with".into()));
        }
        let Position { seq, head, .. } = &found.ledger.position;
        let mut signed = Signed {
            principal: String::new(),
            key: String::new(),
            kind: String::new(),
            at: Timestamp::now(),
            line: *seq,
            head: head.clone(),
            tree: self.tree(found),
            definition: self.definition_for(found, &event.name),
            signers: digest(&list.bytes),
            signature: String::new(),
        };
        let run = found.id.to_string();
        signed.signature = approval::sign(&approval::statement(&run, event, &signed), key)?;
        let checked = approval::verify(&run, event, &signed, &list.bytes);
        let (signer, blob) = checked.map_err(|error| Unsigned::Refused(error.to_string()))?;
        signed.principal = signer.principal.unwrap_or_default();
        signed.key = signer.key;
        signed.kind.clone_from(&blob.kind);
        if let Some(why) = stranger.filter(|_| !blob.is_of_person()) {
            return Err(Unsigned::Refused(format!(
                "{why}, and an agent can use this key ({signed}) as well as a person can; only the touch of a \
                 security key counts there"
            )));
        }
        if self.project.config.evidence.keep == Keep::Content {
            let piece = Piece { digest: signed.signers.clone(), bytes: list.bytes.into() };
            self.signers.replace(Some(piece));
        }
        Ok(signed)
    }

    /// What the definition is known by that an act is about: the one of the run, or the one that is accepted.
    fn definition_for(&self, found: &Found, act: &str) -> String {
        let digest = &found.ledger.definition.digest;
        if !digest.is_empty() && act != ACCEPT_DEFINITION {
            return digest.clone();
        }
        let present = self.workflow(&found.id.workflow);
        present.map(|workflow| workflow.identity.to_string()).unwrap_or_default()
    }
}

/// What an act is about when it is carried out.
pub(super) struct Now<'n> {
    /// Where the run is; none where the act itself has brought it there.
    pub(super) position: Option<&'n Position>,
    pub(super) definition: Option<&'n str>,
    pub(super) tree: &'n dyn Fn() -> Option<String>,
}

impl Now<'_> {
    /// Refuses an act that was signed for something else. Asked under the lock.
    pub(super) fn must_be_signed(&self, run: &RunId, event: &Event) -> Result<(), GateError> {
        let Some(signed) = &event.signed else { return Ok(()) };
        let is_it = |it: &Position| it.seq == signed.line && it.head == signed.head;
        let what = if !self.position.is_none_or(is_it) {
            "the run has moved on"
        } else if self.definition.is_some_and(|it| it != signed.definition) {
            "its definition has changed"
        } else if (self.tree)() != signed.tree {
            "the files have changed"
        } else {
            return Ok(());
        };
        Err(GateError::NotReady(format!(
            "run {run}: {what} since you signed; look again, and sign that"
        )))
    }
}
