//! What is known of each symbol, in bounded memory: symbols are whatever a frame says.

use super::messages::Messages;
use crate::fields::BadLine;
use std::collections::HashMap;

/// Most symbols of which something is known: venues have some thousand.
pub(crate) const SYMBOLS_MAX: usize = 100_000;

/// See the module.
pub(crate) struct BySymbol<T>(HashMap<String, T>);

impl<T> Default for BySymbol<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T: Default> BySymbol<T> {
    /// What is known of a symbol, at first the default.
    pub(crate) fn of(&mut self, symbol: &str, out: &Messages) -> Result<&mut T, BadLine> {
        if !self.0.contains_key(symbol) {
            if self.0.len() >= SYMBOLS_MAX {
                return Err(out.bad(symbol, format!("frames of at most {SYMBOLS_MAX} symbols")));
            }
            self.0.insert(symbol.to_string(), T::default());
        }
        Ok(self.0.get_mut(symbol).expect("it is there"))
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_symbol_too_many_is_refused_and_those_that_are_known_stay() {
        let (mut known, out) = (BySymbol::<u64>::default(), Messages::new("X", false));
        for number in 0..SYMBOLS_MAX {
            *known.of(&number.to_string(), &out).unwrap() = number as u64;
        }
        assert!(known.of("another", &out).unwrap_err().expected.contains("100000 symbols"));
        assert_eq!(*known.of("7", &out).unwrap(), 7);
        known.clear();
        assert_eq!(*known.of("another", &out).unwrap(), 0);
    }
}
