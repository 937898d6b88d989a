//! Decimals as the nearest floats.

use crate::coefficients::COEFFICIENT_BITS;
use crate::simd::widest;
use tapedb_schema::Decimal64;

/// Values that are converted together where sign apart only their coefficients differ.
const STRIP: usize = 64;

const SIGN: u64 = 1 << 63;

/// Bits of the exponent of a small coefficient, as `docs/format/message.md` has them.
const EXPONENT: u64 = 0x3ff << COEFFICIENT_BITS;

const BIAS: u64 = 398;

/// Powers of ten that an `f64` has exactly, and then others, so that each number of [`POWER_BITS`] is the place of one.
const POWERS: [f64; 1 << POWER_BITS] = {
    let exact = [
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17,
        1e18, 1e19, 1e20, 1e21, 1e22,
    ];
    let mut powers = [1.0; 1 << POWER_BITS];
    let mut i = 0;
    while i < exact.len() {
        powers[i] = exact[i];
        i += 1;
    }
    powers
};

const POWER_BITS: u32 = 5;

/// The largest power of ten that is exact.
const POWER_MAX: u64 = 22;

/// Appends the nearest `f64`s of decimals given by their bits.
///
/// Neighbours mostly have the same exponent, or exponents of small numbers of digits behind the point. Then each value is one division
/// of exact operands, which rounds correctly, in a loop without branches that becomes vector instructions.
pub fn append_f64s(bits: &[i64], out: &mut Vec<f64>) {
    out.reserve(bits.len());
    let (strips, rest) = bits.as_chunks::<STRIP>();
    for strip in strips {
        match divisor_of(strip) {
            Some(divisor) => {
                let mut floats = [0.0; STRIP];
                widest(
                    #[inline(always)]
                    || {
                        let pairs = floats.iter_mut().zip(strip);
                        pairs.for_each(|(float, bits)| *float = quotient(*bits, divisor));
                    },
                );
                out.extend_from_slice(&floats);
            }
            None if are_quotients(strip) => {
                let mut floats = [0.0; STRIP];
                widest(
                    #[inline(always)]
                    || {
                        for (float, bits) in floats.iter_mut().zip(strip) {
                            let power = power_of(*bits) as usize & ((1 << POWER_BITS) - 1);
                            *float = quotient(*bits, POWERS[power]);
                        }
                    },
                );
                out.extend_from_slice(&floats);
            }
            None => out.extend(strip.iter().map(|bits| one(*bits))),
        }
    }
    out.extend(rest.iter().map(|bits| one(*bits)));
}

fn one(bits: i64) -> f64 {
    Decimal64::from_bits(bits as u64).to_f64()
}

#[inline(always)]
fn quotient(bits: i64, divisor: f64) -> f64 {
    // Below 2^53, so it may be signed, for which there are instructions.
    let coefficient = bits & ((1 << COEFFICIENT_BITS) - 1);
    f64::from_bits((coefficient as f64 / divisor).to_bits() | bits as u64 & SIGN)
}

/// The power of ten that all coefficients of a strip are divided by, if it is one and exact.
fn divisor_of(strip: &[i64; STRIP]) -> Option<f64> {
    let first = strip[0] as u64 & EXPONENT;
    let differs = widest(
        #[inline(always)]
        || strip.iter().fold(0, |differs, bits| differs | (*bits as u64 & EXPONENT) ^ first),
    );
    let power = power_of(strip[0]);
    (differs == 0 && power <= POWER_MAX).then(|| POWERS[power as usize])
}

/// The power of ten that a small coefficient is divided by; more than [`POWER_MAX`] where that is not exact, and where the exponent lies
/// elsewhere: with both upper bits set it is a large coefficient, an infinity or a NaN.
#[inline(always)]
fn power_of(bits: i64) -> u64 {
    BIAS.wrapping_sub((bits as u64 & EXPONENT) >> COEFFICIENT_BITS)
}

/// Whether each value is the quotient of its coefficient and a power of ten that is exact.
fn are_quotients(strip: &[i64; STRIP]) -> bool {
    let beyond = widest(
        #[inline(always)]
        || {
            strip
                .iter()
                .fold(0, |beyond, bits| beyond | POWER_MAX.wrapping_sub(power_of(*bits)) | power_of(*bits))
        },
    );
    beyond & SIGN == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::at_every_level;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn floats_are_the_nearest(
            exponent in -30i32..5,
            shifts in 1i32..4,
            bound in prop_oneof![Just(9_999_999_999_999_999i64), Just(1 << 20)],
            coefficients in proptest::collection::vec(-9_999_999_999_999_999i64..=9_999_999_999_999_999, 1..200),
            other in any::<(u64, usize)>(),
        ) {
            let decimal = |(place, coefficient): (i32, &i64)| {
                let exponent = exponent + place % shifts;
                Decimal64::from_parts(*coefficient % bound, exponent).unwrap().to_bits() as i64
            };
            let mut bits: Vec<i64> = (0..).zip(&coefficients).map(decimal).collect();
            if other.1 % 3 == 0 {
                let at = other.1 % bits.len();
                bits[at] = Decimal64::from_bits(other.0).canonical().to_bits() as i64;
            }
            bits.push(Decimal64::from_parts(0, exponent).unwrap().to_bits() as i64 | i64::MIN);
            at_every_level(|_| {
                let mut found = vec![1.5];
                append_f64s(&bits, &mut found);
                assert_eq!(found.len(), bits.len() + 1);
                for (bits, found) in bits.iter().zip(&found[1..]) {
                    let expected = Decimal64::from_bits(*bits as u64).to_f64();
                    assert_eq!(found.to_bits(), expected.to_bits());
                }
            });
        }
    }
}
