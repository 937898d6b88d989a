//! One block: rows whole, by time, by symbol and by type, and columns.

use super::Random;
use crate::block::Block;
use crate::builder::{BlockBuilder, BlockOptions};
use crate::decoder::{Decoder, Selection};
use crate::encoding::Tier;
use crate::lane_columns::LaneColumns;
use crate::plan::{ColumnKind, GroupPlan, Plan};
use crate::reference;
use crate::row::RowHeader;
use crate::rows::Rows;
use crate::transpose::transpose;
use crate::values::{ColumnValues, Values};

/// A message.
type Row = (RowHeader, Vec<u8>);

/// A block of these rows.
///
/// # Panics
/// When the rows are out of order, or too many.
pub fn block_of<'a>(plan: &Plan, tier: Tier, rows: impl IntoIterator<Item = &'a Row>) -> Vec<u8> {
    let options = BlockOptions { rows: usize::MAX, tier, ..BlockOptions::default() };
    let (mut builder, mut bytes) = (BlockBuilder::new(options), Vec::new());
    rows.into_iter().for_each(|(header, body)| builder.push(*header, body).expect("rows fit a block"));
    builder.finish(plan, &mut bytes);
    bytes
}

/// Compares all ways to read a block with the reference; gives its rows. Where the reference refuses the bytes, the others
/// must only not panic.
///
/// # Panics
/// When they differ.
pub fn block(plan: &Plan, bytes: &[u8], random: &mut Random) -> Option<Vec<Row>> {
    let mut block = Block::new();
    let loaded = block.load(bytes);
    let mut rows = Vec::new();
    let reference = reference::rows(bytes, plan, |header, body| rows.push((header, body.to_vec())));
    if loaded.is_err() {
        assert!(reference.is_err(), "{loaded:?}, where the reference decodes");
        return None;
    }
    let (decoder, rows_of, values, by_lane) = Default::default();
    let mut fast = Fast { plan, block: &block, decoder, rows: rows_of, values, by_lane };
    let expected = reference.is_ok().then_some(&rows[..]);
    fast.selected(expected, &Selection::default());
    selections(&mut fast, expected, random);
    fast.columns(bytes, expected, None);
    if let Some(rows) = expected {
        fast.own(rows);
        let symbols = some_symbols(rows, random);
        fast.columns(bytes, expected, Some(&symbols));
    }
    reference.is_ok().then_some(rows)
}

/// Some of the symbols that rows have, and one that none has.
fn some_symbols(rows: &[Row], random: &mut Random) -> Vec<u32> {
    let mut symbols: Vec<u32> =
        (0..1 + random.below(4)).map(|_| rows[random.below(rows.len())].0.symbol).collect();
    symbols.push(symbols[0] / 2 + 5);
    symbols.sort_unstable();
    symbols.dedup();
    symbols
}

fn selections(fast: &mut Fast, expected: Option<&[Row]>, random: &mut Random) {
    let Some(rows) = expected.filter(|rows| !rows.is_empty()) else {
        let some = Selection { symbols: Some(&[0, 7]), ..Selection::default() };
        return fast.selected(None, &some);
    };
    for round in 0..8 {
        let (a, b) = (rows[random.below(rows.len())].0.time, rows[random.below(rows.len())].0.time);
        let (symbols, types) = (some_symbols(rows, random), [rows[random.below(rows.len())].0.type_id]);
        let one = [symbols[0]];
        fast.selected(
            expected,
            &Selection {
                from: if round % 2 == 1 { a.min(b) } else { i64::MIN },
                last: if round % 2 == 1 { a.max(b) } else { i64::MAX },
                symbols: [None, Some(&symbols[..]), Some(&one)][round % 3],
                types: if round > 5 { Some(&types) } else { None },
            },
        );
    }
}

struct Fast<'a> {
    plan: &'a Plan,
    block: &'a Block,
    decoder: Decoder,
    rows: Rows,
    values: ColumnValues,
    by_lane: LaneColumns,
}

