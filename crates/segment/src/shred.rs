//! Takes bodies apart into columns, one level of the plan at a time: every step runs over all values of a column.

use crate::column::{self, AGAINST, PREVIOUS, difference};
use crate::decimals;
use crate::encoding::{Tier, estimate_bits, previous_in_run};
use crate::head::{Chunk, crc32c};
use crate::level::Level;
use crate::plan::{ColumnKind, Extent, FieldNode, GroupPlan, ItemNode, Node, Null, RecordNode};
use std::ops::Range;

/// A piece of the bytes that bodies are in.
pub(crate) type Span = Range<u32>;

/// Columns of one block, in order of their numbers within a record type.
pub(crate) struct Chunks {
    pub tier: Tier,
    pub list: Vec<Chunk>,
    pub bytes: Vec<u8>,
}

impl Chunks {
    /// Takes what `write` appends as a column.
    pub fn add(
        &mut self,
        group: u16,
        column: usize,
        range: Option<(i64, i64)>,
        write: impl FnOnce(Tier, &mut Vec<u8>),
    ) {
        let start = self.bytes.len();
        write(self.tier, &mut self.bytes);
        let crc = crc32c(&self.bytes[start..]);
        let (len, column) = ((self.bytes.len() - start) as u32, column as u16);
        self.list.push(Chunk { group, column, offset: 0, len, crc, range });
    }

    /// Adds a column of integers.
    pub fn add_ints(&mut self, group: u16, column: usize, values: &[i64], ends: &[u32]) {
        let range = signed_range(values);
        self.add(group, column, range, |tier, out| column::write_ints(values, ends, tier, out));
    }

    /// Adds a column of texts.
    pub fn add_strings(&mut self, group: u16, column: usize, spans: &[Span], arena: &[u8]) {
        let (mut ends, mut content) = (Vec::with_capacity(spans.len()), Vec::new());
        for span in spans {
            content.extend_from_slice(of(arena, span));
            ends.push(content.len() as u32);
        }
        self.add(group, column, None, |tier, out| column::write_strings(&ends, &content, tier, out));
    }
}

/// Takes the bodies of one record type apart. They are canonical; `level` has their runs.
pub(crate) fn shred(
    plan: &GroupPlan,
    group: u16,
    arena: &[u8],
    bodies: &[Span],
    level: &Level,
    chunks: &mut Chunks,
) {
    let first = chunks.list.len();
    Shredder { group, arena, chunks }.record(&plan.root, bodies, level);
    let Chunks { list, bytes, .. } = chunks;
    sort_by_column(&mut list[first..], bytes);
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

struct Shredder<'a> {
    group: u16,
    arena: &'a [u8],
    chunks: &'a mut Chunks,
}

/// A fixed-width field without nulls: others of its record may be predicted from it.
struct Plain {
    column: usize,
    kind: ColumnKind,
    values: Vec<i64>,
}

