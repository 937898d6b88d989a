//! The InfluxDB line protocol, against a reader that is simple and slow.

use crate::Target;
use crate::sample::SplitMix64;
use tapedb_ilp::{Framer, Limits, Parser, Precision, Refusal, Rows, Text, Value};

/// See the module.
pub const TARGET: Target = Target { name: "ilp", run, seed };

/// The first byte says how the others are cut up. Both readers find the same rows and the same first wrong line; where lines end in
/// pieces is where they end in the whole.
pub fn run(input: &[u8]) {
    let (&first, bytes) = input.split_first().unwrap_or((&0, &[]));
    let (mut rows, mut parser) = (Lines::default(), Parser::new(Precision::Nanoseconds, Limits::default()));
    let wrong = parser.parse(bytes, &mut rows).err();
    let (expected, expected_wrong) = reference(bytes);
    if let Some(error) = &wrong {
        assert!(!error.what.is_empty() && error.column > 0 && error.line_begins <= bytes.len());
    }
    assert_eq!(wrong.as_ref().map(|error| error.line), expected_wrong, "{wrong:?}");
    assert_eq!(rows.complete, expected);
    let (mut framer, mut ends, mut begin) = (Framer::new(), Vec::new(), 0);
    for piece in bytes.chunks(usize::from(first >> 4) * 7 + 1) {
        ends.extend(framer.push(piece).map(|end| begin + end));
        begin += piece.len();
        assert!(framer.pending() <= bytes.len());
    }
    if wrong.is_none() {
        in_frames(bytes, &ends, &rows.complete);
    }
}

/// The frames have the rows of the whole, in order.
fn in_frames(bytes: &[u8], ends: &[usize], expected: &[String]) {
    let (mut rows, mut parser) = (Lines::default(), Parser::new(Precision::Nanoseconds, Limits::default()));
    let mut begin = 0;
    for end in ends.iter().copied().chain([bytes.len()]) {
        parser.parse(&bytes[begin..end], &mut rows).expect("it is right as a part of the whole");
        begin = end;
    }
    assert_eq!(rows.complete, expected);
}

/// Lines as texts.
#[derive(Default)]
struct Lines {
    line: String,
    complete: Vec<String>,
}

impl Rows for Lines {
    fn table(&mut self, name: Text<'_>, _: u64) -> Result<(), Refusal> {
        self.line = format!("{:?}", name.bytes());
        Ok(())
    }

    fn tag(&mut self, name: Text<'_>, value: Text<'_>) -> Result<(), Refusal> {
        self.line += &format!(",{:?}={:?}", name.bytes(), value.bytes());
        Ok(())
    }

    fn field(&mut self, name: Text<'_>, value: Value<'_>) -> Result<(), Refusal> {
        let value = match value {
            Value::F64(number) => format!("f{:x}", number.value.to_bits()),
            Value::I64(number) => format!("i{number}"),
            Value::U64(number) => format!("u{number}"),
            Value::Text(text) => format!("s{:?}", text.bytes()),
            Value::Bool(value) => format!("b{value}"),
            Value::Time(time) => format!("t{time}"),
            Value::Array(array) => {
                let values: Vec<_> = array.values().map(f64::to_bits).collect();
                format!("a{:?}{values:x?}", array.shape().collect::<Vec<_>>())
            }
            Value::Decimal(tapedb_ilp::Decimal::Text(text)) => format!("d{text:?}"),
            Value::Decimal(tapedb_ilp::Decimal::Binary { scale, unscaled }) => {
                format!("d{scale}:{unscaled:?}")
            }
            Value::Null => "null".into(),
        };
        self.line += &format!(" {:?}={value}", name.bytes());
        Ok(())
    }

    fn end(&mut self, time: Option<i64>) -> Result<(), Refusal> {
        self.complete.push(format!("{} {time:?}", self.line));
        Ok(())
    }
}

/// The rows before the first wrong line, and its number.
fn reference(bytes: &[u8]) -> (Vec<String>, Option<u64>) {
    let (mut rest, mut rows, mut number) = (bytes, Vec::new(), 0);
    while !rest.is_empty() {
        number += 1;
        match line(&mut rest) {
            Some(None) => {}
            Some(Some(row)) => rows.push(row),
            None => return (rows, Some(number)),
        }
    }
    (rows, None)
}

