//! Which situation is looked at next: one to which a rule has led that had never fired, or in turns the one that was found
//! first, one of a kind that was looked at least, one near to an end, and one near to rules that have not fired yet. And every
//! other time only one event is tried, for a rule that has never fired: in a situation in whose phase that rule stands.
//!
//! Breadth alone does not come far: a run of several agents has more situations at ten steps from its beginning than can be
//! looked at. What leads on from one that is near to an end is mostly nearer.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use crate::events::ALIASES;
use crate::graph::{edges, steps};
use crate::workflow::{Machine, PhaseId, Workflow};

/// Further away than any phase is.
const FAR: usize = 1_000;

/// What has to be looked at.
pub(super) struct Frontier<'w> {
    workflow: &'w Workflow,
    open: Vec<Waiting>,
    turn: usize,
    /// How many moves each phase of each machine is away from an end.
    to_end: Vec<Vec<usize>>,
    /// The same for phases with rules that have not fired, and how many rules had fired then.
    to_new: (usize, Vec<Vec<usize>>),
    /// Kinds of situations, from afar and more closely, each with how often it was looked at.
    rough: Kinds,
    fine: Kinds,
    /// Rules that events can make fire.
    aims: Vec<Aim>,
    /// How often something was refused in situations that look alike from afar, and never accepted.
    refused: HashMap<(usize, String), Option<usize>>,
    /// Situations in which something was put off.
    later: Vec<usize>,
}

/// A rule that may never have fired, and where it could.
struct Aim {
    label: String,
    events: Vec<String>,
    places: Vec<(usize, PhaseId)>,
    tries: usize,
    /// How often it was tried in each kind of situations.
    by_kind: HashMap<usize, usize>,
}

/// What is to be looked at: a situation, with all that may happen in it or with some events only.
pub(super) struct Next {
    pub(super) node: usize,
    pub(super) only: Option<Vec<String>>,
    /// What it looks like from afar; none where also that is tried which was refused in all others that look so.
    pub(super) rough: Option<usize>,
}

/// In so many situations that look alike something is refused before it is put off in the others.
const MAX_REFUSED: usize = 3;

/// Kinds of situations.
#[derive(Default)]
struct Kinds {
    known: HashMap<String, usize>,
    /// How often each was looked at.
    looks: Vec<usize>,
}

impl Kinds {
    fn number(&mut self, outline: String) -> usize {
        let next = self.known.len();
        let number = *self.known.entry(outline).or_insert(next);
        if number == self.looks.len() {
            self.looks.push(0);
        }
        number
    }
}

/// A situation that has not been looked at.
struct Waiting {
    node: usize,
    rough: usize,
    fine: usize,
    /// A rule has led to it that had not fired before, or to a phase that was new.
    is_new: bool,
    to_end: usize,
    phases: Vec<(usize, PhaseId)>,
    /// Events that were tried in it.
    tried: Vec<String>,
}

