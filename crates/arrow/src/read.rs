//! Reads messages of one record type as record batches.

use crate::arrays::{Arrays, Level, Shared, dictionary};
use crate::error::Error;
use crate::header::{SEQUENCE, SPACE, STREAM, SYMBOL, TIME, header_column};
use crate::tree::Tree;
use crate::types::{self, Decimals, ZONE};
use arrow_array::cast::AsArray;
use arrow_array::{
    ArrayRef, RecordBatch, RecordBatchOptions, RecordBatchReader, StringArray, TimestampNanosecondArray,
    UInt32Array, UInt64Array,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hint::black_box;
use std::sync::{Arc, Once};
use std::time::Duration;
use tapedb_engine::{
    Chunk, ColumnCursor, CursorBuilder, NumberRange, Position, RowChooser, SpaceRun, Stream, SymbolRun,
};

/// Most rows of a record batch.
pub const BATCH_ROWS_MAX: usize = 65_536;

/// Rows of a batch unless another number is asked for: the arrays of larger ones are not in a cache near by when they are used, and the
/// system's allocator takes memory for them from the system each time.
pub const BATCH_ROWS: usize = 16_384;

/// Numbers of symbols up to this one are looked up by index.
const NUMBERS_MAX: usize = 1 << 24;

/// What to read, and as what.
#[derive(Debug, Clone, Default)]
pub struct ReadOptions {
    /// What becomes of decimals.
    pub decimals: Decimals,
    /// What becomes of those in these fields, instead.
    pub decimals_of: BTreeMap<String, Decimals>,
    /// The fields to read, in this order; `None`: all. Others are not decoded.
    pub fields: Option<Vec<String>>,
    /// Without the column `time`.
    pub without_times: bool,
    /// Without the column `symbol`.
    pub without_symbols: bool,
    /// With the column `sequence`, and `space` where a stream has several.
    pub sequences: bool,
    /// In the column `sequence` 0 may stand for all numbers of a batch of which no message has the time of one of another batch.
    pub sequences_of_ties: bool,
    /// Rows by symbol come with [`BatchReader::symbol_runs`].
    pub symbol_runs: bool,
    /// Leaves out rows, where they are by symbol: see [`ColumnBuilder::choose_rows`](tapedb_engine::ColumnBuilder::choose_rows).
    pub chooser: Option<Arc<dyn RowChooser>>,
    /// Rows in the order of the cursor, across batches and within them, instead of by symbol within each block. Every setting of a
    /// cursor applies then.
    pub in_time_order: bool,
    /// The most rows of a batch, from 1 to [`BATCH_ROWS_MAX`]; `None`: [`BATCH_ROWS`].
    pub batch_rows: Option<usize>,
    /// At most so many messages; needs time order.
    pub limit: Option<u64>,
    /// Columns of numbers, and the least and the most of their wanted values: blocks that have none of them are left out, and the
    /// rows of others are returned whether they match or not, as [`ColumnBuilder::skip_outside`](tapedb_engine::ColumnBuilder::skip_outside).
    pub skip_outside: Vec<(String, NumberRange)>,
    /// How long [`BatchReader::next_batch_within`] waits for a batch of live messages to become full.
    pub linger: Duration,
}

impl ReadOptions {
    /// What becomes of the decimals in a field of the record type.
    fn decimals_in(&self, field: &str) -> Decimals {
        self.decimals_of.get(field).copied().unwrap_or(self.decimals)
    }
}

/// Checks that there is such a type.
fn check(decimals: Decimals, record: &str) -> Result<(), Error> {
    match decimals {
        Decimals::Decimal128 { precision, scale } if !(1..=38).contains(&precision) | (scale > precision) => {
            let what = format!(
                "Decimal128({precision}, {scale}) is not a type; digits are 1 to 38, with the scale at most as many"
            );
            Err(Error::schema(record, what))
        }
        _ => Ok(()),
    }
}

/// Record batches of the messages of one record type, each of 1 to [`BATCH_ROWS_MAX`] rows.
///
/// The first columns are `time` and `symbol`, unless they are left out, then `sequence` and `space` if they are asked for, and `stream` where several streams
/// are read; then the fields. Where the record type has a field of such a name, the column has that of
/// [`header_column`](crate::header_column). After an error the next call continues as [`ColumnCursor::next`] does.
///
/// ```
/// use tapedb_arrow::{BatchReader, ReadOptions};
/// use tapedb_engine::Database;
/// use tapedb_schema::Timestamp;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// let db = Database::open(directory.path().join("db"))?;
/// let schema = "message Bar { close: decimal64, volume: u64 }".parse()?;
/// let stream = db.create_stream("bars", schema, Default::default())?;
/// let mut loader = stream.loader()?;
/// let bar = stream.layouts().from_json(r#"{"$type": "Bar", "close": "10.25", "volume": 5}"#)?;
/// loader.append_value("A", Timestamp(1), &bar)?;
/// loader.close()?;
///
/// let reader = BatchReader::open(&[stream.clone()], stream.cursor(), "Bar", &ReadOptions::default())?;
/// let batches = reader.collect::<Result<Vec<_>, _>>()?;
/// assert_eq!(batches[0].num_rows(), 1);
/// assert_eq!(batches[0].schema().field(2).data_type(), &arrow_schema::DataType::Float64);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct BatchReader {
    cursor: ColumnCursor,
    tree: Tree,
    schema: SchemaRef,
    options: ReadOptions,
    with_spaces: bool,
    names: Dictionary,
    streams: Option<Dictionary>,
    rows: usize,
    batch_rows: usize,
    waiting: VecDeque<RecordBatch>,
    runs: Vec<SymbolRun>,
    shared: Shared,
}

