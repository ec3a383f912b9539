//! Whether a condition can hold: a search over the kinds of values of its subjects.

use super::{Class, Formula, Subjects};

/// How many kinds of values are tried before it is given up.
const MAX_TRIED: usize = 60_000;

/// What came of a search.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Solved {
    /// It can hold: the subjects that matter, each with a kind of value.
    Possible(Vec<(usize, Class)>),
    Impossible,
    /// It was given up.
    Unknown,
}

impl Solved {
    pub(crate) fn is_impossible(&self) -> bool {
        *self == Solved::Impossible
    }
}

/// Looks for values with which the condition holds.
pub(crate) fn solve(formula: &Formula, subjects: &Subjects) -> Solved {
    let classes = subjects.all.iter().map(|_| None).collect();
    let mut search = Search { subjects, classes, chosen: vec![None; subjects.all.len()], tried: 0 };
    search.run(formula)
}

struct Search<'s> {
    subjects: &'s Subjects,
    classes: Vec<Option<Vec<Class>>>,
    chosen: Vec<Option<Class>>,
    tried: usize,
}

impl Search<'_> {
    fn run(&mut self, formula: &Formula) -> Solved {
        let open = match self.look(formula) {
            Seen::Is(true) | Seen::Free => {
                let chosen = self.chosen.iter().enumerate();
                let chosen = chosen.filter_map(|(at, class)| Some((at, class.clone()?)));
                return Solved::Possible(chosen.collect());
            }
            Seen::Is(false) => return Solved::Impossible,
            Seen::Open(subject) => subject,
        };
        let classes =
            self.classes[open].get_or_insert_with(|| self.subjects.all[open].classes()).clone();
        for class in classes {
            self.tried += 1;
            if self.tried > MAX_TRIED {
                self.chosen[open] = None;
                return Solved::Unknown;
            }
            self.chosen[open] = Some(class);
            match self.run(formula) {
                Solved::Impossible => {}
                found => {
                    if found == Solved::Unknown {
                        self.chosen[open] = None;
                    }
                    return found;
                }
            }
        }
        self.chosen[open] = None;
        Solved::Impossible
    }

    fn look(&self, formula: &Formula) -> Seen {
        match formula {
            Formula::Known(known) => Seen::Is(*known),
            Formula::Test(subject, test) => match &self.chosen[*subject] {
                Some(class) => class.holds(test).map_or(Seen::Free, Seen::Is),
                None => Seen::Open(*subject),
            },
            Formula::Not(inner) => match self.look(inner) {
                Seen::Is(it) => Seen::Is(!it),
                open => open,
            },
            Formula::All(items) => self.list(items, false),
            Formula::Any(items) => self.list(items, true),
        }
    }

    /// What one item settles by being `settles` is settled, whatever is open of the others.
    fn list(&self, items: &[Formula], settles: bool) -> Seen {
        let (mut open, mut free) = (None, false);
        for item in items {
            match self.look(item) {
                Seen::Is(it) if it == settles => return Seen::Is(settles),
                Seen::Is(_) => {}
                Seen::Free => free = true,
                Seen::Open(subject) => open = open.or(Some(subject)),
            }
        }
        match open {
            Some(subject) => Seen::Open(subject),
            None if free => Seen::Free,
            None => Seen::Is(!settles),
        }
    }
}

enum Seen {
    Is(bool),
    /// It depends on this subject first.
    Open(usize),
    /// It may be either, whatever is chosen.
    Free,
}
