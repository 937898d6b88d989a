//! Columns of one record type that have one value for each row, decoded together.
//!
//! Which columns have, a block states: where every message has one entry, and all entries are of one alternative, the fields of
//! the entries have a value for each row as those of messages do.
//!
//! 128 values of each column are decoded and added to what they follow while they are in the nearest cache, and then written
//! once, to where they belong. So no column is decoded for others to follow it and then copied.

use crate::coefficients::DecimalForm;
use crate::column::Scratch;
use crate::columns::{Columns, Decoded, Numbers, spread};
use crate::damage::Damage;
use crate::encoding::{GROUP, Strip};
use crate::level::Level;
use crate::plan::{ColumnKind, GroupPlan};
use crate::scatter::Walk;
use crate::strip_source::{Follows, StripSource, Varying};
use std::mem::take;

/// A column that is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Its index among those that the caller asked for.
    pub index: usize,
    /// Its number.
    pub column: u16,
    pub kind: ColumnKind,
}

impl Wanted {
    /// Whether the column can be decoded together with others: its values are numbers, one for each row of the group.
    pub fn is_plain(&self, plan: &GroupPlan, columns: Columns<'_>) -> bool {
        let is_number = matches!(
            self.kind,
            ColumnKind::Presence
                | ColumnKind::Int { .. }
                | ColumnKind::Decimal64
                | ColumnKind::Count
                | ColumnKind::Tag(_)
        );
        let way = plan.way_to(self.column);
        is_number && way.iter().all(|(column, step)| columns.leads_on((*column).into(), *step))
    }
}

/// Columns of one group, ready to be decoded together.
///
/// Always true: `varying` has each wanted column that is not in `constants` or `whole`, and columns that others follow; what a column
/// follows is an index into `varying`, of a column that follows nothing.
pub(crate) struct Together<'a> {
    varying: Vec<Varying<'a>>,
    /// Columns that have one value, by their indices.
    constants: Vec<(usize, i64)>,
    /// Columns of decimals whose strips have coefficients, by their indices.
    raw: Vec<(usize, DecimalForm)>,
    /// Columns that do not come in strips and that no other one follows, all of their values: nothing is left to do with them.
    whole: Vec<(usize, Vec<i64>)>,
}

/// The index of a column that is not wanted, but others follow it.
const NOT_WANTED: u32 = u32::MAX;

impl<'a> Together<'a> {
    /// Gets ready to read plain columns of a group whose rows are all wanted; `level` is that of its rows.
    ///
    /// # Errors
    /// When a column, or one that it follows, is damaged or has not been read.
    pub fn open(
        columns: Columns<'a>,
        wanted: &[Wanted],
        level: &'a Level,
        memory: &mut Memory<'_>,
    ) -> Result<Self, Damage> {
        let varying = Vec::with_capacity(wanted.len() + 1);
        let mut together = Self { varying, constants: Vec::new(), raw: Vec::new(), whole: Vec::new() };
        for Wanted { index, column, kind } in wanted {
            let column = usize::from(*column);
            // A value that is always there has no presence column.
            if *kind == ColumnKind::Presence && !columns.has(column) {
                together.constants.push((*index, 1));
                continue;
            }
            let numbers = memory.lend(|values, scratch| {
                columns.number_strips((column, *kind), (level, &[]), scratch, values)
            })?;
            match numbers {
                Numbers::Constant(value) => together.constants.push((*index, value)),
                Numbers::Varying(source, follows) => {
                    together.varying.push(Varying {
                        column,
                        offset: *index as u32,
                        width: 8,
                        source,
                        follows,
                    });
                }
            }
        }
        together.set_whole_apart();
        together.find_leaders(columns, level, memory)?;
        Ok(together)
    }

    /// Moves columns that need no walk over the strips to [`Self::whole`].
    fn set_whole_apart(&mut self) {
        let followed: Vec<usize> =
            self.varying.iter().filter_map(|column| Some(column.follows?.other)).collect();
        let is_whole = |column: &Varying| {
            matches!(column.source, StripSource::Values(_))
                && column.follows.is_none()
                && !followed.contains(&column.column)
        };
        for column in self.varying.extract_if(.., |column| is_whole(column)) {
            if let StripSource::Values(values) = column.source {
                self.whole.push((column.offset as usize, values));
            }
        }
    }

