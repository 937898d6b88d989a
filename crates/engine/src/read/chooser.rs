//! Rows of blocks that a program leaves out by their times and symbols, before their fields are decoded.

use crate::read::filled::SymbolRun;
use crate::stream::reader::StreamReader;
use std::fmt::Debug;

/// Chooses rows of blocks by their times and symbols, before their fields are decoded: see
/// [`ColumnBuilder::choose_rows`](crate::ColumnBuilder::choose_rows).
pub trait RowChooser: Debug + Send + Sync {
    /// Replaces `chosen` by the wanted ones of the offered rows, ascending; `false`: all are wanted. It may wait, and may be asked
    /// about the same rows again.
    fn choose(&self, offered: &OfferedRows<'_>, chosen: &mut Vec<u32>) -> bool;
}

/// Rows of a block: at least one.
#[derive(Debug, Clone, Copy)]
pub struct OfferedRows<'a> {
    pub(crate) times: &'a [i64],
    pub(crate) runs: &'a [SymbolRun],
    pub(crate) reached: i64,
    pub(crate) stream: &'a StreamReader,
}

impl<'a> OfferedRows<'a> {
    /// Times of the rows: of each symbol they ascend.
    pub fn times(&self) -> &'a [i64] {
        self.times
    }

    /// Runs of rows of one symbol each.
    pub fn runs(&self) -> &'a [SymbolRun] {
        self.runs
    }

    /// The name of a run's symbol.
    pub fn symbol(&self, run: &SymbolRun) -> &'a str {
        self.stream.symbol(run.symbol)
    }

    /// No row of this block or of a later one has an earlier time.
    pub fn reached(&self) -> i64 {
        self.reached
    }
}
