//! Segments as files: what the index finds, and what damage leaves.

use tapedb_codec::dynamic::Layouts;
use tapedb_segment::{
    Block, BlockEntry, BlockOptions, ColumnValues, Damage, DamagedPart, Decoder, Plan, RowHeader, Rows,
    Segment, SegmentError, SegmentHeader, SegmentWriter, Selection,
};
use tapedb_testing::blocks::{Message, messages};
use tapedb_testing::schemas::sample_layouts;

fn file(seed: u64, count: usize, rows: usize) -> (Vec<Message>, Vec<u8>) {
    let layouts = sample_layouts(seed as usize);
    let messages = messages(layouts, seed, count);
    let options = BlockOptions { rows, ..BlockOptions::default() };
    let plan = Plan::new(layouts.clone());
    let mut writer = SegmentWriter::new(Vec::new(), plan, &SegmentHeader::default(), options).unwrap();
    messages.iter().for_each(|(row, body)| writer.push(*row, body).unwrap());
    let (bytes, written) = writer.finish().unwrap();
    assert_eq!((written.bytes, written.messages), (bytes.len() as u64, count as u64));
    (messages, bytes)
}

#[test]
fn the_index_finds_times_and_symbols() {
    let (messages, bytes) = file(4, 500, 20);
    let segment = Segment::open(&bytes).unwrap();
    assert_eq!((segment.blocks().len(), segment.messages()), (25, 500));
    for (time, _) in segment.blocks().iter().map(|block| (block.time_min, ())) {
        let blocks = segment.blocks_between(time, time);
        for (index, chunk) in messages.chunks(20).enumerate() {
            let has = chunk.iter().any(|(row, _)| row.time == time);
            assert!(!has || blocks.contains(&index), "time {time}, block {index}");
        }
        assert!(blocks.len() <= 3);
    }
    let mut total = 0;
    for (symbol, count) in segment.symbols() {
        let has = |(_, chunk): &(usize, &[Message])| chunk.iter().any(|(row, _)| row.symbol == symbol);
        let expected: Vec<usize> =
            messages.chunks(20).enumerate().filter(has).map(|(index, _)| index).collect();
        assert_eq!(segment.blocks_of(symbol).flatten().collect::<Vec<_>>(), expected);
        total += count;
    }
    assert_eq!(total, 500);
    assert!(segment.blocks_of(1_000).next().is_none());
}

#[test]
fn an_empty_segment_is_one() {
    let (_, bytes) = file(1, 0, 20);
    let segment = Segment::open(&bytes).unwrap();
    assert_eq!((segment.blocks().len(), segment.messages()), (0, 0));
}

#[test]
fn the_writer_refuses_what_is_out_of_order() {
    let (messages, _) = file(1, 2, 20);
    let plan = Plan::new(sample_layouts(1).clone());
    let options = BlockOptions { rows: 1, ..BlockOptions::default() };
    let mut writer = SegmentWriter::new(Vec::new(), plan, &SegmentHeader::default(), options).unwrap();
    writer.push(messages[1].0, &messages[1].1).unwrap();
    let again = writer.push(messages[1].0, &messages[1].1);
    assert!(matches!(again, Err(SegmentError::OutOfOrder { .. })));
    let before = writer.push(messages[0].0, &messages[0].1);
    assert!(matches!(before, Err(SegmentError::OutOfOrder { .. })));
    assert_eq!(writer.finish().unwrap().1.messages, 1);
}

/// What reading everything gives: rows, and damage.
fn read_all(bytes: &[u8]) -> Result<(usize, Vec<Damage>), SegmentError> {
    let segment = Segment::open(bytes)?;
    let (mut block, mut rows, mut decoder) = (Block::new(), Rows::new(), Decoder::new());
    let (mut count, mut damages) = (0, Vec::new());
    for index in 0..segment.blocks().len() {
        match segment.read_block(index, &mut block) {
            Ok(()) => match decoder.rows(segment.plan(), &block, &Selection::default(), &mut rows) {
                Ok(()) => count += rows.len(),
                Err(damage) => damages.push(damage),
            },
            Err(SegmentError::Damaged(damage)) => damages.push(damage),
            Err(other) => return Err(other),
        }
    }
    Ok((count, damages))
}

#[test]
fn every_flipped_bit_is_found_and_costs_one_block_at_most() {
    let (messages, bytes) = file(2, 60, 20);
    let segment = Segment::open(&bytes).unwrap();
    let (mut in_blocks, mut elsewhere) = (0, 0);
    for at in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        let block = segment
            .blocks()
            .iter()
            .position(|b| (b.offset..b.offset + u64::from(b.len)).contains(&(at as u64)));
        match (block, read_all(&flipped)) {
            (Some(block), Ok((count, damages))) => {
                assert_eq!((count, damages.len()), (messages.len() - 20, 1), "byte {at}");
                assert_eq!(damages[0].block, Some(block as u32), "byte {at}: {}", damages[0]);
                in_blocks += 1;
            }
            (None, Err(SegmentError::Damaged(damage))) => {
                assert!(
                    matches!(damage.part, DamagedPart::Header | DamagedPart::Footer),
                    "byte {at}: {damage}"
                );
                elsewhere += 1;
            }
            (block, other) => panic!("byte {at} of block {block:?}: {other:?}"),
        }
    }
    assert!(in_blocks > 1_000 && elsewhere > 100);
}

