//! `lobster`: messages of orders on NASDAQ, as LOBSTER rebuilds them.
//!
//! A CSV, plain or gzipped, `<symbol>_YYYY-MM-DD_<from>_<to>_message_<levels>.csv`, whose name has symbol and date. Rows `time, type, order,
//! size, price, direction`: seconds since midnight on New York's wall clock with up to nine decimals, prices in 1/10000 dollar.
//!
//! | type | message |
//! |---|---|
//! | 1 | [`Order`], add |
//! | 2, 3, 4 | cancel of a part, delete, execution, all of the order's side |
//! | 5, 6 | trade against a hidden order with the aggressor's side, trade of an auction: the book does not change |
//! | 7 | [`Status`]: halted at price -1, quoting at 0, trading at 1 |
//!
//! Orders from before the file's begin are not in it: deletes and executions may name orders that were never added.

use super::clock::{self, DayClock};
use super::fields::{BadLine, Fields};
use super::record::AnyRecord;
use super::source::{LineParser, Parsed};
use std::path::Path;
use tapedb_market::{Order, OrderAction, Side, Status, TradingState};
use tapedb_schema::{Decimal64, Timestamp};

pub(super) const LOOKED_FOR: &str =
    "files `<symbol>_YYYY-MM-DD_<from>_<to>_message_<levels>.csv` or `.csv.gz`";

const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// The content of a file's name.
#[derive(Debug, Clone)]
pub(super) struct Day {
    symbol: String,
    clock: DayClock,
}

impl Day {
    /// `None` if the file is not of this format.
    pub(super) fn of_path(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        let name = name.strip_suffix(".gz").unwrap_or(name).strip_suffix(".csv")?;
        let mut parts = name.split('_');
        let (symbol, date) = (parts.next()?, parts.next()?.replace('-', ""));
        let is_message = parts.nth(2)? == "message" && parts.next().is_some() && parts.next().is_none();
        let clock = DayClock::new_york(clock::date(date.as_bytes())?)?;
        (is_message && !symbol.is_empty()).then(|| Self { symbol: symbol.to_ascii_uppercase(), clock })
    }

    /// No row is before this.
    pub(super) fn start(&self) -> Timestamp {
        self.clock.start()
    }

    pub(super) fn parser(&self) -> Parser {
        Parser(self.clone())
    }
}

pub(super) struct Parser(Day);

impl LineParser for Parser {
    fn symbol(&self) -> &str {
        &self.0.symbol
    }

    fn parse(&mut self, line: &[u8], out: &mut AnyRecord) -> Result<Parsed, BadLine> {
        let mut fields = Fields::new(line);
        let time = seconds(fields.text("time")?).and_then(|ns| self.0.clock.at(ns));
        let time = time
            .ok_or_else(|| fields.bad(format_args!("time in seconds below 86400, of at most 18 decimals")))?;
        let kind = fields.integer("type")?;
        let order_id = signed(&mut fields, "order")?;
        let size = fields.scaled("size", 0)?;
        let price = signed(&mut fields, "price")?;
        let direction = signed(&mut fields, "direction")?;
        let side = match direction {
            1 => Side::Bid,
            -1 => Side::Ask,
            _ => return Err(fields.bad(format_args!("direction as 1 or -1"))),
        };
        fields.end()?;
        if kind == 7 {
            *out = halt(price).into();
            return Ok(Parsed::Row(time));
        }
        let (action, side) = match kind {
            1 => (OrderAction::Add, Some(side)),
            2 => (OrderAction::Cancel, Some(side)),
            3 => (OrderAction::Delete, Some(side)),
            4 => (OrderAction::Execute, Some(side)),
            5 => (OrderAction::Trade, Some(other(side))),
            6 => (OrderAction::Trade, None),
            _ => return Ok(Parsed::Unknown(format!("type {kind}"))),
        };
        let price = Decimal64::from_parts(price, -4);
        out.set_order(Order {
            action,
            side,
            price: Some(price.map_err(|error| BadLine::anywhere(format!("a price, but {error}")))?),
            size: Some(size),
            order_id: u64::try_from(order_id).ok().filter(|id| *id != 0),
            flags: u32::try_from(kind).ok(),
            ..Order::default()
        });
        Ok(Parsed::Row(time))
    }
}

fn halt(price: i64) -> Status {
    let state = match price {
        -1 => Some(TradingState::Halted),
        0 => Some(TradingState::Quoting),
        1 => Some(TradingState::Trading),
        _ => None,
    };
    let text = state.is_none().then(|| price.to_string());
    Status { state, text, trading: state.map(|state| state == TradingState::Trading), ..Status::default() }
}

fn other(side: Side) -> Side {
    match side {
        Side::Bid => Side::Ask,
        Side::Ask => Side::Bid,
    }
}

