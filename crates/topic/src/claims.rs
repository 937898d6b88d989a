//! Claims of publishers that share a topic.
//!
//! A claim goes through these steps; its publisher may die, or be stopped and continue much later, between any two:
//!
//! 1. The *intent* is written to the publisher's slot: what it is about to claim.
//! 2. The *tail* is exchanged: it moves behind the claim and names the owner. No other publisher can claim until step 5.
//! 3. The header of the frame behind the claim is written: empty, with the sequence number that follows.
//! 4. Word 0 of the claim goes from 0 to `Claimed`, with owner and length.
//! 5. The tail is exchanged: the same position, without an owner.
//! 6. The frames are written, and word 0 is exchanged for its last value: published.
//! 7. The intent is taken back.
//!
//! Every word that decides is *exchanged*, so a publisher that was passed over notices and gives up. If a publisher dies or
//! stops between 2 and 5, another one takes the claim over (`take_over`) and pads it, with one line more than was claimed,
//! because the header behind it may still be written. Between 5 and 6 the claim is passed over where it is, by any process that
//! needs this (`Ring::pass_over`). What a stopped publisher may still write when it continues lies in its intent and the header
//! behind it. The limit does not pass these before the publisher is dead or has taken the intent back (`Ring::raise_limit`).

use crate::format::{Frame, Intent, LINE, SLACK, Tail, claimed, pad, word};
use crate::limit::{Raised, Slowest, StallTimes};
use crate::ring::Ring;
use tapedb_shm::atomics::{Ordering, fence, pause};
use tapedb_shm::waiting::StallTimer;

/// A part of the ring that only one publisher may write until it commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Claim {
    pub start: u64,
    pub bytes: u64,
    /// Where its first message goes: at its start, or at the ring's beginning if the rest of the lap is too short.
    pub first: u64,
    /// Sequence number of its first message.
    pub sequence: u64,
    word: u64,
}

/// The result of an attempt to claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tried {
    Claimed(Claim),
    BackPressured(Slowest),
}

/// A publisher that shares the topic: the owner of slot `me`.
#[derive(Debug)]
pub(crate) struct Claimer {
    pub me: usize,
    stalls: StallTimes,
}

impl Claimer {
    pub fn new(me: usize) -> Self {
        Self { me, stalls: StallTimes::default() }
    }

    /// Claims `bytes` in one piece for `count` messages: a multiple of the line, not more than a claim may have.
    pub fn claim(&mut self, ring: &Ring, bytes: u64, count: u64) -> Tried {
        loop {
            let tail = self.free_tail(ring);
            let tried = self.try_claim(ring, tail, bytes, count);
            match tried {
                Ok(tried) => return tried,
                Err(Lost) => {
                    self.write_intent(ring, None);
                    pause();
                }
            }
        }
    }

    /// Publishes a claim: `first` becomes word 0 of its first frame. Whether it was in time.
    pub fn commit(&mut self, ring: &Ring, claim: &Claim, first: u64) -> bool {
        let wrapped = claim.bytes_before_first();
        let word = if wrapped == 0 { first } else { pad(wrapped) };
        if wrapped != 0 {
            ring.head(claim.first).store(first, Ordering::Relaxed);
        }
        let head = ring.head(claim.start);
        // Release: the whole claim becomes visible with it. [SYNC: COMMIT]
        let in_time = head.compare_exchange(claim.word, word, Ordering::Release, Ordering::Relaxed).is_ok();
        self.write_intent(ring, None);
        in_time
    }

    /// Writes the intent.
    fn write_intent(&self, ring: &Ring, intent: Option<Intent>) {
        // Release: a process that sees it taken back sees all earlier writes. An intent is released by the exchange of the tail
        // that follows.
        ring.intent(self.me).store(intent.map_or(0, Intent::word), Ordering::Release);
    }

