//! What is known of a client and needs no code.

/// What sets a client apart and is not a number or a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quirk {
    /// The exit code of a block that a workflow wants means something to it.
    HeedsExit,
    /// It shows `systemMessage` to the user. Others drop it, or refuse what they do not know.
    ShowsMessages,
    /// It gives the agent what a hook for the beginning of a session adds.
    TakesContext,
    /// It gives the agent what a hook adds when a person says something.
    TakesContextAtPrompts,
    /// It runs a hook without its `args`, so that only one whose command is one line works.
    DropsArguments,
    /// It ignores settings with comments or trailing commas.
    PlainJson,
    /// The same command in two places is run once.
    RunsEqualOnce,
    /// It can have our plugin instead of entries in its settings.
    HasPlugin,
}

/// What a client counts the time of a hook in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    Seconds,
    Milliseconds,
}

/// What a client does on its own when it was told to go on too often: it ends the turn, as if all
/// were well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cap {
    /// How often it lets itself be told.
    pub most: u64,
    /// Whether work in between does not count.
    pub on_all: bool,
    /// The variable that sets another number; 0 means no cap.
    pub variable: Option<&'static str>,
}

/// What is known of a client and needs no code.
#[derive(Debug)]
pub struct Facts {
    /// Its name in the installed command.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// The versions of it that were run against this, the newest first; none where it never was.
    pub versions: &'static [&'static str],
    /// Its program, where it is one for a command line.
    pub program: Option<&'static str>,
    /// The names of its processes, as the kernel tells them.
    pub processes: &'static [&'static str],
    /// Parts of the paths at which its programs are installed.
    pub folders: &'static [&'static str],
    /// Folders that only it has: it is used where one of them is.
    pub marks: &'static [&'static str],
    /// What it calls a stop, in its settings and its payloads.
    pub stop: &'static str,
    /// The other events that it gets a hook for: its name for them, ours, and the seconds that the
    /// hook has. Only what was seen to fire is here.
    pub signs: &'static [(&'static str, &'static str, u64)],
    /// Events that it gets a hook for where a workflow asks for it: a hook before each use of a tool costs something.
    pub on_demand: &'static [(&'static str, &'static str, u64)],
    /// What a person does once, before it runs the hooks of a project.
    pub trust: Option<&'static str>,
    /// How many seconds a hook may take before it is given up, less what we need to answer.
    pub seconds: u64,
    pub cap: Option<Cap>,
    /// Decisions that tell it to go on. The first is the one that we send.
    pub decisions: &'static [&'static str],
    /// What the numbers in its settings are.
    pub timeouts: TimeUnit,
    /// A file of settings that is one person's in a project. We only look at it.
    pub local_settings: Option<&'static str>,
    /// The names of clients whose settings it reads, too.
    pub also_reads: &'static [&'static str],
    /// The folder of which it reads every file for hooks.
    pub hooks_folder: Option<&'static str>,
    /// The variable that has the session, in processes that the agent starts.
    pub session_variable: Option<&'static str>,
    /// The variable in the environment of its hooks, and of nothing else that it starts, that has the folder in which
    /// the session began. The payload's folder follows the agent.
    pub project_variable: Option<&'static str>,
    /// The variable that only the hooks of a plugin have: such a hook is in no file of settings.
    pub plugin_variable: Option<&'static str>,
    /// Variables by which a process knows that it runs inside the client.
    pub inside: &'static [&'static str],
    /// The tools of its agent that only look, where its transcript names tools.
    pub looks: &'static [&'static str],
    pub quirks: &'static [Quirk],
}

impl Facts {
    /// A client that does everything as most do.
    pub const COMMON: Facts = Facts {
        name: "",
        title: "",
        versions: &[],
        program: None,
        processes: &[],
        folders: &[],
        marks: &[],
        stop: "Stop",
        signs: &[],
        on_demand: &[],
        trust: None,
        seconds: 50,
        cap: None,
        decisions: &["block", "deny"],
        timeouts: TimeUnit::Seconds,
        local_settings: None,
        also_reads: &[],
        hooks_folder: None,
        session_variable: None,
        project_variable: None,
        plugin_variable: None,
        inside: &[],
        looks: &[],
        quirks: &[],
    };

    pub fn has(&self, quirk: Quirk) -> bool {
        self.quirks.contains(&quirk)
    }
}
