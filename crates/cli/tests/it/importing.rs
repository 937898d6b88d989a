//! `import`: files merged by time, no file twice by mistake, garbage refused.

use crate::support::{Place, Run};
use std::fs;

const TRADES: &str = "--format us-equity-ticks";

#[test]
fn files_are_merged_by_time_and_counted() {
    let place = Place::new();
    let (a, b) = (place.trades("aaa", 300), place.trades("bbb", 200));
    let text = place.import(TRADES, &[&a, &b]).good();
    assert!(text.contains("\"s\": 500 messages of 2 files"), "{text}");
    let lines = place.run("read s").good();
    assert!(lines.starts_with("2013-10-07T13:30:00Z AAA Package"), "{lines}");
    assert_eq!(place.run("symbols s").good(), "AAA\nBBB\n");
    let objects = place.import(&format!("{TRADES} --json --again import"), &[&b]).json();
    assert_eq!((&objects[0]["messages"], &objects[1]["messages"]), (&200.into(), &200.into()));
    assert_eq!(place.messages("s"), 700);
}

#[test]
fn folders_are_searched() {
    let place = Place::new();
    let file = place.trades("aaa", 10);
    fs::create_dir_all(place.path("data/deep")).unwrap();
    fs::rename(&file, place.path("data/deep/20131007_trade.zip")).unwrap();
    fs::write(place.path("data/readme.txt"), "not data").unwrap();
    let objects = place.import(&format!("{TRADES} --json"), &[&place.path("data")]).json();
    assert_eq!(objects.last().unwrap()["files"], 1);
}

#[test]
fn a_file_is_imported_once_unless_requested() {
    let place = Place::new();
    let (a, b) = (place.trades("aaa", 300), place.trades("bbb", 200));
    place.import(TRADES, &[&a]).good();
    // A copy under another name is the same file.
    let copy = place.path("20131008_copy_trade.zip");
    fs::copy(&a, &copy).unwrap();
    for again in [&a, &copy] {
        let error = place.import(TRADES, &[again, &b]).bad(1);
        assert!(
            error.contains("was imported into this stream before") && error.contains("--again"),
            "{error}"
        );
    }
    assert_eq!(place.messages("s"), 300);
    let text = place.import(&format!("{TRADES} --again skip"), &[&a, &b, &b]).good();
    assert_eq!(text.matches("was there").count(), 2, "{text}");
    assert_eq!(place.messages("s"), 500);
    let none = place.import(&format!("{TRADES} --again skip --json"), &[&a, &b]).json();
    assert_eq!((&none[0]["messages"], &none[2]["messages"]), (&serde_json::Value::Null, &0.into()));
    place.import(&format!("{TRADES} --again import"), &[&a]).good();
    assert_eq!(place.messages("s"), 800);
    // Another stream does not have the file.
    let mut other = place.command(&format!("import --stream other {TRADES}"));
    assert!(other.arg(&a).output().unwrap().status.success());
}

#[test]
fn other_formats_are_read() {
    let place = Place::new();
    let frames = "1723161254087896568 {\"stream\":\"btcusdt@trade\",\"data\":{\"e\":\"trade\",\"E\":1723161255343,\
        \"s\":\"BTCUSDT\",\"t\":3735683259,\"p\":\"61837.63000000\",\"q\":\"0.02000000\",\"T\":1723161255342,\
        \"m\":true,\"M\":true}}\n";
    let gzip = place.gzip("spot-btcusdt_20240808.gz", frames);
    place.import("--format binance-raw-ws", &[&gzip]).good();
    let trade = &place.run("read s --json").json()[0];
    assert_eq!(
        (&trade["symbol"], &trade["entries"][0]["price"]),
        (&"BTCUSDT".into(), &"61837.63000000".into())
    );

    let quotes = place.zip("20140501_quote.zip", "20140501_eurusd_tick_quote.csv", "292,1.38676,1.38686\r\n");
    let fx = place.import("--format fx-ticks --fx-provider oanda", &[&quotes]);
    assert!(fx.good().contains("1 messages"));
    assert_eq!(place.messages("s"), 2);
}

/// Orders as Databento writes them, without metadata; the second has an action that does not exist.
fn dbn_orders(actions: &[u8]) -> Vec<u8> {
    let order = |action: &u8| {
        let mut bytes = vec![14, 0xA0, 1, 0, 181, 66, 0, 0];
        bytes.extend(1_703_548_799_000_000_000u64.to_le_bytes());
        bytes.extend(7u64.to_le_bytes());
        bytes.extend(4_810_250_000_000i64.to_le_bytes());
        bytes.extend(22u32.to_le_bytes());
        bytes.extend([0x80, 0, *action, b'B']);
        bytes.extend(1_703_548_799_000_001_000u64.to_le_bytes());
        bytes.extend([0; 8]);
        bytes
    };
    actions.iter().flat_map(order).collect()
}

