//! Reads fields as columns: values of many messages in one slice, without building messages.

use crate::error::{Error, Unreadable};
use crate::read::block::Key;
use crate::read::chunks::{Chunks, ColumnSource, Filled, Packer, SymbolRun};
use crate::read::cursor::Cursor;
use crate::read::cursor_builder::CursorBuilder;
use crate::read::fields::{Field, Fields};
use crate::read::filter::Filter;
use crate::stream::reader::InUse;
use std::sync::Arc;
use tapedb_schema::Decimal64;
use tapedb_segment::{ColumnKind, ColumnValues, Plan, RowHeader, StepKind, Values};

/// Which columns to read; from [`CursorBuilder::columns`] or [`Stream::columns`](crate::Stream::columns).
///
/// ```
/// use tapedb_codec::{Record, SchemaBuilder};
/// use tapedb_engine::{Database, Values};
/// use tapedb_schema::Timestamp;
///
/// #[derive(Record, Debug, Default)]
/// #[record(message)]
/// struct Bar {
///     close: f64,
///     volume: u64,
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// let db = Database::open(directory.path().join("db"))?;
/// let stream = db.create_stream("bars", SchemaBuilder::new().with::<Bar>().finish(), Default::default())?;
/// let mut loader = stream.loader()?;
/// for i in 0..1_000 {
///     let bar = Bar { close: 10.0 + f64::from(i), volume: 5 };
///     loader.append(["A", "B"][i as usize % 2], Timestamp(i.into()), &bar)?;
/// }
/// loader.close()?;
///
/// let mut columns = stream.columns("Bar", ["close", "volume"]).open()?;
/// let (mut closes, mut volumes) = (0.0, 0);
/// while let Some(chunk) = columns.next()? {
///     let Values::F64s(close) = chunk.column(0).values() else { unreachable!() };
///     let Values::Ints(volume) = chunk.column(1).values() else { unreachable!() };
///     closes += close.iter().sum::<f64>();
///     volumes += volume.iter().sum::<i64>();
/// }
/// assert_eq!((closes, volumes), (509_500.0, 5_000));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct ColumnBuilder {
    cursor: CursorBuilder,
    record: String,
    fields: Vec<String>,
    with_sequences: bool,
    in_time_order: bool,
}

impl CursorBuilder {
    /// Reads columns instead of messages: of one record type the columns at these paths, such as `close`, or
    /// `entries.Trade.price` within arrays and alternatives, with times and symbols. [`ColumnBuilder`] has an example.
    pub fn columns<S: Into<String>>(
        self,
        record: &str,
        fields: impl IntoIterator<Item = S>,
    ) -> ColumnBuilder {
        let fields = fields.into_iter().map(Into::into).collect();
        ColumnBuilder {
            cursor: self,
            record: record.into(),
            fields,
            with_sequences: false,
            in_time_order: false,
        }
    }
}

impl ColumnBuilder {
    /// Returns sequence numbers too.
    pub fn with_sequences(mut self) -> Self {
        self.with_sequences = true;
        self
    }

    /// Returns rows in time order, across chunks and within them, as a cursor returns messages. This reads rows, and is several
    /// times slower. With several streams, each chunk has rows of one, so where streams alternate at every message, chunks are
    /// small.
    pub fn in_time_order(mut self) -> Self {
        self.in_time_order = true;
        self
    }

    /// Opens the cursor. It reads what has been committed so far.
    ///
    /// # Errors
    /// [`Invalid::Type`](crate::Invalid::Type) for a record type and [`NotFound::Column`](crate::NotFound::Column) for a column
    /// that one of the streams does not have; [`Invalid::Cursor`](crate::Invalid::Cursor) for settings that columns do not
    /// support: live, backwards, resume.
    pub fn open(self) -> Result<ColumnCursor, Error> {
        let Self { cursor, record, fields, with_sequences, in_time_order } = self;
        let cursor = cursor.types([record.as_str()]);
        cursor.check_columns()?;
        let mut sources = Vec::new();
        for stream in cursor.streams() {
            stream.check_is_here()?;
            stream.refresh()?;
            let plan = Arc::new(Plan::new(stream.layouts.clone()));
            let found = Fields::find(&plan, &stream.name, &record, &fields)?;
            for space in &stream.spaces {
                let filter: Filter = cursor.filter_of(stream);
                let at = (stream.clone(), space.clone());
                sources.push(ColumnSource::new(at, plan.clone(), found.clone(), filter));
            }
        }
        let in_use = cursor.in_use();
        let from = match in_time_order {
            false => From::Files(Box::new(Chunks::new(sources, with_sequences))),
            true => From::Rows(Box::new(InOrder::new(cursor.open()?, sources))),
        };
        Ok(ColumnCursor { from, filled: Filled::default(), with_sequences, _in_use: in_use })
    }
}

