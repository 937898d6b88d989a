//! The second pass, of records: what is the same in all bodies, fields of fixed width, and nulls.

use super::{Assembler, Presence};
use crate::columns::{Fed, spread};
use crate::damage::Damage;
use crate::level::Level;
use crate::plan::{ColumnKind, Node, RecordNode};
use crate::scatter::{Feed, Follows, Template, Varying, gather, scatter};

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
    /// `i` stand in the columns at the low half of `homes[i]`.
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
}
