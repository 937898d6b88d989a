//! A live query on a stream that is being written: how far its buckets are behind the messages.

use super::cases::failed;
use super::found::{Rows, check, word_of};
use super::market::{Trade, cents};
use crate::remote::{histogram, wait_until};
use crate::report::Report;
use crate::worker::now_ns;
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::thread;
use std::time::Duration;
use tapedb_codec::SchemaBuilder;
use tapedb_engine::{Database, Stream, StreamOptions};
use tapedb_query::arrow::array::{AsArray, RecordBatch};
use tapedb_query::arrow::datatypes::TimestampNanosecondType;
use tapedb_query::arrow::util::display::{ArrayFormatter, FormatOptions};
use tapedb_query::{Next, Options, Sql};
use tapedb_schema::Timestamp;
use tapedb_terminal::{Failure, Ui};

const CASE: &str = "sql.live";
const STREAM: &str = "live";

/// The width of a bucket.
const BUCKET_NS: u64 = 1_000_000_000;

/// What is due is sent so often.
const SEND: Duration = Duration::from_millis(1);

/// The first message is due so long after the query began, at least.
const AHEAD_NS: u64 = 200_000_000;

/// A query that is so far behind does not keep up.
const BEHIND_MAX: Duration = Duration::from_secs(30);

/// A stream that is written at a rate.
pub struct Live {
    rate: u64,
    messages: u64,
    symbols: u32,
}

impl Live {
    /// So many messages a second, so long.
    pub fn new(rate: u64, time: Duration, symbols: u32) -> Self {
        let rate = rate.max(1);
        Self { rate, messages: (time.as_secs_f64() * rate as f64) as u64, symbols }
    }

