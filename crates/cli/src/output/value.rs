//! Single values as plain text.

use std::io::Write;
use tapedb_codec::dynamic::ValueRef;

/// Appends a value without any quotes: numbers, times and texts unchanged, binary in hexadecimal, arrays and records
/// in canonical JSON, nothing for null.
pub fn write_plain(value: ValueRef<'_>, out: &mut Vec<u8>) {
    match value {
        ValueRef::Null => {}
        ValueRef::Decimal(x) => x.write_to(out),
        ValueRef::Timestamp(x) => x.write_to(out),
        ValueRef::TimeOfDay(x) => x.write_to(out),
        ValueRef::UInt(x) => write_unsigned(x, out),
        ValueRef::Int(x) => {
            if x < 0 {
                out.push(b'-');
            }
            write_unsigned(x.unsigned_abs(), out);
        }
        ValueRef::Enum(value) => out.extend_from_slice(value.symbol().as_bytes()),
        ValueRef::Ascii(x) => out.extend_from_slice(x.as_str().as_bytes()),
        ValueRef::Text(x) => out.extend_from_slice(x.as_bytes()),
        // Canonical JSON has these in quotes.
        quoted @ (ValueRef::F32(_) | ValueRef::F64(_) | ValueRef::Scaled(..) | ValueRef::Binary(_)) => {
            out.extend_from_slice(quoted.to_string().trim_matches('"').as_bytes());
        }
        other => push(out, format_args!("{other}")),
    }
}

/// Appends a text in quotes, as in JSON.
pub fn write_quoted(text: &str, out: &mut Vec<u8>) {
    // Writing to memory does not fail, and JSON can hold any text.
    let _ = serde_json::to_writer(out, text);
}

fn push(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // Writing to memory does not fail.
    let _ = out.write_fmt(text);
}

/// Faster than the formatting traits: a feed is mostly numbers.
fn write_unsigned(mut number: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return out.extend_from_slice(&digits[start..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(value: ValueRef<'_>) -> String {
        let mut out = Vec::new();
        write_plain(value, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn values_are_plain() {
        assert_eq!(plain(ValueRef::Int(i64::MIN)), i64::MIN.to_string());
        assert_eq!(plain(ValueRef::UInt(u64::MAX)), u64::MAX.to_string());
        assert_eq!(plain(ValueRef::UInt(0)), "0");
        assert_eq!(plain(ValueRef::Scaled(-12345, 2)), "-123.45");
        assert_eq!(plain(ValueRef::F64(f64::NAN)), "NaN");
        assert_eq!(plain(ValueRef::F64(0.5)), "0.5");
        assert_eq!(plain(ValueRef::Binary(&[0, 255])), "00ff");
        assert_eq!(plain(ValueRef::Text("a \"b\"")), "a \"b\"");
        assert_eq!(plain(ValueRef::Null), "");
    }
}