impl Fast<'_> {
    fn selected(&mut self, expected: Option<&[Row]>, selection: &Selection<'_>) {
        let done = self.decoder.rows(self.plan, self.block, selection, &mut self.rows);
        let Some(expected) = expected else { return };
        assert!(done.is_ok(), "{selection:?}: {done:?}, where the reference decodes");
        let mut row = 0;
        for (header, body) in expected.iter().filter(|(header, _)| is_wanted(selection, header)) {
            assert!(row < self.rows.len(), "{selection:?}: {} rows are too few", self.rows.len());
            assert_eq!(self.rows.header(row), *header, "{selection:?}: row {row}");
            assert_eq!(self.rows.body(row), body, "{selection:?}: body of row {row}, {header:?}");
            row += 1;
        }
        assert_eq!(self.rows.len(), row, "{selection:?}: too many rows");
        self.headers(expected, selection);
    }

    /// Rows without bodies, and the places of their values in the columns of a record type.
    fn headers(&mut self, expected: &[Row], selection: &Selection<'_>) {
        let done = self.decoder.headers(self.block, selection, &mut self.rows);
        assert!(done.is_ok(), "{selection:?}: {done:?}, where the reference decodes");
        let wanted = expected.iter().filter(|(header, _)| is_wanted(selection, header));
        let wanted: Vec<&Row> = wanted.collect();
        let found = (0..self.rows.len()).map(|row| self.rows.header(row));
        assert!(found.eq(wanted.iter().map(|(header, _)| *header)), "{selection:?}: headers");
        let Some([type_id]) = selection.types else { return };
        let groups = &self.block.head().groups;
        let is_whole = groups.iter().any(|group| group.type_id == *type_id && group.is_whole);
        let Some(plan) = self.plan.group(*type_id).filter(|_| !is_whole && !wanted.is_empty()) else {
            return;
        };
        let homes = self.rows.homes(0..self.rows.len());
        let places: Vec<u32> = (0..self.rows.len()).map(|row| self.rows.place(row)).collect();
        let all: Vec<u16> = (0..plan.columns().len() as u16).collect();
        let of = ((self.plan, self.block), (*type_id, &all[..]));
        let done = self.decoder.lane_columns(
            of.0,
            of.1,
            (selection.symbols, None),
            |index| index % 5 == 4,
            &mut self.by_lane,
        );
        assert!(done.is_ok(), "{selection:?}: {done:?}");
        for (number, column) in (0..).zip(plan.columns()) {
            if column.path.contains(['.', '[', '?']) || plan.column(&format!("{}?", column.path)).is_some() {
                continue;
            }
            let of = (*type_id, number);
            let done = self.decoder.column(self.plan, self.block, of, selection.symbols, &mut self.values);
            assert!(done.is_ok(), "{selection:?}: {done:?}");
            let mut gathered = [ColumnValues::new()];
            gathered[0].begin(column.kind);
            gathered[0].append_at(&self.values, &places);
            let expected = transposed(plan, &[number], wanted.iter().copied());
            assert_same(&gathered[0], &expected[0], &column.path);
            let of_lanes = &self.by_lane.columns()[usize::from(number)];
            assert_eq!(of_lanes.len(), self.values.values().len(), "{}", column.path);
            gathered[0].begin(column.kind);
            of_lanes.append_homes(homes, &mut gathered[0]);
            assert_same(&gathered[0], &expected[0], &column.path);
            gathered[0].begin(column.kind);
            of_lanes.append_at(&places, &mut gathered[0]);
            assert_same(&gathered[0], &expected[0], &column.path);
            gathered[0].begin(column.kind);
            of_lanes.append_range(0..of_lanes.len(), &mut gathered[0]);
            assert_same(&gathered[0], &self.values, &column.path);
        }
        self.chosen_rows((*type_id, &all), selection.symbols, places);
    }

    /// Columns of which some rows are taken and no others.
    fn chosen_rows(&mut self, (type_id, all): (u16, &[u16]), symbols: Option<&[u32]>, mut places: Vec<u32>) {
        let Some(plan) = self.plan.group(type_id) else { return };
        places.sort_unstable();
        let chosen: Vec<u32> = places.into_iter().step_by(3).collect();
        let (of, rows) = (((self.plan, self.block), (type_id, all)), (symbols, Some(&chosen[..])));
        let done = self.decoder.lane_columns(of.0, of.1, rows, |_| false, &mut self.by_lane);
        assert!(done.is_ok(), "{symbols:?}: {done:?}");
        for (number, column) in (0..).zip(plan.columns()) {
            if column.path.contains(['.', '[', '?']) || plan.column(&format!("{}?", column.path)).is_some() {
                continue;
            }
            let done =
                self.decoder.column(self.plan, self.block, (type_id, number), symbols, &mut self.values);
            assert!(done.is_ok(), "{symbols:?}: {done:?}");
            let (mut expected, mut found) = (ColumnValues::new(), ColumnValues::new());
            expected.begin(column.kind);
            expected.append_at(&self.values, &chosen);
            let of_lanes = &self.by_lane.columns()[usize::from(number)];
            assert_eq!(of_lanes.len(), self.values.values().len(), "{}", column.path);
            found.begin(column.kind);
            of_lanes.append_homes(&chosen, &mut found);
            assert_same(&found, &expected, &column.path);
        }
    }

    /// Times and sequence numbers, in both orders.
    fn own(&mut self, rows: &[Row]) {
        let (mut out, mut memory) = (Vec::new(), Vec::new());
        self.decoder.times(self.block, &mut out).expect("times decode");
        assert!(out.iter().eq(rows.iter().map(|(header, _)| &header.time)), "times");
        self.decoder.sequences(self.block, &mut out).expect("sequences decode");
        assert!(
            out.iter().map(|n| *n as u64).eq(rows.iter().map(|(header, _)| header.sequence)),
            "sequences"
        );
        for group in &self.block.head().groups {
            let of_type = rows.iter().filter(|(header, _)| header.type_id == group.type_id);
            let mut expected: Vec<&RowHeader> = of_type.map(|(header, _)| header).collect();
            expected.sort_by_key(|header| header.symbol);
            self.decoder
                .times_by_lane(self.block, group.type_id, None, &mut memory, &mut out)
                .expect("times decode by lane");
            assert!(out.iter().eq(expected.iter().map(|header| &header.time)), "times by lane");
        }
    }

    /// Every column of every record type. What is expected of some symbols is what a block of their rows alone has: the
    /// values of a column follow from the bodies, however they are encoded.
    fn columns(&mut self, bytes: &[u8], expected: Option<&[Row]>, symbols: Option<&[u32]>) {
        let is_wanted = |symbol: u32| symbols.is_none_or(|symbols| symbols.binary_search(&symbol).is_ok());
        let own = match (expected, symbols) {
            (Some(rows), Some(_)) => {
                block_of(self.plan, Tier::Hot, rows.iter().filter(|(header, _)| is_wanted(header.symbol)))
            }
            _ => bytes.to_vec(),
        };
        let mut of_own = Block::new();
        let loaded = of_own.load(&own);
        let reference = reference::columns(&own, self.plan).ok().filter(|_| expected.is_some());
        for type_id in 0..self.plan.layouts().records().len() as u16 {
            self.columns_together(type_id, symbols, expected.is_some());
            let is_whole = |block: &Block| {
                block.head().groups_of(type_id).any(|group| block.head().groups[group].is_whole)
            };
            let comparable = loaded.is_ok() && !is_whole(self.block) && !is_whole(&of_own);
            let columns = self.plan.group(type_id).map_or(0, |plan| plan.columns().len());
            for column in 0..columns as u16 {
                let done =
                    self.decoder.column(self.plan, self.block, (type_id, column), symbols, &mut self.values);
                if let Some(reference) = reference.as_ref().filter(|_| comparable) {
                    assert!(done.is_ok(), "column {column} of {type_id}, {symbols:?}: {done:?}");
                    let groups = of_own.head().groups_of(type_id);
                    let of_column = reference
                        .iter()
                        .filter(|found| found.column == column && groups.contains(&usize::from(found.group)));
                    self.same_values((type_id, column), groups.len(), &of_column.collect::<Vec<_>>());
                }
                if let (Some(rows), Some(plan)) = (expected.filter(|_| comparable), self.plan.group(type_id))
                {
                    let wanted = |row: &&Row| row.0.type_id == type_id && is_wanted(row.0.symbol);
                    let mut rows: Vec<&Row> = rows.iter().filter(wanted).collect();
                    rows.sort_by_key(|(header, _)| header.symbol);
                    let expected = transposed(plan, &[column], rows.into_iter());
                    assert_same(&self.values, &expected[0], &plan.columns()[usize::from(column)].path);
                }
            }
        }
    }

    /// Several columns at once, in any order and with gaps, are what each of them is alone.
    fn columns_together(&mut self, type_id: u16, symbols: Option<&[u32]>, is_right: bool) {
        let count = self.plan.group(type_id).map_or(0, |plan| plan.columns().len()) as u16;
        let all: Vec<u16> = (0..count).collect();
        let some: Vec<u16> = (0..count).rev().filter(|column| column % 3 != 1).collect();
        for columns in [all, some] {
            let mut out = Vec::new();
            let of = ((self.plan, self.block), (type_id, &columns[..]));
            let done = self.decoder.columns(of.0, of.1, symbols, &mut out);
            let lanes = self.decoder.lane_columns(of.0, of.1, (symbols, None), |_| false, &mut self.by_lane);
            if !is_right {
                continue;
            }
            for (index, column) in columns.iter().enumerate() {
                let alone =
                    self.decoder.column(self.plan, self.block, (type_id, *column), symbols, &mut self.values);
                if alone.is_err() {
                    assert!(done.is_err() && lanes.is_err(), "column {column} of {type_id}: {alone:?}");
                    break;
                }
                if done.is_ok() {
                    assert_same(&out[index], &self.values, &format!("column {column} of {type_id}"));
                }
            }
        }
    }

    fn same_values(&self, (type_id, column): (u16, u16), groups: usize, expected: &[&reference::Column]) {
        let what = format!("column {column} of record type {type_id}");
        let kind = self.plan.group(type_id).and_then(|plan| plan.columns().get(usize::from(column)));
        let is_presence = kind.is_some_and(|column| column.kind == ColumnKind::Presence);
        let numbers = expected.iter().flat_map(|column| match &column.values {
            reference::Values::Numbers(values) => &values[..],
            reference::Values::Texts(_) => &[],
        });
        let texts = expected.iter().flat_map(|column| match &column.values {
            reference::Values::Texts(texts) => texts.iter().collect::<Vec<&[u8]>>(),
            reference::Values::Numbers(_) => Vec::new(),
        });
        match self.values.values() {
            // Of groups in which all values are there, the reference has no column.
            Values::Ints(ints) if is_presence && expected.len() < groups => {
                let nulls =
                    |values: &mut dyn Iterator<Item = &i64>| values.filter(|value| **value == 0).count();
                assert_eq!(nulls(&mut ints.iter()), nulls(&mut numbers.clone()), "{what}: nulls");
            }
            Values::Ints(ints) => assert!(ints.iter().eq(numbers), "{what}"),
            Values::F64s(floats) => {
                assert!(floats.iter().map(|value| value.to_bits() as i64).eq(numbers.copied()), "{what}");
            }
            Values::F32s(floats) => {
                // In forged blocks, numbers may be wider than the slot.
                let numbers = numbers.map(|number| *number as u32);
                assert!(floats.iter().map(|value| value.to_bits()).eq(numbers), "{what}");
            }
            Values::Bytes(ends, content) => {
                let starts = std::iter::once(0).chain(ends.iter().copied());
                let found = starts.zip(ends).map(|(start, end)| &content[start as usize..*end as usize]);
                assert!(found.eq(texts), "{what}");
            }
        }
    }
}

