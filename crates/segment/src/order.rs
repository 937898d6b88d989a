//! Lanes of a block, of one record type and symbol each, and the positions of their rows.

use crate::block::Block;
use crate::column::Scratch;
use crate::columns::{Columns, Decoded};
use crate::damage::Damage;
use crate::decoder::Selection;
use crate::head::{OWN, lanes, own};
use crate::level::Level;
use crate::members::find;
use crate::simd::widest;
use std::ops::Range;

/// The rows of one record type and symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lane {
    /// Index of the record type in the head.
    pub group: u16,
    pub type_id: u16,
    pub symbol: u32,
    /// First row in the order of lanes, and the first of the next lane.
    pub start: u32,
    pub end: u32,
}

/// Lanes of a block, and where the rows of the wanted ones are. Reading the next block's reuses the memory.
///
/// Always true: `lanes` has all lanes of the groups of `groups`, which ascend, in order. After [`Order::read_places`],
/// `places` has the rows of the wanted lanes, one lane after the other; no place is there twice, and each is below the
/// block's count.
#[derive(Debug, Default)]
pub(crate) struct Order {
    pub lanes: Vec<Lane>,
    /// Lanes that are wanted, as ranges of indices into `lanes`.
    pub wanted: Vec<Range<u32>>,
    pub places: Vec<u32>,
    /// Of each row the index of its lane, in the high half, and where among `places` it stands; [`NO_HOME`] where the
    /// lane is not wanted.
    pub homes: Vec<u32>,
    /// Rows of few lanes in order: the row in the high half, and where it stands among `places`.
    pub few: Vec<u32>,
    /// The block whose lanes these are, …
    serial: u64,
    /// … and the groups of it that may have wanted ones.
    pub groups: Vec<u16>,
    looked_for: Vec<u16>,
    level: Level,
    wide: Vec<i64>,
    narrow: Vec<u32>,
    next: Vec<u32>,
    /// The lane of each row.
    marks: Vec<u8>,
}

/// Of so few lanes the rows of each are searched for. Of more, each row is counted in its lane, which takes longer: the next one
/// waits for it.
const LANES_SEARCHED: usize = 4;

/// Not the home of a row: a block has fewer rows.
pub(crate) const NO_HOME: u32 = u32::MAX;

impl Order {
    /// Reads which lanes there are, as far as `selection` may want them, and wants those that it wants.
    pub fn select(
        &mut self,
        block: &Block,
        selection: &Selection<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), Damage> {
        let head = block.head();
        // The lane of each row is an index into all lanes.
        let is_by_row = head.chunk(OWN, own::LANE).is_some();
        self.looked_for.clear();
        let groups = 0..head.groups.len() as u16;
        self.looked_for.extend(groups.filter(|group| is_by_row || selection.wants_of(head, (*group).into())));
        if self.serial != block.serial || self.groups != self.looked_for {
            self.serial = 0;
            std::mem::swap(&mut self.groups, &mut self.looked_for);
            self.read_lanes(block, scratch)?;
            self.serial = block.serial;
        }
        match (selection.symbols, selection.types) {
            (None, None) => {
                self.wanted.clear();
                self.wanted.push(0..self.lanes.len() as u32);
            }
            (Some(symbols), None) if head.groups_of(head.groups[0].type_id).len() == head.groups.len() => {
                self.want_symbols(symbols);
            }
            _ => self.want(|lane| selection.wants(lane)),
        }
        Ok(())
    }

    fn read_lanes(&mut self, block: &Block, scratch: &mut Scratch) -> Result<(), Damage> {
        self.lanes.clear();
        // Those of the block before are no lanes of this one, also if it is damaged.
        self.wanted.clear();
        let (mut start, mut wanted) = (0, self.groups.iter().peekable());
        for (index, group) in (0..).zip(&block.head().groups) {
            if wanted.next_if_eq(&&index).is_some() {
                let columns = Columns { block, group: index };
                let first = self.lanes.len();
                read_lanes_of(columns, start, &mut self.level, (scratch, &mut self.wide), &mut self.lanes)?;
                check_lanes(block, index.into(), &self.lanes[first..])?;
            }
            start += group.count;
        }
        Ok(())
    }

