//! Columns of one record type of a block, decoded: which values there are, and what they are.

use crate::block::Block;
use crate::column::{self, Scratch};
use crate::damage::{Damage, Flaw};
use crate::decimals;
use crate::encoding::{COUNT_MAX, Float, GROUP, Strip, Strips, decode_ints, decode_ints_at};
use crate::level::Level;
use crate::plan::{ColumnKind, StepKind};
use crate::simd::widest;
use crate::strip_source::{DecimalStrips, Follows, StripSource};

/// The columns of one record type, or the block's own.
#[derive(Clone, Copy)]
pub(crate) struct Columns<'a> {
    pub block: &'a Block,
    pub group: u16,
}

/// What a column of numbers turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decoded {
    /// All values are this one, and none was written out.
    Constant(i64),
    /// The values are in the buffer.
    Values,
}

/// A column of numbers, ready to be read.
pub(crate) enum Numbers<'a> {
    Constant(i64),
    /// Its values, or what they differ by from those of a column that they follow.
    Varying(StripSource<'a>, Option<Follows>),
}

impl<'a> Columns<'a> {
    /// Kind and bytes of a column that must be there.
    fn required(&self, column: usize) -> Result<(u8, &'a [u8]), Damage> {
        let found = self.block.kind(self.group, column as u16)?;
        found.ok_or_else(|| {
            let (need, have) = (column as u64, self.block.head.chunks.len() as u64);
            self.damage(column, Flaw::Mismatch { what: "number of a column that is missing", need, have })
        })
    }

    /// Whether the block has the column.
    pub fn has(&self, column: usize) -> bool {
        self.block.head.chunk(self.group, column as u16).is_some()
    }

    /// Whether a step leads from each value above to one value below: the column of the step is always the same. A column that
    /// cannot be read does not; reading it reports why.
    pub fn leads_on(&self, column: usize, step: StepKind) -> bool {
        if !self.has(column) {
            return step == StepKind::Present;
        }
        self.constant(column).is_ok_and(|value| match (step, value) {
            (_, None) => false,
            (StepKind::Present, Some(value)) => value != 0,
            (StepKind::Items, Some(value)) => value == 1,
            (StepKind::Is(tag), Some(value)) => value == i64::from(tag),
        })
    }

    /// The one value of a column of numbers; `None`: it has several, or is not there.
    pub fn constant(&self, column: usize) -> Result<Option<i64>, Damage> {
        let chunk = self.block.head.chunk(self.group, column as u16);
        // Others need not be read to find out.
        if chunk.is_none_or(|chunk| chunk.len as usize != column::CONSTANT_BYTES) {
            return Ok(None);
        }
        match self.required(column)? {
            (column::CONSTANT, bytes) => {
                column::constant_of(bytes).map(Some).map_err(|flaw| self.damage(column, flaw))
            }
            _ => Ok(None),
        }
    }

    #[cold]
    pub fn damage(&self, column: usize, flaw: Flaw) -> Damage {
        self.block.damage(self.group, column as u16, flaw)
    }

    /// Reads the wanted values of an independent column into `out`, or returns their one value.
    pub fn alone(
        &self,
        column: usize,
        level: &Level,
        scratch: &mut Scratch,
        out: &mut Vec<i64>,
    ) -> Result<Decoded, Damage> {
        self.number(column, ColumnKind::Count, level, scratch, out, false)
    }

    /// [`Self::alone`], with the one value written out.
    pub fn ints(
        &self,
        column: usize,
        level: &Level,
        scratch: &mut Scratch,
        out: &mut Vec<i64>,
    ) -> Result<(), Damage> {
        let decoded = self.alone(column, level, scratch, out)?;
        spread(decoded, level, out);
        Ok(())
    }

    /// Reads the wanted values of any column of numbers into `out`, or returns their one value.
    pub fn numbers(
        &self,
        (column, kind): (usize, ColumnKind),
        level: &Level,
        scratch: &mut Scratch,
        out: &mut Vec<i64>,
    ) -> Result<Decoded, Damage> {
        self.number(column, kind, level, scratch, out, true)
    }

