//! How fast segments are written and how large they become, column by column:
//! `cargo run --release -p tapedb-bench --example segment_write -- bars|equity|binance [FOLDER] [hot|cold]`.
//!
//! `bars` are generated, ten symbols in turn; the others are read from FOLDER of recorded data before the clock starts.
//! The speed is the median of `ROUNDS` (environment, 5) writings into memory, on one core. What was written is read
//! again and compared; with `SAVE=FILE` in the environment it is kept, for `segment_read FILE rows` to read.

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Instant;
use tapedb_codec::dynamic::Layouts;
use tapedb_codec::{SchemaBuilder, encode};
use tapedb_market::bars::{Bars, BarsConfig};
use tapedb_market::{Bar, Package};
use tapedb_segment::{
    Block, BlockOptions, Decoder, Plan, RowHeader, Rows, Segment, SegmentHeader, SegmentWriter, Selection,
    Tier,
};
use tapedb_venue::{AnyRecord, Format, ImportOptions, Merge, discover};

/// Generated bars.
const BARS: u64 = 2_000_000;

/// Messages with their bodies one behind the other, as a log gives them.
#[derive(Default)]
struct Messages {
    rows: Vec<RowHeader>,
    ends: Vec<usize>,
    bodies: Vec<u8>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let arg = |index: usize| args.get(index).map_or("", String::as_str);
    let tier = if args.last().is_some_and(|last| last == "cold") { Tier::Cold } else { Tier::Hot };
    let layouts = Layouts::new(SchemaBuilder::new().with::<Package>().with::<Bar>().finish())?;
    let id = |name| layouts.schema().record(name).map_or(0, |(id, _)| id);
    let messages = match arg(0) {
        "" | "bars" => bars(id("Bar"), BARS),
        "equity" => recorded(Format::UsEquityTicks, arg(1), id("Package"))?,
        "binance" => recorded(Format::BinanceRawWs, arg(1), id("Package"))?,
        other => return Err(format!("{other}: give bars, equity or binance").into()),
    };
    let options = BlockOptions { tier, ..BlockOptions::default() };
    let mut seconds = Vec::new();
    let mut file = Vec::new();
    for _ in 0..rounds() {
        file.clear();
        let start = Instant::now();
        write(&messages, &layouts, options, &mut file)?;
        seconds.push(start.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    let count = messages.rows.len() as f64;
    println!(
        "{:.2} M messages/s written, {:.3} bytes a message ({:.1} in rows), {} messages, {tier:?}",
        count / seconds[seconds.len() / 2] / 1e6,
        file.len() as f64 / count,
        (messages.bodies.len() + 8 * messages.rows.len()) as f64 / count,
        messages.rows.len()
    );
    if let Ok(path) = std::env::var("SAVE") {
        std::fs::write(path, &file)?;
    }
    let segment = Segment::open(&file)?;
    print_sizes(&segment)?;
    compare(&segment, &messages)
}

fn write(
    messages: &Messages,
    layouts: &Layouts,
    options: BlockOptions,
    file: &mut Vec<u8>,
) -> Result<(), Box<dyn Error>> {
    let plan = Plan::new(layouts.clone());
    let mut writer = SegmentWriter::new(file, plan, &SegmentHeader::default(), options)?;
    let mut start = 0;
    for (row, end) in messages.rows.iter().zip(&messages.ends) {
        writer.push(*row, &messages.bodies[start..*end])?;
        start = *end;
    }
    writer.finish()?;
    Ok(())
}

/// Bytes a message of every column that takes a thousandth of a byte or more.
fn print_sizes(segment: &Segment<&Vec<u8>>) -> Result<(), Box<dyn Error>> {
    let mut block = Block::new();
    let mut sums = BTreeMap::new();
    for index in 0..segment.blocks().len() {
        segment.read_block(index, &mut block)?;
        for chunk in &block.head().chunks {
            let id = block.head().groups.get(usize::from(chunk.group)).map(|group| group.type_id);
            *sums.entry((id, chunk.column)).or_insert(0u64) += u64::from(chunk.len);
        }
        *sums.entry((None, u16::MAX)).or_insert(0) += u64::from(block.head().bytes);
    }
    for ((id, column), bytes) in sums {
        let each = bytes as f64 / segment.messages() as f64;
        if each >= 0.001 {
            println!("  {each:7.3}  {}", name(segment, id, column.into()));
        }
    }
    Ok(())
}

fn name(segment: &Segment<&Vec<u8>>, id: Option<u16>, column: usize) -> String {
    let of_lanes = ["symbols", "rows of each symbol", "places"];
    if let Some(group) = id.and_then(|id| segment.plan().group(id)) {
        let known = group.columns().get(column).map(|column| &column.path[..]);
        return known.unwrap_or(of_lanes[column.saturating_sub(65_533).min(2)]).to_string();
    }
    ["time", "sequence", "symbol of each row"].get(column).unwrap_or(&"heads").to_string()
}

fn compare(segment: &Segment<&Vec<u8>>, messages: &Messages) -> Result<(), Box<dyn Error>> {
    let (mut decoder, mut rows, mut block) = (Decoder::new(), Rows::new(), Block::new());
    let (mut at, mut start) = (0, 0);
    for index in 0..segment.blocks().len() {
        segment.read_block(index, &mut block)?;
        decoder.rows(segment.plan(), &block, &Selection::default(), &mut rows)?;
        for row in 0..rows.len() {
            let (header, body) = (messages.rows[at], &messages.bodies[start..messages.ends[at]]);
            if rows.header(row) != header || rows.body(row) != body {
                return Err(format!("message {at} came back as another one").into());
            }
            (at, start) = (at + 1, messages.ends[at]);
        }
    }
    Ok(())
}

fn rounds() -> usize {
    std::env::var("ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(5)
}

fn bars(type_id: u16, count: u64) -> Messages {
    let mut bars = Bars::new(BarsConfig::default());
    let mut messages = Messages::default();
    for sequence in 0..count {
        let message = bars.next();
        let symbol = message.symbol[1..].parse().unwrap_or(0);
        messages.rows.push(RowHeader { time: message.time.nanos(), sequence, symbol, type_id });
        encode(message.bar, &mut messages.bodies);
        messages.ends.push(messages.bodies.len());
    }
    messages
}

fn recorded(format: Format, folder: &str, type_id: u16) -> Result<Messages, Box<dyn Error>> {
    let files = discover(format, &[folder], &ImportOptions::default())?;
    let (mut merge, mut record, mut ids) = (Merge::new(files), AnyRecord::default(), Vec::<String>::new());
    let mut messages = Messages::default();
    while let Some(row) = merge.next(&mut record)? {
        let symbol = ids.iter().position(|id| *id == *row.symbol).unwrap_or_else(|| {
            ids.push(row.symbol.to_string());
            ids.len() - 1
        });
        let (time, sequence) = (row.time.nanos(), messages.rows.len() as u64);
        messages.rows.push(RowHeader { time, sequence, symbol: symbol as u32, type_id });
        record.encode(&mut messages.bodies);
        messages.ends.push(messages.bodies.len());
    }
    Ok(messages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_were_written() {
        let layouts = Layouts::new(SchemaBuilder::new().with::<Bar>().finish()).unwrap();
        let messages = bars(0, 20_000);
        for tier in [Tier::Hot, Tier::Cold] {
            let (mut file, options) = (Vec::new(), BlockOptions { tier, ..BlockOptions::default() });
            write(&messages, &layouts, options, &mut file).unwrap();
            let segment = Segment::open(&file).unwrap();
            print_sizes(&segment).unwrap();
            compare(&segment, &messages).unwrap();
            assert_eq!(segment.messages(), 20_000);
        }
    }
}
