//! A program that works on a database, one call after the other, from a seed, and records what was acknowledged.

use super::ledger::{Fate, Found, Ledger, Row, is_damage, next_sequences};
use crate::support::{Columns, Quote, Random, Tick, schema, strands};
use std::sync::Arc;
use std::time::Duration;
use tapedb_codec::{Record, SchemaBuilder};
use tapedb_engine::{
    Access, Cursor, Database, Durability, Error, Loader, LogError, NotFound, Retention, Stream,
    StreamOptions, forced,
};
use tapedb_log::sim::{SimStorage, Stop};
use tapedb_schema::Timestamp;

const PATH: &str = "/home/db";
/// Streams that always exist; the third is created, deleted and renamed.
const STREAMS: [(&str, Durability, u32); 4] = [
    ("a", Durability::Async, 2),
    ("s", Durability::Sync, 1),
    ("t", Durability::Sync, 1),
    ("m", Durability::Transient, 1),
];
const PASSING: usize = 2;
const NAMES: [&str; 2] = ["t", "u"];
/// A batch, or two small ones, so that there are many files.
const FILE_BYTES: u64 = 400;

/// The disk, the database on it, and what is expected of it.
pub struct World {
    pub disk: SimStorage,
    random: Random,
    /// Declared before the database, which they keep open.
    live: Option<Live>,
    writers: Vec<Writer>,
    db: Option<Database>,
    ledgers: Vec<Ledger>,
    /// What stopped the database since it was opened.
    stopped: Option<Stop>,
    /// Number of errors that may occur: an operation of the disk is to fail, or several.
    errors_due: u32,
    /// Errors that were seen.
    pub errors: u32,
    /// Calls that not every run makes.
    pub done: Vec<&'static str>,
    number: u64,
    clock: i64,
}

struct Writer {
    stream: usize,
    space: u32,
    loader: Loader,
    pending: Vec<Row>,
}

/// A live cursor, and its position in each space.
struct Live {
    cursor: Cursor,
    next: [Vec<usize>; 2],
}

/// A type that only a later schema has.
#[derive(Record, Debug, Default)]
#[record(message)]
struct Extra {
    level: u8,
}

/// A stream and the name under which it is found: of two, if it may have been renamed.
fn find(db: &Database, ledger: &Ledger) -> Result<(&'static str, Stream), Error> {
    let named = |name: &'static str| db.stream(name).map(|stream| (name, stream));
    match (named(ledger.name), ledger.renamed) {
        (Err(Error::NotFound(NotFound::Stream { .. })), Some(renamed)) => named(renamed),
        (found, _) => found,
    }
}

/// The process has been stopped by the disk.
pub struct Down;

impl World {
    pub fn new(seed: u64, disk: SimStorage, errors_due: u32) -> Self {
        let ledgers = STREAMS.map(|(name, durability, spaces)| {
            let file_bytes_max = FILE_BYTES;
            let options = StreamOptions { durability, spaces, file_bytes_max, ..StreamOptions::default() };
            Ledger::new(name, options)
        });
        Self {
            disk,
            random: Random::from_seed(seed),
            live: None,
            writers: Vec::new(),
            db: None,
            ledgers: ledgers.into(),
            stopped: None,
            errors_due,
            errors: 0,
            done: Vec::new(),
            number: 0,
            clock: 1_000,
        }
    }

    /// Makes one call, or a few.
    pub fn step(&mut self) -> Result<(), Down> {
        let done = match self.random.below(39) {
            0..=12 => self.load(),
            13..=15 => self.flush_one(),
            16..=17 => self.seal(),
            18 => self.fill(),
            19..=21 => self.delete(),
            22 => self.truncate_or_clear(),
            23 => self.purge(),
            24 => self.alter(),
            25 => self.look(),
            26..=27 => self.read_live(),
            28..=29 => self.create_or_delete(),
            30 => self.change_schema(),
            31 => self.rename(),
            32..=33 => self.rewrite(),
            34..=35 => self.rename_symbol(),
            _ => self.reopen(),
        };
        done.or_else(|error| self.bear(&error))
    }

