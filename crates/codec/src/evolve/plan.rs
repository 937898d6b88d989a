//! Compares two schemas: which record type and field comes from which, and by what conversion.

use super::error::IncompatibleSchema;
use super::lower::lower;
use crate::dynamic::{FieldLayout, ItemLayout, Layouts, RecordLayout, TypeLayout, Value};
use tapedb_schema::{Field, FieldType, RecordType, Scalar, Schema};

/// How bodies of one written record type become bodies of the reading type: what conversion runs on.
#[derive(Debug, Clone)]
pub(super) struct RecordPlan {
    /// Type id in the reading schema.
    pub target: u16,
    /// The bytes are the same.
    pub is_same: bool,
    /// Bytes of the written fixed part.
    pub fixed: usize,
    /// Slots of the written variable fields in order: where their ends are stored.
    pub ends: Box<[usize]>,
    /// The reading fixed part with nulls and defaults of fields that were not written.
    pub template: Box<[u8]>,
    /// Null bits to move.
    pub bits: Box<[BitMove]>,
    /// Bytes of the fixed part to copy.
    pub runs: Box<[Run]>,
    /// Fixed-width fields that take more than that.
    pub slots: Box<[Slot]>,
    /// The reading variable fields in order.
    pub contents: Box<[ContentPlan]>,
}

/// Null bits of one byte that go to one byte.
#[derive(Debug, Clone, Copy)]
pub(super) struct BitMove {
    pub from: usize,
    pub to: usize,
    /// Bits of the written byte.
    pub mask: u8,
    /// How far they rotate left.
    pub rotate: u32,
}

/// Bytes of the fixed part that are copied.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    pub from: usize,
    pub to: usize,
    pub length: usize,
}

/// A bit of a null bitmap.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bit {
    pub byte: usize,
    pub mask: u8,
}

/// A fixed-width reading field with a conversion, or with a default for nulls.
#[derive(Debug, Clone)]
pub(super) struct Slot {
    /// Index of the reading field.
    pub field: usize,
    pub from: usize,
    pub from_width: usize,
    pub to: usize,
    pub to_width: usize,
    /// The null bit of the written field.
    pub null: Option<Bit>,
    /// Where the reading field does.
    pub to_null: Option<Bit>,
    /// What a null becomes where the reading field has none.
    pub instead: Option<Box<[u8]>>,
    pub conversion: Conversion,
}

/// A variable reading field.
#[derive(Debug, Clone)]
pub(super) struct ContentPlan {
    /// Index of the reading field.
    pub field: usize,
    /// Its slot.
    pub to: usize,
    pub source: ContentSource,
}

/// Where the content of a variable reading field comes from.
#[derive(Debug, Clone)]
pub(super) enum ContentSource {
    /// A field that was not written: these bytes, none for a null.
    Constant(Box<[u8]>),
    /// A written field.
    Field {
        /// Offset of the slot, and its width if the written type is a fixed-width one.
        from: usize,
        from_width: Option<usize>,
        /// Slot of the written variable field before it.
        before: Option<usize>,
        null: Option<Bit>,
        to_null: Option<Bit>,
        instead: Option<Box<[u8]>>,
        conversion: Conversion,
    },
}

/// How a value becomes one of the reading type.
#[derive(Debug, Clone)]
pub(super) enum Conversion {
    /// Fixed width: so many bytes as they are, then zeros. Unsigned integers and `ascii(n)` widen like this.
    Copy(usize),
    /// A signed integer of this many bytes widens.
    Sign(usize),
    /// `f32` to `f64`.
    Float,
    /// To `decimal64`, times ten to this power.
    Decimal(Number, i32),
    /// To `decimal(18,s)`: the factor, and s.
    Scaled(Number, i64, u8),
    /// Enum symbols by name.
    Symbols(Symbols),
    /// `ascii(n)` to `string`.
    Text,
    /// `char` to `string`.
    Letter,
    /// Variable: the content as it is.
    Content,
    Array(Box<ArrayChange>),
    Record(AlternativesPlan),
}

/// How a written integer lies in its bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Number {
    pub width: usize,
    pub signed: bool,
}

/// An enum's ordinals.
#[derive(Debug, Clone)]
pub(super) struct Symbols {
    /// Index of the written enum.
    pub written: usize,
    pub from_width: usize,
    pub to_width: usize,
    /// By written ordinal; `None` where the reading enum has no such symbol.
    pub ordinals: Box<[Option<u16>]>,
}

