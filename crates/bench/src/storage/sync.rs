//! Single messages from many writers, each on the disk when it is acknowledged; the disk alone; and the limit of group commit on
//! this disk, with as many threads that do nothing else.

use super::scratch::Scratch;
use super::steps::{check, from_each, rate, read_all};
use crate::fields::Fields;
use crate::pool::{Pool, Tally, plus};
use crate::report::Report;
use std::fs::File;
use std::io::{Seek, Write};
use std::path::Path;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;
use tapedb_engine::{Durability, Stream, StreamOptions};
use tapedb_market::Bar;
use tapedb_terminal::{Failure, Ui};

/// Writers; each waits for the disk after every message.
const WRITERS: u64 = 64;
/// Maximum messages, a thousand from each writer.
const MESSAGES_MAX: u64 = WRITERS * 1_000;
/// Maximum syncs of `disk.fdatasync`.
const DISK_SYNCS_MAX: u64 = 2_000;

/// Many writers of single messages; then the disk alone: the same bytes, each append followed by a sync; then as many writers of
/// bytes that share syncs.
pub fn measure(
    scratch: &Scratch,
    pool: &Pool<Bar>,
    messages: u64,
    report: &mut Report,
    ui: &Ui,
) -> Result<(), Failure> {
    let each = messages.clamp(WRITERS, MESSAGES_MAX) / WRITERS;
    let options = StreamOptions { durability: Durability::Sync, ..StreamOptions::default() };
    let stream = scratch.stream::<Bar>("sync", options)?;
    let started = Instant::now();
    let tallies = from_each(WRITERS, |writer| load_singly(&stream, pool, writer, each, ui));
    rate(report, "load.sync", WRITERS * each, started);
    let mut expected = Tally::default();
    for tally in tallies {
        expected = expected.and(tally?);
    }
    check(&stream, expected, read_all::<Bar>(&stream)?)?;
    let message_bytes = stream.stats()?.bytes / expected.messages;
    let syncs = expected.messages.min(DISK_SYNCS_MAX);
    let syncs_per_second = disk_syncs_per_second(&scratch.path.join("fdatasync"), message_bytes, syncs)?;
    report.add("disk.fdatasync", "rate", "syncs/s", syncs_per_second);
    let path = scratch.path.join("group-commit");
    report.add(
        "disk.group-commit",
        "rate",
        "messages/s",
        group_commit(&path, message_bytes, WRITERS * each)?,
    );
    scratch.db.delete_stream("sync")?;
    Ok(())
}

/// Loads the writer's messages of the pool: one of every `WRITERS`.
fn load_singly(stream: &Stream, pool: &Pool<Bar>, writer: u64, each: u64, ui: &Ui) -> Result<Tally, Failure> {
    let mut loader = stream.loader()?;
    let own = pool.messages.iter().skip(writer as usize).step_by(WRITERS as usize);
    let mut loaded = Tally::default();
    for (time, symbol, record) in own.cycle().take(each as usize) {
        ui.check_interrupt()?;
        loader.append(symbol, *time, record)?;
        loader.flush()?;
        loaded.add(*time, record.fold(plus));
    }
    Ok(loaded)
}

/// A new file, preallocated with zeros on the disk: faster to write and sync than a file that grows.
fn preallocated(path: &Path, bytes: u64) -> std::io::Result<File> {
    let mut file = File::create(path)?;
    file.write_all(&vec![0; bytes as usize])?;
    file.sync_all()?;
    file.rewind()?;
    Ok(file)
}

/// Appends of `bytes` with a sync each that this disk does in a second, in a preallocated file.
fn disk_syncs_per_second(path: &Path, bytes: u64, syncs: u64) -> Result<f64, Failure> {
    let failed = |error| Failure::new(format!("{}: {error}; check the disk", path.display()));
    let mut file = preallocated(path, bytes * syncs).map_err(failed)?;
    let message = vec![0x5a; bytes as usize];
    let started = Instant::now();
    for _ in 0..syncs {
        file.write_all(&message).and_then(|()| file.sync_data()).map_err(failed)?;
    }
    let rate = syncs as f64 / started.elapsed().as_secs_f64();
    std::fs::remove_file(path).map_err(failed)?;
    Ok(rate)
}

/// A file and its progress. One thread at a time syncs, for all threads that have written before.
struct Group {
    file: File,
    state: Mutex<Progress>,
    synced: Condvar,
}

#[derive(Default)]
struct Progress {
    written: u64,
    synced: u64,
    is_syncing: bool,
}

impl Group {
    /// Appends, and returns when the bytes are on the disk.
    fn append(&self, bytes: &[u8]) -> std::io::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        (&self.file).write_all(bytes)?;
        state.written += 1;
        let own = state.written;
        while state.synced < own {
            if state.is_syncing {
                state = self.synced.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.is_syncing = true;
            let written = state.written;
            drop(state);
            let result = self.file.sync_data();
            state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.is_syncing = false;
            // A thread that wakes up and finds its bytes not synced tries itself, and gets the error.
            self.synced.notify_all();
            result?;
            state.synced = written;
        }
        Ok(())
    }
}

/// Messages a second that [`WRITERS`] threads write to this disk if they only append bytes and share syncs: an upper limit for a
/// database with group commit.
fn group_commit(path: &Path, bytes: u64, messages: u64) -> Result<f64, Failure> {
    let failed = |error| Failure::new(format!("{}: {error}; check the disk", path.display()));
    let file = preallocated(path, bytes * messages).map_err(failed)?;
    let group = Group { file, state: Mutex::default(), synced: Condvar::new() };
    let message = vec![0x5a; bytes as usize];
    let each = messages / WRITERS;
    let started = Instant::now();
    let results = from_each(WRITERS, |_| (0..each).try_for_each(|_| group.append(&message)));
    let rate = messages as f64 / started.elapsed().as_secs_f64();
    results.into_iter().collect::<Result<(), _>>().map_err(failed)?;
    std::fs::remove_file(path).map_err(failed)?;
    Ok(rate)
}
