//! Messages that are published together.

use crate::body::{Body, Encoded, Typed, check_size, fill_frame};
use crate::claims::{Claim, Claimer, Tried};
use crate::error::TopicError;
use crate::format::{frame_bytes, message, word};
use crate::limit::Slowest;
use crate::publisher::{Access, Publisher, Sent, TopicSymbol, back_pressured, check_message};
use crate::ring::Ring;
use crate::space::reserve;
use std::time::Duration;
use tapedb_codec::Record;
use tapedb_schema::Timestamp;
use tapedb_shm::atomics::Ordering;
use tapedb_shm::waiting::Backoff;

/// Messages that are published together: all of them, or none. Dropping it publishes nothing.
#[derive(Debug)]
pub struct Batch<'p> {
    pub(crate) publisher: &'p mut Publisher,
    pub(crate) count: u64,
    /// Of a publisher that shares the topic and claims exactly what it publishes: word 0, time, bytes of the body in `scratch`.
    pub(crate) staged: Vec<(u64, i64, usize)>,
    pub(crate) staged_bytes: u64,
}

impl Batch<'_> {
    /// Adds a record of a Rust type. `false`: it was not added because the batch or the ring is full; commit first.
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
        let Publisher { topic, access, scratch, timeout, .. } = &mut *self.publisher;
        let ring = &topic.ring;
        let bound = body.bound();
        check_size(ring, bound)?;
        let bytes = frame_bytes(bound);
        match access {
            Access::Exclusive(exclusive) => {
                if self.count > 0 && exclusive.pending_bytes() + bytes > batch_bytes_max(ring) {
                    return Ok(false);
                }
                let Ok(position) = reserve(ring, exclusive, bytes, *timeout) else { return Ok(false) };
                let used = fill_frame(ring, position, body);
                let view = ring.view();
                view.write_header(position, exclusive.sequence, time.0);
                exclusive.add(view, frame_bytes(used), message(used, type_id, symbol), 1);
            }
            Access::Shared(_) => {
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

    /// Publishes the batch. For an empty one the answer has the number of the next message or, if publishers share the topic,
    /// 0.
    ///
    /// # Errors
    /// [`TopicError::Overtaken`] when the publisher was passed over too often.
    pub fn commit(mut self) -> Result<Sent, TopicError> {
        let count = std::mem::take(&mut self.count);
        let Publisher { topic, access, scratch, timeout, slot, .. } = &mut *self.publisher;
        let sequence = match access {
            Access::Exclusive(exclusive) => {
                exclusive.commit(topic.ring.view());
                exclusive.sequence - count
            }
            Access::Shared(_) if count == 0 => 0,
            Access::Shared(claimer) => {
                let staged = Staged { frames: &self.staged, bodies: scratch, bytes: self.staged_bytes };
                match staged.publish(&topic.ring, claimer, *timeout)? {
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
        if let Access::Exclusive(exclusive) = &mut self.publisher.access
            && self.count > 0
        {
            exclusive.discard(&self.publisher.topic.ring, self.count);
        }
    }
}

/// The batch of a publisher that shares the topic.
struct Staged<'a> {
    frames: &'a [(u64, i64, usize)],
    bodies: &'a [u8],
    bytes: u64,
}

/// How often a batch is published again after its claim was passed over.
const TRIES: usize = 100;

impl Staged<'_> {
    /// Claims space for all messages, copies, commits. The sequence number of the first.
    fn publish(
        &self,
        ring: &Ring,
        claimer: &mut Claimer,
        timeout: Duration,
    ) -> Result<Result<u64, Slowest>, TopicError> {
        let mut backoff = Backoff::new(timeout);
        for _ in 0..TRIES {
            let claim = loop {
                match claimer.claim(ring, self.bytes, self.frames.len() as u64) {
                    Tried::Claimed(claim) => break claim,
                    Tried::BackPressured(slowest) if backoff.is_over() => return Ok(Err(slowest)),
                    Tried::BackPressured(_) => {}
                }
            };
            let first = self.write(ring, &claim);
            if claimer.commit(ring, &claim, first) {
                return Ok(Ok(claim.sequence));
            }
            ring.publisher(claimer.me, word::publisher::OVERTAKEN).fetch_add(1, Ordering::Relaxed);
        }
        Err(TopicError::Overtaken)
    }

    /// Writes all frames but word 0 of the first, which it returns.
    fn write(&self, ring: &Ring, claim: &Claim) -> u64 {
        let (mut position, mut rest) = (claim.first, self.bodies);
        for (sequence, (word, time, bytes)) in (claim.sequence..).zip(self.frames) {
            let (body, others) = rest.split_at(*bytes);
            ring.write(position, sequence, *time, body);
            if position != claim.first {
                // Becomes visible with the claim's first word.
                ring.head(position).store(*word, Ordering::Relaxed);
            }
            position += frame_bytes(*bytes);
            rest = others;
        }
        self.frames[0].0
    }
}

/// Most bytes of a batch: the rest of the lap may have to be claimed too.
fn batch_bytes_max(ring: &Ring) -> u64 {
    ring.shape.claim_bytes_max() / 2
}
