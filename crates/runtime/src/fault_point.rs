//! Places where a test can make the process die, to prove that nothing is lost there. They stand
//! between every two writes, so that a test can count through them. A release has none.

/// A place between two writes.
///
/// `PHASEGATE_FAULT_POINT` says where the process dies, as by `kill -9`: at the place of that name, or,
/// as `hook 3`, at the third place that a process with `hook` among its arguments reaches. With
/// `PHASEGATE_FAULT_COMMAND` that shell command runs there instead, once: an edit at the worst moment.
#[cfg(debug_assertions)]
pub fn reach(place: &str) {
    if is_wanted(place) {
        strike();
    }
}

/// Nothing, in a release.
#[cfg(not(debug_assertions))]
pub fn reach(_place: &str) {}

/// Whether the process is to die in the middle of a write, which the caller then leaves half done.
#[cfg(debug_assertions)]
pub fn tears(place: &str) -> bool {
    is_wanted(place)
}

/// Never, in a release.
#[cfg(not(debug_assertions))]
pub fn tears(_place: &str) -> bool {
    false
}

#[cfg(debug_assertions)]
fn is_wanted(place: &str) -> bool {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static REACHED: AtomicUsize = AtomicUsize::new(0);

    let Ok(wanted) = std::env::var(crate::variables::FAULT_POINT) else { return false };
    let reached = REACHED.fetch_add(1, Ordering::Relaxed) + 1;
    match wanted.split_once(' ') {
        None => wanted == place,
        Some((word, number)) => {
            number.parse() == Ok(reached) && std::env::args().any(|arg| arg == word)
        }
    }
}

/// Dies, or runs the command once.
#[cfg(debug_assertions)]
fn strike() {
    use std::sync::atomic::{AtomicBool, Ordering};
    static RAN: AtomicBool = AtomicBool::new(false);

    let Some(command) = std::env::var_os(crate::variables::FAULT_COMMAND) else {
        std::process::abort()
    };
    if !RAN.swap(true, Ordering::Relaxed) {
        let _ = std::process::Command::new("sh").arg("-c").arg(command).status();
    }
}