    /// An error must be caused by the disk, and be clear. A stopped writer is opened again, after a restart of the machine.
    fn bear(&mut self, error: &Error) -> Result<(), Down> {
        if self.disk.is_down() {
            return Err(Down);
        }
        assert!(self.errors_due > 0, "nothing failed, and yet: {error}");
        self.errors_due -= 1;
        self.errors += 1;
        assert!(error.to_string().contains('/'), "it names no file: {error}");
        if matches!(error, Error::Log(error) if matches!(**error, LogError::Poisoned { .. })) {
            self.stop(Stop::Power);
        }
        Ok(())
    }

    /// The process dies, or the power fails.
    pub fn stop(&mut self, stop: Stop) {
        self.disk.stop();
        self.close();
        self.disk.restart(stop);
        self.errors_due = 0;
        // No process has opened it since the last power cut.
        self.stopped = self.stopped.filter(|before| *before == Stop::Power).or(Some(stop));
    }

    /// Makes everything readable again, and repeats what failed.
    pub fn repair(&mut self) {
        self.disk.make_readable();
        self.errors_due = 0;
        for stream in 0..STREAMS.len() {
            if self.ledgers[stream].exists != Fate::Gone {
                let again = self.look_at(stream).and_then(|()| self.seal_stream(stream));
                again.and_then(|()| self.look_at(stream)).unwrap_or_else(|error| panic!("{error}"));
            }
        }
        self.read_live().unwrap_or_else(|error| panic!("{error}"));
    }

    /// How many parts of sealed history are larger than any file was.
    pub fn merged_parts(&self) -> usize {
        let manifests = self.disk.paths().into_iter().filter(|path| path.ends_with("manifest"));
        let texts = manifests.filter_map(|path| String::from_utf8(self.disk.content(&path)?).ok());
        let is_large = |line: &&str| match line.split(' ').collect::<Vec<_>>()[..] {
            ["part", start, end, _, ..] => end.parse::<u64>().unwrap() - start.parse::<u64>().unwrap() > 20,
            _ => false,
        };
        texts.map(|text| text.lines().filter(is_large).count()).sum()
    }

    fn close(&mut self) {
        (self.live, self.db) = (None, None);
        self.writers.clear();
        self.ledgers.iter_mut().for_each(Ledger::end_process);
    }

    /// Opens the database and compares its content with what must exist.
    pub fn check_all(&mut self) {
        self.close();
        self.check_beside();
        let opened = self.open().map(drop);
        opened.unwrap_or_else(|error| panic!("{error}"));
    }

