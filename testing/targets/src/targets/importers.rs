//! Files of venues and vendors. The first byte says what the rest is: lines, which are then packed as the format asks, or
//! the bytes of the zip or gzip file itself.

use crate::Target;
use flate2::{Compression, write::GzEncoder};
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use tapedb_codec::{Record, encode, view};
use tapedb_venue::{AnyRecord, Format, ImportError, ImportOptions, Merge, OnBadLine, Visitor, discover};
use zip::write::{SimpleFileOptions, ZipWriter};

/// See the module.
pub const TARGET: Target = Target { name: "importers", run, seed };

/// Name of the file, what it is, and the zip's member; `None`: gzip.
const KINDS: [(&str, Format, Option<&str>); 5] = [
    ("20131007_quote.zip", Format::UsEquityTicks, Some("20131007_aig_Quote_Tick.csv")),
    ("20131007_trade.zip", Format::UsEquityTicks, Some("20131007_aig_Trade_Tick.csv")),
    ("20140501_quote.zip", Format::FxTicks, Some("20140501_xauusd_tick_quote.csv")),
    ("quote_tick_data.csv.gz", Format::FxTicks, None),
    ("usdm-btcusdt_20240808.gz", Format::BinanceRawWs, None),
];

/// Any bytes give rows that can be encoded, or an error that says where; with bad lines passed over, lines of any kind
/// are read to the end.
pub fn run(input: &[u8]) {
    let [choice, bytes @ ..] = input else { return };
    let (name, format, member) = KINDS[usize::from(choice & 0x7f) % KINDS.len()];
    let packed = if choice & 0x80 == 0 { packed(member, bytes) } else { bytes.to_vec() };
    let folder = Folder::new();
    let path = folder.0.join(name);
    std::fs::write(&path, packed).expect("a temporary file can be written");
    for on_bad_line in [OnBadLine::Stop, OnBadLine::Skip(u64::MAX)] {
        let provider = "fxcm".parse().ok();
        let options = ImportOptions { on_bad_line, fx_provider: provider, ..ImportOptions::default() };
        match read(format, &path, &options) {
            Ok(()) => {}
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

pub(super) fn read(format: Format, path: &Path, options: &ImportOptions) -> Result<(), ImportError> {
    let mut merge = Merge::new(discover(format, &[path], options)?);
    let (mut record, mut rows) = (AnyRecord::default(), 0);
    while let Some(row) = merge.next(&mut record)? {
        assert!(!row.symbol.is_empty());
        record.visit(CanBeViewed);
        rows += 1;
    }
    assert_eq!(merge.counters().rows, rows);
    Ok(())
}

/// Its bytes are valid.
pub(super) struct CanBeViewed;

impl Visitor for CanBeViewed {
    type Output = ();

    fn visit<R: Record + 'static>(self, record: &R) {
        let mut body = Vec::new();
        encode(record, &mut body);
        assert!(view::<R>(&body).is_ok(), "{}: {body:?}", R::NAME);
    }
}

fn packed(member: Option<&str>, lines: &[u8]) -> Vec<u8> {
    match member {
        Some(member) => {
            let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
            archive.start_file(member, SimpleFileOptions::default()).expect("a name");
            archive.write_all(lines).expect("memory takes every write");
            archive.finish().expect("memory takes every write").into_inner()
        }
        None => {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(lines).expect("memory takes every write");
            encoder.finish().expect("memory takes every write")
        }
    }
}

/// A folder of this thread's own, removed at the end.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new() -> Self {
        let name = format!("tapedb-importers-{}-{:?}", std::process::id(), std::thread::current().id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a temporary folder can be made");
        Self(path)
    }
}

impl Folder {
    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Lines as the formats have them; made up, not recorded.
const LINES: [&[&str]; 5] = [
    &[
        "14400152,0,0,494100,300,Q,1,0",
        "14400547,491800,300,0,0,P,1,0",
        "14400547,0,0,0,0,P,,1",
        "14400547,1,2,3,4,N,R,0",
    ],
    &["14400688,491800,300,P,2000,0", "57599999,1,0,D,20002020,1", "57600000,491801,100,,,0"],
    &["1787,1.38727,1.38729", "46.2042,1291.677,1292.033", "86399999.999999,0,1"],
    &["20200101 170000065,1.121200,1.121720,0", "20200101 235959999,1,2,0"],
    &[
        r#"1723161255030314667 {"stream":"btcusdt@depth@0ms","data":{"e":"depthUpdate","E":1723161256299,"T":1723161256298,"s":"BTCUSDT","U":5,"u":9,"pu":4,"b":[["58710.20","0.014"],["61510.90","0.000"]],"a":[["7","8"]]}}"#,
        r#"1723161255030314668 {"stream":"btcusdt@bookTicker","data":{"u":7,"s":"BTCUSDT","b":"0.00","B":"0.00","a":"2.50","A":"3"}}"#,
        r#"1723161255030314669 {"stream":"btcusdt@trade","data":{"e":"trade","E":1723161256299,"T":1723161256298,"s":"BTCUSDT","t":3,"p":"4.0","q":"5","X":"INSURANCE_FUND","m":true}}"#,
        r#"1723161255030314670 {"lastUpdateId":77,"bids":[["1","2"],["0.5","3"]],"asks":[["3","4"]]}"#,
    ],
];

/// One to four lines; every third time as the bytes of the file.
fn seed(number: u64) -> Vec<u8> {
    let kind = number as usize % KINDS.len();
    let lines = LINES[kind];
    let from = number as usize / KINDS.len() % lines.len();
    let bytes = format!("{}\n", lines[from..].join("\n")).into_bytes();
    let whole_file = number.is_multiple_of(3);
    let bytes = if whole_file { packed(KINDS[kind].2, &bytes) } else { bytes };
    [&[kind as u8 | u8::from(whole_file) << 7], &bytes[..]].concat()
}
