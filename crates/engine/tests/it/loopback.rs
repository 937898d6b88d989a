//! A database behind an upstream without a network: both sides are in one process. Pushes come from a thread of their own, with
//! little credit, and some are lost.

use crate::support::Random;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use tapedb_codec::batch::BatchHeader;
use tapedb_engine::{
    BatchLoader, CachedStream, Command, Database, Description, Error, Grown, Loading, LogError, Observer,
    Observing, Outcome, Rejected, Replacement, Replacing, Span, StorageFile, Stream, TailPosition, Target,
    Upstream, Watcher, Watching,
};

/// Maximum bytes that are pushed before some have been consumed.
const CREDIT_BYTES: u64 = 192 << 10;
const PUSH_BYTES: usize = 64 << 10;
/// One push in this many is lost.
const LOST_ONE_IN: usize = 40;

#[derive(Debug)]
pub struct Loopback {
    db: Database,
    /// Streams that have been described, by their ids.
    names: Mutex<HashMap<u64, String>>,
}

impl Loopback {
    pub fn new(db: Database) -> Arc<Self> {
        Arc::new(Self { db, names: Mutex::default() })
    }

    fn stream(&self, stream_id: u64) -> Result<Stream, Error> {
        let name = lock(&self.names).get(&stream_id).cloned().unwrap_or_default();
        self.db.stream_of(&Target { stream_id, name })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Upstream for Loopback {
    fn place(&self) -> String {
        "tape+loopback:".into()
    }

    fn streams(&self) -> Result<Vec<String>, Error> {
        self.db.streams()
    }

    fn describe(&self, name: &str, known: Option<&CachedStream>) -> Result<Description, Error> {
        let description = self.db.describe(name, known)?;
        lock(&self.names).insert(description.stream_id, description.name.clone());
        Ok(description)
    }

    fn open_file(&self, stream_id: u64, name: &str) -> io::Result<Arc<dyn StorageFile>> {
        let stream = self.stream(stream_id).map_err(|_| io::Error::from(io::ErrorKind::NotFound))?;
        stream.open_file(name)
    }

    fn watch(
        &self,
        stream_id: u64,
        from: &[u64],
        sink: Weak<dyn Watcher>,
    ) -> Result<Box<dyn Watching>, Error> {
        let stream = self.stream(stream_id)?;
        let push = Push {
            positions: from.iter().map(|sequence| TailPosition::at(*sequence)).collect(),
            symbols: 0,
            sink,
            shared: Arc::default(),
            random: Random::new(),
        };
        let shared = push.shared.clone();
        let observing = stream.observe(shared.clone());
        thread::spawn(move || push.run(&stream));
        Ok(Box::new(LoopbackWatch { shared, _observing: observing }))
    }

    fn add_symbols(&self, stream_id: u64, names: &[&str]) -> Result<Vec<u32>, Error> {
        self.stream(stream_id).and_then(|stream| stream.symbol_ids(names))
    }

    fn load(&self, stream_id: u64, space: u32) -> Result<Box<dyn Loading>, Error> {
        let loader = self.stream(stream_id).and_then(|stream| stream.batches(space))?;
        static PRODUCERS: AtomicU64 = AtomicU64::new(1);
        let producer = PRODUCERS.fetch_add(1, Ordering::Relaxed);
        let (kept, failed) = (VecDeque::new(), None);
        Ok(Box::new(LoopbackLoading { loader, producer, number: 0, next_sequence: 0, kept, failed }))
    }

    fn replace(&self, replacement: &Replacement) -> Result<Box<dyn Replacing>, Error> {
        self.twice(&Command::BeginRewrite(replacement.clone()))?;
        let (db, stream) = (self.db.clone(), replacement.stream.clone());
        Ok(Box::new(LoopbackReplacing { db, stream, rewrite: replacement.rewrite, last_number: 0 }))
    }

    fn command(&self, command: &Command) -> Result<Outcome, Error> {
        if matches!(command, Command::RenameSymbol { .. }) {
            return self.twice(command);
        }
        self.once(command)
    }
}

impl Loopback {
    /// As if the connection were lost before the answer arrives.
    fn twice(&self, command: &Command) -> Result<Outcome, Error> {
        let first = self.once(command);
        let second = self.once(command);
        assert_eq!(first.is_ok(), second.is_ok(), "{command:?}: {first:?}, then {second:?}");
        second
    }

    fn once(&self, command: &Command) -> Result<Outcome, Error> {
        self.db.execute(command)
    }
}

#[derive(Debug)]
struct LoopbackReplacing {
    db: Database,
    stream: Target,
    rewrite: u64,
    last_number: u64,
}

impl Replacing for LoopbackReplacing {
    fn append(&mut self, batch: &[u8]) -> Result<(), Error> {
        self.last_number += 1;
        self.db.stage(self.rewrite, self.last_number, batch)?;
        assert_eq!(self.db.stage(self.rewrite, self.last_number, batch).unwrap(), self.last_number);
        Ok(())
    }

    fn commit(&mut self) -> Result<std::ops::Range<u64>, Error> {
        let Self { rewrite, last_number, .. } = *self;
        let command = Command::CommitRewrite { stream: self.stream.clone(), rewrite, last_number };
        let first = self.db.execute(&command);
        match (first?, self.db.execute(&command)) {
            (Outcome::Sequences(first), Ok(Outcome::Sequences(second))) if first == second => Ok(first),
            other => panic!("{other:?}"),
        }
    }
}

#[derive(Debug)]
struct LoopbackLoading {
    loader: BatchLoader,
    producer: u64,
    number: u64,
    next_sequence: u64,
    /// Batches that were refused, and those after them.
    kept: VecDeque<Vec<u8>>,
    failed: Option<Error>,
}

impl LoopbackLoading {
    fn send(&mut self, batch: &mut [u8]) -> Result<(), Error> {
        // As after a lost connection, some are sent twice.
        for _ in 0..=self.number % 2 {
            let pending = self.loader.write_from(batch, self.producer, self.number + 1)?;
            self.next_sequence = self.loader.commit(pending, batch)?.end;
        }
        self.number += 1;
        Ok(())
    }

    fn send_kept(&mut self) {
        while let Some(mut batch) = self.kept.pop_front() {
            self.failed = self.send(&mut batch).err();
            match &self.failed {
                None => {}
                Some(Error::Rejected(Rejected::Late { .. })) => return self.kept.clear(),
                Some(_) => return self.kept.push_front(batch),
            }
        }
    }
}

impl Loading for LoopbackLoading {
    fn append(&mut self, batch: &mut Vec<u8>) -> Result<(), Error> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        self.kept.push_back(std::mem::take(batch));
        self.send_kept();
        Ok(())
    }

    fn go_on(&mut self) -> Result<(), Error> {
        if self.failed.is_none() {
            self.send_kept();
        }
        self.failed.take().map_or(Ok(()), Err)
    }

    fn flush(&mut self) -> Result<u64, Error> {
        self.go_on().map(|()| self.next_sequence)
    }

    fn unacknowledged(&self) -> usize {
        self.kept.iter().map(|batch| BatchHeader::parse(batch).unwrap().count as usize).sum()
    }
}

#[derive(Debug)]
struct LoopbackWatch {
    shared: Arc<Shared>,
    _observing: Observing,
}

/// The state that the pushing thread shares with others.
#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    woken: Condvar,
}

