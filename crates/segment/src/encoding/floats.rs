//! Columns of binary floating-point numbers, exact to the bit.
//!
//! Most were decimals before they became binary. ALP (Afroozeh and Boncz, "ALP: Adaptive Lossless floating-Point
//! Compression", 2023) finds the decimals again: `value = n * 10^factor * 10^-exponent` for an integer `n`. The integers
//! are a column like any other; the values for which this is not exact are stored apart.

use super::bytes::{Reader, bit_width, in_range, read_le, write_varint, zigzag};
use super::habit::Habit;
use super::ints::{IntEncoding, decode_ints, encode_ints_again};
use super::packed::{self, Packed};
use super::{COUNT_MAX, EncodingError, Tier, cold};
use pco::data_types::Number;

/// What was chosen for a column of floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum FloatEncoding {
    /// The bit patterns as integers.
    Bits = 0,
    /// Decimals as integers, and the values that are none apart.
    Decimal = 1,
    /// The `pco` format; cold tier only.
    Pco = 2,
}

impl FloatEncoding {
    /// What encodes the floats of a column, from its first byte; `None` for an unknown tag or no bytes.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        [Self::Bits, Self::Decimal, Self::Pco]
            .into_iter()
            .find(|&encoding| Some(&(encoding as u8)) == bytes.first())
    }
}

/// Powers of ten that are exact in binary, and their nearest reciprocals.
const EXPONENT_MAX: u8 = 18;
const TENS: [f64; EXPONENT_MAX as usize + 1] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18];
const TENTHS: [f64; EXPONENT_MAX as usize + 1] = [
    1e0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-11, 1e-12, 1e-13, 1e-14, 1e-15,
    1e-16, 1e-17, 1e-18,
];

/// Integers up to here turn into floats by adding bits, which baseline SIMD can do and a conversion cannot.
const INTEGER_MAX: i64 = (1 << 51) - 1;
/// The float whose last bit is worth 1: 1.5 * 2^52.
const INTEGER_ORIGIN: f64 = 6_755_399_441_055_744.0;

/// Values that the search for a scale samples.
const SAMPLE: usize = 64;

/// The two sizes of floats.
pub trait Float: Number + Default {
    /// Bytes of one.
    const BYTES: usize;
    /// The same number.
    fn widen(self) -> f64;
    /// The nearest number.
    fn narrow(value: f64) -> Self;
    /// Its bits.
    fn bits(self) -> u64;
    /// The number that has these bits.
    fn from_bits(bits: u64) -> Self;
}

impl Float for f64 {
    const BYTES: usize = 8;
    fn widen(self) -> f64 {
        self
    }
    fn narrow(value: f64) -> Self {
        value
    }
    fn bits(self) -> u64 {
        self.to_bits()
    }
    fn from_bits(bits: u64) -> Self {
        Self::from_bits(bits)
    }
}

impl Float for f32 {
    const BYTES: usize = 4;
    fn widen(self) -> f64 {
        self.into()
    }
    fn narrow(value: f64) -> Self {
        value as Self
    }
    fn bits(self) -> u64 {
        self.to_bits().into()
    }
    fn from_bits(bits: u64) -> Self {
        Self::from_bits(bits as u32)
    }
}

/// Appends `values` to `out`, every bit of them (signs of zero and contents of NaN too).
///
/// # Panics
///
/// As [`encode_ints_again`].
pub fn encode_floats<F: Float>(values: &[F], runs: &[u32], tier: Tier, out: &mut Vec<u8>) -> FloatEncoding {
    encode_floats_again(values, runs, tier, &mut FloatHabit::default(), out)
}

/// What is remembered of a column of floats.
#[derive(Debug, Clone, Default)]
pub struct FloatHabit {
    chosen: Habit<Chosen>,
    /// Of the bits or the decimals, whichever they are.
    ints: Habit<IntEncoding>,
}

/// An encoding with everything needed to write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Chosen {
    Bits,
    Decimal(Scale),
    Pco,
}

impl Chosen {
    fn encoding(self) -> FloatEncoding {
        match self {
            Self::Bits => FloatEncoding::Bits,
            Self::Decimal(_) => FloatEncoding::Decimal,
            Self::Pco => FloatEncoding::Pco,
        }
    }
}

