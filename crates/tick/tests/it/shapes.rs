//! Columns of every kind, at random: what goes into a plant comes out of its streams, its RDB and the HDB.

use crate::support::*;
use proptest::collection::vec;
use proptest::prelude::*;
use tapedb_engine::Database;
use tapedb_tick::{Column, Gather, Hdb, Kind, Plant, PlantOptions, Query, Table, Texts};

const KINDS: [Kind; 20] = [
    Kind::Boolean,
    Kind::Guid,
    Kind::Byte,
    Kind::Short,
    Kind::Int,
    Kind::Long,
    Kind::Real,
    Kind::Float,
    Kind::Char,
    Kind::Symbol,
    Kind::Timestamp,
    Kind::Month,
    Kind::Date,
    Kind::Datetime,
    Kind::Timespan,
    Kind::Minute,
    Kind::Second,
    Kind::Time,
    Kind::Text,
    Kind::Bytes,
];

/// Nulls and infinities, and what lies between.
fn number() -> impl Strategy<Value = i64> {
    prop_oneof![Just(i64::MIN), Just(i64::MIN + 1), Just(i64::MAX), -5i64..5, any::<i64>()]
}

/// A column of a kind, of these numbers.
fn column(kind: Kind, numbers: &[i64]) -> Column {
    let all = numbers.iter();
    let text = |number: &i64| if number % 3 == 0 { String::new() } else { format!("t{number}") };
    // The nulls of narrower types are theirs.
    let narrow = |number: &i64| if *number == i64::MIN { i32::MIN } else { *number as i32 };
    match kind {
        Kind::Boolean => Column::Byte(all.map(|number| (number & 1) as u8).collect()),
        Kind::Byte => Column::Byte(all.map(|number| *number as u8).collect()),
        Kind::Guid => Column::Text(all.map(|number| [number.to_le_bytes(); 2].concat()).collect::<Texts>()),
        Kind::Short => Column::Short(all.map(|number| *number as i16).collect()),
        Kind::Char => Column::Int(all.map(|number| i32::from(*number as u8)).collect()),
        Kind::Long | Kind::Timestamp | Kind::Timespan => Column::Long(numbers.to_vec()),
        Kind::Real => Column::Real(all.map(|number| *number as f32).collect()),
        Kind::Float | Kind::Datetime => Column::Float(
            all.map(|number| if *number == i64::MIN { f64::NAN } else { *number as f64 }).collect(),
        ),
        Kind::Symbol | Kind::Text => Column::Text(all.map(text).collect::<Texts>()),
        Kind::Bytes => Column::Text(all.map(|number| number.to_le_bytes()).collect::<Texts>()),
        _ => Column::Int(all.map(narrow).collect()),
    }
}

/// As text, for NaN is not NaN.
fn shown(columns: &[Column]) -> String {
    format!("{columns:?}")
}

fn stored(plant: &Plant, table: &Table, midnight: i64) -> Vec<Column> {
    let (_, stream) = plant.plan().table(table.name()).unwrap();
    let mut gather = Gather::new(table, stream.layouts());
    let mut cursor = stream.cursor().from_sequence(0).open().unwrap();
    while let Some(message) = cursor.next().unwrap() {
        gather.push(&message);
    }
    gather.take(midnight)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn columns_of_every_kind_come_back(
        kinds in vec(0..KINDS.len(), 0..12),
        updates in vec(vec(number(), 0..40), 1..6),
    ) {
        let (place, hdb_place) = (place(), place());
        let columns: Vec<(String, Kind)> =
            kinds.iter().enumerate().map(|(at, kind)| (format!("c{at}"), KINDS[*kind])).collect();
        let table = Table::of_kinds("t", Kind::Timespan, &columns).unwrap();
        let plant = Plant::open(&place.db, "tp", std::slice::from_ref(&table), PlantOptions::default()).unwrap();
        let hdb = Hdb::new(hdb_place.db.clone());
        let rdb = rdb(&place.db, Some(&hdb));
        let numbers: Vec<i64> = updates.concat();
        let whole = |numbers: &[i64], first: usize| {
            let times = (first..first + numbers.len()).map(|at| at as i64 / 2).collect();
            let symbols = numbers.iter().map(|number| SYMBOLS[(*number as usize) % 3]).collect::<Texts>();
            let fields = columns.iter().map(|(_, kind)| column(*kind, numbers));
            [Column::Long(times), Column::Text(symbols)].into_iter().chain(fields).collect::<Vec<_>>()
        };
        let mut first = 0;
        for update in &updates {
            plant.update("t", &whole(update, first)).unwrap();
            first += update.len();
        }
        let expected = shown(&whole(&numbers, 0));
        let midnight = plant.day().midnight.0;
        prop_assert_eq!(&shown(&stored(&plant, &table, midnight)), &expected);
        let values = |answer: tapedb_tick::Answer| shown(&answer.columns.into_iter().map(|(_, values)| values).collect::<Vec<_>>());
        wait_for_rows(&rdb, "t", numbers.len() as u64);
        prop_assert_eq!(&values(rdb.query(&Query::table("t")).unwrap()), &expected);
        let today = plant.day().date;
        plant.end_of_day(today).unwrap();
        let is_over = rdb.wait_until(PATIENCE, |status| status.date > today && status.ending.is_empty());
        prop_assert!(is_over, "{:?}", rdb.status());
        if !numbers.is_empty() {
            prop_assert_eq!(&values(hdb.query("tp", Some(today), &Query::table("t")).unwrap()), &expected);
        }
    }
}

