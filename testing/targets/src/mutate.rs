//! Inputs that are nearly right: most bugs live one byte beside what is valid.

use crate::sample::SplitMix64;

/// Longest input that mutation makes.
const INPUT_BYTES_MAX: usize = 1 << 16;
/// Bytes that sit on the edges of things.
const BYTES: [u8; 8] = [0, 1, 0x7f, 0x80, 0xff, b'"', b'{', b'\n'];
/// Numbers that sit on the edges of things.
const NUMBERS: [u64; 10] =
    [0, 1, 0x7f, 0xff, 0xffff, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, i64::MAX as u64, u64::MAX];

/// Changes `input` in one to a few places, most often one. `other` is an input to take pieces from.
pub fn mutate(input: &mut Vec<u8>, other: &[u8], random: &mut SplitMix64) {
    for _ in 0..1 + random.below(8).saturating_sub(4) {
        mutate_once(input, other, random);
        input.truncate(INPUT_BYTES_MAX);
    }
}

/// Bytes without any structure.
pub fn noise(random: &mut SplitMix64) -> Vec<u8> {
    (0..random.below(200)).map(|_| random.next_u64() as u8).collect()
}

fn mutate_once(input: &mut Vec<u8>, other: &[u8], random: &mut SplitMix64) {
    let at = random.below(input.len());
    match random.below(12) {
        0..=2 => flip(input, at, random),
        3 => set(input, at, BYTES[random.below(BYTES.len())]),
        4 => set(input, at, random.next_u64() as u8),
        5 | 6 => number(input, at, random),
        7 => input.truncate(at),
        8 => drop(input.drain(at..at + run(input.len() - at, random))),
        9 => insert(input, at, &[BYTES[random.below(BYTES.len())]][..]),
        10 => {
            let copy = input[at..at + run(input.len() - at, random)].to_vec();
            let to = random.below(input.len() + 1);
            insert(input, to, &copy);
        }
        _ => splice(input, at, other, random),
    }
}

/// A short run most of the time, never longer than what is left.
fn run(left: usize, random: &mut SplitMix64) -> usize {
    let length = if random.once_in(4) { random.below(left + 1) } else { 1 + random.below(8) };
    length.min(left)
}

fn flip(input: &mut [u8], at: usize, random: &mut SplitMix64) {
    if let Some(byte) = input.get_mut(at) {
        *byte ^= 1 << random.below(8);
    }
}

fn set(input: &mut [u8], at: usize, value: u8) {
    if let Some(byte) = input.get_mut(at) {
        *byte = value;
    }
}

/// Overwrites 2, 4 or 8 bytes with a little-endian number near an edge.
fn number(input: &mut [u8], at: usize, random: &mut SplitMix64) {
    let near = random.below(5) as u64;
    let value = NUMBERS[random.below(NUMBERS.len())].wrapping_add(near).wrapping_sub(2);
    let width = [2, 4, 4, 8][random.below(4)];
    for (byte, new) in input[at..].iter_mut().zip(&value.to_le_bytes()[..width]) {
        *byte = *new;
    }
}

fn insert(input: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    drop(input.splice(at..at, bytes.iter().copied()));
}

fn splice(input: &mut Vec<u8>, at: usize, other: &[u8], random: &mut SplitMix64) {
    let from = random.below(other.len());
    let piece = &other[from..from + run(other.len() - from, random)];
    let to = at + run(input.len() - at, random);
    drop(input.splice(at..to, piece.iter().copied()));
}