    /// Replaces `out` by what `small` makes of the values of an independent column, all of them, or returns their one value. Gives
    /// the bits that values have, too. `values` is memory.
    pub fn small<T: Copy + Default>(
        &self,
        column: usize,
        level: &Level,
        scratch: &mut Scratch,
        values: &mut Vec<i64>,
        out: &mut Vec<T>,
        small: impl Fn(i64) -> T + Copy,
    ) -> Result<(Decoded, u64), Damage> {
        out.resize(level.count, T::default());
        let cuts = column::cuts(level);
        let (tag, bytes) = self.required(column)?;
        if tag == column::OPPOSITE {
            let (other, bytes) = self.opposite_of(column, bytes)?;
            let small = move |value: i64| small(1i64.wrapping_sub(value));
            return self.small_ints((other, bytes), (level, &cuts), scratch, values, out, small);
        }
        if tag != column::INTS {
            let decoded = self.alone(column, level, scratch, values)?;
            let any = match decoded {
                Decoded::Constant(value) => value as u64,
                Decoded::Values => small_values(values, out, small),
            };
            return Ok((decoded, any));
        }
        self.small_ints((column, bytes), (level, &cuts), scratch, values, out, small)
    }

    /// [`Self::small`] of a column of encoded integers.
    fn small_ints<T: Copy + Default>(
        &self,
        (column, bytes): (usize, &'a [u8]),
        (level, cuts): (&Level, &[Vec<u32>]),
        scratch: &mut Scratch,
        values: &mut Vec<i64>,
        out: &mut [T],
        small: impl Fn(i64) -> T + Copy,
    ) -> Result<(Decoded, u64), Damage> {
        let source = ints_source(bytes, (level, cuts), scratch, values);
        let mut source = source.map_err(|flaw| self.damage(column, flaw))?;
        let (mut strip, mut any) = (Strip::default(), 0);
        for (index, out) in out.chunks_mut(GROUP).enumerate() {
            source.next(index, &mut strip);
            any |= if strip.is_narrow {
                let (base, offsets) = (strip.base, &strip.offsets[..out.len()]);
                widest(
                    #[inline(always)]
                    || {
                        let value = |offset: u32| base.wrapping_add(i64::from(offset as i32));
                        offsets.iter().zip(out).fold(0, |any, (offset, out)| {
                            *out = small(value(*offset));
                            any | value(*offset) as u64
                        })
                    },
                )
            } else {
                small_values(&strip.wide, out, small)
            };
        }
        if let StripSource::Values(memory) = source {
            *values = memory;
        }
        Ok((Decoded::Values, any))
    }

    /// Gets ready to read the wanted values of a column of numbers, strip by strip where it comes in strips. What it
    /// follows has to be added to them. `cuts` are [those of the level](column::cuts). `values` is memory that is given back
    /// where it is not needed.
    pub fn number_strips(
        &self,
        (column, kind): (usize, ColumnKind),
        (level, cuts): (&'a Level, &'a [Vec<u32>]),
        scratch: &mut Scratch,
        values: &mut Vec<i64>,
    ) -> Result<Numbers<'a>, Damage> {
        let (tag, bytes) = self.required(column)?;
        let flawed = |flaw| self.damage(column, flaw);
        match tag {
            column::DECIMALS if kind == ColumnKind::Decimal64 && level.all => {
                let parts = decimals::DecimalColumn::of(bytes).map_err(flawed)?;
                if parts.exceptions.is_empty() {
                    let source = decimals_source(&parts, (level, cuts), scratch, values).map_err(flawed)?;
                    return Ok(Numbers::Varying(source, None));
                }
            }
            column::INTS => {
                let source = ints_source(bytes, (level, cuts), scratch, values).map_err(flawed)?;
                return Ok(Numbers::Varying(source, None));
            }
            column::AGAINST | column::PREVIOUS if tag == column::AGAINST || level.all => {
                let (other, bytes) = column::reference_of(bytes).map_err(flawed)?;
                let follows = Follows { other: other.into(), previous: tag == column::PREVIOUS };
                let source = ints_source(bytes, (level, cuts), scratch, values).map_err(flawed)?;
                return Ok(Numbers::Varying(source, Some(follows)));
            }
            _ => {}
        }
        Ok(match self.numbers((column, kind), level, scratch, values)? {
            Decoded::Constant(value) => Numbers::Constant(value),
            Decoded::Values => Numbers::Varying(StripSource::Values(std::mem::take(values)), None),
        })
    }