    /// Wants only the lanes that `is_wanted`.
    pub fn want(&mut self, is_wanted: impl Fn(&Lane) -> bool) {
        self.wanted.clear();
        for (index, _) in self.lanes.iter().enumerate().filter(|(_, lane)| is_wanted(lane)) {
            let index = index as u32;
            match self.wanted.last_mut() {
                Some(last) if last.end == index => last.end += 1,
                _ => self.wanted.push(index..index + 1),
            }
        }
    }

    /// Wants only the lanes of these symbols, ascending, in a block of one record type.
    pub fn want_symbols(&mut self, symbols: &[u32]) {
        if symbols.len() > self.lanes.len() / 16 {
            return self.want(|lane| symbols.binary_search(&lane.symbol).is_ok());
        }
        self.wanted.clear();
        for symbol in symbols {
            if let Ok(index) = self.lanes.binary_search_by_key(symbol, |lane| lane.symbol) {
                let index = index as u32;
                match self.wanted.last_mut() {
                    Some(last) if last.end == index => last.end += 1,
                    // A symbol that is requested twice is returned once.
                    Some(last) if last.end > index => {}
                    _ => self.wanted.push(index..index + 1),
                }
            }
        }
    }

    /// Whether so few rows of a block of `count` are wanted that looking at all others costs more than sorting the wanted
    /// ones.
    pub fn wants_few(&self, count: u32) -> bool {
        self.wanted_rows() * 8 <= count
    }

    /// Number of rows of the wanted lanes.
    pub fn places_wanted(&self) -> usize {
        self.wanted_rows() as usize
    }

    fn wanted_rows(&self) -> u32 {
        self.wanted_lanes().map(|(_, lane)| lane.end - lane.start).sum()
    }

    /// [`Self::read_places`] where few lanes are wanted. Then `few` has the wanted rows in order, and `homes` the lane of
    /// each place: its index among the wanted ones, in the high half.
    pub fn read_few_places(&mut self, block: &Block, scratch: &mut Scratch) -> Result<(), Damage> {
        if is_by_row(block) || has_one_lane(block) {
            self.read_places(block, scratch)?;
        } else {
            self.read_positions(block, scratch)?;
        }
        self.few.clear();
        self.few.extend(self.places.iter().zip(0..).map(|(row, i)| (row.min(&0xffff)) << 16 | i));
        self.few.sort_unstable();
        let count = block.head().count;
        if let Some(last) = self.few.last().filter(|last| **last >> 16 >= count) {
            return Err(block.head_damage("row of a symbol", count.into(), (last >> 16).into()));
        }
        if let Some(twice) = self.few.windows(2).find(|pair| pair[0] >> 16 == pair[1] >> 16) {
            return Err(block.head_damage("rows of a row", 1, (twice[0] >> 16).into()));
        }
        let mut homes = std::mem::take(&mut self.homes);
        homes.clear();
        for (index, (_, lane)) in (0u32..).zip(self.wanted_lanes()) {
            homes.resize(homes.len() + (lane.end - lane.start) as usize, index << 16);
        }
        self.homes = homes;
        Ok(())
    }

    /// Whether every lane of the block, which has so many rows, is wanted.
    pub fn wants_all(&self, count: u32) -> bool {
        self.wanted_rows() == count
    }

    /// The wanted lanes.
    pub fn wanted_lanes(&self) -> impl Iterator<Item = (u32, &Lane)> {
        self.wanted.iter().flat_map(|range| range.clone().map(|index| (index, &self.lanes[index as usize])))
    }

    /// Reads where the rows of the wanted lanes are.
    pub fn read_places(&mut self, block: &Block, scratch: &mut Scratch) -> Result<(), Damage> {
        self.homes.clear();
        if has_one_lane(block) {
            self.places.clear();
            self.places.extend(0..block.head().count);
            self.homes.extend(0..block.head().count);
            return Ok(());
        }
        if is_by_row(block) {
            let columns = Columns { block, group: OWN };
            if self.search_lanes(columns, scratch)? {
                self.homes.resize(block.head().count as usize, NO_HOME);
                return self.mark_lanes(block);
            }
            return self.read_lane_of(columns, scratch);
        }
        self.read_positions(block, scratch)?;
        self.homes.resize(block.head().count as usize, NO_HOME);
        self.mark_lanes(block)
    }

