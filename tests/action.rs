//! The GitHub Action, run as a runner runs it: its steps are read from `action.yml`, and each is a script for its shell, with its
//! environment and its inputs filled in, in a fresh checkout.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::proofs::{PROOF, proved};
use crate::scene::{Ran, Scene, finish};

/// What `action.yml` says, as far as actions of this kind go.
#[derive(Debug, Default)]
struct Action {
    /// The defaults of its inputs.
    inputs: BTreeMap<String, String>,
    steps: Vec<Step>,
}

#[derive(Debug, Default)]
struct Step {
    shell: String,
    env: Vec<(String, String)>,
    run: String,
}

/// A text in quotation marks, or without.
fn plain(text: &str) -> String {
    text.trim().trim_matches('"').to_string()
}

impl Action {
    /// Reads an action: the part of YAML that it is written in, and nothing else, so that nothing is passed over.
    fn read(text: &str) -> Action {
        let mut action = Action::default();
        // The keys above a line, each with how far it is indented.
        let mut above: Vec<(usize, String)> = Vec::new();
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            let mut rest = line.trim_start();
            if rest.is_empty() || rest.starts_with('#') {
                continue;
            }
            let mut indent = line.len() - rest.len();
            if let Some(item) = rest.strip_prefix("- ") {
                action.steps.push(Step::default());
                (rest, indent) = (item, indent + 2);
            }
            above.retain(|(other, _)| *other < indent);
            let (key, value) = rest.split_once(':').unwrap_or_else(|| panic!("{line}"));
            let path: Vec<&str> = above.iter().map(|(_, key)| key.as_str()).collect();
            let mut value = plain(value);
            if value == "|" {
                let is_inside = |next: &&str| {
                    next.trim().is_empty() || next.len() - next.trim_start().len() > indent
                };
                let mut block = Vec::new();
                while let Some(next) = lines.next_if(is_inside) {
                    block.push(next.get(indent + 2..).unwrap_or_default());
                }
                value = block.join("\n");
            }
            let step = action.steps.last_mut();
            match (path.as_slice(), key, step) {
                ([], "name" | "description" | "inputs" | "runs", _)
                | (["inputs"], _, _)
                | (["inputs", _], "description", _)
                | (["runs"], "steps", _)
                | (["runs", "steps"], "env" | "name", Some(_)) => {}
                (["runs"], "using", _) => assert_eq!(value, "composite"),
                (["inputs", name], "default", _) => {
                    action.inputs.insert((*name).to_string(), value);
                }
                (["runs", "steps"], "shell", Some(step)) => step.shell = value,
                (["runs", "steps"], "run", Some(step)) => step.run = value,
                (["runs", "steps", "env"], name, Some(step)) => {
                    step.env.push((name.to_string(), value));
                }
                _ => panic!("a runner may know this, but this test does not: {line}"),
            }
            above.push((indent, key.to_string()));
        }
        action
    }
}

/// The runner: a checkout, and a folder for the files by which a step tells it something.
struct Runner {
    checkout: PathBuf,
    told: PathBuf,
}

impl Runner {
    /// A fresh checkout of what is committed.
    fn new(scene: &Scene) -> Runner {
        let (checkout, told) = (scene.path("home/checkout"), scene.path("home/runner"));
        std::fs::create_dir_all(&told).unwrap();
        scene.git(&["clone", "-q", ".", checkout.to_str().unwrap()]);
        // What the check of the scene looks for.
        std::fs::create_dir(checkout.join("home")).unwrap();
        std::fs::write(checkout.join("home/here"), "").unwrap();
        Runner { checkout, told }
    }

