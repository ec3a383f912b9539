//! Adversaries play against every built-in workflow and a standing gate. The score card is `docs/adversaries.md`:
//! it is written by this test (with `INSTA_UPDATE=always`), and a card that differs fails.

mod cast;
mod judge;
mod play;
mod stages;

use std::fmt::Write as _;
use std::sync::Mutex;

use cast::{Adversary, CAST, HONEST};
use judge::{Cell, judge};
use play::{Happened, Play};
use stages::{STAGES, Stage};

/// How many plays run at once.
const AT_ONCE: usize = 4;

fn card() -> String {
    std::fs::read_to_string(CARD).unwrap_or_default()
}

const CARD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/adversaries.md");

fn plays(adversary: &Adversary, stage: &'static Stage) -> Cell {
    let play = Play::new(stage);
    (adversary.plays)(&play);
    assert!(
        play.happened.borrow().iter().any(|it| !matches!(it, Happened::Accepted)),
        "{} against {}: nothing happened",
        adversary.name,
        stage.name
    );
    judge(&play)
}

/// All cells, by adversary and stage.
fn all() -> Vec<Vec<Cell>> {
    let pairs =
        CAST.iter().flat_map(|adversary| STAGES.iter().map(move |stage| (adversary, stage)));
    let left: Mutex<Vec<(usize, (&Adversary, &'static Stage))>> =
        Mutex::new(pairs.enumerate().collect());
    let done: Mutex<Vec<(usize, Cell)>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let Some((number, (adversary, stage))) = left.lock().unwrap().pop() else {
                        break;
                    };
                    let cell = plays(adversary, stage);
                    done.lock().unwrap().push((number, cell));
                }
            });
        }
    });
    let mut cells = done.into_inner().unwrap();
    cells.sort_by_key(|(number, _)| *number);
    let mut cells = cells.into_iter().map(|(_, cell)| cell);
    CAST.iter().map(|_| cells.by_ref().take(STAGES.len()).collect()).collect()
}

fn written(cells: &[Vec<Cell>]) -> String {
    let mut text = INTRODUCTION.to_string();
    let names: Vec<&str> = STAGES.iter().map(|stage| stage.name).collect();
    let _ = writeln!(text, "| adversary | {} |", names.join(" | "));
    let _ = writeln!(text, "|---|{}", "---|".repeat(names.len()));
    for (adversary, row) in CAST.iter().zip(cells) {
        let words: Vec<String> = row.iter().map(|cell| cell.words.join(", ")).collect();
        let _ = writeln!(text, "| {} | {} |", adversary.name, words.join(" | "));
    }
    text.push_str("\n## What they try, and what the person is told\n");
    for (adversary, row) in CAST.iter().zip(cells) {
        let _ = writeln!(text, "\n**{}**: {}.\n", adversary.name, adversary.tries);
        text.push_str(&sentences(row));
    }
    text.push_str(LIMITS);
    text
}

/// What the person was told in a row, each sentence once.
fn sentences(row: &[Cell]) -> String {
    let mut heard: Vec<(&str, Vec<&str>)> = Vec::new();
    for (stage, cell) in STAGES.iter().zip(row) {
        let told = cell.told.iter().map(String::as_str);
        let nothing = cell.told.is_empty().then_some("Nothing: the agent is held.");
        for sentence in told.chain(nothing) {
            match heard.iter_mut().find(|(known, _)| *known == sentence) {
                Some((_, stages)) => stages.push(stage.name),
                None => heard.push((sentence, vec![stage.name])),
            }
        }
    }
    let mut text = String::new();
    for (sentence, stages) in heard {
        let all = stages.len() == STAGES.len();
        let stages = if all { "all".to_string() } else { stages.join(", ") };
        let _ = writeln!(text, "- {stages}: {sentence}");
    }
    text
}

const INTRODUCTION: &str = "# Adversaries

Scripted agents play against every built-in workflow and against a gate whose check is a script of the
project, where it stands and where it was started, through the real hook, command line and MCP server. `tests/adversaries.rs` writes this page, and CI fails where
a cell differs. Each cell is computed from the answers, the journal and `status`; an honest agent, which does the work, is the
control and ends as `done` everywhere.

- **held**: the stop was blocked.
- **let go: …**: the stop was let go with that outcome, and the person was told why. None of them is a success.
- **refused**: commands or tools were refused.
- **possible for one user id**: nothing prevents it, and the person is told, or is shown it by `status` or `doctor`.

A stop that is let go without a word, or a success that is not deserved, is nowhere.

";

const LIMITS: &str = "
## What no cell shows

Evidence can be forged by the one who is asked to bring it. The specification of `loop` ends a loop at the agent's word, and
`triage` and `task` without configured reviewers read files that the agent writes: an agent that writes a false result has, for
these rules, done the work. Where that matters, let somebody else judge: reviewers (`plan`, `phases`, `CODE_REVIEWER` of `task`), a
person (`task`), or a check beside it (a standing gate).
";

#[test]
fn no_adversary_wins_and_the_score_card_is_up_to_date() {
    let cells = all();
    let mut lost = Vec::new();
    for (adversary, row) in CAST.iter().zip(&cells) {
        for (stage, cell) in STAGES.iter().zip(row) {
            for why in &cell.lost {
                lost.push(format!(
                    "{} against {}: {why} ({:?})",
                    adversary.name, stage.name, cell.words
                ));
            }
        }
    }
    let text = written(&cells);
    if std::env::var("INSTA_UPDATE").is_ok_and(|it| it == "always") {
        std::fs::write(CARD, &text).unwrap();
    }
    assert!(lost.is_empty(), "{}", lost.join("\n"));
    assert_eq!(
        card(),
        text,
        "docs/adversaries.md is not up to date: INSTA_UPDATE=always writes it"
    );
}

#[test]
fn an_honest_agent_is_done_everywhere() {
    for stage in &STAGES {
        let play = Play::new(stage);
        (HONEST.plays)(&play);
        let happened = play.happened.borrow();
        assert!(matches!(happened[0], Happened::Held(_)), "{}: {happened:?}", stage.name);
        assert!((stage.deserved)(&play), "{}: {happened:?}", stage.name);
        assert_eq!(play.condition(), "done", "{}: {happened:?}", stage.name);
    }
}
