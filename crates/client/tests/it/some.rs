//! Live cursors of some symbols or record types, for which the server picks: each gets exactly its messages, in order, however many
//! there are, beside readers of everything, slow readers, new symbols, seals, another schema, lost connections and killed servers.

use crate::killed::follow;
use crate::process::Process;
use crate::proxy::Proxy;
use crate::served::{Memory, Tcp, Transport, Unix, serve};
use crate::support::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use tapedb_client::{Client, Options};
use tapedb_engine::{Cursor, CursorBuilder, Database, Stream, StreamOptions};
use tapedb_schema::Timestamp;

/// What a reader wants; the last message of the stream, of symbol `END`, is among it.
#[derive(Debug, Clone)]
struct Want {
    symbols: Option<Vec<String>>,
    types: Option<Vec<&'static str>>,
}

impl Want {
    fn symbols(of: &[usize]) -> Self {
        let symbols = of.iter().map(|number| symbol(*number)).chain(["END".to_string()]);
        Self { symbols: Some(symbols.collect()), types: None }
    }

    fn types(types: &[&'static str]) -> Self {
        Self { symbols: None, types: Some(types.into()) }
    }

    fn wants(&self, message: &(u64, String, String)) -> bool {
        self.symbols.as_ref().is_none_or(|symbols| symbols.contains(&message.1))
            && self.types.as_ref().is_none_or(|types| types.contains(&&*message.2))
    }

    fn cursor(&self, stream: &Stream) -> CursorBuilder {
        let mut cursor = stream.cursor();
        if let Some(symbols) = &self.symbols {
            cursor = cursor.symbols(symbols);
        }
        if let Some(types) = &self.types {
            cursor = cursor.types(types.iter().copied());
        }
        cursor.live()
    }
}

fn symbol(number: usize) -> String {
    format!("S{number}")
}

/// Sequence number, symbol and type of each message up to the last.
fn read(cursor: &mut Cursor, pause: Duration) -> Vec<(u64, String, String)> {
    let mut found = Vec::new();
    loop {
        let message = cursor.next_within(Duration::from_secs(100)).unwrap().expect("messages come");
        assert_eq!(number_of(&message), message.sequence());
        found.push((message.sequence(), message.symbol().to_string(), message.type_name().to_string()));
        if message.symbol() == "END" {
            return found;
        }
        if found.len() % 64 == 1 {
            thread::sleep(pause);
        }
    }
}

/// Appends messages of so many symbols: of each number a tick, or every fifth time a quote.
fn append(stream: &Stream, numbers: std::ops::Range<u64>, symbols: usize) {
    let mut loader = stream.loader().unwrap();
    for number in numbers {
        let symbol = symbol(mix(number) as usize % symbols);
        match number % 5 {
            0 => loader.append(&symbol, Timestamp(number as i64), &Quote::of(number)).unwrap(),
            _ => loader.append(&symbol, Timestamp(number as i64), &Tick::of(number)).unwrap(),
        }
        if number % 97 == 0 {
            loader.send().unwrap();
        }
    }
    loader.flush().unwrap();
}

/// Appends ticks as columns.
fn append_columns(stream: &Stream, numbers: std::ops::Range<u64>, symbols: usize) {
    let names: Vec<String> = (0..symbols).map(symbol).collect();
    let row = |number: u64| (number as i64, names[mix(number) as usize % symbols].as_str(), number);
    let mut loader = stream.loader().unwrap();
    Columns::of(numbers.map(row)).append_ticks(&mut loader).unwrap();
    loader.flush().unwrap();
}

fn append_end(stream: &Stream, number: u64) {
    let mut loader = stream.loader().unwrap();
    loader.append("END", Timestamp(number as i64), &Tick::of(number)).unwrap();
    loader.flush().unwrap();
}

/// All messages of a stream, in order of arrival.
fn all(stream: &Stream) -> Vec<(u64, String, String)> {
    let mut cursor = stream.cursor().from_sequence(0).open().unwrap();
    read(&mut cursor, Duration::ZERO)
}

fn check(want: &Want, found: &[(u64, String, String)], all: &[(u64, String, String)]) {
    let expected: Vec<_> = all.iter().filter(|message| want.wants(message)).cloned().collect();
    let differs = expected.iter().zip(found).position(|(expected, found)| expected != found);
    assert!(
        found == expected,
        "{want:?}: {} of {} messages, from {differs:?} on others",
        found.len(),
        expected.len()
    );
}

fn wants() -> Vec<Want> {
    let both = Want { types: Some(vec!["Tick"]), ..Want::symbols(&[1, 2, 3]) };
    vec![
        Want::symbols(&[1]),
        Want::symbols(&[1]),
        // Symbols that are added later, and that are never there.
        Want::symbols(&[19, 18]),
        Want::symbols(&[99]),
        Want::types(&["Tick"]),
        both,
        Want { symbols: None, types: None },
    ]
}

fn readers_get_what_they_want<T: Transport>(readers: usize) {
    let directory = tempfile::tempdir().unwrap();
    let local = reopen(&directory.path().join("db"));
    let server = serve::<T>(local.clone(), directory.path());
    let connect = || T::client(server.addresses()).connect().unwrap();
    let options = StreamOptions { file_bytes_max: 64 << 10, ..StreamOptions::default() };
    let stream = local.create_stream("s", schema(), options).unwrap();
    append(&stream, 0..1000, 4);
    let wants: Vec<Want> = wants().into_iter().cycle().take(readers).collect();
    thread::scope(|scope| {
        let read = |(number, want): (usize, Want)| {
            let db = connect();
            let mut cursor = want.cursor(&db.stream("s").unwrap()).open().unwrap();
            // The third of each kind is slow, and falls behind.
            let pause = Duration::from_millis(if number % 3 == 2 { 2 } else { 0 });
            scope.spawn(move || (read(&mut cursor, pause), want, db))
        };
        let readers: Vec<_> = wants.iter().cloned().enumerate().map(read).collect();
        append(&stream, 1000..6000, 8);
        stream.seal().unwrap();
        // Another version of the schema, and symbols that are new.
        let schema = format!("{} message Extra {{ value: i64 }}", schema());
        let stream = local.change_schema("s", schema.parse().unwrap()).unwrap();
        append(&stream, 6000..12_000, 20);
        stream.seal().unwrap();
        append_columns(&stream, 12_000..13_000, 20);
        append_end(&stream, 13_000);
        let all = all(&stream);
        assert_eq!(all.len(), 13_001);
        for reader in readers {
            let (found, want, _db) = reader.join().unwrap();
            check(&want, &found, &all);
        }
    });
}

#[test]
fn few_readers_get_what_they_want() {
    readers_get_what_they_want::<Unix>(3);
}

#[test]
fn many_readers_get_what_they_want() {
    readers_get_what_they_want::<Tcp>(21);
    readers_get_what_they_want::<Memory>(7);
}

struct EndsLoading<'a>(&'a AtomicBool);

