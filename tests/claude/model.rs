//! A model that does what a prompt says, and a gate that is easy to break.

use std::path::Path;

use serde_json::json;

use crate::api::{Reply, Request};
use crate::scene::Scene;

/// No stop before the tests pass.
const SHIP: &str = r#"
name = "ship"
about = "No stop before the tests pass."
initial = "working"
[check.tests]
run = ["sh", "test.sh"]
[phase.working]
rules = [
  { on = "stop", when = "not check.tests.ok", block = "The tests fail: {{ check.tests.tail }}" },
  { on = "stop", goto = "done", allow = "done" },
]
[phase.done]
final = true
"#;

/// Nobody is held by it before NOTES.md is there.
pub const NOTES: &str = r#"
name = "notes"
about = "No stop before NOTES.md is there."
initial = "open"
[phase.open]
rules = [
  { on = "stop", when = "not exists('NOTES.md')", block = "Write NOTES.md." },
  { on = "stop", goto = "done", allow = "done" },
]
[phase.done]
final = true
"#;

/// Does what a line of its prompt says, one tool after the other, and then talks:
///
/// - `RUN command`: in its shell
/// - `SERVE command`: in the background
/// - `ENTER name`: into a worktree of that name
///
/// Whatever a hook tells it, it says that it cannot.
pub fn obedient(request: &Request) -> Reply {
    let (order, used) = request.order();
    let line = |word: &str| order.lines().find_map(|line| line.trim().strip_prefix(word));
    let mut tools = Vec::new();
    if let Some(name) = line("ENTER ") {
        // It is offered only to a model that has looked for it.
        tools.push(Reply::tool("ToolSearch", json!({ "query": "select:EnterWorktree" })));
        tools.push(Reply::tool("EnterWorktree", json!({ "name": name })));
    }
    tools.extend(line("RUN ").map(Reply::bash));
    tools.extend(line("SERVE ").map(|command| {
        let input =
            json!({ "command": command, "description": "Serves", "run_in_background": true });
        Reply::tool("Bash", input)
    }));
    tools.into_iter().nth(used.len()).unwrap_or_else(|| Reply::text("That is all."))
}

impl Scene {
    /// A repository with the tests, which pass as long as `app.txt` says ok, and the gate, which its
    /// user has consented to.
    pub fn with_ship(self) -> Scene {
        self.file("app.txt", "ok\n")
            .file("test.sh", "grep -qx ok app.txt || { cat app.txt; exit 1; }\n");
        self.file(".phasegate/workflows/ship.toml", SHIP);
        self.file(".gitignore", ".phasegate/runs\n.phasegate/ship\n.claude/worktrees\n");
        self.ok_by_hand(&["trust", "ship", "--yes"]);
        self.commit();
        self
    }

    /// Commits all there is.
    pub fn commit(&self) -> &Scene {
        self.git(&["add", "-A"]);
        self.git(&["commit", "--quiet", "-m", "All there is"]);
        self
    }
}

/// The folder that is meant, without links in its path.
pub fn real(folder: impl AsRef<Path>) -> std::path::PathBuf {
    folder.as_ref().canonicalize().unwrap_or_else(|_| folder.as_ref().to_path_buf())
}
