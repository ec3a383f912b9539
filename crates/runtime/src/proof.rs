//! A run as a bundle that a stranger can decide again: its definition, its journal and its evidence, with an
//! in-toto statement about the git tree that it was about, signed with an SSH key.
//!
//! The bundle is one JSON file of one line. Its last member is the digest of what stands before it, as in a
//! journal, so that a damaged file is known at once. That seal proves nothing about who made it: the
//! statement names the digest of every part, and the signature is over the statement.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use jiff::Timestamp;
use phasegate_engine::answer::{Answer, Outcome};
use phasegate_engine::digest::digest;
use phasegate_engine::scene::Scene;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::approval::{Checked, List};
use crate::gate::{Comparison, Decided, Found, GateError, Replay, Runs};
use crate::git;
use crate::journal::{self, Basis, Line, Ruling};
use crate::ledger::{Ledger, Position};
use crate::signature::{self, Signers};

pub use crate::signature::Signer;

/// Where proofs can be kept in the tree that they are about: it is not a part of that.
pub const FOLDER: &str = ".phasegate/proofs";

/// The format that is written.
const FORMAT: &str = "phasegate-proof/1";

/// What an in-toto statement is, and one of ours.
const STATEMENT: &str = "https://in-toto.io/Statement/v1";
const PREDICATE: &str = "urn:phasegate:proof:v1";

/// What SSH signatures are made for, so that none of another purpose is taken for one.
const NAMESPACE: &str = "phasegate-proof";

/// How the seal begins in the file.
const SEAL: &str = ",\"seal\":\"";

/// A run as a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bundle {
    format: String,
    /// The in-toto statement, as it was signed.
    pub statement: String,
    /// The SSH signature over the statement, as `ssh-keygen` writes it.
    pub signature: String,
    /// The copy of the definition that the run keeps to.
    pub definition: String,
    /// The lines of the journal.
    pub journal: Vec<String>,
    /// Pieces of evidence, by digest; those that are not text in base 16.
    pub pieces: BTreeMap<String, Piece>,
}

/// A piece of evidence in a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Piece {
    Text(String),
    Hex(String),
}

impl Piece {
    /// A piece with these bytes.
    pub fn new(bytes: Vec<u8>) -> Piece {
        match String::from_utf8(bytes) {
            Ok(text) => Piece::Text(text),
            Err(error) => {
                let hex = error.as_bytes().iter().map(|byte| format!("{byte:02x}"));
                Piece::Hex(hex.collect())
            }
        }
    }

    /// The bytes; none where they cannot be understood.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        match self {
            Piece::Text(text) => Some(text.clone().into_bytes()),
            Piece::Hex(hex) => {
                let digits = hex.as_bytes();
                let pair = |pair: &[u8]| {
                    let text = std::str::from_utf8(pair).ok().filter(|_| pair.len() == 2)?;
                    u8::from_str_radix(text, 16).ok()
                };
                digits.chunks(2).map(pair).collect()
            }
        }
    }
}

/// A git tree, by its name, and the commit that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitTree {
    pub tree: String,
    pub commit: String,
}

/// The tree of the last commit here, without the proofs in it.
///
/// # Errors
/// Where git cannot tell.
pub fn own_tree(root: &Path) -> Result<GitTree, String> {
    let (tree, commit) = git::committed_tree(root, FOLDER)?;
    Ok(GitTree { tree, commit })
}

