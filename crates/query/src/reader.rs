//! Reads the record batches of one partition of a scan in a thread of its own, which may block.

use crate::dictionaries::{Keys, SharedValues};
use crate::error::{Error, wrapped};
use crate::nested::Place;
use crate::table::{Column, Table};
use crate::wanted::{TimeOrder, Wanted};
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, DictionaryArray, RecordBatch, RecordBatchOptions, StringArray, StringViewArray,
};
use datafusion::arrow::buffer::ScalarBuffer;
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::{Int32Type, SchemaRef, TimestampNanosecondType, UInt64Type};
use datafusion::error::Result;
use std::collections::BTreeMap;
use std::sync::Arc;
use tapedb_arrow::{BatchReader, ReadOptions};
use tapedb_engine::{RowChooser, SymbolRun};

/// Rows of a batch without columns.
const COUNTED_ROWS: u64 = 1 << 20;

/// What to read.
#[derive(Debug, Clone)]
pub(crate) struct Reading {
    pub table: Arc<Table>,
    pub wanted: Wanted,
    /// Columns of the table.
    pub projection: Vec<usize>,
    /// Those columns.
    pub schema: SchemaRef,
    /// Those of them that are dictionaries.
    pub dictionaries: BTreeMap<usize, Arc<SharedValues>>,
    pub order: TimeOrder,
    pub limit: Option<u64>,
    pub batch_rows: usize,
}

/// Reads until all is read or `give` returns `false`.
///
/// # Errors
/// When messages cannot be read, or values do not fit their columns.
pub(crate) fn read(reading: &Reading, mut give: impl FnMut(RecordBatch) -> bool) -> Result<()> {
    if reading.wanted.is_nothing() || reading.limit == Some(0) {
        return Ok(());
    }
    if let Some(place) = &reading.table.place {
        return read_records(reading, place, give);
    }
    if reading.projection.is_empty() && reading.table.is_messages() {
        return count(reading, give);
    }
    let (mut reader, places) = open(reading, Header::Wanted, None).map_err(wrapped)?;
    let mut columns = texts(reading);
    while let Some(batch) = reader.next_batch().map_err(wrapped)? {
        let pick = |(place, texts): (&usize, &mut Texts)| texts.of(batch.column(*place));
        let picked = places.iter().zip(&mut columns).map(pick).collect::<Result<_>>()?;
        if !give(batch_of(reading, picked, batch.num_rows())?) {
            break;
        }
    }
    Ok(())
}

/// Reads the records that messages have in a field.
fn read_records(reading: &Reading, place: &Place, mut give: impl FnMut(RecordBatch) -> bool) -> Result<()> {
    let (mut reader, places) = open(reading, Header::Wanted, None).map_err(wrapped)?;
    let mut columns = texts(reading);
    let mut left = usize::try_from(reading.limit.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
    while let Some(batch) = reader.next_batch().map_err(wrapped)? {
        let entries = place.entries(batch.column(batch.num_columns() - 1));
        let kinds = reading.projection.iter().map(|column| reading.table.column(*column));
        let mut picked = Vec::with_capacity(places.len());
        for ((kind, at), texts) in kinds.zip(&places).zip(&mut columns) {
            let column = match kind {
                Column::Nested(field) => entries.field(*field)?,
                Column::Entry => Arc::new(entries.numbers.clone()),
                _ => take(batch.column(*at), &entries.messages, None)?,
            };
            picked.push(texts.of(&column)?);
        }
        let rows = entries.len();
        let all = batch_of(reading, picked, rows)?;
        for start in (0..rows.min(left)).step_by(reading.batch_rows.max(1)) {
            let count = reading.batch_rows.max(1).min(rows - start).min(left - start);
            if !give(all.slice(start, count)) {
                return Ok(());
            }
        }
        left = left.saturating_sub(rows);
        if left == 0 {
            break;
        }
    }
    Ok(())
}

fn batch_of(reading: &Reading, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(reading.schema.clone(), columns, &options)?)
}

/// Batches without columns, as many rows as there are messages: counted, not read.
fn count(reading: &Reading, mut give: impl FnMut(RecordBatch) -> bool) -> Result<()> {
    let cursor = reading.table.cursor(&reading.wanted).map_err(wrapped)?;
    let count = cursor.count().map_err(wrapped)?;
    let mut left = count.min(reading.limit.unwrap_or(u64::MAX));
    while left > 0 {
        let rows = left.min(COUNTED_ROWS);
        left -= rows;
        let options = RecordBatchOptions::new().with_row_count(Some(rows as usize));
        let batch = RecordBatch::try_new_with_options(reading.schema.clone(), Vec::new(), &options)?;
        if !give(batch) {
            break;
        }
    }
    Ok(())
}