impl BatchReader {
    /// Reads the messages of type `record` that the cursor selects. `streams` are those of the cursor: their versions of the
    /// record type must be the same.
    ///
    /// # Errors
    /// When a stream has no such record type or field, when their versions differ, and for what columns cannot do: see
    /// [`ColumnBuilder::open`](tapedb_engine::ColumnBuilder::open).
    pub fn open(
        streams: &[Stream],
        cursor: CursorBuilder,
        record: &str,
        options: &ReadOptions,
    ) -> Result<Self, Error> {
        keep_freed_memory();
        std::iter::once(&options.decimals)
            .chain(options.decimals_of.values())
            .try_for_each(|decimals| check(*decimals, record))?;
        let mut trees =
            streams.iter().map(|stream| Tree::new(stream.layouts(), record, options.fields.as_deref()));
        let tree = trees.next().unwrap_or_else(|| Err(Error::schema(record, "no stream is given")))?;
        for other in trees {
            let other = other?;
            if other.nodes != tree.nodes {
                let what = "the streams have different versions of this record type; read them one by one";
                return Err(Error::schema(record, what));
            }
        }
        if let Some(name) =
            options.decimals_of.keys().find(|name| tree.nodes.iter().all(|node| node.name != **name))
        {
            return Err(Error::schema(
                name,
                "decimals are stated for this field, which is not read; leave it out",
            ));
        }
        let mut columns = cursor.columns(record, tree.paths.iter().map(String::as_str));
        if options.sequences {
            columns = columns.with_sequences();
        }
        if options.sequences && options.sequences_of_ties {
            columns = columns.with_sequences_of_ties();
        }
        if let Some(chooser) = &options.chooser {
            columns = columns.choose_rows(chooser.clone());
        }
        if options.in_time_order {
            columns = columns.in_time_order();
        }
        let batch_rows = options.batch_rows.unwrap_or(BATCH_ROWS).clamp(1, BATCH_ROWS_MAX);
        columns = columns.chunk_rows(batch_rows).linger(options.linger);
        for (field, (least, most)) in &options.skip_outside {
            columns = columns.skip_outside(field, *least, *most);
        }
        if let Some(limit) = options.limit {
            columns = columns.limit(limit);
        }
        let with_spaces = options.sequences && streams.iter().any(|stream| stream.spaces() > 1);
        Ok(Self {
            cursor: columns.open()?,
            schema: schema_of(streams, &tree, options),
            tree,
            options: options.clone(),
            with_spaces,
            names: Dictionary::default(),
            streams: (streams.len() > 1).then(Dictionary::default),
            rows: 0,
            batch_rows,
            waiting: VecDeque::new(),
            runs: Vec::new(),
            shared: Shared::default(),
        })
    }

