//! Many writers on one log, one sync for many, with kills, power cuts and failures in every operation: acknowledged and
//! visible messages are there, in order, once.

use crate::support::*;
use std::io::ErrorKind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use tapedb_codec::batch::{BatchBuilder, Rows};
use tapedb_log::sim::{SimStorage, Stop};
use tapedb_log::{Durability, Log, LogError, LogOptions, SharedWriter, Ticket};

const FILE_BYTES: u64 = 2_000;
const MESSAGES: u64 = 60;

/// One thread acts as many writers: while a sync runs, others write; how many and how much comes from the seed.
struct Play {
    writer: SharedWriter,
    random: AtomicU64,
    /// Sequence number after everything written.
    written: AtomicU64,
    /// Written while a sync ran, and not committed yet.
    waiting: Mutex<Vec<Ticket>>,
    /// Batches that were written while a sync ran, and those that had to wait for the next file.
    joined: AtomicU64,
    put_off: AtomicU64,
    /// The beginning of the log after the last trim.
    begin: AtomicU64,
}

impl Play {
    /// Runs until something fails or enough is written. `None`: the log could not be opened.
    fn run(disk: &SimStorage, seed: u64) -> Option<(Arc<Self>, u64)> {
        let (writer, _) = writer(disk, options(Durability::Sync, FILE_BYTES)).ok()?;
        let play = Arc::new(Self {
            writer: SharedWriter::new(writer),
            random: AtomicU64::new(seed),
            written: AtomicU64::new(0),
            waiting: Mutex::default(),
            joined: AtomicU64::new(0),
            put_off: AtomicU64::new(0),
            begin: AtomicU64::new(0),
        });
        let others = Arc::downgrade(&play);
        disk.during_sync(Some(Arc::new(move || {
            others.upgrade().inspect(|play| play.others_write());
        })));
        let acknowledged = play.write_and_commit();
        disk.during_sync(None);
        Some((play, acknowledged))
    }

    /// Returns the end of what was acknowledged.
    fn write_and_commit(&self) -> u64 {
        let mut acknowledged = 0;
        while self.written.load(Ordering::Relaxed) < MESSAGES {
            let mut batch = self.next_batch();
            let Ok(written) = self.writer.turn(&mut batch).write() else { break };
            let mut tickets = vec![self.record(written.unlock())];
            // With uncommitted messages, and in files that are not full.
            if self.random_below(8) == 0 && self.writer.roll().is_err() {
                break;
            }
            while !tickets.is_empty() {
                // The first one runs the sync for all.
                let next = self.random_below(tickets.len() as u64) as usize;
                if let Some(end) = self.commit(tickets.swap_remove(next)) {
                    acknowledged = acknowledged.max(end);
                }
                tickets.append(&mut self.waiting.lock().unwrap());
            }
        }
        acknowledged
    }

    fn commit(&self, ticket: Ticket) -> Option<u64> {
        match self.writer.commit(ticket) {
            Ok(committed) => {
                assert!(committed.sequences.end <= self.writer.log().next_sequence());
                Some(committed.sequences.end)
            }
            Err(LogError::Poisoned { .. }) => None,
            Err(other) => panic!("{other}"),
        }
    }

    fn others_write(&self) {
        if self.random_below(4) == 0 {
            self.trim();
        }
        for _ in 0..self.random_below(5) {
            let mut batch = self.next_batch();
            let Some(turn) = self.writer.try_turn(&mut batch) else {
                self.put_off.fetch_add(1, Ordering::Relaxed);
                return;
            };
            let Ok(written) = turn.write() else { return };
            let ticket = self.record(written.unlock());
            assert!(
                self.writer.log().next_sequence() <= ticket.sequences().start,
                "visible before it is synced"
            );
            self.joined.fetch_add(1, Ordering::Relaxed);
            self.waiting.lock().unwrap().push(ticket);
        }
    }