/// Columns of bodies.
fn transposed<'a>(
    plan: &GroupPlan,
    columns: &[u16],
    rows: impl Iterator<Item = &'a Row>,
) -> Vec<ColumnValues> {
    let (mut arena, mut starts) = (Vec::new(), Vec::new());
    for (_, body) in rows {
        starts.push(arena.len() as u32);
        arena.extend_from_slice(body);
    }
    let begun = |number: &u16| {
        let mut values = ColumnValues::new();
        values.begin(plan.columns()[usize::from(*number)].kind);
        values
    };
    let mut out: Vec<ColumnValues> = columns.iter().map(begun).collect();
    transpose(plan, (&arena, &starts), columns, &mut out);
    out
}

fn assert_same(found: &ColumnValues, expected: &ColumnValues, what: &str) {
    match (found.values(), expected.values()) {
        (Values::F64s(found), Values::F64s(expected)) => {
            assert!(
                found.iter().map(|value| value.to_bits()).eq(expected.iter().map(|value| value.to_bits()))
            );
        }
        (Values::F32s(found), Values::F32s(expected)) => {
            assert!(
                found.iter().map(|value| value.to_bits()).eq(expected.iter().map(|value| value.to_bits()))
            );
        }
        (found, expected) => assert_eq!(found, expected, "{what}"),
    }
}

fn is_wanted(selection: &Selection<'_>, header: &RowHeader) -> bool {
    (selection.from..=selection.last).contains(&header.time)
        && selection.symbols.is_none_or(|symbols| symbols.contains(&header.symbol))
        && selection.types.is_none_or(|types| types.contains(&header.type_id))
}
