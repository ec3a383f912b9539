//! Approvals that a person signs.

use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use phasegate_engine::digest::digest;
use serde_json::{Value, json};

use crate::scene::{Ran, Scene, finish};

const SHIP: &str = r#"name = "ship"
about = "A person approves what is shipped."
initial = "working"
document = ".phasegate/ship/*.json"

[action.look]
about = "Say that somebody has looked."
by = "human"
param = { reason = { type = "string", about = "Why" } }

[action.approve]
about = "Approve it."
by = "human"
signed = true
param = { reason = { type = "string", about = "Why" } }

[phase.working]
rules = [
  { on = "look", set = { "state.seen" = "event.signed_by" } },
  { on = "approve", goto = "done", allow = "done" },
  { on = "stop", allow = "waiting", until = "human", message = "Approve it." },
]
[phase.done]
final = true
"#;

const RUN: &str = "ship/ship";
const LIST: &str = ".phasegate/allowed_signers";

/// A run that waits for an approval, and a person with a key whom the project knows.
fn waiting() -> Scene {
    waiting_with(SHIP)
}

fn waiting_with(definition: &str) -> Scene {
    let scene = Scene::new();
    scene.file(".phasegate/workflows/ship.toml", definition);
    scene.file(".gitignore", "home\n.phasegate/ship\n.phasegate/runs\n");
    scene.file("code.txt", "one\n");
    scene.git(&["init", "-q"]);
    new_key(&scene, "home/key");
    list(&scene, "home/key");
    scene.git(&["add", "-A"]);
    scene.git(&["commit", "-qm", "begin"]);
    scene.ok_by_hand(&["start", "ship"]);
    scene
}

fn new_key(scene: &Scene, path: &str) {
    std::fs::create_dir_all(scene.path("home")).unwrap();
    let mut command = Command::new("ssh-keygen");
    command.args(["-q", "-t", "ed25519", "-N", "", "-C", "ada@example.org", "-f"]);
    assert!(command.arg(scene.path(path)).status().unwrap().success());
}

/// Makes a key the only one in the list of signers, and has a person consent to that.
fn list(scene: &Scene, key: &str) {
    scene.file(LIST, format!("ada@example.org {}", scene.read(&format!("{key}.pub"))));
    scene.ok_by_hand(&["trust", "--signers", "--yes"]);
}

const APPROVE: [&str; 5] = ["ship", "approve", "--reason", "It works.", "--sign=home/key"];

#[track_caller]
fn is_refused(scene: &Scene, ran: &Ran, why: &str) {
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains(why), "{why:?}: {ran:?}");
    assert_eq!(scene.json(".phasegate/ship/ship.json")["phase"], "working");
}

/// The same, and the journal tells of it.
#[track_caller]
fn is_journaled(scene: &Scene, ran: &Ran, why: &str) {
    is_refused(scene, ran, why);
    let last = scene.journal(RUN).pop().unwrap();
    assert_eq!(last["answer"]["code"], "not_signed", "{last}");
    assert!(last["answer"]["reason"].as_str().unwrap().contains(why), "{last}");
}

#[test]
fn a_person_signs_at_a_terminal_and_everybody_can_tell() {
    let scene = waiting();
    let ran = scene.by_hand(&APPROVE);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let told = "signed by ada@example.org (ssh-ed25519 SHA256:";
    assert!(ran.stderr.contains(told), "{ran:?}");
    let line = scene.journal(RUN).pop().unwrap();
    assert_eq!((&line["to"], &line["event"]["actor"]), (&json!("done"), &json!("human")));
    assert_eq!(line["event"]["signed"]["line"], 1, "{line}");
    for command in [&["log"][..], &["why"], &["status", RUN]] {
        // A row may be broken where the terminal ends.
        let said = scene.ok(command).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(told), "{command:?}: {said}");
    }
    let verified = scene.ok(&["log", "--verify", RUN]);
    assert!(verified.contains(&format!("line 2: approve {told}")), "{verified}");
    let replayed = scene.ok(&["replay", RUN]);
    assert!(replayed.contains(&format!("line 2: approve {told}")), "{replayed}");
    // Who is no longer in the list has signed all the same.
    scene.file(LIST, "");
    let verified = scene.ok(&["log", "--verify", RUN]);
    assert!(verified.contains("the list of signers no longer has the key"), "{verified}");
    assert_eq!(scene.run(&["replay", RUN]).code, Some(0));
}

