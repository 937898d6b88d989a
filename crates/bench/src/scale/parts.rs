//! A stream with many parts: time to open it, to seal, and to tell a live reader of a seal.
//!
//! Sealing so many parts would take hours. So one segment is sealed, and a manifest is written (`docs/format/database.md`) that
//! names a part for each message, of a size at which nothing is merged any more. Their files are empty: nothing of this reads
//! them.

use super::args::Args;
use super::crowd::{STREAM, Tick, symbol};
use crate::remote::jobs::connected;
use crate::report::Report;
use crate::storage::ScratchDir;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};
use tapedb_client::Client;
use tapedb_codec::SchemaBuilder;
use tapedb_engine::{Database, Stream, StreamOptions};
use tapedb_schema::Timestamp;
use tapedb_server::{Config, Endpoint, Server};
use tapedb_terminal::Failure;

/// Bytes of a part: as many as nothing is merged with.
const PART_BYTES: u64 = 1 << 40;
/// Seals of which a reader is notified.
const SEALS: u64 = 5;

/// Measures with a number of parts.
pub fn measure(args: &Args, parts: u64, report: &mut Report) -> Result<(), Failure> {
    let parts = parts.max(1);
    let dir = ScratchDir::beside(&args.db, "parts");
    make(&dir.0, parts)?;
    let case = format!("scale.parts.{parts}");
    {
        let started = Instant::now();
        let db = Database::open_without_maintenance(&dir.0)?;
        let stream = db.stream(STREAM)?;
        report.add(&case, "open", "ms", started.elapsed().as_secs_f64() * 1e3);
        let found = stream.stats()?.messages;
        if found != parts {
            return Err(Failure::new(format!("{found} of {parts} messages were found; please report this")));
        }
        seal(&stream, parts, &case, report)?;
    }
    let parts = parts + 1 + SEALS;
    told(&dir.0, parts, &case, report)
}

/// Makes a database with a stream of so many parts, with a message each.
fn make(path: &Path, parts: u64) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::new(format!("cannot make {}: {error}", path.display()));
    let directory = {
        let db = Database::open_without_maintenance(path)?;
        let schema = SchemaBuilder::new().with::<Tick>().finish();
        let stream = db.create_stream(STREAM, schema, StreamOptions::default())?;
        let mut loader = stream.loader()?;
        for number in 0..parts {
            loader.append(&symbol(0), Timestamp(number as i64), &Tick::of(number))?;
        }
        loader.flush()?;
        stream.seal()?;
        stream.path().join("0")
    };
    let text = fs::read_to_string(directory.join("manifest")).map_err(failed)?;
    let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
    let mut body = format!(
        "stream {}\nspace 0\ngeneration 1000\nsealed {parts}\nnext {}\n",
        value("stream "),
        parts + 1000
    );
    for number in 0..parts {
        let (end, file) = (number + 1, number + 500);
        let _ = writeln!(body, "part {number} {end} {file} 1 {number} {number} {PART_BYTES} hot 0");
        fs::File::create(directory.join(format!("{number:020}-{file}.seg"))).map_err(failed)?;
    }
    let sum = tapedb_codec::bytes::crc32c(body.as_bytes());
    let text = format!("tapedb-space 1\nchecksum {sum:08x}\n{body}");
    ["manifest", "manifest.copy"]
        .iter()
        .try_for_each(|name| fs::write(directory.join(name), &text))
        .map_err(failed)
}

/// Seals a message at a time: the first seal after opening writes the manifest as a whole, the others append to it.
fn seal(stream: &Stream, parts: u64, case: &str, report: &mut Report) -> Result<(), Failure> {
    let mut loader = stream.loader()?;
    let mut took = Vec::new();
    for number in parts..=parts + SEALS {
        loader.append(&symbol(0), Timestamp(number as i64), &Tick::of(number))?;
        loader.flush()?;
        let started = Instant::now();
        stream.seal()?;
        took.push(started.elapsed().as_secs_f64() * 1e3);
    }
    report.add(case, "first seal", "ms", took.remove(0));
    took.sort_unstable_by(f64::total_cmp);
    report.add(case, "seal", "ms", took[took.len() / 2]);
    Ok(())
}

/// Seals repeatedly while a reader follows.
fn told(path: &Path, parts: u64, case: &str, report: &mut Report) -> Result<(), Failure> {
    let config = Config {
        database: path.into(),
        listen: Endpoint::loopback(0),
        http: Endpoint::OFF,
        ..Config::default()
    };
    let server = Server::start(config).map_err(|error| Failure::new(error.to_string()))?;
    let url = server.addresses().tcp.map(|address| format!("tape://{address}")).unwrap_or_default();
    let (writer, reader) = (connected(Client::at(&url))?, connected(Client::at(&url))?);
    let (stream, mut cursor) =
        (writer.stream(STREAM)?, reader.stream(STREAM)?.cursor().skip_history().open()?);
    let mut loader = stream.loader()?;
    let mut total = Duration::ZERO;
    for number in 0..2 * SEALS {
        let message = parts + number;
        let started = Instant::now();
        loader.append(&symbol(0), Timestamp(message as i64), &Tick::of(message))?;
        loader.flush()?;
        let found = cursor
            .next_within(Duration::from_secs(60))?
            .map(|found| (found.sequence(), found.decode::<Tick>()));
        match found {
            Some((sequence, Ok(tick))) if sequence == message && tick == Tick::of(message) => {}
            found => {
                return Err(Failure::new(format!(
                    "{found:?} where message {message} should follow; please report this"
                )));
            }
        }
        // Every second message follows a seal.
        match number % 2 {
            0 => drop(stream.seal()?),
            _ => total += started.elapsed(),
        }
    }
    report.add(case, "told", "ms", total.as_secs_f64() * 1e3 / SEALS as f64);
    drop((cursor, loader));
    server.shutdown();
    Ok(())
}
