//! Fan-out of a stream's batches to its watches. A few watches are served by the thread that appends. Where there are more, that
//! thread only wakes others, which read each batch once from the log and serve the watches with the same bytes; watches of some
//! messages get what they want of it, each batch being picked once for all of them.
//!
//! Always true, for each space of a watch: it is served by the appending thread (`Direct`), by a fan-out thread (`Shared`), or by its
//! connection's thread, from files (`Behind`, and `Joining` until a fan-out thread takes it over). A fan-out thread is at one
//! position in each space, and has served all that are `Shared` there with everything before it.

use crate::coalesce::Coalescing;
use crate::watch::Watch;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, Weak};
use std::thread::{self, JoinHandle, Thread};
use tapedb_engine::{
    Error, GroupId, LogError, Observer, Observing, Picker, Span, Stream, TailPosition, Wanted,
};

/// The most watches that the appending thread serves: each takes it some 20 µs.
const DIRECT_MAX: usize = 4;
/// So many watches or fewer are served by the appending thread again.
const DIRECT_AGAIN: usize = 2;
/// Bytes that are read from the log at once.
const READ_BYTES: usize = 1 << 20;
/// After so many bytes of the log each watch of some messages is sent where it is, though nothing was picked for it: so far back does
/// it begin when it connects again.
const PROGRESS_BYTES: usize = 64 << 20;
/// Watches for each fan-out thread, while there are processors for more.
const WATCHES_EACH: usize = 64;

/// The fan-out of each stream, by its id.
#[derive(Debug, Default)]
pub(crate) struct Fanouts(Mutex<HashMap<u64, Weak<Fanout>>>);

impl Fanouts {
    /// The fan-out of a stream, which lasts as long as a watch holds it.
    pub fn of(&self, stream: &Stream) -> Arc<Fanout> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, fanout| fanout.strong_count() > 0);
        // A stream that was renamed is opened again, under its new name and with other observers.
        let found = all.get(&stream.id()).and_then(Weak::upgrade);
        if let Some(found) =
            found.filter(|found| found.stream.name() == stream.name() && found.stream.gone().is_none())
        {
            return found;
        }
        let fanout = Fanout::new(stream);
        all.insert(stream.id(), Arc::downgrade(&fanout));
        fanout
    }
}

/// The watches of a stream. Their drivers hold it.
pub(crate) struct Fanout {
    stream: Stream,
    watches: RwLock<Vec<Arc<Watch>>>,
    /// Whether fan-out threads serve the watches.
    is_shared: Arc<AtomicBool>,
    shards: Mutex<Vec<Arc<Shard>>>,
    shards_max: usize,
    registration: Mutex<Registration>,
}

/// How many watches there are, and the observer of the stream while there is one. Observers never take this lock, so that one
/// can be added and removed while others are notified.
#[derive(Debug, Default)]
struct Registration {
    watches: usize,
    observing: Option<Observing>,
}

impl fmt::Debug for Fanout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fanout").field("stream", &self.stream.name()).finish_non_exhaustive()
    }
}

/// The observer of the stream.
struct Registered(Weak<Fanout>);