    /// [`Self::read_places`] without `homes`. Each place is a row of the block, but in forged blocks one may be
    /// there twice.
    pub fn read_places_only(&mut self, block: &Block, scratch: &mut Scratch) -> Result<(), Damage> {
        if is_by_row(block) && self.search_lanes(Columns { block, group: OWN }, scratch)? {
            return Ok(());
        }
        if is_by_row(block) || has_one_lane(block) {
            self.read_places(block, scratch)?;
        } else {
            self.read_positions(block, scratch)?;
            let count = block.head().count;
            let last = self.last_place();
            if last.is_some_and(|last| last >= count) {
                return Err(block.head_damage("row of a symbol", count.into(), last.unwrap_or(0).into()));
            }
        }
        if self.wanted.is_empty() {
            self.places.clear();
        }
        Ok(())
    }

    fn last_place(&self) -> Option<u32> {
        let last = widest(
            #[inline(always)]
            || self.places.iter().fold(0, |last, place| if *place > last { *place } else { last }),
        );
        (!self.places.is_empty()).then_some(last)
    }

    /// Fills `out` with what `rows` has in each place. Rows of a lane ascend, so the rows are read in windows that
    /// the nearest cache holds: many lanes take from each line of it.
    pub fn pick<T: Copy>(&self, rows: &[T], out: &mut [T]) {
        if self.places.len() < self.lanes.len() * LANE_ROWS_MIN {
            return pick(rows, &self.places, out);
        }
        let (mut nexts, mut end) = (Vec::with_capacity(self.lanes.len()), 0);
        for (_, lane) in self.wanted_lanes() {
            let start = end;
            end += (lane.end - lane.start) as usize;
            nexts.push((start, end));
        }
        let windows = rows.as_chunks::<WINDOW>().0;
        for (window, rows) in (1..).map(|window| window * WINDOW as u32).zip(windows) {
            for (next, end) in &mut nexts {
                let places = &self.places[*next..*end];
                let here = places_before(places, window);
                pick_near(rows, &places[..here], &mut out[*next..*next + here]);
                *next += here;
            }
        }
        // After the last window, and where a forged block has rows that do not ascend.
        nexts.iter().for_each(|(next, end)| pick(rows, &self.places[*next..*end], &mut out[*next..*end]));
    }

    /// From the rows of each lane: those of the wanted ones.
    fn read_positions(&mut self, block: &Block, scratch: &mut Scratch) -> Result<(), Damage> {
        let (mut start, mut at) = (0, 0);
        self.places.clear();
        for group in &self.groups {
            let count = block.head().groups[usize::from(*group)].lanes as usize;
            let next = at + count;
            let mut level = std::mem::take(&mut self.level);
            let is_wanted = self.set_level(at..next, &mut level);
            self.level = level;
            at = next;
            if !is_wanted {
                continue;
            }
            let columns = Columns { block, group: *group };
            let read = (&self.level, &mut *scratch, &mut self.wide);
            let column = usize::from(lanes::POSITION);
            if start == 0 {
                columns.offsets(column, read.0, read.1, read.2, &mut self.places)?;
            } else {
                columns.offsets(column, read.0, read.1, read.2, &mut self.narrow)?;
                self.places.extend_from_slice(&self.narrow);
            }
            start = self.places.len();
        }
        Ok(())
    }

    /// The lanes of a group; none if it has no wanted ones.
    pub fn lanes_of(&self, group: u16) -> Range<usize> {
        let start = self.lanes.partition_point(|lane| lane.group < group);
        start..self.lanes.partition_point(|lane| lane.group <= group)
    }

    /// Makes `level` that of the rows of a group, which has these lanes, with the rows of the wanted ones wanted; `false`:
    /// none.
    pub fn set_level(&self, lanes: Range<usize>, level: &mut Level) -> bool {
        level.begin();
        if lanes.is_empty() {
            return false;
        }
        let base = self.lanes[lanes.start].start;
        level.ends.extend(self.lanes[lanes.clone()].iter().map(|lane| lane.end - base));
        level.count = level.ends.last().map_or(0, |end| *end as usize);
        let first = self.wanted.partition_point(|range| range.end as usize <= lanes.start);
        for range in self.wanted[first..].iter().take_while(|range| (range.start as usize) < lanes.end) {
            let range = lanes.start.max(range.start as usize)..lanes.end.min(range.end as usize);
            level.keep.push(self.lanes[range.start].start - base..self.lanes[range.end - 1].end - base);
        }
        level.all = level.keep.first().is_some_and(|range| range.len() == level.count);
        !level.keep.is_empty()
    }

