//! Conversion: one pass over the written body, driven by the plan.
//!
//! Bytes are checked as far as decoding checks: slots lie in the body, ends do not decrease and the last is the
//! body's, values that are converted are values. So every byte is read once per level, and hostile bytes cost no
//! more than honest ones.

use super::error::EvolveError;
use super::plan::{
    AlternativesPlan, ArrayChange, Bit, ContentPlan, ContentSource, Conversion, Frame, Item, Number,
    RecordPlan, Slot, Symbols, record_name,
};
use super::{EVOLVED_BYTES_MAX, Evolution};
use crate::array::{COUNT_WIDTH, EMPTY_RECORD_ITEM, Header, no_trailing, null_item};
use crate::error::{DecodeError, DecodeErrorKind as Kind};
use crate::layout::{END_WIDTH, MAX_DEPTH, load_u32};
use crate::scalars::{char_of, check_ascii};
use tapedb_schema::Decimal64;

/// Whether there is a value; `false`: the reading schema does not have it.
type HasValue = Result<bool, EvolveError>;

impl Evolution {
    /// Appends a message; `out` is as before where it fails.
    pub(super) fn convert_message(
        &self,
        plan: &RecordPlan,
        body: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), EvolveError> {
        let start = out.len();
        let message = Message { evolution: self, limit: start.saturating_add(EVOLVED_BYTES_MAX) };
        message.body(plan, body, 0, 0, out).map_err(|error| {
            out.truncate(start);
            error.within(record_name(&self.read, plan.target))
        })
    }
}

/// The conversion of one message.
struct Message<'a> {
    evolution: &'a Evolution,
    /// Length that the output may not pass.
    limit: usize,
}