#[test]
fn the_format_of_a_file_is_found_out() {
    let place = Place::new();
    let file = place.path("es.dbn");
    fs::write(&file, dbn_orders(b"AXC")).unwrap();
    let error = place.import("", &[&file]).bad(1);
    assert!(
        error.contains("record 2: expected an action") && error.contains("--on-bad-line skip"),
        "{error}"
    );
    assert_eq!(place.messages("s"), 1);
    let objects = place.import("--on-bad-line skip --json", &[&file]).json();
    assert_eq!((&objects[1]["messages"], &objects[1]["resumed"]), (&2.into(), &1.into()));
    let order = &place.run("read s --json").json()[0];
    assert_eq!((&order["symbol"], &order["price"]), (&"17077".into(), &"4810.25".into()));
    // A stream that has packages only takes no orders.
    let trades = place.trades("aaa", 3);
    place.command("import --stream packages").arg(&trades).output().unwrap();
    let other = place.path("other.dbn");
    fs::write(&other, dbn_orders(b"A")).unwrap();
    let refused = place.command("import --stream packages").arg(&other).output().unwrap();
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && text.contains("lacks the record types Order"), "{text}");
}

#[test]
fn a_bad_line_stops_or_is_skipped() {
    let place = Place::new();
    let csv = "34200000,500000,1,Q,0,0\n34200001,oops,1,Q,0,0\n34200002,500000,1,Q,0,0\n";
    let file = place.zip("20131007_trade.zip", "20131007_aaa_Trade_Tick.csv", csv);
    let error = place.import(TRADES, &[&file]).bad(1);
    assert!(
        error.contains("line 2") && error.contains("oops") && error.contains("--on-bad-line skip"),
        "{error}"
    );
    assert_eq!(place.messages("s"), 1);
    // The advice of the message works, without duplicates.
    let objects = place.import(&format!("{TRADES} --on-bad-line skip --json"), &[&file]).json();
    let totals = &objects[1];
    assert_eq!(
        (&totals["messages"], &totals["resumed"], &totals["bad_lines"]),
        (&2.into(), &1.into(), &1.into())
    );
    assert_eq!(place.messages("s"), 2);
    assert!(place.import(TRADES, &[&file]).bad(1).contains("imported into this stream before"));
}

#[test]
fn an_interrupted_import_resumes_with_files_in_any_order() {
    let place = Place::new();
    let rows = "34200000,500000,1,Q,0,0\n34200001,";
    let [a, b] = [("aaa", "oops,1,Q,0,0\n"), ("bbb", "500000,1,Q,0,0\n")].map(|(symbol, end)| {
        let (zip, csv) = (format!("{symbol}_trade.zip"), format!("20131007_{symbol}_Trade_Tick.csv"));
        place.zip(&zip, &csv, &format!("{rows}{end}"))
    });
    assert!(place.import(TRADES, &[&a, &b]).bad(1).contains("oops"));
    let objects = place.import(&format!("{TRADES} --on-bad-line skip --json"), &[&b, &a]).json();
    assert_eq!(
        objects.iter().map(|object| object["messages"].as_u64().unwrap()).collect::<Vec<_>>(),
        [1, 2, 3]
    );
    assert!(
        place.run("read s").good().lines().next().unwrap().contains(" AAA "),
        "the order of the first import"
    );
}

#[test]
fn a_row_that_no_stream_can_hold_is_skipped_like_a_bad_line() {
    let place = Place::new();
    let trade = |symbol: &str| {
        format!(
            "1723161255000000000 {{\"e\":\"trade\",\"s\":\"{symbol}\",\"t\":1,\"p\":\"1\",\"q\":\"1\",\"m\":true}}\n"
        )
    };
    let level = vec!["[\"1\",\"2\"]"; 200_000].join(",");
    let depth = format!(
        "1723161255000000000 {{\"e\":\"depthUpdate\",\"s\":\"A\",\"U\":1,\"u\":2,\"b\":[{level}],\"a\":[]}}\n"
    );
    let lines = [trade("A"), trade(""), trade(&"x".repeat(256)), depth, trade("B")].concat();
    let file = place.gzip("spot-a_20240808.gz", &lines);
    let error = place.import("--format binance-raw-ws", &[&file]).bad(1);
    assert!(error.contains("line 2: expected a symbol of 1 to 255 bytes"), "{error}");
    let objects = place.import("--format binance-raw-ws --on-bad-line skip --json", &[&file]).json();
    assert_eq!((&objects[1]["messages"], &objects[1]["bad_lines"]), (&2.into(), &3.into()));
    assert_eq!(place.run("symbols s").good(), "A\nB\n");
}

