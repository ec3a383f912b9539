//! The governor: limits that end a run which no longer gets anywhere, whatever its workflow says.
//!
//! It is asked only about a block, after the rules were: a completion reached on the last allowed
//! step wins over every limit.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use phasegate_engine::answer::{Answer, Outcome};
use phasegate_engine::digest::{digest, digest_of};
use serde::{Deserialize, Serialize};

use crate::cost::Cost;
use crate::words::{Because, sentence};

/// A pause between two stops counts as work only up to this: a night is not spent working.
const MAX_PAUSE: SignedDuration = SignedDuration::from_mins(30);

/// How many states a tally remembers, to see one come back.
const MAX_SEEN: usize = 16;

/// What a run may use up. Zero means no limit.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Blocks since the user last spoke.
    pub blocks_in_a_row: Option<u64>,
    /// Blocks in all.
    pub blocks: Option<u64>,
    /// Blocks with one reason while nothing changes.
    pub same_reason: Option<u64>,
    /// Times that a run may come back to a state that it had moved on from.
    pub returns: Option<u64>,
    /// Minutes of work.
    pub minutes: Option<u64>,
    /// Reviews.
    pub reviews: Option<u64>,
    /// What reviews may cost.
    pub dollars: Option<u64>,
}

impl Limits {
    /// These limits, and the others where these say nothing.
    #[must_use]
    pub fn or(self, other: Limits) -> Limits {
        Limits {
            blocks_in_a_row: self.blocks_in_a_row.or(other.blocks_in_a_row),
            blocks: self.blocks.or(other.blocks),
            same_reason: self.same_reason.or(other.same_reason),
            returns: self.returns.or(other.returns),
            minutes: self.minutes.or(other.minutes),
            reviews: self.reviews.or(other.reviews),
            dollars: self.dollars.or(other.dollars),
        }
    }

    /// The limits that hold where nothing is configured: far beyond what a healthy run needs.
    pub fn usual() -> Limits {
        Limits {
            blocks_in_a_row: Some(500),
            blocks: Some(2_000),
            same_reason: Some(3),
            returns: Some(3),
            minutes: Some(24 * 60),
            reviews: Some(300),
            dollars: Some(100),
        }
    }
}

/// What a run has used up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tally {
    pub blocks: u64,
    pub blocks_in_a_row: u64,
    /// The digest of the last reason, and how often it was given while nothing changed.
    pub reason: String,
    pub same_reason: u64,
    /// Blocks in a row between which the agent used no tool: clients have a cap on these.
    pub idle: u64,
    pub seconds: u64,
    /// Reviews that were begun, and what they cost, in millionths of a dollar.
    #[serde(skip_serializing_if = "is_zero")]
    pub reviews: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub micro_dollars: u64,
    /// How many reviews, agents and turns have not told what they cost.
    #[serde(skip_serializing_if = "is_zero")]
    pub untold: u64,
    /// States after a move, and how often one of them came back.
    pub seen: Vec<String>,
    pub returns: u64,
}

/// How much of a limit is used up.
#[derive(Clone, Debug)]
pub struct Used {
    pub what: &'static str,
    /// How much, and whether there is more that nobody knows.
    pub count: u64,
    pub is_unknown: bool,
    /// None where there is no limit.
    pub limit: Option<u64>,
    /// How much, in words.
    told: String,
    is_cost: bool,
}

impl Used {
    fn counted(what: &'static str, count: u64, limit: Option<u64>) -> Used {
        let limit = limit.filter(|limit| *limit > 0);
        Used { what, count, is_unknown: false, limit, told: count.to_string(), is_cost: false }
    }

    /// How much, and of how much.
    pub fn share(&self) -> String {
        let told = &self.told;
        match self.limit {
            None => told.clone(),
            Some(limit) if self.is_cost => format!("{told} (limit ${limit})"),
            Some(limit) => format!("{told} of {limit}"),
        }
    }
}

