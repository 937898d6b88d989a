//! Columns of integers, by their tag.

use super::input::{Input, at_most, beyond, unzigzag};
use super::numbers::{groups, split};
use crate::damage::Flaw;

/// The most values of one encoded column.
pub(super) const COUNT_MAX: usize = 65_536;

/// The `count` integers that `bytes` encode, of runs that end at `ends`; no ends: one run. All arithmetic wraps at 64 bits.
///
/// # Errors
/// When the bytes are not such a column, or the ends do not ascend to `count`.
pub fn integers(bytes: &[u8], count: usize, ends: &[u32]) -> Result<Vec<i64>, Flaw> {
    at_most("values of a column", COUNT_MAX as u64, count as u64)?;
    let runs = lengths_of(ends, count)?;
    let mut input = Input::new(bytes);
    let tag = input.byte()?;
    let values = match tag {
        0x00 => constant(&mut input, count),
        0x01 => plain(&mut input, count),
        0x02 | 0x42 | 0x22 => packed(&mut input, tag, count, &runs),
        0x03 | 0x43 | 0x23 => delta(&mut input, tag, count, &runs),
        0x04 => dictionary(&mut input, count),
        0x05 => run_length(&mut input, count),
        0x06 | 0x46 | 0x26 => {
            let scales = scales(&mut input, tag, &runs)?;
            Ok(scaled(&pcodec(&mut input, count)?, &runs, &scales))
        }
        0x07 | 0x47 | 0x27 => split_values(&mut input, tag, count, &runs),
        0x08 | 0x48 | 0x28 => split_delta(&mut input, tag, count, &runs),
        0x09 | 0x49 | 0x29 | 0x0a | 0x4a | 0x2a | 0x0b | 0x4b | 0x2b => lag(&mut input, tag, count, &runs),
        tag => Err(beyond("tag of integers", 11, tag.into())),
    }?;
    input.end()?;
    Ok(values)
}

/// Lengths of the runs.
fn lengths_of(ends: &[u32], count: usize) -> Result<Vec<usize>, Flaw> {
    if count == 0 {
        let end = ends.last().map_or(0, |end| u64::from(*end));
        return at_most("end of the last run", 0, end).map(|()| Vec::new());
    }
    let one = [count as u32];
    let ends = if ends.is_empty() { &one } else { ends };
    let mut lengths = Vec::with_capacity(ends.len());
    let mut start = 0;
    for end in ends {
        if *end <= start {
            return Err(beyond("end of a run", u64::from(start) + 1, (*end).into()));
        }
        lengths.push((end - start) as usize);
        start = *end;
    }
    if start as usize == count {
        Ok(lengths)
    } else {
        Err(beyond("end of the last run", count as u64, start.into()))
    }
}

fn constant(input: &mut Input, count: usize) -> Result<Vec<i64>, Flaw> {
    Ok(vec![input.signed_varint()?; count])
}

fn plain(input: &mut Input, count: usize) -> Result<Vec<i64>, Flaw> {
    (0..count).map(|_| Ok(input.number(8)? as i64)).collect()
}

fn packed(input: &mut Input, tag: u8, count: usize, runs: &[usize]) -> Result<Vec<i64>, Flaw> {
    let scales = scales(input, tag, runs)?;
    Ok(scaled(&groups(input, count)?, runs, &scales))
}

fn delta(input: &mut Input, tag: u8, count: usize, runs: &[usize]) -> Result<Vec<i64>, Flaw> {
    let scales = scales(input, tag, runs)?;
    let firsts = groups(input, runs.len())?;
    let differences = groups(input, count)?;
    Ok(scaled(&added_up(&firsts, &differences, runs), runs, &scales))
}

fn split_values(input: &mut Input, tag: u8, count: usize, runs: &[usize]) -> Result<Vec<i64>, Flaw> {
    let scales = scales(input, tag, runs)?;
    let smallest = input.signed_varint()?;
    let distances = split(input, count)?;
    let values: Vec<i64> = distances.iter().map(|distance| smallest.wrapping_add(*distance as i64)).collect();
    Ok(scaled(&values, runs, &scales))
}

