//! What `#[derive(Record)]` expands to calls: where the fields of one record type lie, and the work for one field.

use crate::array::{check_zero, no_trailing};
use crate::error::{DecodeError, DecodeErrorKind as Kind};
use crate::layout::{END_WIDTH, Field, Layout, MAX_DEPTH, Record};
use crate::spare::{FixedPart, Spare};

/// There is no variable field before.
const NONE: usize = usize::MAX;

/// Offsets of the `N` fields of a record type, computed at compile time.
#[derive(Debug, Clone, Copy)]
pub struct Plan<const N: usize> {
    /// Offset of each slot in the fixed part.
    pub offset: [usize; N],
    /// Bit of each nullable field in the null bitmap.
    pub null_bit: [usize; N],
    /// Slot of the variable field before each field, `usize::MAX` if there is none.
    pub before: [usize; N],
    /// Slot of the last variable field, `usize::MAX` if there is none.
    pub last: usize,
    /// Number of nullable fields.
    pub nullable: usize,
    /// Bytes of the fixed part.
    pub fixed: usize,
}

impl<const N: usize> Plan<N> {
    /// The plan for fields of these slot widths.
    pub const fn new(width: [usize; N], nullable: [bool; N], variable: [bool; N]) -> Self {
        let mut nulls = 0;
        let mut i = 0;
        let mut null_bit = [0; N];
        while i < N {
            null_bit[i] = nulls;
            nulls += nullable[i] as usize;
            i += 1;
        }
        let (mut offset, mut before) = ([0; N], [NONE; N]);
        let (mut next, mut last) = (nulls.div_ceil(8), NONE);
        i = 0;
        while i < N {
            offset[i] = next;
            before[i] = last;
            if variable[i] {
                last = next;
            }
            next += width[i];
            i += 1;
        }
        Self { offset, null_bit, before, last, nullable: nulls, fixed: next }
    }

    /// Bytes of the null bitmap.
    pub const fn bitmap(&self) -> usize {
        self.nullable.div_ceil(8)
    }

    /// Whether there are variable fields.
    pub const fn has_heap(&self) -> bool {
        self.last != NONE
    }
}

/// Puts the next field into a fixed part whose bitmap is at `bitmap`: its null bit, and its value if it is fixed-width.
#[inline(always)]
pub fn store<F: Field, const N: usize>(
    field: &F,
    fixed: &mut FixedPart<'_, N>,
    bitmap: usize,
    null_bit: usize,
) {
    match field.get() {
        Some(value) if !F::Type::VARIABLE => fixed.push(value.slot().as_ref()),
        Some(_) => drop(fixed.next(F::Type::WIDTH)),
        None => {
            fixed.next(F::Type::WIDTH);
            fixed.filled()[bitmap + null_bit / 8] |= 1 << (null_bit % 8);
        }
    }
}

/// Most bytes that a field takes in the heap.
#[inline(always)]
pub fn content_bound<F: Field>(field: &F) -> usize {
    if F::Type::VARIABLE { field.get().map_or(0, Layout::bound) } else { 0 }
}

/// Puts one variable field into the heap of the body for which `base` bytes were left, and notes its end.
#[inline(always)]
pub fn put<'a, F: Field>(
    field: &F,
    spare: Spare<'a>,
    base: usize,
    fixed: &mut [u8],
    offset: usize,
) -> Spare<'a> {
    if !F::Type::VARIABLE {
        return spare;
    }
    let spare = match field.get() {
        Some(value) => value.put(spare),
        None => spare,
    };
    let end = ((base - spare.left()) as u32).to_le_bytes();
    fixed[offset..offset + END_WIDTH].copy_from_slice(&end);
    spare
}

/// A body that is being read: the fixed part, the whole, and how far the heap has been consumed.
#[derive(Debug)]
pub struct Body<'a, const FIXED: usize> {
    fixed: &'a [u8; FIXED],
    bytes: &'a [u8],
    position: usize,
    at: usize,
    depth: u32,
}

