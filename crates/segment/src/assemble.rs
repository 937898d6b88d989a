//! Puts bodies together from columns, in two passes over the plan.
//!
//! The first, *measure*, reads what lengths depend on (presence, counts, tags, texts) and works out how many bytes each
//! value takes. Then it is known where each lies in the output. The second, *place*, sends every column's values right
//! there. So nothing is copied twice, and a column is always handled as a whole.

mod contents;
mod find;
mod measure;
mod place;

use crate::column::Scratch;
use crate::columns::{Columns, Decoded};
use crate::damage::{Damage, Flaw};
use crate::level::Level;
use crate::members::{choose, count};
use crate::plan::{ColumnKind, Extent, FieldNode, GroupPlan, ItemNode, Node, Null, RecordNode};
use crate::scatter::{Cellar, ScatterMemory};
use std::mem::take;

/// Memory that is used again for every block.
#[derive(Debug, Default)]
pub(crate) struct Tools {
    states: Vec<State>,
    pub scratch: Scratch,
    wide: Vec<Vec<i64>>,
    narrow: Vec<Vec<u8>>,
    places: Vec<Vec<u32>>,
    scatter: ScatterMemory,
    cellar: Cellar,
    /// Level of the requested column.
    pub found: Level,
    /// Block and record type of which columns have been looked for among all rows: their decoded columns stay in memory.
    looked_in: Option<(u64, u16)>,
}

impl Tools {
    /// Memory for numbers; whatever it holds is of no use.
    fn lend(&mut self) -> Vec<i64> {
        self.wide.pop().unwrap_or_default()
    }

    /// Takes buffers back for reuse, except empty ones that were replaced.
    fn take_back(&mut self, wide: Vec<i64>) {
        if wide.capacity() > 0 {
            self.wide.push(wide);
        }
    }
}

/// What the first pass leaves for the second about one node of the plan.
#[derive(Debug, Default)]
struct State {
    presence: Presence,
    /// Counts or tags have been read, and what follows from them.
    is_read: bool,
    /// Level of what is below: the values that are there, the items, the bodies of an alternative.
    level: Level,
    /// Places of those among the wanted values above.
    members: Vec<u32>,
    /// Counts.
    values: Vec<u32>,
    /// Tags; or 1 for what is there, 0 for what is not.
    marks: Vec<u8>,
    sizes: Sizes,
    /// Bytes of each wanted value, if they differ.
    each: Vec<u32>,
    content: Vec<u8>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Presence {
    /// Not read yet.
    #[default]
    Unread,
    All,
    None,
    /// Those in [`State::members`].
    Some,
}

impl State {
    fn forget(&mut self) {
        (self.presence, self.is_read) = (Presence::Unread, false);
    }
}

/// How many bytes values take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sizes {
    Same(u32),
    Each,
}

impl Default for Sizes {
    fn default() -> Self {
        Self::Same(0)
    }
}

/// One record type of one block during assembly.
pub(crate) struct Assembler<'a> {
    plan: &'a GroupPlan,
    columns: Columns<'a>,
    tools: &'a mut Tools,
    /// Bytes of bodies that may still come: what hostile counts may claim.
    budget: usize,
}

impl<'a> Assembler<'a> {
    /// Bodies of at most `bytes` in all. Items that are records are claimed twice: as items and as records.
    pub fn new(plan: &'a GroupPlan, columns: Columns<'a>, tools: &'a mut Tools, bytes: usize) -> Self {
        let budget = 2 * bytes;
        if tools.states.len() < plan.slots {
            tools.states.resize_with(plan.slots, State::default);
        }
        tools.looked_in = None;
        tools.states[..plan.slots].iter_mut().for_each(State::forget);
        Self { plan, columns, tools, budget }
    }

    /// One for [`Self::find`]: `level` is the level to search.
    pub fn looking(
        plan: &'a GroupPlan,
        columns: Columns<'a>,
        tools: &'a mut Tools,
        bytes: usize,
        level: &Level,
    ) -> Self {
        let here = (columns.block.serial, columns.group);
        if tools.looked_in == Some(here) && level.all {
            return Self { plan, columns, tools, budget: 2 * bytes };
        }
        let looking = Self::new(plan, columns, tools, bytes);
        looking.tools.looked_in = Some(here).filter(|_| level.all);
        looking
    }

    /// One that has been measured and is to be placed.
    pub fn resume(plan: &'a GroupPlan, columns: Columns<'a>, tools: &'a mut Tools) -> Self {
        Self { plan, columns, tools, budget: 0 }
    }

