//! Writes blocks in strands: those of one strand are of the same symbols, so that one symbol of many is in few blocks.
//!
//! Messages that are near each other in time are written together, whatever their strand: a *slice* of up to some hundred thousand
//! messages has a block of each strand, and some slices are a *stripe*, in which the blocks of one strand are neighbours. So a
//! reader of one symbol reads one stretch of each stripe, and a reader of all has one block of each strand in memory.

use super::SegmentWriter;
use crate::block::Block;
use crate::builder::{BlockBuilder, BlockOptions};
use crate::error::SegmentError;
use crate::format::{BlockEntry, STRANDS_MAX, SymbolEntry};
use crate::head::u32_at;
use crate::lanes::Lane;
use crate::row::RowHeader;
use crate::rows::Rows;
use std::io::Write;
use std::mem::{swap, take};

/// How blocks are divided into strands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Strands {
    /// Number of strands; at least 1, at most [`STRANDS_MAX`](crate::STRANDS_MAX).
    pub count: usize,
    /// Messages of a slice.
    pub rows: usize,
    /// Bytes of bodies of a slice.
    pub bytes: usize,
    /// Bytes of a stripe, which is in memory until it is written.
    pub stripe_bytes: usize,
}

impl Default for Strands {
    fn default() -> Self {
        Self { count: 64, rows: 1 << 18, bytes: 16 << 20, stripe_bytes: 4 << 20 }
    }
}

impl Strands {
    /// The strand of a symbol. It is the same in all segments, so that their blocks can be copied.
    pub fn of(&self, symbol: u32) -> usize {
        symbol as usize % self.count
    }
}

/// Blocks that are being filled, and those of the stripe.
#[derive(Debug)]
pub(super) struct Filling {
    strands: Strands,
    builders: Vec<BlockBuilder>,
    /// Of each strand, the key of the last message.
    lasts: Vec<Option<(i64, u64)>>,
    /// Messages and bytes of bodies in the slice.
    rows: usize,
    bytes: usize,
    stripe: Vec<Encoded>,
    stripe_bytes: usize,
}

/// A block that is not written yet.
#[derive(Debug)]
struct Encoded {
    strand: usize,
    /// Without its offset.
    entry: BlockEntry,
    bytes: Vec<u8>,
    symbols: Vec<(u32, u32)>,
}

impl Filling {
    pub fn new(strands: Strands, options: BlockOptions) -> Self {
        let strands = Strands { count: strands.count.clamp(1, STRANDS_MAX), ..strands };
        Self {
            builders: (0..strands.count).map(|_| BlockBuilder::new(options)).collect(),
            lasts: vec![None; strands.count],
            strands,
            rows: 0,
            bytes: 0,
            stripe: Vec::new(),
            stripe_bytes: 0,
        }
    }

    /// Number of blocks that are not written yet.
    pub fn waiting(&self) -> usize {
        self.stripe.len()
    }

    /// Bytes of them.
    pub fn waiting_bytes(&self) -> usize {
        self.stripe_bytes
    }

    fn check_order(&self, strand: usize, given: (i64, u64)) -> Result<(), SegmentError> {
        match self.lasts[strand].filter(|before| given <= *before) {
            Some(before) => Err(SegmentError::OutOfOrder { before, given }),
            None => Ok(()),
        }
    }
}

impl<W: Write> SegmentWriter<W> {
    /// Adds a message to the block of its strand.
    pub(super) fn push_to_strand(
        &mut self,
        filling: &mut Filling,
        row: RowHeader,
        body: &[u8],
    ) -> Result<(), SegmentError> {
        let (given, strand) = ((row.time, row.sequence), filling.strands.of(row.symbol));
        filling.check_order(strand, given)?;
        if filling.rows >= filling.strands.rows || filling.bytes >= filling.strands.bytes {
            self.end_slice(filling)?;
        }
        if filling.builders[strand].is_full() {
            self.end_block(filling, strand)?;
        }
        filling.builders[strand].push(row, body)?;
        filling.lasts[strand] = Some(given);
        filling.rows += 1;
        filling.bytes += body.len();
        Ok(())
    }