impl<'a, const FIXED: usize> Body<'a, FIXED> {
    /// Begins to read the body of a record; `bytes` is exactly the body.
    ///
    /// # Errors
    /// When the fixed part is not whole, or the record is nested too deep.
    #[inline(always)]
    pub fn new(bytes: &'a [u8], at: usize, depth: u32) -> Result<Self, DecodeError> {
        if depth > MAX_DEPTH {
            return Err(DecodeError::new(Kind::Depth, at, depth.into(), MAX_DEPTH.into()));
        }
        match bytes.first_chunk::<FIXED>() {
            Some(fixed) => Ok(Self { fixed, bytes, position: FIXED, at, depth }),
            None => Err(DecodeError::new(Kind::Short, at, FIXED as u64, bytes.len() as u64)),
        }
    }

    #[inline(always)]
    fn is_null<F: Field>(&self, null_bit: usize) -> bool {
        F::NULLABLE && self.fixed[null_bit / 8] >> (null_bit % 8) & 1 == 1
    }

    /// Content of the next variable field.
    #[inline(always)]
    fn content(&mut self, offset: usize) -> Result<&'a [u8], DecodeError> {
        let end = end_at(self.fixed, offset);
        let start = self.position;
        match self.bytes.get(start..end) {
            Some(content) => {
                self.position = end;
                Ok(content)
            }
            None if end < start => {
                Err(DecodeError::new(Kind::End, self.at + offset, end as u64, start as u64))
            }
            None => Err(DecodeError::new(Kind::End, self.at + offset, end as u64, self.bytes.len() as u64)),
        }
    }

    /// Reads one field.
    ///
    /// # Errors
    /// As [`Layout::read`].
    #[inline(always)]
    pub fn read<F: Field>(
        &mut self,
        field: &mut F,
        offset: usize,
        null_bit: usize,
    ) -> Result<(), DecodeError> {
        let null = self.is_null::<F>(null_bit);
        if F::Type::VARIABLE {
            let at = self.at + self.position;
            let content = self.content(offset)?;
            if null {
                field.set_null();
                return Ok(());
            }
            field.slot().read(content, at, self.depth + 1)
        } else if null {
            field.set_null();
            Ok(())
        } else {
            field.slot().read(&self.fixed[offset..offset + F::Type::WIDTH], self.at + offset, self.depth)
        }
    }

    /// Validates one field.
    ///
    /// # Errors
    /// As [`Layout::check`].
    #[inline(always)]
    pub fn check<F: Field>(&mut self, offset: usize, null_bit: usize) -> Result<(), DecodeError> {
        let null = self.is_null::<F>(null_bit);
        if F::Type::VARIABLE {
            let at = self.at + self.position;
            let content = self.content(offset)?;
            if null { no_trailing(content, 0, at) } else { F::Type::check(content, at, self.depth + 1) }
        } else {
            let slot = &self.fixed[offset..offset + F::Type::WIDTH];
            let at = self.at + offset;
            if null { check_zero(slot, at) } else { F::Type::check(slot, at, self.depth) }
        }
    }

    /// Validates that the null bits which no field uses are zero.
    ///
    /// # Errors
    /// When one is not.
    #[inline(always)]
    pub fn check_bitmap(&self, nullable: usize) -> Result<(), DecodeError> {
        if !nullable.is_multiple_of(8) && self.fixed[nullable / 8] >> (nullable % 8) != 0 {
            let byte = self.fixed[nullable / 8];
            return Err(DecodeError::new(Kind::NullSlot, self.at + nullable / 8, byte.into(), 0));
        }
        Ok(())
    }

    /// Ends the body: nothing may be left.
    ///
    /// # Errors
    /// When something is.
    #[inline(always)]
    pub fn finish(self) -> Result<(), DecodeError> {
        no_trailing(self.bytes, self.position, self.at)
    }
}

