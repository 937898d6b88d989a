//! Files made here, read back: finding, unpacking, merging, and everything that can be wrong with a file.

use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use tapedb_market::{Entry, PackageKind};
use tapedb_venue::{AnyRecord, Format, ImportError, ImportOptions, Merge, OnBadLine, SourceFile, discover};
use tempfile::TempDir;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn zip(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, text) in members {
        writer.start_file(*name, SimpleFileOptions::default()).unwrap();
        writer.write_all(text).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

/// A folder with these files.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

fn find(format: Format, path: &Path) -> Result<Vec<SourceFile>, ImportError> {
    discover(format, &[path], &ImportOptions::default())
}

/// All rows as text, until the end or an error.
fn rows(files: Vec<SourceFile>) -> (Vec<String>, Option<ImportError>) {
    let (mut merge, mut record, mut rows) = (Merge::new(files), AnyRecord::default(), Vec::new());
    loop {
        match merge.next(&mut record) {
            Ok(Some(row)) => rows.push(format!("{} {} {}", row.source, row.symbol, row.time)),
            Ok(None) => return (rows, None),
            Err(error) => return (rows, Some(error)),
        }
    }
}

const TRADES: &str = "20131009_aig_Trade_Tick.csv";

#[test]
fn files_are_found_sorted_and_only_those_of_the_format() {
    let folder = Folder::new();
    let trades = zip(&[(TRADES, b"1,1,1,P,0,0\n")]);
    let fx = zip(&[("20140501_eurusd_tick_quote.csv", b"1,1,1\n")]);
    folder.file("b/20131009_trade.zip", &trades);
    folder.file("a/20131009_aig_trade.zip", &trades);
    folder.file("a/notes.txt", b"");
    folder.file("oanda/20140501_quote.zip", &fx);
    folder.file("c/usdm-btcusdt_20240808.gz", &gzip(b""));
    folder.file("c/other.gz", &gzip(b""));
    folder.file("histdata/quote_tick_data.csv.gz", &gzip(b""));
    let names = |format| {
        let files = find(format, folder.path()).unwrap();
        let name = |file: &SourceFile| file.path().strip_prefix(folder.path()).unwrap().display().to_string();
        files.iter().map(name).collect::<Vec<_>>()
    };
    assert_eq!(names(Format::UsEquityTicks), ["a/20131009_aig_trade.zip", "b/20131009_trade.zip"]);
    assert_eq!(names(Format::FxTicks), ["histdata/quote_tick_data.csv.gz", "oanda/20140501_quote.zip"]);
    assert_eq!(names(Format::BinanceRawWs), ["c/usdm-btcusdt_20240808.gz"]);
}

#[test]
fn nothing_found_says_what_was_looked_for() {
    let folder = Folder::new();
    let wrong = folder.file("readme.txt", b"hello");
    for format in Format::ALL {
        let error = find(format, folder.path()).unwrap_err();
        assert!(matches!(error, ImportError::NothingFound { .. }), "{error}");
        assert!(error.to_string().contains(format.looked_for()), "{error}");
        assert!(matches!(find(format, &wrong).unwrap_err(), ImportError::WrongFormat { .. }));
    }
    assert!(matches!(find(Format::FxTicks, &folder.path().join("none")), Err(ImportError::Open { .. })));
    let other = folder.file("x.zip", &zip(&[("20140501_eurusd_tick_quote.csv", b"")]));
    let error = find(Format::UsEquityTicks, &other).unwrap_err();
    assert!(error.to_string().contains("not a file of us-equity-ticks"), "{error}");
}

#[test]
fn sources_are_merged_by_time_then_source_then_row() {
    let folder = Folder::new();
    let quote = b"5,1,1,0,0,P,1,0\n5,0,0,2,1,P,1,0\n9,1,1,0,0,P,1,0";
    folder.file("1/20131009_quote.zip", &zip(&[("20131009_bac_Quote_Tick.csv", quote)]));
    folder.file("2/20131009_trade.zip", &zip(&[(TRADES, b"1,1,1,P,0,0\r\n5,1,1,P,0,0\r\n7,1,1,P,0,0\r\n")]));
    folder.file("3/20131008_trade.zip", &zip(&[("20131008_spy_Trade_Tick.csv", b"86399999,1,1,P,0,0\n")]));
    let files = find(Format::UsEquityTicks, folder.path()).unwrap();
    let (rows, error) = rows(files.clone());
    assert!(error.is_none());
    assert_eq!(
        rows,
        [
            "2 SPY 2013-10-09T03:59:59.999Z",
            "1 AIG 2013-10-09T04:00:00.001Z",
            "0 BAC 2013-10-09T04:00:00.005Z",
            "0 BAC 2013-10-09T04:00:00.005Z",
            "1 AIG 2013-10-09T04:00:00.005Z",
            "1 AIG 2013-10-09T04:00:00.007Z",
            "0 BAC 2013-10-09T04:00:00.009Z",
        ]
    );
    let (mut merge, mut record) = (Merge::new(files), AnyRecord::default());
    while merge.next(&mut record).unwrap().is_some() {}
    assert_eq!(merge.counters().rows, 7);
    let (read, total) = merge.progress();
    assert_eq!(read, total);
}

#[test]
fn times_that_go_back_in_a_file_are_counted() {
    let folder = Folder::new();
    let lines = b"5,1,1,P,0,0\n3,1,1,P,0,0\n4,1,1,P,0,0\n1,1,1,P,0,0\n";
    folder.file("1/20131009_trade.zip", &zip(&[(TRADES, lines)]));
    folder.file("2/20131008_trade.zip", &zip(&[("20131008_spy_Trade_Tick.csv", b"7,1,1,P,0,0\n")]));
    let (mut merge, mut record) =
        (Merge::new(find(Format::UsEquityTicks, folder.path()).unwrap()), AnyRecord::default());
    while merge.next(&mut record).unwrap().is_some() {}
    assert_eq!((merge.counters().rows, merge.counters().backward), (5, 2));
}

#[test]
fn a_capture_is_opened_when_its_day_comes() {
    let folder = Folder::new();
    let first =
        b"1723075200000000000 {\"e\":\"trade\",\"s\":\"A\",\"t\":1,\"p\":\"1\",\"q\":\"1\",\"m\":true}\n";
    folder.file("spot-a_20240808.gz", &gzip(&[&first[..], first].concat()));
    let second = folder.file("spot-a_20240810.gz", &gzip(b""));
    let files = find(Format::BinanceRawWs, folder.path()).unwrap();
    // Not missed before it is opened.
    fs::remove_file(second).unwrap();
    let (rows, error) = rows(files);
    assert_eq!(rows, ["0 A 2024-08-08T00:00:00Z"; 2]);
    assert!(matches!(error, Some(ImportError::Open { .. })), "{error:?}");
}

#[test]
fn a_zip_of_several_members_gives_a_source_each() {
    let folder = Folder::new();
    let members: [(&str, &[u8]); 3] = [
        ("20131009_a_Trade_Tick.csv", b"2,1,1,P,0,0\n"),
        ("read.me", b"?"),
        ("20131009_b_Trade_Tick.csv", b"1,1,1,P,0,0\n"),
    ];
    let path = folder.file("any.zip", &zip(&members));
    let (rows, _) = rows(find(Format::UsEquityTicks, &path).unwrap());
    assert_eq!(rows, ["1 B 2013-10-09T04:00:00.001Z", "0 A 2013-10-09T04:00:00.002Z"]);
}

#[test]
fn a_bad_line_stops_or_is_skipped_and_counted() {
    let folder = Folder::new();
    let path =
        folder.file("x.zip", &zip(&[(TRADES, b"1,1,1,P,0,0\n2,oops,1,P,0,0\n\xFF\xFE\n4,1,1,P,0,0\n")]));
    let (read, error) = rows(find(Format::UsEquityTicks, &path).unwrap());
    assert_eq!(read.len(), 1);
    let error = error.unwrap().to_string();
    let expected = "x.zip (20131009_aig_Trade_Tick.csv), line 2, column 3: expected price as a whole number, found `2,oops,1,P,0,0`";
    assert!(error.ends_with(expected), "{error}");
    for (most, whole) in [(1, false), (2, true)] {
        let options = ImportOptions { on_bad_line: OnBadLine::Skip(most), ..ImportOptions::default() };
        let files = discover(Format::UsEquityTicks, &[&path], &options).unwrap();
        let (mut source, mut record) = (files[0].open().unwrap(), AnyRecord::default());
        assert!(source.next(&mut record).unwrap().is_some());
        assert_eq!(source.next(&mut record).is_ok(), whole);
        assert_eq!(source.counters().bad_lines, most);
        assert!(source.next(&mut record).unwrap().is_none());
    }
}

#[test]
fn a_row_that_no_stream_can_hold_is_a_bad_line() {
    let trade = |symbol: &str| {
        format!(r#"1723161255000000000 {{"e":"trade","s":"{symbol}","t":1,"p":"1","q":"1","m":true}}"#)
    };
    let depth = |levels: usize| {
        let level = vec![r#"["1","2"]"#; levels].join(",");
        format!(r#"1723161255000000000 {{"e":"depthUpdate","s":"A","U":1,"u":2,"b":[{level}],"a":[]}}"#)
    };
    let snapshot = r#"1723161255000000000 {"lastUpdateId":1,"bids":[],"asks":[]}"#.to_string();
    let folder = Folder::new();
    for (bad, expected) in [
        (trade(""), "line 2: expected a symbol of 1 to 255 bytes"),
        (trade(&"x".repeat(256)), "line 2: expected a symbol of 1 to 255 bytes"),
        (depth(200_000), "line 2: expected a message of at most 4194304 bytes"),
    ] {
        let lines = [trade("A"), bad, snapshot.clone(), trade(&"x".repeat(255)), depth(40_000)].join("\n");
        let path = folder.file("spot-a_20240808.gz", &gzip(lines.as_bytes()));
        let (read, error) = rows(find(Format::BinanceRawWs, &path).unwrap());
        let error = error.unwrap().to_string();
        assert!(read.len() == 1 && error.contains(expected), "{error}");
        let options = ImportOptions { on_bad_line: OnBadLine::Skip(1), ..ImportOptions::default() };
        let (read, error) = rows(discover(Format::BinanceRawWs, &[&path], &options).unwrap());
        assert!(error.is_none());
        assert_eq!(read.len(), 4);
        assert!(read[1].starts_with("0 A "), "the snapshot is of the only symbol: {read:?}");
    }
}

#[test]
fn an_error_of_one_source_leaves_the_others_going() {
    let folder = Folder::new();
    folder.file("1/20131009_trade.zip", &zip(&[(TRADES, b"1,1,1,P,0,0\nbad\n")]));
    folder.file("2/20131009_trade.zip", &zip(&[(TRADES, b"2,1,1,P,0,0\n3,1,1,P,0,0\n")]));
    let mut merge = Merge::new(find(Format::UsEquityTicks, folder.path()).unwrap());
    let (mut record, mut rows, mut errors) = (AnyRecord::default(), 0, 0);
    loop {
        match merge.next(&mut record) {
            Ok(Some(_)) => rows += 1,
            Ok(None) => break,
            Err(_) => errors += 1,
        }
    }
    assert_eq!((rows, errors), (3, 1));
}

#[test]
fn binance_frames_of_all_kinds() {
    let folder = Folder::new();
    let text = concat!(
        r#"1723161255000000000 {"stream":"btcusd_perp@trade","data":{"e":"trade","E":1723161256299,"T":1723161256299,"s":"BTCUSD_PERP","t":1,"p":"2","q":"3","m":false}}"#,
        "\n",
        r#"1723161255000000018 {"lastUpdateId":9,"bids":[["1","2"]],"asks":[]}"#,
        "\n",
        r#"1723161255000000019 {"stream":"btcusd_perp@aggTrade","data":{}}"#,
        "\n",
        r#"1723161255000000020 {"stream":"btcusd_perp@bookTicker","data":{"u":1,"s":"BTCUSD_PERP","b":"1","B":"1","a":"2","A":"1"}}"#,
    );
    let (first, second) = text.as_bytes().split_at(150);
    let mut parts = gzip(first);
    parts.extend(gzip(second));
    let path = folder.file("cm-btcusd_perp_20240808.gz", &parts);
    let mut source = find(Format::BinanceRawWs, &path).unwrap()[0].open().unwrap();
    let (mut record, mut kinds) = (AnyRecord::default(), Vec::new());
    while let Some(row) = source.next(&mut record).unwrap() {
        assert_eq!(row.symbol, "BTCUSD_PERP");
        let time = row.time.nanos() - 1_723_161_255_000_000_000;
        let package = record.as_package().unwrap();
        kinds.push((time, package.kind, package.entries.len()));
    }
    let (update, snapshot) = (PackageKind::Update, PackageKind::Snapshot);
    assert_eq!(kinds, [(0, update, 1), (18, snapshot, 1), (20, update, 2)]);
    assert_eq!(source.counters().rows, 3);
    assert_eq!(source.counters().unknown_kinds["aggTrade"], 1);
}

#[test]
fn histdata_and_lean_rows_become_two_quotes() {
    let folder = Folder::new();
    folder.file("histdata/DAT_ASCII_USDJPY_T_202001.csv.gz", &gzip(b"20200101 170000065,108.1,108.2,0\n"));
    folder.file(
        "oanda-xauusd/20200101_quote.zip",
        &zip(&[("20200101_xauusd_tick_quote.csv", b"46.2042,1.0,2\n")]),
    );
    let mut merge = Merge::new(find(Format::FxTicks, folder.path()).unwrap());
    let mut record = AnyRecord::default();
    let row = merge.next(&mut record).unwrap().unwrap();
    assert_eq!((row.symbol, row.time.to_string().as_str()), ("XAUUSD", "2020-01-01T00:00:00.046204200Z"));
    assert_eq!(record.as_package().unwrap().entries.len(), 2);
    let row = merge.next(&mut record).unwrap().unwrap();
    assert_eq!((row.symbol, row.time.to_string().as_str()), ("USDJPY", "2020-01-01T22:00:00.065Z"));
    let Entry::Level1(ask) = &record.as_package().unwrap().entries[1] else { panic!("{record:?}") };
    assert_eq!((ask.exchange.unwrap().as_str(), ask.size), ("HISTDATA", None));
}

#[test]
fn a_file_cut_anywhere_is_an_error_and_never_passes_for_whole() {
    let folder = Folder::new();
    let mut text = Vec::new();
    for i in 0..2_000 {
        writeln!(text, "{i},{},100,P,0,0", (i * 7_919) % 10_000).unwrap();
    }
    let whole = zip(&[(TRADES, &text)]);
    for length in (0..whole.len()).step_by(997).chain([whole.len() - 1]) {
        let path = folder.file("cut.zip", &whole[..length]);
        let error = find(Format::UsEquityTicks, &path).unwrap_err();
        assert!(error.to_string().contains("not a zip file, or cut short"), "{error}");
    }
    let frames = |n: u64| {
        let line = |i| format!("{} {{\"result\":{}}}\n", 1_723_161_255_000_000_000 + i, i * 7_919);
        (0..n).map(line).collect::<String>().into_bytes()
    };
    let whole = gzip(&frames(2_000));
    for length in (0..whole.len()).step_by(997).chain([whole.len() - 1]) {
        let path = folder.file("spot-x_1.gz", &whole[..length]);
        let (_, error) = rows(find(Format::BinanceRawWs, &path).unwrap());
        assert!(matches!(error, Some(ImportError::Read { .. })), "{length}: {error:?}");
    }
}

#[test]
fn a_damaged_member_is_an_error() {
    let folder = Folder::new();
    let options = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    writer.start_file(TRADES, options).unwrap();
    writer.write_all(b"1,4711,1,P,0,0\n").unwrap();
    let mut bytes = writer.finish().unwrap().into_inner();
    let at = bytes.windows(4).position(|window| window == b"4711").unwrap();
    bytes[at] = b'5';
    let (_, error) = rows(find(Format::UsEquityTicks, &folder.file("x.zip", &bytes)).unwrap());
    let error = error.unwrap().to_string();
    assert!(error.contains("checksum is wrong"), "{error}");
}

#[test]
fn a_line_of_100_mb_is_an_error_that_names_the_line() {
    let folder = Folder::new();
    let mut text = b"1,1,1,P,0,0\n".to_vec();
    text.resize(100_000_000, b'7');
    let path = folder.file("x.zip", &zip(&[(TRADES, &text)]));
    let (read, error) = rows(find(Format::UsEquityTicks, &path).unwrap());
    assert_eq!(read.len(), 1);
    let error = error.unwrap().to_string();
    assert!(
        error.contains("line 2, column 1: expected a line of at most 4194304 bytes, found `7777"),
        "{error}"
    );
    assert!(error.len() < 400);
}

#[test]
fn random_bytes_are_errors() {
    let folder = Folder::new();
    let mut state = 1u64;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    })
    .take(300_000)
    .collect();
    let raw = folder.file("raw.zip", &noise);
    assert!(matches!(find(Format::UsEquityTicks, &raw), Err(ImportError::WrongFormat { .. })));
    let raw = folder.file("spot-x_1.gz", &noise);
    assert!(matches!(rows(find(Format::BinanceRawWs, &raw).unwrap()).1, Some(ImportError::Read { .. })));
    let packed = folder.file("spot-x_1.gz", &gzip(&noise));
    assert!(matches!(rows(find(Format::BinanceRawWs, &packed).unwrap()).1, Some(ImportError::Line { .. })));
    let packed = folder.file("20131009_quote.zip", &zip(&[("20131009_x_Quote_Tick.csv", &noise)]));
    assert!(matches!(rows(find(Format::UsEquityTicks, &packed).unwrap()).1, Some(ImportError::Line { .. })));
}

#[test]
fn files_of_histdata_are_found_plain_packed_and_in_a_zip() {
    let folder = Folder::new();
    let row = b"20200101 170000065,108.7,108.8,0\r\n";
    for (name, bytes) in [
        ("a/DAT_ASCII_USDJPY_T_202001.csv", row.to_vec()),
        ("b/HISTDATA_COM_ASCII_EURUSD_T202001.zip", zip(&[("x/DAT_ASCII_EURUSD_T_202001.csv", row)])),
    ] {
        let path = folder.file(name, &bytes);
        let format = tapedb_venue::detect(&[&path], &ImportOptions::default()).unwrap();
        assert_eq!(format, Format::FxTicks);
        let (rows, error) = rows(find(format, path.parent().unwrap()).unwrap());
        assert!(error.is_none(), "{error:?}");
        let symbol = if name.starts_with('a') { "USDJPY" } else { "EURUSD" };
        assert_eq!(rows, [format!("0 {symbol} 2020-01-01T22:00:00.065Z")]);
    }
    let elsewhere = folder.file("c/quotes.csv.gz", b"");
    assert!(matches!(find(Format::FxTicks, &elsewhere), Err(ImportError::NeedsOption { .. })));
}

#[test]
fn frames_of_binance_are_found_by_their_first_line() {
    let folder = Folder::new();
    let line = b"1723161256000000000 {\"stream\":\"btcusdt@bookTicker\",\"data\":{\"u\":7,\"s\":\"BTCUSDT\",\"b\":\"1\",\"B\":\"2\",\"a\":\"3\",\"A\":\"4\"}}\n";
    let path = folder.file("usdm/capture.txt", line);
    assert_eq!(tapedb_venue::detect(&[&path], &ImportOptions::default()).unwrap(), Format::BinanceRawWs);
    let (rows, error) = rows(find(Format::BinanceRawWs, &path).unwrap());
    assert!(error.is_none(), "{error:?}");
    assert_eq!(rows, ["0 BTCUSDT 2024-08-08T23:54:16Z"]);
}

#[test]
fn a_mark_of_the_byte_order_and_ends_of_windows_are_no_content() {
    let folder = Folder::new();
    let text = "\u{feff}exchange,symbol,timestamp,local_timestamp,id,side,price,amount\r\nderibit,X,1582329602111000,1582329602418379,7,buy,-0.05,1e-8";
    let path = folder.file("day.csv", text.as_bytes());
    assert_eq!(tapedb_venue::detect(&[&path], &ImportOptions::default()).unwrap(), Format::Tardis);
    let (rows, error) = rows(find(Format::Tardis, &path).unwrap());
    assert!(error.is_none(), "{error:?}");
    assert_eq!(rows, ["0 X 2020-02-22T00:00:02.418379Z"]);
}
