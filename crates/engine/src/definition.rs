//! A workflow as it is written: the TOML, read piece by piece so that one mistake does not hide
//! the next.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IntoDeserializer};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::answer::{Outcome, Until};
use crate::diagnostic::{Diagnostics, Source, closest};

/// A workflow with the files that lie beside it.
#[derive(Clone, Debug)]
pub struct Bundle {
    pub definition: Arc<Source>,
    /// Prompts, templates, cases and the demo, by path relative to the definition.
    pub files: BTreeMap<String, Arc<Source>>,
}

impl Bundle {
    /// Everything that a decision can depend on: the definition, its prompts and its templates.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let files = self
            .files
            .iter()
            .filter(|(path, _)| path.starts_with("prompts/") || path.starts_with("templates/"));
        let files = files.flat_map(|(path, file)| [path.as_bytes(), file.text.as_bytes()]);
        std::iter::once(self.definition.text.as_bytes()).chain(files)
    }
}

/// The keys before the first table. They say what the workflow is and where its runs are found.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "head")]
pub struct Head {
    /// What the workflow is called.
    pub name: String,
    /// One sentence for people.
    pub about: String,
    /// Where the state documents are, relative to the project. A `*` stands for the run's name.
    pub document: Option<String>,
    /// The phase in which a run starts.
    #[schemars(with = "String")]
    pub initial: Spanned<String>,
    /// The field of the state document that holds the phase.
    #[serde(default = "Head::field")]
    pub field: String,
    /// A field that is set to the time of every change.
    pub updated: Option<String>,
    /// What a stop that follows a block means.
    #[serde(default)]
    pub reentry: Reentry,
    /// How many blocks in a row are insisted on while nothing changes.
    #[serde(default = "Head::patience")]
    pub patience: u32,
    /// The exit code of a block, for clients whose contract wants one.
    #[serde(default)]
    pub block_exit: u8,
    /// Whether a block's reason ends with the way out of the run.
    #[serde(default = "Head::way_out")]
    pub way_out: bool,
}

impl Head {
    fn field() -> String {
        "phase".into()
    }

    fn patience() -> u32 {
        1
    }

    fn way_out() -> bool {
        true
    }

    /// Reads only the head of a definition: what finding a run needs, at a fraction of the cost.
    ///
    /// TOML's root keys stand before the first table, so the text up to there is enough. Where
    /// that text is not TOML by itself (a line of a string looks like a table), all of it is read.
    pub fn read(source: &str) -> Result<Head, toml::de::Error> {
        let cut = if source.starts_with('[') { Some(0) } else { source.find("\n[") };
        let head = &source[..cut.map_or(source.len(), |newline| newline + 1)];
        if let Ok(head) = toml::from_str(head) {
            return Ok(head);
        }
        let mut table = DeTable::parse(source)?;
        let tables = table.get_ref().iter().filter(|(_, value)| is_table(value));
        let names: Vec<String> = tables.map(|(name, _)| name.get_ref().to_string()).collect();
        for name in &names {
            table.get_mut().remove(name.as_str());
        }
        Head::deserialize(table.into_deserializer())
    }
}

fn is_table(value: &Spanned<DeValue>) -> bool {
    matches!(value.get_ref(), DeValue::Table(_))
}

/// What a stop that follows a block means.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Reentry {
    /// Go on if the last block was ours and something has changed since.
    #[default]
    Progress,
    /// Always go on: the workflow has a limit of its own.
    Always,
    /// Allow every such stop.
    Never,
}

/// A machine bound to the elements of a list or map of the state document.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "machine")]
pub struct MachineHead {
    /// The list or map whose elements this machine runs on, in order.
    #[schemars(with = "String")]
    pub each: Spanned<String>,
    /// An expression for the element, or the list of elements, to run on instead of each: keys or
    /// positions.
    #[schemars(with = "Option<String>")]
    pub pick: Option<Spanned<String>>,
    /// The element's field that holds its phase.
    #[serde(default = "Head::field")]
    pub field: String,
    /// The phase of an element that has none yet.
    #[schemars(with = "Option<String>")]
    pub initial: Option<Spanned<String>>,
}

