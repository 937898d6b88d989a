//! Few symbols of many: read in part, they are the rows that the whole block has of them, and damage is noticed.

use tapedb_codec::dynamic::Layouts;
use tapedb_segment::{
    Block, BlockOptions, ColumnValues, Decoder, Plan, Rows, Segment, SegmentHeader, SegmentWriter, Selection,
};
use tapedb_testing::blocks::{Message, messages};
use tapedb_testing::sample::SplitMix64;
use tapedb_testing::schemas::{market_layouts, sample_layouts};

/// Messages of which each has one of `symbols` ids; in turn, or by chance.
fn spread(layouts: &Layouts, seed: u64, count: usize, symbols: usize, in_turn: bool) -> Vec<Message> {
    let mut random = SplitMix64::new(seed);
    let mut all = messages(layouts, seed, count);
    for (i, (header, _)) in all.iter_mut().enumerate() {
        let symbol = if in_turn { i % symbols } else { random.below(symbols) };
        header.symbol = symbol as u32 * 3 + 1;
    }
    all
}

fn file(layouts: &Layouts, messages: &[Message], rows: usize) -> Vec<u8> {
    let options = BlockOptions { rows, ..BlockOptions::default() };
    let plan = Plan::new(layouts.clone());
    let mut writer = SegmentWriter::new(Vec::new(), plan, &SegmentHeader::default(), options).unwrap();
    messages.iter().for_each(|(row, body)| writer.push(*row, body).unwrap());
    writer.finish().unwrap().0
}

/// A schema of one record type whose fields lie side by side: what bars and quotes are like.
fn plain() -> Layouts {
    let text = "message Bar { open: decimal64, close: decimal64, count: u32, price: f64, flags: u8 }";
    Layouts::new(text.parse().unwrap()).unwrap()
}

fn is_cut(segment: &Segment<Vec<u8>>) -> bool {
    let mut block = Block::new();
    (0..segment.blocks().len()).any(|index| {
        segment.read_block(index, &mut block).unwrap();
        block.head().groups.windows(2).any(|pair| pair[0].type_id == pair[1].type_id)
    })
}

/// Reads selections of all kinds in part, and compares them with the messages. Gives the rows compared.
fn compare(messages: &[Message], segment: &Segment<Vec<u8>>, seed: u64, symbols: usize) -> usize {
    let mut random = SplitMix64::new(seed);
    let (mut decoder, mut block, mut rows, mut compared) = (Decoder::new(), Block::new(), Rows::new(), 0);
    let last = messages.last().map_or(0, |(header, _)| header.time);
    for round in 0..12 {
        let share = [symbols, symbols, 40, 2][round % 4];
        let ids: Vec<u32> = (0..symbols as u32 * 3 + 5).filter(|_| random.once_in(share)).collect();
        let types: Vec<u16> = (0..4).filter(|_| random.once_in(2)).collect();
        let (a, b) = (random.below(last as usize + 1) as i64, random.below(last as usize + 1) as i64);
        let selection = Selection {
            from: if round % 3 == 0 { a.min(b) } else { i64::MIN },
            last: if round % 3 == 0 { a.max(b) } else { i64::MAX },
            symbols: (round != 5).then_some(&ids[..]),
            types: (round % 5 == 0).then_some(&types[..]),
        };
        let mut found = Vec::new();
        for index in 0..segment.blocks().len() {
            segment.read_selected(index, &mut block, &selection).unwrap();
            decoder.rows(segment.plan(), &block, &selection, &mut rows).unwrap();
            found.extend((0..rows.len()).map(|row| (rows.header(row), rows.body(row).to_vec())));
        }
        let wanted = messages.iter().filter(|(header, _)| {
            (selection.from..=selection.last).contains(&header.time)
                && selection.symbols.is_none_or(|ids| ids.contains(&header.symbol))
                && selection.types.is_none_or(|ids| ids.contains(&header.type_id))
        });
        assert!(found.iter().eq(wanted), "seed {seed}, {selection:?}");
        compared += found.len();
    }
    compared
}

#[test]
fn what_is_read_in_part_is_what_is_there() {
    let mut compared = 0;
    for seed in 0..6 {
        let (in_turn, symbols) = (seed % 2 == 0, [70, 300, 1_000][seed as usize % 3]);
        for (layouts, count) in [(&plain(), 20_000), (market_layouts(), 9_000)] {
            let messages = spread(layouts, seed, count, symbols, in_turn);
            let segment = Segment::open(file(layouts, &messages, 65_535)).unwrap();
            assert!(is_cut(&segment) || layouts.records().len() > 1, "seed {seed}");
            compared += compare(&messages, &segment, seed, symbols);
        }
        let layouts = sample_layouts(seed as usize);
        let messages = spread(layouts, seed, 300, 9, in_turn);
        compared += compare(&messages, &Segment::open(file(layouts, &messages, 100)).unwrap(), seed, 9);
    }
    assert!(compared > 50_000);
}