/// Reads columns of one record type, chunk by chunk.
///
/// Chunks are in the order of their first stored times: where a filter or a deletion excludes a chunk's first messages, it
/// begins later than its turn. In a chunk rows are sorted by symbol, and those of a symbol by time; times of chunks may overlap
/// where streams or late messages do. [`ColumnBuilder::in_time_order`] sorts all rows by time.
#[derive(Debug)]
pub struct ColumnCursor {
    from: From,
    filled: Filled,
    with_sequences: bool,
    /// The use of the streams' database.
    _in_use: InUse,
}

#[derive(Debug)]
enum From {
    Files(Box<Chunks>),
    Rows(Box<InOrder>),
}

impl ColumnCursor {
    /// The next chunk, which has at least one row. `None`: there is none left.
    ///
    /// # Errors
    /// Damage in the files, once for each damaged location; the next call continues after it. A deleted stream, once. Errors of
    /// the system are returned by every call until their cause is removed.
    #[expect(
        clippy::should_implement_trait,
        reason = "chunks borrow from the cursor, which an iterator does not allow"
    )]
    pub fn next(&mut self) -> Result<Option<Chunk<'_>>, Error> {
        let found = match &mut self.from {
            From::Files(chunks) => chunks.next(&mut self.filled)?,
            From::Rows(rows) => rows.next(&mut self.filled)?,
        };
        Ok(found.then_some(Chunk { cursor: self }))
    }

    fn source(&self) -> &ColumnSource {
        let sources = match &self.from {
            From::Files(chunks) => &chunks.sources,
            From::Rows(rows) => &rows.sources,
        };
        &sources[self.filled.source]
    }
}

/// Columns of many messages, in the cursor's memory: valid until the cursor moves on.
#[derive(Debug, Clone, Copy)]
pub struct Chunk<'a> {
    cursor: &'a ColumnCursor,
}

impl<'a> Chunk<'a> {
    /// Number of messages: at least one.
    pub fn len(&self) -> usize {
        self.cursor.filled.times.len()
    }

    /// Whether there are no messages: always `false`.
    pub fn is_empty(&self) -> bool {
        self.cursor.filled.times.is_empty()
    }

    /// Times, nanoseconds since the Unix epoch.
    pub fn times(&self) -> &'a [i64] {
        &self.cursor.filled.times
    }

    /// Symbols of the rows: runs of rows of one symbol.
    pub fn symbols(&self) -> &'a [SymbolRun] {
        &self.cursor.filled.runs
    }

    /// Name of a symbol of this chunk.
    pub fn symbol(&self, id: u32) -> &'a str {
        self.cursor.source().stream.symbol(id)
    }

    /// Sequence numbers in the space, if they were requested.
    pub fn sequences(&self) -> Option<&'a [u64]> {
        self.cursor.with_sequences.then_some(&self.cursor.filled.sequences)
    }

    /// Name of the stream.
    pub fn stream_name(&self) -> &'a str {
        &self.cursor.source().stream.name
    }

    /// The space of the stream.
    pub fn space(&self) -> u32 {
        self.cursor.source().space.number
    }

    /// A column, by its index among the requested ones.
    ///
    /// # Panics
    /// When the index is too large.
    pub fn column(&self, index: usize) -> Column<'a> {
        let fields = &self.cursor.source().fields;
        Column { field: &fields.asked[index], values: &self.cursor.filled.values }
    }
}

/// A column of a chunk.
///
/// A plain field has a value for each row. A field that may be null, that is in an array, or that only some alternatives of a
/// record have, has only the existing values, one after the other; [`Column::steps`] assign them to rows.
#[derive(Debug, Clone, Copy)]
pub struct Column<'a> {
    field: &'a Field,
    values: &'a [ColumnValues],
}

