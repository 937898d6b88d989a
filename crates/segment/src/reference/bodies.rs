//! Bodies of one group, assembled from columns value by value.
//!
//! Columns are numbered depth first, in field order, as in the section "Columns of a group" of the page: so a walk over
//! the schema that counts them finds each column under the next number.

use super::column::{Kind, numbers, texts};
use super::head::Head;
use super::input::{at_most, beyond, little_endian};
use super::pieces::Pieces;
use super::runs::Runs;
use super::{Column, Values};
use crate::damage::{Damage, Flaw};
use crate::plan::{COLUMNS_MAX, RECORDS_MAX};
use tapedb_codec::MAX_DEPTH;
use tapedb_codec::dynamic::{FieldLayout, ItemLayout, Layouts, TypeLayout};
use tapedb_schema::Scalar;

/// A walk over the columns of one group.
pub(super) struct Bodies<'h, 'b> {
    head: &'h Head<'b>,
    group: u16,
    layouts: &'h Layouts,
    /// Number of the next column.
    next: usize,
    /// Records that have been split.
    records: usize,
    /// Record types that are being assembled.
    open: Vec<u16>,
    /// Bytes that bodies may still have.
    left: usize,
    columns: &'h mut Vec<Column>,
}

impl<'h, 'b> Bodies<'h, 'b> {
    /// The bodies of a group in the order of lanes, whose ends are `runs`; at most `most` bytes. Appends the columns that it
    /// reads to `columns`.
    pub fn of(
        head: &'h Head<'b>,
        group: usize,
        runs: Runs,
        layouts: &'h Layouts,
        most: usize,
        columns: &'h mut Vec<Column>,
    ) -> Result<Pieces, Damage> {
        let about = &head.groups[group];
        let mut bodies = Self {
            head,
            group: group as u16,
            layouts,
            next: 0,
            records: 0,
            open: Vec::new(),
            left: most,
            columns,
        };
        if about.is_whole {
            return bodies.texts(&runs);
        }
        if usize::from(about.type_id) >= layouts.records().len() {
            let (need, have) = (layouts.records().len() as u64, about.type_id.into());
            return Err(super::head::damage(beyond("record type", need, have)));
        }
        bodies.record(about.type_id, &runs)
    }

    /// Takes bytes off those that bodies may have, before they are made.
    fn claim(&mut self, count: usize, bytes: usize) -> Result<(), Damage> {
        let need = count.saturating_mul(bytes);
        at_most("bytes of bodies", self.left as u64, need as u64).map_err(super::head::damage)?;
        self.left -= need;
        Ok(())
    }

    fn column(&mut self) -> u16 {
        self.next += 1;
        (self.next - 1) as u16
    }

    fn flawed(&self, column: u16, flaw: Flaw) -> Damage {
        self.head.column_damage(self.group, column, flaw)
    }

    /// The numbers of the next column. Without values there is none.
    fn numbers(&mut self, kind: Kind, runs: &Runs) -> Result<Vec<i64>, Damage> {
        let column = self.column();
        if runs.count() == 0 {
            return Ok(Vec::new());
        }
        let values = numbers(self.head, (self.group, column), kind, runs)?;
        self.columns.push(Column { group: self.group, column, values: Values::Numbers(values.clone()) });
        Ok(values)
    }

    /// The texts of the next column.
    fn texts(&mut self, runs: &Runs) -> Result<Pieces, Damage> {
        let column = self.column();
        if runs.count() == 0 {
            return Ok(Pieces::default());
        }
        let values = texts(self.head, (self.group, column), runs.count(), self.left)?;
        self.claim(1, values.bytes())?;
        self.columns.push(Column { group: self.group, column, values: Values::Texts(values.clone()) });
        Ok(values)
    }

    /// Which values are there, from the next column; if it is missing, all are.
    fn presence(&mut self, runs: &Runs) -> Result<Vec<bool>, Damage> {
        if !self.head.has(self.group, self.next as u16) {
            self.next += 1;
            return Ok(vec![true; runs.count()]);
        }
        let column = self.next as u16;
        let bits = self.numbers(Kind::Structure, runs)?;
        match bits.iter().find(|bit| !(0..=1).contains(*bit)) {
            Some(bit) => Err(self.flawed(column, beyond("presence", 1, *bit as u64))),
            None => Ok(bits.iter().map(|bit| *bit == 1).collect()),
        }
    }

    /// Bodies of records, one for each value of `runs`.
    fn record(&mut self, type_id: u16, runs: &Runs) -> Result<Pieces, Damage> {
        let layouts = self.layouts;
        let layout = &layouts.records()[usize::from(type_id)];
        let slots: usize = layout.fields.iter().map(|field| field.ty.width()).sum();
        let nullable = layout.fields.iter().filter(|field| field.null_bit.is_some()).count();
        self.claim(runs.count(), nullable.div_ceil(8) + slots)?;
        self.records += 1;
        self.open.push(type_id);
        let fields =
            layout.fields.iter().map(|field| self.field(field, runs)).collect::<Result<Vec<Field>, _>>()?;
        self.open.pop();
        Ok(assembled(&fields, runs.count()))
    }

