//! Where a run has been, by its journal: how often and how long it was in each phase, how often it blocked there, and
//! its last step. What is drawn into pictures comes from here.

use std::collections::BTreeMap;

use jiff::Timestamp;
use phasegate_engine::draw::{Stay, Walk};
use phasegate_engine::step::Move;
use serde::Deserialize;

/// What is read of a line: not why it was decided, which is most of it.
#[derive(Debug, Deserialize)]
struct Passed {
    seq: u64,
    at: Timestamp,
    from: String,
    to: String,
    answer: Said,
    #[serde(default)]
    moves: Vec<Move>,
}

#[derive(Debug, Deserialize)]
struct Said {
    decision: String,
}

/// Where a run has been, line after line.
#[derive(Clone, Debug, Default)]
pub struct Course {
    stays: BTreeMap<String, Stay>,
    last: Option<(String, String)>,
    /// The phase after the last line, and when that was.
    here: Option<(String, Timestamp)>,
    /// The first and the last line that were counted; 0 before there is one.
    first: u64,
    seq: u64,
}

impl Course {
    /// The last line that was counted.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Goes on by a line, which must be newer than those before. `outer` is the name of the workflow's own machine.
    pub fn follow(&mut self, line: &str, outer: &str) {
        let Ok(mut line) = serde_json::from_str::<Passed>(line) else { return };
        if line.seq <= self.seq {
            return;
        }
        if self.seq == 0 {
            self.first = line.seq;
        }
        self.seq = line.seq;
        if let Some((phase, since)) = &self.here {
            let seconds = line.at.duration_since(*since).as_secs();
            self.stays.entry(phase.clone()).or_default().seconds +=
                u64::try_from(seconds).unwrap_or(0);
        }
        // A run that is cancelled is in no phase: it has not left the one before.
        if line.to.is_empty() {
            line.to.clone_from(&line.from);
        }
        let was = self.here.take().map(|(phase, _)| phase);
        // Set by hand, or where the count begins.
        if was.as_ref() != Some(&line.from) && !line.from.is_empty() {
            self.enter(&line.from);
        }
        let mut at = line.from.clone();
        for step in line.moves.iter().filter(|step| step.of == outer) {
            at = self.step(at, &step.to);
        }
        if at != line.to {
            self.step(at, &line.to);
        }
        if line.answer.decision == "block" {
            self.stays.entry(line.to.clone()).or_default().blocks += 1;
        }
        self.here = Some((line.to, line.at));
    }

    fn enter(&mut self, phase: &str) {
        self.stays.entry(phase.to_string()).or_default().visits += 1;
    }

    fn step(&mut self, from: String, to: &str) -> String {
        self.enter(to);
        if !from.is_empty() && from != to {
            self.last = Some((from, to.to_string()));
        }
        to.to_string()
    }

    /// As it is drawn: the run is in this phase, until now unless it is over.
    pub fn walk(&self, current: &str, until: Option<Timestamp>) -> Walk {
        let mut stays = self.stays.clone();
        if let (Some((phase, since)), Some(now)) = (&self.here, until) {
            let seconds = now.duration_since(*since).as_secs();
            stays.entry(phase.clone()).or_default().seconds += u64::try_from(seconds).unwrap_or(0);
        }
        let last = self.last.clone();
        Walk { stays, last, since: self.first, ..Walk::at(current) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(seq: u64, minute: u64, from: &str, to: &str, decision: &str) -> String {
        format!(
            r#"{{"seq":{seq},"at":"2026-01-01T00:{minute:02}:00Z","event":{{"name":"stop","actor":"worker"}},
            "from":"{from}","to":"{to}","answer":{{"decision":"{decision}"}},"before":"","after":"","prev":""}}"#
        )
    }

    #[test]
    fn visits_minutes_blocks_and_the_last_step_are_counted() {
        let mut course = Course::default();
        course.follow(&line(1, 0, "", "work", "allow"), "state");
        course.follow(&line(2, 5, "work", "work", "block"), "state");
        course.follow(&line(3, 7, "work", "review", "block"), "state");
        course.follow(&line(4, 10, "review", "work", "block"), "state");
        // Told twice, and unreadable: counted once, and not at all.
        course.follow(&line(4, 10, "review", "work", "block"), "state");
        course.follow("{", "state");
        let now: Result<Timestamp, _> = "2026-01-01T00:30:00Z".parse();
        let walk = course.walk("work", now.ok());
        let stay = |visits, minutes: u64, blocks| Stay { visits, seconds: minutes * 60, blocks };
        assert_eq!(walk.stays["work"], stay(2, 7 + 20, 2));
        assert_eq!(walk.stays["review"], stay(1, 3, 1));
        assert_eq!(walk.last, Some(("review".into(), "work".into())));
        assert_eq!((walk.since, course.seq()), (1, 4));
        assert_eq!(course.walk("work", None).stays["work"], stay(2, 7, 2));
        // A phase that somebody has set is a visit, too.
        course.follow(&line(5, 11, "review", "done", "allow"), "state");
        let walk = course.walk("done", None);
        assert_eq!(walk.stays["review"].visits, 2);
        assert_eq!(walk.last, Some(("review".into(), "done".into())));
    }

    #[test]
    fn phases_that_are_only_passed_are_visited() {
        let mut course = Course::default();
        let passing = line(7, 0, "a", "c", "block").replace(
            "\"before\"",
            r#""moves":[{"of":"state","from":"a","to":"b","by":"x"},{"of":"group g","from":"p","to":"q","by":"x"},{"of":"state","from":"b","to":"c","by":"x"}],"before""#,
        );
        course.follow(&passing, "state");
        let walk = course.walk("c", None);
        assert_eq!(walk.stays.keys().collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!((walk.last, walk.since), (Some(("b".into(), "c".into())), 7));
    }
}
