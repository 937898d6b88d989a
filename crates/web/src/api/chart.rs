//! Prices over time, decimated to what a screen shows: of each pixel the first, the lowest, the highest and the last value, so that no
//! spike is lost. With few values, each of them.

use crate::api::book::check_symbol;
use crate::api::histogram::{Range, range};
use crate::api::messages::selected;
use crate::caller::Caller;
use crate::failure::Failure;
use crate::market::{Trades, recorded_gaps};
use crate::params::{Params, time};
use crate::state::Shared;
use crate::work;
use axum::Json;
use axum::extract::{Path, State};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tapedb_access::May;
use tapedb_codec::dynamic::{RecordLayout, TypeLayout};
use tapedb_engine::{Column, ColumnKind, Step, Stream, Values};
use tapedb_schema::{Scalar, Timestamp};

const PIXELS_MAX: usize = 8000;
/// Messages between two checks whether the chart is still wanted.
const STEP: usize = 10_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    symbol: String,
    #[serde(rename = "type")]
    record: Option<String>,
    field: Option<String>,
    size: Option<String>,
    #[serde(default, deserialize_with = "time")]
    from: Option<Timestamp>,
    #[serde(default, deserialize_with = "time")]
    to: Option<Timestamp>,
    pixels: Option<usize>,
}

/// A chart.
#[derive(Debug, Serialize)]
pub(crate) struct Chart {
    from: String,
    to: String,
    time: Vec<String>,
    first: Vec<f64>,
    min: Vec<f64>,
    max: Vec<f64>,
    last: Vec<f64>,
    count: Vec<u64>,
    volume: Option<Vec<f64>>,
    gaps: Vec<Value>,
    raw: bool,
}

/// The values of a field, or the trades of a stream of market data.
pub(crate) async fn read(
    State(state): State<Shared>,
    caller: Caller,
    Path(name): Path<String>,
    Params(wanted): Params<Wanted>,
) -> Result<Json<Chart>, Failure> {
    let drawn = state.workers.run(move || {
        let stream = caller.stream(&name, May::Read)?;
        check_symbol(&stream, &wanted.symbol)?;
        draw(&caller, &stream, &wanted)
    });
    drawn.await.map(Json)
}

fn draw(caller: &Caller, stream: &Stream, wanted: &Wanted) -> Result<Chart, Failure> {
    let failure = |error| caller.failure(error);
    let symbols = [wanted.symbol.clone()];
    let Range { from, to } = range(stream, wanted.from, wanted.to, &symbols).map_err(failure)?;
    let pixels = wanted.pixels.unwrap_or(1200).clamp(1, PIXELS_MAX);
    let mut pixels = Pixels::new(from, to, pixels);
    let field = wanted.field.as_deref().unwrap_or("price");
    let is_wanted = |record: &&RecordLayout| {
        record.message
            && wanted.record.as_ref().is_none_or(|name| *name == record.name)
            && record.field(field).is_some()
    };
    let cursor = selected(stream, Some(from), Some(to), &symbols);
    match stream.layouts().records().iter().find(is_wanted) {
        Some(record) => {
            let size = wanted.size.as_deref().or_else(|| record.field("size").map(|_| "size"));
            let size = size.filter(|size| record.field(size).is_some());
            let value = Scale::of(record, field)?;
            let scale = size.map(|size| Scale::of(record, size)).transpose()?;
            let fields: Vec<&str> = [field].into_iter().chain(size).collect();
            let mut columns = cursor.columns(&record.name, fields).in_time_order().open().map_err(failure)?;
            pixels.has_volume = scale.is_some();
            while let Some(chunk) = columns.next().map_err(failure)? {
                let prices = value.values(&chunk.column(0), chunk.len())?;
                let sizes = match scale {
                    Some(scale) => scale.values(&chunk.column(1), chunk.len())?,
                    None => vec![None; chunk.len()],
                };
                for ((time, price), size) in chunk.times().iter().zip(prices).zip(sizes) {
                    if let Some(price) = price {
                        pixels.add(Timestamp(*time), price, size.unwrap_or(0.0));
                    }
                }
                work::check()?;
            }
        }
        None => {
            let types = Trades::types(stream);
            let types: Vec<&str> = types
                .into_iter()
                .filter(|name| wanted.record.as_ref().is_none_or(|record| record == name))
                .collect();
            if types.is_empty() || field != "price" {
                let what = format!("stream {:?} has no such messages with a field {field:?}", stream.name());
                return Err(Failure::invalid(what));
            }
            let mut trades = Trades::default();
            let mut cursor = cursor.types(types).open().map_err(failure)?;
            pixels.has_volume = true;
            let mut count = 0;
            while let Some(message) = cursor.next().map_err(failure)? {
                let each = |trade: crate::market::FoundTrade| {
                    pixels.add(trade.time, trade.price.to_f64(), trade.size.to_f64());
                };
                trades.each(&message, each).map_err(failure)?;
                count += 1;
                if count % STEP == 0 {
                    work::check()?;
                }
            }
        }
    }
    let gaps = recorded_gaps(stream, selected(stream, Some(from), Some(to), &[]), &wanted.symbol)
        .map_err(failure)?;
    Ok(pixels.finish(gaps))
}

