//! Nothing leaves the machine unless it was configured: no command opens a connection.

use std::process::Command;

use crate::scene::{Scene, finish};

/// The calls of a command, and of all that it starts, that make or use a socket of a network; none where
/// they cannot be watched here.
fn sockets(scene: &Scene, args: &[&str], input: &[u8]) -> Option<Vec<String>> {
    let calls = scene.path("calls");
    let mut watched = Command::new("strace");
    watched.args(["-f", "-qq", "-e", "trace=socket,connect,bind,sendto", "-o"]).arg(&calls);
    let mut command = scene.command();
    command.args(args);
    watched.arg(command.get_program()).args(command.get_args()).current_dir(scene.root());
    watched.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    watched.stdin(std::process::Stdio::piped());
    let ran = finish(scene.spawn(watched, input));
    let text = std::fs::read_to_string(&calls).ok()?;
    assert_ne!(ran.code, None, "{ran:?}");
    Some(text.lines().filter(|line| line.contains("AF_INET")).map(str::to_string).collect())
}

#[test]
fn no_command_opens_a_connection() {
    if Command::new("strace").arg("true").output().map_or(true, |ran| !ran.status.success()) {
        let _ = std::io::Write::write_all(
            &mut std::io::stderr(),
            b"SKIPPED: network: calls of the kernel cannot be watched here\n",
        );
        return;
    }
    let scene = Scene::with_triage(2);
    scene.file("Makefile", "test:\n\t@true\n");
    scene.git(&["init", "-q"]);
    let payload = scene.payload().to_string();
    // What a person does, and what a client does.
    let commands: [&[&str]; 14] = [
        &["init", "--client", "claude"],
        &["doctor"],
        &["hook", "session-start", "--client", "claude"],
        &["hook", "stop", "--client", "claude"],
        &["statusline"],
        &["status"],
        &["why"],
        &["log", "--verify"],
        &["list"],
        &["lint"],
        &["jobs"],
        &["mcp"],
        &["demo"],
        &["uninstall"],
    ];
    for command in commands {
        let found = sockets(&scene, command, payload.as_bytes()).unwrap();
        assert!(found.is_empty(), "{command:?}: {found:#?}");
    }
    // And this would be seen: a port that a person has asked for. Here it is taken, so that the command ends.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let seen = sockets(&scene, &["mcp", "--http", &address], b"").unwrap();
    assert!(seen.iter().any(|line| line.contains("bind(")), "{seen:#?}");
}
