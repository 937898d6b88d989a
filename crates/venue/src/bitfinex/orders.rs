//! Books of orders (`R0`): number, price and amount of each order.
//!
//! Always true: `known` has at most [`ORDERS_MAX`] numbers of all channels together.

use super::Channel;
use crate::fields::BadLine;
use crate::frames::messages::{Messages, is_zero};
use crate::frames::scalar::Scalar;
use std::collections::{BTreeMap, HashSet};
use tapedb_market::{Order, OrderAction, Side};

/// Most orders of a connection.
const ORDERS_MAX: usize = 1 << 20;

/// The orders that are there, by channel: the venue does not say whether an order is new.
#[derive(Default)]
pub(super) struct Orders {
    known: BTreeMap<u64, HashSet<u64>>,
    count: usize,
}

impl Orders {
    /// A channel begins, or is gone.
    pub(super) fn forget(&mut self, channel: u64) {
        self.count -= self.known.remove(&channel).map_or(0, |known| known.len());
    }

    /// One order, or a list of them, which is the whole book.
    pub(super) fn read(
        &mut self,
        (number, channel, sequence): (u64, &Channel, Option<u64>),
        data: &str,
        out: &mut Messages,
    ) -> Result<(), BadLine> {
        let snapshot = data.starts_with("[[") || data == "[]";
        if !snapshot {
            let order = self.order(number, &out.json::<Vec<_>>(data)?, out)?;
            return out.push(&channel.symbol, Order { sequence, event_end: true, ..order });
        }
        self.forget(number);
        let rows: Vec<Vec<Scalar<'_>>> = out.json(data)?;
        let clear = Order { action: OrderAction::Clear, exchange: out.exchange(), ..Order::default() };
        let event_end = rows.is_empty();
        out.push(&channel.symbol, Order { snapshot: true, sequence, event_end, ..clear })?;
        for (place, row) in rows.iter().enumerate() {
            let order = self.order(number, row, out)?;
            let event_end = place + 1 == rows.len();
            out.push(&channel.symbol, Order { snapshot: true, sequence, event_end, ..order })?;
        }
        Ok(())
    }

    /// At price 0, the order is gone; a negative amount is one of an ask.
    fn order(&mut self, channel: u64, row: &[Scalar<'_>], out: &mut Messages) -> Result<Order, BadLine> {
        let &[id, price, amount] = row else {
            let place = row.first().map_or("", |first| first.0);
            return Err(out.bad(place, "number, price and amount of an order"));
        };
        let order_id = out.whole(id, "number of the order")?;
        let size = amount.0.strip_prefix('-').unwrap_or(amount.0);
        let side = if size.len() == amount.0.len() { Side::Bid } else { Side::Ask };
        let (number, size) = (out.decimal(price)?, out.decimal(Scalar(size))?);
        let order = Order {
            side: Some(side),
            order_id: Some(order_id),
            exchange: out.exchange(),
            ..Order::default()
        };
        let known = self.known.entry(channel).or_default();
        if is_zero(number) {
            self.count -= usize::from(known.remove(&order_id));
            return Ok(Order { action: OrderAction::Delete, ..order });
        }
        let is_new = !known.contains(&order_id);
        if is_new && self.count >= ORDERS_MAX {
            return Err(out.bad(id.0, format!("books of at most {ORDERS_MAX} orders")));
        }
        if is_new {
            known.insert(order_id);
            self.count += 1;
        }
        let action = if is_new { OrderAction::Add } else { OrderAction::Modify };
        Ok(Order { action, price: Some(number), size: Some(size), ..order })
    }
}
