//! The functions and filters that guards and texts may use, beside Jinja's own.

mod files;

use std::collections::{HashMap, HashSet};
use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Rest;
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior, Value};
use regex_lite::Regex;

use crate::bom;
use crate::digest::{digest, digest_of};
use crate::evidence::{NoEvidence, Recorder};
use crate::json::{Json, Object};
use crate::markdown;
use crate::patch;
use crate::types::{Records, Type};

/// Functions that look something up, and the filters of our own, each with what it does. The
/// documentation and the check of definitions come from these tables.
pub const FUNCTIONS: &[(&str, &str)] = &[
    ("exists", "exists(path): whether the file exists"),
    ("text", "text(path): the text of a file; empty if it is missing or not text"),
    ("json", "json(path[, record]): {exists, ok, value, error, digest} of a JSON file"),
    ("glob", "glob(pattern): the files that match, sorted"),
    ("digest", "digest(path): the BLAKE3 digest of a file; none if it is missing"),
    ("modified", "modified(path): when a file was last changed; none if it is missing"),
    ("now", "now(): the time, as text"),
    ("env", "env(name): an environment variable; none if it is not set"),
    ("last_message", "last_message(): the agent's last message; empty if it said nothing"),
    ("transcript", "transcript(): what the agent said in this turn, a list of texts"),
    ("said", "said([time]): what the agent said since somebody last spoke to it, and since a time"),
    (
        "changed_files",
        "changed_files([folder]): files that differ from the last commit, and new ones",
    ),
    ("tree", "tree(): the digest of the project's files, as checks see them"),
    ("patched", "patched(path): the files that a patch changes, as it names them"),
    (
        "snapshot",
        "snapshot([paths]): keeps the files of the project as they are, and returns what they are kept under; none without git. Files that git ignores are kept where `paths` names them",
    ),
    (
        "changes",
        "changes(snapshot[, paths]): {ok, error, base, tree, digest, files, stat, lines} of what has changed since then, committed or not: the digest of the patch, the paths, {path, added, removed} of each, and the number of lines (none where one file is binary)",
    ),
    (
        "applied",
        "applied(path, snapshot): what the files would be kept under with a patch applied to them; none where it does not apply",
    ),
    (
        "agent_log",
        "agent_log(id[, from[, most]]): {text, next, size} of what an agent printed, from a byte on; from the end with a negative `from`",
    ),
    (
        "agent_message",
        "agent_message(id): what an agent said last; none where it said nothing, or its program is not one whose words are known",
    ),
    ("new_id", "new_id(): a unique name"),
    ("fail", "fail(text): ends the decision, or the action, with this message"),
    ("range", "range(n): the numbers from 0 to n - 1"),
    ("dict", "dict(a=1): an object"),
    ("namespace", "namespace(): a place for values that a loop sets"),
];

/// Filters beside Jinja's own.
pub const FILTERS: &[(&str, &str)] = &[
    ("table", "text | table: the rows of its Markdown tables, each by the header's names"),
    (
        "columns",
        "text | columns('id', 'status'): the rows of its Markdown tables, each with these columns, whatever the case of their names; the first is the first column where no column is called so",
    ),
    ("digests", "paths | digests: one digest of the content of these files"),
    ("group_by", "list | group_by('a.b'): [{key, items, count}] in order of first appearance"),
    (
        "capture",
        "text | capture(regex): what its first group matches, or all of it; none where it does not match",
    ),
    ("positions", "list | positions('a', values): where the elements are whose `a` is among them"),
    ("age", "time | age: the seconds since then; the age of none is infinite"),
    ("filename", "text | filename: the text as a safe, unambiguous file name"),
    (
        "plain_lines",
        "text | plain_lines: its lines outside of code, trimmed; of a list, those of each text",
    ),
    ("slug", "text | slug: a short lower-case name for files and branches; no two texts share one"),
    ("stem", "path | stem: the file's name without folder and extension"),
];

const JINJA_FILTERS: &str = "abs attr batch bool capitalize chain count d default dictsort e \
    escape first float format groupby indent int items join last length lines list lower map max \
    min pprint reject rejectattr replace reverse round safe select selectattr slice sort split \
    string sum title tojson trim unique upper urlencode zip";

