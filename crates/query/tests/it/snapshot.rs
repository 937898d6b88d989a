//! A query sees the messages of one moment.

use crate::support::*;

#[test]
fn later_messages_are_not_seen() {
    let place = bars(100, true);
    let stream = place.db.stream("bars").unwrap();
    let mut rows = place.sql().query("SELECT n FROM bars").unwrap();
    append(&stream, &[(5, "S0", r#"{"$type": "Bar", "n": 1000, "price": "1", "note": null, "side": null}"#)]);
    stream.seal().unwrap();
    let mut count = 0;
    while let Some(batch) = rows.next_batch().unwrap() {
        count += batch.num_rows();
    }
    assert_eq!(count, 100);
    assert_eq!(place.rows("SELECT count(*) FROM bars"), ["101"]);
}

#[test]
fn all_tables_of_a_query_are_as_of_one_moment() {
    let place = Place::new();
    let schema = "message A { x: i64 } message B { x: i64 }";
    let stream = place.stream("s", schema, &[]);
    place.stream("t", "message C { x: i64 }", &[(1, "A", r#"{"$type": "C", "x": 1}"#)]);
    let writer = std::thread::spawn(move || {
        for time in 0..200 {
            // Both or none are in a batch.
            append(
                &stream,
                &[(time, "A", r#"{"$type": "A", "x": 1}"#), (time, "A", r#"{"$type": "B", "x": 1}"#)],
            );
            if time % 50 == 0 {
                stream.seal().unwrap();
            }
        }
    });
    while !writer.is_finished() {
        let rows = place.rows(
            "SELECT (SELECT count(*) FROM s.A) AS a, (SELECT sum(x) FROM s.B) AS b, (SELECT count(*) FROM s.A WHERE x = 1) AS c, count(*) FROM t",
        );
        let counts: Vec<&str> = rows[0].split('|').collect();
        assert!(
            counts[0] == counts[1].replace("NULL", "0") && counts[0] == counts[2] && counts[3] == "1",
            "{rows:?}"
        );
    }
    writer.join().unwrap();
    assert_eq!(place.rows("SELECT count(*) FROM s.A"), ["200"]);
}

#[test]
fn streams_may_be_deleted_and_changed_between_queries() {
    let place = Place::new();
    place.stream("s", "message A { x: i64 }", &[(1, "A", r#"{"$type": "A", "x": 1}"#)]);
    let sql = place.sql();
    assert_eq!(rows_of(sql.query("SELECT x FROM s").unwrap()).unwrap(), ["1"]);
    place.db.change_schema("s", "message A { x: i64, y: i32 = 7 }".parse().unwrap()).unwrap();
    assert_eq!(rows_of(sql.query("SELECT x, y FROM s").unwrap()).unwrap(), ["1|7"]);
    place.db.delete_stream("s").unwrap();
    assert!(sql.query("SELECT x FROM s").is_err());
    place.stream("s", "message B { z: i64 }", &[]);
    assert_eq!(rows_of(sql.query("SELECT count(*), min(z) FROM s.B").unwrap()).unwrap(), ["0|NULL"]);
}
