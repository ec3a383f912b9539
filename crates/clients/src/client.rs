//! What is asked of a client, and what follows from its answers.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::facts::{Cap, Facts, Quirk};
use crate::headless::Dialogue;
use crate::outside;
use crate::payload::{self, Payload, Sample, StatusLine};
use crate::problem::{self, Here, Problem};
use crate::reply::{self, Reply};
use crate::settings::{self, Entry, Hook, Scope, Settings};
use crate::transcript::{self, Line};
use crate::variables;

/// A client of coding agents. What is not said here is as most clients do it.
pub trait Client: fmt::Debug + Sync {
    fn facts(&self) -> &'static Facts;

    /// The settings by which an organisation gives the gate to all its users, where the client has such.
    fn managed(&self) -> Option<Settings> {
        None
    }

    /// What must be in its settings, in files that are named from the project's root or from the home
    /// folder; nothing where it has no such place.
    fn settings(&self, scope: Scope) -> Vec<Settings>;

    /// A hook of ours, by its name for the event, ours, and the seconds that it has.
    fn hook(&self, hook: (&'static str, &'static str, u64)) -> Entry {
        settings::hook(self.facts(), hook)
    }

    /// What it sends to a hook.
    ///
    /// # Errors
    /// Where that is not JSON of its shape.
    fn payload(&self, json: &[u8]) -> serde_json::Result<Payload> {
        payload::common(json)
    }

    /// A stop as it sends it, to try a hook out.
    fn sample(&self, stop: &Sample) -> Value {
        payload::sample(stop, self.facts().stop)
    }

    /// What it sends to a status line. Nothing where it has none.
    fn status_line(&self, _json: &[u8]) -> StatusLine {
        StatusLine::default()
    }

    /// The answer that tells it to go on.
    fn go_on(&self, reason: &str) -> Map<String, Value> {
        reply::decision(self.facts().decisions[0], reason)
    }

    /// The answer that lets it go.
    fn let_go(&self) -> Map<String, Value> {
        Map::new()
    }

    /// The answer that keeps the agent from using a tool.
    fn refuse_tool(&self, reason: &str) -> Map<String, Value> {
        self.go_on(reason)
    }

    /// Adds what the agent is told at an event to an answer.
    fn add_context(&self, members: &mut Map<String, Value>, event: &str, context: &str) {
        let output = json!({ "hookEventName": event, "additionalContext": context });
        members.insert("hookSpecificOutput".into(), output);
    }

    /// The reason in an answer that tells it to go on.
    fn reason(&self, answer: &Value) -> Option<String> {
        reply::reason(answer, self.facts().decisions)
    }

    /// Where its settings have hooks for a stop.
    fn stop_hooks<'s>(&self, settings: &'s Value) -> Vec<&'s Value> {
        let hooks = settings.get("hooks").and_then(|hooks| hooks.get(self.facts().stop));
        hooks.into_iter().collect()
    }

    /// The hooks of our plugin for a stop, where its settings, in a file, switch that on.
    fn plugin_hooks(&self, _settings: &Value, _file: &Path) -> Vec<Hook> {
        Vec::new()
    }

    /// The command that a program of ours starts, and its seconds, where a text is that program.
    fn program_hook(&self, _text: &str) -> Option<(Vec<String>, u64)> {
        None
    }

    /// Whether a version of it starts a hook with its arguments. Otherwise a hook is one line.
    fn passes_arguments(&self, _version: &str) -> bool {
        true
    }

    /// What a person has not consented to yet, so that it does not run the hook in a file.
    fn untrusted(&self, _hooks: &Path, _here: &Here) -> Option<Problem> {
        None
    }

    /// What else is wrong in a file of its settings, which is shown by this name.
    fn own_problems(&self, _shown: &str, _settings: &Value) -> Vec<Problem> {
        Vec::new()
    }

    /// A line of its transcript; none where it says nothing about who spoke.
    fn transcript_line(&self, line: &[u8]) -> Option<Line> {
        transcript::common(line)
    }

    /// How it works turn by turn, each turn a process, where that is known.
    fn dialogue(&self) -> Option<&'static dyn Dialogue> {
        None
    }
}

