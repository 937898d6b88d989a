//! Reads fields as columns: values of many messages in one slice, without building messages.

use crate::error::{Error, Invalid};
use crate::read::chooser::RowChooser;
use crate::read::chunks::{Chunks, ColumnSource};
use crate::read::cursor::HOUR;
use crate::read::cursor_builder::CursorBuilder;
use crate::read::fields::{Field, Fields};
use crate::read::filled::{Filled, SymbolRun};
use crate::read::in_order::{InOrder, Progress};
use crate::read::position::Position;
use crate::read::value_range::{Number, NumberRange};
use crate::stream::reader::InUse;
use std::cell::OnceCell;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tapedb_schema::Decimal64;
use tapedb_segment::{ColumnKind, ColumnValues, Plan, StepKind, Values};

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
    of_ties_only: bool,
    in_time_order: bool,
    rows_max: usize,
    limit: u64,
    linger: Duration,
    ranges: Vec<(String, NumberRange)>,
    chooser: Option<Arc<dyn RowChooser>>,
}

/// Rows of a chunk in time order, unless the builder states another number.
const CHUNK_ROWS: usize = 65_536;

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
            of_ties_only: false,
            in_time_order: false,
            rows_max: CHUNK_ROWS,
            limit: u64::MAX,
            linger: Duration::ZERO,
            ranges: Vec::new(),
            chooser: None,
        }
    }
}

impl ColumnBuilder {
    /// Returns sequence numbers too.
    pub fn with_sequences(mut self) -> Self {
        self.with_sequences = true;
        self
    }

    /// Returns sequence numbers, but for chunks by symbol of which no message has the time of one of another chunk: in these, and between
    /// these and others, times alone tell the order.
    pub fn with_sequences_of_ties(mut self) -> Self {
        (self.with_sequences, self.of_ties_only) = (true, true);
        self
    }

    /// Lets `chooser` leave out rows of chunks by symbol, before their fields are decoded. It is not asked about all rows: others are
    /// returned.
    pub fn choose_rows(mut self, chooser: Arc<dyn RowChooser>) -> Self {
        self.chooser = Some(chooser);
        self
    }

    /// Returns exactly the messages of the cursor in its order, across chunks and within them: every setting of a
    /// [`CursorBuilder`] applies. Otherwise history comes in chunks by symbol, which is faster.
    pub fn in_time_order(mut self) -> Self {
        self.in_time_order = true;
        self
    }

    /// A chunk in time order, or of live messages, has at most so many rows (at least 1; 65,536 otherwise), and fewer where their
    /// values have more than about 16 MiB.
    pub fn chunk_rows(mut self, rows: usize) -> Self {
        self.rows_max = rows.clamp(1, u32::MAX as usize);
        self
    }

    /// At most so many messages, in time order: the first ones.
    pub fn limit(mut self, messages: u64) -> Self {
        self.limit = messages;
        self
    }

    /// Of live messages, [`ColumnCursor::next_within`] waits so long after the first message of a chunk for more of them, until the
    /// chunk has its maximum of rows: fewer, larger chunks for a later first message. 0 otherwise.
    pub fn linger(mut self, time: Duration) -> Self {
        self.linger = time;
        self
    }

    /// Leaves out blocks of segments in which no value of the numeric column at a path is from `least` to `most`, both included, as
    /// the smallest and largest values in the blocks' heads state; `None`: no bound. Of other blocks, and of what is in no segment,
    /// all rows are returned, whether they match or not.
    pub fn skip_outside(
        mut self,
        field: impl Into<String>,
        least: Option<Number>,
        most: Option<Number>,
    ) -> Self {
        self.ranges.push((field.into(), (least, most)));
        self
    }

