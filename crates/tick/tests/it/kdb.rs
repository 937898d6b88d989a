//! Clients of kdb+ on a plant and an RDB: a client of our own that says what theirs say.

use crate::support::{PATIENCE, Place, place, plant, rdb, trades, wait_for_rows};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tapedb_kdb_ipc::file::log;
use tapedb_kdb_ipc::{
    Atom, Elements, Event, Kind, Limits, Session, Symbols, Table, Value, greeting, message,
};
use tapedb_tick::Plant;
use tapedb_tick::kdb::front::{Access, Everyone, Front, FrontOptions, FrontStatus, Rights, Served, Slow};

/// One end of a connection, as a q process has it.
pub struct Client {
    socket: TcpStream,
    session: Session,
    /// Asynchronous messages that came while a response was waited for.
    came: VecDeque<Value>,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        Self::enter(address, "me", "secret").expect("let in")
    }

    fn enter(address: SocketAddr, user: &str, password: &str) -> Option<Self> {
        let mut socket = TcpStream::connect(address).expect("a connection");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        socket.write_all(&greeting(user, password).expect("a greeting")).expect("it fits");
        let mut client = Self { socket, session: Session::client(Limits::default()), came: VecDeque::new() };
        loop {
            if let Some(Event::Accepted(capability)) = client.session.next_event().expect("an answer") {
                assert_eq!(capability, 3);
                return Some(client);
            }
            client.read()?;
        }
    }

    fn read(&mut self) -> Option<()> {
        let mut bytes = vec![0; 64 << 10];
        let read = self.socket.read(&mut bytes).ok().filter(|read| *read > 0)?;
        self.session.push(&bytes[..read]);
        Some(())
    }

    /// The next message; `None`: the connection has ended.
    fn next(&mut self) -> Option<(Kind, Value)> {
        loop {
            match self.session.next_event().expect("kdb+ IPC") {
                Some(Event::Message(message)) => {
                    return Some((message.kind, message.value(&Limits::default()).expect("a value")));
                }
                Some(other) => panic!("{other:?}"),
                None => self.read()?,
            }
        }
    }

    pub fn send(&mut self, kind: Kind, value: &Value) {
        self.socket.write_all(&message(kind, value).expect("a message")).expect("it fits");
    }

    pub fn ask_value(&mut self, value: &Value) -> Value {
        self.send(Kind::Synchronous, value);
        loop {
            match self.next().expect("a response") {
                (Kind::Response, value) => return value,
                (_, value) => self.came.push_back(value),
            }
        }
    }

    pub fn ask(&mut self, text: &str) -> Value {
        self.ask_value(&Value::text(text))
    }

    /// The next update.
    pub fn update(&mut self) -> Value {
        match self.came.pop_front() {
            Some(came) => came,
            None => match self.next().expect("an update") {
                (Kind::Asynchronous, value) => value,
                (kind, value) => panic!("{kind:?} {value}"),
            },
        }
    }

    /// Sizes of the trades in updates, until the last one is there.
    fn sizes_until(&mut self, last: i64) -> Vec<i64> {
        let mut sizes = Vec::new();
        while sizes.last() != Some(&last) {
            sizes.extend(sizes_of(&self.update()));
        }
        sizes
    }
}

/// The sizes of the trades of `` (`upd;`trade;rows) ``.
fn sizes_of(update: &Value) -> Vec<i64> {
    assert_eq!(update.item(0), Some(Value::symbol("upd")), "{update}");
    assert_eq!(update.item(1), Some(Value::symbol("trade")), "{update}");
    let rows = update.item(2).expect("rows");
    let sizes = match &rows {
        Value::Table(table) => table.column("size").cloned(),
        columns => columns.item(3),
    };
    match sizes.as_ref().and_then(Value::as_elements) {
        Some(Elements::Long(sizes)) => sizes.clone(),
        other => panic!("{other:?}"),
    }
}

pub fn options() -> FrontOptions {
    FrontOptions::at("127.0.0.1:0".parse().expect("an address"))
}

/// A plant with a front.
pub fn served(options: FrontOptions) -> (Place, Arc<Plant>, Front) {
    let place = place();
    let plant = Arc::new(plant(&place.db));
    let front = Front::start(Served::plant(plant.clone()), options).expect("a front");
    (place, plant, front)
}

