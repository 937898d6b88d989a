//! Group commit: many threads append to one log, and one sync acknowledges all batches written before it.

use crate::error::LogError;
use crate::log::Log;
use crate::options::Durability;
use crate::producers::Receipt;
use crate::writer::LogWriter;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use tapedb_codec::batch::BatchHeader;

/// A [`LogWriter`] that any number of threads append with. Each takes a [`turn`](Self::turn), writes its batch, releases
/// the lock and waits for [`commit`](Self::commit). One of the waiting threads syncs the file for all batches written
/// before the sync began; batches written during a sync wait for the next one.
///
/// Always true: at most one sync runs, and none while a file is rolled (of two syncs on one file, the system reports an
/// error to one only; a write that is taken back is synced beside it, and fails both if it fails). A sync covers what was
/// written before it began. A thread that waits for a later sync is woken to run it, or when its batch is acknowledged.
#[derive(Debug)]
pub struct SharedWriter {
    log: Arc<Log>,
    state: Mutex<State>,
    /// For threads that wait for a sync of even or odd number: at most two numbers are waited for at once.
    answered: [Condvar; 2],
}

#[derive(Debug)]
struct State {
    writer: LogWriter,
    /// Syncs that have begun; the last of them has this number.
    begun: u64,
    /// Whether that sync still runs.
    running: bool,
}

/// The lock, and a batch to write under it. No running sync conflicts with the write.
#[derive(Debug)]
pub struct Turn<'w, 'b> {
    shared: &'w SharedWriter,
    state: MutexGuard<'w, State>,
    batch: &'b mut [u8],
}

/// A written batch, with the lock: no other batch is written before it is released.
#[derive(Debug)]
pub struct Written<'w> {
    shared: &'w SharedWriter,
    state: MutexGuard<'w, State>,
    ticket: Ticket,
}

/// A batch that is written but not acknowledged, for [`SharedWriter::commit`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    sequences: Range<u64>,
    /// Where the batch begins: log file and offset.
    location: (u64, u64),
    /// Number of the sync that covers the batch at the latest.
    sync: u64,
    /// Whether the write made messages visible to readers.
    shown: bool,
}

