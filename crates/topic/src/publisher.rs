//! Writes into a topic.

use crate::batch::Batch;
use crate::body::{Body, Encoded, Typed, check_size, fill_frame};
use crate::claims::{Claim, Claimer, Tried};
use crate::error::TopicError;
use crate::exclusive::Exclusive;
use crate::file::TopicFile;
use crate::format::{Frame, Intent, LINE, frame_bytes, message, pad, word};
use crate::limit::Slowest;
use crate::ring::Ring;
use crate::space::reserve;
use crate::symbols::Symbols;
use std::any::TypeId;
use std::fs::File;
use std::sync::Arc;
use std::time::Duration;
use tapedb_codec::dynamic::{Layouts, RecordValue};
use tapedb_codec::{Record, SchemaBuilder};
use tapedb_schema::Timestamp;
use tapedb_shm::atomics::{Ordering, fence};
use tapedb_shm::system;
use tapedb_shm::waiting::Backoff;

/// A symbol of one topic, looked up once: publishing by it saves the lookup by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TopicSymbol {
    id: u32,
    /// The low half of the topic's id: the id of another topic's symbol would be another name here.
    topic: u32,
}

/// The result of publishing a message.
#[must_use = "a message that met back-pressure has not been published"]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// Published: every subscriber can see it.
    Published {
        /// Its sequence number; of a batch, the first one's.
        sequence: u64,
    },
    /// Not published: there was no space within the publisher's timeout.
    BackPressured(Slowest),
}

impl Sent {
    /// The sequence number; `None` when it was not published.
    pub fn sequence(self) -> Option<u64> {
        match self {
            Self::Published { sequence } => Some(sequence),
            Self::BackPressured(_) => None,
        }
    }
}

/// Publishes to one topic. When a call returns, its message is visible to all subscribers, and it outlives the publisher.
///
/// While there is no space, publishing waits as long as [`Publisher::set_timeout`] states, by default without limit. In a lossy
/// topic it never waits; in a reliable one the wait ends when the slowest subscriber reads on, dies, or has stalled for the
/// topic's stall time.
#[derive(Debug)]
pub struct Publisher {
    pub(crate) topic: Arc<TopicFile>,
    /// Holds the locks of the slot.
    _file: File,
    pub(crate) slot: usize,
    pub(crate) access: Access,
    symbols: Symbols,
    recent: (String, u32),
    last_type: Option<(TypeId, u16)>,
    pub(crate) timeout: Duration,
    /// The system has no barrier on other processors: then each commit has a fence.
    needs_fence: bool,
    pub(crate) scratch: Vec<u8>,
    messages: u64,
}

/// How it writes into the ring.
#[derive(Debug)]
pub(crate) enum Access {
    /// It is the only publisher.
    Exclusive(Exclusive),
    /// It claims parts of the ring, among other publishers.
    Shared(Claimer),
}

impl Publisher {
    pub(crate) fn open(topic: Arc<TopicFile>, exclusive: bool) -> Result<Self, TopicError> {
        let (file, slot) = topic.take_publisher(exclusive)?;
        let ring = &topic.ring;
        let word = |field| ring.publisher(slot, field);
        let access = if exclusive {
            Access::Exclusive(Exclusive::new(ring))
        } else {
            clear(ring, slot);
            Access::Shared(Claimer::new(slot))
        };
        word(word::publisher::INTENT).store(0, Ordering::Release);
        for counter in
            [word::publisher::MESSAGES, word::publisher::BACK_PRESSURED, word::publisher::OVERTAKEN]
        {
            word(counter).store(0, Ordering::Relaxed);
        }
        word(word::publisher::PROCESS).store(std::process::id().into(), Ordering::Release);
        Ok(Self {
            _file: file,
            slot,
            access,
            symbols: Symbols::default(),
            recent: (String::new(), 0),
            last_type: None,
            timeout: Duration::MAX,
            needs_fence: !system::take_part_in_barriers(),
            scratch: Vec::new(),
            messages: 0,
            topic,
        })
    }

    /// How long publishing waits for space. Zero: not at all; the answer is then [`Sent::BackPressured`].
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    /// Looks a symbol up, and adds it to the topic's dictionary if it is new.
    ///
    /// # Errors
    /// When it is empty or longer than 255 bytes, or the dictionary has no space for it.
    #[inline]
    pub fn symbol(&mut self, symbol: &str) -> Result<TopicSymbol, TopicError> {
        let id =
            if self.recent.0 == symbol && !symbol.is_empty() { self.recent.1 } else { self.look_up(symbol)? };
        Ok(TopicSymbol { id, topic: self.topic.ring.shape.id as u32 })
    }