impl Message<'_> {
    fn body(
        &self,
        plan: &RecordPlan,
        body: &[u8],
        at: usize,
        depth: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), EvolveError> {
        if plan.is_same {
            out.extend_from_slice(body);
            return self.within_limit(out);
        }
        check_frame(plan, body, at, depth)?;
        let base = out.len();
        out.extend_from_slice(&plan.template);
        self.within_limit(out)?;
        let fixed = &mut out[base..];
        for bits in &plan.bits {
            fixed[bits.to] |= (body[bits.from] & bits.mask).rotate_left(bits.rotate);
        }
        for run in &plan.runs {
            fixed[run.to..run.to + run.length].copy_from_slice(&body[run.from..run.from + run.length]);
        }
        for slot in &plan.slots {
            self.slot(slot, body, at, fixed).map_err(|e| self.in_field(e, plan, slot.field))?;
        }
        for content in &plan.contents {
            self.content(plan, content, body, at, depth, base, out)
                .map_err(|e| self.in_field(e, plan, content.field))?;
            let end = ((out.len() - base) as u32).to_le_bytes();
            out[base + content.to..base + content.to + END_WIDTH].copy_from_slice(&end);
        }
        self.within_limit(out)
    }

    /// A fixed-width field that is not just copied.
    #[inline]
    fn slot(&self, slot: &Slot, body: &[u8], at: usize, fixed: &mut [u8]) -> Result<(), EvolveError> {
        let to = &mut fixed[slot.to..slot.to + slot.to_width];
        if is_set(slot.null, body) {
            if let Some(instead) = &slot.instead {
                to.copy_from_slice(instead);
            }
            return Ok(());
        }
        let from = &body[slot.from..slot.from + slot.from_width];
        if !value(&slot.conversion, from, to, at + slot.from)? {
            match slot.to_null {
                Some(bit) => fixed[bit.byte] |= bit.mask,
                None => return Err(self.unknown(&slot.conversion, from)),
            }
        }
        Ok(())
    }

    /// A variable field.
    #[inline]
    #[allow(clippy::too_many_arguments)] // Where to read and where to write, each with what bounds it.
    fn content(
        &self,
        plan: &RecordPlan,
        content: &ContentPlan,
        body: &[u8],
        at: usize,
        depth: u32,
        base: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), EvolveError> {
        let ContentSource::Field { from, from_width, before, null, to_null, instead, conversion } =
            &content.source
        else {
            if let ContentSource::Constant(bytes) = &content.source {
                out.extend_from_slice(bytes);
            }
            return Ok(());
        };
        if is_set(*null, body) {
            out.extend_from_slice(instead.as_deref().unwrap_or_default());
            return Ok(());
        }
        let (start, end) = match from_width {
            Some(width) => (*from, from + width),
            None => (before.map_or(plan.fixed, |slot| end_at(body, slot)), end_at(body, *from)),
        };
        let bytes = &body[start..end];
        let length = out.len();
        if !self.variable(conversion, bytes, at + start, depth + 1, out)? {
            out.truncate(length);
            match to_null {
                Some(bit) => out[base + bit.byte] |= bit.mask,
                None => return Err(self.unknown(conversion, bytes)),
            }
        }
        Ok(())
    }

    /// Appends the content that a written value becomes.
    #[inline]
    fn variable(
        &self,
        conversion: &Conversion,
        bytes: &[u8],
        at: usize,
        depth: u32,
        out: &mut Vec<u8>,
    ) -> HasValue {
        match conversion {
            Conversion::Array(array) => self.array(array, bytes, at, depth, out)?,
            Conversion::Record(records) => return self.record(records, bytes, at, depth, out),
            Conversion::Text => {
                check_ascii(bytes, at)?;
                let length = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
                out.extend_from_slice(&bytes[..length]);
            }
            Conversion::Letter => {
                let letter = char_of(load_u32(bytes, at)?, at)?;
                out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
            }
            _ => out.extend_from_slice(bytes),
        }
        Ok(true)
    }

    fn record(
        &self,
        records: &AlternativesPlan,
        bytes: &[u8],
        at: usize,
        depth: u32,
        out: &mut Vec<u8>,
    ) -> HasValue {
        let (written, tag_width) = records.tag_of(bytes, at)?;
        let Some(tag) = records.tags[written] else { return Ok(false) };
        let Some(plan) = self.plan_of(records.written[written]) else { return Ok(false) };
        if records.to_tagged {
            out.push(tag);
        }
        self.body(plan, &bytes[tag_width..], at + tag_width, depth, out)?;
        Ok(true)
    }

    fn array(
        &self,
        array: &ArrayChange,
        bytes: &[u8],
        at: usize,
        depth: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), EvolveError> {
        let header = Header::parse(bytes, at, array.from.nullable, depth)?;
        out.extend_from_slice(&bytes[..COUNT_WIDTH]);
        let bitmap = out.len();
        if array.to.nullable {
            out.extend_from_slice(&bytes[COUNT_WIDTH..header.items]);
            out.resize(bitmap + header.count.div_ceil(8), 0);
        }
        let mut position = header.items;
        for i in 0..header.count {
            let (rest, here) = (&bytes[position..], at + position);
            if array.from.nullable && header.is_null(bytes, i) {
                position += null_item(rest, here, array.from.null_width)?;
                out.resize(out.len() + array.to.null_width, 0);
                self.within_limit(out)?;
                continue;
            }
            let start = out.len();
            let (skip, length) = self.extent(array.from, &array.conversion, rest, here)?;
            let item = &rest[skip..skip + length];
            let known = self
                .item(array, item, here + skip, depth + 1, out)
                .and_then(|known| {
                    if known || array.to.nullable {
                        Ok(known)
                    } else {
                        Err(self.unknown(&array.conversion, item))
                    }
                })
                .map_err(|e| e.within(format_args!("[{i}]")))?;
            if !known {
                out.truncate(start);
                out.resize(start + array.to.null_width, 0);
                out[bitmap + i / 8] |= 1 << (i % 8);
            }
            position += skip + length;
            self.within_limit(out)?;
        }
        Ok(no_trailing(bytes, position, at)?)
    }

    /// Appends one item of an array.
    #[inline]
    fn item(&self, array: &ArrayChange, bytes: &[u8], at: usize, depth: u32, out: &mut Vec<u8>) -> HasValue {
        let start = out.len();
        if let Some(width) = array.to.width {
            out.resize(start + width, 0);
            return value(&array.conversion, bytes, &mut out[start..], at);
        }
        if let Conversion::Record(records) = &array.conversion {
            let known = self.record(records, bytes, at, depth, out)?;
            // A record without fields takes a byte.
            if known && out.len() == start {
                out.push(0);
            }
            return Ok(known);
        }
        out.extend_from_slice(&[0; END_WIDTH]);
        let known = self.variable(&array.conversion, bytes, at, depth, out)?;
        let length = (out.len() - start - END_WIDTH) as u32;
        out[start..start + END_WIDTH].copy_from_slice(&length.to_le_bytes());
        Ok(known)
    }

    /// Where the written item at the front of `rest` has its content: bytes to skip, then bytes of content.
    #[inline]
    fn extent(
        &self,
        item: Item,
        conversion: &Conversion,
        rest: &[u8],
        at: usize,
    ) -> Result<(usize, usize), DecodeError> {
        if let Some(width) = item.width {
            return null_item(rest, at, width).map(|width| (0, width));
        }
        let Conversion::Record(records) = conversion else {
            let (length, have) = (load_u32(rest, at)? as usize, rest.len() - END_WIDTH);
            return if length <= have {
                Ok((END_WIDTH, length))
            } else {
                Err(DecodeError::new(Kind::Short, at + END_WIDTH, length as u64, have as u64))
            };
        };
        let (written, tag_width) = records.tag_of(rest, at)?;
        let frame = &records.frames[written];
        if tag_width == 0 && frame.fixed == 0 {
            return null_item(rest, at, EMPTY_RECORD_ITEM).map(|skip| (skip, 0));
        }
        Ok((0, tag_width + frame.body_len(&rest[tag_width..], at + tag_width)?))
    }

    fn plan_of(&self, written: u16) -> Option<&RecordPlan> {
        self.evolution.plans.get(usize::from(written))?.as_ref()
    }

    #[inline]
    fn within_limit(&self, out: &[u8]) -> Result<(), EvolveError> {
        if out.len() <= self.limit { Ok(()) } else { Err(EvolveError::TooLong(EVOLVED_BYTES_MAX)) }
    }

    #[cold]
    fn in_field(&self, error: EvolveError, plan: &RecordPlan, field: usize) -> EvolveError {
        let record = &self.evolution.read.records[usize::from(plan.target)];
        error.within(&record.fields[field].name)
    }

    /// The error for a value that the reading schema does not have.
    #[cold]
    fn unknown(&self, conversion: &Conversion, bytes: &[u8]) -> EvolveError {
        let (written, path) = (self.evolution.written.schema(), String::new());
        match conversion {
            Conversion::Symbols(symbols) => {
                let ordinal = symbols.ordinal(bytes);
                let symbol = written.enums[symbols.written].symbols.get(ordinal);
                let symbol = symbol.map_or_else(|| ordinal.to_string(), |(name, _)| name.clone());
                EvolveError::UnknownSymbol { path, symbol }
            }
            Conversion::Record(records) => {
                let id = records.tag_of(bytes, 0).map_or(u16::MAX, |(tag, _)| records.written[tag]);
                EvolveError::UnknownRecord { path, record: record_name(written, id).into() }
            }
            _ => EvolveError::UnknownSymbol { path, symbol: "?".into() },
        }
    }
}

