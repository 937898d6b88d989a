//! Order numbers and where their orders are: open addressing with linear probing, without markers of deleted entries.
//!
//! A place has 32 bits of the number's hash instead of the number, which the order itself has: eight places are in a cache line.
//!
//! Always true: an entry is reachable from its home without passing a free place; at most five of eight places are taken.

use std::hash::{BuildHasher, RandomState};

/// A free place.
const FREE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Place {
    /// Its home is in the low bits of this.
    hash: u32,
    node: u32,
}

/// The table; see above.
#[derive(Debug, Clone)]
pub(super) struct IdTable {
    places: Vec<Place>,
    len: usize,
    /// Differs from table to table, so that no feed can be made to meet in one place.
    seed: u64,
}

impl Default for IdTable {
    fn default() -> Self {
        Self { places: Vec::new(), len: 0, seed: RandomState::new().hash_one(0u8) | 1 }
    }
}

impl IdTable {
    /// The node of an order; `has` is whether a node has its number.
    #[inline]
    pub(super) fn get(&self, id: u64, has: impl Fn(u32) -> bool) -> Option<u32> {
        let mask = self.places.len().wrapping_sub(1);
        let hash = self.hash(id);
        let mut at = hash as usize & mask;
        loop {
            // An empty table has no place at all.
            let place = self.places.get(at)?;
            if place.node == FREE {
                return None;
            }
            if place.hash == hash && has(place.node) {
                return Some(place.node);
            }
            at = (at + 1) & mask;
        }
    }

    /// Whether a number's home is taken, by whichever order.
    #[inline]
    pub(super) fn is_taken(&self, id: u64) -> bool {
        let at = self.hash(id) as usize & self.places.len().wrapping_sub(1);
        self.places.get(at).is_some_and(|place| place.node != FREE)
    }

    /// Adds an order that is not in the table.
    #[inline]
    pub(super) fn insert(&mut self, id: u64, node: u32) {
        if self.len * 8 >= self.places.len() * 5 {
            self.grow();
        }
        self.len += 1;
        let hash = self.hash(id);
        self.put(Place { hash, node });
    }

    /// Removes an order, if it is in the table with this node.
    #[inline]
    pub(super) fn remove(&mut self, id: u64, node: u32) {
        let mask = self.places.len().wrapping_sub(1);
        let mut free = self.hash(id) as usize & mask;
        loop {
            match self.places.get(free) {
                Some(place) if place.node == node => break,
                Some(place) if place.node != FREE => free = (free + 1) & mask,
                _ => return,
            }
        }
        let mut at = free;
        // Entries behind it move up, unless that would put them before their home.
        loop {
            at = (at + 1) & mask;
            let place = self.places[at];
            if place.node == FREE {
                break;
            }
            if (at.wrapping_sub(place.hash as usize) & mask) >= (at.wrapping_sub(free) & mask) {
                self.places[free] = place;
                free = at;
            }
        }
        self.places[free].node = FREE;
        self.len -= 1;
    }

    /// Removes all orders and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.places.iter_mut().for_each(|place| place.node = FREE);
        self.len = 0;
    }

    #[inline]
    fn hash(&self, id: u64) -> u32 {
        let product = u128::from(id ^ self.seed) * 0x9E37_79B9_7F4A_7C15;
        ((product >> 64) as u64 ^ product as u64) as u32
    }

    #[inline]
    fn put(&mut self, place: Place) {
        let mask = self.places.len() - 1;
        let mut at = place.hash as usize & mask;
        while self.places[at].node != FREE {
            at = (at + 1) & mask;
        }
        self.places[at] = place;
    }

    #[cold]
    fn grow(&mut self) {
        let size = (self.places.len() * 2).max(16);
        let old = std::mem::replace(&mut self.places, vec![Place { hash: 0, node: FREE }; size]);
        old.into_iter().filter(|place| place.node != FREE).for_each(|place| self.put(place));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn it_is_a_map(changes in prop::collection::vec((0u64..400, any::<bool>()), 1..4_000)) {
            let (mut table, mut map, mut ids) = (IdTable::default(), HashMap::new(), Vec::new());
            let get = |table: &IdTable, ids: &[u64], id| table.get(id, |node| ids[node as usize] == id);
            for (id, adds) in changes {
                // Numbers far from each other too.
                let id = if id % 2 == 0 { id } else { id.wrapping_mul(0x1234_5678_9ABC_DEF1) };
                let found = get(&table, &ids, id);
                prop_assert_eq!(found, map.get(&id).copied());
                if adds && found.is_none() {
                    let node = ids.len() as u32;
                    ids.push(id);
                    table.insert(id, node);
                    map.insert(id, node);
                } else if let (false, Some(node)) = (adds, found) {
                    table.remove(id, node);
                    map.remove(&id);
                }
            }
            for (id, node) in &map {
                prop_assert_eq!(get(&table, &ids, *id), Some(*node));
            }
            prop_assert_eq!(table.len, map.len());
            table.clear();
            prop_assert!(map.keys().all(|id| get(&table, &ids, *id).is_none()));
        }
    }

    /// Two numbers of one hash, one place behind the other, and numbers whose homes they take.
    #[test]
    fn numbers_of_one_hash_are_told_apart() {
        let mut table = IdTable { seed: 1, ..IdTable::default() };
        let (mut by_hash, mut ids) = (HashMap::new(), Vec::new());
        let mut random = crate::random::Random::new(1);
        for id in std::iter::repeat_with(|| random.next_u64()).take(400_000) {
            if let Some(other) = by_hash.insert(table.hash(id), id) {
                ids.extend([other, id]);
            }
        }
        assert!(ids.len() >= 10, "about twenty pairs are expected, found {}", ids.len() / 2);
        let get = |table: &IdTable, id| table.get(id, |node| ids[node as usize] == id);
        (0..).zip(&ids).for_each(|(node, id)| table.insert(*id, node));
        for (node, id) in (0..).zip(&ids) {
            assert_eq!(get(&table, *id), Some(node));
        }
        for (node, id) in (0..).zip(&ids).step_by(2) {
            table.remove(*id, node);
            table.remove(*id, node);
            assert_eq!((get(&table, *id), get(&table, ids[node as usize + 1])), (None, Some(node + 1)));
        }
        assert_eq!(table.len, ids.len() / 2);
    }

    /// Numbers that differ in few bits, wherever these are, do not meet: hostile ones cannot know the seed.
    #[test]
    fn numbers_in_steps_of_any_size_do_not_meet() {
        for shift in 0..48 {
            let mut table = IdTable::default();
            (0..10_000u64).for_each(|n| table.insert(n << shift, n as u32));
            let mask = table.places.len() - 1;
            let away = |(at, place): (usize, &Place)| at.wrapping_sub(place.hash as usize) & mask;
            let taken = table.places.iter().enumerate().filter(|(_, place)| place.node != FREE);
            let away: usize = taken.map(away).sum();
            // One at random is less than one place away from its home; 64 would still be quick.
            assert!(away < 64 * 10_000, "{away} places in all with steps of 1 << {shift}");
        }
    }
}