#[test]
fn garbage_is_refused_and_not_recorded() {
    let place = Place::new();
    let good = place.trades("aaa", 10);
    let garbage = place.path("20131007_garbage_trade.zip");
    fs::write(&garbage, b"PK\x03\x04 but no zip at all").unwrap();
    let gzip = place.path("spot-btcusdt_20240808.gz");
    fs::write(&gzip, b"not gzip").unwrap();
    for (options, file) in [(TRADES, &garbage), ("--format binance-raw-ws", &gzip), (TRADES, &gzip)] {
        let error = place.import(options, &[file]).bad(1);
        assert!(error.contains(&*file.file_name().unwrap().to_string_lossy()), "{error}");
    }
    assert!(place.import(TRADES, &[&place.path("nothing")]).bad(1).contains("nothing"));
    fs::create_dir(place.path("empty")).unwrap();
    assert!(place.import(TRADES, &[&place.path("empty")]).bad(1).contains("nothing to import"));
    let run = place.import("--format xlsx", &[&good]);
    assert!(run.code == 2 && run.err.contains("us-equity-ticks, fx-ticks, binance-raw-ws"), "{}", run.err);
    place.import(TRADES, &[&good]).good();
    assert_eq!(place.messages("s"), 10);
}

#[test]
fn a_truncated_file_is_never_recorded_as_complete() {
    let place = Place::new();
    let lines: String = (0..5000)
        .map(|i| format!("{} {{\"e\":\"unknown\",\"s\":\"A{i}\"}}\n", 1_723_161_254_087_896_568u64 + i))
        .collect();
    let trade = "1723161254087896568 {\"stream\":\"btcusdt@trade\",\"data\":{\"e\":\"trade\",\"E\":1723161255343,\
        \"s\":\"BTCUSDT\",\"t\":1,\"p\":\"1.0\",\"q\":\"1.0\",\"T\":1723161255342,\"m\":true,\"M\":true}}\n";
    let whole = place.gzip("spot-btcusdt_20240808.gz", &(trade.repeat(2000) + &lines));
    let cut = place.path("spot-btcusdt_20240809.gz");
    let bytes = fs::read(&whole).unwrap();
    fs::write(&cut, &bytes[..bytes.len() - 20]).unwrap();
    let error = place.import("--format binance-raw-ws", &[&cut]).bad(1);
    assert!(error.contains("cut short or damaged"), "{error}");
    let error = place.import("--format binance-raw-ws", &[&whole]).bad(1);
    assert!(error.contains("spot-btcusdt_20240809.gz") && error.contains("was interrupted"), "{error}");
    place.run("delete s --yes").good();
    place.import("--format binance-raw-ws", &[&whole]).good();
    assert_eq!(place.messages("s"), 2000);
}

#[test]
fn a_stream_of_other_types_is_refused() {
    let place = Place::new();
    place.run("generate --stream s --kind bars --messages 10").good();
    let error = place.import(TRADES, &[&place.trades("aaa", 10)]).bad(1);
    assert!(error.contains("Package"), "{error}");
    assert_eq!(place.messages("s"), 10);
}

