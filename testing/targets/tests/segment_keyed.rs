//! Fields that others tell apart: bids from asks, one venue from another, deletes from sets.

use tapedb_codec::dynamic::Layouts;
use tapedb_codec::{SchemaBuilder, encode};
use tapedb_market::{BookAction, Entry, Level1, Level2Update, Package, Side};
use tapedb_schema::{Ascii, Decimal64};
use tapedb_segment::{
    Block, BlockBuilder, BlockOptions, ColumnValues, Decoder, Plan, RowHeader, Rows, Selection, Tier, Values,
};
use tapedb_testing::blocks::Message;
use tapedb_testing::sample::SplitMix64;

const VENUES: [&str; 3] = ["ARCA", "BATS", "NYSE"];

fn plan() -> Plan {
    Plan::new(Layouts::new(SchemaBuilder::new().with::<Package>().finish()).unwrap())
}

/// Best prices of three venues that are far from each other and have decimals of their own, and changes of levels of
/// which some are deleted.
fn messages(count: usize) -> Vec<Message> {
    let mut random = SplitMix64::new(7);
    let mut prices = [[61_800_000i64; 2], [58_230_000; 2], [2_680_000; 2]];
    let message = |i: usize| {
        let (venue, side) = (random.below(VENUES.len()), random.below(2));
        let exchange = Some(Ascii::new(VENUES[venue]).unwrap());
        let side_of = [Side::Bid, Side::Ask][side];
        let at = &mut prices[venue][side];
        *at += random.below(3) as i64 - 1;
        let price = Decimal64::from_parts(*at, -2 - venue as i32).unwrap();
        let size = Decimal64::from_parts(random.below(1_000_000) as i64, -3).unwrap();
        let best =
            Level1 { side: side_of, price: Some(price), size: Some(size), exchange, ..Level1::default() };
        let is_set = random.below(3) > 0;
        let change = Level2Update {
            action: if is_set { BookAction::Set } else { BookAction::Delete },
            side: side_of,
            price,
            size: is_set.then_some(size),
            exchange,
            ..Level2Update::default()
        };
        let entries = vec![Entry::Level1(best), Entry::Level2Update(change)];
        let mut body = Vec::new();
        encode(&Package { entries, ..Package::default() }, &mut body);
        let (time, symbol) = (i as i64 * 1_000, (i % 5) as u32);
        let type_id = plan().layouts().schema().record("Package").unwrap().0;
        (RowHeader { time, sequence: i as u64, symbol, type_id }, body)
    };
    (0..count).map(message).collect()
}

fn block_of(plan: &Plan, messages: &[Message], tier: Tier) -> Block {
    let mut builder = BlockBuilder::new(BlockOptions { tier, ..BlockOptions::default() });
    messages.iter().for_each(|(row, body)| builder.push(*row, body).unwrap());
    let (mut bytes, mut block) = (Vec::new(), Block::new());
    builder.finish(plan, &mut bytes);
    block.load(&bytes).unwrap();
    block
}

/// Bytes that a column takes for each value of a block of `count`.
fn each(plan: &Plan, block: &Block, path: &str, count: usize) -> f64 {
    let group = &block.head().groups[0];
    let column = plan.group(group.type_id).unwrap().column(path).unwrap();
    let chunk = block.head().chunks.iter().find(|chunk| chunk.group == 0 && chunk.column == column).unwrap();
    f64::from(chunk.len) / count as f64
}

#[test]
fn side_and_venue_tell_prices_apart() {
    let (plan, messages) = (plan(), messages(6_000));
    for tier in [Tier::Hot, Tier::Cold] {
        let block = block_of(&plan, &messages, tier);
        // Steps of three values need 1.6 bits, and every symbol has a first price; of all venues together, prices need 20.
        let price = each(&plan, &block, "entries[].Level1.price", messages.len());
        assert!(price < 0.6, "{price}");
        let change = each(&plan, &block, "entries[].Level2Update.price", messages.len());
        assert!(change < 0.6, "{change}");
        let presence = each(&plan, &block, "entries[].Level2Update.size?", messages.len());
        assert!(presence < 0.02, "{presence}");
    }
}

#[test]
fn rows_come_back_all_and_some() {
    let (plan, messages) = (plan(), messages(4_000));
    let block = block_of(&plan, &messages, Tier::Hot);
    let (mut decoder, mut rows) = (Decoder::new(), Rows::new());
    for (from, last, symbols) in [
        (i64::MIN, i64::MAX, None),
        (1_000_000, 1_500_000, None),
        (i64::MIN, i64::MAX, Some(&[3][..])),
        (1_000_000, 3_000_000, Some(&[0, 4])),
    ] {
        let selection = Selection { from, last, symbols, ..Selection::default() };
        decoder.rows(&plan, &block, &selection, &mut rows).unwrap();
        let is_wanted = |row: &RowHeader| {
            (from..=last).contains(&row.time) && symbols.is_none_or(|ids| ids.contains(&row.symbol))
        };
        let wanted: Vec<&Message> = messages.iter().filter(|(row, _)| is_wanted(row)).collect();
        assert!(!wanted.is_empty() && rows.len() == wanted.len());
        for (i, (header, body)) in wanted.into_iter().enumerate() {
            assert_eq!((rows.header(i), rows.body(i)), (*header, &body[..]), "{selection:?}");
        }
    }
}

#[test]
fn columns_come_back_all_and_some() {
    let (plan, messages) = (plan(), messages(4_000));
    let block = block_of(&plan, &messages, Tier::Hot);
    let type_id = block.head().groups[0].type_id;
    let column = plan.group(type_id).unwrap().column("entries[].Level2Update.price").unwrap();
    let (mut decoder, mut all, mut some) = (Decoder::new(), ColumnValues::new(), ColumnValues::new());
    decoder.column(&plan, &block, (type_id, column), None, &mut all).unwrap();
    decoder.column(&plan, &block, (type_id, column), Some(&[1]), &mut some).unwrap();
    let (Values::Ints(all), Values::Ints(some)) = (all.values(), some.values()) else {
        panic!("prices are numbers")
    };
    // In the order of lanes: the second fifth is that of symbol 1.
    assert_eq!((all.len(), some.len()), (4_000, 800));
    assert_eq!(all[800..1_600], *some);
}
