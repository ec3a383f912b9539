//! `phasegate doctor`: whether everything is in its place, and what to do where it is not. It looks,
//! and fires the installed hooks at a project of its own.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use jiff::Timestamp;
use phasegate_runtime::agents;
use phasegate_runtime::fault_log;
use phasegate_runtime::gate::Gate;
use phasegate_runtime::project::Project;
use serde::Serialize;
use serde_json::{Value, json};

use super::{Outcome, when};
use crate::client::install::{self, Hook};
use crate::client::{CLIENTS, Client};
use crate::print::{self, Paint, paint};

/// How long an installed command may take to answer.
const MOST_ANSWER: Duration = Duration::from_secs(15);

/// A run whose session was silent for so long is free.
const SILENT: Duration = Duration::from_mins(30);

/// How long a fault is news.
const NEWS: Duration = Duration::from_hours(24);

#[derive(Debug, Args)]
pub struct Options {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Exit with 1 also where something is only worth a look
    #[arg(long)]
    strict: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Ok,
    Warn,
    Fail,
}

/// What was looked at, and what came of it.
#[derive(Debug, Serialize)]
struct Row {
    id: String,
    category: &'static str,
    status: Status,
    summary: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    details: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remediation: Option<String>,
    /// In milliseconds.
    duration: u128,
}

struct Doctor<'p> {
    project: &'p Project,
    rows: Vec<Row>,
    since: Instant,
}

impl Doctor<'_> {
    fn row(
        &mut self,
        id: impl Into<String>,
        category: &'static str,
        status: Status,
        summary: impl Into<String>,
        remediation: Option<String>,
    ) -> &mut Row {
        let duration = self.since.elapsed().as_millis();
        self.since = Instant::now();
        let (id, summary, details) = (id.into(), summary.into(), Vec::new());
        self.rows.push(Row { id, category, status, summary, details, remediation, duration });
        let last = self.rows.len() - 1;
        &mut self.rows[last]
    }

    fn ok(&mut self, id: &str, category: &'static str, summary: impl Into<String>) {
        self.row(id, category, Status::Ok, summary, None);
    }
}

