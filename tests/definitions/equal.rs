//! Whether two definitions decide alike: the shorter forms are other words for the same machines.
//!
//! Both are resolved, and what decides is compared: facts, phases, and for each phase and event the
//! rules that are tried, in order. What is left out, and why it makes no difference:
//!
//! - labels, lines and the order of phases, records and facts: nothing is decided by them;
//! - which rules of other events stand between those of an event: they are not tried for it. So a rule
//!   for several events and several rules with one event each are equal, and so are refusals under
//!   `denies`, behind the rules of other events;
//! - the order of assignments of one rule to different fields;
//! - whether a text stands in the definition or in `prompts/`, and whether a literal is written as one
//!   (`as = "ok"`) or as an expression (`"'ok'"`);
//! - a choice is compared as the chain of `if` and `else` that it stands for.

use std::collections::{BTreeMap, BTreeSet};

use phasegate_engine::definition::Bundle;
use phasegate_engine::diagnostic::Source;
use phasegate_engine::json::Json;
use phasegate_engine::resolve::{Expressions, Overrides, resolve};
use phasegate_engine::workflow::{
    Assignment, Choice, CommandLine, Does, Machine, NewValue, Reply, Rule, TextId, Workflow,
    Written,
};

fn resolved(bundle: &Bundle) -> Workflow {
    resolve(bundle, &Overrides::default(), Expressions::Checked)
        .unwrap_or_else(|found| panic!("{}", found.render(false)))
}

/// One of the two, as it is compared.
struct Seen<'w> {
    workflow: &'w Workflow,
}