#[test]
fn rules_know_who_has_signed() {
    let scene = waiting();
    let look = ["ship", "look", "--reason", "fine"];
    scene.ok_by_hand(&look);
    assert_eq!(scene.json(".phasegate/ship/ship.json")["seen"], Value::Null);
    scene.ok_by_hand(&[&look[..], &["--sign=home/key"]].concat());
    assert_eq!(scene.json(".phasegate/ship/ship.json")["seen"], "ada@example.org");
    assert!(scene.ok(&["replay", RUN]).contains("· 0 different · 0 unknown"));
}

#[test]
fn what_must_be_signed_does_not_count_without() {
    let scene = waiting();
    // A person need not say so; without a key there is none.
    let ran = scene.by_hand(&APPROVE[..4]);
    is_refused(&scene, &ran, "there is no SSH key to sign with");
    let ran = scene.by_agent(&APPROVE[..4]);
    is_refused(&scene, &ran, "is for people");
    scene.file("home/.ssh/id_ed25519", scene.read("home/key"));
    let private = PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(scene.path("home/.ssh/id_ed25519"), private).unwrap();
    scene.ok_by_hand(&APPROVE[..4]);
}

#[test]
fn an_ordinary_key_is_no_person_without_a_terminal() {
    let scene = waiting();
    let why = "only the touch of a security key counts there";
    is_journaled(&scene, &scene.by_agent(&APPROVE), why);
    let mut command = scene.command();
    command.args(APPROVE).env("CLAUDECODE", "1");
    is_journaled(&scene, &scene.at_terminal(command), why);
    is_journaled(&scene, &scene.run(&APPROVE), "there is no terminal");
    let accept = ["accept", RUN, "--reason", "x", "--sign=home/key"];
    is_journaled(&scene, &scene.by_agent(&accept), why);
    scene.ok(&["log", "--verify", RUN]);
}

#[test]
fn a_list_of_signers_counts_once_a_person_has_consented_to_it() {
    let scene = waiting();
    // An agent puts a key of its own into the list.
    new_key(&scene, "home/own");
    scene.file(LIST, format!("ada@example.org {}", scene.read("home/own.pub")));
    let own = [&APPROVE[..4], &["--sign=home/own"]].concat();
    is_refused(&scene, &scene.by_hand(&own), "nobody has consented to the list of signers");
    let mut command = scene.command();
    command.args(&own).env("PHASEGATE_TRUST_ALL", "1").env("CLAUDECODE", "1");
    let ran = finish(scene.spawn(command, b""));
    is_journaled(&scene, &ran, "nobody has consented to the list of signers");
    let ran = scene.by_agent(&["trust", "--signers", "--yes"]);
    assert!(ran.code == Some(1) && ran.stderr.contains("is for people"), "{ran:?}");
    assert!(scene.ok(&["trust", "--signers", "--show"]).contains("ada@example.org ssh-ed25519"));
    scene.ok_by_hand(&["trust", "--signers", "--yes"]);
    scene.ok_by_hand(&own);
    scene.ok_by_hand(&["trust", "--signers", "--revoke"]);
    // Where there is none, git's is taken.
    std::fs::remove_file(scene.path(LIST)).unwrap();
    let shown = scene.run(&["trust", "--signers", "--show"]);
    assert!(shown.stderr.contains("there is no list of signers"), "{shown:?}");
    scene.file("home/signers", "bob@example.org ssh-ed25519 AAAA\n");
    scene.git(&["config", "gpg.ssh.allowedSignersFile", "home/signers"]);
    assert!(scene.ok(&["trust", "--signers", "--show"]).contains("bob@example.org"));
}