/// What a statement says, as far as it is checked.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Statement {
    #[serde(rename = "_type")]
    kind: String,
    subject: Vec<Subject>,
    #[serde(rename = "predicateType")]
    predicate_type: String,
    predicate: Predicate,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Subject {
    name: String,
    digest: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Predicate {
    run: String,
    workflow: String,
    made_at: Timestamp,
    version: String,
    /// The digest of the definition, and of all lines of the journal together.
    definition: String,
    journal: String,
    lines: u64,
    /// The hash of the last line.
    head: String,
    pieces: Vec<String>,
    /// What the last stop was answered.
    answer: Option<Answer>,
}

/// Why a bundle proves nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    #[error("it is damaged: {0}")]
    Damaged(String),
    #[error("its {0} is not what the statement names")]
    Other(&'static str),
    #[error("piece {0} of its evidence is not what it is called")]
    Piece(String),
    #[error("its journal: {0}")]
    Journal(String),
    #[error("it is about tree {0}, but this is tree {1}")]
    Tree(String, String),
}

/// What a bundle is made of.
#[derive(Debug)]
pub struct Parts {
    pub run: String,
    pub workflow: String,
    pub definition: Vec<u8>,
    pub journal: Vec<String>,
    pub pieces: BTreeMap<String, Vec<u8>>,
    pub tree: GitTree,
}

/// What a bundle says once everything in it fits.
#[derive(Debug)]
pub struct Proof {
    pub run: String,
    pub workflow: String,
    pub tree: GitTree,
    pub made_at: Timestamp,
    /// What the definition is known by.
    pub identity: String,
    /// What the last stop was answered.
    pub answer: Option<Answer>,
    /// Every line, decided again.
    pub lines: Vec<Decided>,
    /// A list of signers was given, so that the key of every approval must stand there.
    pub has_list: bool,
}

impl Proof {
    /// How many lines are decided as they say.
    pub fn same(&self) -> usize {
        self.lines.iter().filter(|line| line.again == Comparison::Same).count()
    }

    /// The lines that are decided otherwise than they say.
    pub fn different(&self) -> impl Iterator<Item = &Decided> {
        self.lines.iter().filter(|line| matches!(line.again, Comparison::Different { .. }))
    }

    /// The lines of which that cannot be told, each with why.
    pub fn unknown(&self) -> impl Iterator<Item = (&Decided, &str)> {
        self.lines.iter().filter_map(|line| match &line.again {
            Comparison::Unknown(why) => Some((line, why.as_str())),
            _ => None,
        })
    }

    /// The approvals that are signed, or should be.
    pub fn approvals(&self) -> impl Iterator<Item = &Checked> {
        self.lines.iter().filter_map(|line| line.signature.as_ref())
    }

    /// Whether the run was let go as done.
    pub fn is_done(&self) -> bool {
        self.answer.as_ref().and_then(Answer::outcome) == Some(Outcome::Done)
    }
}

impl Bundle {
    /// A bundle that is not signed yet.
    ///
    /// # Errors
    /// Where a part of it is not text.
    pub fn new(parts: Parts) -> Result<Bundle, Broken> {
        let Parts { run, workflow, definition, journal, pieces, tree } = parts;
        let damaged = |error: &dyn ToString| Broken::Damaged(error.to_string());
        let head = journal.last().and_then(|line| journal::position(line));
        let (lines, head) = head.ok_or_else(|| Broken::Journal("it is empty".into()))?;
        let answered = journal.iter().rev().find_map(|line| stop_answer(line));
        let digests = [("gitTree", tree.tree), ("gitCommit", tree.commit)];
        let statement = Statement {
            kind: STATEMENT.into(),
            subject: vec![Subject {
                name: "git+tree".into(),
                digest: digests.map(|(kind, name)| (kind.to_string(), name)).into(),
            }],
            predicate_type: PREDICATE.into(),
            predicate: Predicate {
                run,
                workflow,
                made_at: Timestamp::now(),
                version: env!("CARGO_PKG_VERSION").into(),
                definition: digest(&definition),
                journal: digest(journal.join("\n").as_bytes()),
                lines,
                head,
                pieces: pieces.keys().cloned().collect(),
                answer: answered,
            },
        };
        let pieces = pieces.into_iter().map(|(name, bytes)| (name, Piece::new(bytes)));
        Ok(Bundle {
            format: FORMAT.into(),
            statement: serde_json::to_string(&statement).map_err(|error| damaged(&error))?,
            signature: String::new(),
            definition: String::from_utf8(definition).map_err(|error| damaged(&error))?,
            journal,
            pieces: pieces.collect(),
        })
    }

    /// The file's text.
    ///
    /// # Errors
    /// Where it cannot be written as JSON.
    pub fn to_text(&self) -> Result<String, serde_json::Error> {
        let body = serde_json::to_string(self)?;
        let body = &body[..body.len() - 1];
        Ok(format!("{body}{SEAL}{}\"}}\n", digest(body.as_bytes())))
    }

    /// The bundle of a file. What does not come out as it went in is damaged.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(text: &str) -> Result<Bundle, Broken> {
        let damaged = |why: &str| Broken::Damaged(why.to_string());
        let (body, _) = text.rsplit_once(SEAL).ok_or_else(|| damaged("it has no seal"))?;
        let bundle: Bundle = serde_json::from_str(&format!("{body}}}"))
            .map_err(|error| Broken::Damaged(error.to_string()))?;
        if bundle.format != FORMAT {
            return Err(damaged(&format!("{:?} is not {FORMAT:?}", bundle.format)));
        }
        let again = bundle.to_text().map_err(|error| Broken::Damaged(error.to_string()))?;
        if again == text { Ok(bundle) } else { Err(damaged("its seal does not fit")) }
    }

    /// Signs the statement.
    ///
    /// # Errors
    /// Where `ssh-keygen` did not sign.
    pub fn sign(&mut self, key: &Path) -> io::Result<()> {
        self.signature = signature::sign(NAMESPACE, &self.statement, key)?;
        Ok(())
    }

    /// Checks the signature over the statement; whose it is, where a list of signers is given.
    ///
    /// # Errors
    /// Where it does not fit, or its key is not in the list.
    pub fn signer(&self, signers: Option<&Path>) -> io::Result<Signer> {
        let signers = signers.map(|list| Signers { list, at: None });
        signature::verify(NAMESPACE, &self.statement, &self.signature, signers)
    }

    /// Checks everything but the signature, and decides every line again. The signatures of approvals are checked
    /// with the list of signers that was kept with each, and with this one.
    ///
    /// # Errors
    /// The first part that does not fit.
    pub fn check(&self, here: &GitTree, signers: Option<&List>) -> Result<Proof, Broken> {
        let Statement { kind, subject, predicate_type, predicate } =
            serde_json::from_str(&self.statement)
                .map_err(|error| Broken::Damaged(format!("its statement: {error}")))?;
        if kind != STATEMENT || predicate_type != PREDICATE {
            return Err(Broken::Damaged("its statement is not one of ours".into()));
        }
        let named = |kind: &str| {
            let name = subject.first().and_then(|subject| subject.digest.get(kind)).cloned();
            name.ok_or_else(|| Broken::Damaged("its statement names no tree".into()))
        };
        let tree = GitTree { tree: named("gitTree")?, commit: named("gitCommit")? };
        if here.tree != tree.tree {
            return Err(Broken::Tree(tree.tree, here.tree.clone()));
        }
        if digest(self.definition.as_bytes()) != predicate.definition {
            return Err(Broken::Other("definition"));
        }
        if digest(self.journal.join("\n").as_bytes()) != predicate.journal {
            return Err(Broken::Other("journal"));
        }
        if !self.pieces.keys().eq(&predicate.pieces) {
            return Err(Broken::Other("list of evidence"));
        }
        for (name, piece) in &self.pieces {
            if piece.bytes().is_none_or(|bytes| digest(&bytes) != *name) {
                return Err(Broken::Piece(name.clone()));
            }
        }
        let position =
            Position { seq: predicate.lines, head: predicate.head.clone(), ..Position::default() };
        journal::verify(&self.journal, &Ledger { position, ..Ledger::default() })
            .map_err(Broken::Journal)?;
        let answered = self.journal.iter().rev().find_map(|line| stop_answer(line));
        if answered != predicate.answer {
            return Err(Broken::Other("last answer"));
        }
        let find = |name: &str| self.pieces.get(name).and_then(Piece::bytes);
        let copy = Some(self.definition.clone().into_bytes());
        let list = signers.map(|list| list.bytes.clone());
        let replay = Replay::new(&predicate.workflow, copy, Box::new(find));
        let mut replay = replay.signed(predicate.run.clone(), list);
        let lines = self.journal.iter().map(|line| replay.line(line));
        let lines = lines.collect::<Result<Vec<_>, _>>();
        let lines = lines.map_err(|error| Broken::Journal(error.to_string()))?;
        let definition: Value = serde_json::from_str(&self.definition)
            .map_err(|error| Broken::Damaged(format!("its definition: {error}")))?;
        let identity = definition["definition"].as_str().unwrap_or_default().to_string();
        let Predicate { run, workflow, made_at, answer, .. } = predicate;
        let has_list = signers.is_some();
        Ok(Proof { run, workflow, tree, made_at, identity, answer, lines, has_list })
    }
}

