//! What would open the gate: the facts that would have to be otherwise, as few as possible, each set found by
//! deciding again.
//!
//! A fact is a part of a guard. To suppose it is to decide as if that part came out the other way, wherever it
//! stands. Only parts that a decision comes to are tried, so that the search follows the rules from the block
//! to the answer that lets the agent go.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{RunFacts, decide, decide_supposing};
use crate::answer::{Answer, Outcome};
use crate::evidence::Evidence;
use crate::json::Json;
use crate::names::CHECK;
use crate::step::{Event, Step};
use crate::syntax::Names;
use crate::workflow::{Expression, Guard, GuardParts, Machine, Workflow};

/// Facts that are supposed to be so, by the text of the part of a guard.
pub type Supposed = BTreeMap<String, bool>;

/// How many facts a set has at most, how many sets are told, and how often is decided for them.
pub const MAX_FACTS: usize = 3;
const MAX_WAYS: usize = 3;
pub const MAX_DECISIONS: usize = 400;

/// How often is decided where a stop waits for the text.
const MAX_FOR_TEXT: usize = 100;

/// A set of facts that opens the gate, of which none can be left out.
#[derive(Clone, Debug, PartialEq)]
pub struct Way {
    pub facts: Vec<Fact>,
    /// What is answered then: an ALLOW, or the next block where no few facts open the gate.
    pub answer: Answer,
}

/// What a search has found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ways {
    pub found: Vec<Way>,
    /// The search was given up before every set was tried.
    pub is_cut: bool,
}

/// A fact that would have to be otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// The part of the guard, as it would have to be: `not exists('TODO')`.
    pub text: String,
    /// Whether the agent can bring it about.
    pub by_agent: bool,
}

impl Way {
    /// Whether the agent can bring all of it about.
    pub fn by_agent(&self) -> bool {
        self.facts.iter().all(|fact| fact.by_agent)
    }
}

/// What a decision is about.
#[derive(Clone)]
pub struct Situation<'s> {
    pub workflow: &'s Workflow,
    pub document: Json,
    pub event: &'s Event,
    pub run: &'s RunFacts,
    pub evidence: Arc<dyn Evidence>,
}

impl Situation<'_> {
    /// Decides.
    pub fn decide(&self) -> Step {
        let Situation { workflow, document, event, run, evidence } = self;
        decide(workflow, document.clone(), event, run, evidence.clone())
    }

    /// Decides, as if these facts were so.
    fn supposing(&self, supposed: &Supposed) -> Step {
        let Situation { workflow, document, event, run, evidence } = self;
        decide_supposing(workflow, document.clone(), event, run, evidence.clone(), supposed)
    }

    /// The sets of facts that would let a stop go that is blocked, or that would lift this block: first what the agent can bring about, then
    /// what leads to the end, then the smallest.
    pub fn ways(&self) -> Ways {
        self.ways_within(MAX_DECISIONS)
    }

    /// The facts of the first of them, for the text of a block; empty where none is found.
    pub(super) fn in_words(&self) -> String {
        let first = self.ways_within(MAX_FOR_TEXT).found.into_iter().next();
        let facts = first.map(|way| way.facts).unwrap_or_default();
        facts.into_iter().map(|fact| fact.text).collect::<Vec<_>>().join(" and ")
    }

    fn ways_within(&self, most: usize) -> Ways {
        let leaves = leaves(self.workflow);
        let mut found: Vec<(Supposed, Answer)> = Vec::new();
        // Sets that only lift this block: they are told where none opens the gate.
        let mut lifts: Vec<(Supposed, Answer)> = Vec::new();
        let mut blocks_by = None;
        let mut sets = vec![Supposed::new()];
        let (mut decisions, mut is_cut) = (0, false);
        for _ in 0..=MAX_FACTS {
            let mut next: Vec<Supposed> = Vec::new();
            for set in sets {
                if is_superset(&found, &set) {
                    continue;
                }
                if decisions == most {
                    is_cut = true;
                    break;
                }
                decisions += 1;
                let step = self.supposing(&set);
                if opens(&step) {
                    found.push((set, step.answer));
                    continue;
                }
                let by = step.trace.fired.last().cloned();
                let is_other = step.answer.is_block() && by != blocks_by;
                if set.is_empty() {
                    blocks_by = by;
                } else if is_other && !is_superset(&lifts, &set) {
                    lifts.push((set.clone(), step.answer.clone()));
                }
                if set.len() == MAX_FACTS {
                    continue;
                }
                for (text, held) in parts(&step) {
                    if set.contains_key(&text) || !leaves.contains_key(&text) {
                        continue;
                    }
                    let mut more = set.clone();
                    more.insert(text, !held);
                    if is_possible(&more) && !next.contains(&more) {
                        next.push(more);
                    }
                }
            }
            sets = next;
        }
        let told = if found.is_empty() { lifts } else { found };
        let mut ways: Vec<Way> =
            told.iter().map(|(set, answer)| self.way(set, answer.clone(), &leaves)).collect();
        ways.sort_by_key(|way| {
            let is_done = way.answer.outcome() == Some(Outcome::Done);
            (!way.by_agent(), !is_done, way.facts.len())
        });
        ways.truncate(MAX_WAYS);
        Ways { found: ways, is_cut }
    }

    fn way(&self, set: &Supposed, answer: Answer, leaves: &BTreeMap<String, &Names>) -> Way {
        let facts = set.iter().map(|(text, held)| Fact {
            text: if *held { text.clone() } else { negated(text) },
            by_agent: leaves.get(text).is_some_and(|names| self.is_for_agent(names, 0)),
        });
        Way { facts: facts.collect(), answer }
    }

    /// Whether an agent can change what an expression looks at: files, checks, what it says, and the document
    /// where that is not protected.
    fn is_for_agent(&self, names: &Names, depth: usize) -> bool {
        let looks = |used: &crate::syntax::Use| BY_AGENT.contains(&used.path[0].as_str());
        if names.functions.iter().any(looks) || names.filters.iter().any(looks) {
            return true;
        }
        names.variables.iter().any(|used| {
            let name = used.path[0].as_str();
            if name == CHECK {
                return true;
            }
            let machines = || self.workflow.machines.iter();
            if machines().any(|machine| &*machine.name == name) {
                let field = used.path[1..].join(".");
                return !self.workflow.protected.iter().any(|it| field.starts_with(it.as_str()));
            }
            let fact = |machine: &Machine| {
                let fact = machine.lets.iter().find(|(known, _)| &**known == name);
                fact.is_some_and(|(_, fact)| self.is_for_agent(fact.names(), depth + 1))
            };
            // Facts of facts; a definition has no circles, and few levels.
            depth < 8 && machines().any(fact)
        })
    }
}