    /// Replaces `out` by the values of some `rows`, ascending, of one of the block's own columns. `level` is memory.
    pub fn read_at(
        &self,
        column: usize,
        rows: &[u32],
        level: &mut Level,
        scratch: &mut Scratch,
        out: &mut Vec<i64>,
    ) -> Result<(), Damage> {
        let (tag, bytes) = self.required(column)?;
        level.rows_in_order(&self.block.head);
        let flawed = |flaw| self.damage(column, flaw);
        if tag == column::INTS {
            let done = decode_ints_at(bytes, level.count, &level.ends, rows, out);
            if done.map_err(|error| flawed(error.into()))? {
                return Ok(());
            }
        }
        let mut all = std::mem::take(&mut scratch.more);
        let read = self.ints(column, level, scratch, &mut all);
        if read.is_ok() {
            out.clear();
            out.extend(rows.iter().map(|row| all[*row as usize]));
        }
        scratch.more = all;
        read
    }

    /// The wanted values of a column that stands alone as far as they fit 32 bits; the largest number for others. `wide`
    /// is memory.
    pub fn offsets(
        &self,
        column: usize,
        level: &Level,
        scratch: &mut Scratch,
        wide: &mut Vec<i64>,
        out: &mut Vec<u32>,
    ) -> Result<(), Damage> {
        let narrow = |value: i64| (value as u64).min(u32::MAX.into()) as u32;
        let mut strips = match self.number_strips((column, ColumnKind::Count), (level, &[]), scratch, wide)? {
            Numbers::Varying(StripSource::Strips(strips), None) => strips,
            Numbers::Varying(StripSource::Values(values), None) => {
                out.clear();
                out.extend(values.iter().map(|value| narrow(*value)));
                *wide = values;
                return Ok(());
            }
            _ => {
                self.ints(column, level, scratch, wide)?;
                out.clear();
                out.extend(wide.iter().map(|value| narrow(*value)));
                return Ok(());
            }
        };
        let mut strip = Strip::default();
        out.resize(level.count, 0);
        for out in out.chunks_mut(GROUP) {
            strips.next(&mut strip);
            if let Some(offsets) = strip.small_offsets() {
                let base = strip.base as u32;
                out.iter_mut().zip(offsets).for_each(|(out, offset)| *out = base.wrapping_add(*offset));
            } else {
                out.iter_mut().enumerate().for_each(|(i, out)| *out = narrow(strip.value(i)));
            }
        }
        Ok(())
    }

    fn number(
        &self,
        column: usize,
        kind: ColumnKind,
        level: &Level,
        scratch: &mut Scratch,
        out: &mut Vec<i64>,
        may_follow: bool,
    ) -> Result<Decoded, Damage> {
        if scratch.reference_of == Some(self.key(column)) && level.all {
            // Others may follow it yet, but mostly they come before.
            scratch.reference_of = None;
            std::mem::swap(out, &mut scratch.reference);
            return Ok(Decoded::Values);
        }
        let (tag, bytes) = self.required(column)?;
        let done = match tag {
            column::CONSTANT => {
                let value = column::constant_of(bytes).map_err(|flaw| self.damage(column, flaw))?;
                return Ok(Decoded::Constant(value));
            }
            column::INTS => column::get_ints(bytes, level, &mut scratch.ints, out),
            column::DECIMALS if kind == ColumnKind::Decimal64 => {
                decimals::read(bytes, level, &mut scratch.ints, &mut scratch.more, out)
            }
            column::FLOATS if kind == ColumnKind::F64 => {
                column::get_float_bits(bytes, level, &mut scratch.f64s, out)
            }
            column::FLOATS if kind == ColumnKind::F32 => {
                column::get_float_bits(bytes, level, &mut scratch.f32s, out)
            }
            column::AGAINST | column::PREVIOUS if may_follow => {
                return self.following(column, tag, bytes, level, scratch, out);
            }
            column::OPPOSITE if matches!(kind, ColumnKind::Presence | ColumnKind::Count) => {
                self.opposite(column, bytes, level, scratch, out)?;
                return Ok(Decoded::Values);
            }
            tag => Err(column::unknown_kind(tag)),
        };
        done.map_err(|flaw| self.damage(column, flaw))?;
        Ok(Decoded::Values)
    }