    /// Opens the cursor. Its history is what has been committed so far; where the builder is
    /// [`live`](CursorBuilder::live), every later message follows in order of arrival, without gap or duplicate.
    ///
    /// # Errors
    /// [`Invalid::Type`](crate::Invalid::Type) for a record type and [`NotFound::Column`](crate::NotFound::Column) for a column
    /// that one of the streams does not have; [`Invalid::Cursor`](crate::Invalid::Cursor) for settings that need time order
    /// without it; and as [`CursorBuilder::open`].
    pub fn open(self) -> Result<ColumnCursor, Error> {
        let in_time_order = self.in_time_order;
        let Self { with_sequences, of_ties_only, rows_max, limit, linger, .. } = self;
        let cursor = self.cursor.clone().types([self.record.as_str()]);
        let by_symbol = !in_time_order && !cursor.skips_history();
        if by_symbol {
            cursor.check_by_symbol()?;
        }
        if limit < u64::MAX && !in_time_order {
            let what = "a limit takes the first messages in time order; ask for time order too";
            return Err(Error::Invalid(Invalid::Cursor { what: what.into() }));
        }
        let sources = self.sources_of(&cursor)?;
        let in_use = cursor.in_use();
        let from = match by_symbol {
            true => {
                let live = cursor.is_live().then(|| Box::new(cursor));
                let chunks = Chunks::new(sources).choosing(self.chooser.clone(), of_ties_only);
                From::Files { chunks: Box::new(chunks), live }
            }
            false => {
                let rows = InOrder::new(cursor.open()?, &sources, rows_max, limit);
                From::Cursor { rows: Box::new(rows), sources }
            }
        };
        Ok(ColumnCursor {
            from,
            names: SymbolNumbers::default(),
            filled: Filled::new(with_sequences),
            runs: OnceCell::new(),
            is_given: true,
            rows_max,
            linger,
            first_at: None,
            before: None,
            _in_use: in_use,
        })
    }

    /// Number of messages that a cursor with the same settings returns: from the heads of blocks where all of their messages
    /// count, so that little is read of sealed history. [`ColumnBuilder::skip_outside`] leaves out nothing here.
    ///
    /// # Errors
    /// As [`ColumnBuilder::open`] and [`ColumnCursor::next`]; [`Invalid::Cursor`](crate::Invalid::Cursor) for a live cursor, which
    /// has no end.
    pub fn count(mut self) -> Result<u64, Error> {
        if self.cursor.is_live() {
            let what = "messages of a live cursor cannot be counted: it has no end";
            return Err(Error::Invalid(Invalid::Cursor { what: what.into() }));
        }
        (self.fields, self.ranges) = (Vec::new(), Vec::new());
        let cursor = self.cursor.clone().types([self.record.as_str()]);
        if cursor.check_by_symbol().is_ok() {
            let count = Chunks::count(self.sources_of(&cursor)?, false)?;
            return Ok(count.unwrap_or_default().min(self.limit));
        }
        let (mut columns, mut count) = (self.in_time_order().open()?, 0);
        while let Some(chunk) = columns.next()? {
            count += chunk.len() as u64;
        }
        Ok(count)
    }

    /// What is read by symbol of each space of the cursor's streams.
    pub(crate) fn sources(self) -> Result<Vec<ColumnSource>, Error> {
        let cursor = self.cursor.clone().types([self.record.as_str()]);
        self.sources_of(&cursor)
    }

    /// What the cursor reads of each space of its streams.
    fn sources_of(&self, cursor: &CursorBuilder) -> Result<Vec<ColumnSource>, Error> {
        let mut sources: Vec<ColumnSource> = Vec::new();
        for (index, stream) in cursor.streams().iter().enumerate() {
            stream.check_is_here()?;
            stream.refresh()?;
            let same = sources.iter().find(|other| other.plan.layouts().schema() == stream.schema());
            let new = || Arc::new(Plan::new(stream.layouts.clone()));
            let plan = same.map_or_else(new, |same| same.plan.clone());
            let mut found = Fields::find(&plan, &stream.name, &self.record, &self.fields)?;
            for (path, range) in &self.ranges {
                found.skip_outside((&plan, &stream.name, &self.record), (path, *range))?;
            }
            let form = sources.iter().find(|other| other.fields.has_form_of(&found)).map(|other| other.form);
            for space in &stream.spaces {
                let at = (stream.clone(), index, space.clone());
                let filter = cursor.filter_of(stream);
                let mut source = ColumnSource::new(at, plan.clone(), found.clone(), filter);
                source.form = form.unwrap_or(index);
                source.end = cursor.end_of(sources.len());
                sources.push(source);
            }
        }
        Ok(sources)
    }
}

