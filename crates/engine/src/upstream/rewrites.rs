//! Unfinished rewrites of clients elsewhere: begun by one command, filled by batches, committed by another command.
//!
//! A connection may break between any two of these, and before any answer. So a random number identifies a rewrite, its
//! batches have numbers, and every step can be repeated: a step that is complete gets the same answer.
//!
//! Always true: the stream stays unchanged before [`Rewrites::commit`], which makes the change once. A rewrite that has
//! failed stays failed; the client begins another.

use crate::batches::BatchLoader;
use crate::error::{ConnectionError, Error, NotFound};
use crate::stream::Stream;
use crate::stream::rewrite::Rewriter;
use crate::upstream::Replacement;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tapedb_schema::Timestamp;

/// Rewrites that may be open at once: each has up to 32 MiB in memory.
const OPEN_MAX: usize = 16;
/// Ended rewrites whose outcome is stored.
const DONE_MAX: usize = 256;

/// The rewrites of one database, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Rewrites {
    known: Mutex<HashMap<u64, Arc<Rewrite>>>,
}

#[derive(Debug)]
struct Rewrite {
    stream: String,
    state: Mutex<State>,
    /// It has been committed, or has failed.
    done: Condvar,
}

#[derive(Debug)]
struct State {
    step: Step,
    /// Time of the last request for it.
    touched: Instant,
}

#[derive(Debug)]
enum Step {
    Open(Box<Open>),
    /// The change is being made.
    Busy,
    Done(Result<Range<u64>, Arc<Error>>),
}

/// A rewrite that accepts messages.
#[derive(Debug)]
struct Open {
    rewriter: Rewriter,
    /// Checks the batches.
    loader: BatchLoader,
    last_number: u64,
}

impl Rewrites {
    /// Begins or continues a rewrite: number of the last stored batch.
    ///
    /// # Errors
    /// Those of [`Stream::rewrite_in`]; [`ConnectionError::Refused`] when too many are open.
    pub fn begin(&self, stream: &Stream, replacement: &Replacement) -> Result<u64, Error> {
        let mut known = self.known();
        if let Some(rewrite) = known.get(&replacement.rewrite).cloned() {
            drop(known);
            return rewrite.last_number();
        }
        if known.values().filter(|rewrite| rewrite.is_open()).count() >= OPEN_MAX {
            let why = format!("{OPEN_MAX} rewrites are open, which is the limit; try again later");
            return Err(Error::Connection(ConnectionError::Refused { place: "the server".into(), why }));
        }
        let Replacement { rewrite, space, from, last, symbols, .. } = replacement;
        let times = Timestamp(*from)..=Timestamp(*last);
        let rewriter = stream.rewrite_in(*space, times, symbols.clone())?;
        let open = Open { rewriter, loader: stream.batches(*space)?, last_number: 0 };
        forget_oldest(&mut known);
        known.insert(*rewrite, Arc::new(Rewrite::new(stream.name(), open)));
        Ok(0)
    }

    /// Accepts a batch; returns the number of the last stored one.
    ///
    /// # Errors
    /// [`NotFound::Rewrite`]; [`ConnectionError::Protocol`] when a batch before it is missing; when its messages are
    /// invalid or cannot be stored: the rewrite has then failed.
    pub fn stage(&self, rewrite: u64, number: u64, batch: &[u8]) -> Result<u64, Error> {
        let found = self.find(rewrite, "")?;
        let mut state = found.touch();
        let Step::Open(open) = &mut state.step else {
            return Err(Error::Connection(ConnectionError::Protocol {
                what: "a batch for a rewrite that has been committed or has failed".into(),
            }));
        };
        if number <= open.last_number {
            return Ok(open.last_number);
        }
        if number != open.last_number + 1 {
            let what = format!("batch {number} for a rewrite that has {} batches", open.last_number);
            return Err(Error::Connection(ConnectionError::Protocol { what }));
        }
        let Open { rewriter, loader, .. } = &mut **open;
        match rewriter.append_batch(loader, batch) {
            Ok(()) => {
                open.last_number = number;
                Ok(number)
            }
            Err(error) => {
                let error = Arc::new(error);
                state.step = Step::Done(Err(error.clone()));
                Err(Error::Repeated(error))
            }
        }
    }

