//! What a client asks for, from the address of its request.

use crate::data_type::{DataType, SnapshotType};
use serde::Deserialize;
use std::collections::HashSet;
use std::fmt;
use tapedb_engine::Stream;
use tapedb_replay::Speed;
use tapedb_schema::{Ascii, Timestamp};

/// Most options of a request.
const OPTIONS_MAX: usize = 64;
/// Most kinds of messages of an option.
const TYPES_MAX: usize = 64;

/// What a client asks for.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) selections: Vec<Selection>,
    /// `None`: what the server has by default.
    pub(crate) speed: Option<Speed>,
}

/// An option: which messages, and as what.
#[derive(Debug)]
pub(crate) struct Selection {
    /// As the client wrote it; messages have it as their exchange.
    pub(crate) exchange: String,
    pub(crate) place: Place,
    /// `None`: all.
    pub(crate) symbols: Option<HashSet<String>>,
    pub(crate) from: Option<Timestamp>,
    pub(crate) to: Option<Timestamp>,
    pub(crate) has_trades: bool,
    pub(crate) has_book_changes: bool,
    pub(crate) has_liquidations: bool,
    pub(crate) has_disconnects: bool,
    pub(crate) snapshots: Vec<SnapshotType>,
}

/// Where the messages of an exchange are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// All messages of this stream, by its place in the list.
    Stream(usize),
    /// Messages that name this exchange, in all streams.
    Exchange(Ascii<8>),
}

/// A request that cannot be served.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestError {
    /// It asks for what is not kept.
    Raw,
    /// The address has no options, or not in JSON.
    Options(String),
    /// A kind of messages that there is not.
    DataType(String),
    /// A name that is neither a stream nor an exchange.
    Exchange(String),
    /// A time or a speed that is none.
    Value(String),
    /// More than is allowed.
    TooMany(&'static str),
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Raw => f.write_str("raw frames are not kept in streams; ask for /ws-replay-normalized"),
            Self::Options(what) => write!(f, "options must be URL-encoded JSON: {what}"),
            Self::DataType(name) => {
                write!(
                    f,
                    "no data type {name:?}: trade, book_change, book_snapshot_5_100ms, quote, quote_10s, liquidation"
                )
            }
            Self::Exchange(name) => {
                write!(f, "{name:?} is neither a stream that is replayed nor an exchange")
            }
            Self::Value(what) => f.write_str(what),
            Self::TooMany(what) => write!(f, "more {what} than are allowed"),
        }
    }
}

impl std::error::Error for RequestError {}

/// An option as it is written; others of its fields are ignored, as tardis-machine does.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    exchange: String,
    symbols: Option<Vec<String>>,
    from: Option<String>,
    to: Option<String>,
    data_types: Vec<String>,
    with_disconnect_messages: Option<bool>,
}

impl Request {
    /// The request of a query, such as `options=%7B…%7D&speed=10x`.
    pub(crate) fn of(query: &str, streams: &[Stream]) -> Result<Self, RequestError> {
        let (mut options, mut speed) = (None, None);
        for pair in query.split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match name {
                "options" => options = Some(decoded(value)?),
                "speed" => {
                    let text = decoded(value)?;
                    speed = Some(text.parse().map_err(|error| RequestError::Value(format!("{error}")))?);
                }
                _ => {}
            }
        }
        let options = options.ok_or_else(|| RequestError::Options("there are none".into()))?;
        Ok(Self { selections: selections(&options, streams)?, speed })
    }
}

fn selections(options: &str, streams: &[Stream]) -> Result<Vec<Selection>, RequestError> {
    let bad = |error: serde_json::Error| RequestError::Options(error.to_string());
    let written: Vec<Written> = if options.trim_start().starts_with('[') {
        serde_json::from_str(options).map_err(bad)?
    } else {
        vec![serde_json::from_str(options).map_err(bad)?]
    };
    match written.len() {
        0 => Err(RequestError::Options("the array is empty".into())),
        1..=OPTIONS_MAX => written.into_iter().map(|option| selection(option, streams)).collect(),
        _ => Err(RequestError::TooMany("options")),
    }
}

