//! Copies fields of fixed width out of bodies.

use crate::spare::Ints;

/// Bodies whose fields are copied together: few enough that they stay in the nearest cache from one field to the next.
const TOGETHER: usize = 128;

/// The slots of `width` bytes, 1 to 8, that lie `offset` after `starts`, as integers.
pub(crate) fn gather(arena: &[u8], starts: &[u32], offset: u32, width: u32, signed: bool) -> Ints {
    let places = starts.iter().map(|start| (start + offset) as usize);
    let mut out = Ints::with_capacity(starts.len());
    match (width, signed) {
        (8, _) => out.extend(places.map(|at| i64::from_le_bytes(bytes_at(arena, at)))),
        (1, true) => out.extend(places.map(|at| i64::from(i8::from_le_bytes(bytes_at(arena, at))))),
        (1, false) => out.extend(places.map(|at| i64::from(u8::from_le_bytes(bytes_at(arena, at))))),
        (2, true) => out.extend(places.map(|at| i64::from(i16::from_le_bytes(bytes_at(arena, at))))),
        (2, false) => out.extend(places.map(|at| i64::from(u16::from_le_bytes(bytes_at(arena, at))))),
        (4, true) => out.extend(places.map(|at| i64::from(i32::from_le_bytes(bytes_at(arena, at))))),
        (4, false) => out.extend(places.map(|at| i64::from(u32::from_le_bytes(bytes_at(arena, at))))),
        _ => out.extend(places.map(|at| text(&arena[at..at + width as usize]))),
    }
    out
}

/// The slots of eight bytes at several `offsets`: a column for each.
pub(crate) fn gather_all(arena: &[u8], starts: &[u32], offsets: &[u32]) -> Vec<Ints> {
    let mut columns: Vec<Ints> = offsets.iter().map(|_| Ints::with_capacity(starts.len())).collect();
    for starts in starts.chunks(TOGETHER) {
        for (column, offset) in columns.iter_mut().zip(offsets) {
            let slot = |start: &u32| i64::from_le_bytes(bytes_at(arena, (start + offset) as usize));
            column.extend(starts.iter().map(slot));
        }
    }
    columns
}

/// [`gather_all`] of adjacent bodies of `stride` bytes each, which is a multiple of eight, in the order of `rows`. `None`: not
/// for this stride.
pub(crate) fn gather_even(bodies: &[u8], rows: &[u16], stride: u32, offsets: &[u32]) -> Option<Vec<Ints>> {
    Some(match stride {
        8 => gather_of::<8>(bodies, rows, offsets),
        16 => gather_of::<16>(bodies, rows, offsets),
        24 => gather_of::<24>(bodies, rows, offsets),
        32 => gather_of::<32>(bodies, rows, offsets),
        40 => gather_of::<40>(bodies, rows, offsets),
        48 => gather_of::<48>(bodies, rows, offsets),
        56 => gather_of::<56>(bodies, rows, offsets),
        64 => gather_of::<64>(bodies, rows, offsets),
        _ => return None,
    })
}

/// Of a constant stride: one comparison a value makes sure that the body is there.
fn gather_of<const STRIDE: usize>(bodies: &[u8], rows: &[u16], offsets: &[u32]) -> Vec<Ints> {
    let bodies = bodies.as_chunks::<STRIDE>().0;
    let mut columns: Vec<Ints> = offsets.iter().map(|_| Ints::with_capacity(rows.len())).collect();
    for rows in rows.chunks(TOGETHER) {
        for (column, offset) in columns.iter_mut().zip(offsets) {
            let offset = (*offset as usize).min(STRIDE - 8);
            column.extend(
                rows.iter().map(|row| i64::from_le_bytes(bytes_at(&bodies[usize::from(*row)], offset))),
            );
        }
    }
    columns
}

/// Bytes of a body, which callers have checked to be there.
#[inline(always)]
fn bytes_at<const N: usize>(arena: &[u8], at: usize) -> [u8; N] {
    arena.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}

/// A text of up to eight bytes, the first one lowest.
fn text(slot: &[u8]) -> i64 {
    slot.iter().rev().fold(0, |word, byte| word << 8 | i64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_of_every_width() {
        let arena = [0xff, 0xfe, 0xfd, 0xfc, 0xfb, 0xfa, 0xf9, 0xf8, 0xf7];
        let one = |width, signed| gather(&arena, &[0], 1, width, signed)[0];
        assert_eq!(
            [1, 2, 4, 8].map(|width| one(width, true)),
            [-2, -514, -67_305_986, -578_437_695_752_307_202]
        );
        assert_eq!([1, 2, 3, 4].map(|width| one(width, false)), [0xfe, 0xfdfe, 0xfc_fdfe, 0xfbfc_fdfe]);
        assert_eq!(one(7, false), 0xf8_f9fa_fbfc_fdfe);
    }

    #[test]
    fn many_bodies_at_once() {
        let arena: Vec<u8> = (0..16_000).map(|i| (i / 16 % 251) as u8).collect();
        let starts: Vec<u32> = (0..1_000).map(|i| 16 * i).collect();
        let columns = gather_all(&arena, &starts, &[0, 8]);
        let as_vectors =
            |columns: Vec<Ints>| columns.iter().map(|column| column.to_vec()).collect::<Vec<_>>();
        let columns = as_vectors(columns);
        assert_eq!(columns, [0, 8].map(|offset| gather(&arena, &starts, offset, 8, true).to_vec()));
        assert_eq!(columns[1][300], 49 * 0x0101_0101_0101_0101);
        let rows: Vec<u16> = (0..1_000).map(|i| i * 7 % 1_000).collect();
        for stride in (8..=64).step_by(8) {
            let count = 16_000 / stride as u16;
            let rows: Vec<u16> = rows.iter().map(|row| row % count).collect();
            let starts: Vec<u32> = rows.iter().map(|row| u32::from(*row) * stride).collect();
            let expected = [0, stride - 8].map(|offset| gather(&arena, &starts, offset, 8, true).to_vec());
            let found = as_vectors(gather_even(&arena, &rows, stride, &[0, stride - 8]).unwrap());
            assert_eq!(found, expected, "{stride}");
        }
        assert!(gather_even(&arena, &rows, 12, &[0]).is_none());
    }
}
