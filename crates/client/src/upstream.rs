//! The engine's interface to a remote database, over connections to a server.

use crate::address::Address;
use crate::answer::Answer;
use crate::event::Reporter;
use crate::file::RemoteFile;
use crate::load::RemoteLoad;
use crate::options::Options;
use crate::query::RemoteQuery;
use crate::reconnector::{Reconnector, mismatched_answer};
use crate::rewrite::RemoteRewrite;
use crate::watch::RemoteWatch;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use tapedb_engine::{
    CachedStream, Command, Description, Error, Loading, Outcome, Query, QueryRows, Replacement, Replacing,
    StorageFile, Upstream, Wanted, Watcher, Watching,
};
use tapedb_wire::ToServer;

/// The most names of one request: the answer must have space for their ids, and the request for the names.
const NAMES_MAX: usize = 16 << 10;

/// A database behind a server.
#[derive(Debug)]
pub(crate) struct RemoteDatabase {
    /// The first is for short requests; files, watches and loads are distributed over all.
    reconnectors: Vec<Arc<Reconnector>>,
    next: AtomicUsize,
    /// Whether messages need not be validated.
    is_trusted: bool,
}

impl RemoteDatabase {
    /// Connects.
    ///
    /// # Errors
    /// As [`Reconnector::open`].
    pub fn connect(address: &Address, options: &Options) -> Result<Self, Error> {
        let reporter = Arc::new(Reporter::new(address.to_string(), options.on_connection.clone()));
        let open = |_| Reconnector::open(address.clone(), options.clone(), &reporter).map(Arc::new);
        let reconnectors = (0..options.connections.clamp(1, 64)).map(open).collect::<Result<_, _>>()?;
        let is_trusted = !options.validate.applies_to(address);
        Ok(Self { reconnectors, next: AtomicUsize::new(0), is_trusted })
    }

    fn first(&self) -> &Reconnector {
        &self.reconnectors[0]
    }

    fn any(&self) -> Arc<Reconnector> {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        self.reconnectors[next % self.reconnectors.len()].clone()
    }
}

impl Upstream for RemoteDatabase {
    fn place(&self) -> String {
        self.first().address().to_string()
    }

    fn is_trusted(&self) -> bool {
        self.is_trusted
    }

    fn streams(&self) -> Result<Vec<String>, Error> {
        match self.first().ask(&ToServer::Streams {})? {
            Answer::Names(names) => Ok(names),
            _ => Err(mismatched_answer()),
        }
    }

    fn describe(&self, name: &str, known: Option<&CachedStream>) -> Result<Description, Error> {
        self.first().describe(name, known)
    }

    fn open_file(&self, stream_id: u64, name: &str) -> io::Result<Arc<dyn StorageFile>> {
        Ok(Arc::new(RemoteFile::open(self.any(), stream_id, name)?))
    }

    fn watch(
        &self,
        stream_id: u64,
        from: &[u64],
        sink: Weak<dyn Watcher>,
    ) -> Result<Box<dyn Watching>, Error> {
        Ok(Box::new(RemoteWatch::begin(self.any(), stream_id, from, None, sink)?))
    }

    fn watch_some(
        &self,
        stream_id: u64,
        from: &[u64],
        wanted: &Wanted,
        sink: Weak<dyn Watcher>,
    ) -> Result<Option<Box<dyn Watching>>, Error> {
        let watch = RemoteWatch::begin(self.any(), stream_id, from, Some(wanted.clone()), sink)?;
        Ok(Some(Box::new(watch)))
    }

    fn add_symbols(&self, stream_id: u64, names: &[&str]) -> Result<Vec<u32>, Error> {
        let mut ids = Vec::with_capacity(names.len());
        for names in names.chunks(NAMES_MAX) {
            match self.first().ask(&ToServer::AddSymbols { stream_id, names: names.into() })? {
                Answer::Ids(added) => ids.extend(added),
                _ => return Err(mismatched_answer()),
            }
        }
        Ok(ids)
    }

    fn load(&self, stream_id: u64, space: u32) -> Result<Box<dyn Loading>, Error> {
        Ok(Box::new(RemoteLoad::begin(self.any(), stream_id, space)?))
    }

    fn replace(&self, replacement: &Replacement) -> Result<Box<dyn Replacing>, Error> {
        Ok(Box::new(RemoteRewrite::begin(self.any(), replacement)?))
    }

    fn query(&self, query: &Query) -> Result<Option<Box<dyn QueryRows>>, Error> {
        let begun = RemoteQuery::begin(self.any(), query)?;
        Ok(begun.map(|rows| Box::new(rows) as Box<dyn QueryRows>))
    }

    fn command(&self, command: &Command) -> Result<Outcome, Error> {
        match command {
            // Repeating it has no effect.
            Command::RenameSymbol { .. } => self.first().repeat(command),
            command => self.first().command(command),
        }
    }
}