/// A whole number that may be negative.
fn signed(fields: &mut Fields<'_>, name: &str) -> Result<i64, BadLine> {
    let text = fields.text(name)?;
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let number =
        super::fields::integer(digits).map(|number| if digits.len() < text.len() { -number } else { number });
    number.ok_or_else(|| fields.bad(format_args!("{name} as a whole number")))
}

/// Seconds as nanoseconds. Files have a few times with more than nine decimals, which the floating-point numbers of the program that wrote
/// them have left there: these are rounded.
fn seconds(text: &[u8]) -> Option<i64> {
    let point = text.iter().position(|&byte| byte == b'.').unwrap_or(text.len());
    let whole = super::fields::integer(&text[..point])?.checked_mul(NANOS_PER_SECOND)?;
    let Some(decimals) = text.get(point + 1..) else { return Some(whole) };
    let (nanos, rest) = decimals.split_at(decimals.len().min(9));
    if rest.len() > 9 || !rest.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let fraction = super::fields::integer(nanos)? * 10i64.pow(9 - nanos.len() as u32);
    whole.checked_add(fraction + i64::from(rest.first().is_some_and(|&digit| digit >= b'5')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<(String, AnyRecord), BadLine> {
        let day = Day::of_path(Path::new("x/AAPL_2012-06-21_34200000_37800000_message_50.csv.gz")).unwrap();
        let mut record = AnyRecord::default();
        match day.parser().parse(line.as_bytes(), &mut record)? {
            Parsed::Row(time) => Ok((time.to_string(), record)),
            Parsed::Unknown(kind) => Ok((kind, record)),
            Parsed::Both(..) | Parsed::Queued => panic!("several rows"),
        }
    }

    fn order(line: &str) -> Order {
        match parse(line).unwrap().1 {
            AnyRecord::Order(order) => *order,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn only_messages_are_of_this_format() {
        let is = |name: &str| Day::of_path(Path::new(name)).is_some();
        assert!(is("AAPL_2012-06-21_34200000_57600000_message_1.csv"));
        for other in [
            "AAPL_2012-06-21_34200000_57600000_orderbook_1.csv",
            "AAPL_2012-06-31_1_2_message_1.csv",
            "a.csv",
        ] {
            assert!(!is(other), "{other}");
        }
    }

    #[test]
    fn orders_keep_every_digit_of_time_and_price() {
        let (time, _) = parse("34200.004241176,1,16113575,18,5853300,1").unwrap();
        assert_eq!(time, "2012-06-21T13:30:00.004241176Z");
        assert_eq!(parse("34200.00426064,1,1,18,5853200,1").unwrap().0, "2012-06-21T13:30:00.004260640Z");
        let add = order("34200.004241176,1,16113575,18,5853300,1");
        assert_eq!(
            (add.action, add.side, add.order_id),
            (OrderAction::Add, Some(Side::Bid), Some(16_113_575))
        );
        assert_eq!(
            (add.price.unwrap().to_string(), add.size.unwrap().to_string()),
            ("585.3300".into(), "18".into())
        );
        assert_eq!(order("1,4,7,1,1,-1").action, OrderAction::Execute);
        // A hidden sell order was hit by a buyer.
        let hidden = order("1,5,0,100,5857900,-1");
        assert_eq!(
            (hidden.action, hidden.side, hidden.order_id),
            (OrderAction::Trade, Some(Side::Bid), None)
        );
    }

    #[test]
    fn decimals_beyond_nanoseconds_are_rounded() {
        for (text, nanos) in
            [("1", 1_000_000_000), ("1.5", 1_500_000_000), ("35821.088778456004", 35_821_088_778_456)]
        {
            assert_eq!(seconds(text.as_bytes()), Some(nanos), "{text}");
        }
        assert_eq!(seconds(b"0.9999999995"), Some(1_000_000_000));
        assert_eq!(seconds(b"0.99999999949"), Some(999_999_999));
    }

    #[test]
    fn halts_are_states_and_bad_lines_say_where() {
        let state = |price| match parse(&format!("1,7,0,0,{price},-1")).unwrap().1 {
            AnyRecord::Status(status) => status.state,
            other => panic!("{other:?}"),
        };
        assert_eq!((state("-1"), state("0")), (Some(TradingState::Halted), Some(TradingState::Quoting)));
        assert_eq!(state("1"), Some(TradingState::Trading));
        let bad = |line: &str| {
            let error = parse(line).unwrap_err();
            format!("{} {}", error.column.unwrap(), error.expected)
        };
        assert_eq!(bad("86400,1,1,1,1,1"), "0 time in seconds below 86400, of at most 18 decimals");
        for time in ["1.0000000000000000001", "1.000000000x", "1.", "1.x"] {
            let line = format!("{time},1,1,1,1,1");
            assert_eq!(bad(&line), "0 time in seconds below 86400, of at most 18 decimals", "{time}");
        }
        assert_eq!(bad("1,1,1,1,1,2"), "10 direction as 1 or -1");
        assert_eq!(parse("1,9,1,1,1,1").unwrap().0, "type 9");
    }
}
