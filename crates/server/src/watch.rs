//! Watches: appends to a stream are pushed to one client, by the appending thread while the client keeps up, and from
//! log files by the connection's thread when it does not.
//!
//! Always true, for each space: batches are pushed in order and without gaps, each once; `next` is the sequence number
//! after the last pushed (or skipped, which the client is notified of) message. While a space is `live`, only appending
//! threads push, under the lock; otherwise only the connection's thread does, which reads without the lock. Nothing is
//! pushed without credit or into a full send buffer: then the space is behind, and delays no other client.

use crate::coalesce;
use crate::convert::{SYMBOL_BYTES_MAX, within};
use crate::handle::{ConnectionHandle, LiveCursor};
use crate::state::ServerState;
use crate::traffic::{Direction, TrafficCounter};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;
use tapedb_access::{May, Permit, User, UserQuota};
use tapedb_engine::{
    ConnectionError, Durability, Error, LogError, Observer, Observing, Span, Stale, Stream, TailPosition,
};
use tapedb_wire::{Credit, FRAME_HEADER_BYTES, Rest, ToClient, frame_header};

/// Bytes read from the log at once for a watch that is behind.
const READ_BYTES: usize = 256 << 10;
/// Reads in a row for one watch, so that other watches of the connection make progress.
const READS_MAX: usize = 8;

/// A watch, for the threads that append.
pub(crate) struct Watch {
    server: Arc<ServerState>,
    handle: Arc<ConnectionHandle>,
    quota: Arc<UserQuota>,
    channel: u32,
    stream: Stream,
    credit: Arc<Credit>,
    /// The initial credit.
    window: u64,
    /// It ends when it is more than this many bytes behind; 0: never.
    lag_bytes_max: u64,
    state: Mutex<State>,
    /// Counts pushes, under the lock of `state`.
    counter: TrafficCounter,
    /// Whether there is work for the connection's thread.
    is_due: AtomicBool,
}

#[derive(Debug)]
struct State {
    spaces: Vec<SpaceProgress>,
    /// How many symbols the client has.
    symbols: u32,
    /// Whether the client must be notified that the stream has changed.
    changed: bool,
    /// The stream was removed or renamed, with its new name.
    gone: Option<Option<String>>,
    /// Nothing more may be pushed.
    ended: bool,
}

/// The progress of a watch in one space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SpaceProgress {
    next: u64,
    live: bool,
    /// Bytes appended since it fell behind, minus those pushed since.
    behind_bytes: u64,
    /// When it fell behind; `None` while it is live, and before it was live for the first time.
    behind_since: Option<Instant>,
}

/// The parameters of a new watch.
pub(crate) struct WatchStart {
    pub server: Arc<ServerState>,
    pub handle: Arc<ConnectionHandle>,
    pub quota: Arc<UserQuota>,
    pub channel: u32,
    pub stream: Stream,
    pub credit: Arc<Credit>,
    pub lag_bytes_max: u64,
    /// First requested sequence number, for each space.
    pub from: Vec<u64>,
    /// How many symbols the client has.
    pub symbols: u32,
    pub permit: Permit,
}

/// A watch, for the connection's thread.
pub(crate) struct WatchDriver {
    watch: Arc<Watch>,
    positions: Vec<TailPosition>,
    /// Dropped with the driver, outside of all locks: an observer's callback never waits for it.
    _observing: Observing,
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

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("stream", &self.stream.name()).finish_non_exhaustive()
    }
}

impl Watch {
    /// Whether the stream was renamed to a name under which the user may not read it.
    fn is_out_of_reach(&self, user: &User) -> bool {
        matches!(&self.lock().gone, Some(Some(name)) if !user.may(May::Read, name))
    }

    /// Notifies the client that the stream does not exist any more under its name. Nothing follows.
    fn send_gone(&self, renamed: Option<&str>) {
        self.lock().ended = true;
        self.send(&ToClient::Gone { renamed });
    }

    /// Wakes the connection's thread for this watch.
    fn wake(&self) {
        self.mark_due();
        self.handle.wake();
    }

    fn mark_due(&self) {
        self.is_due.store(true, Ordering::Release);
        self.handle.has_due.store(true, Ordering::Release);
    }

