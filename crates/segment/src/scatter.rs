//! Sends columns to rows: the inner loops of putting bodies together.
//!
//! Columns are taken strip by strip: 128 values of each are decoded, added to what they follow, and written into 128
//! bodies before the next ones are read. So nothing but the bodies leaves the nearest cache.

use crate::encoding::{GROUP, OFFSET_BITS, Strip};
use crate::simd::widest;
use crate::strip_source::{Follows, Varying};
use crate::words::{WordPlan, WordSlot, Words};

/// What is the same in all bodies.
pub(crate) struct Template {
    pub bytes: Vec<u8>,
    /// How many of the bytes lie before the place of a body.
    pub before: u32,
}

/// Columns being read strip by strip, each added to what it follows.
pub(crate) struct Walk<'c, 's, 'b> {
    pub columns: &'c mut [Varying<'b>],
    /// The present strip of each.
    pub strips: &'s mut [Strip],
    /// The leader's values one place before.
    shifted: &'s mut Strip,
    /// Last values of the strips before.
    befores: Vec<i64>,
    /// Where runs begin that have not been passed.
    starts: std::iter::Chain<std::option::IntoIter<u32>, std::iter::Copied<std::slice::Iter<'c, u32>>>,
    index: usize,
}

impl<'c, 's, 'b> Walk<'c, 's, 'b> {
    /// What a column follows is an index among `columns` that follows nothing; `ends` are those of the values' runs.
    pub fn new(columns: &'c mut [Varying<'b>], strips: &'s mut Vec<Strip>, ends: &'c [u32]) -> Self {
        strips.resize_with(strips.len().max(columns.len() + 1), Strip::default);
        let befores = vec![0; columns.len()];
        let (strips, rest) = strips.split_at_mut(columns.len());
        Self {
            columns,
            strips,
            shifted: &mut rest[0],
            befores,
            starts: Some(0).into_iter().chain(ends.iter().copied()),
            index: 0,
        }
    }

    /// Makes the strips the next ones.
    pub fn next(&mut self) {
        for ((column, strip), before) in self.columns.iter_mut().zip(&mut *self.strips).zip(&mut self.befores)
        {
            *before = strip.value(GROUP - 1);
            column.source.next(self.index, strip);
        }
        let here = self.index * GROUP..(self.index + 1) * GROUP;
        let starts = self.starts.clone().take_while(|start| here.contains(&(*start as usize)));
        let starts = starts.map(|start| start as usize - here.start);
        let mut leader = None;
        for (i, column) in self.columns.iter().enumerate() {
            let Some(Follows { other, previous }) = column.follows else { continue };
            let Ok([follower, other_strip]) = self.strips.get_disjoint_mut([i, other]) else { continue };
            if !previous {
                follower.add(other_strip);
                continue;
            }
            if leader != Some(other) {
                let before = if self.index == 0 { other_strip.value(0) } else { self.befores[other] };
                self.shifted.set_previous(other_strip, before);
                starts.clone().for_each(|start| self.shifted.set_from(other_strip, start));
                leader = Some(other);
            }
            follower.add(self.shifted);
        }
        let passed = starts.count();
        if passed > 0 {
            self.starts.nth(passed - 1);
        }
        self.index += 1;
    }
}

/// Memory for [`scatter`].
#[derive(Debug, Default)]
pub(crate) struct ScatterMemory {
    strips: Vec<Strip>,
    words: Vec<Words>,
}

/// Writes the template and every column's value into the body at each place. What a column follows is an index among `columns`
/// that follows nothing; `ends` are those of the values' runs. The template has zeros where columns have values.
pub(crate) fn scatter(
    columns: &mut [Varying],
    template: &Template,
    memory: &mut ScatterMemory,
    ends: &[u32],
    places: &[u32],
    out: &mut [u8],
) {
    let slot = |column: &Varying| WordSlot {
        offset: (template.before + column.offset) as usize,
        width: column.width as usize,
    };
    let slots: Vec<WordSlot> = columns.iter().map(slot).collect();
    let plan = WordPlan::new(&template.bytes, &slots);
    let ScatterMemory { strips, words } = memory;
    if let Some(plan) = &plan {
        words.resize(words.len().max(plan.len()), [0; GROUP]);
        plan.fill(words);
    }
    let mut walk = Walk::new(columns, strips, ends);
    for places in places.chunks(GROUP) {
        walk.next();
        match &plan {
            Some(plan) => {
                plan.compose(walk.strips, words);
                plan.write(words, template.before, places, out);
            }
            None => write_short(walk.columns, walk.strips, template, places, out),
        }
    }
}

