//! The columns that a record type is split into: computed once from the schema, the same for writer and reader.
//!
//! Columns are numbered depth first, in field order. Of a field come, as far as it has them: the presence of its value
//! (which are null), then what its value consists of: a number; the bytes of a text; the count of an array and then what
//! its items consist of; the fields of a record; the tag of a union and then the fields of each alternative. A record
//! that holds itself would have no end, and alternatives in alternatives multiply: so a record content that is already
//! being split, that is nested deeper than a message can be, or that begins when [`COLUMNS_MAX`] columns have been
//! numbered or [`RECORDS_MAX`] records split (those without fields have no columns), stays whole, as bytes.

use crate::rule::{Rule, What};
use tapedb_codec::MAX_DEPTH;
use tapedb_codec::dynamic::{ItemLayout, Layouts, RecordLayout, TypeLayout};
use tapedb_schema::Scalar;

/// Records and arrays that begin after this many columns of a record type are stored as bytes.
pub const COLUMNS_MAX: usize = 1_000;

/// Records that begin after this many records of a record type are stored as bytes.
pub const RECORDS_MAX: usize = 10_000;

/// The columns of every record type of a schema.
#[derive(Debug, Clone)]
pub struct Plan {
    layouts: Layouts,
    groups: Vec<GroupPlan>,
}

/// The columns of one record type.
#[derive(Debug, Clone)]
pub struct GroupPlan {
    pub(crate) root: RecordNode,
    columns: Vec<ColumnPlan>,
    /// Nodes with state between the two passes of assembling rows; columns first.
    pub(crate) slots: usize,
    /// Of each column the columns that determine which values it has, from the outermost on.
    ways: Vec<Vec<(u16, StepKind)>>,
    /// What the values of each column may be.
    rules: Vec<Rule>,
    /// Whether bodies are canonical if their columns follow these rules and give the bodies back.
    are_rules_enough: bool,
}

/// One column: its content and its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnPlan {
    /// Fields on the way to it, joined by `.`; `[]` stands for the items of an array, `?` for presence, and an
    /// alternative of several is named by its record type: `entries[].Trade.id?`.
    pub path: String,
    /// What its values are.
    pub kind: ColumnKind,
}

/// What the values of a column are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    /// Whether a nullable value is there: 1 or 0.
    Presence,
    /// Whole numbers, and whatever is one in its slot: bools, enum ordinals, times, scaled decimals, chars, and texts of
    /// up to eight bytes (first byte lowest).
    Int {
        /// Bytes of the slot.
        width: u8,
        /// Whether it is two's complement.
        signed: bool,
    },
    /// The bits of `f32`.
    F32,
    /// The bits of `f64`.
    F64,
    /// The bits of `decimal64`.
    Decimal64,
    /// `ascii(n)` of more than eight bytes, without its padding.
    Ascii(u8),
    /// Texts and binaries, and records and arrays that are not split.
    Bytes,
    /// Items in an array.
    Count,
    /// Which alternative a record is.
    Tag(u16),
}

/// Which values a column above another one has below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepKind {
    /// Those that are not null.
    Present,
    /// The items.
    Items,
    /// Those of one alternative: its number in the schema, from 0.
    Is(u16),
}

#[derive(Debug, Clone)]
pub(crate) struct RecordNode {
    pub fixed: u32,
    pub null_bytes: u32,
    pub fields: Vec<FieldNode>,
    pub slot: usize,
    /// Whether bodies have the same length always.
    pub is_fixed: bool,
    /// Where decimals lie, if any bytes of the right length are a body that is canonical as long as these are.
    pub open: Option<Vec<u32>>,
}

#[derive(Debug, Clone)]
pub(crate) struct FieldNode {
    pub offset: u32,
    /// Slot of the variable field before.
    pub before: Option<u32>,
    pub null: Option<Null>,
    pub node: Node,
}

/// A field's null bit, and the column of its presence.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Null {
    pub byte: u32,
    pub mask: u8,
    pub column: usize,
}