impl Shredder<'_> {
    fn record(&mut self, node: &RecordNode, bodies: &[Span], level: &Level) {
        if bodies.is_empty() {
            return;
        }
        let mut plain = Vec::new();
        for field in &node.fields {
            let Node::Leaf { column, kind, width } = field.node else { continue };
            let offset = field.offset;
            let slots: Vec<Span> =
                bodies.iter().map(|body| body.start + offset..body.start + offset + width).collect();
            match self.present(field, bodies, level) {
                Some((members, child)) => {
                    self.leaf(column, kind, &pick(&slots, &members), &child);
                }
                None if can_be_plain(kind, level.count) => {
                    let values = self.ints(kind, &slots);
                    plain.push(Plain { column, kind, values });
                }
                None => self.leaf(column, kind, &slots, level),
            }
        }
        self.predicted(plain, level);
        for field in &node.fields {
            if matches!(field.node, Node::Leaf { .. }) {
                continue;
            }
            let contents = self.contents(node, field, bodies);
            match self.present(field, bodies, level) {
                Some((members, child)) => self.content(&field.node, &pick(&contents, &members), &child),
                None => self.content(&field.node, &contents, level),
            }
        }
    }

    fn contents(&self, node: &RecordNode, field: &FieldNode, bodies: &[Span]) -> Vec<Span> {
        let of_body = |body: &Span| {
            let start = field.before.map_or(node.fixed, |before| self.u32_at(body.start + before));
            body.start + start..body.start + self.u32_at(body.start + field.offset)
        };
        bodies.iter().map(of_body).collect()
    }

    /// Writes which values are null, and gives the others; `None` if none is.
    fn present(&mut self, field: &FieldNode, bodies: &[Span], level: &Level) -> Option<(Vec<u32>, Level)> {
        let Null { byte, mask, column } = field.null?;
        let arena = self.arena;
        self.presence(column, level, |i| arena[(bodies[i].start + byte) as usize] & mask == 0)
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

    fn content(&mut self, node: &Node, contents: &[Span], level: &Level) {
        if contents.is_empty() {
            return;
        }
        match node {
            Node::Leaf { column, kind, .. } => self.leaf(*column, *kind, contents, level),
            Node::Bytes { column } => self.chunks.add_strings(self.group, *column, contents, self.arena),
            Node::Record(record) => self.record(record, contents, level),
            Node::Union { tags, alternatives } => self.union(*tags, alternatives, contents, level),
            Node::Array { counts, item } => self.array(*counts, item, contents, level),
        }
    }

    fn union(&mut self, column: usize, alternatives: &[RecordNode], contents: &[Span], level: &Level) {
        let tags: Vec<i64> = contents.iter().map(|c| self.arena[c.start as usize].into()).collect();
        self.chunks.add_ints(self.group, column, &tags, &level.ends);
        for (tag, alternative) in alternatives.iter().enumerate() {
            let (mut members, mut child) = (Vec::new(), Level::default());
            child.filter(level, &mut members, |i| tags[i] == tag as i64);
            let bodies: Vec<Span> =
                members.iter().map(|&i| contents[i as usize].start + 1..contents[i as usize].end).collect();
            self.record(alternative, &bodies, &child);
        }
    }

    fn array(&mut self, column: usize, item: &ItemNode, contents: &[Span], level: &Level) {
        let counts: Vec<u32> = contents.iter().map(|content| self.u32_at(content.start)).collect();
        let wide: Vec<i64> = counts.iter().map(|count| i64::from(*count)).collect();
        self.chunks.add_ints(self.group, column, &wide, &level.ends);
        let mut child = Level::default();
        child.expand(level, &counts);
        let (mut items, mut nulls) = (Vec::with_capacity(child.count), Vec::new());
        for (content, count) in contents.iter().zip(&counts) {
            self.items(item, content, *count, &mut items, &mut nulls);
        }
        match item.presence.and_then(|column| self.presence(column, &child, |i| !nulls[i])) {
            Some((members, present)) => self.content(&item.node, &pick(&items, &members), &present),
            None => self.content(&item.node, &items, &child),
        }
    }

    /// Appends the content of each item of an array, and which are null if they may be.
    fn items(
        &self,
        item: &ItemNode,
        content: &Span,
        count: u32,
        items: &mut Vec<Span>,
        nulls: &mut Vec<bool>,
    ) {
        let bitmap = content.start + 4;
        let mut at = bitmap + if item.presence.is_some() { count.div_ceil(8) } else { 0 };
        for i in 0..count {
            let null = item.presence.is_some() && self.arena[(bitmap + i / 8) as usize] >> (i % 8) & 1 == 1;
            if item.presence.is_some() {
                nulls.push(null);
            }
            let (skip, length) = if null { (item.null_width, 0) } else { self.extent(&item.extent, at) };
            items.push(at + skip..at + skip + length);
            at += skip + length;
        }
    }

    /// Bytes before the content of the item at `at`, and bytes of the content.
    fn extent(&self, extent: &Extent, at: u32) -> (u32, u32) {
        match extent {
            Extent::Fixed(width) => (0, *width),
            Extent::Prefixed => (4, self.u32_at(at)),
            Extent::Records(alternatives) => {
                let tagged = alternatives.len() > 1;
                let tag = if tagged { self.arena[at as usize].into() } else { 0 };
                let (fixed, last_end) = alternatives[tag];
                let body = at + u32::from(tagged);
                let length = u32::from(tagged) + last_end.map_or(fixed, |last| self.u32_at(body + last));
                // A record without bytes is one zero byte.
                if length == 0 { (1, 0) } else { (0, length) }
            }
        }
    }

    fn u32_at(&self, at: u32) -> u32 {
        crate::head::u32_at(self.arena, at as usize)
    }

    fn ints(&self, kind: ColumnKind, slots: &[Span]) -> Vec<i64> {
        let signed = matches!(kind, ColumnKind::Int { signed: true, .. });
        slots.iter().map(|slot| int_of(of(self.arena, slot), signed)).collect()
    }

    fn leaf(&mut self, column: usize, kind: ColumnKind, slots: &[Span], level: &Level) {
        if slots.is_empty() {
            return;
        }
        if let ColumnKind::Ascii(_) = kind {
            let unpadded = |slot: &Span| {
                let text = of(self.arena, slot);
                let length = text.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
                slot.start..slot.start + length as u32
            };
            let texts: Vec<Span> = slots.iter().map(unpadded).collect();
            return self.chunks.add_strings(self.group, column, &texts, self.arena);
        }
        let values = self.ints(kind, slots);
        self.values(column, kind, &values, level);
    }

    fn values(&mut self, column: usize, kind: ColumnKind, values: &[i64], level: &Level) {
        let (ends, range) = (&level.ends[..], range_of(kind, values));
        self.chunks.add(self.group, column, range, |tier, out| {
            if column::constant(values).is_some() {
                return column::write_ints(values, ends, tier, out);
            }
            match kind {
                ColumnKind::F64 => {
                    let floats: Vec<f64> = values.iter().map(|bits| f64::from_bits(*bits as u64)).collect();
                    column::write_f64s(&floats, ends, tier, out);
                }
                ColumnKind::F32 => {
                    let floats: Vec<f32> = values.iter().map(|bits| f32::from_bits(*bits as u32)).collect();
                    column::write_f32s(&floats, ends, tier, out);
                }
                ColumnKind::Decimal64 if !decimals::are_plain(values) => {
                    out.push(column::DECIMALS);
                    decimals::write(values, ends, tier, out);
                }
                _ => column::write_ints(values, ends, tier, out),
            }
        });
    }

    /// Writes fields of one record, each as it is or by what it differs from another one.
    fn predicted(&mut self, fields: Vec<Plain>, level: &Level) {
        let choices = choose(&fields, &level.ends);
        for (field, choice) in fields.iter().zip(&choices) {
            let Some((kind, other)) = *choice else {
                self.values(field.column, field.kind, &field.values, level);
                continue;
            };
            let other = &fields[other];
            let reference = reference(kind, &other.values, &level.ends);
            let range = range_of(field.kind, &field.values);
            self.chunks.add(self.group, field.column, range, |tier, out| {
                let number = other.column as u16;
                column::write_against(kind, number, &field.values, &reference, &level.ends, tier, out);
            });
        }
    }
}

