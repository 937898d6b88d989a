//! Facts about every column of a block, used or not: for checks and inspection.

use crate::block::Block;
use crate::column;
use crate::damage::Damage;
use crate::head::Chunk;

impl Block {
    /// The columns whose bytes are not those that were written, in file order; those that were not read are among them.
    pub fn damaged_columns(&self) -> Vec<Damage> {
        let chunks = self.head().chunks.iter();
        chunks.filter_map(|chunk| self.column(chunk.group, chunk.column).err()).collect()
    }

    /// How a column is encoded, in a word or two as in `docs/format/segment.md`; `None` where unknown.
    pub fn encoding_of(&self, chunk: &Chunk) -> Option<&'static str> {
        let (kind, _) = self.kind(chunk.group, chunk.column).ok()??;
        Some(match kind {
            column::CONSTANT => "constant",
            column::INTS => "integers",
            column::AGAINST => "against",
            column::PREVIOUS => "previous",
            column::DECIMALS => "decimals",
            column::FLOATS => "floats",
            column::STRINGS => "texts",
            column::OPPOSITE => "opposite",
            _ => return None,
        })
    }
}
