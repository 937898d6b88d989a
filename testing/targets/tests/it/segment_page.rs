//! `docs/format/segment.md` and `testing/vectors/segment_v*.seg` against the code.

use tapedb_codec::dynamic::Layouts;
use tapedb_segment::{
    Block, BlockOptions, Decoder, ENTRY_LAYOUT, HEADER_LAYOUT, Plan, RowHeader, Rows, Segment, SegmentHeader,
    SegmentWriter, Selection, TRAILER_LAYOUT,
};
use tapedb_testing::blocks::{Message, messages};
use tapedb_testing::schemas::sample_layouts;

fn page() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/format/segment.md")).unwrap()
}

/// Offset, bytes and name of each row of the table under a heading.
fn table(heading: &str) -> Vec<(usize, usize, String)> {
    let page = page();
    let (_, rest) = page.split_once(heading).expect("the heading is there");
    let (_, rows) =
        rest.split_once("| offset | bytes | field | meaning |\n|---|---|---|---|\n").expect("its table");
    let cells = |row: &str| -> Vec<String> { row.split('|').map(|cell| cell.trim().to_string()).collect() };
    rows.lines()
        .take_while(|line| line.starts_with('|'))
        .map(|line| {
            let cells = cells(line);
            (cells[1].parse().unwrap(), cells[2].parse().unwrap(), cells[3].trim_matches('`').to_string())
        })
        .collect()
}

#[test]
fn the_page_has_the_real_layouts() {
    for (heading, layout) in
        [("## Header", &HEADER_LAYOUT[..]), ("## Footer", &ENTRY_LAYOUT), ("## Trailer", &TRAILER_LAYOUT)]
    {
        let shown = table(heading);
        let real: Vec<_> =
            layout.iter().map(|(offset, bytes, name)| (*offset, *bytes, name.to_string())).collect();
        assert_eq!(shown, real, "{heading}");
    }
}

fn written(layouts: &Layouts, options: BlockOptions, messages: &[Message]) -> Vec<u8> {
    let header =
        SegmentHeader { stream_id: 7, space: 1, schema_version: 1, first_sequence: 42, next_sequence: 1_000 };
    let mut writer = SegmentWriter::new(Vec::new(), Plan::new(layouts.clone()), &header, options).unwrap();
    messages.iter().for_each(|(row, body)| writer.push(*row, body).unwrap());
    writer.finish().unwrap().0
}

fn example() -> Vec<u8> {
    let layouts = Layouts::new("message Tick { bid: decimal64, size: u32? }".parse().unwrap()).unwrap();
    let start = 1_700_000_000_000_000_000;
    let one = |(i, json): (usize, &str)| {
        let mut body = Vec::new();
        layouts.encode(&layouts.from_json(json).unwrap(), &mut body).unwrap();
        let (time, sequence, symbol) = (start + 1_000 * i as i64, 42 + i as u64, [7, 300, 7][i]);
        (RowHeader { time, sequence, symbol, type_id: 0 }, body)
    };
    let ticks = [
        r#"{"$type": "Tick", "bid": "101.25", "size": 300}"#,
        r#"{"$type": "Tick", "bid": "49.18", "size": null}"#,
        r#"{"$type": "Tick", "bid": "101.26", "size": 300}"#,
    ];
    let messages: Vec<Message> = ticks.into_iter().enumerate().map(one).collect();
    written(&layouts, BlockOptions::default(), &messages)
}

fn hex_dump(bytes: &[u8]) -> String {
    let line = |(i, row): (usize, &[u8])| {
        let hex: Vec<_> = row.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{:04x}  {}\n", i * 16, hex.join(" "))
    };
    bytes.chunks(16).enumerate().map(line).collect()
}

/// As the page defines it, bit by bit.
fn content(messages: &[Message]) -> u64 {
    let mut bytes = Vec::new();
    for (row, body) in messages {
        bytes.extend_from_slice(&row.time.to_le_bytes());
        bytes.extend_from_slice(&row.sequence.to_le_bytes());
        bytes.extend_from_slice(&row.symbol.to_le_bytes());
        bytes.extend_from_slice(&row.type_id.to_le_bytes());
        bytes.extend_from_slice(&(body.len() as u32).to_le_bytes());
    }
    messages.iter().for_each(|(_, body)| bytes.extend_from_slice(body));
    let bit = |crc: u64| crc >> 1 ^ if crc & 1 == 1 { 0x9a6c_9329_ac4b_c9b5 } else { 0 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u64::from(*byte), |crc, _| bit(crc)))
}

#[test]
fn the_checksum_of_the_content_is_that_of_the_page() {
    let (layouts, messages) = golden_messages();
    let options = BlockOptions { rows: 25, ..BlockOptions::default() };
    let file = written(layouts, options, &messages);
    let (segment, mut block) = (Segment::open(&file).unwrap(), Block::new());
    for (index, messages) in messages.chunks(25).enumerate() {
        segment.read_block(index, &mut block).unwrap();
        assert_eq!(block.head().content, Some(content(messages)));
    }
}

#[test]
fn the_page_shows_the_real_bytes() {
    let dump = hex_dump(&example());
    assert!(page().contains(&dump), "docs/format/segment.md must show:\n{dump}");
}

const VECTORS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../vectors");

/// Forty messages of a schema with every type, in blocks of twenty-five.
fn golden_messages() -> (&'static Layouts, Vec<Message>) {
    let layouts = sample_layouts(0);
    (layouts, messages(layouts, 1, 40))
}

#[test]
fn the_golden_file_is_written_and_read() {
    let (layouts, messages) = golden_messages();
    let options = BlockOptions { rows: 25, ..BlockOptions::default() };
    let written = written(layouts, options, &messages);
    let path = format!("{VECTORS}/segment_v3.seg");
    let golden = std::fs::read(&path).unwrap_or_default();
    if golden != written {
        let new = std::env::temp_dir().join("segment_v3.seg");
        std::fs::write(&new, &written).unwrap();
        panic!("the writer no longer writes {path} but {}", new.display());
    }
    read_golden(&golden, 3, &messages);
}

/// Written by version 0.1.0, and frozen: nothing writes such a file any more.
#[test]
fn files_of_version_1_are_read() {
    let (_, messages) = golden_messages();
    read_golden(&std::fs::read(format!("{VECTORS}/segment_v1.seg")).unwrap(), 1, &messages);
}

/// Frozen too: versions before columns of opposites, and before integers that take turns, wrote it.
#[test]
fn files_of_version_2_are_read() {
    let (_, messages) = golden_messages();
    read_golden(&std::fs::read(format!("{VECTORS}/segment_v2.seg")).unwrap(), 2, &messages);
}

fn read_golden(golden: &[u8], version: u16, messages: &[Message]) {
    assert_eq!(golden[8..10], version.to_le_bytes());
    let segment = Segment::open(golden).unwrap();
    let (mut block, mut rows, mut decoder) = (Block::new(), Rows::new(), Decoder::new());
    let mut left = messages.iter();
    for index in 0..segment.blocks().len() {
        segment.read_block(index, &mut block).unwrap();
        decoder.rows(segment.plan(), &block, &Selection::default(), &mut rows).unwrap();
        assert_eq!(block.check_content(&rows), Ok(version > 1));
        for row in 0..rows.len() {
            let (header, body) = left.next().unwrap();
            assert_eq!((rows.header(row), rows.body(row)), (*header, &body[..]));
        }
    }
    assert!(left.next().is_none());
}