    /// Whether so many bytes may be pushed now; if so, their credit is spent.
    fn admits(&self, bytes: usize) -> bool {
        self.handle.send_buffer.has_capacity(bytes)
            && self.quota.rate_limit.wait(Instant::now).is_zero()
            && self.credit.spend(bytes as u64, self.window)
    }

    /// Pushes batches. The caller holds the lock, so that they are sent in order.
    fn push(&self, state: &mut State, space: u32, span: Span, batches: &[u8]) {
        self.send_changes(state);
        let Span { file, offset, first_sequence, .. } = span;
        let head = push_header(self.channel, [file, offset, first_sequence], space, batches.len());
        coalesce::push(&self.handle, &[&head, batches]);
        self.quota.rate_limit.count(batches.len() as u64, Instant::now);
        self.counter.count(span.count, batches.len());
        state.spaces[space as usize].next = span.next_sequence();
    }

    /// Sends changes that the next batches depend on: another schema, new symbols.
    fn send_changes(&self, state: &mut State) {
        if state.changed {
            state.changed = false;
            self.send(&ToClient::Changed {});
        }
        if self.stream.symbol_count() > state.symbols {
            self.send_symbols(state);
        }
    }

    #[cold]
    fn send_symbols(&self, state: &mut State) {
        let names = self.stream.symbols_from(state.symbols);
        let mut rest = &names[..];
        while !rest.is_empty() {
            let (now, later) = rest.split_at(within(rest, SYMBOL_BYTES_MAX));
            let texts = now.iter().map(String::as_str).collect();
            self.send(&ToClient::Symbols { from: state.symbols, names: texts });
            state.symbols += now.len() as u32;
            rest = later;
        }
    }