/// Rows of one symbol after the other, each symbol's by time.
#[derive(Debug)]
pub(crate) struct BySymbol {
    /// The columns of the scan.
    pub batch: RecordBatch,
    pub times: ScalarBuffer<i64>,
    /// Empty where they were not asked for; 0 where no row of another batch can have the same time.
    pub sequences: ScalarBuffer<u64>,
    /// The runs of rows of one symbol each, which are places in `names`. Those of all batches of a reader are places in the same list,
    /// which grows.
    pub runs: Vec<SymbolRun>,
    pub names: StringArray,
    /// No later batch has a row before this time.
    pub reached: i64,
}

/// Reads by symbol, as [`read`]: the fastest way, in which rows of different symbols come in any order.
/// Rows that `chooser` is asked about may be left out.
///
/// # Errors
/// As [`read`].
pub(crate) fn read_by_symbol(
    reading: &Reading,
    (with_sequences, chooser): (bool, Option<Arc<dyn RowChooser>>),
    mut give: impl FnMut(BySymbol) -> bool,
) -> Result<()> {
    if reading.wanted.is_nothing() {
        return Ok(());
    }
    let header = if with_sequences { Header::SymbolsAndSequences } else { Header::Symbols };
    let (mut reader, places) = open(reading, header, chooser).map_err(wrapped)?;
    let mut columns: Vec<Views> = places.iter().map(|_| Views::default()).collect();
    // Behind the times, and the symbols if the scan has them.
    let sequences_at = 1 + usize::from(
        reading.projection.iter().any(|column| *reading.table.column(*column) == Column::Symbol),
    );
    while let Some(batch) = reader.next_batch().map_err(wrapped)? {
        let pick = |(place, views): (&usize, &mut Views)| views.of(batch.column(*place));
        let picked = places.iter().zip(&mut columns).map(pick).collect::<Result<_>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let rows = BySymbol {
            batch: RecordBatch::try_new_with_options(reading.schema.clone(), picked, &options)?,
            times: batch.column(0).as_primitive::<TimestampNanosecondType>().values().clone(),
            sequences: match with_sequences {
                true => batch.column(sequences_at).as_primitive::<UInt64Type>().values().clone(),
                false => Vec::new().into(),
            },
            runs: reader.symbol_runs().to_vec(),
            names: reader.symbol_names(),
            reached: reader.reached().unwrap_or(i64::MIN),
        };
        if !give(rows) {
            break;
        }
    }
    Ok(())
}

/// Rows by time, with their symbols as places in a list of names.
#[derive(Debug)]
pub(crate) struct ByTime {
    /// The columns of the scan.
    pub batch: RecordBatch,
    pub times: ScalarBuffer<i64>,
    /// Places in `names`. Those of all batches of a reader are places in the same list, which grows.
    pub symbols: ScalarBuffer<i32>,
    pub names: StringArray,
}

/// Reads by time, as [`read`]: symbols are not made texts.
///
/// # Errors
/// As [`read`].
pub(crate) fn read_by_time(reading: &Reading, mut give: impl FnMut(ByTime) -> bool) -> Result<()> {
    if reading.wanted.is_nothing() {
        return Ok(());
    }
    let (mut reader, places) = open(reading, Header::Names, None).map_err(wrapped)?;
    let mut columns: Vec<Views> = places.iter().map(|_| Views::default()).collect();
    while let Some(batch) = reader.next_batch().map_err(wrapped)? {
        let pick = |(place, views): (&usize, &mut Views)| views.of(batch.column(*place));
        let picked = places.iter().zip(&mut columns).map(pick).collect::<Result<_>>()?;
        let symbols = batch.column(1).as_dictionary::<Int32Type>();
        let rows = ByTime {
            times: batch.column(0).as_primitive::<TimestampNanosecondType>().values().clone(),
            symbols: symbols.keys().values().clone(),
            names: symbols.values().as_string::<i32>().clone(),
            batch: batch_of(reading, picked, batch.num_rows())?,
        };
        if !give(rows) {
            break;
        }
    }
    Ok(())
}

/// What is read of the headers of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Header {
    /// The columns of the scan.
    Wanted,
    /// Times first, and then the columns of the scan; runs of symbols.
    Symbols,
    /// The same with sequence numbers.
    SymbolsAndSequences,
    /// Times first, then symbols, and then the columns of the scan.
    Names,
}