/// A phase's own keys.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "phase")]
pub struct PhaseHead {
    /// One sentence for people.
    pub about: Option<String>,
    /// The run ends here.
    #[serde(default, rename = "final")]
    pub is_final: bool,
    /// What a stop in a final phase is answered with.
    pub outcome: Option<Outcome>,
}

/// On an event, when a guard holds: set, go to, answer.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "rule")]
pub struct RuleText {
    /// The event, or several. Rules under `always` have none.
    pub on: Option<OneOrMore>,
    /// The guard: an expression. Without one the rule always holds.
    #[schemars(with = "Option<String>")]
    pub when: Option<Spanned<String>>,
    /// Fields to set, by path.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, ValueText>")]
    pub set: IndexMap<Spanned<String>, Spanned<ValueText>>,
    /// The phase to go to.
    #[schemars(with = "Option<String>")]
    pub goto: Option<Spanned<String>>,
    /// The inner machine to ask first: the first of its elements that answers, answers for all.
    #[schemars(with = "Option<String>")]
    pub ask: Option<Spanned<String>>,
    /// Answer: go on, with this reason.
    #[schemars(with = "Option<Text>")]
    pub block: Option<Spanned<Text>>,
    /// Answer: stop, with this outcome.
    pub allow: Option<Outcome>,
    /// Answer to an action: no, with this reason.
    #[schemars(with = "Option<Text>")]
    pub deny: Option<Spanned<Text>>,
    /// What a `waiting` waits for.
    pub until: Option<Until>,
    /// What the user is told with an `allow`.
    #[schemars(with = "Option<Text>")]
    pub message: Option<Spanned<Text>>,
}

/// A name or several.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl OneOrMore {
    /// All of them.
    pub fn names(&self) -> &[String] {
        match self {
            OneOrMore::One(name) => std::slice::from_ref(name),
            OneOrMore::More(names) => names,
        }
    }
}

/// A text with `{{ }}` holes: here, or in a file of the workflow's `prompts/`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a text, or { prompt = \"file\" }")]
pub enum Text {
    Inline(String),
    File {
        /// A file in `prompts/`.
        prompt: String,
    },
}

/// What a field is set to.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "an expression, a number, true, false, or { template = \"file\" }")]
pub enum ValueText {
    Bool(bool),
    Integer(i64),
    Expression(String),
    Template {
        /// A file in `templates/` whose rendered text is JSON.
        template: String,
    },
}

/// The type of a field: its name (with `?` where it may be absent), or a table.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a type's name, or a table of type, list, map, one_of, default")]
pub enum FieldText {
    Name(String),
    Full(FieldTable),
}

/// The long form of a field's type.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "field")]
pub struct FieldTable {
    /// string, integer, number, boolean, any, or a record's name.
    #[serde(rename = "type")]
    pub ty: Option<String>,
    /// A list of this type.
    pub list: Option<String>,
    /// An object whose members have this type.
    pub map: Option<String>,
    /// One of these strings.
    pub one_of: Option<Vec<String>>,
    /// May be absent or null.
    #[serde(default)]
    pub optional: bool,
    /// What it reads as when absent.
    #[schemars(with = "Option<serde_json::Value>")]
    pub default: Option<toml::Value>,
}

/// Something that a person or an agent can ask of the workflow.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "action")]
pub struct ActionText {
    /// One sentence for people.
    pub about: String,
    /// A template in `templates/` that makes a new state document.
    #[schemars(with = "Option<String>")]
    pub creates: Option<Spanned<String>>,
    /// The name of the run that is created, a text with holes.
    #[schemars(with = "Option<String>")]
    pub name: Option<Spanned<String>>,
    /// A template in `templates/` whose text is shown.
    #[schemars(with = "Option<String>")]
    pub shows: Option<Spanned<String>>,
    /// A template in `templates/` whose JSON is shown with `--json`.
    #[schemars(with = "Option<String>")]
    pub shows_json: Option<Spanned<String>>,
    /// Parameters, by name.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, ParamText>")]
    pub param: IndexMap<String, ParamText>,
}