impl Fanout {
    fn new(stream: &Stream) -> Arc<Self> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        Arc::new(Self {
            stream: stream.clone(),
            watches: RwLock::default(),
            is_shared: Arc::default(),
            shards: Mutex::default(),
            shards_max: (cores / 2).clamp(1, 8),
            registration: Mutex::default(),
        })
    }

    /// Adds a watch, which is behind.
    pub fn add(self: &Arc<Self>, watch: &Arc<Watch>) {
        {
            let mut registration = self.registration.lock().unwrap_or_else(PoisonError::into_inner);
            registration.watches += 1;
            let observe = || self.stream.observe(Arc::new(Registered(Arc::downgrade(self))));
            registration.observing.get_or_insert_with(observe);
        }
        let mut watches = self.watches.write().unwrap_or_else(PoisonError::into_inner);
        watches.push(watch.clone());
        if watches.len() > DIRECT_MAX && !self.is_shared.swap(true, Ordering::SeqCst) {
            watches.iter().for_each(|watch| watch.fall_behind());
        }
    }

    /// Removes a watch.
    pub fn remove(&self, watch: &Arc<Watch>) {
        {
            let mut watches = self.watches.write().unwrap_or_else(PoisonError::into_inner);
            watches.retain(|other| !Arc::ptr_eq(other, watch));
            if watches.len() <= DIRECT_AGAIN && self.is_shared.swap(false, Ordering::SeqCst) {
                watches.iter().for_each(|watch| watch.fall_behind());
            }
        }
        let shards = self.shards();
        if let Some(shard) = watch.chosen_shard().and_then(|shard| shards.get(shard)) {
            shard.watches.fetch_sub(1, Ordering::Relaxed);
            shard.send(Message::Leave(watch.clone()));
        }
        drop(shards);
        let mut registration = self.registration.lock().unwrap_or_else(PoisonError::into_inner);
        registration.watches -= 1;
        let ended = if registration.watches == 0 { registration.observing.take() } else { None };
        drop(registration);
        drop(ended);
    }

    /// Whether fan-out threads serve the watches.
    pub fn is_shared(&self) -> bool {
        self.is_shared.load(Ordering::SeqCst)
    }

    /// Lets a fan-out thread serve a watch in a space, in which it is `Joining`.
    pub fn join(&self, watch: &Arc<Watch>, space: u32) {
        let watches = self.watches.read().unwrap_or_else(PoisonError::into_inner).len();
        let wanted = watches.div_ceil(WATCHES_EACH).clamp(1, self.shards_max);
        let mut shards = self.shards();
        if watch.chosen_shard().is_none() && shards.len() < wanted {
            shards.extend(Shard::start(&self.is_shared, &self.stream));
        }
        if shards.is_empty() {
            // The system starts no thread now.
            drop(shards);
            self.is_shared.store(false, Ordering::SeqCst);
            return self.each(Watch::fall_behind);
        }
        let number = watch.shard(|| {
            let watches = |number: &usize| shards[*number].watches.load(Ordering::Relaxed);
            let least = (0..shards.len()).min_by_key(watches).unwrap_or(0);
            shards[least].watches.fetch_add(1, Ordering::Relaxed);
            least
        });
        let shard = shards[number].clone();
        drop(shards);
        shard.send(Message::Join(watch.clone(), space));
    }

    fn shards(&self) -> MutexGuard<'_, Vec<Arc<Shard>>> {
        self.shards.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn each(&self, notify: impl Fn(&Watch)) {
        self.watches.read().unwrap_or_else(PoisonError::into_inner).iter().for_each(|watch| notify(watch));
    }

    fn wake(&self) {
        self.shards().iter().for_each(|shard| shard.wake());
    }
}

impl Drop for Fanout {
    /// Waits for the threads: they use the stream.
    fn drop(&mut self) {
        let shards = std::mem::take(&mut *self.shards());
        for shard in &shards {
            shard.is_over.store(true, Ordering::SeqCst);
            shard.wake();
        }
        shards.iter().for_each(|shard| shard.end());
    }
}

impl Observer for Registered {
    fn committed(&self, space: u32, span: Span, batch: &[u8]) {
        let Some(fanout) = self.0.upgrade() else { return };
        if fanout.is_shared() {
            fanout.wake();
        } else {
            fanout.each(|watch| watch.committed(space, span, batch));
        }
    }

    fn grown(&self) {
        let Some(fanout) = self.0.upgrade() else { return };
        if fanout.is_shared() {
            fanout.wake();
        } else {
            fanout.each(Watch::fall_behind);
        }
    }

    fn changed(&self) {
        let Some(fanout) = self.0.upgrade() else { return };
        fanout.each(Watch::changed);
        // Messages that were rewritten follow those of the log, and are not in it.
        fanout.wake();
    }

    fn sealed(&self) {
        let Some(fanout) = self.0.upgrade() else { return };
        let is_shared = fanout.is_shared();
        fanout.each(|watch| watch.sealed(is_shared));
        fanout.wake();
    }

    fn gone(&self, renamed: Option<&str>) {
        if let Some(fanout) = self.0.upgrade() {
            fanout.each(|watch| watch.gone(renamed));
        }
    }
}

