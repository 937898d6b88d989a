//! `tapedb demo --serve`: the console on generated data that moves.
//!
//! The history is written into the database first. Then a writer and a reader are clients of the server, as programs of users are, so
//! that the console has connections, latencies and live cursors to show. The directory is removed at the end unless --db names one.

use super::{Args, say};
use crate::commands::serve::server::Serving;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tapedb_codec::{Record, SchemaBuilder};
use tapedb_engine::{Database, Error, Loader, Message, Stream, StreamOptions};
use tapedb_market::bars::{Bars, BarsConfig};
use tapedb_market::feed::{Feed, FeedConfig};
use tapedb_market::{Aggressor, Bar, Entry, Package};
use tapedb_schema::{Ascii, Decimal64, Timestamp};
use tapedb_server::{Config, Endpoint};
use tapedb_terminal::{
    Failure, Ui, signals,
    ui::{self, per_second, thousands},
};
use tracing::Level;

/// Ports that are tried, from the usual one on.
const PORTS: u16 = 20;
/// How long the writer waits for the next message: what becomes due in that time is flushed together.
const WAIT_MIN: Duration = Duration::from_millis(5);
const WAIT_MAX: Duration = Duration::from_millis(50);
/// Messages between two flushes of a writer that is behind.
const BURST_MAX: u64 = 4096;
/// How long the reader waits before it checks for the end.
const WAIT: Duration = Duration::from_millis(100);
/// Time between two checks for Ctrl-C.
const CHECK_PAUSE: Duration = Duration::from_millis(20);
/// Messages of history between two checks for Ctrl-C.
const CHECK_INTERVAL: u64 = 16_384;
/// Contracts of the feed, at two exchanges.
const CONTRACTS_PER_EXCHANGE: u32 = 4;
/// Messages of a contract between two snapshots: levels far from the price are seldom changed.
const SNAPSHOT_EVERY: u32 = 500;
/// Symbols, length and history of the bars.
const BAR_SYMBOLS: u32 = 40;
const BAR_NS: i64 = 60_000_000_000;
const BARS_BACK: i64 = 5 * 24 * 60;
/// The streams.
const FEED: &str = "feed";
const TRADES: &str = "trades";
const BARS: &str = "bars";

/// A trade, as a message of its own: for charts and SQL.
#[derive(Record, Debug, Clone, Copy, PartialEq, Default)]
#[record(message)]
pub struct Trade {
    /// Price in quote currency.
    pub price: Decimal64,
    /// Size in contracts.
    pub size: Decimal64,
    /// Who crossed the spread.
    pub aggressor: Option<Aggressor>,
    /// The exchange.
    pub exchange: Option<Ascii<8>>,
}

/// The directory of the database.
struct Directory {
    path: PathBuf,
    /// Whether it is removed at the end.
    is_temporary: bool,
}