#[derive(Debug, Default)]
struct State {
    news: bool,
    changed: bool,
    gone: Option<Option<String>>,
    ended: bool,
    /// What has been pushed and not consumed: space, end of the sequence numbers, bytes.
    outstanding: VecDeque<(u32, u64, u64)>,
    consumed: HashMap<u32, u64>,
}

impl Shared {
    fn update(&self, change: impl FnOnce(&mut State)) {
        let mut state = lock(&self.state);
        change(&mut state);
        state.news = true;
        self.woken.notify_all();
    }
}

impl Observer for Shared {
    fn committed(&self, _: u32, _: Span, _: &[u8]) {
        self.update(|_| {});
    }

    fn changed(&self) {
        self.update(|state| state.changed = true);
    }

    fn gone(&self, renamed: Option<&str>) {
        self.update(|state| state.gone = Some(renamed.map(str::to_string)));
    }
}

impl Watching for LoopbackWatch {
    fn consumed(&self, space: u32, sequence: u64) {
        self.shared.update(|state| {
            // Readers of one stream report side by side: an earlier one may be reported later.
            let consumed = state.consumed.entry(space).or_default();
            *consumed = sequence.max(*consumed);
            state.outstanding.retain(|(of, next, _)| *of != space || *next > sequence);
        });
    }
}

impl Drop for LoopbackWatch {
    fn drop(&mut self) {
        self.shared.update(|state| state.ended = true);
    }
}

struct Push {
    positions: Vec<TailPosition>,
    symbols: u32,
    sink: Weak<dyn Watcher>,
    shared: Arc<Shared>,
    random: Random,
}

impl Push {
    fn run(mut self, stream: &Stream) {
        let mut bytes = Vec::new();
        while let Some(sink) = self.sink.upgrade() {
            for space in 0..self.positions.len() {
                while self.push(stream, &*sink, space, &mut bytes) {}
            }
            drop(sink);
            let mut state = lock(&self.shared.state);
            while !state.news {
                state = self.shared.woken.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            state.news = false;
            let (changed, gone) = (std::mem::take(&mut state.changed), state.gone.take());
            let ended = state.ended;
            drop(state);
            let Some(sink) = self.sink.upgrade().filter(|_| !ended) else { return };
            if changed {
                sink.changed();
            }
            if let Some(renamed) = gone {
                return sink.gone(renamed.as_deref());
            }
        }
    }

    /// Pushes within the credit; whether there may be more.
    fn push(&mut self, stream: &Stream, sink: &dyn Watcher, space: usize, bytes: &mut Vec<u8>) -> bool {
        let outstanding: u64 = lock(&self.shared.state).outstanding.iter().map(|(.., bytes)| bytes).sum();
        if outstanding >= CREDIT_BYTES {
            return false;
        }
        let number = space as u32;
        let span = match stream.read_tail(number, &mut self.positions[space], PUSH_BYTES, bytes) {
            Ok(span) if span.is_empty() => return false,
            Ok(span) => span,
            Err(Error::Log(error)) if matches!(*error, LogError::Trimmed { .. }) => {
                let (first, _) = stream.log_begins(number).unwrap();
                self.positions[space] = TailPosition::at(first);
                sink.changed();
                return true;
            }
            Err(_) => {
                sink.changed();
                return false;
            }
        };
        let names = stream.symbols_from(self.symbols);
        if !names.is_empty() {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            sink.symbols(self.symbols, &names);
            self.symbols += names.len() as u32;
        }
        if self.random.chance(LOST_ONE_IN) {
            sink.interrupted();
            sink.resumed();
            return true;
        }
        let next = span.next_sequence();
        let mut state = lock(&self.shared.state);
        if state.consumed.get(&number).is_none_or(|consumed| *consumed < next) {
            state.outstanding.push_back((number, next, span.len.into()));
        }
        drop(state);
        let at = Grown { file: span.file, offset: span.offset, first_sequence: span.first_sequence };
        sink.grown(number, at, bytes);
        true
    }
}
