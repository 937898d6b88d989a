//! `tardis`: CSV files of Tardis.dev; the header says of which kind.
//!
//! | kind | message |
//! |---|---|
//! | `trades` | `Package` with a [`Trade`]; where the trade's identifier is no number of 64 bits, [`MarketByPrice`], `TRADE` |
//! | `quotes`, `book_ticker` | `Package` with two `Level1` |
//! | `liquidations` | [`Liquidation`]; such a file has the header of trades, so its name says it |
//! | `derivative_ticker`, `options_chain` | [`Ticker`]; columns that it has no field for are attributes |
//! | `book_snapshot_N` | `Package`, a snapshot |
//! | `incremental_book_L2` | rows of one symbol, time and `is_snapshot` that follow on each other are one `Package` of level-2 updates, a snapshot if `is_snapshot` |
//!
//! `local_timestamp` is the message's time, `timestamp` is `source_time`. Both are microseconds.

mod exchanges;
mod rows;
#[cfg(test)]
mod tests;

use crate::fields::BadLine;
use crate::frames::messages::Messages;
use crate::frames::scalar::Scalar;
use crate::frames::times;
use crate::record::AnyRecord;
use crate::source::{Counters, LineParser, Parsed};
pub use exchanges::code as exchange_code;
use rows::{Columns, Group, Kind};
use std::path::Path;
use tapedb_market::{Gap, GapCause};
use tapedb_schema::{Ascii, TimeUnit, Timestamp};

pub(super) const LOOKED_FOR: &str = "CSV files `<exchange>_<kind>_<rest>.csv` or `.csv.gz` whose header begins with `exchange,symbol,timestamp,local_timestamp`";

/// What every header begins with.
const HEAD: &str = "exchange,symbol,timestamp,local_timestamp,";

/// Whether a file begins as those of Tardis do.
pub(super) fn begins_so(head: &[u8]) -> bool {
    head.starts_with(HEAD.as_bytes())
}

/// Whether a file found in a folder may be one.
pub(super) fn is_named_so(name: &str) -> bool {
    let name = name.strip_suffix(".gz").unwrap_or(name);
    let kinds = [
        "_trades_",
        "_quotes_",
        "_book_ticker_",
        "_book_snapshot_",
        "_incremental_book_l2_",
        "_derivative_ticker_",
        "_options_chain_",
        "_liquidations_",
    ];
    name.ends_with(".csv") && kinds.iter().any(|kind| name.contains(kind))
}

/// The content of a file's name, and how to read it.
#[derive(Debug, Clone, Copy)]
pub(super) struct TardisFile {
    liquidations: bool,
    round: bool,
}

impl TardisFile {
    pub(super) fn of_path(path: &Path, round: bool) -> Self {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        Self { liquidations: name.to_ascii_lowercase().contains("liquidations"), round }
    }

    pub(super) fn parser(self) -> Parser {
        Parser::new(self.round, self.liquidations)
    }
}

pub(super) struct Parser {
    /// Rows with the header of trades are liquidations.
    liquidations: bool,
    /// Columns of a ticker behind those of every row.
    columns: Vec<String>,
    kind: Option<Kind>,
    /// Rows that are one message, as far as they are read.
    group: Option<Group>,
    out: Messages,
    symbol: String,
    /// When the last row was received.
    last: Timestamp,
}

impl Parser {
    fn new(round: bool, liquidations: bool) -> Self {
        Self {
            liquidations,
            columns: Vec::new(),
            kind: None,
            group: None,
            out: Messages::new("", round),
            symbol: String::new(),
            last: Timestamp(0),
        }
    }

