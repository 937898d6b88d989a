//! `dbn`: Databento's binary encoding, versions 1 to 3, plain or in zstd frames, records without metadata (fragments), and its
//! predecessor DBZ.
//!
//! Written from the layouts that Databento publishes. Not with its crate `dbn`: that takes memory for what a file's metadata states,
//! and cannot read on behind a record that it does not know. What maps to what is in `docs/IMPORT.md`.
//!
//! A record begins with its length in words of four bytes, so that unknown ones are skipped and counted. Which version of its layout
//! a record has shows in its length: fragments need no version.

mod bytes;
mod definition;
mod head;
mod instruments;
mod layouts;
mod metadata;
mod prices;
mod records;
mod symbols;
#[cfg(test)]
mod tests;
mod unpack;

use crate::error::{BadRecord, ImportError};
use crate::options::OnBadLine;
use crate::record::AnyRecord;
use crate::source::{Counters, RowHeader, Source};
use crate::window::Window;
use head::HEAD_BYTES;
use metadata::Metadata;
use records::{Decoded, decode};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use tapedb_schema::Timestamp;
pub(crate) use unpack::Magic;
use unpack::Unpacked;

pub(super) const LOOKED_FOR: &str =
    "DBN files `*.dbn`, `*.dbn.zst`, `*.dbn.frag`, `*.dbn.frag.zst`, or DBZ files `*.dbz`";

/// Bytes of a unit of a record's length.
const WORD: usize = 4;

/// Whether a file's name is one of this format.
pub(super) fn is_named_so(name: &str) -> bool {
    let name = name.strip_suffix(".zst").unwrap_or(name);
    let name = name.strip_suffix(".frag").unwrap_or(name);
    name.ends_with(".dbn") || name.ends_with(".dbz")
}

/// A file of this format.
#[derive(Debug, Clone)]
pub(super) struct DbnFile {
    start: Timestamp,
}

impl DbnFile {
    /// Reads where the file's data begin; a file that cannot be read says so when it is opened. `None`: neither name nor first bytes
    /// are of this format.
    pub(super) fn of_path(path: &Path) -> Option<Self> {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_ascii_lowercase();
        if !is_named_so(&name) && Magic::of_file(path).is_ok_and(|magic| magic == Magic::Other) {
            return None;
        }
        let start = unpack::open(path).ok().and_then(|unpacked| unpacked.metadata.start);
        Some(Self { start: start.unwrap_or(Timestamp::MIN) })
    }

    /// No row is before this, but perhaps those of a snapshot.
    pub(super) fn start(&self) -> Timestamp {
        self.start
    }

    /// Opens it at its first record.
    pub(super) fn open(
        &self,
        path: &Path,
        bytes: u64,
        on_bad_line: OnBadLine,
    ) -> Result<Box<dyn Source>, ImportError> {
        Ok(Box::new(Records::new(path.to_path_buf(), unpack::open(path)?, bytes, on_bad_line)))
    }
}

/// The records of a file.
struct Records {
    window: Window,
    metadata: Metadata,
    has_metadata: bool,
    path: PathBuf,
    /// Number of the record at the window's begin, from 1.
    record: u64,
    bytes_total: u64,
    on_bad_line: OnBadLine,
    counters: Counters,
    symbol: Symbol,
    ended: bool,
}

/// Where the symbol of the last row is.
enum Symbol {
    /// In the table, by number and time.
    Mapped(u32, u64),
    Own(String),
}

impl Records {
    fn new(path: PathBuf, unpacked: Unpacked, bytes_total: u64, on_bad_line: OnBadLine) -> Self {
        let Unpacked { records, metadata, has_metadata, offset } = unpacked;
        Self {
            window: Window::new(records, offset),
            metadata,
            has_metadata,
            path,
            record: 1,
            bytes_total,
            on_bad_line,
            counters: Counters::default(),
            symbol: Symbol::Own(String::new()),
            ended: false,
        }
    }

