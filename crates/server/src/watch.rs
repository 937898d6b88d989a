//! Watches: appends to a stream are pushed to one client, by the appending thread or by a [fan-out](crate::fanout) thread while the
//! client keeps up, and from log files by the connection's thread when it does not.
//!
//! Always true, for each space: batches are pushed in order and without gaps, each once; `next` is the sequence number
//! after the last pushed (or skipped, which the client is notified of) message. Of a watch of some messages it is the one that
//! follows what was looked at; `told` is the one that the client has. While a space is `Direct` only appending threads push, while it
//! is `Shared` only a fan-out thread, both under the lock; otherwise only the connection's thread does, which reads without the lock.
//! Nothing is pushed without credit or into a full send buffer: then the space is behind, and delays no other client.

use crate::coalesce;
use crate::convert::{SYMBOL_BYTES_MAX, within};
use crate::fanout::Fanout;
use crate::handle::{ConnectionHandle, LiveCursor};
use crate::state::ServerState;
use crate::traffic::{Direction, TrafficCounter};
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Instant;
use tapedb_access::{May, Permit, User, UserQuota};
use tapedb_codec::batch::{BatchHeader, PickedRows};
use tapedb_engine::{
    ConnectionError, Durability, Error, LogError, Picker, Span, Stale, Stream, TailPosition, Wanted,
};
use tapedb_wire::{Credit, FRAME_HEADER_BYTES, Rest, ToClient, frame_header};

/// Bytes read from the log at once for a watch that is behind.
const READ_BYTES: usize = 256 << 10;
/// A watch of some messages is sent where it is after so many, though none of them was picked.
const PROGRESS_MESSAGES: u64 = 1 << 20;
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
    /// The messages that are wanted; `None`: all.
    wanted: Option<Wanted>,
    /// The number of the fan-out thread, once one has served it.
    shard: OnceLock<usize>,
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
    /// Picks messages where the appending thread serves the watch.
    picker: Option<Box<Picker>>,
}

/// The progress of a watch in one space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SpaceProgress {
    next: u64,
    /// The sequence number up to which the client has what it wants.
    told: u64,
    served: Served,
    /// Bytes appended since it fell behind, minus those pushed since.
    behind_bytes: u64,
    /// When it fell behind; `None` while it is live, and before it was live for the first time.
    behind_since: Option<Instant>,
}

/// Which thread serves a space of a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Served {
    /// The connection's, from files.
    Behind,
    /// As `Behind`, until a fan-out thread takes it over: it has everything that was there.
    Joining,
    /// The one that appends.
    Direct,
    /// A fan-out thread.
    Shared,
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
    /// The messages that are wanted; `None`: all.
    pub wanted: Option<Wanted>,
    /// How many symbols the client has.
    pub symbols: u32,
    pub permit: Permit,
}

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

    /// Pushes what was picked of all before `next`, maybe nothing.
    fn send_picked(&self, state: &mut State, space: u32, next: u64, rows: &[u8]) {
        let told = state.spaces[space as usize].told;
        if told >= next {
            return;
        }
        self.send_changes(state);
        let head = picked_header(self.channel, [told, next], space, rows.len());
        coalesce::push(&self.handle, &[&head, rows]);
        self.quota.rate_limit.count(rows.len() as u64, Instant::now);
        self.counter.count(rows_in(rows), rows.len());
        let progress = &mut state.spaces[space as usize];
        (progress.next, progress.told) = (progress.next.max(next), next);
    }

    /// Begins to read from files, at `next`.
    fn is_behind_from(&self, progress: &mut SpaceProgress, next: u64, bytes: usize) {
        progress.next = progress.next.max(next);
        (progress.served, progress.behind_bytes) = (Served::Behind, bytes as u64);
        progress.behind_since = Some(Instant::now());
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
        // What was looked at for a watch of some messages is noted only where it got something.
        let is_current =
            |progress: &SpaceProgress| self.wanted.is_some() && progress.served == Served::Shared;
        let nexts = self
            .lock()
            .spaces
            .iter()
            .map(|progress| (!is_current(progress)).then_some(progress.next))
            .collect::<Vec<_>>();
        let end = |space: usize| self.stream.log_begins(space as u32).map_or(0, |(_, end)| end);
        let lag =
            |(space, next): (usize, &Option<u64>)| next.map_or(0, |next| end(space).saturating_sub(next));
        nexts.iter().enumerate().map(lag).sum()
    }
}

