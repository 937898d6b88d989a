//! Bars of the trades or quotes of a stream: those of history in time order, then live ones as messages arrive.

use crate::error::BookError;
use crate::prices::{BarInput, Prices};
use crate::writer::Pass;
use std::time::Duration;
use tapedb_engine::{Cursor, CursorBuilder, Stream};
use tapedb_market::{BarBuilder, BarRule, BuiltBar};

/// A bar and its symbol.
#[derive(Debug, Clone, PartialEq)]
pub struct SymbolBar {
    /// The symbol.
    pub symbol: String,
    /// The bar; of quotes, without volume and turnover.
    pub built: BuiltBar,
}

/// Reads a stream's bars.
#[derive(Debug)]
pub struct BarReader {
    stream: Stream,
    cursor: Cursor,
    input: BarInput,
    prices: Prices,
    builder: BarBuilder,
    /// Names of the stream's symbols, by their ids.
    names: Vec<String>,
    is_by_time: bool,
    messages: u64,
    trades: u64,
}

impl BarReader {
    /// Bars of the messages of a cursor over `stream`, in time order: a live one continues with new messages.
    ///
    /// # Errors
    /// [`BookError::NoBooks`] where the stream has no record type with trades or quotes, the engine's.
    pub fn open(
        stream: &Stream,
        cursor: CursorBuilder,
        rule: BarRule,
        input: BarInput,
    ) -> Result<Self, BookError> {
        Ok(Self {
            stream: stream.clone(),
            input,
            prices: Prices::new(stream, input)?,
            cursor: cursor.open()?,
            builder: BarBuilder::new(rule),
            names: stream.symbols(),
            is_by_time: matches!(rule, BarRule::Time(_)),
            messages: 0,
            trades: 0,
        })
    }

    /// Reads at most `messages` messages, and adds the bars that end with them.
    ///
    /// # Errors
    /// The engine's.
    pub fn step(&mut self, messages: u64, out: &mut Vec<SymbolBar>) -> Result<Pass, BookError> {
        for _ in 0..messages {
            let Some(message) = self.cursor.next()? else { return Ok(Pass::UpToDate) };
            let (time, symbol) = (message.time(), message.symbol_id());
            if symbol as usize >= self.names.len() {
                self.names = self.stream.symbols();
            }
            self.messages += 1;
            let ended = self.builder.advance(time);
            out.extend(ended.into_iter().map(|(of, built)| named(&self.names, self.input, of, built)));
            let (builder, names, input, trades) =
                (&mut self.builder, &self.names, self.input, &mut self.trades);
            self.prices.each(&message, |price, size| {
                *trades += 1;
                let built = builder.trade(symbol, time, price, size);
                out.extend(built.into_iter().map(|built| named(names, input, symbol, built)));
            })?;
        }
        Ok(Pass::More)
    }

    /// Adds the bars by time that have not ended; others are bars only when they are complete.
    pub fn finish(&mut self, out: &mut Vec<SymbolBar>) {
        if !self.is_by_time {
            return;
        }
        let left = self.builder.finish();
        out.extend(left.into_iter().map(|(of, built)| named(&self.names, self.input, of, built)));
    }

    /// Waits for new messages.
    ///
    /// # Errors
    /// The engine's.
    pub fn wait(&mut self, timeout: Duration) -> Result<(), BookError> {
        Ok(self.cursor.wait(timeout)?)
    }

    /// What was read.
    pub fn counts(&self) -> BarCounts {
        let (refused, too_late) = (self.builder.refused(), self.builder.too_late());
        let unpriced = self.prices.unpriced();
        BarCounts { messages: self.messages, trades: self.trades, refused, too_late, unpriced }
    }
}

/// What a reader of bars has read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BarCounts {
    /// Messages of the stream.
    pub messages: u64,
    /// Trades or changes of quotes among them.
    pub trades: u64,
    /// Those of them whose numbers no bar can have.
    pub refused: u64,
    /// Those of them that came too late for any bar that is kept.
    pub too_late: u64,
    /// Trades and executions without a price or size, which are in no bar.
    pub unpriced: u64,
}

fn named(names: &[String], input: BarInput, symbol: u32, mut built: BuiltBar) -> SymbolBar {
    if input == BarInput::Quotes {
        (built.bar.volume, built.bar.turnover) = (None, None);
    }
    SymbolBar { symbol: names.get(symbol as usize).cloned().unwrap_or_default(), built }
}
