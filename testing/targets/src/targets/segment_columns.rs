//! Bytes of one column: the decoder of segments against the reference, in every way that a column is read.

use crate::Target;
use tapedb_segment::encoding::{Tier, encode_floats, encode_strings};
use tapedb_segment::trials::{Column, Random, at_every_level, every_encoding, floats, integers, texts};

/// See the module.
pub const TARGET: Target = Target { name: "segment_columns", run, seed };

/// What the column is, how many values it has, where runs end; then its bytes.
struct Input<'a> {
    kind: u8,
    count: usize,
    ends: Vec<u32>,
    bytes: &'a [u8],
}

const KINDS: u8 = 4;

/// Whatever the reference decodes, the other decodes to the same values, whole, by ranges, by single rows and by strips, at
/// every level of SIMD; what the reference refuses does not panic.
pub fn run(input: &[u8]) {
    let Some(Input { kind, count, ends, bytes }) = parse(input) else { return };
    at_every_level(|_| match kind {
        0 => drop(integers(bytes, count, &ends, &mut Random::new(count as u64))),
        1 => drop(floats(bytes, count, &ends, 8)),
        2 => drop(floats(bytes, count, &ends, 4)),
        _ => drop(texts(bytes, count, 1 << 16)),
    });
}

fn parse(input: &[u8]) -> Option<Input<'_>> {
    let ([kind, low, high, runs], rest) = input.split_first_chunk()?;
    let count = usize::from(u16::from_le_bytes([*low, *high]));
    let (ends, bytes) = rest.split_at_checked(2 * usize::from(*runs))?;
    let ends = ends.as_chunks().0.iter().map(|end| u16::from_le_bytes(*end).into()).collect();
    Some(Input { kind: kind % KINDS, count, ends, bytes })
}

/// A column of a kind by the number, in one of its encodings.
fn seed(number: u64) -> Vec<u8> {
    let mut random = Random::new(number);
    let Column { values, mut ends } = Column::new(&mut random);
    if ends.len() > usize::from(u8::MAX) {
        ends = vec![values.len() as u32];
    }
    let (kind, tier) = ((number % u64::from(KINDS)) as u8, random.pick(&[Tier::Hot, Tier::Cold]));
    let mut bytes = Vec::new();
    match kind {
        0 => {
            let mut all = every_encoding(&values, &ends);
            bytes = all.swap_remove(random.below(all.len()));
        }
        1 => drop(encode_floats(
            &values.iter().map(|n| *n as f64 / 100.0).collect::<Vec<f64>>(),
            &ends,
            tier,
            &mut bytes,
        )),
        2 => drop(encode_floats(
            &values.iter().map(|n| *n as f32 / 8.0).collect::<Vec<f32>>(),
            &ends,
            tier,
            &mut bytes,
        )),
        _ => {
            let texts: Vec<String> = values.iter().map(|number| (number % 1_000).to_string()).collect();
            let end = |end: &mut u32, text: &String| {
                *end += text.len() as u32;
                Some(*end)
            };
            let ends: Vec<u32> = texts.iter().scan(0, end).collect();
            encode_strings(&ends, texts.concat().as_bytes(), tier, &mut bytes);
        }
    }
    let head = [kind, values.len() as u8, (values.len() >> 8) as u8, ends.len() as u8];
    let ends = ends.iter().flat_map(|end| (*end as u16).to_le_bytes());
    head.into_iter().chain(ends).chain(bytes).collect()
}
