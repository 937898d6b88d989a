//! Reads from a topic.

use crate::body::body_bytes_max;
use crate::error::TopicError;
use crate::file::TopicFile;
use crate::format::word;
use crate::position::TopicPosition;
use crate::reader::{Found, Reader, Start};
use crate::symbols::Symbols;
use std::any::{Any, TypeId};
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tapedb_codec::Record;
use tapedb_codec::dynamic::RecordRef;
use tapedb_codec::evolve::{EvolveError, Reader as TypeReader};
use tapedb_schema::Timestamp;
use tapedb_shm::atomics::{Ordering, pause};

/// How a subscriber waits for the next message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Waiting {
    /// Checks again and again: the fastest, and uses a processor fully.
    Spin,
    /// Checks again and again, and lets other threads run in between.
    Yield,
    /// Sleeps until a publisher wakes it, which costs the publisher a system call, but only if the subscriber sleeps.
    #[default]
    Park,
    /// Checks for a while, then yields, then sleeps, longer each time up to a millisecond; publishers do not wake it.
    BackOff,
}

/// Builds a subscriber.
#[derive(Debug, Clone)]
#[must_use = "a subscriber is opened with `open`"]
pub struct SubscriberBuilder {
    topic: Arc<TopicFile>,
    start: Start,
    symbols: Option<Vec<String>>,
    types: Option<Vec<String>>,
    waiting: Waiting,
    is_protected: bool,
}

impl SubscriberBuilder {
    pub(crate) fn new(topic: Arc<TopicFile>) -> Self {
        let (start, waiting) = (Start::default(), Waiting::default());
        Self { topic, start, symbols: None, types: None, waiting, is_protected: true }
    }

    /// Begins with the oldest message that can still be read, not with the next one.
    pub fn from_oldest(mut self) -> Self {
        self.start = Start::Oldest;
        self
    }

    /// Only messages about these symbols, which need not exist yet.
    pub fn symbols<S: Into<String>>(mut self, symbols: impl IntoIterator<Item = S>) -> Self {
        self.symbols = Some(symbols.into_iter().map(Into::into).collect());
        self
    }

    /// Only messages of these record types.
    pub fn types<S: Into<String>>(mut self, types: impl IntoIterator<Item = S>) -> Self {
        self.types = Some(types.into_iter().map(Into::into).collect());
        self
    }

    /// How [`Subscriber::next_within`] and [`Subscriber::wait`] wait. Default: parked.
    pub fn waiting(mut self, waiting: Waiting) -> Self {
        self.waiting = waiting;
        self
    }

    /// Never makes a publisher wait, even in a reliable topic: it may then miss messages, as in a lossy one.
    pub fn without_back_pressure(mut self) -> Self {
        self.is_protected = false;
        self
    }

    /// Opens the subscriber: it sees everything that is published after this has returned.
    ///
    /// # Errors
    /// [`TopicError::Type`] for a type that the topic does not have, [`TopicError::Full`], and the system's.
    pub fn open(self) -> Result<Subscriber, TopicError> {
        let topic = self.topic;
        let types = self.types.as_deref().map(|names| type_mask(&topic, names)).transpose()?;
        let (file, slot) = topic.take_subscriber()?;
        let ring = &topic.ring;
        let word = |field| ring.subscriber(slot, field);
        let process = u64::from(std::process::id());
        // Written after the position: until then the slot counts as free.
        word(word::subscriber::PROCESS).store(0, Ordering::Release);
        word(word::subscriber::POSITION).store(ring.frontier(), Ordering::Release);
        word(word::subscriber::PROCESS).store(process, Ordering::Release);
        let reader = Reader::join(ring, slot, self.start, self.is_protected);
        let body = vec![0; body_bytes_max(ring)];
        let wanted = Wanted {
            types,
            names: self.symbols.map(|symbols| symbols.into_iter().collect()),
            by_id: Vec::new(),
        };
        Ok(Subscriber {
            _file: file,
            reader,
            body,
            wanted,
            symbols: Symbols::default(),
            last_symbol: None,
            head: Head { is_given: false, bytes: 0, type_id: 0, symbol: 0, time: 0, sequence: 0 },
            waiting: self.waiting,
            readers: RefCell::default(),
            same: Cell::new(None),
            topic,
        })
    }
}

fn type_mask(topic: &TopicFile, names: &[String]) -> Result<Vec<bool>, TopicError> {
    let mut mask = vec![false; topic.layouts.records().len()];
    for name in names {
        let found = topic.layouts.schema().record(name);
        let missing = TopicError::Type { record: name.clone(), why: "the topic has no such record type" };
        let (id, _) = found.ok_or(missing)?;
        mask[usize::from(id)] = true;
    }
    Ok(mask)
}

