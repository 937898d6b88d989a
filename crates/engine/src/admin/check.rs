//! Verifies all files of a stream, in bounded memory, while a writer may be running. Changes nothing.

use crate::admin::checker::Checker;
use crate::admin::finding::{
    CheckDepth, CheckEvent, CheckReport, Finding, LEAVE, REBUILT, REMOVE_INDEX, REPORT, RESTORE, Severity,
};
use crate::admin::identity::{self, DatabaseIdentity};
use crate::admin::stored::StoredStream;
use crate::database::Database;
use crate::error::{Error, Unreadable};
use crate::stream::versions;
use std::io;
use std::ops::ControlFlow;
use tapedb_codec::batch::{self, Rows};
use tapedb_codec::dynamic::Layouts;
use tapedb_log::{BatchSlice, Cut, Damage, Found, IndexFault, LogError, Reason};

impl Database {
    /// Checks the file with the identity of the database and of the original of a backup; `None`: it is whole, or missing.
    pub fn check_identity(&self) -> Option<Finding> {
        let error = DatabaseIdentity::read(&**self.storage(), self.path()).err()?;
        let now = "messages are not concerned; backups are refused until the file is removed";
        Some(Finding { now, ..Finding::damage(self.path().join(identity::FILE), error.to_string()) })
    }
}

impl StoredStream {
    /// Verifies:
    /// - the symbol file, and both copies of each manifest;
    /// - headers, indexes and all columns of segments, that they hold what the manifest states, and that their rows are those
    ///   that were sealed;
    /// - headers and checksums of log files and batches;
    /// - that sequence numbers have no holes, messages are in order, times are in the range of their batch or block, and
    ///   symbols and types exist;
    /// - unless the check is quick, that every body is what the encoder would write.
    ///
    /// What a writer appends during the check is not verified. `on_event` gets findings in the order of the files, and ends
    /// the check with a break.
    pub fn check(
        &self,
        depth: CheckDepth,
        mut on_event: impl FnMut(CheckEvent) -> ControlFlow<()>,
    ) -> CheckReport {
        let mut checker = Checker::new(self, depth, &mut on_event);
        // The counts are right for what was verified, also when the check was ended early.
        let _ = checker.run();
        CheckReport { is_gone: self.is_gone(), ..checker.report }
    }
}