impl fmt::Display for Used {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let (what, share) = (self.what, self.share());
        if self.is_cost { write!(out, "{what}: {share}") } else { write!(out, "{share} {what}") }
    }
}

/// What the governor looks at.
#[derive(Debug)]
pub struct Situation<'a> {
    pub now: Timestamp,
    /// When the run last answered.
    pub last: Option<Timestamp>,
    /// The stop is the first since the user spoke.
    pub fresh: bool,
    /// Something has changed since the last block.
    pub moved_on: bool,
    /// Whether the agent used a tool since the last block, where that is known.
    pub used_tools: Option<bool>,
    /// How many such blocks the client takes before it ends the turn on its own.
    pub client_cap: Option<(u64, bool)>,
    pub reason: &'a str,
    /// How often the workflow itself wants to insist.
    pub patience: u64,
    /// The state after the step, without the time of the change, if a phase was left.
    pub state: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Tally {
    /// This tally, with nothing less used up than another one says.
    #[must_use]
    pub fn at_least(self, other: &Tally) -> Tally {
        Tally {
            blocks: self.blocks.max(other.blocks),
            seconds: self.seconds.max(other.seconds),
            reviews: self.reviews.max(other.reviews),
            micro_dollars: self.micro_dollars.max(other.micro_dollars),
            untold: self.untold.max(other.untold),
            returns: self.returns.max(other.returns),
            ..self
        }
    }

    /// What reviews, agents and turns have cost.
    pub fn cost(&self) -> Cost {
        Cost { micro_dollars: self.micro_dollars, untold: self.untold }
    }

    /// Adds to that.
    pub fn spend(&mut self, cost: Cost) {
        let sum = self.cost() + cost;
        (self.micro_dollars, self.untold) = (sum.micro_dollars, sum.untold);
    }

    /// What is used up of each limit, in the order in which people are told.
    pub fn used(&self, limits: &Limits) -> [Used; 5] {
        let cost = self.cost();
        [
            Used::counted("blocks", self.blocks, limits.blocks),
            Used::counted("blocks in a row", self.blocks_in_a_row, limits.blocks_in_a_row),
            Used::counted("minutes of work", self.seconds / 60, limits.minutes),
            Used::counted("reviews", self.reviews, limits.reviews),
            Used {
                is_cost: true,
                is_unknown: cost.untold > 0,
                told: cost.to_string(),
                ..Used::counted(
                    "cost of agents and reviews",
                    cost.micro_dollars / 1_000_000,
                    limits.dollars,
                )
            },
        ]
    }

    /// Counts a review, or says why there is none; and warns of a limit that is near.
    pub fn count_review(&mut self, run: &str, limits: &Limits) -> (Option<Answer>, Option<String>) {
        let dollars = self.micro_dollars / 1_000_000;
        let checks = [
            (self.reviews, limits.reviews, "reviews", "reviews"),
            (dollars, limits.dollars, "dollars for reviews", "dollars"),
        ];
        let mut warning = None;
        for (count, limit, what, key) in checks {
            let Some(limit) = limit.filter(|limit| *limit > 0) else { continue };
            if count >= limit {
                let next = format!("Raise `{key}` in the limits of the configuration to go on");
                let because = Because::Limit(Outcome::Budget, limit, what, &next);
                let message = sentence(run, "", because);
                return (Some(Answer::allow_saying(Outcome::Budget, message)), None);
            }
            if count + 1 == (limit * 4).div_ceil(5) && limit > 4 {
                warning = Some(format!("Run {run}: {} of {limit} {what}.", count + 1));
            }
        }
        self.reviews += 1;
        (None, warning)
    }

    /// Why no agent is started any more; none where there is money left.
    pub fn spent(&self, run: &str, limits: &Limits) -> Option<String> {
        let limit = limits.dollars.filter(|limit| *limit > 0)?;
        let dollars = self.micro_dollars / 1_000_000;
        (dollars >= limit).then(|| {
            format!(
                "Run {run} has used its limit of {limit} dollars ({dollars} are spent), so no agent works on it. \
                 Raise `dollars` in the limits of the configuration to go on."
            )
        })
    }

    /// Counts a stop that the rules want to block. The answer is the one to give instead, if a
    /// limit is reached; the texts are warnings of limits that are near.
    pub fn count(
        &mut self,
        run: &str,
        limits: &Limits,
        now: &Situation,
    ) -> (Option<Answer>, Vec<String>) {
        self.note(now);
        // Before the others: without money, nothing that a block asks for can be done by an agent.
        if let Some(why) = self.spent(run, limits) {
            self.blocks_in_a_row -= 1;
            return (Some(Answer::allow_saying(Outcome::Budget, why)), Vec::new());
        }
        let most = limits.same_reason.unwrap_or(0);
        // A workflow that wants to insist more often may.
        let same = if most == 0 { 0 } else { most.max(now.patience) };
        let config = "in the limits of the configuration";
        let checks = [
            (
                self.same_reason,
                same,
                Outcome::Stuck,
                "times the same reason while nothing changed",
                "Give the agent a new hint".to_string(),
            ),
            (
                self.returns,
                limits.returns.unwrap_or(0),
                Outcome::Stuck,
                "returns to a state that the run had moved on from",
                "Give the agent a new hint".into(),
            ),
            (
                self.blocks_in_a_row,
                limits.blocks_in_a_row.unwrap_or(0),
                Outcome::Capped,
                "blocks in a row",
                "Send the agent a message to go on".into(),
            ),
            (
                self.blocks + 1,
                limits.blocks.unwrap_or(0),
                Outcome::Capped,
                "blocks in all",
                format!("Raise `blocks` {config} to go on"),
            ),
            (
                self.seconds.div_ceil(60),
                limits.minutes.unwrap_or(0),
                Outcome::Budget,
                "minutes of work",
                format!("Raise `minutes` {config} to go on"),
            ),
        ];
        let mut warnings = Vec::new();
        for (count, limit, outcome, what, next) in checks {
            if limit == 0 {
                continue;
            }
            if count > limit {
                let message = sentence(run, "", Because::Limit(outcome, limit, what, &next));
                self.blocks_in_a_row -= 1;
                return (Some(Answer::allow_saying(outcome, message)), warnings);
            }
            if count == (limit * 4).div_ceil(5) && count < limit && count > 4 {
                warnings.push(format!("Run {run}: {count} of {limit} {what}."));
            }
        }
        // One below the client's cap: the client would end the turn as if all were well.
        let reached = |(most, on_all): &(u64, bool)| {
            let count = if *on_all { self.blocks_in_a_row } else { self.idle };
            *most > 0 && count >= *most
        };
        if let Some((cap, on_all)) = now.client_cap.filter(reached) {
            self.blocks_in_a_row -= 1;
            let message = sentence(run, "", Because::ClientCap(cap, on_all));
            return (Some(Answer::allow_saying(Outcome::Capped, message)), warnings);
        }
        self.blocks += 1;
        (None, warnings)
    }

    fn note(&mut self, now: &Situation) {
        if let Some(last) = now.last {
            let pause = now.now.duration_since(last).min(MAX_PAUSE);
            self.seconds += u64::try_from(pause.as_secs()).unwrap_or(0);
        }
        self.blocks_in_a_row = if now.fresh { 1 } else { self.blocks_in_a_row + 1 };
        let reason = digest(now.reason.as_bytes());
        let same = !now.moved_on && reason == self.reason;
        self.same_reason = if same { self.same_reason + 1 } else { 1 };
        self.reason = reason;
        let worked = now.used_tools.unwrap_or(now.moved_on);
        self.idle = if now.fresh || worked { 1 } else { self.idle + 1 };
        if let Some(state) = &now.state {
            self.returns = if self.seen.contains(state) { self.returns + 1 } else { 0 };
            self.seen.push(state.clone());
            if self.seen.len() > MAX_SEEN {
                self.seen.remove(0);
            }
        }
    }
}

