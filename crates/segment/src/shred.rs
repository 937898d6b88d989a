//! Takes bodies apart into columns, one level of the plan at a time: every step runs over all values of a column.

use crate::canonical::NotCanonical;
use crate::column::{self, ColumnHabit};
use crate::decimals::{self, Decimals};
use crate::encoding::Tier;
use crate::follow::{Field, RecordHabit};
use crate::gather::{gather, gather_all, gather_even};
use crate::head::{Chunk, crc32c};
use crate::level::Level;
use crate::plan::{ColumnKind, FieldNode, GroupPlan, ItemNode, Node, Null, RecordNode};
use crate::rule::Rule;
use crate::slots::Slots;
use crate::spare::Ints;
use crate::stats::Stats;
use crate::transpose::extent;
use crate::values::Values;
use std::collections::BTreeMap;
use std::ops::Range;

/// A range of the bytes of bodies.
pub(crate) type Span = Range<u32>;

/// Columns of one block, in order of their numbers within a record type.
pub(crate) struct Chunks<'a> {
    pub tier: Tier,
    pub habits: &'a mut Habits,
    /// The record type whose columns are written; [`OWN`](crate::head::OWN) for the block's own.
    pub type_id: u16,
    pub list: Vec<Chunk>,
    pub bytes: Vec<u8>,
}

/// What is remembered from block to block, by record type and number of column; of records by that of their first column.
#[derive(Debug, Clone, Default)]
pub(crate) struct Habits {
    columns: BTreeMap<(u16, u16), ColumnHabit>,
    records: BTreeMap<(u16, u16), RecordHabit>,
}

impl Chunks<'_> {
    /// Takes what `write` appends as a column.
    pub fn add(
        &mut self,
        group: u16,
        column: usize,
        range: Option<(i64, i64)>,
        write: impl FnOnce(Tier, &mut ColumnHabit, &mut Vec<u8>),
    ) {
        let (start, column) = (self.bytes.len(), column as u16);
        let habit = self.habits.columns.entry((self.type_id, column)).or_default();
        write(self.tier, habit, &mut self.bytes);
        let crc = crc32c(&self.bytes[start..]);
        let len = (self.bytes.len() - start) as u32;
        self.list.push(Chunk { group, column, offset: 0, len, crc, range });
    }

    /// Adds a column of integers.
    pub fn add_ints(&mut self, group: u16, column: usize, values: &[i64], ends: &[u32]) {
        let stats = Stats::of(values);
        self.add(group, column, stats.range(values), |tier, habit, out| match stats.differing {
            0 => column::write_constant(stats.min, out),
            _ => column::write_ints(values, ends, tier, &mut habit.ints, out),
        });
    }

    /// Adds a column of texts.
    pub fn add_strings(&mut self, group: u16, column: usize, spans: &[Span], arena: &[u8]) {
        let (ends, content) = texts(spans, arena);
        self.add(group, column, None, |tier, _, out| column::write_strings(&ends, &content, tier, out));
    }
}

/// Texts one after the other, and where each ends.
fn texts(spans: &[Span], arena: &[u8]) -> (Vec<u32>, Vec<u8>) {
    let (mut ends, mut content) = (Vec::with_capacity(spans.len()), Vec::new());
    for span in spans {
        content.extend_from_slice(of(arena, span));
        ends.push(content.len() as u32);
    }
    (ends, content)
}

/// Bodies of one record type.
pub(crate) struct Bodies<'a> {
    pub arena: &'a [u8],
    /// Where each begins.
    pub starts: &'a [u32],
    /// What came as columns.
    pub slots: Option<Slots<'a>>,
    /// `None`: they have been found to be canonical. Else what the values of each column may be.
    pub rules: Option<&'a [Rule]>,
}

/// Splits bodies into columns; `level` has their runs. `complete`: the fields that [`gather_complete`] gives, if the caller
/// has them.
///
/// # Errors
/// When a column does not follow its rule, or bodies have no columns. Then nothing is added. Bodies may have passed that are not
/// canonical, but then they are others than the columns give back.
pub(crate) fn shred(
    plan: &GroupPlan,
    group: u16,
    Bodies { arena, starts, slots, rules }: Bodies<'_>,
    level: &Level,
    complete: Option<Vec<Field>>,
    chunks: &mut Chunks,
) -> Result<(), NotCanonical> {
    let (first, start) = (chunks.list.len(), chunks.bytes.len());
    let mut shredder = Shredder { group, arena, rules, chunks, complete, slots: slots.as_ref() };
    let shredded = shredder.record(&plan.root, starts, level);
    let Chunks { list, bytes, .. } = chunks;
    match shredded {
        Ok(()) => sort_by_column(&mut list[first..], bytes),
        Err(_) => {
            list.truncate(first);
            bytes.truncate(start);
        }
    }
    shredded
}