    /// Makes the change, or returns its outcome.
    ///
    /// # Errors
    /// [`NotFound::Rewrite`]; [`ConnectionError::Protocol`] when batches are missing; those of [`Rewriter::commit`].
    pub fn commit(&self, stream: &str, rewrite: u64, last_number: u64) -> Result<Range<u64>, Error> {
        let found = self.find(rewrite, stream)?;
        let mut state = found.touch();
        if let Step::Open(open) = &state.step
            && open.last_number != last_number
        {
            let what = format!("a rewrite of {last_number} batches, of which {} arrived", open.last_number);
            return Err(Error::Connection(ConnectionError::Protocol { what }));
        }
        match std::mem::replace(&mut state.step, Step::Busy) {
            Step::Open(open) => {
                drop(state);
                let making = Making(&found);
                making.end(open.rewriter.commit())
            }
            other => {
                state.step = other;
                found.wait(state)
            }
        }
    }

    /// Drops a rewrite that has not been committed.
    pub fn forget(&self, rewrite: u64) {
        let mut known = self.known();
        if known.get(&rewrite).is_some_and(|rewrite| rewrite.is_open()) {
            known.remove(&rewrite);
        }
    }

    /// Drops rewrites without a request for this long, unless they are being committed.
    pub fn forget_idle(&self, idle: Duration) {
        self.known().retain(|_, rewrite| {
            let state = rewrite.state();
            matches!(state.step, Step::Busy) || state.touched.elapsed() < idle
        });
    }

    fn find(&self, rewrite: u64, stream: &str) -> Result<Arc<Rewrite>, Error> {
        self.known()
            .get(&rewrite)
            .cloned()
            .ok_or_else(|| Error::NotFound(NotFound::Rewrite { stream: stream.into() }))
    }

