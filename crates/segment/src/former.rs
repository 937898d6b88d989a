//! Which blocks version 0.1 of TapeDB read wrongly: see [`crate::encoding::misread`].

use crate::block::Block;
use crate::column::{AGAINST, DECIMALS, INTS, PREVIOUS, reference_of, take, take_array};
use crate::damage::{Damage, Flaw};
use crate::decoder::{Decoder, Selection};
use crate::encoding::{COUNT_MAX, misread};
use crate::head::{OWN, lanes, own};
use crate::level::Level;
use crate::plan::Plan;
use crate::values::ColumnValues;

impl Decoder {
    /// Whether version 0.1 of TapeDB gave other times or values of a block than it holds. Columns of more than 65,536 values
    /// are not checked.
    ///
    /// # Errors
    /// When a column is damaged.
    pub fn was_misread_by_0_1(&mut self, plan: &Plan, block: &Block) -> Result<bool, Damage> {
        let mut level = Level::default();
        level.rows_in_order(block.head());
        for column in [own::TIME, own::SEQUENCE] {
            if is_misread(block, OWN, column, level.count, &level.ends)? {
                return Ok(true);
            }
        }
        let mut all = Vec::new();
        self.lanes(block, &Selection::default(), &mut all)?;
        let mut rest = &all[..];
        for (index, group) in (0..).zip(&block.head().groups) {
            let (of_group, others) = rest.split_at((group.lanes as usize).min(rest.len()));
            rest = others;
            let symbols: Vec<u32> = of_group.iter().map(|(_, symbol, _)| *symbol).collect();
            if !group.is_whole && self.is_group_misread(plan, block, (index, group.type_id), &symbols)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The same of the columns of one group, which has these symbols.
    fn is_group_misread(
        &mut self,
        plan: &Plan,
        block: &Block,
        (group, type_id): (u16, u16),
        symbols: &[u32],
    ) -> Result<bool, Damage> {
        let mut values = ColumnValues::new();
        for chunk in block.head().chunks.iter().filter(|chunk| chunk.group == group) {
            if chunk.column >= lanes::TIME {
                continue;
            }
            // For the ends of each symbol's values, which no column has by itself.
            self.column(plan, block, (type_id, chunk.column), Some(symbols), &mut values)?;
            let count = values.runs().last().map_or(0, |end| *end as usize);
            if is_misread(block, group, chunk.column, count, values.runs())? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn is_misread(block: &Block, group: u16, column: u16, count: usize, ends: &[u32]) -> Result<bool, Damage> {
    let Some((kind, bytes)) = block.kind(group, column)? else { return Ok(false) };
    if count > COUNT_MAX {
        return Ok(false);
    }
    let integers = match kind {
        INTS => Ok(bytes),
        AGAINST | PREVIOUS => reference_of(bytes).map(|(_, bytes)| bytes),
        DECIMALS => coefficients_of(bytes),
        _ => return Ok(false),
    };
    let found = integers.and_then(|bytes| Ok(misread(bytes, count, ends)?));
    found.map(|found| found > 0).map_err(|flaw| block.damage(group, column, flaw))
}

/// The encoded coefficients of a column of decimals.
fn coefficients_of(mut bytes: &[u8]) -> Result<&[u8], Flaw> {
    let [_flags, _, _] = take_array(&mut bytes)?;
    let exceptions = u32::from_le_bytes(take_array(&mut bytes)?);
    take(&mut bytes, (exceptions as usize).saturating_mul(12))?;
    let shifts = u32::from_le_bytes(take_array(&mut bytes)?);
    take(&mut bytes, shifts as usize)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::{BlockBuilder, BlockOptions};
    use crate::row::RowHeader;
    use tapedb_codec::dynamic::Layouts;

    /// A block of messages of two symbols in turn, whose times and values pause so long.
    fn block(time_ms: i64, value_ms: i64, symbols: u32) -> (Plan, Block) {
        let schema = "message A { value: i64?, note: string }\nmessage B { value: i64 }";
        let layouts = Layouts::new(schema.parse().unwrap()).unwrap();
        let (mut builder, mut bytes) = (BlockBuilder::new(BlockOptions::default()), Vec::new());
        let (mut time, mut value) = (1_700_000_000_000_000_000, 0);
        for i in 0..5_248 {
            let step = |pause: i64| match (i / 128, i % 128) {
                (20, 64) => pause * 1_000_000,
                (20, _) => 0,
                _ => i * i % 7 * 1_000_000,
            };
            (time, value) = (time + step(time_ms), value + step(value_ms));
            let json = match i / 5_200 {
                0 => format!(r#"{{"$type": "A", "value": {value}, "note": "x"}}"#),
                _ => format!(r#"{{"$type": "B", "value": {value}}}"#),
            };
            let mut body = Vec::new();
            let record = layouts.from_json(&json).unwrap();
            layouts.encode(&record, &mut body).unwrap();
            let (symbol, type_id) = ((i as u32 / 2_560).min(symbols - 1), record.type_id);
            builder.push(RowHeader { time, sequence: i as u64, symbol, type_id }, &body).unwrap();
        }
        let plan = Plan::new(layouts);
        builder.finish(&plan, &mut bytes);
        let mut block = Block::new();
        block.load(&bytes).unwrap();
        (plan, block)
    }

    #[test]
    fn blocks_with_times_or_values_that_version_0_1_read_wrongly_are_found() {
        let mut decoder = Decoder::new();
        for symbols in [1, 2] {
            for (time_ms, value_ms, expected) in [(1, 1, false), (5_000, 1, true), (1, 5_000, true)] {
                let (plan, block) = block(time_ms, value_ms, symbols);
                let found = decoder.was_misread_by_0_1(&plan, &block).unwrap();
                assert_eq!(found, expected, "{symbols} symbols, {time_ms} ms, {value_ms}");
            }
        }
    }
}
