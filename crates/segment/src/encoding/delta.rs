//! Differences to the row before, within each run; the first value of every run apart.

use std::ops::Range;

use super::EncodingError;
use super::bytes::{Reader, bit_width};
use super::groups::{GROUP, unpack_sums};
use super::packed::{EXCEPTION_BITS, Packed, Scale, Sink};
use super::runs::Runs;
use super::strip::{OFFSET_BITS, Strip};
use crate::simd::widest;
use crate::spare::Ints;

/// Differences of `values`. Where a run begins stands another difference of the same group: it
/// is not used, and makes the group no wider.
pub(super) fn differences(values: &[i64], runs: Runs) -> Ints {
    let mut deltas = Ints::unset(values.len());
    if let Some(first) = deltas.first_mut() {
        *first = 0;
    }
    widest(
        #[inline(always)]
        || {
            let pairs = values.iter().zip(values.iter().skip(1));
            deltas.iter_mut().skip(1).zip(pairs).for_each(|(delta, (a, b))| *delta = b.wrapping_sub(*a));
        },
    );
    let starts: Vec<usize> = runs.starts().collect();
    for starts in starts.chunk_by(|a, b| a / GROUP == b / GROUP) {
        let group = starts[0] / GROUP * GROUP;
        let mut rows = group..values.len().min(group + GROUP);
        let filler = rows.find(|row| starts.binary_search(row).is_err()).map_or(0, |row| deltas[row]);
        starts.iter().for_each(|&start| deltas[start] = filler);
    }
    deltas
}

/// The first value of each run.
pub(super) fn firsts(values: &[i64], runs: Runs) -> Vec<i64> {
    runs.starts().map(|start| values[start]).collect()
}

/// Replaces `out` by the values of `rows`.
pub(super) fn decode(
    reader: &mut Reader,
    runs: Runs,
    count: usize,
    rows: Range<usize>,
    scale: Scale,
    out: &mut Vec<i64>,
) -> Result<(), EncodingError> {
    let firsts = Packed::read(reader, runs.len())?;
    let deltas = Packed::read(reader, count)?;
    reader.finish()?;
    out.resize(rows.len(), 0);
    if rows.is_empty() {
        return Ok(());
    }
    let from = runs.start_of(rows.start);
    let mut sums = Sums::new(scale, runs, &firsts, from / GROUP * GROUP..rows.end);
    deltas.decode_into(from, rows, &mut sums, out);
    Ok(())
}

/// Appends the values of single `rows`, which ascend, where every group of differences is a run.
pub(super) fn decode_at(
    reader: &mut Reader,
    runs: Runs,
    count: usize,
    rows: &[u32],
    scale: Scale,
    out: &mut Vec<i64>,
) -> Result<(), EncodingError> {
    let firsts = Packed::read(reader, runs.len())?;
    let deltas = Packed::read(reader, count)?;
    reader.finish()?;
    let mut values = Vec::new();
    firsts.decode_rows(0..runs.len(), scale, &mut values);
    deltas.decode_at(rows, |group| Sums::of_group(scale, runs, group, values[group]), out);
    Ok(())
}

/// Sums differences, starting again with each run.
pub(super) struct Sums<'a> {
    scale: Scale,
    runs: Runs<'a>,
    /// The run that begins next.
    run: usize,
    /// First values of the runs that begin from here on, as far as they are needed.
    firsts: std::vec::IntoIter<i64>,
    /// The row that comes next.
    row: usize,
    last: i64,
}

impl<'a> Sums<'a> {
    /// For the groups that hold `rows`, which begin with a group.
    pub(super) fn new(scale: Scale, runs: Runs<'a>, firsts: &Packed, rows: Range<usize>) -> Self {
        let run = runs.first_from(rows.start);
        let mut values = Vec::new();
        firsts.decode_rows(run..runs.first_from(rows.end).max(run), scale, &mut values);
        // Nothing stands before the first run; what is like it makes the first strip narrow.
        let last = values.first().copied().unwrap_or(0);
        Self { scale, runs, run, firsts: values.into_iter(), row: rows.start, last }
    }

    /// For one group that is a run.
    fn of_group(scale: Scale, runs: Runs<'a>, group: usize, first: i64) -> Self {
        Self { scale, runs, run: group, firsts: vec![first].into_iter(), row: group * GROUP, last: first }
    }

