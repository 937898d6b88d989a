//! Loads of a connection: batches that its client appends.
//!
//! A batch is checked and written in its receive buffer, without a copy. In a stream that syncs, all batches received
//! together are written before the first sync is awaited, so that one sync acknowledges all of them; until then they
//! are held in a buffer, to be pushed to watches.
//!
//! Answers are coalesced: the last one answers all before it. They are sent when the client requests them, or when they
//! cover many bytes or are old.

use crate::convert;
use crate::metrics::Metrics;
use crate::traffic::TrafficCounter;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tapedb_access::{User, redacted};
use tapedb_engine::{BatchLoader, Durability, Error, PendingBatch, Stream};
use tapedb_wire::{ReceivedBatch, ServerSession, ToClient};

/// The most bytes of batches that wait for one sync.
const HELD_BYTES_MAX: usize = 8 << 20;

/// The most bytes of batches that one delayed answer covers: far less than clients have in flight.
const UNANSWERED_BYTES_MAX: usize = 256 << 10;
/// The longest delay of an answer.
const ANSWER_WAIT_MAX: Duration = Duration::from_millis(10);

/// Open loads, by channel, and batches that are written and not yet acknowledged.
#[derive(Debug)]
pub(crate) struct Loads {
    /// The user of the connection.
    user: Arc<User>,
    open: HashMap<u32, Load>,
    held: Vec<PendingAppend>,
    /// The held batches, one after the other.
    held_bytes: Vec<u8>,
    unanswered: Unanswered,
    /// The durability of the last stored batch, until it is taken.
    stored: Option<Durability>,
}

/// Acknowledged batches whose answers are not sent yet.
#[derive(Debug, Default)]
struct Unanswered {
    /// The last batch of each load.
    last: Vec<Appended>,
    bytes: usize,
    /// When the first of them was acknowledged.
    since: Option<Instant>,
    /// The client has requested the answers.
    is_requested: bool,
}

#[derive(Debug)]
struct Appended {
    channel: u32,
    number: u64,
    sequences: Range<u64>,
}

#[derive(Debug)]
struct Load {
    stream: Stream,
    /// The producer id of its stored batches: [`ProducerIds::id`](crate::producers::ProducerIds::id).
    producer: u64,
    loader: BatchLoader,
    durability: Durability,
    /// Counts appended batches.
    counter: TrafficCounter,
}

impl Load {
    /// Whether an acknowledgement waits for the disk.
    fn is_synced(&self) -> bool {
        self.durability == Durability::Sync
    }
}

#[derive(Debug)]
struct PendingAppend {
    channel: u32,
    number: u64,
    pending: PendingBatch,
    bytes: Range<usize>,
}

impl Loads {
    /// No loads yet.
    pub fn new(user: Arc<User>) -> Self {
        let (open, held, held_bytes, unanswered, stored) = Default::default();
        Self { user, open, held, held_bytes, unanswered, stored }
    }

    /// Applies changed rights.
    pub fn update(&mut self, user: &Arc<User>) {
        self.user = user.clone();
    }

    /// Begins a load of a producer, by its id from the server, or 0; returns the number of its last stored batch.
    ///
    /// # Errors
    /// As [`Stream::batches`].
    pub fn open(
        &mut self,
        channel: u32,
        (stream, space): (&Stream, u32),
        producer: u64,
        counter: TrafficCounter,
    ) -> Result<u64, Error> {
        let loader = stream.batches(space)?;
        let last = if producer == 0 { None } else { loader.last_of(producer) };
        let durability = stream.options().durability;
        self.open.insert(channel, Load { stream: stream.clone(), producer, loader, durability, counter });
        Ok(last.map_or(0, |(number, _)| number))
    }

    /// The open loads' channels and streams.
    pub fn streams(&self) -> impl Iterator<Item = (u32, &Stream)> {
        self.open.iter().map(|(channel, load)| (*channel, &load.stream))
    }

    /// Ends a load; its held batches must have been committed.
    pub fn close(&mut self, channel: u32) {
        self.open.remove(&channel);
    }

