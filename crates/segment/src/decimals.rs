//! Columns of `decimal64` whose exponents or signs differ.
//!
//! A column whose values agree in their upper eleven bits (sign and exponent) needs none of this: its bits are integers
//! that differ as the coefficients do. Others are brought to their smallest exponent where 64 bits allow it, so that
//! `183.5` and `183.45` are 18350 and 18345, and how many zeros that added is a column of its own; or no column, where
//! every number had as few digits as possible.
//!
//! ```text
//! u8 flags | i16 exponent | u32 exceptions | exceptions x (u32 row, u64 bits) | u32 length | shifts | coefficients
//! ```

use crate::coefficients::{DecimalForm, DecimalsWritten, EXPONENT_MIN, POWERS, SHIFT_MAX, bits_of, restore};
use crate::column::{ColumnHabit, constant, get_ints, nothing_left, put_ints, take, take_array};
use crate::damage::Flaw;
use crate::encoding::{COUNT_MAX, GROUP, Tier, bounds, estimate_bits};
use crate::level::Level;
use tapedb_schema::Decimal64;

/// Coefficients are brought to the smallest exponent.
const SCALED: u8 = 1;
/// Every number is written with as few digits after the point as possible: no shifts follow.
const SHORTEST: u8 = 2;
/// Shifts are a column of integers; without this and [`SHORTEST`] all are 0.
const SHIFTS: u8 = 4;

/// Bits of the smallest and of the largest of any decimals; `None` where one is NaN.
pub(crate) fn range(bits: &[i64]) -> Option<(i64, i64)> {
    let decimal = |bits: &i64| Decimal64::from_bits(*bits as u64);
    let (mut min, mut max) = (decimal(bits.first()?), decimal(bits.first()?));
    for value in bits.iter().map(decimal) {
        if value.numeric_cmp(&min)?.is_lt() {
            min = value;
        }
        if value.numeric_cmp(&max)?.is_gt() {
            max = value;
        }
    }
    Some((min.to_bits() as i64, max.to_bits() as i64))
}

/// How coefficients are written where exponents differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Brought to the smallest exponent: good for numbers with as few digits as possible.
    Scaled,
    /// As they are: good where each symbol has its own exponent.
    Unscaled,
}

/// Decimals split into coefficients and exponents.
pub(crate) struct Decimals {
    exponent: i32,
    coefficients: Vec<i64>,
    /// Exponents minus `exponent`.
    shifts: Vec<i64>,
    /// Coefficients at `exponent`, if 64 bits hold them.
    scaled: Option<Vec<i64>>,
    /// Values that coefficient and exponent do not give back; what stands in for them is like its neighbour.
    exceptions: Vec<(u32, i64)>,
}

impl Decimals {
    /// Takes decimals apart that are given as their bits.
    pub fn of(bits: &[i64]) -> Self {
        let (mut coefficients, mut shifts) = (Vec::with_capacity(bits.len()), Vec::with_capacity(bits.len()));
        let (mut exceptions, mut least) = (Vec::new(), None);
        let mut last = (0, None);
        for (row, bits) in bits.iter().enumerate() {
            match parts_of(*bits) {
                Some((coefficient, exponent)) => {
                    last = (coefficient, Some(exponent));
                    least = Some(least.map_or(exponent, |least: i32| least.min(exponent)));
                }
                None => exceptions.push((row as u32, *bits)),
            }
            coefficients.push(last.0);
            shifts.push(last.1);
        }
        let exponent = least.unwrap_or(0);
        let shifts: Vec<i64> =
            shifts.iter().map(|own| i64::from(own.unwrap_or(exponent) - exponent)).collect();
        let scaled = scaled(&coefficients, &shifts);
        Self { exponent, coefficients, shifts, scaled, exceptions }
    }

    /// Bits of the smallest and of the largest, if all are numbers that can be compared by their scaled coefficients.
    pub fn range(&self, bits: &[i64]) -> Option<(i64, i64)> {
        let scaled = self.scaled.as_ref().filter(|_| self.exceptions.is_empty())?;
        let (min, max) = bounds(scaled);
        let bits_of = |value| scaled.iter().position(|scaled| *scaled == value).map(|at| bits[at]);
        Some((bits_of(min)?, bits_of(max)?))
    }

