//! Expressions and texts of a definition, where each stands, and the files that texts include.

use std::ops::Range;
use std::sync::Arc;

use toml::Spanned;

use super::Resolver;
use crate::definition::{Bundle, Text};
use crate::diagnostic::Source;
use crate::workflow::{Expression, TextId, TextTemplate};

/// How a text begins to name another one that it includes.
const INCLUDE: &str = "{% include \"";

/// How long a text may become by what it includes.
const MOST_TEXT: usize = 1 << 20;

/// How deep texts may include each other.
const MOST_PARTS: usize = 8;

/// The text up to the first inclusion, the path that it names, and the text behind it.
fn included(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once(INCLUDE)?;
    let (path, rest) = rest.split_once('"')?;
    let (_, after) = rest.split_once("%}")?;
    Some((before, path, after))
}

impl Resolver<'_> {
    pub(super) fn expression(&self, text: &Spanned<String>) -> Expression {
        let span = inside(self.source, text.span(), text.get_ref());
        Expression::new(text.get_ref().clone(), self.source.clone(), span)
    }

    pub(super) fn text(&mut self, text: &Spanned<Text>) -> Option<TextId> {
        match text.get_ref() {
            Text::Inline(inline) => {
                Some(self.inline(inline.clone(), self.source.clone(), text.span()))
            }
            Text::File { prompt } => self.file("prompts", prompt, text.span()),
        }
    }

    pub(super) fn file(&mut self, folder: &str, name: &str, span: Range<usize>) -> Option<TextId> {
        let path = format!("{folder}/{name}");
        let Some(file) = self.bundle.files.get(&path) else {
            let folder = format!("{folder}/");
            let files = &self.bundle.files;
            let known: Vec<&str> =
                files.keys().filter_map(|key| key.strip_prefix(&folder)).collect();
            self.unknown(span, &format!("file in {folder}"), name, known);
            return None;
        };
        let whole = self.with_parts(file.clone(), MOST_PARTS, &span)?;
        let length = whole.text.len();
        self.texts.push(TextTemplate::new(whole.text.to_string(), whole, 0..length));
        Some(TextId(self.texts.len() - 1))
    }

    /// A file, or an empty text where it is missing, which is an error already. So what needs it keeps
    /// its place among its kind, and the rules that name it by that place can still be checked.
    pub(super) fn prompt(&mut self, name: &Spanned<String>) -> TextId {
        let file = self.file("prompts", name.get_ref(), name.span());
        file.unwrap_or_else(|| self.inline(String::new(), self.source.clone(), name.span()))
    }

    /// A file with the others that it includes, each in the place where it names them:
    /// `{% include "prompts/rules.md" %}`.
    fn with_parts(
        &mut self,
        file: Arc<Source>,
        depth: usize,
        span: &Range<usize>,
    ) -> Option<Arc<Source>> {
        if !file.text.contains(INCLUDE) {
            return Some(file);
        }
        let mut whole = String::new();
        let mut rest = &*file.text;
        while let Some((before, path, after)) = included(rest) {
            let Some(part) = self.bundle.files.get(path).filter(|_| Bundle::decides(path)) else {
                let known: Vec<String> = self.bundle.files.keys().cloned().collect();
                let known = known.iter().map(String::as_str).filter(|path| Bundle::decides(path));
                self.unknown(
                    span.clone(),
                    &format!("file for {} to include", file.name),
                    path,
                    known,
                );
                return None;
            };
            if depth == 0 {
                let message = format!("{} includes itself, or too many others", file.name);
                self.error(span.clone(), "cycle", message);
                return None;
            }
            self.included.push(part.clone());
            let part = self.with_parts(part.clone(), depth - 1, span)?;
            whole.push_str(before);
            whole.push_str(part.text.trim_end());
            if whole.len() > MOST_TEXT {
                let message = format!("{} with all that it includes is too long", file.name);
                self.error(span.clone(), "cycle", message);
                return None;
            }
            rest = after;
        }
        whole.push_str(rest);
        self.included.push(file.clone());
        Some(Source::new(&format!("{} (with what it includes)", file.name), whole))
    }

    pub(super) fn inline(
        &mut self,
        text: String,
        source: Arc<Source>,
        span: Range<usize>,
    ) -> TextId {
        let span = inside(&source, span, &text);
        self.texts.push(TextTemplate::new(text, source, span));
        TextId(self.texts.len() - 1)
    }
}

/// Where the text of a TOML string stands in the file, without quotes; the whole string where it
/// has escapes.
fn inside(source: &Source, span: Range<usize>, text: &str) -> Range<usize> {
    let raw = source.text.get(span.clone()).unwrap_or_default();
    // Nearly always the text starts right after one quote.
    let at = if raw.get(1..).is_some_and(|rest| rest.starts_with(text)) {
        Some(1)
    } else {
        raw.find(text)
    };
    match at {
        Some(at) => span.start + at..span.start + at + text.len(),
        None => span,
    }
}
