//! Compares `docs/format/topic.md` with the code.

use crate::exclusive::Exclusive;
use crate::format::*;
use crate::ring::{Presence, Ring};
use std::mem::offset_of;
use tapedb_shm::atomics::Ordering;
use tapedb_shm::{WORD, Words};

const PAGE: &str = include_str!("../../../docs/format/topic.md");

#[derive(Debug)]
pub(crate) struct AllAlive;

impl Presence for AllAlive {
    fn has_publisher(&self, _: usize) -> bool {
        true
    }
    fn has_subscriber(&self, _: usize) -> bool {
        true
    }
}

/// Offsets and names of the first table after a text.
fn table(heading: &str) -> Vec<(usize, String)> {
    let (_, rest) = PAGE.split_once(heading).expect("the heading");
    let rows =
        rest.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    rows.skip(2)
        .map(|row| {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            (cells[1].parse().expect("an offset"), cells[3].trim_matches('`').to_string())
        })
        .collect()
}

macro_rules! offsets {
    ($layout:ty: $($field:ident)*) => { vec![$((offset_of!($layout, $field), stringify!($field).to_string())),*] };
}

#[test]
fn the_page_has_the_real_offsets() {
    let mut header = offsets!(Fixed: magic version delivery id created file_bytes ring_bytes symbols_at symbols_bytes
        schema_at schema_bytes ring_at stall_ms reserved header_crc);
    header
        .extend(offsets!(Header: tail limit parked wakes anchor_count anchors padded taken_over passed_over));
    assert_eq!(table("## Header"), header);
    let publisher = offsets!(PublisherSlot: process intent messages back_pressured overtaken);
    assert_eq!(table("A publisher's slot:"), publisher);
    let subscriber = offsets!(SubscriberSlot: process flags position sequence beat missed passed);
    assert_eq!(table("A subscriber's slot:"), subscriber);
    for number in [PUBLISHERS_AT, SUBSCRIBERS_AT, SYMBOLS_AT, SLOT_BYTES, SLACK, FRAME_HEADER] {
        assert!(PAGE.contains(&number.to_string()), "{number}");
    }
}

fn dump(words: impl IntoIterator<Item = u64>) -> String {
    let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
    let line = |(at, line): (usize, &[u8])| {
        let hex: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{:04x}  {}\n", at * 16, hex.join(" "))
    };
    bytes.chunks(16).enumerate().map(line).collect()
}

#[test]
fn the_page_shows_the_real_bytes() {
    let schema: tapedb_schema::Schema = "message Tick { price: i64 }".parse().unwrap();
    let shape = Shape {
        delivery: Delivery::Lossy,
        id: 7,
        created: 1,
        ring_bytes: 1 << 16,
        symbols_bytes: 4096,
        schema_bytes: schema.to_string().len() as u64,
        stall_ms: 1000,
    };
    let header = dump(shape.words());
    assert!(PAGE.contains(&header), "{header}");
    let ring = Ring::new(Words::owned(shape.file_bytes() as usize), shape, Box::new(AllAlive));
    ring.format();
    let mut exclusive = Exclusive::new(&ring);
    let position = exclusive.reserve(&ring, LINE).unwrap();
    ring.write(position, exclusive.sequence, 1000, &300i64.to_le_bytes());
    exclusive.add(ring.view(), LINE, message(8, 0, 0), 1);
    exclusive.commit(ring.view());
    let first = shape.ring_at() as usize / WORD;
    let frame = dump((first..first + 10).map(|at| ring.words.get(at).load(Ordering::Relaxed)));
    assert!(PAGE.contains(&frame), "{frame}");
}