    #[inline(never)]
    fn look_up(&mut self, symbol: &str) -> Result<u32, TopicError> {
        let id = match self.symbols.id(symbol) {
            Some(id) => id,
            None => self.symbols.add(&self.topic.ring, self.slot, symbol)?,
        };
        self.recent.0.clear();
        self.recent.0.push_str(symbol);
        self.recent.1 = id;
        Ok(id)
    }

    /// Publishes a record of a Rust type. It is encoded in the ring.
    ///
    /// # Errors
    /// When the topic has no such record type, the message is too large, or the symbol is invalid.
    #[inline]
    pub fn publish<T: Record + 'static>(
        &mut self,
        symbol: &str,
        time: Timestamp,
        record: &T,
    ) -> Result<Sent, TopicError> {
        let symbol = self.symbol(symbol)?;
        self.publish_by_id(symbol, time, record)
    }

    /// Publishes a record of a Rust type about a symbol that was looked up before.
    ///
    /// # Errors
    /// As [`Publisher::publish`].
    #[inline]
    pub fn publish_by_id<T: Record + 'static>(
        &mut self,
        symbol: TopicSymbol,
        time: Timestamp,
        record: &T,
    ) -> Result<Sent, TopicError> {
        let symbol = self.own(symbol)?;
        let type_id = self.type_id_of::<T>()?;
        self.publish_in_place(symbol, time, type_id, &Typed(record))
    }

    /// Publishes a record of any type of the topic.
    ///
    /// # Errors
    /// When a value does not fit its field; else as [`Publisher::publish`].
    pub fn publish_value(
        &mut self,
        symbol: &str,
        time: Timestamp,
        record: &RecordValue,
    ) -> Result<Sent, TopicError> {
        let mut body = std::mem::take(&mut self.scratch);
        body.clear();
        let encoded = self.topic.layouts.encode(record, &mut body).map_err(TopicError::from);
        let sent = encoded.and_then(|()| {
            check_message(&self.topic.layouts, record.type_id)?;
            let symbol = self.symbol(symbol)?;
            self.publish_in_place(symbol.id, time, record.type_id, &Encoded(&body))
        });
        self.scratch = body;
        sent
    }

    /// Publishes a body that is encoded already; it is validated.
    ///
    /// # Errors
    /// When the bytes are not such a record; else as [`Publisher::publish`].
    pub fn publish_body(
        &mut self,
        symbol: &str,
        time: Timestamp,
        type_id: u16,
        body: &[u8],
    ) -> Result<Sent, TopicError> {
        check_message(&self.topic.layouts, type_id)?;
        self.topic.layouts.check(type_id, body)?;
        let symbol = self.symbol(symbol)?;
        self.publish_in_place(symbol.id, time, type_id, &Encoded(body))
    }

    /// Begins a batch: messages that are published together, which costs less per message.
    pub fn batch(&mut self) -> Batch<'_> {
        Batch { publisher: self, count: 0, staged: Vec::new(), staged_bytes: 0 }
    }

    /// Its slot in the topic.
    pub fn slot(&self) -> usize {
        self.slot
    }

    /// Publishes a message whose body is encoded in the ring.
    #[inline]
    fn publish_in_place(
        &mut self,
        symbol: u32,
        time: Timestamp,
        type_id: u16,
        body: &impl Body,
    ) -> Result<Sent, TopicError> {
        let ring = &self.topic.ring;
        let bound = body.bound();
        check_size(ring, bound)?;
        let Access::Exclusive(exclusive) = &mut self.access else {
            return self.publish_shared(symbol, time, type_id, body);
        };
        let position = match reserve(ring, exclusive, frame_bytes(bound), self.timeout) {
            Ok(position) => position,
            Err(slowest) => return Ok(back_pressured(ring, self.slot, slowest)),
        };
        let sequence = exclusive.sequence;
        let used = fill_frame(ring, position, body);
        let view = ring.view();
        view.write_header(position, sequence, time.0);
        exclusive.publish(view, frame_bytes(used), message(used, type_id, symbol));
        self.published(1);
        Ok(Sent::Published { sequence })
    }

    #[inline(never)]
    fn publish_shared(
        &mut self,
        symbol: u32,
        time: Timestamp,
        type_id: u16,
        body: &impl Body,
    ) -> Result<Sent, TopicError> {
        let (ring, slot) = (&self.topic.ring, self.slot);
        let Access::Shared(claimer) = &mut self.access else { unreachable!("the publisher is exclusive") };
        let mut backoff = Backoff::new(self.timeout);
        let sequence = loop {
            let claim = match claimer.claim(ring, frame_bytes(body.bound()), 1) {
                Tried::Claimed(claim) => claim,
                Tried::BackPressured(slowest) if backoff.is_over() => {
                    return Ok(back_pressured(ring, slot, slowest));
                }
                Tried::BackPressured(_) => continue,
            };
            let used = fill_frame(ring, claim.first, body);
            ring.view().write_header(claim.first, claim.sequence, time.0);
            pad_rest(ring, &claim, claim.first + frame_bytes(used));
            if claimer.commit(ring, &claim, message(used, type_id, symbol)) {
                break claim.sequence;
            }
            // The others have passed the claim over: claim again.
            ring.publisher(slot, word::publisher::OVERTAKEN).fetch_add(1, Ordering::Relaxed);
        };
        self.published(1);
        Ok(Sent::Published { sequence })
    }

    /// After a commit.
    #[inline(always)]
    pub(crate) fn published(&mut self, messages: u64) {
        if self.needs_fence {
            fence(Ordering::SeqCst);
        }
        let ring = &self.topic.ring;
        ring.wake();
        self.messages += messages;
        ring.publisher(self.slot, word::publisher::MESSAGES).store(self.messages, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn own(&self, symbol: TopicSymbol) -> Result<u32, TopicError> {
        if symbol.topic == self.topic.ring.shape.id as u32 { Ok(symbol.id) } else { Err(foreign()) }
    }

    #[inline]
    pub(crate) fn type_id_of<T: Record + 'static>(&mut self) -> Result<u16, TopicError> {
        let key = TypeId::of::<T>();
        match self.last_type {
            Some((last, id)) if last == key => Ok(id),
            _ => {
                let id = bind::<T>(&self.topic.layouts)?;
                check_message(&self.topic.layouts, id)?;
                self.last_type = Some((key, id));
                Ok(id)
            }
        }
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        if !self.topic.is_whole() {
            return;
        }
        let word = |field| self.topic.ring.publisher(self.slot, field);
        word(word::publisher::INTENT).store(0, Ordering::Release);
        word(word::publisher::PROCESS).store(0, Ordering::Release);
    }
}

