//! Values of one column.

use crate::plan::ColumnKind;
use std::ops::Range;

/// The place of the values of a row with this [home](crate::Rows::homes).
#[inline(always)]
pub(crate) fn place_of(home: u32) -> usize {
    usize::from(home as u16)
}

/// Values of one column. A decoder gives them in the order of lanes: all rows of one symbol, then all of the next, each in
/// time order. [`Self::append_at`] puts them into another order.
#[derive(Debug, Default)]
pub struct ColumnValues {
    /// Numbers; the bits of floats too, where a decoder reads them.
    ints: Vec<i64>,
    /// What all of `ints` are, if that is known.
    same: Option<i64>,
    pub(crate) f64s: Vec<f64>,
    pub(crate) f32s: Vec<f32>,
    pub(crate) ends: Vec<u32>,
    pub(crate) content: Vec<u8>,
    pub(crate) kind: Option<ColumnKind>,
    pub(crate) runs: Vec<u32>,
}

/// Values of a column by their type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Values<'a> {
    /// Numbers; `u64` and `decimal64` by their bits; presence, counts and tags.
    Ints(&'a [i64]),
    /// `f64`.
    F64s(&'a [f64]),
    /// `f32`.
    F32s(&'a [f32]),
    /// Texts: where each ends in the bytes.
    Bytes(&'a [u32], &'a [u8]),
}

impl Values<'_> {
    /// How many values.
    pub fn len(&self) -> usize {
        match self {
            Self::Ints(values) => values.len(),
            Self::F64s(values) => values.len(),
            Self::F32s(values) => values.len(),
            Self::Bytes(ends, _) => ends.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl ColumnValues {
    /// An empty column to read into.
    pub fn new() -> Self {
        Self::default()
    }

    /// The values.
    pub fn values(&self) -> Values<'_> {
        match self.kind {
            Some(ColumnKind::F64) => Values::F64s(&self.f64s),
            Some(ColumnKind::F32) => Values::F32s(&self.f32s),
            Some(ColumnKind::Bytes | ColumnKind::Ascii(_)) => Values::Bytes(&self.ends, &self.content),
            _ => Values::Ints(&self.ints),
        }
    }

    /// Where the values of each symbol end, for symbols that have any.
    pub fn runs(&self) -> &[u32] {
        &self.runs
    }

    /// The number that all values are, if that is known without looking at them.
    pub fn same(&self) -> Option<i64> {
        self.same.filter(|_| matches!(self.values(), Values::Ints([_, ..])))
    }

    /// The numbers, to be changed.
    pub(crate) fn numbers(&mut self) -> &mut Vec<i64> {
        self.same = None;
        &mut self.ints
    }

    /// Replaces the numbers by so many times `value`. Where they were that before, only those that are added are written: a column
    /// that is constant in a block is mostly the same in the next one.
    pub(crate) fn set_same(&mut self, value: i64, count: usize) {
        if self.same != Some(value) {
            self.ints.clear();
        }
        self.ints.resize(count, value);
        self.same = Some(value);
    }

    /// Makes it so many numbers, to be overwritten.
    pub(crate) fn resize(&mut self, count: usize) {
        self.ints.resize(count, self.same.unwrap_or(0));
    }

    /// Appends the floats that the numbers are the bits of, if it is a column of floats.
    pub(crate) fn append_floats(&mut self) {
        match self.kind {
            Some(ColumnKind::F64) => {
                self.f64s.extend(self.ints.iter().map(|bits| f64::from_bits(*bits as u64)))
            }
            Some(ColumnKind::F32) => {
                self.f32s.extend(self.ints.iter().map(|bits| f32::from_bits(*bits as u32)))
            }
            _ => {}
        }
    }

    /// Appends so many times `value`.
    pub(crate) fn append_same(&mut self, value: i64, count: usize) {
        let are_same = self.ints.is_empty() || self.same == Some(value);
        self.same = are_same.then_some(value);
        self.ints.resize(self.ints.len() + count, value);
    }

    /// Bytes of memory that are held.
    pub fn memory(&self) -> usize {
        (self.ints.capacity() + self.f64s.capacity()) * 8
            + (self.f32s.capacity() + self.ends.capacity() + self.runs.capacity()) * 4
            + self.content.capacity()
    }

    /// Bytes of the values.
    pub fn bytes(&self) -> usize {
        match self.values() {
            Values::Ints(values) => values.len() * 8,
            Values::F64s(values) => values.len() * 8,
            Values::F32s(values) => values.len() * 4,
            Values::Bytes(ends, content) => ends.len() * 4 + content.len(),
        }
    }

    /// Removes all values; later ones are of this kind.
    pub fn begin(&mut self, kind: ColumnKind) {
        self.ints.clear();
        self.clear_but_ints();
        self.kind = Some(kind);
    }

    /// Forgets all values but `ints`, which are overwritten: clearing them would mean zeroing them first.
    pub(crate) fn clear_but_ints(&mut self) {
        self.f64s.clear();
        self.f32s.clear();
        self.ends.clear();
        self.content.clear();
        self.runs.clear();
    }

    /// Adds values of later symbols.
    pub(crate) fn append(&mut self, more: &Self) {
        let (values, bytes) = (self.runs.last().copied().unwrap_or(0), self.content.len() as u32);
        self.numbers().extend_from_slice(&more.ints);
        self.f64s.extend_from_slice(&more.f64s);
        self.f32s.extend_from_slice(&more.f32s);
        self.ends.extend(more.ends.iter().map(|end| bytes + end));
        self.content.extend_from_slice(&more.content);
        self.runs.extend(more.runs.iter().map(|end| values + end));
    }

    /// Appends the values at some places of another column, in the order of `places`.
    ///
    /// # Panics
    /// When a place has no value.
    pub fn append_at(&mut self, from: &Self, places: &[u32]) {
        match from.values() {
            Values::Ints(values) => pick(values, places, self.numbers()),
            Values::F64s(values) => pick(values, places, &mut self.f64s),
            Values::F32s(values) => pick(values, places, &mut self.f32s),
            Values::Bytes(ends, content) => {
                for place in places {
                    let place = *place as usize;
                    let start = if place == 0 { 0 } else { ends[place - 1] };
                    self.content.extend_from_slice(&content[start as usize..ends[place] as usize]);
                    self.ends.push(self.content.len() as u32);
                }
            }
        }
    }

    /// Appends the values of rows with these homes, whose places are their low halves, out of another column.
    ///
    /// # Panics
    /// When a place has no value.
    pub(crate) fn append_homes(&mut self, from: &Self, homes: &[u32]) {
        match from.values() {
            Values::Ints(values) => pick_homes(values, homes, self.numbers()),
            Values::F64s(values) => pick_homes(values, homes, &mut self.f64s),
            Values::F32s(values) => pick_homes(values, homes, &mut self.f32s),
            Values::Bytes(ends, content) => homes.iter().for_each(|home| {
                let place = place_of(*home);
                let start = if place == 0 { 0 } else { ends[place - 1] };
                self.push_text(&content[start as usize..ends[place] as usize]);
            }),
        }
    }

    /// Appends the values of a range of another column.
    ///
    /// # Panics
    /// When a place has no value.
    pub fn append_range(&mut self, from: &Self, range: Range<usize>) {
        match from.values() {
            Values::Ints(values) => self.numbers().extend_from_slice(&values[range]),
            Values::F64s(values) => self.f64s.extend_from_slice(&values[range]),
            Values::F32s(values) => self.f32s.extend_from_slice(&values[range]),
            Values::Bytes(ends, content) => {
                let start = if range.start == 0 { 0 } else { ends[range.start - 1] };
                let ends = &ends[range];
                let Some(end) = ends.last() else { return };
                let base = (self.content.len() as u32).wrapping_sub(start);
                self.content.extend_from_slice(&content[start as usize..*end as usize]);
                self.ends.extend(ends.iter().map(|end| base.wrapping_add(*end)));
            }
        }
    }

    /// Appends numbers.
    pub(crate) fn push_bits(&mut self, bits: impl Iterator<Item = i64>) {
        match self.kind {
            Some(ColumnKind::F64) => self.f64s.extend(bits.map(|bits| f64::from_bits(bits as u64))),
            Some(ColumnKind::F32) => self.f32s.extend(bits.map(|bits| f32::from_bits(bits as u32))),
            _ => self.numbers().extend(bits),
        }
    }

    /// Appends a text.
    pub(crate) fn push_text(&mut self, text: &[u8]) {
        self.content.extend_from_slice(text);
        self.ends.push(self.content.len() as u32);
    }
}

fn pick_homes<T: Copy>(values: &[T], homes: &[u32], out: &mut Vec<T>) {
    out.extend(homes.iter().map(|home| values[place_of(*home)]));
}

fn pick<T: Copy>(values: &[T], places: &[u32], out: &mut Vec<T>) {
    out.extend(places.iter().map(|place| values[*place as usize]));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(texts: &[&str]) -> ColumnValues {
        let mut values = ColumnValues::new();
        values.begin(ColumnKind::Bytes);
        texts.iter().for_each(|text| values.push_text(text.as_bytes()));
        values
    }

    #[test]
    fn values_are_appended_in_any_order() {
        let from = texts(&["", "ab", "c", "def"]);
        let mut out = texts(&["x"]);
        out.append_at(&from, &[3, 0, 1, 1]);
        out.append_range(&from, 1..3);
        out.append_range(&from, 0..0);
        let ends = [1, 4, 4, 6, 8, 10, 11];
        assert_eq!(out.values(), Values::Bytes(&ends, b"xdefabababc"));
        for kind in [ColumnKind::F64, ColumnKind::F32, ColumnKind::Count] {
            let (mut from, mut out) = (ColumnValues::new(), ColumnValues::new());
            from.begin(kind);
            out.begin(kind);
            from.push_bits([7, 8, 9].into_iter());
            out.append_at(&from, &[2, 0]);
            out.append_range(&from, 1..3);
            let mut expected = ColumnValues::new();
            expected.begin(kind);
            expected.push_bits([9, 7, 8, 9].into_iter());
            assert_eq!(out.values(), expected.values());
            assert_eq!(out.values().len(), 4);
        }
    }
}
