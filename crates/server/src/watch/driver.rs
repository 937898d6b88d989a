//! A watch for its connection's thread: it begins, gets from files what it is behind, and ends.

use super::{Served, SpaceProgress, State, Watch, WatchStart, pick_from, picker_of};
use crate::fanout::Fanout;
use crate::traffic::Direction;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Instant;
use tapedb_access::{Permit, User};
use tapedb_engine::{ConnectionError, Error, LogError, Picker, Span, Stale, Stream, TailPosition};
use tapedb_wire::FRAME_HEADER_BYTES;

/// Bytes read from the log at once for a watch that is behind.
const READ_BYTES: usize = 256 << 10;
/// A watch of some messages is sent where it is after so many, though none of them was picked.
const PROGRESS_MESSAGES: u64 = 1 << 20;
/// Reads in a row for one watch, so that other watches of the connection make progress.
const READS_MAX: usize = 8;

/// A watch, for the connection's thread.
pub(crate) struct WatchDriver {
    watch: Arc<Watch>,
    fanout: Arc<Fanout>,
    positions: Vec<TailPosition>,
    /// Picks messages while the watch is behind.
    picker: Option<Box<Picker>>,
    _permit: Permit,
}

/// The result of [`WatchDriver::step`].
#[derive(Debug)]
pub(crate) enum Step {
    /// Nothing to do until the next notification.
    Idle,
    /// There is more to push.
    More,
    /// The watch has ended, and the client was notified.
    Ended,
}

impl WatchDriver {
    /// Begins a watch; nothing is pushed before the first [`step`](Self::step).
    pub fn new(start: WatchStart) -> Self {
        let WatchStart {
            server,
            handle,
            quota,
            channel,
            stream,
            credit,
            lag_bytes_max,
            from,
            wanted,
            symbols,
            permit,
        } = start;
        let progress = |next: &u64| SpaceProgress {
            next: *next,
            told: *next,
            served: Served::Behind,
            behind_bytes: 0,
            behind_since: None,
        };
        let state = State {
            spaces: from.iter().map(progress).collect(),
            symbols,
            changed: false,
            gone: None,
            ended: false,
            picker: None,
        };
        let counter = server.traffic.begin(Direction::Out, stream.name(), &handle.traffic);
        let fanout = server.fanouts.of(&stream);
        let watch = Arc::new(Watch {
            counter,
            wanted,
            shard: OnceLock::new(),
            server,
            handle,
            quota,
            channel,
            stream,
            window: credit.left(),
            credit,
            lag_bytes_max,
            state: Mutex::new(state),
            is_due: AtomicBool::new(false),
        });
        fanout.add(&watch);
        let weak: Weak<Watch> = Arc::downgrade(&watch);
        watch.handle.add_watch(weak);
        watch.mark_due();
        let positions = from.iter().map(|next| TailPosition::at(*next)).collect();
        Self { watch, fanout, positions, picker: None, _permit: permit }
    }

    #[cfg(test)]
    pub fn watch(&self) -> &Watch {
        &self.watch
    }

    /// The watched stream.
    pub fn stream(&self) -> &Stream {
        &self.watch.stream
    }

    /// Whether there may be work.
    pub fn is_due(&self) -> bool {
        self.watch.is_due.load(Ordering::Acquire)
    }

    /// More may be pushed than before.
    pub fn note_capacity(&self) {
        self.watch.mark_due();
    }

    /// Pushes as much as capacity and credit allow. `buffer` is overwritten.
    ///
    /// # Errors
    /// An error that ends the watch; the client was not notified.
    pub fn step(&mut self, buffer: &mut Vec<u8>, user: &User) -> Result<Step, Error> {
        // Cleared first: any later event sets it again.
        self.watch.is_due.store(false, Ordering::Release);
        if self.watch.is_out_of_reach(user) {
            self.watch.send_gone(None);
            return Ok(Step::Ended);
        }
        for space in 0..self.positions.len() {
            for reads in 0.. {
                if reads == READS_MAX {
                    self.note_capacity();
                    return Ok(Step::More);
                }
                if !self.push_some(space, buffer)? {
                    break;
                }
            }
        }
        let mut state = self.watch.lock();
        if let Some(renamed) = state.gone.take() {
            drop(state);
            self.watch.send_gone(renamed.as_deref().filter(|name| user.may_see(name)));
            return Ok(Step::Ended);
        }
        if state.changed && self.watch.handle.has_capacity_or_waits(FRAME_HEADER_BYTES) {
            self.watch.send_changes(&mut state);
        }
        Ok(Step::Idle)
    }

    /// Ends the watch. Nothing is pushed after this returns.
    pub fn end(self) {
        let mut state = self.watch.lock();
        state.ended = true;
        state.spaces.clear();
        drop(state);
        self.fanout.remove(&self.watch);
    }