#[test]
fn a_key_that_nobody_knows_is_refused() {
    let scene = waiting();
    new_key(&scene, "home/other");
    let ran = scene.by_hand(&[&APPROVE[..4], &["--sign=home/other"]].concat());
    is_journaled(&scene, &ran, "is not in the list of signers");
    // A list may say what a key is for, and until when.
    let public = scene.read("home/key.pub");
    for limit in ["namespaces=\"git\"", "valid-before=\"20200101\""] {
        scene.file(LIST, format!("ada@example.org {limit} {public}"));
        scene.ok_by_hand(&["trust", "--signers", "--yes"]);
        is_journaled(&scene, &scene.by_hand(&APPROVE), "`approve` was not signed");
    }
}

/// A program that takes the place of `ssh-keygen` for those who look it up.
fn instead(scene: &Scene, script: &str) -> String {
    scene.file("home/bin/ssh-keygen", format!("#!/bin/sh\n{script}\n"));
    let executable = PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(scene.path("home/bin/ssh-keygen"), executable).unwrap();
    let path = std::env::var("PATH").unwrap();
    format!("{}:{path}", scene.path("home/bin").display())
}

#[test]
fn a_signature_for_something_else_is_refused_whatever_the_program_says() {
    let scene = waiting();
    scene.ok_by_hand(&["ship", "look", "--reason", "It works.", "--sign=home/key"]);
    let line = scene.journal(RUN).pop().unwrap();
    // It says that every signature is good, and gives the one of another line.
    scene.file("home/old", line["event"]["signed"]["signature"].as_str().unwrap());
    let key = line["event"]["signed"]["key"].as_str().unwrap();
    let script = format!(
        "case $2 in sign|-Y) cat \"$HOME/old\";; find-principals) echo ada@example.org;; *) echo Good {key};; esac"
    );
    let path = instead(&scene, &script);
    for args in [APPROVE, ["ship", "look", "--reason", "It works.", "--sign=home/key"]] {
        let ran = scene.by_hand_with(&args, &[("PATH", &path)]);
        assert!(ran.code == Some(1) && ran.stderr.contains("was not signed"), "{ran:?}");
        let last = scene.journal(RUN).pop().unwrap();
        assert_eq!(last["answer"]["code"], "not_signed", "{last}");
    }
    let path = instead(&scene, "echo no signature");
    let ran = scene.by_hand_with(&APPROVE, &[("PATH", &path)]);
    is_journaled(&scene, &ran, "it is not an SSH signature");
}

#[test]
fn without_ssh_keygen_it_says_so() {
    let scene = waiting();
    std::fs::create_dir_all(scene.path("home/bin")).unwrap();
    let git = Command::new("sh").args(["-c", "command -v git"]).output().unwrap().stdout;
    let git = String::from_utf8(git).unwrap();
    std::os::unix::fs::symlink(git.trim(), scene.path("home/bin/git")).unwrap();
    let path = scene.path("home/bin");
    let ran = scene.by_hand_with(&APPROVE, &[("PATH", path.to_str().unwrap())]);
    is_refused(&scene, &ran, "ssh-keygen cannot be started");
}

/// What was signed is about the files as they were: they change while the key waits to be touched.
#[test]
fn files_that_change_while_a_key_is_touched_are_not_approved() {
    let scene = waiting();
    let real = Command::new("sh").args(["-c", "command -v ssh-keygen"]).output().unwrap().stdout;
    let real = String::from_utf8(real).unwrap();
    let path = instead(&scene, &format!("echo two > code.txt\nexec {} \"$@\"", real.trim()));
    let ran = scene.by_hand_with(&APPROVE, &[("PATH", &path)]);
    is_refused(&scene, &ran, "the files have changed since you signed");
    // So does a run that moves on.
    let gate = env!("CARGO_BIN_EXE_phasegate");
    let moves = format!("\"{gate}\" release >&2\nexec {} \"$@\"", real.trim());
    let path = instead(&scene, &moves);
    let ran = scene.by_hand_with(&APPROVE, &[("PATH", &path)]);
    is_refused(&scene, &ran, "the run has moved on since you signed");
    scene.ok_by_hand(&APPROVE);
}

/// The lines of a journal, chained anew after somebody has changed them.
fn chained(lines: &[String]) -> String {
    let (mut text, mut prev) = (String::new(), String::new());
    for line in lines {
        let (body, _) = line.rsplit_once(",\"prev\":\"").unwrap();
        let body = format!("{body},\"prev\":\"{prev}\"");
        prev = digest(format!("{body}}}").as_bytes());
        writeln!(text, "{body},\"hash\":\"{prev}\"}}").unwrap();
    }
    text
}

