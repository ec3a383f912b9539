//! The table of actions that `docs/phases.md` promises.

use crate::scene::Scene;

#[test]
fn the_table_has_every_action_in_every_state() {
    let table = Scene::new().ok(&["draw", "phases", "--format", "table"]);
    let (_, inner) = table.split_once("## Actions, each step").unwrap();
    let row = |name: &str| {
        let row = inner.lines().find(|line| line.starts_with(&format!("| {name} "))).unwrap();
        row.split('|').map(str::trim).filter(|it| !it.is_empty()).skip(1).collect::<Vec<_>>()
    };
    let states = row("action");
    assert_eq!(states.len(), 9, "{states:?}");
    assert_eq!(
        row("deploy_headless_agent"),
        ["no", "if", "no", "no", "no", "if", "if", "if", "no"]
    );
    assert_eq!(
        row("advance_to_next_phase"),
        ["no", "no", "no", "no", "if", "no", "no", "no", "no"]
    );
    let outer = table.lines().find(|line| line.starts_with("| reject_phase_review")).unwrap();
    assert!(outer.contains("| no ") && !outer.contains("yes"), "{outer}");
}