/// [`scatter`] of bodies shorter than a word.
fn write_short(
    columns: &[Varying],
    strips: &mut [Strip],
    template: &Template,
    places: &[u32],
    out: &mut [u8],
) {
    let Template { bytes, before } = template;
    for place in places {
        out[(*place - before) as usize..][..bytes.len()].copy_from_slice(bytes);
    }
    for (column, strip) in columns.iter().zip(strips) {
        strip.widen();
        one(column.offset, column.width, &strip.wide[..places.len()], places, out);
    }
}

/// Values of a whole column, as offsets from one of them while that is possible.
#[derive(Debug)]
struct Cells {
    base: i64,
    is_narrow: bool,
    /// Begins at `pad`.
    narrow: Vec<u32>,
    pad: usize,
    wide: Vec<i64>,
}

/// A block has fewer rows: so any `u16` is the index of a cell.
const CELLS: usize = 1 << 16;

/// Cells in front of a column's first one, times its number. Bodies take the same cell of each column; were those a
/// multiple of 4,096 bytes apart, they would drive each other out of the nearest cache.
const PAD: usize = 13 * 16;
/// So many columns begin at different places of a page, at the most.
const PADS: usize = 5;

impl Cells {
    fn new(number: usize) -> Self {
        let pad = number % PADS * PAD;
        Self { base: 0, is_narrow: true, narrow: vec![0; CELLS + pad], pad, wide: Vec::new() }
    }

    #[inline]
    fn narrow(&self) -> &[u32; CELLS] {
        self.narrow[self.pad..].first_chunk().expect("there is a cell for any index")
    }

    #[inline]
    fn narrow_mut(&mut self) -> &mut [u32] {
        &mut self.narrow[self.pad..]
    }
}

/// Distances below this, of a strip from its column: so much space is left in a cell. A strip's offsets are below 2^29: so
/// cells are below 2^30, and those of a column that follows another one (offset, distance, and the leader's cell) below 2^31.
const DISTANCE_END: u64 = 1 << OFFSET_BITS;

impl Cells {
    #[inline]
    fn value(&self, i: usize) -> i64 {
        match self.is_narrow {
            true => self.base.wrapping_add(i64::from(self.narrow[self.pad + i] as i32)),
            false => self.wide[i],
        }
    }

    /// Takes strip `index`.
    fn take(&mut self, index: usize, strip: &Strip) {
        if index == 0 {
            self.begin(strip.base);
        }
        let distance = strip.base.wrapping_sub(self.base);
        let is_narrow = self.is_narrow;
        let Some(narrow) = self.narrow_mut().as_chunks_mut::<GROUP>().0.get_mut(index) else { return };
        if is_narrow && strip.is_narrow && distance.unsigned_abs() < DISTANCE_END {
            let distance = distance as u32;
            return widest(
                #[inline(always)]
                || {
                    for (cell, offset) in narrow.iter_mut().zip(&strip.offsets) {
                        *cell = offset.wrapping_add(distance);
                    }
                },
            );
        }
        self.widen(index * GROUP);
        self.wide.extend((0..GROUP).map(|i| strip.value(i)));
    }

