//! Lines made by several threads, in the order of their messages.
//!
//! The calling thread reads and validates messages, copies them into chunks, and deals these out to workers in turn; in the same turn it
//! takes chunks back and writes their lines. So no order has to be restored, and memory is bounded by the chunks that are under way.

use super::head::Head;
use super::lines::Lines;
use super::{Damage, Output};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, Scope};
use tapedb_codec::dynamic::Layouts;
use tapedb_engine::{Cursor, Error, Message};
use tapedb_schema::Timestamp;
use tapedb_terminal::{Failure, Ui};

/// Bytes of messages after which a chunk is dealt out.
const CHUNK_BYTES: usize = 256 << 10;
/// Messages after which it is.
const CHUNK_MESSAGES: usize = 4096;
/// Chunks that a worker may have, so that it finds the next one when it is done with one.
const CHUNKS_EACH: usize = 2;

/// Copies as [`super::copy`] does, with as many workers as `threads` states.
pub fn copy(
    cursor: &mut Cursor,
    lines: &Lines,
    threads: usize,
    limit: u64,
    out: &mut Output,
    damage: &mut Damage,
    ui: &Ui,
) -> Result<(), Failure> {
    out.widen_pipe();
    thread::scope(|scope| {
        let workers: Vec<Worker> = (0..threads).map(|_| Worker::start(scope, lines.clone())).collect();
        let mut under_way = VecDeque::new();
        let mut deal = || {
            let (mut left, mut streams) = (limit, Streams::default());
            for worker in workers.iter().cycle() {
                let mut chunk = if under_way.len() < threads * CHUNKS_EACH {
                    Box::default()
                } else {
                    write_next(&mut under_way, out)?
                };
                let filled = chunk.fill(cursor, &mut left, &mut streams, damage, ui);
                worker.deal(chunk)?;
                under_way.push_back(worker);
                if !filled? || ui.is_interrupted() {
                    break;
                }
            }
            Ok(())
        };
        let dealt = deal();
        while !under_way.is_empty() {
            write_next(&mut under_way, out)?;
        }
        dealt
    })
}

/// Waits for the earliest chunk under way and writes its lines.
fn write_next(under_way: &mut VecDeque<&Worker>, out: &mut Output) -> Result<Box<Chunk>, Failure> {
    let mut chunk = under_way.pop_front().ok_or_else(lost)?.take()?;
    out.flush()?;
    std::mem::swap(&mut out.buffer, &mut chunk.text);
    out.flush()?;
    Ok(chunk)
}

/// A thread that makes lines.
struct Worker {
    chunks: SyncSender<Box<Chunk>>,
    done: Receiver<Box<Chunk>>,
}

impl Worker {
    /// It ends when the worker is dropped.
    fn start<'scope>(scope: &'scope Scope<'scope, '_>, mut lines: Lines) -> Self {
        let (chunks, dealt) = sync_channel::<Box<Chunk>>(CHUNKS_EACH);
        let (made, done) = sync_channel(CHUNKS_EACH);
        scope.spawn(move || {
            for mut chunk in dealt {
                chunk.make(&mut lines);
                if made.send(chunk).is_err() {
                    break;
                }
            }
        });
        Self { chunks, done }
    }

    fn deal(&self, chunk: Box<Chunk>) -> Result<(), Failure> {
        self.chunks.send(chunk).map_err(|_| lost())
    }

    fn take(&self) -> Result<Box<Chunk>, Failure> {
        self.done.recv().map_err(|_| lost())
    }
}

fn lost() -> Failure {
    Failure::new("a thread that made lines is gone; please report this with what it printed")
}

/// A stream's name and record types.
type Described = Arc<(String, Layouts)>;

/// The streams met so far.
#[derive(Default)]
struct Streams {
    all: Vec<Described>,
    /// The stream of the last message.
    last: usize,
}

impl Streams {
    fn of(&mut self, message: &Message<'_>) -> &Described {
        let name = message.stream_name();
        if self.all.get(self.last).is_none_or(|stream| stream.0 != name) {
            self.last = self.all.iter().position(|stream| stream.0 == name).unwrap_or(self.all.len());
            if self.last == self.all.len() {
                self.all.push(Arc::new((name.into(), message.layouts().clone())));
            }
        }
        &self.all[self.last]
    }
}

/// Messages, and their lines.
#[derive(Default)]
struct Chunk {
    entries: Vec<Entry>,
    /// Streams of its messages; neighbours differ.
    streams: Vec<Described>,
    /// The symbol and the body of each message.
    bytes: Vec<u8>,
    text: Vec<u8>,
}

struct Entry {
    time: Timestamp,
    type_id: u16,
    /// Index in the chunk's streams.
    stream: u32,
    symbol_end: usize,
    body_end: usize,
}

