//! Who asks: a store serves many projects, each on many machines.

use std::path::{Path, PathBuf};

use phasegate_engine::digest::digest;

use crate::git;
use crate::machine::{homeless, state_folder};
use crate::store::StoreError;

pub use crate::machine::{machine, site};

/// How much of a project's digest names its locks.
const LENGTH: usize = 12;

/// A project on a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The same on every machine that works on it.
    pub project: String,
    /// `MACHINE:ROOT`.
    pub site: String,
}

impl Identity {
    /// The project at a folder: as the configuration calls it, else by its remote, else only known on this machine.
    pub fn of(root: &Path, named: Option<&str>) -> Result<Identity, StoreError> {
        let site = site(root)?;
        let project = match named {
            Some(name) => name.to_string(),
            None => by_remote(root).unwrap_or_else(|| site.clone()),
        };
        Ok(Identity { project, site })
    }

    /// Where this machine's processes wait for each other.
    pub fn locks(&self) -> Result<PathBuf, StoreError> {
        let folder = state_folder().ok_or_else(homeless)?;
        let project = digest(format!("{}\0{}", self.project, self.site).as_bytes());
        Ok(folder.join("locks").join(&project[..LENGTH]))
    }
}

/// The project by the URL of its remote `origin`; a folder in a repository is a project of its own.
fn by_remote(root: &Path) -> Option<String> {
    let url = normalised(&git::remote(root, "origin")?);
    let inner = root.strip_prefix(git::top(root)?).ok()?;
    let inner = inner.to_string_lossy();
    Some(if inner.is_empty() { url } else { format!("{url}/{inner}") })
}

/// A remote's URL without what differs between those who use it: the scheme, the user, `.git`.
pub(crate) fn normalised(url: &str) -> String {
    let url = url.trim().trim_end_matches('/');
    let url = url.strip_suffix(".git").unwrap_or(url);
    let (host, path) = match url.split_once("://") {
        Some((_, rest)) => rest.split_once('/').unwrap_or((rest, "")),
        // `user@host:path`, unless it is a path.
        None => match url.split_once(':') {
            Some((host, path)) if !host.contains('/') => (host, path),
            _ => return url.to_string(),
        },
    };
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host).to_lowercase();
    format!("{host}/{}", path.trim_start_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::normalised;

    #[test]
    fn a_remote_is_the_same_however_it_is_reached() {
        for url in [
            "https://github.com/team/Project.git",
            "https://me:token@GitHub.com/team/Project",
            "git@github.com:team/Project.git",
            "ssh://git@github.com/team/Project/",
        ] {
            assert_eq!(normalised(url), "github.com/team/Project");
        }
        assert_eq!(normalised("/srv/git/project.git"), "/srv/git/project");
        assert_eq!(normalised("file:///srv/git/project.git"), "/srv/git/project");
    }
}
