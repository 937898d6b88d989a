//! Copies blocks of other segments.
//!
//! A block that was proved when it was written, and whose rows have the checksum of their content, matches its source.
//! To encode its rows again gives hardly other bytes, and costs encoding and a second proof. So merging copies blocks that are
//! at least half full, and encodes only the rest between them.

use super::SegmentWriter;
use crate::block::Block;
use crate::error::SegmentError;
use crate::format::{BlockEntry, SymbolEntry};
use crate::lanes::Lane;
use crate::rows::Rows;
use std::io::Write;

impl<W: Write> SegmentWriter<W> {
    /// Adds the rows of a block of another segment, which has the same schema and symbols and is of the same tier. `rows` are all
    /// rows of the block.
    ///
    /// The block goes into the file as it is if it is at least half full and [`Block::prove_rows`] has compared `rows` with the
    /// checksum of its content. Otherwise its rows are encoded again, as [`Self::push`] does.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub fn push_block(&mut self, block: &Block, rows: &Rows) -> Result<(), SegmentError> {
        if rows.is_empty() {
            return Ok(());
        }
        if self.filling.is_some() {
            return self.push_rows(rows, None);
        }
        let lanes = rows.lanes.len();
        let is_copied = rows.proved == Some(block.serial)
            && self.builder.is_half_full(rows.len(), rows.all_bodies().len(), lanes)
            // Bodies may be whole because of a defect that is fixed now.
            && !block.head().groups.iter().all(|group| group.is_whole)
            && self.prover.prove_copy(block, rows).is_ok();
        let left = self.builder.len();
        if !is_copied {
            return self.push_rows(rows, None);
        }
        if left > 0 && !self.builder.is_itself_half_full() {
            // Few rows remain: with the next block they make one, or two that are half full where one cannot hold them.
            let half = (left + rows.len()).div_ceil(2);
            let bytes = (self.builder.body_bytes() + rows.all_bodies().len()).div_ceil(2);
            return self.push_rows(rows, self.builder.is_half_full(half, bytes, lanes).then_some(half));
        }
        self.check_order((rows.times()[0], rows.sequence(0)))?;
        self.write_block()?;
        self.copy(block, rows)
    }

    /// Encodes rows again. `end`: the block being filled ends when it has so many.
    fn push_rows(&mut self, rows: &Rows, end: Option<usize>) -> Result<(), SegmentError> {
        for row in 0..rows.len() {
            self.push(rows.header(row), rows.body(row))?;
            if end == Some(self.builder.len()) {
                self.write_block()?;
            }
        }
        Ok(())
    }

    /// Writes the bytes of a block. None is being filled.
    fn copy(&mut self, block: &Block, rows: &Rows) -> Result<(), SegmentError> {
        let index = self.next_index()?;
        for Lane { symbol, count, .. } in lanes_of(rows) {
            self.symbols.entry(symbol).or_insert_with(|| SymbolEntry::new(symbol)).note(index, count);
        }
        self.copied += 1;
        let last = rows.header(rows.len() - 1);
        self.last = Some((last.time, last.sequence));
        self.append(BlockEntry::of(self.offset, block.head()), &block.bytes)
    }
}