/// What each field is predicted from: kind of column and index of the other field. All follow the same one, which is not
/// predicted itself but from its own past: each is tried as the one to follow, and the one that saves most wins.
fn choose(fields: &[Plain], ends: &[u32]) -> Vec<Option<(u8, usize)>> {
    let is_candidate = |field: &Plain| {
        column::constant(&field.values).is_none()
            && (field.kind != ColumnKind::Decimal64 || decimals::are_plain(&field.values))
    };
    let candidates: Vec<usize> = (0..fields.len()).filter(|i| is_candidate(&fields[*i])).collect();
    let mut best = (0, vec![None; fields.len()]);
    if !(2..=CANDIDATES_MAX).contains(&candidates.len()) {
        return best.1;
    }
    let samples: Vec<Sample> = fields.iter().map(|field| Sample::new(&field.values, ends)).collect();
    for &leader in &candidates {
        let follows =
            |i: usize| candidates.contains(&i) && i != leader && fields[i].kind == fields[leader].kind;
        let gains: Vec<Option<(u8, u64)>> = (0..fields.len())
            .map(|i| if follows(i) { samples[i].gain(&samples[leader]) } else { None })
            .collect();
        let saved: u64 = gains.iter().flatten().map(|(_, gain)| gain).sum();
        if saved > best.0 {
            best = (saved, gains.iter().map(|gain| gain.map(|(kind, _)| (kind, leader))).collect());
        }
    }
    best.1
}

/// The first values of a field, which stand for all when ways to predict it are compared.
struct Sample<'a> {
    values: &'a [i64],
    ends: Vec<u32>,
    /// Bits that the values take alone.
    bits: u64,
}