    /// Removes all but two complete files.
    fn trim(&self) {
        let files = self.writer.log().complete_files();
        if let Some(file) = files.iter().rev().nth(2) {
            self.begin.store(file.next_sequence, Ordering::Relaxed);
            // If it fails, the next opening does it.
            let _ = self.writer.trim(file.next_sequence);
        }
    }

    fn next_batch(&self) -> Vec<u8> {
        let first = self.written.load(Ordering::Relaxed);
        batch(first, 1 + self.random_below(3), 8 + self.random_below(200) as usize)
    }

    fn record(&self, ticket: Ticket) -> Ticket {
        assert_eq!(ticket.sequences().start, self.written.load(Ordering::Relaxed));
        self.written.store(ticket.sequences().end, Ordering::Relaxed);
        ticket
    }

    fn random_below(&self, bound: u64) -> u64 {
        let next = |x: u64| x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let random = next(self.random.load(Ordering::Relaxed));
        self.random.store(random, Ordering::Relaxed);
        (random >> 33) % bound
    }
}

/// The beginning of the log after a run, and the end of what must be there: acknowledged or visible messages.
fn owed(played: Option<(Arc<Play>, u64)>) -> (u64, u64) {
    played.map_or((0, 0), |(play, acknowledged)| {
        (play.begin.load(Ordering::Relaxed), acknowledged.max(play.writer.log().next_sequence()))
    })
}

/// All that must be there is, in order and once, and writing continues after it.
fn check_recovered(disk: &SimStorage, (begin, must): (u64, u64), seed: u64) {
    let options = LogOptions { first_sequence: begin, ..options(Durability::Sync, FILE_BYTES) };
    let (mut writer, recovery) = writer(disk, options).unwrap();
    let (found, end) = (read_all(writer.log()).sequences, writer.next_sequence());
    assert!(end >= must, "seed {seed}: {must} acknowledged or visible; {recovery}");
    assert!(found.iter().copied().eq(begin..end), "seed {seed}: {recovery}");
    assert!(recovery.damaged.is_empty(), "seed {seed}: {recovery}");
    assert_eq!(append(&mut writer, 2, 40).unwrap().start, end);
}

fn crash_everywhere(stop: Stop) {
    for round in 0..8 {
        let calm = SimStorage::new(round);
        let (play, acknowledged) = Play::run(&calm, round).unwrap();
        assert!(acknowledged >= MESSAGES && calm.paths().len() > 3, "the work must roll files");
        let (joined, put_off) = (&play.joined, &play.put_off);
        assert!(joined.load(Ordering::Relaxed) > 10 && put_off.load(Ordering::Relaxed) > 0);
        assert!(play.begin.load(Ordering::Relaxed) > 0, "the work must trim files");
        for operation in 1..=calm.operations() {
            let disk = SimStorage::new(round);
            disk.crash_at(operation);
            let played = Play::run(&disk, round);
            // Readers must see only what survives a power cut.
            let must = owed(played);
            disk.restart(stop);
            check_recovered(&disk, must, round * 1_000 + operation);
        }
    }
}

#[test]
fn a_power_cut_in_every_operation_takes_nothing_acknowledged_or_visible() {
    crash_everywhere(Stop::Power);
}

#[test]
fn a_kill_in_every_operation_takes_nothing_acknowledged_or_visible() {
    crash_everywhere(Stop::Kill);
}

/// A failed sync is not tried again, and bytes that the system dropped then are never acknowledged.
#[test]
fn a_failure_in_any_operation_acknowledges_nothing_that_a_power_cut_takes() {
    for round in 0..8 {
        let calm = SimStorage::new(round);
        Play::run(&calm, round).unwrap();
        for operation in 1..=calm.operations() {
            let disk = SimStorage::new(round);
            disk.fail_at(operation, ErrorKind::Other);
            let played = Play::run(&disk, round);
            let must = owed(played);
            disk.restart(Stop::Power);
            check_recovered(&disk, must, round * 1_000 + operation);
        }
    }
}

