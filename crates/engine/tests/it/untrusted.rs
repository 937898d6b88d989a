//! An untrusted server that sends messages that do not match the schema that it describes.

use crate::loopback::Loopback;
use crate::support::{new_database_without_maintenance, small_files};
use std::io;
use std::sync::{Arc, Weak};
use tapedb_engine::{
    CachedStream, Command, Database, Description, Error, Loading, Outcome, Replacement, Replacing,
    StorageFile, Stream, Upstream, Watcher, Watching,
};
use tapedb_schema::Timestamp;

/// Describes a field as a bool, and sends messages with any byte in it.
#[derive(Debug)]
struct Liar {
    honest: Arc<Loopback>,
    is_trusted: bool,
}

impl Upstream for Liar {
    fn place(&self) -> String {
        self.honest.place()
    }

    fn is_trusted(&self) -> bool {
        self.is_trusted
    }

    fn streams(&self) -> Result<Vec<String>, Error> {
        self.honest.streams()
    }

    fn describe(&self, name: &str, known: Option<&CachedStream>) -> Result<Description, Error> {
        let mut description = self.honest.describe(name, known)?;
        description.definition = description.definition.map(|text| forged(&text));
        Ok(description)
    }

    fn open_file(&self, stream_id: u64, name: &str) -> io::Result<Arc<dyn StorageFile>> {
        self.honest.open_file(stream_id, name)
    }

    fn watch(&self, id: u64, from: &[u64], sink: Weak<dyn Watcher>) -> Result<Box<dyn Watching>, Error> {
        self.honest.watch(id, from, sink)
    }

    fn add_symbols(&self, stream_id: u64, names: &[&str]) -> Result<Vec<u32>, Error> {
        self.honest.add_symbols(stream_id, names)
    }

    fn load(&self, stream_id: u64, space: u32) -> Result<Box<dyn Loading>, Error> {
        self.honest.load(stream_id, space)
    }

    fn replace(&self, replacement: &Replacement) -> Result<Box<dyn Replacing>, Error> {
        self.honest.replace(replacement)
    }

    fn command(&self, command: &Command) -> Result<Outcome, Error> {
        self.honest.command(command)
    }
}

/// A definition with another schema, and the checksum that belongs to it.
fn forged(text: &[u8]) -> Vec<u8> {
    let text = String::from_utf8(text.to_vec()).unwrap().replace("flag: u8", "flag: bool");
    let (magic, rest) = text.split_once("\nchecksum ").unwrap();
    let (_, body) = rest.split_once('\n').unwrap();
    let checksum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, body.as_bytes());
    format!("{magic}\nchecksum {checksum:08x}\n{body}").into_bytes()
}

const COUNT: u64 = 3_000;
/// The message whose byte is neither 0 nor 1.
const WRONG: u64 = 1_234;

fn load(stream: &Stream, numbers: std::ops::Range<u64>) {
    let mut loader = stream.loader().unwrap();
    for number in numbers {
        let flag = if number == WRONG { 7 } else { number as u8 & 1 };
        loader.append_body("A", Timestamp(number as i64), 0, &[flag, 7]).unwrap();
    }
    loader.close().unwrap();
}

/// Numbers of the messages, and how many errors.
fn read(db: &Database) -> (Vec<u64>, Vec<String>) {
    let stream = db.stream("s").unwrap();
    let mut cursor = stream.cursor().open().unwrap();
    let (mut numbers, mut errors) = (Vec::new(), Vec::new());
    loop {
        match cursor.next() {
            Ok(Some(message)) => numbers.push(message.time().0 as u64),
            Ok(None) => break,
            Err(error) => errors.push(error.to_string()),
        }
    }
    (numbers, errors)
}

/// Values of the column, and how many errors.
fn read_columns(db: &Database, field: &str, in_time_order: bool) -> (usize, Vec<String>) {
    let stream = db.stream("s").unwrap();
    let columns = stream.columns("M", [field]);
    let mut columns = if in_time_order { columns.in_time_order() } else { columns }.open().unwrap();
    let (mut count, mut errors) = (0, Vec::new());
    loop {
        match columns.next() {
            Ok(Some(chunk)) => count += chunk.len(),
            Ok(None) => break,
            Err(error) => errors.push(error.to_string()),
        }
    }
    (count, errors)
}

#[test]
fn messages_that_are_not_of_the_schema_are_left_out() {
    for is_sealed in [false, true] {
        // Nothing is sealed beside the readers.
        let (_directory, db) = new_database_without_maintenance();
        let schema = "message M { flag: u8, other: u8 }".parse().unwrap();
        let stream = db.create_stream("s", schema, small_files()).unwrap();
        (0..COUNT).step_by(100).for_each(|first| load(&stream, first..first + 100));
        if is_sealed {
            stream.seal().unwrap();
        }
        let honest = Loopback::new(db);
        let open =
            |is_trusted| Database::open_upstream(Arc::new(Liar { honest: honest.clone(), is_trusted }));

        let (numbers, errors) = read(&open(false));
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors[0].contains("message 1234") && errors[0].contains("\"s\""), "{errors:?}");
        assert!(!numbers.contains(&WRONG) && !numbers.is_empty(), "what is wrong is left out");
        assert!(numbers.contains(&0) || numbers.contains(&(COUNT - 1)), "what is right comes");
        for in_time_order in [false, true] {
            let (count, errors) = read_columns(&open(false), "flag", in_time_order);
            assert_eq!((count, errors.len()), (numbers.len(), 1), "{errors:?}");
            // Of sealed messages only the fields that are asked for are checked.
            let (count, errors) = read_columns(&open(false), "other", in_time_order);
            let expected = if is_sealed { (COUNT as usize, 0) } else { (numbers.len(), 1) };
            assert_eq!((count, errors.len()), expected, "{errors:?}");
        }

        // Messages of a trusted server are not checked.
        let (numbers, errors) = read(&open(true));
        assert_eq!((numbers.len() as u64, errors.len()), (COUNT, 0), "{errors:?}");
    }
}
