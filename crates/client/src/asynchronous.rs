//! Cursors and loaders for programs that use `await`, with any executor.
//!
//! Reading files and waiting for messages would block the executor's thread. So each cursor has a thread of its own,
//! which also decodes, and each loader has one that flushes. Works with any [`Database`](crate::Database), local or
//! remote.
//!
//! ```no_run
//! use tapedb_client::asynchronous::{Cursor, Loader};
//! use tapedb_engine::{Error, Stream};
//!
//! async fn copy(from: &Stream, to: &Stream) -> Result<u64, Error> {
//!     let raw = |message: tapedb_engine::Message<'_>| {
//!         Ok((message.symbol().to_string(), message.time(), message.type_id(), message.body().to_vec()))
//!     };
//!     let mut cursor = Cursor::new(from.cursor().open()?, raw);
//!     let mut loader = Loader::new(to.loader()?);
//!     while let Some(messages) = cursor.next().await? {
//!         for (symbol, time, type_id, body) in messages {
//!             loader.get()?.append_body(&symbol, time, type_id, &body)?;
//!         }
//!     }
//!     loader.flush().await
//! }
//! ```

use crate::notifier::locked;
use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;
use tapedb_engine as engine;
use tapedb_engine::Error;

/// The most messages of a batch.
const MESSAGES_MAX: usize = 1024;
/// The most batches between the cursor's thread and the program.
const BATCHES_MAX: usize = 4;
/// How often the thread of an idle live cursor checks whether the cursor still exists.
const DROP_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Reads messages in batches, each converted to a `T`.
#[derive(Debug)]
pub struct Cursor<T> {
    queue: Arc<Queue<T>>,
}

impl<T: Send + 'static> Cursor<T> {
    /// Continues at the position of `cursor`. `convert` converts each message on the cursor's thread, such as
    /// `|message| message.decode::<Tick>()`.
    pub fn new(
        cursor: engine::Cursor,
        convert: impl FnMut(engine::Message<'_>) -> Result<T, Error> + Send + 'static,
    ) -> Self {
        let queue = Arc::new(Queue::default());
        let pump = Pump { queue: queue.clone(), cursor, convert, batch: Vec::new() };
        let spawned = thread::Builder::new().name("tapedb-cursor".into()).spawn(move || pump.run());
        if let Err(source) = spawned {
            queue.end(Some(Error::Io { operation: "start a thread for", path: "a cursor".into(), source }));
        }
        Self { queue }
    }

    /// The next messages, at least one; `None` at the end, which a live cursor does not have. Dropping the future loses
    /// nothing.
    ///
    /// # Errors
    /// As [`engine::Cursor::next`], and errors of `convert`; after an error the cursor is at its end.
    pub async fn next(&mut self) -> Result<Option<Vec<T>>, Error> {
        poll_fn(|context| self.queue.poll(context)).await
    }
}

impl<T> Drop for Cursor<T> {
    fn drop(&mut self) {
        locked(&self.queue.state).is_wanted = false;
        self.queue.taken.notify_all();
    }
}

/// The queue between a cursor's thread and the program.
struct Queue<T> {
    state: Mutex<QueueState<T>>,
    /// Notified when there is space for another batch, or none is wanted.
    taken: Condvar,
}

struct QueueState<T> {
    batches: VecDeque<Vec<T>>,
    is_wanted: bool,
    end: Option<Option<Error>>,
    waker: Option<Waker>,
}

impl<T> fmt::Debug for Queue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("batches", &locked(&self.state).batches.len()).finish_non_exhaustive()
    }
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        let state = QueueState { batches: VecDeque::new(), is_wanted: true, end: None, waker: None };
        Self { state: Mutex::new(state), taken: Condvar::new() }
    }
}

