//! Exact decimals: IEEE 754-2008 decimal64 in the binary integer (BID) encoding.
//!
//! A finite value is `(-1)^sign × coefficient × 10^exponent` with a coefficient of up to sixteen digits and an
//! exponent of -398 to 369. The exponent is part of the value as written: `1.0` and `1.00` are two encodings of one
//! number, and both have the same scale after storage and printing.
//!
//! ```text
//! small form  s eeeeeeeeee ccc…c (53 bits)        coefficient < 2^53; the two bits after s are not 11
//! large form  s 11 eeeeeeeeee ccc…c (51 bits)     coefficient = 2^53 + c
//! infinity    s 11110 …      NaN   s 11111 …
//! ```

use crate::TEXT_MAX;
use crate::digits::{DIGITS, Digits, put_integer};
use std::cmp::Ordering;
use std::fmt;
use std::ops::Neg;
use std::str::FromStr;

const SIGN: u64 = 1 << 63;
/// Both bits set: not the small form.
const STEERING: u64 = 0b11 << 61;
const SMALL_COEFFICIENT: u64 = (1 << 53) - 1;
const LARGE_COEFFICIENT: u64 = (1 << 51) - 1;
/// All four bits set: infinity or NaN.
const SPECIAL: u64 = 0b1111 << 59;
const NAN_BITS: u64 = 0b11111 << 58;
/// Sign, the NaN mark and the signalling bit: what a canonical NaN has above its payload.
const NAN_HEAD: u64 = SIGN | NAN_BITS | 1 << 57;
const NAN_PAYLOAD: u64 = (1 << 50) - 1;
const NAN_PAYLOAD_MAX: u64 = 999_999_999_999_999;

const EXPONENT_MASK: u64 = (1 << 10) - 1;
const BIAS: i32 = 398;
const EXPONENT_MIN: i32 = -398;
const EXPONENT_MAX: i32 = 369;
const COEFFICIENT_MAX: u64 = 9_999_999_999_999_999;
const DIGITS_MAX: u32 = 16;
/// Most digits after the point that are printed plainly; a smaller exponent is printed as `123E-40`.
const PLAIN_SCALE_MAX: i32 = 24;

/// A decimal floating point number of sixteen digits, IEEE 754-2008 decimal64, BID encoding.
///
/// `==` and hashing compare **bits**: `1.0 != 1.00`, and a NaN equals itself. For numbers use [`Decimal64::numeric_eq`]
/// and [`Decimal64::numeric_cmp`]. There is no `<` for that reason.
///
/// ```
/// use tapedb_schema::Decimal64;
/// let price: Decimal64 = "61837.63000000".parse()?;
/// assert_eq!(price.parts(), Some((6_183_763_000_000, -8)));
/// assert_eq!(price.to_string(), "61837.63000000");
/// assert!(price.numeric_eq(&"61837.63".parse()?));
/// # Ok::<(), tapedb_schema::DecimalError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Decimal64(u64);

/// Why a decimal could not be read or converted exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecimalError {
    /// The text is not a decimal; `at` is the offset of the byte that does not belong, or the length if it ends early.
    Syntax {
        /// Offset in bytes.
        at: usize,
    },
    /// The value needs more significant digits than there are.
    Digits {
        /// Significant digits the value needs.
        need: u32,
        /// Significant digits there are.
        have: u32,
    },
    /// The exponent is outside -398 to 369 and no exact shift of the coefficient brings it in.
    Exponent {
        /// Exponent the value needs.
        need: i32,
    },
    /// The value needs more digits after the point than the scale has.
    Scale {
        /// Digits after the point that there are.
        have: u8,
    },
    /// The value at this scale does not fit an `i64`.
    Overflow {
        /// Requested digits after the point.
        scale: u8,
    },
    /// NaN or infinity where a number is needed.
    NotFinite,
}

impl fmt::Display for DecimalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Syntax { at } => write!(f, "not a decimal: unexpected byte or end at offset {at}"),
            Self::Digits { need, have } => write!(f, "decimal needs {need} digits, {have} are available"),
            Self::Exponent { need } => {
                write!(f, "decimal needs exponent {need}, decimal64 has {EXPONENT_MIN} to {EXPONENT_MAX}")
            }
            Self::Scale { have } => write!(f, "decimal needs more than the {have} digits after the point"),
            Self::Overflow { scale } => write!(f, "decimal does not fit a 64-bit integer at scale {scale}"),
            Self::NotFinite => f.write_str("decimal is NaN or infinite, a finite number is needed"),
        }
    }
}

impl std::error::Error for DecimalError {}

impl Decimal64 {
    /// Zero with exponent 0; also the default.
    pub const ZERO: Self = Self(0x31C0_0000_0000_0000);
    /// The quiet NaN without payload.
    pub const NAN: Self = Self(NAN_BITS);
    /// Positive infinity.
    pub const INFINITY: Self = Self(SPECIAL);
    /// Negative infinity.
    pub const NEG_INFINITY: Self = Self(SIGN | SPECIAL);
    /// The largest finite value, 9999999999999999E369.
    pub const MAX: Self = Self(0x77FB_86F2_6FC0_FFFF);

    /// The value with these bits. Every pattern is a value; see [`Decimal64::is_canonical`].
    #[inline]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The bits.
    #[inline]
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// `coefficient × 10^exponent`, exactly. The exponent stays as given where the coefficient fits sixteen digits;
    /// otherwise as many trailing zeros as necessary are dropped.
    ///
    /// # Errors
    /// [`DecimalError::Digits`] or [`DecimalError::Exponent`] if the value is not exactly representable.
    #[inline]
    pub fn from_parts(coefficient: i64, exponent: i32) -> Result<Self, DecimalError> {
        Self::from_magnitude(coefficient < 0, coefficient.unsigned_abs(), exponent)
    }

