//! What is read losslessly and appended again is the same, for every type.

use crate::support::{Message, appender, messages, read, streams};
use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use proptest::prelude::*;
use tapedb_arrow::{Decimals, ReadOptions};
use tapedb_codec::dynamic::RecordValue;
use tapedb_engine::Stream;
use tapedb_schema::Timestamp;
use tapedb_testing::sample::{SplitMix64, schema};
use tapedb_testing::values::Values;

const LOSSLESS: Decimals = Decimals::Raw;

/// Appends random messages of all message types; times grow.
pub fn fill(stream: &Stream, seed: u64, count: usize) {
    let layouts = stream.layouts();
    let types: Vec<u16> = layouts.records().iter().filter(|r| r.message).map(|r| r.type_id).collect();
    let mut values = Values::new(layouts, seed);
    let mut random = SplitMix64::new(seed);
    let mut loader = stream.loader().unwrap();
    let mut record = RecordValue::default();
    for time in 0..count {
        values.fill(types[random.below(types.len())], &mut record);
        let symbol = ["A", "é", "long symbol name"][random.below(3)];
        loader.append_value(symbol, Timestamp(time as i64), &record).unwrap();
        if time == count / 2 && random.once_in(2) {
            loader.flush().unwrap();
            stream.seal().unwrap();
        }
    }
    loader.close().unwrap();
    if random.once_in(2) {
        stream.seal().unwrap();
    }
}

/// Batches as another process gets them.
fn through_ipc(batches: &[RecordBatch]) -> Vec<RecordBatch> {
    let Some(first) = batches.first() else { return Vec::new() };
    let mut bytes = Vec::new();
    let mut writer = StreamWriter::try_new(&mut bytes, &first.schema()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.finish().unwrap();
    drop(writer);
    StreamReader::try_new(&bytes[..], None).unwrap().map(|batch| batch.unwrap()).collect()
}

fn encoded(stream: &Stream, messages: &[Message]) -> Vec<(String, i64, Vec<u8>)> {
    let body = |record: &RecordValue| {
        let mut body = Vec::new();
        stream.layouts().encode(record, &mut body).unwrap();
        body
    };
    messages.iter().map(|(symbol, time, record)| (symbol.clone(), *time, body(record))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 30, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_type_comes_back(seed in any::<u64>(), all_types in any::<bool>(), in_time_order in any::<bool>()) {
        let schema = schema(if all_types { seed & !3 } else { seed });
        let (_directory, _db, stream, copy) = streams(schema);
        fill(&stream, seed, 40);
        let options = ReadOptions { decimals: LOSSLESS, in_time_order, ..ReadOptions::default() };
        let mut count = 0;
        for record in stream.layouts().records().iter().filter(|record| record.message) {
            let batches = read(&stream, &record.name, &options).unwrap();
            let mut appender = appender(&copy, &record.name);
            for batch in through_ipc(&batches) {
                appender.append(&batch).unwrap();
            }
            appender.flush().unwrap();
            count += batches.iter().map(RecordBatch::num_rows).sum::<usize>();
            let expected = encoded(&stream, &messages(&stream, &record.name));
            prop_assert_eq!(encoded(&copy, &messages(&copy, &record.name)), expected);
        }
        prop_assert_eq!(count, 40);
    }
}

#[test]
fn what_contains_itself_comes_back() {
    let schema = "record Leaf { x: string? }
        message Tree { id: u16, children: array<record<Tree>>, either: record<Tree|Leaf>? }";
    let lines = r#"
        {"$type": "Tree", "id": 1, "children": [], "either": null}
        {"$type": "Tree", "id": 2, "children": [{"id": 3, "children": [], "either": {"$type": "Leaf", "x": "y"}}], "either": {"$type": "Tree", "id": 4, "children": [], "either": null}}
    "#;
    let (_directory, _db, stream, copy) = crate::support::with_messages(schema, lines);
    let options = ReadOptions { decimals: LOSSLESS, ..ReadOptions::default() };
    let mut appender = appender(&copy, "Tree");
    for batch in through_ipc(&read(&stream, "Tree", &options).unwrap()) {
        appender.append(&batch).unwrap();
    }
    appender.flush().unwrap();
    assert_eq!(messages(&copy, "Tree"), messages(&stream, "Tree"));
    assert_eq!(messages(&copy, "Tree").len(), 2);
}
