//! Observers of a stream, and the order of its batches.

use crate::stream::Stream;
use crate::stream::observe::{Observer, Observing};
use crate::stream::order::WriteOrder;
use std::sync::Arc;

/// Holds the order of a stream's batches until it is dropped.
#[derive(Debug)]
#[must_use = "the order ends when this is dropped"]
pub struct Ordered {
    stream: Stream,
}

impl Stream {
    /// Notifies an observer of the stream's events from now on, until the returned value is dropped. Without observers it
    /// costs loaders nothing.
    pub fn observe(&self, observer: Arc<dyn Observer>) -> Observing {
        self.state.observers.add(observer)
    }

    /// From now on live cursors see appended batches only when [`Stream::publish`] is called, and then all at once. That
    /// costs less with many subscribers and single messages. `false`: each batch at once, again. It applies in the process
    /// that has the database open for writing, while it is open; a cursor that checks for other reasons may see messages
    /// earlier.
    pub fn hold_back(&self, hold: bool) {
        self.state.observers.hold_back(hold);
        if !hold {
            self.publish();
        }
    }

    /// Shows live cursors all appended batches that were [held back](Stream::hold_back).
    pub fn publish(&self) {
        if self.state.observers.take_held() {
            self.state.notify();
            self.state.observers.grown();
        }
    }

    /// From now on `order` decides when each batch is written, until the returned value is dropped. It applies in the
    /// process that has the database open for writing; a second order replaces the first.
    pub fn order_by(&self, order: Arc<dyn WriteOrder>) -> Ordered {
        self.state.observers.order.set(Some(order));
        Ordered { stream: self.clone() }
    }

    /// Whether this process writes the stream, so that it sees every append at once.
    pub fn is_writable(&self) -> bool {
        self.state.is_written()
    }

    /// Sequence number after the last message that readers in this process see now; behind a server, after the last one
    /// received here. It sends no request.
    pub fn seen_end(&self) -> u64 {
        // The end that cursors read: a snapshot of the index may be ahead of it for a moment.
        self.state.spaces.iter().map(|space| space.log.next_sequence()).sum()
    }
}

impl Drop for Ordered {
    fn drop(&mut self) {
        self.stream.state.observers.order.set(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Database, Error, Invalid, StreamOptions};
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, Ordering as Memory};
    use tapedb_schema::Timestamp;

    #[derive(Default)]
    struct Noting(Mutex<Vec<(u64, u64)>>, AtomicBool);

    impl WriteOrder for Noting {
        fn write(&self, first: u64, write: &mut dyn FnMut() -> Result<u64, Error>) -> Result<(), Error> {
            if self.1.load(Memory::SeqCst) {
                return Err(Error::Invalid(Invalid::Options { what: "not now" }));
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
            (0..times).for_each(|at| loader.append_body("A", Timestamp(at), 0, &[0; 8]).expect("it fits"));
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