    /// Signed coefficient and exponent of a finite value; `None` for NaN and infinity. Negative zero gives `(0, e)`.
    #[inline]
    pub fn parts(self) -> Option<(i64, i32)> {
        let negative = (self.0 as i64) >> 63;
        let (magnitude, exponent) = self.magnitude()?;
        // Two's complement negation where `negative` is -1, nothing where it is 0: no branch on the sign.
        Some(((magnitude as i64 ^ negative) - negative, exponent))
    }

    /// Whether the value is finite.
    #[inline]
    pub const fn is_finite(self) -> bool {
        self.0 & SPECIAL != SPECIAL
    }

    /// Whether the value is NaN.
    #[inline]
    pub const fn is_nan(self) -> bool {
        self.0 & NAN_BITS == NAN_BITS
    }

    /// Whether the value is positive or negative infinity.
    #[inline]
    pub const fn is_infinite(self) -> bool {
        self.0 & NAN_BITS == SPECIAL
    }

    /// Whether the sign bit is set; true for negative zero too.
    #[inline]
    pub const fn is_sign_negative(self) -> bool {
        self.0 & SIGN != 0
    }

    /// Whether this is the one standard encoding of its value and scale: a coefficient of at most sixteen digits, no
    /// stray bits in infinity or NaN.
    #[inline]
    pub const fn is_canonical(self) -> bool {
        // Nearly every number: a small coefficient cannot be wrong.
        self.is_small() || self.is_canonical_rarity()
    }

    /// Whether it is a number with a coefficient below 2^53, as nearly all are.
    #[inline(always)]
    const fn is_small(self) -> bool {
        self.0 << 1 < STEERING << 1
    }

    /// The rest of [`Self::is_canonical`]: infinities, NaNs and coefficients of 2^53 and more.
    #[cold]
    #[inline(never)]
    const fn is_canonical_rarity(self) -> bool {
        if self.is_nan() {
            self.0 & !(NAN_HEAD | NAN_PAYLOAD) == 0 && self.0 & NAN_PAYLOAD <= NAN_PAYLOAD_MAX
        } else if self.is_infinite() {
            self.0 & !SIGN == SPECIAL
        } else {
            self.raw_large_coefficient() <= COEFFICIENT_MAX
        }
    }

    /// The same value in its canonical form: itself, nearly always. A coefficient over sixteen digits and a NaN's payload
    /// over fifteen count as zero, as IEEE 754 defines; stray bits of infinities and NaNs are cleared.
    #[inline]
    pub const fn canonical(self) -> Self {
        if self.is_small() { self } else { self.made_canonical() }
    }

    #[cold]
    #[inline(never)]
    const fn made_canonical(self) -> Self {
        if self.is_canonical_rarity() {
            return self;
        }
        let sign = self.0 & SIGN;
        if self.is_nan() {
            let payload = self.0 & NAN_PAYLOAD;
            Self(self.0 & NAN_HEAD | if payload <= NAN_PAYLOAD_MAX { payload } else { 0 })
        } else if self.is_infinite() {
            Self(SPECIAL | sign)
        } else {
            // Both forms have ten bits of exponent; the small one holds a zero.
            Self(sign | (self.0 >> 51 & 0x3ff) << 53)
        }
    }

    /// Compares numbers: `1.0` equals `1.00`, zeros are equal whatever their sign; `None` if either is NaN.
    pub fn numeric_cmp(&self, other: &Self) -> Option<Ordering> {
        if self.is_nan() || other.is_nan() {
            return None;
        }
        let (rank, other_rank) = (self.rank(), other.rank());
        Some(match rank.cmp(&other_rank) {
            Ordering::Equal if rank == 1 => cmp_magnitudes(*self, *other),
            Ordering::Equal if rank == -1 => cmp_magnitudes(*other, *self),
            unequal_or_same => unequal_or_same,
        })
    }

    /// Whether both are the same number: `1.0` and `1.00` are, a NaN never is.
    pub fn numeric_eq(&self, other: &Self) -> bool {
        self.numeric_cmp(other) == Some(Ordering::Equal)
    }

    /// The same number with the trailing zeros of its coefficient moved into the exponent (`1.500` → `1.5`, `100` →
    /// `1E2`); zeros become `0` or `-0`, infinities and NaN lose stray bits and payload.
    pub fn normalize(self) -> Self {
        let sign = self.0 & SIGN;
        match self.magnitude() {
            None if self.is_nan() => Self::NAN,
            None => Self(sign | SPECIAL),
            Some((0, _)) => Self(sign | Self::ZERO.0),
            Some((mut coefficient, mut exponent)) => {
                while coefficient.is_multiple_of(10) && exponent < EXPONENT_MAX {
                    coefficient /= 10;
                    exponent += 1;
                }
                Self::encode(sign != 0, coefficient, exponent)
            }
        }
    }

    /// The value times `10^scale`, if that is an integer that fits.
    ///
    /// # Errors
    /// [`DecimalError::Scale`] if digits would be lost, [`DecimalError::Overflow`] if the result does not fit,
    /// [`DecimalError::NotFinite`] for NaN and infinity.
    pub fn to_scaled(self, scale: u8) -> Result<i64, DecimalError> {
        let (coefficient, exponent) = self.parts().ok_or(DecimalError::NotFinite)?;
        if coefficient == 0 {
            return Ok(0);
        }
        let shift = exponent + i32::from(scale);
        let power = POWERS_OF_TEN.get(shift.unsigned_abs() as usize).map(|&power| power as i64);
        if shift >= 0 {
            power.and_then(|power| coefficient.checked_mul(power)).ok_or(DecimalError::Overflow { scale })
        } else {
            match power {
                Some(power) if coefficient % power == 0 => Ok(coefficient / power),
                _ => Err(DecimalError::Scale { have: scale }),
            }
        }
    }