/// Reads columns of one record type, chunk by chunk.
///
/// In time order rows are those of a [`Cursor`](crate::Cursor) with the same settings. Otherwise chunks of history are in the order
/// of their first stored times: where a filter or a deletion excludes a chunk's first messages, it begins later than its turn. In
/// such a chunk rows are sorted by symbol, and those of a symbol by time; times of chunks may overlap where streams or late
/// messages do. Live messages are in order of arrival, always.
#[derive(Debug)]
pub struct ColumnCursor {
    from: From,
    names: SymbolNumbers,
    filled: Filled,
    /// Symbols of a chunk that is in time order, as runs, if they were asked for.
    runs: OnceCell<Vec<SymbolRun>>,
    /// Whether the rows of `filled` have been returned.
    is_given: bool,
    rows_max: usize,
    linger: Duration,
    /// When the first row of a chunk that waits for more arrived, and the position before it.
    first_at: Option<Instant>,
    before: Option<Position>,
    /// The use of the streams' database.
    _in_use: InUse,
}

#[derive(Debug)]
enum From {
    /// History by symbol; the builder, if live messages follow.
    Files {
        chunks: Box<Chunks>,
        live: Option<Box<CursorBuilder>>,
    },
    Cursor {
        rows: Box<InOrder>,
        sources: Vec<ColumnSource>,
    },
}

impl From {
    fn sources(&self) -> &[ColumnSource] {
        match self {
            Self::Files { chunks, .. } => &chunks.sources,
            Self::Cursor { sources, .. } => sources,
        }
    }
}

