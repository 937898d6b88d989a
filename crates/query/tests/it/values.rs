//! Values of all types, and results against those of other ways to compute them.

use crate::support::*;

#[test]
fn every_type_has_its_column() {
    let place = Place::new();
    let schema = "message M {
            a: bool, b: i8, c: u16, d: i32, e: u64, f: f32, g: f64, h: decimal64, i: decimal(18,2), j: timestamp, k: time_of_day,
            l: char, m: ascii(4), n: string, p: Side, q: array<i32>, r: record<Level>, s: i64?, t: array<record<Level|Note>>
        }
        enum Side { BUY = 1, SELL = 2 }
        record Level { price: decimal64, size: i64 }
        record Note { text: string }";
    let message = r#"{"$type": "M", "a": true, "b": -1, "c": 2, "d": -3, "e": 4, "f": 1.5, "g": -2.5, "h": "10.25", "i": "3.10",
        "j": "2024-01-02T00:00:00Z", "k": "01:02:03", "l": "x", "m": "abc", "n": "text", "p": "SELL", "q": [1, 2],
        "r": {"$type": "Level", "price": "1.5", "size": 7}, "s": null,
        "t": [{"$type": "Note", "text": "hi"}, {"$type": "Level", "price": "2", "size": 3}]}"#;
    let stream = place.stream("m", schema, &[(0, "A", message)]);
    for _ in 0..2 {
        assert_eq!(
            place.rows("SELECT a, b, c, d, e, f, g, h, i, j FROM m"),
            ["true|-1|2|-3|4|1.5|-2.5|10.25|3.10|2024-01-02T00:00:00Z"]
        );
        assert_eq!(
            place.rows("SELECT k, l, m, n, p, s, q[2], r.size FROM m"),
            ["01:02:03|x|abc|text|SELL|NULL|2|7"]
        );
        assert_eq!(place.rows("SELECT symbol, time, sequence FROM m"), ["A|1970-01-01T00:00:00Z|0"]);
        assert_eq!(
            place.rows("SELECT t[1]['Note']['text'], t[2]['Level']['price'], unnest(q) FROM m"),
            ["hi|2.0|1", "hi|2.0|2"]
        );
        assert_eq!(place.rows("SELECT count(*) FROM m WHERE p = 'SELL' AND n = 'text' AND l = 'x'"), ["1"]);
        stream.seal().unwrap();
    }
    let columns = place.rows("DESCRIBE m");
    assert!(columns[0].starts_with("time|Timestamp(ns, \"UTC\")|NO"), "{columns:?}");
    assert!(columns.iter().any(|column| column.starts_with("sequence|UInt64")), "{columns:?}");
}

#[test]
fn the_catalogue_is_listed() {
    let place = bars(10, false);
    place.stream(
        "ticks",
        "message Trade { price: decimal64 } message Quote { bid: decimal64 } record R { x: i64 }",
        &[],
    );
    let tables = place.rows("SELECT table_schema, table_name FROM information_schema.tables WHERE table_catalog = 'tapedb' AND table_schema <> 'information_schema' ORDER BY 1, 2");
    assert_eq!(tables, ["bars|Bar", "ticks|Quote", "ticks|Trade"]);
    assert!(place.rows("SHOW TABLES").iter().any(|row| row.contains("ticks|Quote")));
    let columns = place.rows("SELECT column_name FROM information_schema.columns WHERE table_name = 'Trade'");
    assert_eq!(columns, ["time", "symbol", "price", "sequence"]);
}

#[test]
fn several_spaces_are_one_table() {
    let place = Place::new();
    let options = tapedb_engine::StreamOptions { spaces: 3, ..Default::default() };
    let stream = place.db.create_stream("s", "message M { x: i64 }".parse().unwrap(), options).unwrap();
    for space in 0..3 {
        let mut loader = stream.loader_in(space).unwrap();
        for time in 0..10 {
            let value = stream.layouts().from_json(&format!(r#"{{"$type": "M", "x": {time}}}"#)).unwrap();
            loader.append_value("A", tapedb_schema::Timestamp(time), &value).unwrap();
        }
        loader.close().unwrap();
    }
    assert_eq!(
        place.rows("SELECT count(*), sum(x), count(DISTINCT space), max(sequence) FROM s"),
        ["30|135|3|9"]
    );
    let rows = place.rows("SELECT x, space FROM s ORDER BY time");
    assert!(rows[..3] == ["0|0", "0|1", "0|2"], "{rows:?}");
}

/// Enough rows for several partitions.
#[test]
fn partitions_together_have_every_row_once() {
    use tapedb_codec::{Record, SchemaBuilder};
    #[derive(Record, Debug, Default)]
    #[record(message)]
    struct Row {
        n: u64,
    }
    let place = Place::new();
    let schema = SchemaBuilder::new().with::<Row>().finish();
    let stream = place.db.create_stream("rows", schema, Default::default()).unwrap();
    const ROWS: u64 = 900_000;
    let mut loader = stream.loader().unwrap();
    for n in 0..ROWS {
        // Some are late.
        let time = if n % 1_000 == 0 { n / 2 } else { n };
        loader
            .append(["A", "B", "C"][n as usize % 3], tapedb_schema::Timestamp(time as i64), &Row { n })
            .unwrap();
    }
    loader.close().unwrap();
    for _ in 0..2 {
        let sql = place.sql_with(tapedb_query::Options { threads: Some(4), ..Default::default() });
        let plan = rows_of(sql.query("EXPLAIN SELECT sum(n) FROM rows").unwrap()).unwrap().join("\n");
        assert!(plan.contains("partitions=4"), "{plan}");
        let query = "SELECT count(*), sum(n), count(DISTINCT n), min(n), max(n) FROM rows WHERE n >= 0";
        let expected = format!("{ROWS}|{}|{ROWS}|0|{}", ROWS * (ROWS - 1) / 2, ROWS - 1);
        assert_eq!(rows_of(sql.query(query).unwrap()).unwrap(), [expected]);
        stream.seal().unwrap();
    }
}