#[test]
fn a_failed_sync_fails_all_batches_that_it_covered_and_all_later_ones() {
    let disk = SimStorage::new(1);
    let (writer, _) = writer(&disk, options(Durability::Sync, 100_000)).unwrap();
    let shared = SharedWriter::new(writer);
    shared.append(&mut batch(0, 1, 8)).unwrap();
    let write = |first| shared.turn(&mut batch(first, 1, 8)).write().unwrap().unlock();
    let covered = [write(1), write(2), write(3)];
    disk.fail_at(disk.operations() + 1, ErrorKind::Other);
    for ticket in covered {
        assert!(matches!(shared.commit(ticket), Err(LogError::Poisoned { .. })));
    }
    let operations = disk.operations();
    assert!(matches!(shared.append(&mut batch(4, 1, 8)), Err(LogError::Poisoned { .. })));
    assert_eq!(disk.operations(), operations, "nothing is written or synced after a failed sync");
    assert_eq!(shared.log().next_sequence(), 1);
    assert_eq!(read_all(shared.log()).sequences, [0]);
}

/// A synced batch is acknowledged, even if another write has poisoned the writer in the meantime.
#[test]
fn what_a_sync_covered_is_acknowledged_even_if_another_write_fails() {
    let disk = SimStorage::new(2);
    let (writer, _) = writer(&disk, options(Durability::Sync, 100_000)).unwrap();
    let shared = Arc::new(SharedWriter::new(writer));
    let (other, faulty) = (Arc::clone(&shared), disk.clone());
    disk.during_sync(Some(Arc::new(move || {
        faulty.fail_truncate(true);
        faulty.fail_at(faulty.operations() + 1, ErrorKind::Other);
        let failed = other.try_turn(&mut batch(2, 1, 8)).unwrap().write().unwrap_err();
        assert!(matches!(failed, LogError::Poisoned { .. }));
    })));
    let [first, second] = [0, 1].map(|first| shared.turn(&mut batch(first, 1, 8)).write().unwrap().unlock());
    assert_eq!(shared.commit(second).unwrap().sequences, 1..2);
    disk.during_sync(None);
    assert!(matches!(shared.append(&mut batch(2, 1, 8)), Err(LogError::Poisoned { .. })));
    assert_eq!(shared.commit(first).unwrap().sequences, 0..1);
    disk.restart(Stop::Power);
    assert_eq!(read_all(&reader(&disk).0).sequences, [0, 1]);
}

/// Woken by the failure of another write, a thread waits again for the sync that covers its batch.
#[test]
fn a_thread_that_waits_for_a_running_sync_is_not_failed_by_another_write() {
    let disk = SimStorage::new(4);
    let (writer, _) = writer(&disk, options(Durability::Sync, 100_000)).unwrap();
    let shared = Arc::new(SharedWriter::new(writer));
    let [first, second] = [0, 1].map(|first| shared.turn(&mut batch(first, 1, 8)).write().unwrap().unlock());
    let waiting: Arc<Mutex<Option<thread::JoinHandle<_>>>> = Arc::default();
    let (other, faulty, slot, second) =
        (Arc::clone(&shared), disk.clone(), Arc::clone(&waiting), Mutex::new(Some(second)));
    disk.during_sync(Some(Arc::new(move || {
        let (shared, ticket) = (Arc::clone(&other), second.lock().unwrap().take().unwrap());
        let waiter = thread::spawn(move || shared.commit(ticket).map(|committed| committed.sequences));
        faulty.fail_truncate(true);
        faulty.fail_at(faulty.operations() + 1, ErrorKind::Other);
        assert!(other.turn(&mut batch(2, 1, 8)).write().is_err());
        // Lets the waiter run: if it took the failure for its own result, it would finish before the sync.
        (0..1_000).for_each(|_| thread::yield_now());
        assert!(!waiter.is_finished(), "it has a result before its sync has one");
        *slot.lock().unwrap() = Some(waiter);
    })));
    assert_eq!(shared.commit(first).unwrap().sequences, 0..1);
    disk.during_sync(None);
    let waiter = waiting.lock().unwrap().take().unwrap();
    assert_eq!(waiter.join().unwrap().unwrap(), 1..2);
}