    /// The value if it is whole and fits an `i128`.
    pub(crate) fn to_integer(self) -> Option<i128> {
        let (coefficient, exponent) = self.parts()?;
        if coefficient == 0 {
            return Some(0);
        }
        let coefficient = i128::from(coefficient);
        let power = 10i128.checked_pow(exponent.unsigned_abs())?;
        if exponent >= 0 {
            coefficient.checked_mul(power)
        } else {
            (coefficient % power == 0).then_some(coefficient / power)
        }
    }

    /// `value × 10^-scale`, keeping the scale where sixteen digits allow it.
    ///
    /// # Errors
    /// [`DecimalError::Digits`] if the value has more than sixteen significant digits.
    #[inline]
    pub fn from_scaled(value: i64, scale: u8) -> Result<Self, DecimalError> {
        Self::from_parts(value, -i32::from(scale))
    }

    /// The nearest `f64`, ties to even; infinity beyond its range.
    pub fn to_f64(self) -> f64 {
        let Some((coefficient, exponent)) = self.magnitude() else {
            return self.special_to_f64();
        };
        // Both operands are exact here, so that one division or product rounds correctly (Clinger).
        let magnitude = if coefficient <= 1 << 53 && (-22..=22).contains(&exponent) {
            let power = EXACT_F64_POWERS[exponent.unsigned_abs() as usize];
            if exponent < 0 { coefficient as f64 / power } else { coefficient as f64 * power }
        } else {
            parse_f64(coefficient, exponent)
        };
        if self.is_sign_negative() { -magnitude } else { magnitude }
    }

    /// The shortest decimal that reads back as the same `f64`, or, where that needs seventeen digits, the nearest of
    /// sixteen. Whole numbers below 10^16 get exponent 0.
    pub fn from_f64(value: f64) -> Self {
        if value.is_nan() {
            return Self::NAN;
        }
        if value.is_infinite() {
            return if value < 0.0 { Self::NEG_INFINITY } else { Self::INFINITY };
        }
        let mut text = StackText::default();
        let shortest = fmt::write(&mut text, format_args!("{value:e}")).ok().and_then(|()| text.decimal());
        let decimal = shortest.unwrap_or_else(|| {
            let mut text = StackText::default();
            let written = fmt::write(&mut text, format_args!("{value:.15e}"));
            written.ok().and_then(|()| text.decimal()).unwrap_or(Self::NAN)
        });
        decimal.without_positive_exponent()
    }

    /// Reads a decimal as [`FromStr`] does, from bytes and without allocating; plain `-123.4500` takes a fast path.
    ///
    /// # Errors
    /// [`DecimalError::Syntax`], [`DecimalError::Digits`] or [`DecimalError::Exponent`].
    #[inline]
    pub fn parse_bytes(text: &[u8]) -> Result<Self, DecimalError> {
        match parse_plain(text) {
            Some(decimal) => Ok(decimal),
            None => parse_general(text),
        }
    }

    /// Appends what `Display` prints.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        let mut buffer = [0; TEXT_MAX];
        let length = self.format(&mut buffer);
        out.extend_from_slice(&buffer[..length]);
    }

    /// Magnitude and exponent of a finite value.
    #[inline]
    fn magnitude(self) -> Option<(u64, i32)> {
        if self.0 & STEERING != STEERING {
            Some((self.0 & SMALL_COEFFICIENT, ((self.0 >> 53) & EXPONENT_MASK) as i32 - BIAS))
        } else {
            self.large_magnitude()
        }
    }

    /// By the standard, a coefficient beyond sixteen digits is zero.
    #[cold]
    fn large_magnitude(self) -> Option<(u64, i32)> {
        if !self.is_finite() {
            return None;
        }
        let coefficient = self.raw_large_coefficient();
        let exponent = ((self.0 >> 51) & EXPONENT_MASK) as i32 - BIAS;
        Some((if coefficient > COEFFICIENT_MAX { 0 } else { coefficient }, exponent))
    }

    const fn raw_large_coefficient(self) -> u64 {
        (1 << 53) + (self.0 & LARGE_COEFFICIENT)
    }

    /// -2 for negative infinity, -1 for negative, 0, 1 for positive, 2 for infinity.
    fn rank(self) -> i8 {
        let magnitude = match self.magnitude() {
            None => 2,
            Some((0, _)) => 0,
            Some(_) => 1,
        };
        if self.is_sign_negative() { -magnitude } else { magnitude }
    }

    /// The coefficient must have at most sixteen digits and the exponent must be in range.
    #[inline]
    fn encode(negative: bool, coefficient: u64, exponent: i32) -> Self {
        debug_assert!(coefficient <= COEFFICIENT_MAX && (EXPONENT_MIN..=EXPONENT_MAX).contains(&exponent));
        let sign = u64::from(negative) << 63;
        let biased = (exponent + BIAS) as u64;
        if coefficient <= SMALL_COEFFICIENT {
            Self(sign | biased << 53 | coefficient)
        } else {
            Self(sign | STEERING | biased << 51 | (coefficient & LARGE_COEFFICIENT))
        }
    }

    #[inline]
    fn from_magnitude(negative: bool, coefficient: u64, exponent: i32) -> Result<Self, DecimalError> {
        if coefficient <= COEFFICIENT_MAX && (EXPONENT_MIN..=EXPONENT_MAX).contains(&exponent) {
            return Ok(Self::encode(negative, coefficient, exponent));
        }
        Self::from_shifted_magnitude(negative, coefficient, exponent)
    }

    /// Moves zeros between coefficient and exponent until both are in range.
    #[cold]
    fn from_shifted_magnitude(
        negative: bool,
        mut coefficient: u64,
        mut exponent: i32,
    ) -> Result<Self, DecimalError> {
        if coefficient == 0 {
            return Ok(Self::encode(negative, 0, exponent.clamp(EXPONENT_MIN, EXPONENT_MAX)));
        }
        while coefficient > COEFFICIENT_MAX && coefficient.is_multiple_of(10) {
            coefficient /= 10;
            exponent = exponent.saturating_add(1);
        }
        if coefficient > COEFFICIENT_MAX {
            return Err(DecimalError::Digits { need: digits(coefficient), have: DIGITS_MAX });
        }
        let need = exponent;
        while exponent < EXPONENT_MIN && coefficient.is_multiple_of(10) {
            coefficient /= 10;
            exponent += 1;
        }
        while exponent > EXPONENT_MAX && coefficient <= COEFFICIENT_MAX / 10 {
            coefficient *= 10;
            exponent -= 1;
        }
        if (EXPONENT_MIN..=EXPONENT_MAX).contains(&exponent) {
            Ok(Self::encode(negative, coefficient, exponent))
        } else {
            Err(DecimalError::Exponent { need })
        }
    }

    /// `1E2` → `100` where sixteen digits hold it.
    fn without_positive_exponent(self) -> Self {
        match self.magnitude() {
            Some((0, _)) => Self(self.0 & SIGN | Self::ZERO.0),
            Some((coefficient, exponent)) if exponent > 0 => POWERS_OF_TEN
                .get(exponent as usize)
                .and_then(|&power| coefficient.checked_mul(power))
                .filter(|&whole| whole <= COEFFICIENT_MAX)
                .map_or(self, |whole| Self::encode(self.is_sign_negative(), whole, 0)),
            _ => self,
        }
    }

    fn special_to_f64(self) -> f64 {
        match (self.is_nan(), self.is_sign_negative()) {
            (true, _) => f64::NAN,
            (_, true) => f64::NEG_INFINITY,
            (_, false) => f64::INFINITY,
        }
    }

    /// Writes what `Display` prints at the start of the buffer, and returns its length. What follows it in the buffer is of no use.
    #[inline]
    pub fn format(self, buffer: &mut [u8; TEXT_MAX]) -> usize {
        let mut at = 0;
        if self.is_sign_negative() && !self.is_nan() {
            buffer[0] = b'-';
            at = 1;
        }
        match self.magnitude() {
            None => put(buffer, at, if self.is_nan() { b"NaN" } else { b"Infinity" }),
            Some((coefficient, exponent)) if (-PLAIN_SCALE_MAX..=0).contains(&exponent) => {
                put_plain(buffer, at, coefficient, exponent.unsigned_abs() as usize)
            }
            Some((coefficient, exponent)) => {
                at = put_integer(buffer, at, coefficient);
                at = put(buffer, at, if exponent < 0 { b"E-" } else { b"E" });
                put_integer(buffer, at, u64::from(exponent.unsigned_abs()))
            }
        }
    }
}