    fn field(&mut self, field: &FieldLayout, runs: &Runs) -> Result<Field, Damage> {
        let presence = match field.null_bit {
            Some(_) => Some(self.presence(runs)?),
            None => None,
        };
        let there = presence.as_ref().map_or_else(|| runs.clone(), |presence| runs.filter(presence));
        let contents = self.contents(&field.ty, &there)?;
        Ok(Field { width: field.ty.width(), is_variable: field.ty.is_variable(), presence, contents })
    }

    /// What the values of a type consist of: the slot of what has a fixed width, else the content.
    fn contents(&mut self, ty: &TypeLayout, runs: &Runs) -> Result<Pieces, Damage> {
        match ty {
            TypeLayout::String | TypeLayout::Binary => self.texts(runs),
            TypeLayout::Record(types) if self.stays_whole(types) => self.texts(runs),
            TypeLayout::Array(_) if self.next >= COLUMNS_MAX => self.texts(runs),
            TypeLayout::Record(types) => match types[..] {
                [only] => self.record(only, runs),
                _ => self.union(types, runs),
            },
            TypeLayout::Array(item) => self.array(item, runs),
            TypeLayout::Scalar(Scalar::Ascii(width)) if *width > 8 => self.ascii((*width).into(), runs),
            scalar => self.slots(scalar, runs),
        }
    }

    /// Whether a record's content is one text.
    fn stays_whole(&self, types: &[u16]) -> bool {
        self.next >= COLUMNS_MAX
            || self.records >= RECORDS_MAX
            || self.open.len() >= MAX_DEPTH as usize
            || types.iter().any(|type_id| self.open.contains(type_id))
    }

    /// Slots of fixed width: numbers, low bytes first.
    fn slots(&mut self, ty: &TypeLayout, runs: &Runs) -> Result<Pieces, Damage> {
        let kind = match ty {
            TypeLayout::Scalar(Scalar::F32) => Kind::Float(4),
            TypeLayout::Scalar(Scalar::F64) => Kind::Float(8),
            TypeLayout::Scalar(Scalar::Decimal64) => Kind::Decimal,
            _ => Kind::Field,
        };
        let column = self.next as u16;
        let mut slots = Pieces::default();
        for value in self.numbers(kind, runs)? {
            let slot = &value.to_le_bytes()[..ty.width()];
            if extended(slot, is_signed(ty)) != value {
                return Err(self.flawed(column, beyond("bytes of a slot", ty.width() as u64, 8)));
            }
            slots.push(&[slot]);
        }
        Ok(slots)
    }

    /// Slots of texts, padded with zeros.
    fn ascii(&mut self, width: usize, runs: &Runs) -> Result<Pieces, Damage> {
        let column = self.next as u16;
        let padding = [0; u8::MAX as usize];
        let mut slots = Pieces::default();
        // The slots have been counted, and texts are counted in addition.
        let left = self.left;
        self.left = runs.count() * width;
        let texts = self.texts(runs)?;
        self.left = left;
        for text in texts.iter() {
            at_most("length of an ascii", width as u64, text.len() as u64)
                .map_err(|flaw| self.flawed(column, flaw))?;
            if text.ends_with(&[0]) {
                let (have, need) = (text.len() as u64, text.len() as u64 - 1);
                let flaw = Flaw::Mismatch { what: "length of an ascii with padding", need, have };
                return Err(self.flawed(column, flaw));
            }
            slots.push(&[text, &padding[text.len()..width]]);
        }
        Ok(slots)
    }

    /// A tag, then the body of that alternative.
    fn union(&mut self, types: &[u16], runs: &Runs) -> Result<Pieces, Damage> {
        let column = self.next as u16;
        self.claim(runs.count(), 1)?;
        let tags = self.numbers(Kind::Structure, runs)?;
        let most = types.len() as u64 - 1;
        tags.iter()
            .try_for_each(|tag| at_most("tag", most, *tag as u64))
            .map_err(|flaw| self.flawed(column, flaw))?;
        let mut alternatives = Vec::new();
        for (tag, type_id) in (0..).zip(types) {
            let has_tag: Vec<bool> = tags.iter().map(|own| *own == tag).collect();
            let bodies = self.record(*type_id, &runs.filter(&has_tag))?;
            alternatives.push((bodies, 0));
        }
        let mut contents = Pieces::default();
        for tag in tags {
            let (bodies, next) = &mut alternatives[tag as usize];
            contents.push(&[&[tag as u8], bodies.get(*next)]);
            *next += 1;
        }
        Ok(contents)
    }

