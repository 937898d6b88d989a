//! Operators of ours as streams of DataFusion.

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::metrics::BaselineMetrics;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::stream;

/// A running operator.
pub(crate) trait Batches: Send + 'static {
    /// The next batch; `None`: that was all.
    ///
    /// # Errors
    /// Those of its inputs; when there is no memory.
    fn next(&mut self) -> impl Future<Output = Result<Option<RecordBatch>>> + Send;
}

/// The batches of an operator, which are counted.
pub(crate) fn stream_of(
    batches: impl Batches,
    schema: SchemaRef,
    metrics: BaselineMetrics,
) -> SendableRecordBatchStream {
    let batches = stream::try_unfold((batches, metrics), |(mut batches, metrics)| async move {
        let next = batches.next().await?;
        Ok(next.map(|batch| {
            metrics.record_output(batch.num_rows());
            (batch, (batches, metrics))
        }))
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, batches))
}
