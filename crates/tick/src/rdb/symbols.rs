//! The symbols of a stream by id, and ids by symbol.

use crate::table::NO_SYMBOL;
use std::collections::HashMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use tapedb_engine::Stream;

/// The symbols of one table's stream, loaded on demand.
#[derive(Debug)]
pub(crate) struct CachedSymbols {
    stream: Stream,
    cache: RwLock<SymbolTable>,
}

#[derive(Debug, Default)]
pub(crate) struct SymbolTable {
    names: Vec<String>,
    ids: HashMap<String, u32>,
}

impl CachedSymbols {
    pub fn new(stream: Stream) -> Self {
        Self { stream, cache: RwLock::default() }
    }

    pub fn read(&self) -> RwLockReadGuard<'_, SymbolTable> {
        self.cache.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Loads new symbols.
    pub fn refresh(&self) {
        let cached = self.read().names.len() as u32;
        if self.stream.symbol_count() > cached {
            let mut to = self.cache.write().unwrap_or_else(PoisonError::into_inner);
            for name in self.stream.symbols_from(to.names.len() as u32) {
                let id = to.names.len() as u32;
                to.ids.insert(name.clone(), id);
                to.names.push(name);
            }
        }
    }

    /// The ids of those of some symbols that the stream has, each once.
    pub fn ids(&self, symbols: &[String]) -> Vec<u32> {
        self.refresh();
        let cached = self.read();
        let mut ids: Vec<u32> = symbols.iter().filter_map(|symbol| cached.ids.get(symbol).copied()).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }
}

impl SymbolTable {
    /// A symbol as in the stream.
    pub fn stored(&self, id: u32) -> &str {
        self.names.get(id as usize).map_or("?", String::as_str)
    }

    /// A symbol as in a column: empty for null.
    pub fn shown(&self, id: u32) -> &str {
        match self.stored(id) {
            NO_SYMBOL => "",
            name => name,
        }
    }
}
