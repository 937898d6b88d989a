//! `Decimal64` against Intel's decimal floating-point library, bit for bit.
//!
//! The library is IEEE 754-2008's reference in the binary (BID) encoding. Where ours differs on purpose, the test says
//! how, and so does `docs/format/message.md`: a text or number that is not exact is refused instead of rounded, and a
//! text that is no number is refused instead of NaN.
use dfp_number_sys::bid64_000::*;
use dfp_number_sys::*;
use std::cmp::Ordering;
use tapedb_schema::{Decimal64, DecimalError};
use tapedb_testing::sample::SplitMix64;

const VALUES: u64 = 300_000;
const SIGNALLING: u64 = 1 << 57;

/// The library hides the bits of its numbers, but prints them.
fn bits(intel: BID64) -> u64 {
    u64::from_str_radix(format!("{intel:?}").trim_matches(['[', ']']), 16).expect("hexadecimal")
}

fn intel(value: Decimal64) -> BID64 {
    BID64::new(value.to_bits())
}

fn intel_parse(text: &str) -> (u64, ExcFlags) {
    let mut flags = EXE_CLEAR;
    let parsed = bid64_from_string(text, RND_NEAREST_EVEN, &mut flags);
    (bits(parsed), flags)
}

/// Every kind of bit pattern: canonical and not, edges of coefficient and exponent, infinities, NaNs with payloads.
fn value(random: &mut SplitMix64) -> Decimal64 {
    const COEFFICIENTS: [u64; 14] = [
        0,
        1,
        5,
        9,
        10,
        100,
        999_999_999_999_999,
        1_000_000_000_000_000,
        1_000_000_000_000_001,
        (1 << 53) - 1,
        1 << 53,
        (1 << 53) + 1,
        9_999_999_999_999_998,
        9_999_999_999_999_999,
    ];
    const EXPONENTS: [i32; 12] = [-398, -397, -383, -330, -307, -16, -1, 0, 1, 16, 368, 369];
    let bits = random.next_u64();
    match random.below(8) {
        0 => Decimal64::from_bits(bits),
        1 => Decimal64::from_bits(bits | 0b11 << 61),
        2 => Decimal64::from_bits(bits | 0b1111 << 59),
        3 => Decimal64::from_bits(0b1111 << 59 | bits & (1 << 63 | 0b11 << 57) | bits >> 14),
        choice => {
            let coefficient = match choice {
                4 => COEFFICIENTS[random.below(COEFFICIENTS.len())],
                5 => bits % 10u64.pow(random.below(17) as u32),
                _ => bits % 10_000_000,
            };
            let exponent = match random.below(4) {
                0 => EXPONENTS[random.below(EXPONENTS.len())],
                1 => random.below(768) as i32 - 398,
                _ => random.below(40) as i32 - 25,
            };
            let value = Decimal64::from_parts(coefficient as i64, exponent).expect("in range");
            if random.once_in(2) { -value } else { value }
        }
    }
}

/// Calls `check` with many values, each with the one before, which is often near it.
fn each(seed: u64, mut check: impl FnMut(Decimal64, Decimal64)) {
    let mut random = SplitMix64::new(seed);
    let mut before = Decimal64::ZERO;
    for _ in 0..VALUES {
        let value = match random.below(6) {
            0 => before.normalize(),
            1 => Decimal64::from_bits(before.to_bits() ^ 1),
            _ => value(&mut random),
        };
        check(value, before);
        before = value;
    }
}

#[test]
fn classes_and_canonical_forms_are_the_same() {
    let mut unusual = 0;
    each(1, |ours, _| {
        let theirs = intel(ours);
        assert_eq!(ours.is_canonical(), bid64_is_canonical(theirs), "{theirs:?}");
        assert_eq!(ours.is_finite(), bid64_is_finite(theirs), "{theirs:?}");
        assert_eq!(ours.is_infinite(), bid64_is_infinite(theirs), "{theirs:?}");
        assert_eq!(ours.is_nan(), bid64_is_nan(theirs), "{theirs:?}");
        assert_eq!(ours.is_sign_negative(), bid64_is_signed(theirs), "{theirs:?}");
        assert_eq!(ours.parts().is_some_and(|(c, _)| c == 0), bid64_is_zero(theirs), "{theirs:?}");
        if let Some((_, exponent)) = ours.parts() {
            assert_eq!(exponent, bid64_quantexp(theirs), "{theirs:?}");
        }
        // Whatever a product tells is canonical; a NaN comes out quiet.
        let product = bid64_mul(theirs, bid64_from_int32(1), RND_NEAREST_EVEN, &mut EXE_CLEAR.clone());
        let quiet = if ours.is_nan() { !SIGNALLING } else { !0 };
        assert_eq!(ours.canonical().to_bits() & quiet, bits(product), "{theirs:?}");
        unusual += u64::from(!ours.is_canonical());
    });
    assert!(unusual > VALUES / 20, "{unusual}");
}

