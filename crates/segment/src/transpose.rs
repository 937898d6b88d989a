//! Bodies as columns, without a block: for rows that are in no segment yet.

use crate::gather::gather;
use crate::head::u32_at;
use crate::plan::{ColumnKind, Extent, FieldNode, GroupPlan, ItemNode, Node, RecordNode};
use crate::values::ColumnValues;
use std::ops::Range;

/// Appends the fields of bodies of one record type to columns: those of `wanted` numbers, ascending, each to its entry of
/// `out`. The values are those that [`Decoder::column`](crate::Decoder::column) gives for a block of these bodies, in the
/// order of `bodies`, which has the places in `arena` where they begin.
///
/// # Panics
/// When a body does not match the record type: callers check them with
/// [`Layouts::check`](tapedb_codec::dynamic::Layouts::check).
pub fn transpose(
    plan: &GroupPlan,
    (arena, bodies): (&[u8], &[u32]),
    wanted: &[u16],
    out: &mut [ColumnValues],
) {
    Transposer { arena, wanted, out }.record(&plan.root, bodies);
}

struct Transposer<'a> {
    arena: &'a [u8],
    wanted: &'a [u16],
    out: &'a mut [ColumnValues],
}

impl Transposer<'_> {
    /// The output of a column, if it is wanted.
    fn column(&mut self, column: usize) -> Option<&mut ColumnValues> {
        let index = self.wanted.binary_search(&(column as u16)).ok()?;
        self.out.get_mut(index)
    }

    fn wants_any(&self, columns: Option<Range<usize>>) -> bool {
        columns.is_some_and(|columns| {
            let first = self.wanted.partition_point(|wanted| usize::from(*wanted) < columns.start);
            self.wanted.get(first).is_some_and(|wanted| usize::from(*wanted) < columns.end)
        })
    }

    fn record(&mut self, node: &RecordNode, bodies: &[u32]) {
        if bodies.is_empty() {
            return;
        }
        for field in &node.fields {
            if !self.wants_any(columns_of_field(field)) {
                continue;
            }
            let Some(null) = field.null else {
                self.field(node, field, bodies);
                continue;
            };
            let arena = self.arena;
            let is_present = |body: &u32| arena[(body + null.byte) as usize] & null.mask == 0;
            if let Some(out) = self.column(null.column) {
                out.push_bits(bodies.iter().map(|body| is_present(body).into()));
            }
            let present: Vec<u32> = bodies.iter().copied().filter(is_present).collect();
            self.field(node, field, &present);
        }
    }

    /// A field of bodies in which it is not null.
    fn field(&mut self, node: &RecordNode, field: &FieldNode, bodies: &[u32]) {
        if let Node::Leaf { column, kind, width } = field.node {
            return self.leaf(column, kind, (field.offset, width), bodies);
        }
        let arena = self.arena;
        let start =
            |body: &u32| body + field.before.map_or(node.fixed, |before| number(arena, body + before));
        if let Node::Bytes { column } = field.node {
            if let Some(out) = self.column(column) {
                for body in bodies {
                    let end = body + number(arena, body + field.offset);
                    out.push_text(&arena[start(body) as usize..end as usize]);
                }
            }
            return;
        }
        let contents: Vec<u32> = bodies.iter().map(start).collect();
        self.content(&field.node, &contents);
    }

    /// What begins at some places and has an end of its own.
    fn content(&mut self, node: &Node, contents: &[u32]) {
        match node {
            Node::Leaf { column, kind, width } => self.leaf(*column, *kind, (0, *width), contents),
            // Texts in arrays are given with their ends.
            Node::Bytes { .. } => {}
            Node::Record(record) => self.record(record, contents),
            Node::Union { tags, alternatives } => self.union(*tags, alternatives, contents),
            Node::Array { counts, item } => self.array(*counts, item, contents),
        }
    }

    fn union(&mut self, tags: usize, alternatives: &[RecordNode], contents: &[u32]) {
        let arena = self.arena;
        if let Some(out) = self.column(tags) {
            out.push_bits(contents.iter().map(|at| arena[*at as usize].into()));
        }
        for (tag, alternative) in alternatives.iter().enumerate() {
            if self.wants_any(columns_of_record(alternative)) {
                let is_it = |at: &&u32| usize::from(arena[**at as usize]) == tag;
                let bodies: Vec<u32> = contents.iter().filter(is_it).map(|at| at + 1).collect();
                self.record(alternative, &bodies);
            }
        }
    }

    fn array(&mut self, counts: usize, item: &ItemNode, contents: &[u32]) {
        let arena = self.arena;
        if let Some(out) = self.column(counts) {
            out.push_bits(contents.iter().map(|at| number(arena, *at).into()));
        }
        if item.presence.is_none_or(|column| !self.wants_any(Some(column..column + 1)))
            && !self.wants_any(columns_of(&item.node))
        {
            return;
        }
        let mut present = Vec::new();
        for content in contents {
            self.items(item, *content, &mut present);
        }
        if let Node::Bytes { column } = item.node {
            if let Some(out) = self.column(column) {
                present.iter().for_each(|span| out.push_text(&arena[span.start as usize..span.end as usize]));
            }
            return;
        }
        let starts: Vec<u32> = present.iter().map(|span| span.start).collect();
        self.content(&item.node, &starts);
    }

    /// Appends the contents of the items of an array that are not null, and the presence of all.
    fn items(&mut self, item: &ItemNode, content: u32, present: &mut Vec<Range<u32>>) {
        let (arena, count, bitmap) = (self.arena, number(self.arena, content), content + 4);
        let mut at = bitmap + if item.presence.is_some() { count.div_ceil(8) } else { 0 };
        let is_null =
            |i: u32| item.presence.is_some() && arena[(bitmap + i / 8) as usize] >> (i % 8) & 1 == 1;
        if let Some(out) = item.presence.and_then(|column| self.column(column)) {
            out.push_bits((0..count).map(|i| i64::from(!is_null(i))));
        }
        for i in 0..count {
            if is_null(i) {
                at += item.null_width;
                continue;
            }
            let (skip, length) = extent(arena, &item.extent, at).expect("an item of a body that was checked");
            present.push(at + skip..at + skip + length);
            at += skip + length;
        }
    }

    /// Fields of fixed width: the slots of `width` bytes that lie `offset` after `starts`.
    fn leaf(&mut self, column: usize, kind: ColumnKind, (offset, width): (u32, u32), starts: &[u32]) {
        let arena = self.arena;
        let Some(out) = self.column(column) else { return };
        if let ColumnKind::Ascii(_) = kind {
            for start in starts {
                let text = &arena[(start + offset) as usize..][..width as usize];
                let length = text.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
                out.push_text(&text[..length]);
            }
            return;
        }
        let signed = matches!(kind, ColumnKind::Int { signed: true, .. });
        out.push_bits(gather(arena, starts, offset, width, signed).iter().copied());
    }
}

