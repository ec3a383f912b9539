//! `phasegate prove` and `phasegate verify-proof`

use std::collections::BTreeMap;
use std::io::{BufRead, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use phasegate_runtime::gate::Runs;
use phasegate_runtime::project::Project;
use phasegate_runtime::proof::{Bundle, GitTree, Proof, Signer, own_tree, parts, sign, verify};
use phasegate_runtime::{caller, git, outside};

use super::lint::counted;
use super::{Failed, Outcome, no_agent, shown_run};
use crate::print;

/// A larger bundle is not read.
const MAX_BUNDLE: u64 = 512 << 20;

#[derive(Debug, Args)]
pub struct Options {
    /// The run, as WORKFLOW/NAME; by default the one that decided last
    run: Option<String>,
    /// The file to write; in .phasegate/proofs it can be committed with what it is about
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// The SSH key to sign with; by default that of git's user.signingKey, then ~/.ssh
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

#[derive(Debug, Args)]
pub struct VerifyOptions {
    /// The bundle
    bundle: PathBuf,
    /// A list of signers, as ssh-keygen knows it: whose key it is must stand there
    #[arg(long, value_name = "FILE")]
    signers: Option<PathBuf>,
}

pub fn run(project: &Project, options: &Options) -> Outcome {
    no_agent(project, "prove")?;
    let gate = Runs::new(project);
    let run = shown_run(&gate, options.run.as_deref())?;
    let changed = git::uncommitted(&project.root).map_err(Failed)?;
    if let Some(first) = changed.first() {
        let more = match changed.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        return Err(Failed(format!("commit first: {first}{more} is not as in the last commit")));
    }
    let tree = own_tree(&project.root).map_err(Failed)?;
    let (made, named) = parts(&gate, &run, tree.clone())?;
    let mut bundle = Bundle::new(made).map_err(|error| Failed(error.to_string()))?;
    list(&run.id.to_string(), &tree, &bundle, &named);
    let lost = named.iter().filter(|(digest, _)| !bundle.pieces.contains_key(*digest)).count();
    if lost > 0 {
        let lost = counted(lost, "piece");
        print::line(&format!(
            "{lost} of its evidence were not kept: lines that need them are unknown."
        ));
    }
    caller::must_be_human("signing a proof").map_err(Failed)?;
    let key = key(project, options.key.as_deref())?;
    if !options.yes && !is_wanted(&key)? {
        return Err(Failed("nothing was written".into()));
    }
    bundle.signature = sign(&bundle.statement, &key)?;
    if let Some(folder) = options.output.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(&options.output, bundle.to_text()?)?;
    print::line(&format!("{} was written.", options.output.display()));
    Ok(ExitCode::SUCCESS)
}

/// Lists everything that a bundle has.
fn list(run: &str, tree: &GitTree, bundle: &Bundle, named: &BTreeMap<String, String>) {
    print::row(&format!("{run}, about tree {} of commit {}:", tree.tree, tree.commit));
    print::line(&format!("  definition  {} bytes", bundle.definition.len()));
    print::line(&format!("  journal  {}", counted(bundle.journal.len(), "line")));
    for (digest, piece) in &bundle.pieces {
        let what = named.get(digest).map_or("what was looked up", String::as_str);
        let bytes = piece.bytes().map_or(0, |bytes| bytes.len());
        print::row(&format!("  {}  {what}, {bytes} bytes", &digest[..12]));
    }
}

fn is_wanted(key: &Path) -> Result<bool, Failed> {
    if !std::io::stdin().is_terminal() {
        return Err(Failed("there is nobody to ask; --yes does not ask".into()));
    }
    print::ask(&format!(
        "All of it goes into the bundle, signed with {}. Go on? [y/N] ",
        key.display()
    ));
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

/// The key to sign with.
fn key(project: &Project, named: Option<&Path>) -> Result<PathBuf, Failed> {
    if let Some(key) = named {
        return Ok(key.to_path_buf());
    }
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let of_git = git::signing_key(&project.root).map(|key| match key.strip_prefix("~/") {
        Some(rest) => home.join(rest),
        None => PathBuf::from(key),
    });
    let usual = ["id_ed25519", "id_ecdsa", "id_rsa"].map(|name| home.join(".ssh").join(name));
    let found = of_git.into_iter().chain(usual).find(|key| key.is_file());
    found.ok_or_else(|| Failed("there is no SSH key to sign with; --key names one".into()))
}

pub fn verify_proof(project: &Project, options: &VerifyOptions) -> Outcome {
    let here = own_tree(&project.root).map_err(Failed)?;
    let (proof, signer) = checked(&options.bundle, options.signers.as_deref(), &here)?;
    for row in told(&proof, &signer) {
        print::row(&row);
    }
    Ok(if is_proved(&proof) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A bundle whose every part fits, and who has signed it.
pub fn checked(
    path: &Path,
    signers: Option<&Path>,
    here: &GitTree,
) -> Result<(Proof, Signer), Failed> {
    let why = |error: &dyn std::fmt::Display| Failed(format!("{}: {error}", path.display()));
    let text = outside::read_text(path, MAX_BUNDLE).map_err(|error| why(&error))?;
    let bundle = Bundle::read(&text).map_err(|error| why(&error))?;
    let signer = verify(&bundle.statement, &bundle.signature, signers);
    let signer = signer.map_err(|error| why(&error))?;
    let proof = bundle.check(here).map_err(|error| why(&error))?;
    Ok((proof, signer))
}

/// What a proof says, a sentence on each line.
pub fn told(proof: &Proof, signer: &Signer) -> Vec<String> {
    let answer = proof.answer.as_ref().map_or("no stop yet".into(), ToString::to_string);
    let same = proof.same();
    let (different, unknown) = (proof.different().count(), proof.unknown().count());
    let who = match &signer.principal {
        Some(name) => format!("{name}, key {}", signer.key),
        None => format!("key {}; nobody vouches for it without --signers", signer.key),
    };
    let mut rows = vec![
        format!("{}: {answer}", proof.run),
        format!("tree {} of commit {}: this one", proof.tree.tree, proof.tree.commit),
        format!("signed by {who}"),
        format!(
            "{}, chain intact; decisions: {same} same · {different} different · {unknown} unknown",
            counted(proof.lines.len(), "line")
        ),
    ];
    rows.extend(
        proof.different().map(|line| {
            format!("line {} says {}, and the rules say otherwise", line.seq, line.was())
        }),
    );
    rows.extend(proof.unknown().map(|(line, why)| format!("line {} is unknown: {why}", line.seq)));
    rows
}

/// What is not known is not proved either.
pub fn is_proved(proof: &Proof) -> bool {
    proof.different().next().is_none() && proof.unknown().next().is_none()
}
