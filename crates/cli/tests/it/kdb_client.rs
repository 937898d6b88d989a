//! A client of kdb+, like a q process.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::thread::sleep;
use std::time::{Duration, Instant};
use tapedb_kdb_ipc::file::log;
use tapedb_kdb_ipc::{Atom, Elements, Event, Kind, Limits, Session, Value, greeting, message};

/// Maximum time of every wait.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// One end of a connection. Every call fails once the other end is closed.
pub struct KdbClient {
    socket: TcpStream,
    session: Session,
    /// Asynchronous messages that arrived before a response.
    came: VecDeque<Value>,
}

impl KdbClient {
    /// Connects, as soon as a server listens.
    pub fn connect(address: &str) -> Self {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match Self::try_connect(address) {
                Ok(client) => return client,
                Err(error) => assert!(Instant::now() < deadline, "{address}: {error}"),
            }
            sleep(Duration::from_millis(20));
        }
    }

    fn try_connect(address: &str) -> io::Result<Self> {
        let mut socket = TcpStream::connect(address)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.write_all(&greeting("me", "secret").expect("a greeting"))?;
        let mut client = Self { socket, session: Session::client(Limits::default()), came: VecDeque::new() };
        while client.session.next_event().expect("an answer").is_none() {
            client.read()?;
        }
        Ok(client)
    }

    fn read(&mut self) -> io::Result<()> {
        match self.socket.read(self.session.spare(64 << 10))? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            bytes => {
                self.session.filled(bytes);
                Ok(())
            }
        }
    }

    fn next(&mut self) -> io::Result<(Kind, Value)> {
        loop {
            match self.session.next_event().expect("kdb+ IPC") {
                Some(Event::Message(message)) => {
                    return Ok((message.kind, message.value(&Limits::default()).expect("a value")));
                }
                Some(other) => panic!("{other:?}"),
                None => self.read()?,
            }
        }
    }

    /// Sends bytes unchanged.
    pub fn send_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.socket.write_all(bytes)
    }

    /// Sends an update asynchronously.
    pub fn send(&mut self, update: &Value) -> io::Result<()> {
        self.send_bytes(&message(Kind::Asynchronous, update).expect("a message"))
    }

    /// Sends a question, and waits for the answer.
    pub fn ask(&mut self, text: &str) -> io::Result<Value> {
        self.ask_value(&Value::text(text))
    }

    /// The same with a list.
    pub fn ask_value(&mut self, value: &Value) -> io::Result<Value> {
        self.send_bytes(&message(Kind::Synchronous, value).expect("a message"))?;
        loop {
            match self.next()? {
                (Kind::Response, value) => return Ok(value),
                (_, value) => self.came.push_back(value),
            }
        }
    }

    /// The answer to a question, as a number.
    pub fn long(&mut self, text: &str) -> io::Result<u64> {
        match self.ask(text)? {
            Value::Atom(Atom::Long(value)) => Ok(value as u64),
            other => panic!("{text}: {other}"),
        }
    }

    /// The next update.
    pub fn update(&mut self) -> io::Result<Value> {
        if let Some(came) = self.came.pop_front() {
            return Ok(came);
        }
        match self.next()? {
            (Kind::Asynchronous, value) => Ok(value),
            (kind, value) => panic!("{kind:?} {value}"),
        }
    }
}

/// `` (`.u.upd;`trade;columns) `` ; the size of a row is its number.
pub fn trades(first: u64, rows: u64) -> Value {
    let numbers = || first..first + rows;
    let symbols: tapedb_kdb_ipc::Symbols = numbers().map(|number| format!("S{}", number % 7)).collect();
    let columns = vec![
        Elements::Timespan(numbers().map(|number| number as i64).collect()).into(),
        symbols.into(),
        Elements::Float(numbers().map(|number| number as f64 / 4.0).collect()).into(),
        numbers().map(|number| number as i64).collect::<Vec<i64>>().into(),
    ];
    Value::list(vec![Value::symbol(".u.upd"), Value::symbol("trade"), Value::list(columns)])
}

/// The sizes of the trades of `` (`upd;`trade;rows) ``: a table, or columns as they are in logs.
pub fn sizes_of(update: &Value) -> Vec<i64> {
    let rows = update.item(2).unwrap_or_else(|| panic!("{update}"));
    let sizes = match &rows {
        Value::Table(table) => table.column("size").cloned(),
        columns => columns.item(3),
    };
    match sizes.as_ref().and_then(Value::as_elements) {
        Some(Elements::Long(sizes)) => sizes.clone(),
        other => panic!("{other:?}"),
    }
}

/// The sizes of the trades in the first records of a log.
pub fn replayed(path: &str, records: u64) -> Vec<i64> {
    let mut reader = log::Reader::new(Limits::default());
    reader.push(&std::fs::read(path).expect("a log"));
    let mut sizes = Vec::new();
    for number in 0..records {
        let record = match reader.next_record().expect("a whole record") {
            Some(record) => record,
            None => {
                assert_eq!(reader.finish(), Ok(true), "record {number} of {records}");
                reader.next_record().expect("a whole record").expect("a record")
            }
        };
        sizes.extend(sizes_of(&record.value));
    }
    sizes
}