    fn try_claim(&mut self, ring: &Ring, tail: u64, bytes: u64, count: u64) -> Result<Tried, Lost> {
        let until_wrap = ring.until_wrap(tail);
        let before_first = if bytes > until_wrap { until_wrap } else { 0 };
        let bytes = bytes + before_first;
        let need = tail + bytes + LINE + SLACK;
        self.write_intent(ring, Some(Intent { start: tail, bytes }));
        if need <= ring.limit().load(Ordering::Relaxed) {
            exchange(ring, Tail::free(tail), Tail::owned(tail + bytes, self.me))?;
        } else {
            exchange(ring, Tail::free(tail), Tail::owned(tail, self.me))?;
            match ring.raise_limit(Some(self.me), tail, need, &mut self.stalls) {
                Raised::Space => {}
                Raised::BackPressured(slowest) => return self.no_space(ring, tail, slowest),
                Raised::PadTo(end) => {
                    return match self.pad_region(ring, tail, end)? {
                        Some(slowest) => self.no_space(ring, tail, slowest),
                        None => Err(Lost),
                    };
                }
            }
            exchange(ring, Tail::owned(tail, self.me), Tail::owned(tail + bytes, self.me))?;
        }
        fence(Ordering::Release); // [SYNC: LIMIT]
        let sequence = ring.sequence(tail).load(Ordering::Relaxed);
        ring.write_next(tail + bytes, sequence.wrapping_add(count));
        let word = claimed(self.me, bytes);
        // Release: a process that passes the claim over leads readers to the header behind it.
        let head = ring.head(tail);
        head.compare_exchange(0, word, Ordering::Release, Ordering::Relaxed).map_err(|_| Lost)?;
        let claim = Claim { start: tail, bytes, first: tail + before_first, sequence, word };
        let owned = Tail::owned(tail + bytes, self.me);
        if exchange(ring, owned, Tail::free(tail + bytes)).is_err() {
            // Taken over. It may still be a claim, or padded already.
            ring.pass_over(tail, word, bytes);
            return Err(Lost);
        }
        Ok(Tried::Claimed(claim))
    }

    /// Gives the tail back as it was.
    fn no_space(&mut self, ring: &Ring, tail: u64, slowest: Slowest) -> Result<Tried, Lost> {
        exchange(ring, Tail::owned(tail, self.me), Tail::free(tail))?;
        self.write_intent(ring, None);
        Ok(Tried::BackPressured(slowest))
    }

    /// Pads what another publisher may still write, up to `end`. This publisher owns the tail, and gives it back if it
    /// succeeds; else it returns what is in the way.
    fn pad_region(&mut self, ring: &Ring, tail: u64, end: u64) -> Result<Option<Slowest>, Lost> {
        let need = end + LINE + SLACK;
        if let Err(slowest) = ring.check_subscribers(tail, need, &mut self.stalls) {
            return Ok(Some(slowest));
        }
        let bytes = end - tail;
        if bytes > ring.shape.ring_bytes / 2 {
            let me = ring.publisher(self.me, word::publisher::PROCESS).load(Ordering::Relaxed) as u32;
            let slowest = Slowest { process: me, is_subscriber: false, slot: self.me, behind_bytes: bytes };
            return Ok(Some(slowest));
        }
        self.write_intent(ring, Some(Intent { start: tail, bytes }));
        exchange(ring, Tail::owned(tail, self.me), Tail::owned(end, self.me))?;
        // Only while this publisher owns the tail, so that no other one claims what the limit now allows.
        ring.raise_limit_to(need);
        let sequence = ring.sequence(tail).load(Ordering::Relaxed);
        ring.write_next(end, sequence);
        let head = ring.head(tail);
        head.compare_exchange(0, pad(bytes), Ordering::Release, Ordering::Relaxed).map_err(|_| Lost)?;
        exchange(ring, Tail::owned(end, self.me), Tail::free(end))?;
        Ok(None)
    }

    /// The tail, as soon as it has no owner.
    fn free_tail(&mut self, ring: &Ring) -> u64 {
        let mut timer = StallTimer::new(ring.shape.stall_ms);
        loop {
            let word = ring.tail().load(Ordering::Acquire);
            let tail = Tail::parse(word);
            let Some(owner) = tail.owner else {
                match ring.committed(tail.position) {
                    None => return tail.position,
                    Some((next, messages)) => self.follow(ring, tail, next, messages),
                }
                continue;
            };
            if timer.is_over(word, || ring.presence.has_publisher(owner)) {
                self.take_over(ring, tail, owner);
            }
        }
    }