#[derive(Debug, Clone)]
pub(crate) enum Node {
    /// A slot of fixed width.
    Leaf {
        column: usize,
        kind: ColumnKind,
        width: u32,
    },
    /// Content as a whole.
    Bytes {
        column: usize,
    },
    Record(Box<RecordNode>),
    Union {
        tags: usize,
        alternatives: Vec<RecordNode>,
    },
    Array {
        counts: usize,
        item: Box<ItemNode>,
    },
}

#[derive(Debug, Clone)]
pub(crate) struct ItemNode {
    /// Column of the items' presence, if they may be null.
    pub presence: Option<usize>,
    pub node: Node,
    pub extent: Extent,
    /// Bytes of a null.
    pub null_width: u32,
    pub slot: usize,
}

/// How long an item is.
#[derive(Debug, Clone)]
pub(crate) enum Extent {
    Fixed(u32),
    /// A `u32` length, then the content.
    Prefixed,
    /// A record by its own length, after a tag if there are several: fixed part and last end of each alternative.
    Records(Vec<(u32, Option<u32>)>),
}

impl Plan {
    /// Works out the columns of all record types.
    pub fn new(layouts: Layouts) -> Self {
        let groups = (0..layouts.records().len() as u16).map(|id| GroupPlan::new(&layouts, id)).collect();
        Self { layouts, groups }
    }

    /// The schema and its layouts.
    pub fn layouts(&self) -> &Layouts {
        &self.layouts
    }

    /// The columns of a record type, if there is one with this id.
    pub fn group(&self, type_id: u16) -> Option<&GroupPlan> {
        self.groups.get(usize::from(type_id))
    }
}

impl GroupPlan {
    fn new(layouts: &Layouts, type_id: u16) -> Self {
        let (columns, rules) = (Vec::new(), Vec::new());
        let mut maker = Maker { layouts, columns, rules, open: Vec::new(), slots: 0, records: 0 };
        let mut root = maker.record(type_id, "");
        // Records and items have no column of their own: their slots are after those of the columns.
        let Maker { columns, rules, .. } = maker;
        shift_record(&mut root, columns.len());
        let mut ways = vec![Vec::new(); columns.len()];
        root.note_ways(&mut Vec::new(), &mut ways);
        let are_rules_enough = rules.iter().all(Rule::is_known) && root.levels() < LEVELS_MAX;
        Self { root, slots: columns.len() + maker.slots, columns, ways, rules, are_rules_enough }
    }

    /// The columns by their numbers.
    pub fn columns(&self) -> &[ColumnPlan] {
        &self.columns
    }

    /// Number of the column at `path`; see [`ColumnPlan::path`].
    pub fn column(&self, path: &str) -> Option<u16> {
        self.columns.iter().position(|column| column.path == path).map(|index| index as u16)
    }

    /// What the values of a column may be; `None`: there is no such column.
    pub fn rule(&self, column: u16) -> Option<Rule> {
        self.rules.get(usize::from(column)).copied()
    }

    /// What the values of all columns may be, if bodies are canonical whose columns are like that and give the bodies back.
    pub(crate) fn rules_that_are_enough(&self) -> Option<&[Rule]> {
        self.are_rules_enough.then_some(&self.rules)
    }

    /// The columns that determine which values a column has, from the outermost on; none for a column that does not exist.
    pub fn way_to(&self, column: u16) -> &[(u16, StepKind)] {
        self.ways.get(usize::from(column)).map_or(&[], |way| way)
    }
}

/// Records and arrays in each other: far fewer than a body may have, so that none is refused for its depth alone.
const LEVELS_MAX: usize = MAX_DEPTH as usize / 2;

impl RecordNode {
    /// How many records and arrays are in each other at most, this one too.
    fn levels(&self) -> usize {
        1 + self.fields.iter().map(|field| field.node.levels()).max().unwrap_or(0)
    }

    /// Notes for each column below this record the columns on the way to it, of which `above` are above the record.
    fn note_ways(&self, above: &mut Vec<(u16, StepKind)>, noted: &mut [Vec<(u16, StepKind)>]) {
        for field in &self.fields {
            let presence = field.null.map(|null| null.column);
            field.node.note_nullable(presence, above, noted);
        }
    }
}

