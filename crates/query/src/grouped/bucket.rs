//! Where the buckets of time end that rows are grouped by.

use crate::time::grid::{Bucket, Grid, Origin};
use crate::time::time_bucket::{NAME, grid_of};
use crate::time::width::Width;
use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr::{PhysicalExprRef, ScalarFunctionExpr};

const DAY: i64 = 86_400_000_000_000;

/// The buckets of an expression of a column, if `is_time` of the column: `time_bucket`, `date_bin` or `date_trunc` with constants.
///
/// Only their ends are used: what a bucket is called is what the expression returns.
pub(super) fn grid(expr: &PhysicalExprRef, is_time: impl Fn(usize) -> bool) -> Option<Grid> {
    let function: &ScalarFunctionExpr = expr.downcast_ref()?;
    let (width, rest) = function.args().split_first()?;
    let (time, rest) = rest.split_first()?;
    let is_nanoseconds = matches!(function.return_type(), DataType::Timestamp(TimeUnit::Nanosecond, _));
    if !is_nanoseconds || !is_time(time.downcast_ref::<Column>()?.index()) {
        return None;
    }
    let constant = |expr: &PhysicalExprRef| Some(expr.downcast_ref::<Literal>()?.value().clone());
    let width = constant(width)?;
    let rest: Vec<ScalarValue> = rest.iter().map(constant).collect::<Option<_>>()?;
    match function.name() {
        NAME => {
            let constants: Vec<_> = std::iter::once(width).chain(rest).map(ColumnarValue::Scalar).collect();
            grid_of(&constants.iter().collect::<Vec<_>>()).ok().flatten()
        }
        "date_bin" => of_stride(&width, &rest),
        "date_trunc" if rest.is_empty() => of_unit(width.try_as_str()??),
        _ => None,
    }
}

/// The buckets of `date_bin`; `None`: they are months, or the constants are none of its own.
fn of_stride(stride: &ScalarValue, origin: &[ScalarValue]) -> Option<Grid> {
    let ScalarValue::IntervalMonthDayNano(Some(stride)) = stride else { return None };
    let nanos = i64::from(stride.days).checked_mul(DAY)?.checked_add(stride.nanoseconds)?;
    let origin = match origin {
        [] => 0,
        [ScalarValue::TimestampNanosecond(Some(origin), _)] => *origin,
        _ => return None,
    };
    if stride.months != 0 || nanos <= 0 {
        return None;
    }
    Grid::new(Width::Nanos(nanos), None, Origin::Instant(origin))
}

/// The buckets of `date_trunc` in UTC.
fn of_unit(unit: &str) -> Option<Grid> {
    let width = match unit.to_lowercase().as_str() {
        "microsecond" => Width::Nanos(1_000),
        "millisecond" => Width::Nanos(1_000_000),
        "second" => Width::Nanos(1_000_000_000),
        "minute" => Width::Nanos(60_000_000_000),
        "hour" => Width::Nanos(3_600_000_000_000),
        "day" => Width::Nanos(DAY),
        "week" => Width::Nanos(7 * DAY),
        "month" => Width::Months(1),
        "quarter" => Width::Months(3),
        "year" => Width::Months(12),
        _ => return None,
    };
    Grid::new(width, None, Origin::Default)
}

/// When the first one of the buckets that a time is in ends.
pub(super) fn end(grids: &[Grid], known: &mut [Bucket], time: i64) -> i64 {
    let mut end = i64::MAX;
    for (grid, known) in grids.iter().zip(known) {
        if !known.has(time) {
            // A time before all buckets is alone: the expression refuses it.
            let alone = Bucket { start: time, from: time, to: time.saturating_add(1) };
            *known = grid.bucket(time).unwrap_or(alone);
        }
        end = end.min(known.to);
    }
    end
}
