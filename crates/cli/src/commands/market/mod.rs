//! Commands on what streams of market data contain: books, gaps, bars.

pub mod bars;
pub mod book;
pub mod gaps;
mod ladder;

use std::sync::atomic::Ordering;
use tapedb_engine::interruptible;
use tapedb_market_streams::BookError;
use tapedb_terminal::{Failure, Ui, signals};

/// Does work that may read much, and ends it after Ctrl-C.
fn work<R>(ui: &Ui, work: impl FnOnce() -> Result<R, BookError>) -> Result<R, Failure> {
    let result = interruptible(|| signals::interrupted().load(Ordering::Relaxed), work);
    ui.check_interrupt()?;
    result.map_err(failure)
}

fn failure(error: BookError) -> Failure {
    match error {
        BookError::Stream(error) => error.into(),
        other => Failure::new(other.to_string()),
    }
}
