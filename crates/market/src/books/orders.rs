//! A book by order (L3) of one symbol at one venue: each order with its place in the queue at its price.
//!
//! Always true: `table` has exactly the orders in `nodes` that are not free; a price of a side has a queue exactly if an order rests
//! there; a queue's size and count are those of its orders, which are linked from the oldest to the newest. What all orders of a price
//! have in common is in their queue, so that an order takes 32 bytes.

use super::ladder::Ladder;
use super::prices::{PriceLevel, key};
use super::slab::{NONE, Slab};
use super::table::IdTable;
use crate::Side;
use std::fmt;
use tapedb_codec::Enumeration;

/// Most orders of one book.
pub const MAX_ORDERS: usize = 1 << 26;

/// How an order came into the book, and so how much is known of its place in the queue.
#[derive(Enumeration, Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Arrival {
    /// It was seen to arrive behind all others at its price.
    #[default]
    Observed,
    /// It comes from a snapshot, in whose order it stands.
    Seeded,
    /// Orders that the book does not have may be before it.
    Unknown,
}

impl Arrival {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Observed => "observed",
            Self::Seeded => "seeded",
            Self::Unknown => "unknown",
        }
    }
}

/// An order in a book.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestingOrder {
    /// The venue's number.
    pub id: u64,
    /// Side.
    pub side: Side,
    /// Price in units of the book.
    pub price: i64,
    /// What is left of it, in units of the book.
    pub size: i64,
    /// How it came into the book.
    pub arrival: Arrival,
}

/// What is before an order at its price.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuePosition {
    /// Orders before it.
    pub orders_ahead: u32,
    /// Their size.
    pub size_ahead: i64,
    /// How much of that is known.
    pub arrival: Arrival,
}

/// A change that does not fit the book.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderFault {
    /// No such order: nothing has changed.
    Absent,
    /// The number was in the book: the new order is in its place.
    Duplicate,
    /// More is removed than there was: the order is removed.
    Oversized,
    /// The sum of sizes at a price does not fit 64 bits, or there are [`MAX_ORDERS`]: nothing has changed.
    TooLarge,
}

impl fmt::Display for OrderFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Absent => "the order is not in the book",
            Self::Duplicate => "the order's number is in the book already",
            Self::Oversized => "more is removed than is left of the order",
            Self::TooLarge => "the sum of sizes at a price, or the number of orders, is too large",
        })
    }
}

impl std::error::Error for OrderFault {}

/// An order without what its queue has.
#[derive(Debug, Clone, Copy)]
struct Node {
    id: u64,
    size: i64,
    queue: u32,
    before: u32,
    behind: u32,
    arrival: Arrival,
}

#[derive(Debug, Clone, Copy)]
struct Queue {
    /// The price, where greater is better.
    key: i64,
    size: i64,
    orders: u32,
    first: u32,
    last: u32,
    side: Side,
}

const _: () = assert!(size_of::<Node>() == 32 && size_of::<Queue>() == 32);

/// The book; see above.
///
/// ```
/// use tapedb_market::{Arrival, OrderBook, Side};
/// let mut book = OrderBook::default();
/// book.add(1, Side::Bid, 100, 5, Arrival::Observed)?;
/// book.add(2, Side::Bid, 100, 7, Arrival::Observed)?;
/// assert_eq!(book.position(2).map(|position| position.size_ahead), Some(5));
/// # Ok::<(), tapedb_market::OrderFault>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct OrderBook {
    table: IdTable,
    nodes: Slab<Node>,
    queues: Slab<Queue>,
    bids: Ladder<u32>,
    asks: Ladder<u32>,
    len: usize,
    best_changes: u64,
}

impl OrderBook {
    /// Adds an order behind the others of its price.
    ///
    /// # Errors
    /// [`OrderFault::Duplicate`], [`OrderFault::TooLarge`].
    #[inline]
    pub fn add(
        &mut self,
        id: u64,
        side: Side,
        price: i64,
        size: i64,
        arrival: Arrival,
    ) -> Result<(), OrderFault> {
        let is_duplicate = match self.find(id) {
            None => false,
            Some(node) => {
                self.take(node);
                true
            }
        };
        self.put(RestingOrder { id, side, price, size, arrival })?;
        if is_duplicate { Err(OrderFault::Duplicate) } else { Ok(()) }
    }

