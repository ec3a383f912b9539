//! Tools that an agent may not use in a phase. The client asks before each use, so nothing is read here but the
//! ledgers of open runs: what a phase denies was written there when the run came to it.

use std::path::Path;

use jiff::Timestamp;
use memchr::memmem;

use super::sessions::{Standing, standing};
use crate::ledger::Ledger;
use crate::paused;
use crate::project::store_at;
use crate::store::Key;
use crate::words;

/// What a ledger has that denies something, so that the others need not be understood.
const MARK: &[u8] = b"\"denied\":";

/// Why a tool is refused to a session by a run of the project at `root`; none where it is not. What cannot be read
/// refuses nothing.
pub fn refused(root: &Path, session: &str, tool: &str) -> Option<String> {
    let store = store_at(root);
    store.open_runs().ok()?.into_iter().find_map(|id| {
        let stored = store.get(&Key::Ledger(id.clone())).ok()??;
        memmem::find(&stored.bytes, MARK)?;
        let ledger: Ledger = serde_json::from_slice(&stored.bytes).ok()?;
        let denied = ledger.position.denied.as_ref()?;
        let is_denied = denied.tools.iter().any(|name| name == tool)
            && ledger.position.finished.is_none()
            && ledger.session.cancelled.is_none()
            && ledger.session.paused.is_none()
            && standing(&ledger, Some(session), Timestamp::now()) == Standing::Own;
        // A standing gate can be switched off for the project.
        let is_off = || ledger.session.stands.is_some() && paused::of(root, &id.workflow).is_some();
        (is_denied && !is_off()).then(|| {
            let (phase, because) = (&ledger.position.phase, denied.because.as_deref());
            words::tool_refused(&id.to_string(), phase, tool, because)
        })
    })
}
