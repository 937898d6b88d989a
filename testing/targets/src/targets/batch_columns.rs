//! Batches of columns, compared with a decoder that reads `docs/format/batch.md` word by word, one value at a time.

use crate::Target;
use crate::sample::SplitMix64;
use std::sync::OnceLock;
use tapedb_codec::batch::{
    self, BatchColumns, BatchHeader, ColumnWriter, FieldValues, HEADER_BYTES, InputColumn, MAX_BATCH_BYTES,
    Rows, Validity,
};
use tapedb_codec::dynamic::{Layouts, RecordLayout, TypeLayout};
use tapedb_schema::Decimal64;

/// See the module.
pub const TARGET: Target = Target { name: "batch_columns", run, seed };

const SCHEMA: &str = "enum E { A, B, C }
    message M {
        n: i64?, k: u16, e: E?, b: bool, p: decimal64?, f: f64, o: time_of_day, c: char, a: ascii(5)?, w: ascii(12), t: string?,
        x: binary
    }";

fn layouts() -> &'static Layouts {
    static LAYOUTS: OnceLock<Layouts> = OnceLock::new();
    LAYOUTS.get_or_init(|| Layouts::new(SCHEMA.parse().expect("a schema")).expect("a valid schema"))
}

/// What is a batch of columns unfolds into the bodies that the reference finds; what passes the check are right bodies.
pub fn run(input: &[u8]) {
    columns(input);
    let mut repaired = input.to_vec();
    if let Some(magic) = repaired.get_mut(..4) {
        magic.copy_from_slice(&batch::MAGIC.to_le_bytes());
    }
    let first = input.get(16..24).and_then(|bytes| bytes.first_chunk()).copied().unwrap_or_default();
    if batch::assign_sequence(&mut repaired, u64::from_le_bytes(first)).is_ok() {
        columns(&repaired);
    }
}

