//! Columns of binary floating-point numbers, by their tag.

use super::input::{Input, at_most, beyond};
use super::integers::integers;
use super::numbers::groups;
use crate::damage::Flaw;
use crate::encoding::EncodingError;
use pco::data_types::Number;
use pco::standalone::simple_decompress_into;

/// Integers of decimals are below this, whatever their sign.
const INTEGER_END: u64 = 1 << 51;
const EXPONENT_MAX: u64 = 18;

/// The bits of the `count` floats of `width` bytes, 4 or 8, that `bytes` encode, of runs that end at `ends`; those of 4 bytes
/// zero-extended.
///
/// # Errors
/// When the bytes are not such a column.
pub fn floats(bytes: &[u8], count: usize, ends: &[u32], width: usize) -> Result<Vec<i64>, Flaw> {
    let mut input = Input::new(bytes);
    match input.byte()? {
        0x00 => bits(&mut input, count, ends, width),
        0x01 => decimals(&mut input, count, ends, width),
        0x02 if width == 8 => {
            let mut values = vec![0f64; count];
            pcodec(input.rest(), &mut values)?;
            Ok(values.into_iter().map(|value| value.to_bits() as i64).collect())
        }
        0x02 => {
            let mut values = vec![0f32; count];
            pcodec(input.rest(), &mut values)?;
            Ok(values.into_iter().map(|value| value.to_bits().into()).collect())
        }
        tag => Err(beyond("tag of floats", 2, tag.into())),
    }
}

fn bits(input: &mut Input, count: usize, ends: &[u32], width: usize) -> Result<Vec<i64>, Flaw> {
    let values = integers(input.rest(), count, ends)?;
    Ok(values.into_iter().map(|bits| if width == 8 { bits } else { i64::from(bits as u32) }).collect())
}

fn decimals(input: &mut Input, count: usize, ends: &[u32], width: usize) -> Result<Vec<i64>, Flaw> {
    let (exponent, factor) = (input.byte()?, input.byte()?);
    at_most("exponent", EXPONENT_MAX, exponent.into())?;
    at_most("factor", exponent.into(), factor.into())?;
    let size = input.count("exceptions", count)?;
    let rows = groups(input, size)?;
    let exceptions =
        (0..size).map(|_| Ok(input.number(width)? as i64)).collect::<Result<Vec<i64>, Flaw>>()?;
    let (up, down) = (power(&format!("1e{factor}"))?, power(&format!("1e-{exponent}"))?);
    let mut values = Vec::with_capacity(count);
    for integer in integers(input.rest(), count, ends)? {
        at_most("integer of a decimal", INTEGER_END - 1, integer.unsigned_abs())?;
        // In f64, in this order, and only then in f32.
        let value = integer as f64 * up * down;
        values.push(if width == 8 { value.to_bits() as i64 } else { (value as f32).to_bits().into() });
    }
    for (row, bits) in rows.into_iter().zip(exceptions) {
        let value = usize::try_from(row).ok().and_then(|row| values.get_mut(row));
        *value.ok_or(beyond("row of an exception", count as u64, row as u64))? = bits;
    }
    Ok(values)
}

/// The nearest f64 to a power of ten.
fn power(text: &str) -> Result<f64, Flaw> {
    text.parse().map_err(|_| beyond("exponent", EXPONENT_MAX, u64::MAX))
}

/// Fills `values` from a pcodec file of exactly so many.
pub(super) fn pcodec<T: Number>(bytes: &[u8], values: &mut [T]) -> Result<(), Flaw> {
    match simple_decompress_into(bytes, values) {
        Ok(progress) if progress.finished && progress.n_processed == values.len() => Ok(()),
        _ => Err(Flaw::Encoding(EncodingError::Compressed { by: "pco", offset: 1, have: bytes.len() })),
    }
}
