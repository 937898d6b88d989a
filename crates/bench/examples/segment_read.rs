//! How fast a segment of bars is read: as rows of which every field is touched, as columns that are summed, and one symbol
//! out of many.
//!
//! `cargo run --release -p tapedb-bench --example segment_read` makes ten million bars in memory. `segment_read FILE [MESSAGES]
//! [SYMBOLS]` writes a file if there is none, of a hundred million bars of a thousand symbols by default, and
//! reads it. Sums of all fields are compared with what was written. The last argument may name one figure: `rows`,
//! `touched`, `columns` or `symbol`; `ROUNDS` in the environment says how often each is taken, the median counts, and `ROWS`
//! how many rows a block has.

use std::fs::File;
use std::hint::black_box;
use std::io::{BufWriter, Write};
use std::time::Instant;
use tapedb_codec::dynamic::Layouts;
use tapedb_codec::{SchemaBuilder, encode};
use tapedb_market::Bar;
use tapedb_market::bars::{Bars, BarsConfig};
use tapedb_segment::{
    Block, BlockOptions, ColumnValues, Decoder, Plan, ReadAt, RowHeader, Rows, Segment, SegmentHeader,
    SegmentWriter, Selection, Values,
};

type Failure = Box<dyn std::error::Error>;

/// Fields of a bar, and its time in front.
const COLUMNS: usize = 6;

/// Sums of times and fields, by their bits; all arithmetic wraps.
type Sums = [u64; COLUMNS];

/// Figures that may be asked for alone.
const FIGURES: [&str; 4] = ["rows", "touched", "columns", "symbol"];

fn main() -> Result<(), Failure> {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let figure = args.pop_if(|last| FIGURES.contains(&last.as_str()));
    let number = |at: usize, default| args.get(at).and_then(|arg| arg.parse().ok()).unwrap_or(default);
    let figure = figure.as_deref();
    let Some(path) = args.first() else {
        let (file, sums) = write(Vec::new(), 10_000_000, 10)?;
        return read(&file, figure, Some(sums));
    };
    let mut sums = None;
    if File::open(path).is_err() {
        let out = BufWriter::new(File::create(path)?);
        sums = Some(write(out, number(1, 100_000_000), number(2, 1_000) as u32)?.1);
    }
    read(&File::open(path)?, figure, sums)
}

/// Writes bars; gives what they add up to.
fn write<W: Write>(out: W, messages: u64, symbols: u32) -> Result<(W, Sums), Failure> {
    let layouts = Layouts::new(SchemaBuilder::new().with::<Bar>().finish())?;
    let type_id = layouts.schema().record("Bar").map_or(0, |(id, _)| id);
    let header = SegmentHeader { next_sequence: messages, ..SegmentHeader::default() };
    let rows = std::env::var("ROWS").ok().and_then(|rows| rows.parse().ok());
    let options =
        BlockOptions { rows: rows.unwrap_or(BlockOptions::default().rows), ..BlockOptions::default() };
    let mut writer = SegmentWriter::new(out, Plan::new(layouts), &header, options)?;
    let mut bars = Bars::new(BarsConfig { symbols, ..BarsConfig::default() });
    let (mut body, mut sums) = (Vec::new(), Sums::default());
    for sequence in 0..messages {
        let message = bars.next();
        body.clear();
        encode(message.bar, &mut body);
        let symbol = (sequence % u64::from(symbols)) as u32;
        let row = RowHeader { time: message.time.nanos(), sequence, symbol, type_id };
        add(&mut sums, row.time, &body);
        writer.push(row, &body)?;
    }
    let (out, written) = writer.finish()?;
    println!("{} bars, {:.2} bytes each", written.messages, written.bytes as f64 / written.messages as f64);
    Ok((out, sums))
}

/// Adds a bar to the sums.
#[inline]
fn add(sums: &mut Sums, time: i64, body: &[u8]) {
    sums[0] = sums[0].wrapping_add(time as u64);
    // A body of another length adds nothing, and then the sums do not agree.
    let Some(body) = body.first_chunk::<40>() else { return };
    for (sum, field) in sums[1..].iter_mut().zip(body.as_chunks::<8>().0) {
        *sum = sum.wrapping_add(u64::from_le_bytes(*field));
    }
}

/// Takes one figure, or all, and compares what was read with what was written, as far as that is known.
fn read<R: ReadAt>(file: R, figure: Option<&str>, written: Option<Sums>) -> Result<(), Failure> {
    let segment = Segment::open(file)?;
    let mut reader = Reader::default();
    let takes = |name: &str| figure.is_none_or(|figure| figure == name);
    let mut sums = Vec::from_iter(written);
    if takes("rows") {
        measure("rows", segment.messages(), || reader.rows(&segment))?;
    }
    if takes("touched") {
        sums.push(measure("rows, every field touched", segment.messages(), || reader.touched(&segment))?);
    }
    if takes("columns") {
        sums.push(measure("columns, every value summed", segment.messages(), || reader.columns(&segment))?);
    }
    if sums.windows(2).any(|pair| pair[0] != pair[1]) {
        return Err(format!("written, rows and columns do not add up to the same: {sums:?}").into());
    }
    if takes("symbol") {
        let (symbol, count) = segment.symbols().nth(segment.symbols().len() / 2).ok_or("no symbols")?;
        let found = measure("one symbol", count, || reader.symbol(&segment, symbol))?;
        if found != reader.picked(&segment, symbol)? {
            return Err("the symbol's rows are not those that all rows have of it".into());
        }
    }
    Ok(())
}