/// Fixed fields are written before the others: puts the columns into the order of their numbers.
fn sort_by_column(list: &mut [Chunk], bytes: &mut Vec<u8>) {
    let total: usize = list.iter().map(|chunk| chunk.len as usize).sum();
    let mut at = bytes.len() - total;
    let old = bytes.split_off(at);
    let base = at;
    for chunk in list.iter_mut() {
        chunk.offset = at as u32;
        at += chunk.len as usize;
    }
    list.sort_by_key(|chunk| chunk.column);
    for chunk in list.iter() {
        let from = chunk.offset as usize - base;
        bytes.extend_from_slice(&old[from..from + chunk.len as usize]);
    }
}

/// The fields of eight bytes of records that have nothing nullable, whose bodies begin at `bodies`. `rows`: their numbers, if
/// `arena` has nothing but bodies of their length; `slots`: what came as columns.
pub(crate) fn gather_complete(
    record: &RecordNode,
    arena: &[u8],
    bodies: &[u32],
    (rows, slots): (Option<&[u16]>, Option<&Slots<'_>>),
) -> Vec<Field> {
    let leaf = |field: &FieldNode| match field.node {
        Node::Leaf { column, kind, .. } if can_be_followed(kind, bodies.len()) => {
            Some((column, kind, field.offset))
        }
        _ => None,
    };
    let fields: Vec<(usize, ColumnKind, u32)> = record.fields.iter().filter_map(leaf).collect();
    if let Some(values) = slots.and_then(|slots| columns_of(slots, &fields)) {
        return fields_of(&fields, values);
    }
    let offsets: Vec<u32> = fields.iter().map(|(_, _, offset)| *offset).collect();
    let values = rows.and_then(|rows| gather_even(arena, rows, record.fixed, &offsets));
    fields_of(&fields, values.unwrap_or_else(|| gather_all(arena, bodies, &offsets)))
}

/// The values of fields that came as columns; `None`: not all of them did.
fn columns_of(slots: &Slots<'_>, fields: &[(usize, ColumnKind, u32)]) -> Option<Vec<Ints>> {
    fields.iter().map(|(column, _, _)| slots.column(*column)).collect()
}

/// Fields of eight bytes, given by column, kind and offset.
fn gather_fields(fields: &[(usize, ColumnKind, u32)], arena: &[u8], bodies: &[u32]) -> Vec<Field> {
    let offsets: Vec<u32> = fields.iter().map(|(_, _, offset)| *offset).collect();
    fields_of(fields, gather_all(arena, bodies, &offsets))
}

fn fields_of(fields: &[(usize, ColumnKind, u32)], values: Vec<Ints>) -> Vec<Field> {
    fields.iter().zip(values).map(|(&(column, kind, _), values)| Field::new(column, kind, values)).collect()
}

struct Shredder<'a, 'b> {
    group: u16,
    arena: &'a [u8],
    /// [`Bodies::rules`].
    rules: Option<&'a [Rule]>,
    chunks: &'a mut Chunks<'b>,
    /// Of the first record: its complete fields, …
    complete: Option<Vec<Field>>,
    /// … and those that came as columns.
    slots: Option<&'a Slots<'a>>,
}

/// Where values lie.
struct Locations {
    starts: Vec<u32>,
    /// Only for values whose ends are not implied.
    ends: Vec<u32>,
}

impl Locations {
    fn pick(&self, members: &[u32]) -> Self {
        let ends = if self.ends.is_empty() { Vec::new() } else { pick(&self.ends, members) };
        Self { starts: pick(&self.starts, members), ends }
    }

    fn spans(&self) -> Vec<Span> {
        self.starts.iter().zip(&self.ends).map(|(start, end)| *start..*end).collect()
    }
}

/// One byte of the null bitmap of all bodies.
#[derive(Default)]
struct NullBits {
    byte: Option<u32>,
    bits: Vec<u8>,
    /// Bits that any body has, and those that all have.
    any: u8,
    all: u8,
}

impl NullBits {
    fn load(&mut self, arena: &[u8], bodies: &[u32], byte: u32) {
        if self.byte != Some(byte) {
            self.byte = Some(byte);
            self.bits.clear();
            self.bits.extend(bodies.iter().map(|body| arena[(body + byte) as usize]));
            self.any = self.bits.iter().fold(0, |any, bits| any | bits);
            self.all = self.bits.iter().fold(u8::MAX, |all, bits| all & bits);
        }
    }
}

impl Shredder<'_, '_> {
    fn record(&mut self, node: &RecordNode, bodies: &[u32], level: &Level) -> Result<(), NotCanonical> {
        if bodies.is_empty() {
            return Ok(());
        }
        self.reach(bodies, node.fixed)?;
        let (mut nulls, mut complete) = (NullBits::default(), Vec::new());
        let slots = self.slots.take();
        for field in &node.fields {
            let Node::Leaf { column, kind, width } = field.node else { continue };
            match self.present((field, &node.fields), &mut nulls, bodies, level) {
                Some((members, child)) => match slots.and_then(|slots| slots.column(column)) {
                    Some(values) => self.slots(column, kind, &pick(&values, &members), &child)?,
                    None => {
                        self.leaf(column, kind, (field.offset, width), &pick(bodies, &members), &child)?
                    }
                },
                None if can_be_followed(kind, level.count) => complete.push((column, kind, field.offset)),
                None => match slots.and_then(|slots| slots.column(column)) {
                    Some(values) => self.slots(column, kind, &values, level)?,
                    None => self.leaf(column, kind, (field.offset, width), bodies, level)?,
                },
            }
        }
        self.complete(&complete, (bodies, slots), level)?;
        for field in &node.fields {
            if matches!(field.node, Node::Leaf { .. }) {
                continue;
            }
            let contents = self.contents(node, field, bodies);
            match self.present((field, &node.fields), &mut nulls, bodies, level) {
                Some((members, child)) => self.content(&field.node, &contents.pick(&members), &child)?,
                None => self.content(&field.node, &contents, level)?,
            }
        }
        Ok(())
    }

    /// Whether the bytes have something of this length at all places.
    fn reach(&self, places: &[u32], length: u32) -> Result<(), NotCanonical> {
        let last = places.iter().copied().max().unwrap_or(0);
        match last as usize + length as usize <= self.arena.len() {
            true => Ok(()),
            false => Err(NotCanonical),
        }
    }

    /// Where the contents of a field lie. It may be outside of bodies that are not canonical.
    fn contents(&self, node: &RecordNode, field: &FieldNode, bodies: &[u32]) -> Locations {
        let start = |body: &u32| match field.before {
            None => body + node.fixed,
            Some(before) => body.wrapping_add(self.u32_at(body + before)),
        };
        let end = |body: &u32| body.wrapping_add(self.u32_at(body + field.offset));
        let ends = match field.node {
            Node::Bytes { .. } => bodies.iter().map(end).collect(),
            _ => Vec::new(),
        };
        Locations { starts: bodies.iter().map(start).collect(), ends }
    }

    /// Writes which values are null, and gives the others; `None` if none is. Among the fields of the record that lie in the
    /// bodies may be one that tells.
    fn present(
        &mut self,
        (field, siblings): (&FieldNode, &[FieldNode]),
        nulls: &mut NullBits,
        bodies: &[u32],
        level: &Level,
    ) -> Option<(Vec<u32>, Level)> {
        let Null { byte, mask, column } = field.null?;
        nulls.load(self.arena, bodies, byte);
        if nulls.any & mask == 0 {
            return None;
        }
        if nulls.all & mask != 0 {
            let nothing = Some((0, 0));
            self.chunks.add(self.group, column, nothing, |_, _, out| column::write_constant(0, out));
            let mut child = Level::default();
            child.begin();
            return Some((Vec::new(), child));
        }
        let bits = &nulls.bits;
        if let Some(other) = self.opposite(siblings, (bits, mask), bodies) {
            let (mut members, mut child) = (Vec::new(), Level::default());
            child.filter(level, &mut members, |i| bits[i] & mask == 0);
            self.chunks.add(self.group, column, Some((0, 1)), |_, _, out| column::write_opposite(other, out));
            return Some((members, child));
        }
        self.presence(column, level, |i| bits[i] & mask == 0)
    }

    /// The column of a field of one byte that is always there and is 1 exactly where another one is null: as the size of a level is
    /// null where its action is to delete it.
    fn opposite(&self, siblings: &[FieldNode], (bits, mask): (&[u8], u8), bodies: &[u32]) -> Option<u16> {
        let bytes = siblings.iter().filter_map(|sibling| match sibling.node {
            Node::Leaf { column, kind: ColumnKind::Int { .. }, width: 1 } if sibling.null.is_none() => {
                Some((column as u16, sibling.offset))
            }
            _ => None,
        });
        let mut tells = bytes.filter(|(_, offset)| {
            let is_null = bits.iter().map(|bits| u8::from(bits & mask != 0));
            bodies.iter().zip(is_null).all(|(body, is_null)| self.arena[(body + offset) as usize] == is_null)
        });
        tells.next().map(|(column, _)| column)
    }

    fn presence(
        &mut self,
        column: usize,
        level: &Level,
        is_present: impl Fn(usize) -> bool,
    ) -> Option<(Vec<u32>, Level)> {
        let (mut members, mut child) = (Vec::new(), Level::default());
        child.filter(level, &mut members, &is_present);
        if members.len() == level.count {
            return None;
        }
        let bits: Vec<i64> = (0..level.count).map(|i| i64::from(is_present(i))).collect();
        self.chunks.add_ints(self.group, column, &bits, &level.ends);
        Some((members, child))
    }

    fn content(&mut self, node: &Node, contents: &Locations, level: &Level) -> Result<(), NotCanonical> {
        if contents.starts.is_empty() {
            return Ok(());
        }
        match node {
            Node::Leaf { column, kind, width } => {
                self.leaf(*column, *kind, (0, *width), &contents.starts, level)
            }
            Node::Bytes { column } => self.texts(*column, &contents.spans()),
            Node::Record(record) => self.record(record, &contents.starts, level),
            Node::Union { tags, alternatives } => self.union(*tags, alternatives, &contents.starts, level),
            Node::Array { counts, item } => self.array(*counts, item, &contents.starts, level),
        }
    }

    fn union(
        &mut self,
        column: usize,
        alternatives: &[RecordNode],
        contents: &[u32],
        level: &Level,
    ) -> Result<(), NotCanonical> {
        self.reach(contents, 1)?;
        let tags: Vec<i64> = contents.iter().map(|at| self.arena[*at as usize].into()).collect();
        self.follows(column, &tags, Stats::of(&tags))?;
        self.chunks.add_ints(self.group, column, &tags, &level.ends);
        for (tag, alternative) in alternatives.iter().enumerate() {
            let tag = tag as i64;
            if !tags.contains(&tag) {
                continue;
            }
            let (mut members, mut child) = (Vec::new(), Level::default());
            child.filter(level, &mut members, |i| tags[i] == tag);
            let bodies: Vec<u32> = members.iter().map(|&i| contents[i as usize] + 1).collect();
            self.record(alternative, &bodies, &child)?;
        }
        Ok(())
    }

    fn array(
        &mut self,
        column: usize,
        item: &ItemNode,
        contents: &[u32],
        level: &Level,
    ) -> Result<(), NotCanonical> {
        self.reach(contents, 4)?;
        let counts: Vec<u32> = contents.iter().map(|content| self.u32_at(*content)).collect();
        // An item has at least one byte.
        if counts.iter().map(|count| u64::from(*count)).sum::<u64>() > self.arena.len() as u64 {
            return Err(NotCanonical);
        }
        let wide: Vec<i64> = counts.iter().map(|count| i64::from(*count)).collect();
        self.chunks.add_ints(self.group, column, &wide, &level.ends);
        let mut child = Level::default();
        child.expand(level, &counts);
        let mut items = Locations { starts: Vec::with_capacity(child.count), ends: Vec::new() };
        let mut nulls = Vec::new();
        for (content, count) in contents.iter().zip(&counts) {
            self.items(item, *content, *count, &mut items, &mut nulls).ok_or(NotCanonical)?;
        }
        match item.presence.and_then(|column| self.presence(column, &child, |i| !nulls[i])) {
            Some((members, present)) => self.content(&item.node, &items.pick(&members), &present),
            None => self.content(&item.node, &items, &child),
        }
    }

    /// Appends the content of each item of an array, and which are null if they may be; `None`: they are not there.
    fn items(
        &self,
        item: &ItemNode,
        content: u32,
        count: u32,
        items: &mut Locations,
        nulls: &mut Vec<bool>,
    ) -> Option<()> {
        let (bitmap, needs_ends) = (content + 4, matches!(item.node, Node::Bytes { .. }));
        let mut at = bitmap + if item.presence.is_some() { count.div_ceil(8) } else { 0 };
        if at as usize > self.arena.len() {
            return None;
        }
        for i in 0..count {
            let null = item.presence.is_some() && self.arena[(bitmap + i / 8) as usize] >> (i % 8) & 1 == 1;
            if item.presence.is_some() {
                nulls.push(null);
            }
            let (skip, length) =
                if null { (item.null_width, 0) } else { extent(self.arena, &item.extent, at)? };
            items.starts.push(at + skip);
            at = (at + skip).checked_add(length).filter(|end| *end as usize <= self.arena.len())?;
            if needs_ends {
                items.ends.push(at);
            }
        }
        Some(())
    }

    /// Whether values follow the rule of their column, if that is to be found out.
    fn follows(&self, column: usize, values: &[i64], stats: Stats) -> Result<(), NotCanonical> {
        match self.rules.and_then(|rules| rules.get(column)) {
            Some(rule) if !rule.holds_of_slots(values, stats) => Err(NotCanonical),
            _ => Ok(()),
        }
    }

    /// Writes texts, which may be outside of the bytes.
    fn texts(&mut self, column: usize, spans: &[Span]) -> Result<(), NotCanonical> {
        let is_there = |span: &Span| span.start <= span.end && span.end as usize <= self.arena.len();
        if !spans.iter().all(is_there) {
            return Err(NotCanonical);
        }
        let (ends, content) = texts(spans, self.arena);
        match self.rules.and_then(|rules| rules.get(column)) {
            Some(rule) if !rule.holds(Values::Bytes(&ends, &content)) => return Err(NotCanonical),
            _ => {}
        }
        self.chunks.add(self.group, column, None, |tier, _, out| {
            column::write_strings(&ends, &content, tier, out);
        });
        Ok(())
    }

    fn u32_at(&self, at: u32) -> u32 {
        crate::head::u32_at(self.arena, at as usize)
    }

    /// Writes fields of fixed width: the slots of `width` bytes that lie `offset` after `starts`.
    fn leaf(
        &mut self,
        column: usize,
        kind: ColumnKind,
        (offset, width): (u32, u32),
        starts: &[u32],
        level: &Level,
    ) -> Result<(), NotCanonical> {
        if starts.is_empty() {
            return Ok(());
        }
        if let ColumnKind::Ascii(_) = kind {
            let unpadded = |start: &u32| {
                let start = start + offset;
                let text = of(self.arena, &(start..start + width));
                let length = text.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
                start..start + length as u32
            };
            let texts: Vec<Span> = starts.iter().map(unpadded).collect();
            return self.texts(column, &texts);
        }
        let signed = matches!(kind, ColumnKind::Int { signed: true, .. });
        self.slots(column, kind, &gather(self.arena, starts, offset, width, signed), level)
    }

    /// Writes the slots of fields of fixed width.
    fn slots(
        &mut self,
        column: usize,
        kind: ColumnKind,
        values: &[i64],
        level: &Level,
    ) -> Result<(), NotCanonical> {
        if !values.is_empty() {
            let stats = Stats::of(values);
            self.follows(column, values, stats)?;
            self.values(column, kind, values, stats, level);
        }
        Ok(())
    }

    fn values(&mut self, column: usize, kind: ColumnKind, values: &[i64], stats: Stats, level: &Level) {
        let ends = &level.ends[..];
        let decimals = match kind {
            ColumnKind::Decimal64 if !stats.are_plain_decimals() => Some(Decimals::of(values)),
            _ => None,
        };
        let range = match &decimals {
            Some(decimals) => decimals.range(values).or_else(|| decimals::range(values)),
            None => range_of(kind, values, stats),
        };
        self.chunks.add(self.group, column, range, |tier, habit, out| {
            if stats.differing == 0 {
                return column::write_constant(stats.min, out);
            }
            match (kind, decimals) {
                (ColumnKind::F64, _) => {
                    let floats: Vec<f64> = values.iter().map(|bits| f64::from_bits(*bits as u64)).collect();
                    column::write_floats(&floats, ends, tier, &mut habit.floats, out);
                }
                (ColumnKind::F32, _) => {
                    let floats: Vec<f32> = values.iter().map(|bits| f32::from_bits(*bits as u32)).collect();
                    column::write_floats(&floats, ends, tier, &mut habit.floats, out);
                }
                (_, Some(decimals)) => {
                    out.push(column::DECIMALS);
                    decimals.write(ends, tier, habit, out);
                }
                _ => column::write_ints(values, ends, tier, &mut habit.ints, out),
            }
        });
    }

    /// Writes fields of one record that all its bodies have, each as it is or as the difference from another one.
    fn complete(
        &mut self,
        fields: &[(usize, ColumnKind, u32)],
        (bodies, slots): (&[u32], Option<&Slots<'_>>),
        level: &Level,
    ) -> Result<(), NotCanonical> {
        let Some((first, _, _)) = fields.first() else { return Ok(()) };
        let key = (self.chunks.type_id, *first as u16);
        let fields = self.complete.take().unwrap_or_else(|| {
            let columns = slots.and_then(|slots| columns_of(slots, fields));
            columns
                .map_or_else(|| gather_fields(fields, self.arena, bodies), |values| fields_of(fields, values))
        });
        fields.iter().try_for_each(|field| self.follows(field.column, &field.values, field.stats))?;
        let mut habit = self.chunks.habits.records.remove(&key).unwrap_or_default();
        let followed = habit.choose(&fields, &level.ends);
        for column in &followed.changed {
            self.chunks.habits.columns.remove(&(key.0, *column as u16));
        }
        let start = self.chunks.bytes.len();
        for (field, choice) in fields.iter().zip(&followed.choices) {
            match *choice {
                None => self.values(field.column, field.kind, &field.values, field.stats, level),
                Some((kind, other)) => self.follower(field, kind, &fields[other], level),
            }
        }
        habit.note(level.count, self.chunks.bytes.len() - start);
        self.chunks.habits.records.insert(key, habit);
        Ok(())
    }

    fn follower(&mut self, field: &Field, kind: u8, other: &Field, level: &Level) {
        let range = range_of(field.kind, &field.values, field.stats);
        let difference = column::difference(kind, &field.values, &other.values, &level.ends);
        self.chunks.add(self.group, field.column, range, |tier, habit, out| {
            let number = other.column as u16;
            column::write_against(kind, number, &difference, &level.ends, tier, &mut habit.ints, out);
        });
    }
}

fn can_be_followed(kind: ColumnKind, count: usize) -> bool {
    matches!(kind, ColumnKind::Int { width: 8, .. } | ColumnKind::Decimal64)
        && count <= crate::encoding::COUNT_MAX
}

fn pick<T: Copy>(places: &[T], members: &[u32]) -> Vec<T> {
    members.iter().map(|&i| places[i as usize]).collect()
}

fn of<'a>(arena: &'a [u8], span: &Span) -> &'a [u8] {
    &arena[span.start as usize..span.end as usize]
}

