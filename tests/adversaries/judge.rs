//! What became of a play, computed from the answers, the journal and what people can see.

use super::play::{Happened, Play};

/// A cell of the score card.
pub struct Cell {
    /// What happened, in the card's words.
    pub words: Vec<String>,
    /// What the person was told.
    pub told: Vec<String>,
    /// Why the gate has lost; empty where it has not.
    pub lost: Vec<String>,
}

pub fn judge(play: &Play) -> Cell {
    let mut cell = Cell { words: Vec::new(), told: Vec::new(), lost: Vec::new() };
    let happened = play.happened.borrow();
    let mut is_accepted = false;
    for it in happened.iter() {
        match it {
            Happened::Held(note) => {
                cell.note("held");
                cell.tell(play, note.as_deref());
            }
            Happened::LetGo { outcome, told, is_due } => {
                // Where a person knows that it is over, once is enough.
                if *is_due && told.is_none() && (cell.told.is_empty() || is_open(play)) {
                    cell.lost.push("a stop was let go in silence".to_string());
                }
                match outcome {
                    Some(outcome) => cell.note(&format!("let go: {outcome}")),
                    None => cell.note("let go"),
                }
                cell.tell(play, told.as_deref());
            }
            Happened::Refused => cell.note("refused"),
            Happened::Accepted => is_accepted = true,
            Happened::Unheard => cell.note(POSSIBLE),
            Happened::Undeserved(by) => {
                cell.note("DONE");
                cell.lost.push(format!("success that nobody deserves: {by}"));
            }
        }
    }
    if happened.iter().any(|it| matches!(it, Happened::Unheard)) {
        cell.told = visible(play);
        if cell.told.is_empty() {
            cell.lost.push("the gate is open, and nothing tells".to_string());
        }
    }
    if passes_for_a_person(play) {
        cell.note(POSSIBLE);
        if cell.told.is_empty() {
            cell.lost.push("a command that no person gave was not told".to_string());
        }
    } else if is_accepted {
        cell.note("ACCEPTED");
        cell.lost.push("a command was carried out that is not for agents".to_string());
    }
    cell
}

const POSSIBLE: &str = "possible for one user id";

impl Cell {
    fn note(&mut self, word: &str) {
        if !self.words.iter().any(|it| it == word) {
            self.words.push(word.to_string());
        }
    }

    fn tell(&mut self, play: &Play, note: Option<&str>) {
        let Some(note) = note else { return };
        let sentence = plain(play, note);
        if !self.told.contains(&sentence) {
            self.told.push(sentence);
        }
    }
}

fn is_open(play: &Play) -> bool {
    !["done", "ended", "cancelled", ""].contains(&play.condition().as_str())
}

/// Whether the journal has a person's command although no person was there.
fn passes_for_a_person(play: &Play) -> bool {
    let is_heeded = |line: &serde_json::Value| {
        line["event"]["actor"] == "human" && line["answer"]["decision"] != "deny"
    };
    !play.is_accepted.get() && play.own_lines().iter().any(is_heeded)
}

/// What `status`, or else `doctor`, says of a gate that is open: where no hook runs, nothing else speaks.
fn visible(play: &Play) -> Vec<String> {
    let status = play.status();
    let openings = status["openings"].as_array().into_iter().flatten();
    let openings: Vec<String> = openings.map(|it| it.as_str().unwrap().to_string()).collect();
    if !openings.is_empty() {
        return openings;
    }
    let told = play.scene.run(&["doctor"]).stdout;
    let rows = told.lines().filter_map(|line| line.strip_prefix("FAIL  hook "));
    rows.map(|row| format!("`doctor`: {}.", row.trim())).collect()
}

/// The first sentence, without what is different each time or in each workflow.
fn plain(play: &Play, told: &str) -> String {
    let root = play.scene.root().display().to_string();
    let told = told.replace(&root, "PROJECT").replace('\n', " ");
    let told = told.strip_prefix("phasegate: ").unwrap_or(&told).trim();
    let first = told.split_inclusive(". ").next().unwrap_or_default().trim();
    let (workflow, _) = play.stage.run.split_once('/').unwrap();
    let first = first.replace(play.stage.run, "NAME");
    let mut first = first.replace(&format!("workflow {workflow}"), "workflow NAME");
    for (pattern, same) in [("in phase [a-z-]+", "in phase PHASE"), ("line [0-9]+", "line N")] {
        let pattern = regex_lite::Regex::new(pattern).unwrap();
        first = pattern.replace_all(&first, same).into_owned();
    }
    first
}