impl Seen<'_> {
    fn text(&self, id: TextId) -> String {
        self.workflow.texts[id.0].text.trim_end().to_string()
    }

    fn value(&self, value: &NewValue) -> String {
        match value {
            NewValue::Literal(Json::String(text)) => format!("'{text}'"),
            NewValue::Literal(value) => value.to_text(None),
            NewValue::Expression(expression) => expression.text.clone(),
            NewValue::Rendered(text) => format!("JSON of {}", self.text(*text)),
        }
    }

    /// What a rule sets, whatever the order. A person's verdict is set where the guard has just compared
    /// it with a text, so that the text says the same.
    fn set(&self, rule: &Rule) -> BTreeMap<String, String> {
        let verdict = rule.when.as_ref().and_then(|guard| {
            let text = guard.whole.text.strip_prefix("verdict == ")?;
            Some(text.to_string())
        });
        let place = |it: &Assignment| {
            let of = &self.workflow.machine(it.machine).name;
            std::iter::once(&**of)
                .chain(it.path.iter().map(String::as_str))
                .collect::<Vec<_>>()
                .join(".")
        };
        let value = |it: &Assignment| match (self.value(&it.value), &verdict) {
            (value, Some(verdict)) if value == "verdict" => verdict.clone(),
            (value, _) => value,
        };
        let set: BTreeMap<_, _> = rule.set.iter().map(|it| (place(it), value(it))).collect();
        assert_eq!(set.len(), rule.set.len(), "{} sets a field twice", rule.label);
        set
    }

    /// A rule as one event sees it.
    fn rule(&self, machine: &Machine, rule: &Rule, event: &str) -> String {
        let workflow = self.workflow;
        let mut guard = rule.when.as_ref().map(|guard| guard.whole.text.clone());
        if let (Some(guard), true) = (&mut guard, event != "next") {
            // Only `next` has a parameter that forces anything.
            *guard = guard.replace("not forced and ", "");
        }
        let reply = match &rule.reply {
            None => "nothing".to_string(),
            Some(Reply::Block(text)) => format!("block {}", self.text(*text)),
            Some(Reply::Deny(text)) => format!("deny {}", self.text(*text)),
            Some(Reply::Allow { outcome, until, message }) => {
                format!("allow {outcome:?} {until:?} {:?}", message.map(|text| self.text(text)))
            }
        };
        let texts = |pairs: &[(TextId, TextId)]| -> Vec<(String, String)> {
            pairs.iter().map(|(a, b)| (self.text(*a), self.text(*b))).collect()
        };
        let run: Vec<&str> = rule.run.iter().map(|at| &*workflow.jobs[*at].name).collect();
        [
            format!("when {guard:?}"),
            format!("set {:?}", self.set(rule)),
            format!("goto {:?}", rule.goto.map(|to| &machine.get(to).name)),
            format!("carry {}", rule.carry.iter().any(|on| on == event)),
            format!("ask {:?}", rule.ask.map(|asked| &workflow.machine(asked).name)),
            reply,
            format!("write {:?} move {:?}", self.written(rule), texts(&rule.moved)),
            format!("run {run:?} remove {}", rule.remove),
            format!("start {:?}", rule.start.map(|at| workflow.jobs[at].only_id())),
            format!("end {:?}", rule.end.as_ref().map(|ids| ids.text.clone())),
            format!("code {:?}", rule.code),
        ]
        .join("\n  ")
    }

    fn written(&self, rule: &Rule) -> Vec<(String, String)> {
        let texts = rule.write.iter().map(|(place, written)| match written {
            Written::Text(text) => (self.text(*place), self.text(*text)),
            other => (self.text(*place), format!("{other:?}")),
        });
        texts.collect()
    }

    /// The rules of each phase, for each event, in the order in which they are tried.
    fn rules(&self, machine: &Machine) -> BTreeMap<(String, String), Vec<String>> {
        let mut found = BTreeMap::new();
        for phase in &machine.phases {
            let always = machine.always_in(phase).map(|rule| self.rule(machine, rule, ""));
            found.insert((phase.name.to_string(), String::new()), always.collect::<Vec<_>>());
            let events = machine.rules_in(phase).flat_map(|rule| &rule.on);
            for event in events.collect::<BTreeSet<_>>() {
                let rules = machine.rules_in(phase).filter(|rule| rule.on.contains(event));
                let rules = rules.map(|rule| self.rule(machine, rule, event)).collect();
                found.insert((phase.name.to_string(), event.clone()), rules);
            }
        }
        found
    }

    fn facts(&self, machine: &Machine) -> BTreeMap<String, String> {
        let lets = machine.lets.iter();
        let lets = lets.map(|(name, it)| (name.to_string(), it.text.clone()));
        let chains = machine.choices.iter().map(|it| (it.name.to_string(), self.chain(it)));
        lets.chain(chains).collect()
    }

    /// A choice as one expression.
    fn chain(&self, choice: &Choice) -> String {
        let rows = choice.rows.iter().map(|row| {
            let value = self.value(&row.value);
            let when = row.when.as_ref().map(|when| when.text.clone());
            when.map_or(value.clone(), |when| format!("{value} if {when}"))
        });
        rows.collect::<Vec<_>>().join(" else ")
    }

    fn phases(machine: &Machine) -> BTreeMap<String, String> {
        let phases = machine.phases.iter();
        phases.map(|it| (it.name.to_string(), format!("{:?} {:?}", it.about, it.ends))).collect()
    }

    /// What is said of the whole, and where the elements of machines are.
    fn head(&self) -> String {
        let it = self.workflow;
        let texts = [it.note, it.unreadable, it.presumed, it.guidance];
        let transcript = it.transcript.map(|(place, line)| [place, line].map(|it| self.text(it)));
        let texts = (texts.map(|text| text.map(|text| self.text(text))), transcript);
        // What others may change as well was protected, and reported as tampering.
        let mut noticed: Vec<&String> = it.protected.iter().chain(&it.watched).collect();
        noticed.sort();
        let place = (&it.name, &it.about, &it.document, &it.fallback, &it.updated, noticed);
        let stops = (it.reentry, it.patience, it.block_exit, it.way_out);
        let bindings = it.machines.iter().map(|machine| {
            let binding = machine.binding.as_ref();
            let pick = binding.and_then(|binding| binding.pick.as_ref()).map(|pick| &pick.text);
            format!("{:?} {pick:?}", binding.map(|binding| (binding.of, &binding.path)))
        });
        format!("{place:?} {stops:?} {texts:?} {:?}", bindings.collect::<Vec<_>>())
    }

    fn actions(&self) -> Vec<String> {
        let actions = self.workflow.actions.iter().map(|action| {
            let does = match &action.does {
                Does::Create { name, document, shows } => {
                    let texts = [*name, Some(*document), *shows];
                    format!("creates {:?}", texts.map(|text| text.map(|text| self.text(text))))
                }
                Does::Show { text, json, alone } => {
                    let texts = [Some(*text), *json].map(|text| text.map(|text| self.text(text)));
                    format!("shows {texts:?} alone {alone}")
                }
                Does::Event => "event".to_string(),
            };
            let of = (&action.name, &action.command, &action.about, &action.by);
            let params = action.params.iter();
            let params: Vec<String> = params.map(|it| self.typed(&format!("{it:?}"))).collect();
            format!("{of:?} {does} {params:#?}")
        });
        actions.collect()
    }

    fn records(&self) -> BTreeMap<String, String> {
        let records = self.workflow.records.0.iter().map(|record| {
            let fields = record.fields.iter().map(|field| self.typed(&format!("{field:?}")));
            (record.name.to_string(), fields.collect::<Vec<_>>().join("\n"))
        });
        records.collect()
    }

    /// Records are numbered in the order in which they stand.
    fn typed(&self, text: &str) -> String {
        let records = self.workflow.records.0.iter().enumerate();
        records.fold(text.to_string(), |text, (at, record)| {
            text.replace(&format!("RecordId({at})"), &format!("Record {}", record.name))
        })
    }

    /// What is run.
    fn run(&self) -> Vec<String> {
        let jobs = self.workflow.jobs.iter().map(|it| {
            let texts: Vec<String> = it.texts().map(|text| self.text(text)).collect();
            let expressions: Vec<&str> = it.expressions().map(|it| it.text.as_str()).collect();
            let facts: Vec<&String> = it.facts.iter().map(|(name, _)| name).collect();
            let words = match &it.run {
                CommandLine::Words(words) => Some(words),
                _ => None,
            };
            let rest = (it.manner, it.role, it.timeout, &it.constant, words);
            format!("{} {texts:?} {expressions:?} {facts:?} {rest:?}", it.only_id())
        });
        jobs.collect()
    }
}