impl Node {
    fn levels(&self) -> usize {
        match self {
            Self::Leaf { .. } | Self::Bytes { .. } => 0,
            Self::Record(record) => record.levels(),
            Self::Union { alternatives, .. } => {
                alternatives.iter().map(RecordNode::levels).max().unwrap_or(0)
            }
            Self::Array { item, .. } => 1 + item.node.levels(),
        }
    }

    /// [`RecordNode::note_ways`] of a node that may have a column for its presence.
    fn note_nullable(
        &self,
        presence: Option<usize>,
        above: &mut Vec<(u16, StepKind)>,
        noted: &mut [Vec<(u16, StepKind)>],
    ) {
        let depth = above.len();
        if let Some(presence) = presence {
            noted[presence].clone_from(above);
            above.push((presence as u16, StepKind::Present));
        }
        self.note_ways(above, noted);
        above.truncate(depth);
    }

    fn note_ways(&self, above: &mut Vec<(u16, StepKind)>, noted: &mut [Vec<(u16, StepKind)>]) {
        match self {
            Self::Leaf { column, .. } | Self::Bytes { column } => noted[*column].clone_from(above),
            Self::Record(record) => record.note_ways(above, noted),
            Self::Union { tags, alternatives } => {
                noted[*tags].clone_from(above);
                for (tag, record) in (0..).zip(alternatives) {
                    above.push((*tags as u16, StepKind::Is(tag)));
                    record.note_ways(above, noted);
                    above.pop();
                }
            }
            Self::Array { counts, item } => {
                noted[*counts].clone_from(above);
                above.push((*counts as u16, StepKind::Items));
                item.node.note_nullable(item.presence, above, noted);
                above.pop();
            }
        }
    }
}

struct Maker<'a> {
    layouts: &'a Layouts,
    columns: Vec<ColumnPlan>,
    rules: Vec<Rule>,
    /// Types whose fields are being numbered.
    open: Vec<u16>,
    slots: usize,
    /// Records that have been split.
    records: usize,
}

impl Maker<'_> {
    /// A column that says which values others have.
    fn structure(&mut self, path: &str, kind: ColumnKind) -> usize {
        self.column(path, kind, What::of_structure(kind))
    }

    fn column(&mut self, path: &str, kind: ColumnKind, what: What) -> usize {
        self.columns.push(ColumnPlan { path: path.into(), kind });
        self.rules.push(Rule::new(kind, what));
        self.columns.len() - 1
    }

    fn slot(&mut self) -> usize {
        self.slots += 1;
        self.slots - 1
    }

    fn record(&mut self, type_id: u16, path: &str) -> RecordNode {
        let layouts = self.layouts;
        let layout = &layouts.records()[usize::from(type_id)];
        let slot = self.slot();
        self.records += 1;
        self.open.push(type_id);
        let mut fields = Vec::with_capacity(layout.fields.len());
        for field in &layout.fields {
            let dot = if path.is_empty() { "" } else { "." };
            let path = format!("{path}{dot}{}", field.name);
            let null = field.null_bit.map(|bit| Null {
                byte: (bit / 8) as u32,
                mask: 1 << (bit % 8),
                column: self.structure(&format!("{path}?"), ColumnKind::Presence),
            });
            let node = self.node(&field.ty, &path);
            fields.push(FieldNode {
                offset: field.offset as u32,
                before: field.before.map(|offset| offset as u32),
                null,
                node,
            });
        }
        self.open.pop();
        RecordNode {
            fixed: layout.fixed as u32,
            null_bytes: layout.nullable.div_ceil(8) as u32,
            fields,
            slot,
            is_fixed: layout.last_end.is_none(),
            open: decimals_of_open(layout),
        }
    }

    fn node(&mut self, ty: &TypeLayout, path: &str) -> Node {
        match ty {
            TypeLayout::String | TypeLayout::Binary => self.bytes(path, What::of(ty)),
            TypeLayout::Record(types) if self.stays_whole(types) => self.bytes(path, What::Unknown),
            TypeLayout::Array(_) if self.columns.len() >= COLUMNS_MAX => self.bytes(path, What::Unknown),
            TypeLayout::Record(types) => match types[..] {
                [only] => Node::Record(Box::new(self.record(only, path))),
                _ => self.union(types, path),
            },
            TypeLayout::Array(item) => {
                let counts = self.structure(path, ColumnKind::Count);
                Node::Array { counts, item: Box::new(self.item(item, &format!("{path}[]"))) }
            }
            scalar => {
                let (kind, width) = (kind_of(scalar), scalar.width() as u32);
                Node::Leaf { column: self.column(path, kind, What::of(scalar)), kind, width }
            }
        }
    }

    fn bytes(&mut self, path: &str, what: What) -> Node {
        Node::Bytes { column: self.column(path, ColumnKind::Bytes, what) }
    }

    fn stays_whole(&self, types: &[u16]) -> bool {
        self.columns.len() >= COLUMNS_MAX
            || self.records >= RECORDS_MAX
            || self.open.len() >= MAX_DEPTH as usize
            || types.iter().any(|id| self.open.contains(id))
    }

    fn union(&mut self, types: &[u16], path: &str) -> Node {
        let tags = self.structure(path, ColumnKind::Tag(types.len() as u16));
        let layouts = self.layouts;
        let alternative = |&id: &u16| {
            let name = &layouts.records()[usize::from(id)].name;
            self.record(id, &format!("{path}.{name}"))
        };
        Node::Union { tags, alternatives: types.iter().map(alternative).collect() }
    }

    fn item(&mut self, item: &ItemLayout, path: &str) -> ItemNode {
        let slot = self.slot();
        let presence = item.nullable.then(|| self.structure(&format!("{path}?"), ColumnKind::Presence));
        let node = self.node(&item.ty, path);
        let (extent, null_width) = match &item.ty {
            TypeLayout::Record(types) => (Extent::Records(self.lengths(types)), 1),
            ty if ty.is_variable() => (Extent::Prefixed, 4),
            ty => (Extent::Fixed(ty.width() as u32), ty.width() as u32),
        };
        ItemNode { presence, node, extent, null_width, slot }
    }

    fn lengths(&self, types: &[u16]) -> Vec<(u32, Option<u32>)> {
        let of = |&id: &u16| {
            let layout = &self.layouts.records()[usize::from(id)];
            (layout.fixed as u32, layout.last_end.map(|offset| offset as u32))
        };
        types.iter().map(of).collect()
    }
}