/// An array's items.
#[derive(Debug, Clone)]
pub(super) struct ArrayChange {
    pub from: Item,
    pub to: Item,
    pub conversion: Conversion,
}

/// How the items of an array lie.
#[derive(Debug, Clone, Copy)]
pub(super) struct Item {
    pub nullable: bool,
    /// Bytes of a fixed-width item; `None`: variable.
    pub width: Option<usize>,
    /// Bytes of a null.
    pub null_width: usize,
}

/// The records that a field may hold.
#[derive(Debug, Clone)]
pub(super) struct AlternativesPlan {
    /// Written type ids by tag.
    pub written: Box<[u16]>,
    /// Where their bodies end, by tag.
    pub frames: Box<[Frame]>,
    /// Reading tags by written tag; `None` where the reading field does not take that record.
    pub tags: Box<[Option<u8>]>,
    /// Whether the reading field has a tag.
    pub to_tagged: bool,
}

/// What determines the length of a written body.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    /// Bytes of the fixed part.
    pub fixed: usize,
    /// Slot of the last variable field; `None`: the fixed part is the body.
    pub last_end: Option<usize>,
}

/// The fields of a reading record type before offsets are looked up.
pub(super) struct Draft {
    pub target: u16,
    /// Where each reading field comes from.
    pub fields: Vec<Origin>,
    /// The bytes are the same.
    pub is_same: bool,
}

/// Where one reading field comes from.
pub(super) enum Origin {
    /// It was not written: its default.
    Default(Value),
    /// The written field, the conversion, and what a written null becomes where the reading field has none.
    Field(usize, Conversion, Option<Value>),
}

/// The plans by written type id.
pub(super) fn plans(
    written: &Layouts,
    read: &Layouts,
) -> Result<Vec<Option<RecordPlan>>, IncompatibleSchema> {
    let mut planner = Planner::new(written, read);
    let mut drafts = planner.drafts()?;
    mark_same(written, read, &mut drafts);
    let lowered = |(id, draft): (usize, &Option<Draft>)| {
        draft.as_ref().map(|draft| lower(&written.records()[id], read, draft, &drafts))
    };
    Ok(drafts.iter().enumerate().map(lowered).collect())
}

/// Finds the origin of each reading field.
pub(super) struct Planner<'a> {
    written: &'a Layouts,
    read: &'a Layouts,
    /// Reading type ids by written type id.
    targets: Vec<Option<u16>>,
    /// The written record type and field by which each record type was first met, for paths.
    met: Vec<Option<(usize, String)>>,
}

impl<'a> Planner<'a> {
    /// Compares no field yet.
    pub fn new(written: &'a Layouts, read: &'a Layouts) -> Self {
        let target = |layout: &RecordLayout| read.schema().record(&layout.name).map(|(id, _)| id);
        let targets: Vec<_> = written.records().iter().map(target).collect();
        let met = vec![None; targets.len()];
        Self { written, read, targets, met }
    }

    /// Drafts all record types: messages, then what lies in them, so that errors name the way from a message.
    pub fn drafts(&mut self) -> Result<Vec<Option<Draft>>, IncompatibleSchema> {
        let count = self.targets.len();
        let (messages, records): (Vec<usize>, Vec<usize>) =
            (0..count).partition(|&id| self.written.records()[id].message);
        let mut drafts: Vec<Option<Draft>> = (0..count).map(|_| None).collect();
        let mut is_met = vec![false; count];
        for root in messages.into_iter().chain(records) {
            let mut queue = std::collections::VecDeque::from([root]);
            while let Some(id) = queue.pop_front() {
                let Some(target) = self.targets[id].filter(|_| drafts[id].is_none()) else { continue };
                is_met[id] = true;
                let draft = self.draft(id, target)?;
                for (field, nested) in self.nested(&draft) {
                    if !is_met[nested] {
                        is_met[nested] = true;
                        self.met[nested] = Some((id, field));
                        queue.push_back(nested);
                    }
                }
                drafts[id] = Some(draft);
            }
        }
        Ok(drafts)
    }