    /// Measures once; `on_core` runs the query on a core of its own.
    pub fn run(
        &self,
        db: &Database,
        report: &mut Report,
        ui: &Ui,
        on_core: impl FnOnce(&mut (dyn FnMut() -> Result<(), Failure> + Send)) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let schema = SchemaBuilder::new().with::<Trade>().finish();
        let stream = db.create_stream(STREAM, schema, StreamOptions::default())?;
        let start = (now_ns() + AHEAD_NS).next_multiple_of(BUCKET_NS);
        let mut behind = histogram()?;
        let late = thread::scope(|scope| {
            let producer = scope.spawn(|| self.produce(&stream, start));
            on_core(&mut || self.follow(db, start, &mut behind, ui))?;
            producer
                .join()
                .unwrap_or_else(|_| Err(Failure::new("the producer panicked; see its message above")))
        })?;
        db.delete_stream(STREAM)?;
        for (metric, percentile) in [("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("max", 100.0)] {
            report.add(CASE, metric, "ms behind", behind.value_at_percentile(percentile) as f64 / 1e6);
        }
        report.add(CASE, "sent late, max", "ms", late.max() as f64 / 1e6);
        Ok(())
    }

    /// When a message is due.
    fn due(&self, start: u64, nth: u64) -> u64 {
        start + (u128::from(nth) * 1_000_000_000 / u128::from(self.rate)) as u64
    }

    /// The symbol of a message, and its record.
    fn message(&self, nth: u64) -> (u32, Trade) {
        let trade = Trade { price: cents(1_000 + (nth % 977) as i64), size: 1 + (nth % 100) as u32 };
        ((nth % u64::from(self.symbols)) as u32, trade)
    }

    /// Sends all messages when they are due, and one of the next bucket; returns how late they were sent.
    fn produce(&self, stream: &Stream, start: u64) -> Result<Histogram<u64>, Failure> {
        let mut loader = stream.loader()?;
        let ids = (0..self.symbols).map(|symbol| loader.symbol(&name(symbol)));
        let ids: Vec<_> = ids.collect::<Result<_, _>>()?;
        let (mut late, mut nth) = (histogram()?, 0);
        while nth < self.messages {
            wait_until(self.due(start, nth));
            let now = now_ns();
            late.saturating_record(now - self.due(start, nth));
            while nth < self.messages && self.due(start, nth) <= now {
                let (symbol, trade) = self.message(nth);
                loader.append_by_id(ids[symbol as usize], Timestamp(self.due(start, nth) as i64), &trade)?;
                nth += 1;
            }
            loader.send()?;
            thread::sleep(SEND);
        }
        let end = self.end(start);
        wait_until(end);
        loader.append_by_id(ids[0], Timestamp(end as i64), &Trade::default())?;
        loader.close()?;
        Ok(late)
    }

    /// The end of the last bucket.
    fn end(&self, start: u64) -> u64 {
        (self.due(start, self.messages.saturating_sub(1)) + 1).next_multiple_of(BUCKET_NS)
    }

    /// Prints the buckets as they come, and notes for each row how long ago the last message of its bucket was due.
    fn follow(&self, db: &Database, start: u64, behind: &mut Histogram<u64>, ui: &Ui) -> Result<(), Failure> {
        let options = Options { threads: Some(1), live: true, ..Options::default() };
        let query = "SELECT time_bucket(INTERVAL '1 second', time) AS bucket, symbol, count(*), min(price), max(price), sum(size) \
            FROM live GROUP BY bucket, symbol";
        let expected = self.expected(start);
        let mut rows = Sql::with_options(db, options).and_then(|sql| sql.query(query)).map_err(failed)?;
        let (mut batches, mut count, mut printed) = (Vec::new(), 0, String::new());
        while count < expected.len() {
            ui.check_interrupt()?;
            match rows.next_within(Duration::from_millis(100)).map_err(failed)? {
                Next::Batch(batch) => {
                    printed.clear();
                    print(&batch, &mut printed)?;
                    let now = now_ns();
                    for bucket in batch.column(0).as_primitive::<TimestampNanosecondType>().values() {
                        behind.saturating_record(now.saturating_sub(*bucket as u64 + BUCKET_NS));
                    }
                    count += batch.num_rows();
                    batches.push(batch);
                }
                Next::Waiting if now_ns() > self.end(start) + BEHIND_MAX.as_nanos() as u64 => {
                    let what = format!("{count} of {} rows came within {BEHIND_MAX:?}", expected.len());
                    return Err(Failure::new(format!("{CASE}: {what}; please report this")));
                }
                Next::Waiting => {}
                Next::End => return Err(Failure::new(format!("{CASE} ended; please report this"))),
            }
        }
        let mut wanted = Rows::default();
        expected.iter().for_each(|words| wanted.add(words));
        check(CASE, &wanted, &Rows::sorted(&batches)?)
    }

    /// The rows of all buckets: bucket, symbol, messages, lowest and highest price, size.
    fn expected(&self, start: u64) -> Vec<Vec<Option<u64>>> {
        let symbols: Vec<u64> = (0..self.symbols).map(|symbol| word_of(&name(symbol))).collect();
        let mut found: BTreeMap<(u64, u64), (u64, f64, f64, u64)> = BTreeMap::new();
        for nth in 0..self.messages {
            let (symbol, trade) = self.message(nth);
            let bucket = self.due(start, nth) / BUCKET_NS * BUCKET_NS;
            let price = trade.price.to_f64();
            let row = found.entry((bucket, symbols[symbol as usize])).or_insert((0, price, price, 0));
            *row = (row.0 + 1, row.1.min(price), row.2.max(price), row.3 + u64::from(trade.size));
        }
        let words = |((bucket, symbol), (count, low, high, size)): (&(u64, u64), &(u64, f64, f64, u64))| {
            [*bucket, *symbol, *count, low.to_bits(), high.to_bits(), *size].map(Some).to_vec()
        };
        found.iter().map(words).collect()
    }
}

fn name(symbol: u32) -> String {
    format!("S{symbol:06}")
}

/// Rows as text.
fn print(batch: &RecordBatch, out: &mut String) -> Result<(), Failure> {
    let options = FormatOptions::default();
    let columns = batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options));
    let columns = columns.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    for row in 0..batch.num_rows() {
        for column in &columns {
            write!(out, "{},", column.value(row)).map_err(failed)?;
        }
        out.push('\n');
    }
    Ok(())
}
