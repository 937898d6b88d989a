//! Which row of a block is whose: lanes of one record type and symbol each, and the places of their rows.

use crate::block::Block;
use crate::column::Scratch;
use crate::columns::Columns;
use crate::error::Damage;
use crate::head::{OWN, own};
use crate::level::Level;
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

/// Lanes of a block, and where the rows of the wanted ones are. Reading the next block's keeps the memory.
///
/// Always true after [`Order::read_places`]: `places` has the rows of the wanted lanes, one lane after the other; no
/// place is there twice, and each is below the block's count.
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
    /// The block whose lanes these are.
    serial: u64,
    level: Level,
    wide: Vec<i64>,
    next: Vec<u32>,
}

/// Not the home of a row: a block has fewer rows.
pub(crate) const NO_HOME: u32 = u32::MAX;

impl Order {
    /// Reads which lanes there are. All are wanted.
    pub fn read_lanes(&mut self, block: &Block, scratch: &mut Scratch) -> Result<(), Damage> {
        if self.serial != block.serial {
            self.serial = 0;
            self.read_new_lanes(block, scratch)?;
            self.serial = block.serial;
        }
        self.wanted.clear();
        self.wanted.push(0..self.lanes.len() as u32);
        Ok(())
    }

    fn read_new_lanes(&mut self, block: &Block, scratch: &mut Scratch) -> Result<(), Damage> {
        let (columns, head) = (Columns { block, group: OWN }, block.head());
        self.lanes.clear();
        self.level.begin();
        for group in &head.groups {
            self.level.count += group.lanes as usize;
            self.level.close_run(self.level.count);
        }
        columns.ints(own::LANE_SYMBOL.into(), &self.level, scratch, &mut self.wide)?;
        let mut symbols = self.wide.iter();
        for (index, group) in head.groups.iter().enumerate() {
            for symbol in symbols.by_ref().take(group.lanes as usize) {
                let symbol = u32::try_from(*symbol)
                    .map_err(|_| block.head_damage("symbol", u32::MAX.into(), *symbol as u64))?;
                let (group, type_id) = (index as u16, group.type_id);
                self.lanes.push(Lane { group, type_id, symbol, start: 0, end: 0 });
            }
        }
        self.level.one_run(self.lanes.len());
        columns.ints(own::LANE_COUNT.into(), &self.level, scratch, &mut self.wide)?;
        self.place_lanes(block)
    }

