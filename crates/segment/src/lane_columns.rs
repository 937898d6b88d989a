//! Columns of a block in the order of lanes, from which rows are taken in another order.
//!
//! Numbers of one column are mostly near each other. So they are kept as one number of 64 bits and a distance of 32 bits for
//! each: half the bytes to write and to gather from, which the cache near by holds.

use crate::coefficients::{COEFFICIENT_BITS, DecimalForm, restore};
use crate::damage::Flaw;
use crate::encoding::{GROUP, OFFSET_BITS, Strip};
use crate::plan::ColumnKind;
use crate::simd::widest;
use crate::values::{ColumnValues, Values, place_of};
use std::ops::{Range, RangeInclusive};

/// Columns of a block, filled by [`Decoder::lane_columns`](crate::Decoder::lane_columns). Filling them again reuses the memory.
#[derive(Debug, Default)]
pub struct LaneColumns {
    pub(crate) columns: Vec<LaneColumn>,
}

impl LaneColumns {
    /// The columns, in the order in which they were asked for.
    pub fn columns(&self) -> &[LaneColumn] {
        &self.columns
    }

    /// Replaces the columns by these values, and gives memory for others back in their place.
    pub fn swap_values(&mut self, values: &mut [ColumnValues]) {
        self.columns.resize_with(values.len(), LaneColumn::default);
        for (column, values) in self.columns.iter_mut().zip(values) {
            (column.form, column.decimals) = (Form::Values, None);
            std::mem::swap(&mut column.values, values);
        }
    }

    /// Bytes of memory that are held.
    pub fn memory(&self) -> usize {
        self.columns.iter().map(LaneColumn::memory).sum()
    }
}

/// A column of a block.
#[derive(Debug, Default)]
pub struct LaneColumn {
    pub(crate) form: Form,
    pub(crate) near: Near,
    pub(crate) values: ColumnValues,
    /// The numbers are coefficients, from which decimals are restored when they are taken: they are so small that this is possible.
    pub(crate) decimals: Option<DecimalForm>,
    /// What is restored with them; as many as there are values, or none.
    shifts: Near,
}

/// Where the values of a column are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Form {
    /// In `values`.
    #[default]
    Values,
    /// So many times the same number.
    Constant { value: i64, count: usize },
    /// In `near`.
    Near,
    /// In `values` those of the only rows that are taken, of so many rows.
    Chosen { count: usize },
}

impl LaneColumn {
    fn memory(&self) -> usize {
        self.values.memory() + self.near.memory() + self.shifts.memory()
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        match self.form {
            Form::Values => self.values.values().len(),
            Form::Constant { count, .. } | Form::Chosen { count } => count,
            Form::Near => self.near.count,
        }
    }

