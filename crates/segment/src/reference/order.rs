//! Times, sequence numbers, lanes, and the position of each row in the order of lanes.

use super::column::{Kind, numbers};
use super::head::{Head, damage};
use super::input::{at_most, beyond};
use super::runs::Runs;
use super::{Column, Values};
use crate::damage::{Damage, Flaw};
use crate::head::{OWN, lanes, own};

/// Where a record type is cut, so many of the block's own values are a run.
const CUT_ROWS: usize = 128;

pub(super) struct Order {
    pub times: Vec<i64>,
    pub sequences: Vec<u64>,
    pub lanes: Vec<Lane>,
    /// Of each row its place.
    pub places: Vec<LanePosition>,
}

/// The rows of one record type and symbol.
pub(super) struct Lane {
    pub group: usize,
    pub type_id: u16,
    pub symbol: u32,
    pub rows: usize,
}

/// A row in the order of lanes.
#[derive(Clone, Copy)]
pub(super) struct LanePosition {
    /// Index of its lane in the block.
    pub lane: usize,
    /// Index of the row in its group.
    pub index: usize,
}

impl Order {
    /// Reads the block's own columns, and those with the lanes of groups; appends them to `columns`.
    pub fn read(head: &Head, columns: &mut Vec<Column>) -> Result<Self, Damage> {
        let mut reader = Reader { head, columns };
        let runs = match head.is_cut() {
            true => Runs::of((0..head.rows).step_by(CUT_ROWS).map(|start| CUT_ROWS.min(head.rows - start))),
            false => Runs::of([head.rows]),
        };
        let times = reader.numbers(OWN, own::TIME, &runs)?;
        let sequences: Vec<u64> = match head.has(OWN, own::SEQUENCE) {
            true => reader.numbers(OWN, own::SEQUENCE, &runs)?.into_iter().map(|n| n as u64).collect(),
            false => (0..head.rows as u64).map(|row| head.sequence_min.wrapping_add(row)).collect(),
        };
        check_rows(head, &times, &sequences).map_err(damage)?;
        let lanes = reader.lanes()?;
        let rows = reader.rows_of_lanes(&lanes)?;
        let order =
            Self { places: places(&lanes, &rows, head.rows).map_err(damage)?, times, sequences, lanes };
        reader.check_lane_times(&order, &rows)?;
        Ok(order)
    }

    /// The runs of a group's rows: its lanes.
    pub fn runs_of(&self, group: usize) -> Runs {
        runs_of(&self.lanes, group)
    }
}

fn runs_of(lanes: &[Lane], group: usize) -> Runs {
    Runs::of(lanes.iter().filter(|lane| lane.group == group).map(|lane| lane.rows))
}

/// Rows are in order of time, then of sequence number, and both match the head.
fn check_rows(head: &Head, times: &[i64], sequences: &[u64]) -> Result<(), Flaw> {
    let keys = times.iter().zip(sequences);
    let is_sorted = keys.is_sorted_by(|a, b| a < b);
    let ends = (times.first().copied(), times.last().copied());
    let range = (sequences.iter().min().copied(), sequences.iter().max().copied());
    if !is_sorted {
        return Err(beyond("order of rows", 1, 0));
    }
    if ends != (Some(head.time_min), Some(head.time_max)) {
        return Err(beyond(
            "times of the first and the last row",
            head.time_min as u64,
            ends.0.unwrap_or(0) as u64,
        ));
    }
    if range != (Some(head.sequence_min), Some(head.sequence_max)) {
        return Err(beyond("smallest and largest sequence number", head.sequence_min, range.0.unwrap_or(0)));
    }
    Ok(())
}

/// Reads columns and stores them.
struct Reader<'h, 'b, 'c> {
    head: &'h Head<'b>,
    columns: &'c mut Vec<Column>,
}