#[test]
fn order_is_the_same() {
    let mut seen = [0; 4];
    each(2, |a, b| {
        let (x, y, flags) = (intel(a), intel(b), &mut EXE_CLEAR.clone());
        let theirs = if bid64_quiet_unordered(x, y, flags) {
            None
        } else if bid64_quiet_less(x, y, flags) {
            Some(Ordering::Less)
        } else if bid64_quiet_greater(x, y, flags) {
            Some(Ordering::Greater)
        } else {
            Some(Ordering::Equal)
        };
        assert_eq!(a.numeric_cmp(&b), theirs, "{x:?} {y:?}");
        assert_eq!(a.numeric_eq(&b), bid64_quiet_equal(x, y, flags), "{x:?} {y:?}");
        seen[theirs.map_or(3, |order| (order as i8 + 1) as usize)] += 1;
    });
    assert!(seen.iter().all(|&count| count > VALUES / 100), "{seen:?}");
}

#[test]
fn texts_mean_the_same() {
    each(3, |ours, _| {
        let canonical = ours.canonical();
        let theirs = bid64_to_string(intel(ours), &mut EXE_CLEAR.clone());
        let text = ours.to_string();
        let expected = if ours.is_nan() { Decimal64::NAN.to_bits() } else { canonical.to_bits() };
        assert_eq!(intel_parse(&text), (expected, EXE_CLEAR), "{text}");
        // Theirs is `+123E-2`, `-Inf`, `+SNaN`; the last we do not read.
        if !theirs.ends_with("SNaN") {
            let read = theirs.parse::<Decimal64>().expect(&theirs);
            assert_eq!(read.to_bits(), expected, "{theirs}");
        }
        let normal = ours.normalize();
        assert!(
            ours.is_nan() || bid64_quiet_equal(intel(ours), intel(normal), &mut EXE_CLEAR.clone()),
            "{text}"
        );
        assert!(normal.is_canonical());
    });
}

/// Digits with leading and trailing zeros, a point anywhere, an exponent of any size.
fn number(random: &mut SplitMix64) -> String {
    let mut text: String = ["", "", "-", "+"][random.below(4)].into();
    text.push_str(&"0".repeat(random.below(20) * random.below(2)));
    let digits = [3, 8, 16, 17, 20, 40][random.below(6)];
    for _ in 0..1 + random.below(digits) {
        text.push(char::from(b'0' + random.below(10) as u8));
    }
    text.push_str(&"0".repeat(random.below(25) * random.below(2)));
    if random.once_in(2) {
        let sign = usize::from(text.starts_with(['-', '+']));
        text.insert(sign + random.below(text.len() - sign + 1), '.');
    }
    match random.below(4) {
        0 => text.push_str(&format!("E{}", random.below(900) as i32 - 450)),
        1 => text.push_str(&format!("e+{}", random.below(400))),
        _ => {}
    }
    text
}

#[test]
fn texts_are_read_the_same_or_refused_where_rounding_would_be_needed() {
    let mut random = SplitMix64::new(4);
    let mut seen = [0u64; 3];
    for _ in 0..VALUES {
        let text = number(&mut random);
        let (theirs, flags) = intel_parse(&text);
        // They call a zero whose exponent had to be brought into range inexact; IEEE 754 does not.
        let zero =
            !text.split(['E', 'e']).next().is_some_and(|digits| digits.contains(|c| matches!(c, '1'..='9')));
        let inexact = flags & (EXE_INEXACT | EXE_OVERFLOW | EXE_UNDERFLOW) != 0 && !zero;
        match text.parse::<Decimal64>() {
            Ok(ours) => {
                assert_eq!((ours.to_bits(), inexact), (theirs, false), "{text}");
                seen[0] += 1;
            }
            Err(DecimalError::Digits { need, have: 16 }) => {
                assert!(need > 16 && inexact, "{text}: {theirs:#x} {flags}");
                seen[1] += 1;
            }
            Err(DecimalError::Exponent { .. }) => {
                assert!(inexact, "{text}: {theirs:#x} {flags}");
                seen[2] += 1;
            }
            Err(other) => panic!("{text}: {other}"),
        }
    }
    assert!(seen.iter().all(|&count| count > VALUES / 100), "{seen:?}");
}

