//! `time_bucket(width, time [, zone [, origin]])`: when the bucket of a time begins.

use super::grid::{Bucket, Grid, Origin};
use super::width::Width;
use crate::spelling;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, TimestampNanosecondArray};
use datafusion::arrow::datatypes::{DataType, IntervalUnit, TimeUnit, TimestampNanosecondType};
use datafusion::common::{ScalarValue, exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use std::sync::Arc;

/// Name of the function.
pub(crate) const NAME: &str = "time_bucket";

/// Name of the function in a query whose gaps are filled.
pub(crate) const GAPFILL: &str = "time_bucket_gapfill";

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct TimeBucket {
    name: &'static str,
    signature: Signature,
}

impl Default for TimeBucket {
    fn default() -> Self {
        Self { name: NAME, signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl TimeBucket {
    /// The function in a query whose gaps are filled.
    pub fn gapfill() -> Self {
        Self { name: GAPFILL, ..Self::default() }
    }
}

impl ScalarUDFImpl for TimeBucket {
    fn name(&self) -> &'static str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        if !(2..=4).contains(&types.len()) {
            return plan_err!(
                "write time_bucket(width, time), with a time zone and an origin where you need them"
            );
        }
        let coerced = types.iter().enumerate().map(|(index, ty)| match index {
            0 => width_type(ty),
            1 => time_type(ty),
            2 => zone_type(ty),
            _ => origin_type(ty),
        });
        coerced.collect()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[1].clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let times = &args.args[1];
        let constants: Vec<&ColumnarValue> =
            args.args.iter().enumerate().filter(|(index, _)| *index != 1).map(|(_, value)| value).collect();
        let Some(grid) = grid_of(&constants)? else {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_new_null(&times.data_type())?));
        };
        Ok(match times {
            ColumnarValue::Array(times) => ColumnarValue::Array(buckets(&grid, times)?),
            ColumnarValue::Scalar(time) => {
                let bucket = buckets(&grid, &time.to_array()?)?;
                ColumnarValue::Scalar(ScalarValue::try_from_array(&bucket, 0)?)
            }
        })
    }

    /// A later time is never in an earlier bucket.
    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        Ok(inputs.get(1).map_or(SortProperties::Unordered, |time| time.sort_properties))
    }

    fn documentation(&self) -> Option<&Documentation> {
        static DOCUMENTATION: std::sync::LazyLock<Documentation> = std::sync::LazyLock::new(|| {
            Documentation::builder(
                datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_DATETIME,
                "When the bucket of a time begins, in UTC or as the clock of a time zone shows it.",
                "time_bucket(width, time [, zone [, origin]])",
            )
            .with_argument(
                "width",
                "How wide a bucket is: an interval or a text, such as '5 minutes', '1d', '1 month'.",
            )
            .with_argument("time", "A timestamp or a date.")
            .with_argument("zone", "Name of a time zone, such as 'America/New_York'; otherwise UTC.")
            .with_argument(
                "origin",
                "A time that a bucket begins at; otherwise Monday 2000-01-03, for months 2000-01-01.",
            )
            .with_related_udf("date_bin")
            .build()
        });
        Some(&DOCUMENTATION)
    }
}

fn width_type(ty: &DataType) -> Result<DataType> {
    match ty {
        DataType::Interval(_) | DataType::Duration(_) | DataType::Null => {
            Ok(DataType::Interval(IntervalUnit::MonthDayNano))
        }
        text if text.is_string() => Ok(DataType::Utf8),
        other => plan_err!(
            "the first argument of time_bucket is the width, an interval such as '5 minutes', not {other}"
        ),
    }
}

fn time_type(ty: &DataType) -> Result<DataType> {
    match ty {
        DataType::Timestamp(_, zone) => Ok(DataType::Timestamp(TimeUnit::Nanosecond, zone.clone())),
        DataType::Date32 | DataType::Date64 => Ok(DataType::Timestamp(TimeUnit::Nanosecond, None)),
        DataType::Null => Ok(DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()))),
        text if text.is_string() => Ok(DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()))),
        other => plan_err!("the second argument of time_bucket is the time, not {other}"),
    }
}

/// The third argument is a zone, or an origin where there is no zone.
fn zone_type(ty: &DataType) -> Result<DataType> {
    match ty {
        DataType::Null => Ok(DataType::Utf8),
        text if text.is_string() => Ok(DataType::Utf8),
        other => origin_type(other),
    }
}

