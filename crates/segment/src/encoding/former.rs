//! What version 0.1 of TapeDB made of columns that it decoded wrongly.
//!
//! It took the narrow path for groups of width 0 without counting the bits of their exceptions (see [`Sums::fits`]), so that
//! differences times their divisor overflowed 32 bits. The bytes are right; readers of that version got values 2^32 too small,
//! or a multiple of it. Decoding them that way again finds which.

use super::EncodingError;
use super::bytes::{Reader, bit_width};
use super::delta::Sums;
use super::groups::GROUP;
use super::ints::decode_ints;
use super::packed::{EXCEPTION_BITS, Packed, Sink};
use super::runs::Runs;
use super::scaled::read_scale;
use super::strip::{OFFSET_BITS, Strip};

/// Differences, scaled by one divisor: no others were affected.
const DELTA_SCALED: u8 = 0x43;
/// Bits of 128.
const GROUP_BITS: usize = 7;

/// How many of the `count` integers that `bytes` encode version 0.1 decoded to others; `runs` as they were encoded with.
///
/// # Errors
/// When the bytes are not such a column.
pub(crate) fn misread(bytes: &[u8], count: usize, runs: &[u32]) -> Result<usize, EncodingError> {
    if bytes.first() != Some(&DELTA_SCALED) {
        return Ok(0);
    }
    let (mut right, mut former) = (Vec::new(), vec![0; count]);
    decode_ints(bytes, count, runs, &mut right)?;
    let runs = Runs::new(runs, count)?;
    let mut reader = Reader::new(bytes);
    let tag = reader.byte()?;
    let scale = read_scale(&mut reader, tag)?;
    let firsts = Packed::read(&mut reader, runs.len())?;
    let deltas = Packed::read(&mut reader, count)?;
    let mut sums = Former(Sums::new(scale, runs, &firsts, 0..count), scale.divisor);
    deltas.decode_into(0, 0..count, &mut sums, &mut former);
    Ok(right.iter().zip(&former).filter(|(right, former)| right != former).count())
}

/// Sums as version 0.1 made them, and their divisor.
struct Former<'a>(Sums<'a>, i64);

impl Sink for Former<'_> {
    fn fits(&self, base: i64, width: u8) -> bool {
        let bits = if width == 0 { 0 } else { usize::from(width.max(EXCEPTION_BITS)) };
        let step = self.1.saturating_mul(base).unsigned_abs();
        bits + bit_width(self.1 as u64) + GROUP_BITS < OFFSET_BITS - 1
            && bit_width(step) + GROUP_BITS < OFFSET_BITS - 1
    }

    fn same(&mut self, base: i64, strip: &mut Strip) {
        self.0.same(base, strip);
    }

    fn narrow(&mut self, base: i64, payload: &[u8], width: u8, strip: &mut Strip) {
        self.0.narrow(base, payload, width, strip);
    }

    fn patched(&mut self, base: i64, strip: &mut Strip) {
        self.0.patched(base, strip);
    }

    fn wide(&mut self, base: i64, payload: &[u8], width: u8, strip: &mut Strip) -> bool {
        self.0.wide(base, payload, width, strip)
    }

    fn settle(&mut self, strip: &mut Strip, count: usize) {
        self.0.settle(strip, count);
    }
}

const _: () = assert!(1 << GROUP_BITS == GROUP);

#[cfg(test)]
mod tests {
    use super::super::{Tier, encode_ints};
    use super::*;

    /// Times at a few milliseconds from each other, but for 128 in the same one with a pause among them.
    fn times(pause_ms: i64) -> Vec<i64> {
        let mut time = 1_700_000_000_000_000_000;
        let step = |i: i64| match (i / 128, i % 128) {
            (20, 64) => pause_ms,
            (20, _) => 0,
            _ => i * i % 7,
        };
        let mut next = |i: i64| {
            time += step(i) * 1_000_000;
            time
        };
        (0..5_248).map(&mut next).collect()
    }

    #[test]
    fn what_version_0_1_read_wrongly_is_found() {
        for (pause_ms, is_misread) in [(1, false), (2_147, false), (2_148, true), (5_000, true)] {
            let (times, mut bytes) = (times(pause_ms), Vec::new());
            encode_ints(&times, &[], Tier::Hot, &mut bytes);
            assert_eq!(bytes[0], DELTA_SCALED, "or the test proves nothing");
            let found = misread(&bytes, times.len(), &[]).unwrap();
            assert_eq!(found > 0, is_misread, "{pause_ms} ms: {found}");
        }
    }

    #[test]
    fn other_encodings_were_read_rightly() {
        let values: Vec<i64> = (0..1_000).map(|i| i * i % 977).collect();
        let mut bytes = Vec::new();
        encode_ints(&values, &[], Tier::Hot, &mut bytes);
        assert_eq!(misread(&bytes, values.len(), &[]), Ok(0));
        assert_eq!(misread(&[], 0, &[]), Ok(0));
        assert!(misread(&[DELTA_SCALED], 5, &[]).is_err());
    }
}
