//! Verifies everything that is stored of a stream, in bounded memory, beside a writer, changing nothing.

use crate::admin::check_blocks::BlockScratch;
use crate::admin::identity::{self, DatabaseIdentity};
use crate::admin::stored::StoredStream;
use crate::database::Database;
use crate::error::Error;
use crate::space::quarantine::log_name;
use crate::stream::versions;
use std::collections::{HashMap, HashSet};
use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;
use tapedb_codec::batch::Rows;
use tapedb_codec::dynamic::Layouts;
use tapedb_log::{BatchSlice, Cut, Damage, Found, IndexFault, LogError, Reason, SymbolFile};

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Something stored is lost or wrong.
    Damage,
    /// The end of a file is an append that is under way, or was never finished and is cut by the next writer.
    Unfinished,
    /// Something is not as it should be, but nothing is lost by it and it will be mended.
    Note,
}

/// Something about a stream's files that is not as a clean shutdown leaves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// The file, or the directory when a file is missing.
    pub path: PathBuf,
    /// Where it begins in the file.
    pub offset: u64,
    /// Bytes concerned; 0 where something is missing or the whole file is concerned.
    pub bytes: u64,
    /// Sequence number of the first message that is out of reach or wrong; `None` when it is not about messages.
    pub first_sequence: Option<u64>,
    /// Messages from that one on that are out of reach or wrong; `None`: all up to the end, however many those are.
    pub messages: Option<u64>,
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub now: &'static str,
}

/// What a check tells while it goes on.
#[derive(Debug)]
pub enum Checking {
    /// So much has been verified.
    Progress {
        /// Bytes of log files and segments.
        bytes: u64,
        /// Messages.
        messages: u64,
    },
    /// Something was found.
    Found(Finding),
}

/// How much a check does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CheckDepth {
    /// Leaves out the bodies of messages, and decoding what has no checksum of its content a second time.
    Quick,
    /// Decodes everything. Sealed blocks are compared with the checksum of their content; those without one, which versions
    /// before 0.2.0 wrote, with the reference decoder.
    #[default]
    Full,
    /// Compares all sealed blocks with the reference decoder, which shares nothing with the one that reads, and their values
    /// with the smallest and largest that are told of each column. Many times as slow.
    Thorough,
}

/// What a check came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Checked {
    /// Messages in whole batches and blocks.
    pub messages: u64,
    /// Whole batches.
    pub batches: u64,
    /// Log files.
    pub files: u64,
    /// Segments.
    pub segments: u64,
    /// Whole blocks of segments.
    pub blocks: u64,
    /// Blocks among them whose rows have the checksum of their content: they are those that were sealed.
    pub blocks_by_content: u64,
    /// Blocks among them of which the reference decoder gives the same rows.
    pub blocks_by_reference: u64,
    /// Blocks among them that were compared with neither, in a quick check: they have no checksum of their content.
    pub blocks_unproved: u64,
    /// Messages in blocks without a checksum of their content, which versions before 0.2.0 wrote.
    pub messages_of_version_1: u64,
    /// Messages among them in blocks of which version 0.1 gave other times or values than they have.
    pub messages_misread_by_0_1: u64,
    /// Bytes of log files and segments, as far as they were looked at.
    pub bytes: u64,
    /// Symbols.
    pub symbols: u32,
    /// Findings that are [`Severity::Damage`].
    pub damaged: u64,
    /// Messages that these put out of reach or found wrong, as far as it can be told how many.
    pub messages_damaged: u64,
    /// Findings that are [`Severity::Unfinished`].
    pub unfinished: u64,
    /// Findings that are [`Severity::Note`].
    pub notes: u64,
    /// Whether the stream was deleted meanwhile: then what was found means nothing.
    pub is_gone: bool,
}

pub(crate) const RESTORE: &str =
    "restore the file from a copy if there is one; all other messages can be read";
const LEAVE: &str = "nothing: the next writer cuts it off, unless one is writing it just now";
const REBUILT: &str = "nothing: the next writer makes it anew";
const REMOVE_INDEX: &str = "remove the index file; the next writer makes it anew";
pub(crate) const REPORT: &str =
    "read on with care, load those messages anew from their source, and report how they were written";

impl Database {
    /// Looks at the file that says which database this is, and whose backup; `None`: it is whole, or there is none.
    pub fn check_identity(&self) -> Option<Finding> {
        let error = DatabaseIdentity::read(&**self.storage(), self.path()).err()?;
        let now = "messages are not concerned, and backups are refused until then";
        Some(Finding { now, ..Finding::damage(self.path().join(identity::FILE), error.to_string()) })
    }
}