    /// Whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values of a column that was asked for as slices.
    pub fn values(&self) -> Values<'_> {
        self.values.values()
    }

    /// Appends the values of rows that have these [homes](crate::Rows::homes).
    ///
    /// # Panics
    /// When a home has no value.
    pub fn append_homes(&self, homes: &[u32], out: &mut ColumnValues) {
        match self.form {
            Form::Values => out.append_homes(&self.values, homes),
            Form::Constant { value, .. } => out.append_same(value, homes.len()),
            Form::Near => self.append_near(out, |near, numbers| near.append_homes(homes, numbers)),
            Form::Chosen { .. } => self.append_chosen(homes.len(), out),
        }
    }

    /// Appends the values at some places, in the order of `places`.
    ///
    /// # Panics
    /// When a place has no value.
    pub fn append_at(&self, places: &[u32], out: &mut ColumnValues) {
        match self.form {
            Form::Values => out.append_at(&self.values, places),
            Form::Constant { value, .. } => out.append_same(value, places.len()),
            Form::Near => self.append_near(out, |near, numbers| {
                numbers.extend(places.iter().map(|place| near.value(*place as usize)));
            }),
            Form::Chosen { .. } => self.append_chosen(places.len(), out),
        }
    }

    /// Appends the values of a range.
    ///
    /// # Panics
    /// When a place has no value.
    pub fn append_range(&self, range: Range<usize>, out: &mut ColumnValues) {
        match self.form {
            Form::Values => out.append_range(&self.values, range),
            Form::Constant { value, .. } => out.append_same(value, range.len()),
            Form::Near => self.append_near(out, |near, numbers| near.append_range(range, numbers)),
            Form::Chosen { .. } => self.append_chosen(range.len(), out),
        }
    }

    /// Appends the chosen rows, which are so many.
    fn append_chosen(&self, count: usize, out: &mut ColumnValues) {
        out.append_range(&self.values, 0..count);
    }

    /// Makes it a column of this kind, whose `count` numbers are taken strip by strip.
    pub(crate) fn begin(&mut self, kind: ColumnKind, count: usize) {
        self.values.begin(kind);
        (self.form, self.decimals) = (Form::Near, None);
        self.near.begin(count);
        self.shifts.count = 0;
    }

    /// Takes the shifts of a strip, of `count` in all.
    pub(crate) fn take_shifts(&mut self, rows: Range<usize>, shifts: &Strip, count: usize) {
        if rows.start == 0 {
            self.shifts.begin(count);
        }
        self.shifts.take(rows.start, shifts, rows.len());
    }

    /// Restores the decimals of the rows that will be taken.
    fn restore_chosen(&mut self, form: DecimalForm, chosen: &[u32]) -> Result<(), Flaw> {
        let Self { near, shifts, values, .. } = self;
        let numbers = values.numbers();
        numbers.clear();
        near.append_homes(chosen, numbers);
        let mut of_rows = Vec::with_capacity(chosen.len());
        shifts.append_homes(chosen, &mut of_rows);
        self.form = Form::Chosen { count: near.count };
        let mut groups = numbers.chunks_mut(GROUP).zip(of_rows.chunks(GROUP));
        groups.try_for_each(|(numbers, shifts)| restore(form, numbers, shifts))
    }

    /// Appends numbers, restored.
    fn append_near(&self, out: &mut ColumnValues, append: impl FnOnce(&Near, &mut Vec<i64>)) {
        let numbers = out.numbers();
        let start = numbers.len();
        append(&self.near, numbers);
        if let Some(form) = self.decimals {
            let restored = restore_all(form, &mut numbers[start..]);
            debug_assert!(restored.is_ok(), "they are within bounds");
        }
    }

    /// Restores decimals now that may be none, or of which the chosen ones are taken.
    ///
    /// # Errors
    /// When one is none.
    pub(crate) fn restore_doubtful(&mut self, chosen: &[u32]) -> Result<(), Flaw> {
        let Some(form) = self.decimals.filter(|_| self.form == Form::Near) else { return Ok(()) };
        if self.shifts.count > 0 {
            return self.restore_chosen(form, chosen);
        }
        if EXPONENTS.contains(&form.exponent) && self.near.are_small() {
            return Ok(());
        }
        self.decimals = None;
        self.near.set_far(self.near.count);
        restore_all(form, &mut self.near.far)
    }
}

/// Numbers as distances from one of them, while that is possible.
///
/// Always true: `near` has as many cells as one of [`SIZES`], at least `count`, and then those of a strip; while `is_near`, number
/// `i` is `base` plus cell `i` as a signed number; otherwise it is `far[i]`.
#[derive(Debug, Default)]
pub(crate) struct Near {
    count: usize,
    base: i64,
    is_near: bool,
    near: Vec<u32>,
    far: Vec<i64>,
}

/// Coefficients near such a number are far below 2^53, …
const BASE_END: u64 = 1 << 52;

/// … and with such exponents, whatever zeros are taken off, they are decimals.
const EXPONENTS: RangeInclusive<i32> = -300..=300;

/// Replaces coefficients by the bits of decimals.
fn restore_all(form: DecimalForm, numbers: &mut [i64]) -> Result<(), Flaw> {
    let mut groups = numbers.chunks_mut(GROUP);
    groups.try_for_each(|numbers| restore(form, numbers, &[0; GROUP][..numbers.len()]))
}

/// Numbers of cells: a home is below one of them, so that its cell needs no check of its own.
const SIZES: [usize; 3] = [1 << 11, 1 << 14, 1 << 16];

/// Distances below this, of a strip from its column. A strip's offsets, which may be sums of two, are below 2^30: so cells are below
/// 2^31.
const DISTANCE_END: u64 = 1 << OFFSET_BITS;

impl Near {
    fn memory(&self) -> usize {
        self.near.capacity() * size_of::<u32>() + self.far.capacity() * size_of::<i64>()
    }

    fn begin(&mut self, count: usize) {
        let size = SIZES.into_iter().find(|size| *size >= count).unwrap_or(count);
        (self.count, self.is_near) = (count, true);
        // Cells are overwritten: clearing them would mean zeroing them first.
        self.near.resize(size + GROUP, 0);
    }

    /// Takes the strip that begins at a place, of which `count` values count. Places come one after the other.
    pub(crate) fn take(&mut self, place: usize, strip: &Strip, count: usize) {
        if place == 0 {
            self.base = strip.base;
        }
        let distance = strip.base.wrapping_sub(self.base);
        if self.is_near && strip.is_narrow && distance.unsigned_abs() < DISTANCE_END {
            let Some(cells) = self.near[place..].first_chunk_mut::<GROUP>() else { return };
            let distance = distance as u32;
            return widest(
                #[inline(always)]
                || {
                    for (cell, offset) in cells.iter_mut().zip(&strip.offsets) {
                        *cell = offset.wrapping_add(distance);
                    }
                },
            );
        }
        self.set_far(place);
        strip.write(&mut self.far[place..place + count]);
    }

