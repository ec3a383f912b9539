//! Places of documents: what kind of document is there, as the name of the place tells.

use std::path::Path;

/// What kind of document is at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place<'p> {
    /// A JSON file.
    File(&'p str),
    /// The frontmatter of a Markdown file: `NAME.md`.
    Frontmatter(&'p str),
    /// The latest message of a topic: `FOLDER#TOPIC`.
    Topic(&'p str, &'p str),
    /// That of a run which the store keeps: `store:WORKFLOW/NAME`.
    Store(&'p str),
}

/// How the places of documents begin that the store keeps.
const STORE: &str = "store:";

/// Where the documents of a workflow are that the store keeps.
pub fn in_store(workflow: &str) -> String {
    format!("{STORE}{workflow}/*")
}

impl<'p> Place<'p> {
    /// The kind of a place, which its name tells.
    pub fn of(place: &'p str) -> Place<'p> {
        if let Some(run) = place.strip_prefix(STORE) {
            return Place::Store(run);
        }
        match place.split_once('#') {
            Some((folder, topic)) => Place::Topic(folder, topic),
            None if Path::new(place).extension().is_some_and(|it| it == "md") => {
                Place::Frontmatter(place)
            }
            None => Place::File(place),
        }
    }

    /// The path of the file, or of the folder that has the topics. Empty where there is none.
    pub fn path(self) -> &'p str {
        match self {
            Place::File(path) | Place::Frontmatter(path) | Place::Topic(path, _) => path,
            Place::Store(_) => "",
        }
    }

    /// Whether the store keeps it.
    pub fn is_store(self) -> bool {
        matches!(self, Place::Store(_))
    }
}
