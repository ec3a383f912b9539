//! Processes of a test, which do not outlive it.

use std::fs::File;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A process that runs, in a group of its own. It does not outlive this.
pub struct Running {
    child: Child,
    timeout: Duration,
    since: Instant,
    out: Option<JoinHandle<String>>,
    err: Option<JoinHandle<String>>,
}

/// What came of a process.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
    pub was_too_slow: bool,
    pub took: Duration,
}

impl Running {
    pub fn start(mut command: Command, timeout: Duration) -> std::io::Result<Running> {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.process_group(0).spawn()?;
        let (out, err) = (child.stdout.take().map(reader), child.stderr.take().map(reader));
        Ok(Running { child, timeout, since: Instant::now(), out, err })
    }

    /// Starts it at a terminal, which is its input and its output.
    pub fn at_terminal(
        mut command: Command,
        timeout: Duration,
        line: &File,
    ) -> std::io::Result<Running> {
        command.stdin(line.try_clone()?).stdout(line.try_clone()?).stderr(line.try_clone()?);
        let child = command.process_group(0).spawn()?;
        Ok(Running { child, timeout, since: Instant::now(), out: None, err: None })
    }

    /// Waits for its end, and makes one when its time is up.
    pub fn wait(mut self) -> Ended {
        let mut was_too_slow = false;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if self.since.elapsed() > self.timeout && !was_too_slow {
                was_too_slow = true;
                self.kill_group();
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let took = self.since.elapsed();
        // What it has started in its group is nobody's now, and may hold its output open.
        self.kill_group();
        let said = |thread: Option<JoinHandle<String>>| {
            thread.and_then(|thread| thread.join().ok()).unwrap_or_default()
        };
        let (stdout, stderr) = (said(self.out.take()), said(self.err.take()));
        Ended { status, stdout, stderr, was_too_slow, took }
    }

    /// Whether it has ended.
    pub fn is_over(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Ends it, and everything in its group.
    pub fn end(self) -> Ended {
        self.kill_group();
        self.wait()
    }

    /// Kills the process itself, as a crash does: what it has started is told nothing.
    pub fn crash(mut self) {
        assert_eq!(self.child.try_wait().unwrap(), None, "it has ended by itself");
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn kill_group(&self) {
        kill(&format!("-{}", self.child.id()));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            self.kill_group();
            let _ = self.child.wait();
        }
    }
}

impl Ended {
    pub fn is_success(&self) -> bool {
        self.status.success() && !self.was_too_slow
    }
}

/// Kills a process, or a group of them.
pub fn kill(process: &str) {
    let mut kill = Command::new("sh");
    kill.args(["-c", "kill -s KILL -- \"$1\"", "kill", process]).stderr(Stdio::null());
    let _ = kill.status();
}

fn reader(mut stream: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
