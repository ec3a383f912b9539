//! The names that git gives to contents: those of files, and those of trees.

use std::fmt;

use sha1::{Digest, Sha1};

/// The name of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name(pub(crate) [u8; 20]);

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// What a file is, as far as git records it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    File,
    Program,
    Link,
}

impl Mode {
    /// The mode as git writes it.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Mode::File => "100644",
            Mode::Program => "100755",
            Mode::Link => "120000",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// A file as git records it: its path, its mode and the name of its content.
pub(crate) type Entry<'p> = (&'p str, Mode, Name);

/// The name of a tree of some files, which are sorted by their paths, byte by byte. That is also the order
/// in which git records each folder: it compares the name of a folder as if a slash were at its end.
pub(crate) fn tree(files: &[Entry]) -> Name {
    folder(files, 0)
}

/// The name of a folder whose own path is the first `depth` bytes of the path of each of its files.
fn folder(files: &[Entry], depth: usize) -> Name {
    let mut body = Vec::new();
    let mut left = files;
    while let Some((path, mode, content)) = left.first() {
        let own = &path[depth..];
        let (mode, name, content, count) = match memchr::memchr(b'/', own.as_bytes()) {
            None => (mode.text(), own, *content, 1),
            Some(end) => {
                let inner = depth + end + 1;
                let is_in = |file: &&Entry| file.0.starts_with(&path[..inner]);
                let count = left.iter().take_while(is_in).count();
                ("40000", &own[..end], folder(&left[..count], inner), count)
            }
        };
        body.extend_from_slice(mode.as_bytes());
        body.push(b' ');
        body.extend_from_slice(name.as_bytes());
        body.push(0);
        body.extend_from_slice(&content.0);
        left = &left[count..];
    }
    object("tree", &body)
}

/// The name of an object.
pub(crate) fn object(kind: &str, body: &[u8]) -> Name {
    let mut hash = header(kind, body.len() as u64);
    hash.update(body);
    name(hash)
}

/// What the name of an object is worked out from, before its content.
pub(crate) fn header(kind: &str, size: u64) -> Sha1 {
    let mut hash = Sha1::new();
    hash.update(format!("{kind} {size}\0"));
    hash
}

/// The name, once all of the content is there.
pub(crate) fn name(hash: Sha1) -> Name {
    Name(hash.finalize().into())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_tree_has_the_name_that_git_gives_it() {
        let folder = tempfile::tempdir().unwrap();
        let git = |arguments: &[&str]| {
            let mut git = Command::new("git");
            let said = git.args(arguments).current_dir(&folder).stderr(Stdio::null()).output();
            String::from_utf8(said.unwrap().stdout).unwrap().trim().to_string()
        };
        git(&["init", "-q"]);
        // Names around the slash, which decide how folders are sorted among files.
        let paths = ["a", "b-c", "b.c", "b/c/d", "b/e", "b0", "b/c.d", "ä/ö", "z/y/x/w"];
        for path in paths {
            let full = folder.path().join(path);
            std::fs::create_dir_all(full.parent().unwrap()).unwrap();
            std::fs::write(full, path).unwrap();
        }
        git(&["add", "-A"]);
        let mut files = paths.map(|path| (path, Mode::File, object("blob", path.as_bytes())));
        files.sort_unstable_by_key(|file| file.0);
        assert_eq!(tree(&files).to_string(), git(&["write-tree"]));
        assert_eq!(tree(&[]).to_string(), "4b825dc642cb6eb9a060e54bf8d69288fbee4904");
    }
}
