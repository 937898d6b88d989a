//! Messages that are published together.

use crate::atomics::Ordering;
use crate::body::{Body, Encoded, Typed, check_size, fill_frame};
use crate::error::TopicError;
use crate::format::{frame_bytes, message, word};
use crate::limit::Slowest;
use crate::publisher::{Lane, Publisher, Sent, TopicSymbol, back_pressured, check_message};
use crate::ring::Ring;
use crate::shared::{Claimed, Shared, Tried};
use crate::waits::{Waits, room};
use std::time::Duration;
use tapedb_codec::Record;
use tapedb_schema::Timestamp;

/// Messages that are published together: all of them, or none. Dropping it publishes nothing.
#[derive(Debug)]
pub struct Batch<'p> {
    pub(crate) publisher: &'p mut Publisher,
    pub(crate) count: u64,
    /// Of publishers that share the topic, who claim exactly what they publish: word 0, time, bytes of the body in `scratch`.
    pub(crate) staged: Vec<(u64, i64, usize)>,
    pub(crate) staged_bytes: u64,
}

impl Batch<'_> {
    /// Adds a record of a Rust type. `false`: it was not added, for the batch is full or the ring is; commit first.
    ///
    /// # Errors
    /// As [`Publisher::publish`].
    #[inline]
    pub fn push_by_id<T: Record + 'static>(
        &mut self,
        symbol: TopicSymbol,
        time: Timestamp,
        record: &T,
    ) -> Result<bool, TopicError> {
        let symbol = self.publisher.own(symbol)?;
        let type_id = self.publisher.type_id_of::<T>()?;
        self.push(symbol, time, type_id, &Typed(record))
    }

    /// Adds a body that is encoded already; it is validated. `false` as in [`Batch::push_by_id`].
    ///
    /// # Errors
    /// As [`Publisher::publish_body`].
    pub fn push_body(
        &mut self,
        symbol: TopicSymbol,
        time: Timestamp,
        type_id: u16,
        body: &[u8],
    ) -> Result<bool, TopicError> {
        check_message(&self.publisher.topic.layouts, type_id)?;
        self.publisher.topic.layouts.check(type_id, body)?;
        let symbol = self.publisher.own(symbol)?;
        self.push(symbol, time, type_id, &Encoded(body))
    }

    /// Messages in the batch.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    #[inline]
    fn push(
        &mut self,
        symbol: u32,
        time: Timestamp,
        type_id: u16,
        body: &impl Body,
    ) -> Result<bool, TopicError> {
        let Publisher { topic, lane, scratch, patience, .. } = &mut *self.publisher;
        let ring = &topic.ring;
        let bound = body.bound();
        check_size(ring, bound)?;
        let bytes = frame_bytes(bound);
        match lane {
            Lane::Alone(alone) => {
                if self.count > 0 && alone.pending_bytes() + bytes > batch_bytes_max(ring) {
                    return Ok(false);
                }
                let Ok(position) = room(ring, alone, bytes, *patience) else { return Ok(false) };
                let used = fill_frame(ring, position, body);
                let view = ring.view();
                view.write_header(position, alone.sequence, time.0);
                alone.add(view, frame_bytes(used), message(used, type_id, symbol), 1);
            }
            Lane::Shared(_) => {
                if self.count == 0 {
                    scratch.clear();
                } else if self.staged_bytes + bytes > batch_bytes_max(ring) {
                    return Ok(false);
                }
                let before = scratch.len();
                body.append(scratch);
                let used = scratch.len() - before;
                self.staged.push((message(used, type_id, symbol), time.0, used));
                self.staged_bytes += frame_bytes(used);
            }
        }
        self.count += 1;
        Ok(true)
    }

    /// Publishes the batch. An empty one is published at once, with the number that the next message will have or, where
    /// publishers share the topic, 0.
    ///
    /// # Errors
    /// [`TopicError::Overtaken`] when the publisher was passed over again and again.
    pub fn commit(mut self) -> Result<Sent, TopicError> {
        let count = std::mem::take(&mut self.count);
        let Publisher { topic, lane, scratch, patience, slot, .. } = &mut *self.publisher;
        let sequence = match lane {
            Lane::Alone(alone) => {
                alone.commit(topic.ring.view());
                alone.sequence - count
            }
            Lane::Shared(_) if count == 0 => 0,
            Lane::Shared(shared) => {
                let staged = Staged { frames: &self.staged, bodies: scratch, bytes: self.staged_bytes };
                match staged.publish(&topic.ring, shared, *patience)? {
                    Ok(sequence) => sequence,
                    Err(slowest) => return Ok(back_pressured(&topic.ring, *slot, slowest)),
                }
            }
        };
        if count > 0 {
            self.publisher.published(count);
        }
        Ok(Sent::Published { sequence })
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        if let Lane::Alone(alone) = &mut self.publisher.lane
            && self.count > 0
        {
            alone.forget(&self.publisher.topic.ring, self.count);
        }
    }
}

/// A batch that a publisher among others has collected.
struct Staged<'a> {
    frames: &'a [(u64, i64, usize)],
    bodies: &'a [u8],
    bytes: u64,
}

/// How often a batch is published again after the others have gone on without it.
const TRIES: usize = 100;

impl Staged<'_> {
    /// Claims room for all, copies, commits. The sequence number of the first.
    fn publish(
        &self,
        ring: &Ring,
        shared: &mut Shared,
        patience: Duration,
    ) -> Result<Result<u64, Slowest>, TopicError> {
        let mut waits = Waits::new(patience);
        for _ in 0..TRIES {
            let claim = loop {
                match shared.claim(ring, self.bytes, self.frames.len() as u64) {
                    Tried::Claimed(claim) => break claim,
                    Tried::BackPressured(slowest) if waits.are_over() => return Ok(Err(slowest)),
                    Tried::BackPressured(_) => {}
                }
            };
            let first = self.write(ring, &claim);
            if shared.commit(ring, &claim, first) {
                return Ok(Ok(claim.sequence));
            }
            ring.publisher(shared.me, word::publisher::OVERTAKEN).fetch_add(1, Ordering::Relaxed);
        }
        Err(TopicError::Overtaken)
    }

    /// Writes all frames but word 0 of the first, which it gives back.
    fn write(&self, ring: &Ring, claim: &Claimed) -> u64 {
        let (mut position, mut rest) = (claim.first, self.bodies);
        for (sequence, (word, time, bytes)) in (claim.sequence..).zip(self.frames) {
            let (body, behind) = rest.split_at(*bytes);
            ring.write(position, sequence, *time, body);
            if position != claim.first {
                // Seen with the claim's first word.
                ring.head(position).store(*word, Ordering::Relaxed);
            }
            position += frame_bytes(*bytes);
            rest = behind;
        }
        self.frames[0].0
    }
}

/// Most bytes of a batch: what is left at the ring's end may come on top.
fn batch_bytes_max(ring: &Ring) -> u64 {
    ring.shape.claim_bytes_max() / 2
}
