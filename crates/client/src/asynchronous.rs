//! Cursors and loaders for programs that wait with `await`, on whatever runs their futures.
//!
//! Reading files and waiting for messages would hold up the thread that runs the futures. So each cursor has a thread of its
//! own, which decodes, too, and a loader has one that flushes. Works on any [`Database`](crate::Database), here or behind a
//! server.
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

use crate::signal::locked;
use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;
use tapedb_engine as engine;
use tapedb_engine::Error;

/// Messages of a batch at most.
const MESSAGES_MAX: usize = 1024;
/// Batches that may lie between the thread and the program.
const BATCHES_MAX: usize = 4;
/// A live cursor for which nothing comes looks so often whether anybody still has it.
const LOOK_AROUND: Duration = Duration::from_millis(100);

/// Reads messages, each turned into a `T`, in batches.
#[derive(Debug)]
pub struct Cursor<T> {
    queue: Arc<Queue<T>>,
}

impl<T: Send + 'static> Cursor<T> {
    /// A cursor that goes on where `cursor` is. `convert` makes of each message what is wanted of it, such as
    /// `|message| message.decode::<Tick>()`, on the cursor's thread.
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

    /// The next messages, at least one; `None` at the end, which a live cursor has not. Dropping the future loses nothing.
    ///
    /// # Errors
    /// As [`engine::Cursor::next`], and what `convert` gives; after one the cursor is at its end.
    pub async fn next(&mut self) -> Result<Option<Vec<T>>, Error> {
        poll_fn(|context| self.queue.poll(context)).await
    }
}

impl<T> Drop for Cursor<T> {
    fn drop(&mut self) {
        locked(&self.queue.state).is_wanted = false;
        self.queue.room.notify_all();
    }
}

/// What lies between a cursor's thread and the program.
struct Queue<T> {
    state: Mutex<QueueState<T>>,
    /// There is room for another batch, or none is wanted.
    room: Condvar,
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
        Self { state: Mutex::new(state), room: Condvar::new() }
    }
}

impl<T> Queue<T> {
    fn poll(&self, context: &Context<'_>) -> Poll<Result<Option<Vec<T>>, Error>> {
        let mut state = locked(&self.state);
        if let Some(batch) = state.batches.pop_front() {
            self.room.notify_all();
            return Poll::Ready(Ok(Some(batch)));
        }
        if let Some(end) = &mut state.end {
            return Poll::Ready(end.take().map_or(Ok(None), Err));
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }

    /// Puts a batch there when there is room; whether more is wanted.
    fn put(&self, batch: Vec<T>) -> bool {
        let mut state = locked(&self.state);
        while state.is_wanted && state.batches.len() >= BATCHES_MAX {
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
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
            // What is there goes out before anything is waited for.
            let patience = if self.batch.is_empty() { LOOK_AROUND } else { Duration::ZERO };
            match self.cursor.next_within(patience)? {
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

/// Appends messages: into the batch at once, and flushes without holding up the thread that awaits it.
#[derive(Debug)]
pub struct Loader {
    desk: Arc<Desk>,
}

/// Where the loader changes hands between the program and the thread that flushes.
#[derive(Debug, Default)]
struct Desk {
    state: Mutex<DeskState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct DeskState {
    loader: Option<Box<engine::Loader>>,
    flushed: Option<Result<u64, Error>>,
    is_asked: bool,
    is_closed: bool,
    waker: Option<Waker>,
}

/// A loader that can be appended to.
#[derive(Debug)]
pub struct Appending<'l> {
    desk: &'l Desk,
    loader: Option<Box<engine::Loader>>,
}

impl Loader {
    /// A loader that goes on with what `loader` has.
    pub fn new(loader: engine::Loader) -> Self {
        let desk = Arc::new(Desk::default());
        locked(&desk.state).loader = Some(Box::new(loader));
        let of_thread = desk.clone();
        let spawned = thread::Builder::new().name("tapedb-loader".into()).spawn(move || of_thread.run());
        locked(&desk.state).is_closed = spawned.is_err();
        Self { desk }
    }

    /// The loader, to append to: [`engine::Loader::append`] and its like put messages into the batch, and send it when it
    /// is full. That waits only when more is under way than the server keeps up with. If a flush was given up halfway, this
    /// waits for its end.
    ///
    /// # Errors
    /// That of a flush which was given up halfway.
    pub fn get(&mut self) -> Result<Appending<'_>, Error> {
        let mut state = locked(&self.desk.state);
        loop {
            let is_asked = state.is_asked;
            if let Some(loader) = state.loader.take_if(|_| !is_asked) {
                let given_up = state.flushed.take();
                if let Some(Err(error)) = given_up {
                    state.loader = Some(loader);
                    return Err(error);
                }
                drop(state);
                return Ok(Appending { desk: &self.desk, loader: Some(loader) });
            }
            state = self.desk.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until everything that was appended is as durable as the stream promises: see [`engine::Loader::flush`].
    ///
    /// # Errors
    /// As [`engine::Loader::flush`].
    pub async fn flush(&mut self) -> Result<u64, Error> {
        {
            let mut state = locked(&self.desk.state);
            if state.is_closed {
                let source = std::io::Error::other("there was none for it");
                return Err(Error::Io { operation: "start a thread for", path: "a loader".into(), source });
            }
            state.is_asked = true;
            self.desk.changed.notify_all();
        }
        poll_fn(|context| self.desk.poll(context)).await
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        locked(&self.desk.state).is_closed = true;
        self.desk.changed.notify_all();
    }
}

impl std::ops::Deref for Appending<'_> {
    type Target = engine::Loader;

    fn deref(&self) -> &engine::Loader {
        self.loader.as_ref().expect("it is there until this is dropped")
    }
}

impl std::ops::DerefMut for Appending<'_> {
    fn deref_mut(&mut self) -> &mut engine::Loader {
        self.loader.as_mut().expect("it is there until this is dropped")
    }
}

impl Drop for Appending<'_> {
    fn drop(&mut self) {
        locked(&self.desk.state).loader = self.loader.take();
        self.desk.changed.notify_all();
    }
}

impl Desk {
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

    /// Flushes whenever that is asked for.
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

    /// Wakes the thread that runs a future.
    struct Unpark(thread::Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    /// Runs a future on this thread, which only sleeps until it is woken.
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
    fn what_is_loaded_is_read() {
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
    fn an_error_comes_behind_what_was_read() {
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
    fn a_flush_that_is_given_up_loses_nothing() {
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