/// Which messages a subscriber asks for.
#[derive(Debug)]
struct Wanted {
    types: Option<Vec<bool>>,
    names: Option<HashSet<String>>,
    /// Cached answers, by symbol id.
    by_id: Vec<Option<bool>>,
}

impl Wanted {
    #[inline(always)]
    fn wants(&mut self, topic: &TopicFile, symbols: &mut Symbols, type_id: u16, symbol: u32) -> bool {
        let type_is = self.types.as_ref().is_none_or(|types| types.get(usize::from(type_id)) == Some(&true));
        type_is && (self.names.is_none() || self.wants_symbol(topic, symbols, symbol))
    }

    fn wants_symbol(&mut self, topic: &TopicFile, symbols: &mut Symbols, symbol: u32) -> bool {
        if let Some(Some(wanted)) = self.by_id.get(symbol as usize) {
            return *wanted;
        }
        // If the name cannot be read, there is no answer yet: the id may be of a lap that is being overwritten.
        let Ok(name) = symbols.name(&topic.ring, symbol) else { return true };
        let wanted = self.names.as_ref().is_none_or(|names| names.contains(name));
        if self.by_id.len() <= symbol as usize {
            self.by_id.resize(symbol as usize + 1, None);
        }
        self.by_id[symbol as usize] = Some(wanted);
        wanted
    }
}

#[derive(Debug, Clone, Copy)]
struct Head {
    is_given: bool,
    bytes: usize,
    type_id: u16,
    symbol: u32,
    time: i64,
    sequence: u64,
}

/// Reads one topic: every message that it has asked for, in the order that all subscribers see.
#[derive(Debug)]
pub struct Subscriber {
    pub(crate) topic: Arc<TopicFile>,
    /// Holds the lock of the slot.
    _file: File,
    reader: Reader,
    /// The body of the current message, copied out of the ring, so that no other process can change it.
    body: Vec<u8>,
    head: Head,
    wanted: Wanted,
    symbols: Symbols,
    /// The last message's symbol, whose name has been loaded.
    last_symbol: Option<u32>,
    waiting: Waiting,
    readers: RefCell<HashMap<TypeId, Box<dyn Any + Send>>>,
    /// The Rust type of the last message that was decoded, and its type in the topic, where no conversion was needed.
    same: Cell<Option<(TypeId, u16)>>,
}

