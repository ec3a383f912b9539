//! Where a run has been, to be drawn into the picture of its workflow.

use std::collections::BTreeMap;

use crate::json::Json;
use crate::workflow::{MachineId, OUTER, Workflow};

/// Where a run is, and has been.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    /// The phase that it is in.
    pub current: String,
    /// What is known of its stays, by phase.
    pub stays: BTreeMap<String, Stay>,
    /// The last step from one phase to another.
    pub last: Option<(String, String)>,
    /// The first line of the journal that was counted.
    pub since: u64,
    /// How many elements are in each phase, by inner machine.
    pub elements: BTreeMap<String, BTreeMap<String, u64>>,
}

/// A run's time in a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stay {
    pub visits: u64,
    pub seconds: u64,
    pub blocks: u64,
}

impl Walk {
    /// A run that is in a phase, and of which nothing else is known.
    pub fn at(phase: &str) -> Walk {
        Walk { current: phase.to_string(), ..Walk::default() }
    }

    /// With how many elements of a document are in which phase.
    #[must_use]
    pub fn through(mut self, workflow: &Workflow, document: &Json) -> Walk {
        for (index, machine) in workflow.machines.iter().enumerate() {
            // A phase that is worked out depends on more than the element.
            if machine.binding.is_none() || machine.derive.is_some() {
                continue;
            }
            let counts = self.elements.entry(machine.name.to_string()).or_default();
            for element in objects(workflow, MachineId(index), document) {
                let initial = || machine.initial.map(|phase| &*machine.get(phase).name);
                let phase = element.get(&machine.field).map_or_else(initial, Json::as_str);
                if let Some(phase) = phase {
                    *counts.entry(phase.to_string()).or_default() += 1;
                }
            }
        }
        self
    }

    /// Whether the journal was read: a phase without a stay has not been visited.
    pub(super) fn is_counted(&self) -> bool {
        self.since > 0
    }

    /// What is told of a phase of the workflow's own machine.
    pub(super) fn of_phase(&self, phase: &str) -> String {
        self.stays.get(phase).map(Stay::to_words).unwrap_or_default()
    }

    /// What is told of a phase of an inner machine.
    pub(super) fn of_elements(&self, machine: &str, phase: &str) -> String {
        let count = self.elements.get(machine).and_then(|counts| counts.get(phase));
        count.map(|count| format!("{count} here")).unwrap_or_default()
    }

    /// That older lines were not counted, where there are some.
    pub(super) fn reservation(&self) -> Option<String> {
        (self.since > 1).then(|| format!("counted from line {} of the journal on", self.since))
    }
}

impl Stay {
    /// `2 visits · 14 min · 3 blocks`
    fn to_words(self: &Stay) -> String {
        let counted = |count: u64, what: &str| match count {
            1 => format!("1 {what}"),
            _ => format!("{count} {what}s"),
        };
        let mut words = vec![counted(self.visits, "visit"), time(self.seconds)];
        words.extend((self.blocks > 0).then(|| counted(self.blocks, "block")));
        words.join(" · ")
    }
}

/// A time in one unit, as a person would round it down.
fn time(seconds: u64) -> String {
    match seconds / 60 {
        0 => "< 1 min".into(),
        minutes @ ..120 => format!("{minutes} min"),
        minutes @ ..2880 => format!("{} h", minutes / 60),
        minutes => format!("{} days", minutes / 1440),
    }
}

/// The objects of a document that a machine runs on, or could.
fn objects<'d>(workflow: &Workflow, machine: MachineId, document: &'d Json) -> Vec<&'d Json> {
    let binding = match &workflow.machine(machine).binding {
        Some(binding) if machine != OUTER => binding,
        _ => return vec![document],
    };
    let above = objects(workflow, binding.of, document);
    let path = || binding.path.iter().map(String::as_str);
    let mut found = Vec::new();
    for object in above {
        match object.at(path()) {
            Some(Json::List(list)) => found.extend(list.0.iter()),
            Some(Json::Object(map)) => found.extend(map.iter().map(|(_, element)| element)),
            _ => {}
        }
    }
    found
}