impl Default for Decimal64 {
    fn default() -> Self {
        Self::ZERO
    }
}

impl Neg for Decimal64 {
    type Output = Self;

    /// Flips the sign bit, of zeros and NaN too.
    fn neg(self) -> Self {
        Self(self.0 ^ SIGN)
    }
}

/// Reads `[+-]digits[.digits][E[+-]digits]`, `NaN`, `Infinity` or `inf` (these in any case), exactly and with the scale
/// as written. More than sixteen digits are accepted where the surplus is trailing zeros.
impl FromStr for Decimal64 {
    type Err = DecimalError;

    fn from_str(text: &str) -> Result<Self, DecimalError> {
        Self::parse_bytes(text.as_bytes())
    }
}

/// Plain notation with the full scale; coefficient and exponent (`12E3`) where the exponent is positive or below -24.
/// A canonical finite value reads back with identical bits.
impl fmt::Display for Decimal64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut buffer = [0; TEXT_MAX];
        let length = self.format(&mut buffer);
        let text = std::str::from_utf8(&buffer[..length]).map_err(|_| fmt::Error)?;
        match text.strip_prefix('-') {
            Some(magnitude) => f.pad_integral(false, "", magnitude),
            None => f.pad_integral(true, "", text),
        }
    }
}

impl fmt::Debug for Decimal64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Decimal64({self})")
    }
}

const fn powers_of_ten() -> [u64; 19] {
    let mut powers = [1; 19];
    let mut i = 1;
    while i < powers.len() {
        powers[i] = powers[i - 1] * 10;
        i += 1;
    }
    powers
}

/// 10^0 to 10^18.
pub(crate) static POWERS_OF_TEN: [u64; 19] = powers_of_ten();

/// The powers of ten that `f64` holds exactly.
static EXACT_F64_POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
    1e19, 1e20, 1e21, 1e22,
];

fn digits(value: u64) -> u32 {
    value.checked_ilog10().unwrap_or(0) + 1
}

/// Both values are finite and not zero; signs are ignored.
fn cmp_magnitudes(a: Decimal64, b: Decimal64) -> Ordering {
    let (Some((a, a_exponent)), Some((b, b_exponent))) = (a.magnitude(), b.magnitude()) else {
        return Ordering::Equal;
    };
    if a_exponent == b_exponent {
        return a.cmp(&b);
    }
    let leading = |coefficient, exponent| digits(coefficient) as i32 + exponent;
    leading(a, a_exponent).cmp(&leading(b, b_exponent)).then_with(|| {
        // The leading digits have the same weight, so that the exponents differ by at most fifteen.
        let shift = |by: i32| 10u128.pow(by.max(0) as u32);
        (u128::from(a) * shift(a_exponent - b_exponent))
            .cmp(&(u128::from(b) * shift(b_exponent - a_exponent)))
    })
}

