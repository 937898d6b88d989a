//! Statistics of a file, as Delta's log has them: rows, and for columns without parts the least, the most and the number of nulls.
//!
//! Numbers are written as they are, without going through a double. Doubles have no bounds: Parquet's leave out what is no number, which
//! engines count as the greatest. Times are rounded to milliseconds, away from the middle, because engines read no finer ones.

use crate::bounds::Bound;
use crate::fields::{Primitive, Schema, TableType};
use crate::files::{NewFile, date};
use std::fmt::Write;

/// Microseconds in a millisecond, and milliseconds in a day.
const MILLI: i64 = 1000;
const DAY_MS: i64 = 86_400_000;

/// The statistics, as JSON.
pub(crate) fn text(file: &NewFile, schema: &Schema) -> String {
    let (mut least, mut most, mut nulls) = (Vec::new(), Vec::new(), Vec::new());
    for field in &schema.fields {
        let TableType::Primitive(ty) = &field.ty else { continue };
        let name = serde_json::Value::from(field.name.as_str());
        if let Some(count) = file.metrics.null_counts.get(&field.id) {
            nulls.push(format!("{name}:{count}"));
        }
        let bounds = file.metrics.bounds.get(&field.id);
        let texts = bounds.and_then(|(low, high)| Some((bound(low, ty, false)?, bound(high, ty, true)?)));
        if let Some((low, high)) = texts {
            least.push(format!("{name}:{low}"));
            most.push(format!("{name}:{high}"));
        }
    }
    let mut text = format!("{{\"numRecords\":{}", file.rows);
    for (key, values) in [("minValues", least), ("maxValues", most), ("nullCount", nulls)] {
        let _ = write!(text, ",\"{key}\":{{{}}}", values.join(","));
    }
    text.push('}');
    text
}

/// A bound as JSON; `None`: this type has none.
fn bound(bound: &Bound, ty: &Primitive, is_upper: bool) -> Option<String> {
    Some(match (bound, ty) {
        (Bound::Long(micros), Primitive::Timestamptz) => {
            let millis = match is_upper {
                true => micros.div_euclid(MILLI) + i64::from(micros.rem_euclid(MILLI) > 0),
                false => micros.div_euclid(MILLI),
            };
            let (day, of_day) = (millis.div_euclid(DAY_MS), millis.rem_euclid(DAY_MS));
            let seconds = of_day / MILLI;
            format!(
                "\"{}T{:02}:{:02}:{:02}.{:03}Z\"",
                date(i32::try_from(day).ok()?),
                seconds / 3600,
                seconds / 60 % 60,
                seconds % 60,
                of_day % MILLI
            )
        }
        (Bound::Int(value), _) => value.to_string(),
        (Bound::Long(value), _) => value.to_string(),
        (Bound::Units(units), Primitive::Decimal(_, scale)) => decimal(*units, usize::from(*scale)),
        (Bound::Text(text), _) => serde_json::Value::from(text.as_str()).to_string(),
        (Bound::Bool(_) | Bound::Float(_) | Bound::Double(_) | Bound::Units(_), _) => return None,
    })
}

/// Units of a decimal as its number.
fn decimal(units: i128, scale: usize) -> String {
    let sign = if units < 0 { "-" } else { "" };
    let digits = format!("{:0width$}", units.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    if scale == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::Partition;

    #[test]
    fn bounds_are_exact_or_wider() {
        for (units, scale, text) in [
            (-1, 4, "-0.0001"),
            (0, 2, "0.00"),
            (123, 0, "123"),
            (i128::from(i64::MAX), 4, "922337203685477.5807"),
        ] {
            assert_eq!(decimal(units, scale), text);
        }
        let time = |micros, is_upper| bound(&Bound::Long(micros), &Primitive::Timestamptz, is_upper).unwrap();
        assert_eq!(time(1, false), "\"1970-01-01T00:00:00.000Z\"");
        assert_eq!(time(1, true), "\"1970-01-01T00:00:00.001Z\"");
        assert_eq!(time(-1, false), "\"1969-12-31T23:59:59.999Z\"");
        assert_eq!(time(1_704_164_645_006_000, true), "\"2024-01-02T03:04:05.006Z\"");
        assert_eq!(bound(&Bound::Double(1.5), &Primitive::Double, true), None);
    }

    #[test]
    fn a_files_statistics_are_json() {
        let schema = super::super::schema::of_text(
            r#"{"fields":[{"name":"a\"b","type":"string"},{"name":"n","type":"long"},{"name":"d","type":"double"}]}"#,
        );
        let metrics = crate::bounds::Metrics {
            null_counts: [(1, 0), (2, 1)].into(),
            bounds: [
                (1, (Bound::Text("x\"".into()), Bound::Text("y".into()))),
                (3, (Bound::Double(1.0), Bound::Double(2.0))),
            ]
            .into(),
            ..Default::default()
        };
        let file = NewFile {
            url: String::new(),
            partition: Partition { day: 0, bucket: 0 },
            rows: 5,
            bytes: 9,
            metrics,
        };
        let text = text(&file, &schema.unwrap());
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        let wanted = serde_json::json!({ "numRecords": 5, "minValues": { "a\"b": "x\"" }, "maxValues": { "a\"b": "y" },
            "nullCount": { "a\"b": 0, "n": 1 } });
        assert_eq!(json, wanted);
    }
}