    /// Appends the column.
    pub fn write(&self, ends: &[u32], tier: Tier, habit: &mut ColumnHabit, out: &mut Vec<u8>) {
        let start = out.len();
        let same = constant(&self.shifts) == Some(0);
        let usual = habit.form.usual();
        let form = match usual {
            Some(form) => form,
            // There is one form, and so nothing to choose.
            None if same => Form::Unscaled,
            None => {
                (habit.ints, habit.shifts) = Default::default();
                self.better_form(ends)
            }
        };
        let (flags, coefficients) = match &self.scaled {
            _ if same => (0, &self.coefficients),
            Some(scaled) if form == Form::Scaled => {
                (SCALED | if self.are_shortest() { SHORTEST } else { SHIFTS }, scaled)
            }
            _ => (SHIFTS, &self.coefficients),
        };
        out.push(flags);
        out.extend_from_slice(&(self.exponent as i16).to_le_bytes());
        out.extend_from_slice(&(self.exceptions.len() as u32).to_le_bytes());
        for (row, bits) in &self.exceptions {
            out.extend_from_slice(&row.to_le_bytes());
            out.extend_from_slice(&bits.to_le_bytes());
        }
        let mut encoded = Vec::new();
        if flags & SHIFTS != 0 {
            put_ints(&self.shifts, ends, tier, &mut habit.shifts, &mut encoded);
        }
        out.extend_from_slice(&(encoded.len() as u32).to_le_bytes());
        out.extend_from_slice(&encoded);
        put_ints(coefficients, ends, tier, &mut habit.ints, out);
        if same {
            return;
        }
        match usual {
            Some(_) => {
                habit.form.holds(self.shifts.len(), out.len() - start);
            }
            None => habit.form.learn(form, self.shifts.len(), out.len() - start),
        }
    }

    /// The smaller form.
    fn better_form(&self, ends: &[u32]) -> Form {
        let Some(scaled) = self.scaled.as_ref().filter(|all| all.len() <= COUNT_MAX) else {
            return Form::Unscaled;
        };
        let shifts = estimate_bits(&self.shifts, ends);
        let unscaled = estimate_bits(&self.coefficients, ends) + shifts;
        let scaled = estimate_bits(scaled, ends) + if self.are_shortest() { 0 } else { shifts };
        if scaled <= unscaled { Form::Scaled } else { Form::Unscaled }
    }

    /// Whether every number is written with as few digits after the point as possible.
    fn are_shortest(&self) -> bool {
        let most = i64::from(-self.exponent).clamp(0, SHIFT_MAX);
        let mut all = self.coefficients.iter().zip(&self.shifts);
        all.all(|(c, shift)| *shift == most || (*shift < most && c % 10 != 0))
    }
}

/// Coefficient and exponent of bits that these two give back.
#[inline]
fn parts_of(bits: i64) -> Option<(i64, i32)> {
    // The small form, but for negative zeros: nearly all.
    if bits as u64 >> 61 & 3 != 3 {
        let exponent = (bits as u64 >> 53 & 0x3ff) as i32 + EXPONENT_MIN;
        let magnitude = bits & ((1 << 53) - 1);
        let coefficient = if bits < 0 { -magnitude } else { magnitude };
        return (magnitude != 0 || bits >= 0).then_some((coefficient, exponent));
    }
    let (coefficient, exponent) = Decimal64::from_bits(bits as u64).parts()?;
    (bits_of(coefficient, exponent) == Some(bits)).then_some((coefficient, exponent))
}

fn scaled(coefficients: &[i64], shifts: &[i64]) -> Option<Vec<i64>> {
    let one = |(c, shift): (&i64, &i64)| match c {
        0 => Some(0),
        c => c.checked_mul(*POWERS.get(*shift as usize)?),
    };
    let wide = |shift: &i64| *shift > SHIFT_MAX;
    if shifts.iter().any(wide) {
        return None;
    }
    coefficients.iter().zip(shifts).map(one).collect()
}

/// The bytes of a column, taken apart.
pub(crate) struct DecimalColumn<'a> {
    pub header: DecimalForm,
    /// Rows and bits of those values that are not coefficient and exponent.
    pub exceptions: &'a [[u8; 12]],
    /// Where there are none, all are 0.
    pub shifts: Option<&'a [u8]>,
    pub coefficients: &'a [u8],
}

impl<'a> DecimalColumn<'a> {
    /// Takes the bytes of a column apart.
    pub fn of(mut bytes: &'a [u8]) -> Result<Self, Flaw> {
        let [flags] = take_array(&mut bytes)?;
        let exponent = i32::from(i16::from_le_bytes(take_array(&mut bytes)?));
        let exceptions = u32::from_le_bytes(take_array(&mut bytes)?) as usize;
        let exceptions = take(&mut bytes, exceptions.saturating_mul(12))?.as_chunks::<12>().0;
        let length = u32::from_le_bytes(take_array(&mut bytes)?) as usize;
        let shifts = take(&mut bytes, length)?;
        let shifts = if flags & SHIFTS != 0 {
            Some(shifts)
        } else {
            nothing_left(shifts)?;
            None
        };
        let written = match flags {
            0 | SHIFTS => DecimalsWritten::Unscaled,
            _ if flags == SCALED | SHIFTS => DecimalsWritten::Scaled,
            _ if flags == SCALED | SHORTEST => DecimalsWritten::Shortest,
            _ => return Err(Flaw::Mismatch { what: "flags of decimals", need: 7, have: flags.into() }),
        };
        Ok(Self { header: DecimalForm { written, exponent }, exceptions, shifts, coefficients: bytes })
    }
}