/// `None`: it is wrong; `Some(None)`: it is empty.
fn line(rest: &mut &[u8]) -> Option<Option<String>> {
    skip(rest, b" \r");
    if rest.is_empty() || rest[0] == b'\n' || rest[0] == b'#' {
        while pop(rest).is_some_and(|byte| byte != b'\n') {}
        return Some(None);
    }
    let mut columns = 0;
    let mut row = format!("{:?}", name(rest, b", \n")?);
    while rest.first() == Some(&b',') {
        pop(rest);
        let name = name(rest, b"=, \n")?;
        pop(rest).filter(|byte| *byte == b'=')?;
        row += &format!(",{name:?}={:?}", unquoted(rest, b", \n").0);
        columns += 1;
    }
    let has_tags = columns > 0;
    let mut time = None;
    let has_space = skip(rest, b" ") && !is_end(rest);
    if has_space && is_time(rest) {
        if !has_tags {
            return None;
        }
        time = timestamp(rest)?;
    } else if has_space {
        loop {
            let name = name(rest, b"= \n")?;
            pop(rest).filter(|byte| *byte == b'=')?;
            row += &format!(" {name:?}={}", value(rest)?);
            columns += 1;
            if rest.first() != Some(&b',') {
                break;
            }
            pop(rest);
        }
        if skip(rest, b" ") && !is_end(rest) {
            time = timestamp(rest)?;
        }
    } else if !has_tags {
        return None;
    }
    skip(rest, b" \r");
    let is_right = columns <= 1_000 && pop(rest).is_none_or(|byte| byte == b'\n');
    is_right.then(|| Some(format!("{row} {time:?}")))
}

fn pop(rest: &mut &[u8]) -> Option<u8> {
    let (first, behind) = rest.split_first()?;
    *rest = behind;
    Some(*first)
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, behind) = rest.split_at_checked(count)?;
    *rest = behind;
    Some(taken)
}

fn skip(rest: &mut &[u8], bytes: &[u8]) -> bool {
    let length = rest.len();
    while rest.first().is_some_and(|byte| bytes.contains(byte)) {
        pop(rest);
    }
    rest.len() < length
}

fn is_end(rest: &[u8]) -> bool {
    rest.is_empty() || rest[0] == b'\n' || rest[0] == b'\r'
}

fn is_time(rest: &[u8]) -> bool {
    let token = rest.split(|byte| b" \r\n".contains(byte)).next().unwrap_or_default();
    token.first().is_some_and(|byte| byte.is_ascii_digit() || *byte == b'-')
        && token.iter().all(|byte| byte.is_ascii_digit() || b"-nt".contains(byte))
}

fn name(rest: &mut &[u8], stops: &[u8]) -> Option<Vec<u8>> {
    let (name, length) = unquoted(rest, stops);
    (1..=255).contains(&length).then_some(name)
}

/// The text, and how long it is as it is written.
fn unquoted(rest: &mut &[u8], stops: &[u8]) -> (Vec<u8>, usize) {
    let (mut text, mut has_escapes, before) = (Vec::new(), false, rest.len());
    while let Some(byte) = rest.first().copied().filter(|byte| !stops.contains(byte)) {
        pop(rest);
        has_escapes |= byte == b'\\';
        escaped(byte, rest, b"\\\"\n\r,= ", &mut text);
    }
    let mut length = before - rest.len();
    if !has_escapes && rest.first().is_none_or(|byte| *byte == b'\n') && text.last() == Some(&b'\r') {
        text.pop();
        length -= 1;
    }
    (text, length)
}

/// Adds a byte, and the one behind a backslash.
fn escaped(byte: u8, rest: &mut &[u8], escapable: &[u8], text: &mut Vec<u8>) {
    let next = if byte == b'\\' { pop(rest) } else { None };
    if !next.is_some_and(|next| escapable.contains(&next)) {
        text.push(byte);
    }
    text.extend(next);
}

fn token<'a>(rest: &mut &'a [u8], stops: &[u8]) -> &'a [u8] {
    let end = rest.iter().position(|byte| stops.contains(byte)).unwrap_or(rest.len());
    let token = take(rest, end).unwrap_or_default();
    token.strip_suffix(b"\r").unwrap_or(token)
}

fn number<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    str::from_utf8(text).ok().filter(|text| !text.starts_with('+'))?.parse().ok()
}

fn timestamp(rest: &mut &[u8]) -> Option<Option<i64>> {
    let token = token(rest, b" \n");
    let time = match token {
        [] => return Some(None),
        [digits @ .., b'n'] => number::<i64>(digits),
        [digits @ .., b't'] => number::<i64>(digits).and_then(|time| time.checked_mul(1_000)),
        _ => number(token),
    };
    time.map(Some)
}

fn value(rest: &mut &[u8]) -> Option<String> {
    let is_ended = |rest: &[u8]| rest.first().is_none_or(|byte| b", \n\r".contains(byte));
    match rest.first() {
        Some(b'"') => {
            pop(rest);
            let mut text = Vec::new();
            loop {
                match pop(rest)? {
                    b'"' => break,
                    byte => escaped(byte, rest, b"\\\"\n\r", &mut text),
                }
            }
            is_ended(rest).then(|| format!("s{text:?}"))
        }
        Some(b'=') => {
            pop(rest);
            let value = binary(rest)?;
            is_ended(rest).then_some(value)
        }
        _ => plain(token(rest, b", \n")),
    }
}

