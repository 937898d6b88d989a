//! The second pass, of records: what is the same in all bodies, fields of fixed width, and nulls.

use super::{Assembler, Presence};
use crate::column;
use crate::columns::{Numbers, spread};
use crate::damage::Damage;
use crate::level::Level;
use crate::plan::{ColumnKind, FieldNode, Node, Null, RecordNode};
use crate::scatter::{Bodies, Template, gather, scatter};
use crate::spaced::Spaced;
use crate::strip_source::{Follows, StripSource, Varying};
use std::mem::take;

impl<'a> Assembler<'a> {
    /// Writes the wanted bodies to `places`; those of an alternative have their `tag` in front.
    pub(super) fn place_record(
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

    /// What is the same in all bodies goes into a template; the rest is sent to its places.
    fn place_fixed(
        &mut self,
        node: &RecordNode,
        level: &Level,
        places: &[u32],
        template: &mut Template,
        out: &mut [u8],
    ) -> Result<(), Damage> {
        let body = template.before as usize;
        let is_patched = self.read_nulls(node, level, &mut template.bytes[body..])?;
        let mut varying = Vec::with_capacity(node.fields.len() + 1);
        self.add_nulls(node, &template.bytes[body..], &mut varying);
        let below = self.lend_nullable(node);
        let cuts = column::cuts(level);
        let numbers =
            self.add_fields(node, (level, &cuts), &below, &mut template.bytes[body..], &mut varying);
        let done = numbers.and_then(|()| {
            self.find_leaders(node, level, &mut varying)?;
            scatter(&mut varying, template, &mut self.tools.scatter, &level.ends, places, out);
            self.check(&varying)
        });
        self.keep_memory(varying);
        self.take_nullable_back(below);
        done?;
        if is_patched { self.patch(node, level, places, out) } else { Ok(()) }
    }

    /// Reads which fields are there, and marks those that no body has; whether there are long texts.
    fn read_nulls(&mut self, node: &RecordNode, level: &Level, template: &mut [u8]) -> Result<bool, Damage> {
        let mut has_texts = false;
        for field in &node.fields {
            let presence = match field.null {
                Some(null) => self.presence(null.column, level, !field.is_in_slot())?,
                None => Presence::All,
            };
            match (presence, field.null) {
                (Presence::None, Some(null)) => template[null.byte as usize] |= null.mask,
                _ => has_texts |= matches!(field.node, Node::Leaf { kind: ColumnKind::Ascii(_), .. }),
            }
        }
        Ok(has_texts)
    }

    /// Lends what is known of the fields that are there in some bodies.
    fn lend_nullable(&mut self, node: &RecordNode) -> Vec<Nullable> {
        let columns = node.fields.iter().filter(|field| field.is_in_slot()).filter_map(|field| field.null);
        let mut below = Vec::new();
        for Null { column, .. } in columns {
            let state = &mut self.tools.states[column];
            if state.presence == Presence::Some {
                let (level, marks) = (take(&mut state.level), take(&mut state.marks));
                let cuts = column::cuts(&level);
                below.push(Nullable { presence: column, level, marks, cuts });
            }
        }
        below
    }

    fn take_nullable_back(&mut self, below: Vec<Nullable>) {
        for Nullable { presence, level, marks, .. } in below {
            let state = &mut self.tools.states[presence];
            (state.level, state.marks) = (level, marks);
        }
    }

    /// Gets ready to read all fields of up to eight bytes; those that are always the same go into the template.
    fn add_fields<'l>(
        &mut self,
        node: &RecordNode,
        level: (&'l Level, &'l [Vec<u32>]),
        below: &'l [Nullable],
        template: &mut [u8],
        varying: &mut Vec<Varying<'l>>,
    ) -> Result<(), Damage>
    where
        'a: 'l,
    {
        for field in node.fields.iter().filter(|field| field.is_in_slot()) {
            let Node::Leaf { column, kind, width } = field.node else { continue };
            let presence = field.null.map_or(Presence::All, |null| self.tools.states[null.column].presence);
            match presence {
                Presence::None => {}
                Presence::Some => {
                    let null = field.null.map(|null| null.column);
                    let Some(below) = below.iter().find(|below| Some(below.presence) == null) else {
                        continue;
                    };
                    let source = self.nullable_source((column, kind), below)?;
                    varying.push(Varying { column, offset: field.offset, width, source, follows: None });
                }
                Presence::All | Presence::Unread => {
                    self.add_numbers((column, kind), (field.offset, width), level, template, varying)?;
                }
            }
        }
        Ok(())
    }