/// A fan-out thread, for others.
#[derive(Debug)]
struct Shard {
    inbox: Mutex<Vec<Message>>,
    /// Whether there may be something to do.
    is_due: AtomicBool,
    is_over: AtomicBool,
    thread: OnceLock<Thread>,
    ended: Mutex<Option<JoinHandle<()>>>,
    /// Number of watches.
    watches: AtomicUsize,
}

#[derive(Debug)]
enum Message {
    Join(Arc<Watch>, u32),
    Leave(Arc<Watch>),
}

impl Shard {
    /// `None`: there is no thread.
    fn start(is_shared: &Arc<AtomicBool>, stream: &Stream) -> Option<Arc<Self>> {
        let shard = Arc::new(Self {
            inbox: Mutex::default(),
            is_due: AtomicBool::new(true),
            is_over: AtomicBool::new(false),
            thread: OnceLock::new(),
            ended: Mutex::default(),
            watches: AtomicUsize::new(0),
        });
        let server = Serving::new(shard.clone(), is_shared.clone(), stream);
        let spawned = thread::Builder::new().name("tape-fanout".into()).spawn(move || server.run()).ok()?;
        let _ = shard.thread.set(spawned.thread().clone());
        *shard.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(spawned);
        Some(shard)
    }

    fn wake(&self) {
        if !self.is_due.swap(true, Ordering::SeqCst)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    /// Waits until the thread has ended: `is_over` has been set.
    fn end(&self) {
        if let Some(thread) = self.ended.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = thread.join();
        }
    }

    fn send(&self, message: Message) {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner).push(message);
        self.wake();
    }
}

/// A fan-out thread.
struct Serving {
    shard: Arc<Shard>,
    is_shared: Arc<AtomicBool>,
    stream: Stream,
    /// For each space, once a watch is served there.
    positions: Vec<Option<TailPosition>>,
    /// Watches of all messages.
    of_all: Vec<Arc<Watch>>,
    picker: Picker,
    groups: HashMap<Wanted, GroupId>,
    members: HashMap<GroupId, Vec<Arc<Watch>>>,
    /// Bytes of the log since watches of some messages were sent where they are, for each space.
    silent_bytes: Vec<usize>,
    buffer: Vec<u8>,
}

impl Serving {
    fn new(shard: Arc<Shard>, is_shared: Arc<AtomicBool>, stream: &Stream) -> Self {
        let spaces = stream.spaces() as usize;
        Self {
            shard,
            is_shared,
            picker: stream.picker(),
            stream: stream.clone(),
            positions: vec![None; spaces],
            of_all: Vec::new(),
            groups: HashMap::new(),
            members: HashMap::new(),
            silent_bytes: vec![0; spaces],
            buffer: Vec::new(),
        }
    }

    fn run(mut self) {
        loop {
            while self.shard.is_due.swap(false, Ordering::SeqCst) {
                if self.shard.is_over.load(Ordering::SeqCst) {
                    return;
                }
                // What goes to a client in one round is one write.
                let coalescing = Coalescing::begin();
                self.serve();
                drop(coalescing);
            }
            thread::park();
        }
    }

    /// Serves what has been appended; what follows while it does is for the next round.
    fn serve(&mut self) {
        self.take_inbox();
        if !self.is_shared.load(Ordering::SeqCst) || (self.of_all.is_empty() && self.members.is_empty()) {
            self.positions.fill(None);
            return;
        }
        for space in 0..self.positions.len() {
            if let Some(position) = self.positions[space] {
                self.positions[space] = Some(self.serve_space(space as u32, position));
            }
        }
    }

    fn take_inbox(&mut self) {
        let messages = std::mem::take(&mut *self.shard.inbox.lock().unwrap_or_else(PoisonError::into_inner));
        for message in messages {
            match message {
                Message::Join(watch, space) => self.join(&watch, space),
                Message::Leave(watch) => self.leave(&watch),
            }
        }
    }

