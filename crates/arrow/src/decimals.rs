//! Floats as decimals, and decimals as scaled integers.

use tapedb_schema::Decimal64;

/// Powers of ten that an `f64` has exactly.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
    1e19, 1e20, 1e21, 1e22,
];

/// Appends the shortest decimals that read back as floats, exactly as [`Decimal64::from_f64`] gives them; zero for those that
/// `is_null` names. `false`: one of the others is not exact as a decimal.
pub(crate) fn from_f64s(floats: &[f64], is_null: impl Fn(usize) -> bool, out: &mut Vec<Decimal64>) -> bool {
    // Neighbours mostly have the same number of decimals.
    let mut scale = 0;
    for (row, &float) in floats.iter().enumerate() {
        let decimal = plain(float, &mut scale).or_else(|| {
            let decimal = Decimal64::from_f64(float);
            (float.is_finite() && decimal.to_f64() == float).then_some(decimal)
        });
        match decimal {
            Some(decimal) => out.push(decimal),
            None if is_null(row) => out.push(Decimal64::ZERO),
            None => return false,
        }
    }
    true
}

/// Most decimals of a float that is looked at quickly.
const SCALE_MAX: usize = 9;

/// Units below which a decimal is the only one of its length that reads back as its float.
const UNITS_MAX: f64 = 1e15;

/// The decimal of a float with few digits, first with as many decimals as the last one had. Units and power of ten are exact, so
/// their quotient is the nearest float to the decimal: if that is the float, the decimal reads back as it.
#[inline]
fn plain(float: f64, scale: &mut usize) -> Option<Decimal64> {
    let units_at = |scale: usize| {
        let units = float * POWERS[scale];
        let whole = (units + 0.5f64.copysign(units)) as i64;
        (units.abs() < UNITS_MAX && whole as f64 / POWERS[scale] == float).then_some(whole)
    };
    let (mut units, mut at) = match units_at(*scale) {
        Some(units) => (units, *scale),
        None => (0..=SCALE_MAX).find_map(|scale| Some((units_at(scale)?, scale)))?,
    };
    *scale = at;
    while at > 0 && units % 10 == 0 {
        (units, at) = (units / 10, at - 1);
    }
    // Zero may be negative.
    if units == 0 { None } else { Decimal64::from_parts(units, -(at as i32)).ok() }
}

/// Units of `10^-scale`, if the decimal is a whole number of them with at most `precision` digits.
pub(crate) fn to_units(decimal: Decimal64, precision: u8, scale: u8) -> Option<i128> {
    let (coefficient, exponent) = decimal.parts()?;
    let coefficient = i128::from(coefficient);
    if coefficient == 0 {
        return Some(0);
    }
    let shift = exponent + i32::from(scale);
    let power = 10i128.checked_pow(shift.unsigned_abs());
    let units = if shift >= 0 {
        coefficient.checked_mul(power?)?
    } else {
        let power = power?;
        (coefficient % power == 0).then_some(coefficient / power)?
    };
    (units.unsigned_abs() < 10u128.pow(precision.into())).then_some(units)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn units_are_exact_or_none() {
        let units = |text: &str| to_units(text.parse().unwrap(), 6, 2);
        assert_eq!(units("1.50"), Some(150));
        assert_eq!(units("-9999.99"), Some(-999_999));
        assert_eq!(units("10000.00"), None);
        assert_eq!(units("1.505"), None);
        assert_eq!(units("1.500000"), Some(150));
        assert_eq!(units("0E-300"), Some(0));
        assert_eq!(units("1E300"), None);
        assert_eq!(to_units(Decimal64::NAN, 38, 2), None);
    }

    #[test]
    fn what_is_not_exact_is_found() {
        let found = |floats: &[f64]| {
            let mut out = Vec::new();
            from_f64s(floats, |row| row == 1, &mut out).then_some(out)
        };
        let texts = ["0", "-0", "1.5", "100", "-0.25", "1000000000000000", "1E+300", "0.000000000123"];
        let floats = [0.0, -0.0, 1.5, 100.0, -0.25, 1e15, 1e300, 1.23e-10];
        let decimals = found(&floats).unwrap();
        for ((decimal, float), text) in decimals.iter().zip(floats).zip(texts) {
            assert_eq!(decimal.to_bits(), Decimal64::from_f64(float).to_bits(), "{text}");
        }
        assert!(found(&[1.0, f64::NAN]).is_some() && found(&[f64::NAN, 1.0]).is_none());
        // A sum of tenths has seventeen digits.
        assert!(found(&[0.1 + 0.2]).is_none() && found(&[f64::INFINITY]).is_none());
    }

    proptest! {
        #[test]
        fn decimals_are_the_shortest(
            units in proptest::collection::vec(-10_000_000_000_000_000i64..10_000_000_000_000_000, 1..50),
            shift in 0u32..16,
            scale in 0usize..14,
            others in proptest::collection::vec(any::<f64>(), 0..4),
        ) {
            let mut floats: Vec<f64> =
                units.iter().map(|units| (units / 10i64.pow(shift)) as f64 / POWERS[scale]).collect();
            floats.extend(others);
            for float in floats {
                let expected = Decimal64::from_f64(float);
                let is_exact = float.is_finite() && expected.to_f64() == float;
                let mut found = Vec::new();
                prop_assert_eq!(from_f64s(&[float], |_| false, &mut found), is_exact, "{}", float);
                prop_assert!(!is_exact || found[0].to_bits() == expected.to_bits(), "{}", float);
            }
        }
    }
}