impl Reader<'_, '_, '_> {
    fn numbers(&mut self, group: u16, column: u16, runs: &Runs) -> Result<Vec<i64>, Damage> {
        let values = numbers(self.head, (group, column), Kind::Structure, runs)?;
        self.columns.push(Column { group, column, values: Values::Numbers(values.clone()) });
        Ok(values)
    }

    /// The lanes of all groups.
    fn lanes(&mut self) -> Result<Vec<Lane>, Damage> {
        let mut lanes = Vec::new();
        for (index, group) in self.head.groups.iter().enumerate() {
            let (symbols, counts) = match group.lanes {
                1 => (vec![group.first_symbol.into()], vec![group.rows as i64]),
                count => {
                    let runs = Runs::of([count]);
                    (
                        self.numbers(index as u16, lanes::SYMBOL, &runs)?,
                        self.numbers(index as u16, lanes::COUNT, &runs)?,
                    )
                }
            };
            check_lanes(self.head, index, &symbols, &counts).map_err(damage)?;
            lanes.extend(symbols.iter().zip(&counts).map(|(symbol, rows)| Lane {
                group: index,
                type_id: group.type_id,
                symbol: *symbol as u32,
                rows: *rows as usize,
            }));
        }
        Ok(lanes)
    }

    /// The rows of all lanes, in the order of lanes.
    fn rows_of_lanes(&mut self, all: &[Lane]) -> Result<Vec<usize>, Damage> {
        let rows = self.head.rows;
        if self.head.has(OWN, own::LANE) {
            let lane_of = self.numbers(OWN, own::LANE, &Runs::of([rows]))?;
            let mut order: Vec<usize> = (0..rows).collect();
            order.sort_by_key(|row| lane_of[*row] as u64);
            let expected = all.iter().enumerate().flat_map(|(lane, of)| vec![lane as i64; of.rows]);
            let are_right = order.iter().map(|row| lane_of[*row]).eq(expected);
            return if are_right {
                Ok(order)
            } else {
                Err(damage(beyond("symbol of a row", all.len() as u64, 0)))
            };
        }
        if all.len() == 1 {
            return Ok((0..rows).collect());
        }
        let mut places = Vec::with_capacity(rows);
        for group in 0..self.head.groups.len() {
            let of_group = self.numbers(group as u16, lanes::POSITION, &runs_of(all, group))?;
            places.extend(of_group.into_iter().map(|row| row as usize));
        }
        Ok(places)
    }

    /// Times that groups have in the order of lanes are the block's times once more.
    fn check_lane_times(&mut self, order: &Order, rows: &[usize]) -> Result<(), Damage> {
        let mut rows = rows.iter();
        for (index, group) in self.head.groups.iter().enumerate() {
            let expected: Vec<i64> = rows.by_ref().take(group.rows).map(|row| order.times[*row]).collect();
            if self.head.has(index as u16, lanes::TIME) {
                let have = self.numbers(index as u16, lanes::TIME, &order.runs_of(index))?;
                if have != expected {
                    let flaw = beyond("times in the order of lanes", 1, 0);
                    return Err(self.head.column_damage(index as u16, lanes::TIME, flaw));
                }
            }
        }
        Ok(())
    }
}

/// Symbols ascend from the group's first one and end before those of the next group of the record type; every lane has
/// rows, and together all of the group's.
fn check_lanes(head: &Head, index: usize, symbols: &[i64], counts: &[i64]) -> Result<(), Flaw> {
    let group = &head.groups[index];
    let next = head.groups.get(index + 1).filter(|next| next.type_id == group.type_id);
    let end = next.map_or(1 << 32, |next| i64::from(next.first_symbol));
    let is_first = symbols.first() == Some(&i64::from(group.first_symbol));
    let is_last = symbols.last().is_some_and(|last| *last < end);
    if !(is_first && is_last && symbols.is_sorted_by(|a, b| a < b)) {
        return Err(beyond("order of symbols", 1, 0));
    }
    let rows = group.rows as u64;
    counts.iter().try_for_each(|count| at_most("rows of a symbol", rows, *count as u64))?;
    let sum: i64 = counts.iter().sum();
    if counts.contains(&0) || sum as u64 != rows {
        return Err(beyond("rows of the symbols of a record type", rows, sum as u64));
    }
    Ok(())
}

/// Of each row its place, from the rows in the order of lanes. Each row is there once, and those of a lane ascend.
fn places(lanes: &[Lane], rows: &[usize], count: usize) -> Result<Vec<LanePosition>, Flaw> {
    let mut places = vec![None; count];
    let (mut rows, mut group, mut index) = (rows.iter(), 0, 0);
    for (number, lane) in lanes.iter().enumerate() {
        if lane.group != group {
            (group, index) = (lane.group, 0);
        }
        let mut after = 0;
        for row in rows.by_ref().take(lane.rows) {
            match places.get_mut(*row) {
                Some(place @ None) if *row >= after => *place = Some(LanePosition { lane: number, index }),
                _ => return Err(beyond("row of a symbol", count as u64, *row as u64)),
            }
            (index, after) = (index + 1, row + 1);
        }
    }
    places.into_iter().collect::<Option<Vec<LanePosition>>>().ok_or(beyond(
        "rows of all symbols",
        count as u64,
        0,
    ))
}