    /// Finds each column that another one follows, and adds it where it is not among the wanted ones.
    fn find_leaders(
        &mut self,
        columns: Columns<'a>,
        level: &'a Level,
        memory: &mut Memory<'_>,
    ) -> Result<(), Damage> {
        for i in 0..self.varying.len() {
            let Some(Follows { other, previous }) = self.varying[i].follows else { continue };
            let leads = |column: &Varying| column.column == other && column.follows.is_none();
            let found = self.varying.iter().position(leads);
            let leader = match found {
                Some(leader) => leader,
                None => {
                    let source = source_of_leader(columns, other, level, memory)?;
                    let (column, offset, follows) = (other, NOT_WANTED, None);
                    self.varying.push(Varying { column, offset, width: 8, source, follows });
                    self.varying.len() - 1
                }
            };
            self.varying[i].follows = Some(Follows { other: leader, previous });
        }
        Ok(())
    }

    /// Lets the strips of decimals have the coefficients as they are stored, where these need nothing else to be restored, or only shifts
    /// and these may come too.
    pub fn stay_raw(&mut self, with_shifts: bool) {
        for column in &mut self.varying {
            if let (StripSource::Decimals(decimals), None) = (&mut column.source, column.follows)
                && let Some(form) = decimals.stay_raw(with_shifts)
            {
                self.raw.push((column.offset as usize, form));
            }
        }
    }

    /// The columns whose strips have coefficients, by their indices, and how to restore them.
    pub fn raw(&self) -> &[(usize, DecimalForm)] {
        &self.raw
    }

    /// The columns that have one value, by their indices.
    pub fn constants(&self) -> &[(usize, i64)] {
        &self.constants
    }

    /// The columns whose values need no walk over the strips, by their indices.
    pub fn take_whole(&mut self) -> Vec<(usize, Vec<i64>)> {
        take(&mut self.whole)
    }

    /// Calls `take` with the index of a column, a row of the group, the strip that begins there, and the shifts of raw decimals that have
    /// some: for all columns and rows, neighbouring rows of all columns one after the other. `strips` is memory.
    pub fn each(
        &mut self,
        level: &Level,
        strips: &mut Vec<Strip>,
        mut take: impl FnMut(usize, usize, &Strip, Option<&Strip>),
    ) {
        if self.varying.is_empty() {
            return;
        }
        let mut walk = Walk::new(&mut self.varying, strips, &level.ends);
        for start in (0..level.count).step_by(GROUP) {
            walk.next();
            for (column, strip) in walk.columns.iter().zip(&*walk.strips) {
                if column.offset != NOT_WANTED {
                    let shifts = match &column.source {
                        StripSource::Decimals(decimals) => decimals.shifts(),
                        _ => None,
                    };
                    take(column.offset as usize, start, strip, shifts);
                }
            }
        }
    }

    /// Gives buffers back.
    ///
    /// # Errors
    /// When a value of a column cannot be: what [`Self::each`] gave means nothing then.
    pub fn close(self, columns: Columns<'_>, buffers: &mut Vec<Vec<i64>>) -> Result<(), Damage> {
        let flaw = self.varying.iter().find_map(|column| Some((column.column, column.source.flaw()?)));
        for column in self.varying {
            if let StripSource::Values(values) = column.source {
                buffers.push(values);
            }
        }
        flaw.map_or(Ok(()), |(column, flaw)| Err(columns.damage(column, flaw)))
    }
}

/// Memory for decoding, and buffers that columns hold until they have been read.
pub(crate) struct Memory<'m> {
    pub scratch: &'m mut Scratch,
    pub buffers: &'m mut Vec<Vec<i64>>,
}

impl Memory<'_> {
    /// Lends a buffer, which `read` may keep.
    fn lend<T>(&mut self, read: impl FnOnce(&mut Vec<i64>, &mut Scratch) -> T) -> T {
        let mut values = self.buffers.pop().unwrap_or_default();
        let done = read(&mut values, self.scratch);
        if values.capacity() > 0 {
            self.buffers.push(values);
        }
        done
    }
}

/// What a column that others follow is read from. It follows nothing itself.
fn source_of_leader<'a>(
    columns: Columns<'a>,
    column: usize,
    level: &'a Level,
    memory: &mut Memory<'_>,
) -> Result<StripSource<'a>, Damage> {
    memory.lend(|values, scratch| {
        match columns.number_strips((column, ColumnKind::Count), (level, &[]), scratch, values)? {
            Numbers::Varying(source, None) => return Ok(source),
            // One that follows another one is damage, which reading it alone reports.
            Numbers::Varying(_, Some(_)) => columns.ints(column, level, scratch, values)?,
            Numbers::Constant(value) => spread(Decoded::Constant(value), level, values),
        }
        Ok(StripSource::Values(take(values)))
    })
}