    /// Written record types in the fields of a draft, with the names of these fields.
    fn nested(&self, draft: &Draft) -> Vec<(String, usize)> {
        let read = &self.read.records()[usize::from(draft.target)];
        let mut nested = Vec::new();
        for (field, origin) in read.fields.iter().zip(&draft.fields) {
            let Origin::Field(_, conversion, _) = origin else { continue };
            let mut conversion = conversion;
            while let Conversion::Array(array) = conversion {
                conversion = &array.conversion;
            }
            if let Conversion::Record(records) = conversion {
                nested.extend(records.written.iter().map(|&id| (field.name.clone(), usize::from(id))));
            }
        }
        nested
    }

    fn draft(&self, id: usize, target: u16) -> Result<Draft, IncompatibleSchema> {
        let written = &self.written.schema().records[id];
        let read = &self.read.schema().records[usize::from(target)];
        let sources = sources(written, read);
        let fields = sources.iter().enumerate().map(|(field, source)| match source {
            Some(source) => self.matched(id, *source, target, field),
            None => self.unmatched(id, target, field),
        });
        Ok(Draft { target, fields: fields.collect::<Result<_, _>>()?, is_same: false })
    }

    /// A reading field that was not written.
    fn unmatched(&self, id: usize, target: u16, index: usize) -> Result<Origin, IncompatibleSchema> {
        let field = &self.read.schema().records[usize::from(target)].fields[index];
        self.read.default_of(target, index).map(Origin::Default).map_err(|_| {
            let advice = match field.ty {
                FieldType::Binary | FieldType::Array(_) | FieldType::Record(_) => {
                    "make it nullable, or name the field it was in an alias"
                }
                _ => "give it a default or make it nullable, or name the field it was in an alias",
            };
            self.incompatible(id, field, "nothing".into(), advice)
        })
    }

    /// A reading field that comes from a written one.
    fn matched(
        &self,
        id: usize,
        source: usize,
        target: u16,
        index: usize,
    ) -> Result<Origin, IncompatibleSchema> {
        let from = &self.written.records()[id].fields[source];
        let to = &self.read.records()[usize::from(target)].fields[index];
        let field = &self.read.schema().records[usize::from(target)].fields[index];
        let refuse = |advice: &str| {
            let written = &self.written.schema().records[id].fields[source];
            let name = if written.name == field.name { "" } else { &format!("{}: ", written.name) };
            Err(self.incompatible(id, field, format!("{name}{}", type_text(written)), advice))
        };
        let Some(conversion) = self.conversion(&from.ty, &to.ty) else {
            return refuse(advice(&from.ty, &to.ty));
        };
        if from.null_bit.is_none() || to.null_bit.is_some() {
            return Ok(Origin::Field(source, conversion, None));
        }
        match self.read.default_of(target, index) {
            Ok(instead) => Ok(Origin::Field(source, conversion, Some(instead))),
            Err(_) => refuse("make it nullable, or give it a default, which nulls then become"),
        }
    }

    fn conversion(&self, from: &TypeLayout, to: &TypeLayout) -> Option<Conversion> {
        use Scalar as S;
        use TypeLayout as T;
        match (from, to) {
            (T::Enum { index: a, .. }, T::Enum { index: b, .. }) => self.symbols(*a, *b),
            (T::Array(a), T::Array(b)) => self.array(a, b),
            (T::Record(a), T::Record(b)) => self.alternatives(a, b),
            (T::String, T::String) | (T::Binary, T::Binary) => Some(Conversion::Content),
            (T::Scalar(S::Ascii(n)), T::Scalar(S::Ascii(m))) if n <= m => {
                Some(Conversion::Copy(usize::from(*n)))
            }
            (T::Scalar(S::Ascii(_)), T::String) => Some(Conversion::Text),
            (T::Scalar(S::Char), T::String) => Some(Conversion::Letter),
            (T::Scalar(S::F32), T::Scalar(S::F64)) => Some(Conversion::Float),
            (a, b) if a == b => Some(Conversion::Copy(a.width())),
            (T::Scalar(a), T::Scalar(b)) => number_conversion(*a, *b),
            _ => None,
        }
    }

    fn symbols(&self, written: usize, read: usize) -> Option<Conversion> {
        let (from, to) = (&self.written.schema().enums[written], &self.read.schema().enums[read]);
        let known: std::collections::HashMap<&str, u16> =
            (0..).zip(&to.symbols).map(|(i, (name, _))| (name.as_str(), i)).collect();
        let ordinals: Box<[_]> =
            from.symbols.iter().map(|(name, _)| known.get(name.as_str()).copied()).collect();
        let (from_width, to_width) = (from.width(), to.width());
        let some_known = ordinals.iter().any(Option::is_some);
        some_known.then_some(Conversion::Symbols(Symbols { written, from_width, to_width, ordinals }))
    }