/// A roll waits for the running sync, and syncs what was written in the meantime.
#[test]
fn a_roll_waits_for_a_sync_and_syncs_for_waiting_threads() {
    let disk = SimStorage::new(5);
    let (writer, _) = writer(&disk, options(Durability::Sync, 100_000)).unwrap();
    let shared = Arc::new(SharedWriter::new(writer));
    assert!(!shared.roll().unwrap());
    let first = shared.turn(&mut batch(0, 1, 8)).write().unwrap().unlock();
    let waiting: Arc<Mutex<Vec<thread::JoinHandle<bool>>>> = Arc::default();
    let (other, slot) = (Arc::clone(&shared), Arc::clone(&waiting));
    let second: Arc<Mutex<Option<Ticket>>> = Arc::default();
    let ticket = Arc::clone(&second);
    disk.during_sync(Some(Arc::new(move || {
        let mut ticket = ticket.lock().unwrap();
        if ticket.is_none() {
            *ticket = Some(other.turn(&mut batch(1, 1, 8)).write().unwrap().unlock());
            let shared = Arc::clone(&other);
            let rolling = thread::spawn(move || shared.roll().unwrap());
            (0..1_000).for_each(|_| thread::yield_now());
            assert!(!rolling.is_finished(), "it rolled a file that is being synced");
            slot.lock().unwrap().push(rolling);
        }
    })));
    assert_eq!(shared.commit(first).unwrap().sequences, 0..1);
    let rolling = waiting.lock().unwrap().pop().unwrap();
    disk.during_sync(None);
    assert!(rolling.join().unwrap());
    let second = second.lock().unwrap().take().unwrap();
    let operations = disk.operations();
    assert_eq!(shared.commit(second).unwrap().sequences, 1..2);
    assert_eq!(disk.operations(), operations, "rolling has synced it");
    let files = shared.log().complete_files();
    assert_eq!((files.len(), files[0].first_sequence, files[0].next_sequence), (1, 0, 2));
}

#[test]
fn a_full_disk_fails_its_own_batch_only() {
    let disk = SimStorage::new(3);
    let (writer, _) = writer(&disk, options(Durability::Sync, 100_000)).unwrap();
    let shared = SharedWriter::new(writer);
    let ticket = shared.turn(&mut batch(0, 1, 8)).write().unwrap().unlock();
    disk.set_capacity(Some(200));
    let full = shared.turn(&mut batch(1, 1, 300)).write().unwrap_err();
    assert!(matches!(full, LogError::Full { .. }));
    assert_eq!(shared.commit(ticket).unwrap().sequences, 0..1);
    disk.set_capacity(None);
    assert_eq!(shared.append(&mut batch(1, 1, 300)).unwrap().sequences, 1..2);
}

#[test]
fn a_ticket_of_another_writer_is_refused() {
    let open = |seed| writer(&SimStorage::new(seed), options(Durability::Sync, 100_000)).unwrap().0;
    let (one, other) = (SharedWriter::new(open(1)), SharedWriter::new(open(2)));
    let ticket = one.turn(&mut batch(0, 1, 8)).write().unwrap().unlock();
    assert!(matches!(other.commit(ticket), Err(LogError::Ahead { .. })));
}

const THREADS: u64 = 8;

/// A message with the number of its thread, and its number in that thread.
fn signed(thread: u64, number: u64) -> Vec<u8> {
    let (mut builder, mut out) = (BatchBuilder::new(), Vec::new());
    let body = [thread.to_le_bytes(), number.to_le_bytes()].concat();
    builder.push_bytes(1, 0, 0, &body).unwrap();
    builder.finish(1, &mut out);
    out
}