fn selection(written: Written, streams: &[Stream]) -> Result<Selection, RequestError> {
    let time = |text: Option<String>| {
        let read = |text: String| {
            text.parse().map_err(|error| RequestError::Value(format!("{text:?} is no time: {error}")))
        };
        text.map(read).transpose()
    };
    if written.data_types.len() > TYPES_MAX {
        return Err(RequestError::TooMany("data types"));
    }
    let mut selection = Selection {
        place: place(&written.exchange, streams)?,
        exchange: written.exchange,
        symbols: written.symbols.filter(|symbols| !symbols.is_empty()).map(HashSet::from_iter),
        from: time(written.from)?,
        to: time(written.to)?,
        has_trades: false,
        has_book_changes: false,
        has_liquidations: false,
        has_disconnects: written.with_disconnect_messages.unwrap_or(false),
        snapshots: Vec::new(),
    };
    for name in written.data_types {
        match DataType::of(&name).ok_or(RequestError::DataType(name))? {
            DataType::Trade => selection.has_trades = true,
            DataType::BookChange => selection.has_book_changes = true,
            DataType::Liquidation => selection.has_liquidations = true,
            DataType::Snapshot(snapshot) => {
                if !selection.snapshots.contains(&snapshot) {
                    selection.snapshots.push(snapshot);
                }
            }
        }
    }
    Ok(selection)
}

/// A stream of this name, or the exchange of a name as tardis.dev or messages have it.
fn place(name: &str, streams: &[Stream]) -> Result<Place, RequestError> {
    if let Some(at) = streams.iter().position(|stream| stream.name() == name) {
        return Ok(Place::Stream(at));
    }
    let code = tapedb_venue::exchange_code(name).or_else(|| {
        let is_code = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
        is_code.then(|| Ascii::new(name).ok())?
    });
    code.map(Place::Exchange).ok_or_else(|| RequestError::Exchange(name.into()))
}

/// The text of a value of a query.
fn decoded(value: &str) -> Result<String, RequestError> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                let bad = || RequestError::Options("a % without two hexadecimal digits".into());
                let (high, low) = (digit().ok_or_else(bad)?, digit().ok_or_else(bad)?);
                (high * 16 + low) as u8
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).map_err(|_| RequestError::Options("the text is not UTF-8".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(query: &str) -> Result<Request, RequestError> {
        Request::of(query, &[])
    }

    #[test]
    fn options_are_read_as_tardis_machine_writes_them() {
        let query = "options=%7B%22exchange%22%3A%22binance-futures%22%2C%22symbols%22%3A%5B%22btcusdt%22%5D%2C%22from%22%3A%222019-10-01%22%2C\
            %22to%22%3A%222019-10-01T00:00:01.5Z%22%2C%22dataTypes%22%3A%5B%22trade%22%2C%22book_snapshot_2_50ms%22%5D%2C%22x%22%3A1%7D&speed=10x";
        let request = of(query).unwrap();
        let selection = &request.selections[0];
        assert_eq!(selection.place, Place::Exchange(Ascii::new("BINUSDM").unwrap()));
        assert_eq!(selection.symbols, Some(HashSet::from(["btcusdt".to_string()])));
        let seconds = |time: Option<Timestamp>| time.unwrap().nanos() as f64 / 1e9 - 1_569_888_000.0;
        assert_eq!((seconds(selection.from), seconds(selection.to)), (0.0, 1.5));
        assert!(selection.has_trades && !selection.has_book_changes && !selection.has_disconnects);
        assert_eq!(selection.snapshots[0].depth, 2);
        assert_eq!(request.speed, Some(Speed::Times(10.0)));
        let two = r#"options=[{"exchange":"a","dataTypes":["trade"]},{"exchange":"BINUSDM","dataTypes":["quote"],"withDisconnectMessages":true}]"#;
        let two = of(two).unwrap();
        assert!(two.selections.len() == 2 && two.selections[1].has_disconnects && two.speed.is_none());
    }

    #[test]
    fn what_is_wrong_is_named() {
        let option = |rest: &str| format!(r#"options={{"exchange":"a","dataTypes":["trade"]{rest}}}"#);
        for (query, part) in [
            (String::new(), "there are none"),
            ("options=".into(), "EOF"),
            ("options=%7".into(), "hexadecimal"),
            ("options=%ff".into(), "UTF-8"),
            ("options=[]".into(), "empty"),
            ("options={}".into(), "exchange"),
            (r#"options={"exchange":"a","dataTypes":["candle"]}"#.into(), "candle"),
            (r#"options={"exchange":"a name that is long","dataTypes":[]}"#.into(), "neither a stream"),
            (option(r#","from":"yesterday""#), "no time"),
            (option("") + "&speed=fast", "no speed"),
            (option(&format!(r#","x":{}"#, "[".repeat(10_000))), "expected value"),
        ] {
            let error = of(&query).unwrap_err().to_string();
            assert!(error.contains(part), "{query:.40}: {error}");
        }
        let many = vec![r#"{"exchange":"a","dataTypes":[]}"#; OPTIONS_MAX + 1].join(",");
        assert_eq!(of(&format!("options=[{many}]")).unwrap_err(), RequestError::TooMany("options"));
    }
}
