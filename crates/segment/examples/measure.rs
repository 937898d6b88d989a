//! Sizes and speeds of segments over generated bars, or recorded data: `measure [bars|quotes|book] [folder] [rows]`.

use std::hint::black_box;
use std::time::Instant;
use tapedb_codec::dynamic::Layouts;
use tapedb_codec::{SchemaBuilder, encode};
use tapedb_market::bars::{Bars, BarsConfig};
use tapedb_market::import::{Format, ImportOptions, Merge, discover};
use tapedb_market::{Bar, Package};
use tapedb_segment::{
    Block, BlockOptions, ColumnValues, Decoder, Plan, RowHeader, Rows, Segment, SegmentHeader, SegmentWriter,
    Selection, Tier, Values,
};

type Messages = Vec<(RowHeader, Vec<u8>)>;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let what = args.get(1).map_or("bars", String::as_str);
    let folder = args.get(2).map_or("", String::as_str);
    let rows = args.get(3).and_then(|rows| rows.parse().ok()).unwrap_or(16_384);
    let tier = if args.get(4).is_some_and(|tier| tier == "cold") { Tier::Cold } else { Tier::Hot };
    let layouts = Layouts::new(SchemaBuilder::new().with::<Package>().with::<Bar>().finish()).unwrap();
    let id = |name| layouts.schema().record(name).unwrap().0;
    let messages = match what {
        "bars" => bars(2_000_000, id("Bar")),
        "quotes" => recorded(Format::UsEquityTicks, folder, id("Package")),
        _ => recorded(Format::BinanceRawWs, folder, id("Package")),
    };
    let (options, header) =
        (BlockOptions { rows, tier, ..BlockOptions::default() }, SegmentHeader::default());
    let start = Instant::now();
    let mut writer = SegmentWriter::new(Vec::new(), Plan::new(layouts), &header, options).unwrap();
    for (header, body) in &messages {
        writer.push(*header, body).unwrap();
    }
    let (file, written) = writer.finish().unwrap();
    let raw: usize = messages.iter().map(|(_, body)| body.len() + 8).sum();
    println!(
        "{what}: {} messages, {:.2} bytes each ({:.1} raw), {} blocks, written at {:.1} M/s",
        written.messages,
        written.bytes as f64 / written.messages as f64,
        raw as f64 / messages.len() as f64,
        written.blocks,
        messages.len() as f64 / start.elapsed().as_secs_f64() / 1e6
    );
    let segment = Segment::open(&file).unwrap();
    sizes(&segment);
    speeds(&segment, &messages);
}

fn sizes(segment: &Segment<&Vec<u8>>) {
    let mut block = Block::new();
    let mut sums = std::collections::BTreeMap::new();
    for index in 0..segment.blocks().len() {
        segment.read_block(index, &mut block).unwrap();
        for chunk in &block.head().chunks {
            let id = block.head().groups.get(usize::from(chunk.group)).map(|group| group.type_id);
            *sums.entry((id, chunk.column)).or_insert(0u64) += u64::from(chunk.len);
        }
        *sums.entry((None, 99)).or_insert(0) += u64::from(block.head().bytes);
    }
    for ((id, column), bytes) in sums {
        let columns = id.and_then(|id| segment.plan().group(id)).map(|group| group.columns());
        let known =
            columns.and_then(|columns| columns.get(usize::from(column))).map(|column| &column.path[..]);
        let own = ["time", "sequence", "symbol of each row"].get(usize::from(column)).copied();
        let name = known.or(own.filter(|_| id.is_none())).unwrap_or(match column {
            65_533 => "symbols",
            65_534 => "rows of each symbol",
            65_535 => "places",
            _ => "heads",
        });
        let each = bytes as f64 / segment.messages() as f64;
        if each > 0.01 {
            println!("  {each:7.3}  {name}");
        }
    }
}

