//! Reads from a topic.

use crate::atomics::Ordering;
use crate::error::TopicError;
use crate::format::word;
use crate::reader::{Found, Reader, Start};
use crate::symbols::Symbols;
use crate::topic::{Inner, Topic, TopicPosition};
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

/// How a subscriber waits for the next message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Waiting {
    /// Looks again and again: the fastest, and takes a processor for itself.
    Spin,
    /// Looks, and lets others run in between.
    Yield,
    /// Sleeps until a publisher wakes it, which costs the publisher a call of the system: nothing while nothing comes.
    #[default]
    Park,
    /// Looks a while, then yields, then sleeps, longer each time up to a millisecond; wakes without the publisher's doing.
    BackOff,
}

/// Builds a subscriber.
#[derive(Debug, Clone)]
#[must_use = "a subscriber is opened with `open`"]
pub struct SubscriberBuilder {
    topic: Topic,
    start: Start,
    symbols: Option<Vec<String>>,
    types: Option<Vec<String>>,
    waiting: Waiting,
    watches_only: bool,
}

impl SubscriberBuilder {
    pub(crate) fn new(topic: Topic) -> Self {
        let (start, waiting) = (Start::default(), Waiting::default());
        Self { topic, start, symbols: None, types: None, waiting, watches_only: false }
    }

    /// Begins with the oldest message that can still be read, not with what comes from now on.
    pub fn from_oldest(mut self) -> Self {
        self.start = Start::Oldest;
        self
    }

    /// Only messages about these symbols, which need not be there yet.
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

    /// Never makes a publisher wait, even where the topic is reliable: it may then miss messages, as in a lossy one.
    pub fn watch_only(mut self) -> Self {
        self.watches_only = true;
        self
    }

    /// Opens the subscriber: what is published after this has returned it will see.
    ///
    /// # Errors
    /// [`TopicError::Type`] for a type that the topic has not, [`TopicError::Full`], and the system's.
    pub fn open(self) -> Result<Subscriber, TopicError> {
        let inner = self.topic.inner.clone();
        let types = self.types.as_deref().map(|names| type_mask(&inner, names)).transpose()?;
        let (file, slot) = inner.take_subscriber()?;
        let ring = &inner.ring;
        let word = |field| ring.subscriber(slot, field);
        let process = u64::from(std::process::id());
        // Seen with the position: until then there is nobody here.
        word(word::subscriber::PROCESS).store(0, Ordering::Release);
        word(word::subscriber::POSITION).store(ring.frontier(), Ordering::Release);
        word(word::subscriber::PROCESS).store(process, Ordering::Release);
        let reader = Reader::join(ring, slot, self.start, !self.watches_only);
        let body = vec![0; crate::body::body_bytes_max(ring)];
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
            topic: inner,
        })
    }
}

fn type_mask(topic: &Inner, names: &[String]) -> Result<Vec<bool>, TopicError> {
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
    /// What is known of symbols' ids.
    by_id: Vec<Option<bool>>,
}

impl Wanted {
    #[inline(always)]
    fn wants(&mut self, topic: &Inner, symbols: &mut Symbols, type_id: u16, symbol: u32) -> bool {
        let type_is = self.types.as_ref().is_none_or(|types| types.get(usize::from(type_id)) == Some(&true));
        type_is && (self.names.is_none() || self.wants_symbol(topic, symbols, symbol))
    }

