//! Columns of one record type of a block, decoded: which values there are, and what they are.

use crate::block::Block;
use crate::column::{self, Scratch};
use crate::decimals;
use crate::error::{Damage, Flaw};
use crate::level::Level;
use crate::plan::ColumnKind;
use crate::scatter::Varying;

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

    #[cold]
    pub fn damage(&self, column: usize, flaw: Flaw) -> Damage {
        self.block.damage(self.group, column as u16, flaw)
    }

    /// Reads the wanted values of a column that stands alone into `out`, or tells their one value.
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

    /// Reads the wanted values of any column of numbers into `out`, or tells their one value. `known` are columns of the
    /// same level that have been read already.
    pub fn numbers(
        &self,
        (column, kind): (usize, ColumnKind),
        level: &Level,
        known: &[Varying],
        scratch: &mut Scratch,
        out: &mut Vec<i64>,
    ) -> Result<Decoded, Damage> {
        if !known.is_empty()
            && let (column::AGAINST, bytes) = self.required(column)?
            && let Ok((other, bytes)) = column::reference_of(bytes)
            && let Some(other) = known.iter().find(|known| known.column == usize::from(other))
        {
            let read = column::get_ints(bytes, level, &mut scratch.ints, out);
            read.map_err(|flaw| self.damage(column, flaw))?;
            column::add(out, &other.values);
            return Ok(Decoded::Values);
        }
        self.number(column, kind, level, scratch, out, true)
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
            out.clone_from(&scratch.reference);
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
            column::FLOATS if matches!(kind, ColumnKind::F32 | ColumnKind::F64) => {
                let width = if kind == ColumnKind::F64 { 8 } else { 4 };
                column::get_float_bits(bytes, width, level, scratch, out)
            }
            column::AGAINST | column::PREVIOUS if may_follow => {
                return self.following(column, tag, bytes, level, scratch, out);
            }
            tag => Err(column::unknown_kind(tag)),
        };
        done.map_err(|flaw| self.damage(column, flaw))?;
        Ok(Decoded::Values)
    }

    /// What tells a column from all others that were ever decoded.
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

/// Writes a constant out.
pub(crate) fn spread(decoded: Decoded, level: &Level, out: &mut Vec<i64>) {
    if let Decoded::Constant(value) = decoded {
        out.clear();
        out.resize(level.kept(), value);
    }
}