    /// A count, a null bitmap if items may be null, the items.
    fn array(&mut self, item: &ItemLayout, runs: &Runs) -> Result<Pieces, Damage> {
        let column = self.next as u16;
        self.claim(runs.count(), 4)?;
        let counts = self.numbers(Kind::Structure, runs)?;
        // An item takes at least one byte.
        let mut left = self.left as u64;
        for count in &counts {
            at_most("items of an array", left, *count as u64).map_err(|flaw| self.flawed(column, flaw))?;
            left -= *count as u64;
        }
        let counts: Vec<usize> = counts.into_iter().map(|count| count as usize).collect();
        let below = runs.expand(&counts);
        let presence = match item.nullable {
            true => Some(self.presence(&below)?),
            false => None,
        };
        let bitmaps: usize =
            counts.iter().map(|count| if item.nullable { count.div_ceil(8) } else { 0 }).sum();
        self.claim(1, bitmaps)?;
        let items = self.items(item, &below, presence.as_deref())?;
        let (mut contents, mut first) = (Pieces::default(), 0);
        for count in counts {
            let here = first..first + count;
            let nulls = presence.as_ref().map_or(Vec::new(), |presence| null_bitmap(&presence[here.clone()]));
            let bytes: Vec<u8> = here.flat_map(|i| items.get(i)).copied().collect();
            contents.push(&[&(count as u32).to_le_bytes(), &nulls, &bytes]);
            first += count;
        }
        Ok(contents)
    }

    /// The bytes of all items of all arrays, nulls among them.
    fn items(&mut self, item: &ItemLayout, runs: &Runs, presence: Option<&[bool]>) -> Result<Pieces, Damage> {
        let is_record = matches!(item.ty, TypeLayout::Record(_));
        // A slot or a length each; records have their own length, and take one byte where they have none.
        let null = vec![0; if is_record { 1 } else { item.ty.width() }];
        if !is_record {
            self.claim(runs.count(), null.len())?;
        }
        let there = presence.map_or_else(|| runs.clone(), |presence| runs.filter(presence));
        let contents = self.contents(&item.ty, &there)?;
        let (mut items, mut contents) = (Pieces::default(), contents.iter());
        for i in 0..runs.count() {
            let is_there = presence.is_none_or(|presence| presence[i]);
            match if is_there { contents.next() } else { None } {
                None => items.push(&[&null]),
                Some([]) if is_record => items.push(&[&null]),
                Some(content) if !is_record && item.ty.is_variable() => {
                    items.push(&[&(content.len() as u32).to_le_bytes(), content]);
                }
                Some(content) => items.push(&[content]),
            }
        }
        Ok(items)
    }
}

/// Whether slots are sign-extended to integers.
fn is_signed(ty: &TypeLayout) -> bool {
    matches!(ty, TypeLayout::Scalar(scalar) if scalar.is_signed())
}

/// The integer of a slot.
fn extended(slot: &[u8], is_signed: bool) -> i64 {
    let spare = 64 - 8 * slot.len() as u32;
    let high = little_endian(slot) << spare;
    if is_signed { high as i64 >> spare } else { (high >> spare) as i64 }
}

/// A bit for each value, low bits first: 1 is null.
fn null_bitmap(presence: &[bool]) -> Vec<u8> {
    let byte = |eight: &[bool]| eight.iter().rev().fold(0, |byte, is_there| byte << 1 | u8::from(!is_there));
    presence.chunks(8).map(byte).collect()
}

/// One field of all records of a type.
struct Field {
    width: usize,
    is_variable: bool,
    /// Of each record, if the field may be null.
    presence: Option<Vec<bool>>,
    /// Slots or contents of those that are there.
    contents: Pieces,
}

/// The body of each record: null bitmap, slots, contents of variable fields.
fn assembled(fields: &[Field], count: usize) -> Pieces {
    let mut bodies = Pieces::default();
    let mut next = vec![0; fields.len()];
    let fixed: usize = fields.iter().map(|field| field.width).sum();
    for row in 0..count {
        let is_there = |field: &Field| field.presence.as_ref().is_none_or(|presence| presence[row]);
        let nullable = fields.iter().filter(|field| field.presence.is_some());
        let nulls = null_bitmap(&nullable.map(is_there).collect::<Vec<bool>>());
        let (mut slots, mut heap) = (Vec::new(), Vec::new());
        for (field, next) in fields.iter().zip(&mut next) {
            let content = if is_there(field) { field.contents.get(*next) } else { &[] };
            *next += usize::from(is_there(field));
            if field.is_variable {
                heap.extend_from_slice(content);
                slots.extend_from_slice(&((nulls.len() + fixed + heap.len()) as u32).to_le_bytes());
            } else if is_there(field) {
                slots.extend_from_slice(content);
            } else {
                slots.resize(slots.len() + field.width, 0);
            }
        }
        bodies.push(&[&nulls, &slots, &heap]);
    }
    bodies
}
