//! Other people's files: what we do not know stays as it was.

use crate::scene::{STATE, Scene};

#[test]
fn unknown_members_their_order_and_the_style_of_the_text_stay() {
    for (indent, newline) in [("    ", "\n"), ("\t", ""), ("  ", "\n")] {
        let text = format!(
            "{{\n{indent}\"zebra\": {{\"b\": 1.0, \"a\": [1, 2.50, \"\\u00e9\"]}},\n{indent}\"phase\": \"triage\",\n\
             {indent}\"entries\": [],\n{indent}\"big\": 9007199254740993,\n{indent}\"alpha\": null\n}}{newline}"
        );
        let scene = Scene::new();
        scene.file(STATE, &text);
        scene.stop().blocks("**triage-aggregator**");
        let after = scene.read(STATE);
        let names: Vec<usize> = ["zebra", "phase", "entries", "big", "alpha", "updated_at"]
            .iter()
            .map(|name| after.find(name).unwrap())
            .collect();
        assert!(names.is_sorted(), "{after}");
        assert!(after.contains(&format!("\n{indent}\"big\": 9007199254740993,\n")), "{after}");
        assert!(after.contains("1.0") && after.contains("2.5") && after.contains('é'), "{after}");
        assert_eq!(after.ends_with('\n'), newline == "\n");
    }
}

#[test]
fn a_document_on_one_line_stays_on_one_line() {
    let scene = Scene::new();
    scene.file(STATE, r#"{"phase":"triage","entries":[],"x":{"y":[]}}"#);
    scene.stop().blocks("**triage-aggregator**");
    let after = scene.read(STATE);
    assert!(
        after.starts_with(r#"{"phase":"aggregation","entries":[],"x":{"y":[]},"updated_at":"#),
        "{after}"
    );
    assert_eq!(after.lines().count(), 1);
}

#[test]
fn a_document_that_does_not_change_is_not_written() {
    let scene = Scene::with_triage(1);
    let before = std::fs::metadata(scene.path(STATE)).unwrap();
    scene.stop().blocks("1 of 1");
    let after = std::fs::metadata(scene.path(STATE)).unwrap();
    assert_eq!(before.modified().unwrap(), after.modified().unwrap());
}

#[test]
fn permissions_and_links_stay() {
    use std::os::unix::fs::PermissionsExt;
    let scene = Scene::new();
    scene.file("real.json", r#"{"phase":"triage","entries":[]}"#);
    std::fs::set_permissions(scene.path("real.json"), std::fs::Permissions::from_mode(0o640))
        .unwrap();
    std::fs::create_dir_all(scene.path(".phasegate/triage")).unwrap();
    std::os::unix::fs::symlink("../../real.json", scene.path(STATE)).unwrap();
    scene.stop().blocks("**triage-aggregator**");
    assert!(scene.path(STATE).is_symlink());
    assert_eq!(scene.json("real.json")["phase"], "aggregation");
    assert_eq!(
        std::fs::metadata(scene.path("real.json")).unwrap().permissions().mode() & 0o777,
        0o640
    );
}