impl Subscriber {
    /// The next message, if there is one.
    ///
    /// # Errors
    /// [`TopicError::Missed`] when messages were overwritten before they were read: once for each gap, the next call
    /// continues after it. In a reliable topic that happens only to a subscriber that stalled for longer than the topic's
    /// stall time. [`TopicError::Corrupt`] when the memory holds what no correct publisher writes.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "it lends its messages, which an iterator cannot")]
    pub fn next(&mut self) -> Result<Option<TopicMessage<'_>>, TopicError> {
        Ok(if self.advance()? { Some(TopicMessage { subscriber: self }) } else { None })
    }

    /// The next message, waited for at most `timeout`.
    ///
    /// # Errors
    /// As [`Subscriber::next`].
    #[inline]
    pub fn next_within(&mut self, timeout: Duration) -> Result<Option<TopicMessage<'_>>, TopicError> {
        if !self.advance()? && !self.advance_within(timeout)? {
            return Ok(None);
        }
        Ok(Some(TopicMessage { subscriber: self }))
    }

    /// The message that was returned last; `None` before the first, and when the last call returned none.
    #[inline]
    pub fn current(&self) -> Option<TopicMessage<'_>> {
        self.head.is_given.then_some(TopicMessage { subscriber: self })
    }

    /// Waits until there may be a message, or the time is over.
    pub fn wait(&mut self, timeout: Duration) {
        let until = Until::new(timeout);
        let mut checks = 0;
        while !self.reader.has_more(&self.topic.ring) && !until.is_over(checks) {
            self.wait_once(checks, &until);
            checks = checks.saturating_add(1);
        }
    }

    #[inline(always)]
    fn advance(&mut self) -> Result<bool, TopicError> {
        let Self { topic, reader, body, wanted, symbols, .. } = self;
        let found = reader
            .poll(&topic.ring, body, |type_id, symbol| wanted.wants(topic, symbols, type_id, symbol))?;
        let Found::Message { bytes, type_id, symbol, time, sequence } = found else {
            self.head.is_given = false;
            return Ok(false);
        };
        self.head = Head { is_given: true, bytes, type_id, symbol, time, sequence };
        if self.last_symbol != Some(symbol) {
            self.load_symbol(symbol)?;
        }
        Ok(true)
    }

    /// Loads the symbol's name.
    fn load_symbol(&mut self, symbol: u32) -> Result<(), TopicError> {
        self.last_symbol = None;
        if self.symbols.loaded_name(symbol).is_empty() {
            self.symbols.name(&self.topic.ring, symbol)?;
        }
        self.last_symbol = Some(symbol);
        Ok(())
    }

    #[inline(never)]
    fn advance_within(&mut self, timeout: Duration) -> Result<bool, TopicError> {
        let until = Until::new(timeout);
        let mut checks = 0;
        while !until.is_over(checks) {
            if self.advance()? {
                return Ok(true);
            }
            self.wait_once(checks, &until);
            checks = checks.saturating_add(1);
        }
        self.advance()
    }

    /// Waits once, in the subscriber's way.
    #[inline(always)]
    fn wait_once(&mut self, checks: u32, until: &Until) {
        match self.waiting {
            Waiting::Spin => _ = self.reader.spin(&self.topic.ring, SPIN_CHECKS),
            Waiting::Yield => std::thread::yield_now(),
            Waiting::Park if checks < SPINS => pause(),
            Waiting::Park => self.park(until.left()),
            Waiting::BackOff => back_off(checks, until),
        }
    }

    #[inline(never)]
    fn park(&mut self, timeout: Duration) {
        self.reader.beat(&self.topic.ring);
        self.reader.park(&self.topic.ring, timeout);
        // An unfinished claim may be in the way.
        if self.reader.has_more(&self.topic.ring) {
            std::thread::yield_now();
        }
    }

    /// States that the subscriber is alive though it reads nothing: for work that takes longer than the topic's stall time.
    pub fn touch(&self) {
        self.reader.beat(&self.topic.ring);
    }

    /// Sequence number that the next message has, regardless of filters.
    pub fn next_sequence(&self) -> u64 {
        self.reader.expected
    }

    /// How far it has read, regardless of filters.
    pub fn position(&self) -> TopicPosition {
        let Reader { position, expected, .. } = self.reader;
        TopicPosition {
            next_sequence: expected,
            bytes: position.saturating_sub(self.topic.ring.shape.ring_bytes),
        }
    }

    /// Messages missed so far: overwritten before they were read.
    pub fn missed(&self) -> u64 {
        let slot = self.reader.slot;
        self.topic.ring.subscriber(slot, word::subscriber::MISSED).load(Ordering::Relaxed)
    }

    /// Sequence numbers passed that no message has: of claims that were passed over.
    pub fn abandoned(&self) -> u64 {
        self.reader.abandoned
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        let slot = self.reader.slot;
        if !self.topic.is_whole() {
            return;
        }
        self.topic.ring.subscriber(slot, word::subscriber::PROCESS).store(0, Ordering::Release);
    }
}

/// Checks before a subscriber sleeps.
const SPINS: u32 = 100;
/// Checks before a subscriber that backs off sleeps.
const YIELDS: u32 = 200;
/// Checks of a spinning subscriber between two readings of the clock: some microseconds.
const SPIN_CHECKS: u32 = 4096;
/// Checks between two readings of the clock.
const CLOCK_INTERVAL: u32 = 64;

/// When waiting ends.
struct Until(Option<Instant>);

impl Until {
    /// A timeout past the end of the clock means no limit.
    fn new(timeout: Duration) -> Self {
        Self(Instant::now().checked_add(timeout))
    }

    fn left(&self) -> Duration {
        self.0.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()))
    }

    #[inline(always)]
    fn is_over(&self, checks: u32) -> bool {
        (checks >= SPINS || checks.is_multiple_of(CLOCK_INTERVAL)) && self.is_over_now(checks)
    }

    fn is_over_now(&self, checks: u32) -> bool {
        checks.is_multiple_of(4) && self.left().is_zero()
    }
}

fn back_off(checks: u32, until: &Until) {
    if checks < SPINS {
        pause();
    } else if checks < YIELDS {
        std::thread::yield_now();
    } else {
        let longer = Duration::from_micros(20) * (checks - YIELDS + 1).min(50);
        std::thread::sleep(longer.min(until.left()));
    }
}

/// A message, in the subscriber's memory: valid until it moves on.
#[derive(Debug, Clone, Copy)]
pub struct TopicMessage<'a> {
    subscriber: &'a Subscriber,
}

impl<'a> TopicMessage<'a> {
    /// Time.
    #[inline]
    pub fn time(&self) -> Timestamp {
        Timestamp(self.subscriber.head.time)
    }

