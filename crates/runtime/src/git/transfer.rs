//! What goes from machine to machine by git: the tree that a job works on, and what it has changed.
//!
//! Everything is pushed from and fetched into repositories of our own, which have no configuration but ours: no program
//! that the project's repository names is run, no hook, no filter. Credentials, proxies and ways to reach a host are the
//! user's own, as the user's configuration has them.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How git may reach another repository: none of these runs a program that a URL names.
const PROTOCOLS: &str = "file:git:http:https:ssh";

/// A repository of our own.
#[derive(Clone, Debug)]
pub(crate) struct Own {
    place: PathBuf,
    /// Where its files are, if it has some.
    tree: Option<PathBuf>,
}

impl Own {
    /// The repository at a place.
    pub(crate) fn at(place: &Path) -> Own {
        Own { place: place.to_path_buf(), tree: None }
    }

    /// The same, made where there is none yet.
    ///
    /// # Errors
    /// What git says.
    pub(crate) fn make(place: &Path) -> Result<Own, String> {
        let own = Own::at(place);
        if !place.join("HEAD").exists() {
            fs::create_dir_all(place).map_err(|error| format!("{}: {error}", place.display()))?;
            own.ask(["init", "--quiet", "--bare", "--template="])?;
        }
        Ok(own)
    }

    /// A tree at a commit of this repository, which it borrows all that it has from.
    ///
    /// # Errors
    /// What git says.
    pub(crate) fn check_out(&self, root: &Path, commit: &str, remote: &str) -> Result<Own, String> {
        let place = root.join(".git");
        let made = || {
            fs::create_dir_all(&place)?;
            let own = Own { place: place.clone(), tree: Some(root.to_path_buf()) };
            let init = own.ask(["init", "--quiet", "--template="]);
            init.map_err(std::io::Error::other)?;
            fs::create_dir_all(place.join("objects/info"))?;
            let objects = self.place.join("objects");
            fs::write(place.join("objects/info/alternates"), format!("{}\n", objects.display()))?;
            Ok(own)
        };
        let own = made().map_err(|error: std::io::Error| format!("{}: {error}", root.display()))?;
        own.ask(["config", "remote.origin.url", remote])?;
        own.ask(["config", "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*"])?;
        own.ask(["update-ref", "--no-deref", "HEAD", commit])?;
        own.ask(["reset", "--quiet", "--hard", commit])?;
        Ok(own)
    }

    /// Makes another commit the last one, and leaves the files as they are: they differ from it as they did where they
    /// come from.
    ///
    /// # Errors
    /// What git says.
    pub(crate) fn stand_on(&self, commit: &str) -> Result<(), String> {
        self.ask(["reset", "--quiet", "--mixed", commit]).map(drop)
    }

    /// Remembers a commit under a name.
    ///
    /// # Errors
    /// What git says.
    pub(crate) fn name(&self, reference: &str, commit: &str) -> Result<(), String> {
        self.ask(["update-ref", reference, commit]).map(drop)
    }

    /// Forgets names, each with what it stands for.
    ///
    /// # Errors
    /// What git says.
    pub(crate) fn unname(&self, references: &[&str]) -> Result<(), String> {
        references.iter().try_for_each(|it| self.ask(["update-ref", "-d", it]).map(drop))
    }

    /// Sends a commit to a remote, under a name that is nobody else's.
    ///
    /// # Errors
    /// What git says.
    pub(crate) fn push(&self, remote: &str, commit: &str, reference: &str) -> Result<(), String> {
        let what = format!("+{commit}:{reference}");
        self.ask(["push", "--quiet", "--no-verify", "--", remote, &what]).map(drop)
    }

    /// Removes names from a remote.
    ///
    /// # Errors
    /// What git says.
    pub(crate) fn forget(&self, remote: &str, references: &[String]) -> Result<(), String> {
        let gone = references.iter().map(|reference| format!(":{reference}"));
        let words = ["push", "--quiet", "--no-verify", "--", remote].map(str::to_string);
        self.ask(words.into_iter().chain(gone)).map(drop)
    }

    /// Gets what a name stands for at a remote, and sees that it is this commit.
    ///
    /// # Errors
    /// What git says, or that it is another commit.
    pub(crate) fn fetch(&self, remote: &str, reference: &str, commit: &str) -> Result<(), String> {
        let what = format!("+{reference}:{reference}");
        self.ask(["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--", remote, &what])?;
        let got = self.ask(["rev-parse", "--verify", "--quiet", reference])?;
        match got.trim() {
            got if got == commit => Ok(()),
            got => Err(format!("{reference} of {remote} is {got}, and not {commit}")),
        }
    }

    fn ask<S: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
    ) -> Result<String, String> {
        let mut command = Command::new("git");
        command.args(["--no-pager", "-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0"]);
        command.args(["-c", "core.fsmonitor=false", "-c", "maintenance.auto=false"]);
        for variable in [
            "GIT_COMMON_DIR",
            "GIT_INDEX_FILE",
            "GIT_OBJECT_DIRECTORY",
            "GIT_ALTERNATE_OBJECT_DIRECTORIES",
            "GIT_NAMESPACE",
            "GIT_PREFIX",
            "GIT_WORK_TREE",
        ] {
            command.env_remove(variable);
        }
        command.env("GIT_DIR", &self.place);
        command.current_dir(self.tree.as_ref().unwrap_or(&self.place));
        if let Some(tree) = &self.tree {
            command.env("GIT_WORK_TREE", tree);
        }
        command.env("GIT_ALLOW_PROTOCOL", PROTOCOLS).env("GIT_TERMINAL_PROMPT", "0");
        command.env("LC_ALL", "C").args(arguments).stdin(Stdio::null());
        let output = command.output().map_err(|error| format!("cannot run git: {error}"))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
        Err(if said.is_empty() { output.status.to_string() } else { said })
    }
}

/// The name of a branch, as a reference.
pub(crate) fn branch(name: &str) -> String {
    format!("refs/heads/{name}")
}