impl Watch {
    /// The messages that are wanted; `None`: all.
    pub fn wanted(&self) -> Option<&Wanted> {
        self.wanted.as_ref()
    }

    /// The number of its fan-out thread, which is chosen once.
    pub fn shard(&self, choose: impl FnOnce() -> usize) -> usize {
        *self.shard.get_or_init(choose)
    }

    /// Whether it ends when it is too far behind.
    pub fn is_limited(&self) -> bool {
        self.lag_bytes_max > 0
    }

    /// A batch has been committed, and this thread serves the watch.
    pub fn committed(&self, space: u32, span: Span, batch: &[u8]) {
        let mut state = self.lock();
        let State { spaces, picker, .. } = &mut *state;
        let Some(progress) = spaces.get_mut(space as usize) else { return };
        if span.next_sequence() <= progress.next {
            return;
        }
        if progress.served != Served::Direct {
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
        let is_pushed = is_next
            && match &self.wanted {
                None => {
                    self.admits(batch.len()) && {
                        self.push(&mut state, space, span, batch);
                        true
                    }
                }
                Some(wanted) => {
                    let picker = picker.get_or_insert_with(|| picker_of(&self.stream, wanted));
                    match pick_all(picker, batch) {
                        Some(rows) if rows.is_empty() => {
                            progress.next = span.next_sequence();
                            true
                        }
                        Some(rows) => {
                            self.admits(rows.len()) && {
                                self.send_picked(&mut state, space, span.next_sequence(), &rows);
                                true
                            }
                        }
                        // Damaged: its connection's thread skips it.
                        None => false,
                    }
                }
            };
        if is_pushed {
            self.server.metrics.pushes_inline.one();
        } else {
            let progress = &mut state.spaces[space as usize];
            self.is_behind_from(progress, 0, batch.len());
            drop(state);
            self.wake();
        }
    }

    /// A fan-out thread takes the watch over in a space, if it has everything before the thread's position, or that has none yet.
    /// Returns its position.
    pub fn take_over(&self, space: u32, position: Option<u64>) -> Option<u64> {
        let mut state = self.lock();
        let progress =
            state.spaces.get_mut(space as usize).filter(|progress| progress.served == Served::Joining)?;
        if position.is_some_and(|position| progress.next < position) {
            progress.served = Served::Behind;
            drop(state);
            self.wake();
            return None;
        }
        (progress.served, progress.behind_bytes) = (Served::Shared, 0);
        if let Some(since) = progress.behind_since.take() {
            self.server.metrics.catch_up.record(since.elapsed());
        }
        Some(progress.next)
    }

    /// Pushes batches that a fan-out thread has read. Those that the client has are left out.
    pub fn push_shared(&self, space: u32, span: Span, batches: &[u8]) {
        let mut state = self.lock();
        let Some(progress) = state.spaces.get_mut(space as usize) else { return };
        if progress.served != Served::Shared {
            self.note_behind(state, space, span.len);
            return;
        }
        let Some((span, batches)) = from_sequence(span, batches, progress.next) else { return };
        if self.admits(batches.len()) {
            self.push(&mut state, space, span, batches);
            self.server.metrics.pushes_inline.one();
        } else {
            self.is_behind_from(progress, 0, batches.len());
            drop(state);
            self.wake();
        }
    }

    /// Pushes what a fan-out thread has picked of a range.
    pub fn push_picked(&self, space: u32, sequences: Range<u64>, rows: &[u8]) {
        let mut state = self.lock();
        let Some(progress) = state.spaces.get_mut(space as usize) else { return };
        if progress.served != Served::Shared {
            return;
        }
        if self.admits(rows.len()) {
            self.send_picked(&mut state, space, sequences.end, rows);
            self.server.metrics.pushes_inline.one();
        } else {
            self.is_behind_from(progress, sequences.start, rows.len());
            drop(state);
            self.wake();
        }
    }

    /// A fan-out thread continues with a later message than the one that is next.
    pub fn skip_to(&self, space: u32, from: u64, next: u64) {
        let mut state = self.lock();
        let Some(progress) = state.spaces.get_mut(space as usize) else { return };
        if progress.served == Served::Shared && progress.next < next {
            self.send_skip(&mut state, space as usize, from, next);
        }
    }

    /// A fan-out thread has passed bytes of the log while the watch is behind.
    pub fn note_lag(&self, space: u32, bytes: u32) {
        let mut state = self.lock();
        if state.spaces.get_mut(space as usize).is_some_and(|progress| progress.served == Served::Behind) {
            self.note_behind(state, space, bytes);
        }
    }

    fn note_behind(&self, mut state: MutexGuard<'_, State>, space: u32, bytes: u32) {
        let progress = &mut state.spaces[space as usize];
        progress.behind_bytes += u64::from(bytes);
        let is_too_slow = self.is_too_slow(*progress);
        drop(state);
        if is_too_slow {
            self.wake();
        }
    }

    /// From now on the connection's thread serves it, until it has everything.
    pub fn fall_behind(&self) {
        self.lock().spaces.iter_mut().for_each(|progress| progress.served = Served::Behind);
        self.wake();
    }

    /// A manifest or the definition has changed.
    pub fn changed(&self) {
        self.lock().changed = true;
        self.wake();
    }

    /// Messages have been sealed, and nothing else has changed. A client that gets some messages does not use the log's files.
    pub fn sealed(&self, is_shared: bool) {
        if self.wanted.is_none() {
            self.changed();
        } else if !is_shared {
            // Rewritten messages follow those of the log, and are not in it.
            self.fall_behind();
        }
    }

    /// The stream has been deleted or renamed.
    pub fn gone(&self, renamed: Option<&str>) {
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
            let Some(rows) = pick_all(picker, buffer) else {
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

    /// Notifies the client that messages are left out.
    fn send_skip(&self, state: &mut State, space: usize, from: u64, next: u64) {
        let from = state.spaces[space].next.max(from);
        if self.wanted.is_some() {
            // What was looked at before needs not be read from files.
            self.send_picked(state, space as u32, from, &[]);
        }
        if self.stream.options().durability == Durability::Transient {
            self.server.metrics.messages_lost.add(next.saturating_sub(from));
        }
        let progress = &mut state.spaces[space];
        progress.next = progress.next.max(next);
        progress.told = progress.told.max(next);
        self.send(&ToClient::Skipped { space: space as u32, next_sequence: next });
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

/// The bytes before the rows of a push: a frame's header, and the fields of [`ToClient::Picked`].
fn picked_header(channel: u32, sequences: [u64; 2], space: u32, bytes: usize) -> [u8; PICKED_HEADER_BYTES] {
    let mut head = [0; PICKED_HEADER_BYTES];
    let kind = ToClient::Picked { space: 0, first_sequence: 0, next_sequence: 0, rows: Rest(&[]) }.kind();
    let (frame, fields) = head.split_at_mut(FRAME_HEADER_BYTES);
    frame.copy_from_slice(&frame_header(kind, channel, fields.len() + bytes));
    fields[..4].copy_from_slice(&space.to_le_bytes());
    for (field, number) in fields[4..].chunks_exact_mut(8).zip(sequences) {
        field.copy_from_slice(&number.to_le_bytes());
    }
    head
}

const PICKED_HEADER_BYTES: usize = FRAME_HEADER_BYTES + 4 + 2 * 8;

/// A picker of one group.
fn picker_of(stream: &Stream, wanted: &Wanted) -> Box<Picker> {
    let mut picker = Box::new(stream.picker());
    picker.add(wanted);
    picker
}

/// What a picker of one group picks; `None`: a batch is damaged.
fn pick_all(picker: &mut Picker, batches: &[u8]) -> Option<Vec<u8>> {
    let mut picked = Vec::new();
    picker.pick(batches, |_, rows| picked.extend_from_slice(rows)).ok().map(|()| picked)
}

/// Number of picked rows.
fn rows_in(rows: &[u8]) -> u64 {
    PickedRows::headers(rows).map(|header| u64::from(header.count)).sum()
}

/// The batches from the one with a message on; `None`: all are before it.
fn from_sequence(span: Span, batches: &[u8], sequence: u64) -> Option<(Span, &[u8])> {
    let (mut at, mut first_sequence) = (0, span.first_sequence);
    while first_sequence < sequence && at < batches.len() {
        // What is damaged is for the client, which reports it.
        let Ok(header) = BatchHeader::parse_stored(&batches[at..]) else { break };
        if header.next_sequence() > sequence {
            break;
        }
        at = (at + header.batch_bytes()).min(batches.len());
        first_sequence = header.next_sequence();
    }
    let rest = &batches[at..];
    let count = span.next_sequence().saturating_sub(first_sequence);
    let span =
        Span { offset: span.offset + at as u64, len: rest.len() as u32, first_sequence, count, ..span };
    (!rest.is_empty()).then_some((span, rest))
}

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