/// The hot case: an optional sign, at most sixteen digits and a point. `None` sends the text to [`parse_general`].
#[inline]
fn parse_plain(text: &[u8]) -> Option<Decimal64> {
    let negative = *text.first()? == b'-';
    let text = &text[usize::from(negative)..];
    if text.is_empty() || text.len() > 17 {
        return None;
    }
    let mut coefficient = 0;
    let mut point = None;
    for (i, &byte) in text.iter().enumerate() {
        let digit = byte.wrapping_sub(b'0');
        if digit < 10 {
            coefficient = coefficient * 10 + u64::from(digit);
        } else if byte == b'.' && point.is_none() {
            point = Some(i);
        } else {
            return None;
        }
    }
    let scale = point.map_or(0, |point| text.len() - 1 - point);
    let has_digits = point.is_none() || text.len() > 1;
    (has_digits && coefficient <= COEFFICIENT_MAX)
        .then(|| Decimal64::encode(negative, coefficient, -(scale as i32)))
}

#[cold]
fn parse_general(text: &[u8]) -> Result<Decimal64, DecimalError> {
    let negative = text.first() == Some(&b'-');
    let start = usize::from(matches!(text.first(), Some(b'-' | b'+')));
    if let Some(special) = parse_special(&text[start..]) {
        return Ok(if negative && special.is_infinite() { -special } else { special });
    }
    let mut number = Significand::default();
    let end = number.read(text, start);
    if !number.any {
        return Err(DecimalError::Syntax { at: end });
    }
    let written_exponent = parse_exponent(text, end)?;
    if number.need > DIGITS_MAX {
        return Err(DecimalError::Digits { need: number.need, have: DIGITS_MAX });
    }
    let exponent = written_exponent + number.exponent;
    let exponent = exponent.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32;
    Decimal64::from_magnitude(negative, number.coefficient, exponent)
}

fn parse_special(text: &[u8]) -> Option<Decimal64> {
    if text.eq_ignore_ascii_case(b"nan") {
        Some(Decimal64::NAN)
    } else if text.eq_ignore_ascii_case(b"infinity") || text.eq_ignore_ascii_case(b"inf") {
        Some(Decimal64::INFINITY)
    } else {
        None
    }
}

/// The digits of a decimal of any length: the first sixteen significant ones and what follows from the rest.
#[derive(Default)]
struct Significand {
    coefficient: u64,
    /// Added to the written exponent: minus the digits after the point, plus the digits not in the coefficient.
    exponent: i64,
    /// Significant digits up to the last that is not zero, counted only beyond the sixteenth.
    need: u32,
    /// Significant digits seen.
    seen: u32,
    /// Whether there was any digit.
    any: bool,
}

impl Significand {
    /// Reads digits and at most one point; returns the offset of the first byte that is neither.
    fn read(&mut self, text: &[u8], start: usize) -> usize {
        let mut point = false;
        for (i, &byte) in text.iter().enumerate().skip(start) {
            match byte {
                b'0'..=b'9' => self.digit(byte - b'0', point),
                b'.' if !point => point = true,
                _ => return i,
            }
        }
        text.len()
    }

    fn digit(&mut self, digit: u8, after_point: bool) {
        self.any = true;
        self.exponent -= i64::from(after_point);
        if self.seen == 0 && digit == 0 {
            return;
        }
        self.seen = self.seen.saturating_add(1);
        if self.seen <= DIGITS_MAX {
            self.coefficient = self.coefficient * 10 + u64::from(digit);
            return;
        }
        self.exponent += 1;
        if digit != 0 {
            self.need = self.seen;
        }
    }
}

/// The exponent part from `at` to the end of the text; 0 if there is none.
fn parse_exponent(text: &[u8], at: usize) -> Result<i64, DecimalError> {
    match text.get(at) {
        None => return Ok(0),
        Some(b'e' | b'E') => {}
        Some(_) => return Err(DecimalError::Syntax { at }),
    }
    let negative = text.get(at + 1) == Some(&b'-');
    let first = at + 1 + usize::from(matches!(text.get(at + 1), Some(b'-' | b'+')));
    if first == text.len() {
        return Err(DecimalError::Syntax { at: first });
    }
    let mut exponent = 0i64;
    for (i, &byte) in text.iter().enumerate().skip(first) {
        if !byte.is_ascii_digit() {
            return Err(DecimalError::Syntax { at: i });
        }
        // Far beyond every exponent and every text length: from here on only the direction matters.
        exponent = (exponent * 10 + i64::from(byte - b'0')).min(1 << 48);
    }
    Ok(if negative { -exponent } else { exponent })
}

/// Coefficient with `scale` digits after the point; returns the end.
#[inline]
fn put_plain(buffer: &mut [u8; TEXT_MAX], at: usize, coefficient: u64, scale: usize) -> usize {
    if scale == 0 {
        return put_integer(buffer, at, coefficient);
    }
    if scale >= DIGITS {
        return put_small(buffer, at, coefficient, scale);
    }
    // Sixteen digits at most, one before the point at least: what is copied too much is overwritten, or behind the end.
    let digits = Digits::of(coefficient);
    let length = digits.needed.max(scale + 1);
    let point = at + length - scale;
    buffer[at..at + DIGITS].copy_from_slice(digits.last(length));
    buffer[point + 1..point + 1 + DIGITS].copy_from_slice(digits.last(scale));
    buffer[point] = b'.';
    point + 1 + scale
}

/// A number below one with more digits behind the point than a coefficient has.
#[cold]
fn put_small(buffer: &mut [u8; TEXT_MAX], at: usize, coefficient: u64, scale: usize) -> usize {
    // A coefficient has at most as many digits as `Digits` holds; with scale 16 all are behind the point.
    buffer[at..at + 2 + scale].fill(b'0');
    buffer[at + 1] = b'.';
    let end = at + 2 + scale;
    buffer[end - DIGITS..end].copy_from_slice(Digits::of(coefficient).last(DIGITS));
    end
}