    /// Pushes a range of the log; `false`: there is none, or no capacity for it.
    fn push_some(&mut self, space: usize, buffer: &mut Vec<u8>) -> Result<bool, Error> {
        let watch = &*self.watch;
        let progress = watch.lock().spaces[space];
        if progress.served != Served::Behind {
            return Ok(false);
        }
        watch.check_lag(progress)?;
        if !watch.handle.has_capacity_or_waits(1)
            || watch.credit.left() == 0
            || !watch.quota.rate_limit.wait(Instant::now).is_zero()
        {
            return Ok(false);
        }
        let position = &mut self.positions[space];
        if position.sequence() != progress.next {
            *position = TailPosition::at(progress.next);
        }
        // What is picked costs credit, not what is read for it.
        let credit = if watch.wanted.is_some() { READ_BYTES } else { watch.credit.left() as usize };
        let (before, bytes_max) = (*position, READ_BYTES.min(credit));
        let span = match watch.stream.read_tail(space as u32, position, bytes_max, buffer) {
            Ok(span) => span,
            Err(error) => return watch.skip(space, position, error),
        };
        if span.count == 0 {
            self.picker = None;
            return self.watch.go_live(space, &self.fanout);
        }
        if let Some(wanted) = &watch.wanted {
            let picker = self.picker.get_or_insert_with(|| picker_of(&watch.stream, wanted));
            let Some(rows) = pick_from(picker, buffer, progress.next) else {
                // The client finds what is damaged, and reports it.
                let mut state = watch.lock();
                watch.send_skip(&mut state, space, before.sequence(), span.next_sequence());
                return Ok(true);
            };
            if !rows.is_empty() && !watch.credit.spend(rows.len() as u64, watch.window) {
                *position = before;
                return Ok(false);
            }
            watch.push_picked_read(space, span, &rows);
            return Ok(true);
        }
        if !watch.credit.spend(buffer.len() as u64, watch.window) {
            *position = before;
            return Ok(false);
        }
        watch.push_read(space, span, buffer);
        Ok(true)
    }
}

impl Watch {
    fn push_read(&self, space: usize, span: Span, batches: &[u8]) {
        let mut state = self.lock();
        self.push(&mut state, space as u32, span, batches);
        let progress = &mut state.spaces[space];
        progress.behind_bytes = progress.behind_bytes.saturating_sub(batches.len() as u64);
        self.server.metrics.pushes_from_files.one();
    }

    fn push_picked_read(&self, space: usize, span: Span, rows: &[u8]) {
        let mut state = self.lock();
        let progress = &mut state.spaces[space];
        progress.next = progress.next.max(span.next_sequence());
        progress.behind_bytes = progress.behind_bytes.saturating_sub(u64::from(span.len));
        let (next, is_far) = (progress.next, progress.next - progress.told >= PROGRESS_MESSAGES);
        if !rows.is_empty() || is_far {
            self.send_picked(&mut state, space as u32, next, rows);
        }
        self.server.metrics.pushes_from_files.one();
    }

    /// Everything is pushed: from now on appending threads push, unless a batch was appended while the space was
    /// behind; or a fan-out thread does.
    fn go_live(self: &Arc<Self>, space: usize, fanout: &Fanout) -> Result<bool, Error> {
        if fanout.is_shared() {
            self.lock().spaces[space].served = Served::Joining;
            fanout.join(self, space as u32);
            return Ok(false);
        }
        let next = {
            let mut state = self.lock();
            let progress = &mut state.spaces[space];
            (progress.served, progress.behind_bytes) = (Served::Direct, 0);
            if let Some(since) = progress.behind_since.take() {
                self.server.metrics.catch_up.record(since.elapsed());
            }
            progress.next
        };
        let (_, end) = self.stream.log_begins(space as u32)?;
        let mut state = self.lock();
        let progress = &mut state.spaces[space];
        // What was appended before is not served by the thread that has appended it; nor is anything once fan-out threads serve.
        let is_left = fanout.is_shared();
        let is_behind =
            progress.served == Served::Direct && (is_left || (progress.next == next && end > next));
        if is_behind {
            progress.served = Served::Behind;
        }
        Ok(is_behind)
    }

    /// Continues after messages that the log does not contain any more, or that are damaged.
    fn skip(&self, space: usize, position: &mut TailPosition, error: Error) -> Result<bool, Error> {
        let Error::Log(log_error) = &error else { return self.unless_gone(error) };
        let next = match **log_error {
            LogError::Trimmed { .. } => self.stream.log_begins(space as u32)?.0,
            // The position is after the damage.
            LogError::Damaged { .. } => position.sequence(),
            _ => return Err(error),
        };
        let mut state = self.lock();
        let progress = &mut state.spaces[space];
        if next <= progress.next {
            return Err(error);
        }
        let from = progress.next;
        self.send_skip(&mut state, space, from, next);
        Ok(true)
    }

    /// The notification that the stream was removed comes from the thread that removes it.
    fn unless_gone(&self, error: Error) -> Result<bool, Error> {
        match error {
            Error::Stale(Stale::Deleted { .. }) | Error::Stale(Stale::Renamed { .. }) => Ok(false),
            error => Err(error),
        }
    }

    fn check_lag(&self, progress: SpaceProgress) -> Result<(), Error> {
        if !self.is_too_slow(progress) {
            return Ok(());
        }
        self.server.metrics.watches_too_slow.one();
        let (stream, bytes, most) = (self.stream.name(), progress.behind_bytes, self.lag_bytes_max);
        let why = format!(
            "the watch of stream {stream:?} is {bytes} bytes behind, where at most {most} are allowed"
        );
        Err(Error::Connection(ConnectionError::Refused { place: "the server".into(), why }))
    }
}
