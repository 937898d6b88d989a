//! Publishes one record type of a stream to one table, range by range.
//!
//! Always true: rows and the sequence numbers that count them are in one commit, which goes from the progress that the range began with.
//! So a range is in the table once, whichever process is killed when, and however many publish at the same time.

use crate::columns::{Columns, HEADER};
use crate::error::{Error, check_interrupt};
use crate::fields::Schema;
use crate::format::{Removed, Step, Version};
use crate::place::Place;
use crate::progress::{Progress, checksum, new_commit};
use crate::rows::Rows;
use crate::schema::{self, Misfits};
use crate::sealed::{Range, Sealed};
use crate::settings::Options;
use crate::stale::{self, Stale};
use crate::table::{Outcome, Table, check_rows, dropped};
use crate::target::Target;
use crate::write::Writer;
use std::time::{Duration, Instant};
use tapedb_arrow::{BatchReader, Decimals, ReadOptions, record_schema};
use tapedb_engine::{CursorBuilder, Database, Durability, Stream};
use tapedb_schema::{RecordType, Timestamp};

/// Rows of a batch that is read.
const BATCH_ROWS: usize = 65_536;

/// Bytes of a row in a file, until one has been written.
const ROW_BYTES: f64 = 12.0;

/// A commit has about so many files of the whole size, where so much waits.
const FILES_OF_COMMIT: f64 = 4.0;

/// Keeps a table of one record type of a stream.
#[derive(Debug)]
pub struct Publisher {
    pub(crate) db: Database,
    pub(crate) stream: Stream,
    pub(crate) record: RecordType,
    pub(crate) options: Options,
    pub(crate) table: Table,
    pub(crate) columns: Columns,
    pub(crate) read: ReadOptions,
    /// The table that this publisher has seen: another one in its place is an error.
    pub(crate) identity: Option<String>,
    row_bytes: f64,
    notes: Vec<String>,
}

/// What one commit has published.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Published {
    /// Messages of the record type.
    pub messages: u64,
    /// Rows: more than messages where entries are rows.
    pub rows: u64,
    /// Files and their bytes.
    pub files: u64,
    /// Bytes of the files.
    pub bytes: u64,
    /// Sequence numbers that were passed, over all spaces and record types.
    pub sequences: u64,
    /// Sealed messages that wait, over all record types.
    pub waiting: u64,
    /// The time that it took.
    pub time: Duration,
}

impl Publisher {
    /// Publishes a record type of a stream to a table. The table is made with the first messages; its place is not asked yet.
    ///
    /// # Errors
    /// When the stream has no such record type, has no segments as it is transient, or settings do not fit it.
    pub fn open(
        db: &Database,
        stream: &Stream,
        record: &str,
        target: &Target,
        options: &Options,
    ) -> Result<Self, Error> {
        options.check()?;
        if stream.options().durability == Durability::Transient {
            return Err(Error::Settings(format!(
                "stream {:?} is transient: it has no segments, which are what is published; copy it to another stream",
                stream.name()
            )));
        }
        let found = stream.schema().records.iter().find(|found| found.message && found.name == record);
        let found = found.ok_or_else(|| {
            Error::Settings(format!(
                "stream {:?} has no record type {record:?}; `tapedb desc` shows them",
                stream.name()
            ))
        })?;
        let mut read =
            ReadOptions { sequences: true, batch_rows: Some(BATCH_ROWS), ..ReadOptions::default() };
        for (field, decimals) in &options.scales {
            match (decimals, field.as_str()) {
                (Decimals::Raw, _) => {
                    return Err(Error::Settings(
                        "tables have no raw decimals; state digits and scale, such as 18,4".into(),
                    ));
                }
                (decimals, "") => read.decimals = *decimals,
                (decimals, field) => drop(read.decimals_of.insert(field.into(), *decimals)),
            }
        }
        let with_spaces = stream.spaces() > 1;
        let source = record_schema(stream, record, &read)?;
        let columns = Columns::new(&source, found, with_spaces, options.flatten.as_deref())?;
        let table = Table { format: target.open(options)?, name: target.to_string() };
        Ok(Self {
            db: db.clone(),
            stream: stream.clone(),
            record: found.clone(),
            options: options.clone(),
            table,
            columns,
            read,
            identity: None,
            row_bytes: ROW_BYTES,
            notes: Vec::new(),
        })
    }