impl ColumnCursor {
    /// The next chunk, which has at least one row. `None`: there is none left, or, where the cursor is live, nothing new right now.
    ///
    /// # Errors
    /// Damage in the files, once for each damaged location; the next call continues after it. A deleted stream, once. Errors of
    /// the system are returned by every call until their cause is removed.
    #[expect(
        clippy::should_implement_trait,
        reason = "chunks borrow from the cursor, which an iterator does not allow"
    )]
    pub fn next(&mut self) -> Result<Option<Chunk<'_>>, Error> {
        self.fill()?;
        Ok(self.give())
    }

    /// The next chunk, waiting at most `timeout` for its first message, and then as long as the builder's
    /// [`linger`](ColumnBuilder::linger) for more. `None`: the time is over, or there is no message left; messages that wait for
    /// more are in a later chunk.
    ///
    /// # Errors
    /// As [`ColumnCursor::next`].
    pub fn next_within(&mut self, timeout: Duration) -> Result<Option<Chunk<'_>>, Error> {
        let mut deadline = None;
        loop {
            let is_open = self.fill()? == Progress::Open;
            let From::Cursor { rows, .. } = &mut self.from else { return Ok(self.give()) };
            if !is_open || rows.is_at_end() {
                return Ok(self.give());
            }
            let now = Instant::now();
            // A timeout past the end of the clock means no timeout: waits of one hour are repeated.
            let deadline = *deadline.get_or_insert_with(|| now.checked_add(timeout));
            let mut left = deadline.map_or(HOUR, |deadline| deadline.saturating_duration_since(now));
            if self.filled.len() > 0 && !self.is_given {
                let first_at = *self.first_at.get_or_insert(now);
                let lingered = now.saturating_duration_since(first_at);
                if lingered >= self.linger {
                    return Ok(self.give());
                }
                left = left.min(self.linger - lingered);
            }
            if left.is_zero() {
                return Ok(None);
            }
            rows.cursor.wait(left)?;
        }
    }

    /// Fills the chunk as far as there are messages.
    fn fill(&mut self) -> Result<Progress, Error> {
        if std::mem::replace(&mut self.is_given, false) {
            self.runs = OnceCell::new();
            if matches!(self.from, From::Cursor { .. }) {
                self.filled.clear();
            }
        }
        if let From::Files { chunks, live } = &mut self.from {
            if chunks.next(&mut self.filled)? {
                return Ok(Progress::Full);
            }
            self.filled.clear();
            let Some(builder) = live else { return Ok(Progress::Full) };
            let ends: Vec<u64> = chunks.sources.iter().map(|source| source.end).collect();
            let cursor = (**builder).clone().from_sequences(ends).open()?;
            let sources = std::mem::take(&mut chunks.sources);
            let rows = Box::new(InOrder::new(cursor, &sources, self.rows_max, u64::MAX));
            self.from = From::Cursor { rows, sources };
        }
        let From::Cursor { rows, sources } = &mut self.from else { return Ok(Progress::Full) };
        if self.filled.len() == 0 && !self.linger.is_zero() {
            self.before = Some(rows.position());
        }
        rows.fill(sources, &mut self.filled)
    }

    /// Returns the chunk, if it has a row.
    fn give(&mut self) -> Option<Chunk<'_>> {
        self.is_given = true;
        self.first_at = None;
        self.before = None;
        if self.filled.len() == 0 {
            return None;
        }
        self.names.number(self.from.sources(), &mut self.filled);
        Some(Chunk { cursor: self })
    }

    /// The position after the last returned chunk, from which a [`Cursor`](crate::Cursor) or another cursor of columns in time order
    /// continues. `None`: history is being read by symbol, where there is no such position.
    pub fn position(&self) -> Option<Position> {
        match (&self.from, &self.before) {
            (From::Files { .. }, _) => None,
            (From::Cursor { .. }, Some(before)) => Some(before.clone()),
            (From::Cursor { rows, .. }, None) => Some(rows.position()),
        }
    }

    /// A time before which no later chunk has a message, while history is read by symbol; `None`: it is not.
    pub fn reached(&self) -> Option<i64> {
        match &self.from {
            From::Files { chunks, .. } => Some(chunks.reached),
            From::Cursor { .. } => None,
        }
    }

    /// Whether the cursor was opened [`live`](CursorBuilder::live): it then has no end.
    pub fn follows(&self) -> bool {
        match &self.from {
            From::Files { live, .. } => live.is_some(),
            From::Cursor { rows, .. } => rows.cursor.follows(),
        }
    }

    /// Whether all streams have reached the end of their history.
    pub fn is_live(&self) -> bool {
        matches!(&self.from, From::Cursor { rows, .. } if rows.cursor.is_live())
    }

    fn source(&self, index: usize) -> &ColumnSource {
        &self.from.sources()[index]
    }

    /// The source of the first row of the chunk: those of the other rows have the same columns.
    fn first_source(&self) -> &ColumnSource {
        self.source(self.filled.sources.first().map_or(0, |(source, _)| *source))
    }
}

/// Numbers of symbols that are the same in all streams of a cursor; for one stream, their ids.
#[derive(Debug, Default)]
struct SymbolNumbers {
    /// Stream and id of each number.
    symbols: Vec<(usize, u32)>,
    /// The number of each id of each stream.
    numbers: Vec<Vec<u32>>,
}

impl SymbolNumbers {
    /// Replaces the ids in a chunk by numbers, where there are several streams.
    fn number(&mut self, sources: &[ColumnSource], filled: &mut Filled) {
        let streams = sources.last().map_or(0, |source| source.stream_index + 1);
        if streams < 2 {
            return;
        }
        self.numbers.resize_with(streams, Vec::new);
        let mut start = 0;
        for (source, end) in &filled.sources {
            let source = &sources[*source];
            let end = *end as usize;
            if filled.runs.is_empty() {
                let symbols = &mut filled.symbols[start..end];
                symbols.iter_mut().for_each(|symbol| *symbol = self.number_of(source, *symbol));
            } else {
                filled.runs.iter_mut().for_each(|run| run.symbol = self.number_of(source, run.symbol));
            }
            start = end;
        }
    }

