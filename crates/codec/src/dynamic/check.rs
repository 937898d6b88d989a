//! Validation: once, wholly, before anything is viewed.

use super::layouts::{
    Alternatives, Found, ItemLayout, Layouts, RecordLayout, TypeLayout, end_at, item_extent, tag_of,
};
use super::op::{Nulls, Op, Opcode, load};
use super::test::Test;
use crate::array::{Header, check_zero, no_trailing, null_item};
use crate::error::{DecodeError, DecodeErrorKind as Kind};
use crate::heap::str_of;
use crate::layout::MAX_DEPTH;
use crate::scalars::{bool_of, char_of, check_ascii, check_decimal, time_of_day_of};

impl Layouts {
    /// Validates a body: what passes can be viewed and read without failure and is what encoding would have written.
    ///
    /// # Errors
    /// The first place where that is not so.
    pub fn check(&self, type_id: u16, body: &[u8]) -> Result<(), DecodeError> {
        let layout = self.record(type_id)?;
        if body.len() == layout.fixed
            && let Some(bitmap) = layout.open
            && !Nulls::of(body, layout.nullable).any(bitmap)
        {
            return Ok(());
        }
        self.check_body(layout, body, 0, 0)
    }

    /// Whether adjacent bodies of one record type are all valid, by a quick test for bodies of fixed width. `false`:
    /// [`Layouts::check`] decides.
    pub fn are_right(&self, type_id: u16, bodies: &[u8]) -> bool {
        let Ok(layout) = self.record(type_id) else { return false };
        let Some(tests) = layout.tests.as_ref().filter(|_| layout.is_plain()) else { return false };
        if !bodies.len().is_multiple_of(layout.fixed) {
            return false;
        }
        let nulls = Nulls::of_any(bodies, layout.fixed, layout.nullable);
        !nulls.any(layout.unused) && tests.iter().all(|test| test.all_pass(bodies, layout.fixed, nulls))
    }

    fn check_body(
        &self,
        layout: &RecordLayout,
        body: &[u8],
        at: usize,
        depth: u32,
    ) -> Result<(), DecodeError> {
        fits(layout, body, at, depth)?;
        self.check_fields(layout, body, at, depth)
    }

    /// Validates a body whose fixed part is there.
    fn check_fields(
        &self,
        layout: &RecordLayout,
        body: &[u8],
        at: usize,
        depth: u32,
    ) -> Result<(), DecodeError> {
        let nulls = Nulls::of(body, layout.nullable);
        if nulls.any(layout.unused) || layout.nullable > 64 {
            check_unused_bits(layout, body, at)?;
        }
        let passed = layout.tests.as_ref().is_some_and(|tests| passes(tests, layout, body, nulls));
        if passed && layout.is_plain() {
            return no_trailing(body, layout.fixed, at);
        }
        let mut ops = layout.ops.as_slice();
        let mut position = layout.fixed;
        for &scalars in &layout.runs {
            let (run, [op, later @ ..]) = ops.split_at(scalars) else { break };
            if !passed {
                check_scalars(run, body, nulls, at)?;
            }
            let start = position;
            position = content_end(op, body, start, at)?;
            let content = &body[start..position];
            if nulls.has(op, body) {
                no_trailing(content, 0, at + start)?;
            } else {
                let ty = &layout.fields[usize::from(op.field)].ty;
                self.check_content(ty, content, at + start, depth + 1)?;
            }
            ops = later;
        }
        if !passed {
            check_scalars(ops, body, nulls, at)?;
        }
        no_trailing(body, position, at)
    }

    /// Validates the content of a variable value.
    fn check_content(&self, ty: &TypeLayout, bytes: &[u8], at: usize, depth: u32) -> Result<(), DecodeError> {
        match ty {
            TypeLayout::String => str_of(bytes, at).map(|_| ()),
            TypeLayout::Array(item) => self.check_array(item, bytes, at, depth),
            TypeLayout::Record(types) => {
                let (type_id, tag) = tag_of(types, bytes, at)?;
                self.check_body(self.record(type_id)?, &bytes[tag..], at + tag, depth)
            }
            // Every bit pattern is a value.
            _ => Ok(()),
        }
    }

