//! Which folder is the project.

use crate::scene::{Scene, finish};

/// A command in a folder of the scene, whose root is the home folder.
fn at_home(scene: &Scene, folder: &str, args: &[&str]) -> crate::scene::Ran {
    let mut command = scene.command();
    command.current_dir(scene.path(folder)).env("HOME", scene.root()).args(args);
    finish(scene.spawn(command, b""))
}

#[test]
fn a_run_beyond_the_repository_holds_nobody_in_it() {
    let scene = Scene::with_triage(1);
    std::fs::create_dir_all(scene.path("inner/src")).unwrap();
    scene.git(&["init", "--quiet", "inner"]);
    let mut payload = scene.payload();
    payload["cwd"] = scene.path("inner/src").to_str().unwrap().into();
    scene.hook(&payload).allows();
    // In a folder of its own repository, it does.
    std::fs::create_dir_all(scene.path("plain/src")).unwrap();
    payload["cwd"] = scene.path("plain/src").to_str().unwrap().into();
    scene.hook(&payload).blocks("1 of 1");
}

#[test]
fn a_worktree_and_a_submodule_in_the_repository_are_a_part_of_it() {
    let scene = Scene::with_triage(1);
    scene.git(&["init", "--quiet", "."]);
    scene.git(&["commit", "--quiet", "--allow-empty", "-m", "a"]);
    scene.git(&["worktree", "add", "--quiet", "trees/one", "-b", "one"]);
    let mut payload = scene.payload();
    payload["cwd"] = scene.path("trees/one").to_str().unwrap().into();
    scene.hook(&payload).blocks("1 of 1");
}

#[test]
fn a_run_in_the_home_folder_holds_nobody_below_it() {
    let scene = Scene::with_triage(1);
    std::fs::create_dir(scene.path("proj")).unwrap();
    let mut payload = scene.payload();
    payload["cwd"] = scene.path("proj").to_str().unwrap().into();
    let home = scene.root().to_str().unwrap().to_string();
    scene.hook_raw(payload.to_string().as_bytes(), &[("HOME", &home)]).allows();
    // Who stands in the home folder means it.
    let payload = scene.payload().to_string();
    scene.hook_raw(payload.as_bytes(), &[("HOME", &home)]).blocks("1 of 1");
}

#[test]
fn init_below_the_home_folder_leaves_that_alone() {
    for repository in ["", "proj", "."] {
        let scene = Scene::new();
        std::fs::create_dir_all(scene.path("proj/src")).unwrap();
        std::fs::create_dir(scene.path(".claude")).unwrap();
        if !repository.is_empty() {
            scene.git(&["init", "--quiet", repository]);
        }
        let ran = at_home(&scene, "proj/src", &["init"]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(!scene.exists(".claude/settings.json"), "{repository:?}: {ran:?}");
        let own = if repository == "proj" { "proj" } else { "proj/src" };
        assert!(scene.exists(&format!("{own}/.claude/settings.json")), "{repository:?}: {ran:?}");
    }
}