impl<T> Queue<T> {
    fn poll(&self, context: &Context<'_>) -> Poll<Result<Option<Vec<T>>, Error>> {
        let mut state = locked(&self.state);
        if let Some(batch) = state.batches.pop_front() {
            self.taken.notify_all();
            return Poll::Ready(Ok(Some(batch)));
        }
        if let Some(end) = &mut state.end {
            return Poll::Ready(end.take().map_or(Ok(None), Err));
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }

    /// Appends a batch when there is space; returns whether more batches are wanted.
    fn put(&self, batch: Vec<T>) -> bool {
        let mut state = locked(&self.state);
        while state.is_wanted && state.batches.len() >= BATCHES_MAX {
            state = self.taken.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.batches.push_back(batch);
        wake(&mut state.waker);
        state.is_wanted
    }

    fn end(&self, error: Option<Error>) {
        let mut state = locked(&self.state);
        state.end = Some(error);
        wake(&mut state.waker);
    }

    fn is_wanted(&self) -> bool {
        locked(&self.state).is_wanted
    }
}

fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}

/// A cursor's thread.
struct Pump<T, F> {
    queue: Arc<Queue<T>>,
    cursor: engine::Cursor,
    convert: F,
    batch: Vec<T>,
}

impl<T, F: FnMut(engine::Message<'_>) -> Result<T, Error>> Pump<T, F> {
    fn run(mut self) {
        let end = self.read();
        let is_wanted = self.batch.is_empty() || self.queue.put(std::mem::take(&mut self.batch));
        if is_wanted {
            self.queue.end(end.err());
        }
    }

    fn read(&mut self) -> Result<(), Error> {
        let follows = self.cursor.follows();
        while self.queue.is_wanted() {
            // Messages that were read are delivered before the thread waits for more.
            let reconnect_timeout = if self.batch.is_empty() { DROP_CHECK_INTERVAL } else { Duration::ZERO };
            match self.cursor.next_within(reconnect_timeout)? {
                Some(message) => self.batch.push((self.convert)(message)?),
                None if !follows => return Ok(()),
                None if self.batch.is_empty() => continue,
                None => self.put(),
            }
            if self.batch.len() >= MESSAGES_MAX {
                self.put();
            }
        }
        Ok(())
    }

    fn put(&mut self) {
        self.queue.put(std::mem::take(&mut self.batch));
    }
}

/// Appends messages to the batch without waiting, and flushes without blocking the awaiting thread.
#[derive(Debug)]
pub struct Loader {
    handoff: Arc<Handoff>,
}

/// Passes the loader between the program and the thread that flushes.
#[derive(Debug, Default)]
struct Handoff {
    state: Mutex<HandoffState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct HandoffState {
    loader: Option<Box<engine::Loader>>,
    flushed: Option<Result<u64, Error>>,
    is_asked: bool,
    is_closed: bool,
    waker: Option<Waker>,
}

/// Access to the loader, for appending.
#[derive(Debug)]
pub struct LoaderGuard<'l> {
    handoff: &'l Handoff,
    loader: Option<Box<engine::Loader>>,
}

impl Loader {
    /// Continues with the state of `loader`.
    pub fn new(loader: engine::Loader) -> Self {
        let handoff = Arc::new(Handoff::default());
        locked(&handoff.state).loader = Some(Box::new(loader));
        let of_thread = handoff.clone();
        let spawned = thread::Builder::new().name("tapedb-loader".into()).spawn(move || of_thread.run());
        locked(&handoff.state).is_closed = spawned.is_err();
        Self { handoff }
    }

    /// Access to the loader: [`engine::Loader::append`] and its variants add messages to the batch, and send it when it
    /// is full. They wait only when more is in flight than the server can process. If the future of a flush was
    /// dropped, this waits until that flush has ended.
    ///
    /// # Errors
    /// The error of a flush whose future was dropped.
    pub fn get(&mut self) -> Result<LoaderGuard<'_>, Error> {
        let mut state = locked(&self.handoff.state);
        loop {
            let is_asked = state.is_asked;
            if let Some(loader) = state.loader.take_if(|_| !is_asked) {
                let dropped = state.flushed.take();
                if let Some(Err(error)) = dropped {
                    state.loader = Some(loader);
                    return Err(error);
                }
                drop(state);
                return Ok(LoaderGuard { handoff: &self.handoff, loader: Some(loader) });
            }
            state = self.handoff.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until all appended messages are as durable as the stream promises: see [`engine::Loader::flush`].
    ///
    /// # Errors
    /// As [`engine::Loader::flush`].
    pub async fn flush(&mut self) -> Result<u64, Error> {
        {
            let mut state = locked(&self.handoff.state);
            if state.is_closed {
                let source = std::io::Error::other("the thread could not be started");
                return Err(Error::Io { operation: "start a thread for", path: "a loader".into(), source });
            }
            state.is_asked = true;
            self.handoff.changed.notify_all();
        }
        poll_fn(|context| self.handoff.poll(context)).await
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        locked(&self.handoff.state).is_closed = true;
        self.handoff.changed.notify_all();
    }
}

impl std::ops::Deref for LoaderGuard<'_> {
    type Target = engine::Loader;

    fn deref(&self) -> &engine::Loader {
        self.loader.as_ref().expect("present until this is dropped")
    }
}

impl std::ops::DerefMut for LoaderGuard<'_> {
    fn deref_mut(&mut self) -> &mut engine::Loader {
        self.loader.as_mut().expect("present until this is dropped")
    }
}

impl Drop for LoaderGuard<'_> {
    fn drop(&mut self) {
        locked(&self.handoff.state).loader = self.loader.take();
        self.handoff.changed.notify_all();
    }
}