    /// The table.
    pub fn name(&self) -> &str {
        &self.table.name
    }

    /// What the catalogue or the folder is, for messages.
    pub fn place(&self) -> String {
        self.table.format.describe()
    }

    /// What was noticed since the last call and is no error: fields that were added, messages that cannot be read for good.
    pub fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// Names and types of the table's columns.
    pub fn described_columns(&self) -> Vec<(String, String)> {
        self.table.format.described(&self.columns.columns)
    }

    /// How far the table is; `None`: there is no table. Nothing is changed.
    ///
    /// # Errors
    /// When the catalogue does not answer, or the table is none of this stream.
    pub fn progress(&self) -> Result<Option<Progress>, Error> {
        self.table.format.load()?.map(|version| self.verify(&*version)).transpose()
    }

    /// Whether there is a table of this name, made of this record type of the stream, with whatever options.
    ///
    /// # Errors
    /// When the catalogue does not answer, or properties of the table were changed.
    pub fn has_table(&self) -> Result<bool, Error> {
        let Some(version) = self.table.format.load()? else { return Ok(false) };
        Ok(version
            .progress()?
            .is_some_and(|found| found.stream_id == self.stream.id() && found.record == self.record.name))
    }

    /// Sealed messages of whatever record type that are not in the table.
    ///
    /// # Errors
    /// When the stream cannot be read.
    pub fn waiting(&self, progress: Option<&Progress>) -> Result<u64, Error> {
        let from = progress.map_or(Vec::new(), |progress| progress.sequences.clone());
        Ok(Sealed::of(&self.db, &self.stream)?.waiting(&from))
    }

    /// Compares the table with the stream; `None`: there is no table. Nothing is changed.
    ///
    /// # Errors
    /// When the catalogue does not answer, or the stream cannot be read.
    pub fn compare(&self) -> Result<Option<Stale>, Error> {
        let Some(version) = self.table.format.load()? else { return Ok(None) };
        let progress = self.verify(&*version)?;
        stale::compare(self, &*version, &progress).map(Some)
    }

    /// Publishes the next range of what is sealed, in one commit; `None`: all is published.
    ///
    /// # Errors
    /// [`Error::Away`] when catalogue or store do not answer: nothing is lost, and the call can be made again. [`Error::Table`] when others
    /// have changed the table.
    pub fn step(&mut self) -> Result<Option<Published>, Error> {
        let started = Instant::now();
        loop {
            let sealed = Sealed::of(&self.db, &self.stream)?;
            // Sealed messages are seen by cursors that are opened later, and their symbols are among these.
            stale::check_end(&self.table.name, &self.stream.next_sequences()?, &sealed.ends())?;
            let names = self.stream.symbols();
            let Some(version) = self.load(&sealed)? else { return Ok(None) };
            let before = self.verify(&*version)?;
            check_rows(&self.table.name, &*version, &before)?;
            let (version, before) = self.note_stale(version, before)?;
            let wanted = FILES_OF_COMMIT * self.options.file_bytes as f64 / self.row_bytes;
            let range = sealed.next(&before.sequences, wanted as u64);
            if range.ends == before.sequences {
                return Ok(None);
            }
            if let Some(mut published) = self.publish(version, &before, &range, &sealed, &names)? {
                let passed = range.ends.iter().zip(&before.sequences);
                published.sequences = passed.map(|(end, from)| end - from).sum();
                published.waiting = sealed.waiting(&range.ends);
                published.time = started.elapsed();
                return Ok(Some(published));
            }
        }
    }

    /// Checks that a table is one of this stream; returns how far it is.
    pub(crate) fn verify(&self, version: &dyn Version) -> Result<Progress, Error> {
        self.table.verify(version, &self.new_progress(), &self.options, &self.columns)
    }

    /// The progress of a table without rows.
    pub(crate) fn new_progress(&self) -> Progress {
        Progress {
            stream: self.stream.name().into(),
            stream_id: self.stream.id(),
            record: self.record.name.clone(),
            shape: self.options.shape(),
            sequences: vec![0; self.stream.spaces() as usize],
            symbols: (0, checksum([])),
            ..Progress::default()
        }
    }

