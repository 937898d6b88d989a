//! Lines of the protocol as bytes, as QuestDB's client writes them.

use crate::gateways::failed::failed;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;
use tapedb_terminal::Failure;

/// Rows of a request: as many as QuestDB's client sends at once by default.
const REQUEST_ROWS: u64 = 75_000;

/// A version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    One,
    Two,
}

/// The bodies of requests.
pub fn bodies(version: Version, table: &str, rows: u64) -> Vec<Vec<u8>> {
    let begins = (0..rows).step_by(REQUEST_ROWS as usize);
    let body = |begin: u64| {
        let mut body = Vec::new();
        (begin..rows.min(begin + REQUEST_ROWS)).for_each(|row| line(version, table, row, &mut body));
        body
    };
    begins.map(body).collect()
}

/// The values of a row: symbol, side, price, amount, time.
pub fn values(row: u64) -> (String, &'static str, f64, f64, u64) {
    let side = if row.is_multiple_of(2) { "buy" } else { "sell" };
    let (price, amount) = (100.0 + (row % 10_000) as f64 * 0.01, 0.5 + (row % 100) as f64 * 0.25);
    (format!("SYM{:03}", row % 500), side, price, amount, 1_700_000_000_000_000_000 + row * 1_000)
}

fn line(version: Version, table: &str, row: u64, body: &mut Vec<u8>) {
    let (symbol, side, price, amount, time) = values(row);
    body.extend(format!("{table},symbol={symbol},side={side} ").bytes());
    for (name, value) in [("price", price), ("amount", amount)] {
        match version {
            Version::One => body.extend(format!("{name}={value},").bytes()),
            Version::Two => {
                body.extend(format!("{name}==\x10").bytes());
                body.extend(value.to_le_bytes());
                body.push(b',');
            }
        }
    }
    let suffix = if version == Version::One { "" } else { "n" };
    body.extend(format!("size={row}i {time}{suffix}\n").bytes());
}

/// Sends requests, and waits for each answer. Returns the seconds that it takes.
pub fn send(port: u16, bodies: &[Vec<u8>]) -> Result<f64, Failure> {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).map_err(failed)?;
    let begin = Instant::now();
    bodies.iter().try_for_each(|body| post(&mut socket, body)).map_err(failed)?;
    Ok(begin.elapsed().as_secs_f64())
}

fn post(socket: &mut TcpStream, body: &[u8]) -> std::io::Result<()> {
    let head = format!("POST /write HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", body.len());
    socket.write_all(head.as_bytes())?;
    socket.write_all(body)?;
    let (mut answer, mut length) = ([0; 4096], 0);
    while !answer[..length].ends_with(b"\r\n\r\n") {
        match socket.read(&mut answer[length..])? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            read => length += read,
        }
    }
    if answer.starts_with(b"HTTP/1.1 204 ") {
        return Ok(());
    }
    Err(std::io::Error::other(String::from_utf8_lossy(&answer[..length]).into_owned()))
}