    /// Moves the tail past a frame of an exclusive publisher that died before it did so. Others may do the same at this time.
    fn follow(&self, ring: &Ring, tail: Tail, next: u64, messages: u64) {
        // A publisher that was stopped here later writes what is there already, unless the ring has come around.
        self.write_intent(ring, Some(Intent { start: tail.position, bytes: next - tail.position }));
        // Exchanged for itself: the tail is still there, and a publisher that moves it sees the intent.
        if exchange(ring, tail, tail).is_ok() {
            fence(Ordering::Release); // [SYNC: LIMIT]
            let sequence = ring.sequence(tail.position).load(Ordering::Relaxed);
            ring.sequence(next).store(sequence.wrapping_add(messages), Ordering::Relaxed);
            let _ = exchange(ring, tail, Tail::free(next));
        }
        self.write_intent(ring, None);
    }

    /// Takes the tail from an owner that is dead or stalled.
    fn take_over(&mut self, ring: &Ring, tail: Tail, owner: usize) {
        let end = tail.position;
        let intent = Intent::parse(ring.intent(owner).load(Ordering::Acquire), end);
        let start = intent.map_or(end, |intent| intent.start);
        let head = ring.head(start);
        let word = head.load(Ordering::Acquire);
        ring.count(word::TAKEN_OVER);
        if end > start && (word == claimed(owner, end - start) || word == pad(end - start)) {
            // Only the last step is missing.
            let _ = exchange(ring, tail, Tail::free(end));
            return;
        }
        // The owner may still write the header at `end`, so the frame is one line longer.
        let bytes = end + LINE - start;
        self.write_intent(ring, Some(Intent { start, bytes }));
        let taken = Tail::owned(end + LINE, self.me);
        if exchange(ring, tail, taken).is_ok() {
            ring.raise_limit_to(end + 2 * LINE);
            let sequence = ring.sequence(start).load(Ordering::Relaxed);
            ring.write_next(end + LINE, sequence);
            loop {
                let word = head.load(Ordering::Acquire);
                let open = word == 0 || matches!(Frame::parse(word), Frame::Claimed { .. });
                if !open || ring.pass_over(start, word, bytes) {
                    break;
                }
            }
            let _ = exchange(ring, taken, Tail::free(end + LINE));
        }
        self.write_intent(ring, None);
    }
}

impl Claim {
    fn bytes_before_first(&self) -> u64 {
        self.first - self.start
    }

    /// Position after its last byte.
    pub fn end(&self) -> u64 {
        self.start + self.bytes
    }
}

/// Another publisher was faster, or has taken the claim over: try again.
#[derive(Debug)]
struct Lost;

