//! The consolidated best bid and offer: the best over venues, kept as each venue's best changes.
//!
//! Always true: the best of a side is the one a walk over all venues finds, the first venue of equal prices.

use super::prices::key;
use crate::Side;

/// Most venues of one symbol.
pub const MAX_VENUES: usize = 256;

/// No price: worse than any.
const NOTHING: i64 = i64::MIN;
const NOWHERE: usize = usize::MAX;

/// The best of a side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Best {
    /// The venue, by its number.
    pub venue: usize,
    /// Price; all venues have the same units.
    pub price: i64,
    /// Size at this venue.
    pub size: i64,
}

#[derive(Debug, Clone)]
struct SideBest {
    /// Of each venue, greater is better.
    keys: Vec<i64>,
    sizes: Vec<i64>,
    best: usize,
}

impl Default for SideBest {
    fn default() -> Self {
        Self { keys: Vec::new(), sizes: Vec::new(), best: NOWHERE }
    }
}

/// The consolidated best; a venue is a number below [`MAX_VENUES`], and among equal prices the lowest number is first.
///
/// ```
/// use tapedb_market::{ConsolidatedBest, Side};
/// let mut best = ConsolidatedBest::default();
/// best.set(1, Side::Bid, 100, 5);
/// best.set(0, Side::Bid, 100, 7);
/// assert_eq!(best.get(Side::Bid).map(|best| (best.venue, best.size)), Some((0, 7)));
/// ```
#[derive(Debug, Clone, Default)]
pub struct ConsolidatedBest {
    bid: SideBest,
    ask: SideBest,
}

impl ConsolidatedBest {
    /// A venue's best is this now. Venues from [`MAX_VENUES`] on are ignored. Returns whether the consolidated best has changed.
    #[inline]
    pub fn set(&mut self, venue: usize, side: Side, price: i64, size: i64) -> bool {
        self.side_mut(side).set(venue, key(side, price), size)
    }

    /// A venue has nothing on this side, or its book is not known. Returns whether the consolidated best has changed.
    #[inline]
    pub fn remove(&mut self, venue: usize, side: Side) -> bool {
        self.side_mut(side).set(venue, NOTHING, 0)
    }

    /// The best over all venues.
    #[inline]
    pub fn get(&self, side: Side) -> Option<Best> {
        let of = if side == Side::Bid { &self.bid } else { &self.ask };
        let (at, size) = (*of.keys.get(of.best)?, of.sizes[of.best]);
        Some(Best { venue: of.best, price: key(side, at), size })
    }

    /// Whether the best bid is above the best ask.
    pub fn is_crossed(&self) -> bool {
        matches!((self.get(Side::Bid), self.get(Side::Ask)), (Some(bid), Some(ask)) if bid.price > ask.price)
    }

    #[inline]
    fn side_mut(&mut self, side: Side) -> &mut SideBest {
        if side == Side::Bid { &mut self.bid } else { &mut self.ask }
    }
}

impl SideBest {
    #[inline]
    fn set(&mut self, venue: usize, key: i64, size: i64) -> bool {
        if venue >= self.keys.len() {
            if venue >= MAX_VENUES {
                return false;
            }
            self.keys.resize(venue + 1, NOTHING);
            self.sizes.resize(venue + 1, 0);
        }
        let old = (self.keys[venue], self.sizes[venue]);
        (self.keys[venue], self.sizes[venue]) = (key, size);
        let Some(&best) = self.keys.get(self.best) else {
            self.best = if key == NOTHING { NOWHERE } else { venue };
            return self.best != NOWHERE;
        };
        if venue == self.best {
            if key < old.0 {
                self.search();
                return true;
            }
            return old != (key, size);
        }
        let is_better = key > best || (key == best && venue < self.best);
        if is_better {
            self.best = venue;
        }
        is_better
    }

    fn search(&mut self) {
        self.best = NOWHERE;
        let mut most = NOTHING;
        for (venue, &key) in self.keys.iter().enumerate() {
            if key > most {
                (self.best, most) = (venue, key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_the_best_of_a_walk(changes in prop::collection::vec((0usize..9, any::<bool>(), 0i64..6, 0i64..4), 1..400)) {
            let mut best = ConsolidatedBest::default();
            let mut venues = [[None; 9]; 2];
            for (venue, is_bid, price, size) in changes {
                let side = if is_bid { Side::Bid } else { Side::Ask };
                let before = best.get(side);
                let changed = if size == 0 { best.remove(venue, side) } else { best.set(venue, side, price, size) };
                venues[usize::from(is_bid)][venue] = (size > 0).then_some((price, size));
                let known = venues[usize::from(is_bid)].iter().enumerate().filter_map(|(v, of)| of.map(|(p, s)| (v, p, s)));
                let expected = known.min_by_key(|(v, p, _)| (if is_bid { -p } else { *p }, *v));
                prop_assert_eq!(best.get(side).map(|b| (b.venue, b.price, b.size)), expected);
                // A change is never passed over; the best venue may state the same price through another change.
                prop_assert!(changed || before == best.get(side));
            }
        }
    }

    #[test]
    fn venues_beyond_the_limit_are_ignored() {
        let mut best = ConsolidatedBest::default();
        assert!(!best.set(MAX_VENUES, Side::Bid, 1, 1));
        best.set(0, Side::Bid, 2, 1);
        best.set(1, Side::Ask, 1, 1);
        assert!(best.is_crossed() && best.get(Side::Bid).is_some());
    }
}