impl Drop for EndsLoading<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn readers_come_and_go_while_others_read() {
    let directory = tempfile::tempdir().unwrap();
    let local = reopen(&directory.path().join("db"));
    let server = serve::<Unix>(local.clone(), directory.path());
    let db = Unix::client(server.addresses()).connect().unwrap();
    let stream = local.create_stream("s", schema(), StreamOptions::default()).unwrap();
    append(&stream, 0..10, 4);
    let stays = Want::symbols(&[2]);
    let end = AtomicBool::new(false);
    thread::scope(|scope| {
        // Also when an assertion fails.
        let ends = EndsLoading(&end);
        let mut cursor = stays.cursor(&db.stream("s").unwrap()).open().unwrap();
        let reader = scope.spawn(move || read(&mut cursor, Duration::ZERO));
        let loading = scope.spawn(|| {
            let mut number = 10;
            while !end.load(Ordering::SeqCst) {
                append(&stream, number..number + 50, 4);
                number += 50;
            }
            append_end(&stream, number);
        });
        // From few readers to many and back: each passes from thread to thread.
        for round in 0..12 {
            let of = |number: usize| {
                let want = if number.is_multiple_of(2) {
                    Want::symbols(&[number % 4])
                } else {
                    Want::types(&["Tick"])
                };
                want.cursor(&db.stream("s").unwrap()).skip_history().open().unwrap()
            };
            let mut cursors: Vec<Cursor> = (0..2 + 5 * (round % 2)).map(of).collect();
            for cursor in &mut cursors {
                let mut last = None;
                for _ in 0..20 {
                    let message =
                        cursor.next_within(Duration::from_secs(100)).unwrap().expect("messages come");
                    assert_eq!(number_of(&message), message.sequence());
                    assert!(last < Some(message.sequence()), "{last:?} before {}", message.sequence());
                    last = Some(message.sequence());
                }
            }
        }
        drop(ends);
        loading.join().unwrap();
        check(&stays, &reader.join().unwrap(), &all(&stream));
    });
}