fn binary(rest: &mut &[u8]) -> Option<String> {
    match pop(rest)? {
        0x10 => Some(format!("f{:x}", u64::from_le_bytes(take(rest, 8)?.try_into().ok()?))),
        0x17 => {
            let (scale, length) = (pop(rest)?, pop(rest)?);
            let unscaled = take(rest, length.into())?;
            Some(if length == 0 { "null".into() } else { format!("d{scale}:{unscaled:?}") })
        }
        0x0E => match pop(rest)? {
            0x21 => Some("null".into()),
            0x0A => {
                let dimensions = pop(rest).filter(|dimensions| (1..=8).contains(dimensions))?;
                let mut shape = Vec::new();
                for _ in 0..dimensions {
                    shape.push(u32::from_le_bytes(take(rest, 4)?.try_into().ok()?));
                }
                let count = if shape.contains(&0) {
                    0
                } else {
                    shape.iter().try_fold(1u64, |count, length| count.checked_mul((*length).into()))?
                };
                let mut values = Vec::new();
                for _ in 0..count {
                    values.push(u64::from_le_bytes(take(rest, 8)?.try_into().ok()?));
                }
                Some(format!("a{shape:?}{values:x?}"))
            }
            _ => None,
        },
        _ => None,
    }
}

fn plain(token: &[u8]) -> Option<String> {
    // Infinity is one only where it is written so.
    let fits = |value: &f64| value.is_finite() || !token.iter().any(u8::is_ascii_digit);
    let float = || {
        let value = str::from_utf8(token).ok()?.parse::<f64>().ok().filter(fits);
        value.map(|value| format!("f{:x}", value.to_bits()))
    };
    let is_digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_digit);
    match token {
        [] => None,
        b"t" | b"T" | b"true" | b"True" | b"TRUE" => Some("btrue".into()),
        b"f" | b"F" | b"false" | b"False" | b"FALSE" => Some("bfalse".into()),
        [b'0', b'x', .., b'i'] => None,
        [digits @ .., b'i'] => number::<i64>(digits).map(|value| format!("i{value}")),
        [digits @ .., b'u'] => number::<u64>(digits).map(|value| format!("u{value}")),
        [first, .., b'd'] if b"0123456789+-.NI".contains(first) => {
            Some(format!("d{:?}", &token[..token.len() - 1]))
        }
        [digits @ .., b't'] if is_digit(digits.last()) => {
            number::<i64>(digits)?.checked_mul(1_000).map(|value| format!("t{value}"))
        }
        [digits @ .., b'n'] if is_digit(digits.last()) => {
            number::<i64>(digits).map(|value| format!("t{value}"))
        }
        _ => float(),
    }
}

/// Lines that are right.
fn seed(number: u64) -> Vec<u8> {
    let mut random = SplitMix64::new(number);
    let mut bytes = vec![random.next_u64() as u8];
    for _ in 0..random.below(6) {
        row(&mut random, &mut bytes);
    }
    bytes
}

fn row(random: &mut SplitMix64, bytes: &mut Vec<u8>) {
    let tables: [&[u8]; 4] = [b"t", b"us.trades", b"a\\ b\\,c", b"# comment"];
    bytes.extend(tables[random.below(4)]);
    for _ in 0..random.below(3) {
        let tags: [&[u8]; 4] = [b",symbol=AIG", b",ex=x\\ y\\=", b",a\\,b=", b",q=\"z\\n"];
        bytes.extend(tags[random.below(4)]);
    }
    bytes.push(b' ');
    for index in 0..=random.below(5) {
        if index > 0 {
            bytes.push(b',');
        }
        bytes.extend(format!("f{index}=").bytes());
        let values: [&[u8]; 16] = [
            b"1.5",
            b"-7i",
            b"8u",
            b"t",
            b"False",
            b"5t",
            b"6n",
            b"\"a\\\"b\\\\c\nd\"",
            b"=\x10\n\n\0\0\0\0\xf8?",
            b"=\x0e\x0a\x02\x01\0\0\0\x02\0\0\0\0\0\0\0\0\0\xf0?\n,\" =\0\0@",
            b"=\x0e\x21",
            b"=\x17\x02\x020\xd4",
            b"=\x17\0\0",
            b"-1.250d",
            b"NaN",
            b"1e300",
        ];
        bytes.extend(values[random.below(16)]);
    }
    let times: [&[u8]; 5] = [b"", b" 17", b" -5n", b" 6t", b"  9  "];
    bytes.extend(times[random.below(5)]);
    bytes.extend(if random.once_in(5) { &b"\r\n"[..] } else { b"\n" });
}