    /// The table, which is made if there is none and messages are sealed.
    fn load(&mut self, sealed: &Sealed) -> Result<Option<Box<dyn Version>>, Error> {
        let version = match self.table.format.load()? {
            Some(version) => version,
            None if self.identity.is_some() => return Err(dropped(&self.table.name)),
            None if sealed.ends().iter().all(|end| *end == 0) => return Ok(None),
            None => self.table.create(&self.columns, &self.new_progress(), &self.options)?,
        };
        self.recognize(&*version)?;
        Ok(Some(version))
    }

    /// Checks that a table is the one that this publisher has seen before.
    pub(crate) fn recognize(&mut self, version: &dyn Version) -> Result<(), Error> {
        let identity = version.identity();
        if self.identity.as_ref().is_some_and(|known| *known != identity) {
            return Err(dropped(&self.table.name));
        }
        self.identity = Some(identity.into());
        Ok(())
    }

    /// Compares the table with the stream, and marks it.
    fn note_stale(
        &mut self,
        version: Box<dyn Version>,
        before: Progress,
    ) -> Result<(Box<dyn Version>, Progress), Error> {
        stale::check_end(&self.table.name, &self.stream.next_sequences()?, &before.sequences)?;
        let found = stale::quick(self, &*version, &before)?;
        // What was marked stays so until it is repaired.
        if found.is_none() || before.stale.is_some() {
            return Ok((version, before));
        }
        let progress = Progress { stale: found, ..before };
        let version = self.table.note(version, &progress)?;
        Ok((version, progress))
    }

    /// Writes a range and commits it; `None`: another publisher was first.
    fn publish(
        &mut self,
        version: Box<dyn Version>,
        before: &Progress,
        range: &Range,
        sealed: &Sealed,
        names: &[String],
    ) -> Result<Option<Published>, Error> {
        let commit = new_commit();
        let current = version.schema()?;
        let evolved = version
            .evolved(&self.columns.columns, Misfits::Refuse)
            .map_err(|error| Error::Table(format!("{}: {error}", self.table.name)))?;
        if evolved.is_some() && before.rows > 0 {
            let note = "the stream's schema has changed, and the table's follows; added fields are null in rows that were published before";
            self.notes.push(format!("{}: {note}", self.table.name));
        }
        let fields = evolved.as_ref().unwrap_or(&current);
        let mut writer = self.writer(fields, &version.data(), &commit)?;
        let ends = &range.ends;
        let cursor = self.stream.cursor().to_sequences(ends.clone());
        let written = match range.times {
            // Others of these times, which came before, are left out.
            Some((first, last)) => {
                let cursor = cursor.from(Timestamp(first));
                let cursor = last.checked_add(1).map_or(cursor.clone(), |end| cursor.to(Timestamp(end)));
                self.write(cursor, &before.sequences, &mut writer)
            }
            None => Ok((0, 0)),
        };
        let (messages, rows) = match written {
            Ok(counts) => counts,
            Err(error) => {
                writer.discard();
                return Err(error);
            }
        };
        let files = writer.files();
        let bytes = files.iter().map(|file| file.bytes).sum();
        let lost = sealed.lost(ends);
        if lost > before.lost {
            self.notes.push(format!(
                "{} messages of the stream could not be read when they were sealed, and are not in {}",
                lost - before.lost,
                self.table.name
            ));
        }
        let progress = Progress {
            stream: self.stream.name().into(),
            sequences: ends.clone(),
            messages: before.messages + messages,
            rows: before.rows + rows,
            lost,
            symbols: (names.len() as u32, checksum(names.iter().map(String::as_str))),
            commit: if files.is_empty() { before.commit.clone() } else { commit },
            ..before.clone()
        };
        // A renamed symbol stays noted: what was published before has its old name.
        let progress = match stale::is_renamed(names, before) {
            true => Progress { symbols: before.symbols, ..progress },
            false => progress,
        };
        if files.is_empty() {
            self.table.note(version, &progress)?;
            return Ok(Some(Published::default()));
        }
        let step = Step { progress, schema: evolved, added: &files, removed: Removed::Nothing };
        match self.table.commit(&*version, before, &step) {
            Ok(Outcome::Done) => {}
            Ok(Outcome::Overtaken) => {
                self.remove(&files);
                return Ok(None);
            }
            // The commit may have happened all the same.
            Err(error @ (Error::Away(_) | Error::Interrupted)) => return Err(error),
            Err(error) => {
                self.remove(&files);
                return Err(error);
            }
        }
        if rows > 0 {
            self.row_bytes = (bytes as f64 / messages.max(1) as f64).max(1.0);
        }
        Ok(Some(Published { messages, rows, files: files.len() as u64, bytes, ..Published::default() }))
    }

