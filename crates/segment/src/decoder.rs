//! Rows and columns out of a block.

use crate::assemble::{Assembler, Sizes, Tools};
use crate::block::Block;
use crate::coefficients::DecimalForm;
use crate::column::{Scratch, check_ascii};
use crate::columns::Columns;
use crate::damage::{Damage, Flaw};
use crate::encoding::{GROUP, Strip};
use crate::head::{Head, OWN, lanes, own};
use crate::lane_columns::{Form, LaneColumn, LaneColumns};
use crate::level::Level;
use crate::order::{Lane, NO_HOME, Order};
use crate::plan::{ColumnKind, GroupPlan, Plan};
use crate::rows::Rows;
use crate::scatter::Bodies;
use crate::together::{Memory, Together, Wanted};
use crate::values::ColumnValues;
use std::ops::Range;

/// Which rows are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Selection<'a> {
    /// First time wanted, nanoseconds since the Unix epoch.
    pub from: i64,
    /// Last time wanted.
    pub last: i64,
    /// Ids of the symbols wanted, ascending; `None`: all.
    pub symbols: Option<&'a [u32]>,
    /// Ids of the record types wanted, ascending; `None`: all.
    pub types: Option<&'a [u16]>,
}

impl Default for Selection<'_> {
    /// Everything.
    fn default() -> Self {
        Self { from: i64::MIN, last: i64::MAX, symbols: None, types: None }
    }
}

impl Selection<'_> {
    /// Whether rows of a group may be wanted.
    pub(crate) fn wants_of(&self, head: &Head, index: usize) -> bool {
        let Some(group) = head.groups.get(index) else { return false };
        self.types.is_none_or(|types| types.binary_search(&group.type_id).is_ok())
            && self.symbols.is_none_or(|symbols| {
                let range = head.symbols_of(index);
                let first = symbols.partition_point(|symbol| u64::from(*symbol) < range.start);
                symbols.get(first).is_some_and(|symbol| u64::from(*symbol) < range.end)
            })
    }

    pub(crate) fn wants(&self, lane: &Lane) -> bool {
        self.symbols.is_none_or(|symbols| symbols.binary_search(&lane.symbol).is_ok())
            && self.types.is_none_or(|types| types.binary_search(&lane.type_id).is_ok())
    }
}

/// Decodes blocks. Keeps its memory from block to block, so one for each thread is enough.
#[derive(Debug, Default)]
pub struct Decoder {
    order: Order,
    scratch: Scratch,
    groups: Vec<GroupTools>,
    /// Row of the output that each row of the block becomes, where not all are wanted.
    rank: Vec<u32>,
    level: Level,
    /// Rows of few symbols, and where their bodies begin.
    picked: Vec<u32>,
    /// Values of one group of several.
    part: ColumnValues,
    /// Of columns that are decoded together: strips, and values that do not come in strips.
    strips: Vec<Strip>,
    buffers: Vec<Vec<i64>>,
    /// Bodies that are compared.
    compared: Vec<u8>,
}

/// A part of a column.
enum Piece<'a> {
    /// What comes are coefficients, from which decimals are restored by this.
    Raw(DecimalForm),
    /// All values are this one.
    Same(i64),
    /// With shifts for coefficients that need them.
    Strip(&'a Strip, Option<&'a Strip>),
    /// All values, which may be exchanged for others.
    Whole(&'a mut Vec<i64>),
}

/// Whether decimals may come as their coefficients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Raw {
    Never,
    WithoutShifts,
    WithShifts,
}

/// Memory of one record type of a block.
#[derive(Debug, Default)]
struct GroupTools {
    tools: Tools,
    level: Level,
    places: Vec<u32>,
    /// Output rows of the wanted values.
    rows: Vec<u32>,
    sizes: Sizes,
    ends: Vec<u32>,
    content: Vec<u8>,
    /// Of a group of several, the column that others followed last and which one that is: the next requested column may
    /// follow it too.
    reference: (Vec<i64>, Option<(u64, u16, usize)>),
}

impl Decoder {
    /// A decoder without any memory yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces `rows` by the wanted rows of a block. Nothing is decoded of record types that are not wanted, and where
    /// few symbols are wanted, little of the others.
    ///
    /// # Errors
    /// Where a column that is needed is damaged. `rows` is then empty.
    pub fn rows(
        &mut self,
        plan: &Plan,
        block: &Block,
        selection: &Selection<'_>,
        rows: &mut Rows,
    ) -> Result<(), Damage> {
        self.rows_or_compare(plan, block, selection, (rows, None)).map(|_| ())
    }

    /// [`Self::rows`] of all rows, whose bodies have to be `expected`, one after the other. `Some`: whether they are. They
    /// were compared as they were decoded, a few at a time, and `rows` has everything but them. `None`: `rows` has them,
    /// and they have not been compared.
    ///
    /// # Errors
    /// As [`Self::rows`].
    pub(crate) fn compare_bodies(
        &mut self,
        plan: &Plan,
        block: &Block,
        expected: &[u8],
        rows: &mut Rows,
    ) -> Result<Option<bool>, Damage> {
        self.rows_or_compare(plan, block, &Selection::default(), (rows, Some(expected)))
    }

    fn rows_or_compare(
        &mut self,
        plan: &Plan,
        block: &Block,
        selection: &Selection<'_>,
        (rows, expected): (&mut Rows, Option<&[u8]>),
    ) -> Result<Option<bool>, Damage> {
        rows.clear();
        let done = self.read_rows(plan, block, selection, (rows, expected));
        if done.is_err() || rows.lanes.is_empty() {
            rows.clear();
            rows.times.clear();
        }
        done
    }

    /// Finds the lanes that are wanted. Whether all times of the block are; `None`: no row is wanted.
    fn select(&mut self, block: &Block, selection: &Selection<'_>) -> Result<Option<bool>, Damage> {
        let head = block.head();
        if head.count == 0 || head.time_max < selection.from || head.time_min > selection.last {
            return Ok(None);
        }
        self.order.select(block, selection, &mut self.scratch)?;
        let is_inside = selection.from <= head.time_min && head.time_max <= selection.last;
        Ok(Some(is_inside).filter(|_| !self.order.wanted.is_empty()))
    }

