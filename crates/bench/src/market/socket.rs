//! Replays to a WebSocket client at full speed: messages a second until the client has the last one.

use super::tally::Tally;
use crate::report::Report;
use std::fmt::Write;
use std::net::{TcpListener, TcpStream};
use std::time::Instant;
use tapedb_engine::{Database, Stream};
use tapedb_market::{Aggressor, BookAction, Entry, Package, PackageKind, Side, Trade};
use tapedb_replay_socket::{ReplayServer, ServerOptions};
use tapedb_schema::{Decimal64, Timestamp};
use tapedb_terminal::{Failure, Ui};
use tungstenite::{Message, client};

const CASE: &str = "market.replay.websocket";

/// Number of messages that a client must receive, and a hash over their texts.
pub fn expected(stream: &Stream) -> Result<Tally, Failure> {
    let (mut tally, mut text, mut package) = (Tally::default(), String::new(), Package::default());
    let mut cursor = stream.cursor().open()?;
    while let Some(message) = cursor.next()? {
        message.decode_into(&mut package)?;
        let (symbol, time) = (message.symbol(), message.time());
        let mut take = |text: &str| tally.add_text(text.as_bytes());
        for entry in &package.entries {
            if let Entry::Trade(trade) = entry {
                text.clear();
                write_trade(&mut text, (stream.name(), symbol), trade, &package, time);
                take(&text);
            }
        }
        text.clear();
        if write_book_change(&mut text, (stream.name(), symbol), &package, time) {
            take(&text);
        }
    }
    Ok(tally)
}

/// Replays once to a client, which counts and hashes what it receives.
pub fn measure(
    stream: &Stream,
    expected: Tally,
    db: &Database,
    report: &mut Report,
    ui: &Ui,
) -> Result<(), Failure> {
    ui.check_interrupt()?;
    let failed = |error: &dyn std::fmt::Display| Failure::new(format!("{CASE}: {error}"));
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| failed(&error))?;
    let streams = vec![stream.clone()];
    let server = ReplayServer::start(db, streams, listener, ServerOptions::default())
        .map_err(|error| failed(&error))?;
    let name = stream.name();
    let options =
        format!("%7B%22exchange%22:%22{name}%22,%22dataTypes%22:%5B%22trade%22,%22book_change%22%5D%7D");
    let address = server.address();
    let began = Instant::now();
    let socket = TcpStream::connect(address).map_err(|error| failed(&error))?;
    let (mut client, _) = client(format!("ws://{address}/ws-replay-normalized?options={options}"), socket)
        .map_err(|error| failed(&error))?;
    let mut received = Tally::default();
    loop {
        match client.read().map_err(|error| failed(&error))? {
            Message::Text(text) => received.add_text(text.as_bytes()),
            Message::Close(_) => break,
            _ => {}
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    // The answer to the close frame, so that the server need not wait for it.
    while client.read().is_ok() {}
    server.stop();
    if received != expected {
        return Err(failed(&format!("expected {expected:?}, received {received:?}; please report this")));
    }
    report.add(CASE, "rate", "messages/s", received.messages as f64 / seconds);
    Ok(())
}

fn write_trade(
    text: &mut String,
    (exchange, symbol): (&str, &str),
    trade: &Trade,
    package: &Package,
    time: Timestamp,
) {
    let side = match trade.aggressor {
        Some(Aggressor::Buy) => "buy",
        Some(Aggressor::Sell) => "sell",
        None => "unknown",
    };
    let id = trade.id.map(|id| format!(r#","id":"{id}""#)).unwrap_or_default();
    let (price, amount) = (trade.price, trade.size);
    let sent = package.match_time.or(package.source_time).unwrap_or(time);
    let _ = write!(
        text,
        r#"{{"type":"trade","symbol":"{symbol}","exchange":"{exchange}"{id},"price":{price},"amount":{amount},"side":"{side}","timestamp":"{sent}","localTimestamp":"{time}"}}"#
    );
}

fn write_book_change(
    text: &mut String,
    (exchange, symbol): (&str, &str),
    package: &Package,
    time: Timestamp,
) -> bool {
    let of = |wanted: Side| {
        let level = |entry: &Entry| {
            let (side, price, amount) = match entry {
                Entry::Level2Update(entry) if entry.action == BookAction::Delete => {
                    (entry.side, entry.price, Some(Decimal64::ZERO))
                }
                Entry::Level2Update(entry) => (entry.side, entry.price, entry.size),
                Entry::Level2Snapshot(entry) => (entry.side, entry.price, Some(entry.size)),
                _ => return None,
            };
            let amount = amount.map_or("null".to_string(), |amount| amount.to_string());
            (side == wanted).then(|| format!(r#"{{"price":{price},"amount":{amount}}}"#))
        };
        package.entries.iter().filter_map(level).collect::<Vec<_>>().join(",")
    };
    let (bids, asks) = (of(Side::Bid), of(Side::Ask));
    if bids.is_empty() && asks.is_empty() {
        return false;
    }
    let is_snapshot = package.kind != PackageKind::Update;
    let sent = package.source_time.or(package.match_time).unwrap_or(time);
    let _ = write!(
        text,
        r#"{{"type":"book_change","symbol":"{symbol}","exchange":"{exchange}","isSnapshot":{is_snapshot},"bids":[{bids}],"asks":[{asks}],"timestamp":"{sent}","localTimestamp":"{time}"}}"#
    );
    true
}