/// What follows from that.
impl dyn Client + '_ {
    pub fn name(&self) -> &'static str {
        self.facts().name
    }

    pub fn title(&self) -> &'static str {
        self.facts().title
    }

    pub fn has(&self, quirk: Quirk) -> bool {
        self.facts().has(quirk)
    }

    /// Whether it seems to be used here: it has a folder of its own.
    pub fn is_here(&self, base: &Path) -> bool {
        self.facts().marks.iter().any(|folder| base.join(folder).is_dir())
    }

    /// How long a hook may take. The environment can say otherwise, for clients whose settings do.
    pub fn time(&self) -> Duration {
        let set = std::env::var(variables::HOOK_SECONDS).ok();
        let set = set.and_then(|seconds| seconds.trim().parse().ok());
        Duration::from_secs(set.unwrap_or(self.facts().seconds))
    }

    /// When it ends the turn on its own, as the environment has set it.
    pub fn cap(&self) -> Option<Cap> {
        let cap = self.facts().cap?;
        let set = cap.variable.and_then(|variable| std::env::var(variable).ok());
        let most = set.and_then(|cap| cap.trim().parse().ok()).unwrap_or(cap.most);
        (most > 0).then_some(Cap { most, ..cap })
    }

    /// Whether an event's name in a payload is the one of the installed command.
    pub fn is_event(&self, command: &str, payload: &str) -> bool {
        let plain = |name: &str| name.replace(['-', '_'], "").to_lowercase();
        let payload = plain(payload);
        let is_stop = matches!(command, "stop" | settings::WAKE);
        payload == plain(command) || is_stop && payload == plain(self.facts().stop)
    }

    /// An answer in its own words.
    pub fn reply(&self, reply: &Reply) -> Map<String, Value> {
        let mut members = match (&reply.block, &reply.refusal) {
            (Some(reason), _) => self.go_on(reason),
            (None, Some(reason)) => self.refuse_tool(reason),
            (None, None) => self.let_go(),
        };
        if let (Some(message), true) = (&reply.message, self.has(Quirk::ShowsMessages)) {
            members.insert("systemMessage".into(), message.as_str().into());
        }
        if let (Some((event, context)), true) = (&reply.context, self.has(Quirk::TakesContext)) {
            self.add_context(&mut members, event, context);
        }
        members
    }

    /// What it takes from an answer to a stop.
    pub fn heard(&self, answer: &Value) -> Reply {
        let message = answer.get("systemMessage").and_then(Value::as_str).map(str::to_string);
        let message = message.filter(|_| self.has(Quirk::ShowsMessages));
        Reply { block: self.reason(answer), message, ..Reply::default() }
    }

    /// The same, with hooks for events that only some workflows ask for, by our names for them.
    ///
    /// # Errors
    /// Where it has no such place.
    pub fn settings_with(
        &self,
        base: &Path,
        scope: Scope,
        wanted: &[&str],
    ) -> Result<Vec<Settings>, String> {
        let mut files = self.settings_in(base, scope)?;
        let extra = self.facts().on_demand.iter().filter(|(_, name, _)| wanted.contains(name));
        if let Some(first) = files.first_mut() {
            first.entries.extend(extra.map(|hook| self.hook(*hook)));
        }
        Ok(files)
    }

    /// Which of these events it could have a hook for and has none, in any of these files. The plugin cannot know what
    /// is wanted, and has the one that costs nothing where nobody asks for it.
    pub fn lacks<'w>(
        &self,
        files: &[PathBuf],
        wanted: &[&'w str],
        has_plugin: bool,
    ) -> Vec<&'w str> {
        let known = |name: &&&str| self.facts().on_demand.iter().any(|(_, it, _)| it == *name);
        let texts = files.iter().map(|file| outside::read_text(file, outside::MAX_SETTINGS));
        let texts: Vec<String> = texts.flatten().collect();
        let is_in = |name: &&&str| {
            let forms = [format!("\"{name}\""), format!("hook {name}")];
            let is_there = |text: &String| forms.iter().any(|form| text.contains(form.as_str()));
            has_plugin && **name == settings::WAKE || texts.iter().any(is_there)
        };
        wanted.iter().filter(known).filter(|name| !is_in(name)).copied().collect()
    }

    /// Its settings in a project, or of a user.
    ///
    /// # Errors
    /// Where it has no such place.
    pub fn settings_in(&self, base: &Path, scope: Scope) -> Result<Vec<Settings>, String> {
        let files = self.settings(scope);
        if files.is_empty() {
            return Err(format!("{} has hooks for projects only: leave out --user", self.title()));
        }
        Ok(files.into_iter().map(|settings| settings.below(base)).collect())
    }

    /// The files in which its hooks can be.
    pub fn files(&self, base: &Path, scope: Scope) -> Vec<PathBuf> {
        let settings = self.settings(scope).into_iter();
        let local = self.facts().local_settings.filter(|_| scope == Scope::Project);
        let all = settings.map(|settings| settings.path).chain(local.map(PathBuf::from));
        all.map(|path| base.join(path)).collect()
    }

    /// Our hooks for a stop in a file.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn hooks_in(&self, file: &Path) -> Result<Vec<Hook>, String> {
        let text = outside::read_text(file, outside::MAX_SETTINGS);
        let text = text.map_err(|error| error.to_string())?;
        let value = settings::read(file, &text)?;
        let mut found = Vec::new();
        for hooks in self.stop_hooks(&value) {
            settings::own_hooks(hooks, self.facts().timeouts, file, &mut found);
        }
        found.extend(self.plugin_hooks(&value, file));
        if let Some((command, seconds)) = self.program_hook(&text) {
            let (file, seconds) = (file.to_path_buf(), Some(seconds));
            found.push(Hook { file, command, seconds, is_in_plugin: false });
        }
        Ok(found)
    }

    /// Why a version of it cannot run these hooks.
    pub fn outdated(&self, version: &str, hooks: &[Hook]) -> Option<Problem> {
        if self.passes_arguments(version) || hooks.iter().all(Hook::is_one_line) {
            return None;
        }
        let (title, name) = (self.title(), self.name());
        Some(Problem {
            is_fatal: true,
            opens: true,
            summary: format!("{title} {version} starts hooks without their arguments"),
            remedy: format!(
                "upgrade it; or `phasegate uninstall --client {name}`, then `phasegate init --client {name}`, \
                 which writes one-line hooks for this version"
            ),
        })
    }

    /// Whether these hooks fire more than once at one stop. Some clients run the same command in two places
    /// once.
    pub fn fires_twice(&self, hooks: &[Hook]) -> bool {
        match hooks.split_first() {
            Some((first, others)) if self.has(Quirk::RunsEqualOnce) => {
                others.iter().any(|hook| hook.command != first.command)
            }
            Some((_, others)) => !others.is_empty(),
            None => false,
        }
    }

    /// What keeps hooks from working in a file of its settings that can be read.
    pub fn problems(&self, shown: &str, text: &str, settings: &Value) -> Vec<Problem> {
        let mut found = problem::in_settings(self.facts(), shown, text, settings);
        found.extend(self.own_problems(shown, settings));
        found
    }

    /// Waits until a transcript is up to date, for a bounded time, where it lags behind the hook.
    pub fn catch_up(&self, transcript: &Path, mark: &str) {
        transcript::wait_for(transcript, mark);
    }

    /// What the agent said since the user last spoke, oldest first. Lines that cannot be read are
    /// skipped; a file that is not there says nothing.
    pub fn current_turn(&self, transcript: &Path) -> Vec<String> {
        transcript::texts(transcript, &|line| self.transcript_line(line), false, None)
    }

    /// What the agent said since the user or a hook last spoke to it, and not before a time, oldest
    /// first.
    pub fn since_spoken_to(&self, transcript: &Path, since: Option<Timestamp>) -> Vec<String> {
        transcript::texts(transcript, &|line| self.transcript_line(line), true, since)
    }

    /// Whether the agent used a tool since the user or a hook last spoke; none where the transcript
    /// does not reach back to that.
    pub fn used_tools(&self, transcript: &Path) -> Option<bool> {
        transcript::used_tools(transcript, &|line| self.transcript_line(line))
    }

    /// When the user spoke last; none where the client does not tell.
    pub fn prompted_at(&self, transcript: &Path) -> Option<Timestamp> {
        transcript::prompted_at(transcript, &|line| self.transcript_line(line))
    }

    /// Whether the agent used a tool since a moment that can change files; none where the client does not
    /// tell. A tool that is not known to look only may change something.
    pub fn wrote_since(&self, transcript: &Path, since: Timestamp) -> Option<bool> {
        let looks = self.facts().looks;
        transcript::wrote_since(transcript, &|line| self.transcript_line(line), looks, since)
    }

    /// Whether the user spoke since a moment; none where the client does not tell.
    pub fn prompted_since(&self, transcript: &Path, since: Timestamp) -> Option<bool> {
        transcript::prompted_since(transcript, &|line| self.transcript_line(line), since)
    }
}
