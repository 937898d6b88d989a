//! Lines to rows.

use crate::error::{Error, Refusal, shown};
use crate::framer::{ARRAY, DECIMAL, DOUBLE, ITEM_DOUBLE, ITEM_NONE};
use crate::precision::Precision;
use crate::text::Text;
use crate::value::{Array, Decimal, Number, Value};

/// What takes the rows: for each line first [`table`](Self::table), then its tags, its fields, and [`end`](Self::end). An error of any
/// of them ends the parsing; the line that it is of has then been given in part.
pub trait Rows {
    /// A line begins, of this measurement. `line`: its number, from 1.
    ///
    /// # Errors
    /// Why it is not taken.
    fn table(&mut self, name: Text<'_>, line: u64) -> Result<(), Refusal>;

    /// A tag of the line; its value may be empty.
    ///
    /// # Errors
    /// Why it is not taken.
    fn tag(&mut self, name: Text<'_>, value: Text<'_>) -> Result<(), Refusal>;

    /// A field of the line.
    ///
    /// # Errors
    /// Why it is not taken.
    fn field(&mut self, name: Text<'_>, value: Value<'_>) -> Result<(), Refusal>;

    /// The line ends. `time`: nanoseconds since 1970; `None`: the line states none.
    ///
    /// # Errors
    /// Why the line is not taken.
    fn end(&mut self, time: Option<i64>) -> Result<(), Refusal>;
}

/// What a line may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a line: 1 MiB.
    pub line_bytes_max: usize,
    /// Tags and fields of a line together: 1,000.
    pub columns_max: usize,
    /// Bytes of a name: 255.
    pub name_bytes_max: usize,
    /// Dimensions of an array: 8.
    pub dimensions_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { line_bytes_max: 1 << 20, columns_max: 1_000, name_bytes_max: 255, dimensions_max: 8 }
    }
}

/// Parses lines. It counts them over all calls, for errors.
#[derive(Debug, Clone)]
pub struct Parser {
    limits: Limits,
    unit: i64,
    /// Lines that have been parsed.
    lines: u64,
    has_break: bool,
}

/// Bytes that end an unquoted piece of a line, or may: the classes of [`CLASSES`].
const COMMA: u8 = 1;
const EQUALS: u8 = 2;
const SPACE: u8 = 4;
const BREAK: u8 = 8;
const ESCAPE: u8 = 16;

const CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    classes[b',' as usize] = COMMA;
    classes[b'=' as usize] = EQUALS;
    classes[b' ' as usize] = SPACE;
    classes[b'\n' as usize] = BREAK;
    classes[b'\\' as usize] = ESCAPE;
    classes
};

/// Digits of numbers that a double holds exactly.
const EXACT_DIGITS: usize = 15;

/// A double holds these exactly too: the quotient of two such numbers is the nearest double to the decimal.
const POWERS_OF_TEN: [f64; EXACT_DIGITS + 1] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];

/// What is wrong, and at which byte.
type Fault = (usize, Refusal);

impl Parser {
    /// Before the first line. `precision`: the unit of timestamps without a suffix.
    pub fn new(precision: Precision, limits: Limits) -> Self {
        Self { limits, unit: precision.nanoseconds(), lines: 0, has_break: true }
    }

    /// Lines that have been parsed, empty ones and comments too.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Whether the last line ended with a line break of its own. Where it did not, it may go on in bytes that were not given: its last byte
    /// may be a line break within a value.
    pub fn has_ended(&self) -> bool {
        self.has_break
    }

    /// Parses whole lines; the last one may lack its line break.
    ///
    /// # Errors
    /// The first line that is not right, or that `rows` does not take.
    pub fn parse(&mut self, bytes: &[u8], rows: &mut impl Rows) -> Result<(), Error> {
        let mut begin = 0;
        let mut before = Before::default();
        while begin < bytes.len() {
            let end = begin.saturating_add(self.limits.line_bytes_max).min(bytes.len());
            // A line sees no more than it may have.
            let number = self.lines + 1;
            let mut line = Line {
                bytes: &bytes[..end],
                at: begin,
                limits: &self.limits,
                unit: self.unit,
                number,
                has_break: false,
            };
            let parsed = line.parse(&mut before, rows);
            self.lines += 1;
            self.has_break = line.has_break;
            if let Err((at, what)) = parsed {
                // A line that is cut at the limit is not understood there.
                let is_cut = at >= end && end < bytes.len();
                let what = if is_cut {
                    format!("the line is longer than {} bytes", self.limits.line_bytes_max).into()
                } else {
                    what
                };
                let column = (at - begin) as u64 + 1;
                return Err(Error { line: self.lines, column, line_begins: begin, what });
            }
            if line.at >= end && end < bytes.len() && bytes[end - 1] != b'\n' {
                let what = format!("the line is longer than {} bytes", self.limits.line_bytes_max);
                let column = (end - begin) as u64 + 1;
                return Err(Error { line: self.lines, column, line_begins: begin, what: what.into() });
            }
            begin = line.at;
        }
        Ok(())
    }
}