/// How the numbers of a field become values of a chart.
#[derive(Debug, Clone, Copy)]
struct Scale {
    factor: f64,
    is_unsigned: bool,
}

impl Scale {
    fn of(record: &RecordLayout, name: &str) -> Result<Self, Failure> {
        let ty = record.field(name).map(|index| &record.fields[index].ty);
        let plain = |is_unsigned| Ok(Self { factor: 1.0, is_unsigned });
        match ty {
            Some(TypeLayout::Scalar(Scalar::Decimal(scale))) => {
                Ok(Self { factor: 10f64.powi(i32::from(*scale)), is_unsigned: false })
            }
            Some(TypeLayout::Scalar(Scalar::U64)) => plain(true),
            Some(TypeLayout::Scalar(
                Scalar::I8
                | Scalar::I16
                | Scalar::I32
                | Scalar::I64
                | Scalar::U8
                | Scalar::U16
                | Scalar::U32
                | Scalar::F32
                | Scalar::F64
                | Scalar::Decimal64,
            )) => plain(false),
            _ => Err(Failure::invalid(format!("{}.{name} is no number", record.name))),
        }
    }

    /// The values of the rows.
    fn values(self, column: &Column<'_>, rows: usize) -> Result<Vec<Option<f64>>, Failure> {
        let existing: Vec<f64> = match (column.kind(), column.values()) {
            (ColumnKind::Decimal64, _) => {
                column.decimals().into_iter().flatten().map(tapedb_schema::Decimal64::to_f64).collect()
            }
            (_, Values::Ints(values)) if self.is_unsigned => {
                values.iter().map(|value| *value as u64 as f64).collect()
            }
            (_, Values::Ints(values)) => values.iter().map(|value| *value as f64 / self.factor).collect(),
            (_, Values::F64s(values)) => values.to_vec(),
            (_, Values::F32s(values)) => values.iter().map(|value| f64::from(*value)).collect(),
            (_, Values::Bytes(..)) => return Err(Failure::invalid("the field is no number")),
        };
        let steps: Vec<Step<'_>> = column.steps().collect();
        let mut existing = existing.into_iter();
        match steps[..] {
            [] => Ok(existing.map(Some).collect()),
            [Step::Present(present)] => {
                Ok(present.iter().map(|is| if *is == 1 { existing.next() } else { None }).collect())
            }
            _ => {
                debug_assert!(rows > 0);
                Err(Failure::invalid("the field is in an array or a record; choose a plain one"))
            }
        }
    }
}

/// A pixel of a chart.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Pixel {
    time: Timestamp,
    first: f64,
    min: f64,
    max: f64,
    last: f64,
    count: u64,
    volume: f64,
}

