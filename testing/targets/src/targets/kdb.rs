//! kdb+'s messages, logs and columns.

use crate::Target;
use crate::sample::SplitMix64;
use tapedb_kdb_ipc::file::{column, flat, log};
use tapedb_kdb_ipc::{
    Atom, ByteOrder, Elements, Event, Kind, Limits, Session, Symbols, Table, Type, Value, compress, console,
    decode, encode, message,
};

/// See the module.
pub const TARGET: Target = Target { name: "kdb", run, seed };

const LIMITS: Limits =
    Limits { message_bytes_max: 1 << 16, expanded_bytes_max: 1 << 18, values_max: 10_000, depth_max: 32 };

/// The first byte says what the others are, and how they are cut up. What is understood is written, read and shown again;
/// what is damaged is named where it begins.
pub fn run(input: &[u8]) {
    let (&first, bytes) = input.split_first().unwrap_or((&0, &[]));
    let pieces = bytes.chunks(usize::from(first >> 2) * 3 + 1);
    match first & 3 {
        0 => connection(pieces),
        1 => one_value(bytes),
        2 => log_file(bytes.len(), pieces),
        _ => files(bytes),
    }
}

fn connection<'a>(pieces: impl Iterator<Item = &'a [u8]>) {
    let mut session = Session::server(LIMITS);
    for piece in pieces {
        session.push(piece);
        loop {
            let capability = match session.next_event() {
                Ok(None) => break,
                Ok(Some(Event::Greeting(greeting))) => greeting.capability,
                Ok(Some(Event::Accepted(_))) => unreachable!("a server is not accepted"),
                Ok(Some(Event::Message(message))) => {
                    assert!(message.payload.len() <= LIMITS.expanded_bytes_max);
                    if let Ok(value) = message.value(&LIMITS) {
                        again(&value);
                    }
                    continue;
                }
                Err(error) => return assert!(!error.to_string().is_empty()),
            };
            assert!(session.accept(capability)[0] <= 3);
        }
        assert!(session.pending() <= LIMITS.message_bytes_max + piece.len());
    }
}

fn one_value(bytes: &[u8]) {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        if let Ok(value) = decode(bytes, order, &LIMITS) {
            again(&value);
        }
    }
}

/// Nothing is lost on the way through bytes, in either order.
fn again(value: &Value) {
    assert!(console(value, 5).ends_with('\n'));
    let mut little = Vec::new();
    encode(value, ByteOrder::Little, &mut little);
    let mut big = Vec::new();
    encode(value, ByteOrder::Big, &mut big);
    let value = decode(&big, ByteOrder::Big, &LIMITS).expect("what was written");
    let mut same = Vec::new();
    encode(&value, ByteOrder::Little, &mut same);
    assert_eq!(same, little);
}

fn log_file<'a>(len: usize, pieces: impl Iterator<Item = &'a [u8]>) {
    let mut reader = log::Reader::new(LIMITS);
    let drain = |reader: &mut log::Reader| loop {
        match reader.next_record() {
            Ok(Some(record)) => assert!(record.offset + record.bytes as u64 == reader.offset()),
            Ok(None) => return true,
            Err(damage) => {
                assert!(damage.offset == reader.offset() && damage.offset <= len as u64);
                return false;
            }
        }
    };
    for piece in pieces {
        reader.push(piece);
        if !drain(&mut reader) {
            return;
        }
    }
    while reader.finish() == Ok(true) {
        if !drain(&mut reader) {
            return;
        }
    }
}

fn files(bytes: &[u8]) {
    let symbols: Symbols = ["a", "b"].into_iter().collect();
    if let Ok(head) = column::Head::parse(bytes, bytes.len() as u64) {
        let data = &bytes[head.data_at as usize..][..head.count as usize * head.width()];
        if let Ok(elements) = head.elements(data, &symbols) {
            assert_eq!(elements.len() as u64, head.count);
        }
    }
    if let Ok(symbols) = flat::read_symbols(bytes) {
        assert_eq!(flat::read_symbols(&flat::write_symbols(symbols.clone())), Ok(symbols));
    }
    if let Ok(value) = flat::read(bytes, &LIMITS) {
        again(&value);
    }
}

fn seed(number: u64) -> Vec<u8> {
    let mut random = SplitMix64::new(number);
    let what = random.below(4) as u8;
    let mut bytes = vec![what | (random.below(64) as u8) << 2];
    match what {
        0 => conversation(&mut random, &mut bytes),
        1 => encode(&value(&mut random, 3), ByteOrder::Little, &mut bytes),
        2 => {
            bytes.extend(log::LOG_HEADER);
            for _ in 0..random.below(6) {
                log::write_record(&update(&mut random), &mut bytes);
            }
        }
        _ => bytes.extend(file(&mut random)),
    }
    bytes
}

fn conversation(random: &mut SplitMix64, bytes: &mut Vec<u8>) {
    bytes.extend(b"me:secret\x03\0");
    for _ in 0..random.below(4) {
        let kind = [Kind::Asynchronous, Kind::Synchronous, Kind::Response][random.below(3)];
        let plain = message(kind, &update(random)).expect("a short message");
        bytes.extend(compress(&plain).unwrap_or(plain));
    }
}

fn update(random: &mut SplitMix64) -> Value {
    Value::list(vec![Value::symbol("upd"), Value::symbol("trade"), value(random, 2)])
}

fn file(random: &mut SplitMix64) -> Vec<u8> {
    match random.below(3) {
        0 => flat::write(&value(random, 3)),
        1 => column::write_enumerated(&"sym".into(), Default::default(), &[0, 1, i64::MIN]),
        _ => {
            let elements = elements(random);
            let vector = tapedb_kdb_ipc::Vector { attribute: Default::default(), elements };
            column::write_simple(&vector).unwrap_or_else(|| flat::write_symbols(Symbols::new()))
        }
    }
}

fn value(random: &mut SplitMix64, depth: usize) -> Value {
    let nested = if depth == 0 { 0 } else { random.below(7) };
    match nested {
        1 => Value::list((0..random.below(4)).map(|_| value(random, depth - 1)).collect()),
        2 => Value::dictionary(names(2), Value::list(vec![value(random, depth - 1), Value::nothing()])),
        3 => table(random),
        4 => Value::Atom(elements(random).get(0).unwrap_or(Atom::Long(7))),
        5 => Value::text("0123456789".repeat(random.below(400)).as_str()),
        _ => elements(random).into(),
    }
}

fn table(random: &mut SplitMix64) -> Value {
    let rows = random.below(300);
    let symbols: Symbols = (0..rows).map(|_| "MSFT").collect();
    let longs: Vec<i64> = (0..rows as i64).collect();
    match Table::new(["sym", "size"].into_iter().collect(), vec![symbols.into(), longs.into()]) {
        Ok(table) => table.into(),
        Err(error) => unreachable!("columns of one length: {error}"),
    }
}

fn names(count: usize) -> Value {
    (0..count).map(|index| format!("n{index}")).collect::<Symbols>().into()
}

fn elements(random: &mut SplitMix64) -> Elements {
    let ty = Type::ALL[random.below(Type::ALL.len())];
    let mut elements = Elements::new(ty);
    for _ in 0..random.below(5) {
        let _ = elements.push(ty.null());
    }
    elements
}