/// Smallest and largest value, where the kind has an order. Decimals are plain.
fn range_of(kind: ColumnKind, values: &[i64], stats: Stats) -> Option<(i64, i64)> {
    let by = |order: &dyn Fn(&i64) -> i64| {
        let (min, max) = (values.iter().min_by_key(|v| order(v))?, values.iter().max_by_key(|v| order(v))?);
        Some((*min, *max))
    };
    match kind {
        ColumnKind::Int { width: 8, signed: false } if stats.min < 0 && stats.max >= 0 => {
            by(&|value| value ^ i64::MIN)
        }
        ColumnKind::Decimal64 if stats.min < 0 => decimals::range(values),
        ColumnKind::F64 => {
            let floats = || values.iter().map(|bits| f64::from_bits(*bits as u64));
            if floats().any(f64::is_nan) {
                return None;
            }
            by(&|bits| ordered(*bits))
        }
        ColumnKind::F32 => {
            let floats = || values.iter().map(|bits| f32::from_bits(*bits as u32));
            if floats().any(f32::is_nan) {
                return None;
            }
            by(&|bits| ordered(i64::from(*bits as i32) << 32))
        }
        _ => stats.range(values),
    }
}

/// Bits of a float as an integer of the same order.
fn ordered(bits: i64) -> i64 {
    bits ^ ((bits >> 63) as u64 >> 1) as i64
}
