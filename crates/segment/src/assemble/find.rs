//! Which values of one column are wanted, without putting bodies together.

use super::{Assembler, Presence};
use crate::damage::Damage;
use crate::level::Level;
use crate::members::choose;
use crate::plan::{ItemNode, Node, RecordNode};
use std::mem::take;

impl Assembler<'_> {
    pub(super) fn find_in_record(
        &mut self,
        node: &RecordNode,
        level: &Level,
        target: usize,
    ) -> Result<(), Damage> {
        self.claim(0, level.count, node.fixed as usize)?;
        for field in &node.fields {
            if field.null.is_some_and(|null| null.column == target) {
                self.tools.found.clone_from(level);
                return Ok(());
            }
            if !contains(&field.node, target) {
                continue;
            }
            let (presence, child, members) = self.below_field(field, level)?;
            let done = match presence {
                Presence::None => {
                    self.tools.found.begin();
                    Ok(())
                }
                _ => self.find_in(&field.node, child.as_ref().unwrap_or(level), target),
            };
            self.give_back(field, child, members);
            return done;
        }
        self.tools.found.begin();
        Ok(())
    }

    fn find_in(&mut self, node: &Node, level: &Level, target: usize) -> Result<(), Damage> {
        if level.count == 0 {
            self.tools.found.begin();
            return Ok(());
        }
        match node {
            Node::Record(record) => self.find_in_record(record, level, target),
            Node::Union { tags, alternatives } if *tags != target => {
                if !take(&mut self.tools.states[*tags].is_read) {
                    self.read_tags(*tags, alternatives.len(), level)?;
                    alternatives.iter().for_each(|node| self.tools.states[node.slot].is_read = false);
                }
                self.tools.states[*tags].is_read = true;
                let below = alternatives.iter().position(|node| record_contains(node, target)).unwrap_or(0);
                self.find_in_alternative(*tags, below, &alternatives[below], level, target)
            }
            Node::Array { counts, item } if *counts != target => {
                if !take(&mut self.tools.states[*counts].is_read) {
                    self.read_counts(*counts, item, level)?;
                }
                let items = take(&mut self.tools.states[*counts].level);
                let done = self.find_in_items(item, &items, target);
                let state = &mut self.tools.states[*counts];
                (state.level, state.is_read) = (items, true);
                done
            }
            _ => {
                self.tools.found.clone_from(level);
                Ok(())
            }
        }
    }

    fn find_in_alternative(
        &mut self,
        tags: usize,
        tag: usize,
        node: &RecordNode,
        level: &Level,
        target: usize,
    ) -> Result<(), Damage> {
        let values = take(&mut self.tools.states[tags].marks);
        let state = &mut self.tools.states[node.slot];
        let (mut child, mut members) = (take(&mut state.level), take(&mut state.members));
        if !state.is_read {
            choose(&mut child, &mut members, level, &values, tag as u8);
        }
        let done = self.find_in_record(node, &child, target);
        let state = &mut self.tools.states[node.slot];
        (state.level, state.members, state.is_read) = (child, members, true);
        self.tools.states[tags].marks = values;
        done
    }

    fn find_in_items(&mut self, item: &ItemNode, level: &Level, target: usize) -> Result<(), Damage> {
        let Some(column) = item.presence.filter(|column| *column != target) else {
            if item.presence == Some(target) {
                self.tools.found.clone_from(level);
                return Ok(());
            }
            return self.find_in(&item.node, level, target);
        };
        match self.presence(column, level, true)? {
            Presence::None => {
                self.tools.found.begin();
                Ok(())
            }
            Presence::Some => {
                let child = take(&mut self.tools.states[column].level);
                let done = self.find_in(&item.node, &child, target);
                self.tools.states[column].level = child;
                done
            }
            _ => self.find_in(&item.node, level, target),
        }
    }
}

fn contains(node: &Node, column: usize) -> bool {
    match node {
        Node::Leaf { column: own, .. } | Node::Bytes { column: own } => *own == column,
        Node::Record(record) => record_contains(record, column),
        Node::Union { tags, alternatives } => {
            *tags == column || alternatives.iter().any(|record| record_contains(record, column))
        }
        Node::Array { counts, item } => {
            *counts == column || item.presence == Some(column) || contains(&item.node, column)
        }
    }
}

fn record_contains(record: &RecordNode, column: usize) -> bool {
    record
        .fields
        .iter()
        .any(|field| field.null.is_some_and(|null| null.column == column) || contains(&field.node, column))
}