    /// Works out the bytes of the wanted bodies; before [`Self::place`].
    pub fn measure(&mut self, level: &Level) -> Result<(Sizes, &[u32]), Damage> {
        let root = &self.plan.root;
        self.measure_record(root, level)?;
        let state = &self.tools.states[root.slot];
        Ok((state.sizes, &state.each))
    }

    /// Writes the wanted bodies to where they belong.
    pub fn place(&mut self, level: &Level, places: &[u32], out: &mut [u8]) -> Result<(), Damage> {
        self.place_record(&self.plan.root, None, level, places, out)
    }

    /// Works out the level of one column into [`Tools::found`].
    pub fn find(&mut self, column: usize, level: &Level) -> Result<(), Damage> {
        self.find_in_record(&self.plan.root, level, column)
    }

    fn claim(&mut self, column: usize, count: usize, bytes: usize) -> Result<(), Damage> {
        let need = count.saturating_mul(bytes);
        match self.budget.checked_sub(need) {
            Some(left) => {
                self.budget = left;
                Ok(())
            }
            None => Err(self.too_many(column, need)),
        }
    }

    #[cold]
    fn too_many(&self, column: usize, have: usize) -> Damage {
        let flaw = Flaw::Mismatch { what: "bytes of bodies", need: self.budget as u64, have: have as u64 };
        self.columns.damage(column, flaw)
    }

    // What is there.

    /// Reads which values of a field are there, once. `members`: also where they are, in [`State::members`].
    fn presence(&mut self, column: usize, level: &Level, members: bool) -> Result<Presence, Damage> {
        if self.tools.states[column].presence != Presence::Unread {
            return Ok(self.tools.states[column].presence);
        }
        let presence = if self.columns.has(column) {
            self.read_presence(column, level, members)?
        } else {
            Presence::All
        };
        self.tools.states[column].presence = presence;
        Ok(presence)
    }

    fn read_presence(&mut self, column: usize, level: &Level, members: bool) -> Result<Presence, Damage> {
        let whole = Whole::of(level);
        let mut marks = take(&mut self.tools.states[column].marks);
        let read = self.read_small(column, whole.level(), &mut marks, |value| u8::from(value != 0));
        let state = &mut self.tools.states[column];
        state.marks = marks;
        Ok(match read? {
            (Decoded::Constant(0), _) => Presence::None,
            (Decoded::Constant(_), _) => Presence::All,
            (Decoded::Values, _) => {
                if members || !level.all {
                    choose(&mut state.level, &mut state.members, level, &state.marks, 1);
                } else {
                    count(&mut state.level, level, &state.marks, 1);
                }
                level.compact(&mut state.marks);
                Presence::Some
            }
        })
    }

    /// Replaces `out` by what `small` makes of the values of a column that stands alone, of which all are read, unless they are
    /// all the same. Gives the bits that values have.
    fn read_small<T: Copy + Default>(
        &mut self,
        column: usize,
        level: &Level,
        out: &mut Vec<T>,
        small: impl Fn(i64) -> T + Copy,
    ) -> Result<(Decoded, u64), Damage> {
        let mut values = self.tools.lend();
        let read = self.columns.small(column, level, &mut self.tools.scratch, &mut values, out, small);
        self.tools.take_back(values);
        read
    }

