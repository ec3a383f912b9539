//! Our own books, after somebody else had them in hands.

use phasegate_runtime::journal;
use phasegate_runtime::ledger::Ledger;

use crate::{files_in, fuzz};

#[test]
fn ledgers() {
    fuzz("ledgers", 6_000, Vec::new(), |input| {
        let Ok(ledger) = Ledger::read(input) else { return Ok(()) };
        let written = serde_json::to_vec(&ledger).map_err(|error| error.to_string())?;
        let again = Ledger::read(&written).map_err(|error| error.to_string())?;
        if serde_json::to_vec(&again).ok() != Some(written) {
            return Err("what is written is not what was read".into());
        }
        Ok(())
    });
}

/// Whatever is done to a journal whose end the ledger knows is found.
#[test]
fn journals() {
    let lines = |bytes: &[u8]| -> Vec<String> {
        String::from_utf8_lossy(bytes).lines().map(str::to_string).collect()
    };
    let known = files_in("fuzz/corpus/journals");
    let known: Vec<Vec<String>> = known.iter().map(|(_, bytes)| lines(bytes)).collect();
    fuzz("journals", 4_000, Vec::new(), |input| {
        let changed = lines(input);
        for line in &changed {
            journal::position(line);
            journal::before(line);
        }
        for known in &known {
            let Some((seq, head)) = known.last().and_then(|line| journal::position(line)) else {
                continue;
            };
            let mut ledger = Ledger::default();
            (ledger.position.seq, ledger.position.head) = (seq, head);
            if journal::verify(&changed, &ledger).is_ok() && changed != *known {
                return Err("a change that nobody notices".into());
            }
        }
        Ok(())
    });
}