    /// Appends a batch; answers go to `out`. It is acknowledged by [`commit`](Self::commit) at the latest.
    pub fn append(
        &mut self,
        arrived: ReceivedBatch<'_>,
        wire: &mut ServerSession,
        metrics: &Metrics,
        out: &mut Vec<u8>,
    ) {
        let ReceivedBatch { channel, number, batch } = arrived;
        // After a failure, batches that were sent before the client is notified are ignored.
        if !wire.is_expected(channel, number) {
            return;
        }
        let Some(load) = self.open.get_mut(&channel) else { return };
        wire.note_append(channel, number);
        match load.loader.write_from(batch, load.producer, number) {
            Ok(pending) if load.is_synced() => {
                let start = self.held_bytes.len();
                self.held_bytes.extend_from_slice(batch);
                self.held.push(PendingAppend { channel, number, pending, bytes: start..start + batch.len() });
                if self.held_bytes.len() >= HELD_BYTES_MAX {
                    self.commit(wire, metrics, out);
                }
            }
            Ok(pending) => {
                let is_new = pending.is_new();
                let committed = load.loader.commit(pending, batch);
                if is_new && let Ok(sequences) = &committed {
                    load.counter.count(sequences.end - sequences.start, batch.len());
                    self.stored = Some(load.durability);
                }
                let committed = committed.map_err(|error| redacted(&self.user, error));
                let result = AppendResult { channel, number, bytes: is_new.then_some(batch.len()) };
                result.note(committed, &mut self.unanswered, wire, metrics, out);
            }
            Err(error) => {
                // Earlier batches are answered first.
                self.commit(wire, metrics, out);
                let result = AppendResult { channel, number, bytes: None };
                result.note(Err(redacted(&self.user, error)), &mut self.unanswered, wire, metrics, out);
            }
        }
    }

    /// The durability of the last stored batch since the last call; `None`: none was stored.
    pub fn take_stored(&mut self) -> Option<Durability> {
        self.stored.take()
    }

    /// The client requests its answers.
    pub fn request_answers(&mut self) {
        self.unanswered.is_requested = true;
    }

    /// Sends answers that are due. Returns how long the others may still wait; `None`: there are no others.
    pub fn answer(&mut self, out: &mut Vec<u8>) -> Option<Duration> {
        let Unanswered { bytes, since, is_requested, .. } = &mut self.unanswered;
        let is_requested = std::mem::take(is_requested);
        let left = ANSWER_WAIT_MAX.saturating_sub((*since)?.elapsed());
        if !is_requested && !left.is_zero() && *bytes < UNANSWERED_BYTES_MAX {
            return Some(left);
        }
        self.unanswered.send(out);
        None
    }

    /// Sends all answers.
    pub fn answer_all(&mut self, out: &mut Vec<u8>) {
        self.unanswered.send(out);
    }

    /// Waits until all written batches are as durable as their streams promise, and acknowledges them to `out`.
    pub fn commit(&mut self, wire: &mut ServerSession, metrics: &Metrics, out: &mut Vec<u8>) {
        let mut failed: Vec<u32> = Vec::new();
        for PendingAppend { channel, number, pending, bytes } in self.held.drain(..) {
            let Some(load) = self.open.get_mut(&channel) else { continue };
            // Batches after a failure are dropped; the client sends them again.
            if failed.contains(&channel) {
                continue;
            }
            let batch = &self.held_bytes[bytes];
            let is_new = pending.is_new();
            let committed = load.loader.commit(pending, batch);
            match &committed {
                Ok(sequences) if is_new => {
                    load.counter.count(sequences.end - sequences.start, batch.len());
                    self.stored = Some(load.durability);
                }
                Ok(_) => {}
                Err(_) => failed.push(channel),
            }
            let committed = committed.map_err(|error| redacted(&self.user, error));
            let result = AppendResult { channel, number, bytes: is_new.then_some(batch.len()) };
            result.note(committed, &mut self.unanswered, wire, metrics, out);
        }
        self.held_bytes.clear();
        self.held_bytes.shrink_to(HELD_BYTES_MAX / 8);
    }
}

/// The result of an append; `bytes`: of a batch that was stored by it.
struct AppendResult {
    channel: u32,
    number: u64,
    bytes: Option<usize>,
}

impl AppendResult {
    /// Records the result. A failure is reported at once, after the answers to earlier batches.
    fn note(
        self,
        committed: Result<Range<u64>, Error>,
        unanswered: &mut Unanswered,
        wire: &mut ServerSession,
        metrics: &Metrics,
        out: &mut Vec<u8>,
    ) {
        let Self { channel, number, bytes } = self;
        match committed {
            Ok(sequences) => {
                unanswered.note(Appended { channel, number, sequences }, bytes.unwrap_or(0));
            }
            Err(error) => {
                unanswered.send(out);
                metrics.appends_failed.one();
                wire.go_back(channel, number);
                ToClient::AppendFailed { number, failure: convert::failure(&error) }.encode(channel, out);
            }
        }
    }
}

impl Unanswered {
    fn note(&mut self, appended: Appended, bytes: usize) {
        self.bytes += bytes;
        self.since.get_or_insert_with(Instant::now);
        match self.last.iter_mut().find(|last| last.channel == appended.channel) {
            Some(last) => *last = appended,
            None => self.last.push(appended),
        }
    }

    fn send(&mut self, out: &mut Vec<u8>) {
        for Appended { channel, number, sequences } in self.last.drain(..) {
            let Range { start: first_sequence, end: next_sequence } = sequences;
            ToClient::Appended { number, first_sequence, next_sequence }.encode(channel, out);
        }
        (self.bytes, self.since) = (0, None);
    }
}
