//! Definitions with mistakes. Each costs only itself; that it does not work is said once a session, since
//! a session that works on something else is told once; `status`, `doctor` and `lint` say it again.

use std::fs;
use std::os::unix::fs::MetadataExt;

use phasegate_engine::digest::digest_of;

use super::{Gate, GateError, Runs};
use crate::catalog::{Entry, Origin};
use crate::outside::{self, MAX_RECORD};
use crate::paths::{ignored_by_git, inside};

/// What each session was told, the latest last: a line with the digest of a session and of the definitions.
const TOLD: &str = ".phasegate/runs/.told";

/// How many sessions are remembered.
const MAX_SESSIONS: usize = 64;

impl Runs<'_> {
    /// Which definitions cannot be used, and why.
    pub fn broken(&self) -> Vec<String> {
        let broken = self.own_definitions().filter_map(|(entry, _)| {
            let error = match &entry.head {
                Err(error) => format!("workflow {}: {error}", entry.name),
                Ok(_) => match self.workflow(&entry.name) {
                    Err(error @ GateError::Workflow(..)) => error.to_string(),
                    _ => return None,
                },
            };
            let name = &entry.name;
            Some(format!(
                "{error}. It cannot be used; `phasegate lint {name}` shows every mistake."
            ))
        });
        broken.collect()
    }

    /// The definitions that people have written and that are in use, with their files.
    fn own_definitions(&self) -> impl Iterator<Item = (&Entry, &std::path::Path)> {
        let config = &self.project.config;
        self.project.workflows.iter().filter_map(|entry| match &entry.origin {
            Origin::File(path) if config.enabled(&entry.name) && !entry.is_disabled() => {
                Some((entry, path.as_path()))
            }
            _ => None,
        })
    }
}

impl Gate<'_> {
    /// The same, and which gates are to stand and do not, if the session was not told yet, or they have
    /// changed since.
    pub fn broken_once(&self, session: Option<&str>) -> Vec<String> {
        let all = || {
            let mut all = self.broken();
            all.extend(self.fallen_gates());
            all
        };
        let mut pieces: Vec<String> = Vec::new();
        for (entry, path) in self.own_definitions() {
            let meta = fs::metadata(path).ok();
            let meta = meta.map(|meta| (meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec()));
            pieces.push(format!("{} {meta:?}", entry.name));
        }
        if pieces.is_empty() && !self.stands_by_configuration() {
            return Vec::new();
        }
        let Some(session) = session else { return all() };
        let (session, definitions) =
            (digest_of([session.as_bytes()]), digest_of(pieces.iter().map(String::as_bytes)));
        let line = format!("{session} {definitions}");
        let Ok(place) = inside(&self.project.root, TOLD) else { return all() };
        let told = outside::read_text(&place, MAX_RECORD).unwrap_or_default();
        if told.lines().any(|known| known == line) {
            return Vec::new();
        }
        let others = told.lines().filter(|known| !known.starts_with(&session));
        let mut lines: Vec<&str> = others.collect();
        lines.drain(..lines.len().saturating_sub(MAX_SESSIONS - 1));
        lines.push(&line);
        let text = lines.join("\n") + "\n";
        let keep = || -> std::io::Result<()> {
            let folder = place.parent().unwrap_or(&place);
            fs::create_dir_all(folder)?;
            ignored_by_git(folder)?;
            let new = place.with_extension(std::process::id().to_string());
            fs::write(&new, text)?;
            fs::rename(new, &place)
        };
        // What cannot be kept is said again.
        let _ = keep();
        all()
    }
}