pub fn run(project: &Project, options: &Options) -> Outcome {
    let mut doctor = Doctor { project, rows: Vec::new(), since: Instant::now() };
    doctor.program();
    doctor.clients();
    doctor.definitions();
    doctor.runs();
    doctor.orphans();
    doctor.faults();
    let rows = doctor.rows;
    if options.json {
        print::json(&rows);
    } else {
        show(&rows);
    }
    let worst = |status: Status| rows.iter().any(|row| row.status == status);
    let failed = worst(Status::Fail) || options.strict && worst(Status::Warn);
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn show(rows: &[Row]) {
    for row in rows {
        let mark = match row.status {
            Status::Ok => paint(Paint::Green, "ok  "),
            Status::Warn => paint(Paint::Yellow, "warn"),
            Status::Fail => paint(Paint::Red, "FAIL"),
        };
        print::line(&format!("{mark}  {:<20} {}", row.id, row.summary));
        for detail in &row.details {
            print::line(&paint(Paint::Dim, &format!("{:>28}{detail}", "")));
        }
        if let Some(remedy) = &row.remediation {
            print::line(&format!("{:>28}→ {remedy}", ""));
        }
    }
    let count = |status: Status| rows.iter().filter(|row| row.status == status).count();
    let (fails, warns) = (count(Status::Fail), count(Status::Warn));
    print::line(&match (fails, warns) {
        (0, 0) => "Everything is in its place.".to_string(),
        _ => format!("{fails} to mend, {warns} worth a look."),
    });
}

impl Doctor<'_> {
    fn program(&mut self) {
        let own = std::env::current_exe().ok().and_then(|path| path.canonicalize().ok());
        let version = env!("CARGO_PKG_VERSION");
        let found = on_path("phasegate");
        let found_real = found.as_ref().and_then(|path| path.canonicalize().ok());
        match &found {
            None => {
                let remedy = "put the folder of the program on PATH, or `cargo install --path crates/phasegate`";
                self.row(
                    "program.path",
                    "program",
                    Status::Fail,
                    "`phasegate` is not on PATH, so no hook finds it",
                    Some(remedy.into()),
                );
            }
            Some(path) if found_real != own => {
                let summary = format!("`phasegate` on PATH is another one: {}", path.display());
                let remedy = "remove the one that is old, or change the order of PATH";
                self.row("program.path", "program", Status::Warn, summary, Some(remedy.into()));
            }
            Some(path) => {
                self.ok("program.path", "program", format!("{} {version}", path.display()));
            }
        }
        if std::env::var_os("PHASEGATE_DISABLE").is_some_and(|value| value == "1") {
            let summary = "PHASEGATE_DISABLE=1 is set here: every stop is allowed";
            self.row(
                "program.disabled",
                "program",
                Status::Fail,
                summary,
                Some("unset PHASEGATE_DISABLE".into()),
            );
        }
        if on_path("git").is_none() {
            let summary =
                "there is no git: whether files have changed is told by their names and dates";
            self.row("program.git", "program", Status::Warn, summary, Some("install git".into()));
        }
        self.since = Instant::now();
    }

    fn clients(&mut self) {
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let mut any = false;
        let mut claude = false;
        for client in CLIENTS {
            let root = self.project.root.clone();
            let scopes = [Some((root, false)), home.clone().map(|home| (home, true))];
            let mut hooks: Vec<Hook> = Vec::new();
            for (base, is_user) in scopes.into_iter().flatten() {
                for file in install::files(client, &base, is_user) {
                    self.settings(client, &file);
                    hooks.extend(install::hooks(client, &file).unwrap_or_default());
                }
            }
            self.version(client);
            any |= !hooks.is_empty();
            claude |= client == Client::Claude && !hooks.is_empty();
            if !hooks.is_empty() {
                self.installed(client, &hooks);
            }
        }
        if !any {
            let summary = "no client has our hook: nothing holds an agent";
            let remedy = "`phasegate init`, or the plugin for Claude Code";
            self.row("hook", "client", Status::Fail, summary, Some(remedy.into()));
        }
        // Others read Claude's files, too.
        let readers = [Client::Copilot, Client::Vscode, Client::Cursor];
        let root = &self.project.root;
        let own = |client: &Client| {
            let mut files = install::files(*client, root, false).into_iter();
            files.any(|file| install::hooks(*client, &file).is_ok_and(|it| !it.is_empty()))
        };
        let twice: Vec<Client> = readers.into_iter().filter(own).collect();
        if claude && !twice.is_empty() {
            let names: Vec<&str> = twice.iter().map(|client| client.title()).collect();
            let names = names.join(", ");
            let summary = format!(
                "{names}: the hook may fire twice, since .claude/settings.json is read there, too"
            );
            let remedy = "install it in one of them: `phasegate uninstall --client …`";
            self.row("hook.twice", "client", Status::Warn, summary, Some(remedy.into()));
        }
    }

    /// The client's own program, where it is found.
    fn version(&mut self, client: Client) {
        let Some(program) = client.program().and_then(on_path) else { return };
        let shown = program.display().to_string();
        let words = vec![shown.clone(), "--version".to_string()];
        let (id, title) = (format!("client.{}", client.name()), client.title());
        match run_bounded(&words, Path::new("."), "") {
            Ok(text) => {
                let version = text.lines().next().unwrap_or_default().trim().to_string();
                self.ok(&id, "client", format!("{title}: {version} ({shown})"));
            }
            Err(why) => {
                let remedy = format!("see that `{shown} --version` works");
                self.row(id, "client", Status::Warn, format!("{title}: {why}"), Some(remedy));
            }
        }
    }

    /// A file of settings: whether it can be read, and whether it switches hooks off.
    fn settings(&mut self, client: Client, file: &Path) {
        let Ok(text) = std::fs::read_to_string(file) else { return };
        let shown = shown(file, &self.project.root);
        let id = format!("settings.{}", client.name());
        let value = match install::value(&text) {
            Ok(value) => value,
            Err(why) => {
                let summary = format!("{shown} is no valid JSON: {why}");
                let remedy = format!("mend {shown}: {} ignores it as it is", client.title());
                self.row(id, "client", Status::Fail, summary, Some(remedy));
                return;
            }
        };
        if value.get("disableAllHooks") == Some(&json!(true)) {
            let summary = format!("{shown} has `disableAllHooks`: no hook runs");
            self.row(
                id.clone(),
                "client",
                Status::Fail,
                summary,
                Some(format!("remove it from {shown}")),
            );
        }
        let variable = |name: &str| value.pointer(&format!("/env/{name}")).map(plain);
        if variable("PHASEGATE_DISABLE").as_deref() == Some("1") {
            let summary = format!("{shown} sets PHASEGATE_DISABLE=1: every stop is allowed");
            self.row(
                id.clone(),
                "client",
                Status::Fail,
                summary,
                Some(format!("remove it from {shown}")),
            );
        }
        let cap =
            variable("CLAUDE_CODE_STOP_HOOK_BLOCK_CAP").and_then(|cap| cap.parse::<u64>().ok());
        if let Some(cap) = cap.filter(|cap| (1..3).contains(cap)) {
            let summary = format!("{shown} lets a hook block only {cap} times without a tool call");
            let remedy = "raise CLAUDE_CODE_STOP_HOOK_BLOCK_CAP (8 is the default, 0 is no cap)";
            self.row(id, "client", Status::Warn, summary, Some(remedy.into()));
        }
    }

    /// The hooks of a client: how often, for how long, and what they answer.
    fn installed(&mut self, client: Client, hooks: &[Hook]) {
        let (name, title) = (client.name(), client.title());
        let root = self.project.root.clone();
        let places: Vec<String> = hooks.iter().map(|hook| shown(&hook.file, &root)).collect();
        if hooks.len() > 1 {
            let summary =
                format!("{title}: the hook is installed {} times, and fires so often", hooks.len());
            let remedy =
                "keep one: `phasegate uninstall`, with --user for your own settings, or the plugin";
            let row = self.row(
                format!("hook.{name}.twice"),
                "client",
                Status::Warn,
                summary,
                Some(remedy.into()),
            );
            row.details.clone_from(&places);
        }
        for hook in hooks {
            let needed = client.time().as_secs();
            let place = shown(&hook.file, &root);
            if let Some(seconds) = hook.seconds.filter(|seconds| *seconds < needed.min(30)) {
                let summary = format!(
                    "{title}: the hook in {place} has only {seconds} seconds; a stop that takes longer is allowed"
                );
                let remedy = format!("give it more there ({} by default)", needed + 5);
                self.row(
                    format!("hook.{name}.timeout"),
                    "client",
                    Status::Warn,
                    summary,
                    Some(remedy),
                );
            }
            match fire(client, hook) {
                Ok(took) => {
                    let summary = format!(
                        "{title}: the hook in {place} blocks and allows, in {} ms",
                        took.as_millis()
                    );
                    self.ok(&format!("hook.{name}"), "client", summary);
                }
                Err(why) => {
                    let summary = format!("{title}: the hook in {place} does not work: {why}");
                    let remedy = format!(
                        "`phasegate uninstall --client {name}`, then `phasegate init --client {name}`; and see that `phasegate` is on the client's PATH"
                    );
                    let row = self.row(
                        format!("hook.{name}"),
                        "client",
                        Status::Fail,
                        summary,
                        Some(remedy),
                    );
                    row.details.push(hook.command.join(" "));
                }
            }
        }
    }

    fn definitions(&mut self) {
        let gate = Gate::new(self.project).observing();
        let mut count = 0;
        let workflows: Vec<String> =
            self.project.workflows.iter().map(|entry| entry.name.clone()).collect();
        for name in workflows {
            count += 1;
            match gate.workflow(&name) {
                Err(error) => {
                    let text = error.to_string();
                    let summary = text.lines().next().unwrap_or_default().to_string();
                    let remedy = format!("`phasegate lint {name}` shows every mistake");
                    self.row(
                        format!("workflow.{name}"),
                        "workflow",
                        Status::Fail,
                        summary,
                        Some(remedy),
                    );
                }
                Ok(workflow) if !gate.is_trusted(&workflow) => {
                    let summary = format!(
                        "workflow {name} runs commands or writes files, and you have not consented"
                    );
                    let remedy = format!("`phasegate trust {name}` shows them and consents");
                    self.row(
                        format!("workflow.{name}"),
                        "workflow",
                        Status::Warn,
                        summary,
                        Some(remedy),
                    );
                }
                Ok(_) => {}
            }
        }
        self.ok("workflows", "workflow", format!("{count} workflows are known here"));
    }

    fn runs(&mut self) {
        let gate = Gate::new(self.project).observing();
        let (runs, faults) = gate.runs();
        for fault in faults {
            self.row(
                "runs",
                "run",
                Status::Fail,
                fault,
                Some("`phasegate status` shows the runs".into()),
            );
        }
        let mut open = 0;
        for run in &runs {
            let (id, report) = (run.id.to_string(), gate.report(run));
            if !gate.is_working(run) {
                continue;
            }
            open += 1;
            let row_id = format!("run.{id}");
            if report.condition == "broken" {
                let summary = report.problem.unwrap_or_else(|| format!("run {id} is broken"));
                let remedy = format!("mend {}, or `phasegate cancel {id}`", run.place);
                self.row(row_id, "run", Status::Fail, summary, Some(remedy));
                continue;
            }
            if run.ledger.fired.is_none() {
                let summary = format!("run {id} is armed, but no hook has fired for it");
                let remedy = "see that the session runs in this project, with the hook installed; then let the agent stop once";
                self.row(row_id.clone(), "run", Status::Warn, summary, Some(remedy.into()));
            } else if let Some(fired) = run.ledger.fired {
                self.ok(
                    &row_id,
                    "run",
                    format!(
                        "run {id} is {}; its hook fired {}",
                        report.condition,
                        when::ago(fired)
                    ),
                );
            }
            if let Some(owner) = &run.ledger.owner {
                let silent = Timestamp::now().duration_since(owner.seen);
                if silent.unsigned_abs() > SILENT {
                    let summary = format!(
                        "run {id} belongs to session {}, which was last seen {}",
                        owner.session,
                        when::ago(owner.seen)
                    );
                    let remedy = format!(
                        "the next session that stops takes it; `phasegate release {id}` gives it up, `phasegate cancel {id}` ends it"
                    );
                    self.row(format!("{row_id}.owner"), "run", Status::Warn, summary, Some(remedy));
                }
            }
            if !run.ledger.tampered.is_empty() {
                let last = run.ledger.tampered.last().map(ToString::to_string).unwrap_or_default();
                let row = self.row(
                    format!("{row_id}.tampered"),
                    "run",
                    Status::Warn,
                    format!("run {id}: somebody else has changed what only the rules may"),
                    Some(format!("`phasegate status` and `phasegate log {id}` show it")),
                );
                row.details.push(last);
            }
        }
        self.ok("runs", "run", format!("{} runs, {open} of them open", runs.len()));
    }

    fn orphans(&mut self) {
        let gate = Gate::new(self.project).observing();
        let known: Vec<String> = gate
            .agents()
            .into_iter()
            .flat_map(|(_, agents)| agents.into_values().map(|agent| agent.folder))
            .collect();
        let alive = agents::alive(&self.project.root);
        let lost: Vec<&String> = alive.iter().filter(|folder| !known.contains(folder)).collect();
        if lost.is_empty() {
            self.ok(
                "agents",
                "agent",
                format!("{} agents at work, each known to its run", alive.len()),
            );
            return;
        }
        let summary = format!("{} agents are at work that no run knows", lost.len());
        let folder = format!("{}/{}", agents::FOLDER, lost[0]);
        let remedy = format!("`touch {folder}/end-asked` ends the first");
        let details = lost.iter().map(|folder| format!("{}/{folder}", agents::FOLDER)).collect();
        let row = self.row("agents", "agent", Status::Warn, summary, Some(remedy));
        row.details = details;
    }

    fn faults(&mut self) {
        let recent = fault_log::recent(Some(&self.project.root), 5);
        let now = Timestamp::now();
        let news: Vec<String> = recent
            .iter()
            .filter(|fault| now.duration_since(fault.at).unsigned_abs() < NEWS)
            .map(|fault| format!("{}: {}", when::ago(fault.at), fault.what))
            .collect();
        if news.is_empty() {
            self.ok("faults", "program", "no failure of our own in the last day");
            return;
        }
        let summary = format!(
            "{} failures of our own in the last day, each of which allowed a stop",
            news.len()
        );
        let remedy = "`.phasegate/faults.jsonl` has all of them";
        let row = self.row("faults", "program", Status::Warn, summary, Some(remedy.into()));
        row.details = news;
    }
}

