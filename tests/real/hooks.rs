//! What a client has asked our hook, and what it was answered: a script before Phasegate keeps both.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::Value;

use super::scene::Scene;

/// Keeps what is asked and answered, one file each; an answer is there when it is whole. What waits beside a stop
/// answers nothing.
const SCRIPT: &str = r#"#!/bin/sh
[ "$1" = hook ] && [ "$2" != wake ] || exec "PROGRAM" "$@"
at="FOLDER/$(date +%s%N)-$$"
cat > "$at.asked"
"PROGRAM" "$@" < "$at.asked" > "$at.new"
code=$?
cat "$at.new"
mv "$at.new" "$at.answered"
exit $code
"#;

/// A hook that was fired, and answered.
#[derive(Debug)]
pub struct Fired {
    pub asked: Value,
    pub answer: Value,
}

impl Fired {
    pub fn is(&self, event: &str) -> bool {
        self.asked["hook_event_name"] == event
    }

    pub fn session(&self) -> &str {
        self.asked["session_id"].as_str().unwrap_or_default()
    }

    /// Where the agent was.
    pub fn cwd(&self) -> PathBuf {
        PathBuf::from(self.asked["cwd"].as_str().unwrap_or_default())
    }

    /// What the model was told to do.
    pub fn block(&self) -> Option<&str> {
        self.answer["reason"].as_str().filter(|_| self.answer["decision"] == "block")
    }

    /// What the person was told.
    pub fn told(&self) -> &str {
        self.answer["systemMessage"].as_str().unwrap_or_default()
    }
}

impl Scene {
    /// Keeps what is asked of the hook from now on.
    pub fn record_hooks(&self) -> &Scene {
        fs::create_dir_all(self.beside("hooks")).unwrap();
        let script = SCRIPT.replace("PROGRAM", env!("CARGO_BIN_EXE_phasegate"));
        let script = script.replace("FOLDER", self.beside("hooks").to_str().unwrap());
        let program = self.beside("bin/phasegate");
        fs::remove_file(&program).unwrap();
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    /// The hooks that were fired and answered, in their order.
    pub fn fired(&self) -> Vec<Fired> {
        let files = fs::read_dir(self.beside("hooks")).into_iter().flatten().flatten();
        let mut answered: Vec<PathBuf> = files
            .map(|file| file.path())
            .filter(|path| path.extension().is_some_and(|it| it == "answered"))
            .collect();
        answered.sort();
        let json = |path: PathBuf| {
            serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap_or_default()
        };
        let fired = answered
            .into_iter()
            .map(|path| Fired { asked: json(path.with_extension("asked")), answer: json(path) });
        fired.collect()
    }

    /// The stops among them.
    pub fn fired_stops(&self) -> Vec<Fired> {
        self.fired().into_iter().filter(|fired| fired.is("Stop")).collect()
    }
}