fn columns(bytes: &[u8]) {
    let Ok(header) = BatchHeader::parse(bytes) else { return };
    if !header.is_columnar() {
        return;
    }
    assert!(Rows::default().load(bytes).is_err(), "columns are not read as rows");
    let found = match BatchColumns::parse(&header, bytes, layouts()) {
        Ok(found) => found,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let record = &layouts().records()[usize::from(header.type_const)];
    let mut unfolded = Vec::new();
    let of_rows = found.to_rows(&mut unfolded);
    assert!(unfolded.len() <= HEADER_BYTES + MAX_BATCH_BYTES && unfolded.len() == of_rows.batch_bytes());
    assert_eq!((of_rows.count, of_rows.sequences()), (header.count, header.sequences()));
    let mut rows = Rows::default();
    let loaded = rows.load_parsed(&of_rows, &unfolded);
    let checked = found.check();
    if loaded.is_err() {
        // Times that contradict the header, or a message that is too long, which the check refuses.
        assert!(rows.load_places(&header, bytes).is_err() || checked.is_err());
        return;
    }
    let reference = reference(record, &header, bytes);
    let mut are_right = true;
    for (row, expected) in reference.iter().enumerate() {
        let body = &unfolded[rows.body(row)];
        assert_eq!(body, expected, "row {row}");
        are_right &= layouts().check(header.type_const, body).is_ok();
    }
    assert!(are_right || checked.is_err(), "the check passes a wrong body");
}

/// The bodies of a batch that can be parsed.
fn reference(record: &RecordLayout, header: &BatchHeader, bytes: &[u8]) -> Vec<Vec<u8>> {
    let count = header.count as usize;
    let number = |at: usize, bytes_of: usize| {
        (0..bytes_of).fold(0, |number, byte| number | u64::from(bytes[at + byte]) << (8 * byte))
    };
    let mut entry = HEADER_BYTES + count * usize::from(header.time_width + header.symbol_width);
    let entries = record.fields.iter().map(|field| if field.width > 8 { 2 } else { 1 }).sum::<usize>();
    let mut at = entry + 16 * entries;
    // Bit by bit and byte by byte: null bitmap, slots, heap of each row.
    let mut bodies = vec![(vec![0; record.fixed], Vec::new()); count];
    for field in &record.fields {
        let is_text = matches!(field.ty, TypeLayout::String | TypeLayout::Binary);
        let mut nulls = None;
        let mut words = vec![Vec::new(); count];
        let mut heap = 0;
        for _ in 0..if field.width > 8 { 2 } else { 1 } {
            let (width, flags) = (number(entry, 1) as usize, number(entry + 1, 1));
            let base = number(entry + 8, 8);
            heap = number(entry + 4, 4) as usize;
            entry += 16;
            if flags == 1 {
                nulls = Some(at);
                at += count.div_ceil(8);
            }
            for words in &mut words {
                words.push(base.wrapping_add(number(at, width)));
                at += width;
            }
        }
        let text = at;
        at += if is_text { heap } else { 0 };
        let mut next = text;
        for (row, ((fixed, texts), words)) in bodies.iter_mut().zip(&words).enumerate() {
            let is_null = nulls.is_some_and(|nulls| bytes[nulls + row / 8] >> (row % 8) & 1 == 1);
            if is_null && let Some(bit) = field.null_bit {
                fixed[bit / 8] |= 1 << (bit % 8);
            }
            let mut slot = field.offset;
            if is_text {
                let length = words[0] as u32 as usize;
                texts.extend_from_slice(&bytes[next..next + length]);
                next += length;
                let end = (record.fixed + texts.len()) as u32;
                fixed[slot..slot + 4].copy_from_slice(&end.to_le_bytes());
            } else if !is_null {
                for word in words {
                    let width = 8.min(field.offset + field.width - slot);
                    fixed[slot..slot + width].copy_from_slice(&word.to_le_bytes()[..width]);
                    slot += width;
                }
            }
        }
    }
    bodies.into_iter().map(|(fixed, texts)| [fixed, texts].concat()).collect()
}

/// A batch of up to twenty messages.
fn seed(number: u64) -> Vec<u8> {
    let mut random = SplitMix64::new(number);
    let count = 1 + random.below(20);
    let spread = random.below(64) as u32;
    let bits: Vec<u64> = (0..count).map(|_| random.next_u64() >> spread).collect();
    let of = |take: fn(u64) -> u32| bits.iter().map(|bits| take(*bits)).collect::<Vec<u32>>();
    let ints: Vec<i64> = bits.iter().map(|bits| *bits as i64).collect();
    let shorts: Vec<u16> = bits.iter().map(|bits| *bits as u16).collect();
    let bools: Vec<bool> = bits.iter().map(|bits| bits % 2 == 1).collect();
    let decimals: Vec<Decimal64> =
        bits.iter().map(|bits| Decimal64::from_parts((bits >> 12) as i64, -2).unwrap_or_default()).collect();
    let floats: Vec<f64> = bits.iter().map(|bits| f64::from_bits(*bits)).collect();
    let of_day: Vec<i64> = bits.iter().map(|bits| (bits % 86_400_000_000_000) as i64).collect();
    let chars: Vec<char> = bits.iter().map(|bits| char::from((bits % 200) as u8)).collect();
    let keys = of(|bits| (bits % 3) as u32);
    let texts = FieldValues::Dictionary { texts: &["", "abc", "sixteen letters."], keys: &keys };
    let short = FieldValues::Dictionary { texts: &["A", "BC", "DEFGH"], keys: &keys };
    let long = FieldValues::Dictionary { texts: &["A", "twelve chars", "ninechars"], keys: &keys };
    let symbols = FieldValues::Dictionary { texts: &["C", "A", "B"], keys: &keys };
    let valid: Vec<u8> = bits.iter().map(|bits| (bits >> 3) as u8).collect();
    let validity = Validity::Bits { bytes: &valid, offset: random.below(8) };
    let columns = [
        InputColumn::nullable("n", &ints, validity),
        InputColumn::new("k", &shorts),
        InputColumn::nullable("e", symbols, validity),
        InputColumn::new("b", &bools),
        InputColumn::nullable("p", &decimals, validity),
        InputColumn::new("f", &floats),
        InputColumn::new("o", &of_day),
        InputColumn::new("c", &chars),
        InputColumn::nullable("a", short, validity),
        InputColumn::new("w", long),
        InputColumn::nullable("t", texts, validity),
        InputColumn::new("x", texts),
    ];
    let record = &layouts().records()[0];
    let mut writer = ColumnWriter::new(layouts(), record, &columns, count).expect("columns that fit");
    let ids = of(|bits| (bits % 300) as u32);
    let mut out = Vec::new();
    writer.write(0..count, (&ints, &ids), 1, &mut out);
    batch::assign_sequence(&mut out, number % 1000).expect("a batch has a header");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_batches_of_columns_that_pass() {
        for number in 0..200 {
            let batch = seed(number);
            let header = batch::check(&batch).unwrap();
            assert!(header.is_columnar());
            let columns = BatchColumns::parse(&header, &batch, layouts()).unwrap();
            assert_eq!(columns.check(), Ok(()));
        }
    }
}