fn put(buffer: &mut [u8; TEXT_MAX], at: usize, text: &[u8]) -> usize {
    buffer[at..at + text.len()].copy_from_slice(text);
    at + text.len()
}

/// The standard library reads decimal text correctly rounded at any exponent.
#[cold]
fn parse_f64(coefficient: u64, exponent: i32) -> f64 {
    let mut text = StackText::default();
    let written = fmt::write(&mut text, format_args!("{coefficient}e{exponent}"));
    written.ok().and_then(|()| text.as_str().parse().ok()).unwrap_or(f64::NAN)
}

/// A short text on the stack.
#[derive(Default)]
struct StackText {
    // Sign, sixteen digits, a point, and an exponent of ten digits and its sign are at most thirty bytes.
    bytes: [u8; 32],
    length: usize,
}

impl StackText {
    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }

    fn decimal(&self) -> Option<Decimal64> {
        Decimal64::parse_bytes(&self.bytes[..self.length]).ok()
    }
}

impl fmt::Write for StackText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length + text.len();
        self.bytes.get_mut(self.length..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decimal(text: &str) -> Decimal64 {
        text.parse().expect(text)
    }

    #[test]
    fn known_bit_patterns() {
        // Sign, exponent + 398 from bit 53 (small form) or 51 (large form), coefficient, put together by hand.
        for (text, bits) in [
            ("0", 0x31C0_0000_0000_0000),
            ("-0", 0xB1C0_0000_0000_0000),
            ("1", 0x31C0_0000_0000_0001),
            ("-7.50", 0xB180_0000_0000_02EE),
            ("0.01", 0x3180_0000_0000_0001),
            ("61837.63000000", 0x30C0_059F_C4FF_3AC0),
            ("1E2", 0x3200_0000_0000_0001),
            ("9007199254740991", 0x31DF_FFFF_FFFF_FFFF),
            ("9007199254740992", 0x6C70_0000_0000_0000),
            ("9999999999999999", 0x6C73_86F2_6FC0_FFFF),
            ("1E-398", 0x0000_0000_0000_0001),
            ("9999999999999999E369", 0x77FB_86F2_6FC0_FFFF),
            ("Infinity", 0x7800_0000_0000_0000),
            ("-Infinity", 0xF800_0000_0000_0000),
            ("NaN", 0x7C00_0000_0000_0000),
        ] {
            assert_eq!(decimal(text).to_bits(), bits, "{text}: {:#018x}", decimal(text).to_bits());
            assert_eq!(Decimal64::from_bits(bits).to_string(), text);
            assert!(Decimal64::from_bits(bits).is_canonical());
        }
        assert_eq!(decimal("9999999999999999E369"), Decimal64::MAX);
        assert_eq!(Decimal64::default(), Decimal64::ZERO);
    }

    #[test]
    fn texts_keep_their_scale() {
        for text in
            ["0.00", "-0.000", "12.340", "0.000000000000000000000001", "1E-25", "0E5", "1234E-30", "100"]
        {
            assert_eq!(decimal(text).to_string(), text);
        }
        for (text, canonical) in [
            ("+1.5", "1.5"),
            (".5", "0.5"),
            ("5.", "5"),
            ("007", "7"),
            ("1.5e3", "15E2"),
            ("1.5E-1", "0.15"),
            ("1.234567890123456000", "1.234567890123456"),
            ("100000000000000000", "1000000000000000E2"),
            ("00000000000000000000001.0", "1.0"),
            ("0.0000000000000000000000000000000012340", "12340E-37"),
            ("inf", "Infinity"),
            ("-nan", "NaN"),
            ("0E99999999999999999999", "0E369"),
            ("1E384", "1000000000000000E369"),
            ("1000E-401", "1E-398"),
        ] {
            assert_eq!(decimal(text).to_string(), canonical, "{text}");
        }
        assert_eq!(
            format!("[{:>8}] [{:<6}] {:?}", decimal("1.50"), decimal("-2"), decimal("3")),
            "[    1.50] [-2    ] Decimal64(3)"
        );
    }

    #[test]
    fn wrong_texts_say_where_and_why() {
        for (text, at) in [
            ("", 0),
            ("-", 1),
            (".", 1),
            ("1.2.3", 3),
            ("1x", 1),
            ("12 ", 2),
            ("1E", 2),
            ("1E+", 3),
            ("1E5x", 3),
            ("--1", 1),
            ("E5", 0),
        ] {
            assert_eq!(text.parse::<Decimal64>(), Err(DecimalError::Syntax { at }), "{text}");
        }
        let digits = |need| Err(DecimalError::Digits { need, have: 16 });
        assert_eq!("12345678901234567".parse::<Decimal64>(), digits(17));
        assert_eq!("0.012345678901234567800".parse::<Decimal64>(), digits(18));
        assert_eq!("1E385".parse::<Decimal64>(), Err(DecimalError::Exponent { need: 385 }));
        assert_eq!("1E-399".parse::<Decimal64>(), Err(DecimalError::Exponent { need: -399 }));
        assert!(matches!("1E-99999999999999999999".parse::<Decimal64>(), Err(DecimalError::Exponent { .. })));
        let message = "12345678901234567".parse::<Decimal64>().unwrap_err().to_string();
        assert_eq!(message, "decimal needs 17 digits, 16 are available");
    }

    #[test]
    fn every_bit_pattern_has_a_canonical_form_of_the_same_value() {
        let mut bits = 0x9E37_79B9_7F4A_7C15u64;
        for round in 0..100_000u64 {
            bits = bits.wrapping_mul(0xD134_2543_DE82_EF95).wrapping_add(round);
            // Every fourth has the head of a large form, an infinity or a NaN.
            let decimal = Decimal64::from_bits(if round % 4 == 0 { bits | 0b11 << 61 } else { bits });
            let canonical = decimal.canonical();
            assert!(canonical.is_canonical(), "{:#x}", decimal.to_bits());
            assert_eq!((canonical.parts(), canonical.is_nan()), (decimal.parts(), decimal.is_nan()));
            assert_eq!(canonical.is_sign_negative(), decimal.is_sign_negative());
            assert!(!decimal.is_canonical() || canonical == decimal);
        }
    }

    #[test]
    fn parts_of_unusual_values() {
        assert_eq!(Decimal64::NAN.parts(), None);
        assert_eq!(Decimal64::NEG_INFINITY.parts(), None);
        assert_eq!(decimal("-0.0").parts(), Some((0, -1)));
        assert!(decimal("-0.0").is_sign_negative());
        // The large form can hold more than sixteen digits; the standard reads such a coefficient as zero.
        let beyond = Decimal64::from_bits(0x6C77_FFFF_FFFF_FFFF);
        assert!(!beyond.is_canonical() && beyond.is_finite());
        assert_eq!(beyond.parts(), Some((0, 0)));
        assert!(!Decimal64::from_bits(0x7800_0000_0000_0001).is_canonical());
        assert!(!Decimal64::from_bits(0x7C04_0000_0000_0000).is_canonical());
        assert!(!Decimal64::from_bits(0x7C03_FFFF_FFFF_FFFF).is_canonical());
        assert!(Decimal64::from_bits(0xFE00_0000_0000_0001).is_canonical());
        assert_eq!(Decimal64::from_parts(i64::MIN, 0), Err(DecimalError::Digits { need: 19, have: 16 }));
        assert_eq!(Decimal64::from_parts(1, i32::MAX), Err(DecimalError::Exponent { need: i32::MAX }));
        assert_eq!(Decimal64::from_parts(0, i32::MIN).unwrap().parts(), Some((0, -398)));
    }

    #[test]
    fn compares_numbers() {
        let ascending = [
            "-Infinity",
            "-1E300",
            "-10",
            "-9.99",
            "-1E-300",
            "0",
            "1E-398",
            "0.09",
            "0.1",
            "1",
            "2E15",
            "1E369",
            "Infinity",
        ];
        for (i, a) in ascending.iter().enumerate() {
            for (j, b) in ascending.iter().enumerate() {
                assert_eq!(decimal(a).numeric_cmp(&decimal(b)), Some(i.cmp(&j)), "{a} {b}");
            }
        }
        for (a, b) in [("1.0", "1.00"), ("0", "-0.00"), ("1E15", "1000000000000000.0"), ("-5E1", "-50")] {
            assert!(decimal(a).numeric_eq(&decimal(b)));
            assert_ne!(decimal(a), decimal(b));
            assert_eq!(decimal(a).numeric_cmp(&decimal(b)), Some(Ordering::Equal));
        }
        assert_eq!(Decimal64::NAN.numeric_cmp(&Decimal64::NAN), None);
        assert!(!Decimal64::NAN.numeric_eq(&Decimal64::ZERO));
    }

    #[test]
    fn normalizes() {
        for (text, normal) in [
            ("1.500", "1.5"),
            ("100", "1E2"),
            ("-0.00", "-0"),
            ("10E369", "10E369"),
            ("-Infinity", "-Infinity"),
        ] {
            assert_eq!(decimal(text).normalize(), decimal(normal), "{text}");
        }
        assert_eq!(Decimal64::from_bits(0xFE00_0000_0000_0001).normalize(), Decimal64::NAN);
        assert_eq!(-decimal("1.5"), decimal("-1.5"));
    }

    #[test]
    fn scales() {
        assert_eq!(decimal("1.50").to_scaled(4), Ok(15_000));
        assert_eq!(decimal("-1.500").to_scaled(1), Ok(-15));
        assert_eq!(decimal("1.55").to_scaled(1), Err(DecimalError::Scale { have: 1 }));
        assert_eq!(decimal("1E-300").to_scaled(18), Err(DecimalError::Scale { have: 18 }));
        assert_eq!(decimal("10").to_scaled(18), Err(DecimalError::Overflow { scale: 18 }));
        assert_eq!(decimal("1E300").to_scaled(0), Err(DecimalError::Overflow { scale: 0 }));
        assert_eq!(decimal("0E300").to_scaled(18), Ok(0));
        assert_eq!(decimal("9E18").to_scaled(0), Ok(9_000_000_000_000_000_000));
        assert_eq!(Decimal64::INFINITY.to_scaled(0), Err(DecimalError::NotFinite));
        assert_eq!(Decimal64::from_scaled(-15_000, 4), Ok(decimal("-1.5000")));
        assert_eq!(decimal("120E-1").to_integer(), Some(12));
        assert_eq!(decimal("1.5").to_integer(), None);
        assert_eq!(decimal("1E38").to_integer(), Some(10i128.pow(38)));
        assert_eq!(decimal("1E369").to_integer(), None);
    }

    #[test]
    fn converts_floats() {
        for (float, text) in [
            (0.1, "0.1"),
            (100.0, "100"),
            (-0.0, "-0"),
            (1.0 / 3.0, "0.3333333333333333"),
            (0.1 + 0.2, "0.3000000000000000"),
            (1e300, "1E300"),
            (5e-324, "5E-324"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(Decimal64::from_f64(float).to_string(), text);
        }
        assert!(Decimal64::from_f64(f64::NAN).is_nan());
        assert!(Decimal64::NAN.to_f64().is_nan());
        assert_eq!(Decimal64::MAX.to_f64(), f64::INFINITY);
        assert_eq!(decimal("1E-398").to_f64(), 0.0);
        assert!(decimal("-0").to_f64().is_sign_negative());
        assert_eq!(decimal("1.797693134862316E308").to_f64(), f64::INFINITY);
    }

    #[test]
    fn common_texts_take_the_fast_path() {
        for text in
            ["7", "-7", "1.5", "12.5", "123.4500", "61837.63000000", "1234567890123456", "-0.00000001"]
        {
            assert_eq!(parse_plain(text.as_bytes()), Some(decimal(text)), "{text}");
        }
    }

    prop_compose! {
        fn finite()(c in prop_oneof![0..=COEFFICIENT_MAX, 0..1000u64, Just(1 << 53), Just((1 << 53) - 1)],
                    e in prop_oneof![EXPONENT_MIN..=EXPONENT_MAX, -20..20], negative: bool) -> Decimal64 {
            Decimal64::encode(negative, c, e)
        }
    }

    proptest! {
        #[test]
        fn digits_and_point_are_where_they_belong(coefficient in 0..=COEFFICIENT_MAX, shift in 0..54u32, scale in 0..=24usize) {
            let coefficient = coefficient >> shift;
            let value = Decimal64::from_parts(coefficient as i64, -(scale as i32)).unwrap();
            let mut expected = format!("{coefficient:0width$}", width = scale + 1);
            if scale > 0 {
                expected.insert(expected.len() - scale, '.');
            }
            prop_assert_eq!(value.to_string(), expected.clone());
            prop_assert_eq!((-value).to_string(), format!("-{expected}"));
        }

        #[test]
        fn texts_read_back_to_the_same_bits(value in finite()) {
            prop_assert!(value.is_canonical());
            prop_assert_eq!(decimal(&value.to_string()), value);
            let mut bytes = Vec::new();
            value.write_to(&mut bytes);
            prop_assert_eq!(bytes, value.to_string().into_bytes());
        }

        #[test]
        fn parts_read_back(value in finite()) {
            let (coefficient, exponent) = value.parts().unwrap();
            let back = Decimal64::from_parts(coefficient, exponent).unwrap();
            prop_assert_eq!(if coefficient == 0 && value.is_sign_negative() { -back } else { back }, value);
        }

        #[test]
        fn any_bits_print_and_read_back(bits: u64) {
            let value = Decimal64::from_bits(bits);
            let back = decimal(&value.to_string());
            prop_assert!(back == value || !value.is_canonical() || value.is_nan());
            prop_assert_eq!(back.normalize(), value.normalize());
        }

        #[test]
        fn any_parts_are_exact_or_refused(coefficient: i64, exponent in -430..400i32) {
            let trimmed = decimal_digits_without_zeros(coefficient.unsigned_abs());
            match Decimal64::from_parts(coefficient, exponent) {
                Ok(value) => {
                    let (c, e) = value.parts().unwrap();
                    let shift = |by: i32| 10i128.pow(by.max(0) as u32);
                    prop_assert_eq!(i128::from(c) * shift(e - exponent), i128::from(coefficient) * shift(exponent - e));
                }
                Err(DecimalError::Digits { .. }) => prop_assert!(trimmed > 16),
                Err(DecimalError::Exponent { .. }) => prop_assert!(!(-398..=350).contains(&exponent)),
                Err(other) => prop_assert!(false, "{}", other),
            }
        }

        #[test]
        fn comparison_agrees_with_integers(a in -10_000_000_000_000_000i64..10_000_000_000_000_000, b in -1000i64..1000,
                                           i in -8..8i32, j in -8..8i32) {
            let (Ok(x), Ok(y)) = (Decimal64::from_parts(a, i), Decimal64::from_parts(b, j)) else { return Ok(()) };
            let at = |c: i64, e: i32| i128::from(c) * 10i128.pow((e + 8) as u32);
            prop_assert_eq!(x.numeric_cmp(&y), Some(at(a, i).cmp(&at(b, j))));
            prop_assert_eq!(y.numeric_cmp(&x), Some(at(b, j).cmp(&at(a, i))));
            prop_assert!(x.numeric_eq(&x.normalize()));
        }

        #[test]
        fn scaling_agrees_with_integers(c in -9_999_999_999_999_999i64..=9_999_999_999_999_999, e in -18..4i32, scale in 0..=18u8) {
            let value = Decimal64::from_parts(c, e).unwrap();
            let (up, down) = (10i128.pow((e + i32::from(scale)).max(0) as u32), 10i128.pow((-e - i32::from(scale)).max(0) as u32));
            let wide = i128::from(c) * up;
            let expected = if wide % down == 0 { i64::try_from(wide / down).ok() } else { None };
            prop_assert_eq!(value.to_scaled(scale).ok(), expected);
        }

        #[test]
        fn floats_agree_with_the_standard_library(value in finite()) {
            prop_assert_eq!(value.to_f64().to_bits(), value.to_string().parse::<f64>().unwrap().to_bits());
        }

        #[test]
        fn floats_of_sixteen_digits_read_back(bits: u64) {
            let float = f64::from_bits(bits);
            prop_assume!(float.is_finite());
            let shortest = format!("{float:e}").bytes().take_while(|&b| b != b'e').filter(u8::is_ascii_digit).count();
            let decimal = Decimal64::from_f64(float);
            if shortest <= 16 {
                prop_assert_eq!(decimal.to_f64().to_bits(), bits);
            } else {
                prop_assert!(((decimal.to_f64() - float) / float).abs() < 1e-15);
            }
        }

        #[test]
        fn fast_and_general_parsers_agree(text in "[+-]?[0-9]{0,10}[.:/]?[0-9]{0,10}[.x\u{b0}]?") {
            let fast = Decimal64::parse_bytes(text.as_bytes());
            prop_assert_eq!(fast, parse_general(text.as_bytes()));
        }

        #[test]
        fn no_bytes_panic(bytes in any::<Vec<u8>>()) {
            let _ = Decimal64::parse_bytes(&bytes);
        }
    }

    fn decimal_digits_without_zeros(mut value: u64) -> u32 {
        while value != 0 && value.is_multiple_of(10) {
            value /= 10;
        }
        digits(value)
    }
}