    fn known(&self) -> MutexGuard<'_, HashMap<u64, Arc<Rewrite>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes space for one more, if many have ended.
fn forget_oldest(known: &mut HashMap<u64, Arc<Rewrite>>) {
    if known.len() < OPEN_MAX + DONE_MAX {
        return;
    }
    let done = known.iter().filter(|(_, rewrite)| matches!(rewrite.state().step, Step::Done(_)));
    let oldest = done.map(|(number, rewrite)| (rewrite.state().touched, *number)).min();
    oldest.and_then(|(_, number)| known.remove(&number));
}

impl Rewrite {
    fn new(stream: &str, open: Open) -> Self {
        let state = State { step: Step::Open(Box::new(open)), touched: Instant::now() };
        Self { stream: stream.into(), state: Mutex::new(state), done: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn touch(&self) -> MutexGuard<'_, State> {
        let mut state = self.state();
        state.touched = Instant::now();
        state
    }

    fn is_open(&self) -> bool {
        matches!(self.state().step, Step::Open(_))
    }

    fn last_number(&self) -> Result<u64, Error> {
        match &self.touch().step {
            Step::Open(open) => Ok(open.last_number),
            Step::Busy | Step::Done(_) => Err(Error::Connection(ConnectionError::Protocol {
                what: "a rewrite that has been committed or has failed is begun again".into(),
            })),
        }
    }

    /// Waits until the change has been made.
    fn wait(&self, mut state: MutexGuard<'_, State>) -> Result<Range<u64>, Error> {
        loop {
            if let Step::Done(done) = &state.step {
                return done.clone().map_err(Error::Repeated);
            }
            state = self.done.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A change that is being made: waiting threads are notified in any case, also after a panic.
struct Making<'a>(&'a Rewrite);

impl Making<'_> {
    fn end(self, made: Result<Range<u64>, Error>) -> Result<Range<u64>, Error> {
        let made = made.map_err(Arc::new);
        self.0.touch().step = Step::Done(made.clone());
        made.map_err(Error::Repeated)
    }
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        if matches!(state.step, Step::Busy) {
            let what = format!("the rewrite of stream {:?} ended by a panic", self.0.stream);
            state.step = Step::Done(Err(Arc::new(Error::Connection(ConnectionError::Protocol { what }))));
        }
        drop(state);
        self.0.done.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::Database;
    use crate::error::Rejected;
    use crate::options::StreamOptions;
    use crate::upstream::Target;
    use tapedb_codec::batch::BatchBuilder;

    struct Fixture {
        _directory: tempfile::TempDir,
        stream: Stream,
        rewrites: Rewrites,
    }

    impl Fixture {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let db = Database::open_without_maintenance(directory.path().join("db")).unwrap();
            let schema = "message M { x: i64 }".parse().unwrap();
            let stream = db.create_stream("s", schema, StreamOptions::default()).unwrap();
            let mut loader = stream.loader().unwrap();
            for time in 0..4 {
                loader.append_body("A", Timestamp(time), 0, &time.to_le_bytes()).unwrap();
            }
            loader.close().unwrap();
            Self { _directory: directory, stream, rewrites: Rewrites::default() }
        }

        fn begin(&self, rewrite: u64) -> Result<u64, Error> {
            let stream = Target { stream_id: self.stream.id(), name: "s".into() };
            self.rewrites.begin(
                &self.stream,
                &Replacement { stream, rewrite, space: 0, from: 1, last: 2, symbols: None },
            )
        }

        fn times(&self) -> Vec<i64> {
            let mut cursor = self.stream.cursor().open().unwrap();
            std::iter::from_fn(|| Some(cursor.next().unwrap()?.time().0)).collect()
        }
    }

    fn batch(times: &[i64]) -> Vec<u8> {
        let (mut builder, mut out) = (BatchBuilder::new(), Vec::new());
        for time in times {
            builder.push_bytes(*time, 0, 0, &time.to_le_bytes()).unwrap();
        }
        builder.finish(1, &mut out);
        out
    }

    #[test]
    fn every_step_may_be_asked_for_twice() {
        let fixture = Fixture::new();
        let Fixture { rewrites, .. } = &fixture;
        assert_eq!((fixture.begin(7).unwrap(), fixture.begin(7).unwrap()), (0, 0));
        for _ in 0..2 {
            assert_eq!(rewrites.stage(7, 1, &batch(&[2, 1])).unwrap(), 1);
        }
        assert_eq!(fixture.begin(7).unwrap(), 1);
        assert_eq!(rewrites.stage(7, 2, &batch(&[1])).unwrap(), 2);
        assert!(rewrites.stage(7, 4, &batch(&[1])).is_err(), "one is missing");
        assert!(rewrites.commit("s", 7, 1).is_err(), "one more is there");
        assert_eq!(fixture.times(), [0, 1, 2, 3]);
        for _ in 0..3 {
            assert_eq!(rewrites.commit("s", 7, 2).unwrap(), 4..7);
            assert_eq!(fixture.times(), [0, 1, 1, 2, 3]);
        }
        assert!(rewrites.stage(7, 3, &batch(&[1])).is_err() && fixture.begin(7).is_err());
    }

    #[test]
    fn what_fails_changes_nothing_and_stays_so() {
        let fixture = Fixture::new();
        let Fixture { rewrites, .. } = &fixture;
        fixture.begin(7).unwrap();
        rewrites.stage(7, 1, &batch(&[1])).unwrap();
        let error = rewrites.stage(7, 2, &batch(&[1, 5])).unwrap_err();
        assert!(matches!(error.first(), Error::Rejected(Rejected::Outside { .. })), "{error}");
        assert!(rewrites.commit("s", 7, 1).unwrap_err().to_string().contains("none of those"));
        let mut damaged = batch(&[1]);
        *damaged.last_mut().unwrap() ^= 1;
        fixture.begin(8).unwrap();
        assert!(rewrites.stage(8, 1, &damaged).is_err());
        assert!(rewrites.commit("s", 8, 0).is_err());
        assert_eq!(fixture.times(), [0, 1, 2, 3]);
        let unknown = rewrites.commit("s", 9, 0).unwrap_err();
        assert!(matches!(unknown, Error::NotFound(NotFound::Rewrite { .. })), "{unknown}");
    }

    #[test]
    fn there_are_only_so_many_and_those_that_nobody_goes_on_with_end() {
        let fixture = Fixture::new();
        let Fixture { rewrites, .. } = &fixture;
        for rewrite in 0..OPEN_MAX as u64 {
            fixture.begin(rewrite).unwrap();
        }
        assert!(matches!(fixture.begin(99), Err(Error::Connection(ConnectionError::Refused { .. }))));
        rewrites.forget(3);
        fixture.begin(99).unwrap();
        rewrites.forget_idle(Duration::from_secs(600));
        assert!(matches!(fixture.begin(100), Err(Error::Connection(ConnectionError::Refused { .. }))));
        rewrites.forget_idle(Duration::ZERO);
        for rewrite in 200..200 + (2 * DONE_MAX) as u64 {
            fixture.begin(rewrite).unwrap();
            rewrites.commit("s", rewrite, 0).unwrap();
        }
        assert!(rewrites.known().len() <= OPEN_MAX + DONE_MAX);
        assert!(rewrites.commit("s", 200 + (2 * DONE_MAX) as u64 - 1, 0).is_ok(), "the newest are known");
    }
}