    /// The next batch; `None`: that was all, or, where the cursor is live, nothing is new right now.
    ///
    /// # Errors
    /// Those of [`ColumnCursor::next`], and for a decimal that is not exact in the type asked for: its chunk is left out.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>, Error> {
        self.next_of(ColumnCursor::next)
    }

    /// The next batch, waiting at most `timeout` for its first message, as [`ColumnCursor::next_within`] does.
    ///
    /// # Errors
    /// As [`BatchReader::next_batch`].
    pub fn next_batch_within(&mut self, timeout: Duration) -> Result<Option<RecordBatch>, Error> {
        self.next_of(|cursor| cursor.next_within(timeout))
    }

    /// Whether the cursor is [`live`](CursorBuilder::live): then there is no last batch.
    pub fn follows(&self) -> bool {
        self.cursor.follows()
    }

    /// Whether all streams have reached the end of their history.
    pub fn is_live(&self) -> bool {
        self.waiting.is_empty() && self.cursor.is_live()
    }

    /// A time before which no later batch has a message, while history is read by symbol, as [`ColumnCursor::reached`].
    pub fn reached(&self) -> Option<i64> {
        self.cursor.reached()
    }

    /// Runs of rows of one symbol each, by their places in [`BatchReader::symbol_names`], of the last returned batch, which is by symbol;
    /// only where [`BATCH_ROWS_MAX`] rows are asked for, so that no batch is cut.
    pub fn symbol_runs(&self) -> &[SymbolRun] {
        &self.runs
    }

    /// Names of the symbols so far: the list grows.
    pub fn symbol_names(&mut self) -> StringArray {
        self.names.values().as_string::<i32>().clone()
    }

    /// The position after the last returned batch, as [`ColumnCursor::position`]; `None` also between two batches of one chunk,
    /// which are only by symbol.
    pub fn position(&self) -> Option<Position> {
        if self.waiting.is_empty() { self.cursor.position() } else { None }
    }

    fn next_of(
        &mut self,
        next: impl FnOnce(&mut ColumnCursor) -> Result<Option<Chunk<'_>>, tapedb_engine::Error>,
    ) -> Result<Option<RecordBatch>, Error> {
        if let Some(batch) = self.waiting.pop_front() {
            return Ok(Some(batch));
        }
        let Some(chunk) = next(&mut self.cursor)? else { return Ok(None) };
        let rows_before = self.rows;
        self.rows += chunk.len();
        let mut columns = Vec::with_capacity(self.schema.fields().len());
        if !self.options.without_times {
            let times = TimestampNanosecondArray::from(chunk.times().to_vec()).with_timezone(ZONE);
            columns.push(Arc::new(times) as ArrayRef);
        }
        if !self.options.without_symbols {
            columns.push(symbols(chunk, &mut self.names)?);
        }
        if self.options.symbol_runs {
            self.runs.clear();
            for SymbolRun { symbol, end } in chunk.symbols() {
                let key = self.names.key_of_number(*symbol, || chunk.symbol(*symbol));
                self.runs.push(SymbolRun { symbol: key as u32, end: *end });
            }
        }
        push_header(&mut columns, chunk, &self.options, self.with_spaces, self.streams.as_mut())?;
        let level = Level::of_messages(chunk.len());
        for node in &self.tree.nodes {
            let (decimals, shared) = (self.options.decimals_in(&node.name), &mut self.shared);
            let mut arrays = Arrays { chunk, decimals, rows_before, shared };
            columns.push(arrays.array(node, &level)?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(chunk.len()));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?;
        let (rows, most) = (batch.num_rows(), self.batch_rows);
        for start in (most..rows).step_by(most) {
            self.waiting.push_back(batch.slice(start, most.min(rows - start)));
        }
        Ok(Some(batch.slice(0, rows.min(most))))
    }
}

impl Iterator for BatchReader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_batch().map_err(ArrowError::from).transpose()
    }
}

impl RecordBatchReader for BatchReader {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// The largest block whose release tells glibc what sizes to keep is 32 MiB, with its header.
const FREED_BYTES: usize = 31 << 20;

/// Lets the system's allocator keep the memory of a batch for the next one. glibc returns large blocks to the system as soon as they
/// are freed, until it has seen one freed that was larger; every page of the next batch is then a fault, which takes as long as
/// filling it. This block is never written to, so it takes no memory; other allocators do not mind it.
fn keep_freed_memory() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| drop(black_box(Vec::<u8>::with_capacity(FREED_BYTES))));
}

/// The schema of the record batches of one record type of a stream, without reading it.
///
/// # Errors
/// When the stream has no such record type or field.
pub fn record_schema(stream: &Stream, record: &str, options: &ReadOptions) -> Result<SchemaRef, Error> {
    let tree = Tree::new(stream.layouts(), record, options.fields.as_deref())?;
    Ok(schema_of(std::slice::from_ref(stream), &tree, options))
}

