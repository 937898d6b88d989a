//! ITCH of a generator, beside an independent reader.

use flate2::Compression;
use flate2::write::GzEncoder;
use itchy::{Body, MessageStream};
use std::io::Write;
use tapedb_market::{Order, OrderAction, Side};
use tapedb_schema::Decimal64;
use tapedb_skipped::recorded_data;
use tapedb_venue::{AnyRecord, Format, ImportOptions, SourceFile, detect, discover};

/// A generator of numbers, always the same ones.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// A day of messages behind their lengths.
fn day(messages: u64) -> Vec<u8> {
    let (mut numbers, mut bytes) = (Numbers(20_190_130), Vec::new());
    for i in 0..messages {
        let kind = b"AAAFEECXDDUPQBSHYLRIJKVN"[numbers.below(24) as usize];
        let mut body = vec![kind];
        body.extend((numbers.below(500) as u16 + 1).to_be_bytes());
        body.extend([0, 1]);
        body.extend(&(i * 57_000_000_000_000 / messages).to_be_bytes()[2..]);
        let instrument = u16::from_be_bytes([body[1], body[2]]);
        let name = format!("T{instrument:<7}").into_bytes();
        let number = |numbers: &mut Numbers, width: usize, limit: u64| {
            numbers.below(limit).to_be_bytes()[8 - width..].to_vec()
        };
        let id = number(&mut numbers, 8, u64::MAX);
        let size = number(&mut numbers, 4, 1 << 32);
        let price = number(&mut numbers, 4, 1 << 31);
        let side = vec![b"BS"[numbers.below(2) as usize]];
        let parts: Vec<Vec<u8>> = match kind {
            b'A' => vec![id, side, size, name, price],
            b'F' => vec![id, side, size, name, price, b"UBSS".to_vec()],
            b'E' => vec![id, size, number(&mut numbers, 8, 1 << 60)],
            b'C' => vec![id, size, number(&mut numbers, 8, 1 << 60), b"Y".to_vec(), price],
            b'X' => vec![id, size],
            b'D' | b'B' => vec![id],
            b'U' => vec![id.clone(), number(&mut numbers, 8, 1 << 60), size, price],
            b'P' => vec![id, b"B".to_vec(), size, name, price, number(&mut numbers, 8, 1 << 60)],
            b'Q' => {
                vec![
                    number(&mut numbers, 8, 1 << 40),
                    name,
                    price,
                    number(&mut numbers, 8, 1 << 60),
                    b"O".to_vec(),
                ]
            }
            b'S' => vec![b"Q".to_vec()],
            b'H' => vec![name, b"T ".to_vec(), b"    ".to_vec()],
            b'Y' => vec![name, b"0".to_vec()],
            b'L' => vec![b"UBSS".to_vec(), name, b"YNA".to_vec()],
            b'R' => {
                vec![
                    name,
                    b"QN".to_vec(),
                    vec![0, 0, 0, 100],
                    b"NCZ PN 1N".to_vec(),
                    vec![0, 0, 0, 1],
                    b"N".to_vec(),
                ]
            }
            b'I' => vec![
                number(&mut numbers, 8, 1 << 40),
                number(&mut numbers, 8, 1 << 40),
                b"B".to_vec(),
                name,
                price.clone(),
                price.clone(),
                price,
                b"O1".to_vec(),
            ],
            b'J' => vec![name, price.clone(), price.clone(), price, vec![0, 0, 0, 1]],
            b'K' => vec![name, vec![0, 0, 0x85, 0x98], b"A".to_vec(), price],
            b'V' => vec![number(&mut numbers, 8, 1 << 40); 3],
            _ => vec![name, b"B".to_vec()],
        };
        body.extend(parts.concat());
        bytes.extend((body.len() as u16).to_be_bytes());
        bytes.extend(body);
    }
    bytes
}

fn source(files: &[SourceFile], mut take: impl FnMut(i64, &str, &AnyRecord)) {
    let mut record = AnyRecord::default();
    for file in files {
        let mut source = file.open().unwrap();
        while let Some(row) = source.next(&mut record).unwrap() {
            take(row.time.nanos(), row.symbol, &record);
        }
        assert!(source.counters().unknown_kinds.is_empty());
    }
}

fn fixed(value: u64, decimals: i32) -> Option<Decimal64> {
    Decimal64::from_parts(value as i64, -decimals).ok()
}