    pub(crate) fn writer(&self, fields: &Schema, location: &str, commit: &str) -> Result<Writer, Error> {
        let ids = schema::ids(&self.columns.columns, fields)?;
        Ok(Writer::new(self.columns.clone(), ids, (Place::of(location)?, location), &self.options, commit))
    }

    /// Writes what a cursor selects; returns messages and rows.
    pub(crate) fn write(
        &self,
        cursor: CursorBuilder,
        since: &[u64],
        writer: &mut Writer,
    ) -> Result<(u64, u64), Error> {
        let open = |options: &ReadOptions| {
            BatchReader::open(std::slice::from_ref(&self.stream), cursor.clone(), &self.record.name, options)
        };
        let mut reader = open(&self.read)?;
        let (mut rows, mut messages) = (Rows::default(), 0);
        loop {
            check_interrupt()?;
            match reader.next_batch() {
                Ok(Some(batch)) => {
                    rows.add(batch, since, self.columns.with_spaces, self.options.symbol_buckets)?
                }
                Ok(None) => break,
                Err(tapedb_arrow::Error::Value { column, row, what }) => {
                    let without = ReadOptions {
                        sequences: true,
                        batch_rows: Some(BATCH_ROWS),
                        fields: Some(Vec::new()),
                        ..ReadOptions::default()
                    };
                    let at = self.locate(open(&without)?, row);
                    return Err(Error::Rows(format!(
                        "field {column:?} of {at}: {what}; choose more digits or another scale with --scale"
                    )));
                }
                Err(tapedb_arrow::Error::Engine(error))
                    if matches!(*error, tapedb_engine::Error::Unreadable(_)) =>
                {
                    return Err(Error::Rows(format!(
                        "{error}; `tapedb check` finds what is damaged and `tapedb repair` puts it apart, then publish again"
                    )));
                }
                Err(error) => return Err(error.into()),
            }
            if rows.bytes() >= self.options.memory_bytes {
                messages += rows.rows();
                writer.write(&mut rows)?;
            }
        }
        messages += rows.rows();
        writer.write(&mut rows)?;
        Ok((messages, writer.rows()))
    }

    /// The message of a row, for an error.
    fn locate(&self, mut reader: BatchReader, row: u64) -> String {
        use arrow_array::cast::AsArray;
        use arrow_array::types::{Int32Type, TimestampNanosecondType, UInt64Type};
        let mut first = 0;
        while let Ok(Some(batch)) = reader.next_batch() {
            let rows = batch.num_rows() as u64;
            if row < first + rows && batch.num_columns() >= HEADER - 1 {
                let at = (row - first) as usize;
                let symbols = batch.column(1).as_dictionary_opt::<Int32Type>();
                let symbol = symbols.and_then(|symbols| {
                    let names = symbols.values().as_string_opt::<i32>()?;
                    Some(names.value(symbols.key(at)?).to_string())
                });
                let time = batch.column(0).as_primitive_opt::<TimestampNanosecondType>();
                let time = time.map(|times| Timestamp(times.value(at)).to_string());
                let sequence =
                    batch.column(2).as_primitive_opt::<UInt64Type>().map(|numbers| numbers.value(at));
                return format!(
                    "message {} ({} at {})",
                    sequence.unwrap_or_default(),
                    symbol.unwrap_or_default(),
                    time.unwrap_or_default()
                );
            }
            first += rows;
        }
        format!("row {row}")
    }

    pub(crate) fn remove(&self, files: &[crate::files::NewFile]) {
        for file in files {
            if let Ok(place) = Place::of(&file.url) {
                place.remove(&file.url);
            }
        }
    }
}
