//! Changes of the project's files since they were kept, as evidence.

use serde::{Deserialize, Serialize};

use crate::json::Json;

/// What has changed since the files of the project were kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Changes {
    /// What the files are kept under as they are now.
    pub tree: String,
    /// The digest of the patch that leads from the one to the other.
    pub digest: String,
    pub files: Vec<Changed>,
}

/// A file that was changed, added or removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Changed {
    pub path: String,
    /// How many lines were added and removed; none where they are not counted, as in a binary file.
    pub added: Option<u32>,
    pub removed: Option<u32>,
}

impl Changes {
    /// As expressions see them; where they cannot be told, `error` says why.
    pub(crate) fn to_json(base: Option<&str>, told: Result<&Changes, String>) -> Json {
        let none = Changes::default();
        let (changes, error) = match told {
            Ok(changes) => (changes, None),
            Err(why) => (&none, Some(why)),
        };
        let number = |lines: Option<u32>| lines.map_or(Json::Null, |it| Json::from(i64::from(it)));
        let lines = changes
            .files
            .iter()
            .try_fold(0, |sum: u32, file| sum.checked_add(file.added?)?.checked_add(file.removed?));
        let stat = changes.files.iter().map(|file| {
            let path = ("path", Json::from(file.path.as_str()));
            Json::from([path, ("added", number(file.added)), ("removed", number(file.removed))])
        });
        let files = changes.files.iter().map(|file| Json::from(file.path.as_str()));
        Json::from([
            ("ok", Json::from(error.is_none())),
            ("error", error.map_or(Json::Null, Json::from)),
            ("base", base.map_or(Json::Null, Json::from)),
            ("tree", Json::from(changes.tree.as_str())),
            ("digest", Json::from(changes.digest.as_str())),
            ("files", Json::from(files.collect::<Vec<_>>())),
            ("stat", Json::from(stat.collect::<Vec<_>>())),
            ("lines", number(lines)),
        ])
    }
}
