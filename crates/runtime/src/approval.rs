//! Approvals by identity: a person signs an act with an SSH key, and everybody can check the signature later.
//!
//! What is signed is a short text that names everything which the act is about. A signature for another run, another
//! line, other files, another definition or another reason does not fit it. Most of the text is told by the line that
//! the journal has of the act; the rest is kept with the signature.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use phasegate_engine::digest::digest;
use phasegate_engine::identity::Identity;
use phasegate_engine::signed::Signed;
use phasegate_engine::step::{Actor, Event};

use crate::journal::{self, Line};
use crate::outside;
use crate::project::Project;
use crate::signature::{self, Blob, Signer, Signers};
use crate::trust;

/// What SSH signatures of acts are made for, so that none of another purpose is taken for one.
const NAMESPACE: &str = "phasegate-approval";

/// Where a project has its list of signers, where nothing else is configured.
pub const LIST: &str = ".phasegate/allowed_signers";

/// A list of signers, as it was read.
#[derive(Clone, Debug)]
pub struct List {
    pub path: PathBuf,
    pub bytes: Vec<u8>,
}

/// Whether the signature of a line holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holds {
    Yes,
    /// It fits, and the list of signers has the key no longer, or not yet.
    Unlisted(String),
    No(String),
    /// It cannot be told, and why.
    Unknown(String),
}

/// The signature of a line, checked.
#[derive(Clone, Debug)]
pub struct Checked {
    pub seq: u64,
    /// The action, and in words who has signed it; none where a signature is missing.
    pub action: String,
    pub signed: Option<String>,
    pub holds: Holds,
}

impl Checked {
    /// In a sentence.
    pub fn sentence(&self) -> String {
        let Checked { seq, action, signed, holds } = self;
        let signed = signed.as_deref().unwrap_or("not signed");
        let what = format!("line {seq}: {action} {signed}");
        match holds {
            Holds::Yes => what,
            Holds::Unlisted(why) => format!("{what}; {why}"),
            Holds::No(why) => format!("{what}, and that does not hold: {why}"),
            Holds::Unknown(why) => format!("{what}, and that cannot be checked: {why}"),
        }
    }
}

impl List {
    /// The list of a project: as it is configured, or the usual one, or the one that git has.
    ///
    /// # Errors
    /// Where it cannot be read. Where there is none, the kind is `NotFound`.
    pub fn of(project: &Project) -> io::Result<List> {
        let root = &project.root;
        let named = project.config.approvals.signers.clone();
        let usual = || root.join(LIST).is_file().then(|| LIST.to_string());
        let named = named.or_else(usual).or_else(|| crate::git::allowed_signers(root));
        let named = named.ok_or_else(|| {
            let why = format!("there is no list of signers: {LIST} is one");
            io::Error::new(io::ErrorKind::NotFound, why)
        })?;
        List::read(&root.join(at_home(&named)))
    }

    /// The list in a file.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn read(path: &Path) -> io::Result<List> {
        let bytes = outside::read(path, outside::MAX_SETTINGS).map_err(|error| {
            let why = format!("cannot read the list of signers {}: {error}", path.display());
            io::Error::new(error.kind(), why)
        })?;
        Ok(List { path: path.to_path_buf(), bytes })
    }

    /// What a consent to it is kept by.
    pub fn identity(&self) -> Identity {
        Identity::new(format!("signers {}", digest(&self.bytes)), &[])
    }

    /// Whether a person has consented to it as it is now: in the project, an agent can write it.
    pub fn is_trusted(&self, root: &Path) -> bool {
        trust::is_remembered(root, &self.identity())
    }

    /// Its entries.
    pub fn entries(&self) -> Vec<String> {
        let text = String::from_utf8_lossy(&self.bytes).into_owned();
        let entries = text.lines().map(str::trim);
        entries.filter(|line| !line.is_empty() && !line.starts_with('#')).map(Into::into).collect()
    }
}

/// A path whose `~/` is the user's home folder.
pub fn at_home(path: &str) -> PathBuf {
    let home = std::env::var_os("HOME").filter(|_| path.starts_with("~/"));
    match home {
        Some(home) => PathBuf::from(home).join(&path[2..]),
        None => PathBuf::from(path),
    }
}

