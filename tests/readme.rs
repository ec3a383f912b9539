//! The README is short, its links lead somewhere, and what it shows works.

use std::path::{Path, PathBuf};

use regex_lite::Regex;

use crate::scene::Scene;

/// How long it may be.
const MAX_WORDS: usize = 900;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn readme() -> String {
    std::fs::read_to_string(repository().join("README.md")).unwrap()
}

/// The pages that people read.
fn pages() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in ["", "docs", "docs/decisions", "docs/conformance"] {
        let entries = std::fs::read_dir(repository().join(folder)).unwrap().flatten();
        let pages = entries.map(|entry| entry.path());
        found.extend(pages.filter(|path| path.extension().is_some_and(|it| it == "md")));
    }
    found
}

/// A heading as the end of a link names it.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|it| it.is_alphanumeric() || " -_".contains(*it));
    kept.map(|it| if it == ' ' { '-' } else { it }).collect()
}

#[test]
fn it_is_short() {
    let words = readme().split_whitespace().count();
    assert!(words <= MAX_WORDS, "README.md has {words} words");
}

#[test]
fn every_link_of_every_page_leads_somewhere() {
    let link = Regex::new(r"\]\(([^)\s]+)\)").unwrap();
    let mut broken = Vec::new();
    let mut count = 0;
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        for found in link.captures_iter(&text) {
            let to = &found[1];
            if to.starts_with("http") {
                continue;
            }
            count += 1;
            let (path, part) = to.split_once('#').unwrap_or((to, ""));
            let target =
                if path.is_empty() { page.clone() } else { page.parent().unwrap().join(path) };
            let has_part = || {
                let text = std::fs::read_to_string(&target).unwrap_or_default();
                text.lines().any(|line| line.starts_with('#') && anchor(line) == part)
            };
            if !target.exists() || !part.is_empty() && !has_part() {
                broken.push(format!("{}: {to}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
    assert!(count > 40, "only {count} links were found");
}

#[test]
fn its_picture_is_there_and_says_what_it_shows() {
    let text = readme();
    let picture = Regex::new(r"!\[([^\]]+)\]\(([^)]+)\)").unwrap();
    let found = picture.captures(&text).unwrap();
    assert!(found[1].split_whitespace().count() > 8, "a picture is told, too: {}", &found[1]);
    let svg = std::fs::read_to_string(repository().join(&found[2])).unwrap();
    // That it is what the client shows is a test with the real client: tests/claude/picture.rs.
    for part in ["<svg ", "Stop", "hook", "FAILED", "is</tspan>", "done.</tspan>"] {
        assert!(svg.contains(part), "{part}");
    }
    assert!(!svg.contains("/tmp/"), "it shows a path of a machine");
}

#[test]
fn the_gate_that_it_shows_is_ten_lines_and_holds() {
    let text = readme();
    let gate = text.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    assert_eq!(gate.lines().count(), 10);
    let scene = Scene::bare();
    scene.git(&["init", "-q"]);
    let failing = gate
        .replace("[\"cargo\", \"test\"]", "[\"sh\", \"-c\", \"cat a.txt; grep -q fine a.txt\"]");
    assert_ne!(failing, gate);
    scene.file("a.txt", "fine\n").file(".phasegate/workflows/ship.toml", failing);
    scene.ok(&["lint", ".phasegate/workflows/ship.toml", "--strict"]);
    scene.git(&["add", "."]);
    scene.git(&["commit", "-q", "-m", "one"]);
    scene.ok_by_hand(&["trust", "ship", "--yes"]);
    scene.hook_of("session-start", "s1", &serde_json::json!({ "source": "startup" }));
    scene.file("a.txt", "broken\n");
    let line = serde_json::json!({
        "type": "assistant", "timestamp": "2999-01-01T00:00:00Z",
        "message": { "content": [{ "type": "tool_use", "name": "Bash", "input": {} }] },
    });
    scene.file("transcript.jsonl", format!("{line}\n"));
    scene.stop().blocks("The tests fail:\nbroken");
    scene.file("a.txt", "fine again\n");
    assert_eq!(scene.stop_again().json.get("decision"), None);
}

#[test]
fn the_versions_that_it_names_are_the_ones_that_were_run() {
    let text = readme();
    let run = std::fs::read_to_string(repository().join("docs/clients.md")).unwrap();
    let rows = run.split("## What was run").nth(1).unwrap();
    let row = Regex::new(r"(?m)^\| ([a-z]+) \| ([0-9.]+) \|").unwrap();
    let mut count = 0;
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for found in row.captures_iter(rows) {
        count += 1;
        assert!(flat.contains(&found[2]), "README.md does not name {} {}", &found[1], &found[2]);
    }
    assert!(count >= 7);
}

#[test]
fn the_pictures_of_the_page_are_there_shown_and_made_by_the_test_in_a_browser() {
    let read = |path: &str| std::fs::read_to_string(repository().join(path)).unwrap();
    let (page, maker) = (read("docs/web.md"), read("tests/web/pictures.mjs"));
    for name in ["web-inbox.png", "web-run.png", "web-why.png"] {
        let bytes = std::fs::read(repository().join("docs/pictures").join(name)).unwrap();
        assert!(bytes.starts_with(b"\x89PNG\r\n") && bytes.len() > 10_000, "{name}");
        assert!(page.contains(&format!("](pictures/{name})")), "docs/web.md does not show {name}");
        assert!(maker.contains(&format!("\"{name}\"")), "nothing makes {name}");
    }
    assert!(readme().contains("](docs/pictures/web-run.png)"), "README.md does not show the page");
    assert!(read("justfile").contains("tests/web/run target/*/debug/phasegate docs/pictures"));
}
