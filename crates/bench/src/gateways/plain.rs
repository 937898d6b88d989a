//! Rows over HTTP as texts: any client of HTTP reads them.

use crate::gateways::failed::failed;
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;
use tapedb_terminal::Failure;

/// The body of a query's answer.
pub fn query(port: u16, text: &str, format: &str) -> Result<Vec<u8>, Failure> {
    let body = json!({ "sql": text, "format": format }).to_string();
    let mut socket = TcpStream::connect(("127.0.0.1", port)).map_err(failed)?;
    let head = format!(
        "POST /api/query HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX-TapeDB: 1\r\nContent-Type: application/json\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    socket.write_all(head.as_bytes()).map_err(failed)?;
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).map_err(failed)?;
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(0);
    if !answer.starts_with(b"HTTP/1.1 200 ") {
        return Err(failed(String::from_utf8_lossy(&answer)));
    }
    let is_chunked = answer[..end].to_ascii_lowercase().windows(7).any(|seven| seven == b"chunked");
    let rest = &answer[(end + 4).min(answer.len())..];
    if is_chunked { chunks(rest) } else { Ok(rest.to_vec()) }
}

/// The body of chunks.
fn chunks(mut rest: &[u8]) -> Result<Vec<u8>, Failure> {
    let mut body = Vec::with_capacity(rest.len());
    let broken = || Failure::new("the answer was broken off");
    loop {
        let end = rest.windows(2).position(|two| two == b"\r\n").ok_or_else(broken)?;
        let length =
            std::str::from_utf8(&rest[..end]).ok().and_then(|text| usize::from_str_radix(text, 16).ok());
        let length = length.ok_or_else(broken)?;
        let chunk = rest.get(end + 2..end + 2 + length).ok_or_else(broken)?;
        if length == 0 {
            return Ok(body);
        }
        body.extend_from_slice(chunk);
        rest = rest.get(end + 4 + length..).ok_or_else(broken)?;
    }
}

/// Reads all rows, and counts them. Returns the seconds that it takes.
pub fn read(port: u16, table: &str, format: &str, rows: u64) -> Result<f64, Failure> {
    let begin = Instant::now();
    let text = format!("SELECT time, symbol, side, price, amount, size FROM {table}");
    let body = query(port, &text, format)?;
    let seconds = begin.elapsed().as_secs_f64();
    let breaks = body.iter().filter(|byte| **byte == b'\n').count() as u64;
    // A line of names, and one for each row; an array has one object on each line.
    let found = if format == "csv" { breaks.saturating_sub(1) } else { breaks };
    if found != rows {
        return Err(Failure::new(format!("{found} rows as {format}, where {rows} are stored")));
    }
    Ok(seconds)
}

/// Deletes a stream.
pub fn delete(port: u16, stream: &str) -> Result<(), Failure> {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).map_err(failed)?;
    let head = format!(
        "DELETE /api/streams/{stream} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX-TapeDB: 1\r\nConnection: close\r\n\r\n"
    );
    socket.write_all(head.as_bytes()).map_err(failed)?;
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).map_err(failed)?;
    if answer.starts_with(b"HTTP/1.1 20") { Ok(()) } else { Err(failed(String::from_utf8_lossy(&answer))) }
}
