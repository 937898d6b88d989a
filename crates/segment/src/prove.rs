//! Proves that a block matches its source: it is decoded again, as readers do it, and compared.
//!
//! The decoded bytes are those that go to the file. [`Proof`] proves later that the file has these bytes.

use crate::block::Block;
use crate::damage::{Damage, DamagedPart, Flaw};
use crate::decoder::{Decoder, Selection};
use crate::error::SegmentError;
use crate::format::BlockEntry;
use crate::head::{Head, lanes};
use crate::mismatch::Mismatch;
use crate::plan::Plan;
use crate::rows::Rows;
use crate::segment::{ReadAt, Segment};
use crate::simd::widest;
use crate::source::Source;

/// Decodes blocks and compares them with their source. Reuses its memory from block to block.
#[derive(Debug, Default)]
pub(crate) struct Prover {
    block: Block,
    decoder: Decoder,
    rows: Rows,
    listed: ListedTimes,
}

impl Prover {
    /// Whether a block is decoded to the rows of `source`, and has the right facts about them.
    ///
    /// # Errors
    /// The difference, as text.
    pub fn prove(&mut self, plan: &Plan, bytes: &mut Vec<u8>, source: Source<'_>) -> Result<(), String> {
        std::mem::swap(&mut self.block.bytes, bytes);
        let compared = self.compare(plan, source);
        std::mem::swap(&mut self.block.bytes, bytes);
        compared
    }

    /// The head of the block that was proved last.
    pub fn head(&self) -> &Head {
        self.block.head()
    }

    fn compare(&mut self, plan: &Plan, source: Source<'_>) -> Result<(), String> {
        let Self { block, decoder, rows, listed } = self;
        block.place = None;
        block.parse().map_err(refused)?;
        compare_head(block.head(), source)?;
        match decoder.compare_bodies(plan, block, source.bodies, rows).map_err(refused)? {
            Some(true) if has_headers(rows, source) => {}
            Some(_) => {
                // Once more, to name the row that is different.
                decoder.rows(plan, block, &Selection::default(), rows).map_err(refused)?;
                compare_rows(rows, source)?;
                return Err("its bodies are different when they are compared in pieces".into());
            }
            None => compare_rows(rows, source)?,
        }
        compare_bounds(block.head(), rows)?;
        listed.compare(block, decoder, rows)
    }

    /// The same for a block of a file, whose rows have the checksum of its content: whether all its other facts are right.
    ///
    /// # Errors
    /// The difference, as text.
    pub fn prove_copy(&mut self, block: &Block, rows: &Rows) -> Result<(), String> {
        let times = rows.times().first().copied().zip(rows.times().last().copied()).unwrap_or_default();
        compare_sizes(block.head(), (rows.len(), rows.all_bodies().len()), times)?;
        compare_bounds(block.head(), rows)?;
        self.listed.compare(block, &mut self.decoder, rows)
    }
}

fn refused(damage: Damage) -> String {
    format!("it cannot be decoded: {damage}")
}

/// Compares the times that some groups list a second time, and that are not used for rows.
#[derive(Debug, Default)]
struct ListedTimes {
    /// By the position of a row in the order of lanes: as many as a block can have.
    times: Vec<i64>,
    group: Vec<i64>,
}

impl ListedTimes {
    /// `rows` are all rows of the block.
    fn compare(&mut self, block: &Block, decoder: &mut Decoder, rows: &Rows) -> Result<(), String> {
        let groups = 0..block.head().groups.len() as u16;
        let is_listed = |group: &u16| block.head().chunk(*group, lanes::TIME).is_some();
        let listed = groups.clone().filter(is_listed).count();
        if listed == 0 {
            return Ok(());
        }
        let Self { times, group: of_group } = self;
        times.resize(PLACES, 0);
        if listed < groups.len() {
            // Groups without a list are right.
            let places = rows.homes.iter().map(|home| usize::from(*home as u16));
            places.zip(&rows.times).for_each(|(place, time)| times[place] = *time);
        }
        for group in groups.filter(is_listed) {
            let start = decoder.listed_times(block, group, of_group).map_err(refused)?;
            times[start..start + of_group.len()].copy_from_slice(of_group);
        }
        match is_listed_alike(rows, times) {
            true => Ok(()),
            false => Err("the times by symbol are different".into()),
        }
    }
}