pub fn wait_for(front: &Front, is_so: impl Fn(&FrontStatus) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so(&front.status()) {
        assert!(Instant::now() < deadline, "{:?}", front.status());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn subscribers_get_the_tables_and_then_new_rows() {
    let (_place, plant, front) = served(options());
    let mut client = Client::connect(front.address());
    let shown = client.ask(".u.sub[`trade;`]").to_string();
    let empty = "+`time`sym`price`size`ex!(`timespan$();`symbol$();`float$();`long$();`symbol$())";
    assert_eq!(shown, format!("(`trade;{empty})"));
    plant.update("trade", &trades(0, 4)).expect("logged");
    let update = client.update().to_string();
    let expected = "(`upd;`trade;+`time`sym`price`size`ex!(0D00:00:00.000000000 0D00:00:00.000001000 \
                    0D00:00:00.000002000 0D00:00:00.000003000;`AIG`BAC`IBM`AIG;0 0.25 0.5 0.75;0 1 2 3;`N``Q`N))";
    assert_eq!(update, expected);
    // All tables: a list of pairs, sorted by name.
    let all = client.ask("(.u.sub[`;`];`.u `i`L)");
    let names: Vec<_> = (0..2).map(|at| all.item(0).and_then(|pairs| pairs.item(at)?.item(0))).collect();
    assert_eq!(names, [Some(Value::symbol("quote")), Some(Value::symbol("trade"))]);
    // Without a log there is nothing to replay, and no count.
    assert_eq!(all.item(1), Some(Value::list(vec![i64::MIN.into(), Value::symbol("")])));
    assert_eq!(client.ask("1+1"), 2.into());
    assert_eq!(client.ask(""), Value::nothing());
    assert_eq!(client.ask("nosuch").to_string(), "'nosuch");
    assert_eq!(client.ask(".u.sub[`nosuch;`]").to_string(), "'nosuch");
}

#[test]
fn subscribers_get_only_the_requested_rows() {
    let (_place, plant, front) = served(options());
    let (mut one, mut two) = (Client::connect(front.address()), Client::connect(front.address()));
    let list = |symbols: Value| Value::list(vec![Value::text(".u.sub"), Value::symbol("trade"), symbols]);
    one.ask_value(&list(Value::symbol("BAC")));
    two.ask_value(&list(Symbols::from_iter(["AIG", "IBM"]).into()));
    plant.update("trade", &trades(0, 6)).expect("logged");
    assert_eq!((sizes_of(&one.update()), sizes_of(&two.update())), (vec![1, 4], vec![0, 2, 3, 5]));
    // Asked again, the filter is another; added to, a wider one.
    one.ask(".u.sub[`trade;`IBM]");
    two.ask(".u.add[`trade;`BAC]");
    plant.update("trade", &trades(6, 3)).expect("logged");
    assert_eq!((sizes_of(&one.update()), sizes_of(&two.update())), (vec![8], vec![6, 7, 8]));
    // What a filter leaves nothing of is not sent; quotes are not trades.
    plant.update("trade", &trades(9, 1)).expect("logged");
    plant.update("quote", &crate::support::quotes(0, 3)).expect("logged");
    assert_eq!(sizes_of(&two.update()), [9]);
    two.ask(".u.del[`trade;0]");
    plant.update("trade", &trades(10, 2)).expect("logged");
    assert_eq!(sizes_of(&one.update()), [11]);
    assert_eq!(two.ask("2+3"), 5.into());
    assert!(two.came.is_empty());
}

#[test]
fn feeds_send_rows_in_all_forms() {
    let (_place, _plant, front) = served(options());
    let (mut feed, mut client) = (Client::connect(front.address()), Client::connect(front.address()));
    client.ask(".u.sub[`trade;`]");
    let atoms = |size: i64| {
        let price: Value = Atom::Float(1.5).into();
        vec![Atom::Timespan(5).into(), Value::symbol("A"), price, size.into(), Value::symbol("N")]
    };
    let columns =
        |size: i64| atoms(size).into_iter().map(|atom| Value::collect(vec![atom])).collect::<Vec<_>>();
    let names: Symbols = ["time", "sym", "price", "size", "ex"].into_iter().collect();
    let table = Table::new(names.clone(), columns(3)).expect("a table");
    let forms = [
        Value::list(atoms(1)),
        Value::list(columns(2)),
        table.into(),
        Value::dictionary(names.clone().into(), Value::list(atoms(4))),
        Value::dictionary(names.into(), Value::list(columns(5))),
        Value::list(atoms(6)[1..].to_vec()),
        Value::list(columns(7)[1..].to_vec()),
    ];
    for function in [Value::symbol(".u.upd"), Value::text("upd")] {
        for (at, form) in forms.iter().enumerate() {
            let update = Value::list(vec![function.clone(), Value::symbol("trade"), form.clone()]);
            if at % 2 == 0 {
                assert_eq!(feed.ask_value(&update), Value::nothing());
            } else {
                feed.send(Kind::Asynchronous, &update);
            }
        }
        assert_eq!(client.sizes_until(7), [1, 2, 3, 4, 5, 6, 7]);
    }
    let wrong =
        Value::list(vec![Value::symbol(".u.upd"), Value::symbol("trade"), Value::list(vec![1.into()])]);
    assert!(feed.ask_value(&wrong).to_string().starts_with("'trade: 1 columns came"));
    feed.send(Kind::Asynchronous, &wrong);
    assert_eq!(feed.ask("count trade"), 14.into());
    assert_eq!((front.status().errors, front.status().connections), (2, 2));
}

#[test]
fn replayed_and_new_rows_are_complete_and_no_row_comes_twice() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_place, plant, front) = served(FrontOptions { log_folder: Some(folder.path().into()), ..options() });
    let feed = plant.clone();
    let feeding = std::thread::spawn(move || {
        for number in 0..2000 {
            feed.update("trade", &trades(number, 1)).expect("logged");
        }
    });
    for _ in 0..10 {
        let mut client = Client::connect(front.address());
        let start = client.ask("(.u.sub[`;`];`.u `i`L)");
        let log = start.item(1).expect("a count and a log");
        let (Some(Value::Atom(Atom::Long(count))), Some(path)) = (log.item(0), log.item(1)) else {
            panic!("{log}")
        };
        let path = String::from_utf8(path.as_name().expect("a path").to_vec()).expect("a path");
        let mut sizes = replayed(path.trim_start_matches(':'), count as usize);
        if sizes.last() != Some(&1999) {
            sizes.extend(client.sizes_until(1999));
        }
        assert!(sizes.iter().copied().eq(0..2000), "{count} replayed, {} in all", sizes.len());
    }
    feeding.join().expect("fed");
}