#[test]
fn a_journal_that_was_changed_later_is_found_out_by_its_signatures() {
    let scene = waiting();
    scene.ok_by_hand(&["ship", "look", "--reason", "fine", "--sign=home/key"]);
    scene.ok_by_hand(&APPROVE);
    let place = ".phasegate/runs/ship/ship/journal.jsonl";
    let journal = scene.read(place);
    let lines: Vec<String> = journal.lines().map(str::to_string).collect();
    assert_eq!(chained(&lines), journal, "that is how it is chained");
    assert_eq!(scene.run(&["replay", RUN]).code, Some(0));
    let part = |line: &str| {
        let (_, signed) = line.split_once(",\"signed\":").unwrap();
        let (signed, _) = signed.split_once('}').unwrap();
        format!(",\"signed\":{signed}}}")
    };
    let tree = scene.journal(RUN)[2]["event"]["signed"]["tree"].to_string();
    for (at, was, now, why) in [
        (2, "It works.", "Never mind.", "does not hold: ssh-keygen"),
        (2, &*tree, "\"another\"", "does not hold: ssh-keygen"),
        (2, "\"principal\":\"ada@", "\"principal\":\"eve@", "names another signer"),
        (2, "ssh-ed25519", "sk-ssh-ed25519", "names another signer"),
        (2, "\"line\":2", "\"line\":1", "it was made for another line 1"),
        (2, "\"actor\":\"human\"", "\"actor\":\"worker\"", "an act of a worker"),
        (2, &part(&lines[2]), "", "approve not signed, and that does not hold"),
        (2, &part(&lines[2]), &part(&lines[1]), "an earlier line has the same signature"),
        (0, "\"seq\":1,", "\"seq\":1 ,", "it was made for another line 1"),
    ] {
        let mut changed = lines.clone();
        changed[at] = changed[at].replacen(was, now, 1);
        assert_ne!(changed, lines, "{was}");
        scene.file(place, chained(&changed));
        let ran = scene.run(&["replay", RUN]);
        assert!(ran.code == Some(1) && ran.stdout.contains(why), "{why}: {ran:?}");
    }
    // The signature of another line of the same run, which is gone.
    let moved = lines[2].replacen(&part(&lines[2]), &part(&lines[1]), 1);
    let moved = moved.replacen("\"seq\":3", "\"seq\":2", 1);
    scene.file(place, chained(&[lines[0].clone(), moved]));
    let ran = scene.run(&["replay", RUN]);
    assert!(ran.code == Some(1) && ran.stdout.contains("does not hold: ssh-keygen"), "{ran:?}");
}

#[test]
fn a_signature_stays_with_an_act_that_waits_for_jobs() {
    let jobs = r#"
[check.tests]
run = ["sh", "-c", "sleep 0.3"]
[command.publish]
run = ["sh", "-c", "sleep 0.3"]
"#;
    let rule = "{ on = \"approve\", when = \"check.tests.ok\", run = [\"publish\"], goto = \"done\", allow = \"done\" }";
    let definition = SHIP.replace("{ on = \"approve\", goto = \"done\", allow = \"done\" }", rule);
    let scene =
        waiting_with(&definition.replace("\n[action.look]", &format!("{jobs}\n[action.look]")));
    scene.ok_by_hand(&["trust", "ship", "--yes"]);
    let ran = scene.by_hand(&APPROVE);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let journal = scene.journal(RUN);
    let line = journal.iter().find(|line| line["event"]["name"] == "approve").unwrap();
    assert!(line["seq"].as_u64().unwrap() > 3, "{line}");
    assert_eq!(line["event"]["signed"]["line"], 1, "{line}");
    assert!(scene.ok(&["log", "--verify", RUN]).contains("approve signed by ada@example.org"));
    assert!(scene.ok(&["replay", RUN]).contains("approve signed by ada@example.org"));
}