/// [`encode_floats`] of a column that comes block after block, as [`encode_ints_again`].
///
/// # Panics
///
/// As [`encode_ints_again`].
pub fn encode_floats_again<F: Float>(
    values: &[F],
    runs: &[u32],
    tier: Tier,
    habit: &mut FloatHabit,
    out: &mut Vec<u8>,
) -> FloatEncoding {
    let start = out.len();
    if let Some(chosen) = habit.chosen.usual().filter(|_| tier == Tier::Hot) {
        let content = encode_content(values, chosen, runs, tier, &mut habit.ints);
        if let Some(content) = content.filter(|bytes| habit.chosen.holds(values.len(), bytes.len())) {
            out.push(chosen.encoding() as u8);
            out.extend(content);
            return chosen.encoding();
        }
    }
    let (chosen, content) = smallest(values, runs, tier, &mut habit.ints);
    out.push(chosen.encoding() as u8);
    out.extend(content);
    habit.chosen.learn(chosen, values.len(), out.len() - start - 1);
    chosen.encoding()
}

/// The smallest encoding, and what follows its tag; `habit` becomes that of its integers.
fn smallest<F: Float>(
    values: &[F],
    runs: &[u32],
    tier: Tier,
    habit: &mut Habit<IntEncoding>,
) -> (Chosen, Vec<u8>) {
    let decimal = Scale::of(values).map(Chosen::Decimal);
    let pcodec = (tier == Tier::Cold).then_some(Chosen::Pco);
    let mut best = (Chosen::Bits, Vec::new());
    for chosen in [Some(Chosen::Bits), decimal, pcodec].into_iter().flatten() {
        let mut fresh = Habit::default();
        let Some(content) = encode_content(values, chosen, runs, tier, &mut fresh) else { continue };
        if best.1.is_empty() || content.len() < best.1.len() {
            best = (chosen, content);
            *habit = fresh;
        }
    }
    best
}

/// What follows the tag; `None` where pco refuses the values.
fn encode_content<F: Float>(
    values: &[F],
    chosen: Chosen,
    runs: &[u32],
    tier: Tier,
    habit: &mut Habit<IntEncoding>,
) -> Option<Vec<u8>> {
    match chosen {
        Chosen::Bits => {
            let bits: Vec<i64> = values.iter().map(|value| value.bits() as i64).collect();
            let mut out = Vec::new();
            encode_ints_again(&bits, runs, tier, habit, &mut out);
            Some(out)
        }
        Chosen::Decimal(scale) => Some(encode_decimals(values, scale, runs, tier, habit)),
        Chosen::Pco => cold::encode(values),
    }
}

/// Replaces `out` by the `count` values that [`encode_floats`] wrote with the same `runs`.
///
/// # Errors
///
/// When the bytes are not such a column. What `out` holds then is of no use.
pub fn decode_floats<F: Float>(
    bytes: &[u8],
    count: usize,
    runs: &[u32],
    out: &mut Vec<F>,
) -> Result<(), EncodingError> {
    if count > COUNT_MAX {
        return Err(EncodingError::Shape { what: "values of a column", need: COUNT_MAX, have: count });
    }
    let mut reader = Reader::new(bytes);
    let tag = reader.byte()?;
    match FloatEncoding::of(bytes) {
        Some(FloatEncoding::Bits) => decode_bits(&mut reader, count, runs, out),
        Some(FloatEncoding::Decimal) => decode_decimals(&mut reader, count, runs, out),
        Some(FloatEncoding::Pco) => cold::decode(reader.rest(), 1, count, out),
        None => Err(EncodingError::UnknownTag { offset: 0, tag }),
    }
}

fn decode_bits<F: Float>(
    reader: &mut Reader,
    count: usize,
    runs: &[u32],
    out: &mut Vec<F>,
) -> Result<(), EncodingError> {
    let mut bits = Vec::new();
    inner_ints(reader, count, runs, &mut bits)?;
    out.clear();
    out.extend(bits.iter().map(|&bits| F::from_bits(bits as u64)));
    Ok(())
}

/// Decodes the integers that are the rest of the column; offsets of errors count from the column's first byte.
fn inner_ints(
    reader: &mut Reader,
    count: usize,
    runs: &[u32],
    out: &mut Vec<i64>,
) -> Result<(), EncodingError> {
    let offset = reader.offset();
    decode_ints(reader.rest(), count, runs, out).map_err(|error| error.shifted(offset))
}

/// Powers of ten between a value and its integer; `factor` is at most `exponent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Scale {
    exponent: u8,
    factor: u8,
}