    fn join(&mut self, watch: &Arc<Watch>, space: u32) {
        let is_shared = self.is_shared.load(Ordering::SeqCst);
        let Some(position) = self.positions.get_mut(space as usize).filter(|_| is_shared) else {
            return watch.fall_behind();
        };
        let at = position.as_ref().map(TailPosition::sequence);
        let Some(next) = watch.take_over(space, at) else { return };
        position.get_or_insert(TailPosition::at(next));
        // Added once, and again where it had left before.
        let known = match watch.wanted() {
            None => &mut self.of_all,
            Some(wanted) => {
                let group = match self.groups.get(wanted) {
                    Some(group) => *group,
                    None => {
                        let group = self.picker.add(wanted);
                        self.groups.insert(wanted.clone(), group);
                        group
                    }
                };
                self.members.entry(group).or_default()
            }
        };
        if !known.iter().any(|other| Arc::ptr_eq(other, watch)) {
            known.push(watch.clone());
        }
        // There may be more than it has been served with.
        self.shard.is_due.store(true, Ordering::SeqCst);
    }

    fn leave(&mut self, watch: &Arc<Watch>) {
        let stays = |other: &Arc<Watch>| !Arc::ptr_eq(other, watch);
        match watch.wanted().and_then(|wanted| Some((wanted, *self.groups.get(wanted)?))) {
            None => self.of_all.retain(stays),
            Some((wanted, group)) => {
                let members = self.members.entry(group).or_default();
                members.retain(stays);
                if members.is_empty() {
                    self.members.remove(&group);
                    self.groups.remove(wanted);
                    self.picker.remove(group);
                }
            }
        }
    }

    /// Serves the next messages of a space; returns the position after them.
    fn serve_space(&mut self, space: u32, mut position: TailPosition) -> TailPosition {
        let first_sequence = position.sequence();
        match self.stream.read_tail(space, &mut position, READ_BYTES, &mut self.buffer) {
            Ok(span) if span.count == 0 => {}
            Ok(span) => {
                self.serve_span(space, first_sequence, span);
                self.shard.is_due.store(true, Ordering::SeqCst);
            }
            Err(error) => match self.after(space, &position, &error) {
                Some(next) if next > first_sequence => {
                    self.each(|watch| watch.skip_to(space, first_sequence, next));
                    self.shard.is_due.store(true, Ordering::SeqCst);
                    return TailPosition::at(next);
                }
                // Each meets the error by itself. That the stream is gone, they are notified by the thread that removes it.
                _ => self.each(Watch::fall_behind),
            },
        }
        position
    }

    /// Where the log continues after messages that it does not contain any more, or that are damaged.
    fn after(&self, space: u32, position: &TailPosition, error: &Error) -> Option<u64> {
        let Error::Log(error) = error else { return None };
        match **error {
            LogError::Trimmed { .. } => self.stream.log_begins(space).ok().map(|(first, _)| first),
            LogError::Damaged { .. } => Some(position.sequence()),
            _ => None,
        }
    }

    fn each(&self, notify: impl Fn(&Watch)) {
        let some = self.members.values().flatten();
        self.of_all.iter().chain(some).for_each(|watch| notify(watch));
    }

    /// Serves the batches in the buffer, which begin with the message `first_sequence` or before it.
    fn serve_span(&mut self, space: u32, first_sequence: u64, span: Span) {
        let Self { buffer, picker, members, of_all, silent_bytes, .. } = self;
        for watch in of_all.iter() {
            watch.push_shared(space, span, buffer);
        }
        if members.is_empty() {
            return;
        }
        let next_sequence = span.next_sequence();
        let picked = picker.pick(buffer, first_sequence, |group, rows| {
            for watch in members.get(&group).into_iter().flatten() {
                watch.push_picked(space, first_sequence..next_sequence, rows, buffer);
            }
        });
        if picked.is_err() {
            // The client finds what is damaged, and reports it.
            members.values().flatten().for_each(|watch| watch.skip_to(space, first_sequence, next_sequence));
        }
        let silent = &mut silent_bytes[space as usize];
        *silent += span.len as usize;
        if *silent >= PROGRESS_BYTES {
            *silent = 0;
            members
                .values()
                .flatten()
                .for_each(|watch| watch.push_picked(space, first_sequence..next_sequence, &[], buffer));
        }
        members
            .values()
            .flatten()
            .filter(|watch| watch.is_limited())
            .for_each(|watch| watch.note_lag(space, span.len));
    }
}
