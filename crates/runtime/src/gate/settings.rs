//! Changes of the client's settings in the middle of a session. One that would open the gate is refused while something
//! holds the session, where the client asks.

use phasegate_engine::answer::Answer;
use phasegate_engine::decide::params;
use phasegate_engine::json::Json;
use phasegate_engine::step::{Actor, Event};

use super::sessions::Standing;
use super::standing::StandingGate;
use super::transaction::Change;
use super::{Found, Gate};
use crate::bindings;
use crate::words;

/// The event of a line that says that a change was refused.
const CONFIG_CHANGE: &str = "config-change";

impl Gate<'_> {
    /// Refuses a change of the client's settings that would open the gate. What comes back is what is answered, none
    /// where nothing holds the session, and what failed.
    pub fn refuse_settings(&self, session: &str, what: &str) -> (Option<String>, Vec<String>) {
        let (runs, mut faults) = self.find_open();
        let is_holding = |(run, standing): &(Found, Standing)| {
            let is_meant = *standing == Standing::Own || !run.presumed;
            is_meant && run.ledger.session.paused.is_none() && self.is_working(run)
        };
        let runs = self.in_order(runs, Some(session)).into_iter().filter(is_holding);
        let runs: Vec<Found> = runs.map(|(run, _)| run).collect();
        let is_gate_up = || self.standing_gates().iter().any(StandingGate::stands);
        if runs.is_empty() && !is_gate_up() {
            return (None, faults);
        }
        let reason = words::settings_refused(what);
        let params = params([("change".to_string(), Json::from(what))]);
        let session_of = Some(session.to_string());
        let event =
            Event { session: session_of, params, ..Event::new(CONFIG_CHANGE, Actor::Worker) };
        for run in &runs {
            let noted = self.note_saying(run, &event, &Answer::deny(reason.clone()), |run, _| {
                run.ledger.session.pending_notices.retain(|pending| *pending != reason);
                run.notes.push(reason.clone());
                Ok(Change::None)
            });
            faults.extend(noted.err().map(|error| format!("run {}: {error}", run.id)));
        }
        if runs.is_empty() {
            bindings::give_notice(session, &reason);
        }
        (Some(reason), faults)
    }
}
