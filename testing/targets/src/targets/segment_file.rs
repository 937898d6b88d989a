//! Segment files: opened, and read in every way.

use crate::Target;
use crate::blocks::messages;
use crate::schemas::sample_layouts;
use tapedb_segment::trials::{self, Random};
use tapedb_segment::{
    Block, BlockOptions, ColumnValues, Decoder, LaneColumn, LaneColumns, Plan, RowHeader, Rows, Segment,
    SegmentHeader, SegmentWriter, Selection, Values,
};

/// See the module.
pub const TARGET: Target = Target { name: "segment_file", run, seed };

/// Whatever the bytes: no panic, no row that the head does not count, columns as long as their rows; where all checksums are
/// right, rows of the checksum that the head tells of their content; and what the reference decoder gives of a block, in every
/// way that there is to read it. Then with the checksums of bytes made right again, so that what lies behind them is reached.
pub fn run(input: &[u8]) {
    read_all(input, false);
    let mut resealed = input.to_vec();
    reseal(&mut resealed);
    read_all(&resealed, true);
}

fn read_all(input: &[u8], is_resealed: bool) {
    let segment = match Segment::open(input) {
        Ok(segment) => segment,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let mut block = Block::new();
    for index in 0..segment.blocks().len() {
        match segment.read_block(index, &mut block) {
            Ok(()) => {
                read_block(segment.plan(), &block, is_resealed);
                let (entry, mut random) = (&segment.blocks()[index], Random::new(index as u64));
                let bytes = &input[entry.offset as usize..][..entry.len as usize];
                trials::block(segment.plan(), bytes, &mut random);
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    read_selected(&segment, &mut block);
    for (symbol, _) in segment.symbols() {
        assert!(segment.blocks_of(symbol).flatten().all(|index| index < segment.blocks().len()));
    }
    assert!(segment.blocks_between(i64::MIN, i64::MAX).len() == segment.blocks().len());
}

/// What is read in part is an error or what was asked for.
fn read_selected(segment: &Segment<&[u8]>, block: &mut Block) {
    let (mut decoder, mut rows) = (Decoder::new(), Rows::new());
    let selection = Selection { symbols: Some(&[7, 14]), ..Selection::default() };
    for index in 0..segment.blocks().len() {
        let read = segment.read_selected(index, block, &selection).is_ok();
        if read && decoder.rows(segment.plan(), block, &selection, &mut rows).is_ok() {
            assert!((0..rows.len()).all(|row| [7, 14].contains(&rows.header(row).symbol)));
        }
    }
}

fn read_block(plan: &Plan, block: &Block, is_resealed: bool) {
    let (mut decoder, mut rows, mut values) = (Decoder::new(), Rows::new(), ColumnValues::new());
    let (head, mut places) = (block.head(), Vec::new());
    match decoder.rows(plan, block, &Selection::default(), &mut rows) {
        Ok(()) => {
            assert_eq!(rows.len(), head.count as usize);
            let bytes: usize = (0..rows.len()).map(|row| rows.body(row).len()).sum();
            assert_eq!(bytes, head.body_bytes as usize);
            let compared = block.check_content(&rows);
            assert!(is_resealed || compared.is_ok(), "{compared:?}");
        }
        Err(error) => assert!(rows.is_empty() && !error.to_string().is_empty()),
    }
    let middle = head.time_min / 2 + head.time_max / 2;
    let some = Selection { from: middle, symbols: Some(&[0, 7]), ..Selection::default() };
    if decoder.rows(plan, block, &some, &mut rows).is_ok() {
        assert!((0..rows.len()).all(|row| [0, 7].contains(&rows.header(row).symbol)));
    }
    for group in &head.groups {
        if let Ok(found) = decoder.places(block, group.type_id, None) {
            found.pick(&(0..head.count).collect::<Vec<u32>>(), &mut places);
        }
        let mut times = Vec::new();
        let _ = decoder.times_by_lane(block, group.type_id, Some(&[0, 7]), &mut Vec::new(), &mut times);
        let columns = plan.group(group.type_id).map_or(0, |plan| plan.columns().len());
        let all: Vec<u16> = (0..columns as u16).collect();
        let of = (group.type_id, &all[..]);
        let mut together = Vec::new();
        let are_together = decoder.columns((plan, block), of, None, &mut together).is_ok();
        for column in 0..columns as u16 {
            let is_alone = decoder.column(plan, block, (group.type_id, column), None, &mut values).is_ok();
            if are_together && is_alone {
                assert!(is_same(together[usize::from(column)].values(), values.values()), "column {column}");
            }
        }
        by_lane(plan, block, of, &mut decoder, &mut rows);
    }
}

fn is_same(a: Values<'_>, b: Values<'_>) -> bool {
    match (a, b) {
        (Values::F64s(a), Values::F64s(b)) => a.iter().map(|a| a.to_bits()).eq(b.iter().map(|b| b.to_bits())),
        (Values::F32s(a), Values::F32s(b)) => a.iter().map(|a| a.to_bits()).eq(b.iter().map(|b| b.to_bits())),
        (a, b) => a == b,
    }
}

/// Takes rows out of columns, as a reader in time order does.
fn by_lane(plan: &Plan, block: &Block, of: (u16, &[u16]), decoder: &mut Decoder, rows: &mut Rows) {
    let selection = Selection { types: Some(&[of.0]), ..Selection::default() };
    let mut columns = LaneColumns::default();
    if decoder.headers(block, &selection, rows).is_err()
        || decoder
            .lane_columns((plan, block), of, (None, None), |column| column % 3 == 2, &mut columns)
            .is_err()
    {
        return;
    }
    // What is decoded for some rows alone has the same values in these.
    let mut chosen: Vec<u32> = rows.homes(0..rows.len()).iter().copied().step_by(3).collect();
    chosen.sort_unstable();
    let mut few = LaneColumns::default();
    let chosen_alone = (None, Some(&chosen[..]));
    decoder
        .lane_columns((plan, block), of, chosen_alone, |column| column % 3 == 2, &mut few)
        .expect("all rows were decoded");
    for ((column, few), number) in columns.columns().iter().zip(few.columns()).zip(of.1) {
        let Some(info) = plan.group(of.0).and_then(|plan| plan.columns().get(usize::from(*number))) else {
            continue;
        };
        if column.len() >= rows.places_end() {
            let taken = |column: &LaneColumn, homes: &[u32]| {
                let mut out = ColumnValues::new();
                out.begin(info.kind);
                column.append_homes(homes, &mut out);
                out
            };
            assert_eq!(taken(column, rows.homes(0..rows.len())).values().len(), rows.len());
            assert!(
                is_same(taken(column, &chosen).values(), taken(few, &chosen).values()),
                "column {number}"
            );
        }
    }
}

/// Makes the checksums right of every block whose head has its place, of the footer and of the trailer.
fn reseal(file: &mut [u8]) {
    let mut at = 0;
    while let Some(found) = file[at..].windows(4).position(|bytes| bytes == b"TPK1") {
        at += found;
        tapedb_segment::reseal_block(&mut file[at..]);
        at += 4;
    }
    tapedb_segment::reseal_footer(file);
}

/// A file of a few dozen messages of one of the schemas.
fn seed(number: u64) -> Vec<u8> {
    let layouts = sample_layouts(number as usize);
    let options = BlockOptions { rows: 10 + number as usize % 50, ..BlockOptions::default() };
    let header = SegmentHeader { stream_id: 7, next_sequence: 1_000, ..SegmentHeader::default() };
    let plan = Plan::new(layouts.clone());
    let mut writer = SegmentWriter::new(Vec::new(), plan, &header, options).expect("memory takes all");
    let messages: Vec<(RowHeader, Vec<u8>)> = messages(layouts, number, 5 + number as usize % 60);
    messages.iter().for_each(|(row, body)| writer.push(*row, body).expect("messages are in order"));
    writer.finish().expect("memory takes all").0
}
