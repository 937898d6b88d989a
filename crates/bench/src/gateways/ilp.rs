//! Lines over HTTP, from QuestDB's client and as bytes that are there already.

use crate::report::Report;
use crate::storage::Scratch;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Instant;
use tapedb_access::Authenticator;
use tapedb_codec::dynamic::ValueRef;
use tapedb_engine::Database;
use tapedb_ilp_load::{LineAddresses, LineGateway, LineLoader, LineServer, LoadOptions};
use tapedb_terminal::Failure;

/// Rows of a request: as many as QuestDB's client sends at once by default.
const REQUEST_ROWS: u64 = 75_000;
const SENDER: &str = include_str!("sender.py");

/// A server of the line protocol.
pub struct Lines {
    db: Database,
    server: LineServer,
    address: SocketAddr,
    rows: u64,
    /// Bodies of versions 1 and 2.
    bodies: [Vec<Vec<u8>>; 2],
}

fn failed(error: &dyn std::fmt::Display) -> Failure {
    Failure::new(error.to_string())
}

impl Lines {
    /// Serves a database, and makes the lines.
    pub fn start(scratch: &Scratch, rows: u64) -> Result<Self, Failure> {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let loader = LineLoader::new(scratch.db.clone(), LoadOptions::default());
        let logins = Authenticator::open(None).map_err(|error| failed(&error))?;
        let addresses = LineAddresses { http: Some(any), tcp: None };
        let server =
            LineServer::start(LineGateway::new(loader, logins), addresses).map_err(|error| failed(&error))?;
        let address = server.addresses().http.unwrap_or(any);
        let bodies = [1, 2].map(|version| bodies(version, rows));
        Ok(Self { db: scratch.db.clone(), server, address, rows, bodies })
    }

    /// Sends the bytes of a version.
    pub fn send_bytes(&self, version: usize, report: &mut Report) -> Result<(), Failure> {
        let mut socket = TcpStream::connect(self.address).map_err(|error| failed(&error))?;
        let begin = Instant::now();
        for body in &self.bodies[version - 1] {
            post(&mut socket, body).map_err(|error| failed(&error))?;
        }
        self.measured(version, "bytes", begin.elapsed().as_secs_f64(), report)
    }

    /// Sends a frame with QuestDB's client.
    pub fn send_frame(&self, version: usize, python: &Path, report: &mut Report) -> Result<(), Failure> {
        let mut command = Command::new(python);
        command.args(["-c", SENDER, &version.to_string(), &self.address.port().to_string()]);
        command.args([&self.rows.to_string(), TABLE]);
        let output = command.output().map_err(|error| failed(&error))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_string();
        let seconds = text(&output.stdout).parse::<f64>();
        match seconds {
            Ok(seconds) if output.status.success() => self.measured(version, "rate", seconds, report),
            _ => Err(Failure::new(format!("{} cannot send: {}", python.display(), text(&output.stderr)))),
        }
    }

    /// Compares what was stored, and removes it.
    fn measured(
        &self,
        version: usize,
        metric: &str,
        seconds: f64,
        report: &mut Report,
    ) -> Result<(), Failure> {
        let stream = self.db.stream(TABLE)?;
        let (mut rows, mut sum) = (0u64, 0u64);
        let mut cursor = stream.cursor().open()?;
        while let Some(message) = cursor.next()? {
            rows += 1;
            if let Some(ValueRef::Int(size)) = message.record()?.get("size") {
                sum += size as u64;
            }
        }
        drop((cursor, stream));
        self.db.delete_stream(TABLE)?;
        let expected = (self.rows, self.rows * self.rows.saturating_sub(1) / 2);
        if (rows, sum) != expected {
            let counts = self.server.gateway().loader().counts();
            return Err(Failure::new(format!(
                "rows and their sum are {:?}, where {expected:?} were sent; {counts:?}",
                (rows, sum)
            )));
        }
        report.add(&format!("gateways.ilp.v{version}"), metric, "rows/s", self.rows as f64 / seconds);
        Ok(())
    }
}

const TABLE: &str = "trades";

/// The lines of `sender.py`, as its client writes them.
fn bodies(version: usize, rows: u64) -> Vec<Vec<u8>> {
    let begins = (0..rows).step_by(REQUEST_ROWS as usize);
    begins
        .map(|begin| {
            let mut body = Vec::new();
            (begin..rows.min(begin + REQUEST_ROWS)).for_each(|row| line(version, row, &mut body));
            body
        })
        .collect()
}

fn line(version: usize, row: u64, body: &mut Vec<u8>) {
    let side = if row.is_multiple_of(2) { "buy" } else { "sell" };
    let (price, amount) = (100.0 + (row % 10_000) as f64 * 0.01, 0.5 + (row % 100) as f64 * 0.25);
    body.extend(format!("{TABLE},symbol=SYM{:03},side={side} ", row % 500).bytes());
    for (name, value) in [("price", price), ("amount", amount)] {
        if version == 1 {
            body.extend(format!("{name}={value},").bytes());
        } else {
            body.extend(format!("{name}==\x10").bytes());
            body.extend(value.to_le_bytes());
            body.push(b',');
        }
    }
    let suffix = if version == 1 { "" } else { "n" };
    let time = 1_700_000_000_000_000_000 + row * 1_000;
    body.extend(format!("size={row}i {time}{suffix}\n").bytes());
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