/// Names of the line before: the next one mostly has the same in the same order, and they are found with one comparison. Those with escapes
/// are empty here.
#[derive(Default)]
struct Before<'a> {
    table: &'a [u8],
    /// Of tags and fields, and whether it is a tag's: that of a field may have a comma.
    names: Vec<(bool, &'a [u8])>,
}

impl<'a> Before<'a> {
    fn name(&self, at: usize, is_tag: bool) -> &'a [u8] {
        self.names.get(at).filter(|(of_tag, _)| *of_tag == is_tag).map_or(&[], |(_, name)| name)
    }

    #[cold]
    fn set(&mut self, at: usize, is_tag: bool, name: Text<'a>) {
        self.names.truncate(at);
        if self.names.len() == at {
            self.names.push((is_tag, if name.has_escapes() { &[] } else { name.raw() }));
        }
    }
}

/// The line at `at`.
struct Line<'a> {
    bytes: &'a [u8],
    at: usize,
    limits: &'a Limits,
    unit: i64,
    number: u64,
    /// Whether the line has ended with a line break.
    has_break: bool,
}

impl<'a> Line<'a> {
    fn parse(&mut self, before: &mut Before<'a>, rows: &mut impl Rows) -> Result<(), Fault> {
        while matches!(self.peek(), Some(b' ' | b'\r')) {
            self.at += 1;
        }
        match self.peek() {
            None => return Ok(()),
            Some(b'\n') => {
                self.at += 1;
                self.has_break = true;
                return Ok(());
            }
            Some(b'#') => {
                let end = memchr::memchr(b'\n', &self.bytes[self.at..]);
                self.has_break = end.is_some();
                self.at = end.map_or(self.bytes.len(), |end| self.at + end + 1);
                return Ok(());
            }
            Some(_) => {}
        }
        let begin = self.at;
        let table = match self.expected(before.table, COMMA | SPACE) {
            Some(table) => table,
            None => {
                let table = self.name(COMMA | SPACE | BREAK, "measurement")?;
                before.table = if table.has_escapes() { &[] } else { table.raw() };
                table
            }
        };
        self.refused(begin, rows.table(table, self.number))?;
        let mut columns = 0;
        while self.peek() == Some(b',') {
            self.at += 1;
            self.tag((&mut *before, columns), rows)?;
            self.count(&mut columns)?;
        }
        let has_tags = columns > 0;
        if !self.skip_spaces() {
            // The line ends behind its tags.
            return if has_tags { self.finish(begin, None, rows) } else { Err(self.no_fields()) };
        }
        let mut is_first = true;
        loop {
            let name_at = self.at;
            // A line of tags alone has its timestamp here.
            if is_first && self.is_time() {
                if !has_tags {
                    return Err(self.no_fields());
                }
                break;
            }
            let name = match self.expected(before.name(columns, false), EQUALS) {
                Some(name) => name,
                None => {
                    let name = self.name(EQUALS | SPACE | BREAK, "field")?;
                    before.set(columns, false, name);
                    name
                }
            };
            if self.peek() != Some(b'=') {
                let what = format!("the field {} has no value: \"=\" is missing", shown(name.raw()));
                return Err((self.at, what.into()));
            }
            self.at += 1;
            let value = self.value()?;
            self.refused(name_at, rows.field(name, value))?;
            self.count(&mut columns)?;
            is_first = false;
            if self.peek() != Some(b',') {
                break;
            }
            self.at += 1;
        }
        let time = if is_first || self.skip_spaces() { self.time()? } else { None };
        self.finish(begin, time, rows)
    }

    fn no_fields(&self) -> Fault {
        (self.at, "the line has neither tags nor fields".into())
    }

    /// Behind everything that a line has: the line break, or the end.
    fn finish(&mut self, begin: usize, time: Option<i64>, rows: &mut impl Rows) -> Result<(), Fault> {
        while matches!(self.peek(), Some(b' ' | b'\r')) {
            self.at += 1;
        }
        match self.peek() {
            None => {}
            Some(b'\n') => {
                self.at += 1;
                self.has_break = true;
            }
            Some(_) => {
                let rest = self.token(BREAK);
                return Err((rest.0, format!("{} is behind the end of the line", shown(rest.1)).into()));
            }
        }
        self.refused(begin, rows.end(time))
    }

    #[inline]
    fn refused(&self, at: usize, result: Result<(), Refusal>) -> Result<(), Fault> {
        result.map_err(|what| (at, what))
    }

