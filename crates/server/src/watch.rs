//! A live cursor's other end: what comes to a stream is pushed to one client, by whoever appends as long as the client keeps
//! up, from the log files by the connection's thread when it does not.
//!
//! Always true, for each space: batches are pushed in order and without holes, each once; `next` is the sequence number
//! after the last one pushed (or skipped, which the client is told). While a lane is `live`, only those who append push,
//! under the lock; while it is not, only the connection's thread does, which reads without holding the lock. Nothing is
//! pushed without credit, nor into an outbox that is full: then the lane is behind, and costs nobody anything.

use crate::account::{Account, Place};
use crate::burst;
use crate::convert::{SYMBOL_BYTES_MAX, within};
use crate::flows::{Flow, Way};
use crate::shared::{Handle, Shared};
use crate::users::{May, User};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tapedb_engine::{Durability, Error, LogError, Observer, Observing, Span, Stream, TailPosition};
use tapedb_wire::{Credit, FRAME_HEADER_BYTES, Rest, ToClient, frame_header};

/// Bytes read from the log at once for who is behind.
const READ_BYTES: usize = 256 << 10;
/// Reads in a row for one watch, so that others of the connection have their turn.
const READS_MAX: usize = 8;

/// A watch, as those see it who append.
pub(crate) struct Watch {
    shared: Arc<Shared>,
    handle: Arc<Handle>,
    account: Arc<Account>,
    channel: u32,
    stream: Stream,
    credit: Arc<Credit>,
    /// The credit it began with.
    window: u64,
    /// It ends when it is so many bytes behind; 0: never.
    lag_bytes_max: u64,
    state: Mutex<State>,
    /// What has been pushed; counted under the lock of `state`.
    flow: Flow,
    /// Whether the connection's thread has something to do.
    is_due: AtomicBool,
}

#[derive(Debug)]
struct State {
    lanes: Vec<Lane>,
    /// How many symbols the client has been told, or knew.
    symbols: u32,
    /// Whether the client has to be told that the stream has changed.
    changed: bool,
    /// The stream is gone, and what it is called now, if anything.
    gone: Option<Option<String>>,
    /// Nothing more may be pushed.
    ended: bool,
}

/// One space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Lane {
    next: u64,
    live: bool,
    /// Bytes that came since it fell behind, without those that were pushed since.
    behind_bytes: u64,
    /// When it fell behind; `None` while it is live, and before it was for the first time.
    behind_since: Option<Instant>,
}

/// What begins a watch.
pub(crate) struct Beginning {
    pub shared: Arc<Shared>,
    pub handle: Arc<Handle>,
    pub account: Arc<Account>,
    pub channel: u32,
    pub stream: Stream,
    pub credit: Arc<Credit>,
    pub lag_bytes_max: u64,
    /// First sequence number wanted, for each space.
    pub from: Vec<u64>,
    /// How many symbols the client knows.
    pub symbols: u32,
    pub place: Place,
}

/// A watch, as the connection's thread has it.
pub(crate) struct Follower {
    watch: Arc<Watch>,
    positions: Vec<TailPosition>,
    /// Ends with the follower, outside of all locks: who tells of batches waits for nothing here.
    _observing: Observing,
    _place: Place,
}

/// What a follower has come to.
#[derive(Debug)]
pub(crate) enum Step {
    /// Nothing to do until something happens.
    Idle,
    /// There is more to push.
    More,
    /// The watch has ended, and the client has been told.
    Ended,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("stream", &self.stream.name()).finish_non_exhaustive()
    }
}

impl Watch {
    /// The stream's name.
    pub fn stream_name(&self) -> &str {
        self.stream.name()
    }

    /// Messages that are in the stream and have not been pushed.
    pub fn lag(&self) -> u64 {
        let nexts: Vec<u64> = self.lock().lanes.iter().map(|lane| lane.next).collect();
        let end = |space: usize| self.stream.log_begins(space as u32).map_or(0, |(_, end)| end);
        nexts.iter().enumerate().map(|(space, next)| end(space).saturating_sub(*next)).sum()
    }

