//! Blocks against the reference decoder: messages that look for trouble, and those of any schema, at every level of SIMD,
//! whole and in every part. `TAPEDB_TRIALS=50` tries fifty times as many; a failure names its `TAPEDB_TRIAL_SEED`.

use tapedb_codec::encode;
use tapedb_market::Package;
use tapedb_market::import::{Format, ImportOptions, Merge, discover};
use tapedb_segment::trials::{Random, cases, each_seed};
use tapedb_segment::{Plan, RowHeader};
use tapedb_skipped::recorded_data;
use tapedb_testing::blocks::{self, Message};
use tapedb_testing::schemas::{market_layouts, package_type, sample_layouts};
use tapedb_testing::targets::segment_values::compare;
use tapedb_testing::trouble;

#[test]
fn messages_that_look_for_trouble_come_back() {
    each_seed("messages that look for trouble", 60, |seed| {
        let mut random = Random::new(seed);
        let (layouts, messages) = trouble::messages(&mut random);
        compare(&Plan::new(layouts.clone()), &messages, &mut random);
    });
}

#[test]
fn messages_of_any_schema_come_back() {
    each_seed("messages of any schema", 30, |seed| {
        let mut random = Random::new(seed);
        let layouts = if seed % 10 == 0 { market_layouts() } else { sample_layouts(seed as usize) };
        let messages = blocks::messages(layouts, seed, random.count());
        compare(&Plan::new(layouts.clone()), &messages, &mut random);
    });
}

/// Recorded messages that are compared, of each format.
const RECORDED: u64 = 10_000;

/// The first messages of all recorded files of a format, merged in order of time. Before markets open they come in bursts
/// with long pauses.
fn recorded(format: Format, folder: &std::path::Path) -> Vec<Message> {
    let files = discover(format, &[folder.join(format.name())], &ImportOptions::default()).expect("files");
    let (mut merge, mut package, mut symbols) = (Merge::new(files), Package::default(), Vec::<String>::new());
    let mut messages = Vec::new();
    while let Some(row) = merge.next(&mut package).expect("a row") {
        let symbol = symbols.iter().position(|symbol| *symbol == *row.symbol).unwrap_or_else(|| {
            symbols.push(row.symbol.to_string());
            symbols.len() - 1
        });
        let mut body = Vec::new();
        encode(&package, &mut body);
        let (time, sequence) = (row.time.nanos(), messages.len() as u64);
        messages.push((RowHeader { time, sequence, symbol: symbol as u32, type_id: package_type() }, body));
        if messages.len() as u64 == cases(RECORDED).min(60_000) {
            break;
        }
    }
    messages.sort_by_key(|(header, _)| (header.time, header.sequence));
    messages
}

/// All of it: `make acceptance`.
#[test]
fn recorded_messages_come_back() {
    let Some(data) = recorded_data() else { return };
    for format in Format::ALL {
        let messages = recorded(format, &data);
        assert!(!messages.is_empty(), "{} has no messages", format.name());
        compare(&Plan::new(market_layouts().clone()), &messages, &mut Random::new(messages.len() as u64));
    }
}