impl Chunk {
    /// Replaces its messages by the next ones of the cursor; `false` after the last one.
    fn fill(
        &mut self,
        cursor: &mut Cursor,
        left: &mut u64,
        streams: &mut Streams,
        damage: &mut Damage,
        ui: &Ui,
    ) -> Result<bool, Failure> {
        self.entries.clear();
        self.streams.clear();
        self.bytes.clear();
        while self.bytes.len() < CHUNK_BYTES && self.entries.len() < CHUNK_MESSAGES {
            if *left == 0 {
                return Ok(false);
            }
            let added = match cursor.next() {
                Ok(Some(message)) => self.add(&message, streams),
                Ok(None) => return Ok(false),
                Err(error) => Err(error),
            };
            match added {
                Ok(()) => *left -= 1,
                Err(error) => damage.note(&error, ui)?,
            }
        }
        Ok(true)
    }

    /// Adds one message, if it is valid.
    #[inline]
    fn add(&mut self, message: &Message<'_>, streams: &mut Streams) -> Result<(), Error> {
        message.record()?;
        let stream = streams.of(message);
        if self.streams.last().is_none_or(|last| !Arc::ptr_eq(last, stream)) {
            self.streams.push(Arc::clone(stream));
        }
        self.bytes.extend_from_slice(message.symbol().as_bytes());
        let symbol_end = self.bytes.len();
        self.bytes.extend_from_slice(message.body());
        self.entries.push(Entry {
            time: message.time(),
            type_id: message.type_id(),
            stream: self.streams.len() as u32 - 1,
            symbol_end,
            body_end: self.bytes.len(),
        });
        Ok(())
    }

    /// Makes its lines.
    fn make(&mut self, lines: &mut Lines) {
        self.text.clear();
        let mut start = 0;
        for entry in &self.entries {
            let (name, layouts) = &*self.streams[entry.stream as usize];
            let symbol = str::from_utf8(&self.bytes[start..entry.symbol_end]).unwrap_or_default();
            let body = &self.bytes[entry.symbol_end..entry.body_end];
            let record =
                layouts.view_trusted(entry.type_id, body).expect("it was validated before it was copied");
            lines.write(Head { stream: name, symbol, time: entry.time }, record, &mut self.text);
            start = entry.body_end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::{Format, Writer, copy_alone};
    use std::fs;
    use tapedb_codec::SchemaBuilder;
    use tapedb_engine::{Database, StreamOptions};
    use tapedb_market::Package;
    use tapedb_market::feed::{Feed, FeedConfig};
    use tapedb_terminal::signals::Signals;

    /// Messages of one feed, every third one in the second stream.
    const MESSAGES: usize = 30_000;

    #[test]
    fn lines_are_those_of_one_thread() {
        let directory = tempfile::tempdir().unwrap();
        let db = Database::open(directory.path()).unwrap();
        let streams = ["first", "second"].map(|name| {
            let schema = SchemaBuilder::new().with::<Package>().finish();
            db.create_stream(name, schema, StreamOptions::default()).unwrap()
        });
        let mut feed = Feed::new(FeedConfig::default()).unwrap();
        let mut loaders = streams.each_ref().map(|stream| stream.loader().unwrap());
        for i in 0..MESSAGES {
            let message = feed.next();
            loaders[usize::from(i % 3 == 2)].append(message.symbol, message.time, message.package).unwrap();
        }
        for loader in loaders {
            loader.close().unwrap();
        }
        let ui = Ui::new(false, Signals::listen().unwrap());
        // Limits inside a chunk, at the end of one, beyond the last message.
        for (format, limit, threads) in [
            (Format::Json, u64::MAX, 3),
            (Format::Json, 1, 2),
            (Format::Text, CHUNK_MESSAGES as u64, 2),
            (Format::Text, 9_999, 1),
            (Format::Csv, u64::MAX, 2),
        ] {
            let mut writer = Writer::new(format, &streams, &[]).unwrap();
            let lines = writer.lines().unwrap().clone();
            let print =
                |copy: &mut dyn FnMut(&mut Cursor, &mut Output, &mut Damage) -> Result<(), Failure>| {
                    let file = directory.path().join("lines");
                    let mut cursor = db.cursor(["first", "second"]).unwrap().open().unwrap();
                    let mut out = Output::to_file(&file).unwrap();
                    copy(&mut cursor, &mut out, &mut Damage::default()).unwrap();
                    out.flush().unwrap();
                    let text = fs::read(&file).unwrap();
                    fs::remove_file(&file).unwrap();
                    text
                };
            let alone = print(&mut |cursor, out, damage| {
                copy_alone(cursor, &mut writer, limit, out, damage, &ui).map(|_| ())
            });
            let together =
                print(&mut |cursor, out, damage| copy(cursor, &lines, threads, limit, out, damage, &ui));
            assert!(alone == together, "{format}, {limit} messages, {threads} threads");
            assert!(alone.len() as u64 > limit.min(MESSAGES as u64) * 20);
        }
    }
}