fn split_delta(input: &mut Input, tag: u8, count: usize, runs: &[usize]) -> Result<Vec<i64>, Flaw> {
    let scales = scales(input, tag, runs)?;
    let firsts = groups(input, runs.len())?;
    let differences: Vec<i64> = split(input, count)?.into_iter().map(unzigzag).collect();
    Ok(scaled(&added_up(&firsts, &differences, runs), runs, &scales))
}

/// Differences to the value some places before.
fn lag(input: &mut Input, tag: u8, count: usize, runs: &[usize]) -> Result<Vec<i64>, Flaw> {
    let scales = scales(input, tag, runs)?;
    let places = usize::from(input.byte()?);
    if !(1..=8).contains(&places) {
        return Err(beyond("places between values", 8, places as u64));
    }
    let firsts = groups(input, runs.len())?;
    let differences = match tag & 0x0f {
        0x09 => groups(input, count)?,
        0x0a => split(input, count)?.into_iter().map(unzigzag).collect(),
        _ => pcodec(input, count)?,
    };
    let mut values: Vec<i64> = Vec::with_capacity(count);
    for (first, length) in firsts.iter().zip(runs) {
        let start = values.len();
        values.push(*first);
        let rows = start + 1..start + length;
        for (row, difference) in rows.clone().zip(&differences[rows]) {
            let before = if row - start < places { start } else { row - places };
            values.push(difference.wrapping_add(values[before]));
        }
    }
    Ok(scaled(&values, runs, &scales))
}

/// A run's first value is given; each other one is the value before plus its difference.
fn added_up(firsts: &[i64], differences: &[i64], runs: &[usize]) -> Vec<i64> {
    let mut values: Vec<i64> = Vec::with_capacity(differences.len());
    for (first, length) in firsts.iter().zip(runs) {
        let mut value = *first;
        values.push(value);
        for _ in 1..*length {
            value = value.wrapping_add(differences[values.len()]);
            values.push(value);
        }
    }
    values
}

/// Divisor and offset of each run.
fn scales(input: &mut Input, tag: u8, runs: &[usize]) -> Result<Vec<(i64, i64)>, Flaw> {
    match tag & 0x60 {
        0x20 => {
            let divisors = groups(input, runs.len())?;
            Ok(divisors.into_iter().zip(groups(input, runs.len())?).collect())
        }
        0x40 => {
            let divisor = input.varint()?;
            at_most("divisor", i64::MAX as u64, divisor)?;
            Ok(vec![(divisor as i64, input.signed_varint()?); runs.len()])
        }
        _ => Ok(vec![(1, 0); runs.len()]),
    }
}

/// `number * divisor + offset` of each number.
fn scaled(numbers: &[i64], runs: &[usize], scales: &[(i64, i64)]) -> Vec<i64> {
    let of_run = |(length, scale): (&usize, &(i64, i64))| vec![*scale; *length];
    let scales = runs.iter().zip(scales).flat_map(of_run);
    let value =
        |(number, (divisor, offset)): (&i64, (i64, i64))| number.wrapping_mul(divisor).wrapping_add(offset);
    numbers.iter().zip(scales).map(value).collect()
}

fn dictionary(input: &mut Input, count: usize) -> Result<Vec<i64>, Flaw> {
    let size = input.count("distinct values", count)?;
    let distinct = groups(input, size)?;
    let indexes = groups(input, count)?;
    let value = |index: i64| {
        let place = usize::try_from(index).ok().and_then(|index| distinct.get(index));
        place.copied().ok_or(beyond("index", size as u64, index as u64))
    };
    indexes.into_iter().map(value).collect()
}

fn run_length(input: &mut Input, count: usize) -> Result<Vec<i64>, Flaw> {
    let repetitions = input.count("repetitions", count)?;
    let lengths = groups(input, repetitions)?;
    let mut values = Vec::with_capacity(count);
    for (length, value) in lengths.into_iter().zip(groups(input, repetitions)?) {
        at_most("rows of a repetition", (count - values.len()) as u64, length as u64)?;
        values.resize(values.len() + length as usize, value);
    }
    match values.len() {
        have if have == count => Ok(values),
        have => Err(beyond("rows of all repetitions", count as u64, have as u64)),
    }
}

fn pcodec(input: &mut Input, count: usize) -> Result<Vec<i64>, Flaw> {
    let mut values = vec![0; count];
    super::floats::pcodec(input.rest(), &mut values)?;
    Ok(values)
}
