//! The bytes of a block in memory, each column checked before it is used.

use crate::column;
use crate::damage::{Damage, DamagedPart, Flaw};
use crate::head::{Head, OWN, crc32c, u32_at};
use std::sync::atomic::{AtomicU64, Ordering};

/// A block in memory, or the part of it that has been read. Loading the next one reuses the memory.
///
/// Always true: `head` is the head at the front of `bytes`, or empty; the columns of `missing` have not been read.
#[derive(Debug, Default)]
pub struct Block {
    pub(crate) bytes: Vec<u8>,
    pub(crate) head: Head,
    /// By the index of the column in the head.
    pub(crate) missing: Vec<bool>,
    /// Index in its segment and offset there, for errors.
    pub(crate) place: Option<(u32, u64)>,
    /// Different for each loaded block, so that decoders recognize what they have decoded before.
    pub(crate) serial: u64,
}

static SERIAL: AtomicU64 = AtomicU64::new(1);

impl Block {
    /// An empty block to load into.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a copy of a block's bytes and reads its head.
    ///
    /// # Errors
    /// When the head is damaged or bytes are missing. Columns are checked when they are used.
    pub fn load(&mut self, bytes: &[u8]) -> Result<(), Damage> {
        self.place = None;
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        self.parse()
    }

    /// Reads the head of `bytes`, of which all columns are there.
    pub(crate) fn parse(&mut self) -> Result<(), Damage> {
        // Only the number itself is used.
        self.serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let result = self.head.read(&self.bytes).and_then(|()| {
            let (need, have) =
                (u64::from(self.head.bytes) + u64::from(self.head.chunk_bytes), self.bytes.len() as u64);
            match need == have {
                true => Ok(()),
                false => Err(Damage::new(DamagedPart::Block, 0, Flaw::Short { need, have })),
            }
        });
        self.missing.clear();
        self.missing.resize(self.head.chunks.len(), false);
        result.map_err(|damage| {
            self.head = Head::default();
            self.placed(damage)
        })
    }

    /// Reads the head of `bytes`, which end with it.
    pub(crate) fn parse_head(&mut self) -> Result<(), Damage> {
        self.serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let read = self.head.read(&self.bytes);
        self.missing.clear();
        self.missing.resize(self.head.chunks.len(), true);
        read.map_err(|damage| {
            self.head = Head::default();
            self.placed(damage)
        })
    }

    /// The bytes of the block, as far as they were read.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What the block holds.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// The bytes of a column if the block has it, checked.
    pub(crate) fn column(&self, group: u16, column: u16) -> Result<Option<&[u8]>, Damage> {
        let Some(index) = self.head.chunk_index(group, column) else { return Ok(None) };
        let chunk = &self.head.chunks[index];
        if self.missing[index] {
            return Err(self.damage(group, column, Flaw::Short { need: chunk.len.into(), have: 0 }));
        }
        let (start, end) = (chunk.offset as usize, chunk.offset as usize + chunk.len as usize);
        let Some(bytes) = self.bytes.get(start..end) else {
            let (need, have) = (u64::from(chunk.len), self.bytes.len().saturating_sub(start) as u64);
            return Err(self.damage(group, column, Flaw::Short { need, have }));
        };
        let (need, have) = (crc32c(bytes), chunk.crc);
        if need != have {
            return Err(self.damage(group, column, Flaw::Checksum { need, have }));
        }
        Ok(Some(bytes))
    }

    /// The damage of a column.
    #[cold]
    pub(crate) fn damage(&self, group: u16, column: u16, flaw: Flaw) -> Damage {
        let type_id = self.head.groups.get(usize::from(group)).map(|group| group.type_id);
        let offset = self.head.chunk(group, column).map_or(0, |chunk| chunk.offset.into());
        let type_id = type_id.filter(|_| group != OWN);
        self.placed(Damage::new(DamagedPart::Column { type_id, column }, offset, flaw))
    }

    /// The damage of the head.
    #[cold]
    pub(crate) fn head_damage(&self, what: &'static str, need: u64, have: u64) -> Damage {
        self.placed(Damage::new(DamagedPart::Block, 0, Flaw::Mismatch { what, need, have }))
    }

    /// The checksum of the head, as stored.
    pub(crate) fn head_crc(&self) -> u32 {
        u32_at(&self.bytes, 4)
    }

    pub(crate) fn placed(&self, damage: Damage) -> Damage {
        match self.place {
            Some((index, offset)) => damage.of_block(index, offset),
            None => damage,
        }
    }

    /// Kind and bytes of a column.
    pub(crate) fn kind(&self, group: u16, column: u16) -> Result<Option<(u8, &[u8])>, Damage> {
        match self.column(group, column)? {
            None => Ok(None),
            Some(bytes) => column::kind_of(bytes).map(Some).map_err(|flaw| self.damage(group, column, flaw)),
        }
    }
}