    /// Whether all numbers are below 2^53.
    fn are_small(&self) -> bool {
        if self.is_near {
            return self.base.unsigned_abs() < BASE_END;
        }
        let all = widest(
            #[inline(always)]
            || self.far.iter().fold(0, |all, number| all | number.unsigned_abs()),
        );
        all >> COEFFICIENT_BITS == 0
    }

    /// Keeps the numbers, of which there are so many yet, in 64 bits.
    fn set_far(&mut self, count: usize) {
        if self.is_near {
            self.far.resize(self.count, 0);
            let (base, cells) = (self.base, &self.near[..count]);
            self.far.iter_mut().zip(cells).for_each(|(value, cell)| *value = sum(base, *cell));
            self.is_near = false;
        }
    }

    #[inline]
    fn value(&self, place: usize) -> i64 {
        match self.is_near {
            true => sum(self.base, self.near[..self.count][place]),
            false => self.far[place],
        }
    }

    fn append_homes(&self, homes: &[u32], out: &mut Vec<i64>) {
        if !self.is_near {
            return out.extend(homes.iter().map(|home| self.far[place_of(*home)]));
        }
        let near = &self.near[..];
        match near.len() - GROUP {
            0x800 => gather::<0x800>(near, self.base, homes, out),
            0x4000 => gather::<0x4000>(near, self.base, homes, out),
            0x1_0000 => gather::<0x1_0000>(near, self.base, homes, out),
            _ => out.extend(homes.iter().map(|home| self.value(place_of(*home)))),
        }
    }

    fn append_range(&self, range: Range<usize>, out: &mut Vec<i64>) {
        if !self.is_near {
            return out.extend_from_slice(&self.far[range]);
        }
        let (base, cells) = (self.base, &self.near[..self.count][range]);
        out.extend(cells.iter().map(|cell| sum(base, *cell)));
    }
}

#[inline(always)]
fn sum(base: i64, cell: u32) -> i64 {
    base.wrapping_add(i64::from(cell as i32))
}

/// Appends the numbers of `SIZE` cells that rows with these homes have.
fn gather<const SIZE: usize>(cells: &[u32], base: i64, homes: &[u32], out: &mut Vec<i64>) {
    let Some(cells) = cells.first_chunk::<SIZE>() else { return };
    let number = |home: u32| sum(base, cells[place_of(home) & (SIZE - 1)]);
    out.reserve(homes.len());
    let (eights, rest) = homes.as_chunks::<8>();
    for eight in eights {
        let [a, b, c, d, e, f, g, h] = *eight;
        // Of known length, so that eight are taken and written together.
        out.extend_from_slice(&[
            number(a),
            number(b),
            number(c),
            number(d),
            number(e),
            number(f),
            number(g),
            number(h),
        ]);
    }
    out.extend(rest.iter().map(|home| number(*home)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strip(base: i64, offsets: [i64; 3]) -> Strip {
        let mut strip = Strip { base, is_narrow: true, ..Strip::default() };
        strip.offsets.iter_mut().enumerate().for_each(|(i, offset)| *offset = offsets[i % 3] as u32);
        strip
    }

    /// Distances of strips from their column are 32 bits below 2^29, whatever offsets they have: sums of two, too.
    #[test]
    fn numbers_at_the_bound_of_their_distance_come_back() {
        const COUNT: usize = 2 * GROUP + 5;
        let most = (1i64 << OFFSET_BITS) - 1;
        let offsets = [2 * most, -2 * most, 0];
        for distance in [most - 1, most, most + 1, most + 2, 1 << 50] {
            for distance in [distance, -distance] {
                for base in [0, i64::MAX, i64::MIN] {
                    let strips = [base, base.wrapping_add(distance), base].map(|base| strip(base, offsets));
                    let mut near = Near::default();
                    near.begin(COUNT);
                    for (place, strip) in (0..COUNT).step_by(GROUP).zip(&strips) {
                        near.take(place, strip, GROUP.min(COUNT - place));
                    }
                    assert_eq!(near.is_near, distance.abs() <= most, "{distance}");
                    let expected: Vec<i64> = (0..COUNT).map(|i| strips[i / GROUP].value(i % GROUP)).collect();
                    let found: Vec<i64> = (0..COUNT).map(|place| near.value(place)).collect();
                    assert_eq!(found, expected, "{distance} from {base}");
                    let (homes, mut gathered) = ((0..COUNT as u32).collect::<Vec<_>>(), Vec::new());
                    near.append_homes(&homes, &mut gathered);
                    near.append_range(3..COUNT, &mut gathered);
                    assert_eq!(gathered[..COUNT], expected, "{distance} from {base}");
                    assert_eq!(gathered[COUNT..], expected[3..], "{distance} from {base}");
                }
            }
        }
    }
}
