//! The jobs that a worker has, and until when. A job that it has no longer is ended: the lock is let go for which its
//! supervisor waits, as it is when the worker dies.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A moment by a clock that goes on while the machine sleeps, and that nobody sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment(Duration);

impl Moment {
    pub(super) fn now() -> Moment {
        let now = clock_gettime(ClockId::Boottime);
        let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
        Moment(Duration::new(seconds, u32::try_from(now.tv_nsec).unwrap_or(0)))
    }

    pub(super) fn after(self, time: Duration) -> Moment {
        Moment(self.0 + time)
    }

    pub(super) fn age(self) -> Duration {
        Moment::now().0.saturating_sub(self.0)
    }
}

/// A job that a worker has.
#[derive(Debug)]
struct Holding {
    fence: i64,
    deadline: Moment,
    /// While it is held, the job's supervisor goes on.
    lock: Option<File>,
    /// Nobody wants it, or another has it.
    is_over: bool,
    /// Another has it, or may have it.
    is_lost: bool,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Holdings(Arc<Mutex<BTreeMap<i64, Holding>>>);

impl Holdings {
    fn all(&self) -> MutexGuard<'_, BTreeMap<i64, Holding>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, id: i64, fence: i64, deadline: Moment) {
        let new = Holding { fence, deadline, lock: None, is_over: false, is_lost: false };
        self.all().insert(id, new);
    }

    pub(super) fn count(&self) -> usize {
        self.all().len()
    }

    pub(super) fn ids(&self) -> Vec<i64> {
        self.all().keys().copied().collect()
    }

    /// Those that it still has, each with its fence.
    pub(super) fn fences(&self) -> Vec<(i64, i64)> {
        let all = self.all();
        all.iter().filter(|(_, it)| !it.is_lost).map(|(id, it)| (*id, it.fence)).collect()
    }

    /// Gives the lock over for which the supervisor of a job waits. It is let go at once where that is not to go on.
    pub(super) fn keep(&self, id: i64, lock: File) {
        if let Some(holding) = self.all().get_mut(&id).filter(|it| !it.is_over) {
            holding.lock = Some(lock);
        }
    }

    pub(super) fn extend(&self, id: i64, fence: i64, deadline: Moment) {
        let mut all = self.all();
        if let Some(holding) = all.get_mut(&id).filter(|it| it.fence == fence && !it.is_lost) {
            holding.deadline = deadline;
        }
    }

    /// Ends a job that nobody wants any more; its end is still to be told.
    pub(super) fn end(&self, id: i64) {
        if let Some(holding) = self.all().get_mut(&id) {
            holding.is_over = true;
            holding.lock = None;
        }
    }

    /// Ends a job that another has: there is nothing to tell.
    pub(super) fn lose(&self, id: i64, fence: i64) {
        if let Some(holding) = self.all().get_mut(&id).filter(|it| it.fence == fence) {
            (holding.is_over, holding.is_lost) = (true, true);
            holding.lock = None;
        }
    }

    /// Whether another has the job, or may have it: its time is over.
    pub(super) fn is_lost(&self, id: i64) -> bool {
        self.all().get(&id).is_none_or(|it| it.is_lost || it.deadline <= Moment::now())
    }

    pub(super) fn remove(&self, id: i64) {
        self.all().remove(&id);
    }

    /// Loses everything whose time is over, whatever else this process waits for.
    pub(super) fn guard(&self, tick: Duration) -> Guard {
        let (all, ends) = (self.clone(), Arc::new(AtomicBool::new(false)));
        let end = ends.clone();
        let thread = std::thread::spawn(move || {
            while !end.load(Ordering::Relaxed) {
                let now = Moment::now();
                for holding in all.all().values_mut().filter(|it| it.deadline <= now) {
                    (holding.is_over, holding.is_lost) = (true, true);
                    holding.lock = None;
                }
                std::thread::sleep(tick);
            }
        });
        Guard { ends, thread: Some(thread) }
    }
}

/// Sees to the deadlines until it is dropped.
pub(super) struct Guard {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