/// Sizes that take turns, which the value before the last predicts, and are null where their level is deleted.
fn file_with_turns() -> (Vec<Message>, Vec<u8>) {
    let schema = "enum Action { SET, DELETE } record Level { action: Action, size: u32? }
        message M { levels: array<record<Level>> }";
    let layouts = Layouts::new(schema.parse().unwrap()).unwrap();
    let level = |i: usize, at: usize| match (6 * i + at) % 50 {
        0 => r#"{"action": "DELETE", "size": null}"#.to_string(),
        _ => {
            let size = at % 2 * 1_000_000 + (3 * i + at) * 37 % 101;
            format!(r#"{{"action": "SET", "size": {size}}}"#)
        }
    };
    let message = |i: usize| {
        let levels: Vec<String> = (0..6).map(|at| level(i, at)).collect();
        let record = layouts.from_json(&format!(r#"{{"$type": "M", "levels": [{}]}}"#, levels.join(", ")));
        let (record, mut body) = (record.unwrap(), Vec::new());
        layouts.encode(&record, &mut body).unwrap();
        let row = RowHeader { time: i as i64, sequence: i as u64, symbol: 0, type_id: record.type_id };
        (row, body)
    };
    let messages: Vec<Message> = (0..120).map(message).collect();
    let plan = Plan::new(layouts.clone());
    let options = BlockOptions { rows: 60, ..BlockOptions::default() };
    let mut writer = SegmentWriter::new(Vec::new(), plan, &SegmentHeader::default(), options).unwrap();
    messages.iter().for_each(|(row, body)| writer.push(*row, body).unwrap());
    (messages, writer.finish().unwrap().0)
}

/// The first bytes of the columns of a file: kind, and tag of integers.
fn kinds_of(bytes: &[u8]) -> Vec<(u8, u8)> {
    let (segment, mut block, mut kinds) = (Segment::open(bytes).unwrap(), Block::new(), Vec::new());
    for (index, entry) in segment.blocks().iter().enumerate() {
        segment.read_block(index, &mut block).unwrap();
        let start = |offset: u32| (entry.offset + u64::from(offset)) as usize;
        let chunks = block.head().chunks.iter().filter(|chunk| chunk.len > 1);
        kinds.extend(chunks.map(|chunk| (bytes[start(chunk.offset)], bytes[start(chunk.offset) + 1])));
    }
    kinds
}

/// Every bit of a file with columns that only version 3 has: each is found, and costs its block at most.
#[test]
fn every_flipped_bit_of_columns_that_take_turns_is_found() {
    let (messages, bytes) = file_with_turns();
    let kinds = kinds_of(&bytes);
    assert!(kinds.iter().any(|(kind, _)| *kind == 7), "a presence that follows: {kinds:?}");
    let is_lag = |tag: u8| matches!(tag & 0x1f, 9 | 10);
    assert!(kinds.iter().any(|(kind, tag)| *kind == 1 && is_lag(*tag)), "a lag: {kinds:?}");
    let segment = Segment::open(&bytes).unwrap();
    assert_eq!(segment.blocks().len(), 2);
    let mut flipped = bytes.clone();
    for bit in 0..8 * bytes.len() {
        flipped[bit / 8] ^= 1 << (bit % 8);
        let within = |b: &BlockEntry| (b.offset..b.offset + u64::from(b.len)).contains(&(bit as u64 / 8));
        match (segment.blocks().iter().position(within), read_all(&flipped)) {
            (Some(block), Ok((count, damages))) => {
                assert_eq!((count, damages.len()), (messages.len() - 60, 1), "bit {bit}");
                assert_eq!(damages[0].block, Some(block as u32), "bit {bit}: {}", damages[0]);
            }
            (None, Err(SegmentError::Damaged(_))) => {}
            (block, other) => panic!("bit {bit} of block {block:?}: {other:?}"),
        }
        flipped[bit / 8] ^= 1 << (bit % 8);
    }
}

#[test]
fn a_damaged_column_leaves_the_others() {
    let (_, bytes) = file(4, 50, 50);
    let segment = Segment::open(&bytes).unwrap();
    let mut block = Block::new();
    segment.read_block(0, &mut block).unwrap();
    let first = *block.head().chunks.iter().find(|chunk| chunk.group == 0 && chunk.len > 1).unwrap();
    let type_id = block.head().groups[0].type_id;
    let mut flipped = bytes.clone();
    flipped[(segment.blocks()[0].offset + u64::from(first.offset)) as usize + 1] ^= 1;
    let segment = Segment::open(&flipped).unwrap();
    segment.read_block(0, &mut block).unwrap();
    let (mut decoder, mut values) = (Decoder::new(), ColumnValues::new());
    let count = segment.plan().group(type_id).unwrap().columns().len() as u16;
    let read = (0..count).filter(|column| {
        decoder.column(segment.plan(), &block, (type_id, *column), None, &mut values).is_ok()
    });
    let read = read.count();
    assert!(read < usize::from(count) && read + 12 > usize::from(count), "{read} of {count}");
    let damage = decoder.rows(segment.plan(), &block, &Selection::default(), &mut Rows::new()).unwrap_err();
    assert_eq!(damage.part, DamagedPart::Column { type_id: Some(type_id), column: first.column });
}

#[test]
fn a_cut_file_is_not_a_segment() {
    let (_, bytes) = file(3, 30, 20);
    for end in 0..bytes.len() {
        assert!(matches!(Segment::open(&bytes[..end]), Err(SegmentError::Damaged(_))), "{end} bytes");
    }
}

#[test]
fn single_columns_are_read_alone() {
    let (_, bytes) = file(4, 300, 100);
    let segment = Segment::open(&bytes).unwrap();
    let (mut whole, mut part) = (Block::new(), Block::new());
    let (mut decoder, mut a, mut b) = (Decoder::new(), ColumnValues::new(), ColumnValues::new());
    let mut compared = 0;
    for index in 0..segment.blocks().len() {
        segment.read_block(index, &mut whole).unwrap();
        for group in &whole.head().groups {
            for column in 0..segment.plan().group(group.type_id).unwrap().columns().len().min(8) as u16 {
                segment.read_columns(index, &mut part, |id, at| id == group.type_id && at < 8).unwrap();
                let asked = (group.type_id, column);
                decoder.column(segment.plan(), &whole, asked, None, &mut a).unwrap();
                decoder.column(segment.plan(), &part, asked, None, &mut b).unwrap();
                assert_eq!(a.values(), b.values());
                compared += 1;
            }
        }
    }
    assert!(compared > 8);
}

/// Calls `each` with every block of some files, and all its rows.
fn each_block(mut each: impl FnMut(&Segment<&Vec<u8>>, &Block, &Rows, &mut Decoder)) {
    let (mut block, mut rows, mut decoder) = (Block::new(), Rows::new(), Decoder::new());
    for seed in 0..24 {
        let (_, bytes) = file(seed, 300, 100);
        let segment = Segment::open(&bytes).unwrap();
        for index in 0..segment.blocks().len() {
            segment.read_block(index, &mut block).unwrap();
            decoder.rows(segment.plan(), &block, &Selection::default(), &mut rows).unwrap();
            each(&segment, &block, &rows, &mut decoder);
        }
    }
}

#[test]
fn blocks_are_proved_by_their_content_and_by_the_reference_decoder() {
    let (mut before, mut blocks) = (None, 0);
    each_block(|segment, block, rows, _| {
        assert_eq!(block.check_content(rows), Ok(true));
        assert_eq!(block.check_reference(segment.plan(), rows), Ok(()));
        assert_eq!(block.content_by_reference(segment.plan()).ok(), block.head().content);
        let by_reference = block.rows_by_reference(segment.plan()).unwrap();
        let row = |(row, (header, body)): (usize, &Message)| {
            rows.header(row) == *header && rows.body(row) == &body[..]
        };
        assert!(by_reference.len() == rows.len() && by_reference.iter().enumerate().all(row));
        // The rows of any other block are distinguished from its own.
        let other = Rows::new();
        assert!(block.check_reference(segment.plan(), &other).is_err());
        assert_ne!(before.replace(rows.content()), Some(rows.content()));
        blocks += 1;
    });
    assert!(blocks > 60);
}

#[test]
fn smallest_and_largest_values_are_those_that_heads_tell() {
    let mut altered = 0;
    each_block(|segment, block, _, decoder| {
        assert_eq!(decoder.check_ranges(segment.plan(), block), Ok(()));
        let file = block.bytes().to_vec();
        let chunks = &block.head().chunks;
        for (at, chunk) in chunks.iter().enumerate().filter(|(_, chunk)| chunk.range.is_some()) {
            // Those of lanes tell where rows are: other rows would come of other values.
            if chunk.column >= u16::MAX - 3 {
                continue;
            }
            for of_range in [16, 24] {
                let place = block.head().bytes as usize - (chunks.len() - at) * 32 + of_range;
                let mut bytes = file.clone();
                bytes[place + 1] ^= 0x10;
                tapedb_segment::reseal_block(&mut bytes);
                let mut other = Block::new();
                other.load(&bytes).unwrap();
                assert!(decoder.check_ranges(segment.plan(), &other).is_err(), "{chunk:?}");
                altered += 1;
            }
        }
    });
    assert!(altered > 1_000, "{altered}");
}