    /// Works out the lane of each row. As many rows as there are places must get one: so no place is there twice, and none
    /// is after the last row.
    fn mark_lanes(&mut self, block: &Block) -> Result<(), Damage> {
        let mut start = 0;
        for range in &self.wanted {
            for index in range.clone() {
                let lane = &self.lanes[index as usize];
                let rows = &self.places[start..start + (lane.end - lane.start) as usize];
                let (eights, rest) = rows.as_chunks::<8>();
                let first = index << 16 | start as u32;
                for (eight, home) in eights.iter().zip((first..).step_by(8)) {
                    // Of known length, so that the same code is used for all eight.
                    eight.iter().zip(home..).for_each(|(row, home)| mark(&mut self.homes, *row, home));
                }
                let home = first + rows.len() as u32 - rest.len() as u32;
                rest.iter().zip(home..).for_each(|(row, home)| mark(&mut self.homes, *row, home));
                start += rows.len();
            }
        }
        let marked = self.homes.iter().fold(0, |count, home| count + u32::from(*home != NO_HOME)) as usize;
        if marked != self.places.len() {
            return Err(block.head_damage("rows of all symbols", self.places.len() as u64, marked as u64));
        }
        Ok(())
    }

    /// From the lane of each row, where all of few lanes are wanted: finds their rows, without `homes`. `false`: it is another
    /// block, or one that is damaged, which [`Self::read_lane_of`] reports.
    fn search_lanes(&mut self, columns: Columns<'_>, scratch: &mut Scratch) -> Result<bool, Damage> {
        let count = columns.block.head().count;
        if self.lanes.len() > LANES_SEARCHED || !self.wants_all(count) {
            return Ok(false);
        }
        let Self { lanes, level, wide, narrow, marks, places, .. } = self;
        level.one_run(count as usize);
        let (decoded, any) =
            columns.small(own::LANE.into(), level, scratch, wide, marks, |lane| lane as u8)?;
        if decoded != Decoded::Values || any > u64::from(u8::MAX) {
            return Ok(false);
        }
        places.clear();
        for (mark, lane) in (0..).zip(&*lanes) {
            find(marks, mark, narrow);
            if narrow.len() != (lane.end - lane.start) as usize {
                return Ok(false);
            }
            places.extend_from_slice(narrow);
        }
        // As many rows as there are have been found, so no other lane is among them.
        Ok(places.len() == count as usize)
    }

    /// From the lane of each row.
    fn read_lane_of(&mut self, columns: Columns<'_>, scratch: &mut Scratch) -> Result<(), Damage> {
        let count = columns.block.head().count;
        self.level.one_run(count as usize);
        columns.ints(own::LANE.into(), &self.level, scratch, &mut self.wide)?;
        self.places.clear();
        self.next.clear();
        self.next.resize(self.lanes.len(), NO_PLACE);
        let mut end = 0;
        for range in &self.wanted {
            for index in range.clone() {
                let lane = &self.lanes[index as usize];
                self.next[index as usize] = end;
                end += lane.end - lane.start;
            }
        }
        self.places.resize(end as usize, NO_PLACE);
        for (row, index) in self.wide.iter().enumerate() {
            let Some(next) = self.next.get_mut(*index as usize) else {
                let (need, have) = (self.lanes.len() as u64, *index as u64);
                return Err(columns.block.head_damage("symbol of a row", need, have));
            };
            if *next == NO_PLACE {
                self.homes.push(NO_HOME);
                continue;
            }
            self.homes.push((*index as u32) << 16 | *next);
            if let Some(place) = self.places.get_mut(*next as usize) {
                *place = row as u32;
            }
            *next += 1;
        }
        self.check_lane_of(columns)
    }

    /// Every wanted lane got as many rows as it has, which puts each row in its own place.
    fn check_lane_of(&self, columns: Columns<'_>) -> Result<(), Damage> {
        let mut end = 0;
        for (index, lane) in self.wanted_lanes() {
            end += lane.end - lane.start;
            let next = self.next[index as usize];
            if next != end {
                return Err(columns.block.head_damage("rows of a symbol", end.into(), next.into()));
            }
        }
        Ok(())
    }
}

#[inline(always)]
fn mark(homes: &mut [u32], row: u32, home: u32) {
    if let Some(place) = homes.get_mut(row as usize) {
        *place = home;
    }
}

/// Rows that lanes are merged from before the next ones.
const WINDOW: usize = 2_048;
/// Lanes of fewer rows than this on average are not merged.
const LANE_ROWS_MIN: usize = 128;

