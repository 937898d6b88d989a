//! An order over several streams: one decides, batch by batch, when each is written, and so can note the order of all.

use crate::error::Error;
use crate::stream::{Stream, StreamInner};
use std::sync::atomic::{AtomicBool, Ordering as Memory};
use std::sync::{Arc, PoisonError, RwLock};
use tapedb_log::{Turn, Written};

/// Decides when a stream's batches are written: [`Stream::order_by`]. Calls come in the thread of whoever appends, while no
/// other batch of the stream can be written. It must not append to that stream, nor wait for somebody who does.
pub trait Order: Send + Sync {
    /// A batch is to be written, whose first message gets the number `first`. Calls `write` once, which returns the number
    /// behind its last message; when it returns without an error, readers of a stream that does not sync see the batch.
    ///
    /// # Errors
    /// Those of `write`. Its own, if it has not called `write`: the batch is then not written, and whoever appends is told.
    fn write(&self, first: u64, write: &mut dyn FnMut() -> Result<u64, Error>) -> Result<(), Error>;
}

/// Keeps a stream's batches in an order until it is dropped.
#[derive(Debug)]
#[must_use = "the order ends when this is dropped"]
pub struct Ordered {
    stream: Stream,
}

impl Stream {
    /// From now on each batch is written when `order` says so, until what is returned is dropped. It holds in the process that
    /// has the database open for writing; a second order takes the place of the first.
    pub fn order_by(&self, order: Arc<dyn Order>) -> Ordered {
        self.inner.observers.order.set(Some(order));
        Ordered { stream: self.clone() }
    }

    /// Whether it is this process that appends, so that it sees at once what is appended by whomever.
    pub fn is_writable(&self) -> bool {
        self.inner.is_writable
    }

    /// Sequence number after the last message that readers in this process see now; of a stream elsewhere, after the last that
    /// is known here. It asks nobody.
    pub fn seen_end(&self) -> u64 {
        // What cursors look at, too: a snapshot of the index may be ahead of it for a moment.
        self.inner.spaces.iter().map(|space| space.log.next_sequence()).sum()
    }
}

impl Drop for Ordered {
    fn drop(&mut self) {
        self.stream.inner.observers.order.set(None);
    }
}

/// Who decides, if somebody does.
#[derive(Default)]
pub(crate) struct Slot {
    /// Asked at each batch.
    is_set: AtomicBool,
    order: RwLock<Option<Arc<dyn Order>>>,
}

impl Slot {
    fn set(&self, order: Option<Arc<dyn Order>>) {
        let mut slot = self.order.write().unwrap_or_else(PoisonError::into_inner);
        self.is_set.store(order.is_some(), Memory::SeqCst);
        *slot = order;
    }
}

impl StreamInner {
    /// Writes a batch in its turn.
    #[inline]
    pub fn write<'w>(&self, turn: Turn<'w, '_>) -> Result<Written<'w>, Error> {
        if self.observers.order.is_set.load(Memory::SeqCst) {
            return self.write_in_order(turn);
        }
        Ok(turn.write()?)
    }

    fn write_in_order<'w>(&self, turn: Turn<'w, '_>) -> Result<Written<'w>, Error> {
        let slot = self.observers.order.order.read().unwrap_or_else(PoisonError::into_inner);
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

const UNWRITTEN: Error =
    Error::Options { what: "the stream's order did not write the batch, or wrote it twice" };

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Database, StreamOptions};
    use std::sync::Mutex;
    use tapedb_schema::Timestamp;

    #[derive(Default)]
    struct Noting(Mutex<Vec<(u64, u64)>>, AtomicBool);

    impl Order for Noting {
        fn write(&self, first: u64, write: &mut dyn FnMut() -> Result<u64, Error>) -> Result<(), Error> {
            if self.1.load(Memory::SeqCst) {
                return Err(Error::Options { what: "not now" });
            }
            let end = write()?;
            self.0.lock().expect("a lock").push((first, end));
            Ok(())
        }
    }

    #[test]
    fn batches_are_written_when_the_order_says_so() {
        let folder = tempfile::tempdir().expect("a folder");
        let db = Database::open(folder.path().join("db")).expect("a database");
        let schema = "message Tick { price: i64 }".parse().expect("a schema");
        let stream = db.create_stream("ticks", schema, StreamOptions::default()).expect("a stream");
        let noting = Arc::new(Noting::default());
        let ordered = stream.order_by(noting.clone());
        let mut loader = stream.loader().expect("a loader");
        let mut append = |times: i64| {
            (0..times).for_each(|at| loader.append_body("A", Timestamp(at), 0, &[0; 8]).expect("room"));
            loader.flush()
        };
        append(3).expect("written");
        append(2).expect("written");
        assert_eq!((&noting.0.lock().expect("a lock")[..], stream.seen_end()), (&[(0, 3), (3, 5)][..], 5));
        noting.1.store(true, Memory::SeqCst);
        assert!(append(1).unwrap_err().to_string().contains("not now"));
        assert_eq!(stream.seen_end(), 5);
        // Without it, what waited is written.
        drop(ordered);
        append(0).expect("written");
        assert_eq!((stream.seen_end(), noting.0.lock().expect("a lock").len()), (6, 2));
    }
}