/// The numbers of each thread's messages, in the order in which they are in the log.
fn signatures(log: &Log) -> Vec<Vec<u64>> {
    let mut found = vec![Vec::new(); THREADS as usize];
    let (mut bytes, mut rows) = (Vec::new(), Rows::default());
    for granule in log.snapshot().iter() {
        log.read(granule, &mut bytes).unwrap();
        for batch in log.batches(&granule.span(), &bytes) {
            let batch = batch.unwrap();
            rows.load_parsed(&batch.header, batch.bytes).unwrap();
            let body = &batch.bytes[rows.body(0)];
            let [thread, number] = [0, 8].map(|at| u64::from_le_bytes(body[at..at + 8].try_into().unwrap()));
            found[thread as usize].push(number);
        }
    }
    found
}

/// Real threads, interleaved by the system. Returns how many messages of each were acknowledged.
fn write_concurrently(shared: &SharedWriter, each: u64) -> Vec<u64> {
    thread::scope(|scope| {
        let work =
            |thread| (0..each).take_while(|&n| shared.append(&mut signed(thread, n)).is_ok()).count() as u64;
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || work(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn concurrent_threads_lose_nothing_whenever_the_power_fails() {
    let mut cut_short = 0;
    for seed in 0..150 {
        let disk = SimStorage::new(seed);
        let (writer, _) = writer(&disk, options(Durability::Sync, FILE_BYTES)).unwrap();
        let shared = SharedWriter::new(writer);
        disk.during_sync(Some(Arc::new(thread::yield_now)));
        disk.crash_at(disk.operations() + 1 + seed * 2);
        let acknowledged = write_concurrently(&shared, 30);
        cut_short += u64::from(acknowledged.iter().sum::<u64>() < THREADS * 30);
        disk.restart(Stop::Power);
        let found = signatures(&reader(&disk).0);
        for (numbers, acknowledged) in found.iter().zip(acknowledged) {
            assert!(numbers.len() as u64 >= acknowledged, "seed {seed}");
            assert!(numbers.iter().copied().eq(0..numbers.len() as u64), "seed {seed}: {numbers:?}");
        }
    }
    assert!(cut_short > 20, "{cut_short}");
}

/// No other thread runs the sync that the second one waits for.
#[test]
fn a_thread_that_waits_for_the_next_sync_is_woken_to_run_it() {
    for seed in 0..20 {
        let disk = SimStorage::new(seed);
        let (writer, _) = writer(&disk, options(Durability::Sync, 100_000)).unwrap();
        let shared = Arc::new(SharedWriter::new(writer));
        let second: Arc<Mutex<Option<thread::JoinHandle<u64>>>> = Arc::default();
        let (joining, slot, during) = (Arc::clone(&shared), Arc::clone(&second), disk.clone());
        disk.during_sync(Some(Arc::new(move || {
            let mut slot = slot.lock().unwrap();
            if slot.is_none() {
                let (shared, before) = (Arc::clone(&joining), during.operations());
                let append = move || shared.append(&mut signed(1, 0)).unwrap().sequences.end;
                *slot = Some(thread::spawn(append));
                while during.operations() == before {
                    thread::yield_now();
                }
                // It releases the lock when it waits.
                drop(joining.hold());
            }
        })));
        assert_eq!(shared.append(&mut signed(0, 0)).unwrap().sequences, 0..1);
        let second = second.lock().unwrap().take().unwrap();
        assert_eq!(second.join().unwrap(), 2);
        disk.during_sync(None);
    }
}

#[test]
fn concurrent_threads_all_finish() {
    for durability in [Durability::Sync, Durability::Async] {
        let disk = SimStorage::new(9);
        let (writer, _) = writer(&disk, options(durability, FILE_BYTES)).unwrap();
        let shared = SharedWriter::new(writer);
        disk.during_sync(Some(Arc::new(thread::yield_now)));
        assert_eq!(write_concurrently(&shared, 200), [200; THREADS as usize]);
        assert_eq!(shared.log().next_sequence(), THREADS * 200);
        assert!(signatures(shared.log()).iter().all(|numbers| numbers.iter().copied().eq(0..200)));
    }
}