/// [`pick`] from one window, in which all `places` are, wherever it begins.
fn pick_near<T: Copy>(rows: &[T; WINDOW], places: &[u32], out: &mut [T]) {
    let (eights, rest) = out.as_chunks_mut::<8>();
    let (places, others) = places.as_chunks::<8>();
    for (out, places) in eights.iter_mut().zip(places) {
        *out = places.map(|place| rows[place as usize % WINDOW]);
    }
    for (out, place) in rest.iter_mut().zip(others) {
        *out = rows[*place as usize % WINDOW];
    }
}

fn pick<T: Copy>(rows: &[T], places: &[u32], out: &mut [T]) {
    for (out, place) in out.iter_mut().zip(places) {
        *out = rows[*place as usize];
    }
}

/// How many of some places, which ascend, are before a row: mostly few.
#[inline(always)]
fn places_before(places: &[u32], row: u32) -> usize {
    let (mut before, mut step) = (0, 8);
    while before + step <= places.len() && places[before + step - 1] < row {
        before += step;
        step *= 2;
    }
    let mut end = places.len().min(before + step);
    while before < end {
        let middle = before + (end - before) / 2;
        if places[middle] < row {
            before = middle + 1;
        } else {
            end = middle;
        }
    }
    before
}

/// Not the place of a row.
const NO_PLACE: u32 = u32::MAX;

fn is_by_row(block: &Block) -> bool {
    block.head().chunk(OWN, own::LANE).is_some()
}

fn has_one_lane(block: &Block) -> bool {
    matches!(block.head().groups[..], [group] if group.lanes == 1)
}

/// Appends the lanes of a group, whose rows begin at `start` in the order of lanes.
fn read_lanes_of(
    columns: Columns<'_>,
    mut start: u32,
    level: &mut Level,
    (scratch, wide): (&mut Scratch, &mut Vec<i64>),
    out: &mut Vec<Lane>,
) -> Result<(), Damage> {
    let (block, index) = (columns.block, columns.group);
    let group = &block.head().groups[usize::from(index)];
    let type_id = group.type_id;
    if group.lanes == 1 {
        let end = start + group.count;
        out.push(Lane { group: index, type_id, symbol: group.first_symbol, start, end });
        return Ok(());
    }
    level.one_run(group.lanes as usize);
    columns.ints(lanes::SYMBOL.into(), level, scratch, wide)?;
    let first = out.len();
    for symbol in wide.iter() {
        let symbol = u32::try_from(*symbol)
            .map_err(|_| block.head_damage("symbol", u32::MAX.into(), *symbol as u64))?;
        out.push(Lane { group: index, type_id, symbol, start: 0, end: 0 });
    }
    columns.ints(lanes::COUNT.into(), level, scratch, wide)?;
    let end = start + group.count;
    for (lane, count) in out[first..].iter_mut().zip(wide.iter()) {
        let most = u64::from(end - start);
        if !(1..=most).contains(&(*count as u64)) {
            return Err(block.head_damage("rows of a symbol", most, *count as u64));
        }
        lane.start = start;
        start += *count as u32;
        lane.end = start;
    }
    match start == end {
        true => Ok(()),
        false => Err(block.head_damage("rows of the symbols of a record type", end.into(), start.into())),
    }
}

/// The symbols of a group ascend from its first one, and end before those of the next group.
fn check_lanes(block: &Block, index: usize, lanes: &[Lane]) -> Result<(), Damage> {
    let symbols = block.head().symbols_of(index);
    let is_first = lanes.first().is_some_and(|lane| u64::from(lane.symbol) == symbols.start);
    let is_last = lanes.last().is_some_and(|lane| u64::from(lane.symbol) < symbols.end);
    match is_first && is_last && lanes.is_sorted_by(|a, b| a.symbol < b.symbol) {
        true => Ok(()),
        false => Err(block.head_damage("order of symbols", 1, 0)),
    }
}

#[cfg(test)]
mod tests {
    use super::places_before;

    #[test]
    fn places_are_counted() {
        let places: Vec<u32> = (0..100).map(|place| place * 3).collect();
        for count in 0..places.len() {
            for row in 0..310 {
                let expected = places[..count].partition_point(|place| *place < row);
                assert_eq!(places_before(&places[..count], row), expected);
            }
        }
    }
}
