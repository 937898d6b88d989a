//! Columns of true and false.

use super::input::{Input, at_most, beyond};
use crate::damage::Flaw;

/// The `count` values that `bytes` encode: one byte for all, or a bit for each.
///
/// # Errors
/// When the bytes are not such a column.
pub fn bits(bytes: &[u8], count: usize) -> Result<Vec<bool>, Flaw> {
    let mut input = Input::new(bytes);
    let values = match input.byte()? {
        0 => vec![false; count],
        1 => vec![true; count],
        2 => {
            let bytes = input.take(count.div_ceil(8))?;
            let mut bits = bytes.iter().flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1 == 1));
            let values = bits.by_ref().take(count).collect();
            at_most("spare bits", 0, bits.filter(|bit| *bit).count() as u64)?;
            values
        }
        tag => return Err(beyond("tag of bits", 2, tag.into())),
    };
    input.end()?;
    Ok(values)
}
