//! An order over several streams: one object decides when each batch is written, and so can record the order of all.

use crate::error::{Error, Invalid};
use std::sync::atomic::{AtomicBool, Ordering as Memory};
use std::sync::{Arc, PoisonError, RwLock};
use tapedb_log::{Turn, Written};

/// Decides when a stream's batches are written: [`Stream::order_by`](crate::Stream::order_by). Calls run in the thread that
/// appends, while no other batch of the stream can be written. It must not append to that stream, nor wait for a thread that
/// does.
pub trait WriteOrder: Send + Sync {
    /// A batch is to be written; its first message has the number `first`. Calls `write` once, which returns the number
    /// after its last message; when it returns without an error, readers of a stream that does not sync see the batch.
    ///
    /// Those of `write`. If `write` was not called, any other: the batch is then not written, and the loader gets the
    /// error.
    fn write(&self, first: u64, write: &mut dyn FnMut() -> Result<u64, Error>) -> Result<(), Error>;
}

/// The order of a stream's batches, if one is set.
#[derive(Default)]
pub(crate) struct Slot {
    /// Read at each batch.
    is_set: AtomicBool,
    order: RwLock<Option<Arc<dyn WriteOrder>>>,
}

impl Slot {
    pub fn set(&self, order: Option<Arc<dyn WriteOrder>>) {
        let mut slot = self.order.write().unwrap_or_else(PoisonError::into_inner);
        self.is_set.store(order.is_some(), Memory::SeqCst);
        *slot = order;
    }

    /// Writes a batch in its turn.
    #[inline]
    pub fn write<'w>(&self, turn: Turn<'w, '_>) -> Result<Written<'w>, Error> {
        if self.is_set.load(Memory::SeqCst) {
            return self.write_in_order(turn);
        }
        Ok(turn.write()?)
    }

    fn write_in_order<'w>(&self, turn: Turn<'w, '_>) -> Result<Written<'w>, Error> {
        let slot = self.order.read().unwrap_or_else(PoisonError::into_inner);
        let Some(order) = &*slot else { return Ok(turn.write()?) };
        let (first, mut turn, mut written) = (turn.next_sequence(), Some(turn), None);
        order.write(first, &mut || {
            let turn = turn.take().ok_or(UNWRITTEN)?;
            let batch = written.insert(turn.write()?);
            Ok(batch.sequences().end)
        })?;
        written.ok_or(UNWRITTEN)
    }
}

const UNWRITTEN: Error = Error::Invalid(Invalid::Options {
    what: "the order of the stream did not write the batch, or wrote it twice",
});