/// What a proof of a run is made of, and what each piece of its evidence is, also of those that are lost.
///
/// # Errors
/// Where nothing was decided yet, or it cannot be read.
pub fn parts(
    runs: &Runs,
    found: &Found,
    tree: GitTree,
) -> Result<(Parts, BTreeMap<String, String>), GateError> {
    if let Some(pruned) = found.ledger.position.pruned {
        let (id, lines) = (&found.id, pruned.lines);
        return Err(GateError::NotReady(format!(
            "run {id} was pruned: {lines} of its lines and their evidence were removed, so that nobody can decide them \
             again"
        )));
    }
    let definition = runs.copy_of(found)?;
    let definition = definition.ok_or_else(|| {
        GateError::NotReady(format!("run {} has not decided anything yet", found.id))
    })?;
    let own = digest(&definition);
    let journal = runs.journal(found)?;
    let mut named: BTreeMap<String, String> = BTreeMap::new();
    for line in journal.iter().filter_map(|line| serde_json::from_str::<Line>(line).ok()) {
        if let Some(signed) = &line.event.signed {
            named.insert(signed.signers.clone(), format!("the signers as of line {}", line.seq));
        }
        let Some(Basis::Rules(Ruling { scene, .. })) = line.basis else { continue };
        if scene.is_empty() {
            continue;
        }
        let what = format!("what line {} looked up", line.seq);
        let kept = runs.piece(found, &scene);
        named.insert(scene, what);
        let kept = kept.and_then(|bytes| serde_json::from_slice::<Scene>(&bytes).ok());
        let Some(kept) = kept else { continue };
        let files = kept.seen.files();
        named.extend(files.map(|(path, digest)| (digest.to_string(), format!("file {path}"))));
        named.insert(kept.document, format!("the document before line {}", line.seq));
        if kept.definition != own && !kept.definition.is_empty() {
            named.insert(kept.definition, "an earlier definition".into());
        }
    }
    let pieces = named.keys();
    let pieces = pieces.filter_map(|name| Some((name.clone(), runs.piece(found, name)?)));
    let parts = Parts {
        run: found.id.to_string(),
        workflow: found.id.workflow.clone(),
        definition,
        journal,
        pieces: pieces.collect(),
        tree,
    };
    Ok((parts, named))
}

/// The answer of a line that is about a stop.
fn stop_answer(line: &str) -> Option<Answer> {
    let line: Line = serde_json::from_str(line).ok()?;
    line.event.is_question().then_some(line.answer)
}
