//! Random messages of fifty random schemas through blocks: every row and column comes back, whatever is asked for.

use tapedb_codec::dynamic::Layouts;
use tapedb_segment::{
    Block, BlockBuilder, BlockOptions, ColumnKind, ColumnValues, Decoder, Plan, RowHeader, Rows, Selection,
    Values,
};
use tapedb_testing::blocks::{Message, messages, push_all};
use tapedb_testing::sample::SplitMix64;
use tapedb_testing::schemas::{SAMPLES, market_layouts, sample_layouts};

fn block_of(plan: &Plan, messages: &[Message]) -> Block {
    let mut builder = BlockBuilder::new(BlockOptions::default());
    push_all(&mut builder, messages);
    let mut bytes = Vec::new();
    builder.finish(plan, &mut bytes);
    let mut block = Block::new();
    block.load(&bytes).unwrap();
    block
}

fn same<'a>(rows: &Rows, wanted: impl Iterator<Item = &'a Message>, what: &str) {
    let mut row = 0;
    for (header, body) in wanted {
        assert!(row < rows.len(), "{what}: {} rows", rows.len());
        assert_eq!(rows.header(row), *header, "{what}: row {row}");
        assert_eq!(rows.body(row), body, "{what}: body of row {row} {header:?}");
        row += 1;
    }
    assert_eq!(rows.len(), row, "{what}");
}

fn all_ways(layouts: &Layouts, seed: u64, count: usize, decoder: &mut Decoder, rows: &mut Rows) {
    let messages = messages(layouts, seed, count);
    let plan = Plan::new(layouts.clone());
    let block = block_of(&plan, &messages);
    decoder.rows(&plan, &block, &Selection::default(), rows).unwrap();
    same(rows, messages.iter(), &format!("seed {seed}, all"));
    let mut random = SplitMix64::new(seed);
    for round in 0..6 {
        let last = messages.last().map_or(0, |(header, _)| header.time);
        let (a, b) = (random.below(last as usize + 2) as i64 - 1, random.below(last as usize + 2) as i64);
        let symbols: Vec<u32> = (0..70).filter(|_| random.once_in(3)).collect();
        let types: Vec<u16> = (0..layouts.records().len() as u16).filter(|_| random.once_in(2)).collect();
        let selection = Selection {
            from: if round % 2 == 0 { i64::MIN } else { a.min(b) },
            last: if round % 2 == 0 { i64::MAX } else { a.max(b) },
            symbols: (round % 3 != 0).then_some(&symbols[..]),
            types: (round >= 3).then_some(&types[..]),
        };
        decoder.rows(&plan, &block, &selection, rows).unwrap();
        let wanted = messages.iter().filter(|(header, _)| {
            (selection.from..=selection.last).contains(&header.time)
                && selection.symbols.is_none_or(|ids| ids.contains(&header.symbol))
                && selection.types.is_none_or(|ids| ids.contains(&header.type_id))
        });
        same(rows, wanted, &format!("seed {seed}, {selection:?}"));
    }
}

#[test]
fn rows_come_back_byte_for_byte_whatever_is_asked_for() {
    let (mut decoder, mut rows) = (Decoder::new(), Rows::new());
    for seed in 0..4 * SAMPLES as u64 {
        let count = [1, 2, 40, 300][seed as usize % 4];
        all_ways(sample_layouts(seed as usize), seed, count, &mut decoder, &mut rows);
    }
    for seed in 0..4 {
        all_ways(market_layouts(), seed, 2_000, &mut decoder, &mut rows);
    }
}

/// Fields of fixed width at the top of a record, read one by one, against the bodies.
#[test]
fn columns_agree_with_rows() {
    let (mut decoder, mut values, mut places) = (Decoder::new(), ColumnValues::new(), Vec::new());
    let mut compared = 0;
    for seed in 0..2 * SAMPLES as u64 {
        let layouts = sample_layouts(seed as usize);
        let (messages, plan) = (messages(layouts, seed, 200), Plan::new(layouts.clone()));
        let block = block_of(&plan, &messages);
        let symbols = [0, 14, 21];
        for (type_id, record) in layouts.records().iter().enumerate() {
            let type_id = type_id as u16;
            for symbols in [None, Some(&symbols[..])] {
                let rows: Vec<usize> = (0..messages.len()).collect();
                decoder.places(&block, type_id, symbols).unwrap().pick(&rows, &mut places);
                for (number, column) in plan.group(type_id).unwrap().columns().iter().enumerate() {
                    let asked = (type_id, number as u16);
                    decoder.column(&plan, &block, asked, symbols, &mut values).unwrap();
                    let Some(field) = record.fields.iter().find(|field| field.name == column.path) else {
                        continue;
                    };
                    let ColumnKind::Int { width, .. } = column.kind else { continue };
                    let is_there =
                        |body: &[u8]| field.null_bit.is_none_or(|bit| body[bit / 8] >> (bit % 8) & 1 == 0);
                    let bodies = places.iter().map(|place| &messages[*place].1[..]);
                    let slots = bodies
                        .filter(|body| is_there(body))
                        .map(|body| &body[field.offset..][..width.into()]);
                    let Values::Ints(ints) = values.values() else { panic!("{column:?}") };
                    let expected: Vec<Vec<u8>> = slots.map(<[u8]>::to_vec).collect();
                    let got: Vec<Vec<u8>> =
                        ints.iter().map(|int| int.to_le_bytes()[..width.into()].to_vec()).collect();
                    assert_eq!(got, expected, "seed {seed}, {} {}", record.name, column.path);
                    compared += got.len();
                }
            }
        }
    }
    assert!(compared > 10_000);
}

/// 128 messages in one millisecond with a pause among them: times and fields of all kinds of integers come back.
#[test]
fn pauses_in_milliseconds_come_back() {
    let layouts = Layouts::new("message M { at: timestamp, n: i64 }".parse().unwrap()).unwrap();
    let (plan, mut decoder, mut rows) = (Plan::new(layouts), Decoder::new(), Rows::new());
    for pause_ms in [2_147, 2_148, 5_000, 32_767, 32_768] {
        let mut time = 1_381_156_202_000_000_000;
        let message = |row: u64| {
            // 41 groups of 128 rows, of which the 21st is quiet but for its pause.
            time += match row {
                2_600 => pause_ms * 1_000_000,
                2_560..2_688 => 0,
                _ => 1_000_000 * (row * row % 13) as i64,
            };
            let body = [time + 1, time / 1_000].map(i64::to_le_bytes).concat();
            (RowHeader { time, sequence: row, symbol: 0, type_id: 0 }, body)
        };
        let messages: Vec<Message> = (0..5_248).map(message).collect();
        let block = block_of(&plan, &messages);
        decoder.rows(&plan, &block, &Selection::default(), &mut rows).unwrap();
        same(&rows, messages.iter(), &format!("pauses of {pause_ms} ms"));
    }
}
