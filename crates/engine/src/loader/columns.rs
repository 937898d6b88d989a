//! Appends messages that a program has as columns.

use super::{BATCH_MESSAGES_MAX, Loader, SymbolId, check_message};
use crate::error::{Error, Invalid, Rejected};
use crate::stream::reader::StreamReader;
use std::collections::HashMap;
use tapedb_codec::Record;
use tapedb_codec::batch::{
    self, BatchBuilder, BatchHeader, ColumnWriter, FieldValues, InputColumn, MAX_MESSAGE_BYTES, Misfit,
    RowMaker, Rows, Validity,
};
use tapedb_codec::dynamic::{Layouts, RecordLayout};
use tapedb_log::LogError;
use tapedb_schema::Timestamp;

/// Columns of fewer rows wait in the loader with single messages: a batch has its price.
const ROWS_MIN: usize = 256;

/// A batch of columns takes at least about so many bytes as rows, however small batches of single messages are.
const BATCH_BYTES_MIN: usize = 1 << 20;

/// Bytes of all texts of one call that are longer than [`SHORT_BYTES`]. Rows may share them, so that little memory stands for much.
const LONG_BYTES_MAX: usize = 1 << 30;

/// Shorter texts take about as much as their rows do.
const SHORT_BYTES: usize = 64;

/// Name of the column of symbols in errors.
const SYMBOL: &str = "symbol";

/// Longest symbol, in bytes.
const SYMBOL_BYTES_MAX: usize = 255;

/// Messages of one record type as columns, for [`Loader::append_columns`].
#[derive(Debug, Clone)]
pub struct MessageColumns<'a> {
    record: &'a str,
    times: &'a [i64],
    symbols: Symbols<'a>,
    fields: Vec<InputColumn<'a>>,
}

/// The symbols of rows.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Symbols<'a> {
    /// The same for all rows.
    One(&'a str),
    /// One for each row, by name.
    Names(&'a [&'a str]),
    /// One for each row, looked up before: [`Loader::symbol_ids`].
    Ids(&'a [SymbolId]),
    /// Few names that occur often.
    Dictionary {
        /// The names.
        names: &'a [&'a str],
        /// Of each row the index of its name.
        keys: &'a [u32],
    },
}

impl<'a> MessageColumns<'a> {
    /// Messages of a record type by its name: their times, in nanoseconds since the Unix epoch, and symbols. Each field
    /// follows with [`MessageColumns::field`].
    pub fn new(record: &'a str, times: &'a [i64], symbols: Symbols<'a>) -> Self {
        Self { record, times, symbols, fields: Vec::new() }
    }

    /// [`MessageColumns::new`] for a Rust type.
    pub fn of<T: Record>(times: &'a [i64], symbols: Symbols<'a>) -> Self {
        Self::new(T::NAME, times, symbols)
    }

    /// Adds a field that has a value in every row: a slice of the field's type, such as `&[f64]`; see
    /// [`FieldValues`](crate::FieldValues) for all.
    pub fn field(self, name: &'a str, values: impl Into<FieldValues<'a>>) -> Self {
        self.column(InputColumn::new(name, values))
    }

    /// Adds a field that is null where `validity` is `false`; the values there are not looked at.
    pub fn nullable(
        self,
        name: &'a str,
        values: impl Into<FieldValues<'a>>,
        validity: impl Into<Validity<'a>>,
    ) -> Self {
        self.column(InputColumn::nullable(name, values, validity))
    }

    /// Adds a field.
    pub fn column(mut self, column: InputColumn<'a>) -> Self {
        self.fields.push(column);
        self
    }

    /// Number of messages.
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// Whether there are no messages.
    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
    }
}