    /// Whether the stream has got a name under which the user may not read it.
    fn is_out_of_reach(&self, user: &User) -> bool {
        matches!(&self.lock().gone, Some(Some(name)) if !user.may(May::Read, name))
    }

    /// Says that the stream is not there any more, under its name. Nothing follows.
    fn tell_gone(&self, renamed: Option<&str>) {
        self.lock().ended = true;
        self.tell(&ToClient::Gone { renamed });
    }

    /// Has the connection's thread look at it.
    fn wake(&self) {
        self.raise();
        self.handle.wake();
    }

    fn raise(&self) {
        self.is_due.store(true, Ordering::Release);
        self.handle.has_due.store(true, Ordering::Release);
    }

    /// Whether so many bytes may be pushed now; their credit is spent then.
    fn admits(&self, bytes: usize) -> bool {
        self.handle.outbox.has_room(bytes)
            && self.account.meter.wait(Instant::now).is_zero()
            && self.credit.spend(bytes as u64, self.window)
    }

    /// Pushes batches. The lock is held, so that they come in order.
    fn push(&self, state: &mut State, space: u32, span: Span, batches: &[u8]) {
        self.tell_changes(state);
        let Span { file, offset, first_sequence, .. } = span;
        let head = grown_head(self.channel, [file, offset, first_sequence], space, batches.len());
        burst::push(&self.handle, &[&head, batches]);
        self.account.meter.count(batches.len() as u64, Instant::now);
        self.flow.count(span.count, batches.len());
        state.lanes[space as usize].next = span.next_sequence();
    }

    /// Tells of what the next batches may need: another schema, new symbols.
    fn tell_changes(&self, state: &mut State) {
        if state.changed {
            state.changed = false;
            self.tell(&ToClient::Changed {});
        }
        if self.stream.symbol_count() > state.symbols {
            self.tell_symbols(state);
        }
    }

    #[cold]
    fn tell_symbols(&self, state: &mut State) {
        let names = self.stream.symbols_from(state.symbols);
        let mut rest = &names[..];
        while !rest.is_empty() {
            let (now, later) = rest.split_at(within(rest, SYMBOL_BYTES_MAX));
            let texts = now.iter().map(String::as_str).collect();
            self.tell(&ToClient::Symbols { from: state.symbols, names: texts });
            state.symbols += now.len() as u32;
            rest = later;
        }
    }

    fn tell(&self, message: &ToClient<'_>) {
        let mut out = Vec::new();
        message.encode(self.channel, &mut out);
        self.handle.send(&[&out]);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Watch {
    fn committed(&self, space: u32, span: Span, batch: &[u8]) {
        let mut state = self.lock();
        let Some(lane) = state.lanes.get_mut(space as usize) else { return };
        if span.next_sequence() <= lane.next {
            return;
        }
        if !lane.live {
            lane.behind_bytes += batch.len() as u64;
            // The connection's thread may be waiting for credit that never comes.
            if self.is_too_slow(*lane) {
                drop(state);
                self.wake();
            }
            return;
        }
        // Of several threads that append, a later one may be here first.
        let is_next = span.first_sequence == lane.next;
        if is_next && self.admits(batch.len()) {
            self.push(&mut state, space, span, batch);
            self.shared.metrics.pushes_inline.one();
        } else {
            (lane.live, lane.behind_bytes) = (false, batch.len() as u64);
            lane.behind_since = Some(Instant::now());
            drop(state);
            self.wake();
        }
    }

    fn grown(&self) {
        self.lock().lanes.iter_mut().for_each(|lane| lane.live = false);
        self.wake();
    }

    fn changed(&self) {
        self.lock().changed = true;
        self.wake();
    }

    fn gone(&self, renamed: Option<&str>) {
        self.lock().gone = Some(renamed.map(str::to_string));
        self.wake();
    }
}

impl Follower {
    /// Begins to watch; nothing is pushed before the first [`step`](Self::step).
    pub fn new(beginning: Beginning) -> Self {
        let Beginning {
            shared,
            handle,
            account,
            channel,
            stream,
            credit,
            lag_bytes_max,
            from,
            symbols,
            place,
        } = beginning;
        let lane = |next: &u64| Lane { next: *next, live: false, behind_bytes: 0, behind_since: None };
        let state = State {
            lanes: from.iter().map(lane).collect(),
            symbols,
            changed: false,
            gone: None,
            ended: false,
        };
        let flow = shared.flows.begin(Way::Out, stream.name(), &handle);
        let watch = Arc::new(Watch {
            flow,
            shared,
            handle,
            account,
            channel,
            stream,
            window: credit.left(),
            credit,
            lag_bytes_max,
            state: Mutex::new(state),
            is_due: AtomicBool::new(false),
        });
        let _observing = watch.stream.observe(watch.clone());
        watch.handle.watches.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&watch));
        watch.raise();
        let positions = from.iter().map(|next| TailPosition::at(*next)).collect();
        Self { watch, positions, _observing, _place: place }
    }

