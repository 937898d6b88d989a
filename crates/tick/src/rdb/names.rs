//! Names of a stream's symbols by their ids, and the other way round.

use crate::table::NO_SYMBOL;
use std::collections::HashMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use tapedb_engine::Stream;

/// The symbols of one table's stream, as far as they have been asked for.
#[derive(Debug)]
pub(crate) struct Names {
    stream: Stream,
    known: RwLock<Known>,
}

#[derive(Debug, Default)]
pub(crate) struct Known {
    names: Vec<String>,
    ids: HashMap<String, u32>,
}

impl Names {
    pub fn new(stream: Stream) -> Self {
        Self { stream, known: RwLock::default() }
    }

    pub fn read(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in the symbols that are new.
    pub fn refresh(&self) {
        let known = self.read().names.len() as u32;
        if self.stream.symbol_count() > known {
            let mut to = self.known.write().unwrap_or_else(PoisonError::into_inner);
            for name in self.stream.symbols_from(to.names.len() as u32) {
                let id = to.names.len() as u32;
                to.ids.insert(name.clone(), id);
                to.names.push(name);
            }
        }
    }

    /// Ids of those of some symbols that the stream has, each once.
    pub fn ids(&self, symbols: &[String]) -> Vec<u32> {
        self.refresh();
        let known = self.read();
        let mut ids: Vec<u32> = symbols.iter().filter_map(|symbol| known.ids.get(symbol).copied()).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }
}

impl Known {
    /// A symbol as it stands in the stream.
    pub fn stored(&self, id: u32) -> &str {
        self.names.get(id as usize).map_or("?", String::as_str)
    }

    /// A symbol as a column has it: empty for null.
    pub fn shown(&self, id: u32) -> &str {
        match self.stored(id) {
            NO_SYMBOL => "",
            name => name,
        }
    }
}
