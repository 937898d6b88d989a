//! What `EXPLAIN ANALYZE` says was read, and what was left out.

use crate::support::*;

/// A counter of the scan.
fn counter(place: &Place, query: &str, name: &str) -> String {
    let rows = place.rows(&format!("EXPLAIN ANALYZE {query}")).join("\n");
    let line = rows.lines().find(|line| line.contains("Scan: ")).unwrap_or_else(|| panic!("{query}: {rows}"));
    let found = line.split(&format!("{name}=")).nth(1).unwrap_or_else(|| panic!("{name}: {line}"));
    found.split([',', ']']).next().unwrap_or_default().to_string()
}

/// Two segments and a log, a message a second.
fn place() -> Place {
    let place = Place::new();
    let stream = place.stream("bars", "message Bar { n: u64 }", &[]);
    for part in 0..3_i64 {
        let messages: Vec<_> = (0..100)
            .map(|at| {
                let n = part * 100 + at;
                (n * 1_000_000_000, ["A", "B"][n as usize % 2], format!(r#"{{"$type": "Bar", "n": {n}}}"#))
            })
            .collect();
        let messages: Vec<_> =
            messages.iter().map(|(time, symbol, text)| (*time, *symbol, text.as_str())).collect();
        append(&stream, &messages);
        if part < 2 {
            stream.seal().unwrap();
        }
    }
    place
}

#[test]
fn scans_count_what_they_read_and_leave_out() {
    let place = place();
    for (query, rows, blocks, blocks_skipped, segments_skipped) in [
        ("SELECT sum(n) FROM bars", "300", "2", "0", "0"),
        ("SELECT n FROM bars ORDER BY time", "300", "2", "0", "0"),
        ("SELECT n FROM bars WHERE time >= '1970-01-01T00:02:00Z'", "180", "1", "0", "1"),
        ("SELECT n FROM bars WHERE time < '1970-01-01T00:01:00Z'", "60", "1", "0", "1"),
        ("SELECT sum(n) FROM bars WHERE symbol = 'none'", "0", "0", "2", "0"),
        ("SELECT sum(n) FROM bars WHERE n < 50", "200", "1", "1", "0"),
        ("SELECT n FROM bars WHERE n < 50 ORDER BY time", "200", "1", "1", "0"),
    ] {
        let found = ["output_rows", "blocks_read", "blocks_skipped", "segments_skipped"]
            .map(|name| counter(&place, query, name));
        assert_eq!(found, [rows, blocks, blocks_skipped, segments_skipped].map(String::from), "{query}");
        let bytes = counter(&place, query, "bytes_read");
        assert!(rows == "0" || bytes != "0", "{query}: {bytes}");
    }
}