fn speeds(segment: &Segment<&Vec<u8>>, messages: &Messages) {
    let (mut decoder, mut rows, mut block) = (Decoder::new(), Rows::new(), Block::new());
    let mut best = f64::MAX;
    for round in 0..rounds() {
        let (start, mut sum) = (Instant::now(), 0u64);
        for index in 0..segment.blocks().len() {
            segment.read_block(index, &mut block).unwrap();
            decoder.rows(segment.plan(), &block, &Selection::default(), &mut rows).unwrap();
            sum += rows.len() as u64;
            if round == 0 {
                let first = sum as usize - rows.len();
                for row in 0..rows.len() {
                    assert!(
                        rows.header(row) == messages[first + row].0
                            && rows.body(row) == messages[first + row].1
                    );
                }
            }
            black_box(rows.body(0));
        }
        best = best.min(start.elapsed().as_secs_f64());
        assert_eq!(sum, messages.len() as u64);
    }
    println!("  rows    {:8.1} M messages/s", messages.len() as f64 / best / 1e6);
    // One block again and again: from the nearest cache.
    segment.read_block(0, &mut block).unwrap();
    let (start, mut count) = (Instant::now(), 0);
    for _ in 0..500 {
        decoder.rows(segment.plan(), &block, &Selection::default(), &mut rows).unwrap();
        count += black_box(&rows).len();
    }
    println!("  rows, one block {:8.1} M messages/s", count as f64 / start.elapsed().as_secs_f64() / 1e6);
    let symbols = [segment.symbols().next().unwrap().0];
    let selection = Selection { symbols: Some(&symbols), ..Selection::default() };
    let start = Instant::now();
    let mut found = 0;
    for index in segment.blocks_of(symbols[0]).flatten() {
        segment.read_block(index, &mut block).unwrap();
        decoder.rows(segment.plan(), &block, &selection, &mut rows).unwrap();
        found += rows.len();
    }
    println!("  one symbol: {found} messages in {:.3} ms", start.elapsed().as_secs_f64() * 1e3);
    columns(segment, messages.len());
}

fn columns(segment: &Segment<&Vec<u8>>, messages: usize) {
    let (mut decoder, mut values, mut block) = (Decoder::new(), ColumnValues::new(), Block::new());
    let (mut times, mut best) = (Vec::new(), f64::MAX);
    for _ in 0..rounds() {
        let (start, mut sum) = (Instant::now(), 0u64);
        for index in 0..segment.blocks().len() {
            segment.read_block(index, &mut block).unwrap();
            decoder.times(&block, &mut times).unwrap();
            for group in block.head().groups.clone() {
                for column in 0..segment.plan().group(group.type_id).unwrap().columns().len() {
                    decoder
                        .column(segment.plan(), &block, (group.type_id, column as u16), None, &mut values)
                        .unwrap();
                    sum += match values.values() {
                        Values::Ints(ints) => {
                            ints.iter().fold(0u64, |sum, int| sum.wrapping_add(*int as u64)) & 1
                        }
                        _ => 0,
                    };
                }
            }
        }
        black_box(sum);
        best = best.min(start.elapsed().as_secs_f64());
    }
    println!("  columns {:8.1} M messages/s", messages as f64 / best / 1e6);
}

/// How often everything is read; the best time counts.
fn rounds() -> usize {
    std::env::var("ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(7)
}

fn bars(count: usize, type_id: u16) -> Messages {
    let mut bars = Bars::new(BarsConfig::default());
    let one = |sequence| {
        let message = bars.next();
        let mut body = Vec::new();
        encode(message.bar, &mut body);
        let symbol = message.symbol[1..].parse().unwrap();
        (RowHeader { time: message.time.nanos(), sequence, symbol, type_id }, body)
    };
    (0..count as u64).map(one).collect()
}

fn recorded(format: Format, folder: &str, type_id: u16) -> Messages {
    let files = discover(format, &[folder], &ImportOptions::default()).unwrap();
    let (mut merge, mut package, mut ids) = (Merge::new(files), Package::default(), Vec::<String>::new());
    let mut messages = Messages::new();
    while let Some(row) = merge.next(&mut package).unwrap() {
        let symbol = ids.iter().position(|id| *id == *row.symbol).unwrap_or_else(|| {
            ids.push(row.symbol.to_string());
            ids.len() - 1
        });
        let mut body = Vec::new();
        encode(&package, &mut body);
        let time = row.time.nanos();
        let sequence = messages.len() as u64;
        messages.push((RowHeader { time, sequence, symbol: symbol as u32, type_id }, body));
    }
    messages.sort_by_key(|(header, _)| (header.time, header.sequence));
    messages
}
