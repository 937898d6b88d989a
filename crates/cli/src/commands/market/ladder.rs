//! A book as a ladder of text, and as JSON.

use serde::Serialize;
use std::collections::BTreeMap;
use tapedb_market::{BookState, PriceLevel, Side, SymbolBooks, VenueBook};
use tapedb_market_streams::{BookAt, BookStart};
use tapedb_terminal::ui;

/// The books of a symbol, for people and programs.
#[derive(Serialize)]
pub struct Shown<'a> {
    stream: &'a str,
    symbol: &'a str,
    time: String,
    /// Where the replay began: a time, or null for the begin of history.
    checkpoint: Option<String>,
    checkpoints_passed_over: usize,
    messages_replayed: u64,
    best_bid: Option<Best>,
    best_ask: Option<Best>,
    crossed: bool,
    venues: Vec<Venue>,
}

#[derive(Serialize)]
struct Best {
    exchange: Option<String>,
    price: String,
    size: String,
}

#[derive(Serialize)]
struct Venue {
    exchange: Option<String>,
    kind: &'static str,
    state: &'static str,
    doubt: Option<String>,
    sequence: Option<u64>,
    changed: Option<String>,
    age_ns: Option<i64>,
    crossed: bool,
    orders: Option<usize>,
    bid_levels: usize,
    ask_levels: usize,
    bids: Vec<Level>,
    asks: Vec<Level>,
    found: BTreeMap<&'static str, u64>,
}

#[derive(Serialize)]
struct Level {
    price: String,
    size: String,
    orders: Option<u32>,
}

impl<'a> Shown<'a> {
    /// At most `depth` levels of each side.
    pub fn new(stream: &'a str, symbol: &'a str, found: &BookAt, depth: usize) -> Self {
        let books = &found.books;
        let checkpoint = match found.start {
            BookStart::Checkpoint(time) => Some(time.to_string()),
            BookStart::Beginning | BookStart::NoneFits => None,
        };
        Self {
            stream,
            symbol,
            time: found.time.to_string(),
            checkpoint,
            checkpoints_passed_over: found.passed_over,
            messages_replayed: found.messages,
            best_bid: best(books, Side::Bid),
            best_ask: best(books, Side::Ask),
            crossed: books.is_crossed(),
            venues: books.venues().iter().map(|venue| Venue::new(books, venue, found, depth)).collect(),
        }
    }

    /// The ladders, one below the other.
    pub fn text(&self) -> String {
        let from = match &self.checkpoint {
            Some(time) => format!("from the checkpoint of {time}"),
            None => "from the begin of history".into(),
        };
        let mut text = format!(
            "{} {} at {}; {} messages {from}\n",
            self.stream, self.symbol, self.time, self.messages_replayed
        );
        if self.checkpoints_passed_over > 0 {
            let what = "checkpoints passed over: messages before them were deleted, rewritten or came late";
            text.push_str(&format!(
                "{} {what}; write them again with --checkpoint\n",
                self.checkpoints_passed_over
            ));
        }
        if self.venues.is_empty() {
            text.push_str("no book: no message of the symbol that changes one, up to this time\n");
        }
        if self.venues.len() > 1 {
            let side = |best: &Option<Best>| match best {
                Some(best) => {
                    format!("{} x {} ({})", best.price, best.size, best.exchange.as_deref().unwrap_or("-"))
                }
                None => "none".into(),
            };
            let crossed = if self.crossed { ", crossed" } else { "" };
            text.push_str(&format!(
                "best bid {}, best ask {}{crossed}\n",
                side(&self.best_bid),
                side(&self.best_ask)
            ));
        }
        self.venues.iter().for_each(|venue| text.push_str(&venue.text()));
        text
    }
}

fn best(books: &SymbolBooks, side: Side) -> Option<Best> {
    let best = books.best(side)?;
    Some(Best {
        exchange: books.venues()[best.venue].exchange().map(|exchange| exchange.to_string()),
        price: books.price_units().decimal(best.price).to_string(),
        size: books.size_units().decimal(best.size).to_string(),
    })
}

impl Venue {
    fn new(books: &SymbolBooks, venue: &VenueBook, found: &BookAt, depth: usize) -> Self {
        let level = |level: PriceLevel| Level {
            price: books.price_units().decimal(level.price).to_string(),
            size: books.size_units().decimal(level.size).to_string(),
            orders: (level.orders > 0).then_some(level.orders),
        };
        let levels = |side| venue.levels(side).take(depth).map(level).collect();
        let counters = venue.counters().named().into_iter().filter(|(_, count)| *count > 0);
        Self {
            exchange: venue.exchange().map(|exchange| exchange.to_string()),
            kind: venue.kind().name(),
            state: venue.state().name(),
            doubt: venue.doubt().map(|doubt| doubt.to_string()),
            sequence: venue.sequence(),
            changed: venue.changed().map(|time| time.to_string()),
            age_ns: venue.changed().and_then(|changed| found.time.nanos().checked_sub(changed.nanos())),
            crossed: venue.is_crossed() && venue.state() != BookState::Unknown,
            orders: venue.orders().map(|orders| orders.len()),
            bid_levels: venue.depth(Side::Bid),
            ask_levels: venue.depth(Side::Ask),
            bids: levels(Side::Bid),
            asks: levels(Side::Ask),
            found: counters.collect(),
        }
    }

    fn text(&self) -> String {
        let mut text = format!("\n{} {}: {}", self.exchange.as_deref().unwrap_or("-"), self.kind, self.state);
        if let Some(doubt) = &self.doubt {
            text.push_str(&format!(" ({doubt})"));
        }
        if let Some(orders) = self.orders {
            text.push_str(&format!(", {orders} orders"));
        }
        text.push_str(&format!(", {} bids and {} asks", self.bid_levels, self.ask_levels));
        if let Some(changed) = &self.changed {
            text.push_str(&format!(", changed {changed}"));
        }
        text.push_str(if self.crossed { ", crossed\n" } else { "\n" });
        let found: Vec<String> = self.found.iter().map(|(name, count)| format!("{name} {count}")).collect();
        if !found.is_empty() {
            text.push_str(&format!("found: {}\n", found.join(", ")));
        }
        let count = |level: &Level| level.orders.map_or(String::new(), |orders| orders.to_string());
        let ask = |level: &Level| {
            vec![String::new(), String::new(), level.price.clone(), level.size.clone(), count(level)]
        };
        let bid = |level: &Level| {
            vec![count(level), level.size.clone(), level.price.clone(), String::new(), String::new()]
        };
        let rows: Vec<Vec<String>> =
            self.asks.iter().rev().map(ask).chain(self.bids.iter().map(bid)).collect();
        text.push_str(&ui::table(&["orders", "bid", "price", "ask", "orders"], &[0, 1, 2, 3, 4], &rows));
        text
    }
}
