//! The program that is measured.

use std::ffi::OsString;

/// The one that was built for the benchmark, or the one that `PHASEGATE_PROGRAM` names.
pub fn program() -> OsString {
    std::env::var_os("PHASEGATE_PROGRAM").unwrap_or_else(|| env!("CARGO_BIN_EXE_phasegate").into())
}
