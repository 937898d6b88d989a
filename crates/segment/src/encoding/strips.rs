//! A column of integers strip by strip, for callers that use each strip while it is in registers instead of all values later.

use std::ops::Range;

use super::EncodingError;
use super::bytes::Reader;
use super::delta::Sums;
use super::groups::GROUP;
use super::ints::IntEncoding;
use super::packed::{Cursor, Packed, Scale};
use super::runs::Runs;
use super::scaled::{read_scale, read_scales};
use super::strip::{OFFSET_BITS, Strip};
use crate::simd::widest;

/// What is left of a column that is made of groups.
pub(crate) struct Strips<'a> {
    packed: Packed<'a>,
    cursor: Cursor<'a>,
    then: Then<'a>,
    group: usize,
    runs: Runs<'a>,
    /// The scale of each run, if each has its own.
    scales: Vec<Scale>,
    /// The run of the first row of the next group.
    run: usize,
}

/// What becomes of the numbers in the groups.
enum Then<'a> {
    Values(Scale),
    Sums(Sums<'a>),
}

impl<'a> Strips<'a> {
    /// The first strip of `count` values that [`encode_ints`](super::encode_ints) wrote with runs that end at `ends`;
    /// `None` if it encoded them in a way that does not come in strips.
    ///
    /// # Errors
    ///
    /// When the bytes are not such a column.
    pub fn open(bytes: &'a [u8], count: usize, ends: &'a [u32]) -> Result<Option<Self>, EncodingError> {
        let mut reader = Reader::new(bytes);
        let tag = reader.byte()?;
        let encoding = IntEncoding::of(&[tag]);
        if !matches!(encoding, Some(IntEncoding::Packed | IntEncoding::Delta)) {
            return Ok(None);
        }
        let runs = Runs::new(ends, count)?;
        let scales = read_scales(&mut reader, tag, runs)?;
        let (packed, then) = match encoding {
            Some(IntEncoding::Packed) => {
                let scale = read_scale(&mut reader, tag)?;
                (Packed::read(&mut reader, count)?, Then::Values(scale))
            }
            _ => {
                let scale = read_scale(&mut reader, tag)?;
                let firsts = Packed::read(&mut reader, runs.len())?;
                let packed = Packed::read(&mut reader, count)?;
                (packed, Then::Sums(Sums::new(scale, runs, &firsts, 0..count)))
            }
        };
        reader.finish()?;
        let cursor = packed.cursor_at(0);
        Ok(Some(Self { packed, cursor, then, group: 0, runs, scales, run: 0 }))
    }

    /// Makes `strip` the next one. Behind the last one it stays as it is.
    pub fn next(&mut self, strip: &mut Strip) {
        if self.group == self.packed.groups() {
            return;
        }
        match &mut self.then {
            Then::Values(scale) => self.packed.decode_group(self.group, &mut self.cursor, scale, strip),
            Then::Sums(sums) => self.packed.decode_group(self.group, &mut self.cursor, sums, strip),
        }
        if !self.scales.is_empty() {
            self.scale(strip);
        }
        self.group += 1;
    }

    /// Scales a strip, each run by its own.
    fn scale(&mut self, strip: &mut Strip) {
        if strip.is_narrow && !self.scale_narrow(strip) {
            strip.widen();
        }
        if !strip.is_narrow {
            for (places, scale) in self.parts() {
                strip.wide[places].iter_mut().for_each(|value| *value = scale.apply(*value));
            }
        }
        let end = (self.group + 1) * GROUP;
        while self.runs.start(self.run + 1).is_some_and(|start| start <= end) {
            self.run += 1;
        }
    }

    /// `false` if the scaled values do not fit a narrow strip, which is left as it was then. A value is its run's scale of the
    /// base, which is `distance` from that of the strip's first run, plus an offset times the divisor: both are checked and
    /// below 2^28, so offsets stay below 2^29. Bytes after a short group's end are checked too, and may make it wide.
    fn scale_narrow(&self, strip: &mut Strip) -> bool {
        let reach = widest(
            #[inline(always)]
            || strip.offsets.iter().fold(0, |reach, offset| (*offset as i32).unsigned_abs().max(reach)),
        );
        let base = self.scales.get(self.run).map_or(0, |scale| scale.apply(strip.base));
        let distance = |scale: Scale| scale.apply(strip.base).wrapping_sub(base);
        let fits = |scale: Scale| {
            u64::from(reach).saturating_mul(scale.divisor as u64) < 1 << (OFFSET_BITS - 1)
                && distance(scale).unsigned_abs() < 1 << (OFFSET_BITS - 1)
        };
        if !self.parts().all(|(_, scale)| fits(scale)) {
            return false;
        }
        for (places, scale) in self.parts() {
            let (divisor, distance) = (scale.divisor as u32, distance(scale) as u32);
            let offsets = &mut strip.offsets[places];
            widest(
                #[inline(always)]
                || {
                    for offset in offsets {
                        *offset = offset.wrapping_mul(divisor).wrapping_add(distance);
                    }
                },
            );
        }
        strip.base = base;
        true
    }

    /// The runs in this group, and their scales.
    fn parts(&self) -> impl Iterator<Item = (Range<usize>, Scale)> {
        let (start, end) = (self.group * GROUP, (self.group + 1) * GROUP);
        self.scales.iter().enumerate().skip(self.run).map_while(move |(run, scale)| {
            let from = self.runs.start(run)?.max(start);
            let until = self.runs.start(run + 1).map_or(end, |next| next.min(end));
            (from < end).then_some((from - start..until - start, *scale))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::{Tier, encode_ints};

    /// Runs of any length, each with its own tick: what comes in strips is what was encoded.
    #[test]
    fn runs_with_scales_of_their_own_come_in_strips() {
        for ticks in [[10, 25, 4], [10, 1 << 40, 3]] {
            let ends = [130u32, 131, 300, 640, 1_000];
            let value = |i: usize| {
                let run = ends.partition_point(|end| *end as usize <= i);
                let tick = ticks[run % 3];
                run as i64 * 7 + tick * (1_000 + (i * i % 50) as i64)
            };
            let values: Vec<i64> = (0..1_000).map(value).collect();
            let mut bytes = Vec::new();
            encode_ints(&values, &ends, Tier::Hot, &mut bytes);
            assert_eq!(bytes[0] & 0x20, 0x20, "each run has its scale");
            let mut strips = Strips::open(&bytes, values.len(), &ends).unwrap().expect("it comes in strips");
            let (mut strip, mut back) = (Strip::default(), vec![0; values.len()]);
            for out in back.chunks_mut(GROUP) {
                strips.next(&mut strip);
                strip.write(out);
            }
            assert_eq!(back, values);
        }
    }
}