impl Loader {
    /// Appends messages of one record type that are there as columns, without making messages of them. Returns how many: all, or those
    /// that the stream lacks of a source that is resumed.
    ///
    /// Everything is checked first: if any value does not fit, the error names its column and row, and nothing of the call is
    /// appended. Fields that may be null can be left out. They are then null. Many rows are written in batches of columns; the last of
    /// them is not kept back for more. Few rows wait in the loader like single messages.
    ///
    /// A process that is killed, or loses power, within a call has written the first rows of it, up to the end of a batch: of a call of at most
    /// 65,536 rows and about 1 MiB, all or none.
    ///
    /// Readers get the same messages as if each had been appended. Record types with nested records and arrays, which have no
    /// columns in the log, are written as rows.
    ///
    /// ```
    /// use tapedb_codec::{Record, SchemaBuilder};
    /// use tapedb_engine::{Database, MessageColumns, Symbols};
    ///
    /// #[derive(Record, Debug, Default)]
    /// #[record(message)]
    /// struct Quote {
    ///     bid: f64,
    ///     size: Option<u32>,
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let directory = tempfile::tempdir()?;
    /// let db = Database::open(directory.path().join("db"))?;
    /// let stream = db.create_stream("quotes", SchemaBuilder::new().with::<Quote>().finish(), Default::default())?;
    /// let mut loader = stream.loader()?;
    /// let (times, symbols) = ([1_000, 1_001, 1_002], ["A", "B", "A"]);
    /// let (bids, sizes, known) = ([10.5, 20.25, 10.75], [100u32, 0, 300], [true, false, true]);
    /// let quotes = MessageColumns::of::<Quote>(&times, Symbols::Names(&symbols))
    ///     .field("bid", &bids[..])
    ///     .nullable("size", &sizes[..], &known[..]);
    /// loader.append_columns(&quotes)?;
    /// loader.close()?;
    ///
    /// let mut cursor = stream.cursor().open()?;
    /// let mut read = Vec::new();
    /// while let Some(message) = cursor.next()? {
    ///     let quote: Quote = message.decode()?;
    ///     read.push((message.symbol().to_owned(), quote.bid, quote.size));
    /// }
    /// assert_eq!(read[1], ("B".to_owned(), 20.25, None));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Rejected::Columns`] for columns that do not fit; [`Rejected::Late`] for rows out of order in a stream that refuses late
    /// messages; when nothing can be written. If writing fails after some batches of the call have been written, the others wait in
    /// the loader, the call succeeds, and [`Loader::flush`] returns the error: after a full disk it can be made again. If
    /// another loader of a stream that refuses late messages appends later ones during the call, the rest of the call is dropped
    /// ([`Loader::given_up`]).
    pub fn append_columns(&mut self, columns: &MessageColumns<'_>) -> Result<usize, Error> {
        let stream = self.stream.clone();
        let MessageColumns { times, symbols, .. } = columns;
        let rows = times.len();
        let mut encoder = checked(&stream, columns)?;
        let passed_over = self.stored_ahead(rows);
        self.check_times(&times[passed_over..])?;
        let symbols = self.ids_of(symbols, rows)?;
        let position = self.position();
        self.pass_over(passed_over);
        let rest = RowHeads { times, symbols: &symbols, schema_version: stream.definition.schema_version };
        let sent = match rows - passed_over {
            0 => Ok(()),
            1..ROWS_MIN if encoder.is_one_batch(self.batch_bytes) => {
                self.push_rows(&mut encoder, &rest, passed_over)
            }
            _ => self.send_columns(&mut encoder, &rest, passed_over),
        };
        match sent {
            Ok(()) => {
                self.last_time = times[passed_over..].iter().copied().fold(self.last_time, i64::max);
                Ok(rows - passed_over)
            }
            // These are dropped, and their source goes on behind them.
            Err(error @ Error::Rejected(Rejected::Late { .. })) => Err(error),
            Err(error) => {
                self.return_to(position);
                Err(error)
            }
        }
    }

    /// Checks everything that [`Loader::append_columns`] checks of values, and appends nothing: so a program that has a table in
    /// several pieces appends all of them, or none. Times out of order are not looked at.
    ///
    /// # Errors
    /// [`Rejected::Columns`] for columns that do not fit.
    pub fn check_columns(&self, columns: &MessageColumns<'_>) -> Result<(), Error> {
        checked(&self.stream, columns).map(drop)
    }

    /// Refuses times out of order where the stream does.
    fn check_times(&self, times: &[i64]) -> Result<(), Error> {
        if !self.stream.settings.refuses_late() {
            return Ok(());
        }
        let Some(first) = times.first() else { return Ok(()) };
        self.refuse_late(Timestamp(*first))?;
        match times.windows(2).find(|pair| pair[1] < pair[0]) {
            Some(pair) => {
                let (time, last) = (Timestamp(pair[1]), Timestamp(pair[0]));
                Err(Error::Rejected(Rejected::Late { stream: self.stream.name.clone(), time, last }))
            }
            None => Ok(()),
        }
    }

