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
}

impl<'p> Place<'p> {
    /// The kind of a place, which its name tells.
    pub fn of(place: &'p str) -> Place<'p> {
        match place.split_once('#') {
            Some((folder, topic)) => Place::Topic(folder, topic),
            None if Path::new(place).extension().is_some_and(|it| it == "md") => {
                Place::Frontmatter(place)
            }
            None => Place::File(place),
        }
    }

    /// The path of the file, or of the folder that has the topics.
    pub fn path(self) -> &'p str {
        let (Place::File(path) | Place::Frontmatter(path) | Place::Topic(path, _)) = self;
        path
    }
}
