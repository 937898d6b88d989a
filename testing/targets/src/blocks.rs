//! Random messages of a schema as rows of a block.

use crate::values::Values;
use tapedb_codec::dynamic::{Layouts, RecordValue};
use tapedb_segment::{BlockBuilder, RowHeader};

/// A message: its header and its body.
pub type Message = (RowHeader, Vec<u8>);

/// Messages in time order that depend on the seed alone: some symbols, all record types, some times twice, some bodies
/// like the one before.
pub fn messages(layouts: &Layouts, seed: u64, count: usize) -> Vec<Message> {
    let mut values = Values::new(layouts, seed);
    let (mut time, mut record, mut messages) = (0, RecordValue::default(), Vec::<Message>::new());
    let symbols = 1 + values.random.below(9);
    let gap = values.random.below(3);
    for i in 0..count {
        time += values.random.below(5) as i64 * 1_000;
        let sequence = 100 + (i * (1 + gap)) as u64;
        let type_id = values.random.below(layouts.records().len()) as u16;
        let symbol = values.random.below(symbols) as u32 * 7;
        let mut body = Vec::new();
        let like = messages.iter().rev().take(20).find(|(header, _)| header.type_id == type_id);
        match like.filter(|_| values.random.once_in(3)) {
            Some((_, before)) => body.clone_from(before),
            None => {
                values.fill(type_id, &mut record);
                layouts.encode(&record, &mut body).expect("values can be encoded");
            }
        }
        messages.push((RowHeader { time, sequence, symbol, type_id }, body));
    }
    messages
}

/// Puts messages into a block builder.
pub fn push_all(builder: &mut BlockBuilder, messages: &[Message]) {
    for (header, body) in messages {
        builder.push(*header, body).expect("messages are in order and fit");
    }
}