/// Where the decimals of a record lie if it has nothing else that has to be right.
fn decimals_of_open(layout: &RecordLayout) -> Option<Vec<u32>> {
    let is_open = |ty: &TypeLayout| match ty {
        TypeLayout::Scalar(scalar) => {
            !matches!(scalar, Scalar::Bool | Scalar::TimeOfDay | Scalar::Char | Scalar::Ascii(_))
        }
        _ => false,
    };
    let open = layout.nullable == 0 && layout.fields.iter().all(|field| is_open(&field.ty));
    let decimals = layout.fields.iter().filter(|field| field.ty == TypeLayout::Scalar(Scalar::Decimal64));
    open.then(|| decimals.map(|field| field.offset as u32).collect())
}

fn kind_of(ty: &TypeLayout) -> ColumnKind {
    match ty {
        TypeLayout::Scalar(Scalar::F32) => ColumnKind::F32,
        TypeLayout::Scalar(Scalar::F64) => ColumnKind::F64,
        TypeLayout::Scalar(Scalar::Decimal64) => ColumnKind::Decimal64,
        TypeLayout::Scalar(Scalar::Ascii(width)) if *width > 8 => ColumnKind::Ascii(*width),
        TypeLayout::Scalar(scalar) => {
            ColumnKind::Int { width: scalar.width() as u8, signed: scalar.is_signed() }
        }
        ty => ColumnKind::Int { width: ty.width() as u8, signed: false },
    }
}

fn shift_record(record: &mut RecordNode, by: usize) {
    record.slot += by;
    record.fields.iter_mut().for_each(|field| shift_node(&mut field.node, by));
}

fn shift_node(node: &mut Node, by: usize) {
    match node {
        Node::Leaf { .. } | Node::Bytes { .. } => {}
        Node::Record(record) => shift_record(record, by),
        Node::Union { alternatives, .. } => {
            alternatives.iter_mut().for_each(|record| shift_record(record, by))
        }
        Node::Array { item, .. } => {
            item.slot += by;
            shift_node(&mut item.node, by);
        }
    }
}