    /// The id of each row's symbol; names and keys have been checked.
    fn ids_of(&mut self, symbols: &Symbols<'_>, rows: usize) -> Result<Vec<u32>, Error> {
        match symbols {
            Symbols::One(name) => Ok(vec![self.symbol(name)?.id; rows]),
            Symbols::Names(names) => {
                let (distinct, keys) = distinct(names);
                let ids = self.symbol_ids(&distinct)?;
                Ok(keys.iter().map(|key| ids[*key as usize].id).collect())
            }
            Symbols::Ids(ids) => {
                // Looked at to the end, since as good as always all are of this stream.
                let stream = self.symbol_id(0).stream;
                if ids.iter().fold(0, |differ, id| differ | (id.stream ^ stream)) != 0 {
                    ids.iter().try_for_each(|id| self.own(*id).map(drop))?;
                }
                Ok(ids.iter().map(|id| id.id).collect())
            }
            Symbols::Dictionary { names, keys } => {
                // Names that no row has are not made symbols of the stream.
                let mut ids = vec![None; names.len()];
                keys.iter().for_each(|key| ids[*key as usize] = Some(0));
                let used = || names.iter().zip(0..);
                let used: Vec<&str> =
                    used().filter(|(_, at)| ids[*at].is_some()).map(|(name, _)| *name).collect();
                let found = self.symbol_ids(&used)?;
                ids.iter_mut().flatten().zip(found).for_each(|(id, found)| *id = found.id);
                Ok(keys.iter().map(|key| ids[*key as usize].unwrap_or_default()).collect())
            }
        }
    }

    /// Adds few rows to the batch of single messages.
    fn push_rows(
        &mut self,
        encoder: &mut Encoder<'_>,
        source: &RowHeads<'_>,
        start: usize,
    ) -> Result<(), Error> {
        let (mut batch, mut rows) = (Vec::new(), Rows::default());
        encoder.write(start, self.batch_bytes, source, &mut batch)?;
        let batch = encoder.as_rows(batch)?;
        rows.load(&batch).map_err(LogError::Batch)?;
        let bytes = self.batch.payload_bytes() + batch.len();
        if bytes > self.batch_bytes.max(batch.len()) || self.batch.len() + rows.len() > BATCH_MESSAGES_MAX {
            self.send()?;
        }
        for row in 0..rows.len() {
            let found = rows.row(row);
            self.batch.push_bytes(found.time, found.symbol, found.type_id, &batch[found.body])?;
        }
        Ok(())
    }

    /// Writes batches of columns, after the messages that wait in the loader.
    fn send_columns(
        &mut self,
        encoder: &mut Encoder<'_>,
        source: &RowHeads<'_>,
        from: usize,
    ) -> Result<(), Error> {
        self.send()?;
        let (mut start, mut has_failed) = (from, false);
        while start < source.times.len() {
            let mut batch = if has_failed { Vec::new() } else { std::mem::take(&mut self.unsent) };
            let first = start;
            start = encoder.write(start, self.batch_bytes.max(BATCH_BYTES_MIN), source, &mut batch)?;
            if let Some(resumed) = &mut self.resumed {
                resumed.assign(&mut batch, start - first)?;
            }
            if has_failed {
                self.waiting.push_back(batch);
                continue;
            }
            self.unsent = batch;
            let given_up = self.given_up;
            match self.send_batch() {
                Ok(()) => {}
                Err(error) if first == from => {
                    self.unsent.clear();
                    self.given_up = given_up;
                    return Err(error);
                }
                // The rest of the call has been dropped as well, as if it had waited.
                Err(error @ Error::Rejected(Rejected::Late { .. })) => {
                    self.given_up += (source.times.len() - start) as u64;
                    return Err(error);
                }
                Err(_) => has_failed = true,
            }
        }
        Ok(())
    }
}

/// What rows have besides their fields.
struct RowHeads<'a> {
    times: &'a [i64],
    symbols: &'a [u32],
    schema_version: u16,
}