    /// Reads as another process, before a writer repairs anything.
    fn check_beside(&self) {
        let Ok(db) = Database::open_on(Arc::new(self.disk.clone()), PATH, Access::Read) else { return };
        for ledger in &self.ledgers {
            match find(&db, ledger).map(|(_, stream)| stream) {
                // What is in the memory of another process cannot be read.
                Ok(_) if ledger.is_transient() && ledger.exists != Fate::Gone => {}
                Ok(stream) if ledger.exists != Fate::Gone => {
                    ledger.check(&Found::read(&stream, 0).unwrap(), self.stopped);
                }
                Ok(_) => panic!("{} was deleted and is there", ledger.name),
                Err(Error::NotFound(NotFound::Stream { .. })) => {
                    assert!(ledger.exists != Fate::There, "{}", ledger.name)
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// The database; opened, and compared with what is expected, if it is not open.
    fn open(&mut self) -> Result<Database, Error> {
        if let Some(db) = &self.db {
            return Ok(db.clone());
        }
        let db = Database::open_on(Arc::new(self.disk.clone()), PATH, Access::WriteWithoutMaintenance)?;
        let mut found = Vec::new();
        for ledger in &self.ledgers {
            found.push(match find(&db, ledger) {
                Ok((name, stream)) => Some((name, Found::read(&stream, 0)?)),
                Err(Error::NotFound(NotFound::Stream { .. })) => None,
                Err(error) => return Err(error),
            });
        }
        for (ledger, found) in self.ledgers.iter_mut().zip(&found) {
            match found {
                Some((name, found)) => {
                    (ledger.name, ledger.renamed) = (name, None);
                    assert!(ledger.exists != Fate::Gone, "{} was deleted and is there", ledger.name);
                    ledger.check(found, self.stopped);
                    let gone = ledger.settle(found);
                    self.done.extend((gone > 0).then_some("expired"));
                    let options = db.stream(ledger.name)?.options();
                    assert!(ledger.options.contains(&options), "{options:?}: {ledger:?}");
                    ledger.options = vec![options];
                    ledger.exists = Fate::There;
                }
                None => {
                    assert!(ledger.exists != Fate::There, "{} is gone", ledger.name);
                    ledger.renew();
                }
            }
        }
        self.stopped = None;
        self.db = Some(db.clone());
        Ok(db)
    }

    fn stream(&mut self, stream: usize) -> Result<Stream, Error> {
        let db = self.open()?;
        if self.ledgers[stream].exists == Fate::There {
            return db.stream(self.ledgers[stream].name);
        }
        let options = self.ledgers[stream].options[0];
        let created = db.create_stream(self.ledgers[stream].name, schema(), options);
        if created.is_err() {
            self.ledgers[stream].exists = Fate::Doubtful;
            self.close_in_order()?;
        } else {
            self.ledgers[stream].renew();
            self.ledgers[stream].exists = Fate::There;
        }
        created
    }

    fn any_stream(&mut self) -> Result<usize, Error> {
        let stream = *self.random.pick(&[0, 0, 0, 0, 1, 1, 1, PASSING, 3]);
        self.stream(stream)?;
        Ok(stream)
    }

    fn load(&mut self) -> Result<(), Error> {
        let stream = self.any_stream()?;
        let space = self.random.below(self.ledgers[stream].lanes.len()) as u32;
        let of_space = |writer: &Writer| (writer.stream, writer.space) == (stream, space);
        let open = self.writers.iter().filter(|writer| of_space(writer)).count();
        if open < 1 + self.random.below(2) {
            let loader = self.stream(stream)?.loader_in(space)?;
            self.writers.push(Writer { stream, space, loader, pending: Vec::new() });
        }
        for _ in 0..1 + self.random.below(6) {
            let ours: Vec<usize> =
                (0..self.writers.len()).filter(|at| of_space(&self.writers[*at])).collect();
            let at = *self.random.pick(&ours);
            if self.random.chance(4) {
                self.append_columns(at)?;
            }
            for _ in 0..1 + self.random.below(4) {
                self.append(at)?;
            }
            if !self.random.chance(5) {
                self.flush(at)?;
            }
        }
        Ok(())
    }

    fn append(&mut self, at: usize) -> Result<(), Error> {
        self.clock += self.random.below(50) as i64;
        let back = if self.random.chance(6) { 200 } else { 0 };
        let (number, time) = (self.number, self.clock - back);
        let symbol = format!("S{}", (number / 5) % 40);
        let writer = &mut self.writers[at];
        self.number += 1;
        if number.is_multiple_of(3) {
            writer.loader.append(&symbol, Timestamp(time), &Quote::of(number))?;
        } else {
            writer.loader.append(&symbol, Timestamp(time), &Tick::of(number))?;
        }
        writer.pending.push(Row { number, time, symbol, fate: Fate::There });
        Ok(())
    }

    /// Appends messages of one type at once, as one batch of columns: the loader's batches of rows are smaller.
    fn append_columns(&mut self, at: usize) -> Result<(), Error> {
        self.flush(at)?;
        let (are_quotes, count) = (self.random.chance(2), 40 + self.random.below(80));
        let mut rows = Vec::new();
        while rows.len() < count {
            let (number, symbol) = (self.number, format!("S{}", (self.number / 5) % 40));
            self.number += 1;
            self.clock += i64::from(number % 7 == 0);
            if number.is_multiple_of(3) == are_quotes {
                let time = self.clock - if number % 31 == 0 { 200 } else { 0 };
                rows.push(Row { number, time, symbol, fate: Fate::There });
            }
        }
        let columns = Columns::of(rows.iter().map(|row| (row.time, row.symbol.as_str(), row.number)));
        let writer = &mut self.writers[at];
        writer.loader.set_batch_bytes(1 << 10);
        let appended = match are_quotes {
            true => columns.append_quotes(&mut writer.loader),
            false => columns.append_ticks(&mut writer.loader),
        };
        writer.pending = rows;
        let written = self.written(at, appended.map(|_| None));
        // If the call failed, the loader has none of them.
        self.writers[at].pending.clear();
        written
    }

    fn flush(&mut self, at: usize) -> Result<(), Error> {
        let flushed = self.writers[at].loader.flush();
        self.written(at, flushed.map(Some))
    }

    /// The pending messages of a writer have been written, or are not all there; `Ok` has the number after the last, if known.
    fn written(&mut self, at: usize, flushed: Result<Option<u64>, Error>) -> Result<(), Error> {
        let writer = &mut self.writers[at];
        let lane = &mut self.ledgers[writer.stream].lanes[writer.space as usize];
        let may_be_there = match &flushed {
            Ok(_) => true,
            Err(Error::Log(error)) => matches!(**error, LogError::Poisoned { .. }) || self.disk.is_down(),
            Err(_) => self.disk.is_down(),
        };
        if may_be_there {
            lane.rows.append(&mut writer.pending);
        }
        if let Ok(next) = &flushed {
            lane.acknowledged = lane.rows.len();
            assert!(next.is_none_or(|next| next as usize <= lane.acknowledged));
        }
        flushed.map(drop)
    }

    /// So many files that they are merged.
    fn fill(&mut self) -> Result<(), Error> {
        let stream = self.any_stream()?;
        let loader = self.stream(stream)?.loader_in(0)?;
        self.writers.push(Writer { stream, space: 0, loader, pending: Vec::new() });
        let at = self.writers.len() - 1;
        for _ in 0..9 {
            for _ in 0..4 {
                self.append(at)?;
            }
            self.flush(at)?;
        }
        self.seal_stream(stream)
    }

    fn flush_one(&mut self) -> Result<(), Error> {
        if self.writers.is_empty() {
            return Ok(());
        }
        let at = self.random.below(self.writers.len());
        self.flush(at)
    }

    fn seal(&mut self) -> Result<(), Error> {
        let stream = self.any_stream()?;
        self.seal_stream(stream)
    }

    fn seal_stream(&mut self, stream: usize) -> Result<(), Error> {
        let handle = self.stream(stream)?;
        let sealed = match self.random.chance(2) {
            true => forced::in_strands(strands(&mut self.random), || handle.seal()),
            false => handle.seal(),
        };
        self.ledgers[stream].expire();
        sealed?;
        for lane in &mut self.ledgers[stream].lanes {
            lane.sealed = lane.acknowledged;
        }
        Ok(())
    }

    fn delete(&mut self) -> Result<(), Error> {
        let stream = self.any_stream()?;
        let from = self.clock - self.random.below(1_500) as i64;
        let times = (from, from + self.random.below(400) as i64);
        let symbols: Option<Vec<String>> = self
            .random
            .chance(2)
            .then(|| (0..1 + self.random.below(4)).map(|_| format!("S{}", self.random.below(40))).collect());
        let deleted = self.stream(stream)?.delete(Timestamp(times.0)..=Timestamp(times.1), symbols.as_ref());
        let fate = if deleted.is_ok() { Fate::Gone } else { Fate::Doubtful };
        self.ledgers[stream].delete(times, symbols.as_deref(), fate);
        deleted
    }

    /// Replaces messages by others. The result of a failure is found when the database is opened.
    fn rewrite(&mut self) -> Result<(), Error> {
        let stream = self.any_stream()?;
        if self.ledgers[stream].options[0].durability == Durability::Transient {
            return Ok(());
        }
        let space = self.random.below(self.ledgers[stream].lanes.len());
        for at in 0..self.writers.len() {
            self.flush(at)?;
        }
        let from = self.clock - self.random.below(1_500) as i64;
        let times = (from, from + self.random.below(400) as i64);
        let symbols: Option<Vec<String>> = self.random.chance(2).then(|| vec!["S1".into(), "S7".into()]);
        let handle = self.stream(stream)?;
        let range = Timestamp(times.0)..=Timestamp(times.1);
        let mut rewriter = handle.rewrite_in(space as u32, range, symbols.as_ref())?;
        let mut new = Vec::new();
        for _ in 0..self.random.below(6) {
            let time = times.0 + self.random.below((times.1 - times.0) as usize + 1) as i64;
            let symbol = ["S1", "S7"][self.random.below(2)].to_string();
            let number = self.number;
            self.number += 1;
            match number.is_multiple_of(3) {
                true => rewriter.append(&symbol, Timestamp(time), &Quote::of(number))?,
                false => rewriter.append(&symbol, Timestamp(time), &Tick::of(number))?,
            }
            new.push(Row { number, time, symbol, fate: Fate::There });
        }
        let committed = rewriter.commit();
        self.ledgers[stream].rewrite(space, times, symbols.as_deref(), new, committed.is_ok());
        if committed.is_err() {
            self.close();
        }
        committed.map(drop)
    }

    fn truncate_or_clear(&mut self) -> Result<(), Error> {
        let stream = self.any_stream()?;
        let from = self.clock - self.random.below(600) as i64;
        let clears = self.random.chance(4);
        let handle = self.stream(stream)?;
        let deleted = if clears { handle.clear() } else { handle.truncate(Timestamp(from)) };
        let fate = if deleted.is_ok() { Fate::Gone } else { Fate::Doubtful };
        self.ledgers[stream].delete((if clears { i64::MIN } else { from }, i64::MAX), None, fate);
        deleted
    }

    fn purge(&mut self) -> Result<(), Error> {
        let stream = self.any_stream()?;
        let before = self.clock - self.random.below(2_000) as i64;
        let purged = self.stream(stream)?.purge(Timestamp(before));
        let fate = if purged.is_ok() { Fate::Gone } else { Fate::Doubtful };
        self.ledgers[stream].delete((i64::MIN, before - 1), None, fate);
        purged
    }

    /// Changes how files are kept, and what is purged when they are sealed.
    fn alter(&mut self) -> Result<(), Error> {
        let stream = self.any_stream()?;
        let handle = self.stream(stream)?;
        let file_bytes_max = *self.random.pick(&[FILE_BYTES, 2 * FILE_BYTES]);
        let cold_after = self.random.chance(3).then_some(Duration::ZERO);
        let retention = *self.random.pick(&[
            Retention::default(),
            Retention { age: Some(Duration::from_nanos(700)), bytes: None },
            Retention { age: None, bytes: Some(3_000) },
        ]);
        let retention = if self.ledgers[stream].is_transient() { Retention::default() } else { retention };
        let options = StreamOptions { file_bytes_max, cold_after, retention, ..handle.options() };
        let altered = handle.alter(options);
        match &altered {
            Ok(()) => self.ledgers[stream].options = vec![options],
            Err(_) => self.ledgers[stream].options.push(options),
        }
        altered
    }

    fn look(&mut self) -> Result<(), Error> {
        let stream = self.any_stream()?;
        self.look_at(stream)
    }

    /// A cursor continues after an error.
    fn look_at(&mut self, stream: usize) -> Result<(), Error> {
        let found = Found::read(&self.stream(stream)?, self.errors_due.min(3))?;
        self.ledgers[stream].check(&found, None);
        for error in &found.refused {
            assert!(self.bear(error).is_ok(), "the disk is there");
        }
        Ok(())
    }

    fn read_live(&mut self) -> Result<(), Error> {
        let streams = [self.stream(0)?, self.stream(1)?];
        let Some(live) = &mut self.live else {
            let cursor = self.open()?.cursor(["a", "s"])?.skip_history().open()?;
            let next = [next_sequences(&streams[0])?, next_sequences(&streams[1])?];
            self.live = Some(Live { cursor, next });
            return Ok(());
        };
        loop {
            let message = match live.cursor.next() {
                Ok(Some(message)) => message,
                Ok(None) => break,
                // The loss by an earlier power cut is reported when its segment is read.
                Err(error) if is_damage(&error) && self.ledgers.iter().any(Ledger::has_holes) => continue,
                Err(error) => return Err(error),
            };
            let stream = usize::from(message.stream_name() == "s");
            let (space, sequence) = (message.space() as usize, message.sequence() as usize);
            let rows = &self.ledgers[stream].lanes[space].rows;
            let next = &mut live.next[stream][space];
            assert!((*next..rows.len()).contains(&sequence), "{sequence} comes where {next} is next");
            assert_eq!(rows[sequence].number, crate::support::number_of(&message));
            assert!(rows[*next..sequence].iter().all(|row| row.fate != Fate::There), "live from {next}");
            *next = sequence + 1;
        }
        for (ledger, next) in self.ledgers.iter().zip(&mut live.next) {
            for (lane, next) in ledger.lanes.iter().zip(next) {
                let left = &lane.rows[(*next).min(lane.acknowledged)..lane.acknowledged];
                assert!(left.iter().all(|row| row.fate != Fate::There), "{}: live from {next}", ledger.name);
            }
        }
        Ok(())
    }

    fn create_or_delete(&mut self) -> Result<(), Error> {
        let db = self.open()?;
        if self.ledgers[PASSING].exists == Fate::Gone {
            return self.stream(PASSING).map(drop);
        }
        for at in 0..self.writers.len() {
            if self.writers[at].stream == PASSING {
                self.flush(at)?;
            }
        }
        self.writers.retain(|writer| writer.stream != PASSING);
        let deleted = db.delete_stream(self.ledgers[PASSING].name);
        if deleted.is_ok() {
            self.ledgers[PASSING].renew();
        } else {
            self.ledgers[PASSING].exists = Fate::Doubtful;
            self.close_in_order()?;
        }
        deleted
    }

    /// Type ids change; open handles of the stream continue.
    fn change_schema(&mut self) -> Result<(), Error> {
        let stream = self.any_stream()?;
        let handle = self.stream(stream)?;
        let orders = [
            SchemaBuilder::new().with::<Extra>().with::<Quote>().with::<Tick>().finish(),
            SchemaBuilder::new().with::<Quote>().with::<Extra>().with::<Tick>().finish(),
        ];
        let [new, other] = orders;
        let new = if *handle.schema() == new { other } else { new };
        self.open()?.change_schema(self.ledgers[stream].name, new)?;
        self.done.push("schema changed");
        Ok(())
    }

    /// Gives the third stream its other name.
    fn rename(&mut self) -> Result<(), Error> {
        self.stream(PASSING)?;
        for at in 0..self.writers.len() {
            if self.writers[at].stream == PASSING {
                self.flush(at)?;
            }
        }
        self.writers.retain(|writer| writer.stream != PASSING);
        let db = self.open()?;
        let old = self.ledgers[PASSING].name;
        let new = if old == NAMES[0] { NAMES[1] } else { NAMES[0] };
        let renamed = db.rename_stream(old, new).map(drop);
        if renamed.is_ok() {
            self.ledgers[PASSING].name = new;
            self.done.push("renamed");
        } else {
            self.ledgers[PASSING].renamed = Some(new);
            self.close_in_order()?;
        }
        renamed
    }

    /// Renames a symbol of a stream: in stored messages, in waiting ones, and for readers.
    fn rename_symbol(&mut self) -> Result<(), Error> {
        let stream = self.any_stream()?;
        let rows = self.ledgers[stream].lanes.iter().flat_map(|lane| &lane.rows[..lane.acknowledged]);
        let known: Vec<&Row> =
            rows.filter(|row| row.fate == Fate::There && !row.symbol.starts_with('?')).collect();
        if known.is_empty() {
            return Ok(());
        }
        let old = self.random.pick(&known).symbol.clone();
        let new = format!("R{}", self.number);
        self.number += 1;
        let renamed = self.stream(stream)?.rename_symbol(&old, &new);
        match &renamed {
            Ok(()) => {
                self.ledgers[stream].rename_symbol(&old, &new);
                let pending = self.writers.iter_mut().filter(|writer| writer.stream == stream);
                let rows = pending.flat_map(|writer| &mut writer.pending).filter(|row| row.symbol == old);
                rows.for_each(|row| row.symbol.clone_from(&new));
                self.done.push("symbol renamed");
            }
            Err(_) => self.ledgers[stream].respelled = Some((old, new)),
        }
        renamed
    }

    /// Closes the database in order, and opens it.
    fn reopen(&mut self) -> Result<(), Error> {
        self.close_in_order()?;
        self.open().map(drop)
    }

    fn close_in_order(&mut self) -> Result<(), Error> {
        for at in 0..self.writers.len() {
            self.flush(at)?;
        }
        self.close();
        Ok(())
    }
}