/// A batch that is as durable as the log promises and visible to readers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The sequence numbers of its messages.
    pub sequences: Range<u64>,
    /// The log file it is in: the sequence number in the file's name.
    pub file: u64,
    /// Where it begins in the file.
    pub offset: u64,
    /// Whether this call made messages visible to readers, so that the caller must notify them. Of the calls that one
    /// sync acknowledges, it is true for one.
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

    /// Number and sequence numbers of a producer's last batch in the log: it continues with the next number.
    pub fn last_of(&self, producer: u64) -> Option<(u64, Range<u64>)> {
        let last = self.lock().writer.producers().last(producer)?;
        Some((last.number, last.first_sequence..last.next_sequence))
    }

    /// [`SharedWriter::last_of`] for a request, whose batches have numbers with the bit [`REQUEST`](crate::REQUEST).
    pub fn last_of_request(&self, producer: u64) -> Option<(u64, Range<u64>)> {
        let last = self.lock().writer.producers().last_of_request(producer)?;
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

    /// The turn to write `batch`, without waiting: `None` while another thread has it, and while a sync runs if the batch
    /// goes into a new file.
    pub fn try_turn<'w, 'b>(&'w self, batch: &'b mut [u8]) -> Option<Turn<'w, 'b>> {
        let state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        if state.must_wait(batch.len()) { None } else { Some(Turn { shared: self, state, batch }) }
    }

    /// Waits until a batch is as durable as the log promises; this thread may run the sync.
    ///
    /// # Errors
    /// [`LogError::Poisoned`] when the sync that covered it failed, or the writer stopped before: the batch may or may
    /// not be there at the next opening. [`LogError::Ahead`] for the ticket of another writer.
    pub fn commit(&self, ticket: Ticket) -> Result<Committed, LogError> {
        self.wait_for_commit(self.lock(), ticket)
    }

    /// Appends a batch: [`turn`](Self::turn), [`Turn::write`] and [`commit`](Self::commit).
    ///
    /// # Errors
    /// As [`LogWriter::append`].
    pub fn append(&self, batch: &mut [u8]) -> Result<Committed, LogError> {
        self.turn(batch).write()?.commit()
    }

    /// Begins a new file if the active one has batches, so that it is [complete](Log::complete_files); returns whether
    /// it had. Waits for a running sync. This can make messages visible to readers without a [`Committed::shown`]: after
    /// `true`, notify waiting readers.
    ///
    /// # Errors
    /// As [`LogWriter::append`]: after one that is not [`LogError::Poisoned`] nothing has changed.
    pub fn roll(&self) -> Result<bool, LogError> {
        self.hold_idle().roll()
    }

    /// Removes the complete files whose messages are all below `before`; returns their bytes. The log then begins with
    /// the first file that is left. Does not block writing, syncing, or readers that have such a file open. The next
    /// opening needs the new beginning ([`LogOptions::first_sequence`](crate::LogOptions)): store it, as durably as the
    /// log, before this call.
    ///
    /// # Errors
    /// When a file cannot be removed. It leaves the index all the same, and is removed when the log is next opened for
    /// writing.
    pub fn trim(&self, before: u64) -> Result<u64, LogError> {
        self.log.trim(before)
    }

    /// Sets [`LogOptions::file_bytes_max`](crate::LogOptions::file_bytes_max) for the batches to come.
    pub fn set_file_bytes_max(&self, bytes: u64) {
        self.lock().writer.set_file_bytes_max(bytes);
    }

    /// Blocks other writers. Syncs of written batches continue.
    pub fn hold(&self) -> Hold<'_> {
        Hold { shared: self, state: self.lock() }
    }

    /// [`LogWriter::close`], after a running sync; syncs batches that wait for one.
    ///
    /// # Errors
    /// As [`LogWriter::close`].
    pub fn close(&self) -> Result<(), LogError> {
        self.hold_idle().state.writer.close()
    }

    /// [`SharedWriter::hold`] when no sync runs, and none does while it is held.
    pub fn hold_idle(&self) -> Hold<'_> {
        let mut state = self.lock();
        while state.running {
            state = self.wait(state.begun, state);
        }
        Hold { shared: self, state }
    }

    fn wait_for_commit<'w>(
        &'w self,
        mut state: MutexGuard<'w, State>,
        ticket: Ticket,
    ) -> Result<Committed, LogError> {
        let Ticket { sequences, location: (file, offset), sync, mut shown } = ticket;
        let (sequence, next_sequence) = (sequences.end, state.writer.next_sequence());
        if sequence > next_sequence {
            return Err(LogError::Ahead { sequence, next_sequence });
        }
        // Checked first: a batch covered by an earlier sync is acknowledged even if a later one failed.
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

    /// Syncs what is written so far, while others continue to write.
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
                // All threads that it covers, and one that runs the next sync.
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
    /// [`SharedWriter::roll`], for one that was made by [`SharedWriter::hold_idle`].
    ///
    /// # Errors
    /// As [`SharedWriter::roll`].
    pub fn roll(&mut self) -> Result<bool, LogError> {
        let rolled = self.state.writer.begin_file();
        // The roll has synced for the waiting threads, or has failed them.
        self.shared.wake_all();
        rolled
    }

    /// Sequence number the next message gets.
    pub fn next_sequence(&self) -> u64 {
        self.state.writer.next_sequence()
    }

    /// Continues with a later sequence number in a new file, and drops the messages before it, which are stored elsewhere.
    /// The active file must hold no batch ([`Hold::roll`]), and the next opening must begin there
    /// ([`LogOptions::first_sequence`](crate::LogOptions::first_sequence)). Cannot fail: a file that cannot be created now
    /// is created before the next batch is written.
    pub fn skip_to(&mut self, next_sequence: u64) {
        self.state.writer.skip_to(next_sequence);
    }

    /// Stops writing until the log is opened again, because its end is in doubt.
    pub fn poison(&mut self, cause: String) {
        self.state.writer.stop(cause);
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

    /// The ticket of the stored batch if its producer has sent this batch, or a later one, before: writing it again would
    /// store it twice. The ticket's file and offset are 0. For a batch before the producer's last one the sequence numbers
    /// are no longer known: they are the empty range at the beginning of the last one.
    ///
    /// # Errors
    /// [`LogError::Resent`] when the producer's last batch has the same number and other content.
    pub fn sent_before(&self) -> Result<Option<Ticket>, LogError> {
        let Ok(header) = BatchHeader::parse(self.batch) else { return Ok(None) };
        match self.state.writer.producers().receipt(&header) {
            Receipt::New => Ok(None),
            Receipt::Stored(sequences) => {
                Ok(Some(Ticket { sequences, location: (0, 0), sync: self.state.begun + 1, shown: false }))
            }
            Receipt::Conflict => Err(LogError::Resent { producer_number: header.producer_number }),
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
        // A roll has synced for the waiting threads, or has failed them, and no sync wakes them.
        if written.is_err() || shown && state.writer.options().durability == Durability::Sync {
            shared.wake_all();
        }
        let sequences = written?;
        let (file, end) = state.writer.position();
        let ticket = Ticket { sequences, location: (file, end - bytes), sync: state.begun + 1, shown };
        Ok(Written { shared, state, ticket })
    }
}

impl Written<'_> {
    /// The sequence numbers of the batch's messages.
    pub fn sequences(&self) -> Range<u64> {
        self.ticket.sequences()
    }

    /// Releases the lock and waits as [`SharedWriter::commit`] does.
    ///
    /// # Errors
    /// As [`SharedWriter::commit`].
    pub fn commit(self) -> Result<Committed, LogError> {
        self.shared.wait_for_commit(self.state, self.ticket)
    }

    /// Releases the lock; the batch is acknowledged by [`SharedWriter::commit`] only.
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
