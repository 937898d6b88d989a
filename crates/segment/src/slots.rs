//! Fields of rows that came as columns, in the order of lanes.

use crate::plan::{Node, RecordNode};
use crate::spare::Ints;

/// The slots of the fields of one record type, and where each row stands in the order of lanes.
pub(crate) struct Slots<'a> {
    record: &'a RecordNode,
    /// By the order of fields, in order of rows; empty where a field has no slot of up to eight bytes.
    fields: &'a [Vec<i64>],
    /// Of each row its place.
    places: Vec<u16>,
}

impl<'a> Slots<'a> {
    /// `order` has all rows in the order of lanes.
    pub fn new(record: &'a RecordNode, fields: &'a [Vec<i64>], order: &[u16]) -> Self {
        let mut places = vec![0; order.len()];
        for (place, row) in (0..).zip(order) {
            if let Some(of_row) = places.get_mut(usize::from(*row)) {
                *of_row = place;
            }
        }
        Self { record, fields, places }
    }

    /// The values of a column in the order of lanes, if it is that of a field that came as a column.
    pub fn column(&self, column: usize) -> Option<Ints> {
        let is_it = |node: &Node| matches!(node, Node::Leaf { column: own, .. } if *own == column);
        let index = self.record.fields.iter().position(|field| is_it(&field.node))?;
        let values = self.fields.get(index).filter(|values| values.len() == self.places.len())?;
        // Read in a row and stored into a few lanes: the other way around, each value would be a cache line.
        let mut out = Ints::unset(values.len());
        for (value, place) in values.iter().zip(&self.places) {
            if let Some(out) = out.get_mut(usize::from(*place)) {
                *out = *value;
            }
        }
        Some(out)
    }
}

#[cfg(test)]
mod tests {
    use crate::builder::BlockOptions;
    use crate::format::SegmentHeader;
    use crate::plan::Plan;
    use crate::row::RowHeader;
    use crate::source::ColumnRun;
    use crate::trials::Random;
    use crate::writer::SegmentWriter;
    use crate::{SegmentError, Written};
    use tapedb_codec::batch::{
        BatchColumns, BatchHeader, ColumnWriter, FieldValues, InputColumn, Rows, to_rows,
    };
    use tapedb_codec::dynamic::Layouts;
    use tapedb_schema::Decimal64;

    const SCHEMA: &str = "enum E { A, B, C }
        message Many {
            b: bool?, i8: i8, i16: i16?, i32: i32, i64: i64?, u16: u16, u64: u64, f32: f32?, f64: f64, d: decimal64?,
            a3: ascii(3), a8: ascii(8)?, a9: ascii(9)?, e: E?, s: decimal(18,2)
        }
        message Few { open: decimal64, high: decimal64, low: decimal64, volume: i64 }
        message None { }";

    /// A batch of columns, as it lies in the log, with times that do not descend from `time` on.
    struct Batch {
        bytes: Vec<u8>,
        header: BatchHeader,
        times: Vec<i64>,
        symbols: Vec<u32>,
    }