    /// Runs the action; what its last step has said. A step that fails is the last one.
    fn uses(&self, inputs: &[(&str, &str)]) -> Ran {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../action.yml");
        let action = Action::read(&std::fs::read_to_string(file).unwrap());
        let mut given = action.inputs.clone();
        for (name, value) in inputs {
            assert!(given.insert((*name).to_string(), (*value).to_string()).is_some(), "{name}");
        }
        let filled = |text: &str| {
            let mut text = text.to_string();
            for (name, value) in &given {
                text = text.replace(&format!("${{{{ inputs.{name} }}}}"), value);
            }
            assert!(!text.contains("${{"), "{text}");
            text
        };
        assert!(!action.steps.is_empty());
        let mut last = None;
        for (number, step) in action.steps.iter().enumerate() {
            assert_eq!(step.shell, "bash");
            let script = self.told.join(format!("step-{number}.sh"));
            std::fs::write(&script, filled(&step.run)).unwrap();
            // As the documentation of GitHub says of `shell: bash`.
            let mut command = Command::new("bash");
            command.args(["--noprofile", "--norc", "-eo", "pipefail"]).arg(&script);
            command.current_dir(&self.checkout).env_clear();
            command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
            command.env("HOME", &self.told).env("CI", "true").env("GITHUB_ACTIONS", "true");
            command.env("GITHUB_WORKSPACE", &self.checkout).env("RUNNER_TEMP", &self.told);
            for (name, file) in [("GITHUB_OUTPUT", "output"), ("GITHUB_STEP_SUMMARY", "summary")] {
                let file = self.told.join(file);
                std::fs::write(&file, "").unwrap();
                command.env(name, file);
            }
            command.envs(step.env.iter().map(|(name, value)| (name, filled(value))));
            command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
            let ran = finish(command.spawn().unwrap());
            let failed = ran.code != Some(0);
            last = Some(ran);
            if failed {
                break;
            }
        }
        last.unwrap()
    }

    fn summary(&self) -> String {
        std::fs::read_to_string(self.told.join("summary")).unwrap()
    }
}

const PROGRAM: (&str, &str) = ("phasegate", env!("CARGO_BIN_EXE_phasegate"));

/// A run that is proved, with its proof committed.
fn committed() -> Scene {
    let scene = proved();
    scene.git(&["add", "-f", PROOF]);
    scene.git(&["commit", "-qm", "proof"]);
    scene
}

#[test]
fn it_passes_on_the_tree_that_the_proof_is_about() {
    let scene = committed();
    let runner = Runner::new(&scene);
    let ran = runner.uses(&[PROGRAM]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let summary = runner.summary();
    for row in
        ["every line is decided again as it says", "the run ended as done", "check tests passed"]
    {
        assert!(summary.contains(row), "{row}: {summary}");
    }
    assert!(summary.contains("| ok |") && !summary.contains("failed"), "{summary}");
    // Bundles and signers as inputs, of which there may be several.
    let signers = runner.told.join("signers");
    let public = scene.read("home/key.pub");
    std::fs::write(&signers, format!("someone@example.org {public}")).unwrap();
    let two = format!("{PROOF} {PROOF}");
    let inputs = [PROGRAM, ("proofs", &two), ("signers", signers.to_str().unwrap())];
    let ran = runner.uses(&inputs);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(ran.stdout.matches("signed by someone@example.org").count(), 2, "{ran:?}");
    std::fs::write(&signers, "").unwrap();
    let ran = runner.uses(&inputs);
    assert_eq!(ran.code, Some(1), "{ran:?}");
}

#[test]
fn it_fails_on_another_tree_and_where_something_is_missing() {
    let scene = committed();
    scene.file("finished", "changed after the proof");
    scene.git(&["commit", "-qam", "more"]);
    let runner = Runner::new(&scene);
    let ran = runner.uses(&[PROGRAM]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(runner.summary().contains("but this is tree"), "{}", runner.summary());
    // A bundle that was changed, none at all, and no program.
    let bundle = runner.checkout.join(PROOF);
    let text = std::fs::read_to_string(&bundle).unwrap();
    std::fs::write(&bundle, text.replacen("finished", "finisheD", 1)).unwrap();
    assert_eq!(runner.uses(&[PROGRAM]).code, Some(1));
    std::fs::remove_file(&bundle).unwrap();
    let ran = runner.uses(&[PROGRAM]);
    assert!(ran.code == Some(1) && ran.stderr.contains("there is no proof"), "{ran:?}");
    assert_eq!(runner.uses(&[("phasegate", "not-installed-anywhere")]).code, Some(127));
}