    fn read_rows(
        &mut self,
        plan: &Plan,
        block: &Block,
        selection: &Selection<'_>,
        (rows, expected): (&mut Rows, Option<&[u8]>),
    ) -> Result<Option<bool>, Damage> {
        let (head, Some(is_inside)) = (block.head(), self.select(block, selection)?) else { return Ok(None) };
        let plain = plain_group(plan, head);
        if let Some(group) = plain.filter(|_| is_inside && self.order.wants_few(head.count)) {
            return self.read_few(group, block, rows).map(|()| None);
        }
        let (first, end) = self.read_all_headers(block, selection, rows)?;
        let is_all = self.order.wants_all(head.count) && (first, end) == (0, head.count);
        let is_gathered = is_all && head.groups.len() == 1 && self.order.lanes.len() <= LANES_GATHERED;
        if let Some(group) = plain.filter(|_| is_gathered) {
            return self.read_plain(group, block, (rows, expected));
        }
        self.split(head, (first, end));
        if is_all {
            std::mem::swap(&mut rows.homes, &mut self.order.homes);
        } else {
            self.choose_rows(head.count, (first, end), rows);
        }
        self.measure(plan, block)?;
        self.lay_out(block, is_all, rows)?;
        self.place(plan, block, rows).map(|()| None)
    }

    /// Replaces `rows` by the wanted rows of a block without their bodies, which are empty then, for a reader that takes
    /// columns: [`Rows::homes`] has where [`Self::column`] gives the values of a row, for the same symbols.
    ///
    /// # Errors
    /// Where a column that is needed is damaged. `rows` is then empty.
    pub fn headers(
        &mut self,
        block: &Block,
        selection: &Selection<'_>,
        rows: &mut Rows,
    ) -> Result<(), Damage> {
        rows.clear();
        let done = self.read_headers(block, selection, rows);
        if done.is_err() || rows.lanes.is_empty() {
            rows.clear();
            rows.times.clear();
        }
        rows.stride = Some(0);
        done
    }

    fn read_headers(
        &mut self,
        block: &Block,
        selection: &Selection<'_>,
        rows: &mut Rows,
    ) -> Result<(), Damage> {
        let (head, Some(is_inside)) = (block.head(), self.select(block, selection)?) else { return Ok(()) };
        if is_inside && self.order.wants_few(head.count) {
            self.read_few_headers(block, rows)?;
            for (home, row) in rows.homes.iter_mut().zip(&self.order.few) {
                *home |= row & 0xffff;
            }
            return Ok(());
        }
        let (first, end) = self.read_all_headers(block, selection, rows)?;
        if self.order.wants_all(head.count) && (first, end) == (0, head.count) {
            std::mem::swap(&mut rows.homes, &mut self.order.homes);
        } else {
            self.groups.iter_mut().for_each(|group| group.rows.clear());
            self.choose_rows(head.count, (first, end), rows);
        }
        Ok(())
    }

    /// Times, sequence numbers and lanes of all rows of a block of which some are wanted, and where they are; gives the first
    /// row and the one after the last that are wanted as far as times go.
    fn read_all_headers(
        &mut self,
        block: &Block,
        selection: &Selection<'_>,
        rows: &mut Rows,
    ) -> Result<(u32, u32), Damage> {
        let head = block.head();
        self.order.read_places(block, &mut self.scratch)?;
        let own = Columns { block, group: OWN };
        self.level.rows_in_order(head);
        own.ints(own::TIME.into(), &self.level, &mut self.scratch, &mut rows.times)?;
        let first = rows.times.partition_point(|time| *time < selection.from) as u32;
        let end = rows.times.partition_point(|time| *time <= selection.last).max(first as usize) as u32;
        if own.has(own::SEQUENCE.into()) {
            own.ints(own::SEQUENCE.into(), &self.level, &mut self.scratch, &mut rows.sequences)?;
        } else {
            rows.first_sequence = Some(head.sequence_min);
        }
        rows.lanes.extend(self.order.lanes.iter().map(|lane| (lane.type_id, lane.symbol)));
        Ok((first, end))
    }

    /// Times, sequence numbers and lanes of the rows of few symbols: nothing but the times is handled as often as there are
    /// rows.
    fn read_few_headers(&mut self, block: &Block, rows: &mut Rows) -> Result<(), Damage> {
        let head = block.head();
        self.order.read_few_places(block, &mut self.scratch)?;
        rows.lanes.extend(self.order.wanted_lanes().map(|(_, lane)| (lane.type_id, lane.symbol)));
        let own = Columns { block, group: OWN };
        let few = &self.order.few;
        self.picked.clear();
        self.picked.extend(few.iter().map(|row| row >> 16));
        own.read_at(own::TIME.into(), &self.picked, &mut self.level, &mut self.scratch, &mut rows.times)?;
        if own.has(own::SEQUENCE.into()) {
            let out = &mut rows.sequences;
            own.read_at(own::SEQUENCE.into(), &self.picked, &mut self.level, &mut self.scratch, out)?;
        } else {
            let sequence = |row: &u32| head.sequence_min.wrapping_add(u64::from(*row)) as i64;
            rows.sequences.extend(self.picked.iter().map(sequence));
        }
        rows.homes.extend(few.iter().map(|row| self.order.homes[usize::from(*row as u16)]));
        Ok(())
    }

    /// All rows of a block of one record type whose bodies are fields side by side. If bodies are expected, whether they are
    /// these: `rows` then has none.
    fn read_plain(
        &mut self,
        plan: &GroupPlan,
        block: &Block,
        (rows, expected): (&mut Rows, Option<&[u8]>),
    ) -> Result<Option<bool>, Damage> {
        let (head, stride) = (block.head(), plan.root.fixed);
        let (need, have) = (u64::from(head.body_bytes), u64::from(stride) * u64::from(head.count));
        if need != have {
            return Err(block.head_damage("bytes of bodies", need, have));
        }
        rows.stride = Some(stride);
        std::mem::swap(&mut rows.homes, &mut self.order.homes);
        self.whole_lanes(0);
        if self.groups.is_empty() {
            self.groups.push(GroupTools::default());
        }
        let mut are_equal = true;
        let out = match expected {
            Some(expected) => {
                Bodies::Compared { expected, memory: &mut self.compared, are_equal: &mut are_equal }
            }
            None => {
                if rows.bodies.len() < have as usize {
                    rows.bodies.resize(have as usize, 0);
                }
                Bodies::All(&mut rows.bodies[..have as usize])
            }
        };
        let (columns, tools) = (Columns { block, group: 0 }, &mut self.groups[0].tools);
        let mut assembler = Assembler::new(plan, columns, tools, head.body_bytes as usize);
        assembler.place_plain(&self.level, &rows.homes, out)?;
        Ok(expected.map(|_| are_equal))
    }