    fn array(&self, from: &ItemLayout, to: &ItemLayout) -> Option<Conversion> {
        if from.nullable && !to.nullable {
            return None;
        }
        let conversion = self.conversion(&from.ty, &to.ty)?;
        Some(Conversion::Array(Box::new(ArrayChange { from: Item::of(from), to: Item::of(to), conversion })))
    }

    fn alternatives(&self, from: &[u16], to: &[u16]) -> Option<Conversion> {
        let tag = |id: &u16| {
            let target = self.targets[usize::from(*id)]?;
            to.iter().position(|&id| id == target).map(|tag| tag as u8)
        };
        let tags: Box<[_]> = from.iter().map(tag).collect();
        let some_known = tags.iter().any(Option::is_some);
        let frame = |id: &u16| {
            let layout = &self.written.records()[usize::from(*id)];
            Frame { fixed: layout.fixed, last_end: layout.last_end }
        };
        let frames = from.iter().map(frame).collect();
        let change = AlternativesPlan { written: from.into(), frames, tags, to_tagged: to.len() > 1 };
        some_known.then_some(Conversion::Record(change))
    }

    #[cold]
    fn incompatible(&self, id: usize, field: &Field, written: String, advice: &str) -> IncompatibleSchema {
        let mut path = vec![field.name.as_str()];
        let mut at = id;
        while let Some((holder, name)) = &self.met[at] {
            path.push(name);
            at = *holder;
        }
        path.push(&self.written.records()[at].name);
        path.reverse();
        IncompatibleSchema { path: path.join("."), written, read: type_text(field), advice: advice.into() }
    }
}

/// Finds the written field for a reading field among those that are still free.
type Rule = fn(&[Option<&Field>], &Field) -> Option<usize>;

/// For each reading field the written field that it comes from: the one of its name, else the one that is first among
/// its aliases, else the one that has its name as an alias. A written field goes to one reading field at most.
fn sources(written: &RecordType, read: &RecordType) -> Vec<Option<usize>> {
    let mut sources = vec![None; read.fields.len()];
    let mut free: Vec<Option<&Field>> = written.fields.iter().map(Some).collect();
    let rules: [Rule; 3] = [
        |free, to| named(free, &to.name),
        |free, to| to.aliases.iter().find_map(|alias| named(free, alias)),
        |free, to| free.iter().position(|from| from.is_some_and(|from| from.aliases.contains(&to.name))),
    ];
    for rule in rules {
        for (source, to) in sources.iter_mut().zip(&read.fields).filter(|(source, _)| source.is_none()) {
            *source = rule(&free, to);
            source.iter().for_each(|&taken| free[taken] = None);
        }
    }
    sources
}

fn named(fields: &[Option<&Field>], name: &str) -> Option<usize> {
    fields.iter().position(|field| field.is_some_and(|field| field.name == name))
}

/// Between different number types.
fn number_conversion(from: Scalar, to: Scalar) -> Option<Conversion> {
    use Scalar as T;
    let units = Number { width: 8, signed: true };
    match (from, to) {
        (T::Decimal(scale), T::Decimal64) => Some(Conversion::Decimal(units, -i32::from(scale))),
        (T::Decimal(a), T::Decimal(b)) if a < b => Some(Conversion::Scaled(units, power(b - a)?, b)),
        (from, T::Decimal64) => Some(Conversion::Decimal(integer(from)?, 0)),
        (from, T::Decimal(scale)) => Some(Conversion::Scaled(integer(from)?, power(scale)?, scale)),
        (from, to) => {
            let (from, to) = (integer(from)?, integer(to)?);
            let fits = from.width < to.width && (to.signed || !from.signed);
            let widened =
                if from.signed { Conversion::Sign(from.width) } else { Conversion::Copy(from.width) };
            fits.then_some(widened)
        }
    }
}

fn power(scale: u8) -> Option<i64> {
    10i64.checked_pow(scale.into())
}

fn integer(ty: Scalar) -> Option<Number> {
    ty.is_integer().then(|| Number { width: ty.width(), signed: ty.is_signed() })
}