impl Directory {
    /// The directory that is named, which must be new or empty; else one that is removed at the end.
    fn of(args: &Args) -> Result<Self, Failure> {
        let Some(path) = &args.db else {
            let path = std::env::temp_dir().join(format!("tapedb-demo-{}", std::process::id()));
            let cannot = |error| {
                Failure::new(format!("cannot create {}: {error}; name a directory with --db", path.display()))
            };
            fs::create_dir(&path).map_err(cannot)?;
            return Ok(Self { path, is_temporary: true });
        };
        let is_used = fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some());
        if is_used {
            return Err(Failure::new(format!(
                "{} is not empty; name a new directory, or serve what it has with `tapedb server --db`",
                path.display()
            )));
        }
        Ok(Self { path: path.clone(), is_temporary: false })
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if self.is_temporary {
            // What cannot be removed stays in the system's folder for temporary files.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Serves until Ctrl-C.
pub fn run(args: &Args, ui: &Ui) -> Result<(), Failure> {
    let http = match args.http {
        Some(address) => Place { address, instead_of: None },
        None => Place::free(tapedb_server::HTTP_PORT)?,
    };
    // Before the history is written: an address that is in use is an error at once.
    http.check()?;
    let listen = Place::free(tapedb_server::PORT)?;
    let directory = Directory::of(args)?;
    let db = Database::open(&directory.path)?;
    let generator = Generator::fill(&db, args, ui)?;
    let config = Config {
        database: directory.path.clone(),
        listen: Endpoint::from(listen.address),
        http: Endpoint::from(http.address),
        shutdown_grace_seconds: 2,
        ..Config::default()
    };
    let (serving, ready) = Serving::start(&config, Some(db), Level::WARN)?;
    let url = ready.tcp.as_deref().map(|address| format!("tape://{address}")).unwrap_or_default();
    if ui.json() {
        ui.print_json(&ready)?;
    } else {
        say(ui, &format!("\nThe console is at http://{}/", ready.http.as_deref().unwrap_or_default()))?;
        if let Some(port) = http.instead_of {
            say(ui, &format!("  (another program uses port {port}; --http HOST:PORT names an address)"))?;
        }
        say(
            ui,
            &format!(
                "  {} new messages a second arrive; other clients reach it at {url}",
                thousands(args.live_rate)
            ),
        )?;
        let left = if directory.is_temporary { "is removed then" } else { "stays" };
        say(ui, &format!("  Ctrl-C ends it; {} {left}", directory.path.display()))?;
    }
    match Clients::start(&url, generator) {
        Ok(clients) => {
            while !ui.is_interrupted() {
                thread::sleep(CHECK_PAUSE);
                // The console can delete streams and close connections: it stays, without new messages.
                if let Some(error) = clients.failure() {
                    ui.warn(&format!("no more messages are generated: {error}"));
                }
            }
            // Before the server: a client without its server waits for another one.
            clients.join();
        }
        // A Ctrl-C that comes while they connect ends their server too.
        Err(_) if ui.is_interrupted() => {}
        Err(error) => return Err(error),
    }
    let served = serving.run(ui, || Ok(()));
    drop(directory);
    served
}

/// An address on this machine.
struct Place {
    address: SocketAddr,
    /// The usual port, if another program uses it.
    instead_of: Option<u16>,
}

impl Place {
    /// The usual port, or the next one that is free.
    fn free(usual: u16) -> Result<Self, Failure> {
        let addresses = (0..PORTS).map(|offset| SocketAddr::from((Ipv4Addr::LOCALHOST, usual + offset)));
        let found = addresses.into_iter().find(|address| TcpListener::bind(address).is_ok());
        let address = found.ok_or_else(|| {
            let last = usual + PORTS - 1;
            Failure::new(format!("the ports {usual} to {last} are all in use; name an address with --http"))
        })?;
        Ok(Self { address, instead_of: (address.port() != usual).then_some(usual) })
    }

    fn check(&self) -> Result<(), Failure> {
        let address = self.address;
        TcpListener::bind(address).map(drop).map_err(|error| {
            Failure::new(format!("cannot listen on {address}: {error}; name another address with --http, or omit it for a free port"))
        })
    }
}

/// What is generated: history up to now, then what is due.
struct Generator {
    feed: Feed,
    bars: Bars,
}

/// The loaders of the streams.
struct Loaders {
    feed: Loader,
    trades: Loader,
    bars: Loader,
}

impl Loaders {
    fn open(db: &Database) -> Result<Self, Error> {
        let loader = |name| db.stream(name)?.loader();
        Ok(Self { feed: loader(FEED)?, trades: loader(TRADES)?, bars: loader(BARS)? })
    }

    fn append(&mut self, time: Timestamp, symbol: &str, package: &Package) -> Result<(), Error> {
        self.feed.append(symbol, time, package)?;
        for entry in &package.entries {
            if let Entry::Trade(entry) = entry {
                let (price, size, aggressor, exchange) =
                    (entry.price, entry.size, entry.aggressor, entry.exchange);
                self.trades.append(symbol, time, &Trade { price, size, aggressor, exchange })?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.feed.flush()?;
        self.trades.flush()?;
        self.bars.flush().map(drop)
    }

    fn close(self) -> Result<(), Error> {
        self.feed.close()?;
        self.trades.close()?;
        self.bars.close().map(drop)
    }
}

impl Generator {
    /// Creates the streams, and writes their history.
    fn fill(db: &Database, args: &Args, ui: &Ui) -> Result<Self, Failure> {
        create::<Package>(db, FEED)?;
        create::<Trade>(db, TRADES)?;
        create::<Bar>(db, BARS)?;
        let rate = args.live_rate.max(1);
        let history_ns = (args.messages as f64 / rate as f64 * 1e9) as i64;
        let start = Timestamp(now().nanos().saturating_sub(history_ns).max(0));
        let config = FeedConfig {
            seed: args.seed,
            exchanges: 2,
            contracts_per_exchange: CONTRACTS_PER_EXCHANGE,
            messages_per_second: rate,
            snapshot_every: SNAPSHOT_EVERY,
            start,
            ..FeedConfig::default()
        };
        let mut feed = Feed::new(config).map_err(|error| Failure::usage(format!("--live-rate: {error}")))?;
        let first_bar = (now().nanos() / BAR_NS - BARS_BACK) * BAR_NS;
        let config = BarsConfig {
            seed: args.seed,
            symbols: BAR_SYMBOLS,
            start: Timestamp(first_bar),
            interval_ns: BAR_NS,
        };
        let mut bars = Bars::new(config);
        let messages = args.messages;
        say(
            ui,
            &format!(
                "Recording {} messages of {} contracts into {} …",
                thousands(messages),
                feed.symbols().len(),
                db.path().display()
            ),
        )?;
        let began = Instant::now();
        let mut loaders = Loaders::open(db)?;
        let mut progress = ui.progress("recording", messages);
        for done in 0..messages {
            let message = feed.next();
            loaders.append(message.time, message.symbol, message.package)?;
            if done % CHECK_INTERVAL == 0 {
                progress.update(done, done);
                ui.check_interrupt()?;
            }
        }
        for _ in 0..BARS_BACK * i64::from(BAR_SYMBOLS) {
            let bar = bars.next();
            loaders.bars.append(bar.symbol, bar.time, bar.bar)?;
        }
        loaders.close()?;
        drop(progress);
        let seconds = began.elapsed().as_secs_f64();
        let bytes: u64 = db
            .streams()?
            .iter()
            .map(|name| Ok(db.stream(name)?.stats()?.bytes))
            .sum::<Result<u64, Error>>()?;
        let (rate, bytes) = (thousands(per_second(messages, seconds) as u64), ui::bytes(bytes));
        say(
            ui,
            &format!(
                "  in {seconds:.1} s, {rate} messages/s; {bytes} on disk with their trades, and bars of five days"
            ),
        )?;
        Ok(Self { feed, bars })
    }

    /// Appends what is due until `is_over`.
    fn go_on(mut self, db: &Database, is_over: &dyn Fn() -> bool) -> Result<(), Error> {
        let mut loaders = Loaders::open(db)?;
        let mut unflushed = 0;
        let mut bar = next_bar(&mut self.bars);
        while !is_over() {
            let message = self.feed.next();
            // It waits until it is due; everything before it is flushed.
            while message.time > now() {
                if std::mem::take(&mut unflushed) > 0 {
                    loaders.flush()?;
                }
                if is_over() {
                    return loaders.close();
                }
                let left = message.time.nanos().saturating_sub(now().nanos()).max(0) as u64;
                thread::sleep(Duration::from_nanos(left).clamp(WAIT_MIN, WAIT_MAX));
            }
            loaders.append(message.time, message.symbol, message.package)?;
            while bar.0 <= now() {
                loaders.bars.append(&bar.1, bar.0, &bar.2)?;
                bar = next_bar(&mut self.bars);
            }
            unflushed += 1;
            if unflushed == BURST_MAX {
                loaders.flush()?;
                unflushed = 0;
            }
        }
        loaders.close()
    }
}

/// A bar with its time and symbol.
type OwnedBar = (Timestamp, String, Bar);

fn next_bar(bars: &mut Bars) -> OwnedBar {
    let bar = bars.next();
    (bar.time, bar.symbol.into(), *bar.bar)
}

fn create<T: Record + 'static>(db: &Database, name: &str) -> Result<Stream, Error> {
    db.create_stream(name, SchemaBuilder::new().with::<T>().finish(), StreamOptions::default())
}

fn now() -> Timestamp {
    Timestamp(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as i64)
}

/// The threads that are clients of the server.
struct Clients {
    threads: Vec<JoinHandle<()>>,
    /// Why one has ended too early.
    failure: Arc<Mutex<Option<String>>>,
    is_over: Arc<AtomicBool>,
}

impl Clients {
    fn start(url: &str, generator: Generator) -> Result<Self, Failure> {
        let mut clients = Self { threads: Vec::new(), failure: Arc::default(), is_over: Arc::default() };
        let written = tapedb_client::open(url).map_err(|error| Failure::new(error.to_string()))?;
        clients.spawn("demo-writer", move |is_over| generator.go_on(&written, is_over))?;
        let read = tapedb_client::open(url).map_err(|error| Failure::new(error.to_string()))?;
        clients.spawn("demo-reader", move |is_over| follow(&read, is_over))?;
        Ok(clients)
    }

    fn spawn(
        &mut self,
        name: &str,
        work: impl FnOnce(&dyn Fn() -> bool) -> Result<(), Error> + Send + 'static,
    ) -> Result<(), Failure> {
        let (failure, is_over) = (self.failure.clone(), self.is_over.clone());
        let interrupted = signals::interrupted();
        let run = move || {
            let ends = || is_over.load(Ordering::Acquire) || interrupted.load(Ordering::Acquire);
            match work(&ends) {
                // The server ends at the same signal.
                Err(error) if !ends() => {
                    *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string())
                }
                _ => {}
            }
        };
        let thread = thread::Builder::new().name(name.into()).spawn(run);
        self.threads.push(
            thread.map_err(|error| Failure::new(format!("cannot start a thread: {error}; try again")))?,
        );
        Ok(())
    }

    /// Why a client has ended too early, once.
    fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn join(self) {
        self.is_over.store(true, Ordering::Release);
        for thread in self.threads {
            // It has no result.
            let _ = thread.join();
        }
    }
}

/// Reads live, as a program would.
fn follow(db: &Database, is_over: &dyn Fn() -> bool) -> Result<(), Error> {
    let mut cursor = db.stream(FEED)?.cursor().last(1).live().open()?;
    let mut package = Package::default();
    let mut read = |message: &Message<'_>| message.decode_into(&mut package);
    while !is_over() {
        if let Some(message) = cursor.next_within(WAIT)? {
            read(&message)?;
        }
    }
    Ok(())
}