/// The sizes of the trades in the first records of a log.
fn replayed(path: &str, count: usize) -> Vec<i64> {
    let mut reader = log::Reader::new(Limits::default());
    reader.push(&std::fs::read(path).expect("a log"));
    let mut sizes = Vec::new();
    for number in 0..count {
        if let Some(record) = reader.next_record().expect("a whole record") {
            sizes.extend(sizes_of(&record.value));
            continue;
        }
        assert_eq!(reader.finish(), Ok(true), "record {number} of {count}");
        sizes.extend(sizes_of(&reader.next_record().expect("a whole record").expect("a record").value));
    }
    sizes
}

#[test]
fn the_log_continues_where_it_ended() {
    let folder = tempfile::tempdir().expect("a folder");
    let (place, plant, front) = served(FrontOptions { log_folder: Some(folder.path().into()), ..options() });
    plant.update("trade", &trades(0, 10)).expect("logged");
    wait_for(&front, |status| status.published == 1);
    drop(front);
    // Rows that arrive without a front are written later, and rows that a crash cut off again.
    plant.update("trade", &trades(10, 10)).expect("logged");
    let path = std::fs::read_dir(folder.path()).expect("a folder");
    let path = path
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension() != Some("from".as_ref()));
    let path = path.expect("a log");
    let bytes = std::fs::read(&path).expect("a log");
    std::fs::write(&path, &bytes[..bytes.len() - 1]).expect("a log");
    let options = FrontOptions { log_folder: Some(folder.path().into()), ..options() };
    let front = Front::start(Served::plant(plant.clone()), options).expect("a front");
    let mut client = Client::connect(front.address());
    let path = path.to_str().expect("a path");
    let deadline = Instant::now() + PATIENCE;
    loop {
        let count = client.ask(".u.i");
        let Value::Atom(Atom::Long(count)) = count else { panic!("{count}") };
        let sizes = replayed(path, count as usize);
        assert!(sizes.iter().copied().eq(0..sizes.len() as i64) && Instant::now() < deadline, "{sizes:?}");
        if sizes.len() == 20 {
            break;
        }
    }
    drop((front, plant, place));
}