    fn count(&self, columns: &mut usize) -> Result<(), Fault> {
        *columns += 1;
        if *columns > self.limits.columns_max {
            let what = format!("the line has more than {} tags and fields", self.limits.columns_max);
            return Err((self.at, what.into()));
        }
        Ok(())
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Whether there was a space, and something follows in the line.
    fn skip_spaces(&mut self) -> bool {
        if self.peek() != Some(b' ') {
            return false;
        }
        while self.peek() == Some(b' ') {
            self.at += 1;
        }
        !matches!(self.peek(), None | Some(b'\n' | b'\r'))
    }

    #[inline]
    fn tag(&mut self, (before, at): (&mut Before<'a>, usize), rows: &mut impl Rows) -> Result<(), Fault> {
        let begin = self.at;
        let name = match self.expected(before.name(at, true), EQUALS) {
            Some(name) => name,
            None => {
                let name = self.name(EQUALS | COMMA | SPACE | BREAK, "tag")?;
                before.set(at, true, name);
                name
            }
        };
        if self.peek() != Some(b'=') {
            let what = format!("the tag {} has no value: \"=\" is missing", shown(name.raw()));
            return Err((self.at, what.into()));
        }
        self.at += 1;
        let value = self.unquoted(COMMA | SPACE | BREAK);
        self.refused(begin, rows.tag(name, value))
    }

    /// A name of the line before, if it stands here with one of the bytes of `stops` behind it.
    #[inline]
    fn expected(&mut self, name: &'a [u8], stops: u8) -> Option<Text<'a>> {
        let rest = self.bytes.get(self.at..)?;
        let is_whole = rest.get(name.len()).is_some_and(|byte| CLASSES[usize::from(*byte)] & stops != 0);
        if name.is_empty() || !is_whole || !rest.starts_with(name) {
            return None;
        }
        self.at += name.len();
        Some(Text::plain(name))
    }

    /// A name up to one of the bytes of `stops`.
    #[inline]
    fn name(&mut self, stops: u8, what: &str) -> Result<Text<'a>, Fault> {
        let begin = self.at;
        let name = self.unquoted(stops);
        let length = name.raw().len();
        if length == 0 {
            return Err((begin, format!("the name of a {what} is empty").into()));
        }
        if length > self.limits.name_bytes_max {
            let most = self.limits.name_bytes_max;
            return Err((
                begin,
                format!("the name of a {what} has {length} bytes; at most {most} are allowed").into(),
            ));
        }
        Ok(name)
    }

    /// What is written up to one of the bytes of `stops`, unless a backslash is before it.
    #[inline]
    fn unquoted(&mut self, stops: u8) -> Text<'a> {
        let (begin, mut at, mut has_escapes) = (self.at, self.at, false);
        let stops = stops | ESCAPE;
        loop {
            while at < self.bytes.len() && CLASSES[usize::from(self.bytes[at])] & stops == 0 {
                at += 1;
            }
            if at < self.bytes.len() && self.bytes[at] == b'\\' {
                has_escapes = true;
                at = (at + 2).min(self.bytes.len());
                continue;
            }
            break;
        }
        self.at = at;
        let mut end = at;
        // Of a line break of two bytes.
        let is_end = at >= self.bytes.len() || self.bytes[at] == b'\n';
        if is_end && end > begin && self.bytes[end - 1] == b'\r' && !has_escapes {
            end -= 1;
        }
        Text::new(&self.bytes[begin..end], has_escapes, false)
    }

    /// The bytes up to one of `stops`, without escapes, and where they begin.
    #[inline]
    fn token(&mut self, stops: u8) -> (usize, &'a [u8]) {
        let begin = self.at;
        let mut at = begin;
        while at < self.bytes.len() && CLASSES[usize::from(self.bytes[at])] & stops == 0 {
            at += 1;
        }
        self.at = at;
        let mut token = &self.bytes[begin..at];
        if token.last() == Some(&b'\r') {
            token = &token[..token.len() - 1];
        }
        (begin, token)
    }

    #[inline]
    fn value(&mut self) -> Result<Value<'a>, Fault> {
        match self.peek() {
            Some(b'"') => self.quoted(),
            Some(b'=') => self.binary(),
            _ => {
                if let Some(value) = self.short_number() {
                    return Ok(value);
                }
                let (begin, token) = self.token(COMMA | SPACE | BREAK);
                plain(token).map_err(|what| (begin, what))
            }
        }
    }