/// The pixels of a chart, and at first each value.
struct Pixels {
    from: Timestamp,
    to: Timestamp,
    width: usize,
    pixels: Vec<Option<Pixel>>,
    /// Each value, as long as there are few.
    raw: Option<Vec<(Timestamp, f64, f64)>>,
    has_volume: bool,
}

impl Pixels {
    fn new(from: Timestamp, to: Timestamp, width: usize) -> Self {
        Self { from, to, width, pixels: vec![None; width], raw: Some(Vec::new()), has_volume: false }
    }

    fn add(&mut self, time: Timestamp, value: f64, size: f64) {
        if !value.is_finite() || time < self.from || time >= self.to {
            return;
        }
        if let Some(raw) = &mut self.raw {
            raw.push((time, value, size));
            // Four values of each pixel are as much as each of these.
            if raw.len() > self.width * 2 {
                self.raw = None;
            }
        }
        let (begin, length) =
            (i128::from(self.from.nanos()), i128::from(self.to.nanos()) - i128::from(self.from.nanos()));
        let index = (i128::from(time.nanos()) - begin) * self.width as i128 / length.max(1);
        let pixel = &mut self.pixels[(index as usize).min(self.width - 1)];
        match pixel {
            None => {
                *pixel = Some(Pixel {
                    time,
                    first: value,
                    min: value,
                    max: value,
                    last: value,
                    count: 1,
                    volume: size,
                })
            }
            Some(pixel) => {
                pixel.min = pixel.min.min(value);
                pixel.max = pixel.max.max(value);
                pixel.last = value;
                pixel.count += 1;
                pixel.volume += size;
            }
        }
    }

    fn finish(self, gaps: Vec<Value>) -> Chart {
        let is_raw = self.raw.is_some();
        let pixels: Vec<Pixel> = match self.raw {
            Some(raw) => raw
                .into_iter()
                .map(|(time, value, volume)| Pixel {
                    time,
                    first: value,
                    min: value,
                    max: value,
                    last: value,
                    count: 1,
                    volume,
                })
                .collect(),
            None => self.pixels.into_iter().flatten().collect(),
        };
        let each = |value: fn(&Pixel) -> f64| pixels.iter().map(value).collect::<Vec<f64>>();
        Chart {
            from: self.from.nanos().to_string(),
            to: self.to.nanos().to_string(),
            time: pixels.iter().map(|pixel| pixel.time.nanos().to_string()).collect(),
            first: each(|pixel| pixel.first),
            min: each(|pixel| pixel.min),
            max: each(|pixel| pixel.max),
            last: each(|pixel| pixel.last),
            count: pixels.iter().map(|pixel| pixel.count).collect(),
            volume: self.has_volume.then(|| each(|pixel| pixel.volume)),
            gaps,
            raw: is_raw,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_values_are_shown_as_they_are() {
        let mut pixels = Pixels::new(Timestamp(0), Timestamp(100), 10);
        for time in [0, 5, 99, 100, -1] {
            pixels.add(Timestamp(time), time as f64, 1.0);
        }
        let chart = pixels.finish(Vec::new());
        assert!(chart.raw && chart.volume.is_none());
        assert_eq!((chart.time.join(" "), chart.last), ("0 5 99".to_string(), vec![0.0, 5.0, 99.0]));
    }

    #[test]
    fn no_spike_is_lost() {
        let mut pixels = Pixels::new(Timestamp(0), Timestamp(1000), 10);
        pixels.has_volume = true;
        for time in 0..1000 {
            let value = if time == 550 { 1e6 } else { f64::from(time) };
            pixels.add(Timestamp(time.into()), value, 2.0);
        }
        let chart = pixels.finish(Vec::new());
        assert!(!chart.raw);
        assert_eq!((chart.first[5], chart.min[5], chart.max[5], chart.last[5]), (500.0, 500.0, 1e6, 599.0));
        assert_eq!((chart.count.iter().sum::<u64>(), chart.volume.unwrap()[0]), (1000, 200.0));
    }
}
