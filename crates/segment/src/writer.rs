//! Writes a segment from front to back.

mod copy;
mod strands;

use crate::builder::{BlockBuilder, BlockOptions, Learned};
use crate::canonical::Canonicity;
use crate::error::SegmentError;
use crate::fault;
use crate::format::{
    BLOCKS_MAX, BlockEntry, Index, SCHEMA_BYTES_MAX, SegmentHeader, SymbolEntry, Trailer, write_footer,
};
use crate::head::{BODY_BYTES_MAX, crc32c, u32_at};
use crate::mismatch::Mismatch;
use crate::plan::Plan;
use crate::prove::{Proof, Prover};
use crate::row::RowHeader;
use crate::source::{ColumnRun, RowRun};
use std::collections::BTreeMap;
use std::io::Write;
use strands::Filling;
pub use strands::Strands;

/// Writes messages in order of time into a segment. In memory are one block and the index of those before:
/// 64 bytes for each block, and some for each symbol and run of blocks that have it.
///
/// Each block is decoded again before it is written, as readers do it, and compared with the messages that it was made from.
/// If they differ, it is encoded again in the plainest way, and proved again; [`Written::mismatches`] counts that.
///
/// A file is a segment when its end is there: write to a temporary name, [`SegmentWriter::finish`], sync, rename. A file without
/// an end, as a crash leaves it, is refused by [`Segment::open`](crate::Segment::open).
#[derive(Debug)]
pub struct SegmentWriter<W> {
    out: W,
    plan: Plan,
    builder: BlockBuilder,
    /// Where blocks are in strands.
    filling: Option<Box<Filling>>,
    last: Option<(i64, u64)>,
    /// Bytes written.
    offset: u64,
    blocks: Vec<BlockEntry>,
    /// The strand of each block, if they are in strands.
    strands: Vec<u16>,
    symbols: BTreeMap<u32, SymbolEntry>,
    messages: u64,
    bytes: Vec<u8>,
    prover: Prover,
    mismatches: u64,
    copied: u64,
    proof: Proof,
}

/// The result of a writer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Written {
    /// Bytes of the file.
    pub bytes: u64,
    /// Messages.
    pub messages: u64,
    /// Blocks.
    pub blocks: u64,
    /// Blocks among them that were not decoded to what they were made from, and are encoded plainly for that.
    pub mismatches: u64,
    /// Blocks among them that were copied from other segments.
    pub copied: u64,
}

impl<W: Write> SegmentWriter<W> {
    /// Writes the header. Gather small writes in `out` yourself if blocks are small; there is one write for each.
    ///
    /// # Errors
    /// [`SegmentError::Io`], and [`SegmentError::Full`] if the schema's text is too long.
    pub fn new(
        out: W,
        plan: Plan,
        header: &SegmentHeader,
        options: BlockOptions,
    ) -> Result<Self, SegmentError> {
        Self::begin(out, plan, header, options, None)
    }

