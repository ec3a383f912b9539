//! The hook's own deadline. Before the client gives a hook up, and with it the person's sight of what went
//! wrong, the watchdog answers in its place: the stop is allowed, loudly, whatever the main thread is doing.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use phasegate_clients::Client;
use phasegate_runtime::{fault_log, git};

/// How long the fault log may take once the answer is out.
const MAX_LOGGING: Duration = Duration::from_secs(1);

/// Watches over one answer.
#[derive(Clone, Debug, Default)]
pub struct Watchdog(Arc<Watched>);

#[derive(Debug, Default)]
struct Watched {
    /// Somebody has begun to answer.
    is_answered: AtomicBool,
    /// The payload is there.
    is_read: AtomicBool,
    project: Mutex<Option<PathBuf>>,
}

impl Watchdog {
    /// Answers after a time, by `say`, unless the main thread does so before.
    pub fn start(
        client: &'static dyn Client,
        time: Duration,
        say: fn(&dyn Client, &str),
    ) -> Watchdog {
        let watchdog = Watchdog::default();
        let own = watchdog.clone();
        let watch = move || {
            thread::sleep(time);
            if !own.0.is_answered.swap(true, Ordering::SeqCst) {
                own.answer(client, time, say);
            }
        };
        // Where no thread can be had, the hook is as it would be without.
        let _ = thread::Builder::new().stack_size(256 << 10).spawn(watch);
        watchdog
    }

    /// The payload was read.
    pub fn has_read(&self) {
        self.0.is_read.store(true, Ordering::Relaxed);
    }

    /// Where failures are kept from now on.
    pub fn has_found(&self, project: &Path) {
        *self.0.project.lock().unwrap_or_else(PoisonError::into_inner) = Some(project.into());
    }

    /// The right to answer. Who comes too late gets no further: there is one answer.
    pub fn claim(&self) {
        while self.0.is_answered.swap(true, Ordering::SeqCst) {
            thread::park();
        }
    }

    fn answer(&self, client: &dyn Client, time: Duration, say: fn(&dyn Client, &str)) -> ! {
        let seconds = time.as_secs();
        let why = if self.0.is_read.load(Ordering::Relaxed) {
            format!(
                "there was no decision within {seconds} seconds; `phasegate doctor` may say why"
            )
        } else {
            format!("the client did not send a whole payload within {seconds} seconds")
        };
        say(client, &why);
        // The disk may be what keeps us waiting.
        let (done, logged) = mpsc::channel();
        let project = self.0.project.lock().unwrap_or_else(PoisonError::into_inner).clone();
        thread::spawn(move || {
            fault_log::note(project.as_deref(), &why);
            git::end_all();
            let _ = done.send(());
        });
        let _ = logged.recv_timeout(MAX_LOGGING);
        std::process::exit(0)
    }
}
