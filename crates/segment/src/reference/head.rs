//! The head of a block, field by field, and the bytes of its columns.

use super::input::{Input, beyond};
use crate::damage::{Damage, DamagedPart, Flaw};
use crate::head::{BLOCK_BYTES_MAX, BLOCK_ROWS_MAX, OWN, crc32c};

const HEAD_BYTES: usize = 80;
const GROUP_BYTES: usize = 16;
const COLUMN_BYTES: usize = 32;

/// A block in memory whose head and checksums are right.
pub(super) struct Head<'a> {
    pub rows: usize,
    pub body_bytes: usize,
    pub time_min: i64,
    pub time_max: i64,
    pub sequence_min: u64,
    pub sequence_max: u64,
    pub groups: Vec<Group>,
    columns: Vec<Column<'a>>,
}

/// The rows of one record type, or of some symbols of it.
pub(super) struct Group {
    pub type_id: u16,
    pub is_whole: bool,
    pub rows: usize,
    pub lanes: usize,
    pub first_symbol: u32,
}

struct Column<'a> {
    group: u16,
    number: u16,
    offset: usize,
    bytes: &'a [u8],
}

impl<'a> Head<'a> {
    pub fn read(block: &'a [u8]) -> Result<Self, Damage> {
        let head = Self::parse(block).map_err(damage)?;
        head.check().map_err(damage)?;
        Ok(head)
    }

    fn parse(block: &'a [u8]) -> Result<Self, Flaw> {
        let mut input = Input::new(block);
        if input.take(4)? != b"TPK1" {
            return Err(Flaw::Magic);
        }
        let crc = input.number(4)? as u32;
        let [head_len, column_len, rows, body_bytes, groups, columns] =
            numbers(&mut input, 4)?.map(|n| n as usize);
        let [time_min, time_max, sequence_min, sequence_max] = numbers(&mut input, 8)?;
        let need = HEAD_BYTES + GROUP_BYTES * groups + COLUMN_BYTES * columns;
        equal("bytes of the head", need, head_len)?;
        equal("bytes of the block", head_len + column_len, block.len())?;
        let have = crc32c(&block[8..head_len]);
        if have != crc {
            return Err(Flaw::Checksum { need: have, have: crc });
        }
        input.take(16)?;
        let groups = (0..groups).map(|_| Group::read(&mut input)).collect::<Result<Vec<Group>, Flaw>>()?;
        let mut bodies = Input::new(&block[head_len..]);
        let mut at = head_len;
        let mut list = Vec::new();
        for _ in 0..columns {
            let column = Column::read(&mut input, &mut bodies, at)?;
            at += column.bytes.len();
            list.push(column);
        }
        bodies.end()?;
        Ok(Self {
            rows,
            body_bytes,
            time_min: time_min as i64,
            time_max: time_max as i64,
            sequence_min,
            sequence_max,
            groups,
            columns: list,
        })
    }

    fn check(&self) -> Result<(), Flaw> {
        if !(1..=BLOCK_ROWS_MAX).contains(&self.rows) {
            return Err(beyond("rows", BLOCK_ROWS_MAX as u64, self.rows as u64));
        }
        if self.body_bytes > BLOCK_BYTES_MAX {
            return Err(beyond("bytes of bodies", BLOCK_BYTES_MAX as u64, self.body_bytes as u64));
        }
        equal("rows of all record types", self.rows, self.groups.iter().map(|group| group.rows).sum())?;
        let key = |group: &Group| (group.type_id, group.first_symbol);
        let is_sorted = self.groups.is_sorted_by(|a, b| key(a) < key(b));
        let are_filled = self.groups.iter().all(|group| (1..=group.rows).contains(&group.lanes));
        // The block's own come first.
        let key = |column: &Column| (column.group.wrapping_add(1), column.number);
        let are_sorted = self.columns.is_sorted_by(|a, b| key(a) < key(b));
        equal("order of record types", 1, is_sorted.into())?;
        equal("symbols of every group", 1, are_filled.into())?;
        equal("order of columns", 1, are_sorted.into())
    }

    /// Whether a record type is cut into several groups.
    pub fn is_cut(&self) -> bool {
        self.groups.windows(2).any(|pair| pair[0].type_id == pair[1].type_id)
    }

    fn find(&self, group: u16, number: u16) -> Option<&Column<'a>> {
        self.columns.iter().find(|column| (column.group, column.number) == (group, number))
    }

    /// Whether the block has a column.
    pub fn has(&self, group: u16, number: u16) -> bool {
        self.find(group, number).is_some()
    }

    /// The bytes of a column that must be there.
    pub fn column(&self, group: u16, number: u16) -> Result<&'a [u8], Damage> {
        let missing =
            || beyond("number of a column that is missing", self.columns.len() as u64, number.into());
        let found = self.find(group, number).map(|column| column.bytes);
        found.ok_or_else(|| self.column_damage(group, number, missing()))
    }

    /// The damage of a column.
    pub fn column_damage(&self, group: u16, number: u16, flaw: Flaw) -> Damage {
        let type_id = self.groups.get(usize::from(group)).filter(|_| group != OWN).map(|group| group.type_id);
        let offset = self.find(group, number).map_or(0, |column| column.offset as u64);
        Damage::new(DamagedPart::Column { type_id, column: number }, offset, flaw)
    }
}

impl Group {
    fn read(input: &mut Input) -> Result<Self, Flaw> {
        let (type_id, whole) = (input.number(2)? as u16, input.number(2)?);
        let [rows, lanes, first_symbol] = numbers(input, 4)?;
        if whole > 1 {
            return Err(beyond("whole", 1, whole));
        }
        let (rows, lanes) = (rows as usize, lanes as usize);
        Ok(Self { type_id, is_whole: whole == 1, rows, lanes, first_symbol: first_symbol as u32 })
    }
}

impl<'a> Column<'a> {
    fn read(input: &mut Input, bodies: &mut Input<'a>, offset: usize) -> Result<Self, Flaw> {
        let (group, number) = (input.number(2)? as u16, input.number(2)? as u16);
        let [length, crc, _] = numbers(input, 4)?.map(|number| number as u32);
        input.take(16)?;
        let bytes = bodies.take(length as usize)?;
        match crc32c(bytes) {
            need if need == crc => Ok(Self { group, number, offset, bytes }),
            need => Err(Flaw::Checksum { need, have: crc }),
        }
    }
}

/// The next numbers of so many bytes each.
fn numbers<const N: usize>(input: &mut Input, bytes: usize) -> Result<[u64; N], Flaw> {
    let mut numbers = [0; N];
    for number in &mut numbers {
        *number = input.number(bytes)?;
    }
    Ok(numbers)
}

fn equal(what: &'static str, need: usize, have: usize) -> Result<(), Flaw> {
    if need == have { Ok(()) } else { Err(beyond(what, need as u64, have as u64)) }
}

/// The damage of the head.
pub(super) fn damage(flaw: Flaw) -> Damage {
    Damage::new(DamagedPart::Block, 0, flaw)
}