    /// A number with so few digits that nothing is rounded on the way to the nearest double, or an integer that fits. `None`: it is none, or
    /// written in another way.
    #[inline]
    fn short_number(&mut self) -> Option<Value<'a>> {
        let rest = self.bytes.get(self.at..)?;
        let is_negative = rest.first() == Some(&b'-');
        let mut at = usize::from(is_negative);
        let (mut number, mut point) = (0u64, None);
        let begin = at;
        loop {
            let byte = *rest.get(at)?;
            match byte {
                b'0'..=b'9' => number = number.wrapping_mul(10).wrapping_add(u64::from(byte - b'0')),
                b'.' if point.is_none() => point = Some(at),
                _ => break,
            }
            at += 1;
        }
        let digits = at - begin - usize::from(point.is_some());
        let ends = |at: usize| {
            rest.get(at).is_some_and(|byte| CLASSES[usize::from(*byte)] & (COMMA | SPACE | BREAK) != 0)
        };
        if (1..=EXACT_DIGITS).contains(&digits) && ends(at) {
            let scale = point.map_or(0, |point| at - point - 1);
            let value = number as f64 / POWERS_OF_TEN[scale];
            let value = if is_negative { -value } else { value };
            self.at += at;
            return Some(Value::F64(Number { value, text: &rest[..at] }));
        }
        // Eighteen digits always fit.
        if (1..=18).contains(&digits) && point.is_none() && rest[at] == b'i' && ends(at + 1) {
            self.at += at + 1;
            let number = number as i64;
            return Some(Value::I64(if is_negative { -number } else { number }));
        }
        None
    }

    fn quoted(&mut self) -> Result<Value<'a>, Fault> {
        let quote = self.at;
        self.at += 1;
        let (begin, mut has_escapes) = (self.at, false);
        loop {
            match memchr::memchr2(b'"', b'\\', &self.bytes[self.at..]) {
                None => {
                    // The whole line may be within its limit only without this text.
                    let at = self.bytes.len();
                    return Err((at, format!("the text at byte {quote} does not end").into()));
                }
                Some(offset) if self.bytes[self.at + offset] == b'"' => {
                    self.at += offset + 1;
                    break;
                }
                Some(offset) => {
                    has_escapes = true;
                    self.at = (self.at + offset + 2).min(self.bytes.len());
                }
            }
        }
        let value = Value::Text(Text::new(&self.bytes[begin..self.at - 1], has_escapes, true));
        match self.peek() {
            None | Some(b',' | b' ' | b'\n' | b'\r') => Ok(value),
            Some(_) => Err((self.at, "after a text there is neither \",\" nor a space".into())),
        }
    }

    /// Takes so many bytes.
    #[inline]
    fn take(&mut self, count: usize) -> Result<&'a [u8], Fault> {
        match self.at.checked_add(count).and_then(|end| self.bytes.get(self.at..end)) {
            Some(bytes) => {
                self.at += count;
                Ok(bytes)
            }
            None => Err((self.bytes.len(), "a binary value is cut off".into())),
        }
    }

    #[inline]
    fn byte(&mut self) -> Result<u8, Fault> {
        self.take(1).map(|bytes| bytes[0])
    }

    #[inline]
    fn binary(&mut self) -> Result<Value<'a>, Fault> {
        self.at += 1;
        let begin = self.at;
        let value = match self.byte()? {
            DOUBLE => {
                let value = self.take(8)?.try_into().map_or(0.0, f64::from_le_bytes);
                Value::F64(Number { value, text: &[] })
            }
            ARRAY => self.array(begin)?,
            DECIMAL => {
                let (scale, length) = (self.byte()?, self.byte()?);
                match length {
                    0 => Value::Null,
                    length => Value::Decimal(Decimal::Binary { scale, unscaled: self.take(length.into())? }),
                }
            }
            kind => return Err((begin, format!("0x{kind:02x} is the type of no binary value").into())),
        };
        match self.peek() {
            None | Some(b',' | b' ' | b'\n' | b'\r') => Ok(value),
            Some(_) => Err((self.at, "after a binary value there is neither \",\" nor a space".into())),
        }
    }

    fn array(&mut self, begin: usize) -> Result<Value<'a>, Fault> {
        match self.byte()? {
            ITEM_NONE => return Ok(Value::Null),
            ITEM_DOUBLE => {}
            kind => {
                return Err((
                    begin,
                    format!("an array has items of type {kind}; only doubles ({ITEM_DOUBLE}) are supported")
                        .into(),
                ));
            }
        }
        let dimensions = usize::from(self.byte()?);
        if !(1..=self.limits.dimensions_max).contains(&dimensions) {
            let most = self.limits.dimensions_max;
            return Err((
                begin,
                format!("an array has {dimensions} dimensions; 1 to {most} are allowed").into(),
            ));
        }
        let shape = self.take(4 * dimensions)?;
        let lengths = Array::new(shape, &[]).shape();
        let count = lengths.fold(8u64, |bytes, length| bytes.saturating_mul(length.into()));
        let data = self.take(usize::try_from(count).unwrap_or(usize::MAX))?;
        Ok(Value::Array(Array::new(shape, data)))
    }

    /// Whether what follows is a timestamp and not the name of a field.
    fn is_time(&self) -> bool {
        let rest = &self.bytes[self.at..];
        let digits = rest.iter().position(|byte| !matches!(byte, b'0'..=b'9' | b'-' | b'n' | b't'));
        let ends_here = digits.is_none_or(|end| matches!(rest[end], b' ' | b'\n' | b'\r'));
        ends_here && matches!(rest.first(), Some(b'0'..=b'9' | b'-'))
    }

    #[inline]
    fn time(&mut self) -> Result<Option<i64>, Fault> {
        let (begin, token) = self.token(SPACE | BREAK);
        if token.is_empty() {
            return Ok(None);
        }
        let (digits, unit) = match token.split_last() {
            Some((b'n', digits)) => (digits, 1),
            Some((b't', digits)) => (digits, 1_000),
            _ => (token, self.unit),
        };
        let what = |what: &str| (begin, format!("the timestamp {} {what}", shown(token)).into());
        let number = integer(digits).ok_or_else(|| what("is not a whole number of 64 bits"))?;
        let time = number.checked_mul(unit).ok_or_else(|| what("does not fit nanoseconds of 64 bits"))?;
        Ok(Some(time))
    }
}