/// What is signed: all that an act is about.
pub fn statement(run: &str, event: &Event, signed: &Signed) -> String {
    let Signed { line, head, definition, at, .. } = signed;
    let (tree, action) = (signed.tree.as_deref().unwrap_or("unknown"), &event.name);
    let params = journal::shortened(&event.params).to_text(None);
    let params = params.trim_end();
    format!(
        "{NAMESPACE}/1\nrun: {run}\nline: {line} {head}\ntree: {tree}\ndefinition: {definition}\naction: {action}\n\
         parameters: {params}\ntime: {at}\n"
    )
}

/// Signs a statement with a key.
///
/// # Errors
/// Where `ssh-keygen` did not sign.
pub fn sign(statement: &str, key: &Path) -> io::Result<String> {
    signature::sign(NAMESPACE, statement, key)
}

/// Checks the signature under an event of a run: that it fits, and that this list has its key at that time.
///
/// # Errors
/// Where it does not, or cannot be checked: then the kind is `NotFound`.
pub fn verify(
    run: &str,
    event: &Event,
    signed: &Signed,
    list: &[u8],
) -> io::Result<(Signer, Blob)> {
    let blob = Blob::read(&signed.signature).map_err(io::Error::other)?;
    let mut file = tempfile::NamedTempFile::new()?;
    file.write_all(list)?;
    let signers = Signers { list: file.path(), at: Some(signed.at) };
    let statement = statement(run, event, signed);
    let signer = signature::verify(NAMESPACE, &statement, &signed.signature, Some(signers));
    let signer = signer.map_err(|error| {
        // The file is a copy that nobody knows.
        let why = error.to_string().replace(&format!(" {}", file.path().display()), "");
        io::Error::new(error.kind(), why)
    })?;
    // What is told of the key is told of the one that the signature was checked with.
    if blob.key != signer.key {
        return Err(io::Error::other("it is read in two ways"));
    }
    Ok((signer, blob))
}

/// Whether the signature of a line of a run holds: by the list of signers as it was then, where that was kept, and with
/// that of today.
fn check(
    run: &str,
    line: &Line,
    signed: &Signed,
    then: Option<&[u8]>,
    today: Option<&[u8]>,
) -> Holds {
    if line.event.actor != Actor::Human {
        return Holds::No(format!("it stands under an act of a {}", line.event.actor));
    }
    let told = |list: &[u8]| verify(run, &line.event, signed, list);
    let is_as_told = |signer: &Signer, blob: &Blob| {
        (signer.principal.as_ref(), &signer.key, &blob.kind)
            == (Some(&signed.principal), &signed.key, &signed.kind)
    };
    // Without any list, the signature is checked all the same; then nobody vouches for the key.
    let first = then.or(today).unwrap_or_default();
    match told(first) {
        Ok((signer, blob)) if is_as_told(&signer, &blob) => {}
        Ok(_) => return Holds::No("the line names another signer".into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Holds::Unknown(error.to_string());
        }
        Err(error) => {
            if then.is_none() && fits(run, line, signed) {
                return Holds::Unlisted(format!("the list of then was not kept, and {error}"));
            }
            return Holds::No(error.to_string());
        }
    }
    match (then, today) {
        (Some(then), Some(today)) if then != today => match told(today) {
            Ok((signer, blob)) if is_as_told(&signer, &blob) => Holds::Yes,
            Ok((signer, _)) => {
                let now = signer.principal.unwrap_or_default();
                Holds::Unlisted(format!("the list of signers now calls the key {now}"))
            }
            Err(_) => Holds::Unlisted("the list of signers no longer has the key".into()),
        },
        (_, None) => Holds::Unlisted("nobody vouches for the key without a list of signers".into()),
        _ => Holds::Yes,
    }
}

/// The signatures of a journal, checked line by line.
#[derive(Default)]
pub struct Signatures {
    run: String,
    /// The list of signers as it is now.
    today: Option<Vec<u8>>,
    /// The hashes of the lines so far, by number.
    heads: HashMap<u64, String>,
    /// The signatures so far: each counts once.
    seen: HashSet<String>,
}

impl Signatures {
    /// Those of a run.
    pub fn new(run: String, today: Option<Vec<u8>>) -> Signatures {
        Signatures { run, today, ..Signatures::default() }
    }

    /// A line that nobody has signed, nor should have.
    pub fn pass(&mut self, line: &Line) {
        self.heads.insert(line.seq, line.hash.clone());
    }