    fn batch(
        random: &mut Random,
        layouts: &Layouts,
        (type_id, rows): (usize, usize),
        time: &mut i64,
    ) -> Batch {
        let record = &layouts.records()[type_id];
        let (symbols_max, step) = (1 + random.below(12) as u32, random.below(3) as i64);
        let mut times = Vec::new();
        let mut symbols = Vec::new();
        for _ in 0..rows {
            *time += step * (random.below(4) as i64);
            times.push(*time);
            symbols.push(random.below(symbols_max as usize) as u32 * 3);
        }
        let wide = *[8, 30, 64].get(random.below(3)).unwrap();
        let mut words = || -> Vec<u64> { (0..rows).map(|_| random.number() >> (64 - wide)).collect() };
        let (a, b, c) = (words(), words(), words());
        let valid: Vec<bool> = a.iter().map(|word| word % 5 != 0 || wide == 8).collect();
        let i64s: Vec<i64> = b.iter().map(|word| *word as i64).collect();
        let (i8s, i16s, i32s): (Vec<i8>, Vec<i16>, Vec<i32>) = (
            a.iter().map(|word| *word as i8).collect(),
            b.iter().map(|word| *word as i16).collect(),
            c.iter().map(|word| *word as i32).collect(),
        );
        let u16s: Vec<u16> = c.iter().map(|word| *word as u16).collect();
        let bools: Vec<bool> = c.iter().map(|word| word % 2 == 0).collect();
        let f64s: Vec<f64> = a.iter().map(|word| f64::from_bits(*word)).collect();
        let f32s: Vec<f32> = b.iter().map(|word| *word as u16 as f32 / 4.0).collect();
        let cents = |words: &[u64]| -> Vec<Decimal64> {
            let decimal = |word: &u64| Decimal64::from_parts((word & 0xffff) as i64 - 100, -2).unwrap();
            words.iter().map(decimal).collect()
        };
        let plain: Vec<Decimal64> =
            a.iter().map(|word| Decimal64::from_parts((word & 0xff_ffff) as i64, -2).unwrap()).collect();
        let (d, e) = (cents(&a), cents(&b));
        let texts: Vec<String> = c.iter().map(|word| format!("{:x}", word & 0xfff)).collect();
        let longer: Vec<String> = c.iter().map(|word| format!("{:x}", word & 0xf_ffff_ffff)).collect();
        let ordinals: Vec<u8> = c.iter().map(|word| (word % 3) as u8).collect();
        let columns: Vec<InputColumn<'_>> = match type_id {
            0 => vec![
                InputColumn::nullable("b", &bools, &valid),
                InputColumn::new("i8", &i8s),
                InputColumn::nullable("i16", &i16s, &valid),
                InputColumn::new("i32", &i32s),
                InputColumn::nullable("i64", &i64s, &valid),
                InputColumn::new("u16", &u16s),
                InputColumn::new("u64", &a),
                InputColumn::nullable("f32", &f32s, &valid),
                InputColumn::new("f64", &f64s),
                InputColumn::nullable("d", &d, &valid),
                InputColumn::new("a3", FieldValues::Strings(&texts)),
                InputColumn::nullable("a8", FieldValues::Strings(&texts), &valid),
                InputColumn::nullable("a9", FieldValues::Strings(&longer), &valid),
                InputColumn::nullable("e", &ordinals, &valid),
                InputColumn::new("s", &i64s),
            ],
            1 => vec![
                InputColumn::new("open", &plain),
                InputColumn::new("high", &plain),
                InputColumn::new("low", &e),
                InputColumn::new("volume", &i64s),
            ],
            _ => Vec::new(),
        };
        let mut writer = ColumnWriter::new(layouts, record, &columns, rows).unwrap();
        let range = writer.next(0, usize::MAX, usize::MAX);
        let mut bytes = Vec::new();
        let header = writer.write(range, (&times, &symbols), 1, &mut bytes);
        Batch { bytes, header, times, symbols }
    }

    fn writer(layouts: &Layouts, rows: usize) -> SegmentWriter<Vec<u8>> {
        let options = BlockOptions { rows, ..BlockOptions::default() };
        SegmentWriter::new(Vec::new(), Plan::new(layouts.clone()), &SegmentHeader::default(), options)
            .unwrap()
    }

    fn push_columns(
        to: &mut SegmentWriter<Vec<u8>>,
        layouts: &Layouts,
        batch: &Batch,
        (rows, first_sequence): (std::ops::Range<usize>, u64),
    ) -> Result<(), SegmentError> {
        if !batch.header.is_columnar() {
            // As rows it is smaller.
            return push_rows(to, layouts, batch, (rows, first_sequence));
        }
        let columns = BatchColumns::parse(&batch.header, &batch.bytes, layouts).unwrap();
        to.push_columns(&ColumnRun {
            times: &batch.times[rows.clone()],
            first_sequence: first_sequence + rows.start as u64,
            symbols: &batch.symbols[rows.clone()],
            columns: &columns,
            first: rows.start,
        })
    }

    fn push_rows(
        to: &mut SegmentWriter<Vec<u8>>,
        layouts: &Layouts,
        batch: &Batch,
        (range, first_sequence): (std::ops::Range<usize>, u64),
    ) -> Result<(), SegmentError> {
        let (mut bytes, mut rows) = (Vec::new(), Rows::default());
        match batch.header.is_columnar() {
            true => to_rows(&batch.header, &batch.bytes, layouts, &mut bytes).map(drop).unwrap(),
            false => bytes.extend_from_slice(&batch.bytes),
        }
        let header = BatchHeader::parse_stored(&bytes).unwrap();
        rows.load_parsed(&header, &bytes).unwrap();
        range.into_iter().try_for_each(|at| {
            let row = rows.row(at);
            let sequence = first_sequence + at as u64;
            let header = RowHeader { time: row.time, sequence, symbol: row.symbol, type_id: row.type_id };
            to.push(header, &bytes[row.body])
        })
    }

    fn finish(writer: SegmentWriter<Vec<u8>>) -> (Vec<u8>, Written) {
        let (bytes, written) = writer.finish().unwrap();
        assert_eq!(written.mismatches, 0);
        (bytes, written)
    }

    #[test]
    fn columns_become_the_blocks_that_rows_become() {
        let layouts = Layouts::new(SCHEMA.parse().unwrap()).unwrap();
        for seed in 0..60 {
            let mut random = Random::new(seed);
            let block_rows = *[50, 300, 16_384].get(random.below(3)).unwrap();
            let types = [&[0][..], &[1], &[2], &[0, 1], &[1, 1, 1, 0, 2]][random.below(5)];
            let (mut by_columns, mut by_rows) = (writer(&layouts, block_rows), writer(&layouts, block_rows));
            let mut mixed = writer(&layouts, block_rows);
            let (mut time, mut sequence) = (1_700_000_000_000_000_000, 7);
            for _ in 0..1 + random.below(8) {
                let shape = (types[random.below(types.len())], 1 + random.below(700));
                let batch = batch(&mut random, &layouts, shape, &mut time);
                let rows = batch.times.len();
                let cut = random.below(rows + 1);
                for range in [0..cut, cut..rows] {
                    push_columns(&mut by_columns, &layouts, &batch, (range.clone(), sequence)).unwrap();
                    push_rows(&mut by_rows, &layouts, &batch, (range.clone(), sequence)).unwrap();
                    match random.below(3) {
                        0 => push_rows(&mut mixed, &layouts, &batch, (range, sequence)).unwrap(),
                        _ => push_columns(&mut mixed, &layouts, &batch, (range, sequence)).unwrap(),
                    }
                }
                sequence += rows as u64 + random.below(2) as u64;
            }
            let expected = finish(by_rows);
            assert!(finish(by_columns) == expected, "seed {seed}");
            assert!(finish(mixed) == expected, "seed {seed}, some of them as rows");
        }
    }

    #[test]
    fn late_columns_are_refused_where_late_rows_are() {
        let layouts = Layouts::new(SCHEMA.parse().unwrap()).unwrap();
        let mut random = Random::new(1);
        let mut batch = batch(&mut random, &layouts, (1, 100), &mut 1_000);
        batch.times = (0..100).map(|row| if row == 60 { 5 } else { 1_000 + row }).collect();
        let mut by_columns = writer(&layouts, 30);
        let refused = push_columns(&mut by_columns, &layouts, &batch, (0..100, 7)).unwrap_err();
        assert!(
            matches!(refused, SegmentError::OutOfOrder { before: (1_059, 66), given: (5, 67) }),
            "{refused:?}"
        );
        // Those before it are there.
        assert_eq!(finish(by_columns).1.messages, 60);
        let mut by_columns = writer(&layouts, 30);
        push_columns(&mut by_columns, &layouts, &batch, (0..60, 7)).unwrap();
        let again = push_columns(&mut by_columns, &layouts, &batch, (10..20, 7)).unwrap_err();
        assert!(matches!(again, SegmentError::OutOfOrder { .. }), "{again:?}");
        assert!(push_columns(&mut by_columns, &layouts, &batch, (0..0, 7)).is_ok(), "no rows");
    }
}