/// Views one field of a validated body.
#[inline(always)]
pub fn view<'a, F: Field>(
    fixed: &'a [u8],
    bytes: &'a [u8],
    offset: usize,
    null_bit: usize,
    (before, last): (usize, usize),
) -> F::View<'a> {
    if F::NULLABLE && fixed[null_bit / 8] >> (null_bit % 8) & 1 == 1 {
        return F::view(None);
    }
    if F::Type::VARIABLE {
        let start = if before == NONE { fixed.len() } else { end_at(fixed, before) };
        // The last one ends where the body does.
        let end = if offset == last { bytes.len() } else { end_at(fixed, offset) };
        F::view(Some(bytes.get(start..end).unwrap_or_default()))
    } else {
        F::view(Some(&fixed[offset..offset + F::Type::WIDTH]))
    }
}

/// The end in the slot at `offset` of a fixed part.
#[inline(always)]
fn end_at(fixed: &[u8], offset: usize) -> usize {
    match fixed[offset..].first_chunk::<END_WIDTH>() {
        Some(chunk) => u32::from_le_bytes(*chunk) as usize,
        None => 0,
    }
}

/// Length of the body at the front of `rest`, whose last variable field has its slot at `last`.
///
/// # Errors
/// When `rest` is too short for it.
#[inline(always)]
pub fn body_len<R: Record>(rest: &[u8], at: usize, last: usize) -> Result<usize, DecodeError> {
    if rest.len() < R::FIXED {
        return Err(DecodeError::new(Kind::Short, at, R::FIXED as u64, rest.len() as u64));
    }
    if last == NONE {
        return Ok(R::FIXED);
    }
    let end = end_at(rest, last);
    if end < R::FIXED {
        return Err(DecodeError::new(Kind::End, at + last, end as u64, R::FIXED as u64));
    }
    if end > rest.len() {
        return Err(DecodeError::new(Kind::Short, at, end as u64, rest.len() as u64));
    }
    Ok(end)
}

/// An enum ordinal out of range.
///
/// # Errors
/// Always.
#[cold]
pub fn bad_enum(ordinal: u16, symbols: usize, at: usize) -> DecodeError {
    DecodeError::new(Kind::Enum, at, ordinal.into(), symbols as u64)
}

/// Most bytes of a union as an array item, from those of its alternatives.
pub const fn item_max(tag_width: usize, alternatives: &[usize]) -> usize {
    let (mut max, mut i) = (0, 0);
    while i < alternatives.len() {
        if alternatives[i] > max {
            max = alternatives[i];
        }
        i += 1;
    }
    max.saturating_add(tag_width)
}

/// A record tag that is missing or out of range.
#[cold]
pub fn bad_tag(bytes: &[u8], alternatives: usize, at: usize) -> DecodeError {
    match bytes.first() {
        Some(&tag) => DecodeError::new(Kind::Tag, at, tag.into(), alternatives as u64),
        None => DecodeError::new(Kind::Short, at, 1, 0),
    }
}

/// A slot that is too short for an enum's ordinal.
#[cold]
pub fn short(need: usize, have: usize, at: usize) -> DecodeError {
    DecodeError::new(Kind::Short, at, need as u64, have as u64)
}

/// Doc comments as in the schema: lines without the blank that follows `///`.
pub fn doc(lines: &[&str]) -> String {
    let trimmed: Vec<&str> = lines.iter().map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
    trimmed.join("\n")
}

/// A schema field for a Rust field of type `F`; `default` is a literal of the schema text, which the derive has read.
pub fn schema_field<F: Field>(
    schema: &mut crate::SchemaBuilder,
    name: &str,
    doc: String,
    aliases: &[&str],
    default: Option<&str>,
) -> tapedb_schema::Field {
    tapedb_schema::Field {
        name: name.into(),
        ty: F::Type::field_type(schema),
        nullable: F::NULLABLE,
        default: default.and_then(|text| text.parse().ok()),
        aliases: aliases.iter().map(|alias| alias.to_string()).collect(),
        doc,
    }
}