/// A step from rows to values. The first step has an entry for each row, each later one for each value that the step before
/// leads to, and the column has a value for each that the last step leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<'a> {
    /// 1: there is a value; 0: null.
    Present(&'a [i64]),
    /// Number of items.
    Items(&'a [i64]),
    /// The alternative of each record; the step leads to those that are `tag`.
    Is {
        /// The alternative of this column.
        tag: u16,
        /// Those of the records.
        tags: &'a [i64],
    },
}

impl<'a> Column<'a> {
    /// The existing values.
    pub fn values(&self) -> Values<'a> {
        self.values[self.field.values].values()
    }

    /// Kind of the values.
    pub fn kind(&self) -> ColumnKind {
        self.field.kind
    }

    /// The steps from rows to values; empty: each row has one value.
    pub fn steps(&self) -> impl ExactSizeIterator<Item = Step<'a>> + use<'a> {
        let values = self.values;
        self.field.steps.iter().map(move |step| {
            let found = match values[step.values].values() {
                Values::Ints(found) => found,
                // Presence, counts and tags are numbers.
                _ => &[],
            };
            match step.kind {
                StepKind::Present => Step::Present(found),
                StepKind::Items => Step::Items(found),
                StepKind::Is(tag) => Step::Is { tag, tags: found },
            }
        })
    }

    /// The values of a `decimal64` field; `None`: it is of another type.
    pub fn decimals(&self) -> Option<impl ExactSizeIterator<Item = Decimal64> + use<'a>> {
        match (self.field.kind, self.values()) {
            (ColumnKind::Decimal64, Values::Ints(bits)) => {
                Some(bits.iter().map(|bits| Decimal64::from_bits(*bits as u64)))
            }
            _ => None,
        }
    }
}

/// Chunks of rows in the order of a cursor.
#[derive(Debug)]
struct InOrder {
    cursor: Cursor,
    sources: Vec<ColumnSource>,
    packer: Packer,
    /// Time, sequence number and symbol of the rows being packed.
    rows: Vec<(Key, u32)>,
    /// The first message of the next chunk, and its source.
    next: Option<(usize, Key, u32, Vec<u8>)>,
}

impl InOrder {
    fn new(cursor: Cursor, sources: Vec<ColumnSource>) -> Self {
        Self { cursor, sources, packer: Packer::new(false), rows: Vec::new(), next: None }
    }

    fn next(&mut self, out: &mut Filled) -> Result<bool, Error> {
        let Self { cursor, sources, packer, rows, next } = self;
        if let Some((source, key, symbol, body)) = next.take() {
            out.source = source;
            pack(packer, &sources[source], rows, (key, symbol), &body)?;
        }
        while !packer.is_full() {
            let Some((message, source)) = cursor.next_of()? else { break };
            let (key, symbol) = ((message.time().0, message.sequence()), message.symbol_id());
            if !rows.is_empty() && source != out.source {
                *next = Some((source, key, symbol, message.body().to_vec()));
                break;
            }
            out.source = source;
            pack(packer, &sources[source], rows, (key, symbol), message.body())?;
        }
        if !packer.finish(&sources[out.source], out)? {
            return Ok(false);
        }
        out.times.clear();
        out.sequences.clear();
        out.runs.clear();
        for (row, ((time, sequence), symbol)) in rows.drain(..).enumerate() {
            out.times.push(time);
            out.sequences.push(sequence);
            let end = row as u32 + 1;
            match out.runs.last_mut() {
                Some(run) if run.symbol == symbol => run.end = end,
                _ => out.runs.push(SymbolRun { symbol, end }),
            }
        }
        Ok(true)
    }
}

/// Adds a row with its index instead of its time, and one symbol for all rows: so rows stay in the order of the cursor.
fn pack(
    packer: &mut Packer,
    source: &ColumnSource,
    rows: &mut Vec<(Key, u32)>,
    (key, symbol): (Key, u32),
    body: &[u8],
) -> Result<(), Error> {
    let index = rows.len() as u64;
    let header = RowHeader { time: 0, sequence: index, symbol: 0, type_id: source.fields.type_id };
    packer.push(source, header, body).map_err(|error| match error {
        Error::Unreadable(Unreadable::Message { stream, error, .. }) => {
            Error::Unreadable(Unreadable::Message { stream, sequence: key.1, error })
        }
        error => error,
    })?;
    rows.push((key, symbol));
    Ok(())
}