#[test]
fn the_end_of_a_day_is_sent_once_after_its_rows() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_place, plant, front) = served(FrontOptions { log_folder: Some(folder.path().into()), ..options() });
    let mut client = Client::connect(front.address());
    client.ask(".u.sub[`;`]");
    let date = plant.day().date;
    let log = client.ask(".u.L").to_string();
    assert_eq!(client.ask(".u.d").to_string(), date.to_string().replace('-', "."));
    for day in 0..3 {
        plant.update("trade", &trades(day * 10, 5)).expect("logged");
        plant.end_of_day(plant.day().date).expect("ended");
        plant.update("trade", &trades(day * 10 + 5, 5)).expect("logged");
    }
    let (mut sizes, mut ends) = (Vec::new(), Vec::new());
    while sizes.len() < 30 {
        let update = client.update();
        if update.item(0) == Some(Value::symbol(".u.end")) {
            ends.push((sizes.len(), update.item(1).expect("a date").to_string()));
        } else {
            sizes.extend(sizes_of(&update));
        }
    }
    let dates = [date, date.next(), date.next().next()].map(|date| date.to_string().replace('-', "."));
    assert_eq!(ends, [(5, dates[0].clone()), (15, dates[1].clone()), (25, dates[2].clone())]);
    assert!(sizes.into_iter().eq(0..30));
    assert_ne!(client.ask(".u.L").to_string(), log);
    // A client may end a day too.
    let today = plant.day().date;
    client.ask_value(&Value::list(vec![Value::symbol(".u.end"), Atom::Date(today.to_kdb()).into()]));
    assert_eq!(plant.day().date, today.next());
    assert_eq!(client.update().item(0), Some(Value::symbol(".u.end")));
}

#[test]
fn a_slow_subscriber_delays_no_other() {
    // More than sockets hold.
    let rows = 600_000;
    for slow in [Slow::Replay, Slow::Disconnect, Slow::Conflate] {
        let (_place, plant, front) = served(FrontOptions { waiting_bytes_max: 1 << 20, slow, ..options() });
        let (mut idle, mut quick) = (Client::connect(front.address()), Client::connect(front.address()));
        idle.ask(".u.sub[`trade;`]");
        quick.ask(".u.sub[`trade;`]");
        // The quick one gets all as it comes, whatever the idle one does.
        let mut seen = 0;
        for first in (0..rows).step_by(5000) {
            plant.update("trade", &trades(first, 5000)).expect("logged");
            let (sizes, _) = all_until(&mut quick, first as i64 + 4999);
            assert!(sizes.into_iter().eq(seen..first as i64 + 5000));
            seen = first as i64 + 5000;
            if first == rows / 2 {
                let today = plant.day().date;
                plant.end_of_day(today).expect("ended");
            }
        }
        let status = front.status();
        match slow {
            Slow::Disconnect => {
                wait_for(&front, |status| status.slow_disconnected == 1);
                while idle.next().is_some() {}
            }
            Slow::Replay => {
                assert_eq!(status.slow_replayed, 1, "{status:?}");
                let (sizes, ends) = all_until(&mut idle, rows as i64 - 1);
                assert!(sizes.into_iter().eq(0..rows as i64));
                assert_eq!(ends, 1);
                // It is with the others again.
                plant.update("trade", &trades(rows, 1)).expect("logged");
                assert_eq!(idle.sizes_until(rows as i64), [rows as i64]);
            }
            Slow::Conflate => {
                assert!(status.slow_conflated_rows > 0, "{status:?}");
                let (sizes, ends) = all_until(&mut idle, rows as i64 - 1);
                assert!(sizes.is_sorted() && sizes.len() < rows, "{}", sizes.len());
                assert_eq!(ends, 1);
            }
        }
    }
}

/// All sizes up to one, and how often a day ended.
fn all_until(client: &mut Client, last: i64) -> (Vec<i64>, usize) {
    let (mut sizes, mut ends) = (Vec::new(), 0);
    while sizes.last() != Some(&last) {
        let update = client.update();
        if update.item(0) == Some(Value::symbol(".u.end")) {
            ends += 1;
        } else {
            sizes.extend(sizes_of(&update));
        }
    }
    (sizes, ends)
}

