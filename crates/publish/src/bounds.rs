//! What a table states of a file: sizes, counts and bounds of its columns, from the file's own statistics.

use crate::columns::{Column, Ids, Type};
use crate::fields::Primitive;
use crate::schema::primitive;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::statistics::Statistics;
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};

/// Counts and bounds, by the numbers of fields.
#[derive(Debug, Default, Clone)]
pub(crate) struct Metrics {
    pub column_sizes: BTreeMap<i32, i64>,
    pub value_counts: BTreeMap<i32, i64>,
    pub null_counts: BTreeMap<i32, i64>,
    /// The least and the most value.
    pub bounds: BTreeMap<i32, (Bound, Bound)>,
    /// Where row groups begin.
    pub split_offsets: Vec<i64>,
}

/// A bound of a column.
#[derive(Debug, Clone, PartialEq, PartialOrd)]
pub(crate) enum Bound {
    Bool(bool),
    Int(i32),
    Long(i64),
    Float(f32),
    Double(f64),
    Units(i128),
    Text(String),
}

impl Bound {
    /// As Iceberg writes single values.
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Bool(value) => vec![u8::from(*value)],
            Self::Int(value) => value.to_le_bytes().to_vec(),
            Self::Long(value) => value.to_le_bytes().to_vec(),
            Self::Float(value) => value.to_le_bytes().to_vec(),
            Self::Double(value) => value.to_le_bytes().to_vec(),
            Self::Units(value) => {
                // The most significant byte first, in as few bytes as it has.
                let bytes = value.to_be_bytes();
                let is_spare = |pair: &&[u8]| matches!(pair, [0, 0..=0x7f] | [0xff, 0x80..=0xff]);
                let spare = bytes.windows(2).take_while(is_spare).count();
                bytes[spare..].to_vec()
            }
            Self::Text(text) => text.as_bytes().to_vec(),
        }
    }
}

/// Bytes of a text in a bound; longer ones have none.
const TEXT_MAX: usize = 64;

/// The metrics of a file with these columns.
pub(crate) fn metrics(file: &ParquetMetaData, columns: &[Column], ids: &[Ids]) -> Metrics {
    let mut types = HashMap::new();
    for (column, ids) in columns.iter().zip(ids) {
        if !matches!(column.ty, Type::List(_) | Type::Struct(_)) {
            types.insert(ids.id, primitive(&column.ty));
        }
    }
    let mut metrics = Metrics::default();
    let mut bounds: BTreeMap<i32, (Bound, Bound)> = BTreeMap::new();
    // A column of which a row group has no bound has none.
    let mut unbounded = Vec::new();
    for group in file.row_groups() {
        metrics.split_offsets.extend(group.file_offset());
        for chunk in group.columns() {
            let info = chunk.column_descr().self_type().get_basic_info();
            if !info.has_id() {
                continue;
            }
            let id = info.id();
            *metrics.column_sizes.entry(id).or_default() += chunk.compressed_size();
            *metrics.value_counts.entry(id).or_default() += chunk.num_values();
            let Some(statistics) = chunk.statistics() else {
                unbounded.push(id);
                continue;
            };
            let nulls = statistics.null_count_opt().unwrap_or(0) as i64;
            *metrics.null_counts.entry(id).or_default() += nulls;
            let Some(ty) = types.get(&id).filter(|_| nulls < chunk.num_values()) else { continue };
            match bounds_of(statistics, ty) {
                Some((least, most)) => {
                    let known = bounds.entry(id).or_insert_with(|| (least.clone(), most.clone()));
                    if least.partial_cmp(&known.0) == Some(Ordering::Less) {
                        known.0 = least;
                    }
                    if most.partial_cmp(&known.1) == Some(Ordering::Greater) {
                        known.1 = most;
                    }
                }
                None => unbounded.push(id),
            }
        }
    }
    bounds.retain(|id, _| !unbounded.contains(id));
    metrics.bounds = bounds;
    metrics
}

/// The least and the most value of a row group's column.
fn bounds_of(statistics: &Statistics, ty: &Primitive) -> Option<(Bound, Bound)> {
    Some(match (statistics, ty) {
        (Statistics::Boolean(values), Primitive::Boolean) => {
            (Bound::Bool(*values.min_opt()?), Bound::Bool(*values.max_opt()?))
        }
        (Statistics::Int32(values), Primitive::Int) => {
            (Bound::Int(*values.min_opt()?), Bound::Int(*values.max_opt()?))
        }
        (Statistics::Int64(values), Primitive::Long | Primitive::Timestamptz) => {
            (Bound::Long(*values.min_opt()?), Bound::Long(*values.max_opt()?))
        }
        (Statistics::Float(values), Primitive::Float) => {
            let (least, most) = (*values.min_opt()?, *values.max_opt()?);
            return (!least.is_nan() && !most.is_nan()).then_some((Bound::Float(least), Bound::Float(most)));
        }
        (Statistics::Double(values), Primitive::Double) => {
            let (least, most) = (*values.min_opt()?, *values.max_opt()?);
            return (!least.is_nan() && !most.is_nan())
                .then_some((Bound::Double(least), Bound::Double(most)));
        }
        (Statistics::Int32(values), Primitive::Decimal(..)) => {
            (Bound::Units(i128::from(*values.min_opt()?)), Bound::Units(i128::from(*values.max_opt()?)))
        }
        (Statistics::Int64(values), Primitive::Decimal(..)) => {
            (Bound::Units(i128::from(*values.min_opt()?)), Bound::Units(i128::from(*values.max_opt()?)))
        }
        (Statistics::FixedLenByteArray(values), Primitive::Decimal(..)) => {
            (Bound::Units(units(values.min_opt()?.data())?), Bound::Units(units(values.max_opt()?.data())?))
        }
        (Statistics::ByteArray(values), Primitive::String) => {
            let text = |bytes: &[u8]| {
                Some(Bound::Text(str::from_utf8(bytes).ok().filter(|text| text.len() <= TEXT_MAX)?.into()))
            };
            (text(values.min_opt()?.data())?, text(values.max_opt()?.data())?)
        }
        _ => return None,
    })
}

/// Units of a decimal, from at most 16 bytes with the most significant one first.
fn units(bytes: &[u8]) -> Option<i128> {
    let mut all = [if *bytes.first()? >= 0x80 { 0xff } else { 0 }; 16];
    let start = all.len().checked_sub(bytes.len())?;
    all[start..].copy_from_slice(bytes);
    Some(i128::from_be_bytes(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_have_as_few_bytes_as_they_need() {
        for (units, bytes) in [
            (0, vec![0]),
            (1, vec![1]),
            (127, vec![127]),
            (128, vec![0, 128]),
            (-1, vec![255]),
            (-129, vec![255, 127]),
        ] {
            assert_eq!(Bound::Units(units).bytes(), bytes);
            assert_eq!(super::units(&bytes), Some(units));
        }
        assert_eq!(units(&[0; 17]), None);
    }
}
