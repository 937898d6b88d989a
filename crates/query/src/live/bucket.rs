//! Where the buckets of an expression begin and end.

use crate::error::{Error, Reason};
use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::Schema;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{ColumnarValue, Expr};
use std::sync::Arc;

/// The beginning of the bucket of a time: no earlier message is in this bucket, and no later one in an earlier bucket.
pub(crate) fn begin_of(bucket: &Expr, time: i64, state: &SessionState) -> Result<i64, Error> {
    let begin = value_of(bucket, time, state)?;
    if begin > time || value_of(bucket, begin, state)? != begin {
        let what = "these buckets cannot run live: their names are not the times at which they begin";
        return Err(Error::new(Reason::Query, what));
    }
    Ok(begin)
}

/// The beginning of the bucket behind the one that begins at a time.
///
/// # Errors
/// As [`begin_of`].
pub(crate) fn end_of(bucket: &Expr, begin: i64, state: &SessionState) -> Result<i64, Error> {
    let is_behind = |time| Ok::<_, Error>(value_of(bucket, time, state)? > begin);
    let (mut inside, mut width) = (begin, 1_i64);
    let mut behind = loop {
        let time = begin.saturating_add(width);
        if is_behind(time)? {
            break time;
        }
        if time == i64::MAX {
            return Ok(i64::MAX);
        }
        (inside, width) = (time, width.saturating_mul(2));
    };
    while behind - inside > 1 {
        let middle = inside + (behind - inside) / 2;
        if is_behind(middle)? { behind = middle } else { inside = middle }
    }
    Ok(behind)
}

/// What the expression for buckets makes of a time.
fn value_of(bucket: &Expr, time: i64, state: &SessionState) -> Result<i64, Error> {
    let utc = |nanos| ScalarValue::TimestampNanosecond(nanos, Some("UTC".into()));
    let at = bucket.clone().transform(|expr| {
        Ok(match expr {
            Expr::Column(_) => Transformed::yes(Expr::Literal(utc(Some(time)), None)),
            expr => Transformed::no(expr),
        })
    });
    let expr = state.create_physical_expr(at.data()?, &DFSchema::empty())?;
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let row = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options);
    let value = expr.evaluate(&row.map_err(DataFusionError::from)?)?;
    let value = match value {
        ColumnarValue::Scalar(value) => value,
        ColumnarValue::Array(values) => ScalarValue::try_from_array(&values, 0)?,
    };
    match value.cast_to(&utc(None).data_type())? {
        ScalarValue::TimestampNanosecond(Some(begin), _) => Ok(begin),
        _ => Err(Error::new(Reason::Query, "the bucket of a time is no time")),
    }
}
