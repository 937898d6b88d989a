//! Batches that are sent: a few rows may point into the texts of many, and a dictionary may have more texts than rows.

use crate::error::Error;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, DictionaryArray, Int32Array, RecordBatch, RecordBatchOptions,
};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::{DataType, Int32Type};
use datafusion::arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use std::sync::Arc;

/// Long texts that a batch shares with others are copied before it is sent, when they have this many bytes more than the batch needs.
const UNUSED_BYTES_MAX: usize = 64 << 10;

/// Values of a dictionary that are sent though no row has them.
const UNUSED_VALUES_MAX: usize = 4_096;

/// The same rows, with texts of their own: what is written of them is not much longer than they are.
///
/// # Errors
/// When the columns do not belong together: a defect.
pub fn compact(batch: &RecordBatch) -> Result<RecordBatch, Error> {
    let compact = |column: &ArrayRef| -> Result<ArrayRef, ArrowError> {
        match column.data_type() {
            DataType::Utf8View => {
                let views = column.as_string_view();
                let held: usize = views.data_buffers().iter().map(|buffer| buffer.len()).sum();
                if held > views.total_buffer_bytes_used() + UNUSED_BYTES_MAX {
                    return Ok(Arc::new(views.gc()));
                }
            }
            DataType::BinaryView => {
                let views = column.as_binary_view();
                let held: usize = views.data_buffers().iter().map(|buffer| buffer.len()).sum();
                if held > views.total_buffer_bytes_used() + UNUSED_BYTES_MAX {
                    return Ok(Arc::new(views.gc()));
                }
            }
            DataType::Dictionary(..) => return compact_dictionary(column),
            _ => {}
        }
        Ok(column.clone())
    };
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let columns: Result<Vec<_>, _> = batch.columns().iter().map(compact).collect();
    let compacted =
        columns.and_then(|columns| RecordBatch::try_new_with_options(batch.schema(), columns, &options));
    compacted.map_err(|error| DataFusionError::from(error).into())
}

/// A dictionary that has many more values than rows, with those alone that occur: it is sent again whenever it has grown.
fn compact_dictionary(column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let Some(dictionary) = column.as_any().downcast_ref::<DictionaryArray<Int32Type>>() else {
        return Ok(column.clone());
    };
    let (keys, values) = (dictionary.keys(), dictionary.values());
    if values.len() <= keys.len() + UNUSED_VALUES_MAX {
        return Ok(column.clone());
    }
    let mut new_of = vec![-1; values.len()];
    let mut used = Vec::new();
    let mut new = Vec::with_capacity(keys.len());
    for (row, key) in keys.values().iter().enumerate() {
        // Under a null there may be any key.
        if keys.is_null(row) {
            new.push(0);
            continue;
        }
        let place = &mut new_of[*key as usize];
        if *place < 0 {
            *place = used.len() as i32;
            used.push(*key);
        }
        new.push(*place);
    }
    let values = take(values, &Int32Array::from(used), None)?;
    let keys = Int32Array::new(new.into(), keys.nulls().cloned());
    Ok(Arc::new(DictionaryArray::try_new(keys, values)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::StringArray;

    #[test]
    fn a_dictionary_is_not_longer_than_its_rows() {
        let texts: ArrayRef =
            Arc::new(StringArray::from_iter_values((0..10_000).map(|text| text.to_string())));
        let keys = Int32Array::from(vec![Some(9_999), None, Some(7), Some(9_999)]);
        let column: ArrayRef = Arc::new(DictionaryArray::new(keys, texts));
        let batch = RecordBatch::try_from_iter([("symbol", column)]).unwrap();
        let compacted = compact(&batch).unwrap();
        let dictionary = compacted.column(0).as_dictionary::<Int32Type>();
        assert_eq!(dictionary.values().len(), 2);
        let texts = dictionary.downcast_dict::<StringArray>().unwrap().into_iter().collect::<Vec<_>>();
        assert_eq!(texts, [Some("9999"), None, Some("7"), Some("9999")]);
    }
}
