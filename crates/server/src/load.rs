//! The loads of a connection: batches that clients append.
//!
//! A batch is checked and written where it arrived, without being copied. In a stream that syncs, all batches that have
//! arrived together are written before the first is waited for, so that one sync answers them all; they are kept meanwhile,
//! to be pushed to those who watch.
//!
//! Answers are gathered: the last one answers all before it. They go out when the client asks for them, when what they answer
//! is much, or old.

use crate::convert;
use crate::flows::Flow;
use crate::metrics::Metrics;
use crate::session::without_secrets;
use crate::users::User;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tapedb_engine::{BatchLoader, Durability, Error, PendingBatch, Stream};
use tapedb_wire::{Arrived, ServerSession, ToClient};

/// Batches that wait for one sync; beyond, it is not waited for more to arrive.
const HELD_BYTES_MAX: usize = 8 << 20;

/// Bytes of batches that one answer waits for: far less than clients have under way.
const UNANSWERED_BYTES_MAX: usize = 256 << 10;
/// No answer waits longer.
const ANSWER_WAIT_MAX: Duration = Duration::from_millis(10);

/// Loads that are open, by channel, and batches that are written and not acknowledged.
#[derive(Debug)]
pub(crate) struct Loads {
    /// Whose they are.
    user: Arc<User>,
    open: HashMap<u32, Load>,
    held: Vec<Held>,
    /// The batches that are held, one behind the other.
    held_bytes: Vec<u8>,
    unanswered: Unanswered,
    /// The durability of the batch that was stored last, since it was asked for.
    stored: Option<Durability>,
}

/// Batches that are acknowledged, and the client has not been told.
#[derive(Debug, Default)]
struct Unanswered {
    /// The last one of each load.
    last: Vec<Appended>,
    bytes: usize,
    /// Since when.
    since: Option<Instant>,
    /// The client waits for the answers.
    is_asked: bool,
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
    /// Under which its batches are stored: [`ProducerIds::id`](crate::producers::ProducerIds::id).
    producer: u64,
    loader: BatchLoader,
    durability: Durability,
    /// What has been appended.
    flow: Flow,
}

impl Load {
    /// Whether acknowledging waits for the disk.
    fn is_synced(&self) -> bool {
        self.durability == Durability::Sync
    }
}

#[derive(Debug)]
struct Held {
    channel: u32,
    number: u64,
    pending: PendingBatch,
    bytes: Range<usize>,
}

impl Loads {
    /// None of a user's, so far.
    pub fn new(user: Arc<User>) -> Self {
        let (open, held, held_bytes, unanswered, stored) = Default::default();
        Self { user, open, held, held_bytes, unanswered, stored }
    }

    /// The user has other rights by now.
    pub fn renew(&mut self, user: &Arc<User>) {
        self.user = user.clone();
    }

    /// Begins a load of the producer that the server has given an id, or of 0; number of its last batch that is stored.
    ///
    /// # Errors
    /// As [`Stream::batches`].
    pub fn open(
        &mut self,
        channel: u32,
        (stream, space): (&Stream, u32),
        producer: u64,
        flow: Flow,
    ) -> Result<u64, Error> {
        let loader = stream.batches(space)?;
        let last = if producer == 0 { None } else { loader.last_of(producer) };
        let durability = stream.options().durability;
        self.open.insert(channel, Load { stream: stream.clone(), producer, loader, durability, flow });
        Ok(last.map_or(0, |(number, _)| number))
    }

    /// The loads, and their streams.
    pub fn streams(&self) -> impl Iterator<Item = (u32, &Stream)> {
        self.open.iter().map(|(channel, load)| (*channel, &load.stream))
    }

    /// Ends a load; what is held must be committed.
    pub fn close(&mut self, channel: u32) {
        self.open.remove(&channel);
    }