    fn place_lanes(&mut self, block: &Block) -> Result<(), Damage> {
        let mut end = 0u64;
        for (lane, count) in self.lanes.iter_mut().zip(&self.wide) {
            let most = u64::from(block.head().count) - end;
            if !(1..=most).contains(&(*count as u64)) {
                return Err(block.head_damage("rows of a symbol", most, *count as u64));
            }
            lane.start = end as u32;
            end += *count as u64;
            lane.end = end as u32;
        }
        for lanes in self.lanes.chunk_by(|a, b| a.group == b.group) {
            let need = block.head().groups[usize::from(lanes[0].group)].count;
            let have = lanes[lanes.len() - 1].end - lanes[0].start;
            if need != have {
                return Err(block.head_damage(
                    "rows of the symbols of a record type",
                    need.into(),
                    have.into(),
                ));
            }
            if !lanes.is_sorted_by(|a, b| a.symbol < b.symbol) {
                return Err(block.head_damage("order of symbols", 1, 0));
            }
        }
        if end != u64::from(block.head().count) {
            return Err(block.head_damage("rows of all symbols", block.head().count.into(), end));
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
                    // Whoever asks for a symbol twice gets it once.
                    Some(last) if last.end > index => {}
                    _ => self.wanted.push(index..index + 1),
                }
            }
        }
    }

    /// Whether so few rows are wanted that looking at all others costs more than sorting the wanted ones.
    pub fn wants_few(&self) -> bool {
        let count = self.lanes.last().map_or(0, |lane| lane.end);
        let wanted: u32 = self.wanted_lanes().map(|(_, lane)| lane.end - lane.start).sum();
        wanted * 8 <= count
    }

    /// [`Self::read_places`] where few lanes are wanted. Then `few` has the wanted rows in order, and `homes` the lane of
    /// each place: its index among the wanted ones, in the high half.
    pub fn read_few_places(&mut self, block: &Block, scratch: &mut Scratch) -> Result<(), Damage> {
        let columns = Columns { block, group: OWN };
        if columns.has(own::POSITION.into()) {
            self.set_position_level(block.head().count);
            columns.offsets(own::POSITION.into(), &self.level, scratch, &mut self.wide, &mut self.places)?;
        } else {
            self.read_places(block, scratch)?;
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

    /// Whether every lane is wanted.
    pub fn wants_all(&self) -> bool {
        self.wanted.first().is_some_and(|range| range.len() == self.lanes.len())
    }

    /// The wanted lanes.
    pub fn wanted_lanes(&self) -> impl Iterator<Item = (u32, &Lane)> {
        self.wanted.iter().flat_map(|range| range.clone().map(|index| (index, &self.lanes[index as usize])))
    }

    /// Reads where the rows of the wanted lanes are.
    pub fn read_places(&mut self, block: &Block, scratch: &mut Scratch) -> Result<(), Damage> {
        self.places.clear();
        self.homes.clear();
        if self.lanes.len() < 2 {
            self.places.extend(0..block.head().count);
            self.homes.extend(0..block.head().count);
            return Ok(());
        }
        let columns = Columns { block, group: OWN };
        if columns.has(own::POSITION.into()) {
            self.read_positions(columns, scratch)
        } else {
            self.read_lane_of(columns, scratch)
        }
    }

    /// From the rows of each lane.
    fn read_positions(&mut self, columns: Columns<'_>, scratch: &mut Scratch) -> Result<(), Damage> {
        let count = columns.block.head().count;
        self.set_position_level(count);
        columns.offsets(own::POSITION.into(), &self.level, scratch, &mut self.wide, &mut self.places)?;
        self.homes.resize(count as usize, NO_HOME);
        self.mark_lanes(columns.block)
    }

    /// The level of the column of positions, of which those of the wanted lanes are wanted.
    fn set_position_level(&mut self, count: u32) {
        self.level.begin();
        self.level.count = count as usize;
        self.level.ends.extend(self.lanes.iter().map(|lane| lane.end));
        self.level.all = self.wants_all();
        if !self.level.all {
            let rows = |range: &Range<u32>| {
                self.lanes[range.start as usize].start..self.lanes[range.end as usize - 1].end
            };
            self.level.keep.extend(self.wanted.iter().map(rows));
        }
    }

    /// Works out the lane of each row. As many rows as there are places must get one: so no place is there twice, and none
    /// is behind the last row.
    fn mark_lanes(&mut self, block: &Block) -> Result<(), Damage> {
        let mut start = 0;
        for range in &self.wanted {
            for index in range.clone() {
                let lane = &self.lanes[index as usize];
                let rows = &self.places[start..start + (lane.end - lane.start) as usize];
                for (row, home) in rows.iter().zip(index << 16 | start as u32..) {
                    if let Some(place) = self.homes.get_mut(*row as usize) {
                        *place = home;
                    }
                }
                start += rows.len();
            }
        }
        let marked = self.homes.iter().fold(0, |count, home| count + u32::from(*home != NO_HOME)) as usize;
        if marked != self.places.len() {
            return Err(block.head_damage("rows of all symbols", self.places.len() as u64, marked as u64));
        }
        Ok(())
    }

    /// From the lane of each row.
    fn read_lane_of(&mut self, columns: Columns<'_>, scratch: &mut Scratch) -> Result<(), Damage> {
        let count = columns.block.head().count;
        self.level.one_run(count as usize);
        columns.ints(own::LANE.into(), &self.level, scratch, &mut self.wide)?;
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

/// Not the place of a row.
const NO_PLACE: u32 = u32::MAX;
