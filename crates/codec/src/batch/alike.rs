//! Batches whose rows are alike: what a writer needs of them, without finding each row.

use super::{BatchHeader, HEADER_BYTES};

/// The columns of a batch whose rows have one type and one length, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alike {
    /// The largest id of a symbol.
    pub symbol_max: u32,
    /// Where the bodies begin in the batch, header included; each has the header's `length_const` bytes.
    pub bodies_start: usize,
}

impl Alike {
    /// Checks the columns of a batch whose header was parsed. `None` where rows differ in type or length, and where anything
    /// is wrong: [`Rows::load_parsed`](super::Rows::load_parsed) reports what. `Some` only where that would succeed, or, of a batch
    /// of columns, [`Rows::load_places`](super::Rows::load_places): the columns of fields begin with their directory.
    pub fn of(header: &BatchHeader, batch: &[u8]) -> Option<Self> {
        if header.type_width != 0 || header.length_width != 0 || batch.len() != header.batch_bytes() {
            return None;
        }
        let columns = batch.get(HEADER_BYTES..HEADER_BYTES + header.column_bytes())?;
        let (times, symbols) =
            columns.split_at_checked(usize::from(header.time_width) * header.count as usize)?;
        let symbol_max = match header.symbol_width {
            1 => largest(symbols, u8::from_le_bytes).into(),
            2 => largest(symbols, u16::from_le_bytes).into(),
            4 => largest(symbols, u32::from_le_bytes),
            _ => header.symbol_const,
        };
        let bodies_start = HEADER_BYTES + columns.len();
        times_agree(header, times).then_some(Self { symbol_max, bodies_start })
    }
}

fn times_agree(header: &BatchHeader, times: &[u8]) -> bool {
    let (is_sorted, latest) = match header.time_width {
        0 => (true, 0),
        1 => order_of(times, |cell: [u8; 1]| cell[0].into()),
        2 => order_of(times, |cell| u16::from_le_bytes(cell).into()),
        4 => order_of(times, |cell| u32::from_le_bytes(cell).into()),
        _ => order_of(times, u64::from_le_bytes),
    };
    let range = header.time_max.wrapping_sub(header.time_min).cast_unsigned();
    latest == range && is_sorted == header.sorted()
}

/// Whether times never decrease, and how long after the earliest the latest is.
fn order_of<const N: usize>(column: &[u8], delta: impl Fn([u8; N]) -> u64) -> (bool, u64) {
    let cells = column.as_chunks::<N>().0;
    let later = cells.get(1..).unwrap_or_default();
    // Counted, not tested with `all`: a loop without an exit is vectorised.
    let is_sorted = cells.iter().zip(later).map(|(&a, &b)| u32::from(delta(b) < delta(a))).sum::<u32>() == 0;
    let latest = match is_sorted {
        true => cells.last().map(|&cell| delta(cell)),
        false => cells.iter().map(|&cell| delta(cell)).max(),
    };
    (is_sorted, latest.unwrap_or(0))
}

fn largest<const N: usize, T: Ord + Default + Copy>(column: &[u8], id: impl Fn([u8; N]) -> T) -> T {
    column.as_chunks::<N>().0.iter().fold(T::default(), |largest, &cell| largest.max(id(cell)))
}