impl StoredStream {
    /// Verifies the symbol file; both copies of each manifest; headers, indexes and all columns of segments, that they hold
    /// what the manifest says, and that their rows are those that were sealed; headers and checksums of log files and batches; that sequence numbers have no holes,
    /// messages are in order, times lie in the range of their batch or block, and symbols and types are known; unless
    /// the check is quick, that every body is what encoding would have written. What grows meanwhile is left for the next time.
    ///
    /// `tell` gets findings in the order of the files, and ends the check by breaking.
    pub fn check(&self, depth: CheckDepth, mut tell: impl FnMut(Checking) -> ControlFlow<()>) -> Checked {
        let mut checker = Checker {
            stream: self,
            depth,
            versions: HashMap::new(),
            rows: Rows::default(),
            symbols: None,
            checked: Checked::default(),
            space: 0,
            told: HashSet::new(),
            scratch: BlockScratch::default(),
            tell: &mut tell,
        };
        // Broken off, or at its end: the counts hold for what was looked at.
        let _ = checker.run();
        let mut checked = checker.checked;
        checked.is_gone = self.is_gone();
        checked
    }
}

/// A check under way.
pub(crate) struct Checker<'a, T> {
    pub stream: &'a StoredStream,
    pub depth: CheckDepth,
    /// Of each version of the schema that batches were written with.
    versions: HashMap<u16, Layouts>,
    rows: Rows,
    /// `None` when the symbol file cannot be read, which has been told.
    symbols: Option<SymbolFile>,
    pub checked: Checked,
    /// The space that is being looked at.
    pub space: u32,
    /// Places that have been told, for what is looked at again because a writer has moved it.
    told: HashSet<(PathBuf, u64, String)>,
    pub scratch: BlockScratch,
    tell: &'a mut T,
}