    /// Ends a strip whose values are sums from the row before it on: those after the beginning of a run get another
    /// start.
    fn restart(&mut self, strip: &mut Strip) {
        let mut start = self.next_start();
        while let Some(at) = start {
            // A range of rows may end before the last run of its last group begins: then it has no first.
            let first = self.firsts.next().unwrap_or(0);
            self.run += 1;
            start = self.next_start();
            let by = first.wrapping_sub(strip.value(at));
            strip.shift(at..start.unwrap_or(GROUP), by);
        }
        self.last = strip.value(GROUP - 1);
        self.row += GROUP;
    }

    /// Where in this group the next run begins, if it does.
    fn next_start(&self) -> Option<usize> {
        self.runs.start(self.run).map(|start| start - self.row).filter(|start| *start < GROUP)
    }
}

/// Bits of 128, the most that are added up.
const GROUP_BITS: usize = 7;

impl Sink for Sums<'_> {
    /// Sums of residuals and sums of steps take a bit less than half of what fits each, which leaves as much for the
    /// beginning of a run.
    ///
    /// A residual is below 2^`width`; an exception of two bytes, in zigzag, is from -2^15 to 2^15 - 1, whatever the width:
    /// in a group of width 0 too. 128 of them, each times the divisor, stay below
    /// 2^(7 + max(`width`, 15) + bits of the divisor), which is at most 2^27; so do 128 steps; and both together below 2^28.
    /// The beginning of a run moves them by less than 2^28 more, or makes the strip wide (see `Strip::shift`).
    fn fits(&self, base: i64, width: u8) -> bool {
        let bits = usize::from(width.max(EXCEPTION_BITS));
        bits + bit_width(self.scale.divisor as u64) + GROUP_BITS < OFFSET_BITS - 1 && self.steps_fit(base)
    }

    fn same(&mut self, base: i64, strip: &mut Strip) {
        let step = self.scale.divisor.wrapping_mul(base);
        if self.steps_fit(base) {
            strip.fill(self.last);
            strip.stretch(1, step as u32);
        } else {
            strip.is_narrow = false;
            climb(self.last, step, &mut strip.wide);
        }
        self.restart(strip);
    }

    fn narrow(&mut self, base: i64, payload: &[u8], width: u8, strip: &mut Strip) {
        unpack_sums(payload, width, &mut strip.offsets);
        self.summed(base, strip);
    }

    fn patched(&mut self, base: i64, strip: &mut Strip) {
        let mut sum = 0u32;
        for offset in &mut strip.offsets {
            sum = sum.wrapping_add(*offset);
            *offset = sum;
        }
        self.summed(base, strip);
    }

    /// Sums of up to 24 bits each fit 32, and 32 bits are multiplied faster than 64.
    fn wide(&mut self, base: i64, payload: &[u8], width: u8, strip: &mut Strip) -> bool {
        unpack_sums(payload, width, &mut strip.offsets);
        strip.is_narrow = false;
        let (last, divisor) = (self.last, self.scale.divisor as u64);
        let (low, high) = (divisor & u64::from(u32::MAX), divisor >> 32);
        let step = self.scale.divisor.wrapping_mul(base);
        let Strip { wide, offsets, .. } = &mut *strip;
        widest(
            #[inline(always)]
            || {
                for (value, sum) in wide.iter_mut().zip(&*offsets) {
                    let sum = u64::from(*sum);
                    *value = last.wrapping_add((sum * low).wrapping_add((sum * high) << 32) as i64);
                }
            },
        );
        if step != 0 {
            let mut height = 0i64;
            for value in &mut strip.wide {
                height = height.wrapping_add(step);
                *value = value.wrapping_add(height);
            }
        }
        self.restart(strip);
        true
    }

    fn settle(&mut self, strip: &mut Strip, count: usize) {
        strip.is_narrow = false;
        let (mut sum, divisor) = (self.last, self.scale.divisor);
        for value in &mut strip.wide[..count] {
            sum = sum.wrapping_add(value.wrapping_mul(divisor));
            *value = sum;
        }
        self.restart(strip);
    }
}

/// Makes the values a step more than the one before each; `last` stands before the first. Four climb side by side.
fn climb(last: i64, step: i64, values: &mut [i64; GROUP]) {
    let first = [1, 2, 3, 4].map(|i| last.wrapping_add(step.wrapping_mul(i)));
    let leap = step.wrapping_mul(4);
    widest(
        #[inline(always)]
        || {
            let mut four = first;
            for values in values.as_chunks_mut::<4>().0 {
                *values = four;
                // Not `map`, which is no part of this loop where it is not inlined.
                four.iter_mut().for_each(|value| *value = value.wrapping_add(leap));
            }
        },
    );
}