impl Scale {
    /// The scale that makes a sample smallest, or `None` when half of it is not decimal.
    fn of<F: Float>(values: &[F]) -> Option<Self> {
        let sample: Vec<F> = values.iter().step_by(values.len().div_ceil(SAMPLE).max(1)).copied().collect();
        let exponents = 0..=EXPONENT_MAX;
        let scales =
            exponents.flat_map(|exponent| (0..=exponent).map(move |factor| Self { exponent, factor }));
        scales
            .filter_map(|scale| scale.sample_bits(&sample).map(|bits| (bits, scale)))
            .min_by_key(|&(bits, _)| bits)
            .map(|(_, scale)| scale)
    }

    fn sample_bits<F: Float>(self, sample: &[F]) -> Option<usize> {
        let integers = || sample.iter().filter_map(|&value| self.integer(value));
        let found = integers().count();
        let (min, max) = (integers().min()?, integers().max()?);
        let exceptions = (sample.len() - found) * (8 * F::BYTES + 16);
        (2 * found > sample.len()).then(|| found * bit_width((max - min) as u64) + exceptions)
    }

    /// The integer that [`Self::value`] makes exactly this value of.
    fn integer<F: Float>(self, value: F) -> Option<i64> {
        let scaled = value.widen() * TENS[usize::from(self.exponent)] * TENTHS[usize::from(self.factor)];
        // Beyond the range, and for NaN, the conversion gives a number that does not convert back to the value.
        let integer = scaled.round_ties_even() as i64;
        let fits = zigzag(integer) <= zigzag(INTEGER_MAX);
        (fits && F::narrow(self.value(integer)).bits() == value.bits()).then_some(integer)
    }

    #[inline]
    fn value(self, integer: i64) -> f64 {
        let bits = (integer as u64).wrapping_add(INTEGER_ORIGIN.to_bits());
        (f64::from_bits(bits) - INTEGER_ORIGIN)
            * TENS[usize::from(self.factor)]
            * TENTHS[usize::from(self.exponent)]
    }
}

fn encode_decimals<F: Float>(
    values: &[F],
    scale: Scale,
    runs: &[u32],
    tier: Tier,
    habit: &mut Habit<IntEncoding>,
) -> Vec<u8> {
    let mut exceptions = Vec::new();
    let mut last = 0;
    let integer_at = |(row, &value): (usize, &F)| {
        match scale.integer(value) {
            Some(integer) => last = integer,
            None => exceptions.push(row as i64),
        }
        last
    };
    let integers: Vec<i64> = values.iter().enumerate().map(integer_at).collect();
    let mut out = vec![scale.exponent, scale.factor];
    write_varint(exceptions.len() as u64, &mut out);
    packed::encode(&exceptions, &mut out);
    for &row in &exceptions {
        out.extend(&values[row as usize].bits().to_le_bytes()[..F::BYTES]);
    }
    encode_ints_again(&integers, runs, tier, habit, &mut out);
    out
}

fn decode_decimals<F: Float>(
    reader: &mut Reader,
    count: usize,
    runs: &[u32],
    out: &mut Vec<F>,
) -> Result<(), EncodingError> {
    let scale = read_scale(reader)?;
    let size = reader.bounded("exceptions", count)?;
    let rows_offset = reader.offset();
    let rows = Packed::read(reader, size)?;
    let bits = reader.take(size * F::BYTES)?;
    let (mut integers, mut exceptions) = (Vec::new(), Vec::new());
    inner_ints(reader, count, runs, &mut integers)?;
    rows.decode(&mut exceptions);
    // No clearing first, as in `Packed::decode_rows`.
    out.resize(count, F::default());
    for (value, &integer) in out.iter_mut().zip(&integers) {
        *value = F::narrow(scale.value(integer));
    }
    for (&row, bits) in exceptions.iter().zip(bits.chunks_exact(F::BYTES)) {
        in_range("row of an exception", rows_offset, row as u64, count as u64 - 1)?;
        out[row as usize] = F::from_bits(read_le(bits, 0, F::BYTES));
    }
    Ok(())
}