    /// Reads a column of counts or tags, all of it; every value is below `end`.
    fn read_structure<T: Copy + Default>(
        &mut self,
        column: usize,
        level: &Level,
        (what, end): (&'static str, u64),
        out: &mut Vec<T>,
        small: impl Fn(i64) -> T + Copy,
    ) -> Result<(), Damage> {
        let whole = Whole::of(level);
        let (decoded, any) = self.read_small(column, whole.level(), out, small)?;
        if let Decoded::Constant(value) = decoded {
            out.clear();
            out.resize(level.count, small(value));
        }
        // One that is too large makes what all have in common too large, which is quicker to find out.
        if any < end {
            return Ok(());
        }
        let mut values = self.tools.lend();
        self.columns.ints(column, whole.level(), &mut self.tools.scratch, &mut values)?;
        let bad = values.iter().find(|value| **value as u64 >= end).copied();
        self.tools.take_back(values);
        bad.map_or(Ok(()), |bad| {
            let flaw = Flaw::Mismatch { what, need: end.saturating_sub(1), have: bad as u64 };
            Err(self.columns.damage(column, flaw))
        })
    }

    /// Reads the tags of unions, all of them.
    fn read_tags(&mut self, column: usize, alternatives: usize, level: &Level) -> Result<(), Damage> {
        let mut tags = take(&mut self.tools.states[column].marks);
        let limit = ("tag", alternatives as u64);
        let read = self.read_structure(column, level, limit, &mut tags, |tag| tag as u8);
        self.tools.states[column].marks = tags;
        read
    }

    /// Reads the counts of arrays and works out the level of their items.
    fn read_counts(&mut self, column: usize, item: &ItemNode, level: &Level) -> Result<(), Damage> {
        let limit = ("items of an array", self.budget as u64 + 1);
        let mut counts = take(&mut self.tools.states[column].values);
        let read = self.read_structure(column, level, limit, &mut counts, |count| count as u32);
        self.tools.states[column].values = counts;
        read?;
        let items: u64 = self.tools.states[column].values.iter().map(|count| u64::from(*count)).sum();
        let least = match item.extent {
            Extent::Fixed(width) => width as usize,
            Extent::Prefixed => 4,
            // Their fields will be claimed when they are measured; nulls and what has no fields take a byte.
            Extent::Records(_) => 1,
        };
        if items > self.budget as u64 {
            return Err(self.too_many(column, items as usize));
        }
        self.claim(column, items as usize, least)?;
        let state = &mut self.tools.states[column];
        let counts = take(&mut state.values);
        state.level.expand(level, &counts);
        state.values = counts;
        level.compact(&mut state.values);
        Ok(())
    }

    /// Level and members of a field's values that are there, borrowed from its state; `None`: all are there.
    #[expect(clippy::type_complexity, reason = "two halves of one loan")]
    fn below_field(
        &mut self,
        field: &FieldNode,
        level: &Level,
    ) -> Result<(Presence, Option<Level>, Option<Vec<u32>>), Damage> {
        let Some(null) = field.null else { return Ok((Presence::All, None, None)) };
        let presence = self.presence(null.column, level, !field.is_in_slot())?;
        if presence != Presence::Some {
            return Ok((presence, None, None));
        }
        let state = &mut self.tools.states[null.column];
        Ok((presence, Some(take(&mut state.level)), Some(take(&mut state.members))))
    }

    /// Ends the loan of [`Self::below_field`].
    fn give_back(&mut self, field: &FieldNode, level: Option<Level>, members: Option<Vec<u32>>) {
        if let (Some(Null { column, .. }), Some(level), Some(members)) = (field.null, level, members) {
            let state = &mut self.tools.states[column];
            (state.level, state.members) = (level, members);
        }
    }
}

impl RecordNode {
    /// Whether bodies are fields of up to eight bytes side by side that are always there.
    pub fn is_plain(&self) -> bool {
        let is_plain = |field: &FieldNode| {
            matches!(field.node, Node::Leaf { kind, .. } if !matches!(kind, ColumnKind::Ascii(_)))
                && field.null.is_none()
        };
        self.is_fixed && self.null_bytes == 0 && self.fields.iter().all(is_plain)
    }
}

impl ItemNode {
    /// The column of tags and the alternatives, if items are records of several types, are always there, and those of each type
    /// have one length.
    fn fixed_records(&self) -> Option<(usize, &[RecordNode])> {
        match &self.node {
            Node::Union { tags, alternatives }
                if self.presence.is_none() && alternatives.iter().all(|record| record.is_fixed) =>
            {
                Some((*tags, alternatives))
            }
            _ => None,
        }
    }
}

impl FieldNode {
    /// Whether it has up to eight bytes of its own, which lie in its slot.
    fn is_in_slot(&self) -> bool {
        matches!(self.node, Node::Leaf { kind, .. } if !matches!(kind, ColumnKind::Ascii(_)))
    }

    fn is_variable(&self) -> bool {
        !matches!(self.node, Node::Leaf { .. })
    }
}

/// A level with everything wanted: structure is read whole, for what is not wanted moves what is.
enum Whole<'a> {
    Same(&'a Level),
    Made(Level),
}

impl<'a> Whole<'a> {
    fn of(level: &'a Level) -> Self {
        if level.all { Self::Same(level) } else { Self::Made(level.whole()) }
    }

    fn level(&self) -> &Level {
        match self {
            Self::Same(level) => level,
            Self::Made(level) => level,
        }
    }
}

/// Adds the bytes of values to what they belong to.
fn add_sizes(totals: &mut [u32], members: Option<&[u32]>, sizes: Sizes, each: &[u32]) {
    match (members, sizes) {
        (None, Sizes::Same(size)) => totals.iter_mut().for_each(|total| *total += size),
        (None, Sizes::Each) => totals.iter_mut().zip(each).for_each(|(total, size)| *total += size),
        (Some(members), Sizes::Same(size)) => members.iter().for_each(|&i| totals[i as usize] += size),
        (Some(members), Sizes::Each) => {
            members.iter().zip(each).for_each(|(&i, size)| totals[i as usize] += size);
        }
    }
}

/// Whether every array has one item.
fn are_single(counts: &[u32]) -> bool {
    counts.iter().fold(true, |all, count| all & (*count == 1))
}