const JINJA_TESTS: &str = "boolean containing defined divisibleby endingwith eq equalto escaped \
    even false filter float ge greaterthan gt in integer iterable le lessthan lower lt mapping ne \
    none number odd safe sameas sequence startingwith string test true undefined upper";

/// Names of all filters.
pub fn filters() -> impl Iterator<Item = &'static str> {
    FILTERS.iter().map(|(name, _)| *name).chain(JINJA_FILTERS.split_whitespace())
}

/// Tests beside Jinja's own.
pub const TESTS: &[(&str, &str)] = &[
    ("like", "path is like(patterns): whether one of these path patterns matches it"),
    ("matching", "text is matching(regex): whether a regular expression matches a part of it"),
    ("time", "text is time: whether it is a time, as `age` reads it"),
];

/// Names of all tests.
pub fn tests() -> impl Iterator<Item = &'static str> {
    TESTS.iter().map(|(name, _)| *name).chain(JINJA_TESTS.split_whitespace())
}

/// How many steps one expression or text may take. A report on 100,000 entries takes some millions of them;
/// two loops in each other over as many would take hours.
pub const MAX_STEPS: u64 = 50_000_000;

/// An environment in which expressions look things up through `evidence`.
pub fn environment<'e>(evidence: &Arc<Recorder>, records: &Records) -> Environment<'e> {
    let mut env = Environment::new();
    env.set_undefined_behavior(UndefinedBehavior::Strict);
    env.set_fuel(Some(MAX_STEPS));
    if let Ok(syntax) = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build() {
        env.set_syntax(syntax);
    }
    look_ups(&mut env, evidence, records);
    files::look_ups(&mut env, evidence);
    env.add_filter("table", |text: &str| Json::from(markdown::tables(text)).to_value());
    env.add_filter("columns", |text: &str, names: Rest<String>| {
        Json::from(markdown::columns(text, &names)).to_value()
    });
    let world = evidence.clone();
    env.add_filter("digests", move |paths: &Value| {
        let mut pieces = Vec::new();
        for path in paths.try_iter()? {
            let path = path.as_str().unwrap_or_default().to_string();
            // What cannot be looked at is told apart from what is not there.
            let content = match world.read(&path) {
                Ok(Some(bytes)) => digest(&bytes),
                Ok(None) => "absent".into(),
                Err(_) => "unreadable".into(),
            };
            pieces.push(format!("{path}\0{content}\0"));
        }
        Ok::<String, Error>(digest_of(pieces.iter().map(String::as_bytes)))
    });
    env.add_filter("group_by", group_by);
    env.add_filter("positions", positions);
    let clock = evidence.clone();
    env.add_filter("age", move |time: Option<&str>| {
        let Some(time) = time else { return Ok(i64::MAX) };
        let time: Timestamp = time.parse().map_err(|error| {
            let detail = format!("{time:?} is not a time (as 2026-01-31T10:00:00Z): {error}");
            Error::new(ErrorKind::InvalidOperation, detail)
        })?;
        Ok::<i64, Error>(clock.now().as_second() - time.as_second())
    });
    env.add_test("time", |time: &Value| {
        time.as_str().is_some_and(|time| time.parse::<Timestamp>().is_ok())
    });
    let patterns = Arc::new(Patterns::default());
    let known = patterns.clone();
    env.add_test("matching", move |text: &Value, regex: &str| {
        let text = text.as_str().unwrap_or_default();
        Ok::<bool, Error>(known.get(regex)?.is_match(text))
    });
    env.add_filter("capture", move |text: &str, regex: &str| {
        let found = patterns.get(regex)?.captures(text);
        let part = found.and_then(|found| found.get(1).or(found.get(0)));
        Ok::<Value, Error>(part.map_or(Value::from(()), |part| Value::from(part.as_str())))
    });
    env.add_filter("plain_lines", plain_lines);
    env.add_filter("slug", |text: Value| slug(&text.to_string()));
    env.add_filter("filename", |text: Value| filename(&text.to_string()));
    env.add_filter("stem", |path: &str| {
        let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
        match name.rsplit_once('.') {
            Some((stem, _)) if !stem.is_empty() => stem.to_string(),
            _ => name.to_string(),
        }
    });
    env
}

