//! Puts bodies together from columns, in two passes over the plan.
//!
//! The first, *measure*, reads what lengths depend on (presence, counts, tags, texts) and works out how many bytes each
//! value takes. Then it is known where each lies in the output. The second, *place*, sends every column's values right
//! there. So nothing is copied twice, and a column is always handled as a whole.

use crate::column::Scratch;
use crate::columns::{Columns, Decoded, Fed, spread};
use crate::encoding::Strip;
use crate::error::{Damage, Flaw};
use crate::level::Level;
use crate::members::choose;
use crate::plan::{ColumnKind, Extent, FieldNode, GroupPlan, ItemNode, Node, Null, RecordNode};
use crate::scatter::{Cellar, Feed, Follows, Template, Varying, gather, scatter, scatter_one, write_u32};
use std::mem::take;

/// Memory that is used again for every block.
#[derive(Debug, Default)]
pub(crate) struct Tools {
    states: Vec<State>,
    pub scratch: Scratch,
    wide: Vec<Vec<i64>>,
    narrow: Vec<Vec<u8>>,
    places: Vec<Vec<u32>>,
    strips: Vec<Vec<Strip>>,
    cellar: Cellar,
    /// Level of the column that was looked for.
    pub found: Level,
    /// Block and record type of which columns have been looked for among all rows: what has been read of them stays.
    looked_in: Option<(u64, u16)>,
}

impl Tools {
    /// Memory for numbers; whatever it holds is of no use.
    fn lend(&mut self) -> Vec<i64> {
        self.wide.pop().unwrap_or_default()
    }

    /// Takes memory back. What has been given away and is empty now is not kept.
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

/// One record type of one block being put together.
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

    /// One for [`Self::find`]: `level` is what will be looked in.
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

    /// Reads which values of a field are there, once.
    fn presence(&mut self, column: usize, level: &Level) -> Result<Presence, Damage> {
        if self.tools.states[column].presence != Presence::Unread {
            return Ok(self.tools.states[column].presence);
        }
        let presence =
            if self.columns.has(column) { self.read_presence(column, level)? } else { Presence::All };
        self.tools.states[column].presence = presence;
        Ok(presence)
    }

    fn read_presence(&mut self, column: usize, level: &Level) -> Result<Presence, Damage> {
        let (whole, mut bits) = (Whole::of(level), self.tools.lend());
        let presence = (column, ColumnKind::Presence);
        let decoded = self.columns.numbers(presence, whole.level(), &mut self.tools.scratch, &mut bits);
        let presence = decoded.map(|decoded| match decoded {
            Decoded::Constant(0) => Presence::None,
            Decoded::Constant(_) => Presence::All,
            Decoded::Values => {
                let state = &mut self.tools.states[column];
                state.marks.clear();
                state.marks.extend(bits.iter().map(|bit| u8::from(*bit != 0)));
                choose(&mut state.level, &mut state.members, level, &state.marks, 1);
                level.compact(&mut state.marks);
                Presence::Some
            }
        });
        self.tools.take_back(bits);
        presence
    }