/// What to do where two types have no rule.
fn advice(from: &TypeLayout, to: &TypeLayout) -> &'static str {
    use TypeLayout as T;
    match (from, to) {
        (T::Enum { .. }, T::Enum { .. }) => "the enums have no symbol in common; give the field a new name",
        (T::Record(_), T::Record(_)) => "they have no record type in common; give the field a new name",
        (T::Array(a), T::Array(b)) if a.nullable && !b.nullable => "make the items nullable",
        (T::Array(a), T::Array(b)) => advice(&a.ty, &b.ty),
        _ => "values cannot be converted exactly; use the written type, or give the field a new name",
    }
}

fn type_text(field: &Field) -> String {
    format!("{}{}", field.ty, if field.nullable { "?" } else { "" })
}

impl Item {
    fn of(item: &ItemLayout) -> Self {
        let width = (!item.ty.is_variable()).then(|| item.ty.width());
        Self { nullable: item.nullable, width, null_width: item.ty.null_item() }
    }
}

/// Finds the record types whose bytes are the same. Types may hold themselves, so all are assumed to be, and then those
/// that are not are removed, with those that hold them.
fn mark_same(written: &Layouts, read: &Layouts, drafts: &mut [Option<Draft>]) {
    for (layout, draft) in written.records().iter().zip(drafts.iter_mut()) {
        if let Some(draft) = draft {
            let to = &read.records()[usize::from(draft.target)];
            draft.is_same = same_slots(&layout.fields, &to.fields, &draft.fields);
        }
    }
    loop {
        let changed: Vec<usize> = (0..drafts.len())
            .filter(|&id| drafts[id].as_ref().is_some_and(|draft| draft.is_same && !is_same(draft, drafts)))
            .collect();
        if changed.is_empty() {
            return;
        }
        for id in changed {
            drafts[id].iter_mut().for_each(|draft| draft.is_same = false);
        }
    }
}

/// Whether every slot comes from the same slot.
fn same_slots(written: &[FieldLayout], read: &[FieldLayout], origins: &[Origin]) -> bool {
    let same = |(i, origin): (usize, &Origin)| {
        let (from, to) = (&written[i], &read[i]);
        matches!(origin, Origin::Field(source, ..) if *source == i)
            && from.width == to.width
            && from.ty.is_variable() == to.ty.is_variable()
            && from.null_bit == to.null_bit
    };
    written.len() == read.len() && origins.iter().enumerate().all(same)
}

fn is_same(draft: &Draft, drafts: &[Option<Draft>]) -> bool {
    draft.fields.iter().all(|origin| match origin {
        Origin::Default(_) => false,
        Origin::Field(_, conversion, _) => conversion.is_same(None, drafts),
    })
}

impl Conversion {
    /// Whether it changes nothing. `to_width` is the width of the reading slot, where that is not known to be the
    /// written one's.
    pub fn is_same(&self, to_width: Option<usize>, drafts: &[Option<Draft>]) -> bool {
        match self {
            Self::Copy(width) => to_width.is_none_or(|to| to == *width),
            Self::Content => true,
            Self::Symbols(symbols) => {
                let kept = |(i, ordinal): (usize, &Option<u16>)| ordinal.map(usize::from) == Some(i);
                symbols.from_width == symbols.to_width && symbols.ordinals.iter().enumerate().all(kept)
            }
            Self::Array(array) => {
                array.from.nullable == array.to.nullable
                    && array.from.width.is_some() == array.to.width.is_some()
                    && array.conversion.is_same(array.to.width, drafts)
            }
            Self::Record(records) => records.is_same(drafts),
            Self::Sign(_)
            | Self::Float
            | Self::Decimal(..)
            | Self::Scaled(..)
            | Self::Text
            | Self::Letter => false,
        }
    }
}

impl AlternativesPlan {
    fn is_same(&self, drafts: &[Option<Draft>]) -> bool {
        let kept = |(tag, to): (usize, &Option<u8>)| to.map(usize::from) == Some(tag);
        let same = |id: &u16| drafts[usize::from(*id)].as_ref().is_some_and(|draft| draft.is_same);
        (self.written.len() > 1) == self.to_tagged
            && self.tags.iter().enumerate().all(kept)
            && self.written.iter().all(same)
    }
}

/// The name of a record type, for paths.
pub(super) fn record_name(schema: &Schema, id: u16) -> &str {
    schema.records.get(usize::from(id)).map_or("?", |record| &record.name)
}
