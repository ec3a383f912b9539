//! Places where a test can make the process die, to prove that nothing is lost there.

/// Dies at once, as by `kill -9`, if `PHASEGATE_FAULT_POINT` names this place. Only in builds with
/// debug assertions: a release has no such places.
#[cfg(debug_assertions)]
pub fn reach(place: &str) {
    if std::env::var_os("PHASEGATE_FAULT_POINT").is_some_and(|wanted| wanted == place) {
        std::process::abort();
    }
}

/// Nothing, in a release.
#[cfg(not(debug_assertions))]
pub fn reach(_place: &str) {}