/// The fixed part is there, nesting is within bounds, ends do not decrease and the last is the end of the body.
#[inline]
fn check_frame(plan: &RecordPlan, body: &[u8], at: usize, depth: u32) -> Result<(), DecodeError> {
    if depth > MAX_DEPTH {
        return Err(DecodeError::new(Kind::Depth, at, depth.into(), MAX_DEPTH.into()));
    }
    if body.len() < plan.fixed {
        return Err(DecodeError::new(Kind::Short, at, plan.fixed as u64, body.len() as u64));
    }
    let mut position = plan.fixed;
    for &slot in &plan.ends {
        let end = end_at(body, slot);
        if end < position {
            return Err(DecodeError::new(Kind::End, at + slot, end as u64, position as u64));
        }
        if end > body.len() {
            return Err(DecodeError::new(Kind::End, at + slot, end as u64, body.len() as u64));
        }
        position = end;
    }
    no_trailing(body, position, at)
}

/// Converts a fixed-width value; `to` is zero, and stays so for an unknown value.
#[inline]
fn value(conversion: &Conversion, from: &[u8], to: &mut [u8], at: usize) -> HasValue {
    match conversion {
        Conversion::Sign(width) => {
            let value = Number { width: *width, signed: true }.load(from) as i64;
            to.copy_from_slice(&value.to_le_bytes()[..to.len()]);
        }
        Conversion::Float => to.copy_from_slice(&widened(load_u32(from, at)?).to_le_bytes()),
        Conversion::Decimal(number, exponent) => {
            let value = number.load(from);
            let decimal =
                decimal_of(value, *exponent).ok_or_else(|| inexact(value, -*exponent, "decimal64".into()))?;
            to.copy_from_slice(&decimal.to_bits().to_le_bytes());
        }
        Conversion::Scaled(number, factor, scale) => {
            let value = number.load(from);
            let units = value.checked_mul(i128::from(*factor)).and_then(|units| i64::try_from(units).ok());
            let written = i32::from(*scale) - factor.ilog10() as i32;
            let units = units.ok_or_else(|| inexact(value, written, format!("decimal(18,{scale})")))?;
            to.copy_from_slice(&units.to_le_bytes());
        }
        Conversion::Symbols(symbols) => return symbols.convert(from, to, at),
        _ => to[..from.len()].copy_from_slice(from),
    }
    Ok(true)
}