    fn number_of(&mut self, source: &ColumnSource, id: u32) -> u32 {
        let stream = &source.stream;
        if id >= stream.dictionary.len() {
            // Another process may have just added it: looking it up reads the new names.
            stream.symbol(id);
        }
        // Damaged files may have any id: those without a name share a number.
        let id = id.min(stream.dictionary.len());
        let numbers = &mut self.numbers[source.stream_index];
        match numbers.get(id as usize) {
            Some(number) if *number != u32::MAX => *number,
            _ => {
                if numbers.len() <= id as usize {
                    numbers.resize(id as usize + 1, u32::MAX);
                }
                let number = self.symbols.len() as u32;
                numbers[id as usize] = number;
                self.symbols.push((source.stream_index, id));
                number
            }
        }
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
        self.cursor.filled.len()
    }

    /// Whether there are no messages: always `false`.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Times, nanoseconds since the Unix epoch.
    pub fn times(&self) -> &'a [i64] {
        &self.cursor.filled.times
    }

    /// Symbols of the rows: runs of rows of one symbol.
    pub fn symbols(&self) -> &'a [SymbolRun] {
        let Filled { runs, symbols, .. } = &self.cursor.filled;
        if symbols.is_empty() { runs } else { self.cursor.runs.get_or_init(|| runs_of(symbols)) }
    }

    /// Numbers of the symbols, one for each row, of a chunk that is not by symbol: there rows of one symbol are seldom together.
    pub fn symbol_of_rows(&self) -> Option<&'a [u32]> {
        let symbols = &self.cursor.filled.symbols;
        (!symbols.is_empty()).then_some(symbols)
    }

    /// Name of a symbol of this chunk. Its number is the same in all chunks of the cursor: that of its stream and name.
    pub fn symbol(&self, number: u32) -> &'a str {
        let stream = |index: usize| {
            let sources = self.cursor.from.sources();
            let of_stream = sources.iter().find(|source| source.stream_index == index);
            &of_stream.unwrap_or_else(|| self.cursor.first_source()).stream
        };
        match self.cursor.names.symbols.get(number as usize) {
            Some((index, id)) => stream(*index).symbol(*id),
            None => stream(0).symbol(number),
        }
    }

    /// Sequence numbers in the space, if they were requested; see also [`ColumnBuilder::with_sequences_of_ties`].
    pub fn sequences(&self) -> Option<&'a [u64]> {
        let Filled { sequences, with_sequences, are_without_ties, .. } = &self.cursor.filled;
        (*with_sequences && !are_without_ties).then_some(sequences)
    }

    /// The streams and spaces of the rows: runs of rows of one space.
    pub fn spaces(&self) -> impl ExactSizeIterator<Item = SpaceRun<'a>> + use<'a> {
        let cursor = self.cursor;
        cursor.filled.sources.iter().map(move |(source, end)| {
            let source = cursor.source(*source);
            SpaceRun { stream: &source.stream.name, space: source.space.number, end: *end }
        })
    }

    /// A column, by its index among the requested ones.
    ///
    /// # Panics
    /// When the index is too large.
    pub fn column(&self, index: usize) -> Column<'a> {
        let fields = &self.cursor.first_source().fields;
        Column { field: &fields.asked[index], values: &self.cursor.filled.values }
    }
}

/// Consecutive rows of one space of a stream in a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpaceRun<'a> {
    /// Name of the stream.
    pub stream: &'a str,
    /// The space of the stream.
    pub space: u32,
    /// Index of the first row after the run.
    pub end: u32,
}

fn runs_of(symbols: &[u32]) -> Vec<SymbolRun> {
    let mut runs: Vec<SymbolRun> = Vec::new();
    for (end, symbol) in (1..).zip(symbols) {
        match runs.last_mut() {
            Some(run) if run.symbol == *symbol => run.end = end,
            _ => runs.push(SymbolRun { symbol: *symbol, end }),
        }
    }
    runs
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

    /// The number that all values are, where that is known without looking at them, as of a block that stores it once.
    pub fn same(&self) -> Option<i64> {
        self.values[self.field.values].same()
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
