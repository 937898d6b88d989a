//! Errors of others as failures.

use tapedb_terminal::Failure;

/// The failure that an error is.
pub fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::new(error.to_string())
}