/// A reader, and the place of each column of the scan among its columns.
fn open(
    reading: &Reading,
    header: Header,
    chooser: Option<Arc<dyn RowChooser>>,
) -> Result<(BatchReader, Vec<usize>), Error> {
    let by_symbol = matches!(header, Header::Symbols | Header::SymbolsAndSequences);
    let with_names = header == Header::Names;
    let Reading { table, wanted, projection, order, limit, .. } = reading;
    let has = |wanted: &Column| projection.iter().any(|column| table.column(*column) == wanted);
    let sequences = header == Header::SymbolsAndSequences || has(&Column::Sequence) || has(&Column::Space);
    let header = [
        (Column::Time, by_symbol || with_names || has(&Column::Time)),
        (Column::Symbol, with_names || has(&Column::Symbol)),
        (Column::Sequence, sequences),
        (Column::Space, sequences && table.open.stream.spaces() > 1),
    ];
    let is_read = |wanted: &Column| header.iter().any(|(column, is_read)| column == wanted && *is_read);
    let header: Vec<&Column> =
        header.iter().filter(|(_, is_read)| *is_read).map(|(column, _)| column).collect();
    let mut fields = Vec::new();
    let mut places = Vec::with_capacity(projection.len());
    for column in projection {
        places.push(match table.column(*column) {
            // They come out of the field that has the records, which is read last.
            Column::Nested(_) | Column::Entry => usize::MAX,
            Column::Field => {
                fields.push(table.schema().field(*column).name().clone());
                header.len() + fields.len() - 1
            }
            of_header => header.iter().position(|column| *column == of_header).unwrap_or(usize::MAX),
        });
    }
    fields.extend(table.place.as_ref().map(|place| place.field.clone()));
    let limit = if table.place.is_some() { None } else { *limit };
    let mut cursor = table.cursor(wanted)?;
    if *order == TimeOrder::Descending {
        cursor = cursor.reverse();
    }
    let options = ReadOptions {
        decimals: table.open.options.decimals,
        fields: Some(fields),
        sequences,
        // The scan itself may have the column.
        sequences_of_ties: by_symbol && !has(&Column::Sequence),
        chooser,
        without_times: !is_read(&Column::Time),
        without_symbols: !is_read(&Column::Symbol),
        symbol_runs: by_symbol,
        in_time_order: *order != TimeOrder::None || reading.limit.is_some(),
        batch_rows: Some(reading.batch_rows),
        limit,
        skip_outside: wanted.ranges.clone(),
        ..ReadOptions::default()
    };
    let reader =
        BatchReader::open(std::slice::from_ref(&table.open.stream), cursor, &table.record, &options)?;
    Ok((reader, places))
}

/// The texts of the columns that are read.
fn texts(reading: &Reading) -> Vec<Texts> {
    let of = |at| match reading.dictionaries.get(&at) {
        Some(shared) => Texts::Keys(Keys::new(shared.clone())),
        None => Texts::Views(Views::default()),
    };
    (0..reading.projection.len()).map(of).collect()
}

/// The texts of a dictionary, as a column of the scan has them.
#[derive(Debug)]
enum Texts {
    Views(Views),
    Keys(Keys),
}

impl Texts {
    fn of(&mut self, column: &ArrayRef) -> Result<ArrayRef> {
        match (self, column.as_any().downcast_ref::<DictionaryArray<Int32Type>>()) {
            (Self::Views(views), _) => views.of(column),
            (Self::Keys(keys), Some(dictionary)) => keys.of(dictionary),
            (Self::Keys(_), None) => Ok(column.clone()),
        }
    }
}

/// Texts of a dictionary as views, made once for all batches that share it.
#[derive(Debug, Default)]
struct Views {
    /// The values of the dictionary, and the same values as views.
    values: Option<(ArrayRef, StringViewArray)>,
}

impl Views {
    /// The column as the table has it.
    fn of(&mut self, column: &ArrayRef) -> Result<ArrayRef> {
        match column.as_any().downcast_ref::<DictionaryArray<Int32Type>>() {
            Some(dictionary) => self.of_dictionary(dictionary),
            None => Ok(column.clone()),
        }
    }

    /// Views are picked with Arrow's function, for a new array would check the text of each row.
    fn of_dictionary(&mut self, dictionary: &DictionaryArray<Int32Type>) -> Result<ArrayRef> {
        let values = dictionary.values();
        let known = self.values.take().filter(|(known, _)| Arc::ptr_eq(known, values));
        let learned = || (values.clone(), StringViewArray::from(values.as_string::<i32>()));
        let (_, views) = self.values.insert(known.unwrap_or_else(learned));
        Ok(take(views, dictionary.keys(), None)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dictionaries_become_views() {
        let mut views = Views::default();
        let texts = ["A", "a symbol of more than twelve bytes", "", "A"];
        for _ in 0..2 {
            let dictionary: DictionaryArray<Int32Type> = texts.into_iter().map(Some).chain([None]).collect();
            let found = views.of(&(Arc::new(dictionary) as ArrayRef)).unwrap();
            let found: Vec<_> = found.as_string_view().iter().collect();
            assert_eq!(found[..4], texts.map(Some));
            assert_eq!(found[4], None);
        }
    }
}