/// How much of a log is shown where nothing is said.
const MOST_LOG: u64 = 1_000;

/// A part of what an agent printed, from a whole character to a whole character.
fn agent_log(world: &Recorder, id: &str, from: i64, most: u64) -> Json {
    let size = world.log(id, 0, 0).map_or(0, |(_, size)| size);
    let start = match u64::try_from(from) {
        Ok(from) => from.min(size),
        Err(_) => size.saturating_sub(from.unsigned_abs()),
    };
    let (bytes, size) = world.log(id, start, most).unwrap_or_default();
    let torn = |byte: &&u8| **byte & 0b1100_0000 == 0b1000_0000;
    let skipped = bytes.iter().take(3).take_while(torn).count();
    let whole = &bytes[skipped..];
    // A character that is cut off at the end comes with the next part, unless nothing else is there.
    let end = match std::str::from_utf8(whole) {
        Err(error) if error.error_len().is_none() && error.valid_up_to() > 0 => error.valid_up_to(),
        _ => whole.len(),
    };
    let number = |number: u64| Json::from(i64::try_from(number).unwrap_or(i64::MAX));
    Json::from([
        ("text", Json::from(String::from_utf8_lossy(&whole[..end]).as_ref())),
        ("next", number(start + (skipped + end) as u64)),
        ("size", number(size)),
    ])
}

fn look_ups(env: &mut Environment, evidence: &Arc<Recorder>, records: &Records) {
    let world = evidence.clone();
    env.add_function("exists", move |path: &str| match world.exists(path) {
        Ok(found) => Ok(found),
        Err(NoEvidence::Unreadable(_) | NoEvidence::Outside(_)) => Ok(false),
        Err(NoEvidence::Refused(why)) => Err(refused(why)),
    });
    let world = evidence.clone();
    env.add_function("text", move |path: &str| match world.read(path) {
        Ok(Some(bytes)) => {
            let text = std::str::from_utf8(&bytes).unwrap_or_default();
            Ok(bom::strip(text).to_string())
        }
        Ok(None) | Err(NoEvidence::Unreadable(_) | NoEvidence::Outside(_)) => Ok(String::new()),
        Err(NoEvidence::Refused(why)) => Err(refused(why)),
    });
    let world = evidence.clone();
    let known = records.clone();
    env.add_function("json", move |path: &str, record: Option<&str>| {
        json_file(&world, &known, path, record)
    });
    let world = evidence.clone();
    env.add_function("glob", move |pattern: &str| match world.list(pattern) {
        Ok(names) => Ok(list(names)),
        Err(NoEvidence::Outside(_)) => Ok(list(Vec::new())),
        Err(NoEvidence::Unreadable(why) | NoEvidence::Refused(why)) => Err(refused(why)),
    });
    let world = evidence.clone();
    env.add_function("digest", move |path: &str| match world.read(path) {
        Ok(Some(bytes)) => Ok(Value::from(digest(&bytes))),
        Ok(None) | Err(NoEvidence::Unreadable(_) | NoEvidence::Outside(_)) => Ok(Value::from(())),
        Err(NoEvidence::Refused(why)) => Err(refused(why)),
    });
    let world = evidence.clone();
    env.add_function("modified", move |path: &str| match world.modified(path) {
        Ok(Some(time)) => Ok(Value::from(time.to_string())),
        Ok(None) | Err(NoEvidence::Unreadable(_) | NoEvidence::Outside(_)) => Ok(Value::from(())),
        Err(NoEvidence::Refused(why)) => Err(refused(why)),
    });
    let world = evidence.clone();
    env.add_function("agent_log", move |id: &str, from: Option<i64>, most: Option<u64>| {
        agent_log(&world, id, from.unwrap_or(0), most.unwrap_or(MOST_LOG)).to_value()
    });
    let world = evidence.clone();
    env.add_function("agent_message", move |id: &str| {
        world.message(id).map_or(Value::from(()), Value::from)
    });
    let world = evidence.clone();
    env.add_function("now", move || world.now().to_string());
    let world = evidence.clone();
    env.add_function("env", move |name: &str| {
        world.variable(name).map_or(Value::from(()), Value::from)
    });
    let world = evidence.clone();
    env.add_function("last_message", move || world.last_message().unwrap_or_default());
    let world = evidence.clone();
    env.add_function("said", move |since: Option<&str>| {
        list(world.said(since.and_then(|time| time.parse().ok())))
    });
    let world = evidence.clone();
    env.add_function("changed_files", move |folder: Option<&str>| {
        match world.changed_files(folder.unwrap_or(".")) {
            Ok(files) => Ok(list(files)),
            Err(why) => Err(refused(why.to_string())),
        }
    });
    let world = evidence.clone();
    env.add_function("tree", move || world.tree().map_or(Value::from(()), Value::from));
    let world = evidence.clone();
    env.add_function("patched", move |path: &str| match world.read(path) {
        Ok(Some(bytes)) => Ok(list(patch::files(&bytes))),
        Ok(None) | Err(NoEvidence::Unreadable(_) | NoEvidence::Outside(_)) => Ok(list(Vec::new())),
        Err(NoEvidence::Refused(why)) => Err(refused(why)),
    });
    let world = evidence.clone();
    env.add_function("new_id", move || world.new_id());
    env.add_function("fail", fail);
    let world = evidence.clone();
    env.add_function("transcript", move || list(world.turn()));
}