#[test]
fn hostile_clients_are_disconnected_and_the_plant_goes_on() {
    let (_place, plant, front) = served(FrontOptions {
        greeting_timeout: Duration::from_millis(100),
        message_timeout: Duration::from_millis(100),
        connections_max: 8,
        ..options()
    });
    let mut good = Client::connect(front.address());
    good.ask(".u.sub[`trade;`]");
    let head = |len: u32| [&[1, 1, 0, 0][..], &len.to_le_bytes()].concat();
    let greeted = |bytes: &[u8]| [b"me:secret\x03\0", bytes].concat();
    let bomb = [&[1, 1, 1, 0, 24, 0, 0, 0][..], &[0xff; 16]].concat();
    let hostile = [
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![0x16, 3, 1, 2, 0, 1],
        vec![b'a'; 5000],
        b"slow".to_vec(),
        greeted(&head(7)),
        greeted(&head(u32::MAX)),
        greeted(&bomb),
        greeted(&head(1000)),
        greeted(&[9; 64]),
    ];
    for bytes in &hostile {
        let mut socket = TcpStream::connect(front.address()).expect("a connection");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let _ = socket.write_all(bytes);
        let mut rest = Vec::new();
        // It ends without bytes, with the answer to the greeting, or by a reset.
        let _ = socket.read_to_end(&mut rest);
        assert!(rest.len() <= 1, "{rest:?}");
    }
    // A message that is no value, or that requests too much, is answered with an error.
    let mut body = head(0);
    body.extend([0, 0, 0xff, 0xff, 0xff, 0x7f]);
    let len = (body.len() as u32).to_le_bytes();
    body[4..8].copy_from_slice(&len);
    let mut client = Client::connect(front.address());
    client.socket.write_all(&body).expect("it fits");
    assert!(matches!(client.next(), Some((Kind::Response, Value::Error(_)))));
    let deep = "(".repeat(2000);
    for text in ["system \"id\"", "\\ls", "value \"1\"", "{x}[1]", "hopen `:x", "delete from trade", &deep] {
        let answer = client.ask(text);
        assert!(matches!(answer, Value::Error(_)), "{text}: {answer}");
    }
    // Ten thousand connections are eight.
    let held: Vec<TcpStream> = (0..40).filter_map(|_| TcpStream::connect(front.address()).ok()).collect();
    wait_for(&front, |status| status.refused >= 30 && status.connections <= 8);
    drop(held);
    plant.update("trade", &trades(0, 5)).expect("logged");
    assert_eq!(good.sizes_until(4), [0, 1, 2, 3, 4]);
}

/// A synchronous message of these bytes, which need be no value.
fn framed(payload: &[u8]) -> Vec<u8> {
    [&[1, 1, 0, 0], &(payload.len() as u32 + 8).to_le_bytes()[..], payload].concat()
}

/// The same, as if it was compressed: `len` bytes once expanded.
fn framed_as_compressed(len: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = framed(&[&len.to_le_bytes(), payload].concat());
    bytes[2] = 1;
    bytes
}