    /// The time of the next row.
    fn advance(&mut self, out: &mut AnyRecord) -> Result<Option<Timestamp>, ImportError> {
        loop {
            let Some(length) = self.whole_record()? else { return Ok(None) };
            let record = &self.window.bytes()[..length];
            let decoded = decode(record, out).and_then(|decoded| {
                if let Decoded::Message(time) = decoded {
                    self.symbol = symbol(record, time, out, &mut self.metadata)?;
                }
                Ok(decoded)
            });
            match decoded {
                Ok(Decoded::Message(time)) => {
                    self.pass(length);
                    return Ok(Some(time));
                }
                Ok(Decoded::Unknown(_)) if self.record == 1 && !self.has_metadata => {
                    let reason = format!("not a file of dbn: expected {LOOKED_FOR}");
                    return Err(ImportError::WrongFormat { path: self.path.clone(), reason });
                }
                Ok(Decoded::Unknown(kind)) => {
                    self.counters.add_unknown(format!("record type {kind:#04x}"), 1)
                }
                Err(_) if self.on_bad_line.skips(self.counters.bad_lines) => self.counters.bad_lines += 1,
                Err(bad) => return Err(self.bad(&bad)),
            }
            self.pass(length);
        }
    }

    fn pass(&mut self, length: usize) {
        self.window.pass(length);
        self.record += 1;
    }

    /// Length of the next record, once all of it is in the window.
    #[inline]
    fn whole_record(&mut self) -> Result<Option<usize>, ImportError> {
        if !self.window.has(1).map_err(|error| self.damaged(error))? {
            return Ok(None);
        }
        let length = usize::from(self.window.bytes()[0]) * WORD;
        if length < HEAD_BYTES {
            let what = "the length of a record is below 16 bytes: no DBN file, or damaged";
            return Err(self.damaged(io::Error::new(io::ErrorKind::InvalidData, what)));
        }
        match self.window.has(length) {
            Ok(true) => Ok(Some(length)),
            Ok(false) => Err(self.damaged(io::ErrorKind::UnexpectedEof.into())),
            Err(error) => Err(self.damaged(error)),
        }
    }

    #[cold]
    fn damaged(&self, source: io::Error) -> ImportError {
        ImportError::Damaged {
            path: self.path.clone(),
            record: self.record,
            offset: self.window.offset(),
            source,
        }
    }

    #[cold]
    fn bad(&self, bad: &BadRecord) -> ImportError {
        let offset = self.window.offset() + bad.offset as u64;
        ImportError::Record {
            path: self.path.clone(),
            record: self.record,
            offset,
            expected: bad.expected.into(),
        }
    }
}

/// The symbol of a row. A mapping in the file is a row, and holds for those after it.
#[inline]
fn symbol(
    record: &[u8],
    time: Timestamp,
    out: &AnyRecord,
    metadata: &mut Metadata,
) -> Result<Symbol, BadRecord> {
    let number = u32::from_le_bytes([record[4], record[5], record[6], record[7]]);
    // A bar is of the day on which it begins.
    let time = match out {
        AnyRecord::IntervalBar(bar) => bar.start.unwrap_or(time),
        _ => time,
    };
    let nanos = time.nanos() as u64;
    match out {
        AnyRecord::Order(_) | AnyRecord::MarketByPrice(_) => {}
        AnyRecord::SymbolMapping(mapping) => {
            let start = mapping.start.map_or(0, |start| start.nanos() as u64);
            let end = mapping.end.map_or(u64::MAX, |end| end.nanos() as u64);
            if !metadata.symbols.add(number, start, end, &mapping.symbol_out) {
                return Err(BadRecord { offset: 0, expected: "at most 4,194,304 symbol mappings in a file" });
            }
            if !mapping.symbol_out.is_empty() {
                return Ok(Symbol::Own(mapping.symbol_out.clone()));
            }
        }
        AnyRecord::Notice(_) if number == 0 && !metadata.dataset.is_empty() => {
            return Ok(Symbol::Own(metadata.dataset.clone()));
        }
        AnyRecord::Definition(definition) if !metadata.symbols.has(number, nanos) => {
            if let Some(symbol) = &definition.raw_symbol {
                return Ok(Symbol::Own(symbol.clone()));
            }
        }
        _ => {}
    }
    Ok(Symbol::Mapped(number, nanos))
}

impl Source for Records {
    fn next(&mut self, out: &mut AnyRecord) -> Result<Option<RowHeader<'_>>, ImportError> {
        if self.ended {
            return Ok(None);
        }
        match self.advance(out) {
            Ok(Some(time)) => {
                self.counters.rows += 1;
                let symbol = match &self.symbol {
                    Symbol::Mapped(number, time) => self.metadata.symbols.name(*number, *time),
                    Symbol::Own(symbol) => symbol,
                };
                Ok(Some(RowHeader { time, symbol }))
            }
            end_or_error => {
                self.ended = true;
                out.package();
                end_or_error.map(|_| None)
            }
        }
    }

    fn progress(&self) -> (u64, u64) {
        (self.window.bytes_read.load(Ordering::Relaxed), self.bytes_total)
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
}