/// Regular expressions, each compiled once for a decision.
#[derive(Default)]
struct Patterns(Mutex<HashMap<String, Regex>>);

impl Patterns {
    fn get(&self, regex: &str) -> Result<Regex, Error> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(compiled) = known.get(regex) {
            return Ok(compiled.clone());
        }
        let compiled = Regex::new(regex).map_err(|error| {
            let detail = format!("{regex:?} is not a regular expression: {error}");
            Error::new(ErrorKind::InvalidOperation, detail)
        })?;
        known.insert(regex.to_string(), compiled.clone());
        Ok(compiled)
    }
}

fn list(texts: Vec<String>) -> Value {
    Json::from(texts.into_iter().map(Json::from).collect::<Vec<_>>()).to_value()
}

fn plain_lines(texts: &Value) -> Result<Value, Error> {
    let mut lines = Vec::new();
    match texts.as_str() {
        Some(text) => lines.extend(markdown::plain_lines(text)),
        None => {
            for text in texts.try_iter()? {
                lines.extend(markdown::plain_lines(text.as_str().unwrap_or_default()));
            }
        }
    }
    Ok(list(lines))
}

/// Lower-case letters, digits and dashes. Whatever else a text has, and the case of its letters, is
/// told by a digest at the end, so that two texts never share a name, also where case is ignored.
pub fn slug(text: &str) -> String {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_plain = !text.is_empty()
        && text.len() <= 60
        && text.chars().all(plain)
        && !text.starts_with('-')
        && !text.ends_with('-')
        // The digest's own form: eight digits after a dash.
        && text.rsplit_once('-').is_none_or(|(_, end)| end.len() != 8);
    if is_plain {
        return text.to_string();
    }
    let lower = text.to_ascii_lowercase();
    let dashed = lower.replace(|c: char| !plain(c), "-");
    let short: String = dashed.trim_matches('-').chars().take(40).collect();
    let mark = digest(text.as_bytes());
    format!("{}-{}", short.trim_matches('-'), &mark[..8]).trim_start_matches('-').to_string()
}

/// What a workflow itself says with `fail`: it is for the user, so no place is put before it.
#[derive(Debug)]
pub(crate) struct Failed(pub(crate) String);

impl fmt::Display for Failed {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Failed {}

fn fail(message: &str) -> Result<Value, Error> {
    let failed = Failed(message.to_string());
    Err(Error::new(ErrorKind::InvalidOperation, message.to_string()).with_source(failed))
}

fn refused(why: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, why)
}

