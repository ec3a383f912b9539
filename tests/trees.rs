//! The tree that results are bound to, and the programs that a repository names.

use std::os::unix::fs::PermissionsExt;

use crate::scene::{STATE, Said, Scene};

/// A project with a check that passes and counts its runs.
const WORKFLOW: &str = r#"
name = "w"
about = "a"
initial = "a"
document = "w/*.json"
[check.tests]
run = ["sh", "-c", "echo x >> .phasegate/ran; test ! -e broken"]
[phase.a]
rules = [
  { on = "stop", when = "not check.tests.ok", block = "The tests fail." },
  { on = "stop", allow = "waiting", until = "human" },
]
"#;

struct Tree {
    scene: Scene,
}

impl Tree {
    fn new() -> Tree {
        let scene = Scene::new();
        scene.file(".phasegate/workflows/w.toml", WORKFLOW).file("w/one.json", r#"{"phase": "a"}"#);
        scene.file(".gitignore", "home\nw\n").file("a.txt", "1\n");
        Tree { scene }
    }

    fn with_git() -> Tree {
        let tree = Tree::new();
        tree.scene.git(&["init", "--quiet", "."]);
        tree.scene.git(&["add", "."]);
        tree.scene.git(&["commit", "--quiet", "-m", "a"]);
        tree
    }

    fn stop(&self) -> Said {
        let payload = self.scene.payload().to_string();
        self.scene.hook_raw(payload.as_bytes(), &[("PHASEGATE_TRUST_ALL", "1")])
    }

    /// How often the check has run.
    fn runs(&self) -> usize {
        std::fs::read_to_string(self.scene.path(".phasegate/ran"))
            .map_or(0, |text| text.lines().count())
    }

    /// After a pass, a stop without a change runs nothing, and after this change the check runs again.
    #[track_caller]
    fn notices(&self, change: impl FnOnce(&Scene)) {
        self.stop();
        let before = self.runs();
        self.stop();
        assert_eq!(self.runs(), before, "it ran again although nothing has changed");
        change(&self.scene);
        self.stop();
        assert_eq!(self.runs(), before + 1, "the change was not noticed");
    }
}

/// Writes a file with the size and the times that it had.
fn in_disguise(scene: &Scene, path: &str, text: &str) {
    let path = scene.path(path);
    let times = std::fs::metadata(&path).unwrap();
    assert_eq!(times.len(), text.len() as u64);
    std::fs::write(&path, text).unwrap();
    let file = std::fs::File::options().append(true).open(&path).unwrap();
    file.set_modified(times.modified().unwrap()).unwrap();
}

#[test]
fn a_pass_does_not_outlive_what_is_excluded_behind_its_back() {
    let tree = Tree::with_git();
    tree.notices(|scene| {
        scene.file(".git/info/exclude", "new.txt\n").file("new.txt", "2\n");
    });
    let tree = Tree::with_git();
    tree.notices(|scene| {
        scene.git(&["config", "core.excludesFile", ".git/other"]);
        scene.file(".git/other", "new.txt\n").file("new.txt", "2\n");
    });
}

#[test]
fn a_pass_does_not_outlive_a_tree_that_is_elsewhere() {
    let tree = Tree::with_git();
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::copy(tree.scene.path("a.txt"), elsewhere.path().join("a.txt")).unwrap();
    tree.scene.git(&["config", "core.worktree", elsewhere.path().to_str().unwrap()]);
    tree.notices(|scene| {
        scene.file("a.txt", "2\n");
    });
}

#[test]
fn a_pass_does_not_outlive_bits_and_times_that_say_unchanged() {
    for bit in ["--assume-unchanged", "--skip-worktree"] {
        let tree = Tree::with_git();
        tree.notices(|scene| {
            scene.git(&["update-index", bit, "a.txt"]);
            scene.file("a.txt", "2\n");
        });
    }
    let tree = Tree::with_git();
    tree.scene.git(&["config", "core.trustctime", "false"]);
    tree.scene.git(&["config", "core.checkStat", "minimal"]);
    // Old enough to be remembered.
    std::thread::sleep(std::time::Duration::from_millis(2_200));
    tree.notices(|scene| in_disguise(scene, "a.txt", "2\n"));
}

#[test]
fn without_git_contents_count_and_not_times() {
    let tree = Tree::new();
    std::thread::sleep(std::time::Duration::from_millis(2_200));
    tree.notices(|scene| in_disguise(scene, "a.txt", "2\n"));
}

#[test]
fn what_is_in_a_repository_in_the_repository_counts() {
    for has_commit in [true, false] {
        let tree = Tree::with_git();
        tree.scene.git(&["init", "--quiet", "inner"]);
        tree.scene.file("inner/a.txt", "1\n");
        if has_commit {
            tree.scene.git(&["-C", "inner", "add", "."]);
            tree.scene.git(&["-C", "inner", "commit", "--quiet", "-m", "a"]);
        }
        tree.notices(|scene| {
            scene.file("inner/a.txt", "2\n");
        });
    }
}

#[test]
fn a_pass_counts_where_git_can_make_no_tree() {
    // A repository without a commit in the repository.
    let tree = Tree::with_git();
    tree.scene.git(&["init", "--quiet", "inner"]);
    tree.notices(|scene| {
        scene.file("a.txt", "2\n");
    });
    // A repository that is only the data.
    let tree = Tree::new();
    tree.scene.git(&["init", "--quiet", "--bare", "."]);
    tree.notices(|scene| {
        scene.file("a.txt", "2\n");
    });
    // A repository that git does not understand: its own words are said.
    let tree = Tree::with_git();
    tree.scene.file(".git/HEAD", "rubbish");
    tree.stop().allows_saying("not a git repository");
    tree.notices(|scene| {
        scene.file("a.txt", "2\n");
    });
}

#[test]
fn what_cannot_be_read_is_named_and_does_not_hold_the_rest_up() {
    // To root everything is readable.
    if rustix::process::geteuid().is_root() {
        return;
    }
    let tree = Tree::with_git();
    tree.scene.file("secret", "x");
    let none = std::fs::Permissions::from_mode(0o000);
    std::fs::set_permissions(tree.scene.path("secret"), none).unwrap();
    tree.stop().allows_saying("secret (Permission denied");
    tree.notices(|scene| {
        scene.file("a.txt", "2\n");
    });
}

/// A project whose repository names a program in every place that it can.
fn armed(change: impl FnOnce(&Scene, &str)) -> Tree {
    let tree = Tree::with_git();
    let program = tree.scene.path("home/evil");
    std::fs::create_dir_all(tree.scene.path("home")).unwrap();
    let text = format!("#!/bin/sh\ntouch {}\ncat\n", tree.scene.path("home/pwned").display());
    std::fs::write(&program, text).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = program.to_str().unwrap().to_string();
    change(&tree.scene, &program);
    tree
}

/// A place where a repository names a program, and how it does.
type Named = (&'static str, fn(&Scene, &str));

/// A run whose block lists the files that have changed.
fn asks_for_changes(scene: &Scene) {
    scene.file(
        ".phasegate/workflows/c.toml",
        "name = \"c\"\nabout = \"a\"\ninitial = \"a\"\n[phase.a]\nrules = [{ on = \"stop\", block = \"{{ changed_files() }}\" }]\n",
    );
    scene.file(".phasegate/c/one.json", r#"{"phase": "a"}"#);
}

/// Every way in which git is asked: the tree, what has changed, and whether anything has.
fn ask_everything(tree: &Tree) {
    let scene = &tree.scene;
    tree.stop();
    // A run that is about to be called stuck.
    scene.file(
        STATE,
        r#"{"phase":"triage","batch_size":2,"entries":[{"entry_index":0,"status":"pending"}]}"#,
    );
    for _ in 0..3 {
        scene.stop_of("s2", false);
        scene.stop_of("s2", true);
    }
    asks_for_changes(scene);
    let said = scene.stop_of("s3", false);
    assert!(said.json.to_string().contains("a.txt"), "{said:?}");
}

#[test]
fn no_program_that_the_repository_names_is_run() {
    let settings: [Named; 6] = [
        ("its configuration", |scene, program| {
            scene.git(&["config", "filter.evil.clean", program]);
            scene.git(&["config", "filter.evil.process", program]);
            scene.git(&["config", "core.fsmonitor", program]);
            scene.git(&["config", "diff.external", program]);
            scene.git(&["config", "core.pager", program]);
        }),
        ("a file that it includes", |scene, program| {
            scene
                .file(".git/more", format!("[filter \"evil\"]\n\tclean = {program}\n\trequired\n"));
            scene.git(&["config", "include.path", "more"]);
        }),
        ("the configuration of a worktree", |scene, program| {
            scene.git(&["config", "extensions.worktreeConfig", "true"]);
            scene.git(&["config", "--worktree", "filter.evil.clean", program]);
        }),
        ("hooks", |scene, program| {
            std::fs::copy(program, scene.path(".git/hooks/post-index-change")).unwrap();
        }),
        ("a submodule", |scene, program| {
            scene.git(&["init", "--quiet", "sub"]);
            scene.file("sub/a.txt", "1\n").file("sub/.gitattributes", "* filter=evil\n");
            scene.git(&["-C", "sub", "add", "."]);
            scene.git(&["-C", "sub", "commit", "--quiet", "-m", "a"]);
            scene.git(&["add", "sub"]);
            scene.git(&["-C", "sub", "config", "filter.evil.clean", program]);
            scene.git(&["-C", "sub", "config", "core.fsmonitor", program]);
            scene.file("sub/a.txt", "2\n");
        }),
        ("a filter of the user's by another name", |scene, program| {
            scene.file("home/.gitconfig", "[filter \"evil\"]\n\tclean = cat\n");
            scene.git(&["config", "filter.evil.clean", program]);
        }),
    ];
    for (place, set) in settings {
        let tree = armed(|scene, program| {
            set(scene, program);
            scene.file(".gitattributes", "*.txt filter=evil\n").file("a.txt", "2\n");
        });
        let _ = std::fs::remove_file(tree.scene.path("home/pwned"));
        ask_everything(&tree);
        assert!(!tree.scene.exists("home/pwned"), "{place} names a program, and it was run");
    }
}

#[test]
fn a_filter_of_the_user_is_run() {
    let tree = armed(|scene, program| {
        scene.file("home/.gitconfig", format!("[filter \"evil\"]\n\tclean = {program}\n"));
        scene.file(".gitattributes", "*.txt filter=evil\n").file("a.txt", "2\n");
    });
    ask_everything(&tree);
    assert!(tree.scene.exists("home/pwned"));
}

#[test]
fn a_git_that_cannot_tell_whose_a_setting_is_is_asked_nothing() {
    let tree = armed(|scene, program| {
        scene.git(&["config", "filter.evil.clean", program]);
        scene.file(".gitattributes", "*.txt filter=evil\n").file("a.txt", "2\n");
        let old = "#!/bin/sh\ncase \"$*\" in *--show-scope*) exit 129;; esac\nPATH=${PATH#*:} exec git \"$@\"\n";
        scene.file("home/bin/git", old);
        let path = scene.path("home/bin/git");
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    });
    asks_for_changes(&tree.scene);
    let path =
        format!("{}:{}", tree.scene.path("home/bin").display(), std::env::var("PATH").unwrap());
    let payload = tree.scene.payload().to_string();
    for _ in 0..2 {
        let env = [("PATH", path.as_str()), ("PHASEGATE_TRUST_ALL", "1")];
        assert_eq!(tree.scene.hook_raw(payload.as_bytes(), &env).code, Some(0));
    }
    assert!(!tree.scene.exists("home/pwned"));
}

/// A workflow that keeps the files, and then says and writes what has changed.
const KEEPS: &str = r#"
name = "w"
about = "a"
initial = "a"
document = "w/*.json"
[state]
phase = "string"
base = "string?"
[check.tests]
run = ["sh", "./test.sh"]
guards = ["ci/**"]
[let]
made = "changes(state.base)"
[phase.a]
rules = [
  { on = "stop", when = "not state.base", set = { "state.base" = "snapshot()" }, wait = "human" },
  { on = "stop", when = "not made.ok", block = "Not told: {{ made.error }}" },
  { on = "stop", when = "made.files", goto = "b", write = "all" },
  { on = "stop", wait = "human", message = "Nothing has changed." },
]
[phase.b]
rules = [{ on = "stop", block = "{{ made.stat | tojson }} {{ made.lines }} {{ made.files | select('like', guards) | join(' ') }} {{ applied('w/made.patch', state.base) == made.tree }}" }]
[write.all]
"w/made.patch" = { patch = "made" }
"w/files" = { copies = "made.files" }
"#;

#[test]
fn what_has_changed_is_told_and_written_although_it_was_committed() {
    let tree = Tree::with_git();
    let scene = &tree.scene;
    scene.file(".phasegate/workflows/w.toml", KEEPS).file("dirty.txt", "before\n");
    tree.stop().allows_saying("waits for you");
    tree.stop().allows_saying("Nothing has changed.");
    scene.file("a.txt", "2\n3\n").file("test.sh", "true\n").file("ci/x", b"\xe4\n");
    scene.git(&["add", "a.txt"]);
    scene.git(&["commit", "--quiet", "-m", "b"]);
    let said = tree.stop();
    said.blocks(r#"{"path": "a.txt", "added": 2, "removed": 1}"#);
    said.blocks("5 ci/x test.sh False");
    tree.stop().blocks("5 ci/x test.sh True");
    let patch = std::fs::read(scene.path("w/made.patch")).unwrap();
    assert!(patch.windows(4).any(|bytes| bytes == b"\n+\xe4\n"), "bytes stay what they are");
    assert_eq!(scene.read("w/files/a.txt"), "2\n3\n");
    assert!(!scene.exists("w/files/dirty.txt"), "it was there when the files were kept");
    // What was kept is gone: that is said, and nothing faults.
    std::fs::remove_dir_all(scene.path(".phasegate/kept/objects")).unwrap();
    scene.file(
        "w/one.json",
        r#"{"phase": "a", "base": "0000000000000000000000000000000000000000"}"#,
    );
    tree.stop().blocks("Not told: ");
}