/// Checks the values of columns: what is left to do with them.
fn checked<'a>(stream: &'a StreamReader, columns: &MessageColumns<'a>) -> Result<Encoder<'a>, Error> {
    let MessageColumns { record, times, symbols, fields } = columns;
    let Some(record) = stream.layouts.records().iter().find(|found| found.name == *record) else {
        let why = "the stream has no such record type";
        return Err(Error::Invalid(Invalid::Type {
            stream: (*stream.name).into(),
            record: (*record).into(),
            why,
        }));
    };
    check_message(stream, record.type_id)?;
    let misfit = |misfit| {
        Error::Rejected(Rejected::Columns { stream: (*stream.name).into(), misfit: Box::new(misfit) })
    };
    check_bytes(fields).map_err(misfit)?;
    let encoder = Encoder::new(&stream.layouts, record, fields, times.len()).map_err(misfit)?;
    check_symbols(symbols, times.len()).map_err(misfit)?;
    Ok(encoder)
}

/// Makes batches of rows whose values have been checked.
enum Encoder<'a> {
    Columns {
        layouts: &'a Layouts,
        writer: ColumnWriter<'a>,
    },
    /// Of a record type that has no columns in the log: encoded bodies, and where each ends.
    Rows {
        type_id: u16,
        bodies: Vec<u8>,
        ends: Vec<usize>,
    },
}

impl<'a> Encoder<'a> {
    fn new(
        layouts: &'a Layouts,
        record: &'a RecordLayout,
        fields: &[InputColumn<'a>],
        rows: usize,
    ) -> Result<Self, Misfit> {
        if batch::is_columnar(record) {
            let writer = ColumnWriter::new(layouts, record, fields, rows)?;
            return Ok(Self::Columns { layouts, writer });
        }
        let maker = RowMaker::new(layouts, record, fields, rows)?;
        let (mut bodies, mut ends) = (Vec::new(), Vec::with_capacity(rows));
        for row in 0..rows {
            let start = bodies.len();
            maker.encode(row, &mut bodies)?;
            let bytes = bodies.len() - start;
            if bytes > MAX_MESSAGE_BYTES {
                let what =
                    format!("a message of {bytes} bytes is over the limit of {MAX_MESSAGE_BYTES}; split it");
                return Err(Misfit { column: record.name.clone(), row: Some(row), what });
            }
            ends.push(bodies.len());
        }
        Ok(Self::Rows { type_id: record.type_id, bodies, ends })
    }

    /// Whether all rows together are no more than a batch of single messages.
    fn is_one_batch(&self, bytes_max: usize) -> bool {
        match self {
            Self::Columns { writer, .. } => writer.next(0, BATCH_MESSAGES_MAX, bytes_max).end == writer.len(),
            Self::Rows { bodies, .. } => bodies.len() <= bytes_max,
        }
    }

    /// Appends to `out` the batch that begins with row `start`; returns the row after its last one.
    fn write(
        &mut self,
        start: usize,
        bytes_max: usize,
        source: &RowHeads<'_>,
        out: &mut Vec<u8>,
    ) -> Result<usize, Error> {
        let RowHeads { times, symbols, schema_version } = *source;
        match self {
            Self::Columns { writer, .. } => {
                let rows = writer.next(start, BATCH_MESSAGES_MAX, bytes_max);
                writer.write(
                    rows.clone(),
                    (&times[rows.clone()], &symbols[rows.clone()]),
                    schema_version,
                    out,
                );
                Ok(rows.end)
            }
            Self::Rows { type_id, bodies, ends } => {
                let (mut builder, mut end) = (BatchBuilder::new(), start);
                let begin = |row: usize| row.checked_sub(1).map_or(0, |before| ends[before]);
                while end < times.len()
                    && builder.payload_bytes() < bytes_max
                    && builder.len() < BATCH_MESSAGES_MAX
                {
                    let body = &bodies[begin(end)..ends[end]];
                    builder.push_bytes(times[end], symbols[end], *type_id, body)?;
                    end += 1;
                }
                builder.finish(schema_version, out);
                Ok(end)
            }
        }
    }

    /// A batch that this encoder has written, as rows.
    fn as_rows(&self, batch: Vec<u8>) -> Result<Vec<u8>, Error> {
        let header = BatchHeader::parse(&batch).map_err(LogError::Batch)?;
        match self {
            Self::Columns { layouts, .. } if header.is_columnar() => {
                let mut rows = Vec::new();
                batch::to_rows(&header, &batch, layouts, &mut rows).map_err(LogError::Batch)?;
                Ok(rows)
            }
            _ => Ok(batch),
        }
    }
}

/// The names that occur, and of each row the index of its own.
fn distinct<'a>(names: &[&'a str]) -> (Vec<&'a str>, Vec<u32>) {
    let (mut found, mut distinct) = (HashMap::new(), Vec::new());
    let key = |name: &&'a str| {
        *found.entry(*name).or_insert_with(|| {
            distinct.push(*name);
            distinct.len() as u32 - 1
        })
    };
    let keys = names.iter().map(key).collect();
    (distinct, keys)
}

