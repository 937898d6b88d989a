//! Bytes recorded from a real kdb+, if present: in the folder `kdb` of the one named by `TAPEDB_DATA`.

use crate::{unhex, value_of};
use std::path::PathBuf;
use tapedb_kdb_ipc::file::column::{Content, HEAD_BYTES_MAX, Head};
use tapedb_kdb_ipc::file::{flat, log};
use tapedb_kdb_ipc::{Elements, Header, Limits, Symbols, Type, compress, expand};
use tapedb_skipped::recorded_data;

#[track_caller]
fn data() -> Option<PathBuf> {
    Some(recorded_data()?.join("kdb"))
}

fn read(path: PathBuf) -> Vec<u8> {
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Pairs of lines: an expression and bytes.
fn pairs(path: PathBuf) -> Vec<(String, Vec<u8>)> {
    let text = String::from_utf8(read(path)).expect("a text");
    let lines: Vec<&str> = text.lines().collect();
    lines.as_chunks::<2>().0.iter().map(|[expression, hex]| (expression.to_string(), unhex(hex))).collect()
}

#[test]
fn every_value_comes_back_to_the_byte() {
    let Some(data) = data() else { return };
    let vectors = pairs(data.join("ipc/expressions.txt"));
    assert_eq!(vectors.len(), 118);
    for (expression, bytes) in vectors {
        assert!(!value_of(&bytes, &expression).to_string().is_empty());
    }
}

#[test]
fn compressed_values_expand_and_are_compressed_to_the_same_bytes() {
    let Some(data) = data() else { return };
    let vectors = pairs(data.join("ipc/compressed_expressions.txt"));
    assert_eq!(vectors.len(), 3);
    for (expression, bytes) in vectors {
        let (len, payload) = bytes.split_first_chunk::<4>().expect("a length");
        let len = u32::from_le_bytes(*len);
        let expanded = expand(payload, len as usize, 1 << 20).expect("a message");
        value_of(&expanded, &expression);
        let mut message = vec![1, 0, 0, 0];
        message.extend(len.to_le_bytes());
        message.extend(&expanded);
        let again = compress(&message).expect("a message that halves");
        assert_eq!(again[8..], bytes, "{expression}");
        let header = Header::parse(*again.first_chunk().expect("a header")).expect("a header");
        assert_eq!((header.is_compressed, header.len), (true, again.len()));
    }
}

#[test]
fn a_log_is_read_to_its_end_and_written_to_the_byte() {
    let Some(data) = data() else { return };
    for (name, records, rows) in [("quote20220616", 308, 11_307), ("empty20220616", 0, 0)] {
        let bytes = read(data.join("tplog").join(name));
        let mut reader = log::Reader::new(Limits::default());
        let mut again = log::LOG_HEADER.to_vec();
        let mut found = 0;
        for piece in bytes.chunks(4096) {
            reader.push(piece);
            while let Some(record) = reader.next_record().expect("a whole record") {
                assert_eq!(record.offset as usize, again.len());
                log::write_record(&record.value, &mut again);
                let columns = record.value.item(2).expect("columns");
                found += columns.item(0).and_then(|column| column.len()).expect("rows");
            }
        }
        while reader.finish().expect("no damage") {
            while let Some(record) = reader.next_record().expect("a whole record") {
                log::write_record(&record.value, &mut again);
                found += record.value.item(2).and_then(|columns| columns.item(0)?.len()).expect("rows");
            }
        }
        assert_eq!((reader.records(), found), (records, rows), "{name}");
        assert!(again == bytes, "{name} is written otherwise");
    }
}

#[test]
fn a_splayed_table_is_read_column_by_column() {
    let Some(data) = data() else { return };
    let hdb = data.join("hdb");
    let sym = flat::read_symbols(&read(hdb.join("sym"))).expect("symbols");
    assert!(sym.len() > 10, "more than the header counts");
    for (table, rows) in [("quote", 10), ("packets", 0)] {
        let folder = hdb.join("2021.01.04").join(table);
        for name in flat::read_symbols(&read(folder.join(".d"))).expect("names").iter() {
            let name = str::from_utf8(name).expect("a name");
            let elements = column(read(folder.join(name)), &sym);
            assert_eq!(elements.len(), rows, "{table}.{name}");
            let Elements::Symbol(symbols) = elements else { continue };
            assert!(symbols.iter().all(|symbol| !symbol.is_empty()), "{table}.{name}");
        }
    }
}

fn column(bytes: Vec<u8>, sym: &Symbols) -> Elements {
    let head = Head::parse(&bytes[..bytes.len().min(HEAD_BYTES_MAX)], bytes.len() as u64).expect("a column");
    assert!(
        matches!(&head.content, Content::Simple(_) | Content::Untyped)
            || head.content == Content::Enumerated("sym".into())
    );
    let data = &bytes[head.data_at as usize..][..head.count as usize * head.width()];
    let elements = head.elements(data, sym).expect("elements");
    if head.content == Content::Simple(Type::Timestamp) {
        assert_eq!(elements.ty(), Type::Timestamp);
    }
    elements
}