impl Sums<'_> {
    /// Whether 128 steps of this base stay below 2^27.
    fn steps_fit(&self, base: i64) -> bool {
        let step = self.scale.divisor.saturating_mul(base).unsigned_abs();
        bit_width(step) + GROUP_BITS < OFFSET_BITS - 1
    }

    /// The strip's offsets are sums of residuals.
    fn summed(&mut self, base: i64, strip: &mut Strip) {
        let divisor = self.scale.divisor;
        (strip.base, strip.is_narrow) = (self.last, true);
        strip.stretch(divisor as u32, divisor.wrapping_mul(base) as u32);
        self.restart(strip);
    }
}

#[cfg(test)]
mod tests {
    use super::super::packed;
    use super::*;

    fn encode(firsts: &[i64], differences: &[i64], out: &mut Vec<u8>) {
        packed::encode(firsts, out);
        packed::encode(differences, out);
    }

    /// What `scale` makes of sums of `deltas`, in one run that begins at 0: fast, and one by one.
    fn both(deltas: &[i64], scale: Scale) -> (Vec<i64>, Vec<i64>) {
        let mut bytes = Vec::new();
        encode(&[0], deltas, &mut bytes);
        let runs = Runs::new(&[], deltas.len()).unwrap();
        let mut out = Vec::new();
        decode(&mut Reader::new(&bytes), runs, deltas.len(), 0..deltas.len(), scale, &mut out).unwrap();
        let mut sum = 0i64;
        let expected = deltas.iter().enumerate().map(|(row, delta)| {
            sum = if row == 0 { 0 } else { sum.wrapping_add(*delta) };
            scale.apply(sum)
        });
        (out, expected.collect())
    }

    /// Groups of width 0 may have exceptions of two bytes: a pause among messages of one millisecond, in milliseconds.
    #[test]
    fn pauses_among_equal_times_come_back() {
        for divisor in [1, 2, 31, 32, 33, 1_000, 65_535, 1_000_000, (1 << 20) - 1, 1 << 20, 1 << 40] {
            for pause in [1, 100, 2_147, 2_148, 5_000, 32_767, 32_768, -2_148, -32_768, 1 << 40] {
                for exceptions in [1, 2, 5] {
                    let mut deltas = vec![0; 3 * GROUP + 5];
                    (0..exceptions).for_each(|i| deltas[GROUP + 20 * i + 3] = pause);
                    let (decoded, expected) = both(&deltas, Scale { divisor, offset: 7 });
                    assert!(decoded == expected, "divisor {divisor}, {exceptions} pauses of {pause}");
                }
            }
        }
    }

    /// One full group as it may lie in bytes, whether an encoder would write it or not.
    fn group(base: i64, width: u8, residual: u64, exceptions: &[(u8, i64)]) -> Vec<u8> {
        let mut bytes = vec![if exceptions.is_empty() { 0 } else { 0x10 }];
        super::super::bytes::write_signed_varint(base, &mut bytes);
        bytes.push(width);
        if !exceptions.is_empty() {
            bytes.push(exceptions.len() as u8);
        }
        super::super::groups::pack(&[residual; GROUP], width, &mut bytes);
        if !exceptions.is_empty() {
            bytes.push(2);
            bytes.extend(exceptions.iter().map(|(at, _)| at));
            let zigzag = |value: &i64| (super::super::bytes::zigzag(*value) as u16).to_le_bytes();
            bytes.extend(exceptions.iter().flat_map(|(_, value)| zigzag(value)));
        }
        bytes
    }

    /// Decodes a group of differences after `firsts` of runs that end at `ends`; returns whether it stayed narrow.
    fn decoded(deltas: &[u8], firsts: &[i64], ends: &[u32], divisor: i64) -> (Vec<i64>, bool) {
        let mut bytes = Vec::new();
        packed::encode(firsts, &mut bytes);
        let (runs, scale) = (Runs::new(ends, GROUP).unwrap(), Scale { divisor, offset: 0 });
        let firsts = Packed::read(&mut Reader::new(&bytes), firsts.len()).unwrap();
        let deltas = Packed::read(&mut Reader::new(deltas), GROUP).unwrap();
        let (mut sums, mut strip) = (Sums::new(scale, runs, &firsts, 0..GROUP), Strip::default());
        deltas.decode_group(0, &mut deltas.cursor_at(0), &mut sums, &mut strip);
        let mut values = vec![0; GROUP];
        strip.write(&mut values);
        let reach = strip.offsets.iter().map(|offset| (*offset as i32).unsigned_abs()).max();
        assert!(!strip.is_narrow || reach < Some(1 << OFFSET_BITS), "{reach:?}");
        (values, strip.is_narrow)
    }

