//! A project with the real client, Claude Code, in it.

use std::process::Command;

use crate::api::Api;
use crate::client;
use crate::real::scene::run;
pub use crate::real::scene::{Scene, repository};

impl Scene {
    /// An empty project, under git, and the client; none where there is no client.
    pub fn new() -> Option<Scene> {
        Some(Scene::with(&[("claude", client::find()?)]))
    }

    /// The client, which talks to nobody but this API, whatever it is asked to do.
    pub fn client(&self, api: &Api) -> Command {
        // By its path: a program is looked for in the outer PATH.
        let program = self.home().with_file_name("bin").join("claude");
        let mut command = self.command(program.to_str().unwrap());
        command.envs(offline(api)).env("IS_SANDBOX", "1");
        command
    }

    /// Runs a command of the client that asks no model; what it printed.
    #[track_caller]
    pub fn client_ok(&self, args: &[&str]) -> String {
        let api = Api::start(|request| panic!("a command asks the model: {request:?}"));
        let mut command = self.client(&api);
        command.args(args);
        run(command)
    }

    /// Runs Phasegate so that the clients that it starts ask this API, and outside of a sandbox;
    /// what it printed.
    #[track_caller]
    pub fn ok_asking(&self, api: &Api, args: &[&str]) -> String {
        let mut command = self.command(env!("CARGO_BIN_EXE_phasegate"));
        command.envs(offline(api)).args(args);
        run(command)
    }
}

/// What makes a client talk to nobody but an API.
fn offline(api: &Api) -> [(&'static str, String); 6] {
    let one = || "1".to_string();
    [
        ("ANTHROPIC_BASE_URL", api.url()),
        ("ANTHROPIC_API_KEY", "dummy".into()),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", one()),
        ("DISABLE_TELEMETRY", one()),
        ("DISABLE_AUTOUPDATER", one()),
        ("DISABLE_ERROR_REPORTING", one()),
    ]
}