impl<T: FnMut(CheckEvent) -> ControlFlow<()>> Checker<'_, T> {
    fn run(&mut self) -> ControlFlow<()> {
        self.check_definition()?;
        self.check_symbols()?;
        for space in 0..self.stream.spaces() {
            self.space = space;
            self.check_space()?;
        }
        self.check_end_of_symbols()
    }

    fn check_definition(&mut self) -> ControlFlow<()> {
        match &self.stream.definition_damage {
            None => {}
            Some(Error::Unreadable(Unreadable::Definition { path, what })) => {
                self.find(Finding { now: REBUILT, ..Finding::damage(path.clone(), what.clone()) })?;
            }
            Some(error) => self.find(Finding::failed(self.stream.path().into(), error))?,
        }
        for version in 1..self.stream.schema_version() {
            for (path, what) in versions::bad_copies(&*self.stream.storage, self.stream.path(), version) {
                self.find(Finding::damage(path, what))?;
            }
        }
        ControlFlow::Continue(())
    }

    fn check_symbols(&mut self) -> ControlFlow<()> {
        let path = self.stream.symbols_path();
        let (symbols, recovery) = match self.stream.symbols() {
            Ok(opened) => opened,
            Err(error) => return self.find(Finding::failed(path, &error)),
        };
        self.symbols = Some(symbols);
        let damage = |offset, bytes, what| Finding { offset, bytes, ..Finding::damage(path.clone(), what) };
        if recovery.is_header_damaged {
            self.find(damage(0, tapedb_log::FILE_HEADER_BYTES, "the file's header is damaged".into()))?;
        }
        for place in &recovery.places {
            let what = match place.ids.len() {
                0 => "not an entry; no name is lost".into(),
                1 => format!("the name of symbol {} is lost and read as ?id", place.ids.start),
                _ => format!("the names of symbols {} to {} are lost", place.ids.start, place.ids.end - 1),
            };
            self.find(damage(place.offset, place.bytes, what))?;
        }
        ControlFlow::Continue(())
    }

    /// Names are written before the messages that use them, so the end of the symbol file is checked last.
    fn check_end_of_symbols(&mut self) -> ControlFlow<()> {
        let path = self.stream.symbols_path();
        let Some(symbols) = &mut self.symbols else { return ControlFlow::Continue(()) };
        let tail = symbols.tail();
        self.report.symbols = symbols.dictionary().len();
        match tail {
            Ok(None) => ControlFlow::Continue(()),
            Ok(Some(tail)) => {
                let (severity, what, now) = if tail.is_unfinished {
                    (Severity::Unfinished, "an append of a name that is not complete", LEAVE)
                } else {
                    (Severity::Damage, "not entries; the names that were there are lost", RESTORE)
                };
                let finding = Finding::damage(path, what.into());
                self.find(Finding { severity, offset: tail.offset, bytes: tail.bytes, now, ..finding })
            }
            Err(error) => self.find(Finding::failed(path, &error.into())),
        }
    }

    /// Walks the log files from what is sealed on. `false`: a file has disappeared and the manifest that led to it is no longer
    /// current, so the space is to be checked again.
    pub fn check_log(&mut self, sealed: u64, is_current: impl Fn() -> bool) -> ControlFlow<(), bool> {
        let mut walk = match self.stream.walk_from(self.space, sealed) {
            Ok(walk) => walk,
            Err(error) => {
                self.find(Finding::failed(self.stream.space_path(self.space), &error))?;
                return ControlFlow::Continue(true);
            }
        };
        let mut file = 0;
        while let Some(found) = walk.next_found() {
            match found {
                Found::File { file: next, bytes } => {
                    file = next;
                    self.report.files += 1;
                    self.report.bytes += bytes;
                }
                Found::Batch(batch) => self.check_batch(file, &batch)?,
                Found::Unfinished(cut) => self.find(self.unfinished(&cut))?,
                Found::Preallocated { .. } => {}
                Found::Unreadable { error, .. } if is_gone(&error) && !is_current() => {
                    return ControlFlow::Continue(false);
                }
                Found::Damage(damage) if damage.reason == Reason::Gap && !is_current() => {
                    return ControlFlow::Continue(false);
                }
                Found::Damage(damage) => self.find(self.damaged(&damage))?,
                Found::Unreadable { file, error, first_sequence, count } => {
                    let finding = Finding::failed(self.log_file(file), &Error::from(*error));
                    self.find(Finding { first_sequence: Some(first_sequence), messages: count, ..finding })?;
                }
                Found::Index { file, fault } => self.find(self.index(file, fault))?,
                Found::Rejected { name } => self.find(self.invalid(name))?,
            }
        }
        ControlFlow::Continue(true)
    }

    fn check_batch(&mut self, file: u64, batch: &BatchSlice<'_>) -> ControlFlow<()> {
        self.report.batches += 1;
        self.report.messages += u64::from(batch.header.count);
        let mut rows = std::mem::take(&mut self.rows);
        let wrong = self.wrong_rows(&mut rows, batch);
        self.rows = rows;
        if let Some((first_sequence, messages, what)) = wrong {
            let (offset, bytes) = (batch.offset, batch.bytes.len() as u64);
            let finding =
                Finding { offset, bytes, now: REPORT, ..Finding::damage(self.log_file(file), what) };
            self.find(Finding { first_sequence: Some(first_sequence), messages: Some(messages), ..finding })?;
        }
        let (bytes, messages) = (batch.bytes.len() as u64, batch.header.count.into());
        self.progress(bytes, messages)
    }

    /// The first wrong message of a whole batch, how many are wrong, and what is wrong with the first.
    fn wrong_rows(&mut self, rows: &mut Rows, batch: &BatchSlice<'_>) -> Option<(u64, u64, String)> {
        let header = &batch.header;
        let all = |what| Some((header.first_sequence, u64::from(header.count), what));
        let version = header.schema_version;
        let layouts = match self.layouts_of(version) {
            Ok(layouts) => layouts,
            Err(error) => return all(format!("written with version {version} of the schema: {error}")),
        };
        let mut unfolded = Vec::new();
        let loaded = match header.is_columnar() {
            false => rows.load_parsed(header, batch.bytes),
            true => batch::to_rows(header, batch.bytes, &layouts, &mut unfolded)
                .and_then(|header| rows.load_parsed(&header, &unfolded)),
        };
        if let Err(error) = loaded {
            return all(error.to_string());
        }
        let bytes = if header.is_columnar() { &unfolded } else { batch.bytes };
        if rows.times().iter().min() != Some(&header.time_min) {
            return all("no message has the batch's earliest time".into());
        }
        let mut wrong = (0..rows.len()).filter_map(|i| Some((i, self.wrong_row(rows, i, bytes, &layouts)?)));
        let (first, what) = wrong.next()?;
        let more = wrong.count() as u64;
        let sequence = header.first_sequence + first as u64;
        let what = match more {
            0 => format!("message {sequence}: {what}"),
            _ => format!("message {sequence}, and {more} more of its batch: {what}"),
        };
        Some((sequence, 1 + more, what))
    }

    fn wrong_row(&mut self, rows: &Rows, i: usize, bytes: &[u8], layouts: &Layouts) -> Option<String> {
        self.wrong_message((rows.symbols()[i], rows.types()[i]), &bytes[rows.body(i)], layouts)
    }

    fn damaged(&self, damage: &Damage) -> Finding {
        let Damage { file, offset, bytes, first_sequence, count, reason } = *damage;
        let lost = count != Some(0);
        Finding {
            offset,
            bytes,
            first_sequence: lost.then_some(first_sequence),
            messages: count,
            ..Finding::damage(self.log_file(file), reason.to_string())
        }
    }

    fn unfinished(&self, cut: &Cut) -> Finding {
        let Cut { file, offset, bytes, reason } = *cut;
        let what = format!("an append that is not complete: {reason}");
        let finding = Finding::damage(self.log_file(file), what);
        Finding { severity: Severity::Unfinished, offset, bytes, now: LEAVE, messages: Some(0), ..finding }
    }

    fn index(&self, file: u64, fault: IndexFault) -> Finding {
        let path = self.log_file(file).with_extension("idx");
        let finding = Finding::damage(path, fault.to_string());
        match fault {
            IndexFault::Missing | IndexFault::Rejected => {
                Finding { severity: Severity::Note, now: REBUILT, ..finding }
            }
            IndexFault::Wrong => Finding { now: REMOVE_INDEX, ..finding },
            IndexFault::WithoutSuccessor => Finding { messages: None, ..finding },
        }
    }

    fn invalid(&self, name: &str) -> Finding {
        let path = self.stream.space_path(self.space).join(name);
        let what = "the file is damaged, and is not used".into();
        Finding { severity: Severity::Note, now: REBUILT, ..Finding::damage(path, what) }
    }
}

/// Whether a log file is not there.
fn is_gone(error: &LogError) -> bool {
    matches!(error, LogError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
}