    /// Takes strip `index` and adds the values of `leader` to it: those in the same places, or one place before. The
    /// value before the first is the first.
    fn take_sum(&mut self, index: usize, strip: &Strip, leader: &Self, previous: bool) {
        if index == 0 {
            self.begin(strip.base.wrapping_add(leader.base));
        }
        let start = index * GROUP;
        let distance = strip.base.wrapping_add(leader.base).wrapping_sub(self.base);
        let is_narrow = self.is_narrow;
        let Some(narrow) = self.narrow_mut().as_chunks_mut::<GROUP>().0.get_mut(index) else { return };
        let is_narrow = is_narrow && leader.is_narrow && strip.is_narrow;
        // Cells of a leader take a bit more than offsets: a sum of the three fits.
        if is_narrow && distance.unsigned_abs() < DISTANCE_END {
            let (distance, from) = (distance as u32, start - usize::from(previous && index > 0));
            let Some(others) = leader.narrow()[from..].first_chunk::<GROUP>() else { return };
            widest(
                #[inline(always)]
                || {
                    for ((cell, offset), other) in narrow.iter_mut().zip(&strip.offsets).zip(others) {
                        *cell = offset.wrapping_add(distance).wrapping_add(*other);
                    }
                },
            );
            if previous && index == 0 {
                narrow.copy_from_slice(&strip.offsets);
                narrow[0] = narrow[0].wrapping_add(distance).wrapping_add(others[0]);
                for (cell, other) in narrow[1..].iter_mut().zip(others) {
                    *cell = cell.wrapping_add(distance).wrapping_add(*other);
                }
            }
            return;
        }
        self.widen(start);
        let other = |i: usize| leader.value((start + i).saturating_sub(previous.into()));
        self.wide.extend((0..GROUP).map(|i| strip.value(i).wrapping_add(other(i))));
    }

    /// Adds to a value where a run begins what its leader has there more than one place before.
    fn restart(&mut self, start: usize, leader: &Self) {
        let step = leader.value(start).wrapping_sub(leader.value(start - 1));
        match self.is_narrow {
            true => {
                let cell = &mut self.narrow_mut()[start];
                *cell = cell.wrapping_add(step as u32);
            }
            false => self.wide[start] = self.wide[start].wrapping_add(step),
        }
    }

    fn begin(&mut self, base: i64) {
        (self.base, self.is_narrow) = (base, true);
        self.wide.clear();
    }

    /// Makes the first `count` values wide, unless they are.
    fn widen(&mut self, count: usize) {
        if self.is_narrow {
            let (base, cells) = (self.base, &self.narrow[self.pad..][..count]);
            self.wide.clear();
            self.wide.extend(cells.iter().map(|cell| base.wrapping_add(i64::from(*cell as i32))));
            self.is_narrow = false;
        }
    }
}

/// The narrow values of four neighbouring columns, those of one place side by side: a body takes them with one copy.
type Quads = Vec<[u32; 4]>;

/// Memory for [`gather`].
#[derive(Debug, Default)]
pub(crate) struct Cellar {
    cells: Vec<Cells>,
    quads: Vec<Quads>,
    strip: Strip,
}

impl Cellar {
    /// Reads all `count` values of columns, those that others follow first. Of `fours`, which are indices of the first of
    /// four columns each, it makes quads.
    fn fill(&mut self, columns: &mut [Varying], fours: &[usize], ends: &[u32], count: usize) {
        (self.cells.len()..columns.len()).for_each(|number| self.cells.push(Cells::new(number)));
        (self.quads.len()..fours.len()).for_each(|_| self.quads.push(vec![[0; 4]; CELLS]));
        let Self { cells, quads, strip } = self;
        let mut starts = ends.iter().map(|end| *end as usize).filter(|start| *start < count).peekable();
        for index in 0..count.div_ceil(GROUP) {
            for (column, cells) in columns.iter_mut().zip(&mut *cells).filter(|(c, _)| c.follows.is_none()) {
                column.source.next(index, strip);
                cells.take(index, strip);
            }
            for (i, column) in columns.iter_mut().enumerate() {
                let Some(Follows { other, previous }) = column.follows else { continue };
                let Ok([cells, leader]) = cells.get_disjoint_mut([i, other]) else { continue };
                column.source.next(index, strip);
                cells.take_sum(index, strip, leader, previous);
            }
            while let Some(start) = starts.next_if(|start| *start < (index + 1) * GROUP) {
                restart(columns, cells, start);
            }
            for (first, quads) in fours.iter().zip(&mut *quads) {
                if let Some(four) = cells[*first..].first_chunk() {
                    interleave(four, index, quads);
                }
            }
        }
    }
}