fn schema_of(streams: &[Stream], tree: &Tree, options: &ReadOptions) -> SchemaRef {
    let schema = streams.first().map(|stream| stream.layouts().schema());
    let found = schema.and_then(|schema| schema.records.get(usize::from(tree.type_id)));
    let name = |name: &str| found.map_or_else(|| name.into(), |found| header_column(found, name));
    let mut header = Vec::new();
    if !options.without_times {
        header.push(Field::new(TIME, types::timestamp(), false));
    }
    if !options.without_symbols {
        header.push(Field::new(SYMBOL, types::dictionary(), false));
    }
    if options.sequences {
        header.push(Field::new(name(SEQUENCE), DataType::UInt64, false));
    }
    if options.sequences && streams.iter().any(|stream| stream.spaces() > 1) {
        header.push(Field::new(name(SPACE), DataType::UInt32, false));
    }
    if streams.len() > 1 {
        header.push(Field::new(name(STREAM), types::dictionary(), false));
    }
    let fields = tree.nodes.iter().map(|node| Arc::new(node.field(options.decimals_in(&node.name))));
    Arc::new(Schema::new(header.into_iter().map(Arc::new).chain(fields).collect::<Vec<_>>()))
}

/// The column of the messages' symbols.
fn symbols(chunk: Chunk<'_>, names: &mut Dictionary) -> Result<ArrayRef, Error> {
    let keys = match chunk.symbol_of_rows() {
        Some(symbols) => {
            symbols.iter().map(|symbol| names.key_of_number(*symbol, || chunk.symbol(*symbol))).collect()
        }
        None => {
            let mut keys = Vec::with_capacity(chunk.len());
            for run in chunk.symbols() {
                let key = names.key_of_number(run.symbol, || chunk.symbol(run.symbol));
                keys.resize(run.end as usize, key);
            }
            keys
        }
    };
    dictionary(keys, None, names.values())
}

/// Adds the other columns of the messages' headers.
fn push_header(
    columns: &mut Vec<ArrayRef>,
    chunk: Chunk<'_>,
    options: &ReadOptions,
    with_spaces: bool,
    streams: Option<&mut Dictionary>,
) -> Result<(), Error> {
    if let Some(sequences) = chunk.sequences() {
        columns.push(Arc::new(UInt64Array::from(sequences.to_vec())));
    } else if options.sequences {
        columns.push(Arc::new(UInt64Array::from(vec![0; chunk.len()])));
    }
    if with_spaces {
        columns.push(Arc::new(UInt32Array::from(by_space(chunk, |run| run.space))));
    }
    if let Some(streams) = streams {
        let keys = by_space(chunk, |run| streams.key(run.stream));
        columns.push(dictionary(keys, None, streams.values())?);
    }
    Ok(())
}

/// A value for each row, which is the same for all rows of a space.
fn by_space<T: Copy>(chunk: Chunk<'_>, mut value: impl FnMut(SpaceRun<'_>) -> T) -> Vec<T> {
    let mut values = Vec::with_capacity(chunk.len());
    chunk.spaces().for_each(|run| values.resize(run.end as usize, value(run)));
    values
}

/// Names that have occurred, in the order in which they did. Batches share the values as long as no name is added.
#[derive(Debug, Default)]
struct Dictionary {
    names: Vec<String>,
    keys: HashMap<String, i32>,
    values: Option<ArrayRef>,
    /// Keys of symbols by their numbers; -1: not used yet.
    of_numbers: Vec<i32>,
}

impl Dictionary {
    #[inline]
    fn key_of_number<'a>(&mut self, number: u32, name: impl FnOnce() -> &'a str) -> i32 {
        match self.of_numbers.get(number as usize) {
            Some(key) if *key >= 0 => *key,
            _ => self.new_key_of_number(number, name()),
        }
    }

    #[cold]
    fn new_key_of_number(&mut self, number: u32, name: &str) -> i32 {
        let (key, index) = (self.key(name), number as usize);
        // Damaged files may have any number: it is looked up by its name each time.
        if index > NUMBERS_MAX {
            return key;
        }
        if self.of_numbers.len() <= index {
            self.of_numbers.resize(index + 1, -1);
        }
        self.of_numbers[index] = key;
        key
    }

    fn key(&mut self, name: &str) -> i32 {
        if let Some(key) = self.keys.get(name) {
            return *key;
        }
        let key = self.names.len() as i32;
        self.names.push(name.into());
        self.keys.insert(name.into(), key);
        self.values = None;
        key
    }

    fn values(&mut self) -> ArrayRef {
        let names = &self.names;
        self.values.get_or_insert_with(|| Arc::new(StringArray::from_iter_values(names))).clone()
    }
}
