//! What the tests share: record types whose content follows from a number, and seeds.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::Path;
use tapedb_codec::{Record, SchemaBuilder};
use tapedb_engine::{
    Cursor, Database, Error, Loader, Message, MessageColumns, Stream, StreamOptions, Symbols,
};
use tapedb_schema::{Decimal64, Schema, Timestamp};
use tapedb_segment::Strands;

#[derive(Record, Debug, Default, Clone, PartialEq)]
#[record(message)]
pub struct Tick {
    pub number: u64,
    pub check: u64,
    pub note: String,
}

#[derive(Record, Debug, Default, Clone, PartialEq)]
#[record(message)]
pub struct Quote {
    pub number: u64,
    pub bid: Decimal64,
    pub ask: Option<Decimal64>,
}

impl Tick {
    pub fn of(number: u64) -> Self {
        let check = mix(number);
        Self { number, check, note: "x".repeat((check % 40) as usize) }
    }
}

impl Quote {
    pub fn of(number: u64) -> Self {
        let price = |shift: u32| Decimal64::from_parts((mix(number) >> shift & 0xfffff) as i64, -2);
        let ask = (!number.is_multiple_of(3)).then(|| price(20).unwrap_or_default());
        Self { number, bid: price(1).unwrap_or_default(), ask }
    }
}

pub fn schema() -> Schema {
    SchemaBuilder::new().with::<Tick>().with::<Quote>().finish()
}

/// Options for a stream whose log files hold few messages, so that there are many.
pub fn small_files() -> StreamOptions {
    StreamOptions { file_bytes_max: 4 << 10, ..StreamOptions::default() }
}

/// The number in a message, whose every byte is checked to follow from it.
pub fn number_of(message: &Message<'_>) -> u64 {
    let (found, expected) = if message.type_name() == "Tick" {
        let tick = message.decode::<Tick>().unwrap();
        (tick.number, tick == Tick::of(tick.number))
    } else {
        let quote = message.decode::<Quote>().unwrap();
        (quote.number, quote == Quote::of(quote.number))
    };
    assert!(expected, "the content of message {} is wrong", message.sequence());
    found
}

/// Messages as columns: those of one type together, `(time, symbol, number)` each.
pub struct Columns {
    pub times: Vec<i64>,
    pub symbols: Vec<String>,
    pub numbers: Vec<u64>,
}

impl Columns {
    pub fn of<'a>(rows: impl IntoIterator<Item = (i64, &'a str, u64)>) -> Self {
        let (mut times, mut symbols, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
        for (time, symbol, number) in rows {
            times.push(time);
            symbols.push(symbol.to_owned());
            numbers.push(number);
        }
        Self { times, symbols, numbers }
    }

    pub fn append_ticks(&self, loader: &mut Loader) -> Result<usize, Error> {
        let ticks: Vec<Tick> = self.numbers.iter().map(|number| Tick::of(*number)).collect();
        let checks: Vec<u64> = ticks.iter().map(|tick| tick.check).collect();
        let notes: Vec<&str> = ticks.iter().map(|tick| tick.note.as_str()).collect();
        let symbols: Vec<&str> = self.symbols.iter().map(String::as_str).collect();
        let columns = MessageColumns::of::<Tick>(&self.times, Symbols::Names(&symbols))
            .field("number", &self.numbers)
            .field("check", &checks)
            .field("note", &notes);
        loader.append_columns(&columns)
    }

    pub fn append_quotes(&self, loader: &mut Loader) -> Result<usize, Error> {
        let quotes: Vec<Quote> = self.numbers.iter().map(|number| Quote::of(*number)).collect();
        let bids: Vec<Decimal64> = quotes.iter().map(|quote| quote.bid).collect();
        let asks: Vec<Decimal64> = quotes.iter().map(|quote| quote.ask.unwrap_or(Decimal64::NAN)).collect();
        let known: Vec<bool> = quotes.iter().map(|quote| quote.ask.is_some()).collect();
        let symbols: Vec<&str> = self.symbols.iter().map(String::as_str).collect();
        let columns = MessageColumns::of::<Quote>(&self.times, Symbols::Names(&symbols))
            .field("number", &self.numbers)
            .field("bid", &bids)
            .nullable("ask", &asks, &known);
        loader.append_columns(&columns)
    }
}

/// Strands of segments, small enough for few messages.
pub fn strands(random: &mut Random) -> Strands {
    Strands {
        count: *random.pick(&[1, 2, 8, 64]),
        rows: *random.pick(&[1, 20, 300, 5_000]),
        bytes: *random.pick(&[1, 4_000, 1 << 20]),
        stripe_bytes: *random.pick(&[1, 3_000, 1 << 20]),
    }
}

/// Numbers of all messages up to the end.
pub fn drain(cursor: &mut Cursor) -> Vec<u64> {
    let mut numbers = Vec::new();
    while let Some(message) = cursor.next().unwrap() {
        numbers.push(number_of(&message));
    }
    numbers
}

pub fn append_ticks(stream: &Stream, numbers: std::ops::Range<u64>) {
    let mut loader = stream.loader().unwrap();
    for number in numbers {
        loader.append("A", Timestamp(number as i64), &Tick::of(number)).unwrap();
    }
    loader.close().unwrap();
}

pub fn new_database() -> (tempfile::TempDir, Database) {
    let directory = tempfile::tempdir().unwrap();
    let db = Database::open(directory.path().join("db")).unwrap();
    (directory, db)
}

/// A new database whose files only the test seals and merges: for what counts them, or must be there as they were made.
pub fn new_database_without_maintenance() -> (tempfile::TempDir, Database) {
    let directory = tempfile::tempdir().unwrap();
    let db = Database::open_without_maintenance(directory.path().join("db")).unwrap();
    (directory, db)
}

/// Opens a database that has just been closed. Another test that starts a child holds copies of all files of this process
/// for a moment, the lock among them.
pub fn reopen(path: &Path) -> Database {
    reopen_with(path, |path| Database::open(path))
}

/// The same, with files left as they are.
pub fn reopen_without_maintenance(path: &Path) -> Database {
    reopen_with(path, |path| Database::open_without_maintenance(path))
}

fn reopen_with(path: &Path, open: impl Fn(&Path) -> Result<Database, Error>) -> Database {
    for _ in 0..10_000 {
        match open(path) {
            Err(Error::Locked { .. }) => std::thread::sleep(std::time::Duration::from_millis(1)),
            opened => return opened.unwrap(),
        }
    }
    panic!("{} stays locked", path.display())
}

pub fn assert_error<T>(result: Result<T, Error>, matches: impl FnOnce(&Error) -> bool, text: &str) {
    match result {
        Ok(_) => panic!("should fail with {text:?}"),
        Err(error) => {
            assert!(matches(&error), "{error:?}");
            assert!(error.to_string().contains(text), "{error} lacks {text:?}");
        }
    }
}

/// A bijection that leaves no pattern.
pub fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Random numbers from a seed, which is printed when the test fails. `TAPEDB_SEED` repeats a run.
pub struct Random {
    seed: u64,
    state: u64,
}

impl Random {
    pub fn new() -> Self {
        let given = std::env::var("TAPEDB_SEED").ok().and_then(|seed| seed.parse().ok());
        Self::from_seed(given.unwrap_or_else(|| RandomState::new().build_hasher().finish()))
    }

    pub fn from_seed(seed: u64) -> Self {
        Self { seed, state: seed }
    }

    pub fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(1);
        mix(self.state ^ self.seed.rotate_left(32))
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub fn chance(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }

    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}

impl Drop for Random {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed: TAPEDB_SEED={}", self.seed);
        }
    }
}