/// The lanes of a block and how many rows each has.
pub(super) fn lanes_of(rows: &Rows) -> Vec<Lane> {
    let lane = |&(type_id, symbol): &(u16, u32)| Lane { type_id, symbol, count: 0 };
    let mut lanes: Vec<Lane> = rows.lanes.iter().map(lane).collect();
    match &mut lanes[..] {
        [lane] => lane.count = rows.len() as u32,
        lanes => rows.homes.iter().for_each(|home| lanes[(home >> 16) as usize].count += 1),
    }
    lanes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::BlockOptions;
    use crate::decoder::{Decoder, Selection};
    use crate::format::SegmentHeader;
    use crate::plan::Plan;
    use crate::reseal::reseal_block;
    use crate::row::RowHeader;
    use crate::segment::Segment;
    use crate::writer::Written;
    use std::ops::Range;
    use tapedb_codec::dynamic::Layouts;

    /// Rows that make a block full.
    const ROWS: usize = 100;

    fn plan() -> Plan {
        Plan::new(Layouts::new("message M { price: i64 }".parse().unwrap()).unwrap())
    }

    fn writer(rows: usize) -> SegmentWriter<Vec<u8>> {
        let options = BlockOptions { rows, ..BlockOptions::default() };
        SegmentWriter::new(Vec::new(), plan(), &SegmentHeader::default(), options).unwrap()
    }

    /// Two symbols in turn at even steps, so that their times are listed.
    fn message(i: u64) -> (RowHeader, Vec<u8>) {
        let row = RowHeader { time: i as i64 / 2 * 1_000, sequence: i, symbol: i as u32 % 2, type_id: 0 };
        (row, (i * i).to_le_bytes().to_vec())
    }

    fn push(writer: &mut SegmentWriter<Vec<u8>>, messages: Range<u64>) {
        messages.map(message).for_each(|(row, body)| writer.push(row, &body).unwrap());
    }

    /// A segment of one block of some messages.
    fn segment_of(messages: Range<u64>) -> Vec<u8> {
        let mut writer = writer(60_000);
        push(&mut writer, messages);
        writer.finish().unwrap().0
    }

    fn load(file: &[u8], change: impl FnOnce(&mut Vec<u8>)) -> (Block, Rows) {
        let segment = Segment::open(file).unwrap();
        let (mut block, mut rows) = (Block::new(), Rows::new());
        segment.read_block(0, &mut block).unwrap();
        change(&mut block.bytes);
        block.parse().unwrap();
        Decoder::new().rows(segment.plan(), &block, &Selection::default(), &mut rows).unwrap();
        (block, rows)
    }

    /// Pushes a block of some messages, as merging does.
    fn push_block_of(writer: &mut SegmentWriter<Vec<u8>>, messages: Range<u64>) -> Result<(), SegmentError> {
        let (block, mut rows) = load(&segment_of(messages), |_| {});
        block.prove_rows(&plan(), &mut rows).unwrap();
        writer.push_block(&block, &rows)
    }

    /// Finishes a segment, which must have the first messages; returns the rows of each block.
    fn finish(writer: SegmentWriter<Vec<u8>>) -> (Written, Vec<u32>) {
        let (bytes, written, proof) = writer.finish_with_proof().unwrap();
        let segment = Segment::open(&bytes).unwrap();
        proof.confirm(&segment).unwrap();
        let (mut block, mut decoder, mut rows) = (Block::new(), Decoder::new(), Rows::new());
        let mut next = 0;
        for index in 0..segment.blocks().len() {
            segment.read_block(index, &mut block).unwrap();
            decoder.rows(segment.plan(), &block, &Selection::default(), &mut rows).unwrap();
            assert_eq!(block.check_content(&rows), Ok(true));
            for row in 0..rows.len() {
                let (header, body) = message(next);
                assert_eq!((rows.header(row), rows.body(row)), (header, &body[..]));
                next += 1;
            }
        }
        assert_eq!((written.messages, written.mismatches), (next, 0));
        let counts = segment.symbols().map(|(_, count)| count);
        assert_eq!(counts.collect::<Vec<_>>(), [next.div_ceil(2), next / 2]);
        (written, segment.blocks().iter().map(|entry| entry.count).collect())
    }

    #[test]
    fn blocks_that_are_half_full_are_copied_and_others_encoded() {
        let mut writer = writer(ROWS);
        push_block_of(&mut writer, 0..100).unwrap();
        push_block_of(&mut writer, 100..150).unwrap();
        // Too few: encoded, the two small ones into one that is half full, which is not made larger.
        push_block_of(&mut writer, 150..199).unwrap();
        push_block_of(&mut writer, 199..230).unwrap();
        push_block_of(&mut writer, 230..330).unwrap();
        // Ten rows before a full block: two blocks of 55.
        push_block_of(&mut writer, 330..340).unwrap();
        push_block_of(&mut writer, 340..440).unwrap();
        push_block_of(&mut writer, 440..500).unwrap();
        push(&mut writer, 500..520);
        // Twenty rows before a block that is half full: one block of 75.
        push_block_of(&mut writer, 520..575).unwrap();
        push_block_of(&mut writer, 575..675).unwrap();
        let (written, blocks) = finish(writer);
        assert_eq!(blocks, [100, 50, 80, 100, 55, 55, 60, 75, 100]);
        assert_eq!(written.copied, 5);
    }

    #[test]
    fn blocks_of_many_symbols_are_half_full_when_they_have_more_rows() {
        let writer = writer(16_384);
        let half = |rows, lanes| writer.builder.is_half_full(rows, 0, lanes);
        assert!(half(8_192, 128) && !half(8_191, 128));
        assert!(!half(8_192, 129) && !half(32_767, 30_000) && half(32_768, 30_000));
        assert!(
            writer.builder.is_half_full(100, 1 << 19, 1)
                && !writer.builder.is_half_full(100, (1 << 19) - 1, 1)
        );
    }

    #[test]
    fn only_what_was_proved_is_copied() {
        // So many that the times of each symbol are listed.
        let file = segment_of(0..2 * ROWS as u64);
        // The rows have not been compared.
        let (block, rows) = load(&file, |_| {});
        let mut unproved = writer(ROWS);
        unproved.push_block(&block, &rows).unwrap();
        assert_eq!(finish(unproved).0.copied, 0);
        // They are those of a block that was loaded before.
        let (mut block, mut rows) = load(&file, |_| {});
        block.prove_rows(&plan(), &mut rows).unwrap();
        block.parse().unwrap();
        let mut earlier = writer(ROWS);
        earlier.push_block(&block, &rows).unwrap();
        assert_eq!(finish(earlier).0.copied, 0);
        // The rows are right, but other facts of the block are not.
        type Change = fn(&mut Vec<u8>);
        let changes: [(Change, bool); 4] = [
            (|_| {}, true),
            // The largest sequence number.
            (|bytes| bytes[56] ^= 1 << 7, false),
            // The last time.
            (|bytes| bytes[41] ^= 1 << 7, false),
            // The times that are listed by symbol.
            (
                |bytes| {
                    let mut head = crate::head::Head::default();
                    head.read(bytes).unwrap();
                    let chunk = *head.chunk(0, crate::head::lanes::TIME).unwrap();
                    bytes[(chunk.offset + chunk.len) as usize - 1] ^= 1;
                },
                false,
            ),
        ];
        for (nth, (change, is_copied)) in changes.into_iter().enumerate() {
            let (block, mut rows) = load(&file, |bytes| {
                change(bytes);
                reseal_block(bytes);
            });
            block.prove_rows(&plan(), &mut rows).unwrap();
            let mut writer = writer(ROWS);
            writer.push_block(&block, &rows).unwrap();
            assert_eq!(finish(writer).0.copied, u64::from(is_copied), "change {nth}");
        }
        // Another row than was written.
        let (block, mut rows) = load(&file, |_| {});
        rows.times[3] += 1;
        assert!(block.prove_rows(&plan(), &mut rows).is_err() && rows.proved.is_none());
    }

    #[test]
    fn blocks_are_copied_in_order_alone() {
        let mut writer = writer(ROWS);
        push_block_of(&mut writer, 0..100).unwrap();
        let again = push_block_of(&mut writer, 0..100);
        assert!(matches!(again, Err(SegmentError::OutOfOrder { .. })), "{again:?}");
        push_block_of(&mut writer, 100..200).unwrap();
        assert_eq!(finish(writer).1, [100, 100]);
    }
}