#[test]
fn no_message_of_a_capture_is_lost_without_a_report() {
    let place = Place::new();
    let trade = |time: &str, kind: &str| {
        format!(
            "{time} {{\"e\":\"trade\",\"E\":1723161256299,\"s\":\"A\",\"t\":7,\"p\":\"1\",\"q\":\"1\",\"X\":\"{kind}\",\"m\":true}}\n"
        )
    };
    let mark = "1723161255030316 {\"stream\":\"a@markPrice@1s\",\"data\":{\"e\":\"markPriceUpdate\",\"E\":1723161256299,\"s\":\"A\",\"p\":\"11794.15\",\"r\":\"0.0001\",\"T\":1723190400000}}\n";
    let unknown = "1723161255030317 {\"stream\":\"a@forceOrder\",\"data\":{}}\n";
    let text = trade("1723161255030314", "MARKET")
        + &trade("1723161255030315", "INSURANCE_FUND")
        + mark
        + unknown
        + &trade("17", "MARKET");
    let file = place.gzip("usdm-a_20240808.gz", &text);
    let error = place.import("--format binance-raw-ws", &[&file]).bad(1);
    assert!(error.contains("line 5") && error.contains("in microseconds, as in the lines before"), "{error}");
    let said = place.import("--format binance-raw-ws --on-bad-line skip", &[&file]).good();
    assert!(said.contains("receive times were assumed to be microseconds"), "{said}");
    assert!(
        said.contains("1 bad lines skipped") && said.contains("1 lines of kind \"forceOrder\""),
        "{said}"
    );
    let read = place.run("read s --json").json();
    let types: Vec<_> = read.iter().map(|message| message["$type"].as_str().unwrap()).collect();
    assert_eq!(types, ["Package", "Package", "TradeCondition", "MarkPrice"]);
    assert_eq!(read[0]["timestamp"], "2024-08-08T23:54:15.030314Z");
    assert_eq!(read[0]["entries"][0]["condition"], "MARKET");
    assert_eq!((&read[2]["condition"], &read[2]["id"]), (&"INSURANCE_FUND".into(), &7.into()));
    assert_eq!((&read[3]["mark"], &read[3]["funding_rate"]), (&"11794.15".into(), &"0.0001".into()));

    // An older stream has packages only: other messages are counted and reported.
    let old = Place::new();
    old.run("generate --stream s --messages 1").good();
    old.run("clear s --yes").good();
    let said = old.import("--format binance-raw-ws --on-bad-line skip", &[&file]).good();
    for kind in ["MarkPrice", "TradeCondition"] {
        assert!(said.contains(&format!("{kind}, a record type that the stream does not have")), "{said}");
    }
    assert_eq!(old.totals("s")["messages"], 2);

    let unit = place.import("--format binance-raw-ws --time-unit ns --again import", &[&file]).good();
    assert!(!unit.contains("were assumed"), "{unit}");
}

const TICKS: &str = "ts,pair,Last Price,size,note\n\
    2024-01-31T09:30:00.5Z,EURUSD,1.0832,7,\"a, b\"\n2024-01-31T09:30:01Z,GBPUSD,1.28E7,,\"two\nlines\"\n";

#[test]
fn csv_of_any_origin_is_mapped_and_its_schema_shown_first() {
    let place = Place::new();
    let file = place.gzip("ticks.csv.gz", TICKS);
    let options = ["--time", "ts", "--symbol", "pair", "--map", "Last Price=price", "--type", "Tick"];
    let import = |more: &[&str]| {
        let mut command = place.command("import --stream s");
        Run::of(command.args(options).args(more).arg(&file).output().unwrap())
    };
    let shown = import(&["--dry-run"]);
    assert_eq!(shown.code, 0, "{}", shown.err);
    for field in ["message Tick", "price: decimal64?", "size: i64?", "note: string?", "nothing was written"] {
        assert!(shown.err.contains(field), "{}", shown.err);
    }
    assert!(!place.db().exists());
    assert!(import(&[]).err.contains("add --yes"));
    assert!(!place.db().exists());
    let run = import(&["--yes"]);
    assert!(run.code == 0 && run.out.contains("2 messages of 1 files"), "{} {}", run.out, run.err);
    let rows = place.run("read s --json").json();
    assert_eq!((&rows[0]["symbol"], &rows[0]["price"]), (&"EURUSD".into(), &"1.0832".into()));
    assert_eq!((&rows[1]["note"], &rows[1]["size"]), (&"two\nlines".into(), &serde_json::Value::Null));
    assert!(import(&[]).err.contains("was imported into this stream before"));
    // A file that does not fit is refused before anything is written, a bad row with its line.
    let bad = place.gzip("bad.csv.gz", &format!("{TICKS}2024-01-31T09:30:02Z,EURUSD,x,1,\n"));
    let mut command =
        place.command("import --stream s --format csv --symbol-is EURUSD --time ts --map pair=");
    let run = Run::of(command.args(["--map", "Last Price=price"]).arg(&bad).output().unwrap());
    assert!(run.err.contains("bad.csv.gz, line 5: expected a value of type decimal64"), "{}", run.err);
    assert_eq!(place.messages("s"), 4);
    let mut command = place.command("import --stream s --format csv --time ts --symbol pair --dry-run");
    let error = Run::of(command.arg(&bad).output().unwrap()).bad(1);
    assert!(error.contains("has no field \"last_price\""), "{error}");
}
