//! Columns of a block, by their kind.

use super::decimals::decimals;
use super::floats::floats;
use super::head::Head;
use super::input::{Input, beyond};
use super::integers::{COUNT_MAX, integers};
use super::pieces::Pieces;
use super::runs::Runs;
use super::texts::texts as decode_texts;
use crate::damage::{Damage, Flaw};

/// The kind of numbers of a column, which limits its encodings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Columns that rows depend on: presence, counts, tags, times, lanes; and those that others follow.
    Structure,
    /// A field that is an integer.
    Field,
    /// `decimal64`.
    Decimal,
    /// A float of so many bytes.
    Float(usize),
}

/// The numbers of a column that must be there.
pub(super) fn numbers(
    head: &Head,
    (group, column): (u16, u16),
    kind: Kind,
    runs: &Runs,
) -> Result<Vec<i64>, Damage> {
    let mut input = Input::new(head.column(group, column)?);
    let flawed = |flaw| head.column_damage(group, column, flaw);
    let count = runs.count();
    let tag = input.byte().map_err(flawed)?;
    if let 2 | 3 = tag
        && kind != Kind::Structure
    {
        let other = input.number(2).map_err(flawed)? as u16;
        let others = numbers(head, (group, other), Kind::Structure, runs)?;
        let difference = integer_pieces(input.rest(), count, &runs.ends).map_err(flawed)?;
        return Ok(if tag == 2 {
            against(&difference, &others)
        } else {
            previous(&difference, &others, runs)
        });
    }
    if tag == 7 && kind == Kind::Structure {
        let other = input.number(2).map_err(flawed)? as u16;
        input.end().map_err(flawed)?;
        return Ok(alone(head, (group, other), runs)?
            .iter()
            .map(|value| 1i64.wrapping_sub(*value))
            .collect());
    }
    let values = match (tag, kind) {
        (0, _) => constant(&mut input, count),
        (1, _) => integer_pieces(input.rest(), count, &runs.ends),
        (4, Kind::Decimal) => decimals(input.rest(), count, &runs.ends),
        (5, Kind::Float(width)) => {
            in_pieces(input.rest(), count, &runs.ends, |bytes, count, ends| floats(bytes, count, ends, width))
        }
        (tag, _) => Err(beyond("kind of column", 7, tag.into())),
    };
    values.map_err(flawed)
}

/// The integers of a column of kind 1.
fn alone(head: &Head, (group, column): (u16, u16), runs: &Runs) -> Result<Vec<i64>, Damage> {
    let mut input = Input::new(head.column(group, column)?);
    let read = input.byte().and_then(|tag| match tag {
        1 => integer_pieces(input.rest(), runs.count(), &runs.ends),
        tag => Err(beyond("kind of the opposite column", 1, tag.into())),
    });
    read.map_err(|flaw| head.column_damage(group, column, flaw))
}

fn constant(input: &mut Input, count: usize) -> Result<Vec<i64>, Flaw> {
    let value = input.number(8)? as i64;
    input.end()?;
    Ok(vec![value; count])
}

/// Each difference plus the other column's value in the same place.
fn against(difference: &[i64], others: &[i64]) -> Vec<i64> {
    difference.iter().zip(others).map(|(difference, other)| difference.wrapping_add(*other)).collect()
}

/// Each difference plus the other column's value one place before; the first of a run: plus the other's first.
fn previous(difference: &[i64], others: &[i64], runs: &Runs) -> Vec<i64> {
    let value = |first: usize, i: usize| difference[i].wrapping_add(others[first.max(i.saturating_sub(1))]);
    runs.each().flat_map(|run| run.clone().map(move |i| value(run.start, i))).collect()
}

/// The texts of a column that must be there, of at most `most` bytes in all.
pub(super) fn texts(
    head: &Head,
    (group, column): (u16, u16),
    count: usize,
    most: usize,
) -> Result<Pieces, Damage> {
    let mut input = Input::new(head.column(group, column)?);
    let read = input.byte().and_then(|tag| match tag {
        0 => constant_texts(input.rest(), count, most),
        6 => text_pieces(input.rest(), count, most),
        tag => Err(beyond("kind of column", 6, tag.into())),
    });
    read.map_err(|flaw| head.column_damage(group, column, flaw))
}

fn constant_texts(text: &[u8], count: usize, most: usize) -> Result<Pieces, Flaw> {
    let need = text.len().saturating_mul(count);
    if need > most {
        return Err(beyond("bytes of texts", most as u64, need as u64));
    }
    let mut pieces = Pieces::default();
    (0..count).for_each(|_| pieces.push(&[text]));
    Ok(pieces)
}

fn text_pieces(bytes: &[u8], count: usize, most: usize) -> Result<Pieces, Flaw> {
    let mut all = Pieces::default();
    in_pieces(bytes, count, &[], |bytes, count, _| {
        decode_texts(bytes, count, most - all.bytes())?.iter().for_each(|text| all.push(&[text]));
        Ok(Vec::<()>::new())
    })?;
    Ok(all)
}

/// Integers in chunks.
pub(super) fn integer_pieces(bytes: &[u8], count: usize, ends: &[u32]) -> Result<Vec<i64>, Flaw> {
    in_pieces(bytes, count, ends, integers)
}

/// More than 65,536 values are cut into chunks, each after its length. Runs are cut with them.
fn in_pieces<T>(
    bytes: &[u8],
    count: usize,
    ends: &[u32],
    mut decode: impl FnMut(&[u8], usize, &[u32]) -> Result<Vec<T>, Flaw>,
) -> Result<Vec<T>, Flaw> {
    if count <= COUNT_MAX {
        return decode(bytes, count, ends);
    }
    let (mut input, mut values) = (Input::new(bytes), Vec::new());
    for start in (0..count).step_by(COUNT_MAX) {
        let end = count.min(start + COUNT_MAX);
        let length = input.number(4)? as usize;
        let inside = ends.iter().map(|run| *run as usize).filter(|run| (start + 1..end).contains(run));
        let ends: Vec<u32> = inside.chain([end]).map(|run| (run - start) as u32).collect();
        values.extend(decode(input.take(length)?, end - start, &ends)?);
    }
    input.end()?;
    Ok(values)
}