fn origin_type(ty: &DataType) -> Result<DataType> {
    match ty {
        DataType::Null => Ok(DataType::Utf8),
        text if text.is_string() => Ok(DataType::Utf8),
        DataType::Timestamp(..) | DataType::Date32 | DataType::Date64 => time_type(ty),
        other => {
            plan_err!("the origin of time_bucket is a time or a text such as '2024-01-01 09:30', not {other}")
        }
    }
}

/// The buckets of constant arguments: width, zone, origin. `None`: one is null.
pub(crate) fn grid_of(arguments: &[&ColumnarValue]) -> Result<Option<Grid>> {
    let mut constants = Vec::with_capacity(arguments.len());
    for argument in arguments {
        match argument {
            ColumnarValue::Scalar(value) => constants.push(value),
            ColumnarValue::Array(_) => {
                return exec_err!("width, zone and origin of time_bucket are constants, not columns");
            }
        }
    }
    let Some(width) = constants.first().map(|value| Width::of(value)).transpose()?.flatten() else {
        return Ok(None);
    };
    if constants.iter().any(|value| value.is_null()) {
        return Ok(None);
    }
    let (zone, origin) = match &constants[1..] {
        [] => (None, None),
        [only] if only.try_as_str().is_some() => (zone_of(only)?, None),
        [only] => (None, Some(*only)),
        [zone, origin, ..] => (zone_of(zone)?, Some(*origin)),
    };
    let origin = origin.map_or(Ok(Origin::Default), origin_of)?;
    match Grid::new(width, zone, origin) {
        Some(grid) => Ok(Some(grid)),
        None => plan_err!("the origin of time_bucket is outside of the years 1678 to 2261"),
    }
}

fn zone_of(value: &ScalarValue) -> Result<Option<TimeZone>> {
    let Some(Some(name)) = value.try_as_str() else {
        return plan_err!("the third argument of time_bucket is a time zone, such as 'America/New_York'");
    };
    match TimeZone::get(name) {
        Ok(zone) => Ok(Some(zone)),
        Err(_) => {
            let known: Vec<String> = jiff::tz::db().available().map(|name| name.to_string()).collect();
            let near = spelling::near(name, known.iter().map(String::as_str));
            plan_err!("there is no time zone {name:?}{near}")
        }
    }
}

fn origin_of(value: &ScalarValue) -> Result<Origin> {
    if let Some(Some(text)) = value.try_as_str() {
        let local = || text.parse::<DateTime>();
        return match text.parse::<Timestamp>().map(|time| i64::try_from(time.as_nanosecond())) {
            Ok(Ok(time)) => Ok(Origin::Instant(time)),
            _ => match local() {
                Ok(local) => Ok(Origin::Local(local)),
                Err(_) => plan_err!(
                    "the origin {text:?} is no time; write '2024-01-01 09:30', a time of the zone, or '2024-01-01T09:30:00Z'"
                ),
            },
        };
    }
    match value {
        ScalarValue::TimestampNanosecond(Some(time), Some(_)) => Ok(Origin::Instant(*time)),
        // A time without a zone is one of the local clock.
        ScalarValue::TimestampNanosecond(Some(time), None) => {
            match Timestamp::from_nanosecond((*time).into()) {
                Ok(time) => Ok(Origin::Local(jiff::tz::Offset::UTC.to_datetime(time))),
                Err(_) => Ok(Origin::Instant(*time)),
            }
        }
        other => plan_err!("the origin of time_bucket is a time, not {other}"),
    }
}

/// The beginnings of the buckets of times.
fn buckets(grid: &Grid, times: &ArrayRef) -> Result<ArrayRef> {
    let times = times.as_primitive::<TimestampNanosecondType>();
    let mut known = Bucket::NONE;
    let mut starts = Vec::with_capacity(times.len());
    for (row, time) in times.values().iter().enumerate() {
        // Times near each other are mostly in one bucket.
        if !known.has(*time) && times.is_valid(row) {
            known = match grid.bucket(*time) {
                Some(bucket) => bucket,
                None => return exec_err!("the bucket of a time begins before the year 1678"),
            };
        }
        starts.push(known.start);
    }
    let starts = TimestampNanosecondArray::new(starts.into(), times.nulls().cloned());
    Ok(Arc::new(starts.with_data_type(times.data_type().clone())))
}
