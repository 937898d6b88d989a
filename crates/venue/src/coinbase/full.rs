//! Coinbase's `full` channel, and `level3`'s frames of the same names: each order from its receipt to its end.
//!
//! | frame | message |
//! |---|---|
//! | `received` | [`Order`], `NONE`: it is in no book yet |
//! | `open` | `ADD` with the size that remains |
//! | `change` | `MODIFY` with the new size |
//! | `match` | `EXECUTE` of the maker's order, with `trade_id` |
//! | `done` | `DELETE`; of an order that was filled, `NONE`: its executions have removed it |
//!
//! `sequence` is one more with each frame of a product. A `match` is of this channel if other frames of it came before.

use crate::fields::BadLine;
use crate::frames::by_symbol::BySymbol;
use crate::frames::chain::Chain;
use crate::frames::ids;
use crate::frames::messages::Messages;
use crate::frames::scalar::Scalar;
use serde::Deserialize;
use tapedb_market::{Order, OrderAction};

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct OrderFrame<'a> {
    #[serde(borrow, rename = "type")]
    kind: Scalar<'a>,
    product_id: Scalar<'a>,
    sequence: Scalar<'a>,
    time: Scalar<'a>,
    side: Scalar<'a>,
    order_id: Scalar<'a>,
    maker_order_id: Scalar<'a>,
    trade_id: Scalar<'a>,
    price: Scalar<'a>,
    new_price: Scalar<'a>,
    size: Scalar<'a>,
    new_size: Scalar<'a>,
    remaining_size: Scalar<'a>,
    reason: Scalar<'a>,
}

/// Numbers of frames, by product; a product is there from its first frame of this channel on.
#[derive(Default)]
pub(super) struct Full(BySymbol<Option<Chain>>);

impl Full {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Whether frames of this channel came before.
    pub(super) fn has(&mut self, product: Scalar<'_>, out: &Messages) -> Result<bool, BadLine> {
        Ok(self.0.of(product.0, out)?.is_some())
    }

    pub(super) fn read(&mut self, frame: &OrderFrame<'_>, out: &mut Messages) -> Result<(), BadLine> {
        let sequence = out.whole(frame.sequence, "sequence")?;
        let executed = frame.kind.0 == "match";
        let (action, id, size) = match (frame.kind.0, frame.reason.0) {
            ("received", _) => (OrderAction::None, frame.order_id, frame.size),
            ("open", _) => (OrderAction::Add, frame.order_id, frame.remaining_size),
            ("change", _) => (OrderAction::Modify, frame.order_id, frame.new_size),
            ("match", _) => (OrderAction::Execute, frame.maker_order_id, frame.size),
            (_, "filled") => (OrderAction::None, frame.order_id, frame.remaining_size),
            _ => (OrderAction::Delete, frame.order_id, frame.remaining_size),
        };
        let price = if frame.new_price.is_empty() { frame.price } else { frame.new_price };
        let number = ids::uuid(id.0);
        let order = Order {
            action,
            side: Some(out.side(frame.side, ["buy", "sell"])?),
            price: out.maybe_decimal(price)?,
            size: out.maybe_decimal(size)?,
            order_id: number.map(|(_, low)| low),
            order_id_high: number.map(|(high, _)| high),
            order_id_text: id.some().filter(|_| number.is_none()).map(Into::into),
            trade_id: if executed { Some(out.whole(frame.trade_id, "trade_id")?) } else { None },
            sequence: Some(sequence),
            match_time: frame.time.some().map(|time| out.iso(Scalar(time))).transpose()?,
            exchange: out.exchange(),
            event_end: true,
            ..Order::default()
        };
        let product = frame.product_id.0;
        let chain = self.0.of(product, out)?.get_or_insert_default();
        chain.follow(product, (sequence, sequence), None, out)?;
        out.push(product, order)
    }
}
