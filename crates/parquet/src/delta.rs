//! Looks at lengths of texts that are encoded as differences, before the `parquet` crate makes room for as many as they state.
//!
//! `DELTA_BINARY_PACKED`: bytes of a block, mini blocks in it, number of values, first value; then blocks: the least difference, the
//! width of each mini block, and the differences above the least one. Where all are the same the width is 0, so that few bytes state as
//! many lengths as one likes.

/// Most lengths of a page: 64 MiB of memory. A page of a megabyte has some ten thousand.
const LENGTHS_MAX: u64 = 16 << 20;

/// Most bytes of the texts of a page that share their beginnings, each counted whole.
const TEXTS_BYTES_MAX: u64 = 256 << 20;

/// What there is of lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Lengths {
    sum: u64,
    /// Bytes that encode them.
    bytes: usize,
}

/// Checks the values of a page in the encoding `DELTA_LENGTH_BYTE_ARRAY`: lengths, then texts.
///
/// # Errors
/// What is too much, or damaged.
pub fn check_lengths(values: &[u8]) -> Result<(), String> {
    let (_, count) = header(&mut Bits { bytes: values, at: 0 }).ok_or(DAMAGED)?;
    few(count)
}

/// Checks the values of a page in the encoding `DELTA_BYTE_ARRAY`: how many bytes each text shares with the one before, the lengths of
/// the rest, then what they do not share.
///
/// # Errors
/// As [`check_lengths`].
pub fn check_texts(values: &[u8]) -> Result<(), String> {
    check_lengths(values)?;
    let shared = lengths(values).ok_or(DAMAGED)?;
    check_lengths(values.get(shared.bytes..).unwrap_or_default())?;
    let bytes = shared.sum + values.len() as u64;
    if bytes > TEXTS_BYTES_MAX {
        return Err(format!(
            "the texts of a page have {bytes} bytes with what they share; the limit is {TEXTS_BYTES_MAX}: write smaller pages"
        ));
    }
    Ok(())
}

const DAMAGED: &str = "the lengths of the texts of a page are damaged";

fn few(count: u64) -> Result<(), String> {
    match count > LENGTHS_MAX {
        true => Err(format!("a page states {count} texts; the limit is {LENGTHS_MAX}: write smaller pages")),
        false => Ok(()),
    }
}

/// Reads all lengths; `None`: they are damaged.
fn lengths(bytes: &[u8]) -> Option<Lengths> {
    let mut bits = Bits { bytes, at: 0 };
    let ((block, minis), count) = header(&mut bits)?;
    let in_mini = block.checked_div(minis).filter(|values| values % 32 == 0 && *values > 0)?;
    let mut value = bits.integer()? as i32;
    let mut left = count.saturating_sub(1);
    let mut sum = if count == 0 { 0 } else { u64::try_from(value).ok()? };
    while left > 0 {
        let least = bits.integer()? as i32;
        let widths = bits.take(usize::try_from(minis).ok()?)?;
        for width in widths {
            // What follows the last value has no bytes, whatever its width.
            if left == 0 {
                break;
            }
            let bytes = (in_mini / 8).checked_mul(u64::from(*width))?;
            let packed = bits.take(usize::try_from(bytes).ok()?)?;
            for index in 0..left.min(in_mini) {
                let difference = packed_at(packed, index, *width)?;
                value = value.wrapping_add(least).wrapping_add(difference as i32);
                sum = sum.checked_add(u64::try_from(value).ok()?)?;
            }
            left = left.saturating_sub(in_mini);
        }
    }
    Some(Lengths { sum, bytes: bits.at })
}

/// Values of a block, its mini blocks, and the number of all values.
fn header(bits: &mut Bits<'_>) -> Option<((u64, u64), u64)> {
    Some(((bits.number()?, bits.number()?), bits.number()?))
}

/// The number at an index of numbers of so many bits, the lowest of the first byte first.
fn packed_at(packed: &[u8], index: u64, width: u8) -> Option<u32> {
    if width > 32 {
        return None;
    }
    let bit = usize::try_from(index * u64::from(width)).ok()?;
    let mut word = [0; 8];
    let from = packed.get(bit / 8..)?;
    let count = from.len().min(8);
    word[..count].copy_from_slice(&from[..count]);
    let mask = (1u64 << width) - 1;
    Some((u64::from_le_bytes(word) >> (bit % 8) & mask) as u32)
}

struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Bits<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(count)?)?;
        self.at += count;
        Some(taken)
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    fn integer(&mut self) -> Option<i64> {
        let number = self.number()?;
        Some((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 128 values of a block, 4 mini blocks, a number of values.
    fn head(count: u64) -> Vec<u8> {
        let mut bytes = vec![0x80, 1, 4];
        let mut rest = count;
        while rest > 0x7f {
            bytes.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        bytes.push(rest as u8);
        bytes
    }

    #[test]
    fn lengths_are_summed() {
        // 7, then 32 differences of 1 (least one) and 3 of 1 + 2 of two bits, whose mini block is whole.
        let mut bytes = head(36);
        bytes.extend([14, 2, 0, 2, 9, 9]);
        bytes.extend([0b0010_1010, 0, 0, 0, 0, 0, 0, 0]);
        let sum = (7..=39).sum::<u64>() + 42 + 45 + 48;
        assert_eq!(lengths(&bytes), Some(Lengths { sum, bytes: bytes.len() }));
        for cut in 0..bytes.len() {
            assert_eq!(lengths(&bytes[..cut]), None, "{cut}");
        }
        assert_eq!(lengths(&[&head(1)[..], &[9]].concat()), None, "a negative length");
        assert_eq!(lengths(&[&head(0)[..], &[0]].concat()), Some(Lengths { sum: 0, bytes: 5 }));
    }

    #[test]
    fn few_bytes_that_state_many_texts_are_refused() {
        let many = [&head(u64::from(u32::MAX))[..], &[0]].concat();
        assert!(check_lengths(&many).unwrap_err().contains("4294967295 texts"));
        assert!(check_texts(&many).is_err());
        // 1,000 texts of a megabyte each, of which all but the first share it.
        let mut bytes = head(1_000);
        bytes.extend([0x80, 0x80, 0x80, 1]);
        for _ in 0..8 {
            bytes.extend([0, 0, 0, 0, 0]);
        }
        let shared = lengths(&bytes).unwrap();
        assert_eq!(shared, Lengths { sum: 1_000 << 20, bytes: bytes.len() });
        bytes.extend([&head(1_000)[..], &[0]].concat());
        assert!(check_texts(&bytes).unwrap_err().contains("with what they share"));
    }
}
