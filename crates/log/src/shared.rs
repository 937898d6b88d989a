//! Many threads append to one log, and one sync answers all that wait for it: group commit.

use crate::error::LogError;
use crate::log::Log;
use crate::producers::Known;
use crate::writer::{Durability, LogWriter};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use tapedb_codec::batch::BatchHeader;

/// A [`LogWriter`] that any number of threads append with. Each takes a [`turn`](Self::turn), writes its batch, lets go
/// of the lock and waits for [`commit`](Self::commit). One of those who wait syncs the file for all whose batches were
/// written before it began; whoever writes meanwhile waits for the next sync.
///
/// Always true: at most one sync runs, and none while a file is rolled (two at once on one file share the system's
/// error: one of them would be told that all is well). What a sync covers is what was written before it began.
/// Whoever waits for a sync that does not run yet is woken when it is his to run, or when he has his answer.
#[derive(Debug)]
pub struct SharedWriter {
    log: Arc<Log>,
    state: Mutex<State>,
    /// For those who wait for a sync of even number, and of odd: no more than two numbers are waited for at once.
    answered: [Condvar; 2],
}

#[derive(Debug)]
struct State {
    writer: LogWriter,
    /// Syncs that have begun; the last of them has this number.
    begun: u64,
    /// Whether that one still runs.
    running: bool,
}

/// The lock, and a batch to write under it. No sync runs that the writing would disturb.
#[derive(Debug)]
pub struct Turn<'w, 'b> {
    shared: &'w SharedWriter,
    state: MutexGuard<'w, State>,
    batch: &'b mut [u8],
}

/// A batch that is written, and still the lock: the next batch comes after what is done with it in hand.
#[derive(Debug)]
pub struct Written<'w> {
    shared: &'w SharedWriter,
    state: MutexGuard<'w, State>,
    ticket: Ticket,
}

/// What [`SharedWriter::commit`] waits for: a batch that is written but not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    sequences: Range<u64>,
    /// Where the batch begins: log file and offset.
    place: (u64, u64),
    /// Number of the sync that covers the batch at the latest.
    sync: u64,
    /// Whether writing it showed something to readers.
    shown: bool,
}

/// A batch that is as durable as the log promises, and that readers see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The sequence numbers of its messages.
    pub sequences: Range<u64>,
    /// The log file it is in: the sequence number in the file's name.
    pub file: u64,
    /// Where it begins in the file.
    pub offset: u64,
    /// Whether it was this call that showed something new to readers, who may wait for being told. Of the calls that
    /// one sync answers, it is one.
    pub shown: bool,
}

/// No batch is written while it is held.
#[derive(Debug)]
pub struct Hold<'w> {
    shared: &'w SharedWriter,
    state: MutexGuard<'w, State>,
}

impl SharedWriter {
    /// Shares a writer.
    pub fn new(writer: LogWriter) -> Self {
        let log = Arc::clone(writer.log());
        Self {
            log,
            state: Mutex::new(State { writer, begun: 0, running: false }),
            answered: [const { Condvar::new() }; 2],
        }
    }

    /// The read side: messages are in it once they are as durable as the log promises.
    pub fn log(&self) -> &Arc<Log> {
        &self.log
    }

    /// Number and sequence numbers of the last batch that a producer has in the log: it goes on with the next number.
    pub fn last_of(&self, producer: u64) -> Option<(u64, Range<u64>)> {
        let last = self.lock().writer.producers().last(producer)?;
        Some((last.number, last.first_sequence..last.next_sequence))
    }

    /// Waits for the turn to write `batch`.
    pub fn turn<'w, 'b>(&'w self, batch: &'b mut [u8]) -> Turn<'w, 'b> {
        let mut state = self.lock();
        while state.must_wait(batch.len()) {
            state = self.wait(state.begun, state);
        }
        Turn { shared: self, state, batch }
    }

    /// The turn to write `batch` if it can be had without waiting: `None` while another thread has it, and while a sync
    /// runs if the batch goes into a new file.
    pub fn try_turn<'w, 'b>(&'w self, batch: &'b mut [u8]) -> Option<Turn<'w, 'b>> {
        let state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        if state.must_wait(batch.len()) { None } else { Some(Turn { shared: self, state, batch }) }
    }

