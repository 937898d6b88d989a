//! The second pass, for content after records: texts, arrays and records in records.

use super::{Assembler, Presence, Sizes, add_sizes, are_single};
use crate::column::check_ascii;
use crate::columns::spread;
use crate::damage::Damage;
use crate::level::Level;
use crate::plan::{ColumnKind, Extent, FieldNode, ItemNode, Node, RecordNode};
use crate::scatter::{scatter_one, write_u32};
use std::mem::take;

impl Assembler<'_> {
    pub(super) fn place_variable(
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

    /// Writes one variable field after `ends`, and moves them.
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

    pub(super) fn place_content(
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
                check_ascii(text, width).map_err(|flaw| self.columns.damage(column, flaw))?;
                let (front, padding) = slot.split_at_mut(text.len());
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
        if let Some((tags, alternatives)) =
            item.fixed_records().filter(|_| self.tools.states[column].level.all)
        {
            return self.place_fixed_records((column, tags), alternatives, places, out);
        }
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

    /// Writes arrays that [`Self::measure_fixed_records`] measured: one look at each tag says where its record lies.
    fn place_fixed_records(
        &mut self,
        (counts, tags): (usize, usize),
        alternatives: &[RecordNode],
        places: &[u32],
        out: &mut [u8],
    ) -> Result<(), Damage> {
        let mut lists: Vec<Vec<u32>> = Vec::with_capacity(alternatives.len());
        let mut sizes = [1; 256];
        for (alternative, size) in alternatives.iter().zip(&mut sizes) {
            *size += alternative.fixed;
            let mut list = self.tools.places.pop().unwrap_or_default();
            list.clear();
            list.reserve(self.tools.states[alternative.slot].level.count);
            lists.push(list);
        }
        let mut tags = &self.tools.states[tags].marks[..];
        for (place, count) in places.iter().zip(&self.tools.states[counts].values) {
            write_u32(out, *place, *count);
            let (here, rest) = tags.split_at(*count as usize);
            tags = rest;
            let mut at = *place + 4;
            for tag in here {
                if let Some(list) = lists.get_mut(usize::from(*tag)) {
                    list.push(at + 1);
                }
                at += sizes[usize::from(*tag)];
            }
        }
        let mut done = Ok(());
        for ((tag, alternative), places) in (0..=u8::MAX).zip(alternatives).zip(&lists) {
            let level = take(&mut self.tools.states[alternative.slot].level);
            done = done.and_then(|()| self.place_record(alternative, Some(tag), &level, places, out));
            self.tools.states[alternative.slot].level = level;
        }
        self.tools.places.append(&mut lists);
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
}
