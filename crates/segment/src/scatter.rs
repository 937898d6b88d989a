//! Sends columns to rows: the inner loops of putting bodies together.

/// A fixed-width field whose values differ from body to body.
#[derive(Debug, Default)]
pub(crate) struct Varying {
    /// Number of the column.
    pub column: usize,
    /// Where the field's slot lies in a body.
    pub offset: u32,
    /// Bytes of the slot.
    pub width: u32,
    /// A value for each body.
    pub values: Vec<i64>,
}

/// Writes every column's value into the body at each place. Eight-byte fields side by side go together, so that a body
/// is touched once for all of them.
pub(crate) fn scatter(columns: &[Varying], places: &[u32], out: &mut [u8]) {
    let mut rest = columns;
    while let Some(first) = rest.first() {
        let wide = neighbours(rest);
        let offset = first.offset;
        match wide {
            0 => one(first, places, out),
            1 => eights::<1>(rest, offset, places, out),
            2 => eights::<2>(rest, offset, places, out),
            3 => eights::<3>(rest, offset, places, out),
            4 => eights::<4>(rest, offset, places, out),
            5 => eights::<5>(rest, offset, places, out),
            _ => eights::<6>(rest, offset, places, out),
        }
        rest = &rest[wide.clamp(1, 6)..];
    }
}

/// How many eight-byte columns at the front lie side by side.
fn neighbours(columns: &[Varying]) -> usize {
    let is_next = |(i, column): (usize, &Varying)| {
        column.width == 8 && column.offset == columns[0].offset + 8 * i as u32
    };
    columns.iter().take(6).enumerate().take_while(|pair| is_next(*pair)).count()
}

fn eights<const N: usize>(columns: &[Varying], offset: u32, places: &[u32], out: &mut [u8]) {
    let values: [&[i64]; N] = std::array::from_fn(|k| &columns[k].values[..places.len()]);
    for (i, place) in places.iter().enumerate() {
        let slots = out[(place + offset) as usize..][..8 * N].as_chunks_mut::<8>().0;
        for k in 0..N {
            slots[k] = values[k][i].to_le_bytes();
        }
    }
}

fn one(column: &Varying, places: &[u32], out: &mut [u8]) {
    let (offset, values) = (column.offset, &column.values[..]);
    match column.width {
        1 => {
            for (place, value) in places.iter().zip(values) {
                out[(place + offset) as usize] = *value as u8;
            }
        }
        2 => narrow::<2>(offset, values, places, out),
        3 => narrow::<3>(offset, values, places, out),
        4 => narrow::<4>(offset, values, places, out),
        5 => narrow::<5>(offset, values, places, out),
        6 => narrow::<6>(offset, values, places, out),
        7 => narrow::<7>(offset, values, places, out),
        _ => narrow::<8>(offset, values, places, out),
    }
}

fn narrow<const N: usize>(offset: u32, values: &[i64], places: &[u32], out: &mut [u8]) {
    for (place, value) in places.iter().zip(values) {
        let slot = &mut out[(place + offset) as usize..][..N];
        slot.copy_from_slice(&value.to_le_bytes()[..N]);
    }
}

/// Copies the template to every place.
pub(crate) fn stamp(template: &[u8], places: &[u32], out: &mut [u8]) {
    // Lengths that the compiler knows are copied without a call: two overlapping copies make any length from 8 to 64.
    match template.len() {
        8..=16 => overlapping::<8>(template, places, out),
        17..=32 => overlapping::<16>(template, places, out),
        33..=64 => overlapping::<32>(template, places, out),
        _ => {
            for place in places {
                out[*place as usize..][..template.len()].copy_from_slice(template);
            }
        }
    }
}

fn overlapping<const N: usize>(template: &[u8], places: &[u32], out: &mut [u8]) {
    let last = template.len() - N;
    let (Some(front), Some(back)) = (template.first_chunk::<N>(), template.last_chunk::<N>()) else { return };
    for place in places {
        let body = &mut out[*place as usize..][..template.len()];
        body[..N].copy_from_slice(front);
        body[last..].copy_from_slice(back);
    }
}

/// Writes a number.
#[inline]
pub(crate) fn write_u32(out: &mut [u8], at: u32, number: u32) {
    out[at as usize..][..4].copy_from_slice(&number.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_of_any_length_are_stamped_whole() {
        for length in 0..100 {
            let template: Vec<u8> = (1..=length).collect();
            let mut out = vec![0; 3 * template.len() + 2];
            stamp(&template, &[0, template.len() as u32 + 1], &mut out);
            assert_eq!(out[..template.len()], template);
            assert_eq!(out[template.len() + 1..2 * template.len() + 1], template);
            assert!(out[2 * template.len() + 1..].iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn fields_of_every_width_reach_their_slots() {
        let widths = [8, 8, 8, 8, 8, 8, 8, 1, 2, 3, 4, 5, 6, 7, 8];
        let (mut columns, mut offset) = (Vec::new(), 0);
        for (k, width) in widths.into_iter().enumerate() {
            let values = (0..10).map(|i| (k as i64 + 1) << (i % width * 8)).collect();
            columns.push(Varying { column: k, offset, width: width as u32, values });
            offset += width as u32;
        }
        let places: Vec<u32> = (0..10).map(|i| (9 - i) * offset).collect();
        let mut out = vec![0; 10 * offset as usize];
        scatter(&columns, &places, &mut out);
        for (i, place) in places.iter().enumerate() {
            for column in &columns {
                let at = (place + column.offset) as usize;
                let slot = &out[at..at + column.width as usize];
                assert_eq!(slot, &column.values[i].to_le_bytes()[..slot.len()]);
            }
        }
    }
}