    /// Adds a block of another segment that is written in the same strands; `rows` are all its rows. It is copied as it is where
    /// [`SegmentWriter::push_block`] would copy it, however few rows it has. The messages of each strand are given in order of time,
    /// those of different strands in any order.
    ///
    /// # Errors
    /// As [`SegmentWriter::push`].
    ///
    /// # Panics
    /// When the segment is not written in strands.
    pub fn push_strand_block(&mut self, block: &Block, rows: &Rows) -> Result<(), SegmentError> {
        let mut filling = self.filling.take().expect("a segment in strands");
        let pushed = self.push_or_copy(&mut filling, block, rows);
        self.filling = Some(filling);
        pushed
    }

    fn push_or_copy(
        &mut self,
        filling: &mut Filling,
        block: &Block,
        rows: &Rows,
    ) -> Result<(), SegmentError> {
        let Some((_, symbol)) = rows.lanes.first().filter(|_| !rows.is_empty()) else { return Ok(()) };
        let strand = filling.strands.of(*symbol);
        let is_copied = rows.lanes.iter().all(|(_, symbol)| filling.strands.of(*symbol) == strand)
            && self.may_copy(block, rows);
        if !is_copied {
            let mut all = 0..rows.len();
            return all.try_for_each(|row| self.push_to_strand(filling, rows.header(row), rows.body(row)));
        }
        filling.check_order(strand, (rows.times()[0], rows.sequence(0)))?;
        self.end_block(filling, strand)?;
        let last = rows.header(rows.len() - 1);
        filling.lasts[strand] = Some((last.time, last.sequence));
        let lane = |Lane { symbol, count, .. }: Lane| (symbol, count);
        let symbols = super::copy::lanes_of(rows).into_iter().map(lane).collect();
        let (entry, bytes) = (BlockEntry::of(0, block.head()), block.bytes.clone());
        self.copied += 1;
        self.wait(filling, Encoded { strand, entry, bytes, symbols })
    }

    /// Encodes the messages of a strand that are in no block.
    fn end_block(&mut self, filling: &mut Filling, strand: usize) -> Result<(), SegmentError> {
        if filling.builders[strand].is_empty() {
            return Ok(());
        }
        swap(&mut self.builder, &mut filling.builders[strand]);
        // What is learned is of all strands.
        self.builder.swap_learned(&mut filling.builders[strand]);
        let ended = self.encode_in_strand(filling, strand);
        self.builder.swap_learned(&mut filling.builders[strand]);
        swap(&mut self.builder, &mut filling.builders[strand]);
        self.wait(filling, ended?)
    }

    fn encode_in_strand(&mut self, filling: &mut Filling, strand: usize) -> Result<Encoded, SegmentError> {
        let index = self.next_index()?;
        self.encode(index + filling.waiting() as u32)?;
        let symbols = self.builder.last_symbols().collect();
        filling.rows = filling.rows.saturating_sub(self.builder.len());
        filling.bytes = filling.bytes.saturating_sub(self.builder.body_bytes());
        self.builder.clear();
        let (entry, bytes) = (BlockEntry::of(0, self.prover.head()), take(&mut self.bytes));
        Ok(Encoded { strand, entry, bytes, symbols })
    }

    /// Adds a block to the stripe.
    fn wait(&mut self, filling: &mut Filling, encoded: Encoded) -> Result<(), SegmentError> {
        filling.stripe_bytes += encoded.bytes.len();
        filling.stripe.push(encoded);
        if filling.stripe_bytes >= filling.strands.stripe_bytes { self.end_stripe(filling) } else { Ok(()) }
    }

    fn end_slice(&mut self, filling: &mut Filling) -> Result<(), SegmentError> {
        (0..filling.strands.count).try_for_each(|strand| self.end_block(filling, strand))
    }

    /// Writes the blocks of the stripe, those of a strand as neighbours.
    fn end_stripe(&mut self, filling: &mut Filling) -> Result<(), SegmentError> {
        // Those of one strand stay in their order.
        filling.stripe.sort_by_key(|encoded| encoded.strand);
        filling.stripe_bytes = 0;
        for Encoded { strand, entry, bytes, symbols } in filling.stripe.drain(..) {
            let index = self.next_index()?;
            for (symbol, count) in symbols {
                self.symbols.entry(symbol).or_insert_with(|| SymbolEntry::new(symbol)).note(index, count);
            }
            self.strands.push(strand as u16);
            self.append(BlockEntry { offset: self.offset, ..entry }, &bytes)?;
        }
        Ok(())
    }

