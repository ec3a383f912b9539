//! The picture in the README: the real client is sent back, and goes on. It is made here, and compared with
//! the one that is kept.

use crate::api::{Api, Reply};
use crate::real::picture;
use crate::real::terminal::Size;
use crate::scene::{Scene, repository};
use crate::terminal::Terminal;

/// Where it is kept.
const PLACE: &str = "docs/pictures/sent-back.svg";

/// Makes it anew instead of comparing it.
const UPDATE: &str = "PHASEGATE_UPDATE_PICTURE";

const SIZE: Size = Size(60, 92);

const SESSION: &str = "4f6f1c1e-2b7a-4c55-9d0e-8a3b5c7d9e10";

const PROMPT: &str = "Let cart.sh print the total with two decimals.";

/// How the last row ends that is kept. Below it the client shows the time, and a word that it draws by lot.
const LAST: &str = "is done.";

/// The program that is asked for, first with a mistake.
const WRONG: &str = "awk '{ sum += $1 } END { printf \"%.1f\\n\", sum }'\n";
const RIGHT: &str = "awk '{ sum += $1 } END { printf \"%.2f\\n\", sum }'\n";

const TEST: &str = "total=$(printf '19.99\\n5.00\\n' | sh cart.sh)
[ \"$total\" = 24.99 ] || { echo \"FAILED total of 19.99 and 5.00: expected 24.99, got $total\"; exit 1; }
";

#[test]
fn the_picture_in_the_readme_is_what_the_client_shows() {
    let Some(scene) = Scene::new() else { return };
    scene.file("Makefile", "test:\n\t@sh test.sh\n").file("test.sh", TEST);
    scene.file("cart.sh", "awk '{ sum += $1 } END { print sum }'\n");
    scene.ok(&["init", "--client", "claude"]);
    scene.commit().record_hooks();
    let path = scene.path("cart.sh");
    let write = move |text: &str| Reply::write(&path, text);
    let api = Api::start(move |request| match (request.used().len(), request.blocks()) {
        (0, _) => Reply::tool("Read", serde_json::json!({ "file_path": "cart.sh" })),
        (1, _) => write(WRONG),
        (_, 0) => Reply::text("Done. All tests pass."),
        (2, 1) => write(RIGHT),
        _ => Reply::text("It printed one decimal. It prints two now, and the tests pass."),
    });
    let mut terminal = Terminal::open_sized(&scene, &api, &["--session-id", SESSION], SIZE);
    let stops = terminal.says(PROMPT);
    assert_eq!(stops.len(), 2, "{stops:#?}");
    let ends = |shown: &[u8]| {
        let rows = picture::rows(picture::screen(SIZE, shown).screen());
        rows.iter().rposition(|row| row.ends_with(LAST))
    };
    let shown = terminal.shows(LAST, |shown| ends(shown).is_some());
    terminal.leaves();
    let parser = picture::screen(SIZE, &shown);
    let rows = picture::rows(parser.screen());
    let begins = rows.iter().rposition(|row| row.contains(PROMPT)).unwrap();
    let ends = ends(&shown).unwrap();
    let kept: Vec<u16> = (begins..=ends).filter_map(|row| u16::try_from(row).ok()).collect();
    let title = "Claude Code says that it is done, Phasegate sends it back, and it goes on";
    let made = picture::svg(parser.screen(), &kept, title);
    let place = repository().join(PLACE);
    if std::env::var_os(UPDATE).is_some() {
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::fs::write(place, made).unwrap();
        return;
    }
    let kept = std::fs::read_to_string(place).unwrap();
    assert_eq!(made, kept, "`just picture` makes {PLACE} anew");
    scene.end();
}
