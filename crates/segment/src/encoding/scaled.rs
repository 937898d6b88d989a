//! Integers divided by what divides all their distances: prices by their tick, sizes by their lot, with one divisor for a column or one for
//! each run.

use super::EncodingError;
use super::bytes::{Reader, in_range, write_signed_varint, write_varint};
use super::groups::bounds;
use super::packed::{self, Packed, Scale};
use super::runs::Runs;
use crate::simd::widest;
use crate::spare::Ints;
use std::ops::Range;

/// Set in the tags of columns of numbers that may be divided, when a divisor and an offset follow.
pub(super) const SCALED: u8 = 0x40;

/// Set in their tags when every run has a divisor and an offset of its own.
pub(super) const BY_RUN: u8 = 0x20;

/// Values divided by what divides all their distances.
pub(super) struct Scaled {
    pub scale: Scales,
    /// `None` when nothing but 1 does.
    pub values: Option<Ints>,
}

/// Divisors and offsets of a column.
#[derive(Clone)]
pub(super) enum Scales {
    One(Scale),
    /// One for each run: symbols have ticks and lots of their own.
    ByRun(Vec<Scale>),
}

impl Scales {
    /// About the bytes they take.
    pub fn cost(&self) -> usize {
        match self {
            Self::One(_) => 0,
            Self::ByRun(scales) => 8 + 8 * scales.len(),
        }
    }
}

impl Scaled {
    /// What is packed: the divided ones of `values`.
    pub fn numbers<'a>(&'a self, values: &'a [i64]) -> &'a [i64] {
        self.values.as_ref().map_or(values, |divided| &divided[..])
    }

    pub fn of(values: &[i64], runs: Runs) -> Self {
        let mut divided = Ints::default();
        let scale = divide(values, &mut divided);
        Self::by_run(values, runs, scale.divisor).unwrap_or_else(|| Self {
            scale: Scales::One(scale),
            values: (scale != Scale::NONE).then_some(divided),
        })
    }

    /// With a divisor for each run, if that saves half a bit a value or more.
    fn by_run(values: &[i64], runs: Runs, divisor: i64) -> Option<Self> {
        if runs.len() < 2 || values.len() < runs.len() * RUN_MEAN {
            return None;
        }
        let starts: Vec<usize> = runs.starts().chain([values.len()]).collect();
        let saved_at_most = |bounds: &[usize]| {
            let most = first_divisor(&values[bounds[0]..bounds[1]]) / divisor.max(1) as u64;
            (bounds[1] - bounds[0]) * most.max(1).ilog2() as usize
        };
        if 2 * starts.windows(2).map(saved_at_most).sum::<usize>() < values.len() {
            return None;
        }
        let (scaled, saved) = Self::of_each_run(values, runs, divisor);
        (2 * saved >= values.len()).then_some(scaled)
    }

    /// With a divisor for each run, and how many bits that saves in all against one `divisor`.
    pub fn of_each_run(values: &[i64], runs: Runs, divisor: i64) -> (Self, usize) {
        let (mut divided, mut scales, mut saved) = (Ints::with_capacity(values.len()), Vec::new(), 0);
        let starts: Vec<usize> = runs.starts().chain([values.len()]).collect();
        for bounds in starts.windows(2) {
            let run = &values[bounds[0]..bounds[1]];
            let scale = divide(run, &mut divided);
            if scale == Scale::NONE {
                divided.truncate(bounds[0]);
                divided.extend_from_slice(run);
            }
            saved += run.len() * (scale.divisor / divisor.max(1)).max(1).ilog2() as usize;
            scales.push(scale);
        }
        (Self { scale: Scales::ByRun(scales), values: Some(divided) }, saved)
    }
}

/// Mean length of runs from which on each may have a divisor of its own.
const RUN_MEAN: usize = 128;

/// What divides the distances between the first of `values`; 0 where they are equal. It nearly always divides all distances; if
/// not, what divides all is a part of it.
fn first_divisor(values: &[i64]) -> u64 {
    let first = values.first().copied().unwrap_or(0);
    let differing = values.iter().position(|value| *value != first).unwrap_or(0);
    let mut divisor = 0;
    for value in values[differing..].iter().take(DIVISOR_SAMPLE) {
        divisor = gcd(divisor, value.abs_diff(first));
        if divisor == 1 {
            break;
        }
    }
    divisor
}