#[test]
fn parts_are_the_same_or_refused() {
    let mut random = SplitMix64::new(5);
    let mut seen = [0u64; 2];
    for _ in 0..VALUES {
        let mut coefficient = random.next_u64() as i64 >> random.below(64);
        if random.once_in(4) {
            coefficient = coefficient / 10_000 * 10_000;
        }
        let exponent =
            if random.once_in(2) { random.below(900) as i32 - 450 } else { random.below(40) as i32 - 20 };
        let mut flags = EXE_CLEAR;
        let whole = bid64_from_int64(coefficient, RND_NEAREST_EVEN, &mut flags);
        let theirs = bits(bid64_ldexp(whole, exponent, RND_NEAREST_EVEN, &mut flags));
        let inexact = flags & (EXE_INEXACT | EXE_OVERFLOW | EXE_UNDERFLOW) != 0;
        let ours = Decimal64::from_parts(coefficient, exponent);
        match ours {
            Ok(ours) => assert_eq!((ours.to_bits(), inexact), (theirs, false), "{coefficient} {exponent}"),
            Err(error) => assert!(inexact, "{coefficient} {exponent}: {error}, {theirs:#x}"),
        }
        seen[usize::from(ours.is_err())] += 1;
    }
    assert!(seen.iter().all(|&count| count > VALUES / 100), "{seen:?}");
}

#[test]
fn scaled_integers_are_the_same_or_refused() {
    let mut random = SplitMix64::new(6);
    let mut fitted = 0;
    each(7, |ours, _| {
        let scale = random.below(19) as u8;
        let mut flags = EXE_CLEAR;
        let shifted = bid64_ldexp(intel(ours), scale.into(), RND_NEAREST_EVEN, &mut flags);
        let theirs = bid64_to_int64_xint(shifted, &mut flags);
        let exact = flags & (EXE_INEXACT | EXE_INVALID | EXE_OVERFLOW) == 0;
        assert_eq!(ours.to_scaled(scale).ok(), exact.then_some(theirs), "{ours} {scale}");
        fitted += u64::from(exact);
    });
    assert!(fitted > VALUES / 20, "{fitted}");
}

#[test]
fn to_f64_rounds_the_same() {
    each(8, |ours, _| {
        let theirs = bid64_to_binary64(intel(ours), RND_NEAREST_EVEN, &mut EXE_CLEAR.clone());
        if ours.is_nan() {
            assert!(theirs.is_nan() && ours.to_f64().is_nan());
        } else {
            assert_eq!(ours.to_f64().to_bits(), theirs.to_bits(), "{ours}");
        }
    });
}

/// The library's own conversion rounds every float to sixteen digits; ours takes the shortest text where that suffices.
#[test]
fn from_f64_is_the_shortest_text_or_the_nearest_of_sixteen_digits() {
    let mut random = SplitMix64::new(9);
    let mut rounded = 0u64;
    for _ in 0..VALUES / 10 {
        let float = match random.below(3) {
            0 => f64::from_bits(random.next_u64()),
            1 => (random.next_u64() >> 40) as f64 / 1000.0,
            _ => {
                (random.next_u64() as i64 >> random.below(64)) as f64
                    * 2f64.powi(random.below(40) as i32 - 30)
            }
        };
        let float = Some(float).filter(|x| x.is_finite()).unwrap_or(0.5);
        let shortest = format!("{float:e}");
        let (theirs, flags) = intel_parse(&shortest);
        let theirs = if flags & EXE_INEXACT == 0 {
            theirs
        } else {
            rounded += 1;
            // All digits that the float has, for the one correct rounding.
            intel_parse(&format!("{float:.1074e}")).0
        };
        let ours = Decimal64::from_f64(float);
        let equal = bid64_quiet_equal(intel(ours), BID64::new(theirs), &mut EXE_CLEAR.clone());
        assert!(equal && ours.is_canonical(), "{float:e}: {ours}, theirs {}", Decimal64::from_bits(theirs));
    }
    assert!(rounded > VALUES / 100, "{rounded}");
}

#[test]
fn what_is_no_number_is_nan_to_them_and_refused_by_us() {
    for text in ["", " 1", "1 ", "1,5", "1.2.3", "1E", "E5", "--1", "0x10", "1e5x", "SNaN", "nan1", "Infinit"]
    {
        let (theirs, _) = intel_parse(text);
        let refused = matches!(text.parse::<Decimal64>(), Err(DecimalError::Syntax { .. }));
        // They skip blanks in front, and read signalling NaNs.
        assert!(refused && (Decimal64::from_bits(theirs).is_nan() || text == " 1"), "{text:?} {theirs:#x}");
    }
    for (text, special) in
        [("inf", Decimal64::INFINITY), ("-Infinity", Decimal64::NEG_INFINITY), ("nan", Decimal64::NAN)]
    {
        assert_eq!((text.parse(), intel_parse(text).0), (Ok(special), special.to_bits()), "{text}");
    }
}