    /// Gets ready to read a field that some bodies have.
    fn nullable_source<'l>(
        &mut self,
        (column, kind): (usize, ColumnKind),
        below: &'l Nullable,
    ) -> Result<StripSource<'l>, Damage>
    where
        'a: 'l,
    {
        let (level, mut values) = (&below.level, self.tools.lend());
        let numbers = self.columns.number_strips(
            (column, kind),
            (level, &below.cuts),
            &mut self.tools.scratch,
            &mut values,
        );
        let source = match numbers {
            Ok(Numbers::Constant(value)) => Ok(StripSource::Same(value)),
            Ok(Numbers::Varying(source, None)) => Ok(source),
            // Its leader is a column of another level.
            Ok(Numbers::Varying(_, Some(_))) => {
                let all = self.columns.numbers((column, kind), level, &mut self.tools.scratch, &mut values);
                all.map(|decoded| {
                    spread(decoded, level, &mut values);
                    StripSource::Values(take(&mut values))
                })
            }
            Err(damage) => Err(damage),
        };
        self.tools.take_back(values);
        Ok(StripSource::Spaced(Box::new((Spaced::new(&below.marks), source?))))
    }

    /// Whether all that has been read is what it can be.
    fn check(&self, varying: &[Varying]) -> Result<(), Damage> {
        let flaw = varying.iter().find_map(|column| Some((column.column, column.source.flaw()?)));
        flaw.map_or(Ok(()), |(column, flaw)| Err(self.columns.damage(column, flaw)))
    }

    /// The bytes of the null bitmap that differ from body to body.
    fn add_nulls(&mut self, node: &RecordNode, template: &[u8], varying: &mut Vec<Varying>) {
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
                let source = StripSource::Bytes(bits);
                varying.push(Varying { column: usize::MAX, offset: byte, width: 1, source, follows: None });
            }
        }
    }

    /// Gets ready to read a field that all bodies have: among `varying`, or into the template if it is always the same
    /// (then `false`).
    fn add_numbers<'l>(
        &mut self,
        (column, kind): (usize, ColumnKind),
        (offset, width): (u32, u32),
        level: (&'l Level, &'l [Vec<u32>]),
        template: &mut [u8],
        varying: &mut Vec<Varying<'l>>,
    ) -> Result<bool, Damage>
    where
        'a: 'l,
    {
        let mut values = self.tools.lend();
        let numbers = self.columns.number_strips((column, kind), level, &mut self.tools.scratch, &mut values);
        self.tools.take_back(values);
        match numbers? {
            Numbers::Varying(source, follows) => {
                varying.push(Varying { column, offset, width, source, follows });
                Ok(true)
            }
            Numbers::Constant(value) => {
                let slot = &mut template[offset as usize..][..width as usize];
                slot.copy_from_slice(&value.to_le_bytes()[..width as usize]);
                Ok(false)
            }
        }
    }

    fn keep_memory(&mut self, varying: Vec<Varying>) {
        varying.into_iter().for_each(|column| self.keep_memory_of(column.source));
    }

    fn keep_memory_of(&mut self, source: StripSource) {
        match source {
            StripSource::Values(values) => self.tools.take_back(values),
            StripSource::Bytes(values) => self.tools.narrow.push(values),
            StripSource::Spaced(spaced) => self.keep_memory_of(spaced.1),
            StripSource::Strips(_)
            | StripSource::Same(_)
            | StripSource::Pieces(_)
            | StripSource::Decimals(_) => {}
        }
    }

    /// Writes or compares all bodies of a record type that [is plain](RecordNode::is_plain), one after the other; the values of
    /// body `i` stand in the columns at the low half of `homes[i]`.
    pub fn place_plain(&mut self, level: &Level, homes: &[u32], out: Bodies<'_>) -> Result<(), Damage> {
        let node = &self.plan.root;
        self.claim(0, level.count, node.fixed as usize)?;
        let (mut template, mut varying) =
            (vec![0; node.fixed as usize], Vec::with_capacity(node.fields.len()));
        let cuts = column::cuts(level);
        for field in &node.fields {
            if let Node::Leaf { column, kind, width } = field.node {
                let slot = (field.offset, width);
                self.add_numbers((column, kind), slot, (level, &cuts), &mut template, &mut varying)?;
            }
        }
        self.find_leaders(node, level, &mut varying)?;
        gather(&mut varying, &mut self.tools.cellar, &level.ends, (homes, &template), out);
        let done = self.check(&varying);
        self.keep_memory(varying);
        done
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
            let leads = |column: &Varying| {
                column.column == other
                    && column.follows.is_none()
                    && !matches!(column.source, StripSource::Spaced(_))
            };
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
            (varying[i].source, varying[i].follows) = (StripSource::Values(values), None);
        }
        Ok(())
    }

    /// Writes long texts.
    fn patch(
        &mut self,
        node: &RecordNode,
        level: &Level,
        places: &[u32],
        out: &mut [u8],
    ) -> Result<(), Damage> {
        let is_text =
            |field: &&FieldNode| matches!(field.node, Node::Leaf { kind: ColumnKind::Ascii(_), .. });
        for field in node.fields.iter().filter(is_text) {
            let (presence, child, members) = self.below_field(field, level)?;
            let mut done = Ok(());
            if presence != Presence::None {
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
}

/// A field that some bodies have.
struct Nullable {
    /// Column of its presence.
    presence: usize,
    /// The level of its values.
    level: Level,
    /// Of each body 1 if it has the field, else 0.
    marks: Vec<u8>,
    cuts: Vec<Vec<u32>>,
}
