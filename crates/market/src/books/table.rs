//! Order numbers and where their orders are: open addressing with linear probing, without markers of deleted entries.
//!
//! Always true: an entry is reachable from its home without passing a free place; at most five of eight places are taken.

use std::hash::{BuildHasher, RandomState};

/// A free place.
const FREE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Place {
    id: u64,
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
    /// The node of an order.
    #[inline]
    pub(super) fn get(&self, id: u64) -> Option<u32> {
        self.find(id).map(|at| self.places[at].node)
    }

    /// Adds an order that is not in the table.
    #[inline]
    pub(super) fn insert(&mut self, id: u64, node: u32) {
        if self.len * 8 >= self.places.len() * 5 {
            self.grow();
        }
        self.len += 1;
        self.put(Place { id, node });
    }

    /// Removes an order and returns its node.
    #[inline]
    pub(super) fn remove(&mut self, id: u64) -> Option<u32> {
        let mut free = self.find(id)?;
        let node = self.places[free].node;
        let mask = self.places.len() - 1;
        let mut at = free;
        // Entries behind it move up, unless that would put them before their home.
        loop {
            at = (at + 1) & mask;
            let place = self.places[at];
            if place.node == FREE {
                break;
            }
            if (at.wrapping_sub(self.home(place.id)) & mask) >= (at.wrapping_sub(free) & mask) {
                self.places[free] = place;
                free = at;
            }
        }
        self.places[free].node = FREE;
        self.len -= 1;
        Some(node)
    }

    /// Removes all orders and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.places.iter_mut().for_each(|place| place.node = FREE);
        self.len = 0;
    }

    #[inline]
    fn home(&self, id: u64) -> usize {
        let product = u128::from(id ^ self.seed) * 0x9E37_79B9_7F4A_7C15;
        ((product >> 64) as u64 ^ product as u64) as usize & (self.places.len() - 1)
    }

    #[inline]
    fn find(&self, id: u64) -> Option<usize> {
        if self.places.is_empty() {
            return None;
        }
        let mut at = self.home(id);
        loop {
            let place = self.places[at];
            if place.node == FREE {
                return None;
            }
            if place.id == id {
                return Some(at);
            }
            at = (at + 1) & (self.places.len() - 1);
        }
    }

    #[inline]
    fn put(&mut self, place: Place) {
        let mut at = self.home(place.id);
        while self.places[at].node != FREE {
            at = (at + 1) & (self.places.len() - 1);
        }
        self.places[at] = place;
    }

    #[cold]
    fn grow(&mut self) {
        let size = (self.places.len() * 2).max(64);
        let old = std::mem::replace(&mut self.places, vec![Place { id: 0, node: FREE }; size]);
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
            let (mut table, mut map) = (IdTable::default(), HashMap::new());
            for (n, (id, adds)) in changes.into_iter().enumerate() {
                // Numbers far from each other too.
                let id = if id % 2 == 0 { id } else { id.wrapping_mul(0x1234_5678_9ABC_DEF1) };
                prop_assert_eq!(table.get(id), map.get(&id).copied());
                if adds && !map.contains_key(&id) {
                    table.insert(id, n as u32);
                    map.insert(id, n as u32);
                } else if !adds {
                    prop_assert_eq!(table.remove(id), map.remove(&id));
                }
            }
            for (id, node) in &map {
                prop_assert_eq!(table.get(*id), Some(*node));
            }
            prop_assert_eq!(table.len, map.len());
            table.clear();
            prop_assert!(map.keys().all(|id| table.get(*id).is_none()));
        }
    }
}
