//! The files of a tree that git does not ignore.

use std::path::Path;

use super::{MAX_NESTED, Repository, Settings, top};

/// With a mark for each, so that no name can look like an entry of another kind.
const LIST: [&str; 8] =
    ["ls-files", "-z", "-t", "--stage", "--others", "--exclude-standard", "--", "."];

/// The files of a tree that git does not ignore.
pub(crate) struct Files {
    /// Relative to the folder; none where git says about them what it has said before.
    pub(crate) paths: Option<Paths>,
    /// What decides about ignored files and is not a part of the tree itself.
    pub(crate) ignoring: Vec<String>,
    /// What git could not look at, and why.
    pub(crate) notes: Vec<String>,
    /// For another look at the same files.
    pub(crate) settings: Settings,
}

/// Paths in their order. All of them stand in one text, since a large tree has too many to be kept one by one.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    text: String,
    /// From where to where each of them stands.
    places: Vec<(usize, usize)>,
    /// Whether they are what git has said, and nothing else: then the same text means the same paths.
    is_said: bool,
}

impl Paths {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        self.places.iter().map(|(from, to)| &self.text[*from..*to])
    }

    /// Whether a path is one of them.
    pub(crate) fn has(&self, path: &[u8]) -> bool {
        let found = self.places.binary_search_by(|place| text_at(&self.text, place).cmp(path));
        found.is_ok()
    }

    pub(crate) fn retain(&mut self, is_meant: impl Fn(&str) -> bool) {
        let text = &self.text;
        self.places.retain(|(from, to)| is_meant(&text[*from..*to]));
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    fn push(&mut self, prefix: &str, path: &str) {
        let from = self.text.len();
        self.text.push_str(prefix);
        self.text.push_str(path);
        self.places.push((from, self.text.len()));
    }

    fn sort(&mut self) {
        let text = &self.text;
        self.places.sort_by(|a, b| text_at(text, a).cmp(text_at(text, b)));
    }
}

impl FromIterator<String> for Paths {
    fn from_iter<I: IntoIterator<Item = String>>(all: I) -> Paths {
        let mut paths = Paths::default();
        all.into_iter().for_each(|path| paths.push("", &path));
        paths.sort();
        paths
    }
}

fn text_at<'t>(text: &'t str, (from, to): &(usize, usize)) -> &'t [u8] {
    &text.as_bytes()[*from..*to]
}

/// The files below a folder that git does not ignore, those of repositories in it included; none where the
/// folder is in no repository.
///
/// A second look while the first one still counts is given the settings that were found then: to start git takes
/// longer than to list a small project, and to list files runs no program that could have been named since. It is
/// also given the paths that were found then.
///
/// # Errors
/// What git says where it cannot tell.
pub(crate) fn files(
    root: &Path,
    settings: Option<Settings>,
    before: Option<&Paths>,
) -> Result<Option<Files>, String> {
    let Some(top) = top(root) else { return Ok(None) };
    let repository = match settings {
        Some(settings) => Repository { root, top, settings },
        None => Repository::new(root, top),
    };
    let said = repository.ask(LIST)?;
    let mut found = Files {
        paths: None,
        ignoring: repository.ignoring(),
        notes: Vec::new(),
        settings: repository.settings.clone(),
    };
    if before.is_some_and(|before| before.is_said && before.text == said) {
        return Ok(Some(found));
    }
    let Listed { places, nested, may_nest } = Listed::of(&said, root);
    let mut paths = Paths { text: said, places, is_said: !may_nest };
    for folder in &nested {
        list_nested(root, &format!("{folder}/"), 1, &mut paths, &mut found);
    }
    if !nested.is_empty() {
        paths.sort();
    }
    found.paths = Some(paths);
    Ok(Some(found))
}

/// Adds the files of a repository in the tree, at a path that ends with a slash.
fn list_nested(root: &Path, prefix: &str, depth: usize, paths: &mut Paths, found: &mut Files) {
    let full = root.join(prefix);
    let Some(repository) = Repository::of(&full).filter(|_| depth <= MAX_NESTED) else { return };
    let said = match repository.ask(LIST) {
        Ok(said) => said,
        Err(why) => return found.notes.push(format!("{prefix} is not a part of it: {why}")),
    };
    found.ignoring.extend(repository.ignoring());
    let Listed { places, nested, .. } = Listed::of(&said, &full);
    for (from, to) in places {
        paths.push(prefix, &said[from..to]);
    }
    for folder in nested {
        list_nested(root, &format!("{prefix}{folder}/"), depth + 1, paths, found);
    }
}

/// What git's list says.
#[derive(Default)]
struct Listed {
    /// Where the paths of files stand in it, in their order.
    places: Vec<(usize, usize)>,
    /// The folders that are repositories of their own.
    nested: Vec<String>,
    /// Whether there are some that can become one without another word of git.
    may_nest: bool,
}

impl Listed {
    fn of(said: &str, root: &Path) -> Listed {
        let ends = memchr::memchr_iter(0, said.as_bytes());
        let entries = ends.scan(0, |start, end| Some((std::mem::replace(start, end + 1), end)));
        let mut listed = Listed::default();
        for (start, end) in entries {
            let Some((from, to, may_be_nested)) = path_in(&said[start..end]) else { continue };
            let place = (start + from, start + to);
            let path = &said[place.0..place.1];
            listed.may_nest |= may_be_nested;
            if may_be_nested && root.join(path).join(".git").symlink_metadata().is_ok() {
                listed.nested.push(path.to_string());
            } else {
                listed.places.push(place);
            }
        }
        // New files come first, then those of the index, both in their order; a file in conflict comes several
        // times.
        listed.places.sort_by(|a, b| text_at(said, a).cmp(text_at(said, b)));
        listed.places.dedup_by(|a, b| text_at(said, a) == text_at(said, b));
        listed.nested.sort_unstable();
        listed.nested.dedup();
        listed
    }
}

/// From where to where the path stands in an entry of git's list, and whether it may be a repository of its own: a
/// recorded one, with or without a commit in it, or a new one, which git lists with a slash.
fn path_in(entry: &str) -> Option<(usize, usize, bool)> {
    if entry.starts_with("? ") {
        let end = entry.trim_end_matches('/').len();
        return Some((2, end, end < entry.len()));
    }
    let from = memchr::memchr(b'\t', entry.as_bytes())? + 1;
    Some((from, entry.len(), entry.get(2..)?.starts_with("160000 ")))
}