/// Number of rows that a position can distinguish.
const PLACES: usize = 1 << 16;

fn is_listed_alike(rows: &Rows, listed: &[i64]) -> bool {
    // Of constant length, so that no position is after its end.
    let Some(listed) = listed.first_chunk::<PLACES>() else { return false };
    let differing = widest(
        #[inline(always)]
        || {
            let pairs = rows.times.iter().zip(&rows.homes);
            pairs.fold(0, |bits, (time, home)| bits | (time ^ listed[usize::from(*home as u16)]))
        },
    );
    differing == 0 && rows.homes.len() == rows.times.len()
}

fn compare_head(head: &Head, source: Source<'_>) -> Result<(), String> {
    compare_sizes(head, (source.len(), source.bodies.len()), source.times_of_ends())
}

fn compare_sizes(head: &Head, (rows, body_bytes): (usize, usize), times: (i64, i64)) -> Result<(), String> {
    let is_same = (head.count as usize, head.body_bytes as usize) == (rows, body_bytes)
        && (head.time_min, head.time_max) == times;
    match is_same {
        true => Ok(()),
        false => Err("its head has other rows, bytes or times".into()),
    }
}

/// Compares the smallest and largest sequence numbers with those of `rows`, which are right.
fn compare_bounds(head: &Head, rows: &Rows) -> Result<(), String> {
    let bounds = match rows.first_sequence {
        // All of them count up.
        Some(first) => Some((first, first.wrapping_add((rows.len() as u64).saturating_sub(1)))),
        None => {
            let sequences = || rows.sequences.iter().map(|sequence| *sequence as u64);
            sequences().min().zip(sequences().max())
        }
    };
    match bounds == Some((head.sequence_min, head.sequence_max)) {
        true => Ok(()),
        false => Err("its head has other sequence numbers".into()),
    }
}

/// Compares all rows, their order and their bodies.
pub(crate) fn compare_rows(rows: &Rows, source: Source<'_>) -> Result<(), String> {
    if rows.len() != source.len() {
        return Err(format!("it is decoded to {} rows of {}", rows.len(), source.len()));
    }
    match has_headers(rows, source) && rows.all_bodies() == source.bodies {
        true => Ok(()),
        false => Err(first_difference(rows, source)),
    }
}

/// Compares everything but the contents of bodies.
fn has_headers(rows: &Rows, source: Source<'_>) -> bool {
    rows.times == source.times
        && has_sequences(rows, source.sequences)
        && has_lanes(rows, source)
        && has_lengths(rows, source.ends)
}

fn has_sequences(rows: &Rows, source: &[u64]) -> bool {
    let differing = match rows.first_sequence {
        Some(first) => {
            let pairs = source.iter().zip(0..);
            pairs.fold(0, |bits, (sequence, row): (_, u64)| bits | (sequence ^ first.wrapping_add(row)))
        }
        None if rows.sequences.len() != source.len() => return false,
        None => source.iter().zip(&rows.sequences).fold(0, |bits, (a, b)| bits | (a ^ *b as u64)),
    };
    differing == 0
}

/// Compares symbols and types.
fn has_lanes(rows: &Rows, source: Source<'_>) -> bool {
    let differs = |(type_id, symbol): (u16, u32), (a, b): (&u16, &u32)| u32::from(type_id ^ a) | (symbol ^ b);
    let pairs = || source.types.iter().zip(source.symbols);
    let differing = match rows.lanes[..] {
        [lane] => pairs().fold(0, |bits, row| bits | differs(lane, row)),
        _ => {
            let lanes = rows.homes.iter().map(|home| rows.lanes[(home >> 16) as usize]);
            lanes.zip(pairs()).fold(0, |bits, (lane, row)| bits | differs(lane, row))
        }
    };
    differing == 0 && rows.homes.len() == source.len()
}

fn has_lengths(rows: &Rows, ends: &[u32]) -> bool {
    match rows.stride {
        Some(stride) => {
            let mut need = 0u32;
            let differing = ends.iter().fold(0, |bits, end| {
                need = need.wrapping_add(stride);
                bits | (need ^ end)
            });
            differing == 0
        }
        None => rows.starts.get(1..) == Some(ends),
    }
}