fn json_file(
    world: &Recorder,
    records: &Records,
    path: &str,
    record: Option<&str>,
) -> Result<Value, Error> {
    if let Some(record) = record {
        world.expect(path, record);
    }
    let (exists, mark, value) = match world.read(path) {
        Ok(None) => (false, Json::Null, Err("there is no such file".to_string())),
        Ok(Some(bytes)) => {
            let parsed = Json::parse(bom::strip_bytes(&bytes))
                .map_err(|error| format!("not valid JSON: {error}"));
            (true, Json::from(digest(&bytes)), parsed)
        }
        Err(NoEvidence::Unreadable(why)) => (true, Json::from("unreadable"), Err(why)),
        Err(NoEvidence::Outside(why)) => (false, Json::Null, Err(why)),
        Err(NoEvidence::Refused(why)) => return Err(refused(why)),
    };
    let checked = value.and_then(|mut value| {
        let Some(record) = record else { return Ok(value) };
        let id = records.named(record).ok_or_else(|| format!("there is no record `{record}`"))?;
        match records.declare(&Type::Record(id), &mut value, record) {
            Ok(()) => Ok(value),
            Err(found) => Err(found.to_string()),
        }
    });
    let (ok, value, error) = match checked {
        Ok(value) => (true, value, Json::Null),
        Err(error) => (false, Json::Null, Json::from(format!("{path}: {error}"))),
    };
    let answer = Json::from([
        ("exists", Json::from(exists)),
        ("ok", Json::from(ok)),
        ("value", value),
        ("error", error),
        ("digest", mark),
    ]);
    Ok(answer.to_value())
}

fn group_by(items: &Value, path: &str) -> Result<Value, Error> {
    let mut groups: Vec<(Json, Vec<Json>)> = Vec::new();
    let mut places = HashMap::new();
    for item in items.try_iter()? {
        let mut key = item.clone();
        for step in path.split('.') {
            key = key.get_attr(step)?;
        }
        let key = Json::from_value(&key)?;
        let place = *places.entry(key.to_text(None)).or_insert_with(|| {
            groups.push((key, Vec::new()));
            groups.len() - 1
        });
        groups[place].1.push(Json::from_value(&item)?);
    }
    let groups = groups.into_iter().map(|(key, items)| {
        let count = i64::try_from(items.len()).unwrap_or(i64::MAX);
        Json::from([("key", key), ("items", Json::from(items)), ("count", Json::from(count))])
    });
    Ok(Json::from(groups.collect::<Vec<_>>()).to_value())
}

/// Compared as text, so that the `3` of a file's name is the number 3 of a field.
fn positions(items: &Value, member: &str, values: &Value) -> Result<Vec<usize>, Error> {
    let values: HashSet<String> = values.try_iter()?.map(|value| value.to_string()).collect();
    let mut found = Vec::new();
    if values.is_empty() {
        return Ok(found);
    }
    for (position, item) in items.try_iter()?.enumerate() {
        if values.contains(&item.get_attr(member)?.to_string()) {
            found.push(position);
        }
    }
    Ok(found)
}

/// Letters, digits, `-`, `_` and inner dots stay; every other byte becomes `%` and its number, so
/// that two different texts never become the same name and no name leads out of its folder.
pub fn filename(text: &str) -> String {
    let mut name = String::with_capacity(text.len());
    for (index, byte) in text.bytes().enumerate() {
        let plain =
            byte.is_ascii_alphanumeric() || b"-_".contains(&byte) || (byte == b'.' && index > 0);
        if plain {
            name.push(char::from(byte));
        } else {
            let _ = write!(name, "%{byte:02X}");
        }
    }
    name
}

/// The text of which [`filename`] made this name.
pub fn from_filename(name: &str) -> String {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let number = tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match number.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// An object of the given members, for a context.
pub fn object(members: impl IntoIterator<Item = (String, Json)>) -> Json {
    let mut object = Object::default();
    for (name, value) in members {
        object.insert(&name, value);
    }
    Json::Object(Arc::new(object))
}