    /// The rows of few symbols out of a block of one record type whose bodies are fields side by side: nothing but the
    /// times is handled as often as there are rows.
    fn read_few(&mut self, plan: &GroupPlan, block: &Block, rows: &mut Rows) -> Result<(), Damage> {
        let (head, stride) = (block.head(), plan.root.fixed);
        let (need, have) = (u64::from(head.body_bytes), u64::from(stride) * u64::from(head.count));
        if need != have {
            return Err(block.head_damage("bytes of bodies", need, have));
        }
        self.read_few_headers(block, rows)?;
        rows.stride = Some(stride);
        if self.groups.is_empty() {
            self.groups.push(GroupTools::default());
        }
        let few = &self.order.few;
        self.picked.resize(few.len(), 0);
        for (at, row) in (0..).zip(few) {
            self.picked[usize::from(*row as u16)] = at * stride;
        }
        let total = few.len() * stride as usize;
        if rows.bodies.len() < total {
            rows.bodies.resize(total, 0);
        }
        self.place_picked(plan, block, &mut rows.bodies[..total])
    }

    /// Assembles the bodies of the wanted lanes; each begins at its entry of `picked`.
    fn place_picked(&mut self, plan: &GroupPlan, block: &Block, out: &mut [u8]) -> Result<(), Damage> {
        let most = block.head().body_bytes as usize;
        let mut start = 0;
        for index in 0..self.order.groups.len() {
            let group = self.order.groups[index];
            self.whole_lanes(group);
            if self.level.kept() == 0 {
                continue;
            }
            let end = start + self.level.kept();
            let (columns, tools) = (Columns { block, group }, &mut self.groups[0].tools);
            let mut assembler = Assembler::new(plan, columns, tools, most);
            assembler.place(&self.level, &self.picked[start..end], out)?;
            start = end;
        }
        Ok(())
    }

    /// Levels and places of each record type: what is wanted of it.
    fn split(&mut self, head: &Head, (first, end): (u32, u32)) {
        let groups = head.groups.len();
        if self.groups.len() < groups {
            self.groups.resize_with(groups, GroupTools::default);
        }
        for group in &mut self.groups {
            group.level.begin();
            group.level.all = false;
            group.rows.clear();
        }
        let mut lanes = self.order.lanes.iter().peekable();
        let mut base = 0;
        for (index, (group, of)) in (0..).zip(self.groups.iter_mut().zip(&head.groups)) {
            while let Some(lane) = lanes.next_if(|lane| lane.group == index) {
                group.level.count = (lane.end - base) as usize;
                group.level.close_run(group.level.count);
            }
            base += of.count;
        }
        let mut rest = &self.order.places[..];
        for range in &self.order.wanted {
            for lane in &self.order.lanes[range.start as usize..range.end as usize] {
                let (places, others) = rest.split_at((lane.end - lane.start) as usize);
                rest = others;
                // Rows of a lane are in time order.
                let from = places.partition_point(|place| *place < first);
                let until = places.partition_point(|place| *place < end).max(from);
                let group = &mut self.groups[usize::from(lane.group)];
                group.rows.extend_from_slice(&places[from..until]);
                group.keep(lane, from as u32..until as u32);
            }
        }
        let mut base = 0;
        for (group, of) in self.groups.iter_mut().zip(&head.groups) {
            group.level.keep.iter_mut().for_each(|range| *range = range.start - base..range.end - base);
            base += of.count;
            group.level.all = group.rows.len() == group.level.count;
        }
    }

    /// Numbers the wanted rows and drops what belongs to others.
    fn choose_rows(&mut self, count: u32, (first, end): (u32, u32), rows: &mut Rows) {
        self.rank.clear();
        self.rank.resize(count as usize, 0);
        let is_wanted = |row: u32| self.order.homes[row as usize] != NO_HOME;
        let mut to = 0;
        for row in (first..end).filter(|row| is_wanted(*row)) {
            self.rank[row as usize] = to as u32;
            rows.times[to] = rows.times[row as usize];
            if rows.first_sequence.is_none() {
                rows.sequences[to] = rows.sequences[row as usize];
            } else {
                rows.sequences.push(i64::from(row));
            }
            rows.homes.push(self.order.homes[row as usize]);
            to += 1;
        }
        rows.times.truncate(to);
        rows.sequences.truncate(to);
        if let Some(first) = rows.first_sequence.take() {
            rows.sequences.iter_mut().for_each(|row| *row = row.wrapping_add(first as i64));
        }
        for group in &mut self.groups {
            group.rows.iter_mut().for_each(|row| *row = self.rank[*row as usize]);
        }
    }

    fn measure(&mut self, plan: &Plan, block: &Block) -> Result<(), Damage> {
        let head = block.head();
        for (index, (group, tools)) in head.groups.iter().zip(&mut self.groups).enumerate() {
            if tools.rows.is_empty() {
                continue;
            }
            let columns = Columns { block, group: index as u16 };
            let bytes = head.body_bytes as usize;
            if group.is_whole {
                let GroupTools { level, ends, content, .. } = tools;
                let is_constant = columns.strings(0, level, bytes, &mut self.scratch, ends, content)?;
                tools.sizes = if is_constant { Sizes::Same(content.len() as u32) } else { Sizes::Each };
                continue;
            }
            let Some(plan) = plan.group(group.type_id) else {
                return Err(block.head_damage(
                    "record type",
                    plan.layouts().records().len() as u64,
                    group.type_id.into(),
                ));
            };
            let mut assembler = Assembler::new(plan, columns, &mut tools.tools, bytes);
            let (sizes, each) = assembler.measure(&tools.level)?;
            tools.sizes = sizes;
            tools.ends.clear();
            if sizes == Sizes::Each {
                tools.ends.extend_from_slice(each);
                lengths_to_ends(&mut tools.ends);
            }
        }
        Ok(())
    }