    fn send(&self, message: &ToClient<'_>) {
        let mut out = Vec::new();
        message.encode(self.channel, &mut out);
        self.handle.send(&[&out]);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LiveCursor for Watch {
    fn stream_name(&self) -> &str {
        self.stream.name()
    }

    fn lag(&self) -> u64 {
        let nexts: Vec<u64> = self.lock().spaces.iter().map(|progress| progress.next).collect();
        let end = |space: usize| self.stream.log_begins(space as u32).map_or(0, |(_, end)| end);
        nexts.iter().enumerate().map(|(space, next)| end(space).saturating_sub(*next)).sum()
    }
}

impl Observer for Watch {
    fn committed(&self, space: u32, span: Span, batch: &[u8]) {
        let mut state = self.lock();
        let Some(progress) = state.spaces.get_mut(space as usize) else { return };
        if span.next_sequence() <= progress.next {
            return;
        }
        if !progress.live {
            progress.behind_bytes += batch.len() as u64;
            // The connection's thread may be waiting for credit that never arrives.
            if self.is_too_slow(*progress) {
                drop(state);
                self.wake();
            }
            return;
        }
        // When several threads append, a later batch may be here first.
        let is_next = span.first_sequence == progress.next;
        if is_next && self.admits(batch.len()) {
            self.push(&mut state, space, span, batch);
            self.server.metrics.pushes_inline.one();
        } else {
            (progress.live, progress.behind_bytes) = (false, batch.len() as u64);
            progress.behind_since = Some(Instant::now());
            drop(state);
            self.wake();
        }
    }

    fn grown(&self) {
        self.lock().spaces.iter_mut().for_each(|progress| progress.live = false);
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
            symbols,
            permit,
        } = start;
        let progress =
            |next: &u64| SpaceProgress { next: *next, live: false, behind_bytes: 0, behind_since: None };
        let state = State {
            spaces: from.iter().map(progress).collect(),
            symbols,
            changed: false,
            gone: None,
            ended: false,
        };
        let counter = server.traffic.begin(Direction::Out, stream.name(), &handle.traffic);
        let watch = Arc::new(Watch {
            counter,
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
        let _observing = watch.stream.observe(watch.clone());
        let weak: Weak<Watch> = Arc::downgrade(&watch);
        watch.handle.add_watch(weak);
        watch.mark_due();
        let positions = from.iter().map(|next| TailPosition::at(*next)).collect();
        Self { watch, positions, _observing, _permit: permit }
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
        if state.changed && self.watch.handle.send_buffer.has_capacity(FRAME_HEADER_BYTES) {
            self.watch.send_changes(&mut state);
        }
        Ok(Step::Idle)
    }

    /// Ends the watch. Nothing is pushed after this returns.
    pub fn end(self) {
        let mut state = self.watch.lock();
        state.ended = true;
        state.spaces.clear();
    }

    /// Pushes a range of the log; `false`: there is none, or no capacity for it.
    fn push_some(&mut self, space: usize, buffer: &mut Vec<u8>) -> Result<bool, Error> {
        let watch = &*self.watch;
        let progress = watch.lock().spaces[space];
        if progress.live {
            return Ok(false);
        }
        watch.check_lag(progress)?;
        if !watch.handle.send_buffer.has_capacity(1)
            || watch.credit.left() == 0
            || !watch.quota.rate_limit.wait(Instant::now).is_zero()
        {
            return Ok(false);
        }
        let position = &mut self.positions[space];
        if position.sequence() != progress.next {
            *position = TailPosition::at(progress.next);
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
        let progress = &mut state.spaces[space];
        progress.behind_bytes = progress.behind_bytes.saturating_sub(batches.len() as u64);
        self.server.metrics.pushes_from_files.one();
    }

    /// Everything is pushed: from now on appending threads push, unless a batch was appended while the space was
    /// behind.
    fn go_live(&self, space: usize) -> Result<bool, Error> {
        let next = {
            let mut state = self.lock();
            let progress = &mut state.spaces[space];
            (progress.live, progress.behind_bytes) = (true, 0);
            if let Some(since) = progress.behind_since.take() {
                self.server.metrics.catch_up.record(since.elapsed());
            }
            progress.next
        };
        let (_, end) = self.stream.log_begins(space as u32)?;
        let mut state = self.lock();
        let progress = &mut state.spaces[space];
        let is_behind = progress.live && progress.next == next && end > next;
        if is_behind {
            progress.live = false;
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
        if self.stream.options().durability == Durability::Transient {
            self.server.metrics.messages_lost.add(next - progress.next);
        }
        progress.next = next;
        self.send(&ToClient::Skipped { space: space as u32, next_sequence: next });
        Ok(true)
    }

    /// The notification that the stream was removed comes from the thread that removes it.
    fn unless_gone(&self, error: Error) -> Result<bool, Error> {
        match error {
            Error::Stale(Stale::Deleted { .. }) | Error::Stale(Stale::Renamed { .. }) => Ok(false),
            error => Err(error),
        }
    }

    fn is_too_slow(&self, progress: SpaceProgress) -> bool {
        self.lag_bytes_max > 0 && progress.behind_bytes > self.lag_bytes_max
    }

    fn check_lag(&self, progress: SpaceProgress) -> Result<(), Error> {
        if !self.is_too_slow(progress) {
            return Ok(());
        }
        self.server.metrics.watches_too_slow.one();
        let (stream, bytes, most) = (self.stream_name(), progress.behind_bytes, self.lag_bytes_max);
        let why = format!(
            "the watch of stream {stream:?} is {bytes} bytes behind, where at most {most} are allowed"
        );
        Err(Error::Connection(ConnectionError::Refused { place: "the server".into(), why }))
    }
}

/// The bytes before the batches of a push: a frame's header, and the fields of [`ToClient::Grown`].
fn push_header(channel: u32, location: [u64; 3], space: u32, bytes: usize) -> [u8; PUSH_HEADER_BYTES] {
    let mut head = [0; PUSH_HEADER_BYTES];
    let kind = ToClient::Grown { space: 0, file: 0, offset: 0, first_sequence: 0, batches: Rest(&[]) }.kind();
    let (frame, fields) = head.split_at_mut(FRAME_HEADER_BYTES);
    frame.copy_from_slice(&frame_header(kind, channel, fields.len() + bytes));
    fields[..4].copy_from_slice(&space.to_le_bytes());
    for (field, number) in fields[4..].chunks_exact_mut(8).zip(location) {
        field.copy_from_slice(&number.to_le_bytes());
    }
    head
}

const PUSH_HEADER_BYTES: usize = FRAME_HEADER_BYTES + 4 + 3 * 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_push_is_encoded_as_the_protocol_message() {
        let mut expected = Vec::new();
        let batches = Rest(b"batches");
        ToClient::Grown { space: 3, file: 1 << 40, offset: 64, first_sequence: 1 << 41, batches }
            .encode(9, &mut expected);
        let mut out = push_header(9, [1 << 40, 64, 1 << 41], 3, 7).to_vec();
        out.extend_from_slice(b"batches");
        assert_eq!(out, expected);
    }
}