/// A value that is neither quoted nor binary.
#[inline]
fn plain(token: &[u8]) -> Result<Value<'_>, Refusal> {
    let Some((&last, front)) = token.split_last() else { return Err("a field has no value".into()) };
    let wrong = |kind: &str| Err(format!("{} is not {kind}", shown(token)).into());
    match last {
        b'0'..=b'9' | b'.' => float(token),
        b'i' if token.starts_with(b"0x") => {
            Err(format!("{} is a long256, which is not supported: send it as a string", shown(token)).into())
        }
        b'i' => match integer(front) {
            Some(number) => Ok(Value::I64(number)),
            None => wrong("an integer of 64 bits"),
        },
        b'u' => match unsigned(front) {
            Some(number) => Ok(Value::U64(number)),
            None => wrong("an unsigned integer of 64 bits"),
        },
        b'd' if front
            .first()
            .is_some_and(|first| matches!(first, b'0'..=b'9' | b'+' | b'-' | b'.' | b'N' | b'I')) =>
        {
            Ok(Value::Decimal(Decimal::Text(front)))
        }
        b't' | b'n' if matches!(front.last(), Some(b'0'..=b'9')) => {
            let unit = if last == b't' { 1_000 } else { 1 };
            match integer(front).and_then(|number| number.checked_mul(unit)) {
                Some(time) => Ok(Value::Time(time)),
                None => wrong("a timestamp in nanoseconds of 64 bits"),
            }
        }
        _ => match token {
            b"t" | b"T" | b"true" | b"True" | b"TRUE" => Ok(Value::Bool(true)),
            b"f" | b"F" | b"false" | b"False" | b"FALSE" => Ok(Value::Bool(false)),
            _ => float(token),
        },
    }
}

#[inline]
fn float(token: &[u8]) -> Result<Value<'_>, Refusal> {
    let parsed = str::from_utf8(token).ok().and_then(|text| text.parse::<f64>().ok());
    match parsed {
        Some(value) if value.is_infinite() && token.iter().any(u8::is_ascii_digit) => {
            Err(format!("{} is too large for a double", shown(token)).into())
        }
        Some(value) => Ok(Value::F64(Number { value, text: token })),
        None => Err(format!("{} is not a number", shown(token)).into()),
    }
}

#[inline]
fn integer(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text.split_first() {
        Some((b'-', digits)) => (true, digits),
        _ => (false, text),
    };
    // Nineteen digits always fit 64 bits without a sign.
    if digits.len() > 19 || digits.is_empty() {
        return str::from_utf8(text).ok().filter(|text| !text.starts_with('+'))?.parse().ok();
    }
    let mut number = 0u64;
    for digit in digits {
        let value = digit.wrapping_sub(b'0');
        if value > 9 {
            return None;
        }
        number = number * 10 + u64::from(value);
    }
    match is_negative {
        true => 0i64.checked_sub_unsigned(number),
        false => i64::try_from(number).ok(),
    }
}