    /// Works out where each body lies.
    fn lay_out(&mut self, block: &Block, is_all: bool, rows: &mut Rows) -> Result<(), Damage> {
        let mut strides = self.groups.iter().filter(|group| !group.rows.is_empty()).map(|group| group.sizes);
        let first = strides.next();
        let count = rows.len();
        let total = match first {
            None => 0,
            Some(Sizes::Same(stride)) if strides.all(|other| other == Sizes::Same(stride)) => {
                rows.stride = Some(stride);
                stride as usize * count
            }
            Some(_) => self.lay_out_each(rows),
        };
        let need = block.head().body_bytes as usize;
        if total > need || is_all && total != need {
            return Err(block.head_damage("bytes of bodies", need as u64, total as u64));
        }
        if rows.bodies.len() < total {
            rows.bodies.resize(total, 0);
        }
        for group in self.groups.iter_mut().filter(|group| !group.rows.is_empty()) {
            group.places.clear();
            match rows.stride {
                Some(stride) => group.places.extend(group.rows.iter().map(|row| row * stride)),
                None => group.places.extend(group.rows.iter().map(|row| rows.starts[*row as usize])),
            }
        }
        Ok(())
    }

    /// Where bodies have lengths of their own; returns the bytes of all.
    fn lay_out_each(&mut self, rows: &mut Rows) -> usize {
        rows.starts.clear();
        rows.starts.resize(rows.times.len() + 1, 0);
        for group in self.groups.iter().filter(|group| !group.rows.is_empty()) {
            match group.sizes {
                Sizes::Same(size) => group.rows.iter().for_each(|row| rows.starts[*row as usize + 1] = size),
                Sizes::Each => {
                    let mut start = 0;
                    for (row, end) in group.rows.iter().zip(&group.ends) {
                        rows.starts[*row as usize + 1] = end - start;
                        start = *end;
                    }
                }
            }
        }
        lengths_to_ends(&mut rows.starts);
        rows.starts.last().map_or(0, |end| *end as usize)
    }

    fn place(&mut self, plan: &Plan, block: &Block, rows: &mut Rows) -> Result<(), Damage> {
        let head = block.head();
        for (index, (group, tools)) in head.groups.iter().zip(&mut self.groups).enumerate() {
            let Some(plan) = plan.group(group.type_id).filter(|_| !group.is_whole) else {
                tools.place_whole(&mut rows.bodies);
                continue;
            };
            if !tools.rows.is_empty() {
                let columns = Columns { block, group: index as u16 };
                Assembler::resume(plan, columns, &mut tools.tools).place(
                    &tools.level,
                    &tools.places,
                    &mut rows.bodies,
                )?;
            }
        }
        Ok(())
    }

    /// Replaces `out` by the values of one column of a record type, of all symbols or of some (ids ascending). Only this
    /// column and those that it depends on are decoded. A record type that the block does not have has no values.
    ///
    /// # Errors
    /// When a column is damaged, when the record type has no column of this number, and when its bodies stayed whole
    /// ([`Group::is_whole`](crate::Group::is_whole)) and so have no columns.
    pub fn column(
        &mut self,
        plan: &Plan,
        block: &Block,
        (type_id, column): (u16, u16),
        symbols: Option<&[u32]>,
        out: &mut ColumnValues,
    ) -> Result<(), Damage> {
        let found =
            plan.group(type_id).and_then(|plan| Some((plan, plan.columns().get(usize::from(column))?)));
        let Some((plan, info)) = found else {
            let most = plan.group(type_id).map_or(0, |plan| plan.columns().len());
            return Err(block.head_damage("number of a column", most as u64, column.into()));
        };
        out.kind = Some(info.kind);
        out.clear_but_ints();
        let selection = Selection { symbols, types: Some(&[type_id]), ..Selection::default() };
        let groups = block.head().groups_of(type_id);
        if groups.is_empty() {
            out.numbers().clear();
            return Ok(());
        }
        if let Some(group) = groups.clone().find(|group| block.head().groups[*group].is_whole) {
            let flaw = Flaw::Mismatch {
                what: "record type whose bodies stayed whole",
                need: 0,
                have: type_id.into(),
            };
            return Err(Columns { block, group: group as u16 }.damage(0, flaw));
        }
        self.order.select(block, &selection, &mut self.scratch)?;
        if self.groups.len() < groups.len() {
            self.groups.resize_with(groups.len(), GroupTools::default);
        }
        if groups.len() == 1 {
            return self.column_of(plan, Columns { block, group: groups.start as u16 }, (column, 0), out);
        }
        let mut part = std::mem::take(&mut self.part);
        part.kind = out.kind;
        out.numbers().clear();
        for (at, group) in groups.enumerate() {
            self.swap_reference(at);
            let read = self.column_of(plan, Columns { block, group: group as u16 }, (column, at), &mut part);
            self.swap_reference(at);
            read?;
            out.append(&part);
        }
        self.part = part;
        Ok(())
    }

    /// Replaces `out` by the values of several columns of a record type, each as [`Self::column`] gives it but for
    /// [`ColumnValues::runs`], which may be empty. Columns of numbers that have a value for each row are decoded together.
    ///
    /// # Errors
    /// As [`Self::column`].
    pub fn columns(
        &mut self,
        (plan, block): (&Plan, &Block),
        (type_id, columns): (u16, &[u16]),
        symbols: Option<&[u32]>,
        out: &mut Vec<ColumnValues>,
    ) -> Result<(), Damage> {
        out.resize_with(columns.len(), ColumnValues::new);
        let wanted = self.plain_columns((plan, block), (type_id, columns), symbols, |_| true)?;
        let count = self.order.places_wanted();
        for Wanted { index, kind, .. } in &wanted {
            let values = &mut out[*index];
            values.kind = Some(*kind);
            values.clear_but_ints();
            values.resize(count);
        }
        self.together(block, type_id, &wanted, Raw::Never, |index, rows, piece| match piece {
            Piece::Raw(_) => {}
            Piece::Same(value) if rows.len() == count => out[index].set_same(value, count),
            Piece::Same(value) => out[index].numbers()[rows].fill(value),
            Piece::Strip(strip, _) => strip.write(&mut out[index].numbers()[rows]),
            Piece::Whole(values) if rows.len() == count => std::mem::swap(out[index].numbers(), values),
            Piece::Whole(values) => out[index].numbers()[rows].copy_from_slice(values),
        })?;
        let mut wanted = wanted.iter().map(|wanted| wanted.index).peekable();
        for (index, (column, out)) in columns.iter().zip(out).enumerate() {
            if wanted.next_if_eq(&index).is_none() {
                self.column(plan, block, (type_id, *column), symbols, out)?;
            }
        }
        Ok(())
    }