    fn check_array(&self, item: &ItemLayout, bytes: &[u8], at: usize, depth: u32) -> Result<(), DecodeError> {
        let header = Header::parse(bytes, at, item.nullable, depth)?;
        if item.nullable {
            header.check_unused_bits(bytes, at)?;
        }
        if item.op.code == Opcode::Record && !item.nullable {
            return self.check_records(&item.ty, header, bytes, at, depth);
        }
        let mut alternatives = Alternatives::new(self, &item.ty);
        let mut position = header.items;
        for i in 0..header.count {
            let (rest, here) = (&bytes[position..], at + position);
            if item.nullable && header.is_null(bytes, i) {
                let length = null_item(rest, here, item.ty.null_item())?;
                check_zero(&rest[..length], here)?;
                position += length;
            } else if item.op.code == Opcode::Record {
                let Found { layout, skip, extent } = alternatives.find(rest, here)?;
                if skip == 1 && !alternatives.tagged() {
                    check_zero(&rest[..skip], here)?;
                }
                // An array is never too deep for its items.
                self.check_fields(layout, &rest[skip..extent], here + skip, depth + 1)?;
                position += extent;
            } else {
                let (skip, length) = item_extent(&item.op, rest, here)?;
                if item.op.code.is_variable() {
                    self.check_content(&item.ty, &rest[skip..skip + length], here + skip, depth + 1)?;
                } else {
                    check_scalar(&item.op, rest, 0).map_err(|error| error.shifted(here))?;
                }
                position += skip + length;
            }
        }
        no_trailing(bytes, position, at)
    }

    /// What books are made of, without the detours.
    fn check_records(
        &self,
        ty: &TypeLayout,
        header: Header,
        bytes: &[u8],
        at: usize,
        depth: u32,
    ) -> Result<(), DecodeError> {
        let mut alternatives = Alternatives::new(self, ty);
        let mut rest = &bytes[header.items..];
        for _ in 0..header.count {
            let here = at + bytes.len() - rest.len();
            let Found { layout, skip, extent } = alternatives.find(rest, here)?;
            if skip == 1 && !alternatives.tagged() {
                check_zero(&rest[..skip], here)?;
            }
            let body = &rest[skip..extent];
            if !is_right(layout, body) {
                // An array is never too deep for its items.
                self.check_fields(layout, body, here + skip, depth + 1)?;
            }
            rest = &rest[extent..];
        }
        no_trailing(bytes, bytes.len() - rest.len(), at)
    }
}

/// Whether all fields of fixed width are right. If not, [`check_scalars`] finds the first that is wrong.
#[inline(never)]
fn passes(tests: &[Test], layout: &RecordLayout, body: &[u8], nulls: Nulls) -> bool {
    tests.iter().all(|test| test.passes(body, nulls) || is_fine(test, layout, body, nulls))
}

/// The exact check of a field that failed its test.
#[cold]
fn is_fine(test: &Test, layout: &RecordLayout, body: &[u8], nulls: Nulls) -> bool {
    let op = &layout.ops[usize::from(test.field)];
    !nulls.any(op.mask) && check_scalar(op, body, op.offset).is_ok()
}

/// Whether a body is right that is the fixed part and nothing else. If not, the exact check may find that it is.
#[inline(always)]
fn is_right(layout: &RecordLayout, body: &[u8]) -> bool {
    let nulls = Nulls::of(body, layout.nullable);
    layout.is_plain()
        && !nulls.any(layout.unused)
        && layout.tests.as_ref().is_some_and(|tests| passes(tests, layout, body, nulls))
}