impl Handoff {
    fn poll(&self, context: &Context<'_>) -> Poll<Result<u64, Error>> {
        let mut state = locked(&self.state);
        match state.flushed.take() {
            Some(flushed) => Poll::Ready(flushed),
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Flushes on request.
    fn run(&self) {
        let mut state = locked(&self.state);
        while !state.is_closed {
            if !state.is_asked {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let Some(mut loader) = state.loader.take() else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(state);
            let flushed = loader.flush();
            state = locked(&self.state);
            (state.loader, state.flushed, state.is_asked) = (Some(loader), Some(flushed), false);
            wake(&mut state.waker);
            self.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::Wake;
    use tapedb_codec::{Record, SchemaBuilder};
    use tapedb_engine::{Database, Stream, StreamOptions};
    use tapedb_schema::Timestamp;

    #[derive(Record, Debug, Default, PartialEq)]
    #[record(message)]
    struct Tick {
        number: u64,
    }

    /// Wakes the thread that polls a future.
    struct Unpark(thread::Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    /// Runs a future on this thread, which sleeps until it is woken.
    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let waker = Arc::new(Unpark(thread::current())).into();
        let (mut context, mut future) = (Context::from_waker(&waker), pin!(future));
        loop {
            if let Poll::Ready(ready) = future.as_mut().poll(&mut context) {
                return ready;
            }
            thread::park();
        }
    }

    fn stream() -> (tempfile::TempDir, Stream) {
        let directory = tempfile::tempdir().unwrap();
        let db = Database::open(directory.path().join("db")).unwrap();
        let schema = SchemaBuilder::new().with::<Tick>().finish();
        (directory, db.create_stream("s", schema, StreamOptions::default()).unwrap())
    }

    async fn load(stream: &Stream, numbers: std::ops::Range<u64>) {
        let mut loader = Loader::new(stream.loader().unwrap());
        for number in numbers {
            let tick = Tick { number };
            loader.get().unwrap().append("A", Timestamp(number as i64), &tick).unwrap();
        }
        loader.flush().await.unwrap();
    }

    fn number(message: engine::Message<'_>) -> Result<u64, Error> {
        Ok(message.decode::<Tick>()?.number)
    }

    #[test]
    fn loaded_messages_are_read() {
        let (_directory, stream) = stream();
        let numbers = block_on(async {
            load(&stream, 0..10_000).await;
            let mut cursor = Cursor::new(stream.cursor().open().unwrap(), number);
            let mut numbers = Vec::new();
            while let Some(batch) = cursor.next().await.unwrap() {
                assert!(!batch.is_empty());
                numbers.extend(batch);
            }
            assert!(cursor.next().await.unwrap().is_none());
            numbers
        });
        assert_eq!(numbers, (0..10_000).collect::<Vec<_>>());
    }

    #[test]
    fn a_live_cursor_is_woken() {
        let (_directory, stream) = stream();
        let mut cursor = Cursor::new(stream.cursor().live().open().unwrap(), number);
        let writer = thread::spawn(move || {
            for number in 0..100 {
                block_on(load(&stream, number..number + 1));
            }
        });
        let mut next = 0;
        while next < 100 {
            for number in block_on(cursor.next()).unwrap().unwrap() {
                assert_eq!(number, next);
                next += 1;
            }
        }
        writer.join().unwrap();
    }

    #[test]
    fn an_error_follows_the_messages_before_it() {
        let (_directory, stream) = stream();
        block_on(load(&stream, 0..10));
        let until_seven = |message: engine::Message<'_>| match number(message)? {
            7 => Err(Error::ReadOnly),
            number => Ok(number),
        };
        let mut cursor = Cursor::new(stream.cursor().open().unwrap(), until_seven);
        assert_eq!(block_on(cursor.next()).unwrap(), Some((0..7).collect()));
        assert!(matches!(block_on(cursor.next()), Err(Error::ReadOnly)));
        assert!(block_on(cursor.next()).unwrap().is_none());
    }

    #[test]
    fn a_dropped_flush_loses_nothing() {
        let (_directory, stream) = stream();
        let mut loader = Loader::new(stream.loader().unwrap());
        for number in 0..50 {
            loader.get().unwrap().append("A", Timestamp(number), &Tick { number: number as u64 }).unwrap();
            let waker = Arc::new(Unpark(thread::current())).into();
            // Polled once, and dropped.
            let _ = pin!(loader.flush()).poll(&mut Context::from_waker(&waker));
        }
        drop(loader.get().unwrap());
        assert_eq!(block_on(loader.flush()).unwrap(), 50);
    }
}
