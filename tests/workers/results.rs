//! What comes back: a verdict with its file, and what a worker has changed.

use super::{Team, eventually};

const JUDGED: &str = r#"name = "judged"
about = "No stop before a review has passed."
document = "judged/*.json"
initial = "working"
patience = 9

[state]
phase = "string"
verdict = "string?"

[reviewer.code]
prompt = "review.md"
writes = "reviews/{{ run.name }}.md"
run = ["sh", "reviewer"]
labels = ["any"]

[phase.working]
rules = [
  { on = "review-finished", set = { "state.verdict" = "params.verdict" } },
  { on = "stop", when = "state.verdict is none", review = "code" },
  { on = "stop", when = "state.verdict == 'PASS'", goto = "done", allow = "done" },
  { on = "stop", block = "See reviews/{{ run.name }}.md: {{ state.verdict }}" },
]
[phase.done]
final = true
"#;

/// It reads what is not committed, says where it is, and judges.
const REVIEWER: &str = r#"cat > told
{ cat told work.txt; git diff --stat HEAD; echo "in $HOME"; } > "$PHASEGATE_REVIEW"
echo '{"verdict":"PASS"}'
"#;

const BUILT: &str = r#"name = "built"
about = "Somebody else builds it."
document = "built/*.json"
initial = "working"
patience = 9

[worker.builder]
prompt = "build.md"
run = ["sh", "builder"]
labels = ["any"]

[agent.helper]
role = "worker"
prompt = "build.md"
run = ["sh", "-c", "echo helped in $HOME > helped"]
labels = ["any"]

[action.build]
about = "Have it built."

[action.assist]
about = "Have somebody help."

[phase.working]
rules = [
  { on = "build", work = "builder" },
  { on = "assist", start = "helper", allow = "waiting", until = "background", message = "It helps." },
  { on = "work-finished", when = "params.ok", goto = "built" },
  { on = "stop", block = "Build it." },
]
[phase.built]
final = true
"#;

const BUILDER: &str = "cat > told; echo \"made in $HOME\" > made.txt; rm old.txt; echo more >> kept.txt
mkdir -p bin; echo x > bin/tool; chmod +x bin/tool; echo forged > .phasegate/config.toml; cat seconds
sleep $(cat seconds)\n";

fn built(seconds: &str) -> Option<Team> {
    let files = [
        (".phasegate/workflows/built/prompts/build.md", "Build it."),
        ("builder", BUILDER),
        ("old.txt", "old\n"),
        ("kept.txt", "kept\n"),
        ("seconds", seconds),
    ];
    let team = Team::new(BUILT, &files)?;
    team.own.ok(&["start", "built", "--name", "web"]);
    Some(team)
}

#[test]
fn a_verdict_comes_back_with_its_file() {
    let files = [
        (".phasegate/workflows/judged/prompts/review.md", "Look at it."),
        ("reviewer", REVIEWER),
        ("work.txt", ""),
    ];
    let Some(team) = Team::new(JUDGED, &files) else { return };
    let (machine, _worker) = team.worker("judged", &[]);
    team.own.ok(&["start", "judged", "--name", "web"]);
    team.own.scene.file("work.txt", "not committed\n");
    team.own.stop().allows_saying("done");
    let review = team.own.scene.read("reviews/web.md");
    // It saw the tree as it is here, with what differs from the last commit.
    assert!(review.contains("Look at it.") && review.contains("not committed"), "{review}");
    assert!(review.contains("work.txt | 1 +") && review.contains(&machine.home()), "{review}");
    assert!(!team.own.scene.exists("told"), "what a reviewer changes beside is not brought");
    team.own.ok(&["log", "--verify", "judged/web"]);
    team.own.ok(&["replay", "judged/web"]);
}

#[test]
fn what_a_worker_changes_comes_back() {
    let Some(team) = built("0") else { return };
    let (machine, _worker) = team.worker("built", &[]);
    team.own.scene.file("note.txt", "not committed\n");
    team.own.ok(&["built", "build"]);
    let scene = &team.own.scene;
    assert_eq!(scene.read("made.txt"), format!("made in {}\n", machine.home()));
    assert_eq!(scene.read("kept.txt"), "kept\nmore\n");
    assert!(!scene.exists("old.txt") && scene.read("note.txt") == "not committed\n");
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(scene.path("bin/tool")).unwrap().permissions(),
    );
    assert_eq!(mode & 0o777, 0o755);
    assert!(!scene.exists(".phasegate/config.toml"), "nobody configures us from elsewhere");
    assert_eq!(scene.json("built/web.json")["phase"], "built");
    eventually("the remote is as it was", || team.references() == "refs/heads/main\n");
}

#[test]
fn what_was_changed_here_meanwhile_wins_and_the_rest_stays_on_a_branch() {
    let Some(team) = built("2") else { return };
    let (_machine, worker) = team.worker("built", &[]);
    let scene = &team.own.scene;
    let building = scene.spawn(team.own.command(&["built", "build"]), b"");
    worker.says("took built/web/worker.builder");
    scene.file("kept.txt", "mine\n");
    let ran = crate::scene::finish(building);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(scene.read("kept.txt"), "mine\n");
    assert!(!scene.exists("made.txt"), "all of it is brought, or nothing");
    let branch = team.references();
    let branch = branch.lines().find(|it| it.contains("phasegate/jobs/")).unwrap_or_default();
    let branch = branch.trim_start_matches("refs/heads/");
    assert!(!branch.is_empty(), "{}", team.references());
    let noted = team.own.ok(&["log", "built/web"]);
    let why = format!(
        "branch {branch} of {}: kept.txt was changed here meanwhile",
        team.remote.path().display()
    );
    assert!(noted.contains(&why), "{noted}");
    scene.git(&["fetch", "-q", "origin", branch]);
    assert!(scene.git(&["show", "FETCH_HEAD:made.txt"]).contains("made in"));
}

#[test]
fn an_agent_that_acts_on_a_run_of_this_machine_runs_here() {
    let Some(team) = built("0") else { return };
    let (_machine, worker) = team.worker("built", &[]);
    team.own.ok(&["built", "assist"]);
    let scene = &team.own.scene;
    eventually("it helped", || scene.exists("helped"));
    assert!(scene.read("helped").contains(scene.path("home").to_str().unwrap()));
    let said = team.own.stop().json.to_string();
    assert!(
        said.contains("runs here: it acts on the run, whose document is a file of this machine"),
        "{said}"
    );
    assert!(!worker.said().contains("took"), "{}", worker.said());
}