#[test]
fn messages_that_are_no_values_are_errors_and_the_connection_goes_on() {
    let (_place, plant, front) = served(options());
    let mut good = Client::connect(front.address());
    good.ask(".u.sub[`trade;`]");
    let list = [0, 0, 1, 0, 0, 0];
    let deep: Vec<u8> = list.iter().copied().cycle().take(200_000 * list.len()).chain([101, 0]).collect();
    let ragged = [
        &[98, 0, 99, 11, 0, 2, 0, 0, 0, b'a', 0, b'b', 0, 0, 0, 2, 0, 0, 0][..],
        &[4, 0, 1, 0, 0, 0, 7, 4, 0, 2, 0, 0, 0, 7, 8],
    ];
    let cases: [(&str, Vec<u8>); 9] = [
        ("a count below nothing", vec![0, 0, 0xff, 0xff, 0xff, 0xff]),
        ("a count of the largest number", vec![7, 0, 0xff, 0xff, 0xff, 0x7f]),
        ("fewer elements than their count", vec![7, 0, 2, 0, 0, 0, 1, 2, 3]),
        ("lists in lists", deep),
        ("a symbol without an end", vec![0xf5, b'a', b'b']),
        ("symbols without an end", vec![11, 0, 2, 0, 0, 0, b'a', 0, b'b']),
        ("columns of different lengths", ragged.concat()),
        ("a type that is none", vec![55, 0, 1, 0, 0, 0, 1]),
        ("more bytes than the value has", vec![0xfc, 7, 7, 7]),
    ];
    let mut client = Client::connect(front.address());
    for (what, payload) in cases {
        client.socket.write_all(&framed(&payload)).expect("it fits");
        let answer = client.next();
        assert!(matches!(answer, Some((Kind::Response, Value::Error(_)))), "{what}: {answer:?}");
    }
    assert_eq!(client.ask("1+1"), 2.into());
    // What is no message ends the connection.
    let bombs: [(&str, Vec<u8>); 5] = [
        ("two gigabytes", framed_as_compressed(0x7fff_ffff, &[0xff; 64])),
        ("a copy of what was never there", framed_as_compressed(1000, &[1, 77, 200, 1, 77, 200, 1, 77, 200])),
        ("a copy beyond the end", framed_as_compressed(12, &[4, 1, 1, 0, 255, 0, 0, 0, 0])),
        ("a stream that is cut", framed_as_compressed(100, &[0, 1, 2, 3])),
        ("a message without a value", framed(&[])),
    ];
    for (what, bytes) in bombs {
        let mut client = Client::connect(front.address());
        client.socket.write_all(&bytes).expect("it fits");
        assert!(client.next().is_none(), "{what}");
    }
    wait_for(&front, |status| status.hostile == 5);
    plant.update("trade", &trades(0, 5)).expect("logged");
    assert_eq!(good.sizes_until(4), [0, 1, 2, 3, 4]);
}

#[test]
fn updates_that_do_not_fit_are_refused_whole() {
    let (_place, _plant, front) = served(options());
    let mut client = Client::connect(front.address());
    let update = |rows: Value| Value::list(vec![Value::symbol(".u.upd"), Value::symbol("trade"), rows]);
    let longs = |count: i64| Value::from((0..count).collect::<Vec<i64>>());
    let floats = |count: usize| Value::from(Elements::Float(vec![1.0; count]));
    let symbols = |names: &[&[u8]]| Value::from(names.iter().collect::<Symbols>());
    let (good, bad) = (symbols(&[b"A", b"B"]), symbols(&[b"A", b"\xff\xfe"]));
    let doubled = Table::new(
        ["sym", "price", "size", "size"].into_iter().collect(),
        vec![good.clone(), floats(2), longs(2), longs(2)],
    );
    let long_name = [b'a'; 300];
    for (rows, expected) in [
        (Value::list(vec![good.clone(), floats(2), longs(3), good.clone()]), "has 3 rows"),
        (Value::list(vec![bad.clone(), floats(2), longs(2), good.clone()]), "UTF-8"),
        (Value::list(vec![good.clone(), floats(2), longs(2), bad]), "UTF-8"),
        (Value::list(vec![symbols(&[b"A", &long_name]), floats(2), longs(2), good.clone()]), "255"),
        (doubled.expect("columns of one length").into(), "twice"),
        (Value::list(vec![good.clone(), longs(2), longs(2), good]), "price"),
    ] {
        let answer = client.ask_value(&update(rows)).to_string();
        assert!(answer.starts_with('\'') && answer.contains(expected), "{expected}: {answer}");
    }
    assert_eq!(client.ask("count trade"), 0.into());
}

#[test]
fn a_million_symbols_are_symbols() {
    let (_place, _plant, front) = served(options());
    let (mut client, mut feed) = (Client::connect(front.address()), Client::connect(front.address()));
    client.ask(".u.sub[`trade;`S7]");
    // A subscription to that many is refused, at once or bit by bit; the one there is stays.
    let many = |from: usize, to: usize| (from..to).map(|number| format!("S{number}")).collect::<Symbols>();
    let ask =
        |symbols: Symbols| Value::list(vec![Value::text(".u.add"), Value::symbol("trade"), symbols.into()]);
    assert!(client.ask_value(&ask(many(0, 1_000_000))).to_string().starts_with("'limit"));
    client.ask_value(&ask(many(0, 60_000)));
    assert!(client.ask_value(&ask(many(60_000, 120_000))).to_string().starts_with("'limit"));
    client.ask(".u.sub[`trade;`S7`S999999]");
    for first in (0..1_000_000_usize).step_by(250_000) {
        let symbols = many(first, first + 250_000);
        let sizes: Vec<i64> = (first as i64..first as i64 + 250_000).collect();
        let prices = Elements::Float(vec![1.5; 250_000]);
        let columns = vec![symbols.clone().into(), prices.into(), sizes.into(), symbols.into()];
        let update = Value::list(vec![Value::symbol(".u.upd"), Value::symbol("trade"), Value::list(columns)]);
        assert_eq!(feed.ask_value(&update), Value::nothing());
    }
    assert_eq!(client.sizes_until(999_999), [7, 999_999]);
    assert_eq!(feed.ask("count trade"), 1_000_000.into());
}