    /// The stream that is followed.
    pub fn stream(&self) -> &Stream {
        &self.watch.stream
    }

    /// Whether there may be something to do.
    pub fn is_due(&self) -> bool {
        self.watch.is_due.load(Ordering::Acquire)
    }

    /// More may be pushed than before.
    pub fn note_room(&self) {
        self.watch.raise();
    }

    /// Pushes what there is to push, as far as there is room and credit. `buffer` is overwritten.
    ///
    /// # Errors
    /// What ends the watch; the client has not been told.
    pub fn step(&mut self, buffer: &mut Vec<u8>, user: &User) -> Result<Step, Error> {
        // Before anything is looked at: what happens meanwhile raises it again.
        self.watch.is_due.store(false, Ordering::Release);
        if self.watch.is_out_of_reach(user) {
            self.watch.tell_gone(None);
            return Ok(Step::Ended);
        }
        for space in 0..self.positions.len() {
            for reads in 0.. {
                if reads == READS_MAX {
                    self.note_room();
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
            self.watch.tell_gone(renamed.as_deref().filter(|name| user.may_see(name)));
            return Ok(Step::Ended);
        }
        if state.changed && self.watch.handle.outbox.has_room(FRAME_HEADER_BYTES) {
            self.watch.tell_changes(&mut state);
        }
        Ok(Step::Idle)
    }

    /// Ends the watch. Nothing is pushed any more when this returns.
    pub fn end(self) {
        let mut state = self.watch.lock();
        state.ended = true;
        state.lanes.clear();
    }

    /// Pushes a piece from the log; `false`: there is none, or no room for it.
    fn push_some(&mut self, space: usize, buffer: &mut Vec<u8>) -> Result<bool, Error> {
        let watch = &*self.watch;
        let lane = watch.lock().lanes[space];
        if lane.live {
            return Ok(false);
        }
        watch.check_lag(lane)?;
        if !watch.handle.outbox.has_room(1)
            || watch.credit.left() == 0
            || !watch.account.meter.wait(Instant::now).is_zero()
        {
            return Ok(false);
        }
        let position = &mut self.positions[space];
        if position.sequence() != lane.next {
            *position = TailPosition::at(lane.next);
        }
        let (before, bytes_max) = (*position, READ_BYTES.min(watch.credit.left() as usize));
        let span = match watch.stream.read_tail(space as u32, position, bytes_max, buffer) {
            Ok(span) => span,
            Err(error) => return watch.skip(space, position, error),
        };
        if span.count == 0 {
            return watch.go_live(space);
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
        let lane = &mut state.lanes[space];
        lane.behind_bytes = lane.behind_bytes.saturating_sub(batches.len() as u64);
        self.shared.metrics.pushes_from_files.one();
    }

    /// All is pushed: from here on those who append push. Unless one has appended meanwhile, who found the lane behind.
    fn go_live(&self, space: usize) -> Result<bool, Error> {
        let next = {
            let mut state = self.lock();
            let lane = &mut state.lanes[space];
            (lane.live, lane.behind_bytes) = (true, 0);
            if let Some(since) = lane.behind_since.take() {
                self.shared.metrics.catch_up.record(since.elapsed());
            }
            lane.next
        };
        let (_, end) = self.stream.log_begins(space as u32)?;
        let mut state = self.lock();
        let lane = &mut state.lanes[space];
        let is_behind = lane.live && lane.next == next && end > next;
        if is_behind {
            lane.live = false;
        }
        Ok(is_behind)
    }

    /// Goes on behind messages that the log does not have any more, or that are damaged.
    fn skip(&self, space: usize, position: &mut TailPosition, error: Error) -> Result<bool, Error> {
        let Error::Log(log_error) = &error else { return self.unless_gone(error) };
        let next = match **log_error {
            LogError::Trimmed { .. } => self.stream.log_begins(space as u32)?.0,
            // The position is behind what is damaged.
            LogError::Damaged { .. } => position.sequence(),
            _ => return Err(error),
        };
        let mut state = self.lock();
        let lane = &mut state.lanes[space];
        if next <= lane.next {
            return Err(error);
        }
        if self.stream.options().durability == Durability::Transient {
            self.shared.metrics.messages_lost.add(next - lane.next);
        }
        lane.next = next;
        self.tell(&ToClient::Skipped { space: space as u32, next_sequence: next });
        Ok(true)
    }

    /// That the stream is gone is told by who removes it.
    fn unless_gone(&self, error: Error) -> Result<bool, Error> {
        match error {
            Error::Deleted { .. } | Error::Renamed { .. } => Ok(false),
            error => Err(error),
        }
    }

    fn is_too_slow(&self, lane: Lane) -> bool {
        self.lag_bytes_max > 0 && lane.behind_bytes > self.lag_bytes_max
    }

    fn check_lag(&self, lane: Lane) -> Result<(), Error> {
        if !self.is_too_slow(lane) {
            return Ok(());
        }
        self.shared.metrics.watches_too_slow.one();
        let (stream, bytes, most) = (self.stream_name(), lane.behind_bytes, self.lag_bytes_max);
        let why = format!(
            "the watch of stream {stream:?} is {bytes} bytes behind, where at most {most} are allowed"
        );
        Err(Error::Refused { place: "the server".into(), why })
    }
}

/// What comes before the batches of a push: a frame's header, and the fields of [`ToClient::Grown`].
fn grown_head(channel: u32, place: [u64; 3], space: u32, bytes: usize) -> [u8; GROWN_BYTES] {
    let mut head = [0; GROWN_BYTES];
    let kind = ToClient::Grown { space: 0, file: 0, offset: 0, first_sequence: 0, batches: Rest(&[]) }.kind();
    let (frame, fields) = head.split_at_mut(FRAME_HEADER_BYTES);
    frame.copy_from_slice(&frame_header(kind, channel, fields.len() + bytes));
    fields[..4].copy_from_slice(&space.to_le_bytes());
    for (field, number) in fields[4..].chunks_exact_mut(8).zip(place) {
        field.copy_from_slice(&number.to_le_bytes());
    }
    head
}

const GROWN_BYTES: usize = FRAME_HEADER_BYTES + 4 + 3 * 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_push_is_the_message_of_the_protocol() {
        let mut expected = Vec::new();
        let batches = Rest(b"batches");
        ToClient::Grown { space: 3, file: 1 << 40, offset: 64, first_sequence: 1 << 41, batches }
            .encode(9, &mut expected);
        let mut out = grown_head(9, [1 << 40, 64, 1 << 41], 3, 7).to_vec();
        out.extend_from_slice(b"batches");
        assert_eq!(out, expected);
    }
}