/// Fires an installed hook twice, as its client does, in a project of our own: once it must block,
/// once it must not.
fn fire(client: Client, hook: &Hook) -> Result<Duration, String> {
    let folder = tempfile::Builder::new().prefix("phasegate-doctor-").tempdir();
    let folder = folder.map_err(|error| error.to_string())?;
    let root = folder.path().canonicalize().map_err(|error| error.to_string())?;
    let workflow = "name = \"doctor\"\nabout = \"x\"\ninitial = \"a\"\n[phase.a]\nrules = [{ on = \"stop\", block = \"go on\" }]\n[phase.b]\nfinal = true\n";
    let write = |path: &str, text: &str| {
        let path = root.join(path);
        let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        made.and_then(|()| std::fs::write(path, text)).map_err(|error| error.to_string())
    };
    write(".phasegate/workflows/doctor.toml", workflow)?;
    let since = Instant::now();
    let allowed = answer(client, hook, &root)?;
    if client.blocks(&allowed) {
        return Err("it blocks where there is no run".into());
    }
    let took = since.elapsed();
    write(".phasegate/doctor/x.json", "{\"phase\": \"a\"}\n")?;
    let blocked = answer(client, hook, &root)?;
    if !client.blocks(&blocked) {
        return Err(format!("it does not block where it must; it answered {blocked}"));
    }
    Ok(took)
}