    /// Reads a column of counts or tags, all of it; every value is below `end`. `keep` gets the values.
    fn read_structure(
        &mut self,
        column: usize,
        level: &Level,
        (what, end): (&'static str, u64),
        keep: impl Fn(&mut State, &[i64]),
    ) -> Result<(), Damage> {
        let (whole, mut wide) = (Whole::of(level), self.tools.lend());
        let read = self.columns.ints(column, whole.level(), &mut self.tools.scratch, &mut wide);
        // One that is too large makes what all have in common too large, which is quicker to find out.
        let any = wide.iter().fold(0, |any, value| any | *value as u64);
        let bad = if any < end { None } else { wide.iter().find(|value| **value as u64 >= end).copied() };
        keep(&mut self.tools.states[column], &wide);
        self.tools.take_back(wide);
        read?;
        if let Some(bad) = bad {
            let flaw = Flaw::Mismatch { what, need: end.saturating_sub(1), have: bad as u64 };
            return Err(self.columns.damage(column, flaw));
        }
        Ok(())
    }

    /// Reads the tags of unions, all of them.
    fn read_tags(&mut self, column: usize, alternatives: usize, level: &Level) -> Result<(), Damage> {
        self.read_structure(column, level, ("tag", alternatives as u64), |state, tags| {
            state.marks.clear();
            state.marks.extend(tags.iter().map(|tag| *tag as u8));
        })
    }

    /// Reads the counts of arrays and works out the level of their items.
    fn read_counts(&mut self, column: usize, item: &ItemNode, level: &Level) -> Result<(), Damage> {
        let limit = ("items of an array", self.budget as u64 + 1);
        self.read_structure(column, level, limit, |state, counts| {
            state.values.clear();
            state.values.extend(counts.iter().map(|count| *count as u32));
        })?;
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

    // First pass.

    fn measure_record(&mut self, node: &RecordNode, level: &Level) -> Result<(), Damage> {
        self.claim(0, level.count, node.fixed as usize)?;
        self.tools.states[node.slot].sizes = Sizes::Same(node.fixed);
        if node.is_fixed {
            return Ok(());
        }
        let mut each = take(&mut self.tools.states[node.slot].each);
        each.clear();
        each.resize(level.kept(), node.fixed);
        for field in node.fields.iter().filter(|field| field.is_variable()) {
            let (presence, child, members) = self.below_field(field, level)?;
            let child_level = child.as_ref().unwrap_or(level);
            let measured = match presence {
                Presence::None => Ok(()),
                _ => self.measure_content(&field.node, child_level),
            };
            if measured.is_ok() && presence != Presence::None {
                let state = &self.tools.states[field.node.slot()];
                add_sizes(&mut each, members.as_deref(), state.sizes, &state.each);
            }
            self.give_back(field, child, members);
            measured?;
        }
        let state = &mut self.tools.states[node.slot];
        (state.each, state.sizes) = (each, Sizes::Each);
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
        let presence = self.presence(null.column, level)?;
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

    fn measure_content(&mut self, node: &Node, level: &Level) -> Result<(), Damage> {
        if level.count == 0 {
            let state = &mut self.tools.states[node.slot()];
            state.each.clear();
            state.sizes = Sizes::Same(0);
            return Ok(());
        }
        match node {
            Node::Leaf { .. } => Ok(()),
            Node::Bytes { column } => self.measure_bytes(*column, level),
            Node::Record(record) => self.measure_record(record, level),
            Node::Union { tags, alternatives } => self.measure_union(*tags, alternatives, level),
            Node::Array { counts, item } => self.measure_array(*counts, item, level),
        }
    }

    fn measure_bytes(&mut self, column: usize, level: &Level) -> Result<(), Damage> {
        let state = &mut self.tools.states[column];
        let (mut ends, mut content) = (take(&mut state.each), take(&mut state.content));
        let scratch = &mut self.tools.scratch;
        let read = self.columns.strings(column, level, self.budget, scratch, &mut ends, &mut content);
        let length = content.len();
        if read.is_ok() {
            ends_to_lengths(&mut ends);
        }
        let state = &mut self.tools.states[column];
        (state.each, state.content) = (ends, content);
        if read? {
            state.sizes = Sizes::Same(length as u32);
            self.claim(column, level.count, length)
        } else {
            state.sizes = Sizes::Each;
            self.claim(column, 1, length)
        }
    }

    fn measure_union(
        &mut self,
        column: usize,
        alternatives: &[RecordNode],
        level: &Level,
    ) -> Result<(), Damage> {
        self.claim(column, level.count, 1)?;
        self.read_tags(column, alternatives.len(), level)?;
        let mut tags = take(&mut self.tools.states[column].marks);
        let mut measured = Ok(());
        let frequencies = frequencies(&tags);
        for (tag, alternative) in alternatives.iter().enumerate() {
            let state = &mut self.tools.states[alternative.slot];
            let (mut child, mut members) = (take(&mut state.level), take(&mut state.members));
            choose_members(&mut child, &mut members, level, &tags, tag as u8, frequencies[tag]);
            if child.count > 0 && measured.is_ok() {
                measured = self.measure_record(alternative, &child);
            }
            let state = &mut self.tools.states[alternative.slot];
            (state.level, state.members) = (child, members);
        }
        level.compact(&mut tags);
        let mut each = take(&mut self.tools.states[column].each);
        if measured.is_ok() {
            self.add_alternatives(&tags, alternatives, &mut each);
        }
        let state = &mut self.tools.states[column];
        (state.marks, state.each, state.sizes) = (tags, each, Sizes::Each);
        measured
    }

    /// Bytes of each union, the tag included.
    fn add_alternatives(&self, tags: &[u8], alternatives: &[RecordNode], each: &mut Vec<u32>) {
        let mut same = [1; 256];
        for (size, node) in same.iter_mut().zip(alternatives) {
            if let Sizes::Same(bytes) = self.tools.states[node.slot].sizes {
                *size += bytes;
            }
        }
        each.clear();
        each.extend(tags.iter().map(|tag| same[usize::from(*tag)]));
        for state in alternatives.iter().map(|node| &self.tools.states[node.slot]) {
            if state.sizes == Sizes::Each && state.level.count > 0 {
                add_sizes(each, Some(&state.members), state.sizes, &state.each);
            }
        }
    }

    fn measure_array(&mut self, column: usize, item: &ItemNode, level: &Level) -> Result<(), Damage> {
        self.claim(column, level.count, 4)?;
        self.read_counts(column, item, level)?;
        let items = take(&mut self.tools.states[column].level);
        let measured = self.measure_items(item, &items);
        let state = &mut self.tools.states[column];
        state.level = items;
        measured?;
        let (counts, mut each) = (take(&mut state.values), take(&mut state.each));
        let bitmap = |count: &u32| if item.presence.is_some() { count.div_ceil(8) } else { 0 };
        let below = &self.tools.states[item.slot];
        each.clear();
        match below.sizes {
            Sizes::Same(size) => each.extend(counts.iter().map(|count| 4 + bitmap(count) + count * size)),
            Sizes::Each if are_single(&counts) => {
                let before = 4 + bitmap(&1);
                each.extend(below.each.iter().take(counts.len()).map(|size| before + size));
            }
            Sizes::Each => {
                let mut sizes = &below.each[..];
                each.extend(counts.iter().map(|count| {
                    let (here, rest) = sizes.split_at(*count as usize);
                    sizes = rest;
                    here.iter().fold(4 + bitmap(count), |sum, size| sum + size)
                }));
            }
        }
        let state = &mut self.tools.states[column];
        (state.values, state.each, state.sizes) = (counts, each, Sizes::Each);
        Ok(())
    }

    /// Bytes of each item, with what stands before its content.
    fn measure_items(&mut self, item: &ItemNode, level: &Level) -> Result<(), Damage> {
        let presence = match item.presence {
            Some(column) => self.presence(column, level)?,
            None => Presence::All,
        };
        if let Extent::Fixed(width) = item.extent {
            self.tools.states[item.slot].sizes = Sizes::Same(width);
            return Ok(());
        }
        if presence == Presence::None {
            self.tools.states[item.slot].sizes = Sizes::Same(item.null_width);
            return Ok(());
        }
        let some = item.presence.filter(|_| presence == Presence::Some);
        let child = some.map(|column| take(&mut self.tools.states[column].level));
        let measured = self.measure_content(&item.node, child.as_ref().unwrap_or(level));
        if let (Some(column), Some(child)) = (some, child) {
            self.tools.states[column].level = child;
        }
        measured?;
        let before = if matches!(item.extent, Extent::Prefixed) { 4 } else { 0 };
        let mut each = take(&mut self.tools.states[item.slot].each);
        let content = &self.tools.states[item.node.slot()];
        each.clear();
        let sizes = match (some, content.sizes) {
            (None, Sizes::Same(size)) => Sizes::Same((size + before).max(1)),
            (None, Sizes::Each) => {
                each.extend(content.each.iter().map(|size| (size + before).max(1)));
                Sizes::Each
            }
            (Some(column), sizes) => {
                each.resize(level.kept(), item.null_width);
                for (i, member) in self.tools.states[column].members.iter().enumerate() {
                    let size = if let Sizes::Same(size) = sizes { size } else { content.each[i] };
                    each[*member as usize] = (size + before).max(1);
                }
                Sizes::Each
            }
        };
        let state = &mut self.tools.states[item.slot];
        (state.each, state.sizes) = (each, sizes);
        Ok(())
    }

    // Second pass.

    /// Writes the wanted bodies to `places`; those of an alternative have their `tag` in front.
    fn place_record(
        &mut self,
        node: &RecordNode,
        tag: Option<u8>,
        level: &Level,
        places: &[u32],
        out: &mut [u8],
    ) -> Result<(), Damage> {
        if places.is_empty() || node.fixed == 0 && tag.is_none() {
            return Ok(());
        }
        let mut template = Template { bytes: self.tools.narrow.pop().unwrap_or_default(), before: 0 };
        template.bytes.clear();
        template.bytes.extend(tag);
        template.before = template.bytes.len() as u32;
        template.bytes.resize((template.before + node.fixed) as usize, 0);
        let done = self.place_fixed(node, level, places, &mut template, out);
        self.tools.narrow.push(template.bytes);
        done?;
        if !node.is_fixed {
            self.place_variable(node, level, places, out)?;
        }
        Ok(())
    }

    /// What is the same in all bodies goes into a template that is stamped everywhere; the rest is sent to its places.
    fn place_fixed(
        &mut self,
        node: &RecordNode,
        level: &Level,
        places: &[u32],
        template: &mut Template,
        out: &mut [u8],
    ) -> Result<(), Damage> {
        let mut varying = Vec::with_capacity(node.fields.len() + 1);
        let mut is_stamped = node.null_bytes > 0 || template.before > 0;
        let mut is_patched = false;
        let body = template.before as usize;
        for field in &node.fields {
            let presence = match field.null {
                Some(null) => self.presence(null.column, level)?,
                None => Presence::All,
            };
            if let (Presence::None, Some(null)) = (presence, field.null) {
                template.bytes[body + null.byte as usize] |= null.mask;
            }
            let Node::Leaf { column, kind, width } = field.node else { continue };
            if presence != Presence::All || matches!(kind, ColumnKind::Ascii(_)) {
                is_stamped = true;
                is_patched |= presence != Presence::None;
                continue;
            }
            let slot = (field.offset, width);
            is_stamped |=
                !self.feed((column, kind), slot, level, &mut template.bytes[body..], &mut varying)?;
        }
        self.find_leaders(node, level, &mut varying)?;
        self.feed_nulls(node, &template.bytes[body..], &mut varying);
        let mut strips = self.tools.strips.pop().unwrap_or_default();
        let stamped = is_stamped.then_some(&*template);
        scatter(&mut varying, stamped, &mut strips, &level.ends, places, out);
        self.tools.strips.push(strips);
        self.keep_memory(varying);
        if is_patched { self.patch(node, level, places, out) } else { Ok(()) }
    }

    /// The bytes of the null bitmap that differ from body to body.
    fn feed_nulls(&mut self, node: &RecordNode, template: &[u8], varying: &mut Vec<Varying>) {
        for byte in 0..node.null_bytes {
            let mut bits = None;
            for null in node.fields.iter().filter_map(|field| field.null).filter(|null| null.byte == byte) {
                let state = &self.tools.states[null.column];
                if state.presence != Presence::Some {
                    continue;
                }
                let bits = bits.get_or_insert_with(|| {
                    let mut bits = self.tools.narrow.pop().unwrap_or_default();
                    bits.clear();
                    bits.resize(state.marks.len(), template[byte as usize]);
                    bits
                });
                bits.iter_mut().zip(&state.marks).for_each(|(bits, mark)| *bits |= null.mask * (mark ^ 1));
            }
            if let Some(bits) = bits {
                let feed = Feed::Bytes(bits);
                varying.push(Varying { column: usize::MAX, offset: byte, width: 1, feed, follows: None });
            }
        }
    }

    /// Gets ready to read a field that all bodies have: among `varying`, or into the template if it is always the same
    /// (then `false`).
    fn feed<'l>(
        &mut self,
        (column, kind): (usize, ColumnKind),
        (offset, width): (u32, u32),
        level: &'l Level,
        template: &mut [u8],
        varying: &mut Vec<Varying<'l>>,
    ) -> Result<bool, Damage>
    where
        'a: 'l,
    {
        let mut values = self.tools.lend();
        let fed = self.columns.feed((column, kind), level, &mut self.tools.scratch, &mut values);
        self.tools.take_back(values);
        match fed? {
            Fed::Varying(feed, follows) => {
                varying.push(Varying { column, offset, width, feed, follows });
                Ok(true)
            }
            Fed::Constant(value) => {
                let slot = &mut template[offset as usize..][..width as usize];
                slot.copy_from_slice(&value.to_le_bytes()[..width as usize]);
                Ok(false)
            }
        }
    }

    fn keep_memory(&mut self, varying: Vec<Varying>) {
        for column in varying {
            match column.feed {
                Feed::Values(values) => self.tools.take_back(values),
                Feed::Bytes(values) => self.tools.narrow.push(values),
                Feed::Strips(_) => {}
            }
        }
    }

    /// Writes all bodies of a record type that [is plain](RecordNode::is_plain), one after the other; the values of body
    /// `i` stand in the columns where the low half of `homes[i]` says.
    pub fn place_plain(&mut self, level: &Level, homes: &[u32], out: &mut [u8]) -> Result<(), Damage> {
        let node = &self.plan.root;
        self.claim(0, level.count, node.fixed as usize)?;
        let (stride, mut is_stamped) = (node.fixed as usize, false);
        let (mut template, mut varying) = (vec![0; stride], Vec::with_capacity(node.fields.len()));
        for field in &node.fields {
            if let Node::Leaf { column, kind, width } = field.node {
                let slot = (field.offset, width);
                is_stamped |= !self.feed((column, kind), slot, level, &mut template, &mut varying)?;
            }
        }
        self.find_leaders(node, level, &mut varying)?;
        if is_stamped {
            out.chunks_exact_mut(stride).for_each(|body| body.copy_from_slice(&template));
        }
        gather(&mut varying, &mut self.tools.cellar, &level.ends, (homes, stride), out);
        self.keep_memory(varying);
        Ok(())
    }

    /// Finds each column that another one follows. Where it is not among those that vary, the one that follows is read
    /// in another way.
    fn find_leaders(
        &mut self,
        node: &RecordNode,
        level: &Level,
        varying: &mut [Varying],
    ) -> Result<(), Damage> {
        for i in 0..varying.len() {
            let Some(Follows { other, previous }) = varying[i].follows else { continue };
            let leads = |column: &Varying| column.column == other && column.follows.is_none();
            if let Some(other) = varying.iter().position(leads) {
                varying[i].follows = Some(Follows { other, previous });
                continue;
            }
            let own = varying[i].column;
            let kind = node.fields.iter().find_map(|field| match field.node {
                Node::Leaf { column, kind, .. } if column == own => Some(kind),
                _ => None,
            });
            let mut values = self.tools.lend();
            let kind = kind.unwrap_or(ColumnKind::Count);
            let decoded = self.columns.numbers((own, kind), level, &mut self.tools.scratch, &mut values)?;
            spread(decoded, level, &mut values);
            (varying[i].feed, varying[i].follows) = (Feed::Values(values), None);
        }
        Ok(())
    }

    /// Writes what is there for some bodies only, and long texts.
    fn patch(
        &mut self,
        node: &RecordNode,
        level: &Level,
        places: &[u32],
        out: &mut [u8],
    ) -> Result<(), Damage> {
        for field in &node.fields {
            let (presence, child, members) = self.below_field(field, level)?;
            let mut done = Ok(());
            if let Node::Leaf { kind, .. } = field.node
                && (presence == Presence::Some
                    || presence == Presence::All && matches!(kind, ColumnKind::Ascii(_)))
            {
                let mut here = self.tools.places.pop().unwrap_or_default();
                here.clear();
                match &members {
                    Some(members) => here.extend(members.iter().map(|&i| places[i as usize] + field.offset)),
                    None => here.extend(places.iter().map(|place| place + field.offset)),
                }
                done = self.place_content(&field.node, child.as_ref().unwrap_or(level), &here, out);
                self.tools.places.push(here);
            }
            self.give_back(field, child, members);
            done?;
        }
        Ok(())
    }

    fn place_variable(
        &mut self,
        node: &RecordNode,
        level: &Level,
        places: &[u32],
        out: &mut [u8],
    ) -> Result<(), Damage> {
        let mut ends = self.tools.places.pop().unwrap_or_default();
        ends.clear();
        ends.extend(places.iter().map(|place| place + node.fixed));
        let mut done = Ok(());
        for field in node.fields.iter().filter(|field| field.is_variable()) {
            done = self.place_field(field, level, places, &mut ends, out);
            if done.is_err() {
                break;
            }
        }
        self.tools.places.push(ends);
        done
    }

    /// Writes one variable field behind `ends`, and moves them.
    fn place_field(
        &mut self,
        field: &FieldNode,
        level: &Level,
        places: &[u32],
        ends: &mut [u32],
        out: &mut [u8],
    ) -> Result<(), Damage> {
        let (presence, child, members) = self.below_field(field, level)?;
        let mut here = self.tools.places.pop().unwrap_or_default();
        here.clear();
        if presence != Presence::None {
            match &members {
                Some(members) => here.extend(members.iter().map(|&i| ends[i as usize])),
                None => here.extend_from_slice(ends),
            }
            let state = &self.tools.states[field.node.slot()];
            add_sizes(ends, members.as_deref(), state.sizes, &state.each);
        }
        for (place, end) in places.iter().zip(&*ends) {
            write_u32(out, place + field.offset, end - place);
        }
        let done = self.place_content(&field.node, child.as_ref().unwrap_or(level), &here, out);
        self.tools.places.push(here);
        self.give_back(field, child, members);
        done
    }

    fn place_content(
        &mut self,
        node: &Node,
        level: &Level,
        places: &[u32],
        out: &mut [u8],
    ) -> Result<(), Damage> {
        if places.is_empty() {
            return Ok(());
        }
        match node {
            Node::Leaf { column, kind: ColumnKind::Ascii(width), .. } => {
                self.place_ascii(*column, (*width).into(), level, places, out)
            }
            Node::Leaf { column, kind, width } => self.place_leaf(*column, *kind, *width, level, places, out),
            Node::Bytes { column } => {
                self.place_bytes(*column, places, out);
                Ok(())
            }
            Node::Record(record) => self.place_record(record, None, level, places, out),
            Node::Union { alternatives, .. } => self.place_union(alternatives, places, out),
            Node::Array { counts, item } => self.place_array(*counts, item, places, out),
        }
    }

    fn place_leaf(
        &mut self,
        column: usize,
        kind: ColumnKind,
        width: u32,
        level: &Level,
        places: &[u32],
        out: &mut [u8],
    ) -> Result<(), Damage> {
        let mut values = self.tools.lend();
        let decoded = self.columns.numbers((column, kind), level, &mut self.tools.scratch, &mut values);
        if let Ok(decoded) = decoded {
            spread(decoded, level, &mut values);
            scatter_one(&values, width, places, out);
        }
        self.tools.take_back(values);
        decoded.map(|_| ())
    }

    fn place_ascii(
        &mut self,
        column: usize,
        width: usize,
        level: &Level,
        places: &[u32],
        out: &mut [u8],
    ) -> Result<(), Damage> {
        let state = &mut self.tools.states[column];
        let (mut ends, mut content) = (take(&mut state.each), take(&mut state.content));
        let most = level.count.saturating_mul(width);
        let read =
            self.columns.strings(column, level, most, &mut self.tools.scratch, &mut ends, &mut content);
        let done = read.and_then(|is_constant| {
            let mut start = 0;
            for (i, place) in places.iter().enumerate() {
                let end = if is_constant { content.len() } else { ends[i] as usize };
                let text = &content[start..end];
                let slot = &mut out[*place as usize..][..width];
                let Some((front, padding)) = slot.split_at_mut_checked(text.len()) else {
                    let (need, have) = (width as u64, text.len() as u64);
                    return Err(self
                        .columns
                        .damage(column, Flaw::Mismatch { what: "length of an ascii", need, have }));
                };
                front.copy_from_slice(text);
                padding.fill(0);
                start = if is_constant { 0 } else { end };
            }
            Ok(())
        });
        let state = &mut self.tools.states[column];
        (state.each, state.content) = (ends, content);
        done
    }

    fn place_bytes(&self, column: usize, places: &[u32], out: &mut [u8]) {
        let state = &self.tools.states[column];
        let content = &state.content[..];
        match state.sizes {
            Sizes::Same(_) => {
                for place in places {
                    out[*place as usize..][..content.len()].copy_from_slice(content);
                }
            }
            Sizes::Each => {
                let mut start = 0;
                for (place, size) in places.iter().zip(&state.each) {
                    let text = &content[start..start + *size as usize];
                    out[*place as usize..][..text.len()].copy_from_slice(text);
                    start += text.len();
                }
            }
        }
    }

    fn place_union(
        &mut self,
        alternatives: &[RecordNode],
        places: &[u32],
        out: &mut [u8],
    ) -> Result<(), Damage> {
        for (tag, alternative) in (0..=u8::MAX).zip(alternatives) {
            let state = &mut self.tools.states[alternative.slot];
            if state.members.is_empty() {
                continue;
            }
            let (level, members) = (take(&mut state.level), take(&mut state.members));
            let mut here = self.tools.places.pop().unwrap_or_default();
            here.clear();
            here.extend(members.iter().map(|&i| places[i as usize] + 1));
            let done = self.place_record(alternative, Some(tag), &level, &here, out);
            self.tools.places.push(here);
            let state = &mut self.tools.states[alternative.slot];
            (state.level, state.members) = (level, members);
            done?;
        }
        Ok(())
    }

    fn place_array(
        &mut self,
        column: usize,
        item: &ItemNode,
        places: &[u32],
        out: &mut [u8],
    ) -> Result<(), Damage> {
        let mut items = self.tools.places.pop().unwrap_or_default();
        items.clear();
        let counts = &self.tools.states[column].values;
        let before = |count: &u32| 4 + if item.presence.is_some() { count.div_ceil(8) } else { 0 };
        for (place, count) in places.iter().zip(counts) {
            write_u32(out, *place, *count);
        }
        let below = &self.tools.states[item.slot];
        match below.sizes {
            _ if are_single(counts) => items.extend(places.iter().map(|place| place + before(&1))),
            Sizes::Same(size) => {
                for (place, count) in places.iter().zip(counts) {
                    let first = place + before(count);
                    items.extend((0..*count).map(|i| first + i * size));
                }
            }
            Sizes::Each => {
                items.resize(below.each.len(), 0);
                let (mut starts, mut sizes) = (&mut items[..], &below.each[..]);
                for (place, count) in places.iter().zip(counts) {
                    let (here, sizes_here);
                    (here, starts) = starts.split_at_mut(*count as usize);
                    (sizes_here, sizes) = sizes.split_at(*count as usize);
                    let mut at = place + before(count);
                    for (start, size) in here.iter_mut().zip(sizes_here) {
                        *start = at;
                        at += size;
                    }
                }
            }
        }
        let level = take(&mut self.tools.states[column].level);
        let done = self.place_items(column, item, &level, places, &mut items, out);
        self.tools.states[column].level = level;
        self.tools.places.push(items);
        done
    }

    /// Writes items to `items`, where each begins.
    fn place_items(
        &mut self,
        column: usize,
        item: &ItemNode,
        level: &Level,
        places: &[u32],
        items: &mut [u32],
        out: &mut [u8],
    ) -> Result<(), Damage> {
        let presence = match item.presence {
            Some(presence) => {
                self.write_item_nulls(column, presence, places, out);
                self.tools.states[presence].presence
            }
            None => Presence::All,
        };
        // What stands before contents, and nulls: an item that is null or has no bytes of its own is zeros.
        let below = &self.tools.states[item.slot];
        match item.extent {
            Extent::Fixed(width) if presence != Presence::All => {
                items.iter().for_each(|at| out[*at as usize..][..width as usize].fill(0));
            }
            Extent::Fixed(_) => {}
            Extent::Prefixed => {
                for (i, at) in items.iter_mut().enumerate() {
                    let size = if let Sizes::Same(size) = below.sizes { size } else { below.each[i] };
                    write_u32(out, *at, size - 4);
                    *at += 4;
                }
            }
            // A union has its tag at least.
            Extent::Records(_) if presence == Presence::All && matches!(item.node, Node::Union { .. }) => {}
            Extent::Records(_) => {
                for (i, at) in items.iter().enumerate() {
                    let size = if let Sizes::Same(size) = below.sizes { size } else { below.each[i] };
                    if size == 1 {
                        out[*at as usize] = 0;
                    }
                }
            }
        }
        match (presence, item.presence) {
            (Presence::None, _) => Ok(()),
            (Presence::Some, Some(presence)) => {
                let state = &mut self.tools.states[presence];
                let (child, members) = (take(&mut state.level), take(&mut state.members));
                let mut here = self.tools.places.pop().unwrap_or_default();
                here.clear();
                here.extend(members.iter().map(|&i| items[i as usize]));
                let done = self.place_content(&item.node, &child, &here, out);
                self.tools.places.push(here);
                let state = &mut self.tools.states[presence];
                (state.level, state.members) = (child, members);
                done
            }
            _ => self.place_content(&item.node, level, items, out),
        }
    }

    /// Writes the null bitmap of every array.
    fn write_item_nulls(&self, column: usize, presence: usize, places: &[u32], out: &mut [u8]) {
        let state = &self.tools.states[presence];
        let (mut members, mut first) = (state.members.iter().peekable(), 0);
        for (place, count) in places.iter().zip(&self.tools.states[column].values) {
            let bitmap = &mut out[*place as usize + 4..][..count.div_ceil(8) as usize];
            bitmap.fill(0);
            for i in 0..*count {
                let there = match state.presence {
                    Presence::Some => members.next_if_eq(&&(first + i)).is_some(),
                    Presence::None => false,
                    Presence::All | Presence::Unread => true,
                };
                bitmap[i as usize / 8] |= u8::from(!there) << (i % 8);
            }
            first += count;
        }
    }

    // One column.

    fn find_in_record(&mut self, node: &RecordNode, level: &Level, target: usize) -> Result<(), Damage> {
        self.claim(0, level.count, node.fixed as usize)?;
        for field in &node.fields {
            if field.null.is_some_and(|null| null.column == target) {
                self.tools.found.clone_from(level);
                return Ok(());
            }
            if !contains(&field.node, target) {
                continue;
            }
            let (presence, child, members) = self.below_field(field, level)?;
            let done = match presence {
                Presence::None => {
                    self.tools.found.begin();
                    Ok(())
                }
                _ => self.find_in(&field.node, child.as_ref().unwrap_or(level), target),
            };
            self.give_back(field, child, members);
            return done;
        }
        self.tools.found.begin();
        Ok(())
    }

    fn find_in(&mut self, node: &Node, level: &Level, target: usize) -> Result<(), Damage> {
        if level.count == 0 {
            self.tools.found.begin();
            return Ok(());
        }
        match node {
            Node::Record(record) => self.find_in_record(record, level, target),
            Node::Union { tags, alternatives } if *tags != target => {
                if !take(&mut self.tools.states[*tags].is_read) {
                    self.read_tags(*tags, alternatives.len(), level)?;
                    alternatives.iter().for_each(|node| self.tools.states[node.slot].is_read = false);
                }
                self.tools.states[*tags].is_read = true;
                let below = alternatives.iter().position(|node| record_contains(node, target)).unwrap_or(0);
                self.find_in_alternative(*tags, below, &alternatives[below], level, target)
            }
            Node::Array { counts, item } if *counts != target => {
                if !take(&mut self.tools.states[*counts].is_read) {
                    self.read_counts(*counts, item, level)?;
                }
                let items = take(&mut self.tools.states[*counts].level);
                let done = self.find_in_items(item, &items, target);
                let state = &mut self.tools.states[*counts];
                (state.level, state.is_read) = (items, true);
                done
            }
            _ => {
                self.tools.found.clone_from(level);
                Ok(())
            }
        }
    }

    fn find_in_alternative(
        &mut self,
        tags: usize,
        tag: usize,
        node: &RecordNode,
        level: &Level,
        target: usize,
    ) -> Result<(), Damage> {
        let values = take(&mut self.tools.states[tags].marks);
        let state = &mut self.tools.states[node.slot];
        let (mut child, mut members) = (take(&mut state.level), take(&mut state.members));
        if !state.is_read {
            choose(&mut child, &mut members, level, &values, tag as u8);
        }
        let done = self.find_in_record(node, &child, target);
        let state = &mut self.tools.states[node.slot];
        (state.level, state.members, state.is_read) = (child, members, true);
        self.tools.states[tags].marks = values;
        done
    }

    fn find_in_items(&mut self, item: &ItemNode, level: &Level, target: usize) -> Result<(), Damage> {
        let Some(column) = item.presence.filter(|column| *column != target) else {
            if item.presence == Some(target) {
                self.tools.found.clone_from(level);
                return Ok(());
            }
            return self.find_in(&item.node, level, target);
        };
        match self.presence(column, level)? {
            Presence::None => {
                self.tools.found.begin();
                Ok(())
            }
            Presence::Some => {
                let child = take(&mut self.tools.states[column].level);
                let done = self.find_in(&item.node, &child, target);
                self.tools.states[column].level = child;
                done
            }
            _ => self.find_in(&item.node, level, target),
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

impl FieldNode {
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

/// How often each tag is there.
fn frequencies(tags: &[u8]) -> [u32; 256] {
    let mut frequencies = [0; 256];
    for same in tags.chunk_by(|a, b| a == b) {
        frequencies[usize::from(same[0])] += same.len() as u32;
    }
    frequencies
}

/// Makes `child` the level of the records with this tag; where all or none have it, without looking at them.
fn choose_members(
    child: &mut Level,
    members: &mut Vec<u32>,
    level: &Level,
    tags: &[u8],
    tag: u8,
    frequency: u32,
) {
    if frequency == 0 {
        child.begin();
        members.clear();
    } else if frequency as usize == tags.len() {
        child.clone_from(level);
        members.clear();
        members.extend(0..level.kept() as u32);
    } else {
        choose(child, members, level, tags, tag);
    }
}

fn ends_to_lengths(ends: &mut [u32]) {
    let mut start = 0;
    for end in ends {
        (*end, start) = (*end - start, *end);
    }
}

fn contains(node: &Node, column: usize) -> bool {
    match node {
        Node::Leaf { column: own, .. } | Node::Bytes { column: own } => *own == column,
        Node::Record(record) => record_contains(record, column),
        Node::Union { tags, alternatives } => {
            *tags == column || alternatives.iter().any(|record| record_contains(record, column))
        }
        Node::Array { counts, item } => {
            *counts == column || item.presence == Some(column) || contains(&item.node, column)
        }
    }
}

fn record_contains(record: &RecordNode, column: usize) -> bool {
    record
        .fields
        .iter()
        .any(|field| field.null.is_some_and(|null| null.column == column) || contains(&field.node, column))
}
