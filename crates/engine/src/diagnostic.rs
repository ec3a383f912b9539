//! What is wrong with a definition, where, and what to do about it.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use serde::Serialize;
use serde::ser::SerializeStruct;

/// A text with a name: a definition, a prompt, a template, a case file.
#[derive(Clone, Debug)]
pub struct Source {
    /// As a person would name it: a path.
    pub name: Arc<str>,
    pub text: Cow<'static, str>,
    newlines: OnceLock<Vec<usize>>,
}

impl Source {
    /// A text with a name.
    pub fn new(name: &str, text: impl Into<Cow<'static, str>>) -> Arc<Source> {
        Arc::new(Source { name: name.into(), text: text.into(), newlines: OnceLock::new() })
    }

    /// Where a key of a table stands: in `[table]`, or among the root keys where the table has no name. The
    /// beginning where it is not found.
    pub fn key(&self, table: &str, key: &str) -> Range<usize> {
        let head = format!("[{table}]");
        let start = if table.is_empty() { Some(0) } else { self.text.find(&head) };
        let start = start.unwrap_or(0);
        let mut at = start;
        for line in self.text[start..].split_inclusive('\n') {
            let text = line.trim_start();
            if at > start && text.starts_with('[') {
                break;
            }
            let rest = text.strip_prefix(key).map(str::trim_start);
            if rest.is_some_and(|rest| rest.starts_with('=') || rest.starts_with('.')) {
                let from = at + (line.len() - text.len());
                return from..from + key.len();
            }
            at += line.len();
        }
        0..0
    }

    /// Line and column (both from 1) of a byte offset.
    pub fn position(&self, offset: usize) -> (usize, usize) {
        let newlines = self
            .newlines
            .get_or_init(|| memchr::memchr_iter(b'\n', self.text.as_bytes()).collect());
        let offset = self.text.floor_char_boundary(offset);
        let line = newlines.partition_point(|newline| *newline < offset);
        let start = if line == 0 { 0 } else { newlines[line - 1] + 1 };
        (line + 1, self.text[start..offset].chars().count() + 1)
    }
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The definition works, but hardly as meant.
    Warning,
    /// The definition cannot be used.
    Error,
}

/// One finding.
#[derive(Clone, Debug)]
pub struct Diagnostic {
    pub severity: Severity,
    /// A stable name for this kind of finding.
    pub code: &'static str,
    pub message: String,
    pub source: Arc<Source>,
    pub span: Range<usize>,
    pub hint: Option<String>,
}

impl Diagnostic {
    /// The finding with its source excerpt, as a terminal shows it.
    pub fn render(&self, colour: bool) -> String {
        let level = match self.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let snippet = Snippet::source(&*self.source.text)
            .path(&*self.source.name)
            .annotation(AnnotationKind::Primary.span(self.span.clone()));
        let group = level.primary_title(&self.message).id(self.code).element(snippet);
        let hint = self.hint.as_deref();
        let report: Vec<Group> = match hint {
            Some(hint) => vec![group, Group::with_title(Level::HELP.secondary_title(hint))],
            None => vec![group],
        };
        let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
        renderer.render(&report).clone()
    }
}

/// `file:line:column: message`, on one line.
impl fmt::Display for Diagnostic {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let (line, column) = self.source.position(self.span.start);
        write!(out, "{}:{line}:{column}: {}", self.source.name, self.message)
    }
}

impl Serialize for Diagnostic {
    fn serialize<S: serde::Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let (line, column) = self.source.position(self.span.start);
        let mut fields = out.serialize_struct("Diagnostic", 7)?;
        fields.serialize_field("severity", &self.severity)?;
        fields.serialize_field("code", self.code)?;
        fields.serialize_field("message", &self.message)?;
        fields.serialize_field("file", &*self.source.name)?;
        fields.serialize_field("line", &line)?;
        fields.serialize_field("column", &column)?;
        fields.serialize_field("hint", &self.hint)?;
        fields.end()
    }
}

/// Findings, collected.
#[derive(Clone, Debug, Default)]
pub struct Diagnostics(pub Vec<Diagnostic>);

impl Diagnostics {
    /// Adds an error.
    pub fn error(
        &mut self,
        code: &'static str,
        source: &Arc<Source>,
        span: Range<usize>,
        message: impl Into<String>,
    ) -> &mut Diagnostic {
        self.add(Severity::Error, code, source, span, message.into())
    }

    /// Adds a warning.
    pub fn warning(
        &mut self,
        code: &'static str,
        source: &Arc<Source>,
        span: Range<usize>,
        message: impl Into<String>,
    ) -> &mut Diagnostic {
        self.add(Severity::Warning, code, source, span, message.into())
    }

    fn add(
        &mut self,
        severity: Severity,
        code: &'static str,
        source: &Arc<Source>,
        span: Range<usize>,
        message: String,
    ) -> &mut Diagnostic {
        let text = &source.text;
        // Other people's parsers count bytes, and may stop in the middle of a character.
        let start = text.floor_char_boundary(span.start);
        let span = start..text.ceil_char_boundary(span.end.max(start)).max(start);
        let found =
            Diagnostic { severity, code, message, source: source.clone(), span, hint: None };
        self.0.push(found);
        let last = self.0.len() - 1;
        &mut self.0[last]
    }

    /// Whether any finding is an error.
    pub fn has_errors(&self) -> bool {
        self.0.iter().any(|found| found.severity == Severity::Error)
    }

    /// In the order of the source, each once.
    pub fn sort(&mut self) {
        self.0.sort_by(|a, b| {
            (&a.source.name, a.span.start, &a.message).cmp(&(
                &b.source.name,
                b.span.start,
                &b.message,
            ))
        });
        self.0.dedup_by(|a, b| a.message == b.message && a.span == b.span);
    }

    /// All findings, one under the other.
    pub fn render(&self, colour: bool) -> String {
        let texts: Vec<String> = self.0.iter().map(|found| found.render(colour)).collect();
        texts.join("\n\n")
    }
}

/// One line for each finding; for places that have no room for excerpts.
impl fmt::Display for Diagnostics {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        for (index, found) in self.0.iter().enumerate() {
            if index > 0 {
                out.write_str("; ")?;
            }
            write!(out, "{found}")?;
        }
        Ok(())
    }
}

/// The name among `known` that was probably meant.
pub fn closest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|(distance, candidate)| {
            *distance <= 1 + candidate.len().max(name.len()) / 4 && *distance < name.len()
        })
        .min()
        .map(|(_, candidate)| candidate)
}

/// Edit distance with swaps of neighbours as one edit.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let swap = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
                let change = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                let one = rows[i - 1][j].min(rows[i][j - 1]) + 1;
                let best = change.min(one);
                if swap { best.min(rows[i - 2][j - 2] + 1) } else { best }
            };
        }
    }
    rows[a.len()][b.len()]
}