/// Prints the median of some rounds; gives the result, which must be the same in each.
fn measure(
    name: &str,
    messages: u64,
    mut work: impl FnMut() -> Result<Sums, Failure>,
) -> Result<Sums, Failure> {
    let rounds = std::env::var("ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(7).max(1);
    let (mut seconds, mut result) = (Vec::new(), None);
    for _ in 0..rounds {
        let start = Instant::now();
        let sums = black_box(work()?);
        seconds.push(start.elapsed().as_secs_f64());
        if *result.get_or_insert(sums) != sums {
            return Err(format!("{name}: another result than before").into());
        }
    }
    seconds.sort_by(f64::total_cmp);
    let median = seconds[rounds / 2];
    let rate = messages as f64 / median / 1e6;
    println!("{name}: {messages} messages in {:.2} ms, {rate:.1} M/s", median * 1e3);
    Ok(result.unwrap_or_default())
}

/// All that reading needs, used again and again.
#[derive(Default)]
struct Reader {
    decoder: Decoder,
    block: Block,
    rows: Rows,
    values: ColumnValues,
    times: Vec<i64>,
}

impl Reader {
    fn rows<R: ReadAt>(&mut self, segment: &Segment<R>) -> Result<Sums, Failure> {
        let mut count = 0;
        for index in 0..segment.blocks().len() {
            segment.read_block(index, &mut self.block)?;
            self.decoder.rows(segment.plan(), &self.block, &Selection::default(), &mut self.rows)?;
            count += black_box(&self.rows).len() as u64;
        }
        Ok([count, 0, 0, 0, 0, 0])
    }

    fn touched<R: ReadAt>(&mut self, segment: &Segment<R>) -> Result<Sums, Failure> {
        let mut sums = Sums::default();
        for index in 0..segment.blocks().len() {
            segment.read_block(index, &mut self.block)?;
            self.decoder.rows(segment.plan(), &self.block, &Selection::default(), &mut self.rows)?;
            for row in 0..self.rows.len() {
                let header = self.rows.header(row);
                black_box((header.sequence, header.symbol));
                add(&mut sums, header.time, self.rows.body(row));
            }
        }
        Ok(sums)
    }

    fn columns<R: ReadAt>(&mut self, segment: &Segment<R>) -> Result<Sums, Failure> {
        let mut sums = Sums::default();
        for index in 0..segment.blocks().len() {
            segment.read_block(index, &mut self.block)?;
            self.decoder.times(&self.block, &mut self.times)?;
            sums[0] = sums[0].wrapping_add(sum(&self.times));
            for (column, total) in sums[1..].iter_mut().enumerate() {
                let asked = (0, column as u16);
                self.decoder.column(segment.plan(), &self.block, asked, None, &mut self.values)?;
                if let Values::Ints(values) = self.values.values() {
                    *total = total.wrapping_add(sum(values));
                }
            }
        }
        Ok(sums)
    }

    fn symbol<R: ReadAt>(&mut self, segment: &Segment<R>, symbol: u32) -> Result<Sums, Failure> {
        let (symbols, mut sums) = ([symbol], Sums::default());
        let selection = Selection { symbols: Some(&symbols), ..Selection::default() };
        for index in segment.blocks_of(symbol).flatten() {
            segment.read_selected(index, &mut self.block, &selection)?;
            self.decoder.rows(segment.plan(), &self.block, &selection, &mut self.rows)?;
            for row in 0..self.rows.len() {
                let header = self.rows.header(row);
                add(&mut sums, header.time ^ header.sequence as i64, self.rows.body(row));
            }
        }
        Ok(sums)
    }

    /// What [`Self::symbol`] must give, from all rows.
    fn picked<R: ReadAt>(&mut self, segment: &Segment<R>, symbol: u32) -> Result<Sums, Failure> {
        let mut sums = Sums::default();
        for index in 0..segment.blocks().len() {
            segment.read_block(index, &mut self.block)?;
            self.decoder.rows(segment.plan(), &self.block, &Selection::default(), &mut self.rows)?;
            for row in (0..self.rows.len()).filter(|row| self.rows.lane(*row).1 == symbol) {
                let header = self.rows.header(row);
                add(&mut sums, header.time ^ header.sequence as i64, self.rows.body(row));
            }
        }
        Ok(sums)
    }
}

fn sum(values: &[i64]) -> u64 {
    values.iter().fold(0, |sum, value| sum.wrapping_add(*value as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_adds_up_to_what_was_written() {
        for symbols in [1, 10, 1_000] {
            let (file, sums) = write(Vec::new(), 40_000, symbols).unwrap();
            read(&file, None, Some(sums)).unwrap();
            let wrong = sums.map(|sum| sum.wrapping_add(1));
            assert!(read(&file, Some("columns"), Some(wrong)).is_err());
        }
    }
}
