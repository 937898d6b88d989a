//! Sorts the rows of a block into lanes: by record type, then by symbol, then as they are.

use crate::row::RowHeader;

/// The rows of one record type and symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lane {
    pub type_id: u16,
    pub symbol: u32,
    pub count: u32,
}

/// The lanes of a block and their rows.
pub(crate) struct LaneOrder {
    pub lanes: Vec<Lane>,
    /// Index of the lane of each row.
    pub lane_of: Vec<u16>,
    /// The rows of the first lane, then those of the second, ….
    pub order: Vec<u16>,
}

impl LaneOrder {
    /// At most 65,535 rows. Counts instead of comparing: there are few lanes and many rows.
    pub fn of(rows: &[RowHeader]) -> Self {
        let mut table = Table::new(rows.len());
        let mut lane_of: Vec<u16> = rows.iter().map(|row| table.note(row)).collect();
        let lanes = table.lanes;
        let mut ids: Vec<usize> = (0..lanes.len()).collect();
        ids.sort_unstable_by_key(|id| (lanes[*id].type_id, lanes[*id].symbol));
        let (mut ranks, mut next, mut start) = (vec![0u16; ids.len()], Vec::with_capacity(ids.len()), 0);
        for (rank, id) in ids.iter().enumerate() {
            ranks[*id] = rank as u16;
            next.push(start);
            start += lanes[*id].count as usize;
        }
        let mut order = vec![0; rows.len()];
        for (row, lane) in lane_of.iter_mut().enumerate() {
            *lane = ranks[usize::from(*lane)];
            let place = &mut next[usize::from(*lane)];
            order[*place] = row as u16;
            *place += 1;
        }
        Self { lanes: ids.iter().map(|id| lanes[*id]).collect(), lane_of, order }
    }
}

/// Numbers lanes in order of appearance; open addressing.
struct Table {
    lanes: Vec<Lane>,
    /// Ids plus one; 0 is free. At least twice as many as rows, a power of two.
    slots: Vec<u32>,
    shift: u32,
}

impl Table {
    fn new(rows: usize) -> Self {
        let slots = (2 * rows).next_power_of_two().max(2);
        Self { lanes: Vec::new(), slots: vec![0; slots], shift: 64 - slots.trailing_zeros() }
    }

    /// Counts a row and gives the id of its lane.
    fn note(&mut self, row: &RowHeader) -> u16 {
        let key = u64::from(row.type_id) << 32 | u64::from(row.symbol);
        let mut slot = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize;
        loop {
            match self.slots[slot] {
                0 => break,
                id => {
                    let lane = &mut self.lanes[id as usize - 1];
                    if (lane.type_id, lane.symbol) == (row.type_id, row.symbol) {
                        lane.count += 1;
                        return (id - 1) as u16;
                    }
                }
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        self.lanes.push(Lane { type_id: row.type_id, symbol: row.symbol, count: 1 });
        self.slots[slot] = self.lanes.len() as u32;
        (self.lanes.len() - 1) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_and_stay_in_order() {
        let row = |i: u64| {
            let (type_id, symbol) = ((i * i % 3) as u16, (i * 7 % 11 * 1_000_003) as u32);
            RowHeader { time: i as i64, sequence: i, symbol, type_id }
        };
        let rows: Vec<RowHeader> = (0..5_000).map(row).collect();
        let LaneOrder { lanes, lane_of, order } = LaneOrder::of(&rows);
        let key = |row: usize| (rows[row].type_id, rows[row].symbol, row);
        let mut expected: Vec<usize> = (0..rows.len()).collect();
        expected.sort_by_key(|row| key(*row));
        assert!(order.iter().map(|row| usize::from(*row)).eq(expected));
        let lane_of_row = |row: usize| lanes[usize::from(lane_of[row])];
        assert!((0..rows.len()).all(|row| (lane_of_row(row).type_id, lane_of_row(row).symbol)
            == (rows[row].type_id, rows[row].symbol)));
        assert_eq!(lanes.iter().map(|lane| lane.count).sum::<u32>(), 5_000);
    }

    #[test]
    fn every_row_may_have_its_own_lane() {
        let row = |i: u32| RowHeader { symbol: u32::MAX - i, sequence: i.into(), ..RowHeader::default() };
        let rows: Vec<RowHeader> = (0..65_535).map(row).collect();
        let LaneOrder { lanes, order, .. } = LaneOrder::of(&rows);
        assert_eq!((lanes.len(), order[0], order[65_534]), (65_535, 65_534, 0));
    }
}
