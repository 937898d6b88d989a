//! Records an import in the ledger, in the right order with its messages.

use super::home::Home;
use super::identity::Identity;
use super::ledger::Ledger;
use tapedb_engine::Stream;
use tapedb_terminal::Failure;

/// Records an import in the ledger.
pub struct Bookkeeper<'a> {
    pub home: &'a Home,
    pub ledger: &'a mut Ledger,
    pub stream: &'a Stream,
    pub format: &'static str,
    pub files: Vec<Identity>,
    /// The import's number, once it has begun.
    pub id: Option<u64>,
}

impl Bookkeeper<'_> {
    /// Called before each message is written; records the start of the import once.
    #[inline]
    pub fn begin(&mut self) -> Result<(), Failure> {
        if self.id.is_some() { Ok(()) } else { self.begin_now() }
    }

    #[cold]
    fn begin_now(&mut self) -> Result<(), Failure> {
        // Syncs first: a power cut must not change the sequence number at which this import begins.
        self.home.sync()?;
        let first_sequence = self.stream.stats()?.next_sequence;
        self.id = Some(self.ledger.begin(first_sequence, self.format, &self.files)?);
        Ok(())
    }

    /// Called after the last message is written; records that the import is complete.
    pub fn end(&mut self, messages: u64) -> Result<(), Failure> {
        self.home.sync()?;
        self.id.map_or(Ok(()), |id| self.ledger.end(id, messages))
    }
}