/// Replaces `out` by the bits of the wanted values.
pub(crate) fn read(
    bytes: &[u8],
    level: &Level,
    scratch: &mut Vec<i64>,
    shifts: &mut Vec<i64>,
    out: &mut Vec<i64>,
) -> Result<(), Flaw> {
    let parts = DecimalColumn::of(bytes)?;
    if let Some(encoded) = parts.shifts {
        get_ints(encoded, level, scratch, shifts)?;
    }
    get_ints(parts.coefficients, level, scratch, out)?;
    let mut shifts = parts.shifts.map_or(&[][..], |_| shifts).chunks(GROUP);
    for numbers in out.chunks_mut(GROUP) {
        let none = &[0; GROUP][..numbers.len()];
        restore(parts.header, numbers, shifts.next().unwrap_or(none))?;
    }
    for exception in parts.exceptions {
        let (row, bits) = exception.split_at(4);
        let row = u32::from_le_bytes(row.try_into().unwrap_or_default()) as usize;
        let bits = i64::from_le_bytes(bits.try_into().unwrap_or_default());
        if row >= level.count {
            return Err(Flaw::Mismatch {
                what: "row of a decimal",
                need: level.count as u64,
                have: row as u64,
            });
        }
        if let Some(place) = level.place_of(row) {
            out[place] = bits;
        }
    }
    Ok(())
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "a list of ranges that has one")]
mod tests {
    use super::*;
    use crate::stats::Stats;

    fn round_trip(texts: &[&str]) -> u8 {
        let bits: Vec<i64> =
            texts.iter().map(|text| text.parse::<Decimal64>().unwrap().to_bits() as i64).collect();
        let (mut bytes, mut back) = (Vec::new(), Vec::new());
        Decimals::of(&bits).write(&[], Tier::Hot, &mut ColumnHabit::default(), &mut bytes);
        let mut level = Level::default();
        level.one_run(bits.len());
        read(&bytes, &level, &mut Vec::new(), &mut Vec::new(), &mut back).unwrap();
        assert_eq!(back, bits, "{texts:?}");
        let last = Level { all: false, keep: vec![1..bits.len() as u32], ..level };
        read(&bytes, &last, &mut Vec::new(), &mut Vec::new(), &mut back).unwrap();
        assert_eq!(back, bits[1..], "{texts:?}");
        bytes[0]
    }

    #[test]
    fn every_decimal_comes_back() {
        assert_eq!(round_trip(&["1.50", "-1.50", "0.00"]), 0);
        assert_eq!(round_trip(&["183.5", "183.45", "183", "0", "200"]), SCALED | SHORTEST);
        assert_eq!(round_trip(&["183.50", "183.5", "183", "-0.00"]), SCALED | SHIFTS);
        assert_eq!(round_trip(&["9999999999999999E369", "1E-398"]), SHIFTS);
        assert_eq!(
            round_trip(&["1.5", "NaN", "Infinity", "-Infinity", "9999999999999999"]),
            SCALED | SHORTEST
        );
    }

    /// On both sides of 53 bits of a coefficient, of 64 bits of a scaled one, and of a shift of 18.
    #[test]
    fn decimals_at_their_bounds_come_back() {
        for large in ["9007199254740991", "9007199254740992", "9999999999999999"] {
            for small in ["0.1", "1E-20", "-5", "1E+300"] {
                round_trip(&[large, &format!("-{large}"), small, "7"]);
            }
        }
        let fits = ["922337203685477.5", "0.0001", "-922337203685477.5", "1"];
        assert_eq!(round_trip(&fits), SCALED | SHORTEST);
        assert_eq!(round_trip(&["922337203685477.6", "0.0001", "1"]), SHIFTS);
        for shift in [17, 18] {
            round_trip(&["1", "2", &format!("1E-{shift}")]);
        }
        assert_eq!(round_trip(&["1", "2", "1E-19"]), SHIFTS);
        assert_eq!(bits_of((1 << 53) - 1, 369).map(|bits| bits as u64 >> 53), Some(767));
        assert_eq!(
            (bits_of(1, 370), bits_of(1, -399), bits_of(10_000_000_000_000_001, 0)),
            (None, None, None)
        );
    }

    #[test]
    fn one_exponent_and_sign_are_plain() {
        let stats = |texts: [&str; 2]| {
            Stats::of(&texts.map(|text| text.parse::<Decimal64>().unwrap().to_bits() as i64))
        };
        assert!(stats(["1.50", "99999.00"]).are_plain_decimals());
        assert!(!stats(["1.50", "-1.50"]).are_plain_decimals());
        assert!(!stats(["1.50", "1.5"]).are_plain_decimals());
    }
}