    /// Waits until a batch is as durable as the log promises, and syncs it if that falls to this thread.
    ///
    /// # Errors
    /// [`LogError::Poisoned`] when the sync that covered it failed, or the writer stopped before: the batch may or may
    /// not be there when the log is opened next. [`LogError::Ahead`] for the ticket of another writer.
    pub fn commit(&self, ticket: Ticket) -> Result<Committed, LogError> {
        self.settle(self.lock(), ticket)
    }

    /// Appends a batch: [`turn`](Self::turn), [`Turn::write`] and [`commit`](Self::commit).
    ///
    /// # Errors
    /// As [`LogWriter::append`].
    pub fn append(&self, batch: &mut [u8]) -> Result<Committed, LogError> {
        self.turn(batch).write()?.commit()
    }

    /// Begins a new file if the active one has batches, so that it is [complete](Log::complete_files); returns whether
    /// it had. Waits for a running sync. Messages whose sync is being waited for may be shown to readers by this, of
    /// which no [`Committed::shown`] tells: after `true`, tell readers who wait.
    ///
    /// # Errors
    /// As [`LogWriter::append`]: after one that is not [`LogError::Poisoned`] all is as before.
    pub fn roll(&self) -> Result<bool, LogError> {
        self.hold_still().roll()
    }

    /// Forgets and removes the complete files all of whose messages are below `before`; returns their bytes. The log
    /// then begins with the first file that is left. Disturbs neither writing nor syncing, nor readers who have such a
    /// file open. Who opens the log next says where it begins ([`LogOptions::first_sequence`](crate::LogOptions)): it
    /// must be known, and survive what the log survives, before this is called.
    ///
    /// # Errors
    /// When a file cannot be removed. It is forgotten all the same, and removed when the log is opened for writing next.
    pub fn trim(&self, before: u64) -> Result<u64, LogError> {
        self.log.trim(before)
    }

    /// Sets [`LogOptions::file_bytes_max`](crate::LogOptions::file_bytes_max) for the batches to come.
    pub fn set_file_bytes_max(&self, bytes: u64) {
        self.lock().writer.set_file_bytes_max(bytes);
    }