    /// Writes all blocks.
    pub(super) fn end_strands(&mut self, filling: &mut Filling) -> Result<(), SegmentError> {
        self.end_slice(filling)?;
        self.end_stripe(filling)
    }

    /// Whether a block of another segment matches its rows, and so may be copied.
    fn may_copy(&mut self, block: &Block, rows: &Rows) -> bool {
        rows.proved == Some(block.serial)
            // Bodies may be whole because of a defect that is fixed now.
            && !block.head().groups.iter().all(|group| group.is_whole)
            && u32_at(&block.bytes, 8) as usize + block.head().chunk_bytes as usize == block.bytes.len()
            && self.prover.prove_copy(block, rows).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decoder::{Decoder, Selection};
    use crate::format::SegmentHeader;
    use crate::plan::Plan;
    use crate::segment::Segment;
    use crate::trials::Random;
    use std::collections::BTreeMap;
    use tapedb_codec::dynamic::Layouts;

    fn plan() -> Plan {
        Plan::new(Layouts::new("message M { price: i64 }\nmessage E { }".parse().unwrap()).unwrap())
    }

    fn header() -> SegmentHeader {
        SegmentHeader { next_sequence: u64::MAX, ..SegmentHeader::default() }
    }

    fn writer(strands: Strands) -> SegmentWriter<Vec<u8>> {
        let options = BlockOptions { rows: 40, ..BlockOptions::default() };
        SegmentWriter::in_strands(Vec::new(), plan(), &header(), (options, strands)).unwrap()
    }

    type Message = (RowHeader, Vec<u8>);

    /// In order; some are of the same time, and sequence numbers go back now and then.
    fn messages(random: &mut Random, count: usize, symbols: usize) -> Vec<Message> {
        let message = |sequence: u64, random: &mut Random| {
            let (time, symbol) = (sequence as i64 / 7 * 10 - random.below(40) as i64, random.below(symbols));
            let type_id = u16::from(random.below(5) == 0);
            let body = if type_id == 0 { (sequence * sequence).to_le_bytes().to_vec() } else { Vec::new() };
            (RowHeader { time, sequence, symbol: symbol as u32, type_id }, body)
        };
        let mut messages: Vec<Message> =
            (0..count as u64).map(|sequence| message(sequence, random)).collect();
        messages.sort_by_key(|(row, _)| (row.time, row.sequence));
        messages
    }

    /// All messages, after comparing what the index states with what the blocks have.
    fn read(bytes: &[u8]) -> Vec<Message> {
        let segment = Segment::open(bytes).unwrap();
        let (mut block, mut decoder, mut rows) = (Block::new(), Decoder::new(), Rows::new());
        let (mut found, mut lasts) = (Vec::new(), BTreeMap::new());
        for index in 0..segment.blocks().len() {
            segment.read_block(index, &mut block).unwrap();
            decoder.rows(segment.plan(), &block, &Selection::default(), &mut rows).unwrap();
            assert_eq!(block.check_content(&rows), Ok(true));
            for row in 0..rows.len() {
                let header = rows.header(row);
                let strand = segment.strand_of(index);
                let last = lasts.insert(strand, (header.time, header.sequence));
                assert!(last.is_none_or(|last| last < (header.time, header.sequence)));
                assert!(segment.blocks_of(header.symbol).any(|run| run.contains(&index)));
                found.push((header, rows.body(row).to_vec()));
            }
        }
        found.sort_by_key(|(row, _)| (row.time, row.sequence));
        let times = found.first().zip(found.last()).map(|(first, last)| (first.0.time, last.0.time));
        assert_eq!((segment.time_range(), segment.messages()), (times, found.len() as u64));
        found
    }

    fn strands(random: &mut Random) -> Strands {
        Strands {
            count: random.pick(&[1, 2, 5, 64]),
            rows: random.pick(&[1, 30, 300, 9_000]),
            bytes: random.pick(&[1, 900, 1 << 20]),
            stripe_bytes: random.pick(&[1, 2_000, 1 << 20]),
        }
    }

    #[test]
    fn every_message_is_in_the_block_of_its_strand() {
        for seed in 0..24 {
            let random = &mut Random::new(seed);
            let (count, symbols) = (random.below(2_000), 1 + random.below(90));
            let (messages, strands) = (messages(random, count, symbols), strands(random));
            let mut writer = writer(strands);
            messages.iter().for_each(|(row, body)| writer.push(*row, body).unwrap());
            let (bytes, written, proof) = writer.finish_with_proof().unwrap();
            assert_eq!((written.bytes, written.messages), (bytes.len() as u64, count as u64));
            proof.confirm(&Segment::open(&bytes).unwrap()).unwrap();
            assert!(read(&bytes) == messages, "seed {seed}, {strands:?}");
        }
    }

    #[test]
    fn blocks_are_copied_from_one_segment_after_the_other() {
        for seed in 0..16 {
            let random = &mut Random::new(seed);
            let (all, of) = (messages(random, 1_500, 40), strands(random));
            let (mut merged, mut blocks) = (writer(of), 0);
            for part in all.chunks(500) {
                // Between them once in a while messages that are in no segment.
                if random.below(4) == 0 {
                    part.iter().for_each(|(row, body)| merged.push(*row, body).unwrap());
                    continue;
                }
                let mut one = writer(of);
                part.iter().for_each(|(row, body)| one.push(*row, body).unwrap());
                let bytes = one.finish().unwrap().0;
                let segment = Segment::open(&bytes).unwrap();
                let (mut block, mut decoder, mut rows) = (Block::new(), Decoder::new(), Rows::new());
                for index in 0..segment.blocks().len() {
                    segment.read_block(index, &mut block).unwrap();
                    decoder.rows(segment.plan(), &block, &Selection::default(), &mut rows).unwrap();
                    block.prove_rows(segment.plan(), &mut rows).unwrap();
                    merged.push_strand_block(&block, &rows).unwrap();
                    blocks += 1;
                }
            }
            let (bytes, written, proof) = merged.finish_with_proof().unwrap();
            proof.confirm(&Segment::open(&bytes).unwrap()).unwrap();
            assert_eq!(written.copied, blocks, "seed {seed}");
            assert!(read(&bytes) == all, "seed {seed}");
        }
    }

    #[test]
    fn a_strand_is_in_order() {
        let mut writer = writer(Strands { count: 2, ..Strands::default() });
        let row = |time, symbol| RowHeader { time, sequence: time as u64, symbol, type_id: 1 };
        writer.push(row(5, 0), &[]).unwrap();
        // Another strand.
        writer.push(row(3, 1), &[]).unwrap();
        let late = writer.push(row(4, 2), &[]);
        assert!(matches!(late, Err(SegmentError::OutOfOrder { .. })), "{late:?}");
        assert_eq!(read(&writer.finish().unwrap().0).len(), 2);
    }

    /// Every flipped bit of the end is found, and all blocks are found without it.
    #[test]
    fn strands_are_found_without_the_footer() {
        let random = &mut Random::new(7);
        let messages = messages(random, 600, 30);
        let mut writer = writer(Strands { count: 8, rows: 150, bytes: 1 << 20, stripe_bytes: 3_000 });
        messages.iter().for_each(|(row, body)| writer.push(*row, body).unwrap());
        let bytes = writer.finish().unwrap().0;
        let whole = Segment::open(&bytes).unwrap();
        let end = whole.blocks().last().map_or(0, |last| last.offset + u64::from(last.len));
        for at in end as usize..bytes.len() {
            let mut broken = bytes.clone();
            broken[at] ^= 1 << (at % 8);
            let Err(SegmentError::Damaged(_)) = Segment::open(&broken) else { panic!("byte {at}") };
            let (found, damaged) = Segment::salvage(&broken, &header(), &plan()).unwrap();
            assert_eq!((found.messages(), damaged.len()), (600, 1), "byte {at}");
            assert_eq!(found.blocks(), whole.blocks());
            let mut lasts = vec![i64::MIN; found.strand_count()];
            for (index, block) in found.blocks().iter().enumerate() {
                assert!(lasts[found.strand_of(index)] < block.time_min);
                lasts[found.strand_of(index)] = block.time_max;
            }
        }
    }
}