    /// Removes a size from an order: a cancelled part, or an execution. Without anything left, the order is removed.
    ///
    /// # Errors
    /// [`OrderFault::Absent`], [`OrderFault::Oversized`].
    #[inline]
    pub fn reduce(&mut self, id: u64, size: i64) -> Result<(), OrderFault> {
        let at = self.find(id).ok_or(OrderFault::Absent)?;
        self.reduce_at(at, size)
    }

    #[inline]
    fn reduce_at(&mut self, at: u32, size: i64) -> Result<(), OrderFault> {
        let node = self.nodes.get_mut(at);
        if size >= node.size {
            let is_oversized = size > node.size;
            self.take(at);
            return if is_oversized { Err(OrderFault::Oversized) } else { Ok(()) };
        }
        node.size -= size;
        let queue = self.queues.get_mut(node.queue);
        queue.size -= size;
        let (side, key) = (queue.side, queue.key);
        self.note_change(side, key);
        Ok(())
    }

    /// Removes an order.
    ///
    /// # Errors
    /// [`OrderFault::Absent`].
    #[inline]
    pub fn remove(&mut self, id: u64) -> Result<RestingOrder, OrderFault> {
        let at = self.find(id).ok_or(OrderFault::Absent)?;
        Ok(self.take(at))
    }

    /// Changes price and size of an order. It keeps its place in the queue if only its size becomes less.
    ///
    /// # Errors
    /// [`OrderFault::Absent`], [`OrderFault::TooLarge`]; the order is then no longer in the book.
    #[inline]
    pub fn modify(&mut self, id: u64, price: i64, size: i64) -> Result<(), OrderFault> {
        let at = self.find(id).ok_or(OrderFault::Absent)?;
        let old = self.resting(self.nodes.get(at));
        if price == old.price && size > 0 && size <= old.size {
            return self.reduce_at(at, old.size - size);
        }
        self.take(at);
        self.put(RestingOrder { price, size, arrival: behind_all(old.arrival), ..old })
    }

    /// Removes an order and adds another one of its side, behind all others of its price.
    ///
    /// # Errors
    /// [`OrderFault::Absent`]: without the old order the new one's side is not known, and nothing has changed. Those of
    /// [`OrderBook::add`].
    #[inline]
    pub fn replace(&mut self, old: u64, id: u64, price: i64, size: i64) -> Result<(), OrderFault> {
        let old = self.remove(old)?;
        self.add(id, old.side, price, size, behind_all(old.arrival))
    }

    /// Whether something is at an order's home.
    #[inline]
    pub(super) fn looks_near(&self, id: u64) -> bool {
        self.table.is_taken(id)
    }

    /// Number of orders.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no orders.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// An order.
    pub fn order(&self, id: u64) -> Option<RestingOrder> {
        self.find(id).map(|at| self.resting(self.nodes.get(at)))
    }

    /// What is before an order. This walks over the orders before it.
    pub fn position(&self, id: u64) -> Option<QueuePosition> {
        let node = self.nodes.get(self.find(id)?);
        let mut position = QueuePosition { orders_ahead: 0, size_ahead: 0, arrival: node.arrival };
        let mut at = node.before;
        while at != NONE {
            let node = self.nodes.get(at);
            position.orders_ahead += 1;
            position.size_ahead += node.size;
            at = node.before;
        }
        Some(position)
    }

    /// Best level of a side.
    #[inline]
    pub fn best(&self, side: Side) -> Option<PriceLevel> {
        let (_, queue) = self.side(side).best()?;
        Some(self.level(queue))
    }

    /// Best price of a side, where greater is better.
    #[inline]
    pub(super) fn best_key(&self, side: Side) -> Option<i64> {
        self.side(side).best_key()
    }

    /// Another number if a best level may have changed: nothing else need be done again then.
    #[inline]
    pub(super) fn best_changes(&self) -> u64 {
        self.best_changes
    }