/// Checks that encoded texts take bounded memory, whether or not rows share them.
fn check_bytes(fields: &[InputColumn<'_>]) -> Result<(), Misfit> {
    let mut bytes = 0usize;
    for field in fields {
        bytes = bytes.saturating_add(long_bytes(&field.values));
        if bytes > LONG_BYTES_MAX {
            let what = format!(
                "the texts of all rows have {bytes} bytes, or as many items; the limit of one call is {LONG_BYTES_MAX}: append fewer rows at once"
            );
            return Err(Misfit { column: field.name.into(), row: None, what });
        }
    }
    Ok(())
}

/// Bytes of long texts, also below records and lists, and items that take no memory.
fn long_bytes(values: &FieldValues<'_>) -> usize {
    fn sum(lengths: impl Iterator<Item = usize>) -> usize {
        lengths.filter(|length| *length > SHORT_BYTES).fold(0, usize::saturating_add)
    }
    let of_fields = |fields: &[InputColumn<'_>]| {
        fields.iter().fold(0, |bytes: usize, field| bytes.saturating_add(long_bytes(&field.values)))
    };
    match values {
        FieldValues::Texts(texts) => sum(texts.iter().map(|text| text.len())),
        FieldValues::Binaries(values) => sum(values.iter().map(|value| value.len())),
        FieldValues::Dictionary { texts, keys } => {
            sum(keys.iter().map(|key| texts.get(*key as usize).map_or(0, |text| text.len())))
        }
        FieldValues::List { offsets, items } if is_hollow(&items.values) => {
            offsets.last().map_or(0, |items| *items as usize)
        }
        FieldValues::List { items, .. } => long_bytes(&items.values),
        FieldValues::Record(fields) => of_fields(fields),
        FieldValues::Union { alternatives, .. } => {
            alternatives.iter().fold(0, |bytes: usize, fields| bytes.saturating_add(of_fields(fields)))
        }
        _ => 0,
    }
}

/// Whether values take no memory, however many they are.
fn is_hollow(values: &FieldValues<'_>) -> bool {
    match values {
        FieldValues::Nulls(_) => true,
        FieldValues::Record(fields) => fields.iter().all(|field| is_hollow(&field.values)),
        _ => false,
    }
}

/// Checks that each row has a name that a symbol can have.
fn check_symbols(symbols: &Symbols<'_>, rows: usize) -> Result<(), Misfit> {
    let wrong = |row, what| Err(Misfit { column: SYMBOL.into(), row, what });
    let have = match symbols {
        Symbols::One(_) => rows,
        Symbols::Names(names) => names.len(),
        Symbols::Ids(ids) => ids.len(),
        Symbols::Dictionary { keys, .. } => keys.len(),
    };
    if have != rows {
        return wrong(None, format!("has {have} rows, and there are {rows} times"));
    }
    let is_right = |name: &str| (1..=SYMBOL_BYTES_MAX).contains(&name.len());
    let length = |row, name: &str| {
        wrong(row, format!("a symbol has 1 to {SYMBOL_BYTES_MAX} bytes, and this one {}", name.len()))
    };
    match symbols {
        Symbols::One(name) if !is_right(name) => length(None, name),
        Symbols::Names(names) => match names.iter().position(|name| !is_right(name)) {
            Some(row) => length(Some(row), names[row]),
            None => Ok(()),
        },
        Symbols::Dictionary { names, keys } => {
            let unfit = |key: &u32| names.get(*key as usize).is_none_or(|name| !is_right(name));
            match keys.iter().position(unfit) {
                Some(row) => match names.get(keys[row] as usize) {
                    Some(name) => length(Some(row), name),
                    None => wrong(
                        Some(row),
                        format!("key {} of a dictionary of {} names", keys[row], names.len()),
                    ),
                },
                None => Ok(()),
            }
        }
        _ => Ok(()),
    }
}