/// Values of a [`Sample`].
const SAMPLE: usize = 4_096;

impl<'a> Sample<'a> {
    fn new(values: &'a [i64], ends: &[u32]) -> Self {
        let values = &values[..values.len().min(SAMPLE)];
        let mut ends: Vec<u32> =
            ends.iter().copied().take_while(|end| (*end as usize) < values.len()).collect();
        ends.push(values.len() as u32);
        let bits = estimate_bits(values, &ends);
        Self { values, ends, bits }
    }

    /// The better way to follow `leader`, and the bits it saves, if it saves enough.
    fn gain(&self, leader: &Self) -> Option<(u8, u64)> {
        let one = |kind| {
            let reference = reference(kind, leader.values, &self.ends);
            let bits = estimate_bits(&difference(self.values, &reference), &self.ends);
            // A prediction costs time to decode: it must save something worth having.
            let gain = (self.bits - self.bits / 16).saturating_sub(bits);
            (gain > 0).then_some((kind, gain))
        };
        [AGAINST, PREVIOUS].into_iter().filter_map(one).max_by_key(|(_, gain)| *gain)
    }
}

/// Records with more columns than this that might be predicted from each other are not tried: the cost is their square.
const CANDIDATES_MAX: usize = 16;

fn reference(kind: u8, values: &[i64], ends: &[u32]) -> Vec<i64> {
    if kind == AGAINST {
        return values.into();
    }
    let mut shifted = Vec::with_capacity(values.len());
    previous_in_run(values, ends, &mut shifted);
    shifted
}

fn can_be_plain(kind: ColumnKind, count: usize) -> bool {
    matches!(kind, ColumnKind::Int { width: 8, .. } | ColumnKind::Decimal64)
        && count <= crate::encoding::COUNT_MAX
}

fn pick(spans: &[Span], members: &[u32]) -> Vec<Span> {
    members.iter().map(|&i| spans[i as usize].clone()).collect()
}

fn of<'a>(arena: &'a [u8], span: &Span) -> &'a [u8] {
    &arena[span.start as usize..span.end as usize]
}

/// A slot of up to eight bytes as an integer.
#[inline]
fn int_of(slot: &[u8], signed: bool) -> i64 {
    if let Some(wide) = slot.first_chunk::<8>() {
        return i64::from_le_bytes(*wide);
    }
    let mut bytes = [0; 8];
    bytes[..slot.len()].copy_from_slice(slot);
    let value = i64::from_le_bytes(bytes);
    let unused = 64 - 8 * slot.len() as u32;
    if signed && unused < 64 { value << unused >> unused } else { value }
}

fn signed_range(values: &[i64]) -> Option<(i64, i64)> {
    Some((*values.iter().min()?, *values.iter().max()?))
}

/// Smallest and largest value, where the kind has an order.
fn range_of(kind: ColumnKind, values: &[i64]) -> Option<(i64, i64)> {
    let by = |order: &dyn Fn(&i64) -> i64| {
        let (min, max) = (values.iter().min_by_key(|v| order(v))?, values.iter().max_by_key(|v| order(v))?);
        Some((*min, *max))
    };
    match kind {
        ColumnKind::Int { width: 8, signed: false } => by(&|value| value ^ i64::MIN),
        ColumnKind::Decimal64
            if decimals::are_plain(values) && values.first().is_some_and(|first| *first >= 0) =>
        {
            signed_range(values)
        }
        ColumnKind::Decimal64 => decimal_range(values),
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
        _ => signed_range(values),
    }
}

/// Bits of a float as an integer of the same order.
fn ordered(bits: i64) -> i64 {
    bits ^ ((bits >> 63) as u64 >> 1) as i64
}

fn decimal_range(values: &[i64]) -> Option<(i64, i64)> {
    use tapedb_schema::Decimal64;
    let decimal = |bits: &i64| Decimal64::from_bits(*bits as u64);
    let (mut min, mut max) = (decimal(values.first()?), decimal(values.first()?));
    for value in values.iter().map(decimal) {
        if value.numeric_cmp(&min)?.is_lt() {
            min = value;
        }
        if value.numeric_cmp(&max)?.is_gt() {
            max = value;
        }
    }
    Some((min.to_bits() as i64, max.to_bits() as i64))
}