fn unsigned(text: &[u8]) -> Option<u64> {
    str::from_utf8(text).ok().filter(|text| !text.starts_with('+'))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the lines have, as text.
    #[derive(Default)]
    pub struct Shown(pub String);

    impl Rows for Shown {
        fn table(&mut self, name: Text<'_>, _: u64) -> Result<(), Refusal> {
            self.0 += &format!("{name}|");
            Ok(())
        }

        fn tag(&mut self, name: Text<'_>, value: Text<'_>) -> Result<(), Refusal> {
            self.0 += &format!("{name}:{value}|");
            Ok(())
        }

        fn field(&mut self, name: Text<'_>, value: Value<'_>) -> Result<(), Refusal> {
            let value = match value {
                Value::F64(number) => format!("{:?}", number.value),
                Value::I64(number) => format!("{number}i"),
                Value::U64(number) => format!("{number}u"),
                Value::Text(text) => format!("{:?}", text.to_string()),
                Value::Bool(value) => value.to_string(),
                Value::Time(time) => format!("{time}ns"),
                Value::Array(array) => {
                    format!("{:?}{:?}", array.shape().collect::<Vec<_>>(), array.values().collect::<Vec<_>>())
                }
                Value::Decimal(decimal) => format!("{decimal}d"),
                Value::Null => "null".into(),
            };
            self.0 += &format!("{name}={value}|");
            Ok(())
        }

        fn end(&mut self, time: Option<i64>) -> Result<(), Refusal> {
            self.0 += &format!("{}\n", time.map_or("now".into(), |time| time.to_string()));
            Ok(())
        }
    }

    fn shown_with(bytes: &[u8], precision: Precision) -> Result<String, String> {
        let mut rows = Shown::default();
        let parsed = Parser::new(precision, Limits::default()).parse(bytes, &mut rows);
        parsed.map(|()| rows.0).map_err(|error| error.to_string())
    }

    fn rows_of(bytes: &[u8]) -> Result<String, String> {
        shown_with(bytes, Precision::Nanoseconds)
    }

    #[test]
    fn values_of_version_1() {
        let line = br#"t\ r,symbol=A\ B,ex=x\,\=\\" p=1.5,n=-3i,m=18446744073709551615u,s="q\"u\\o, =",b=t,c=False,d=5t,e=7n 17"#;
        let expected = "t r|symbol:A B|ex:x,=\\\"|p=1.5|n=-3i|m=18446744073709551615u|s=\"q\\\"u\\\\o, =\"|b=true|c=false|d=5000ns|e=7ns|17\n";
        assert_eq!(rows_of(line).as_deref(), Ok(expected));
    }

    #[test]
    fn binary_values() {
        assert_eq!(rows_of(b"t p==\x10\0\0\0\0\0\0\xf8? 17n\n").as_deref(), Ok("t|p=1.5|17\n"));
        let array = b"t a==\x0e\x0a\x02\x01\0\0\0\x02\0\0\0\0\0\0\0\0\0\xf0?\0\0\0\0\0\0\0@ 7t";
        assert_eq!(rows_of(array).as_deref(), Ok("t|a=[1, 2][1.0, 2.0]|7000\n"));
        let decimals = b"t d==\x17\x04\x020\xd4,e==\x17\0\0,f=-1.50d,g==\x0e\x21";
        assert_eq!(rows_of(decimals).as_deref(), Ok("t|d=12500e-4d|e=null|f=-1.50d|g=null|now\n"));
    }

    #[test]
    fn short_numbers_are_the_nearest_doubles() {
        let mut state = 7u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut texts: Vec<String> =
            ["0", "-0", "-0.0", "5.", "-.5", ".5", "00.10", "999999999999999", "0.000000000000001"]
                .map(Into::into)
                .into();
        for _ in 0..20_000 {
            let digits: String = (0..1 + random(19)).map(|_| char::from(b'0' + random(10) as u8)).collect();
            let point = random(digits.len() as u64 + 4) as usize;
            let sign = if random(3) == 0 { "-" } else { "" };
            texts.push(match digits.split_at_checked(point) {
                Some((whole, part)) => format!("{sign}{whole}.{part}"),
                None => format!("{sign}{digits}"),
            });
        }
        struct Bits(Vec<u64>);
        impl Rows for Bits {
            fn table(&mut self, _: Text<'_>, _: u64) -> Result<(), Refusal> {
                Ok(())
            }
            fn tag(&mut self, _: Text<'_>, _: Text<'_>) -> Result<(), Refusal> {
                Ok(())
            }
            fn field(&mut self, _: Text<'_>, value: Value<'_>) -> Result<(), Refusal> {
                let Value::F64(number) = value else { return Err(value.kind().into()) };
                let text = str::from_utf8(number.text).map_err(|_| "it is no text")?;
                assert_eq!(
                    text.parse::<f64>().ok().map(f64::to_bits),
                    Some(number.value.to_bits()),
                    "{text}"
                );
                self.0.push(number.value.to_bits());
                Ok(())
            }
            fn end(&mut self, _: Option<i64>) -> Result<(), Refusal> {
                Ok(())
            }
        }
        let lines: String = texts.iter().map(|text| format!("t a={text},b={text} 1\n")).collect();
        let mut bits = Bits(Vec::new());
        Parser::new(Precision::Nanoseconds, Limits::default()).parse(lines.as_bytes(), &mut bits).unwrap();
        assert_eq!(bits.0.len(), 2 * texts.len());
        for (integer, is_there) in [
            ("9223372036854775807", true),
            ("-9223372036854775808", true),
            ("9223372036854775808", false),
            ("-9223372036854775809", false),
            ("999999999999999999", true),
        ] {
            let shown = rows_of(format!("t a={integer}i {}\n", integer.trim_start_matches('-')).as_bytes());
            assert_eq!(
                shown.is_ok_and(|shown| shown.contains(&format!("a={integer}i"))),
                is_there && integer != "-9223372036854775808",
                "{integer}"
            );
            assert_eq!(rows_of(format!("t a=1 {integer}").as_bytes()).is_ok(), is_there, "{integer}");
        }
    }

    #[test]
    fn names_of_the_line_before_are_taken_for_no_others() {
        for (lines, expected) in [
            ("t,a=1 b=2\nt,ab=1 b=2\n", "t|a:1|b=2.0|now\nt|ab:1|b=2.0|now\n"),
            ("t,a=1 b=2\ntt,a=1 b=2\n", "t|a:1|b=2.0|now\ntt|a:1|b=2.0|now\n"),
            ("tt,a=1 b=2\nt,a=1 bb=2\n", "tt|a:1|b=2.0|now\nt|a:1|bb=2.0|now\n"),
            ("t a,b=1\nt,a,b=1\n", "t|a,b=1.0|now\n"),
            ("t,a\\ =1 c=2\nt,a\\ =1 c=2\n", "t|a :1|c=2.0|now\nt|a :1|c=2.0|now\n"),
            (
                "t a=1,b=2,c=3\nt a=1,c=3,b=2\nt a=1\n",
                "t|a=1.0|b=2.0|c=3.0|now\nt|a=1.0|c=3.0|b=2.0|now\nt|a=1.0|now\n",
            ),
            ("t,a=1 b=2\nt b=2\nt,a=1 b=2 7\n", "t|a:1|b=2.0|now\nt|b=2.0|now\nt|a:1|b=2.0|7\n"),
        ] {
            let found = rows_of(lines.as_bytes());
            let one_by_one: Result<String, String> =
                lines.split_inclusive('\n').map(|line| rows_of(line.as_bytes())).collect();
            assert_eq!(found.is_ok(), one_by_one.is_ok(), "{lines:?}");
            if let Ok(found) = found {
                assert_eq!((found.as_str(), Ok(&found)), (expected, one_by_one.as_ref()), "{lines:?}");
            }
        }
    }

    #[test]
    fn lines_that_are_unusual_and_right() {
        for (line, expected) in [
            ("\n\r\n  \n# comment\n", ""),
            ("t,a=b\n", "t|a:b|now\n"),
            ("t,a=b 5\r\n", "t|a:b|5\n"),
            ("t,a=b  c=1  5  \r\nt c=2", "t|a:b|c=1.0|5\nt|c=2.0|now\n"),
            ("t,a= c=1\n", "t|a:|c=1.0|now\n"),
            ("t c=\"a\nb\" 1\n", "t|c=\"a\\nb\"|1\n"),
            ("t c=\"\",d=1 -1\n", "t|c=\"\"|d=1.0|-1\n"),
            ("t c=1e-3,d=.5,e=-inf,f=+1\r\n", "t|c=0.001|d=0.5|e=-inf|f=1.0|now\n"),
            ("t,a=\"b c=1\n", "t|a:\"b|c=1.0|now\n"),
            ("t\\,a b\\=c=1\n", "t,a|b=c=1.0|now\n"),
            ("t 5=1\n", "t|5=1.0|now\n"),
        ] {
            assert_eq!(rows_of(line.as_bytes()).as_deref(), Ok(expected), "{line:?}");
        }
        assert!(rows_of(b"t c=NaN").is_ok_and(|shown| shown == "t|c=NaN|now\n"));
    }

    #[test]
    fn faults_have_their_place() {
        for (line, expected) in [
            ("t", "line 1, column 2: the line has neither tags nor fields"),
            ("t 5\n", "line 1, column 3: the line has neither tags nor fields"),
            ("t c=1\nt c=2i3 5", "line 2, column 5: \"2i3\" is not a number"),
            ("t c=\n", "line 1, column 5: a field has no value"),
            ("t c\n", "line 1, column 4: the field \"c\" has no value: \"=\" is missing"),
            ("t,a c=1\n", "line 1, column 4: the tag \"a\" has no value: \"=\" is missing"),
            ("t,=b c=1\n", "line 1, column 3: the name of a tag is empty"),
            (",a=b c=1\n", "line 1, column 1: the name of a measurement is empty"),
            ("t c=1,\n", "line 1, column 7: the name of a field is empty"),
            ("t c=-1e999\n", "line 1, column 5: \"-1e999\" is too large for a double"),
            (
                "t c=0x1fi\n",
                "line 1, column 5: \"0x1fi\" is a long256, which is not supported: send it as a string",
            ),
            (
                "t c=9223372036854775808i\n",
                "line 1, column 5: \"9223372036854775808i\" is not an integer of 64 bits",
            ),
            ("t c=-1u\n", "line 1, column 5: \"-1u\" is not an unsigned integer of 64 bits"),
            ("t c=1 x\n", "line 1, column 7: the timestamp \"x\" is not a whole number of 64 bits"),
            (
                "t c=1 9223372036854775807t\n",
                "line 1, column 7: the timestamp \"9223372036854775807t\" does not fit nanoseconds of 64 bits",
            ),
            ("t c=1 5 6\n", "line 1, column 9: \"6\" is behind the end of the line"),
            ("t c=\"a\n", "line 1, column 8: the text at byte 4 does not end"),
            ("t c=\"a\"b\n", "line 1, column 8: after a text there is neither \",\" nor a space"),
            ("t c==\x01\n", "line 1, column 6: 0x01 is the type of no binary value"),
            ("t c==\x10ab", "line 1, column 9: a binary value is cut off"),
            (
                "t c==\x0e\x0b",
                "line 1, column 6: an array has items of type 11; only doubles (10) are supported",
            ),
            ("t c==\x0e\x0a\x09", "line 1, column 6: an array has 9 dimensions; 1 to 8 are allowed"),
        ] {
            assert_eq!(rows_of(line.as_bytes()), Err(expected.to_string()), "{line:?}");
        }
    }

    #[test]
    fn limits_hold() {
        let limits = Limits { line_bytes_max: 20, columns_max: 2, name_bytes_max: 5, ..Limits::default() };
        let parse = |line: &str| {
            let mut rows = Shown::default();
            let parsed = Parser::new(Precision::Nanoseconds, limits).parse(line.as_bytes(), &mut rows);
            parsed.map_err(|error| error.to_string()).err().unwrap_or_default()
        };
        assert_eq!(parse("t a=1,b=2\n# 34567890123456789\n"), "");
        assert_eq!(parse("t,a=1 b=2,c=3\n"), "line 1, column 14: the line has more than 2 tags and fields");
        assert_eq!(
            parse("abcdef a=1\n"),
            "line 1, column 1: the name of a measurement has 6 bytes; at most 5 are allowed"
        );
        for line in ["t a=\"3456789012345678\"\n", "t a=34567890123456789 1\n", "# 345678901234567890\n"] {
            assert_eq!(parse(line), "line 1, column 21: the line is longer than 20 bytes", "{line:?}");
        }
        let huge = b"t c==\x0e\x0a\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff";
        assert!(rows_of(huge).is_err_and(|error| error.ends_with("a binary value is cut off")));
    }

    #[test]
    fn a_line_that_may_go_on_has_not_ended() {
        for (lines, has_ended) in [
            ("t a=1\n", true),
            ("t a=1\n# c\n\n", true),
            ("t a=1", false),
            ("t a==\x10\0\0\0\0\0\0\0\n", false),
            ("t,a=b\\\n", false),
        ] {
            let mut parser = Parser::new(Precision::Nanoseconds, Limits::default());
            parser.parse(lines.as_bytes(), &mut Shown::default()).unwrap();
            assert_eq!(parser.has_ended(), has_ended, "{lines:?}");
        }
    }

    #[test]
    fn units_of_timestamps() {
        for (name, expected) in [("n", 3i64), ("us", 3_000), ("ms", 3_000_000), ("s", 3_000_000_000)] {
            let precision = Precision::of_name(name).unwrap();
            assert_eq!(shown_with(b"t c=1 3", precision), Ok(format!("t|c=1.0|{expected}\n")));
            assert_eq!(shown_with(b"t c=1 3n", precision).as_deref(), Ok("t|c=1.0|3\n"), "a suffix wins");
        }
        assert_eq!(Precision::of_name("d"), None);
        assert!(shown_with(b"t c=1 9999999999", Precision::Hours).is_err());
    }

    #[test]
    fn a_refusal_has_the_place_of_its_name() {
        struct Refuse;
        impl Rows for Refuse {
            fn table(&mut self, _: Text<'_>, _: u64) -> Result<(), Refusal> {
                Ok(())
            }
            fn tag(&mut self, _: Text<'_>, _: Text<'_>) -> Result<(), Refusal> {
                Ok(())
            }
            fn field(&mut self, name: Text<'_>, _: Value<'_>) -> Result<(), Refusal> {
                if name.raw() == b"c" { Err("no".into()) } else { Ok(()) }
            }
            fn end(&mut self, _: Option<i64>) -> Result<(), Refusal> {
                Ok(())
            }
        }
        let error = Parser::new(Precision::Nanoseconds, Limits::default())
            .parse(b"\nt,a=1 b=1\nt,a=1 b=1,c=2\n", &mut Refuse);
        let error = error.unwrap_err();
        assert_eq!((error.line, error.column, error.line_begins, &*error.what), (3, 11, 11, "no"));
    }
}