/// Acquire pairs with the release of the publisher that exchanged the tail before: its writes to the ring, the limit and its
/// slot are visible here. Release makes the intent and the header of the next frame visible.
fn exchange(ring: &Ring, from: Tail, to: Tail) -> Result<(), Lost> {
    let exchanged = ring.tail().compare_exchange(from.word(), to.word(), Ordering::AcqRel, Ordering::Relaxed);
    exchanged.map(drop).map_err(|_| Lost)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::exclusive::{Exclusive, settle};
    use crate::format::{Delivery, RING_BYTES_MIN, Shape, message};
    use crate::reader::{Found, Reader, Start};
    use crate::ring::Presence;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    use tapedb_shm::Words;
    use tapedb_shm::atomics::AtomicU64;

    /// Publisher 0 is alive or not; the others are.
    #[derive(Debug, Clone)]
    struct Zero(Arc<AtomicBool>);

    impl Presence for Zero {
        fn has_publisher(&self, slot: usize) -> bool {
            slot != 0 || self.0.load(Ordering::Relaxed)
        }
        fn has_subscriber(&self, _: usize) -> bool {
            true
        }
    }

    fn ring(delivery: Delivery, stall_ms: u64) -> (Ring, Arc<AtomicBool>) {
        let shape = Shape {
            delivery,
            id: 1,
            created: 0,
            ring_bytes: RING_BYTES_MIN,
            symbols_bytes: 4096,
            schema_bytes: 0,
            stall_ms,
        };
        let lives = Arc::new(AtomicBool::new(true));
        let words = Words::owned(shape.file_bytes() as usize);
        let ring = Ring::new(words, shape, Box::new(Zero(lives.clone())));
        ring.format();
        ring.subscriber(0, word::subscriber::PROCESS).store(1, Ordering::Relaxed);
        (ring, lives)
    }

    /// Bytes of the claim that is interrupted.
    const BYTES: u64 = 3 * LINE;
    /// Steps of a claim.
    const STEPS: usize = 7;

    /// Does the steps `from..to` of a claim at `tail`, as `try_claim` does when there is space. Whether all of them succeeded.
    fn steps(ring: &Ring, tail: u64, from: usize, to: usize) -> bool {
        let end = tail + BYTES;
        let claim = claimed(0, BYTES);
        let exchanged = |word: &AtomicU64, from, to| {
            word.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        (from..to).all(|step| match step {
            0 => {
                ring.intent(0).store(Intent { start: tail, bytes: BYTES }.word(), Ordering::Release);
                true
            }
            1 => exchange(ring, Tail::free(tail), Tail::owned(end, 0)).is_ok(),
            2 => {
                ring.write_next(end, ring.sequence(tail).load(Ordering::Relaxed) + 1);
                true
            }
            3 => exchanged(ring.head(tail), 0, claim),
            4 => exchange(ring, Tail::owned(end, 0), Tail::free(end)).is_ok(),
            5 => {
                // A long body of arbitrary bytes: a process that reads them as frames fails.
                ring.write(tail, ring.sequence(tail).load(Ordering::Relaxed), 7, &[0xab; 160]);
                true
            }
            _ => exchanged(ring.head(tail), claim, message(160, 0, 0)),
        })
    }

    fn publish(ring: &Ring, claimer: &mut Claimer, number: u64) -> bool {
        let Tried::Claimed(claim) = claimer.claim(ring, LINE, 1) else { return false };
        ring.write(claim.first, claim.sequence, number as i64, &number.to_le_bytes());
        claimer.commit(ring, &claim, message(8, 1, 0))
    }

    /// The numbers of all messages of type 1 that are there; waits for `count`.
    fn read(ring: &Ring, reader: &mut Reader, count: usize) -> Vec<u64> {
        let (mut numbers, mut body, mut checks) = (Vec::new(), [0; 4096], 0);
        while numbers.len() < count {
            match reader.poll(ring, &mut body, |_, _| true).unwrap() {
                Found::Message { bytes: 8, type_id: 1, time, .. } => {
                    assert_eq!(body[..8], (time as u64).to_le_bytes());
                    numbers.push(time as u64);
                }
                Found::Message { bytes, .. } => assert_eq!(bytes, 160),
                Found::Nothing => {
                    checks += 1;
                    assert!(checks < 50_000_000, "it hangs after {numbers:?}: {ring:?}");
                }
            }
        }
        numbers
    }

    #[test]
    fn a_publisher_may_die_after_any_step() {
        for step in 0..=STEPS {
            let (ring, lives) = ring(Delivery::Reliable, 0);
            let mut reader = Reader::join(&ring, 0, Start::Now, true);
            let mut other = Claimer::new(1);
            assert!(publish(&ring, &mut other, 0));
            let tail = ring.frontier();
            assert!(steps(&ring, tail, 0, step));
            lives.store(false, Ordering::Relaxed);
            for number in 1..5 {
                assert!(publish(&ring, &mut other, number));
            }
            assert_eq!(read(&ring, &mut reader, 5), [0, 1, 2, 3, 4], "dead after {step} steps");
            // No later lap is blocked.
            for number in 5..3000 {
                assert!(publish(&ring, &mut other, number));
                assert_eq!(read(&ring, &mut reader, 1), [number]);
            }
        }
    }

    #[test]
    fn the_next_publisher_goes_on_after_the_only_one_died() {
        for step in 0..=STEPS {
            let (ring, lives) = ring(Delivery::Reliable, 0);
            let mut reader = Reader::join(&ring, 0, Start::Now, true);
            assert!(publish(&ring, &mut Claimer::new(1), 0));
            let tail = ring.frontier();
            assert!(steps(&ring, tail, 0, step));
            lives.store(false, Ordering::Relaxed);
            settle(&ring);
            assert!(publish(&ring, &mut Claimer::new(1), 1));
            assert_eq!(read(&ring, &mut reader, 2), [0, 1], "dead after {step} steps");
        }
    }

    #[test]
    fn a_shared_publisher_goes_on_behind_an_exclusive_one_that_died() {
        let (ring, _) = ring(Delivery::Reliable, 0);
        let mut reader = Reader::join(&ring, 0, Start::Now, true);
        let mut exclusive = Exclusive::new(&ring);
        for number in 0..3u64 {
            let tail = ring.tail().load(Ordering::Relaxed);
            let position = exclusive.reserve(&ring, LINE).unwrap();
            ring.write(position, exclusive.sequence, number as i64, &number.to_le_bytes());
            exclusive.add(ring.view(), LINE, message(8, 1, 0), 1);
            exclusive.commit(ring.view());
            // The last two were never added to the tail.
            if number > 0 {
                ring.tail().store(tail, Ordering::Relaxed);
            }
        }
        // The number behind the last one was not written.
        let behind = 3 * LINE + ring.shape.ring_bytes;
        ring.sequence(behind).store(0xdead, Ordering::Relaxed);
        assert!(publish(&ring, &mut Claimer::new(1), 3));
        assert_eq!(read(&ring, &mut reader, 4), [0, 1, 2, 3]);
        assert_eq!((reader.expected, reader.abandoned), (4, 0));
    }

    #[test]
    fn an_exclusive_publisher_goes_on_behind_an_exclusive_one_that_died() {
        let (ring, _) = ring(Delivery::Reliable, 0);
        let mut reader = Reader::join(&ring, 0, Start::Now, true);
        let tail = ring.tail().load(Ordering::Relaxed);
        let send = |exclusive: &mut Exclusive, number: u64| {
            let position = exclusive.reserve(&ring, LINE).unwrap();
            ring.write(position, exclusive.sequence, number as i64, &number.to_le_bytes());
            exclusive.add(ring.view(), LINE, message(8, 1, 0), 1);
        };
        let mut exclusive = Exclusive::new(&ring);
        (0..2).for_each(|number| send(&mut exclusive, number));
        exclusive.commit(ring.view());
        ring.tail().store(tail, Ordering::Relaxed);
        ring.sequence(2 * LINE + ring.shape.ring_bytes).store(0xdead, Ordering::Relaxed);
        let mut exclusive = Exclusive::new(&ring);
        send(&mut exclusive, 2);
        exclusive.commit(ring.view());
        assert_eq!(read(&ring, &mut reader, 3), [0, 1, 2]);
        assert_eq!((reader.expected, reader.abandoned), (3, 0));
    }

    #[test]
    fn a_publisher_may_be_stopped_after_any_step_and_continue_laps_later() {
        for (step, messages) in
            (0..=STEPS).flat_map(|step| [3, 900, 1500, 5000].map(|messages| (step, messages)))
        {
            let (ring, _) = ring(Delivery::Reliable, 1);
            let mut reader = Reader::join(&ring, 0, Start::Now, true);
            let mut other = Claimer::new(1);
            assert!(publish(&ring, &mut other, 0));
            assert_eq!(read(&ring, &mut reader, 1), [0]);
            let tail = ring.frontier();
            assert!(steps(&ring, tail, 0, step));
            for number in 1..messages {
                assert!(publish(&ring, &mut other, number));
                assert_eq!(read(&ring, &mut reader, 1), [number]);
            }
            // It continues until an exchange fails; no other publisher uses the lines that it writes.
            let is_done = steps(&ring, tail, step, STEPS);
            assert_eq!(is_done, step == STEPS, "{step}");
            assert!(publish(&ring, &mut other, messages));
            assert_eq!(read(&ring, &mut reader, 1), [messages]);
            ring.intent(0).store(0, Ordering::Release);
            for number in 1..3000 {
                assert!(publish(&ring, &mut other, messages + number));
                assert_eq!(read(&ring, &mut reader, 1), [messages + number]);
            }
        }
    }
}
