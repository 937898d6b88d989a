//! Compares what the fast decoder gives of a block with what the reference decoder gives.

use crate::block::Block;
use crate::damage::{Damage, DamagedPart, Flaw};
use crate::plan::Plan;
use crate::prove::compare_rows;
use crate::reference;
use crate::row::RowHeader;
use crate::rows::Rows;
use crate::source::{RowBuffer, Source};

impl Block {
    /// Compares `rows`, all that a decoder gives of the block, with those that the reference decoder gives. The block must have
    /// been read whole.
    ///
    /// # Errors
    /// What is different, in words, or what the reference decoder refuses.
    pub fn check_reference(&self, plan: &Plan, rows: &Rows) -> Result<(), String> {
        let given = Given::of(self, plan).map_err(|damage| format!("it refuses {damage}"))?;
        compare_rows(rows, given.source())
    }

    /// Compares `rows`, all that a decoder gives of the block, with the checksum of its content; where it has none, with what the
    /// reference decoder gives: for callers that rewrite them.
    ///
    /// # Errors
    /// When they are not the rows that were written, or the two decoders do not agree.
    pub fn prove_rows(&self, plan: &Plan, rows: &mut Rows) -> Result<(), Damage> {
        if self.check_content(rows)? {
            rows.proved = Some(self.serial);
            return Ok(());
        }
        let compared = self.check_reference(plan, rows);
        compared.map_err(|_| self.placed(Damage::new(DamagedPart::Block, 0, Flaw::Reference)))
    }

    /// All rows with their bodies, as the reference decoder gives them, if they have the checksum of the block's content.
    pub fn rows_by_reference(&self, plan: &Plan) -> Option<Vec<(RowHeader, Vec<u8>)>> {
        let given = Given::of(self, plan).ok()?;
        if Some(given.source().content()) != self.head().content {
            return None;
        }
        let given = given.source();
        Some((0..given.len()).map(|row| (given.header(row), given.body(row).to_vec())).collect())
    }

    /// The checksum of the content that the reference decoder gives.
    ///
    /// # Errors
    /// When it refuses the block.
    pub fn content_by_reference(&self, plan: &Plan) -> Result<u64, Damage> {
        Given::of(self, plan).map(|given| given.source().content())
    }
}

/// Rows as the reference decoder gives them.
#[derive(Default)]
struct Given(RowBuffer);

impl Given {
    fn of(block: &Block, plan: &Plan) -> Result<Self, Damage> {
        let mut rows = RowBuffer::default();
        let read = reference::rows(&block.bytes, plan, |row, body| rows.push(row, body));
        read.map(|()| Self(rows)).map_err(|damage| block.placed(damage))
    }

    fn source(&self) -> Source<'_> {
        self.0.source()
    }
}