fn answer(client: Client, hook: &Hook, root: &Path) -> Result<Value, String> {
    let text = run_bounded(&hook.command, root, &client.sample(root).to_string())?;
    let parsed = serde_json::from_str(&text);
    parsed.map_err(|_| {
        format!("it answered no JSON: {:?}", text.chars().take(80).collect::<String>())
    })
}

/// Runs a command, for no longer than we wait; what it printed.
fn run_bounded(command: &[String], root: &Path, input: &str) -> Result<String, String> {
    let (program, arguments) = command.split_first().ok_or("it has no command")?;
    let spawned = Command::new(program)
        .args(arguments)
        .current_dir(root)
        .env_remove("PHASEGATE_TOKEN")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut child = spawned.map_err(|error| format!("{program} cannot be run: {error}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(input.as_bytes());
    }
    let since = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(_)) => break,
            Ok(None) if since.elapsed() < MOST_ANSWER => {
                std::thread::sleep(Duration::from_millis(5));
            }
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("it did not answer within {} seconds", MOST_ANSWER.as_secs()));
            }
        }
    }
    let mut text = String::new();
    if let Some(mut stdout) = child.stdout.take() {
        let _ = stdout.read_to_string(&mut text);
    }
    Ok(text)
}

/// A program on PATH.
fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// A path as people read it.
fn shown(path: &Path, root: &Path) -> String {
    if let Ok(short) = path.strip_prefix(root) {
        return short.display().to_string();
    }
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let short = home.and_then(|home| path.strip_prefix(home).ok().map(Path::to_path_buf));
    short.map_or_else(|| path.display().to_string(), |short| format!("~/{}", short.display()))
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}