/// The greatest divisor of the distances of `values`, which are appended divided unless that is [`Scale::NONE`].
fn divide(values: &[i64], divided: &mut Ints) -> Scale {
    let mut divisor = first_divisor(values);
    if divisor < 2 {
        return Scale::NONE;
    }
    let min = bounds(values).0;
    let start = divided.len();
    if start == 0 {
        *divided = Ints::with_capacity(values.len());
    }
    while (2..=i64::MAX as u64).contains(&divisor) {
        let exact = Divisor::new(divisor);
        divided.resize(start + values.len(), 0);
        let quotients = &mut divided[start..];
        let largest = widest(
            #[inline(always)]
            || {
                let mut largest = 0;
                for (quotient, value) in quotients.iter_mut().zip(values) {
                    let found = exact.quotient(value.wrapping_sub(min) as u64);
                    (*quotient, largest) = (found as i64, found.max(largest));
                }
                largest
            },
        );
        let is_beyond = |quotient: &i64| *quotient as u64 > exact.most;
        let beyond = (largest > exact.most).then(|| divided[start..].iter().position(is_beyond));
        match beyond.flatten() {
            None => return Scale { divisor: divisor as i64, offset: min },
            Some(at) => divisor = gcd(divisor, values[at].wrapping_sub(min) as u64),
        }
    }
    Scale::NONE
}

/// Distances in which a divisor is searched, before all are tried with it.
const DIVISOR_SAMPLE: usize = 32;

/// Divides without dividing: multiplies by the inverse of the odd part modulo 2^64, and rotates by the even part. For what
/// is no multiple the result is beyond the largest quotient that there is.
struct Divisor {
    inverse: u64,
    even: u32,
    /// The largest quotient.
    most: u64,
}

impl Divisor {
    fn new(divisor: u64) -> Self {
        let even = divisor.trailing_zeros();
        let odd = divisor >> even;
        // Right in three bits; each of Newton's steps doubles them.
        let mut inverse = odd;
        for _ in 0..5 {
            inverse = inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse)));
        }
        Self { inverse, even, most: u64::MAX / divisor }
    }

    #[inline(always)]
    fn quotient(&self, number: u64) -> u64 {
        number.wrapping_mul(self.inverse).rotate_right(self.even)
    }
}

fn gcd(divisor: u64, distance: u64) -> u64 {
    let (mut a, mut b) = (distance, divisor);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Marks the tag just written, and appends divisors and offsets, unless the values are as they are.
pub(super) fn write_scales(scales: &Scales, out: &mut Vec<u8>) {
    let Some(tag) = out.last_mut() else { return };
    match scales {
        Scales::One(Scale::NONE) => {}
        Scales::One(scale) => {
            *tag |= SCALED;
            write_varint(scale.divisor as u64, out);
            write_signed_varint(scale.offset, out);
        }
        Scales::ByRun(scales) => {
            *tag |= BY_RUN;
            packed::encode(&scales.iter().map(|scale| scale.divisor).collect::<Vec<i64>>(), out);
            packed::encode(&scales.iter().map(|scale| scale.offset).collect::<Vec<i64>>(), out);
        }
    }
}

/// The divisor and offset of each run; none if they have none of their own.
pub(super) fn read_scales(reader: &mut Reader, tag: u8, runs: Runs) -> Result<Vec<Scale>, EncodingError> {
    if tag & BY_RUN == 0 {
        return Ok(Vec::new());
    }
    if tag & SCALED != 0 {
        return Err(EncodingError::UnknownTag { offset: 0, tag });
    }
    let (mut divisors, mut offsets) = (Vec::new(), Vec::new());
    Packed::read(reader, runs.len())?.decode(&mut divisors);
    Packed::read(reader, runs.len())?.decode(&mut offsets);
    Ok(divisors.into_iter().zip(offsets).map(|(divisor, offset)| Scale { divisor, offset }).collect())
}

/// Scales `out`, which are the values of `rows`: by the one scale, or each run by its own.
pub(super) fn apply(scales: &[Scale], runs: Runs, rows: Range<usize>, out: &mut [i64]) {
    let each = |scale: &Scale, values: &mut [i64]| {
        if *scale != Scale::NONE {
            widest(
                #[inline(always)]
                || values.iter_mut().for_each(|value| *value = scale.apply(*value)),
            );
        }
    };
    if let [scale] = scales {
        return each(scale, out);
    }
    let starts = runs.starts().chain([rows.end]).collect::<Vec<usize>>();
    for (bounds, scale) in starts.windows(2).zip(scales) {
        let part = bounds[0].max(rows.start)..bounds[1].min(rows.end);
        if !part.is_empty() {
            each(scale, &mut out[part.start - rows.start..part.end - rows.start]);
        }
    }
}

pub(super) fn read_scale(reader: &mut Reader, tag: u8) -> Result<Scale, EncodingError> {
    if tag & SCALED == 0 {
        return Ok(Scale::NONE);
    }
    let offset = reader.offset();
    let divisor = reader.varint()?;
    in_range("divisor", offset, divisor, i64::MAX as u64)?;
    Ok(Scale { divisor: divisor as i64, offset: reader.signed_varint()? })
}