    /// [`Self::columns`] for taking rows out of them; those for which `is_wanted_as_slice`, by their index, have
    /// [`LaneColumn::values`](crate::LaneColumn::values). With `chosen`, ascending [homes](crate::Rows::homes), no other rows are taken,
    /// and these all at once: then a value of another row may be wrong without being reported.
    ///
    /// # Errors
    /// As [`Self::column`].
    pub fn lane_columns(
        &mut self,
        (plan, block): (&Plan, &Block),
        (type_id, columns): (u16, &[u16]),
        (symbols, chosen): (Option<&[u32]>, Option<&[u32]>),
        is_wanted_as_slice: impl Fn(usize) -> bool,
        out: &mut LaneColumns,
    ) -> Result<(), Damage> {
        let out = &mut out.columns;
        out.resize_with(columns.len(), LaneColumn::default);
        let is_near = |index: usize| !is_wanted_as_slice(index);
        let wanted = self.plain_columns((plan, block), (type_id, columns), symbols, is_near)?;
        let count = self.order.places_wanted();
        wanted.iter().for_each(|wanted| out[wanted.index].begin(wanted.kind, count));
        let mut made = Strip::default();
        // Of several groups each would have its own form.
        let raw = match block.head().groups_of(type_id).len() {
            1 if chosen.is_some() => Raw::WithShifts,
            1 => Raw::WithoutShifts,
            _ => Raw::Never,
        };
        self.together(block, type_id, &wanted, raw, |index, rows, piece| match piece {
            Piece::Raw(form) => out[index].decimals = Some(form),
            Piece::Strip(strip, shifts) => {
                out[index].near.take(rows.start, strip, rows.len());
                shifts.into_iter().for_each(|shifts| out[index].take_shifts(rows.clone(), shifts, count));
            }
            Piece::Same(value) if rows.len() == count => out[index].form = Form::Constant { value, count },
            Piece::Whole(values) if rows.len() == count => {
                out[index].form = Form::Values;
                std::mem::swap(out[index].values.numbers(), values);
            }
            Piece::Whole(values) => {
                for (start, values) in rows.step_by(GROUP).zip(values.chunks(GROUP)) {
                    made.set_wide(values);
                    out[index].near.take(start, &made, values.len());
                }
            }
            Piece::Same(value) => {
                made.fill(value);
                for start in rows.clone().step_by(GROUP) {
                    out[index].near.take(start, &made, GROUP.min(rows.end - start));
                }
            }
        })?;
        for Wanted { index, column, .. } in &wanted {
            let group = block.head().groups_of(type_id).start as u16;
            let restored = out[*index].restore_doubtful(chosen.unwrap_or_default());
            restored.map_err(|flaw| Columns { block, group }.damage(usize::from(*column), flaw))?;
        }
        let mut wanted = wanted.iter().map(|wanted| wanted.index).peekable();
        for (index, (column, out)) in columns.iter().zip(out).enumerate() {
            if wanted.next_if_eq(&index).is_none() {
                out.form = Form::Values;
                self.column(plan, block, (type_id, *column), symbols, &mut out.values)?;
            }
        }
        Ok(())
    }

    /// The columns that can be decoded together, of those for which `may_be`, by their index: none where a part of a group's symbols
    /// is wanted.
    fn plain_columns(
        &mut self,
        (plan, block): (&Plan, &Block),
        (type_id, columns): (u16, &[u16]),
        symbols: Option<&[u32]>,
        may_be: impl Fn(usize) -> bool,
    ) -> Result<Vec<Wanted>, Damage> {
        let groups = block.head().groups_of(type_id);
        let Some(plan) = plan.group(type_id).filter(|_| !groups.is_empty()) else { return Ok(Vec::new()) };
        if groups.clone().any(|group| block.head().groups[group].is_whole) {
            return Ok(Vec::new());
        }
        let selection = Selection { symbols, types: Some(&[type_id]), ..Selection::default() };
        self.order.select(block, &selection, &mut self.scratch)?;
        for group in groups.clone() {
            self.whole_lanes(group as u16);
            if self.level.kept() > 0 && !self.level.all {
                return Ok(Vec::new());
            }
        }
        let plan_of = |(index, column): (usize, &u16)| {
            let kind = plan.columns().get(usize::from(*column))?.kind;
            let wanted = Wanted { index, column: *column, kind };
            let is_plain = |group| wanted.is_plain(plan, Columns { block, group: group as u16 });
            (may_be(index) && groups.clone().all(is_plain)).then_some(wanted)
        };
        Ok(columns.iter().enumerate().filter_map(plan_of).collect())
    }