    fn row(&mut self, line: &str) -> Result<(), BadLine> {
        self.out.begin(Timestamp(0), line);
        let Some(kind) = self.kind else {
            self.kind = Some(Kind::of_header(line, self.liquidations)?);
            let rest = line.strip_prefix(HEAD).unwrap_or_default();
            self.columns = rest.split(',').map(Into::into).collect();
            return Ok(());
        };
        let mut columns = Columns::new(line);
        let head = Head::of(&mut columns, &self.out)?;
        self.out.begin(head.received, line);

        if kind == Kind::Ticker {
            rows::ticker(&head, &self.columns, columns, &mut self.out)?;
            self.last = head.received;
            return Ok(());
        }
        if kind != Kind::Incremental {
            rows::push(kind, &head, columns, &mut self.out)?;
            self.last = head.received;
            return Ok(());
        }
        let change = rows::change(&head, columns, &mut self.out)?;
        match &mut self.group {
            Some(group) if group.takes(&head, &change) => group.add(change),
            _ => {
                let group = Group::after(self.group.as_ref(), &head, change);
                self.flush()?;
                self.group = Some(group);
            }
        }
        self.last = head.received;
        Ok(())
    }

    /// Makes the rows so far a message.
    fn flush(&mut self) -> Result<(), BadLine> {
        let Some(group) = self.group.take() else { return Ok(()) };
        self.out.begin(group.received, "");
        self.out.push(&group.symbol.clone(), group.package())
    }
}

/// What every row begins with.
struct Head<'a> {
    exchange: Option<Ascii<8>>,
    symbol: &'a str,
    source_time: Timestamp,
    received: Timestamp,
}

impl<'a> Head<'a> {
    fn of(columns: &mut Columns<'a>, out: &Messages) -> Result<Self, BadLine> {
        let (exchange, symbol) = (columns.next(out)?, columns.next(out)?);
        let code = exchanges::code(exchange.0);
        let expected = "an exchange of at most 8 characters, or one of those in docs/IMPORT.md";
        let code = code.ok_or_else(|| out.bad(exchange.0, expected))?;
        let micros = |text: Scalar<'_>| {
            let time = times::whole(text.0, &[TimeUnit::Micros]);
            time.ok_or_else(|| out.bad(text.0, "a time in microseconds since 1970, not before 1973"))
        };
        let (source_time, received) = (micros(columns.next(out)?)?, micros(columns.next(out)?)?);
        Ok(Self { exchange: Some(code), symbol: symbol.0, source_time, received })
    }
}

impl LineParser for Parser {
    fn symbol(&self) -> &str {
        &self.symbol
    }

    fn parse(&mut self, line: &[u8], _: &mut AnyRecord) -> Result<Parsed, BadLine> {
        let text = std::str::from_utf8(line);
        let text = text.map_err(|error| BadLine::new(error.valid_up_to(), "a line in UTF-8"))?;
        self.row(text).map(|()| Parsed::Queued)
    }

    fn queued(&mut self, out: &mut AnyRecord) -> Option<Timestamp> {
        let message = self.out.take()?;
        self.symbol = message.symbol;
        *out = message.record;
        Some(message.time)
    }

    fn refused(&mut self, bad: &BadLine) {
        // A file has one symbol, or rows of many that are mixed: the one before is as near as can be known.
        let symbol = self.group.as_ref().map_or(&self.symbol, |group| &group.symbol).clone();
        self.out.begin(self.last, "");
        if !symbol.is_empty() {
            let detail = Some(format!("a row was refused: expected {}", bad.expected));
            let gap = Gap { cause: GapCause::Dropped, from: Some(self.last), detail, ..Gap::default() };
            // It was the symbol of a row.
            let pushed = self.out.gap(&symbol, gap);
            debug_assert!(pushed.is_ok(), "{pushed:?}");
        }
    }

    fn finish(&mut self) {
        // The group was taken row by row, with the limits of a message.
        let flushed = self.flush();
        debug_assert!(flushed.is_ok(), "{flushed:?}");
    }

    fn count(&mut self, counters: &mut Counters) {
        counters.add(&std::mem::take(self.out.counters()));
    }
}