    /// Takes in a batch; answers go to `out`. It is acknowledged by [`commit`](Self::commit) at the latest.
    pub fn append(
        &mut self,
        arrived: Arrived<'_>,
        wire: &mut ServerSession,
        metrics: &Metrics,
        out: &mut Vec<u8>,
    ) {
        let Arrived { channel, number, batch } = arrived;
        // After a failure, what was sent before the client knew of it is ignored.
        if !wire.is_expected(channel, number) {
            return;
        }
        let Some(load) = self.open.get_mut(&channel) else { return };
        wire.note_append(channel, number);
        match load.loader.write_from(batch, load.producer, number) {
            Ok(pending) if load.is_synced() => {
                let start = self.held_bytes.len();
                self.held_bytes.extend_from_slice(batch);
                self.held.push(Held { channel, number, pending, bytes: start..start + batch.len() });
                if self.held_bytes.len() >= HELD_BYTES_MAX {
                    self.commit(wire, metrics, out);
                }
            }
            Ok(pending) => {
                let is_new = pending.is_new();
                let committed = load.loader.commit(pending, batch);
                if is_new && let Ok(sequences) = &committed {
                    load.flow.count(sequences.end - sequences.start, batch.len());
                    self.stored = Some(load.durability);
                }
                let committed = committed.map_err(|error| without_secrets(&self.user, error));
                let told = Told { channel, number, bytes: is_new.then_some(batch.len()) };
                told.note(committed, &mut self.unanswered, wire, metrics, out);
            }
            Err(error) => {
                // Those before it are answered first.
                self.commit(wire, metrics, out);
                let told = Told { channel, number, bytes: None };
                told.note(Err(without_secrets(&self.user, error)), &mut self.unanswered, wire, metrics, out);
            }
        }
    }

    /// The durability of the batch that was stored last since this was asked before; `None`: none was.
    pub fn take_stored(&mut self) -> Option<Durability> {
        self.stored.take()
    }

    /// The client waits for its answers.
    pub fn ask(&mut self) {
        self.unanswered.is_asked = true;
    }

    /// Answers what is to be answered by now. How long what is left may still wait; `None`: nothing is.
    pub fn answer(&mut self, out: &mut Vec<u8>) -> Option<Duration> {
        let Unanswered { bytes, since, is_asked, .. } = &mut self.unanswered;
        let is_asked = std::mem::take(is_asked);
        let left = ANSWER_WAIT_MAX.saturating_sub((*since)?.elapsed());
        if !is_asked && !left.is_zero() && *bytes < UNANSWERED_BYTES_MAX {
            return Some(left);
        }
        self.unanswered.tell(out);
        None
    }

    /// Answers all that is acknowledged.
    pub fn answer_all(&mut self, out: &mut Vec<u8>) {
        self.unanswered.tell(out);
    }

    /// Waits until all batches that are written are as durable as their streams promise, and says so to `out`.
    pub fn commit(&mut self, wire: &mut ServerSession, metrics: &Metrics, out: &mut Vec<u8>) {
        let mut failed: Vec<u32> = Vec::new();
        for Held { channel, number, pending, bytes } in self.held.drain(..) {
            let Some(load) = self.open.get_mut(&channel) else { continue };
            // What comes behind a failure is given up, and sent again.
            if failed.contains(&channel) {
                continue;
            }
            let batch = &self.held_bytes[bytes];
            let is_new = pending.is_new();
            let committed = load.loader.commit(pending, batch);
            match &committed {
                Ok(sequences) if is_new => {
                    load.flow.count(sequences.end - sequences.start, batch.len());
                    self.stored = Some(load.durability);
                }
                Ok(_) => {}
                Err(_) => failed.push(channel),
            }
            let committed = committed.map_err(|error| without_secrets(&self.user, error));
            let told = Told { channel, number, bytes: is_new.then_some(batch.len()) };
            told.note(committed, &mut self.unanswered, wire, metrics, out);
        }
        self.held_bytes.clear();
        self.held_bytes.shrink_to(HELD_BYTES_MAX / 8);
    }
}

/// What the client is to be told of; `bytes`: of a batch that was stored now.
struct Told {
    channel: u32,
    number: u64,
    bytes: Option<usize>,
}

impl Told {
    /// Notes what came of it. Of a failure the client is told at once, behind what went well before.
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
                unanswered.tell(out);
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

    fn tell(&mut self, out: &mut Vec<u8>) {
        for Appended { channel, number, sequences } in self.last.drain(..) {
            let Range { start: first_sequence, end: next_sequence } = sequences;
            ToClient::Appended { number, first_sequence, next_sequence }.encode(channel, out);
        }
        (self.bytes, self.since) = (0, None);
    }
}