#[test]
fn a_position_continues_where_its_reader_was() {
    let directory = tempfile::tempdir().unwrap();
    let local = reopen(&directory.path().join("db"));
    let server = serve::<Unix>(local.clone(), directory.path());
    let db = Unix::client(server.addresses()).connect().unwrap();
    let stream = local.create_stream("s", schema(), StreamOptions::default()).unwrap();
    append(&stream, 0..100, 4);
    let want = Want::symbols(&[3]);
    let remote = db.stream("s").unwrap();
    let mut cursor = want.cursor(&remote).open().unwrap();
    let (mut found, mut next) = (Vec::new(), 100);
    for round in 0..10 {
        append(&stream, next..next + 100, 4);
        next += 100;
        for _ in 0..5 {
            let message = cursor.next_within(Duration::from_secs(100)).unwrap().expect("messages come");
            found.push((message.sequence(), message.symbol().to_string(), message.type_name().to_string()));
        }
        let position = cursor.position();
        if round % 2 == 0 {
            stream.seal().unwrap();
        }
        cursor = want.cursor(&remote).resume(&position).open().unwrap();
    }
    append_end(&stream, next);
    found.extend(read(&mut cursor, Duration::ZERO));
    check(&want, &found, &all(&stream));
}

/// Number of connections to cut.
const CUTS: u64 = 40;

#[test]
fn readers_of_some_messages_survive_cuts() {
    let directory = tempfile::tempdir().unwrap();
    let local = reopen(&directory.path().join("db"));
    let server = serve::<Tcp>(local.clone(), directory.path());
    let proxy = Proxy::before(server.addresses().tcp.unwrap(), 40_000);
    let stream = local.create_stream("s", schema(), StreamOptions::default()).unwrap();
    append(&stream, 0..100, 4);
    let connect = || {
        let mut tries = (0..1000).map(|_| Client::at(proxy.url()).options(Options::default()).connect());
        tries.find_map(Result::ok).expect("a connection")
    };
    let wants = [Want::symbols(&[1]), Want::symbols(&[2, 9]), Want::types(&["Tick"])];
    thread::scope(|scope| {
        let readers: Vec<_> = wants
            .iter()
            .cycle()
            .take(6)
            .map(|want| {
                let db: Database = connect();
                let mut cursor = want.cursor(&db.stream("s").unwrap()).open().unwrap();
                scope.spawn(move || (read(&mut cursor, Duration::ZERO), want, db))
            })
            .collect();
        let mut number = 100;
        while proxy.cuts.load(Ordering::Relaxed) < CUTS {
            append(&stream, number..number + 500, 10);
            number += 500;
        }
        proxy.bytes_max.store(0, Ordering::Relaxed);
        append_end(&stream, number);
        let all = all(&stream);
        for reader in readers {
            let (found, want, _db) = reader.join().unwrap();
            check(want, &found, &all);
        }
    });
}

#[test]
fn readers_of_some_messages_survive_killed_servers() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Process::start(directory.path());
    let options = StreamOptions { file_bytes_max: 256 << 10, ..StreamOptions::default() };
    server.over_tcp().create_stream("s", schema(), options).unwrap();
    let loading = server.over_memory();
    let stream = loading.stream("s").unwrap();
    append(&stream, 0..100, 4);
    let wants: Vec<Want> = wants().into_iter().filter(|want| want.types.is_none()).collect();
    let dbs: Vec<Database> = (0..wants.len())
        .map(|number| [server.over_tcp(), server.over_unix(), server.over_memory()][number % 3].clone())
        .collect();
    thread::scope(|scope| {
        let readers: Vec<_> = wants
            .iter()
            .zip(&dbs)
            .map(|(want, db)| {
                let mut cursor = want.cursor(&db.stream("s").unwrap()).open().unwrap();
                scope.spawn(move || read(&mut cursor, Duration::ZERO))
            })
            .collect();
        let mut number = 100;
        for _ in 0..3 {
            append(&stream, number..number + 3000, 20);
            number += 3000;
            server.kill_and_start_again();
        }
        append(&stream, number..number + 100, 20);
        append_end(&stream, number + 100);
        let all = all(&stream);
        for (reader, want) in readers.into_iter().zip(&wants) {
            check(want, &reader.join().unwrap(), &all);
        }
    });
}

/// A server that does not pick pushes everything, which the cursor filters.
#[test]
fn a_server_of_version_1_pushes_everything() {
    let (_directory, db) = crate::plain::new_database();
    let server = crate::plain::Plain::start(db.clone());
    let stream = db.create_stream("s", schema(), StreamOptions::default()).unwrap();
    append_ticks(&stream, 0..100);
    let remote = Client::at(format!("tape://{}", server.address)).connect().unwrap();
    let mut cursor = remote.stream("s").unwrap().cursor().types(["Tick"]).live().open().unwrap();
    append_ticks(&stream, 100..5000);
    let mut loader = stream.loader().unwrap();
    loader.append("B", Timestamp(0), &Quote::of(5000)).unwrap();
    loader.append("END", Timestamp(i64::MAX), &Tick::of(5001)).unwrap();
    loader.flush().unwrap();
    assert_eq!(follow(&mut cursor, 0), 5000);
}
