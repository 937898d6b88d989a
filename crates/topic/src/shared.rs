//! Claims of publishers that share a topic.
//!
//! A claim goes through these steps; its publisher may die, or be stopped and wake much later, between any two:
//!
//! 1. The *intent* is written to the publisher's slot: what it is about to claim.
//! 2. The *tail* is exchanged: it moves behind the claim and names the owner. Nobody else can claim until step 5.
//! 3. The header of the frame behind the claim is written: empty, with the sequence number that follows.
//! 4. Word 0 of the claim goes from 0 to `Claimed`, with owner and length.
//! 5. The tail is exchanged: the same position, nobody's.
//! 6. The frames are written, and word 0 is exchanged for its last value: published.
//! 7. The intent is taken back.
//!
//! Every word that decides is *exchanged*, so a publisher that was passed over finds out and gives up. A publisher dead or
//! stopped between 2 and 5 has its claim taken over by another (`take_over`), which passes it by with a frame more than was
//! claimed, because the header behind it may yet be written. One between 5 and 6 is passed over where it stands, by whoever
//! needs it (`Ring::pass_over`). What a stopped one may still write when it wakes lies in its intent and the header behind
//! it, which the limit does not pass before it is dead or has taken the intent back (`Ring::raise_limit`).

use crate::atomics::{Ordering, fence, pause};
use crate::format::{Frame, Intent, LINE, SLACK, Tail, claimed, pad, word};
use crate::limit::{Raised, Slowest, Watch};
use crate::ring::Ring;
use std::time::{Duration, Instant};

/// A part of the ring that is a publisher's alone until it commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Claimed {
    pub start: u64,
    pub bytes: u64,
    /// Where its first message goes: at its start, or at the ring's beginning, behind what is too short for it.
    pub first: u64,
    /// Sequence number of its first message.
    pub sequence: u64,
    word: u64,
}

/// What came of a try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tried {
    Claimed(Claimed),
    BackPressured(Slowest),
}

/// A publisher among others: the owner of slot `me`.
#[derive(Debug)]
pub(crate) struct Shared {
    pub me: usize,
    watch: Watch,
}

impl Shared {
    pub fn new(me: usize) -> Self {
        Self { me, watch: Watch::default() }
    }

    /// Claims `bytes` in one piece, a multiple of the line and no more than a claim may have, for `count` messages.
    pub fn claim(&mut self, ring: &Ring, bytes: u64, count: u64) -> Tried {
        loop {
            let tail = self.free_tail(ring);
            let tried = self.try_claim(ring, tail, bytes, count);
            match tried {
                Ok(tried) => return tried,
                Err(Lost) => {
                    self.say(ring, None);
                    pause();
                }
            }
        }
    }

    /// Publishes a claim: `first` becomes word 0 of its first frame. Whether it was in time.
    pub fn commit(&mut self, ring: &Ring, claim: &Claimed, first: u64) -> bool {
        let wrapped = claim.bytes_before_first();
        let word = if wrapped == 0 { first } else { pad(wrapped) };
        if wrapped != 0 {
            ring.head(claim.first).store(first, Ordering::Relaxed);
        }
        let head = ring.head(claim.start);
        // Release: all of the claim is seen with it. [SYNC: COMMIT]
        let in_time = head.compare_exchange(claim.word, word, Ordering::Release, Ordering::Relaxed).is_ok();
        self.say(ring, None);
        in_time
    }

    /// Writes the intent.
    fn say(&self, ring: &Ring, intent: Option<Intent>) {
        // Release: whoever sees it taken back sees all that was written before; the exchange of the tail that follows
        // releases an intent.
        ring.intent(self.me).store(intent.map_or(0, Intent::word), Ordering::Release);
    }