fn read_scale(reader: &mut Reader) -> Result<Scale, EncodingError> {
    let offset = reader.offset();
    let (exponent, factor) = (reader.byte()?, reader.byte()?);
    in_range("exponent", offset, exponent.into(), EXPONENT_MAX.into())?;
    in_range("factor", offset + 1, factor.into(), exponent.into())?;
    Ok(Scale { exponent, factor })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(values: &[f64]) -> (FloatEncoding, usize) {
        let mut bytes = Vec::new();
        let encoding = encode_floats(values, &[], Tier::Hot, &mut bytes);
        let mut out = Vec::<f64>::new();
        decode_floats(&bytes, values.len(), &[], &mut out).unwrap();
        assert!(values.iter().zip(&out).all(|(a, b)| a.to_bits() == b.to_bits()), "{values:?}");
        assert_eq!((values.len(), FloatEncoding::of(&bytes)), (out.len(), Some(encoding)));
        (encoding, bytes.len())
    }

    #[test]
    fn prices_are_decimals() {
        let values: Vec<f64> = (0..10_000).map(|i| (108_000 + i * 7 % 256) as f64 / 100_000.0).collect();
        let (encoding, size) = check(&values);
        assert_eq!(encoding, FloatEncoding::Decimal);
        assert!(size < 10_500, "{size}");
    }

    #[test]
    fn the_odd_ones_keep_every_bit() {
        let mut values: Vec<f64> = (0..1_000).map(|i| f64::from(i) / 100.0).collect();
        values[3] = -0.0;
        values[4] = f64::from_bits(0x7ff8_dead_beef_0001);
        values[5] = f64::NEG_INFINITY;
        values[6] = f64::MIN_POSITIVE / 8.0;
        values[7] = 1e300;
        values[8] = std::f64::consts::PI;
        assert_eq!(check(&values).0, FloatEncoding::Decimal);
    }

    #[test]
    fn prices_in_32_bits_are_decimals_too() {
        let values: Vec<f32> = (0..5_000).map(|i| (10_000 + i % 100) as f32 / 100.0).collect();
        let (mut bytes, mut out) = (Vec::new(), Vec::<f32>::new());
        assert_eq!(encode_floats(&values, &[], Tier::Hot, &mut bytes), FloatEncoding::Decimal);
        decode_floats(&bytes, values.len(), &[], &mut out).unwrap();
        assert_eq!(out, values);
    }

    /// Integers turn into floats by adding bits up to 2^51 - 1, and are not used beyond.
    #[test]
    fn integers_at_their_bound_come_back() {
        let whole = Scale { exponent: 0, factor: 0 };
        for integer in [INTEGER_MAX - 1, INTEGER_MAX, INTEGER_MAX + 1, INTEGER_MAX + 2, 1 << 52, 1 << 53] {
            for integer in [integer, -integer] {
                let fits = integer.abs() <= INTEGER_MAX;
                assert_eq!(whole.integer(integer as f64), fits.then_some(integer));
                assert!(!fits || whole.value(integer) == integer as f64, "{integer}");
                assert_eq!(
                    whole.integer(integer as f32),
                    fits.then_some(integer).filter(|i| *i as f32 as i64 == *i)
                );
                check(
                    &vec![integer as f64; 300]
                        .iter()
                        .zip(0..)
                        .map(|(f, i)| f - f64::from(i % 3))
                        .collect::<Vec<f64>>(),
                );
            }
        }
    }

    proptest! {
        #[test]
        fn any_bits_come_back(bits in prop::collection::vec(any::<u64>(), 0..400), cold in any::<bool>()) {
            let values: Vec<f64> = bits.iter().map(|&bits| f64::from_bits(bits)).collect();
            let tier = if cold { Tier::Cold } else { Tier::Hot };
            let (mut bytes, mut out) = (Vec::new(), Vec::<f64>::new());
            encode_floats(&values, &[], tier, &mut bytes);
            decode_floats(&bytes, values.len(), &[], &mut out).unwrap();
            prop_assert_eq!(out.iter().map(|value| value.to_bits()).collect::<Vec<_>>(), bits);
        }

        #[test]
        fn damaged_columns_do_not_panic(
            cents in prop::collection::vec(0i32..100_000, 1..400),
            flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut values: Vec<f64> = cents.iter().map(|&cents| f64::from(cents) / 100.0).collect();
            values[0] = f64::NAN;
            let (mut bytes, mut out) = (Vec::new(), Vec::<f64>::new());
            encode_floats(&values, &[], Tier::Hot, &mut bytes);
            prop_assert!(decode_floats(&bytes[..cut.index(bytes.len())], values.len(), &[], &mut out).is_err());
            for (at, byte) in flips {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            if decode_floats(&bytes, values.len(), &[], &mut out).is_ok() {
                prop_assert_eq!(out.len(), values.len());
            }
        }
    }
}