    fn wants_symbol(&mut self, topic: &Inner, symbols: &mut Symbols, symbol: u32) -> bool {
        if let Some(Some(known)) = self.by_id.get(symbol as usize) {
            return *known;
        }
        // What cannot be looked up is not decided: the bytes may be of a lap that is being written over.
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

/// Reads one topic: every message that it asks for, in the order that all subscribers see.
#[derive(Debug)]
pub struct Subscriber {
    topic: Arc<Inner>,
    /// Holds the lock of the slot.
    _file: File,
    reader: Reader,
    /// The body of the message at hand, copied out of the ring: what a subscriber looks at nobody else can change.
    body: Vec<u8>,
    head: Head,
    wanted: Wanted,
    symbols: Symbols,
    /// A symbol whose name is known: the last message's.
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
    /// [`TopicError::Missed`] when messages were overwritten before they were read: once for each gap, the next call goes on
    /// behind it. In a reliable topic that happens only to a subscriber that stood still for longer than the topic's stall
    /// time. [`TopicError::Corrupt`] when the memory holds what no publisher of ours writes.
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

    /// The message that was given last; `None` before the first, and when the last call gave none.
    #[inline]
    pub fn current(&self) -> Option<TopicMessage<'_>> {
        self.head.is_given.then_some(TopicMessage { subscriber: self })
    }

    /// Waits until there may be a message, or the time is over.
    pub fn wait(&mut self, timeout: Duration) {
        let until = Until::new(timeout);
        let mut looks = 0;
        while !self.reader.has_more(&self.topic.ring) && !until.is_over(looks) {
            self.pause(looks, &until);
            looks = looks.saturating_add(1);
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
            self.learn(symbol)?;
        }
        Ok(true)
    }

    /// Sees to it that the symbol's name is known.
    fn learn(&mut self, symbol: u32) -> Result<(), TopicError> {
        self.last_symbol = None;
        if self.symbols.known_name(symbol).is_empty() {
            self.symbols.name(&self.topic.ring, symbol)?;
        }
        self.last_symbol = Some(symbol);
        Ok(())
    }

    #[inline(never)]
    fn advance_within(&mut self, timeout: Duration) -> Result<bool, TopicError> {
        let until = Until::new(timeout);
        let mut looks = 0;
        while !until.is_over(looks) {
            if self.advance()? {
                return Ok(true);
            }
            self.pause(looks, &until);
            looks = looks.saturating_add(1);
        }
        self.advance()
    }

    /// Waits once, as the subscriber was asked to.
    #[inline(always)]
    fn pause(&mut self, looks: u32, until: &Until) {
        match self.waiting {
            Waiting::Spin => _ = self.reader.spin(&self.topic.ring, SPIN_LOOKS),
            Waiting::Yield => std::thread::yield_now(),
            Waiting::Park if looks < SPINS => crate::atomics::pause(),
            Waiting::Park => self.park(until.left()),
            Waiting::BackOff => back_off(looks, until),
        }
    }

    #[inline(never)]
    fn park(&mut self, timeout: Duration) {
        self.reader.beat(&self.topic.ring);
        self.reader.park(&self.topic.ring, timeout);
        // A claim may be in the way, which is more than nothing.
        if self.reader.has_more(&self.topic.ring) {
            std::thread::yield_now();
        }
    }

    /// Says that the subscriber is alive though it reads nothing: for work that takes longer than the topic's stall time.
    pub fn touch(&self) {
        self.reader.beat(&self.topic.ring);
    }

    /// Sequence number that the next message has, filters aside.
    pub fn next_sequence(&self) -> u64 {
        self.reader.expected
    }

    /// How far it has read, filters aside.
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

    /// Sequence numbers that came by and that no message has: of claims that were passed over.
    pub fn abandoned(&self) -> u64 {
        self.reader.abandoned
    }

    /// The topic.
    pub fn topic(&self) -> Topic {
        Topic { inner: self.topic.clone() }
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

/// Looks before a subscriber sleeps.
const SPINS: u32 = 100;
/// Looks before one that backs off sleeps.
const YIELDS: u32 = 200;
/// Looks of one that spins between two at the clock: some microseconds.
const SPIN_LOOKS: u32 = 4096;
/// Looks between two at the clock.
const CLOCK_INTERVAL: u32 = 64;

/// When waiting ends.
struct Until(Option<Instant>);

impl Until {
    /// A timeout past the end of the clock means for ever.
    fn new(timeout: Duration) -> Self {
        Self(Instant::now().checked_add(timeout))
    }

    fn left(&self) -> Duration {
        self.0.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()))
    }

    #[inline(always)]
    fn is_over(&self, looks: u32) -> bool {
        (looks >= SPINS || looks.is_multiple_of(CLOCK_INTERVAL)) && self.is_over_now(looks)
    }

    fn is_over_now(&self, looks: u32) -> bool {
        looks.is_multiple_of(4) && self.left().is_zero()
    }
}

fn back_off(looks: u32, until: &Until) {
    if looks < SPINS {
        crate::atomics::pause();
    } else if looks < YIELDS {
        std::thread::yield_now();
    } else {
        let longer = Duration::from_micros(20) * (looks - YIELDS + 1).min(50);
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
        self.subscriber.symbols.known_name(self.subscriber.head.symbol)
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

    /// The record, if it is a `T`, of whatever version: see "Versions" in `docs/format/schema.md`.
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

    /// Validates the record, of whatever type it is, and reads it in place.
    ///
    /// # Errors
    /// [`TopicError::Decode`] for damaged bytes.
    pub fn record(&self) -> Result<RecordRef<'a>, TopicError> {
        Ok(self.subscriber.topic.layouts.view(self.type_id(), self.body())?)
    }

    /// Works with the reader of a type, planned at its first message.
    #[inline]
    fn with_reader<T: Record + 'static, R>(
        &self,
        work: impl FnOnce(&mut TypeReader<T>) -> Result<R, TopicError>,
    ) -> Result<R, TopicError> {
        let mut readers = self.subscriber.readers.borrow_mut();
        let reader = match readers.entry(TypeId::of::<T>()) {
            std::collections::hash_map::Entry::Occupied(found) => found.into_mut(),
            std::collections::hash_map::Entry::Vacant(place) => {
                let reader = TypeReader::<T>::new(&self.subscriber.topic.layouts);
                place.insert(Box::new(reader.map_err(|error| TopicError::Version(Box::new(error)))?))
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
