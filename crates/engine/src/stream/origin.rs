//! Where a stream is written, and what this process stores for it.

use crate::error::Error;
use crate::stream::identity::Identity;
use crate::stream::remote::Remote;
use crate::stream::writer::StreamWriter;
use std::sync::{Arc, Mutex, PoisonError};
use tapedb_log::SymbolFile;

/// Where a stream is written.
#[derive(Debug, Clone)]
pub(crate) enum Origin {
    /// In this process.
    Written(Arc<StreamWriter>),
    /// In another process, or in none at present: its files are polled.
    Followed(Arc<Followed>),
    /// Behind a server.
    Remote(Arc<Remote>),
}

/// State of a stream that another process writes.
pub(crate) struct Followed {
    pub identity: Identity,
    symbols: Mutex<SymbolFile>,
}

impl std::fmt::Debug for Followed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Followed").field("identity", &self.identity).finish_non_exhaustive()
    }
}

impl Followed {
    pub fn new(identity: Identity, symbols: SymbolFile) -> Self {
        Self { identity, symbols: Mutex::new(symbols) }
    }

    /// Checks for symbols that the writer's process has added.
    pub fn refresh_symbols(&self) -> Result<(), Error> {
        let mut symbols = self.symbols.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(symbols.refresh().map(drop)?)
    }
}