/// A digest of a document's text without one of its values: the time of its last change.
pub fn state_without(text: &[u8], value: Option<&str>) -> String {
    let at = value.filter(|value| !value.is_empty()).and_then(|value| {
        let text = std::str::from_utf8(text).ok()?;
        text.rfind(value).map(|at| (at, at + value.len()))
    });
    match at {
        None => digest(text),
        Some((start, end)) => digest_of([&text[..start], &text[end..]]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Change = Box<dyn FnMut(&mut Situation, u64)>;

    fn situation(reason: &str, moved_on: bool) -> Situation<'_> {
        Situation {
            now: Timestamp::UNIX_EPOCH,
            last: None,
            fresh: false,
            moved_on,
            used_tools: None,
            client_cap: Some((8, false)),
            reason,
            patience: 1,
            state: None,
        }
    }

    #[test]
    fn two_hundred_productive_blocks_reach_no_limit() {
        let mut tally = Tally::default();
        for block in 0..200 {
            let (answer, warnings) =
                tally.count("w/r", &Limits::usual(), &situation(&format!("step {block}"), true));
            assert_eq!((answer, warnings.len()), (None, 0));
        }
    }

    #[test]
    fn each_limit_ends_with_its_outcome_and_is_announced() {
        let limit = |limits: Limits, moved_on: bool, mut change: Change| {
            let mut tally = Tally::default();
            let mut warned = false;
            for block in 1.. {
                let mut now = situation("the same", moved_on);
                change(&mut now, block);
                let (answer, warnings) = tally.count("w/r", &limits, &now);
                warned |= !warnings.is_empty();
                if let Some(answer) = answer {
                    return (block, answer.outcome(), warned);
                }
            }
            unreachable!()
        };
        let none = Limits::default();
        let nothing = || Box::new(|_: &mut Situation, _| {}) as Change;
        let row = Limits { blocks_in_a_row: Some(10), ..none };
        assert_eq!(limit(row, true, nothing()), (11, Some(Outcome::Capped), true));
        let all = Limits { blocks: Some(10), ..none };
        let fresh = Box::new(|now: &mut Situation, _| now.fresh = true);
        assert_eq!(limit(all, true, fresh), (11, Some(Outcome::Capped), true));
        let same = Limits { same_reason: Some(3), ..none };
        assert_eq!(limit(same, false, nothing()), (4, Some(Outcome::Stuck), false));
        let back = Limits { returns: Some(3), ..none };
        let swing =
            Box::new(|now: &mut Situation, block: u64| now.state = Some((block % 2).to_string()));
        assert_eq!(limit(back, true, swing).1, Some(Outcome::Stuck));
        let minutes = Limits { minutes: Some(60), ..none };
        let long = Box::new(|now: &mut Situation, block: u64| {
            let start = i64::try_from(block).unwrap_or(0) * 100_000;
            now.last = Timestamp::from_second(start).ok();
            now.now = Timestamp::from_second(start + 100_000).unwrap_or_default();
        });
        assert_eq!(limit(minutes, true, long), (3, Some(Outcome::Budget), false));
        let idle = Box::new(|now: &mut Situation, _| now.used_tools = Some(false));
        assert_eq!(limit(none, true, idle), (8, Some(Outcome::Capped), false));
    }

    #[test]
    fn the_time_of_a_change_does_not_make_a_state_new() {
        let one = br#"{"phase":"a","updated_at":"2026-01-01T00:00:00Z"}"#;
        let two = br#"{"phase":"a","updated_at":"2026-01-02T00:00:00Z"}"#;
        let state = |text: &[u8], time| state_without(text, Some(time));
        assert_eq!(state(one, "2026-01-01T00:00:00Z"), state(two, "2026-01-02T00:00:00Z"));
        assert_ne!(state_without(one, None), state_without(two, None));
    }
}
