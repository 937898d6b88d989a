//! Import of files: decoding alone, with books, and into a stream.

use super::generate::{self, Content, Generated};
use super::source::failed;
use crate::report::Report;
use crate::storage::{Scratch, ScratchDir};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;
use tapedb_codec::{Record, SchemaBuilder};
use tapedb_engine::{Loader, Stream, StreamOptions};
use tapedb_market::{Applier, Entry, Gap, MarkPrice, Notice, Order, Package, SymbolMapping, TradeCondition};
use tapedb_schema::{Decimal64, Timestamp};
use tapedb_terminal::{Failure, Ui};
use tapedb_venue::{AnyRecord, Format, ImportOptions, RowHeader, SourceFile, Visitor, discover};

/// Frames of Binance are long: one for so many messages of the others.
const FRAME: u64 = 10;

/// Messages that are looked up together.
const RUN: usize = 16;

/// A file to import.
pub struct Input {
    case: &'static str,
    file: SourceFile,
    /// What it contains, if that is known.
    content: Option<Content>,
    orders: Option<usize>,
}

/// Files, which are removed at the end.
pub struct Inputs {
    inputs: Vec<Input>,
    _files: ScratchDir,
}

/// Writes the generated files, and finds the recorded ones.
pub fn inputs(messages: u64, db: &Path, data: Option<&Path>) -> Result<Inputs, Failure> {
    let files = ScratchDir::beside(db, "files");
    fs::create_dir_all(&files.0).map_err(|error| failed(&error))?;
    let mut inputs = Vec::new();
    let mut add = |case, format, path: PathBuf, generated: Option<Generated>| {
        if let Some(Generated { bytes, .. }) = &generated {
            fs::write(&path, bytes).map_err(|error| failed(&error))?;
        }
        let found = discover(format, &[path], &ImportOptions::default()).map_err(|error| failed(&error))?;
        let orders = generated.as_ref().and_then(|generated| generated.orders);
        let content = generated.map(|generated| generated.content);
        inputs.extend(found.into_iter().map(|file| Input { case, file, content, orders }));
        Ok::<(), Failure>(())
    };
    let place = |name: &str| files.0.join(name);
    add("market.import.dbn", Format::Dbn, place("mbo.dbn.frag"), Some(generate::dbn(messages)))?;
    add("market.import.itch", Format::Itch, place("01302019.NASDAQ_ITCH50"), Some(generate::itch(messages)))?;
    let frames = generate::binance((messages / FRAME).max(1)).map_err(|error| failed(&error))?;
    add("market.import.binance", Format::BinanceRawWs, place("usdm-btcusdt_20231225.gz"), Some(frames))?;
    if let Some(data) = data {
        let es = data.join("dbn/esh4-glbx-mdp3-20231225.mbo.dbn.zst");
        add("market.import.dbn.es", Format::Dbn, es, None)?;
        let frames = data.join("binance-raw-ws/usdm-btcusdt_20240808.gz");
        add("market.import.binance.recorded", Format::BinanceRawWs, frames, None)?;
    }
    Ok(Inputs { inputs, _files: files })
}

/// Decodes and imports each file.
pub fn measure(inputs: &Inputs, scratch: &Scratch, report: &mut Report, ui: &Ui) -> Result<(), Failure> {
    for input in &inputs.inputs {
        ui.check_interrupt()?;
        decode(input, report)?;
        if input.orders.is_some() {
            books(input, report)?;
        }
        load(input, scratch, report, ui)?;
    }
    Ok(())
}

