//! JSON, written by hand into a buffer: numbers keep the digits that they have.

use tapedb_schema::{Decimal64, Timestamp};

/// Appends a text with its quotes.
pub(crate) fn text(text: &str, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    for &byte in text.as_bytes() {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            0..0x20 | 0x7f => {
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            }
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

/// Appends a number; null where JSON has none for it: not a number, infinity.
pub(crate) fn number(number: Decimal64, out: &mut Vec<u8>) {
    match number.parts() {
        Some(_) => number.write_to(out),
        None => out.extend_from_slice(b"null"),
    }
}

/// Appends a time, ISO 8601 in UTC, with its quotes.
pub(crate) fn time(time: Timestamp, out: &mut Vec<u8>) {
    out.push(b'"');
    time.write_to(out);
    out.push(b'"');
}

/// Appends a whole number.
pub(crate) fn integer(mut value: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Appends `{"price":…,"amount":…}`, after a comma where it is not the first of its array.
pub(crate) fn level(price: Decimal64, amount: Option<Decimal64>, out: &mut Vec<u8>) {
    if out.last() != Some(&b'[') {
        out.push(b',');
    }
    out.extend_from_slice(b"{\"price\":");
    number(price, out);
    out.extend_from_slice(b",\"amount\":");
    match amount {
        Some(amount) => number(amount, out),
        None => out.extend_from_slice(b"null"),
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(write: impl Fn(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn everything_reads_back() {
        for plain in ["", "a\"b\\c", "\u{0}\n\u{7f}\u{1f}", "ü€😀"] {
            assert_eq!(serde_json::from_str::<String>(&of(|out| text(plain, out))).unwrap(), plain);
        }
        for (number, expected) in
            [("4810.2500", "4810.2500"), ("-0.5", "-0.5"), ("12E3", "12E3"), ("NaN", "null")]
        {
            let found = of(|out| super::number(number.parse().unwrap(), out));
            assert_eq!(found, expected);
            serde_json::from_str::<Option<f64>>(&found).unwrap();
        }
        for whole in [0, 9, 10, 65_535, u64::MAX] {
            assert_eq!(of(|out| integer(whole, out)), whole.to_string());
        }
        assert_eq!(of(|out| time(Timestamp(1_500_000), out)), "\"1970-01-01T00:00:00.001500Z\"");
    }

    #[test]
    fn any_decimal_is_a_number_of_json_or_null() {
        let mut bits = 1u64;
        for _ in 0..20_000 {
            bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let found = of(|out| number(Decimal64::from_bits(bits), out));
            assert!(
                serde_json::from_str::<serde_json::Value>(&found).is_ok() || found.contains('E'),
                "{found}"
            );
        }
    }
}
