//! What a scan returns, and in which order.

use std::collections::BTreeSet;
use tapedb_engine::NumberRange;

/// What a scan returns.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Wanted {
    /// First time, nanoseconds since the Unix epoch.
    pub from: i64,
    /// Last time; before the first: nothing is wanted.
    pub last: i64,
    /// `None`: all.
    pub symbols: Option<BTreeSet<String>>,
    /// Fields, and the least and the most of their values. Other rows may be returned too.
    pub ranges: Vec<(String, NumberRange)>,
}

impl Wanted {
    /// Everything.
    pub fn all() -> Self {
        Self { from: i64::MIN, last: i64::MAX, symbols: None, ranges: Vec::new() }
    }

    /// Whether nothing is wanted.
    pub fn is_nothing(&self) -> bool {
        self.from > self.last || self.symbols.as_ref().is_some_and(BTreeSet::is_empty)
    }
}

/// The order of a scan's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeOrder {
    /// As they are stored: by symbol within each block. That is fastest.
    None,
    /// By time; equal times in order of arrival.
    Ascending,
    /// From the last message back.
    Descending,
}