    /// Decodes columns that [`Self::plain_columns`] has found, piece by piece: calls `take` with a column's index, the places of the
    /// piece among all wanted values, and the piece. Which decimals come raw is said first.
    fn together(
        &mut self,
        block: &Block,
        type_id: u16,
        wanted: &[Wanted],
        raw: Raw,
        mut take: impl FnMut(usize, Range<usize>, Piece<'_>),
    ) -> Result<(), Damage> {
        if wanted.is_empty() {
            return Ok(());
        }
        let (mut level, mut before) = (std::mem::take(&mut self.level), 0);
        let mut done = Ok(());
        for group in block.head().groups_of(type_id) {
            let columns = Columns { block, group: group as u16 };
            if !self.order.set_level(self.order.lanes_of(columns.group), &mut level) {
                continue;
            }
            let mut memory = Memory { scratch: &mut self.scratch, buffers: &mut self.buffers };
            match Together::open(columns, wanted, &level, &mut memory) {
                Ok(mut together) => {
                    let rows = before..before + level.count;
                    if raw != Raw::Never {
                        together.stay_raw(raw == Raw::WithShifts);
                    }
                    let raw = together.raw().iter();
                    raw.for_each(|(index, form)| take(*index, rows.clone(), Piece::Raw(*form)));
                    let same = together.constants().iter();
                    same.for_each(|(index, value)| take(*index, rows.clone(), Piece::Same(*value)));
                    for (index, mut values) in together.take_whole() {
                        take(index, rows.clone(), Piece::Whole(&mut values));
                        self.buffers.push(values);
                    }
                    together.each(&level, &mut self.strips, |index, row, strip, shifts| {
                        let start = before + row;
                        take(index, start..rows.end.min(start + GROUP), Piece::Strip(strip, shifts));
                    });
                    done = together.close(columns, &mut self.buffers);
                }
                Err(damage) => done = Err(damage),
            }
            if done.is_err() {
                break;
            }
            before += level.count;
        }
        self.level = level;
        done
    }

    fn swap_reference(&mut self, tools: usize) {
        let reference = &mut self.groups[tools].reference;
        std::mem::swap(&mut reference.0, &mut self.scratch.reference);
        std::mem::swap(&mut reference.1, &mut self.scratch.reference_of);
    }

    /// Replaces `out` by the wanted values of one group, with the tools of that number.
    fn column_of(
        &mut self,
        plan: &GroupPlan,
        columns: Columns<'_>,
        (column, tools): (u16, usize),
        out: &mut ColumnValues,
    ) -> Result<(), Damage> {
        out.clear_but_ints();
        self.whole_lanes(columns.group);
        if self.level.kept() == 0 {
            out.numbers().clear();
            return Ok(());
        }
        let bytes = columns.block.head().body_bytes as usize;
        let of = &mut self.groups[tools].tools;
        Assembler::looking(plan, columns, of, bytes, &self.level).find(column.into(), &self.level)?;
        self.values(columns, (column, tools), out)
    }

    /// The level of one group's rows, of which the wanted lanes are wanted.
    fn whole_lanes(&mut self, group: u16) {
        self.order.set_level(self.order.lanes_of(group), &mut self.level);
    }

    /// Reads the column whose level these tools have found into `out`, which is empty but for `ints`.
    fn values(
        &mut self,
        columns: Columns<'_>,
        (column, tools): (u16, usize),
        out: &mut ColumnValues,
    ) -> Result<(), Damage> {
        let level = &self.groups[tools].tools.found;
        let Some(kind) = out.kind.filter(|_| level.count > 0) else {
            out.numbers().clear();
            return Ok(());
        };
        out.runs.extend(level.wanted_runs().unwrap_or_default());
        if matches!(kind, ColumnKind::Bytes | ColumnKind::Ascii(_)) {
            out.numbers().clear();
            let most = columns.block.head().body_bytes as usize;
            texts(columns, column, level, most, &mut self.scratch, out)?;
            if let ColumnKind::Ascii(width) = kind {
                let mut start = 0;
                let checked = out.ends.iter().try_for_each(|end| {
                    let from = std::mem::replace(&mut start, *end as usize);
                    check_ascii(&out.content[from..start], width.into())
                });
                checked.map_err(|flaw| columns.damage(column.into(), flaw))?;
            }
            return Ok(());
        }
        // A field that is always there has no presence column.
        if kind == ColumnKind::Presence && !columns.has(column.into()) {
            out.set_same(1, level.kept());
            return Ok(());
        }
        let are_read = match kind {
            ColumnKind::F64 => columns.floats(column.into(), level, &mut self.scratch.f64s, &mut out.f64s)?,
            ColumnKind::F32 => columns.floats(column.into(), level, &mut self.scratch.f32s, &mut out.f32s)?,
            _ => false,
        };
        if are_read {
            out.numbers().clear();
            return Ok(());
        }
        if let Some(value) = columns.constant(column.into())? {
            out.set_same(value, level.kept());
        } else {
            columns.numbers((column.into(), kind), level, &mut self.scratch, out.numbers())?;
        }
        out.append_floats();
        Ok(())
    }

    /// Replaces `out` by the times of all rows in row order, nanoseconds since the Unix epoch.
    ///
    /// # Errors
    /// When the column is damaged.
    pub fn times(&mut self, block: &Block, out: &mut Vec<i64>) -> Result<(), Damage> {
        self.level.rows_in_order(block.head());
        Columns { block, group: OWN }.ints(own::TIME.into(), &self.level, &mut self.scratch, out)
    }

    /// Replaces `out` by the times of the rows of a record type, of all symbols or of some: in the order in which
    /// [`Self::column`] gives a field that all of them have. `rows` is memory.
    ///
    /// # Errors
    /// When a column is damaged.
    pub fn times_by_lane(
        &mut self,
        block: &Block,
        type_id: u16,
        symbols: Option<&[u32]>,
        rows: &mut Vec<i64>,
        out: &mut Vec<i64>,
    ) -> Result<(), Damage> {
        let groups = block.head().groups_of(type_id);
        let has_times = |group| Columns { block, group: group as u16 }.has(lanes::TIME.into());
        if groups.is_empty() || !groups.clone().all(has_times) {
            self.times(block, rows)?;
            self.places(block, type_id, symbols)?.pick(rows, out);
            return Ok(());
        }
        let selection = Selection { symbols, types: Some(&[type_id]), ..Selection::default() };
        self.order.select(block, &selection, &mut self.scratch)?;
        if let [group] = groups.clone().collect::<Vec<usize>>()[..] {
            return self.times_of(Columns { block, group: group as u16 }, out);
        }
        out.clear();
        for group in groups {
            self.times_of(Columns { block, group: group as u16 }, rows)?;
            out.extend_from_slice(rows);
        }
        Ok(())
    }

    /// Replaces `out` by the times that a group lists of its rows; gives the place of the first of them among all rows of the
    /// block in the order of lanes.
    pub(crate) fn listed_times(
        &mut self,
        block: &Block,
        group: u16,
        out: &mut Vec<i64>,
    ) -> Result<usize, Damage> {
        self.order.select(block, &Selection::default(), &mut self.scratch)?;
        self.times_of(Columns { block, group }, out)?;
        let first = self.order.lanes.get(self.order.lanes_of(group).start);
        Ok(first.map_or(0, |lane| lane.start as usize))
    }

    /// Replaces `out` by the times of the wanted rows of a group that lists them.
    fn times_of(&mut self, columns: Columns<'_>, out: &mut Vec<i64>) -> Result<(), Damage> {
        self.whole_lanes(columns.group);
        if self.level.kept() == 0 {
            out.clear();
            return Ok(());
        }
        columns.ints(lanes::TIME.into(), &self.level, &mut self.scratch, out)
    }

    /// Replaces `out` by the sequence numbers of all rows in row order, as `u64` by their bits.
    ///
    /// # Errors
    /// When the column is damaged.
    pub fn sequences(&mut self, block: &Block, out: &mut Vec<i64>) -> Result<(), Damage> {
        let (columns, head) = (Columns { block, group: OWN }, block.head());
        if !columns.has(own::SEQUENCE.into()) {
            let first = head.sequence_min;
            out.clear();
            out.extend((0..u64::from(head.count)).map(|row| first.wrapping_add(row) as i64));
            return Ok(());
        }
        self.level.rows_in_order(head);
        columns.ints(own::SEQUENCE.into(), &self.level, &mut self.scratch, out)
    }

    /// Where in its block each value stands that [`Self::column`] gives for a field of all messages of a record type.
    ///
    /// # Errors
    /// When a column is damaged.
    pub fn places(
        &mut self,
        block: &Block,
        type_id: u16,
        symbols: Option<&[u32]>,
    ) -> Result<PlacesBySymbol<'_>, Damage> {
        let selection = Selection { symbols, types: Some(&[type_id]), ..Selection::default() };
        self.order.select(block, &selection, &mut self.scratch)?;
        self.order.read_places_only(block, &mut self.scratch)?;
        Ok(PlacesBySymbol { order: &self.order, count: block.head().count as usize })
    }

