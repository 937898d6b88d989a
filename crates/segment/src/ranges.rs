//! Compares the smallest and largest values in a block's head with the values of its columns.

use crate::block::Block;
use crate::damage::{Damage, Flaw};
use crate::decoder::Decoder;
use crate::head::{Chunk, Head, OWN, lanes, own};
use crate::plan::{ColumnKind, Plan};
use crate::values::{ColumnValues, Values};
use std::cmp::Ordering;
use tapedb_schema::Decimal64;

impl Head {
    /// Whether a column of a record type may have a value from `least` to `most`, both included and given by their bits; `None`: no
    /// bound. Only the smallest and largest values in the head are compared, in the order of the column's numbers.
    pub fn may_have(
        &self,
        (type_id, column): (u16, u16),
        kind: ColumnKind,
        (least, most): (Option<i64>, Option<i64>),
    ) -> bool {
        self.groups_of(type_id).any(|group| {
            if self.groups[group].is_whole {
                return true;
            }
            // Without the column there is no value in these rows.
            let Some(chunk) = self.chunk(group as u16, column) else { return false };
            chunk.range.is_none_or(|(min, max)| {
                least.is_none_or(|least| compare(kind, max, least) != Ordering::Less)
                    && most.is_none_or(|most| compare(kind, min, most) != Ordering::Greater)
            })
        })
    }
}

impl Decoder {
    /// Decodes every column of numbers of a block and compares it with its smallest and largest value in the head.
    ///
    /// # Errors
    /// When a column is damaged, or has other values than in the head.
    pub fn check_ranges(&mut self, plan: &Plan, block: &Block) -> Result<(), Damage> {
        let mut values = Vec::new();
        if let Some(chunk) = block.head().chunk(OWN, own::TIME) {
            self.times(block, &mut values)?;
            check(block, ColumnKind::Count, &[*chunk], &values)?;
        }
        if let Some(chunk) = block.head().chunk(OWN, own::SEQUENCE) {
            self.sequences(block, &mut values)?;
            check(block, ColumnKind::Count, &[*chunk], &values)?;
        }
        let mut types: Vec<u16> = block.head().groups.iter().map(|group| group.type_id).collect();
        types.dedup();
        types.into_iter().try_for_each(|type_id| self.check_type(plan, block, type_id, &mut values))
    }

    fn check_type(
        &mut self,
        plan: &Plan,
        block: &Block,
        type_id: u16,
        bits: &mut Vec<i64>,
    ) -> Result<(), Damage> {
        let groups = block.head().groups_of(type_id);
        let is_whole = groups.clone().any(|group| block.head().groups[group].is_whole);
        let Some(of_type) = plan.group(type_id).filter(|_| !is_whole) else { return Ok(()) };
        let mut values = ColumnValues::new();
        for (column, info) in (0..lanes::TIME).zip(of_type.columns()) {
            // A record type of many symbols is cut into several groups.
            let found = groups.clone().filter_map(|group| block.head().chunk(group as u16, column));
            let chunks: Vec<Chunk> = found.copied().collect();
            if chunks.iter().any(|chunk| chunk.range.is_some()) {
                self.column(plan, block, (type_id, column), None, &mut values)?;
                bits_of(values.values(), bits);
                check(block, info.kind, &chunks, bits)?;
            }
        }
        Ok(())
    }
}

fn bits_of(values: Values<'_>, out: &mut Vec<i64>) {
    out.clear();
    match values {
        Values::Ints(ints) => out.extend_from_slice(ints),
        Values::F64s(floats) => out.extend(floats.iter().map(|float| float.to_bits() as i64)),
        Values::F32s(floats) => out.extend(floats.iter().map(|float| i64::from(float.to_bits()))),
        Values::Bytes(..) => {}
    }
}

/// Whether the ranges of the groups' columns are together that of `values`.
fn check(block: &Block, kind: ColumnKind, chunks: &[Chunk], values: &[i64]) -> Result<(), Damage> {
    // One of the groups may have a NaN, and so no range.
    let ranges: Option<Vec<(i64, i64)>> = chunks.iter().map(|chunk| chunk.range).collect();
    let Some(ranges) = ranges.filter(|_| !values.is_empty()) else { return Ok(()) };
    let flawed = |what, stated: i64, value: i64| {
        let flaw = Flaw::Mismatch { what, need: stated as u64, have: value as u64 };
        Err(block.damage(chunks[0].group, chunks[0].column, flaw))
    };
    let is_below = |a: i64, b: i64| compare(kind, a, b) == Ordering::Less;
    let pick =
        |best: i64, value: i64, wanted| if compare(kind, value, best) == wanted { value } else { best };
    let least = ranges[1..].iter().fold(ranges[0].0, |least, range| pick(least, range.0, Ordering::Less));
    let most = ranges[1..].iter().fold(ranges[0].1, |most, range| pick(most, range.1, Ordering::Greater));
    match values.iter().find(|value| is_below(**value, least) || is_below(most, **value)) {
        Some(value) if is_below(*value, least) => return flawed("smallest value", least, *value),
        Some(value) => return flawed("largest value", most, *value),
        None => {}
    }
    for (what, stated) in [("smallest value", least), ("largest value", most)] {
        if !values.contains(&stated) {
            return flawed(what, stated, values[0]);
        }
    }
    Ok(())
}

/// The order of a column's values, which are given as their bits.
fn compare(kind: ColumnKind, a: i64, b: i64) -> Ordering {
    match kind {
        ColumnKind::Int { width: 8, signed: false } => (a as u64).cmp(&(b as u64)),
        ColumnKind::F64 => f64::from_bits(a as u64).total_cmp(&f64::from_bits(b as u64)),
        ColumnKind::F32 => f32::from_bits(a as u32).total_cmp(&f32::from_bits(b as u32)),
        ColumnKind::Decimal64 => {
            let decimal = |bits: i64| Decimal64::from_bits(bits as u64);
            decimal(a).numeric_cmp(&decimal(b)).unwrap_or(Ordering::Equal)
        }
        _ => a.cmp(&b),
    }
}