/// A parameter of an action.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "param")]
pub struct ParamText {
    /// What kind of value it takes.
    #[serde(rename = "type")]
    pub ty: ParamType,
    /// One sentence for people.
    pub about: String,
    /// What it is when not given. Without a default it must be given.
    #[schemars(with = "Option<serde_json::Value>")]
    pub default: Option<toml::Value>,
    /// It may be left out, and is then none.
    #[serde(default)]
    pub optional: bool,
}

/// What a parameter takes.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ParamType {
    String,
    Integer,
    Boolean,
    /// The path of a file whose JSON is the value.
    JsonFile,
}

/// A whole definition, as written.
#[derive(Clone, Debug)]
pub struct Definition {
    pub head: Head,
    pub constants: Vec<(Spanned<String>, toml::Value)>,
    pub records: Vec<RecordText>,
    pub outer: MachineText,
    pub inner: Vec<InnerText>,
    pub actions: Vec<(Spanned<String>, ActionText)>,
}

/// A record and its fields.
#[derive(Clone, Debug)]
pub struct RecordText {
    pub name: Spanned<String>,
    pub fields: Vec<(Spanned<String>, Spanned<FieldText>)>,
}

/// The parts that every machine has.
#[derive(Clone, Debug, Default)]
pub struct MachineText {
    pub lets: Vec<(Spanned<String>, Spanned<String>)>,
    pub any: Rules,
    pub phases: Vec<PhaseText>,
}

/// An inner machine.
#[derive(Clone, Debug)]
pub struct InnerText {
    pub name: Spanned<String>,
    pub head: MachineHead,
    pub machine: MachineText,
}

/// A phase with its rules.
#[derive(Clone, Debug)]
pub struct PhaseText {
    pub name: Spanned<String>,
    pub head: PhaseHead,
    pub rules: Rules,
}

/// Rules for events, and rules that need none.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    pub rules: Vec<(Range<usize>, RuleText)>,
    pub always: Vec<(Range<usize>, RuleText)>,
}

impl Definition {
    /// Reads a definition; `None` where its head is not readable.
    pub fn read(source: &Arc<Source>, found: &mut Diagnostics) -> Option<Definition> {
        let (table, errors) = DeTable::parse_recoverable(&source.text);
        for error in &errors {
            let span = error.span().unwrap_or(0..0);
            found.error("toml", source, span, error.message());
        }
        if !errors.is_empty() {
            return None;
        }
        Reader { source, found }.definition(table)
    }
}

struct Reader<'a> {
    source: &'a Arc<Source>,
    found: &'a mut Diagnostics,
}

type Table<'i> = Spanned<DeTable<'i>>;

