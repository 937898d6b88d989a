//! The loads of a connection: batches that clients append.
//!
//! A batch is checked and written where it arrived, without being copied. In a stream that syncs, all batches that have
//! arrived together are written before the first is waited for, so that one sync answers them all; they are kept meanwhile,
//! to be pushed to those who watch.

use crate::convert;
use crate::metrics::Metrics;
use std::collections::HashMap;
use std::ops::Range;
use tapedb_engine::{BatchLoader, Durability, Error, PendingBatch, Stream};
use tapedb_wire::{Arrived, ServerSession, ToClient};

/// Batches that wait for one sync; beyond, it is not waited for more to arrive.
const HELD_BYTES_MAX: usize = 8 << 20;

/// Loads that are open, by channel, and batches that are written and not acknowledged.
#[derive(Debug, Default)]
pub(crate) struct Loads {
    open: HashMap<u32, Load>,
    held: Vec<Held>,
    /// The batches that are held, one behind the other.
    held_bytes: Vec<u8>,
}

#[derive(Debug)]
struct Load {
    loader: BatchLoader,
    /// Whether acknowledging waits for the disk.
    is_synced: bool,
}

#[derive(Debug)]
struct Held {
    channel: u32,
    number: u64,
    pending: PendingBatch,
    bytes: Range<usize>,
}

impl Loads {
    /// Begins a load; number of the producer's last batch that is stored.
    ///
    /// # Errors
    /// As [`Stream::batches`].
    pub fn open(&mut self, channel: u32, stream: &Stream, space: u32, producer: u64) -> Result<u64, Error> {
        let loader = stream.batches(space)?;
        let last = if producer == 0 { None } else { loader.last_of(producer) };
        let is_synced = stream.options().durability == Durability::Sync;
        self.open.insert(channel, Load { loader, is_synced });
        Ok(last.map_or(0, |(number, _)| number))
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
        match load.loader.write(batch) {
            Ok(pending) if load.is_synced => {
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
                answer(channel, number, committed, is_new.then_some(batch.len()), wire, metrics, out);
            }
            Err(error) => {
                // Those before it are answered first.
                self.commit(wire, metrics, out);
                answer(channel, number, Err(error), None, wire, metrics, out);
            }
        }
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
            if committed.is_err() {
                failed.push(channel);
            }
            answer(channel, number, committed, is_new.then_some(batch.len()), wire, metrics, out);
        }
        self.held_bytes.clear();
        self.held_bytes.shrink_to(HELD_BYTES_MAX / 8);
    }
}

/// Says what came of a batch; `bytes`: of one that was stored now.
fn answer(
    channel: u32,
    number: u64,
    committed: Result<Range<u64>, Error>,
    bytes: Option<usize>,
    wire: &mut ServerSession,
    metrics: &Metrics,
    out: &mut Vec<u8>,
) {
    match committed {
        Ok(Range { start: first_sequence, end: next_sequence }) => {
            if let Some(bytes) = bytes {
                metrics.appends.one();
                metrics.append_messages.add(next_sequence - first_sequence);
                metrics.append_bytes.add(bytes as u64);
            }
            ToClient::Appended { number, first_sequence, next_sequence }.encode(channel, out);
        }
        Err(error) => {
            metrics.appends_failed.one();
            wire.go_back(channel, number);
            ToClient::AppendFailed { number, failure: convert::failure(&error) }.encode(channel, out);
        }
    }
}
