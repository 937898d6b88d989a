//! Validation: once, wholly, before anything is viewed.

use super::layouts::{
    FieldLayout, ItemLayout, Layouts, Look, RecordLayout, TypeLayout, end_at, item_extent, tag_of,
};
use super::reference::array;
use crate::array::{Header, check_zero, check_zero_padding, no_trailing, null_item};
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
        self.check_body(self.record(type_id)?, body, 0, 0)
    }

    fn check_body(
        &self,
        layout: &RecordLayout,
        body: &[u8],
        at: usize,
        depth: u32,
    ) -> Result<(), DecodeError> {
        fits(layout, body, at, depth)?;
        if !layout.nullable.is_multiple_of(8) && body[layout.nullable / 8] >> (layout.nullable % 8) != 0 {
            let byte = layout.nullable / 8;
            return Err(DecodeError::new(Kind::NullSlot, at + byte, body[byte].into(), 0));
        }
        let mut position = layout.fixed;
        for step in &layout.steps {
            let offset = step.offset as usize;
            let null = body[step.null_byte as usize] & step.null_mask != 0;
            if let Look::Content(field) = step.look {
                let (field, start) = (&layout.fields[field as usize], position);
                position = content_end(field, body, start, at)?;
                let content = &body[start..position];
                if null {
                    no_trailing(content, 0, at + start)?;
                } else {
                    self.check_content(&field.ty, content, at + start, depth + 1)?;
                }
            } else {
                let slot = &body[offset..offset + step.width as usize];
                if null { check_zero(slot, at + offset)? } else { check_slot(step.look, slot, at + offset)? }
            }
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

    /// Validates any value in its bytes.
    fn check_value(&self, ty: &TypeLayout, bytes: &[u8], at: usize, depth: u32) -> Result<(), DecodeError> {
        let look = match ty {
            TypeLayout::Bool => Look::Bool,
            TypeLayout::Decimal64 => Look::Decimal64,
            TypeLayout::TimeOfDay => Look::TimeOfDay,
            TypeLayout::Char => Look::Char,
            TypeLayout::Ascii(_) => Look::Ascii,
            TypeLayout::Enum { symbols, .. } => Look::Enum(*symbols as u32),
            ty => return self.check_content(ty, bytes, at, depth),
        };
        check_slot(look, bytes, at)
    }

    fn check_array(&self, item: &ItemLayout, bytes: &[u8], at: usize, depth: u32) -> Result<(), DecodeError> {
        let header = Header::parse(bytes, at, item.nullable, depth)?;
        if item.nullable {
            header.check_unused_bits(bytes, at)?;
        }
        let mut position = header.items;
        // What books are made of, without the detours.
        if let (TypeLayout::Record(types), false) = (&item.ty, item.nullable)
            && types.len() > 1
        {
            for _ in 0..header.count {
                let (type_id, tag) = tag_of(types, &bytes[position..], at + position)?;
                position += tag;
                let layout = self.record(type_id)?;
                let length = layout.body_len(&bytes[position..], at + position)?;
                self.check_body(layout, &bytes[position..position + length], at + position, depth + 1)?;
                position += length;
            }
            return no_trailing(bytes, position, at);
        }
        for i in 0..header.count {
            let (rest, here) = (&bytes[position..], at + position);
            if item.nullable && header.is_null(bytes, i) {
                let length = null_item(rest, here, item.ty.null_item())?;
                check_zero(&rest[..length], here)?;
                position += length;
            } else {
                let (skip, length) = item_extent(self, &item.ty, rest, here)?;
                check_zero_padding(&rest[..skip], skip, here)?;
                self.check_value(&item.ty, &rest[skip..skip + length], here + skip, depth + 1)?;
                position += skip + length;
            }
        }
        no_trailing(bytes, position, at)
    }
}

/// Validates a fixed-width value that is not null.
#[inline(always)]
fn check_slot(look: Look, slot: &[u8], at: usize) -> Result<(), DecodeError> {
    match look {
        Look::Null | Look::Content(_) => Ok(()),
        Look::Bool => bool_of(slot[0], at).map(|_| ()),
        Look::Decimal64 => check_decimal(u64::from_le_bytes(array(slot)), at),
        Look::TimeOfDay => time_of_day_of(i64::from_le_bytes(array(slot)), at).map(|_| ()),
        Look::Char => char_of(u32::from_le_bytes(array(slot)), at).map(|_| ()),
        Look::Ascii => check_ascii(slot, at),
        Look::Enum(symbols) => enum_of(slot, slot.len(), symbols as usize, at).map(|_| ()),
    }
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

#[inline]
pub(super) fn is_null(field: &FieldLayout, body: &[u8]) -> bool {
    field.null_bit.is_some_and(|bit| body[bit / 8] >> (bit % 8) & 1 == 1)
}

/// End of a variable field's content that begins at `start`.
#[inline]
pub(super) fn content_end(
    field: &FieldLayout,
    body: &[u8],
    start: usize,
    at: usize,
) -> Result<usize, DecodeError> {
    let end = end_at(body, field.offset);
    if end < start {
        return Err(DecodeError::new(Kind::End, at + field.offset, end as u64, start as u64));
    }
    if end > body.len() {
        return Err(DecodeError::new(Kind::End, at + field.offset, end as u64, body.len() as u64));
    }
    Ok(end)
}

#[inline]
pub(super) fn enum_of(bytes: &[u8], width: usize, symbols: usize, at: usize) -> Result<u16, DecodeError> {
    let ordinal = if width == 1 { u16::from(bytes[0]) } else { u16::from_le_bytes(array(bytes)) };
    if usize::from(ordinal) < symbols {
        Ok(ordinal)
    } else {
        Err(DecodeError::new(Kind::Enum, at, ordinal.into(), symbols as u64))
    }
}