#[test]
fn our_own_types_are_columns_too() {
    let place = place();
    let schema = "enum Side { BUY, SELL } message t { a: decimal64?, b: decimal(18,2)?, c: ascii(4)?, d: ascii(12), e: Side?, \
        f: u16?, g: u32, h: i8?, i: time_of_day?, j: u64, k: string? }";
    let tables = tapedb_tick::tables(schema).unwrap();
    let plant = Plant::open(&place.db, "tp", &tables, PlantOptions::default()).unwrap();
    let rdb = rdb(&place.db, None);
    let texts = |texts: [&str; 2]| Column::Text(texts.into_iter().collect::<Texts>());
    let columns = [
        texts(["A", "B"]),
        Column::Decimal(vec!["1.50".parse().unwrap(), tapedb_schema::Decimal64::NAN]),
        Column::Decimal(vec![tapedb_schema::Decimal64::NAN, "2.25".parse().unwrap()]),
        texts(["", "abcd"]),
        texts(["abcdefghijkl", ""]),
        texts(["SELL", ""]),
        Column::Int(vec![65_535, i32::MIN]),
        Column::Long(vec![0, 4_294_967_295]),
        Column::Short(vec![-128, i16::MIN]),
        Column::Long(vec![i64::MIN, 5]),
        Column::Long(vec![-1, 0]),
        texts(["x", ""]),
    ];
    plant.update("t", &columns).unwrap();
    wait_for_rows(&rdb, "t", 2);
    let answer = rdb.query(&Query::table("t")).unwrap();
    let values: Vec<Column> = answer.columns.into_iter().skip(1).map(|(_, values)| values).collect();
    assert_eq!(shown(&values), shown(&columns));

    let refused = |at: usize, column: Column| {
        let mut bad = columns.to_vec();
        bad[at] = column;
        plant.update("t", &bad).unwrap_err().to_string()
    };
    assert!(refused(3, texts(["toolong", ""])).contains("ascii(4)"));
    assert!(refused(5, texts(["HOLD", ""])).contains("HOLD"));
    assert!(refused(6, Column::Int(vec![65_536, 0])).contains("u16"));
    assert!(refused(9, Column::Long(vec![-1, 0])).contains("time of a day"));
    assert!(refused(2, Column::Float(vec![0.001, 0.0])).contains("column b"));
}

#[test]
fn queries_see_a_beginning_of_the_table_while_rows_come() {
    let place = place();
    let plant = plant(&place.db);
    let rdb = rdb(&place.db, None);
    // Over the end of a chunk.
    let (updates, rows) = (800, 50);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (0..updates).for_each(|at| {
                plant.update("trade", &trades(at * rows, rows)).unwrap();
            });
        });
        let (mut seen, mut looks) = (0, 0);
        while seen < updates * rows {
            let whole = sizes(&rdb.query(&Query::table("trade")).unwrap());
            assert!(whole.len() >= seen && whole.iter().enumerate().all(|(at, size)| at as i64 == *size));
            let of_one = sizes(&rdb.query(&Query::table("trade").symbols(["BAC"])).unwrap());
            assert!(of_one.iter().enumerate().all(|(at, size)| at as i64 * 3 + 1 == *size));
            let last = sizes(&rdb.query(&Query::table("trade").last_by_symbol()).unwrap());
            assert!(last.iter().all(|last| *last >= whole.len() as i64 - 3));
            seen = whole.len();
            looks += 1;
            assert!(looks < 1_000_000, "rows stopped coming at {seen}");
        }
    });
}

#[test]
fn a_plant_of_another_shape_is_refused() {
    let place = place();
    drop(plant(&place.db));
    let other = tapedb_tick::tables("trade:([]time:`timespan$();sym:`symbol$();price:`long$())").unwrap();
    assert!(
        Plant::open(&place.db, "tp", &other, PlantOptions::default())
            .unwrap_err()
            .to_string()
            .contains("trade")
    );
    let named = |name: &str| Plant::open(&place.db, name, &other, PlantOptions::default()).is_ok();
    assert!(!named("") && !named("a/b") && !named(&"x".repeat(33)) && named("b"));
    let db: &Database = &place.db;
    assert_eq!(tapedb_tick::Plan::names(db).unwrap(), ["b", "tp"]);
}