#[test]
fn a_proof_has_its_approvals() {
    let scene = waiting();
    scene.ok_by_hand(&APPROVE);
    let proof = "home/proof.json";
    scene.ok_by_hand(&["prove", RUN, "-o", proof, "--key", "home/key", "--yes"]);
    let told = "approve signed by ada@example.org (ssh-ed25519 SHA256:";
    let said = scene.ok(&["verify-proof", proof]);
    assert!(said.contains(told) && said.contains("nobody vouches for the key"), "{said}");
    let said = scene.ok(&["verify-proof", proof, "--signers", LIST]);
    assert!(said.contains(told) && !said.contains("approve not"), "{said}");
    // The list that is given must know who approved, and not only who made the proof.
    new_key(&scene, "home/other");
    scene.file("home/signers", format!("bob@example.org {}", scene.read("home/other.pub")));
    scene.ok_by_hand(&["prove", RUN, "-o", proof, "--key", "home/other", "--yes"]);
    let ran = scene.run(&["verify-proof", proof, "--signers", "home/signers"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stdout.contains("the list of signers no longer has the key"), "{ran:?}");
}

#[test]
fn a_change_is_accepted_with_a_signature() {
    let scene = waiting();
    scene.file(".phasegate/workflows/ship.toml", SHIP.replace("Approve it.\"\nby", "Agree.\"\nby"));
    let accept = ["accept", RUN, "--reason", "clearer", "--sign=home/key"];
    let ran = scene.by_hand(&accept);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let line = scene.journal(RUN).pop().unwrap();
    assert_eq!(line["event"]["name"], "accept-definition", "{line}");
    assert_eq!(line["event"]["signed"]["principal"], "ada@example.org", "{line}");
    scene.ok(&["log", "--verify", RUN]);
}

#[test]
fn a_definition_says_what_must_be_signed_and_others_see_it() {
    let scene = waiting();
    let table = scene.ok(&["draw", "ship", "--format", "table"]);
    assert!(table.contains("| approve (signed)"), "{table}");
    let shown = scene.ok(&["trust", "ship", "--show"]);
    assert!(shown.contains("takes \"approve\" only with a signature"), "{shown}");
    for (from, to, why) in [
        ("by = \"human\"\nsigned", "signed", "is signed and not for people only"),
        (
            "signed = true",
            "signed = true\nshows = \"a.md\"",
            "only an action that is put to the rules",
        ),
        ("param = { reason", "param = { sign", "\"sign\" cannot name a parameter"),
    ] {
        scene.file(".phasegate/workflows/bad/workflow.toml", SHIP.replace(from, to));
        scene.file(".phasegate/workflows/bad/templates/a.md", "a");
        let ran = scene.run(&["lint", ".phasegate/workflows/bad/workflow.toml"]);
        assert!((ran.stdout + &ran.stderr).contains(why), "{why}");
    }
}

/// What `openssl` says to these bytes.
fn openssl(args: &[&str], input: &[u8]) -> Vec<u8> {
    let mut command = Command::new("openssl");
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
    output.stdout
}

fn string(bytes: &[u8]) -> Vec<u8> {
    [&u32::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat()
}

fn public(key: &Path) -> Vec<u8> {
    let der = openssl(&["pkey", "-in", key.to_str().unwrap(), "-pubout", "-outform", "DER"], b"");
    let raw = &der[der.len() - 32..];
    [string(b"sk-ssh-ed25519@openssh.com"), string(raw), string(b"ssh:")].concat()
}

fn base64(bytes: &[u8]) -> String {
    String::from_utf8(openssl(&["base64", "-A"], bytes)).unwrap()
}

/// A signature as a security key would make it, with these flags.
fn touched(key: &Path, statement: &[u8], flags: u8) -> String {
    let sha256 = |bytes: &[u8]| openssl(&["dgst", "-sha256", "-binary"], bytes);
    let hash = openssl(&["dgst", "-sha512", "-binary"], statement);
    let head = [string(b"phasegate-approval"), string(b""), string(b"sha512")].concat();
    let message = [b"SSHSIG", &head[..], &string(&hash)].concat();
    let behind = [flags, 0, 0, 0, 7];
    let signed = [&sha256(b"ssh:")[..], &behind, &sha256(&message)].concat();
    let file = key.with_extension("message");
    std::fs::write(&file, signed).unwrap();
    let (key_path, file) = (key.to_str().unwrap(), file.to_str().unwrap());
    let raw = openssl(&["pkeyutl", "-sign", "-rawin", "-inkey", key_path, "-in", file], b"");
    let raw = [&string(b"sk-ssh-ed25519@openssh.com")[..], &string(&raw), &behind].concat();
    let parts = [&string(&public(key))[..], &head, &string(&raw)].concat();
    let blob = [b"SSHSIG", &1u32.to_be_bytes()[..], &parts].concat();
    format!("-----BEGIN SSH SIGNATURE-----\n{}\n-----END SSH SIGNATURE-----\n", base64(&blob))
}

/// A security key, played by OpenSSL: an agent asks for the approval, and a person touches the key.
#[test]
fn the_touch_of_a_security_key_is_a_person_anywhere() {
    if Command::new("openssl").arg("version").output().is_err() {
        std::io::stderr().write_all(b"SKIPPED: there is no openssl\n").unwrap();
        return;
    }
    let scene = waiting();
    let key = scene.path("home/sk.pem");
    openssl(&["genpkey", "-algorithm", "ed25519", "-out", key.to_str().unwrap()], b"");
    let entry = format!("ada@example.org sk-ssh-ed25519@openssh.com {}\n", base64(&public(&key)));
    // The key waits until it is touched.
    let script = "cat > \"$HOME/asked\"; mv \"$HOME/asked\" \"$HOME/statement\"\n\
                  while [ ! -e \"$HOME/touched\" ]; do sleep 0.02; done; cat \"$HOME/touched\"";
    let path = instead(&scene, script);
    let approve = |flags: u8| {
        for file in ["home/statement", "home/touched"] {
            let _ = std::fs::remove_file(scene.path(file));
        }
        let mut command = scene.command();
        command.args(APPROVE).env("PATH", &path).env("CLAUDECODE", "1");
        let child = scene.spawn(command, b"");
        let since = Instant::now();
        while !scene.exists("home/statement") && since.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let statement = scene.read("home/statement");
        let signature = touched(&key, statement.as_bytes(), flags);
        scene.file("home/half", signature);
        std::fs::rename(scene.path("home/half"), scene.path("home/touched")).unwrap();
        (finish(child), statement)
    };
    let (ran, statement) = approve(1);
    is_journaled(&scene, &ran, "is not in the list of signers");
    let reason = "\naction: approve\nparameters: {\"reason\":\"It works.\"}\ntime: ";
    assert!(statement.starts_with("phasegate-approval/1\nrun: ship/ship\nline: 1 "), "{statement}");
    assert!(statement.contains(reason), "{statement}");
    scene.file(LIST, entry);
    scene.ok_by_hand(&["trust", "--signers", "--yes"]);
    // A key that was made without the need to touch it.
    is_journaled(&scene, &approve(0).0, "only the touch of a security key counts there");
    let (ran, _) = approve(1);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let told = "signed by ada@example.org (sk-ssh-ed25519 SHA256:";
    assert!(ran.stderr.contains(told), "{ran:?}");
    let line = scene.journal(RUN).pop().unwrap();
    assert_eq!((&line["event"]["actor"], &line["to"]), (&json!("human"), &json!("done")));
    assert!(scene.ok(&["log", "--verify", RUN]).contains(told));
}

/// Every way to an action leads past its signature: here `phasegate cancel`, which puts it to the rules by itself.
#[test]
fn an_action_that_is_not_signed_is_refused_on_every_way() {
    let cancel = "[action.cancel]\nabout = \"Give it up.\"\nby = \"human\"\nsigned = true\n\n[phase.working]";
    let rule =
        "rules = [\n  { on = \"cancel\", set = { \"state.given_up\" = true }, goto = \"done\" },";
    let definition = SHIP.replace("[phase.working]", cancel).replacen("rules = [", rule, 1);
    let scene = waiting_with(&definition);
    scene.ok_by_hand(&["cancel", RUN]);
    let journal = scene.journal(RUN);
    let refused = journal.iter().find(|line| line["answer"]["code"] == "needs_signature");
    assert!(refused.is_some(), "{journal:?}");
    assert_eq!(scene.json(".phasegate/ship/ship.json").get("given_up"), None);
}
