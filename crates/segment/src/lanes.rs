//! Sorts the rows of a block into lanes: by record type, then by symbol, then as they are.

use std::collections::HashMap;

/// The rows of one record type and symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lane {
    pub type_id: u16,
    pub symbol: u32,
    pub count: u32,
}

/// The lanes of a block and their rows. Sorting another block reuses the memory.
#[derive(Debug, Default)]
pub(crate) struct LaneOrder {
    pub lanes: Vec<Lane>,
    /// Index of the lane of each row.
    pub lane_of: Vec<u16>,
    /// The rows of the first lane, then those of the second, ….
    pub order: Vec<u16>,
    /// By key: rows that have it, then the index of its lane.
    table: Vec<u32>,
    /// Where the next row of each lane goes.
    next: Vec<u32>,
}

/// Places of a table of keys for each row of a block, and the fewest that are worth a table.
const PLACES_A_ROW: usize = 16;
const PLACES_MIN: usize = 1_024;

impl LaneOrder {
    /// Sorts at most 65,535 rows, given by their record types and symbols. Counts instead of comparing: there are few lanes
    /// and many rows.
    pub fn sort(&mut self, types: &[u16], symbols: &[u32]) {
        self.lanes.clear();
        self.lane_of.clear();
        match Keys::of(types, symbols) {
            Some(keys) => self.sort_by_table(keys, types, symbols),
            None => self.sort_by_hash(types, symbols),
        }
        self.next.clear();
        let mut start = 0;
        self.next.extend(self.lanes.iter().map(|lane| {
            start += lane.count;
            start - lane.count
        }));
        self.order.resize(types.len(), 0);
        if let [_] = self.lanes[..] {
            self.order.iter_mut().zip(0..).for_each(|(place, row)| *place = row);
            return;
        }
        for (row, lane) in self.lane_of.iter().enumerate() {
            let place = &mut self.next[usize::from(*lane)];
            self.order[*place as usize] = row as u16;
            *place += 1;
        }
    }

    /// Ids of symbols are small numbers: a table has a place for each.
    fn sort_by_table(&mut self, keys: Keys, types: &[u16], symbols: &[u32]) {
        let rows = || types.iter().zip(symbols).map(|(type_id, symbol)| keys.key(*type_id, *symbol));
        self.table.clear();
        self.table.resize(keys.count, 0);
        rows().for_each(|key| self.table[key] += 1);
        for (key, entry) in self.table.iter_mut().enumerate().filter(|(_, count)| **count > 0) {
            let ((type_id, symbol), count) = (keys.of_key(key), *entry);
            *entry = self.lanes.len() as u32;
            self.lanes.push(Lane { type_id, symbol, count });
        }
        self.lane_of.extend(rows().map(|key| self.table[key] as u16));
    }

    /// Symbols lie far apart.
    fn sort_by_hash(&mut self, types: &[u16], symbols: &[u32]) {
        let mut ids = HashMap::new();
        let lanes = &mut self.lanes;
        let id_of = |(type_id, symbol): (&u16, &u32)| {
            let id = *ids.entry((*type_id, *symbol)).or_insert_with(|| {
                lanes.push(Lane { type_id: *type_id, symbol: *symbol, count: 0 });
                (lanes.len() - 1) as u16
            });
            lanes[usize::from(id)].count += 1;
            id
        };
        self.lane_of.extend(types.iter().zip(symbols).map(id_of));
        let mut sorted: Vec<u16> = (0..self.lanes.len()).map(|id| id as u16).collect();
        let lane = |id: &u16| self.lanes[usize::from(*id)];
        sorted.sort_unstable_by_key(|id| (lane(id).type_id, lane(id).symbol));
        let mut ranks = vec![0; sorted.len()];
        sorted.iter().enumerate().for_each(|(rank, id)| ranks[usize::from(*id)] = rank as u16);
        self.lane_of.iter_mut().for_each(|lane| *lane = ranks[usize::from(*lane)]);
        self.lanes = sorted.iter().map(lane).collect();
    }
}

/// Record type and symbol as one number: types are counted from the smallest, and so are symbols.
#[derive(Clone, Copy)]
struct Keys {
    type_min: u16,
    symbol_min: u32,
    /// Symbols of a record type, used or not.
    symbols: usize,
    /// All keys.
    count: usize,
}

impl Keys {
    /// `None`: there are too many for a table.
    fn of(types: &[u16], symbols: &[u32]) -> Option<Self> {
        let (type_min, type_max) =
            types.iter().fold((u16::MAX, 0), |(min, max), id| (min.min(*id), max.max(*id)));
        let (symbol_min, symbol_max) =
            symbols.iter().fold((u32::MAX, 0), |(min, max), symbol| (min.min(*symbol), max.max(*symbol)));
        let symbols_of_type = (symbol_max.checked_sub(symbol_min)? as usize).checked_add(1)?;
        let count = symbols_of_type.checked_mul(usize::from(type_max.checked_sub(type_min)?) + 1)?;
        let is_small = count <= (PLACES_A_ROW * types.len()).max(PLACES_MIN);
        is_small.then_some(Self { type_min, symbol_min, symbols: symbols_of_type, count })
    }

    #[inline]
    fn key(self, type_id: u16, symbol: u32) -> usize {
        usize::from(type_id - self.type_min) * self.symbols + (symbol - self.symbol_min) as usize
    }

    fn of_key(self, key: usize) -> (u16, u32) {
        let (type_id, symbol) = (key / self.symbols, key % self.symbols);
        (self.type_min + type_id as u16, self.symbol_min + symbol as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of the given record types and symbols, sorted by comparing.
    fn check(rows: &[(u16, u32)], order: &mut LaneOrder) {
        let (types, symbols): (Vec<u16>, Vec<u32>) = rows.iter().copied().unzip();
        order.sort(&types, &symbols);
        let mut expected: Vec<usize> = (0..rows.len()).collect();
        expected.sort_by_key(|row| (rows[*row], *row));
        assert!(order.order.iter().map(|row| usize::from(*row)).eq(expected));
        let lane = |row: usize| order.lanes[usize::from(order.lane_of[row])];
        assert!((0..rows.len()).all(|row| (lane(row).type_id, lane(row).symbol) == rows[row]));
        assert!(order.lanes.is_sorted_by_key(|lane| (lane.type_id, lane.symbol)));
        assert_eq!(order.lanes.iter().map(|lane| lane.count as usize).sum::<usize>(), rows.len());
    }

    #[test]
    fn rows_are_sorted_and_stay_in_order() {
        let mut order = LaneOrder::default();
        for apart in [1, 3, 1_000_003] {
            let row = |i: u64| ((i * i % 3 + 7) as u16, (i * 7 % 11 * apart) as u32);
            check(&(0..5_000).map(row).collect::<Vec<_>>(), &mut order);
            check(&(0..5_000).map(|i| (2, row(i).1)).collect::<Vec<_>>(), &mut order);
        }
        check(&[(u16::MAX, u32::MAX), (0, 0), (u16::MAX, 0), (0, u32::MAX)], &mut order);
        check(&[(5, 9); 300], &mut order);
        check(&[(0, u32::MAX - 1), (0, u32::MAX), (0, u32::MAX - 1)], &mut order);
    }

    #[test]
    fn every_row_may_have_its_own_lane() {
        let mut order = LaneOrder::default();
        for apart in [1, 60_000] {
            check(&(0..65_535).map(|i| (0, u32::MAX - i * apart)).collect::<Vec<_>>(), &mut order);
        }
    }
}