/// Validates the fields of a run, which are of fixed width.
fn check_scalars(ops: &[Op], body: &[u8], nulls: Nulls, at: usize) -> Result<(), DecodeError> {
    for op in ops {
        let checked =
            if nulls.has(op, body) { check_null(op, body) } else { check_scalar(op, body, op.offset) };
        if let Err(error) = checked {
            return Err(error.shifted(at));
        }
    }
    Ok(())
}

/// Validates the fixed-width value at `offset` of `bytes`, which is there and not null. Errors count from `bytes`.
#[inline(always)]
fn check_scalar(op: &Op, bytes: &[u8], offset: u32) -> Result<(), DecodeError> {
    let at = offset as usize;
    match op.code {
        Opcode::Bool => bool_of(bytes[at], at).map(|_| ()),
        Opcode::Decimal64 => check_decimal(u64::from_le_bytes(load(bytes, offset)), at),
        Opcode::TimeOfDay => time_of_day_of(i64::from_le_bytes(load(bytes, offset)), at).map(|_| ()),
        Opcode::Char => char_of(u32::from_le_bytes(load(bytes, offset)), at).map(|_| ()),
        Opcode::Ascii8 => check_ascii(&load::<8>(bytes, offset), at),
        Opcode::Ascii => check_ascii(&bytes[at..at + usize::from(op.width)], at),
        Opcode::Enum8 => enum_of(op, bytes[at].into(), at).map(|_| ()),
        Opcode::Enum16 => enum_of(op, u16::from_le_bytes(load(bytes, offset)), at).map(|_| ()),
        // Every bit pattern is a value.
        _ => Ok(()),
    }
}

/// The slot of a null is zero.
#[inline(always)]
fn check_null(op: &Op, body: &[u8]) -> Result<(), DecodeError> {
    if op.width == 8 && load(body, op.offset) == [0; 8] {
        return Ok(());
    }
    let at = op.offset as usize;
    check_zero(&body[at..at + usize::from(op.width)], at)
}

/// Bits of the null bitmap after the last nullable field are zero.
#[cold]
fn check_unused_bits(layout: &RecordLayout, body: &[u8], at: usize) -> Result<(), DecodeError> {
    let (byte, used) = (layout.nullable / 8, layout.nullable % 8);
    if used != 0 && body[byte] >> used != 0 {
        return Err(DecodeError::new(Kind::NullSlot, at + byte, body[byte].into(), 0));
    }
    Ok(())
}

/// The fixed part is there and nesting is within bounds.
#[inline]
pub(super) fn fits(layout: &RecordLayout, body: &[u8], at: usize, depth: u32) -> Result<(), DecodeError> {
    if depth > MAX_DEPTH {
        return Err(DecodeError::new(Kind::Depth, at, depth.into(), MAX_DEPTH.into()));
    }
    if body.len() < layout.fixed {
        return Err(DecodeError::new(Kind::Short, at, layout.fixed as u64, body.len() as u64));
    }
    Ok(())
}

/// End of a variable field's content that begins at `start`.
#[inline]
pub(super) fn content_end(op: &Op, body: &[u8], start: usize, at: usize) -> Result<usize, DecodeError> {
    let slot = op.offset as usize;
    let end = end_at(body, slot);
    if end < start {
        return Err(DecodeError::new(Kind::End, at + slot, end as u64, start as u64));
    }
    if end > body.len() {
        return Err(DecodeError::new(Kind::End, at + slot, end as u64, body.len() as u64));
    }
    Ok(end)
}

/// An ordinal that the enum has.
#[inline(always)]
pub(super) fn enum_of(op: &Op, ordinal: u16, at: usize) -> Result<u16, DecodeError> {
    if ordinal <= op.last {
        Ok(ordinal)
    } else {
        Err(DecodeError::new(Kind::Enum, at, ordinal.into(), u64::from(op.last) + 1))
    }
}