    /// Number and encoded integers of the column whose opposite this one is.
    fn opposite_of(&self, column: usize, bytes: &[u8]) -> Result<(usize, &'a [u8]), Damage> {
        let other = column::reference_of(bytes).and_then(|(other, rest)| {
            column::nothing_left(rest)?;
            Ok(usize::from(other))
        });
        let other = other.map_err(|flaw| self.damage(column, flaw))?;
        match self.required(other)? {
            (column::INTS, bytes) => Ok((other, bytes)),
            (tag, _) => {
                let (need, have) = (column::INTS.into(), tag.into());
                let flaw = Flaw::Mismatch { what: "kind of the opposite column", need, have };
                Err(self.damage(column, flaw))
            }
        }
    }

    /// A column that is the opposite of another one of the same level.
    fn opposite(
        &self,
        column: usize,
        bytes: &[u8],
        level: &Level,
        scratch: &mut Scratch,
        out: &mut Vec<i64>,
    ) -> Result<(), Damage> {
        let (other, bytes) = self.opposite_of(column, bytes)?;
        column::get_ints(bytes, level, &mut scratch.ints, out).map_err(|flaw| self.damage(other, flaw))?;
        out.iter_mut().for_each(|value| *value = 1i64.wrapping_sub(*value));
        Ok(())
    }

    /// Identifies a column among all decoded ones.
    fn key(&self, column: usize) -> (u64, u16, usize) {
        (self.block.serial, self.group, column)
    }

    /// A column that follows another one of the same level.
    fn following(
        &self,
        column: usize,
        tag: u8,
        bytes: &[u8],
        level: &Level,
        scratch: &mut Scratch,
        out: &mut Vec<i64>,
    ) -> Result<Decoded, Damage> {
        let flawed = |flaw| self.damage(column, flaw);
        let (other, bytes) = column::reference_of(bytes).map_err(flawed)?;
        if level.all && level.count <= COUNT_MAX {
            self.read_reference(other.into(), level, scratch)?;
            let strips = Strips::open(bytes, level.count, &level.ends);
            if let Some(strips) = strips.map_err(|error| flawed(error.into()))? {
                let ends = if tag == column::PREVIOUS { Some(&level.ends[..]) } else { None };
                add_strips(strips, &scratch.reference[..level.count], ends, out);
                return Ok(Decoded::Values);
            }
        }
        if tag == column::AGAINST {
            self.read_reference(other.into(), level, scratch)?;
            column::get_ints(bytes, level, &mut scratch.ints, out).map_err(flawed)?;
            column::add(out, &scratch.reference);
            return Ok(Decoded::Values);
        }
        // A row's predecessor may be one that is not wanted: where runs are wanted as a whole, it is wanted too.
        let cut = if level.all { None } else { level.wanted_runs() };
        let whole = if level.all || cut.is_some() { None } else { Some(level.whole()) };
        let read = whole.as_ref().unwrap_or(level);
        self.read_reference(other.into(), read, scratch)?;
        column::get_ints(bytes, read, &mut scratch.ints, out).map_err(flawed)?;
        column::add_previous(out, &scratch.reference, cut.as_deref().unwrap_or(&level.ends));
        if whole.is_some() {
            level.compact(out);
        }
        Ok(Decoded::Values)
    }

    /// Reads a column that others follow, unless it is the one that was followed last.
    fn read_reference(&self, column: usize, level: &Level, scratch: &mut Scratch) -> Result<(), Damage> {
        if scratch.reference_of == Some(self.key(column)) && level.all {
            return Ok(());
        }
        let mut reference = std::mem::take(&mut scratch.reference);
        scratch.reference_of = None;
        let read = self.ints(column, level, scratch, &mut reference);
        scratch.reference = reference;
        if read.is_ok() && level.all {
            scratch.reference_of = Some(self.key(column));
        }
        read
    }

    /// Replaces `out` by the wanted values of a column that is stored as floats. `false`: it is stored as numbers. `piece` is
    /// memory.
    pub fn floats<F: Float>(
        &self,
        column: usize,
        level: &Level,
        piece: &mut Vec<F>,
        out: &mut Vec<F>,
    ) -> Result<bool, Damage> {
        let (tag, bytes) = self.required(column)?;
        if tag != column::FLOATS {
            return Ok(false);
        }
        let read = column::get_floats(bytes, level, piece, out);
        read.map(|()| true).map_err(|flaw| self.damage(column, flaw))
    }