fn number(arena: &[u8], at: u32) -> u32 {
    u32_at(arena, at as usize)
}

/// Bytes before the content of the item at `at`, and bytes of the content, which need not be there; `None`: it is no item.
#[inline]
pub(crate) fn extent(arena: &[u8], extent: &Extent, at: u32) -> Option<(u32, u32)> {
    let number = |at: u32| arena.get(at as usize..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
    match extent {
        Extent::Fixed(width) => Some((0, *width)),
        Extent::Prefixed => Some((4, number(at)?)),
        Extent::Records(alternatives) => {
            let tagged = alternatives.len() > 1;
            let tag = if tagged { usize::from(*arena.get(at as usize)?) } else { 0 };
            let (fixed, last_end) = *alternatives.get(tag)?;
            let body = at + u32::from(tagged);
            let length = match last_end {
                Some(last) => number(body + last)?,
                None => fixed,
            };
            let length = length.saturating_add(u32::from(tagged));
            // A record without bytes is one zero byte.
            Some(if length == 0 { (1, 0) } else { (0, length) })
        }
    }
}

/// The numbers of the columns of a field, which follow each other; `None`: it has none.
fn columns_of_field(field: &FieldNode) -> Option<Range<usize>> {
    let presence = field.null.map(|null| null.column..null.column + 1);
    join(presence, columns_of(&field.node))
}

fn columns_of_record(record: &RecordNode) -> Option<Range<usize>> {
    let first = record.fields.iter().find_map(columns_of_field)?;
    let last = record.fields.iter().rev().find_map(columns_of_field)?;
    Some(first.start..last.end)
}

fn columns_of(node: &Node) -> Option<Range<usize>> {
    match node {
        Node::Leaf { column, .. } | Node::Bytes { column } => Some(*column..*column + 1),
        Node::Record(record) => columns_of_record(record),
        Node::Union { tags, alternatives } => {
            alternatives.iter().map(columns_of_record).fold(Some(*tags..*tags + 1), join)
        }
        Node::Array { counts, item } => {
            let presence = item.presence.map(|column| column..column + 1);
            join(Some(*counts..*counts + 1), join(presence, columns_of(&item.node)))
        }
    }
}

fn join(first: Option<Range<usize>>, second: Option<Range<usize>>) -> Option<Range<usize>> {
    match (first, second) {
        (Some(first), Some(second)) => Some(first.start..second.end),
        (first, second) => first.or(second),
    }
}
