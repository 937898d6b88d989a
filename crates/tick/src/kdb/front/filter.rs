//! Which rows of a table a subscriber gets.

use std::collections::HashSet;

/// Most symbols of a subscription to one table.
pub(super) const FILTER_SYMBOLS_MAX: usize = 100_000;

/// The rows of a table that a subscriber wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Filter {
    All,
    Symbols(HashSet<Vec<u8>>),
}

impl Filter {
    /// The union of this filter and another.
    ///
    /// # Errors
    /// For too many symbols.
    pub(super) fn and(self, other: Option<&Self>) -> Result<Self, String> {
        let all: HashSet<Vec<u8>> = match (self, other) {
            (Self::All, _) | (_, Some(Self::All)) => return Ok(Self::All),
            (Self::Symbols(symbols), None) => symbols,
            (Self::Symbols(symbols), Some(Self::Symbols(more))) => {
                symbols.into_iter().chain(more.iter().cloned()).collect()
            }
        };
        if all.len() > FILTER_SYMBOLS_MAX {
            return Err(format!(
                "limit: at most {FILTER_SYMBOLS_MAX} symbols; subscribe to ` and pick them yourself"
            ));
        }
        Ok(Self::Symbols(all))
    }
}
