//! Rows of a table as messages of a stream.

use super::cells::{is_of_one_cell, value};
use super::file::{Records, TableFile};
use super::mapping::{Header, TableOptions, TableSymbol};
use super::times::Times;
use crate::error::{ImportError, excerpt};
use crate::options::OnBadLine;
use crate::source::is_symbol;
use csv::ByteRecord;
use std::sync::atomic::Ordering;
use tapedb_codec::batch::MAX_MESSAGE_BYTES;
use tapedb_codec::dynamic::{Layouts, RecordValue, Value};
use tapedb_schema::{TimeUnit, Timestamp};

/// A row; borrowed until the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableRow<'a> {
    /// The message's time.
    pub time: Timestamp,
    /// The symbol.
    pub symbol: &'a str,
    /// The message's body.
    pub body: &'a [u8],
}

/// The rows of a file.
pub struct TableRows {
    records: Records,
    header: Header,
    times: Times,
    /// Times in fields may have another unit.
    field_times: Vec<Times>,
    /// Field of the record for each of the header's fields.
    fields: Vec<usize>,
    layouts: Layouts,
    value: RecordValue,
    record: ByteRecord,
    symbol: String,
    is_symbol_fixed: bool,
    body: Vec<u8>,
    on_bad_line: OnBadLine,
    bad_lines: u64,
    bytes_total: u64,
}

impl TableRows {
    /// Opens a file at its first row, for messages of a type of a schema.
    ///
    /// # Errors
    /// [`ImportError::Open`]; [`ImportError::WrongFormat`] for a header that does not fit the options or the type.
    pub fn open(
        file: &TableFile,
        options: &TableOptions,
        (layouts, type_id): (&Layouts, u16),
        on_bad_line: OnBadLine,
    ) -> Result<Self, ImportError> {
        let mut records = file.records(options.delimiter)?;
        let header = options.header(&mut records)?;
        let times = options.times(&records)?;
        let wrong = |reason: String| ImportError::WrongFormat { path: file.path.clone(), reason };
        let layout = &layouts.records()[usize::from(type_id)];
        let mut fields = Vec::new();
        for (_, name) in &header.fields {
            let at = layout.field(name).filter(|at| is_of_one_cell(&layout.fields[*at].ty));
            let at = at.ok_or_else(|| {
                wrong(format!(
                    "{} has no field {name:?} of one cell; map the column to one with --map COLUMN=FIELD, or leave it out with \
                     --map COLUMN=",
                    layout.name
                ))
            })?;
            if fields.contains(&at) {
                return Err(wrong(format!("two columns are the field {name:?}")));
            }
            fields.push(at);
        }
        let absent = layout
            .fields
            .iter()
            .enumerate()
            .find(|(at, field)| !fields.contains(at) && field.null_bit.is_none() && !field.has_default);
        if let Some((_, field)) = absent {
            return Err(wrong(format!("no column is the field {:?}, which may not be null", field.name)));
        }
        let mut value = RecordValue { type_id, fields: vec![Value::Null; layout.fields.len()] };
        let defaults = layouts.from_json(&format!("{{\"$type\": {:?}}}", layout.name));
        if let Ok(defaults) = defaults {
            value = defaults;
        }
        let symbol = match &options.symbol {
            TableSymbol::All(symbol) => symbol.clone(),
            TableSymbol::Column(_) => String::new(),
        };
        Ok(Self {
            field_times: vec![Times { unit: None, ..times.clone() }; header.fields.len()],
            is_symbol_fixed: !symbol.is_empty(),
            records,
            header,
            times,
            fields,
            layouts: layouts.clone(),
            value,
            record: ByteRecord::new(),
            symbol,
            body: Vec::new(),
            on_bad_line,
            bad_lines: 0,
            bytes_total: file.bytes,
        })
    }

    /// The next row; `None` at the end.
    ///
    /// # Errors
    /// [`ImportError::Line`] at a bad row that is not to be skipped, [`ImportError::Read`] if the file cannot be read on.
    pub fn next_row(&mut self) -> Result<Option<TableRow<'_>>, ImportError> {
        loop {
            if !self.records.next(&mut self.record)? {
                return Ok(None);
            }
            match self.row() {
                Ok(time) => {
                    return Ok(Some(TableRow { time, symbol: &self.symbol, body: &self.body }));
                }
                Err(_) if self.on_bad_line.skips(self.bad_lines) => self.bad_lines += 1,
                Err((cell, expected)) => {
                    let found = cell.and_then(|cell| self.record.get(cell)).map(<[u8]>::to_vec);
                    let found = found.unwrap_or_else(|| self.record.iter().collect::<Vec<_>>().join(&b','));
                    return Err(ImportError::Line {
                        place: self.records.place.clone(),
                        expected,
                        excerpt: excerpt(&found, 0),
                    });
                }
            }
        }
    }

    /// Makes the body of the record; the error is the cell, and what was expected.
    fn row(&mut self) -> Result<Timestamp, (Option<usize>, String)> {
        let Header { time, date, symbol, fields, unnamed, count } = &self.header;
        if self.record.len() != *count {
            return Err((None, format!("{count} cells as the header has, not {}", self.record.len())));
        }
        let record = &self.record;
        if let Some(at) = unnamed.iter().find(|at| !record[**at].trim_ascii().is_empty()) {
            return Err((Some(*at), "nothing in a column without a name; leave it out with --map =".into()));
        }
        let cell = |at: usize| {
            std::str::from_utf8(&record[at]).map_err(|_| (Some(at), "a text in UTF-8".to_string()))
        };
        let parsed = match date {
            Some(date) => self.times.parse_parts(cell(*date)?, cell(*time)?),
            None => self.times.parse(cell(*time)?),
        };
        let parsed = parsed.map_err(|expected| (Some(*time), expected))?;
        if let (Some(at), false) = (symbol, self.is_symbol_fixed) {
            self.symbol.clear();
            self.symbol.push_str(cell(*at)?.trim_ascii());
        }
        if !is_symbol(&self.symbol) {
            return Err((*symbol, "a symbol of 1 to 255 bytes".into()));
        }
        let layout = &self.layouts.records()[usize::from(self.value.type_id)];
        for (index, (at, _)) in fields.iter().enumerate() {
            let field = &layout.fields[self.fields[index]];
            let found = value(&self.layouts, field, cell(*at)?, &mut self.field_times[index]);
            self.value.fields[self.fields[index]] = found.map_err(|expected| (Some(*at), expected))?;
        }
        self.body.clear();
        let encoded = self.layouts.encode(&self.value, &mut self.body);
        encoded.map_err(|error| (None, format!("a row that fits the record: {error}")))?;
        if self.body.len() > MAX_MESSAGE_BYTES {
            return Err((None, format!("a message of at most {MAX_MESSAGE_BYTES} bytes")));
        }
        Ok(parsed)
    }

    /// Bytes of the file read so far, and in all.
    pub fn progress(&self) -> (u64, u64) {
        (self.records.bytes_read.load(Ordering::Relaxed), self.bytes_total)
    }

    /// Bad rows skipped so far.
    pub fn bad_lines(&self) -> u64 {
        self.bad_lines
    }

    /// Units that columns of times have by their size alone: that of the time, and those of fields.
    pub fn guessed_units(&self) -> impl Iterator<Item = TimeUnit> {
        let columns = std::iter::once(&self.times).chain(&self.field_times);
        columns.filter(|times| times.guessed).filter_map(|times| times.unit)
    }
}