impl Node {
    /// The slot of the bytes the content takes.
    pub fn slot(&self) -> usize {
        match self {
            Self::Leaf { column, .. } | Self::Bytes { column } => *column,
            Self::Record(record) => record.slot,
            Self::Union { tags, .. } => *tags,
            Self::Array { counts, .. } => *counts,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(schema: &str, name: &str) -> Vec<String> {
        let layouts = Layouts::new(schema.parse().unwrap()).unwrap();
        let (id, _) = layouts.schema().record(name).unwrap();
        let plan = Plan::new(layouts);
        plan.group(id).unwrap().columns().iter().map(|column| column.path.clone()).collect()
    }

    #[test]
    fn columns_are_numbered_depth_first() {
        let schema = "record A { x: i8 } record B { y: string? }
            message M { n: i64?, one: record<A>, some: array<record<A|B>?>, grid: array<array<u8>> }";
        let expected = [
            "n?",
            "n",
            "one.x",
            "some",
            "some[]?",
            "some[]",
            "some[].A.x",
            "some[].B.y?",
            "some[].B.y",
            "grid",
            "grid[]",
            "grid[][]",
        ];
        assert_eq!(paths(schema, "M"), expected);
    }

    #[test]
    fn a_value_depends_on_all_columns_around_it() {
        use StepKind::{Is, Items, Present};
        let schema =
            "record A { x: i8 } record my.B { y: string?, in: record<A|my.C> } record my.C { z: array<i8> }
            message M { n: i64?, one: record<A>, some: array<record<A|my.B>?>, grid: array<array<u8>> }";
        let layouts = Layouts::new(schema.parse().unwrap()).unwrap();
        let (id, _) = layouts.schema().record("M").unwrap();
        let plan = Plan::new(layouts);
        let group = plan.group(id).unwrap();
        let way = |path: &str| {
            let way = group.way_to(group.column(path).unwrap());
            let path = |column: &u16| group.columns()[usize::from(*column)].path.as_str();
            way.iter().map(|(column, kind)| (path(column), *kind)).collect::<Vec<_>>()
        };
        assert_eq!(way("n"), [("n?", Present)]);
        assert_eq!([way("n?"), way("one.x"), way("some")], [vec![], vec![], vec![]]);
        let some = [("some", Items), ("some[]?", Present), ("some[]", Is(1))];
        assert_eq!(way("some[]"), some[..2]);
        assert_eq!(way("some[].my.B.y?"), some);
        assert_eq!(way("some[].my.B.y"), [&some[..], &[("some[].my.B.y?", Present)]].concat());
        let inner = [&some[..], &[("some[].my.B.in", Is(1)), ("some[].my.B.in.my.C.z", Items)]].concat();
        assert_eq!(way("some[].my.B.in.my.C.z[]"), inner);
        assert_eq!(way("some[].A.x"), [some[0], some[1], ("some[]", Is(0))]);
        assert_eq!(way("grid[][]"), [("grid", Items), ("grid[]", Items)]);
    }

    #[test]
    fn recursive_records_stay_whole() {
        let schema = "message Tree { id: u16, children: array<record<Tree>> }";
        assert_eq!(paths(schema, "Tree"), ["id", "children", "children[]"]);
    }

    #[test]
    fn the_number_of_columns_is_bounded() {
        let mut schema = String::from("record R0 { x: i8 }");
        for i in 1..40 {
            let below = i - 1;
            schema += &format!(" message R{i} {{ a: record<R{below}>, b: record<R{below}> }}");
        }
        let columns = paths(&schema, "R30").len();
        assert!((COLUMNS_MAX..COLUMNS_MAX + 100).contains(&columns), "{columns}");
    }

    #[test]
    fn the_number_of_records_without_columns_is_bounded() {
        let mut schema = String::from("record R0 { }");
        for i in 1..20 {
            let below = i - 1;
            schema += &format!(" message R{i} {{ a: record<R{below}>, b: record<R{below}> }}");
        }
        let plan = Plan::new(Layouts::new(schema.parse().unwrap()).unwrap());
        let most = plan.groups.iter().map(|group| group.slots).max().unwrap();
        assert!((RECORDS_MAX..2 * RECORDS_MAX).contains(&most), "{most}");
    }
}