impl<'w> Frontier<'w> {
    pub(super) fn new(workflow: &'w Workflow) -> Frontier<'w> {
        let machines = workflow.machines.iter();
        let to_end =
            machines.map(|machine| distances(machine, |phase| machine.get(phase).ends.is_some()));
        Frontier {
            workflow,
            open: Vec::new(),
            turn: 0,
            to_end: to_end.collect(),
            to_new: (usize::MAX, Vec::new()),
            rough: Kinds::default(),
            fine: Kinds::default(),
            aims: aims(workflow),
            refused: HashMap::new(),
            later: Vec::new(),
        }
    }

    /// Adds a situation: the phases of all that is in it, each with its machine, and what it looks like.
    pub(super) fn push(
        &mut self,
        node: usize,
        phases: &[(usize, String)],
        (rough, fine): (String, String),
        is_new: bool,
    ) {
        let (rough, fine) = (self.rough.number(rough), self.fine.number(fine));
        let named = phases.iter().filter_map(|(machine, name)| {
            Some((*machine, self.workflow.machines[*machine].phase(name)?))
        });
        let phases: Vec<(usize, PhaseId)> = named.collect();
        // Every element has to come to its end.
        let away = phases.iter().map(|(machine, phase)| self.to_end[*machine][phase.0]);
        let to_end = away.filter(|away| *away < FAR).sum();
        let tried = Vec::new();
        self.open.push(Waiting { node, rough, fine, is_new, to_end, phases, tried });
    }

    /// How many kinds of situations there are.
    pub(super) fn kinds(&self) -> usize {
        self.fine.known.len()
    }

    /// What is to be looked at next.
    pub(super) fn next(&mut self, fired: &BTreeSet<String>) -> Option<Next> {
        let is_new = self.open.iter().position(|it| it.is_new);
        if is_new.is_none() {
            self.turn += 1;
            if self.turn.is_multiple_of(2)
                && let Some(aimed) = self.aimed(fired)
            {
                return Some(aimed);
            }
        }
        let index = match is_new {
            Some(index) => index,
            None => match self.in_turn(fired) {
                Some(index) => index,
                None => return self.later.pop().map(|node| Next { node, only: None, rough: None }),
            },
        };
        let taken = self.open.swap_remove(index);
        self.rough.looks[taken.rough] += 1;
        self.fine.looks[taken.fine] += 1;
        Some(Next { node: taken.node, only: None, rough: Some(taken.rough) })
    }

    /// Has a situation looked at once more, when nothing else is left: something was put off there.
    pub(super) fn put_off(&mut self, node: usize) {
        self.later.push(node);
    }

    /// Whether something was refused in all situations that look alike, so that it need not be tried now.
    pub(super) fn is_idle(&self, rough: usize, what: &str) -> bool {
        let known = self.refused.get(&(rough, what.to_string()));
        known.is_some_and(|known| known.is_some_and(|times| times >= MAX_REFUSED))
    }

    /// Notes whether something was accepted.
    pub(super) fn answered(&mut self, rough: usize, what: String, accepted: bool) {
        let times = self.refused.entry((rough, what)).or_insert(Some(0));
        *times = times.filter(|_| !accepted).map(|times| times + 1);
    }

    /// A rule that has not fired, of those that were tried least; and a situation in which it could, of a kind in which it was
    /// tried least.
    fn aimed(&mut self, fired: &BTreeSet<String>) -> Option<Next> {
        let mut order: Vec<usize> =
            (0..self.aims.len()).filter(|at| !fired.contains(&self.aims[*at].label)).collect();
        order.sort_by_key(|at| self.aims[*at].tries);
        for at in order {
            let aim = &mut self.aims[at];
            let fits = |it: &Waiting| {
                it.phases.iter().any(|place| aim.places.contains(place))
                    && aim.events.iter().any(|event| !it.tried.contains(event))
            };
            let found =
                self.open.iter_mut().filter(|it| fits(it)).min_by_key(|it| {
                    (aim.by_kind.get(&it.fine).copied().unwrap_or_default(), it.node)
                });
            let Some(waiting) = found else { continue };
            aim.tries += 1;
            *aim.by_kind.entry(waiting.fine).or_default() += 1;
            let only: Vec<String> =
                aim.events.iter().filter(|it| !waiting.tried.contains(it)).cloned().collect();
            waiting.tried.extend(only.iter().cloned());
            return Some(Next { node: waiting.node, only: Some(only), rough: Some(waiting.rough) });
        }
        None
    }

    fn in_turn(&mut self, fired: &BTreeSet<String>) -> Option<usize> {
        if self.to_new.0 != fired.len() {
            self.to_new = (fired.len(), self.unfired(fired));
        }
        let looks =
            |it: &Waiting| (self.rough.looks[it.rough], self.fine.looks[it.fine], Reverse(it.node));
        let closely = |it: &Waiting| (self.fine.looks[it.fine], Reverse(it.node));
        let to_new = |it: &Waiting| {
            let away = it.phases.iter().map(|(at, phase)| self.to_new.1[*at][phase.0]);
            away.min().unwrap_or(FAR)
        };
        let open = || self.open.iter().enumerate();
        let found = match self.turn / 2 % 5 {
            0 => open().min_by_key(|(_, it)| it.node),
            1 => open().min_by_key(|(_, it)| looks(it)),
            2 => open().min_by_key(|(_, it)| (it.to_end, closely(it))),
            // What was found last is furthest: what takes many changes, as many files, is come to only by going on.
            3 => open().min_by_key(|(_, it)| (to_new(it), Reverse(it.node))),
            _ => open().min_by_key(|(_, it)| (to_new(it), closely(it))),
        };
        found.map(|(index, _)| index)
    }

    fn unfired(&self, fired: &BTreeSet<String>) -> Vec<Vec<usize>> {
        let machines = self.workflow.machines.iter();
        let away = machines.map(|machine| {
            distances(machine, |phase| {
                let own = &machine.get(phase).rules;
                // What asks an inner machine has fired where one of that machine's rules has.
                let mut own = own.rules.iter().chain(&own.always).filter(|it| it.ask.is_none());
                own.any(|rule| !fired.contains(&*rule.label))
            })
        });
        away.collect()
    }
}

/// The rules that events make fire, each with where it stands.
fn aims(workflow: &Workflow) -> Vec<Aim> {
    let mut found: Vec<Aim> = Vec::new();
    for (index, machine) in workflow.machines.iter().enumerate() {
        for edge in edges(machine) {
            let (rule, place) = (edge.rule, (index, edge.from));
            if rule.on.is_empty() || rule.ask.is_some() {
                continue;
            }
            if let Some(known) = found.iter_mut().find(|it| it.label == *rule.label) {
                known.places.push(place);
                continue;
            }
            let plain = |name: &String| {
                let alias = ALIASES.iter().find(|alias| alias.name == name);
                alias.map_or_else(|| name.clone(), |alias| alias.event.to_string())
            };
            let (label, events) = (rule.label.to_string(), rule.on.iter().map(plain).collect());
            let (places, by_kind) = (vec![place], HashMap::new());
            found.push(Aim { label, events, places, tries: 0, by_kind });
        }
    }
    found
}

/// How many moves each phase is away from one that is wanted.
fn distances(machine: &Machine, is_wanted: impl Fn(PhaseId) -> bool) -> Vec<usize> {
    let count = machine.phases.len();
    let mut away: Vec<usize> =
        (0..count).map(|at| if is_wanted(PhaseId(at)) { 0 } else { FAR }).collect();
    let moves = steps(machine);
    for _ in 0..count {
        for (from, to) in &moves {
            away[from.0] = away[from.0].min(away[to.0] + 1);
        }
    }
    away
}