#[test]
fn columns_of_cut_record_types_are_read_whole() {
    let (layouts, mut decoder, mut block) = (plain(), Decoder::new(), Block::new());
    let messages = spread(&layouts, 3, 20_000, 200, false);
    let segment = Segment::open(file(&layouts, &messages, 65_535)).unwrap();
    assert!(is_cut(&segment));
    let (mut values, mut places, mut times) = (ColumnValues::new(), Vec::new(), Vec::new());
    segment.read_columns(0, &mut block, |_, column| column == 2).unwrap();
    decoder.times(&block, &mut times).unwrap();
    assert!(times.iter().eq(messages.iter().map(|(header, _)| &header.time)));
    for symbols in [None, Some(&[4, 100, 301, 598][..])] {
        decoder.column(segment.plan(), &block, (0, 2), symbols, &mut values).unwrap();
        let rows: Vec<usize> = (0..messages.len()).collect();
        decoder.places(&block, 0, symbols).unwrap().pick(&rows, &mut places);
        let tapedb_segment::Values::Ints(ints) = values.values() else { panic!("numbers") };
        let offset = layouts.records()[0].fields[2].offset;
        let expected = places.iter().map(|place| {
            i64::from(u32::from_le_bytes(messages[*place].1[offset..][..4].try_into().unwrap()))
        });
        assert!(ints.iter().copied().eq(expected));
        let wanted = |symbol: &u32| symbols.is_none_or(|ids| ids.contains(symbol));
        let count = messages.iter().filter(|(header, _)| wanted(&header.symbol)).count();
        assert_eq!((places.len(), values.runs().last().copied()), (count, Some(count as u32)));
        assert!(places.is_sorted_by_key(|place| (messages[*place].0.symbol, *place)));
    }
}

#[test]
fn a_flipped_bit_in_what_is_read_is_noticed() {
    let layouts = plain();
    let messages = spread(&layouts, 5, 20_000, 300, true);
    let mut bytes = file(&layouts, &messages, 65_535);
    let whole = Segment::open(bytes.clone()).unwrap();
    let (mut decoder, mut block, mut rows) = (Decoder::new(), Block::new(), Rows::new());
    let selection = Selection { symbols: Some(&[451]), ..Selection::default() };
    let wanted: Vec<&Message> = messages.iter().filter(|(header, _)| header.symbol == 451).collect();
    whole.read_block(0, &mut block).unwrap();
    let head = block.head();
    let group = (0..head.groups.len()).rfind(|group| head.groups[*group].first_symbol <= 451).unwrap();
    let is_used = |at: u32| {
        let chunk = head.chunks.iter().find(|chunk| (chunk.offset..chunk.offset + chunk.len).contains(&at));
        chunk.is_none_or(|chunk| chunk.group == u16::MAX || usize::from(chunk.group) == group)
    };
    let entry = whole.blocks()[0];
    let (mut noticed, mut unused) = (0, 0);
    let (mut part, mut random) = (Block::new(), SplitMix64::new(1));
    for at in 0..entry.len {
        // The front is looked at wholly, the rest here and there.
        if at > entry.front_len && !random.once_in(if is_used(at) { 4 } else { 400 }) {
            continue;
        }
        let place = entry.offset as usize + at as usize;
        bytes[place] ^= 1 << (at % 8);
        let segment = Segment::open(&bytes[..]).unwrap();
        let read = segment.read_selected(0, &mut part, &selection).is_ok()
            && decoder.rows(segment.plan(), &part, &selection, &mut rows).is_ok();
        assert_eq!(read, !is_used(at), "byte {at}");
        if read {
            let found = (0..rows.len()).map(|row| (rows.header(row), rows.body(row)));
            assert!(found.eq(wanted.iter().map(|(header, body)| (*header, &body[..]))), "byte {at}");
        }
        (noticed, unused) = (noticed + usize::from(!read), unused + usize::from(read));
        bytes[place] ^= 1 << (at % 8);
    }
    assert!(noticed > 1_000 && unused > 50, "{noticed} noticed, {unused} unused");
}