/// Asserts that two workflows are equal in all that decides.
fn assert_equal(name: &str, was: &Seen, now: &Seen) {
    assert_eq!(was.head(), now.head());
    assert_eq!(was.workflow.machines.len(), now.workflow.machines.len(), "{name}");
    for (a, b) in was.workflow.machines.iter().zip(&now.workflow.machines) {
        assert_eq!((&a.name, &a.field), (&b.name, &b.field), "{name}");
        let initial = |it: &Machine| it.initial.map(|id| it.get(id).name.clone());
        assert_eq!(initial(a), initial(b), "{name} {}", a.name);
        assert_eq!(Seen::phases(a), Seen::phases(b), "{name} {}", a.name);
        let (mut rules, other) = (was.rules(a), now.rules(b));
        for (place, now) in &other {
            let was = rules.remove(place).unwrap_or_default();
            let differs = was.iter().zip(now).find(|(was, now)| was != now);
            assert!(differs.is_none(), "{name} {place:?}: {differs:#?}");
            assert_eq!(was.len(), now.len(), "{name} {place:?}");
        }
        assert!(rules.is_empty(), "{name}: lost {:?}", rules.keys());
        let (mut was, mut now) = (was.facts(a), now.facts(b));
        if let Some(told) = now.remove("told") {
            // It was `derive` itself, with brackets; the next test compares what it tells.
            assert!(told.contains(" else 'aborted' if state.event == 'ABORT' else "), "{told}");
        }
        if let Some(top) = was.get_mut("top") {
            *top = top.replace("(state.stack | last)", "state.stack | last");
        }
        assert_eq!(was, now, "{name} {}", a.name);
    }
    for (was, now) in was.actions().iter().zip(now.actions()) {
        assert_eq!(*was, now, "{name}");
    }
    assert_eq!(was.workflow.actions.len(), now.workflow.actions.len(), "{name}");
    let constants = |it: &Seen| format!("{:?}", it.workflow.constants);
    assert_eq!(constants(was), constants(now), "{name}");
    assert_eq!(was.records(), now.records(), "{name}");
    assert_eq!(was.run(), now.run(), "{name}");
}

/// Asserts that two definitions, without files, are equal in all that decides.
pub fn assert_same(short: &str, long: &str) {
    let resolved = |text: &str| {
        let definition = Source::new("w.toml", text.to_string());
        resolved(&Bundle { definition, files: BTreeMap::new() })
    };
    let (long, short) = (resolved(long), resolved(short));
    let seen = |workflow| Seen { workflow };
    assert_equal("w", &seen(&long), &seen(&short));
}