    /// Checks a line. `definition` is what the definition is known by that it was decided with, `then` the list of
    /// signers that was kept with it.
    pub fn check(
        &mut self,
        line: &Line,
        must_be: bool,
        definition: Option<&str>,
        then: Option<&[u8]>,
    ) -> Option<Checked> {
        let found = line.event.signed.as_deref();
        let holds = match found {
            Some(signed) => Some(self.holds(line, signed, definition, then)),
            None => must_be.then(|| Holds::No("the action counts only with a signature".into())),
        };
        self.pass(line);
        let (action, signed) = (line.event.name.clone(), found.map(ToString::to_string));
        holds.map(|holds| Checked { seq: line.seq, action, signed, holds })
    }

    fn holds(
        &mut self,
        line: &Line,
        signed: &Signed,
        definition: Option<&str>,
        then: Option<&[u8]>,
    ) -> Holds {
        let head = self.heads.get(&signed.line);
        // What was before the first line that is there, `prune` has removed.
        let is_gone = self.heads.keys().min().is_none_or(|first| signed.line < *first);
        if signed.line >= line.seq || head.map_or(!is_gone, |head| *head != signed.head) {
            return Holds::No(format!("it was made for another line {}", signed.line));
        }
        if definition.is_some_and(|definition| definition != signed.definition) {
            return Holds::No("it was made for another definition".into());
        }
        if !self.seen.insert(signed.signature.clone()) {
            return Holds::No("an earlier line has the same signature".into());
        }
        check(&self.run, line, signed, then, self.today.as_deref())
    }
}

/// Whether a signature fits, by a key that no list need have.
fn fits(run: &str, line: &Line, signed: &Signed) -> bool {
    let statement = statement(run, &line.event, signed);
    signature::verify(NAMESPACE, &statement, &signed.signature, None)
        .is_ok_and(|signer| signer.key == signed.key)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use jiff::Timestamp;
    use phasegate_engine::decide::params;
    use phasegate_engine::json::Json;

    use super::*;

    fn approve(reason: &str) -> Event {
        let params = params([("reason".to_string(), Json::from(reason))]);
        Event { params, ..Event::new("approve", Actor::Human) }
    }

    fn unsigned() -> Signed {
        Signed {
            principal: String::new(),
            key: String::new(),
            kind: String::new(),
            at: Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_hours(24 * 20_000),
            line: 3,
            head: "abc".into(),
            tree: Some("t1".into()),
            definition: "d1".into(),
            signers: String::new(),
            signature: String::new(),
        }
    }

    /// A signature is for one run, line, tree, definition, action, reason and time, each of them.
    #[test]
    fn a_signature_fits_nothing_else() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let key = folder.path().join("key");
        let mut made = Command::new("ssh-keygen");
        made.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&key);
        assert!(made.status()?.success());
        let public = std::fs::read_to_string(key.with_extension("pub"))?;
        let list = format!("ada {public}").into_bytes();
        let event = approve("fine");
        let mut signed = unsigned();
        signed.signature = sign(&statement("a/b", &event, &signed), &key)?;
        let (signer, blob) = verify("a/b", &event, &signed, &list)?;
        assert_eq!((signer.principal.as_deref(), blob.kind.as_str()), (Some("ada"), "ssh-ed25519"));
        assert!(!blob.is_of_person());
        let others = [
            Signed { line: 4, ..signed.clone() },
            Signed { head: "abd".into(), ..signed.clone() },
            Signed { tree: Some("t2".into()), ..signed.clone() },
            Signed { tree: None, ..signed.clone() },
            Signed { definition: "d2".into(), ..signed.clone() },
            Signed { at: Timestamp::UNIX_EPOCH, ..signed.clone() },
        ];
        for other in &others {
            assert!(verify("a/b", &event, other, &list).is_err(), "{other:?}");
        }
        assert!(verify("a/c", &event, &signed, &list).is_err());
        assert!(verify("a/b", &approve("fine\ntime: 1"), &signed, &list).is_err());
        let reject = Event { name: "reject".into(), ..event.clone() };
        assert!(verify("a/b", &reject, &signed, &list).is_err());
        assert!(verify("a/b", &event, &signed, b"").is_err());
        // A signature that git would take is none of ours.
        let other = signature::sign("git", &statement("a/b", &event, &signed), &key)?;
        let other = Signed { signature: other, ..signed };
        assert!(verify("a/b", &event, &other, &list).is_err());
        Ok(())
    }

    /// What is typed cannot look like another line of what is signed.
    #[test]
    fn every_part_has_its_line() {
        let text = statement("a/b", &approve("x\ntree: t9\n"), &unsigned());
        assert_eq!(text.lines().count(), 8, "{text}");
        assert!(text.contains(r#"parameters: {"reason":"x\ntree: t9\n"}"#), "{text}");
    }
}