    /// Replaces `lanes` by record type, symbol and number of rows of each lane, of at least the record types and symbols of
    /// `selection`: what a block holds, without its rows.
    ///
    /// # Errors
    /// When a column is damaged.
    pub fn lanes(
        &mut self,
        block: &Block,
        selection: &Selection<'_>,
        lanes: &mut Vec<(u16, u32, u32)>,
    ) -> Result<(), Damage> {
        self.order.select(block, selection, &mut self.scratch)?;
        lanes.clear();
        lanes.extend(self.order.lanes.iter().map(|lane| (lane.type_id, lane.symbol, lane.end - lane.start)));
        Ok(())
    }
}

/// Rows of a block, those of one symbol after those of another.
#[derive(Debug, Clone, Copy)]
pub struct PlacesBySymbol<'a> {
    order: &'a Order,
    count: usize,
}

impl PlacesBySymbol<'_> {
    /// Replaces `out` by what `rows`, which has an entry for each row of the block, has in these places.
    ///
    /// # Panics
    /// When `rows` has fewer entries than the block has rows.
    pub fn pick<T: Copy + Default>(&self, rows: &[T], out: &mut Vec<T>) {
        let Self { order, count } = self;
        out.resize(order.places.len(), T::default());
        order.pick(&rows[..*count], out);
    }
}

/// Values of so many symbols are gathered into bodies one after the other; of more, each symbol's are sent to theirs.
const LANES_GATHERED: usize = 64;

/// The record type of a block that has one, if its bodies are fields side by side.
fn plain_group<'a>(plan: &'a Plan, head: &Head) -> Option<&'a GroupPlan> {
    let type_id = head.groups.first()?.type_id;
    let is_only = head.groups.iter().all(|group| group.type_id == type_id && !group.is_whole);
    plan.group(type_id).filter(|plan| is_only && plan.root.is_plain())
}

fn texts(
    columns: Columns<'_>,
    column: u16,
    level: &Level,
    most: usize,
    scratch: &mut Scratch,
    out: &mut ColumnValues,
) -> Result<(), Damage> {
    if columns.strings(column.into(), level, most, scratch, &mut out.ends, &mut out.content)? {
        let one = std::mem::take(&mut out.content);
        if one.len().saturating_mul(level.kept()) > most.saturating_mul(2) {
            let flaw = Flaw::Mismatch { what: "bytes of bodies", need: most as u64, have: one.len() as u64 };
            return Err(columns.damage(column.into(), flaw));
        }
        for _ in 0..level.kept() {
            out.content.extend_from_slice(&one);
            out.ends.push(out.content.len() as u32);
        }
    }
    Ok(())
}

fn lengths_to_ends(lengths: &mut [u32]) {
    let mut end = 0;
    for length in lengths {
        end += *length;
        *length = end;
    }
}