#[derive(Debug)]
struct Reader;

impl Access for Reader {
    fn authenticate(&self, user: &str, password: &str, _: SocketAddr) -> Option<Arc<dyn Rights>> {
        match (user, password) {
            ("reader", "r") => Some(Arc::new(Self)),
            ("root", "x") => Some(Arc::new(Everyone)),
            _ => None,
        }
    }
}

impl Rights for Reader {
    fn may_read(&self, stream: &str) -> bool {
        stream == "tp/trade"
    }

    fn may_write(&self, _: &str) -> bool {
        false
    }

    fn may_end_days(&self, _: &str) -> bool {
        false
    }
}

#[test]
fn users_do_what_they_may() {
    let (_place, _plant, front) = served(FrontOptions { access: Arc::new(Reader), ..options() });
    assert!(Client::enter(front.address(), "reader", "wrong").is_none());
    let mut reader = Client::enter(front.address(), "reader", "r").expect("let in");
    assert_eq!(reader.ask("tables[]").to_string(), ",`trade");
    assert_eq!(reader.ask(".u.sub[`quote;`]").to_string(), "'quote");
    assert_eq!(reader.ask(".u.sub[`;`]").len(), Some(1));
    let update = Value::list(vec![Value::symbol("upd"), Value::symbol("trade"), Value::list(vec![])]);
    assert!(reader.ask_value(&update).to_string().starts_with("'access: you may not write to trade"));
    assert!(reader.ask(".u.end[2026.11.21]").to_string().starts_with("'access"));
    let mut root = Client::enter(front.address(), "root", "x").expect("let in");
    assert_eq!(root.ask("tables[]").to_string(), "`quote`trade");
}

#[test]
fn an_rdb_answers_queries() {
    let place = place();
    let plant = Arc::new(plant(&place.db));
    plant.update("trade", &trades(0, 30)).expect("logged");
    let rdb = Arc::new(rdb(&place.db, None));
    wait_for_rows(&rdb, "trade", 30);
    let front = Front::start(Served::rdb(plant.plan().clone(), rdb), options()).expect("a front");
    let mut client = Client::connect(front.address());
    let cases = [
        ("tables `.", "`quote`trade"),
        ("cols trade", "`time`sym`price`size`ex"),
        ("count trade", "30"),
        ("count `quote", "0"),
        ("count select from trade where sym=`AIG", "10"),
        ("select[2] sym,size from trade", "+`sym`size!(`AIG`BAC;0 1)"),
        ("select[-1] size from trade where sym in `AIG`BAC", "+(,`size)!,,28"),
        (
            "select size from trade where time within (0D00:00:00.000003;0D00:00:00.000005)",
            "+(,`size)!,3 4 5",
        ),
        ("select size from trade where time<0D00:00:00.000002", "+(,`size)!,0 1"),
        (".u.sub[`trade;`]", "'this is no tickerplant: subscribe at the plant"),
        ("select from trade where price>3", "'price: rows are selected here by sym = and in, and by time"),
    ];
    for (text, expected) in cases {
        assert_eq!(client.ask(text).to_string(), expected, "{text}");
    }
    let last = client.ask("select by sym from trade").to_string();
    assert!(last.starts_with("(+(,`sym)!,`AIG`BAC`IBM)!+`time`price`size`ex!("), "{last}");
    let meta = client.ask("meta trade").to_string();
    assert_eq!(meta, "(+(,`c)!,`time`sym`price`size`ex)!+`t`f`a!(\"nsfjs\";`````;``g```)");
    assert_eq!(client.ask("trade").len(), Some(30));
}