/// Whether a set has all that one of the known sets has: then it is not minimal.
fn is_superset(known: &[(Supposed, Answer)], set: &Supposed) -> bool {
    let has = |(known, _): &(Supposed, Answer)| {
        known.iter().all(|(text, held)| set.get(text) == Some(held))
    };
    known.iter().any(has)
}

/// Functions and filters that look at what an agent can change.
const BY_AGENT: &[&str] = &[
    "exists",
    "text",
    "json",
    "glob",
    "digest",
    "digests",
    "modified",
    "last_message",
    "transcript",
    "said",
    "changed_files",
    "tree",
    "patched",
    "changes",
    "applied",
];

/// Whether a step lets a stop go, and not because of a fault.
fn opens(step: &Step) -> bool {
    matches!(&step.answer, Answer::Allow { outcome, .. } if *outcome != Some(Outcome::Fault))
        && step.wants.is_none()
}

/// The parts of guards that a decision has come to, and how each came out.
fn parts(step: &Step) -> Vec<(String, bool)> {
    let mut parts: Vec<(String, bool)> = Vec::new();
    for part in step.trace.tried.iter().flat_map(|tried| &tried.parts) {
        // A part that is negated is told with its `not`.
        let (text, held) = match part.text.strip_prefix("not ") {
            Some(text) => (text, !part.held),
            None => (part.text.as_str(), part.held),
        };
        if !parts.iter().any(|(known, _)| known == text) {
            parts.push((text.to_string(), held));
        }
    }
    parts
}

/// Whether facts can be so at once: of one value, no two texts.
fn is_possible(set: &Supposed) -> bool {
    let mut values: BTreeMap<&str, &str> = BTreeMap::new();
    set.iter().filter(|(_, held)| **held).all(|(text, _)| {
        let Some((of, value)) = text.split_once(" == ") else { return true };
        values.insert(of, value).is_none()
    })
}

fn negated(text: &str) -> String {
    for (is, is_not) in [(" == ", " != "), (" is not ", " is "), (" is ", " is not ")] {
        if let Some((left, right)) = text.split_once(is)
            && !text.contains(" and ")
            && !text.contains(" or ")
        {
            return format!("{left}{is_not}{right}");
        }
    }
    let is_simple = !text.contains(' ') || text.ends_with(')') && !text.contains(") ");
    if is_simple { format!("not {text}") } else { format!("not ({text})") }
}

/// The parts of all guards of a workflow, with the names in each.
fn leaves(workflow: &Workflow) -> BTreeMap<String, &Names> {
    fn add<'g>(parts: &'g GuardParts, leaves: &mut BTreeMap<String, &'g Names>) {
        match parts {
            GuardParts::All(items) | GuardParts::Any(items) => {
                for item in items {
                    add(item, leaves);
                }
            }
            GuardParts::Not(inner) => add(inner, leaves),
            GuardParts::Leaf(leaf) => {
                leaves.insert(leaf.text.clone(), Expression::names(leaf));
            }
        }
    }
    let mut leaves = BTreeMap::new();
    for (_, rule) in workflow.rules() {
        if let Some(guard) = &rule.when {
            add(Guard::parts(guard), &mut leaves);
        }
    }
    leaves
}