impl<T: FnMut(Checking) -> ControlFlow<()>> Checker<'_, T> {
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
            Some(Error::Definition { path, what }) => {
                self.find(Finding { now: REBUILT, ..Finding::damage(path.clone(), what.clone()) })?;
            }
            Some(error) => self.find(failed(self.stream.path().into(), error))?,
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
            Err(error) => return self.find(failed(path, &error)),
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

    /// Names come before the messages that use them, so the end of the symbol file is looked at last.
    fn check_end_of_symbols(&mut self) -> ControlFlow<()> {
        let path = self.stream.symbols_path();
        let Some(symbols) = &mut self.symbols else { return ControlFlow::Continue(()) };
        let tail = symbols.tail();
        self.checked.symbols = symbols.dictionary().len();
        match tail {
            Ok(None) => ControlFlow::Continue(()),
            Ok(Some(tail)) => {
                let (severity, what, now) = if tail.is_unfinished {
                    (Severity::Unfinished, "an unfinished append of a name", LEAVE)
                } else {
                    (Severity::Damage, "not entries; the names that were there are lost", RESTORE)
                };
                let finding = Finding::damage(path, what.into());
                self.find(Finding { severity, offset: tail.offset, bytes: tail.bytes, now, ..finding })
            }
            Err(error) => self.find(failed(path, &error.into())),
        }
    }

    /// Walks the log files from what is sealed on. A file that vanishes while `is_current` says no is left to be looked at
    /// again: `false`.
    pub fn check_log(&mut self, sealed: u64, is_current: impl Fn() -> bool) -> ControlFlow<(), bool> {
        let mut walk = match self.stream.walk_from(self.space, sealed) {
            Ok(walk) => walk,
            Err(error) => {
                self.find(failed(self.stream.space_path(self.space), &error))?;
                return ControlFlow::Continue(true);
            }
        };
        let mut file = 0;
        while let Some(found) = walk.next_found() {
            match found {
                Found::File { file: begun, bytes } => {
                    file = begun;
                    self.checked.files += 1;
                    self.checked.bytes += bytes;
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
                    let finding = failed(self.log_file(file), &Error::from(*error));
                    self.find(Finding { first_sequence: Some(first_sequence), messages: count, ..finding })?;
                }
                Found::Index { file, fault } => self.find(self.index(file, fault))?,
                Found::Rejected { name } => self.find(self.not_believed(name))?,
            }
        }
        ControlFlow::Continue(true)
    }

    fn check_batch(&mut self, file: u64, batch: &BatchSlice<'_>) -> ControlFlow<()> {
        self.checked.batches += 1;
        self.checked.messages += u64::from(batch.header.count);
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

    /// Tells that so much more has been verified.
    pub fn progress(&mut self, bytes: u64, messages: u64) -> ControlFlow<()> {
        (self.tell)(Checking::Progress { bytes, messages })
    }

    /// The first message of a whole batch that is wrong, how many are, and what is with the first.
    fn wrong_rows(&mut self, rows: &mut Rows, batch: &BatchSlice<'_>) -> Option<(u64, u64, String)> {
        let header = &batch.header;
        let all = |what| Some((header.first_sequence, u64::from(header.count), what));
        if let Err(error) = rows.load_parsed(header, batch.bytes) {
            return all(error.to_string());
        }
        let version = header.schema_version;
        let layouts = match self.layouts_of(version) {
            Ok(layouts) => layouts,
            Err(error) => return all(format!("written with version {version} of the schema: {error}")),
        };
        if rows.times().iter().min() != Some(&header.time_min) {
            return all("no message has the batch's earliest time".into());
        }
        let mut wrong = (0..rows.len()).filter_map(|i| Some((i, self.wrong_row(rows, i, batch, &layouts)?)));
        let (first, what) = wrong.next()?;
        let more = wrong.count() as u64;
        let sequence = header.first_sequence + first as u64;
        let what = match more {
            0 => format!("message {sequence}: {what}"),
            _ => format!("message {sequence}, and {more} more of its batch: {what}"),
        };
        Some((sequence, 1 + more, what))
    }

    fn wrong_row(
        &mut self,
        rows: &Rows,
        i: usize,
        batch: &BatchSlice<'_>,
        layouts: &Layouts,
    ) -> Option<String> {
        self.wrong_message((rows.symbols()[i], rows.types()[i]), &batch.bytes[rows.body(i)], layouts)
    }

    /// What is wrong with a message, wherever it lies.
    pub fn wrong_message(
        &mut self,
        (symbol, type_id): (u32, u16),
        body: &[u8],
        layouts: &Layouts,
    ) -> Option<String> {
        if !self.knows(symbol) {
            return Some(format!("symbol {symbol} is not in the symbol file"));
        }
        if !layouts.records().get(usize::from(type_id)).is_some_and(|record| record.message) {
            return Some(format!("type {type_id} is no message type of the schema"));
        }
        if self.depth == CheckDepth::Quick {
            return None;
        }
        let checked = layouts.check(type_id, body);
        checked.err().map(|error| error.to_string())
    }

    /// The layouts of a version of the schema.
    fn layouts_of(&mut self, version: u16) -> Result<Layouts, Error> {
        if version == self.stream.schema_version() {
            return Ok(self.stream.layouts().clone());
        }
        if let Some(known) = self.versions.get(&version) {
            return Ok(known.clone());
        }
        let schema = versions::read(&*self.stream.storage, self.stream.path(), version)?;
        let layouts = Layouts::new(schema)?;
        self.versions.insert(version, layouts.clone());
        Ok(layouts)
    }

    /// Whether a symbol has a name; one that a writer has just added is looked up in its file.
    #[inline]
    fn knows(&mut self, symbol: u32) -> bool {
        let Some(symbols) = &mut self.symbols else { return true };
        symbol < symbols.dictionary().len()
            || (symbols.refresh().is_ok() && symbol < symbols.dictionary().len())
    }

    /// Tells of a place, once.
    pub fn find(&mut self, finding: Finding) -> ControlFlow<()> {
        if !self.told.insert((finding.path.clone(), finding.offset, finding.what.clone())) {
            return ControlFlow::Continue(());
        }
        match finding.severity {
            Severity::Damage => {
                self.checked.damaged += 1;
                self.checked.messages_damaged += finding.messages.unwrap_or(0);
            }
            Severity::Unfinished => self.checked.unfinished += 1,
            Severity::Note => self.checked.notes += 1,
        }
        (self.tell)(Checking::Found(finding))
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
        let what = format!("an unfinished append: {reason}");
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

    fn not_believed(&self, name: &str) -> Finding {
        let path = self.stream.space_path(self.space).join(name);
        let what = "the file is damaged, and nobody believes it".into();
        Finding { severity: Severity::Note, now: REBUILT, ..Finding::damage(path, what) }
    }

    fn log_file(&self, file: u64) -> PathBuf {
        self.stream.space_path(self.space).join(log_name(file))
    }
}

impl Finding {
    /// Damage without a place and without messages.
    pub(crate) fn damage(path: PathBuf, what: String) -> Self {
        let (severity, first_sequence, messages) = (Severity::Damage, None, Some(0));
        Self { severity, path, offset: 0, bytes: 0, first_sequence, messages, what, now: RESTORE }
    }
}

/// Whether a log file is not there.
fn is_gone(error: &LogError) -> bool {
    matches!(error, LogError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
}

pub(crate) fn failed(path: PathBuf, error: &Error) -> Finding {
    let now = "see to the file, and check again";
    Finding { now, ..Finding::damage(path, error.to_string()) }
}