    fn try_claim(&mut self, ring: &Ring, tail: u64, bytes: u64, count: u64) -> Result<Tried, Lost> {
        let until_wrap = ring.until_wrap(tail);
        let before_first = if bytes > until_wrap { until_wrap } else { 0 };
        let bytes = bytes + before_first;
        let need = tail + bytes + LINE + SLACK;
        self.say(ring, Some(Intent { start: tail, bytes }));
        if need <= ring.limit().load(Ordering::Relaxed) {
            exchange(ring, Tail::free(tail), Tail::owned(tail + bytes, self.me))?;
        } else {
            exchange(ring, Tail::free(tail), Tail::owned(tail, self.me))?;
            match ring.raise_limit(Some(self.me), tail, need, &mut self.watch) {
                Raised::Room => {}
                Raised::BackPressured(slowest) => return self.no_room(ring, tail, slowest),
                Raised::PassBy(end) => {
                    return match self.pass_by(ring, tail, end)? {
                        Some(slowest) => self.no_room(ring, tail, slowest),
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
        // Release: whoever passes the claim over leads readers to the header behind it.
        let head = ring.head(tail);
        head.compare_exchange(0, word, Ordering::Release, Ordering::Relaxed).map_err(|_| Lost)?;
        let claim = Claimed { start: tail, bytes, first: tail + before_first, sequence, word };
        let owned = Tail::owned(tail + bytes, self.me);
        if exchange(ring, owned, Tail::free(tail + bytes)).is_err() {
            // Taken over. It may have been left to us, or passed by already.
            ring.pass_over(tail, word, bytes);
            return Err(Lost);
        }
        Ok(Tried::Claimed(claim))
    }

    /// Gives the tail back as it was.
    fn no_room(&mut self, ring: &Ring, tail: u64, slowest: Slowest) -> Result<Tried, Lost> {
        exchange(ring, Tail::owned(tail, self.me), Tail::free(tail))?;
        self.say(ring, None);
        Ok(Tried::BackPressured(slowest))
    }

    /// Passes by what another publisher may yet write, up to `end`. This publisher owns the tail, and gives it back if that
    /// can be done; else says who is in the way.
    fn pass_by(&mut self, ring: &Ring, tail: u64, end: u64) -> Result<Option<Slowest>, Lost> {
        let need = end + LINE + SLACK;
        if let Err(slowest) = ring.check_subscribers(tail, need, &mut self.watch) {
            return Ok(Some(slowest));
        }
        let bytes = end - tail;
        if bytes > ring.shape.ring_bytes / 2 {
            let me = ring.publisher(self.me, word::publisher::PROCESS).load(Ordering::Relaxed) as u32;
            let slowest = Slowest { process: me, is_subscriber: false, slot: self.me, behind_bytes: bytes };
            return Ok(Some(slowest));
        }
        self.say(ring, Some(Intent { start: tail, bytes }));
        exchange(ring, Tail::owned(tail, self.me), Tail::owned(end, self.me))?;
        // Only now: nobody else could claim what the limit now allows.
        ring.raise_limit_to(need);
        let sequence = ring.sequence(tail).load(Ordering::Relaxed);
        ring.write_next(end, sequence);
        let head = ring.head(tail);
        head.compare_exchange(0, pad(bytes), Ordering::Release, Ordering::Relaxed).map_err(|_| Lost)?;
        exchange(ring, Tail::owned(end, self.me), Tail::free(end))?;
        Ok(None)
    }

    /// The tail, once it is nobody's.
    fn free_tail(&mut self, ring: &Ring) -> u64 {
        let mut patience = Patience::new(ring.shape.stall_ms);
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
            if patience.is_over(word, || ring.presence.has_publisher(owner)) {
                self.take_over(ring, tail, owner);
            }
        }
    }

    /// Moves the tail past a frame whose publisher was alone, and died before it could. Others may do the same meanwhile.
    fn follow(&self, ring: &Ring, tail: Tail, next: u64, messages: u64) {
        // Who wakes up late writes what is there already, as long as nobody has come around.
        self.say(ring, Some(Intent { start: tail.position, bytes: next - tail.position }));
        // Exchanged for itself: the tail is still there, and whoever moves it sees the intent.
        if exchange(ring, tail, tail).is_ok() {
            fence(Ordering::Release); // [SYNC: LIMIT]
            let sequence = ring.sequence(tail.position).load(Ordering::Relaxed);
            ring.sequence(next).store(sequence.wrapping_add(messages), Ordering::Relaxed);
            let _ = exchange(ring, tail, Tail::free(next));
        }
        self.say(ring, None);
    }

    /// Takes the tail from an owner that is dead or has stood still.
    fn take_over(&mut self, ring: &Ring, tail: Tail, owner: usize) {
        let end = tail.position;
        let intent = Intent::parse(ring.intent(owner).load(Ordering::Acquire), end);
        let start = intent.map_or(end, |intent| intent.start);
        let head = ring.head(start);
        let word = head.load(Ordering::Acquire);
        ring.count(word::TAKEN_OVER);
        if end > start && (word == claimed(owner, end - start) || word == pad(end - start)) {
            // All is done but the last step.
            let _ = exchange(ring, tail, Tail::free(end));
            return;
        }
        // The header at `end` may yet be written by the owner, so the frame goes one line further.
        let bytes = end + LINE - start;
        self.say(ring, Some(Intent { start, bytes }));
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
        self.say(ring, None);
    }
}

impl Claimed {
    fn bytes_before_first(&self) -> u64 {
        self.first - self.start
    }

    /// Behind its last byte.
    pub fn end(&self) -> u64 {
        self.start + self.bytes
    }
}

/// Another publisher was faster, or has taken over: try again.
#[derive(Debug)]
struct Lost;

/// Acquire pairs with the release of whoever exchanged the tail before: what they wrote to the ring, the limit and their
/// slots is seen; release makes the intent and the header of the next frame seen.
fn exchange(ring: &Ring, from: Tail, to: Tail) -> Result<(), Lost> {
    let exchanged = ring.tail().compare_exchange(from.word(), to.word(), Ordering::AcqRel, Ordering::Relaxed);
    exchanged.map(drop).map_err(|_| Lost)
}

/// Waits for another process to go on, and knows when to wait no longer.
#[derive(Debug)]
pub(crate) struct Patience {
    stall: Duration,
    word: u64,
    looks: u32,
    since: Option<Instant>,
    next_check: Duration,
}

/// Looks before the clock is asked.
const SPINS: u32 = 200;
/// How often it is asked whether the other is alive.
pub(crate) const ALIVE_INTERVAL: Duration = Duration::from_millis(2);

impl Patience {
    /// `stall_ms` 0: whoever lives is waited for.
    pub fn new(stall_ms: u64) -> Self {
        let stall = if stall_ms == 0 { Duration::MAX } else { Duration::from_millis(stall_ms) };
        Self { stall, word: 0, looks: 0, since: None, next_check: ALIVE_INTERVAL }
    }

    /// Waits a little. Whether the one who wrote `word` need not be waited for any longer.
    pub fn is_over(&mut self, word: u64, is_alive: impl Fn() -> bool) -> bool {
        if self.word != word {
            *self = Self { word, looks: 0, since: None, next_check: ALIVE_INTERVAL, ..*self };
        }
        pause();
        if cfg!(loom) {
            return !is_alive();
        }
        self.looks += 1;
        if self.looks < SPINS {
            return false;
        }
        let waited = self.since.get_or_insert_with(Instant::now).elapsed();
        if waited >= self.next_check {
            self.next_check = waited + ALIVE_INTERVAL;
            if waited >= self.stall || !is_alive() {
                return true;
            }
        }
        // More publishers than processors: the other may wait for this one's.
        std::thread::yield_now();
        false
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::alone::{Alone, settle};
    use crate::format::{Delivery, RING_BYTES_MIN, Shape, message};
    use crate::reader::{Found, Reader, Start};
    use crate::ring::Presence;
    use crate::words::Words;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    /// Publisher 0 lives or not; the others do.
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

    /// Bytes of the claim that is broken off.
    const BYTES: u64 = 3 * LINE;
    /// Steps of a claim.
    const STEPS: usize = 7;

    /// Goes through steps of a claim at `tail`, one by one, as `try_claim` does when there is room: those from `from` up to
    /// `to`. Whether all of them worked.
    fn go(ring: &Ring, tail: u64, from: usize, to: usize) -> bool {
        let end = tail + BYTES;
        let claim = claimed(0, BYTES);
        let exchanged = |word: &crate::atomics::AtomicU64, from, to| {
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
                // Long bodies that look like anything: whoever reads them as frames is lost.
                ring.write(tail, ring.sequence(tail).load(Ordering::Relaxed), 7, &[0xab; 160]);
                true
            }
            _ => exchanged(ring.head(tail), claim, message(160, 0, 0)),
        })
    }

    fn publish(ring: &Ring, shared: &mut Shared, number: u64) -> bool {
        let Tried::Claimed(claim) = shared.claim(ring, LINE, 1) else { return false };
        ring.write(claim.first, claim.sequence, number as i64, &number.to_le_bytes());
        shared.commit(ring, &claim, message(8, 1, 0))
    }

    /// The numbers of all messages of type 1 that are there; waits for `count`.
    fn read(ring: &Ring, reader: &mut Reader, count: usize) -> Vec<u64> {
        let (mut numbers, mut body, mut looks) = (Vec::new(), [0; 4096], 0);
        while numbers.len() < count {
            match reader.poll(ring, &mut body, |_, _| true).unwrap() {
                Found::Message { bytes: 8, type_id: 1, time, .. } => {
                    assert_eq!(body[..8], (time as u64).to_le_bytes());
                    numbers.push(time as u64);
                }
                Found::Message { bytes, .. } => assert_eq!(bytes, 160),
                Found::Nothing => {
                    looks += 1;
                    assert!(looks < 50_000_000, "it hangs after {numbers:?}: {ring:?}");
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
            let mut other = Shared::new(1);
            assert!(publish(&ring, &mut other, 0));
            let tail = ring.frontier();
            assert!(go(&ring, tail, 0, step));
            lives.store(false, Ordering::Relaxed);
            for number in 1..5 {
                assert!(publish(&ring, &mut other, number));
            }
            assert_eq!(read(&ring, &mut reader, 5), [0, 1, 2, 3, 4], "dead after {step} steps");
            // Lap after lap nothing is in the way.
            for number in 5..3000 {
                assert!(publish(&ring, &mut other, number));
                assert_eq!(read(&ring, &mut reader, 1), [number]);
            }
        }
    }

    #[test]
    fn who_comes_after_the_only_publisher_died_goes_on() {
        for step in 0..=STEPS {
            let (ring, lives) = ring(Delivery::Reliable, 0);
            let mut reader = Reader::join(&ring, 0, Start::Now, true);
            assert!(publish(&ring, &mut Shared::new(1), 0));
            let tail = ring.frontier();
            assert!(go(&ring, tail, 0, step));
            lives.store(false, Ordering::Relaxed);
            settle(&ring);
            assert!(publish(&ring, &mut Shared::new(1), 1));
            assert_eq!(read(&ring, &mut reader, 2), [0, 1], "dead after {step} steps");
        }
    }

    #[test]
    fn who_comes_after_one_that_died_alone_goes_on_behind_what_it_published() {
        let (ring, _) = ring(Delivery::Reliable, 0);
        let mut reader = Reader::join(&ring, 0, Start::Now, true);
        let mut alone = Alone::new(&ring);
        for number in 0..3u64 {
            let tail = ring.tail().load(Ordering::Relaxed);
            let position = alone.room(&ring, LINE).unwrap();
            ring.write(position, alone.sequence, number as i64, &number.to_le_bytes());
            alone.add(ring.view(), LINE, message(8, 1, 0), 1);
            alone.commit(ring.view());
            // The last two never got as far as the tail.
            if number > 0 {
                ring.tail().store(tail, Ordering::Relaxed);
            }
        }
        // Nor the last one as far as the number behind it.
        let behind = 3 * LINE + ring.shape.ring_bytes;
        ring.sequence(behind).store(0xdead, Ordering::Relaxed);
        assert!(publish(&ring, &mut Shared::new(1), 3));
        assert_eq!(read(&ring, &mut reader, 4), [0, 1, 2, 3]);
        assert_eq!((reader.expected, reader.abandoned), (4, 0));
    }

    #[test]
    fn one_alone_goes_on_behind_one_alone_that_died() {
        let (ring, _) = ring(Delivery::Reliable, 0);
        let mut reader = Reader::join(&ring, 0, Start::Now, true);
        let tail = ring.tail().load(Ordering::Relaxed);
        let send = |alone: &mut Alone, number: u64| {
            let position = alone.room(&ring, LINE).unwrap();
            ring.write(position, alone.sequence, number as i64, &number.to_le_bytes());
            alone.add(ring.view(), LINE, message(8, 1, 0), 1);
        };
        let mut alone = Alone::new(&ring);
        (0..2).for_each(|number| send(&mut alone, number));
        alone.commit(ring.view());
        ring.tail().store(tail, Ordering::Relaxed);
        ring.sequence(2 * LINE + ring.shape.ring_bytes).store(0xdead, Ordering::Relaxed);
        let mut alone = Alone::new(&ring);
        send(&mut alone, 2);
        alone.commit(ring.view());
        assert_eq!(read(&ring, &mut reader, 3), [0, 1, 2]);
        assert_eq!((reader.expected, reader.abandoned), (3, 0));
    }

    #[test]
    fn a_publisher_may_be_stopped_after_any_step_and_wake_laps_later() {
        for (step, messages) in
            (0..=STEPS).flat_map(|step| [3, 900, 1500, 5000].map(|messages| (step, messages)))
        {
            let (ring, _) = ring(Delivery::Reliable, 1);
            let mut reader = Reader::join(&ring, 0, Start::Now, true);
            let mut other = Shared::new(1);
            assert!(publish(&ring, &mut other, 0));
            assert_eq!(read(&ring, &mut reader, 1), [0]);
            let tail = ring.frontier();
            assert!(go(&ring, tail, 0, step));
            for number in 1..messages {
                assert!(publish(&ring, &mut other, number));
                assert_eq!(read(&ring, &mut reader, 1), [number]);
            }
            // It goes on as if nothing had happened, until an exchange fails; all that it writes is out of everybody's way.
            let is_done = go(&ring, tail, step, STEPS);
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