/// The order that a message of the independent reader is; `None` for other messages.
fn of_itchy(message: &itchy::Message) -> Option<Order> {
    let order = Order { instrument_id: Some(message.stock_locate.into()), ..Order::default() };
    let side = |side: &itchy::Side| match side {
        itchy::Side::Buy => Side::Bid,
        itchy::Side::Sell => Side::Ask,
    };
    let price = |price: itchy::Price4| fixed(price.raw().into(), 4);
    let size = |size: u64| fixed(size, 0);
    Some(match &message.body {
        Body::AddOrder(add) => Order {
            action: OrderAction::Add,
            side: Some(side(&add.side)),
            price: price(add.price),
            size: size(add.shares.into()),
            order_id: Some(add.reference),
            participant: add.mpid.map(|mpid| tapedb_schema::Ascii::new(mpid.as_str()).unwrap()),
            ..order
        },
        Body::OrderExecuted { reference, executed, match_number } => Order {
            action: OrderAction::Execute,
            size: size((*executed).into()),
            order_id: Some(*reference),
            trade_id: Some(*match_number),
            ..order
        },
        Body::OrderExecutedWithPrice { reference, executed, match_number, printable, price: paid } => Order {
            action: OrderAction::Execute,
            size: size((*executed).into()),
            order_id: Some(*reference),
            trade_id: Some(*match_number),
            price: price(*paid),
            flags: Some(if *printable { b'Y' } else { b'N' }.into()),
            ..order
        },
        Body::OrderCancelled { reference, cancelled } => Order {
            action: OrderAction::Cancel,
            size: size((*cancelled).into()),
            order_id: Some(*reference),
            ..order
        },
        Body::DeleteOrder { reference } => {
            Order { action: OrderAction::Delete, order_id: Some(*reference), ..order }
        }
        Body::ReplaceOrder(replace) => Order {
            action: OrderAction::Replace,
            order_id: Some(replace.new_reference),
            previous_order_id: Some(replace.old_reference),
            size: size(replace.shares.into()),
            price: price(replace.price),
            ..order
        },
        Body::NonCrossTrade(trade) => Order {
            action: OrderAction::Trade,
            order_id: Some(trade.reference),
            size: size(trade.shares.into()),
            price: price(trade.price),
            trade_id: Some(trade.match_number),
            flags: Some(b'B'.into()),
            ..order
        },
        Body::CrossTrade(trade) => Order {
            action: OrderAction::Trade,
            size: size(trade.shares),
            price: price(trade.cross_price),
            trade_id: Some(trade.match_number),
            flags: Some(b'O'.into()),
            ..order
        },
        Body::BrokenTrade { match_number } => Order {
            action: OrderAction::None,
            trade_id: Some(*match_number),
            flags: Some(b'B'.into()),
            ..order
        },
        _ => return None,
    })
}

/// Every message of a generated day is what `itchy` reads.
#[test]
fn a_generated_day_is_what_another_reader_finds() {
    let folder = tempfile::tempdir().unwrap();
    let (bytes, path) = (day(20_000), folder.path().join("01302019.NASDAQ_ITCH50.gz"));
    let mut packed = GzEncoder::new(std::fs::File::create(&path).unwrap(), Compression::fast());
    packed.write_all(&bytes).unwrap();
    packed.finish().unwrap();
    assert_eq!(detect(&[&path], &ImportOptions::default()).unwrap(), Format::Itch);
    let files = discover(Format::Itch, &[folder.path()], &ImportOptions::default()).unwrap();
    let mut other = MessageStream::from_reader(&bytes[..]);
    // Midnight in New York.
    let midnight = files[0].not_before().nanos();
    let mut orders = 0;
    source(&files, |time, symbol, record| {
        let message = other.next().expect("as many messages").expect("a message");
        assert_eq!(time - midnight, message.timestamp as i64);
        if let Some(order) = of_itchy(&message) {
            assert_eq!(record, &AnyRecord::from(order));
            orders += 1;
        } else {
            assert_ne!(record.type_name(), "Order", "{message:?}");
        }
        let number = message.stock_locate;
        let named = symbol == format!("T{number}") || symbol == format!("#{number}");
        assert!(named, "{symbol} of {number}");
    });
    assert!(other.next().is_none() && orders > 10_000);
}

/// 39 messages in two packets.
#[test]
fn a_recorded_capture_is_read_whole() {
    let Some(data) = recorded_data() else { return };
    let path = data.join("exchange-pcap/Multiple.Packets.pcap.gz");
    assert_eq!(detect(&[&path], &ImportOptions::default()).unwrap(), Format::Itch);
    // Of a folder of captures, those of this feed.
    let files = discover(Format::Itch, &[data.join("exchange-pcap")], &ImportOptions::default()).unwrap();
    assert_eq!(files.len(), 1);
    let mut kinds = std::collections::BTreeMap::<_, u32>::new();
    source(&files, |time, symbol, record| {
        *kinds.entry((symbol.to_string(), record.type_name())).or_default() += 1;
        if let AnyRecord::Order(order) = record {
            let exchange = order.match_time.unwrap().nanos();
            assert!((0..1_000_000).contains(&(time - exchange)), "{time} {exchange}");
        }
    });
    assert_eq!(kinds.values().sum::<u32>(), 39 + gaps(&kinds), "{kinds:?}");
    println!("{kinds:?}");
}

fn gaps(kinds: &std::collections::BTreeMap<(String, &'static str), u32>) -> u32 {
    kinds.iter().filter(|((_, kind), _)| *kind == "Gap").map(|(_, count)| count).sum()
}
