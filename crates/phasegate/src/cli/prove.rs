//! `phasegate prove` and `phasegate verify-proof`

use std::collections::BTreeMap;
use std::io::{BufRead, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use phasegate_runtime::approval::{Checked, Holds, List};
use phasegate_runtime::gate::Runs;
use phasegate_runtime::project::Project;
use phasegate_runtime::proof::{Bundle, GitTree, Proof, Signer, own_tree, parts};
use phasegate_runtime::{caller, git, outside};
use schemars::JsonSchema;
use serde::Serialize;

use super::lint::counted;
use super::{Failed, Outcome, no_agent, shown_run, signing};
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
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A bundle that was written, for programs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Shown {
    run: String,
    file: PathBuf,
    /// The lines of its journal, and the pieces of evidence that it has and lacks.
    lines: usize,
    pieces: usize,
    lost: usize,
}

#[derive(Debug, Args)]
pub struct VerifyOptions {
    /// The bundle
    bundle: PathBuf,
    /// A list of signers, as ssh-keygen knows it: whose key it is must stand there
    #[arg(long, value_name = "FILE")]
    signers: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What a proof says, for programs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Verified {
    run: String,
    /// Every line is decided again as it says.
    proved: bool,
    /// The run ended as done.
    done: bool,
    /// The commit that it is about.
    commit: String,
    /// The key that signed it, and whose it is where somebody vouches for that.
    key: String,
    signer: Option<String>,
    same: usize,
    different: usize,
    unknown: usize,
    /// Its approvals that are signed, or should be, each in a sentence.
    approvals: Vec<String>,
}

pub fn run(project: &Project, options: &Options) -> Outcome {
    print::aside_for(options.json);
    no_agent(project, "prove")?;
    let gate = Runs::new(project);
    let run = shown_run(&gate, options.run.as_deref())?;
    let changed = git::uncommitted(&project.root).map_err(Failed::new)?;
    if let Some(first) = changed.first() {
        let more = match changed.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        return Err(Failed::new(format!(
            "commit first: {first}{more} is not as in the last commit"
        )));
    }
    let tree = own_tree(&project.root).map_err(Failed::new)?;
    let (made, named) = parts(&gate, &run, tree.clone())?;
    let mut bundle = Bundle::new(made).map_err(|error| Failed::new(error.to_string()))?;
    list(&run.id.to_string(), &tree, &bundle, &named);
    let lost = named.iter().filter(|(digest, _)| !bundle.pieces.contains_key(*digest)).count();
    if lost > 0 {
        let pieces = counted(lost, "piece");
        print::line(&format!(
            "Not kept: {pieces} of its evidence. Lines that need them cannot be decided again."
        ));
    }
    caller::must_be_human("signing a proof")?;
    let key = signing::key(project, options.key.as_deref())?;
    if !options.yes && !is_wanted(&key)? {
        return Err(Failed::new("nothing was written".into()));
    }
    bundle.sign(&key)?;
    if let Some(folder) = options.output.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(&options.output, bundle.to_text()?)?;
    print::line(&format!("{} was written.", options.output.display()));
    if options.json {
        let (lines, pieces) = (bundle.journal.len(), bundle.pieces.len());
        let (run, file) = (run.id.to_string(), options.output.clone());
        print::json(&Shown { run, file, lines, pieces, lost });
    }
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
        return Err(Failed::new("there is nobody to ask; --yes does not ask".into()));
    }
    print::ask(&format!(
        "All of it goes into the bundle, signed with {}. Go on? [y/N] ",
        key.display()
    ));
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

pub fn verify_proof(project: &Project, options: &VerifyOptions) -> Outcome {
    let here = own_tree(&project.root).map_err(Failed::new)?;
    let (proof, signer) = checked(&options.bundle, options.signers.as_deref(), &here)?;
    print::aside_for(options.json);
    for row in told(&proof, &signer) {
        print::row(&row);
    }
    if options.json {
        print::json(&Verified {
            run: proof.run.clone(),
            proved: is_proved(&proof),
            done: proof.is_done(),
            commit: proof.tree.commit.clone(),
            key: signer.key.clone(),
            signer: signer.principal.clone(),
            same: proof.same(),
            different: proof.different().count(),
            unknown: proof.unknown().count(),
            approvals: proof.approvals().map(Checked::sentence).collect(),
        });
    }
    Ok(if is_proved(&proof) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A bundle whose every part fits, and who has signed it.
pub fn checked(
    path: &Path,
    signers: Option<&Path>,
    here: &GitTree,
) -> Result<(Proof, Signer), Failed> {
    let why = |error: &dyn std::fmt::Display| Failed::new(format!("{}: {error}", path.display()));
    let text = outside::read_text(path, MAX_BUNDLE).map_err(|error| why(&error))?;
    let bundle = Bundle::read(&text).map_err(|error| why(&error))?;
    let signer = bundle.signer(signers).map_err(|error| why(&error))?;
    let list = signers.map(List::read).transpose()?;
    let proof = bundle.check(here, list.as_ref()).map_err(|error| why(&error))?;
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
    rows.extend(proof.approvals().map(Checked::sentence));
    rows.extend(proof.unknown().map(|(line, why)| format!("line {} is unknown: {why}", line.seq)));
    rows
}

/// What is not known is not proved either, nor is an approval whose signer nobody knows where a list was given.
pub fn is_proved(proof: &Proof) -> bool {
    let is_known = proof.has_list;
    let mut approvals = proof.approvals().map(|it| &it.holds);
    let hold = approvals.all(|holds| match holds {
        Holds::Yes => true,
        Holds::Unlisted(_) => !is_known,
        Holds::No(_) | Holds::Unknown(_) => false,
    });
    hold && proof.different().next().is_none() && proof.unknown().next().is_none()
}
