//! Watches: appends to a stream are pushed to one client, by the appending thread or by a [fan-out](crate::fanout) thread while the
//! client keeps up, and from log files by the connection's thread when it does not.
//!
//! Always true, for each space: batches are pushed in order and without gaps, each once; `next` is the sequence number
//! after the last pushed (or skipped, which the client is notified of) message. Of a watch of some messages it is the one that
//! follows what was looked at; `told` is the one that the client has. While a space is `Direct` only appending threads push, while it
//! is `Shared` only a fan-out thread, both under the lock; otherwise only the connection's thread does, which reads without the lock.
//! Nothing is pushed without credit or into a full send buffer: then the space is behind, and delays no other client.

mod driver;
#[cfg(test)]
mod tests;

pub(crate) use driver::{Step, WatchDriver};

use crate::coalesce;
use crate::convert::{SYMBOL_BYTES_MAX, within};
use crate::handle::{ConnectionHandle, LiveCursor};
use crate::push_frames::{from_sequence, picked_header, push_header, rows_in};
use crate::state::ServerState;
use crate::traffic::TrafficCounter;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;
use tapedb_access::{May, Permit, User, UserQuota};
use tapedb_engine::{Durability, Picker, Span, Stream, Wanted};
use tapedb_wire::{Credit, ToClient};

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

    fn is_too_slow(&self, progress: SpaceProgress) -> bool {
        self.lag_bytes_max > 0 && progress.behind_bytes > self.lag_bytes_max
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

    /// The number of its fan-out thread, if one was chosen.
    pub fn chosen_shard(&self) -> Option<usize> {
        self.shard.get().copied()
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
                    match pick_from(picker, batch, progress.next) {
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

    /// Pushes what a fan-out thread has picked of a range of `batches`, maybe nothing. What the client has is left out.
    pub fn push_picked(&self, space: u32, sequences: Range<u64>, rows: &[u8], batches: &[u8]) {
        let mut state = self.lock();
        let State { spaces, picker, .. } = &mut *state;
        let Some(progress) = spaces.get_mut(space as usize) else { return };
        if progress.served != Served::Shared || progress.next >= sequences.end {
            return;
        }
        let own = match &self.wanted {
            // It joined ahead of the thread: of this range it has the beginning.
            Some(wanted) if progress.next > sequences.start && !rows.is_empty() => {
                let picker = picker.get_or_insert_with(|| picker_of(&self.stream, wanted));
                pick_from(picker, batches, progress.next)
            }
            _ => None,
        };
        let rows = own.as_deref().unwrap_or(rows);
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

/// A picker of one group.
fn picker_of(stream: &Stream, wanted: &Wanted) -> Box<Picker> {
    let mut picker = Box::new(stream.picker());
    picker.add(wanted);
    picker
}

/// What a picker of one group picks of the messages from a sequence number on; `None`: a batch is damaged.
fn pick_from(picker: &mut Picker, batches: &[u8], from: u64) -> Option<Vec<u8>> {
    let mut picked = Vec::new();
    picker.pick(batches, from, |_, rows| picked.extend_from_slice(rows)).ok().map(|()| picked)
}
