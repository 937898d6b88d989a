//! From fields to offsets: what the comparison of two schemas found, as the plan that conversion runs on.

use super::plan::{
    Bit, BitMove, ContentPlan, ContentSource, Conversion, Draft, Origin, RecordPlan, Run, Slot,
};
use crate::dynamic::{FieldLayout, Layouts, RecordLayout, Value};

pub(super) fn lower(
    written: &RecordLayout,
    read: &Layouts,
    draft: &Draft,
    drafts: &[Option<Draft>],
) -> RecordPlan {
    let to = &read.records()[usize::from(draft.target)];
    let mut lowering = Lowering::new(to.fixed);
    for (index, (field, origin)) in to.fields.iter().zip(&draft.fields).enumerate() {
        match origin {
            Origin::Default(value) => lowering.default(index, field, value),
            Origin::Field(source, conversion, instead) => {
                let from = &written.fields[*source];
                let conversion = simplest(conversion, field, drafts);
                lowering.field(index, from, field, conversion, instead.as_ref());
            }
        }
    }
    let ends = written.fields.iter().filter(|field| field.ty.is_variable()).map(|field| field.offset);
    RecordPlan {
        target: draft.target,
        is_same: draft.is_same,
        fixed: written.fixed,
        ends: ends.collect(),
        template: lowering.template.into(),
        bits: lowering.bits.into(),
        runs: lowering.runs.into(),
        slots: lowering.slots.into(),
        contents: lowering.contents.into(),
    }
}

/// A conversion that changes nothing becomes a copy, all the way down.
fn simplest(conversion: &Conversion, to: &FieldLayout, drafts: &[Option<Draft>]) -> Conversion {
    let width = (!to.ty.is_variable()).then_some(to.width);
    simplified(conversion, width, drafts)
}

fn simplified(conversion: &Conversion, to_width: Option<usize>, drafts: &[Option<Draft>]) -> Conversion {
    if conversion.is_same(to_width, drafts) {
        return to_width.map_or(Conversion::Content, Conversion::Copy);
    }
    match conversion {
        Conversion::Array(array) => {
            let mut array = array.clone();
            array.conversion = simplified(&array.conversion, array.to.width, drafts);
            Conversion::Array(array)
        }
        other => other.clone(),
    }
}

struct Lowering {
    template: Vec<u8>,
    bits: Vec<BitMove>,
    runs: Vec<Run>,
    slots: Vec<Slot>,
    contents: Vec<ContentPlan>,
}

impl Lowering {
    fn new(fixed: usize) -> Self {
        Self {
            template: vec![0; fixed],
            bits: Vec::new(),
            runs: Vec::new(),
            slots: Vec::new(),
            contents: Vec::new(),
        }
    }

    /// A field that was not written.
    fn default(&mut self, index: usize, field: &FieldLayout, value: &Value) {
        let bytes = bytes_of(value, field);
        if let (Value::Null, Some(bit)) = (value, null_bit(field)) {
            self.template[bit.byte] |= bit.mask;
        }
        if field.ty.is_variable() {
            self.contents.push(ContentPlan {
                field: index,
                to: field.offset,
                source: ContentSource::Constant(bytes),
            });
        } else {
            self.template[field.offset..field.offset + bytes.len()].copy_from_slice(&bytes);
        }
    }

    fn field(
        &mut self,
        index: usize,
        from: &FieldLayout,
        to: &FieldLayout,
        conversion: Conversion,
        instead: Option<&Value>,
    ) {
        let (null, to_null) = (null_bit(from), null_bit(to));
        if let (Some(from), Some(to)) = (null, to_null) {
            self.move_bit(from, to);
        }
        let instead = instead.map(|value| bytes_of(value, to));
        if to.ty.is_variable() {
            let from_width = (!from.ty.is_variable()).then_some(from.width);
            let (from, before) = (from.offset, from.before);
            let source =
                ContentSource::Field { from, from_width, before, null, to_null, instead, conversion };
            return self.contents.push(ContentPlan { field: index, to: to.offset, source });
        }
        match conversion {
            // A null's slot is zero and must stay zero: the null bit need not be read.
            Conversion::Copy(length) if instead.is_none() => self.copy(from.offset, to.offset, length),
            conversion => self.slots.push(Slot {
                field: index,
                from: from.offset,
                from_width: from.width,
                to: to.offset,
                to_width: to.width,
                null,
                to_null,
                instead,
                conversion,
            }),
        }
    }

    fn move_bit(&mut self, from: Bit, to: Bit) {
        let rotate = (to.mask.trailing_zeros() + 8 - from.mask.trailing_zeros()) % 8;
        match self.bits.last_mut() {
            Some(last) if (last.from, last.to, last.rotate) == (from.byte, to.byte, rotate) => {
                last.mask |= from.mask;
            }
            _ => self.bits.push(BitMove { from: from.byte, to: to.byte, mask: from.mask, rotate }),
        }
    }

    fn copy(&mut self, from: usize, to: usize, length: usize) {
        match self.runs.last_mut() {
            Some(last) if last.from + last.length == from && last.to + last.length == to => {
                last.length += length;
            }
            _ => self.runs.push(Run { from, to, length }),
        }
    }
}

fn null_bit(field: &FieldLayout) -> Option<Bit> {
    field.null_bit.map(|bit| Bit { byte: bit / 8, mask: 1 << (bit % 8) })
}

/// The slot, or the content, of a default; none for a null.
fn bytes_of(value: &Value, field: &FieldLayout) -> Box<[u8]> {
    let width = field.width;
    match value {
        Value::Bool(x) => [u8::from(*x)].into(),
        Value::Int(x) => x.to_le_bytes()[..width].into(),
        Value::UInt(x) => x.to_le_bytes()[..width].into(),
        Value::F32(x) => x.to_le_bytes().into(),
        Value::F64(x) => x.to_le_bytes().into(),
        Value::Decimal(x) => x.canonical().to_bits().to_le_bytes().into(),
        Value::Scaled(x, _) => x.to_le_bytes().into(),
        Value::Timestamp(x) => x.0.to_le_bytes().into(),
        Value::TimeOfDay(x) => x.nanos().to_le_bytes().into(),
        Value::Char(x) => u32::from(*x).to_le_bytes().into(),
        Value::Ascii(x) => x.as_bytes()[..width].into(),
        Value::Enum(x) => x.to_le_bytes()[..width].into(),
        Value::Text(x) => x.as_bytes().into(),
        // A schema text has no literal for the others.
        Value::Null | Value::Binary(_) | Value::Array(_) | Value::Record(_) => Box::default(),
    }
}
