//! Entries of an array as rows: each with the other fields of its message. A message without entries is one row.

use crate::columns::{Column, Columns};
use crate::convert::{array_of, convert};
use crate::error::Error;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, Int32Array, ListArray, RecordBatch, UInt32Array, make_array};
use arrow_buffer::NullBuffer;
use arrow_schema::SchemaRef;
use arrow_select::take::take;
use std::sync::Arc;

/// The rows of a table from rows of the stream.
///
/// # Errors
/// As [`convert`].
pub(crate) fn rows_of(
    columns: &Columns,
    source: &[ArrayRef],
    schema: &SchemaRef,
) -> Result<RecordBatch, Error> {
    let Some(flattened) = &columns.flattened else { return convert(columns, source, schema) };
    let list = source.get(flattened.source).and_then(|array| array.as_list_opt::<i32>());
    let list = list.ok_or_else(|| Error::Rows("the flattened field is no array any more".into()))?;
    let Places { messages, entries, numbers } = Places::of(list);
    let values = take(list.values(), &entries, None)?;
    let fields = values.as_struct_opt().filter(|record| record.num_columns() > 0);
    let arrays = columns.columns.iter().zip(schema.fields()).enumerate().map(|(at, (column, field))| {
        let missing =
            |column: &Column| Error::Rows(format!("column {:?} is not in the stream any more", column.name));
        if at == flattened.index {
            return Ok(Arc::new(numbers.clone()) as ArrayRef);
        }
        let array = match fields {
            _ if at < flattened.index || at >= flattened.end => {
                take(source.get(column.source).ok_or_else(|| missing(column))?, &messages, None)?
            }
            Some(record) => {
                let array = record.columns().get(column.source).ok_or_else(|| missing(column))?;
                masked(array, record.nulls())?
            }
            None => values.clone(),
        };
        array_of(column, &array, field.data_type())
    });
    Ok(RecordBatch::try_new(schema.clone(), arrays.collect::<Result<_, Error>>()?)?)
}

/// For each row its message, its entry and the number of that.
struct Places {
    messages: UInt32Array,
    entries: UInt32Array,
    numbers: Int32Array,
}

impl Places {
    fn of(list: &ListArray) -> Self {
        let (mut messages, mut entries, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
        for (message, ends) in (0u32..).zip(list.offsets().windows(2)) {
            let places = if list.is_null(message as usize) { 0..0 } else { ends[0]..ends[1] };
            if places.is_empty() {
                messages.push(message);
                entries.push(None);
                numbers.push(None);
            }
            for (number, entry) in (0i32..).zip(places) {
                messages.push(message);
                entries.push(Some(entry as u32));
                numbers.push(Some(number));
            }
        }
        Self { messages: messages.into(), entries: entries.into(), numbers: numbers.into() }
    }
}

/// A record's field, null where the record is.
fn masked(array: &ArrayRef, nulls: Option<&NullBuffer>) -> Result<ArrayRef, Error> {
    let Some(nulls) = nulls else { return Ok(array.clone()) };
    let all = NullBuffer::union(array.nulls(), Some(nulls));
    Ok(make_array(array.to_data().into_builder().nulls(all).build()?))
}