/// Begins a run in all columns that follow another one's previous value.
fn restart(columns: &[Varying], cells: &mut [Cells], start: usize) {
    for (i, column) in columns.iter().enumerate() {
        let Some(Follows { other, previous: true }) = column.follows else { continue };
        if let Ok([cells, leader]) = cells.get_disjoint_mut([i, other]) {
            cells.restart(start, leader);
        }
    }
}

/// Makes strip `index` of quads. Where a column is not narrow they mean nothing.
fn interleave(cells: &[Cells; 4], index: usize, quads: &mut Quads) {
    let strips = cells.each_ref().map(|cells| cells.narrow().as_chunks::<GROUP>().0.get(index));
    let [Some(a), Some(b), Some(c), Some(d)] = strips else { return };
    let Some(quads) = quads.as_chunks_mut::<GROUP>().0.get_mut(index) else { return };
    widest(
        #[inline(always)]
        move || {
            for (i, quad) in quads.iter_mut().enumerate() {
                *quad = [a[i], b[i], c[i], d[i]];
            }
        },
    );
}

/// Where bodies side by side go.
pub(crate) enum Bodies<'b> {
    /// All of them, one after the other.
    All(&'b mut [u8]),
    /// Some at a time into memory that stays in the nearest cache, where they are compared with all bodies as they have to be.
    Compared { expected: &'b [u8], memory: &'b mut Vec<u8>, are_equal: &'b mut bool },
}

/// Bytes of bodies that are compared at once.
const COMPARED: usize = 1 << 14;

/// [`scatter`] for bodies of `stride` bytes side by side: the value of body `i` is at the low half of
/// `homes[i]`. Writing one body after the other is faster than sending values to distant ones, as long as all columns fit a
/// cache near by. The template is written first, unless it is of zeros and `None`.
pub(crate) fn gather(
    columns: &mut [Varying],
    cellar: &mut Cellar,
    ends: &[u32],
    (homes, template): (&[u32], &[u8]),
    out: Bodies<'_>,
) {
    let stride = template.len();
    if stride == 0 {
        return;
    }
    let sections = sections(columns);
    let fours: Vec<usize> = sections.iter().flat_map(|section| fours(columns, section)).collect();
    cellar.fill(columns, &fours, ends, homes.len());
    for section in &sections {
        let cells = &mut cellar.cells[section.clone()];
        if columns[section.start].width != 8 || !cells.iter().all(|cells| cells.is_narrow) {
            cells.iter_mut().for_each(|cells| cells.widen(homes.len()));
        }
    }
    match out {
        Bodies::All(out) => put(columns, &sections, cellar, (homes, template), out),
        Bodies::Compared { expected, memory, are_equal } => {
            let rows = (COMPARED / stride).max(1);
            memory.resize(rows * stride, 0);
            *are_equal = expected.len() == homes.len() * stride;
            for (homes, expected) in homes.chunks(rows).zip(expected.chunks(rows * stride)) {
                let out = &mut memory[..homes.len() * stride];
                put(columns, &sections, cellar, (homes, template), out);
                *are_equal &= out == expected;
            }
        }
    }
}

/// Writes bodies whose columns are in the cells.
fn put(
    columns: &[Varying],
    sections: &[std::ops::Range<usize>],
    cellar: &Cellar,
    (homes, template): (&[u32], &[u8]),
    out: &mut [u8],
) {
    let stride = template.len();
    let slots: u32 = columns.iter().map(|column| column.width).sum();
    if slots as usize != stride {
        out.chunks_exact_mut(stride).for_each(|body| body.copy_from_slice(template));
    }
    let mut quads = &cellar.quads[..];
    for section in sections {
        let Varying { offset, width, .. } = columns[section.start];
        let (of_section, rest) = quads.split_at(fours(columns, section).count());
        quads = rest;
        let cells = &cellar.cells[section.clone()];
        let at = (offset as usize, stride);
        if width != 8 || !cells.iter().all(|cells| cells.is_narrow) {
            for (k, cells) in cells.iter().enumerate() {
                gather_one(&cells.wide, (at.0 + 8 * k, stride), width as usize, homes, out);
            }
            continue;
        }
        match cells.len() {
            1 => gather_narrow::<1, 0, 1>(cells, of_section, at, homes, out),
            2 => gather_narrow::<2, 0, 2>(cells, of_section, at, homes, out),
            3 => gather_narrow::<3, 0, 3>(cells, of_section, at, homes, out),
            4 => gather_narrow::<4, 1, 0>(cells, of_section, at, homes, out),
            5 => gather_narrow::<5, 1, 1>(cells, of_section, at, homes, out),
            6 => gather_narrow::<6, 1, 2>(cells, of_section, at, homes, out),
            7 => gather_narrow::<7, 1, 3>(cells, of_section, at, homes, out),
            _ => gather_narrow::<8, 2, 0>(cells, of_section, at, homes, out),
        }
    }
}

/// The first of each four columns of a section that are gathered together.
fn fours(columns: &[Varying], section: &std::ops::Range<usize>) -> impl Iterator<Item = usize> + use<> {
    let fours = if columns[section.start].width == 8 { section.len() / 4 } else { 0 };
    let start = section.start;
    (0..fours).map(move |four| start + 4 * four)
}

/// Writes `N` fields side by side into bodies: four times `Q` from quads, and the other `R` each from its cells.
fn gather_narrow<const N: usize, const Q: usize, const R: usize>(
    cells: &[Cells],
    quads: &[Quads],
    (offset, stride): (usize, usize),
    homes: &[u32],
    out: &mut [u8],
) {
    let Some(quads) = quads.first_chunk::<Q>() else { return };
    let quads: [&[[u32; 4]; CELLS]; Q] =
        quads.each_ref().map(|quads| quads.first_chunk().expect("there is a quad for any index"));
    let (Some(cells), Some(others)) = (cells.first_chunk::<N>(), cells.last_chunk::<R>()) else { return };
    let bases: [i64; N] = std::array::from_fn(|k| cells[k].base);
    let values: [&[u32; CELLS]; R] = others.each_ref().map(|cells| cells.narrow());
    let fields = Fields { bases, quads, values };
    if (offset, stride) == (0, 8 * N) {
        // The whole body: constant lengths.
        let bodies = out.as_chunks_mut::<8>().0.as_chunks_mut::<N>().0;
        return widest(
            #[inline(always)]
            move || bodies.iter_mut().zip(homes).for_each(|(body, home)| fields.put(*home, body)),
        );
    }
    widest(
        #[inline(always)]
        move || {
            for (body, home) in out.chunks_exact_mut(stride).zip(homes) {
                if let Some(slots) = body[offset..].as_chunks_mut::<8>().0.first_chunk_mut() {
                    fields.put(*home, slots);
                }
            }
        },
    );
}

/// `N` fields side by side: four times `Q` in quads, and `R` others.
#[derive(Clone, Copy)]
struct Fields<'a, const N: usize, const Q: usize, const R: usize> {
    bases: [i64; N],
    quads: [&'a [[u32; 4]; CELLS]; Q],
    values: [&'a [u32; CELLS]; R],
}

impl<const N: usize, const Q: usize, const R: usize> Fields<'_, N, Q, R> {
    #[inline(always)]
    fn put(&self, home: u32, slots: &mut [[u8; 8]; N]) {
        let place = usize::from(home as u16);
        let value =
            |k: usize, offset: u32| self.bases[k].wrapping_add(i64::from(offset as i32)).to_le_bytes();
        for q in 0..Q {
            let quad = self.quads[q][place];
            (0..4).for_each(|k| slots[4 * q + k] = value(4 * q + k, quad[k]));
        }
        for k in 0..R {
            slots[4 * Q + k] = value(4 * Q + k, self.values[k][place]);
        }
    }
}

fn gather_one(values: &[i64], (offset, stride): (usize, usize), width: usize, homes: &[u32], out: &mut [u8]) {
    for (body, home) in out.chunks_exact_mut(stride).zip(homes) {
        let value = values[usize::from(*home as u16)];
        body[offset..][..width].copy_from_slice(&value.to_le_bytes()[..width]);
    }
}

/// Eight-byte fields side by side, as far as there are loops for them; other fields are sections of their own.
fn sections(columns: &[Varying]) -> Vec<std::ops::Range<usize>> {
    let (mut sections, mut start) = (Vec::new(), 0);
    while start < columns.len() {
        let end = start + neighbours(&columns[start..]).clamp(1, WIDEST);
        sections.push(start..end);
        start = end;
    }
    sections
}

/// The most eight-byte fields that are written at once.
const WIDEST: usize = 8;

/// How many eight-byte columns at the front lie side by side.
fn neighbours(columns: &[Varying]) -> usize {
    let is_next = |(i, column): (usize, &Varying)| {
        column.width == 8 && column.offset == columns[0].offset + 8 * i as u32
    };
    columns.iter().enumerate().take_while(|pair| is_next(*pair)).count()
}

/// Writes the values of one field, each to its place.
pub(crate) fn scatter_one(values: &[i64], width: u32, places: &[u32], out: &mut [u8]) {
    one(0, width, values, places, out);
}

fn one(offset: u32, width: u32, values: &[i64], places: &[u32], out: &mut [u8]) {
    match width {
        1 => {
            for (place, value) in places.iter().zip(values) {
                out[(place + offset) as usize] = *value as u8;
            }
        }
        2 => bytes::<2>(offset, values, places, out),
        3 => bytes::<3>(offset, values, places, out),
        4 => bytes::<4>(offset, values, places, out),
        5 => bytes::<5>(offset, values, places, out),
        6 => bytes::<6>(offset, values, places, out),
        7 => bytes::<7>(offset, values, places, out),
        _ => bytes::<8>(offset, values, places, out),
    }
}

fn bytes<const N: usize>(offset: u32, values: &[i64], places: &[u32], out: &mut [u8]) {
    for (place, value) in places.iter().zip(values) {
        let slot = &mut out[(place + offset) as usize..][..N];
        slot.copy_from_slice(&value.to_le_bytes()[..N]);
    }
}

/// Writes a number.
#[inline]
pub(crate) fn write_u32(out: &mut [u8], at: u32, number: u32) {
    out[at as usize..][..4].copy_from_slice(&number.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::{Strips, Tier, encode_ints};
    use crate::strip_source::StripSource;

    #[test]
    fn templates_of_any_length_are_stamped_whole() {
        for length in 0..100 {
            let template: Vec<u8> = (1..=length).collect();
            let mut out = vec![0; 3 * template.len() + 2];
            let template = Template { bytes: template, before: u32::from(length > 5) };
            let length = template.bytes.len();
            let places = [0, length as u32 + 1].map(|start| start + template.before);
            scatter(&mut [], &template, &mut ScatterMemory::default(), &[], &places, &mut out);
            assert_eq!(out[..length], template.bytes);
            assert_eq!(out[length + 1..2 * length + 1], template.bytes);
            assert!(out[2 * length + 1..].iter().all(|byte| *byte == 0));
        }
    }

    /// Backwards, so that no body is where it was.
    fn places(count: usize, stride: u32) -> Vec<u32> {
        (0..count as u32).rev().map(|i| i * stride).collect()
    }

    #[test]
    fn fields_of_every_width_reach_their_slots() {
        let widths = [8, 8, 8, 8, 8, 8, 8, 8, 8, 1, 2, 3, 4, 5, 6, 7, 8];
        let values = |k: usize, width: u32| -> Vec<i64> {
            (0..300).map(|i| (k as i64 + 1) << (i % width * 8)).collect()
        };
        let (mut columns, mut offset) = (Vec::new(), 0);
        for (k, width) in widths.into_iter().enumerate() {
            let source = StripSource::Values(values(k, width));
            columns.push(Varying { column: k, offset, width, source, follows: None });
            offset += width;
        }
        let places = places(300, offset);
        let mut out = vec![0; 300 * offset as usize];
        let template = Template { bytes: vec![0; offset as usize], before: 0 };
        scatter(&mut columns, &template, &mut ScatterMemory::default(), &[300], &places, &mut out);
        for (k, column) in columns.iter().enumerate() {
            let values = values(k, column.width);
            for (value, place) in values.iter().zip(&places) {
                let slot = &out[(place + column.offset) as usize..][..column.width as usize];
                assert_eq!(slot, &value.to_le_bytes()[..slot.len()]);
            }
        }
    }

    #[test]
    fn what_follows_is_added_within_its_runs() {
        let ends = [5, 130, 300, 301, 700];
        for jump in [100, 1 << 40] {
            let leader: Vec<i64> =
                (0..700).map(|i| i / 7 + ends.partition_point(|end| *end <= i) as i64 * jump).collect();
            let steps: Vec<i64> = (0..700).map(|i| i64::from(i % 5) - 2).collect();
            let mut encoded = [Vec::new(), Vec::new()];
            encode_ints(&leader, &ends.map(|end| end as u32), Tier::Hot, &mut encoded[0]);
            encode_ints(&steps, &ends.map(|end| end as u32), Tier::Hot, &mut encoded[1]);
            let ends = ends.map(|end| end as u32);
            let strips = |bytes| {
                StripSource::Strips(Box::new(Strips::open(bytes, 700, &ends).unwrap().expect("it is packed")))
            };
            let column = |column, source, follows| Varying {
                column,
                offset: 8 * column as u32,
                width: 8,
                source,
                follows,
            };
            let mut columns = [
                column(0, strips(&encoded[1]), Some(Follows { other: 2, previous: true })),
                column(1, strips(&encoded[1]), Some(Follows { other: 2, previous: false })),
                column(2, strips(&encoded[0]), None),
            ];
            let (places, mut out) = (places(700, 24), vec![0; 700 * 24]);
            let template = Template { bytes: vec![0; 24], before: 0 };
            scatter(&mut columns, &template, &mut ScatterMemory::default(), &ends, &places, &mut out);
            for (i, place) in places.iter().enumerate() {
                let is_first = i == 0 || ends.contains(&(i as u32));
                let before = leader[if is_first { i } else { i - 1 }];
                let body =
                    [before + steps[i], leader[i] + steps[i], leader[i]].map(i64::to_le_bytes).concat();
                assert_eq!(out[*place as usize..][..24], body, "row {i}");
            }
        }
    }

    fn strip(base: i64, offsets: [i64; 3]) -> Strip {
        let mut strip = Strip { base, is_narrow: true, ..Strip::default() };
        strip.offsets.iter_mut().enumerate().for_each(|(i, offset)| *offset = offsets[i % 3] as u32);
        strip
    }

    /// Distances of strips from their column are narrow below 2^29, whatever offsets they have, and leaders too.
    #[test]
    fn cells_at_their_bound_come_back() {
        let most = (1i64 << OFFSET_BITS) - 1;
        let offsets = [most, -most, 0];
        for distance in [most - 1, most, most + 1, most + 2, 1 << 50] {
            for distance in [distance, -distance] {
                for base in [0, i64::MAX, i64::MIN] {
                    let strips = [strip(base, offsets), strip(base.wrapping_add(distance), offsets)];
                    let mut leader = Cells::new(0);
                    strips.iter().enumerate().for_each(|(i, strip)| leader.take(i, strip));
                    let value = |i: usize| strips[i / GROUP].value(i % GROUP);
                    assert_eq!(leader.is_narrow, distance.abs() <= most, "{distance}");
                    assert!((0..2 * GROUP).all(|i| leader.value(i) == value(i)), "{distance} from {base}");
                    for previous in [false, true] {
                        let own = [strip(5, offsets), strip(5, offsets)];
                        let mut cells = Cells::new(1);
                        own.iter().enumerate().for_each(|(i, own)| cells.take_sum(i, own, &leader, previous));
                        let place = |i: usize| i.saturating_sub(previous.into());
                        let expected = |i: usize| own[0].value(i % GROUP).wrapping_add(value(place(i)));
                        assert!(
                            (0..2 * GROUP).all(|i| cells.value(i) == expected(i)),
                            "{distance} {base} {previous}"
                        );
                        if previous {
                            cells.restart(GROUP, &leader);
                            assert_eq!(
                                cells.value(GROUP),
                                own[0].value(0).wrapping_add(value(GROUP)),
                                "{distance}"
                            );
                        }
                    }
                }
            }
        }
    }
}