    /// [`Self::new`] for blocks in strands, each of symbols of its own: so that the messages of one symbol of many are in few blocks.
    /// Blocks of different strands overlap in time, and a reader of all merges them. In memory is a block of each strand, and a
    /// stripe of encoded ones.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn in_strands(
        out: W,
        plan: Plan,
        header: &SegmentHeader,
        (options, strands): (BlockOptions, Strands),
    ) -> Result<Self, SegmentError> {
        Self::begin(out, plan, header, options, Some(Box::new(Filling::new(strands, options))))
    }

    fn begin(
        mut out: W,
        plan: Plan,
        header: &SegmentHeader,
        options: BlockOptions,
        filling: Option<Box<Filling>>,
    ) -> Result<Self, SegmentError> {
        let schema = plan.layouts().schema().to_string();
        if schema.len() > SCHEMA_BYTES_MAX {
            return Err(SegmentError::Full { what: "bytes of schema", most: SCHEMA_BYTES_MAX as u64 });
        }
        let mut bytes = Vec::new();
        header.write(&schema, filling.is_some(), &mut bytes);
        out.write_all(&bytes).map_err(|source| SegmentError::Io { offset: 0, source })?;
        Ok(Self {
            out,
            plan,
            builder: BlockBuilder::new(options),
            filling,
            last: None,
            offset: bytes.len() as u64,
            blocks: Vec::new(),
            strands: Vec::new(),
            symbols: BTreeMap::new(),
            messages: 0,
            bytes,
            prover: Prover::default(),
            mismatches: 0,
            copied: 0,
            proof: Proof::default(),
        })
    }

    /// The writer, with what the writer before has learned of the same schema's columns.
    #[must_use]
    pub fn with_learned(mut self, learned: Learned) -> Self {
        self.builder.learn(learned);
        self
    }

    /// What has been learned so far, for the next writer.
    pub fn learned(&self) -> &Learned {
        self.builder.learned()
    }

    /// Adds a message.
    ///
    /// # Errors
    /// [`SegmentError::OutOfOrder`] and [`SegmentError::TooLong`] leave the segment as it was. After
    /// [`SegmentError::Io`] and [`SegmentError::Unfaithful`] it cannot be finished: discard the file.
    pub fn push(&mut self, row: RowHeader, body: &[u8]) -> Result<(), SegmentError> {
        if let Some(mut filling) = self.filling.take() {
            let pushed = self.push_to_strand(&mut filling, row, body);
            self.filling = Some(filling);
            return pushed;
        }
        let given = (row.time, row.sequence);
        self.check_order(given)?;
        if self.builder.is_full() {
            self.write_block()?;
        }
        self.builder.push(row, body)?;
        self.last = Some(given);
        Ok(())
    }

    /// Adds messages, of which sequence numbers count up, as if each was pushed.
    ///
    /// # Errors
    /// As [`Self::push`]; the messages before the one at fault are added.
    pub fn push_run(&mut self, run: &RowRun<'_>) -> Result<(), SegmentError> {
        let Some(count) = run.len().checked_sub(1) else { return Ok(()) };
        let head = run.header(0);
        self.check_order((head.time, head.sequence))?;
        if let Some(wrong) = run.first_wrong(BODY_BYTES_MAX) {
            return (0..=wrong).try_for_each(|row| self.push(run.header(row), run.body(row)));
        }
        if self.filling.is_some() {
            return (0..=count).try_for_each(|row| self.push(run.header(row), run.body(row)));
        }
        let mut row = 0;
        while row <= count {
            if self.builder.is_full() {
                self.write_block()?;
            }
            row += self.builder.push_run(run, row);
            let last = run.header(row - 1);
            self.last = Some((last.time, last.sequence));
        }
        Ok(())
    }

    /// [`Self::push_run`] of columns: the block gets them without taking bodies apart.
    ///
    /// # Errors
    /// As [`Self::push`]; the messages before the one at fault are added.
    ///
    /// # Panics
    /// When the columns are not of the schema of this segment, or messages differ in length; when blocks are in strands.
    pub fn push_columns(&mut self, run: &ColumnRun<'_>) -> Result<(), SegmentError> {
        let Some(last) = run.len().checked_sub(1) else { return Ok(()) };
        assert!(self.filling.is_none(), "blocks in strands take rows");
        assert!(run.columns.has_one_length(), "messages of one length");
        let have = run.stride();
        if have > BODY_BYTES_MAX {
            return Err(SegmentError::TooLong { need: BODY_BYTES_MAX, have });
        }
        self.check_order(run.key(0))?;
        if let Some(late) = run.first_late() {
            self.push_columns(&ColumnRun {
                times: &run.times[..late],
                symbols: &run.symbols[..late],
                ..*run
            })?;
            return self.check_order(run.key(late));
        }
        let type_id = run.columns.record().type_id;
        let mut row = 0;
        while row <= last {
            if self.builder.is_full() {
                self.write_block()?;
            }
            let Self { builder, plan, .. } = self;
            let of_type = plan.group(type_id).expect("a record type of the schema");
            row += builder.push_columns(run, row, &of_type.root);
            self.last = Some(run.key(row - 1));
        }
        Ok(())
    }

    #[inline]
    fn check_order(&self, given: (i64, u64)) -> Result<(), SegmentError> {
        match self.last.filter(|before| given <= *before) {
            Some(before) => Err(SegmentError::OutOfOrder { before, given }),
            None => Ok(()),
        }
    }

    /// Bytes written so far, or to be written of blocks that are encoded; the blocks being filled are not among them.
    pub fn bytes_written(&self) -> u64 {
        self.offset + self.filling.as_ref().map_or(0, |filling| filling.waiting_bytes() as u64)
    }

    /// Writes the last block, the index and the end, and flushes. The caller syncs and renames.
    ///
    /// # Errors
    /// [`SegmentError::Io`] and [`SegmentError::Unfaithful`]: the file is not a segment.
    pub fn finish(self) -> Result<(W, Written), SegmentError> {
        self.finish_with_proof().map(|(out, written, _)| (out, written))
    }

    /// [`Self::finish`], with what the file must hold when it is read back.
    ///
    /// # Errors
    /// As [`Self::finish`].
    pub fn finish_with_proof(mut self) -> Result<(W, Written, Proof), SegmentError> {
        let has_strands = self.filling.is_some();
        match self.filling.take() {
            Some(mut filling) => self.end_strands(&mut filling)?,
            None => self.write_block()?,
        }
        let symbols: Vec<SymbolEntry> = self.symbols.into_values().collect();
        self.bytes.clear();
        let index = Index { blocks: self.blocks, symbols, strands: self.strands };
        write_footer(&index, &mut self.bytes);
        let trailer = Trailer {
            footer_offset: self.offset,
            footer_len: self.bytes.len() as u64,
            message_count: self.messages,
            footer_crc: crc32c(&self.bytes),
            has_strands,
        };
        trailer.write(&mut self.bytes);
        let offset = self.offset;
        let done = self.out.write_all(&self.bytes).and_then(|()| self.out.flush());
        done.map_err(|source| SegmentError::Io { offset, source })?;
        let bytes = offset + self.bytes.len() as u64;
        let written = Written {
            bytes,
            messages: self.messages,
            blocks: index.blocks.len() as u64,
            mismatches: self.mismatches,
            copied: self.copied,
        };
        Ok((self.out, written, self.proof))
    }

    fn write_block(&mut self) -> Result<(), SegmentError> {
        if self.builder.is_empty() {
            return Ok(());
        }
        let index = self.next_index()?;
        self.encode(index)?;
        for (symbol, count) in self.builder.last_symbols() {
            self.symbols.entry(symbol).or_insert_with(|| SymbolEntry::new(symbol)).note(index, count);
        }
        self.builder.clear();
        let entry = BlockEntry::of(self.offset, self.prover.head());
        let bytes = std::mem::take(&mut self.bytes);
        let written = self.append(entry, &bytes);
        self.bytes = bytes;
        written
    }

    /// The index of the next block.
    fn next_index(&self) -> Result<u32, SegmentError> {
        match self.blocks.len() {
            BLOCKS_MAX => Err(SegmentError::Full { what: "blocks", most: BLOCKS_MAX as u64 }),
            index => Ok(index as u32),
        }
    }

    /// Writes a block after the others.
    fn append(&mut self, entry: BlockEntry, bytes: &[u8]) -> Result<(), SegmentError> {
        self.messages += u64::from(entry.count);
        self.blocks.push(entry);
        self.proof.blocks.push((entry, u32_at(bytes, 4)));
        self.out.write_all(bytes).map_err(|source| SegmentError::Io { offset: self.offset, source })?;
        self.offset += bytes.len() as u64;
        Ok(())
    }

    /// Encodes the block that the builder holds, and proves that it is decoded to the same.
    fn encode(&mut self, index: u32) -> Result<(), SegmentError> {
        let content = self.builder.source().content();
        let Err(mut what) = self.encode_and_prove(content, Canonicity::Proved) else { return Ok(()) };
        if self.builder.has_bodies_that_are_not_canonical(&self.plan) {
            match self.encode_and_prove(content, Canonicity::Checked) {
                Ok(()) => return Ok(()),
                Err(again) => what = again,
            }
        }
        self.mismatches += 1;
        let mismatch = self.mismatch(index, what);
        self.proof.mismatch.get_or_insert(mismatch);
        self.bytes.clear();
        self.builder.write_plainly(content, &mut self.bytes);
        fault::strike(true, &mut self.bytes);
        let proved = self.prover.prove(&self.plan, &mut self.bytes, self.builder.source());
        proved.map_err(|what| SegmentError::Unfaithful(self.mismatch(index, what)))
    }

    fn encode_and_prove(&mut self, content: u64, canonicity: Canonicity) -> Result<(), String> {
        self.bytes.clear();
        self.builder.write(&self.plan, Some(content), canonicity, &mut self.bytes);
        fault::strike(false, &mut self.bytes);
        self.prover.prove(&self.plan, &mut self.bytes, self.builder.source())
    }

    #[cold]
    fn mismatch(&self, index: u32, what: String) -> Box<Mismatch> {
        let schema = self.plan.layouts().schema().to_string();
        Box::new(Mismatch::new(index, what, &schema, self.builder.source(), &self.bytes))
    }
}

impl SymbolEntry {
    fn new(symbol: u32) -> Self {
        Self { symbol, ..Self::default() }
    }

    /// Counts messages in a block.
    fn note(&mut self, block: u32, messages: u32) {
        self.count += u64::from(messages);
        match self.blocks.last_mut() {
            Some(run) if run.1 > block => {}
            Some(run) if run.1 == block => run.1 += 1,
            _ => self.blocks.push((block, block + 1)),
        }
    }
}
