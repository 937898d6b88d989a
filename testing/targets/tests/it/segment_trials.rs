//! Blocks against the reference decoder: messages that look for trouble, and those of any schema, at every level of SIMD,
//! whole and in every part. `TAPEDB_TRIALS=50` tries fifty times as many; a failure names its `TAPEDB_TRIAL_SEED`.

use tapedb_codec::dynamic::Layouts;
use tapedb_segment::trials::{Random, cases, each_seed};
use tapedb_segment::{Plan, RowHeader};
use tapedb_skipped::recorded_data;
use tapedb_testing::blocks::{self, Message};
use tapedb_testing::schemas::{market_layouts, sample_layouts};
use tapedb_testing::targets::segment_values::compare;
use tapedb_testing::trouble;
use tapedb_venue::{AnyRecord, Format, ImportOptions, Merge, discover};

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

/// Where a field tells which values of others are null, and where it does not quite; and values that take turns.
#[test]
fn presence_that_another_field_tells_comes_back() {
    let schema = "enum Action { SET, DELETE }
        record Level { action: Action, other: bool, size: u32?, price: decimal64?, name: string? }
        message M { gone: bool, size: i64?, note: string?, levels: array<record<Level>> }";
    let layouts = Layouts::new(schema.parse().expect("a schema")).expect("layouts");
    each_seed("presence that another field tells", 40, |seed| {
        let mut random = Random::new(seed);
        let exceptions = random.pick(&[0, 0, 1]);
        let mut messages = Vec::new();
        for sequence in 0..random.count().min(2_000) as u64 {
            let mut level = |turn: usize| {
                let is_set = random.below(3) > 0;
                let is_null = |random: &mut Random| !is_set ^ (exceptions > 0 && random.below(500) == 0);
                let action = if is_set { "SET" } else { "DELETE" };
                let (size, price) = (turn * 100_000 + random.below(90), random.below(1_000));
                let size = if is_null(&mut random) { "null".into() } else { size.to_string() };
                let price = if is_null(&mut random) { "null".into() } else { format!("\"{price}.5\"") };
                let name = if is_null(&mut random) { "null" } else { "\"x\"" };
                format!(
                    r#"{{"action": "{action}", "other": {}, "size": {size}, "price": {price}, "name": {name}}}"#,
                    !is_set
                )
            };
            let levels = [level(0), level(1)].join(", ");
            let gone = random.below(2) == 0;
            let (size, note) = if gone { ("null", "null") } else { ("7", "\"y\"") };
            let json = format!(
                r#"{{"$type": "M", "gone": {gone}, "size": {size}, "note": {note}, "levels": [{levels}]}}"#
            );
            let mut body = Vec::new();
            let record = layouts.from_json(&json).expect("a message");
            layouts.encode(&record, &mut body).expect("it is encoded");
            let symbol = random.below(3) as u32;
            messages
                .push((RowHeader { time: sequence as i64, sequence, symbol, type_id: record.type_id }, body));
        }
        compare(&Plan::new(layouts.clone()), &messages, &mut random);
    });
}

/// Recorded messages that are compared, of each format.
const RECORDED: u64 = 10_000;

/// The first messages of all recorded files of a format, merged in order of time. Before markets open they come in bursts
/// with long pauses.
fn recorded(format: Format, layouts: &Layouts, folder: &std::path::Path) -> Vec<Message> {
    let name = match format {
        Format::FuturesTicks => "futures-gc-ticks",
        Format::Itch => "exchange-pcap/Multiple.Packets.pcap.gz",
        Format::Mdp3 => "exchange-pcap/Cme.Mdp3.Sbe.v6.1.pcap.gz",
        Format::Tardis => "tardis-csv",
        Format::BybitOb => "bybit-ob500",
        Format::CoinbaseSnapshot => "coinbase-book-snapshots",
        Format::Capture => "exchange-raw-ws",
        format => format.name(),
    };
    let files = discover(format, &[folder.join(name)], &ImportOptions::default()).expect("files");
    let (mut merge, mut record, mut symbols) =
        (Merge::new(files), AnyRecord::default(), Vec::<String>::new());
    let mut messages = Vec::new();
    while let Some(row) = merge.next(&mut record).expect("a row") {
        let symbol = symbols.iter().position(|symbol| *symbol == *row.symbol).unwrap_or_else(|| {
            symbols.push(row.symbol.to_string());
            symbols.len() - 1
        });
        let mut body = Vec::new();
        record.encode(&mut body);
        let (type_id, _) = layouts.schema().record(record.type_name()).expect("a type of the format");
        let (time, sequence) = (row.time.nanos(), messages.len() as u64);
        messages.push((RowHeader { time, sequence, symbol: symbol as u32, type_id }, body));
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
        let layouts = Layouts::new(format.schema()).expect("a valid schema");
        let messages = recorded(format, &layouts, &data);
        assert!(!messages.is_empty(), "{} has no messages", format.name());
        compare(&Plan::new(layouts), &messages, &mut Random::new(messages.len() as u64));
    }
}