/// The exact value of an `f32` as an `f64`; a NaN has the same sign and payload and becomes a quiet one, as IEEE 754 requires,
/// which the language does not promise of a cast.
fn widened(bits: u32) -> u64 {
    let float = f32::from_bits(bits);
    if float.is_nan() {
        let (sign, payload) = (u64::from(bits >> 31) << 63, u64::from(bits & 0x7f_ffff) << 29);
        return sign | 0x7ff8_0000_0000_0000 | payload;
    }
    f64::from(float).to_bits()
}

/// `value` × 10^`exponent`, if sixteen digits hold it.
fn decimal_of(value: i128, exponent: i32) -> Option<Decimal64> {
    match i64::try_from(value) {
        Ok(value) => Decimal64::from_parts(value, exponent).ok(),
        // A u64 of twenty digits has to end in zeros to be exact.
        Err(_) if value % 10 == 0 => Decimal64::from_parts((value / 10) as i64, exponent + 1).ok(),
        Err(_) => None,
    }
}

#[cold]
fn inexact(value: i128, scale: i32, read: String) -> EvolveError {
    let number = match i64::try_from(value) {
        Ok(units) if scale > 0 => scaled_text(units, scale),
        _ => value.to_string(),
    };
    EvolveError::Inexact { path: String::new(), number, read }
}

/// `units` × 10^-`scale` as people write it.
fn scaled_text(units: i64, scale: i32) -> String {
    let digits = format!("{:0width$}", units.unsigned_abs(), width = scale as usize + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale as usize);
    format!("{}{whole}.{fraction}", if units < 0 { "-" } else { "" })
}

impl Number {
    #[inline]
    fn load(self, bytes: &[u8]) -> i128 {
        let mut wide = [0; 8];
        wide[..self.width].copy_from_slice(&bytes[..self.width]);
        let (bits, unused) = (u64::from_le_bytes(wide), 64 - 8 * self.width as u32);
        if self.signed { i128::from((bits << unused) as i64 >> unused) } else { i128::from(bits) }
    }
}

impl Symbols {
    #[inline]
    fn ordinal(&self, bytes: &[u8]) -> usize {
        let low = usize::from(bytes[0]);
        if self.from_width == 1 { low } else { low | usize::from(bytes[1]) << 8 }
    }

    #[inline]
    fn convert(&self, from: &[u8], to: &mut [u8], at: usize) -> HasValue {
        let ordinal = self.ordinal(from);
        match self.ordinals.get(ordinal) {
            Some(Some(ordinal)) => to.copy_from_slice(&ordinal.to_le_bytes()[..self.to_width]),
            Some(None) => return Ok(false),
            None => {
                let (need, have) = (ordinal as u64, self.ordinals.len() as u64);
                return Err(DecodeError::new(Kind::Enum, at, need, have).into());
            }
        }
        Ok(true)
    }
}

impl AlternativesPlan {
    /// The written tag of the record whose content begins with `bytes`, and the tag's width.
    #[inline]
    fn tag_of(&self, bytes: &[u8], at: usize) -> Result<(usize, usize), DecodeError> {
        if self.written.len() == 1 {
            return Ok((0, 0));
        }
        match bytes.first() {
            Some(&tag) if usize::from(tag) < self.written.len() => Ok((usize::from(tag), 1)),
            Some(&tag) => Err(DecodeError::new(Kind::Tag, at, tag.into(), self.written.len() as u64)),
            None => Err(DecodeError::new(Kind::Short, at, 1, 0)),
        }
    }
}

impl Frame {
    /// Length of the body at the front of `rest`.
    #[inline]
    fn body_len(self, rest: &[u8], at: usize) -> Result<usize, DecodeError> {
        null_item(rest, at, self.fixed)?;
        let Some(last) = self.last_end else { return Ok(self.fixed) };
        let end = end_at(rest, last);
        if end < self.fixed {
            return Err(DecodeError::new(Kind::End, at + last, end as u64, self.fixed as u64));
        }
        null_item(rest, at, end)
    }
}

#[inline]
fn is_set(bit: Option<Bit>, body: &[u8]) -> bool {
    bit.is_some_and(|bit| body[bit.byte] & bit.mask != 0)
}

/// The `u32` at `offset` of a body whose fixed part is there.
#[inline]
fn end_at(body: &[u8], offset: usize) -> usize {
    body[offset..].first_chunk::<END_WIDTH>().map_or(0, |chunk| u32::from_le_bytes(*chunk) as usize)
}