    /// Symbol.
    #[inline]
    pub fn symbol(&self) -> &'a str {
        self.subscriber.symbols.loaded_name(self.subscriber.head.symbol)
    }

    /// Number of the symbol in the topic's dictionary.
    #[inline]
    pub fn symbol_id(&self) -> u32 {
        self.subscriber.head.symbol
    }

    /// Sequence number in the topic.
    #[inline]
    pub fn sequence(&self) -> u64 {
        self.subscriber.head.sequence
    }

    /// Index of the record type in the topic's schema.
    #[inline]
    pub fn type_id(&self) -> u16 {
        self.subscriber.head.type_id
    }

    /// Name of the record type.
    pub fn type_name(&self) -> &'a str {
        self.subscriber.topic.layouts.record(self.type_id()).map_or("?", |record| &record.name)
    }

    /// The body in its bytes, as `docs/format/message.md` draws them. Not validated.
    #[inline]
    pub fn body(&self) -> &'a [u8] {
        &self.subscriber.body[..self.subscriber.head.bytes]
    }

    /// The record, if it is a `T`, of any version: see "Versions" in `docs/format/schema.md`.
    ///
    /// # Errors
    /// [`TopicError::Type`] when it is not a `T`, [`TopicError::Version`] when the topic's version cannot become one,
    /// [`TopicError::Convert`] when this message cannot, [`TopicError::Decode`] for damaged bytes.
    #[inline]
    pub fn decode<T: Record + 'static>(&self) -> Result<T, TopicError> {
        let mut value = T::default();
        self.decode_into(&mut value)?;
        Ok(value)
    }

    /// Replaces `value` by the record, if it is a `T`, reusing what `value` has allocated.
    ///
    /// # Errors
    /// As [`TopicMessage::decode`].
    #[inline]
    pub fn decode_into<T: Record + 'static>(&self, value: &mut T) -> Result<(), TopicError> {
        if self.subscriber.same.get() == Some((TypeId::of::<T>(), self.type_id())) {
            return Ok(tapedb_codec::decode_into(self.body(), value)?);
        }
        self.with_reader::<T, _>(|reader| match reader.decode_into(self.body(), value) {
            Ok(()) => Ok(()),
            Err(EvolveError::Decode(error)) => Err(error.into()),
            Err(error) => Err(TopicError::Convert(Box::new(error))),
        })
    }

    /// Validates the record, if it is a `T`, and reads it in place.
    ///
    /// # Errors
    /// As [`TopicMessage::decode`]; [`TopicError::Type`] also when it would have to be converted.
    #[inline]
    pub fn view<T: Record + 'static>(&self) -> Result<T::View<'a>, TopicError> {
        if !self.with_reader::<T, _>(|reader| Ok(reader.is_identity()))? {
            let why =
                "the topic has another version of the type, which cannot be read in place; use `decode`";
            return Err(TopicError::Type { record: T::NAME.into(), why });
        }
        Ok(tapedb_codec::view::<T>(self.body())?)
    }

    /// Validates the record, of any type, and reads it in place.
    ///
    /// # Errors
    /// [`TopicError::Decode`] for damaged bytes.
    pub fn record(&self) -> Result<RecordRef<'a>, TopicError> {
        Ok(self.subscriber.topic.layouts.view(self.type_id(), self.body())?)
    }

    /// Calls `work` with the reader of a type, which is planned at its first message.
    #[inline]
    fn with_reader<T: Record + 'static, R>(
        &self,
        work: impl FnOnce(&mut TypeReader<T>) -> Result<R, TopicError>,
    ) -> Result<R, TopicError> {
        let mut readers = self.subscriber.readers.borrow_mut();
        let reader = match readers.entry(TypeId::of::<T>()) {
            std::collections::hash_map::Entry::Occupied(found) => found.into_mut(),
            std::collections::hash_map::Entry::Vacant(entry) => {
                let reader = TypeReader::<T>::new(&self.subscriber.topic.layouts);
                entry.insert(Box::new(reader.map_err(|error| TopicError::Version(Box::new(error)))?))
            }
        };
        match reader.downcast_mut::<TypeReader<T>>() {
            Some(reader) if TypeReader::type_id(reader) == self.type_id() => {
                if reader.is_identity() {
                    self.subscriber.same.set(Some((TypeId::of::<T>(), self.type_id())));
                }
                work(reader)
            }
            _ => Err(self.other_type::<T>()),
        }
    }

    #[cold]
    fn other_type<T: Record>(&self) -> TopicError {
        let why = "the message is of another type; ask `type_name` first, or subscribe to this type alone";
        TopicError::Type { record: T::NAME.into(), why }
    }
}