    /// Sums one by one in 128 bits.
    fn expected(base: i64, residual: u64, exceptions: &[(u8, i64)], divisor: i64) -> Vec<i64> {
        let mut sum = 0i128;
        let value = |i: usize| {
            let exception = exceptions.iter().find(|(at, _)| usize::from(*at) == i);
            let distance = exception.map_or(i128::from(residual), |(_, value)| i128::from(*value));
            let step = if i == 0 { 0 } else { (i128::from(base) + distance) * i128::from(divisor) };
            sum = sum.wrapping_add(step);
            sum as i64
        };
        (0..GROUP).map(value).collect()
    }

    /// The largest residuals, exceptions and divisors of each width: sums stay narrow up to 27 bits, and not beyond.
    #[test]
    fn residuals_at_their_bound_come_back() {
        let all: Vec<(u8, i64)> = (0..128).map(|at| (at, 32_767)).collect();
        let least: Vec<(u8, i64)> = (0..128).map(|at| (at, -32_768)).collect();
        for width in 0..=32u8 {
            for bits in 1..=40 {
                let divisor = (1i64 << bits) - 1;
                let residual = (1u64 << width) - 1;
                let fits = usize::from(width.max(15)) + bits + 7 <= 27;
                for exceptions in [&[][..], &all, &least, &all[64..65], &least[127..]] {
                    let deltas = group(0, width, residual, exceptions);
                    let (values, is_narrow) = decoded(&deltas, &[0], &[128], divisor);
                    let what =
                        format!("width {width}, divisor of {bits} bits, {} exceptions", exceptions.len());
                    assert!(values == expected(0, residual, exceptions, divisor), "{what}");
                    assert_eq!(is_narrow, fits || width == 0 && exceptions.is_empty(), "{what}");
                }
            }
        }
    }

    /// The same of steps, which are a base times the divisor.
    #[test]
    fn steps_at_their_bound_come_back() {
        for step in [(1 << 20) - 2, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, i64::MAX, i64::MIN] {
            for (base, divisor) in [(step, 1), (step.wrapping_neg(), 1), (1, step.max(1)), (-1, step.max(1))]
            {
                let fits = i128::from(base).unsigned_abs() * (divisor as u128) < (1 << 20);
                for width in [0, 1] {
                    let (values, is_narrow) =
                        decoded(&group(base, width, width.into(), &[]), &[0], &[128], divisor);
                    let what = format!("base {base}, divisor {divisor}, width {width}");
                    assert!(values == expected(base, width.into(), &[], divisor), "{what}");
                    assert_eq!(is_narrow, fits && (width == 0 || divisor < 32), "{what}");
                }
            }
        }
    }

    /// The beginning of a run moves sums by less than 2^28, or they become wide.
    #[test]
    fn runs_that_begin_at_the_bound_come_back() {
        let residual = (1 << 19) - 1;
        let before = expected(0, residual, &[], 1);
        // Before runs are restarted, the values have the residual of the first row too.
        let summed = before[64] + residual as i64;
        for by in [(1 << 28) - 1, 1 << 28, (1 << 28) + 1, 1 << 40] {
            for by in [by, -by] {
                let (values, is_narrow) =
                    decoded(&group(0, 19, residual, &[]), &[0, summed + by], &[64, 128], 1);
                let moved = before[64..].iter().map(|value| value - before[64] + summed + by);
                assert!(values == before[..64].iter().copied().chain(moved).collect::<Vec<i64>>(), "{by}");
                assert_eq!(is_narrow, i64::abs(by) < 1 << 28, "{by}");
            }
        }
    }

    /// Wide sums take residuals of 24 bits without 32 bits overflowing, and leave wider ones to what adds one by one.
    #[test]
    fn wide_sums_at_their_bound_come_back() {
        for width in [23, 24, 25, 31, 32] {
            for divisor in [1 << 20, i64::MAX, (1 << 32) - 1, 1 << 32, (1 << 33) + 1] {
                for base in [0, -7, i64::MIN] {
                    let residual = (1u64 << width) - 1;
                    let (values, is_narrow) =
                        decoded(&group(base, width, residual, &[]), &[0], &[128], divisor);
                    assert!(values == expected(base, residual, &[], divisor), "{width} {divisor} {base}");
                    assert!(!is_narrow);
                }
            }
        }
    }
}
