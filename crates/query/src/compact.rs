//! Batches that are sent: a few rows may point into the texts of many.

use crate::error::Error;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::DataType;
use datafusion::error::DataFusionError;
use std::sync::Arc;

/// Long texts that a batch shares with others are copied before it is sent, when they have this many bytes more than the batch needs.
const UNUSED_BYTES_MAX: usize = 64 << 10;

/// The same rows, with texts of their own: what is written of them is not much longer than they are.
///
/// # Errors
/// When the columns do not belong together: a defect.
pub fn compact(batch: &RecordBatch) -> Result<RecordBatch, Error> {
    let compact = |column: &ArrayRef| -> ArrayRef {
        match column.data_type() {
            DataType::Utf8View => {
                let views = column.as_string_view();
                let held: usize = views.data_buffers().iter().map(|buffer| buffer.len()).sum();
                if held > views.total_buffer_bytes_used() + UNUSED_BYTES_MAX {
                    return Arc::new(views.gc());
                }
                column.clone()
            }
            DataType::BinaryView => {
                let views = column.as_binary_view();
                let held: usize = views.data_buffers().iter().map(|buffer| buffer.len()).sum();
                if held > views.total_buffer_bytes_used() + UNUSED_BYTES_MAX {
                    return Arc::new(views.gc());
                }
                column.clone()
            }
            _ => column.clone(),
        }
    };
    let compacted = RecordBatch::try_new_with_options(
        batch.schema(),
        batch.columns().iter().map(compact).collect(),
        &RecordBatchOptions::new().with_row_count(Some(batch.num_rows())),
    );
    compacted.map_err(|error| DataFusionError::from(error).into())
}