/// Pads the rest of a claim that is larger than its message.
fn pad_rest(ring: &Ring, claim: &Claim, from: u64) {
    if claim.end() > from {
        // Becomes visible with the claim's first word.
        ring.head(from).store(pad(claim.end() - from), Ordering::Relaxed);
    }
}

/// Passes over the unfinished claim of the slot's last owner.
fn clear(ring: &Ring, slot: usize) {
    let tail = ring.frontier();
    if let Some(intent) = Intent::parse(ring.intent(slot).load(Ordering::Acquire), tail) {
        let word = ring.head(intent.start).load(Ordering::Acquire);
        let claim = Frame::Claimed { owner: slot, lines: intent.bytes / LINE };
        if Frame::parse(word) == claim && tail > intent.start && intent.bytes > 0 {
            ring.pass_over(intent.start, word, intent.bytes);
        }
    }
}

#[cold]
pub(crate) fn back_pressured(ring: &Ring, slot: usize, slowest: Slowest) -> Sent {
    ring.publisher(slot, word::publisher::BACK_PRESSURED).fetch_add(1, Ordering::Relaxed);
    Sent::BackPressured(slowest)
}

#[cold]
fn foreign() -> TopicError {
    TopicError::Symbol { why: "the symbol was looked up in another topic; look it up with this publisher" }
}

/// The record type of a Rust type, if the topic has it with the same fields.
fn bind<T: Record>(layouts: &Layouts) -> Result<u16, TopicError> {
    let refuse = |why| Err(TopicError::Type { record: T::NAME.into(), why });
    let Some((id, _)) = layouts.schema().record(T::NAME) else {
        return refuse("the topic has no such record type; see `tapedb topic stat` for those it has");
    };
    let compiled = Layouts::new(SchemaBuilder::new().with::<T>().finish())?;
    match compiled.schema().record(T::NAME) {
        Some((compiled_id, _)) if layouts.same_layout(id, &compiled, compiled_id) => Ok(id),
        _ => refuse("the topic's record type of that name has other fields than the program's"),
    }
}

pub(crate) fn check_message(layouts: &Layouts, type_id: u16) -> Result<(), TopicError> {
    let record = layouts.record(type_id)?;
    if record.message {
        return Ok(());
    }
    let why = "only nested in others; it is declared `record`, not `message`";
    Err(TopicError::Type { record: record.name.to_string(), why })
}
