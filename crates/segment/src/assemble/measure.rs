//! The first pass: how many bytes each value takes.

use super::{Assembler, Presence, Sizes, add_sizes, are_single};
use crate::damage::Damage;
use crate::level::Level;
use crate::members::{choose, count};
use crate::plan::{Extent, ItemNode, Node, RecordNode};
use std::mem::take;

impl Assembler<'_> {
    pub(super) fn measure_record(&mut self, node: &RecordNode, level: &Level) -> Result<(), Damage> {
        self.claim(0, level.count, node.fixed as usize)?;
        self.tools.states[node.slot].sizes = Sizes::Same(node.fixed);
        if node.is_fixed {
            return Ok(());
        }
        let mut each = take(&mut self.tools.states[node.slot].each);
        each.clear();
        each.resize(level.kept(), node.fixed);
        for field in node.fields.iter().filter(|field| field.is_variable()) {
            let (presence, child, members) = self.below_field(field, level)?;
            let child_level = child.as_ref().unwrap_or(level);
            let measured = match presence {
                Presence::None => Ok(()),
                _ => self.measure_content(&field.node, child_level),
            };
            if measured.is_ok() && presence != Presence::None {
                let state = &self.tools.states[field.node.slot()];
                add_sizes(&mut each, members.as_deref(), state.sizes, &state.each);
            }
            self.give_back(field, child, members);
            measured?;
        }
        let state = &mut self.tools.states[node.slot];
        (state.each, state.sizes) = (each, Sizes::Each);
        Ok(())
    }

    fn measure_content(&mut self, node: &Node, level: &Level) -> Result<(), Damage> {
        if level.count == 0 {
            let state = &mut self.tools.states[node.slot()];
            state.each.clear();
            state.sizes = Sizes::Same(0);
            return Ok(());
        }
        match node {
            Node::Leaf { .. } => Ok(()),
            Node::Bytes { column } => self.measure_bytes(*column, level),
            Node::Record(record) => self.measure_record(record, level),
            Node::Union { tags, alternatives } => self.measure_union(*tags, alternatives, level),
            Node::Array { counts, item } => self.measure_array(*counts, item, level),
        }
    }

    fn measure_bytes(&mut self, column: usize, level: &Level) -> Result<(), Damage> {
        let state = &mut self.tools.states[column];
        let (mut ends, mut content) = (take(&mut state.each), take(&mut state.content));
        let scratch = &mut self.tools.scratch;
        let read = self.columns.strings(column, level, self.budget, scratch, &mut ends, &mut content);
        let length = content.len();
        if read.is_ok() {
            ends_to_lengths(&mut ends);
        }
        let state = &mut self.tools.states[column];
        (state.each, state.content) = (ends, content);
        if read? {
            state.sizes = Sizes::Same(length as u32);
            self.claim(column, level.count, length)
        } else {
            state.sizes = Sizes::Each;
            self.claim(column, 1, length)
        }
    }

    fn measure_union(
        &mut self,
        column: usize,
        alternatives: &[RecordNode],
        level: &Level,
    ) -> Result<(), Damage> {
        self.claim(column, level.count, 1)?;
        self.read_tags(column, alternatives.len(), level)?;
        let mut tags = take(&mut self.tools.states[column].marks);
        let mut measured = Ok(());
        let frequencies = frequencies(&tags);
        for (tag, alternative) in alternatives.iter().enumerate() {
            let state = &mut self.tools.states[alternative.slot];
            let (mut child, mut members) = (take(&mut state.level), take(&mut state.members));
            choose_members(&mut child, &mut members, level, &tags, tag as u8, frequencies[tag]);
            if child.count > 0 && measured.is_ok() {
                measured = self.measure_record(alternative, &child);
            }
            let state = &mut self.tools.states[alternative.slot];
            (state.level, state.members) = (child, members);
        }
        level.compact(&mut tags);
        let mut each = take(&mut self.tools.states[column].each);
        if measured.is_ok() {
            self.add_alternatives(&tags, alternatives, &mut each);
        }
        let state = &mut self.tools.states[column];
        (state.marks, state.each, state.sizes) = (tags, each, Sizes::Each);
        measured
    }

    /// Bytes of each union, the tag included.
    fn add_alternatives(&self, tags: &[u8], alternatives: &[RecordNode], each: &mut Vec<u32>) {
        let mut same = [1; 256];
        for (size, node) in same.iter_mut().zip(alternatives) {
            if let Sizes::Same(bytes) = self.tools.states[node.slot].sizes {
                *size += bytes;
            }
        }
        each.clear();
        each.extend(tags.iter().map(|tag| same[usize::from(*tag)]));
        for state in alternatives.iter().map(|node| &self.tools.states[node.slot]) {
            if state.sizes == Sizes::Each && state.level.count > 0 {
                add_sizes(each, Some(&state.members), state.sizes, &state.each);
            }
        }
    }

    fn measure_array(&mut self, column: usize, item: &ItemNode, level: &Level) -> Result<(), Damage> {
        self.claim(column, level.count, 4)?;
        self.read_counts(column, item, level)?;
        let items = take(&mut self.tools.states[column].level);
        if let Some((tags, alternatives)) = item.fixed_records().filter(|_| items.all) {
            let measured = self.measure_fixed_records((column, tags), alternatives, &items);
            self.tools.states[column].level = items;
            return measured;
        }
        let measured = self.measure_items(item, &items);
        let state = &mut self.tools.states[column];
        state.level = items;
        measured?;
        let (counts, mut each) = (take(&mut state.values), take(&mut state.each));
        let bitmap = |count: &u32| if item.presence.is_some() { count.div_ceil(8) } else { 0 };
        let below = &self.tools.states[item.slot];
        each.clear();
        match below.sizes {
            Sizes::Same(size) => each.extend(counts.iter().map(|count| 4 + bitmap(count) + count * size)),
            Sizes::Each if are_single(&counts) => {
                let before = 4 + bitmap(&1);
                each.extend(below.each.iter().take(counts.len()).map(|size| before + size));
            }
            Sizes::Each => {
                let mut sizes = &below.each[..];
                each.extend(counts.iter().map(|count| {
                    let (here, rest) = sizes.split_at(*count as usize);
                    sizes = rest;
                    here.iter().fold(4 + bitmap(count), |sum, size| sum + size)
                }));
            }
        }
        let state = &mut self.tools.states[column];
        (state.values, state.each, state.sizes) = (counts, each, Sizes::Each);
        Ok(())
    }

    /// Bytes of each array of records of several types that have fixed lengths: from the tags alone, without looking where the
    /// records of each type are.
    fn measure_fixed_records(
        &mut self,
        (counts, tags): (usize, usize),
        alternatives: &[RecordNode],
        items: &Level,
    ) -> Result<(), Damage> {
        let mut sizes = [1; 256];
        if items.count > 0 {
            self.claim(tags, items.count, 1)?;
            self.read_tags(tags, alternatives.len(), items)?;
        } else {
            self.tools.states[tags].marks.clear();
        }
        let marks = take(&mut self.tools.states[tags].marks);
        let frequencies = frequencies(&marks);
        let mut measured = Ok(());
        for ((tag, alternative), size) in (0..=u8::MAX).zip(alternatives).zip(&mut sizes) {
            *size += alternative.fixed;
            let mut child = take(&mut self.tools.states[alternative.slot].level);
            match frequencies[usize::from(tag)] as usize {
                0 => child.begin(),
                all if all == marks.len() => child.clone_from(items),
                _ => count(&mut child, items, &marks, tag),
            }
            if child.count > 0 && measured.is_ok() {
                measured = self.measure_record(alternative, &child);
            }
            self.tools.states[alternative.slot].level = child;
        }
        let state = &mut self.tools.states[counts];
        let mut tags_left = &marks[..];
        state.each.clear();
        state.each.extend(state.values.iter().map(|count| {
            let (here, rest) = tags_left.split_at(*count as usize);
            tags_left = rest;
            here.iter().fold(4, |sum, tag| sum + sizes[usize::from(*tag)])
        }));
        state.sizes = Sizes::Each;
        self.tools.states[tags].marks = marks;
        measured
    }

    /// Bytes of each item, with what stands before its content.
    fn measure_items(&mut self, item: &ItemNode, level: &Level) -> Result<(), Damage> {
        let presence = match item.presence {
            Some(column) => self.presence(column, level, true)?,
            None => Presence::All,
        };
        if let Extent::Fixed(width) = item.extent {
            self.tools.states[item.slot].sizes = Sizes::Same(width);
            return Ok(());
        }
        if presence == Presence::None {
            self.tools.states[item.slot].sizes = Sizes::Same(item.null_width);
            return Ok(());
        }
        let some = item.presence.filter(|_| presence == Presence::Some);
        let child = some.map(|column| take(&mut self.tools.states[column].level));
        let measured = self.measure_content(&item.node, child.as_ref().unwrap_or(level));
        if let (Some(column), Some(child)) = (some, child) {
            self.tools.states[column].level = child;
        }
        measured?;
        let before = if matches!(item.extent, Extent::Prefixed) { 4 } else { 0 };
        let mut each = take(&mut self.tools.states[item.slot].each);
        let content = &self.tools.states[item.node.slot()];
        each.clear();
        let sizes = match (some, content.sizes) {
            (None, Sizes::Same(size)) => Sizes::Same((size + before).max(1)),
            (None, Sizes::Each) => {
                each.extend(content.each.iter().map(|size| (size + before).max(1)));
                Sizes::Each
            }
            (Some(column), sizes) => {
                each.resize(level.kept(), item.null_width);
                for (i, member) in self.tools.states[column].members.iter().enumerate() {
                    let size = if let Sizes::Same(size) = sizes { size } else { content.each[i] };
                    each[*member as usize] = (size + before).max(1);
                }
                Sizes::Each
            }
        };
        let state = &mut self.tools.states[item.slot];
        (state.each, state.sizes) = (each, sizes);
        Ok(())
    }
}

/// How often each tag is there.
fn frequencies(tags: &[u8]) -> [u32; 256] {
    let mut frequencies = [0; 256];
    for same in tags.chunk_by(|a, b| a == b) {
        frequencies[usize::from(same[0])] += same.len() as u32;
    }
    frequencies
}

/// Makes `child` the level of the records with this tag; where all or none have it, without looking at them.
fn choose_members(
    child: &mut Level,
    members: &mut Vec<u32>,
    level: &Level,
    tags: &[u8],
    tag: u8,
    frequency: u32,
) {
    if frequency == 0 {
        child.begin();
        members.clear();
    } else if frequency as usize == tags.len() {
        child.clone_from(level);
        members.clear();
        members.extend(0..level.kept() as u32);
    } else {
        choose(child, members, level, tags, tag);
    }
}

fn ends_to_lengths(ends: &mut [u32]) {
    let mut start = 0;
    for end in ends {
        (*end, start) = (*end - start, *end);
    }
}
