//! A second decoder of blocks: slow, plain, and written from `docs/format/segment.md` and `segment-encodings.md` alone.
//!
//! The decoder that reads ([`Decoder`](crate::Decoder)) takes narrow ways wherever values allow it, and so could be wrong
//! without a word. This one has no such ways: every number is 64 bits or more, one function decodes each encoding, columns
//! are decoded whole, and bodies are assembled value by value. The two share the schema's layouts, the names of errors,
//! and the libraries for CRC, pcodec, LZ4 and deflate, and nothing else: so that what both return is what was written.
//! `tapedb check --thorough`, the tests and the fuzz targets compare them.
//!
//! It also refuses what the other one need not check: rows out of order, times and sequence numbers that the head has
//! wrongly, presence that is neither 0 nor 1. Any bytes give rows or an error, never a panic. Memory is bounded by
//! some multiples of the bytes of bodies that a block may have; each is claimed before it is made.

mod bits;
mod bodies;
mod column;
mod decimals;
mod floats;
mod head;
mod input;
mod integers;
mod numbers;
mod order;
mod pieces;
mod runs;
mod texts;

pub use bits::bits;
pub use floats::floats;
pub use integers::integers;
pub use pieces::Pieces;
pub use texts::texts;

use crate::damage::{Damage, Flaw};
use crate::plan::Plan;
use crate::row::RowHeader;
use bodies::Bodies;
use head::Head;
use order::Order;

/// The values of one column of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Index of the group in the block; 65,535: the block's own columns.
    pub group: u16,
    /// Number of the column in its group.
    pub column: u16,
    /// The values: the block's own in order of rows, those of a group in the order of lanes.
    pub values: Values,
}

/// Values of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Values {
    /// Numbers; floats and decimals by their bits, those of `f32` zero-extended.
    Numbers(Vec<i64>),
    /// Texts: one for each value.
    Texts(Pieces),
}

/// Calls `each` with every row of a block, in their order: its header and its body. `block` are all bytes of the block, head
/// and columns. Everything is decoded before the first call.
///
/// # Errors
/// When a byte of the block is not what a writer would have written. `each` has not been called then. The damage has the offset
/// in the block it is.
pub fn rows(block: &[u8], plan: &Plan, mut each: impl FnMut(RowHeader, &[u8])) -> Result<(), Damage> {
    let decoded = Decoded::of(block, plan)?;
    for (row, place) in decoded.order.places.iter().enumerate() {
        let lane = &decoded.order.lanes[place.lane];
        let header = RowHeader {
            time: decoded.order.times[row],
            sequence: decoded.order.sequences[row],
            symbol: lane.symbol,
            type_id: lane.type_id,
        };
        each(header, decoded.bodies[lane.group].get(place.index));
    }
    Ok(())
}

/// The values of all columns that rows need, in the order of groups and columns. A column that is not in the block because
/// it has no values, or because all of a field's values are there, is not in the list.
///
/// # Errors
/// As [`rows`].
pub fn columns(block: &[u8], plan: &Plan) -> Result<Vec<Column>, Damage> {
    let mut columns = Decoded::of(block, plan)?.columns;
    columns.sort_by_key(|column| (column.group.wrapping_add(1), column.column));
    Ok(columns)
}

/// A block in memory, decoded.
struct Decoded {
    order: Order,
    /// Bodies of each group, in the order of lanes.
    bodies: Vec<Pieces>,
    columns: Vec<Column>,
}

impl Decoded {
    fn of(block: &[u8], plan: &Plan) -> Result<Self, Damage> {
        let head = Head::read(block)?;
        let mut columns = Vec::new();
        let order = Order::read(&head, &mut columns)?;
        let mut left = head.body_bytes;
        let mut bodies = Vec::new();
        for group in 0..head.groups.len() {
            let made = Bodies::of(&head, group, order.runs_of(group), plan.layouts(), left, &mut columns)?;
            let flaw =
                Flaw::Mismatch { what: "bytes of bodies", need: left as u64, have: made.bytes() as u64 };
            left = left.checked_sub(made.bytes()).ok_or_else(|| head::damage(flaw))?;
            bodies.push(made);
        }
        let flaw = Flaw::Mismatch { what: "bytes that no body has", need: 0, have: left as u64 };
        if left == 0 { Ok(Self { order, bodies, columns }) } else { Err(head::damage(flaw)) }
    }
}