    /// Keeps others from writing. Syncs of what is written already go on.
    pub fn hold(&self) -> Hold<'_> {
        Hold { shared: self, state: self.lock() }
    }

    /// [`LogWriter::close`]: waits for a running sync, and syncs what waits for one.
    ///
    /// # Errors
    /// As [`LogWriter::close`].
    pub fn close(&self) -> Result<(), LogError> {
        self.hold_still().state.writer.close()
    }

    /// [`SharedWriter::hold`] when no sync runs, and none does while it is held.
    pub fn hold_still(&self) -> Hold<'_> {
        let mut state = self.lock();
        while state.running {
            state = self.wait(state.begun, state);
        }
        Hold { shared: self, state }
    }

    fn settle<'w>(&'w self, mut state: MutexGuard<'w, State>, ticket: Ticket) -> Result<Committed, LogError> {
        let Ticket { sequences, place: (file, offset), sync, mut shown } = ticket;
        let (sequence, next_sequence) = (sequences.end, state.writer.next_sequence());
        if sequence > next_sequence {
            return Err(LogError::Ahead { sequence, next_sequence });
        }
        // First of all: what an earlier sync has covered stays acknowledged whatever came after it.
        while self.log.next_sequence() < sequences.end {
            let covered = state.running && sync <= state.begun;
            if !covered {
                state.writer.check_healthy()?;
            }
            if state.running {
                state = self.wait(sync, state);
            } else {
                state = self.sync(state)?;
                shown = true;
            }
        }
        Ok(Committed { sequences, file, offset, shown })
    }

    /// Syncs what is written by now, while others go on writing.
    fn sync<'w>(&'w self, mut state: MutexGuard<'w, State>) -> Result<MutexGuard<'w, State>, LogError> {
        let sync = state.writer.begin_sync();
        (state.begun, state.running) = (state.begun + 1, true);
        drop(state);
        let synced = sync.run();
        let mut state = self.lock();
        state.running = false;
        let ended = state.writer.end_sync(sync, synced);
        match ended {
            Ok(()) => {
                // All whom it covers, and one who runs the next.
                self.answered(state.begun).notify_all();
                self.answered(state.begun + 1).notify_one();
            }
            Err(_) => self.wake_all(),
        }
        ended.map(|()| state)
    }

    fn wait<'w>(&'w self, sync: u64, state: MutexGuard<'w, State>) -> MutexGuard<'w, State> {
        self.answered(sync).wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    fn answered(&self, sync: u64) -> &Condvar {
        &self.answered[(sync % 2) as usize]
    }

    fn wake_all(&self) {
        self.answered.iter().for_each(Condvar::notify_all);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hold<'_> {
    /// [`SharedWriter::roll`], for one that was made by [`SharedWriter::hold_still`].
    ///
    /// # Errors
    /// As [`SharedWriter::roll`].
    pub fn roll(&mut self) -> Result<bool, LogError> {
        let rolled = self.state.writer.begin_file();
        // It has synced for those who wait, or has failed them.
        self.shared.wake_all();
        rolled
    }

    /// Sequence number the next message gets.
    pub fn next_sequence(&self) -> u64 {
        self.state.writer.next_sequence()
    }

    /// Goes on with a later sequence number, in a new file, and forgets what is before it: all of that is kept elsewhere. The
    /// active file must hold no batch ([`Hold::roll`]), and who opens the log next must say that it begins there
    /// ([`LogOptions::first_sequence`](crate::LogOptions::first_sequence)). It cannot fail: a file that cannot be made now is
    /// made before the next batch is written.
    pub fn skip_to(&mut self, next_sequence: u64) {
        self.state.writer.skip_to(next_sequence);
    }

    /// Stops writing for good, until the log is opened anew: nobody knows where it goes on.
    pub fn give_up(&mut self, cause: String) {
        self.state.writer.give_up(cause);
        self.shared.wake_all();
    }
}

impl State {
    fn must_wait(&self, batch_bytes: usize) -> bool {
        self.running && self.writer.must_roll_for(batch_bytes)
    }
}

impl<'w> Turn<'w, '_> {
    /// The sequence number that the batch's first message gets if it is written now.
    pub fn next_sequence(&self) -> u64 {
        self.state.writer.next_sequence()
    }

    /// The ticket of the same batch where its producer has sent it before, or a later one: it is in the log, and writing it
    /// again would store it twice. What it says of the batch's place means nothing. Of a batch before the producer's last the
    /// sequence numbers are not known any more: they are the empty range where the last one begins.
    ///
    /// # Errors
    /// [`LogError::Resent`] when the last batch of its producer has its number and another content: it is not what was stored.
    pub fn sent_before(&self) -> Result<Option<Ticket>, LogError> {
        let Ok(header) = BatchHeader::parse(self.batch) else { return Ok(None) };
        match self.state.writer.producers().known(&header) {
            Known::New => Ok(None),
            Known::Stored(sequences) => {
                Ok(Some(Ticket { sequences, place: (0, 0), sync: self.state.begun + 1, shown: false }))
            }
            Known::Other => Err(LogError::Resent { producer_number: header.producer_number }),
        }
    }

    /// Numbers the messages of the batch and writes it.
    ///
    /// # Errors
    /// As [`LogWriter::append`].
    pub fn write(self) -> Result<Written<'w>, LogError> {
        let Self { shared, mut state, batch } = self;
        let (before, bytes) = (shared.log.next_sequence(), batch.len() as u64);
        let written = match state.writer.options().durability {
            Durability::Transient | Durability::Async => state.writer.append(batch),
            Durability::Sync => state.writer.append_no_sync(batch),
        };
        let shown = shared.log.next_sequence() > before;
        // Rolling has synced for those who wait, or has failed them; none of them runs a sync that would say so.
        if written.is_err() || shown && state.writer.options().durability == Durability::Sync {
            shared.wake_all();
        }
        let sequences = written?;
        let (file, end) = state.writer.place();
        let ticket = Ticket { sequences, place: (file, end - bytes), sync: state.begun + 1, shown };
        Ok(Written { shared, state, ticket })
    }
}

impl Written<'_> {
    /// The sequence numbers of the batch's messages.
    pub fn sequences(&self) -> Range<u64> {
        self.ticket.sequences()
    }

    /// Lets go of the lock and waits as [`SharedWriter::commit`] does.
    ///
    /// # Errors
    /// As [`SharedWriter::commit`].
    pub fn commit(self) -> Result<Committed, LogError> {
        self.shared.settle(self.state, self.ticket)
    }

    /// Lets go of the lock; the batch is acknowledged by [`SharedWriter::commit`] only.
    pub fn unlock(self) -> Ticket {
        self.ticket
    }
}

impl Ticket {
    /// The sequence numbers of the batch's messages.
    pub fn sequences(&self) -> Range<u64> {
        self.sequences.clone()
    }
}
