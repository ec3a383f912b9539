//! A PostgreSQL server for tests: from the package of the system, on a free port, in a temporary folder, and gone with
//! the process of the test, however that ends.

#![allow(dead_code, reason = "not every test needs all of it")]

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A server.
pub struct Server {
    folder: PathBuf,
    programs: PathBuf,
    pub port: u16,
    /// Ends the server when nobody has the other end of its input any more.
    keeper: Option<Child>,
}

/// The server that all tests of this process share; none where PostgreSQL is not installed, which is said.
pub fn shared() -> Option<&'static Server> {
    static SHARED: OnceLock<Option<Server>> = OnceLock::new();
    let server = SHARED.get_or_init(|| Server::start(&["fsync=off"])).as_ref();
    if server.is_none() {
        skip("PostgreSQL is not installed");
    }
    server
}

/// Says that a test was not run, past whatever keeps what tests print.
pub fn skip(what: &str) {
    let _ = std::io::stderr().write_all(format!("SKIPPED: {what}\n").as_bytes());
}

impl Server {
    /// Starts a server with these settings; none where PostgreSQL is not installed.
    pub fn start(settings: &[&str]) -> Option<Server> {
        let programs = programs()?;
        let folder = tempfile::Builder::new().prefix("phasegate-pg").tempdir().unwrap().keep();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        if is_root() {
            Command::new("chown").arg("postgres").arg(&folder).status().unwrap();
        }
        let mut server = Server { folder, programs, port, keeper: None };
        let data = server.data();
        server.run("initdb", &["-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-sync", &data]);
        let folder = server.folder.to_str().unwrap().to_string();
        let usual = [
            format!("port={port}"),
            "listen_addresses=127.0.0.1".into(),
            format!("unix_socket_directories={folder}"),
            "max_connections=200".into(),
        ];
        let settings = usual.iter().map(String::as_str).chain(settings.iter().copied());
        let setting = |(key, value)| format!("{key} = '{value}'\n");
        let conf: String = settings.filter_map(|it| it.split_once('=')).map(setting).collect();
        server.append("postgresql.conf", &conf);
        server.keeper = Some(server.keep());
        server.go();
        Some(server)
    }

    /// Where its data are.
    pub fn data(&self) -> String {
        self.folder.join("data").to_str().unwrap().to_string()
    }

    /// A folder that the server can read, which goes with it.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Adds to one of its files.
    pub fn append(&self, file: &str, text: &str) {
        let path = Path::new(&self.data()).join(file);
        let mut all = fs::read_to_string(&path).unwrap_or_default();
        all.push_str(text);
        fs::write(&path, all).unwrap();
    }

    /// Starts it again.
    pub fn go(&self) {
        let log = self.folder.join("log");
        let log = log.to_str().unwrap();
        self.run("pg_ctl", &["-w", "-t", "120", "-D", &self.data(), "-l", log, "start"]);
    }

    /// Has it read its files again.
    pub fn reload(&self) {
        self.run("pg_ctl", &["-D", &self.data(), "reload"]);
    }

    /// Ends it as a power cut would: without a word to anybody.
    pub fn kill(&self) {
        self.run("pg_ctl", &["-w", "-D", &self.data(), "-m", "immediate", "stop"]);
    }

    /// A new database, and its URL.
    pub fn database(&self) -> String {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("t{}", COUNT.fetch_add(1, Ordering::Relaxed));
        self.sql("postgres", &format!("CREATE DATABASE {name}"));
        self.url(&name)
    }

    /// The URL of a database.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}?sslmode=disable", self.port)
    }

    /// What a statement says, without decoration.
    pub fn sql(&self, database: &str, statement: &str) -> String {
        let port = self.port.to_string();
        let folder = self.folder.to_str().unwrap();
        let options = ["-X", "-q", "-t", "-A", "-v", "ON_ERROR_STOP=1", "-U", "postgres"];
        let place = ["-h", folder, "-p", &port, "-d", database, "-c", statement];
        let output =
            Command::new(self.programs.join("psql")).args(options).args(place).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{statement}: {said}");
        String::from_utf8(output.stdout).unwrap().trim_end().to_string()
    }

    /// Runs one of PostgreSQL's programs as the user that it wants.
    fn run(&self, program: &str, arguments: &[&str]) {
        let mut command = as_server(&self.programs.join(program));
        let output = command.args(arguments).current_dir(&self.folder).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        assert!(output.status.success(), "{program}: {said}\n{log}");
    }

    fn keep(&self) -> Child {
        let script = r#"trap '' INT TERM HUP; cat >/dev/null; "$@"; cd /; rm -rf "$FOLDER""#;
        let stop = as_server(&self.programs.join("pg_ctl"));
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh"]).arg(stop.get_program()).args(stop.get_args());
        command.args(["-w", "-D", &self.data(), "-m", "immediate", "stop"]);
        command.env("FOLDER", &self.folder).current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // Not in our group: Ctrl-C is not meant for it.
        command.process_group(0).spawn().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut keeper) = self.keeper.take() {
            drop(keeper.stdin.take());
            let _ = keeper.wait();
        }
    }
}

/// Waits until something holds, for as long as a busy machine may need.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < Duration::from_mins(1), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A program of PostgreSQL: it does not run as root.
fn as_server(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--init-groups"]).arg(program);
    command
}

/// Where the programs of the newest version are.
fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    let number = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
    let newest = versions.map(|entry| entry.path()).max_by_key(number)?;
    Some(newest.join("bin")).filter(|bin| bin.join("initdb").is_file())
}
