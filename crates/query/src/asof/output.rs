//! Puts the rows of both sides of an as-of join together.

use super::sides::{Joining, Origin, Side};
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array,
};
use datafusion::arrow::compute::{interleave, take_record_batch};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::error::Result;
use std::sync::Arc;

/// Types of the keys of a side.
///
/// # Errors
/// When an expression has no type.
pub(super) fn types_of(side: &Side) -> Result<Vec<DataType>> {
    let schema = side.input.schema();
    side.keys.iter().map(|key| key.data_type(&schema)).collect()
}

/// One row of nulls, with the columns of a side.
///
/// # Errors
/// When there are no such columns.
pub(super) fn nothing_of(side: &Side) -> Result<RecordBatch> {
    let schema = side.input.schema();
    let fields: Vec<_> = schema.fields().iter().map(|field| (**field).clone().with_nullable(true)).collect();
    let nulls = fields.iter().map(|field| new_null_array(field.data_type(), 1)).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    Ok(RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), nulls, &options)?)
}

/// About how many bytes the rows of a batch take, without the rest of the buffers that they may share with others.
///
/// # Errors
/// When a type has no size.
pub(super) fn bytes_of(batch: &RecordBatch) -> Result<usize> {
    let size = |column: &ArrayRef| {
        let long_texts = column.as_string_view_opt().map_or(0, |texts| texts.total_buffer_bytes_used());
        Ok(column.to_data().get_slice_memory_size()? + long_texts)
    };
    batch.columns().iter().map(size).sum()
}

/// A copied column without the bytes of others that long texts share with it: they would be held as long as it is.
pub(super) fn without_others(copied: ArrayRef) -> ArrayRef {
    match copied.as_string_view_opt() {
        Some(texts) => Arc::new(texts.gc()),
        None => copied,
    }
}

/// Rows of the left side, each with the row of the held batches that belongs to it: its batch and its place there. The first batch
/// is [`nothing_of`].
///
/// # Errors
/// When there is no memory.
pub(super) fn joined(
    left: &RecordBatch,
    held: &[RecordBatch],
    mut places: Vec<(usize, usize)>,
    joining: &Joining,
) -> Result<RecordBatch> {
    let mut left = left.clone();
    if joining.is_inner && places.iter().any(|place| place.0 == 0) {
        let rows = (0..).zip(&places).filter(|(_, place)| place.0 > 0).map(|(row, _)| row);
        left = take_record_batch(&left, &UInt32Array::from_iter_values(rows))?;
        places.retain(|place| place.0 > 0);
    }
    let columns = columns_of(&left, held, &mut places, &joining.output)?;
    let options = RecordBatchOptions::new().with_row_count(Some(left.num_rows()));
    Ok(RecordBatch::try_new_with_options(joining.schema.clone(), columns, &options)?)
}

/// The columns of rows of the left side, and of what belongs to them in the held batches.
///
/// # Errors
/// When there is no memory.
pub(super) fn columns_of(
    left: &RecordBatch,
    held: &[RecordBatch],
    places: &mut [(usize, usize)],
    output: &[Origin],
) -> Result<Vec<ArrayRef>> {
    let has_nothing = places.iter().any(|place| place.0 == 0);
    // Without the row of nulls columns have no nulls to be looked at, if they had none.
    let first = usize::from(!has_nothing && held.len() > 1);
    places.iter_mut().for_each(|place| place.0 -= first);
    let column = |origin: &Origin| match origin {
        Origin::Left(column) => Ok(left.column(*column).clone()),
        Origin::Right(column) => {
            let arrays: Vec<&dyn Array> =
                held[first..].iter().map(|batch| &**batch.column(*column)).collect();
            interleave(&arrays, places)
        }
    };
    Ok(output.iter().map(column).collect::<std::result::Result<Vec<ArrayRef>, _>>()?)
}