/// Calls `take` with each row; returns how many there are.
fn each(
    input: &Input,
    mut take: impl FnMut(RowHeader<'_>, &AnyRecord) -> Result<(), Failure>,
) -> Result<u64, Failure> {
    let mut source = input.file.open().map_err(|error| failed(&error))?;
    let (mut record, mut rows) = (AnyRecord::default(), 0);
    while let Some(row) = source.next(&mut record).map_err(|error| failed(&error))? {
        take(row, &record)?;
        rows += 1;
    }
    Ok(rows)
}

fn decode(input: &Input, report: &mut Report) -> Result<(), Failure> {
    let started = Instant::now();
    let rows = each(input, |_, record| {
        std::hint::black_box(record);
        Ok(())
    })?;
    report.add(input.case, "decode", "messages/s", rows as f64 / started.elapsed().as_secs_f64());
    Ok(())
}

fn books(input: &Input, report: &mut Report) -> Result<(), Failure> {
    let mut books = Applier::default();
    let started = Instant::now();
    let mut source = input.file.open().map_err(|error| failed(&error))?;
    let mut run: Vec<(Timestamp, AnyRecord)> = vec![(Timestamp(0), AnyRecord::default()); RUN];
    let mut rows = 0;
    loop {
        let mut count = 0;
        while count < RUN
            && let Some(row) = source.next(&mut run[count].1).map_err(|error| failed(&error))?
        {
            run[count].0 = row.time;
            count += 1;
        }
        let orders = run[..count].iter().filter_map(|(time, record)| match record {
            // The instruments' numbers are small, so they serve as symbols.
            AnyRecord::Order(order) => Some((order.instrument_id.unwrap_or(0) as u32, *time, &**order)),
            _ => None,
        });
        books.orders(orders);
        rows += count as u64;
        if count < RUN {
            break;
        }
    }
    report.add(input.case, "book", "messages/s", rows as f64 / started.elapsed().as_secs_f64());
    let of = |books: &tapedb_market::SymbolBooks| -> usize {
        books.venues().iter().filter_map(|venue| Some(venue.orders()?.len())).sum()
    };
    let found: usize = books.symbols().map(|(_, books)| of(books)).sum();
    expect(input, "orders in the last books", input.orders, found)
}

fn load(input: &Input, scratch: &Scratch, report: &mut Report, ui: &Ui) -> Result<(), Failure> {
    let schema = SchemaBuilder::new().with::<Package>().with::<Order>().with::<MarkPrice>().with::<Gap>();
    let schema = schema.with::<TradeCondition>().with::<Notice>().with::<SymbolMapping>().finish();
    let stream = scratch.db.create_stream("import", schema, StreamOptions::default())?;
    let mut loader = stream.loader()?;
    let started = Instant::now();
    let rows = each(input, |row, record| record.visit(Load(&mut loader, row.symbol, row.time)))?;
    loader.close()?;
    report.add(input.case, "rate", "messages/s", rows as f64 / started.elapsed().as_secs_f64());
    stream.seal()?;
    report.add(input.case, "sealed", "messages/s", rows as f64 / started.elapsed().as_secs_f64());
    ui.check_interrupt()?;
    let found = content(&stream)?;
    match input.content {
        Some(expected) => expect(input, "messages and their sum", Some(expected), found)?,
        None => {
            let mut expected = Content::default();
            each(input, |_, record| {
                add(&mut expected, record);
                Ok(())
            })?;
            expect(input, "messages and their sum", Some(expected), found)?;
        }
    }
    Ok(scratch.db.delete_stream("import")?)
}

struct Load<'a>(&'a mut Loader, &'a str, Timestamp);

impl Visitor for Load<'_> {
    type Output = Result<(), Failure>;

    #[inline]
    fn visit<R: Record + 'static>(self, record: &R) -> Self::Output {
        Ok(self.0.append(self.1, self.2, record)?)
    }
}

fn expect<T: PartialEq + std::fmt::Debug>(
    input: &Input,
    what: &str,
    expected: Option<T>,
    found: T,
) -> Result<(), Failure> {
    if expected.as_ref().is_none_or(|expected| *expected == found) {
        return Ok(());
    }
    let case = input.case;
    Err(Failure::new(format!("{case}: {what}: expected {expected:?}, found {found:?}; please report this")))
}

/// What a stream contains, message by message.
fn content(stream: &Stream) -> Result<Content, Failure> {
    let mut content = Content::default();
    let mut cursor = stream.cursor().open()?;
    while let Some(message) = cursor.next()? {
        match message.type_name() {
            Package::NAME => add(&mut content, &AnyRecord::Package(message.decode()?)),
            Order::NAME => add(&mut content, &message.decode::<Order>()?.into()),
            _ => content.add(0, []),
        }
    }
    Ok(content)
}

fn add(content: &mut Content, record: &AnyRecord) {
    match record {
        AnyRecord::Package(package) => {
            let level = |entry: &Entry| match entry {
                Entry::Level2Update(level) => Some((scaled(Some(level.price)), scaled(level.size))),
                _ => None,
            };
            content.add(package.sequence.unwrap_or(0), package.entries.iter().filter_map(level));
        }
        AnyRecord::Order(order) => {
            content.add(order.order_id.unwrap_or(0), [(scaled(order.price), scaled(order.size))]);
        }
        _ => content.add(0, []),
    }
}

/// In 1e-4.
fn scaled(number: Option<Decimal64>) -> i64 {
    number.and_then(|number| number.to_scaled(4).ok()).unwrap_or(0)
}