    /// Reads the wanted texts of a column; `true`: `content` is the one value of all, and `ends` is empty.
    pub fn strings(
        &self,
        column: usize,
        level: &Level,
        content_max: usize,
        scratch: &mut Scratch,
        ends: &mut Vec<u32>,
        content: &mut Vec<u8>,
    ) -> Result<bool, Damage> {
        let (tag, bytes) = self.required(column)?;
        match tag {
            column::CONSTANT => {
                ends.clear();
                content.clear();
                content.extend_from_slice(bytes);
                Ok(true)
            }
            column::STRINGS => {
                let read = column::get_strings(bytes, level, content_max, scratch, ends, content);
                read.map_err(|flaw| self.damage(column, flaw))?;
                Ok(false)
            }
            tag => Err(self.damage(column, column::unknown_kind(tag))),
        }
    }
}

/// Writes what `small` makes of values; gives the bits that they have.
fn small_values<T>(values: &[i64], out: &mut [T], small: impl Fn(i64) -> T) -> u64 {
    values.iter().zip(out).fold(0, |any, (value, out)| {
        *out = small(*value);
        any | *value as u64
    })
}

/// Gets ready to read encoded integers.
fn ints_source<'a>(
    mut bytes: &'a [u8],
    (level, cuts): (&'a Level, &'a [Vec<u32>]),
    scratch: &mut Scratch,
    values: &mut Vec<i64>,
) -> Result<StripSource<'a>, Flaw> {
    if level.all && level.count <= COUNT_MAX {
        if let Some(strips) = Strips::open(bytes, level.count, &level.ends)? {
            return Ok(StripSource::Strips(Box::new(strips)));
        }
    } else if level.all && !cuts.is_empty() {
        let mut pieces = Vec::with_capacity(cuts.len());
        for ends in cuts {
            let (piece, count) =
                (column::take_piece(&mut bytes)?, ends.last().map_or(0, |end| *end as usize));
            pieces.push(match Strips::open(piece, count, ends)? {
                Some(strips) => StripSource::Strips(Box::new(strips)),
                None => {
                    let mut values = Vec::new();
                    decode_ints(piece, count, ends, &mut values)?;
                    StripSource::Values(values)
                }
            });
        }
        column::nothing_left(bytes)?;
        return Ok(StripSource::Pieces(pieces));
    }
    column::get_ints(bytes, level, &mut scratch.ints, values)?;
    Ok(StripSource::Values(std::mem::take(values)))
}

/// Gets ready to read decimals, all of them.
fn decimals_source<'a>(
    parts: &decimals::DecimalColumn<'a>,
    level: (&'a Level, &'a [Vec<u32>]),
    scratch: &mut Scratch,
    values: &mut Vec<i64>,
) -> Result<StripSource<'a>, Flaw> {
    let coefficients = ints_source(parts.coefficients, level, scratch, values)?;
    let shifts =
        parts.shifts.map(|shifts| ints_source(shifts, level, scratch, &mut Vec::new())).transpose()?;
    Ok(StripSource::Decimals(Box::new(DecimalStrips::new(parts.header, coefficients, shifts, level.0.count))))
}

/// Makes `out` the sums of strips and the values of another column: in the same place or, if `previous` are the ends of
/// the runs, one place before in the run.
fn add_strips(mut strips: Strips, others: &[i64], previous: Option<&[u32]>, out: &mut Vec<i64>) {
    let mut strip = Strip::default();
    out.resize(others.len(), 0);
    for (index, out) in out.chunks_mut(GROUP).enumerate() {
        strips.next(&mut strip);
        let start = index * GROUP;
        match previous {
            None => strip.write_sum(&others[start..start + out.len()], out),
            Some(_) if index > 0 => strip.write_sum(&others[start - 1..start - 1 + out.len()], out),
            Some(_) => {
                out[0] = strip.value(0).wrapping_add(others[0]);
                (1..out.len()).for_each(|i| out[i] = strip.value(i).wrapping_add(others[i - 1]));
            }
        }
    }
    for start in
        previous.unwrap_or_default().iter().map(|end| *end as usize).filter(|end| *end < others.len())
    {
        out[start] = out[start].wrapping_add(others[start].wrapping_sub(others[start - 1]));
    }
}

/// Writes a constant out.
pub(crate) fn spread(decoded: Decoded, level: &Level, out: &mut Vec<i64>) {
    if let Decoded::Constant(value) = decoded {
        out.clear();
        out.resize(level.kept(), value);
    }
}