impl Reader<'_> {
    fn definition(&mut self, mut root: Table) -> Option<Definition> {
        let constants = self
            .entries(&mut root, "const")
            .into_iter()
            .filter_map(|(name, value)| Some((name, self.read(value)?)))
            .collect();
        let mut records = Vec::new();
        if let Some(fields) = self.table(&mut root, "state") {
            let name = Spanned::new(fields.span(), "state".to_string());
            records.push(self.record(name, fields));
        }
        for (name, value) in self.entries(&mut root, "record") {
            if let Some(fields) = self.as_table(&name, value) {
                records.push(self.record(name, fields));
            }
        }
        let mut inner = Vec::new();
        for (name, value) in self.entries(&mut root, "machine") {
            if let Some(mut table) = self.as_table(&name, value) {
                let machine = self.machine(&mut table);
                if let Some(head) = self.rest(table) {
                    inner.push(InnerText { name, head, machine });
                }
            }
        }
        let actions = self
            .entries(&mut root, "action")
            .into_iter()
            .filter_map(|(name, value)| Some((name, self.read(value)?)))
            .collect();
        let outer = self.machine(&mut root);
        let head = self.rest(root)?;
        Some(Definition { head, constants, records, outer, inner, actions })
    }

    fn machine(&mut self, table: &mut Table) -> MachineText {
        let lets = self
            .entries(table, "let")
            .into_iter()
            .filter_map(|(name, value)| Some((name, self.read(value)?)))
            .collect();
        let any = match self.table(table, "any") {
            Some(mut any) => {
                let rules = self.rules(&mut any);
                self.rest::<Nothing>(any);
                rules
            }
            None => Rules::default(),
        };
        let mut phases = Vec::new();
        for (name, value) in self.entries(table, "phase") {
            if let Some(mut phase) = self.as_table(&name, value) {
                let rules = self.rules(&mut phase);
                if let Some(head) = self.rest(phase) {
                    phases.push(PhaseText { name, head, rules });
                }
            }
        }
        MachineText { lets, any, phases }
    }

    fn rules(&mut self, table: &mut Table) -> Rules {
        let mut read = |key: &str| {
            let Some(value) = table.get_mut().remove(key) else { return Vec::new() };
            let span = value.span();
            let DeValue::Array(items) = value.into_inner() else {
                self.found.error("shape", self.source, span, format!("`{key}` is a list of rules"));
                return Vec::new();
            };
            let rules = items.into_iter().filter_map(|item| {
                let span = item.span();
                Some((span, self.read(item)?))
            });
            rules.collect()
        };
        Rules { rules: read("rules"), always: read("always") }
    }

    fn record(&mut self, name: Spanned<String>, fields: Table) -> RecordText {
        let fields = owned_entries(fields)
            .into_iter()
            .filter_map(|(name, value)| Some((name, self.read(value)?)))
            .collect();
        RecordText { name, fields }
    }

    /// Takes the table `key` out of `table`, as name and value pairs.
    fn entries<'i>(
        &mut self,
        table: &mut Table<'i>,
        key: &str,
    ) -> Vec<(Spanned<String>, Spanned<DeValue<'i>>)> {
        self.table(table, key).map(owned_entries).unwrap_or_default()
    }

    fn table<'i>(&mut self, table: &mut Table<'i>, key: &str) -> Option<Table<'i>> {
        let (name, value) = table.get_mut().remove_entry(key)?;
        self.as_table(&owned(name), value)
    }

    fn as_table<'i>(
        &mut self,
        name: &Spanned<String>,
        value: Spanned<DeValue<'i>>,
    ) -> Option<Table<'i>> {
        let span = value.span();
        if let DeValue::Table(table) = value.into_inner() {
            return Some(Spanned::new(span, table));
        }
        let message = format!("`{}` is a table", name.get_ref());
        self.found.error("shape", self.source, span, message);
        None
    }

    fn read<T: DeserializeOwned>(&mut self, value: Spanned<DeValue>) -> Option<T> {
        let span = value.span();
        self.keep(span, T::deserialize(value.into_deserializer()))
    }

    fn rest<T: DeserializeOwned>(&mut self, table: Table) -> Option<T> {
        let span = table.span();
        self.keep(span, T::deserialize(table.into_deserializer()))
    }

    fn keep<T>(&mut self, span: Range<usize>, read: Result<T, toml::de::Error>) -> Option<T> {
        match read {
            Ok(value) => Some(value),
            Err(error) => {
                let message = error.message().to_string();
                let hint = meant(&message);
                let span = error.span().unwrap_or(span);
                self.found.error("shape", self.source, span, message).hint = hint;
                None
            }
        }
    }
}

/// A hint for serde's "unknown field `a`, expected one of `b`, `c`".
fn meant(message: &str) -> Option<String> {
    let rest =
        message.strip_prefix("unknown field `").or(message.strip_prefix("unknown variant `"))?;
    let names: Vec<&str> = rest.split('`').step_by(2).collect();
    let (unknown, known) = names.split_first()?;
    closest(unknown, known.iter().copied()).map(|name| format!("did you mean `{name}`?"))
}

/// A table that has no keys of its own.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

fn owned(name: Spanned<std::borrow::Cow<str>>) -> Spanned<String> {
    Spanned::new(name.span(), name.into_inner().into_owned())
}

fn owned_entries(table: Table) -> Vec<(Spanned<String>, Spanned<DeValue>)> {
    table.into_inner().into_iter().map(|(name, value)| (owned(name), value)).collect()
}
