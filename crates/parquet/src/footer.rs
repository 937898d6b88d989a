//! Reads a file's footer, after a look at the lengths it states.
//!
//! The `parquet` crate reserves memory for as many row groups and children as a footer states, and calls itself for each level of the
//! schema. [`check`] walks over the footer, which is in Thrift's compact protocol, and refuses what is more than the bytes that are left,
//! or deeper than any schema.

use crate::thrift::{I32, LIST, STRUCT, Walk};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// What a file ends with, behind the footer's length.
const MAGIC: &[u8; 4] = b"PAR1";

/// Bytes of the footer's length and the magic.
const TAIL_BYTES: u64 = 8;

/// Largest footer: a hundred thousand column chunks have about 10 MiB.
const FOOTER_BYTES_MAX: u64 = 128 << 20;

/// Most row groups: the format numbers them with 16 bits.
const ROW_GROUPS_MAX: u64 = i16::MAX as u64;

/// Nesting of a schema: a list takes two levels.
const SCHEMA_DEPTH_MAX: usize = 100;

/// The footer's bytes.
///
/// # Errors
/// When the file is no whole Parquet file.
pub fn read(file: &File) -> Result<Vec<u8>, String> {
    let cannot = |error: std::io::Error| format!("cannot read: {error}");
    let bytes = file.metadata().map_err(cannot)?.len();
    let mut tail = [0; TAIL_BYTES as usize];
    let Some(tail_at) = bytes.checked_sub(TAIL_BYTES) else {
        return Err("it is no Parquet file: it is too short".into());
    };
    file.read_exact_at(&mut tail, tail_at).map_err(cannot)?;
    let (length, magic) = tail.split_at(4);
    if magic != MAGIC {
        return Err("it is no whole Parquet file: it does not end with PAR1; it may be truncated".into());
    }
    let length = u64::from(length.first_chunk().map_or(0, |length| u32::from_le_bytes(*length)));
    if length > FOOTER_BYTES_MAX || length > tail_at {
        return Err(format!("its footer has {length} bytes, and the file {bytes}; it is damaged"));
    }
    let mut footer = vec![0; length as usize];
    file.read_exact_at(&mut footer, tail_at - length).map_err(cannot)?;
    check(&footer)
        .ok_or("its footer is damaged: lengths in it do not fit, or there is too much of something")?;
    Ok(footer)
}

fn check(footer: &[u8]) -> Option<()> {
    let (mut walk, mut field) = (Walk::new(footer), 0);
    while let Some(ty) = walk.field(&mut field)? {
        match (field, ty) {
            (2, LIST) => schema(&mut walk)?,
            (4, LIST) => {
                let groups = structs(&mut walk)?;
                (groups <= ROW_GROUPS_MAX).then_some(())?;
                (0..groups).try_for_each(|_| walk.structure(1))?;
            }
            (2 | 4, _) => return None,
            _ => walk.skip_field(ty, 0)?,
        }
    }
    Some(())
}

/// How many structs a list has.
fn structs(walk: &mut Walk<'_>) -> Option<u64> {
    let (items, ty) = walk.list()?;
    (items == 0 || ty == STRUCT).then_some(items)
}

/// The elements of a schema, each before its children.
fn schema(walk: &mut Walk<'_>) -> Option<()> {
    let elements = structs(walk)?;
    // Of each element around the next one, how many children are missing.
    let mut missing: Vec<u64> = Vec::new();
    for left in (0..elements).rev() {
        let children = children(walk)?;
        if let Some(siblings) = missing.last_mut() {
            *siblings -= 1;
        }
        if children > 0 {
            missing.push(children);
        }
        if children > left || missing.len() > SCHEMA_DEPTH_MAX {
            return None;
        }
        while missing.pop_if(|siblings| *siblings == 0).is_some() {}
    }
    Some(())
}

/// How many children an element of a schema has.
fn children(walk: &mut Walk<'_>) -> Option<u64> {
    let (mut field, mut children) = (0, 0);
    while let Some(ty) = walk.field(&mut field)? {
        match (field, ty) {
            (5, I32) => children = walk.int32()?.try_into().ok()?,
            (5, _) => return None,
            _ => walk.skip_field(ty, 1)?,
        }
    }
    Some(children)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_that_are_longer_than_the_footer_are_refused() {
        // Field 4, a list of structs: one that is empty; then 2^31 - 1 of them.
        assert!(check(&[0x49, 0x1c, 0, 0]).is_some());
        assert!(check(&[0x49, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x07, 0, 0]).is_none());
        assert!(check(&[0x19; 1000]).is_none());
        assert!(check(&[0x1c; 1000]).is_none());
        assert!(check(&[]).is_none());
    }

    #[test]
    fn more_row_groups_than_have_numbers_are_refused() {
        for (groups, is_right) in [(32_767u32, true), (32_768, false)] {
            let mut footer =
                vec![0x49, 0xfc, groups as u8 | 0x80, (groups >> 7) as u8 | 0x80, (groups >> 14) as u8];
            footer.extend(vec![0; groups as usize + 1]);
            assert_eq!(check(&footer).is_some(), is_right, "{groups}");
        }
        // A text where row groups should be, which the crate would read as their list.
        assert!(check(&[0x48, 2, 0xfc, 0xff, 0]).is_none());
    }

    /// Field 2, a list of elements of so many children each.
    fn schema_of(children: &[u8]) -> Vec<u8> {
        let mut footer = vec![0x29, 0xfc, children.len() as u8 | 0x80, (children.len() >> 7) as u8];
        children.iter().for_each(|children| footer.extend([0x55, children << 1, 0]));
        footer.push(0);
        footer
    }

    #[test]
    fn schemas_are_as_deep_as_columns_are() {
        assert!(check(&schema_of(&[2, 0, 1, 0])).is_some());
        assert!(check(&schema_of(&[5, 0, 0, 0])).is_none(), "children that are missing");
        let chain = |depth: usize| [vec![1; depth], vec![0]].concat();
        assert!(check(&schema_of(&chain(100))).is_some() && check(&schema_of(&chain(101))).is_none());
        let wide = [vec![60], [1, 0].repeat(60)].concat();
        assert!(check(&schema_of(&wide)).is_some(), "many are not deep");
    }
}