impl GroupTools {
    /// Wants these of a lane's rows; counted from the block's first lane for now.
    fn keep(&mut self, lane: &Lane, rows: Range<u32>) {
        let range = lane.start + rows.start..lane.start + rows.end;
        match self.level.keep.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ if range.is_empty() => {}
            _ => self.level.keep.push(range),
        }
    }

    /// Writes bodies that stayed whole.
    fn place_whole(&self, out: &mut [u8]) {
        if self.rows.is_empty() {
            return;
        }
        let mut start = 0;
        for (i, place) in self.places.iter().enumerate() {
            let body = match self.sizes {
                Sizes::Same(_) => &self.content[..],
                Sizes::Each => &self.content[start..self.ends[i] as usize],
            };
            out[*place as usize..][..body.len()].copy_from_slice(body);
            start = self.ends.get(i).map_or(0, |end| *end as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::{BlockBuilder, BlockOptions};
    use crate::row::RowHeader;
    use crate::values::Values;
    use tapedb_codec::dynamic::Layouts;

    const ROWS: u64 = 5_000;
    const SYMBOLS: u64 = 7;

    /// Messages of so many fields of eight bytes, the first of which opens where the last one closed.
    fn messages(fields: usize, jump: i64, time: impl Fn(u64) -> i64) -> Vec<(RowHeader, Vec<u8>)> {
        let (mut state, mut closes) = (1u64, [100_000i64; SYMBOLS as usize]);
        let mut noise = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 58) as i64
        };
        let message = |sequence: u64| {
            let symbol = sequence * sequence % SYMBOLS;
            let close = &mut closes[symbol as usize];
            let open = *close + noise() % 3;
            *close = open + noise() - 31 + if sequence.is_multiple_of(997) { jump } else { 0 };
            let values = (0..fields).map(|field| match field {
                0 => open,
                field if field + 1 == fields => *close,
                _ => open + noise(),
            });
            let header = RowHeader { time: time(sequence), sequence, symbol: symbol as u32 * 11, type_id: 0 };
            (header, values.flat_map(i64::to_le_bytes).collect())
        };
        (0..ROWS).map(message).collect()
    }

    fn block_of(fields: usize, messages: &[(RowHeader, Vec<u8>)]) -> (Plan, Block) {
        let fields: String = (0..fields).map(|field| format!("f{field}: i64, ")).collect();
        let schema = format!("message M {{ {fields} }}");
        let plan = Plan::new(Layouts::new(schema.parse().unwrap()).unwrap());
        let (mut builder, mut bytes) = (BlockBuilder::new(BlockOptions::default()), Vec::new());
        messages.iter().for_each(|(header, body)| builder.push(*header, body).unwrap());
        builder.finish(&plan, &mut bytes);
        let mut block = Block::new();
        block.load(&bytes).unwrap();
        (plan, block)
    }

    #[test]
    fn bodies_of_any_number_of_fields_come_back() {
        let (mut decoder, mut rows) = (Decoder::new(), Rows::new());
        for fields in (1..=10).rev() {
            for jump in [0, 5_000, 1 << 40] {
                let messages = messages(fields, jump, |sequence| sequence as i64);
                let (plan, block) = block_of(fields, &messages);
                decoder.rows(&plan, &block, &Selection::default(), &mut rows).unwrap();
                assert_eq!(rows.len(), messages.len());
                for (row, (header, body)) in messages.iter().enumerate() {
                    assert_eq!((rows.header(row), rows.body(row)), (*header, &body[..]), "{fields}, {jump}");
                }
            }
        }
    }

    #[test]
    fn times_come_by_symbol() {
        let even = |sequence: u64| (sequence / SYMBOLS) as i64 * 60_000_000_000;
        let uneven = |sequence: u64| (sequence * sequence) as i64 / 3;
        let (mut decoder, mut memory, mut found) = (Decoder::new(), Vec::new(), vec![9; 3]);
        for (is_even, time) in [(true, even as fn(u64) -> i64), (false, uneven)] {
            let mut messages = messages(2, 0, time);
            // Every symbol in turn, so that each has its even steps.
            messages.iter_mut().for_each(|(header, _)| header.symbol = (header.sequence % SYMBOLS) as u32);
            let (_, block) = block_of(2, &messages);
            assert_eq!(block.head().chunk(0, lanes::TIME).is_some(), is_even);
            for symbols in [None, Some(&[0u32, 3, 6][..]), Some(&[2]), Some(&[70])] {
                decoder.times_by_lane(&block, 0, symbols, &mut memory, &mut found).unwrap();
                let mut expected: Vec<&RowHeader> = messages.iter().map(|(header, _)| header).collect();
                expected.retain(|header| symbols.is_none_or(|symbols| symbols.contains(&header.symbol)));
                expected.sort_by_key(|header| header.symbol);
                assert!(
                    found.iter().eq(expected.iter().map(|header| &header.time)),
                    "{is_even}, {symbols:?}"
                );
            }
            decoder.times_by_lane(&block, 1, None, &mut memory, &mut found).unwrap();
            assert!(found.is_empty(), "there is no such record type");
        }
    }

    /// Entries of 300 messages of three symbols, one each; the last message has `odd` ones instead.
    fn block_of_entries(odd: &str) -> (Plan, Block) {
        let schema = "record A { x: i64?, y: i64 } record B { y: i64 }
            message M { n: i64?, entries: array<record<A|B>?> }";
        let plan = Plan::new(Layouts::new(schema.parse().unwrap()).unwrap());
        let (type_id, _) = plan.layouts().schema().record("M").unwrap();
        let (mut builder, mut bytes) = (BlockBuilder::new(BlockOptions::default()), Vec::new());
        for i in 0..300u64 {
            let usual = format!(r#"{{"$type": "A", "x": {}, "y": {}}}"#, i % 5, i * i % 40);
            let entries = if i == 299 { odd } else { &usual };
            let text = format!(r#"{{"$type": "M", "n": {i}, "entries": [{entries}]}}"#);
            let mut body = Vec::new();
            plan.layouts().encode(&plan.layouts().from_json(&text).unwrap(), &mut body).unwrap();
            let header = RowHeader { time: i as i64, sequence: i, symbol: i as u32 % 3, type_id };
            builder.push(header, &body).unwrap();
        }
        builder.finish(&plan, &mut bytes);
        let mut block = Block::new();
        block.load(&bytes).unwrap();
        (plan, block)
    }

    #[test]
    fn fields_of_single_entries_are_decoded_as_those_of_messages() {
        let usual = r#"{"$type": "A", "x": 1, "y": 2}"#;
        let (two, none) = (format!("{usual}, {usual}"), String::new());
        let odd = [usual, &two, &none, "null", r#"{"$type": "B", "y": 3}"#, r#"{"$type": "A", "y": 2}"#];
        let (mut decoder, mut found, mut expected) = (Decoder::new(), Vec::new(), ColumnValues::new());
        for odd in odd {
            let (plan, block) = block_of_entries(odd);
            let (type_id, _) = plan.layouts().schema().record("M").unwrap();
            let group = plan.group(type_id).unwrap();
            let all: Vec<u16> = (0..group.columns().len() as u16).collect();
            // Twice, so that values of a block before lie in the memory.
            for _ in 0..2 {
                decoder.columns((&plan, &block), (type_id, &all), None, &mut found).unwrap();
            }
            for (column, found) in all.iter().zip(&found) {
                decoder.column(&plan, &block, (type_id, *column), None, &mut expected).unwrap();
                let path = &group.columns()[usize::from(*column)].path;
                assert_eq!(found.values(), expected.values(), "{path}, {odd}");
                let Values::Ints(numbers) = found.values() else { unreachable!() };
                let is_same = found.same().is_none_or(|same| numbers.iter().all(|number| *number == same));
                assert!(is_same, "{path}, {odd}");
            }
            let wanted =
                |column: u16| Wanted { index: 0, column, kind: group.columns()[usize::from(column)].kind };
            let is_plain = |path: &str| {
                wanted(group.column(path).unwrap()).is_plain(group, Columns { block: &block, group: 0 })
            };
            // Only of x not every entry of the last block has one.
            let is_usual = odd.contains('A') && odd != two;
            assert_eq!([is_plain("entries[].A.y"), is_plain("n")], [is_usual, true], "{odd}");
            assert_eq!(is_plain("entries[].A.x"), odd == usual, "{odd}");
        }
    }
}