    /// Levels of a side, best first.
    pub fn levels(&self, side: Side) -> impl Iterator<Item = PriceLevel> + '_ {
        self.side(side).iter().map(move |(_, queue)| self.level(queue))
    }

    /// Orders of a side: best price first, of a price the oldest first.
    pub fn orders(&self, side: Side) -> impl Iterator<Item = RestingOrder> + '_ {
        self.side(side).iter().flat_map(move |(_, queue)| {
            let first = self.queues.get(queue).first;
            let next = |at: &u32| Some(self.nodes.get(*at).behind).filter(|at| *at != NONE);
            std::iter::successors(Some(first), next).map(|at| self.resting(self.nodes.get(at)))
        })
    }

    /// Number of levels of a side.
    pub fn depth(&self, side: Side) -> usize {
        self.side(side).len()
    }

    /// Removes all orders of a side.
    pub fn clear_side(&mut self, side: Side) {
        let ids: Vec<u64> = self.orders(side).map(|order| order.id).collect();
        for id in ids {
            // They are all in the book.
            let _ = self.remove(id);
        }
    }

    /// Removes all orders.
    pub fn clear(&mut self) {
        self.table.clear();
        self.nodes.clear();
        self.queues.clear();
        self.bids.clear();
        self.asks.clear();
        self.len = 0;
        self.best_changes += 1;
    }

    #[inline]
    fn find(&self, id: u64) -> Option<u32> {
        self.table.get(id, |node| self.nodes.get(node).id == id)
    }

    #[inline]
    fn resting(&self, node: &Node) -> RestingOrder {
        let Node { id, size, arrival, .. } = *node;
        let Queue { key: at, side, .. } = *self.queues.get(node.queue);
        RestingOrder { id, side, price: key(side, at), size, arrival }
    }

    /// Something at this price is new, has changed, or is about to go.
    #[inline]
    fn note_change(&mut self, side: Side, key: i64) {
        self.best_changes += u64::from(self.side(side).best_key().is_none_or(|best| key >= best));
    }

    /// Adds an order that is not in the book.
    #[inline]
    fn put(&mut self, order: RestingOrder) -> Result<(), OrderFault> {
        if self.len >= MAX_ORDERS {
            return Err(OrderFault::TooLarge);
        }
        let RestingOrder { id, side, price, size, arrival } = order;
        let at = key(side, price);
        let queue = match self.side(side).get(at) {
            Some(queue) => queue,
            None => {
                let empty = Queue { key: at, size: 0, orders: 0, first: NONE, last: NONE, side };
                let queue = self.queues.insert(empty);
                self.side_mut(side).set(at, queue);
                queue
            }
        };
        let line = self.queues.get_mut(queue);
        // A new queue is empty: the sum fits.
        line.size = line.size.checked_add(size).ok_or(OrderFault::TooLarge)?;
        line.orders += 1;
        let before = line.last;
        let node = self.nodes.insert(Node { id, size, queue, before, behind: NONE, arrival });
        line.last = node;
        match before {
            NONE => line.first = node,
            _ => self.nodes.get_mut(before).behind = node,
        }
        self.table.insert(id, node);
        self.len += 1;
        self.note_change(side, at);
        Ok(())
    }

    /// Takes an order out of table, queue and, if it was the last one there, side.
    #[inline]
    fn take(&mut self, at: u32) -> RestingOrder {
        let Node { id, size, queue, before, behind, arrival } = *self.nodes.get(at);
        self.table.remove(id, at);
        self.nodes.remove(at);
        self.len -= 1;
        let line = self.queues.get_mut(queue);
        line.size -= size;
        line.orders -= 1;
        match before {
            NONE => line.first = behind,
            _ => self.nodes.get_mut(before).behind = behind,
        }
        match behind {
            NONE => line.last = before,
            _ => self.nodes.get_mut(behind).before = before,
        }
        let Queue { key: at, side, orders, .. } = *line;
        self.note_change(side, at);
        if orders == 0 {
            self.queues.remove(queue);
            self.side_mut(side).remove(at);
        }
        RestingOrder { id, side, price: key(side, at), size, arrival }
    }

    #[inline]
    fn level(&self, queue: u32) -> PriceLevel {
        let Queue { key: at, side, size, orders, .. } = *self.queues.get(queue);
        PriceLevel { price: key(side, at), size, orders }
    }

    #[inline]
    fn side(&self, side: Side) -> &Ladder<u32> {
        match side {
            Side::Bid => &self.bids,
            Side::Ask => &self.asks,
        }
    }

    #[inline]
    fn side_mut(&mut self, side: Side) -> &mut Ladder<u32> {
        match side {
            Side::Bid => &mut self.bids,
            Side::Ask => &mut self.asks,
        }
    }
}

/// An order that has lost its place is seen to stand behind all others; where some of these are not known, it stays so.
fn behind_all(arrival: Arrival) -> Arrival {
    match arrival {
        Arrival::Unknown => Arrival::Unknown,
        Arrival::Observed | Arrival::Seeded => Arrival::Observed,
    }
}
