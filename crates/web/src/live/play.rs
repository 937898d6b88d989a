//! A book from the store, from any time on, at any speed.

use crate::api::book::check_symbol;
use crate::caller::Caller;
use crate::failure::Failure;
use crate::live::channel::{Channel, check_read};
use crate::market::{DEPTH_MAX, FoundTrade, Trades, books};
use crate::params::parse_time;
use crate::state::Shared;
use serde::Deserialize;
use serde_json::{json, to_writer};
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use tapedb_access::{May, User};
use tapedb_engine::Cursor;
use tapedb_market::SymbolBooks;
use tapedb_market_streams::{BookReplay, StreamBooks};
use tapedb_schema::Timestamp;

/// The longest look: if there are more messages, the play is slower than it should be.
const LOOK_MAX: Duration = Duration::from_millis(100);
/// Messages between two looks at the clock.
const STEP: u64 = 1000;
/// Trades in a frame: the newest.
const TRADES_MAX: usize = 200;
const SPEED_MAX: f64 = 1e9;

#[derive(Deserialize)]
pub(crate) struct Play {
    stream: String,
    symbol: String,
    at: String,
    /// 0: as fast as it goes.
    #[serde(default = "real_time")]
    speed: f64,
    depth: Option<usize>,
}

fn real_time() -> f64 {
    1.0
}

pub(crate) struct PlayChannel {
    stream: String,
    id: u32,
    depth: usize,
    cursor: Cursor,
    replay: BookReplay,
    finder: Trades,
    trades: VecDeque<FoundTrade>,
    clock: Clock,
    /// The state reaches to this time.
    at: Timestamp,
    is_first: bool,
    has_ended: bool,
    no_books: SymbolBooks,
}

impl PlayChannel {
    /// The book at the time where it begins.
    ///
    /// # Errors
    /// 404, 403, what is not valid, the engine's.
    pub fn open(state: &Shared, caller: &Caller, play: Play) -> Result<Self, Failure> {
        let stream = caller.stream(&play.stream, May::Read)?;
        check_symbol(&stream, &play.symbol)?;
        let at = parse_time(&play.at).map_err(Failure::invalid)?;
        if !(0.0..=SPEED_MAX).contains(&play.speed) {
            return Err(Failure::invalid(format!("a speed is 0 (as fast as it goes) to {SPEED_MAX}")));
        }
        let of_book = |error| Failure::of_book(&caller.user, error);
        let mut replay = BookReplay::new(&stream).map_err(of_book)?;
        let db = state.server.database();
        let found = stream.recent_book_at(db, &state.books, &play.symbol, at).map_err(of_book)?;
        let id = stream.symbols().iter().position(|known| *known == play.symbol).unwrap_or(0) as u32;
        replay.restore(id, found.books);
        let cursor = stream.cursor().from(Timestamp(at.nanos().saturating_add(1))).symbols([play.symbol]);
        let cursor = cursor.types(Trades::types(&stream)).open().map_err(|error| caller.failure(error))?;
        Ok(Self {
            stream: play.stream,
            id,
            depth: play.depth.unwrap_or(20).min(DEPTH_MAX),
            cursor,
            replay,
            finder: Trades::default(),
            trades: VecDeque::new(),
            clock: Clock { at, since: Some(Instant::now()), speed: play.speed },
            at,
            is_first: true,
            has_ended: false,
            no_books: SymbolBooks::default(),
        })
    }

    /// Applies the messages that are due; whether there were any.
    fn advance(&mut self) -> Result<bool, tapedb_engine::Error> {
        let (began, due, mut count) = (Instant::now(), self.clock.time(Instant::now()), 0u64);
        loop {
            if self.cursor.current().is_none() && self.cursor.next()?.is_none() {
                self.has_ended = true;
                return Ok(count > 0);
            }
            let Some(message) = self.cursor.current() else { return Ok(count > 0) };
            if due.is_some_and(|due| message.time() > due) {
                self.at = due.unwrap_or(self.at).max(self.at);
                return Ok(count > 0);
            }
            self.at = message.time();
            self.replay.apply(&message)?;
            let trades = &mut self.trades;
            self.finder.each(&message, |trade| {
                if trades.len() == TRADES_MAX {
                    trades.pop_front();
                }
                trades.push_back(trade);
            })?;
            count += 1;
            self.cursor.next()?;
            if count.is_multiple_of(STEP) && began.elapsed() > LOOK_MAX {
                // It goes on from here.
                self.clock.set(self.at, Instant::now());
                return Ok(true);
            }
        }
    }
}

impl Channel for PlayChannel {
    fn name(&self) -> &'static str {
        "play"
    }

    fn is_due(&self) -> bool {
        !self.has_ended
    }

    fn look(&mut self, user: &User, out: &mut Vec<u8>) -> Result<bool, Failure> {
        check_read(user, &self.stream)?;
        self.advance().map_err(|error| Failure::of(user, error))?;
        // The time goes on, also without messages.
        let books_now = self.replay.books().symbol(self.id).unwrap_or(&self.no_books);
        let mut data = books(books_now, self.at, self.depth);
        data["trades"] = self.trades.drain(..).map(|trade| trade.json()).collect();
        data["ended"] = json!(self.has_ended);
        self.is_first = false;
        // A vector takes every write.
        let _ = to_writer(out, &data);
        Ok(true)
    }

    fn pause(&mut self, is_paused: bool) {
        self.clock.pause(is_paused, Instant::now());
    }
}

/// A clock that runs at a speed.
#[derive(Debug)]
struct Clock {
    at: Timestamp,
    /// When it was `at`; `None`: it is paused.
    since: Option<Instant>,
    /// 0: everything is due.
    speed: f64,
}

impl Clock {
    /// The time; `None`: everything is due.
    fn time(&self, now: Instant) -> Option<Timestamp> {
        if self.speed == 0.0 {
            return None;
        }
        let Some(since) = self.since else { return Some(self.at) };
        let nanos = now.saturating_duration_since(since).as_nanos() as f64 * self.speed;
        Some(Timestamp(self.at.nanos().saturating_add(nanos as i64)))
    }

    fn set(&mut self, at: Timestamp, now: Instant) {
        (self.at, self.since) = (at, self.since.map(|_| now));
    }

    fn pause(&mut self, is_paused: bool, now: Instant) {
        self.at = self.time(now).unwrap_or(self.at);
        self.since = (!is_paused).then_some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_runs_at_its_speed_and_pauses() {
        let now = Instant::now();
        let after = |millis| now + Duration::from_millis(millis);
        let mut clock = Clock { at: Timestamp(1000), since: Some(now), speed: 2.0 };
        assert_eq!(clock.time(after(1)), Some(Timestamp(2_001_000)));
        clock.pause(true, after(1));
        assert_eq!(clock.time(after(9)), Some(Timestamp(2_001_000)));
        clock.pause(false, after(10));
        assert_eq!(clock.time(after(11)), Some(Timestamp(4_001_000)));
        clock.set(Timestamp(5), after(12));
        assert_eq!(clock.time(after(12)), Some(Timestamp(5)));
        assert_eq!(Clock { speed: 0.0, ..clock }.time(now), None);
    }
}