/// Describes the first row that is different.
#[cold]
fn first_difference(rows: &Rows, source: Source<'_>) -> String {
    for row in 0..source.len() {
        let (given, need) = (rows.header(row), source.header(row));
        if given != need {
            return format!("row {row} of sequence number {} is {given:?}, not {need:?}", need.sequence);
        }
        if rows.body(row) != source.body(row) {
            let (have, length) = (rows.body(row).len(), source.body(row).len());
            return format!(
                "row {row} of sequence number {} has another body, of {have} bytes, not {length}",
                need.sequence
            );
        }
    }
    "its rows are different".into()
}

/// The expected content of a segment's file: the proved facts of each block.
#[derive(Debug, Default)]
pub struct Proof {
    /// Entry and checksum of the head of each block. The head has the checksums of all columns.
    pub(crate) blocks: Vec<(BlockEntry, u32)>,
    /// The first block that had to be written plainly.
    pub mismatch: Option<Box<Mismatch>>,
}

impl Proof {
    /// Compares a file, as it is read back, with what was written.
    ///
    /// # Errors
    /// [`SegmentError::Damaged`] where it is not what was written; [`SegmentError::Io`].
    pub fn confirm<R: ReadAt>(&self, segment: &Segment<R>) -> Result<(), SegmentError> {
        let (need, have) = (self.blocks.len() as u64, segment.blocks().len() as u64);
        if need != have {
            let flaw = Flaw::Mismatch { what: "blocks in the file read back", need, have };
            return Err(Damage::new(DamagedPart::Footer, 0, flaw).into());
        }
        let mut block = Block::new();
        for (index, (entry, crc)) in self.blocks.iter().enumerate() {
            segment.read_block(index, &mut block)?;
            let is_same = segment.blocks()[index] == *entry && block.head_crc() == *crc;
            if !is_same {
                let (need, have) = (u64::from(*crc), u64::from(block.head_crc()));
                return Err(block.head_damage("checksum of a head read back", need, have).into());
            }
            if let Some(damage) = block.damaged_columns().first() {
                return Err((*damage).into());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::{BlockBuilder, BlockOptions};
    use crate::canonical::Canonicity;
    use crate::fault::with_fault;
    use crate::format::SegmentHeader;
    use crate::mismatch::Dump;
    use crate::reseal::reseal_block;
    use crate::row::RowHeader;
    use crate::source::RowBuffer;
    use crate::writer::{SegmentWriter, Written};
    use tapedb_codec::dynamic::Layouts;

    type Message = (RowHeader, Vec<u8>);
    type MakeWrong = fn(&mut Vec<Message>);
    const ROWS: usize = 100;

    fn plan() -> Plan {
        let schema = "message A { price: i64, size: u32? }\nmessage B { note: string }";
        Plan::new(Layouts::new(schema.parse().unwrap()).unwrap())
    }

    /// Some of two types and five symbols; every seventh body is of no type, some are empty.
    fn messages(count: u64) -> Vec<Message> {
        let layouts = plan().layouts().clone();
        let message = |i: u64| {
            let json = match i % 2 {
                0 => format!(r#"{{"$type": "A", "price": {}, "size": {}}}"#, i * i, i % 3),
                _ => format!(r#"{{"$type": "B", "note": "note {}"}}"#, i % 10),
            };
            let mut body = Vec::new();
            match i % 7 {
                6 => body.resize(i as usize % 3, 0xff),
                _ => layouts.encode(&layouts.from_json(&json).unwrap(), &mut body).unwrap(),
            }
            let (time, sequence) = (i as i64 / 3 * 1_000_000_007, i * 2 + 5);
            (RowHeader { time, sequence, symbol: (i * i % 5) as u32 * 1_000, type_id: (i % 2) as u16 }, body)
        };
        (0..count).map(message).collect()
    }

    fn block_of(messages: &[Message]) -> Vec<u8> {
        let (mut builder, mut bytes) = (BlockBuilder::new(BlockOptions::default()), Vec::new());
        messages.iter().for_each(|(row, body)| builder.push(*row, body).unwrap());
        builder.finish(&plan(), &mut bytes);
        bytes
    }

    fn first_sequence(bytes: &[u8]) -> u64 {
        let mut block = Block::new();
        block.load(bytes).unwrap();
        block.head().sequence_min
    }

    fn write(messages: &[Message]) -> Result<(Vec<u8>, Written, Proof), SegmentError> {
        let options = BlockOptions { rows: ROWS, ..BlockOptions::default() };
        let mut writer = SegmentWriter::new(Vec::new(), plan(), &SegmentHeader::default(), options)?;
        for (row, body) in messages {
            writer.push(*row, body)?;
        }
        writer.finish_with_proof()
    }

    fn read(bytes: &[u8], selection: &Selection<'_>) -> Vec<Message> {
        let segment = Segment::open(bytes).unwrap();
        let (mut block, mut decoder, mut rows) = (Block::new(), Decoder::new(), Rows::new());
        let mut found = Vec::new();
        for index in 0..segment.blocks().len() {
            segment.read_selected(index, &mut block, selection).unwrap();
            decoder.rows(segment.plan(), &block, selection, &mut rows).unwrap();
            found.extend((0..rows.len()).map(|row| (rows.header(row), rows.body(row).to_vec())));
        }
        found
    }

    /// Faults: each changes the messages of a block.
    fn wrongs() -> [(&'static str, MakeWrong); 9] {
        [
            ("2^32 ns early", |rows| rows[50..].iter_mut().for_each(|row| row.0.time -= 1 << 32)),
            ("last time", |rows| rows[ROWS - 1].0.time += 1),
            ("sequence number", |rows| rows[ROWS - 1].0.sequence += 1),
            ("symbol", |rows| rows[40].0.symbol += 1),
            ("type", |rows| rows[40].0.type_id ^= 1),
            ("body", |rows| *rows[41].1.last_mut().unwrap() ^= 0x80),
            ("length of a body", |rows| rows[41].1.push(0)),
            ("order of equal times", |rows| {
                let body = std::mem::take(&mut rows[60].1);
                rows[60].1 = std::mem::replace(&mut rows[61].1, body);
            }),
            ("missing row", |rows| drop(rows.remove(70))),
        ]
    }

    #[test]
    fn blocks_that_are_decoded_wrongly_are_written_plainly() {
        let messages = messages(3 * ROWS as u64);
        for (name, make_wrong) in wrongs() {
            let mut wrong = messages[ROWS..2 * ROWS].to_vec();
            make_wrong(&mut wrong);
            // 2^32 ns early is wrong only where times still ascend.
            wrong.sort_by_key(|(row, _)| (row.time, row.sequence));
            let wrong = block_of(&wrong);
            let fault = move |is_plain: bool, block: &mut Vec<u8>| {
                let is_second = first_sequence(block) == 205;
                assert!(is_second || !is_plain, "no other block is plain");
                if is_second && !is_plain {
                    *block = wrong.clone();
                }
            };
            let (bytes, written, proof) = with_fault(fault, || write(&messages)).unwrap();
            assert_eq!((written.mismatches, written.blocks), (1, 3), "{name}");
            assert!(read(&bytes, &Selection::default()) == messages, "{name}: nothing is lost");
            proof.confirm(&Segment::open(&bytes).unwrap()).unwrap();
            let mismatch = proof.mismatch.unwrap();
            assert_eq!((mismatch.block, mismatch.sequences), (1, (205, 403)), "{name}: {mismatch}");
            let dump = Dump::read(&mismatch.dump).unwrap();
            assert!(dump.rows == messages[ROWS..2 * ROWS], "{name}");
            assert!(dump.schema.contains("message A") && dump.what == mismatch.what);
        }
    }

    /// Blocks of one record type, whose fields lie side by side: their bodies are compared a few at a time.
    #[test]
    fn one_wrong_field_is_found_wherever_it_is() {
        const COUNT: usize = 3_000;
        let layouts =
            Layouts::new("message M { price: i64, size: u8, volume: u32 }".parse().unwrap()).unwrap();
        let plan = Plan::new(layouts);
        let message = |i: u64| {
            let mut body = (i as i64 / 3).to_le_bytes().to_vec();
            body.push(i as u8);
            body.extend((i as u32 * 7).to_le_bytes());
            (RowHeader { time: i as i64 * 1_000, sequence: i, symbol: i as u32 % 3, type_id: 0 }, body)
        };
        let messages: Vec<Message> = (0..COUNT as u64).map(message).collect();
        let write = |messages: &[Message]| {
            let header = SegmentHeader::default();
            let mut writer =
                SegmentWriter::new(Vec::new(), plan.clone(), &header, BlockOptions::default()).unwrap();
            messages.iter().for_each(|(row, body)| writer.push(*row, body).unwrap());
            writer.finish_with_proof().unwrap()
        };
        let (_, written, _) = write(&messages);
        assert_eq!((written.blocks, written.mismatches), (1, 0));
        // The end of the first piece and the beginning of the second, the last row.
        let piece = (1 << 14) / 13;
        for (row, byte) in [(0, 0), (piece - 1, 8), (piece, 0), (piece, 12), (COUNT - 1, 12), (COUNT - 1, 7)]
        {
            let mut wrong = messages.clone();
            wrong[row].1[byte] ^= 1;
            let (mut builder, mut bytes) = (BlockBuilder::new(BlockOptions::default()), Vec::new());
            wrong.iter().for_each(|(row, body)| builder.push(*row, body).unwrap());
            builder.write(&plan, Some(0), Canonicity::Checked, &mut bytes);
            let fault = move |is_plain: bool, block: &mut Vec<u8>| {
                if !is_plain {
                    *block = bytes.clone();
                }
            };
            let (_, written, proof) = with_fault(fault, || write(&messages));
            assert_eq!(written.mismatches, 1, "row {row}, byte {byte}");
            let what = proof.mismatch.unwrap().what;
            assert!(what.contains(&format!("row {row} of sequence number {row} ")), "{what}");
        }
    }

    #[test]
    fn blocks_that_cannot_be_decoded_are_written_plainly_too() {
        let messages = messages(ROWS as u64);
        let cut =
            |is_plain: bool, block: &mut Vec<u8>| block.truncate(if is_plain { block.len() } else { 90 });
        let (bytes, written, proof) = with_fault(cut, || write(&messages)).unwrap();
        assert_eq!(written.mismatches, 1);
        assert!(proof.mismatch.unwrap().what.contains("cannot be decoded"));
        assert!(read(&bytes, &Selection::default()) == messages);
    }

    #[test]
    fn a_block_that_is_wrong_plainly_too_is_not_written() {
        let messages = messages(2 * ROWS as u64);
        let fault = move |_: bool, block: &mut Vec<u8>| {
            if first_sequence(block) > 5 {
                let at = block.len() - 1;
                block[at] ^= 1;
                reseal_block(block);
            }
        };
        match with_fault(fault, || write(&messages)) {
            Err(SegmentError::Unfaithful(mismatch)) => {
                assert_eq!(mismatch.block, 1);
                assert!(Dump::read(&mismatch.dump).unwrap().rows == messages[ROWS..]);
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn times_listed_by_symbol_are_proved_too() {
        let body = 7i64.to_le_bytes();
        let layouts = Layouts::new("message M { price: i64 }".parse().unwrap()).unwrap();
        let mut writer = SegmentWriter::new(
            Vec::new(),
            Plan::new(layouts),
            &SegmentHeader::default(),
            BlockOptions::default(),
        )
        .unwrap();
        for i in 0..1_000 {
            let row = RowHeader { time: i as i64 / 2 * 1_000, sequence: i, symbol: i as u32 % 2, type_id: 0 };
            writer.push(row, &body).unwrap();
        }
        let fault = |is_plain: bool, block: &mut Vec<u8>| {
            let mut head = Head::default();
            head.read(block).unwrap();
            let chunk = head.chunk(0, lanes::TIME).copied();
            assert_eq!(chunk.is_none(), is_plain);
            if let Some(chunk) = chunk {
                block[(chunk.offset + chunk.len) as usize - 1] ^= 1;
                reseal_block(block);
            }
        };
        let (_, written, proof) = with_fault(fault, || writer.finish_with_proof()).unwrap();
        assert_eq!(written.mismatches, 1);
        let what = proof.mismatch.unwrap().what;
        assert!(what.contains("times by symbol") || what.contains("cannot be decoded"), "{what}");
    }

    #[test]
    fn plain_blocks_are_read_in_every_way() {
        let messages = messages(3 * ROWS as u64);
        let wrong =
            |is_plain: bool, block: &mut Vec<u8>| block.truncate(if is_plain { block.len() } else { 0 });
        let (bytes, written, _) = with_fault(wrong, || write(&messages)).unwrap();
        assert_eq!(written.mismatches, 3);
        let selections = [
            Selection::default(),
            Selection { symbols: Some(&[1_000, 4_000]), ..Selection::default() },
            Selection { symbols: Some(&[0]), types: Some(&[1]), ..Selection::default() },
            Selection { from: 20_000_000_000, last: 80_000_000_000, ..Selection::default() },
        ];
        for selection in selections {
            let mut expected = messages.clone();
            expected.retain(|(row, _)| {
                (selection.from..=selection.last).contains(&row.time)
                    && selection.symbols.is_none_or(|symbols| symbols.contains(&row.symbol))
                    && selection.types.is_none_or(|types| types.contains(&row.type_id))
            });
            assert!(!expected.is_empty() && read(&bytes, &selection) == expected, "{selection:?}");
        }
        let segment = Segment::open(&bytes).unwrap();
        let (mut block, mut decoder, mut rows) = (Block::new(), Decoder::new(), Rows::new());
        for index in 0..3 {
            segment.read_block(index, &mut block).unwrap();
            decoder.rows(segment.plan(), &block, &Selection::default(), &mut rows).unwrap();
            assert_eq!(block.check_content(&rows), Ok(true));
        }
        assert!(segment.symbols().map(|(_, count)| count).sum::<u64>() == messages.len() as u64);
    }

    #[test]
    fn the_checksum_of_the_content_finds_every_wrong_decoder() {
        let messages = messages(ROWS as u64);
        let (bytes, _, _) = write(&messages).unwrap();
        let segment = Segment::open(&bytes).unwrap();
        let (mut block, mut decoder, mut rows) = (Block::new(), Decoder::new(), Rows::new());
        segment.read_block(0, &mut block).unwrap();
        let content = block.head().content;
        assert!(content.is_some());
        for (name, make_wrong) in wrongs() {
            let mut wrong = messages.clone();
            make_wrong(&mut wrong);
            wrong.sort_by_key(|(row, _)| (row.time, row.sequence));
            block.load(&block_of(&wrong)).unwrap();
            decoder.rows(&plan(), &block, &Selection::default(), &mut rows).unwrap();
            assert_eq!(block.check_content(&rows), Ok(false), "blocks in memory have none");
            block.head.content = content;
            let damage = block.check_content(&rows).unwrap_err();
            assert!(matches!(damage.flaw, Flaw::Content { .. }), "{name}: {damage}");
        }
    }

    #[test]
    fn a_file_that_is_not_what_was_written_is_not_confirmed() {
        let (bytes, _, proof) = write(&messages(2 * ROWS as u64)).unwrap();
        proof.confirm(&Segment::open(&bytes).unwrap()).unwrap();
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 1 << (at % 8);
            let confirmed = Segment::open(&other).and_then(|segment| proof.confirm(&segment));
            assert!(confirmed.is_err(), "byte {at}");
        }
        // Valid blocks, but other ones.
        let (other, ..) = write(&messages(2 * ROWS as u64 + 1)).unwrap();
        assert!(proof.confirm(&Segment::open(&other).unwrap()).is_err());
        let mut messages = messages(2 * ROWS as u64);
        messages[3].1.push(0);
        let (other, ..) = write(&messages).unwrap();
        assert!(proof.confirm(&Segment::open(&other).unwrap()).is_err());
    }

    #[test]
    fn other_bytes_are_refused_as_a_dump() {
        assert!(Dump::read(b"TAPEDMP").is_err() && Dump::read(b"TAPEDMP2").is_err());
        let dump = Mismatch::new(0, "what".into(), "", RowBuffer::default().source(), &[1]).dump;
        assert_eq!(Dump::read(&dump).unwrap().block, [1]);
        for end in 0..dump.len() {
            assert!(Dump::read(&dump[..end]).is_err());
        }
    }
}
