//! Bodies of market packages: the compiled codec against the interpreter.

use super::row_layout::interpreted;
use crate::Target;
use crate::schemas::{market_layouts, package_type};
use crate::values::Values;
use tapedb_codec::dynamic::RecordValue;
use tapedb_codec::{decode, decode_into, encode, view};
use tapedb_market::{Entry, EntryView, Package, PackageView};

/// See the module.
pub const TARGET: Target = Target { name: "compiled_row", run, seed };

/// Both codecs accept the same bytes, refuse the others for the same reason at the same place, and write the same.
pub fn run(body: &[u8]) {
    let (layouts, type_id) = (market_layouts(), package_type());
    let checked = view::<Package>(body);
    assert_eq!(checked.as_ref().map(|_| ()).map_err(|e| *e), layouts.check(type_id, body));
    let decoded = decode::<Package>(body);
    assert_eq!(decoded.as_ref().map(|_| ()).map_err(|e| *e), layouts.decode(type_id, body).map(|_| ()));
    if let Ok(package) = &decoded {
        let mut again = Vec::new();
        encode(package, &mut again);
        assert!(view::<Package>(&again).is_ok() == checked.is_ok() || checked.is_err());
        reuse(package, body);
        if let Ok(view) = checked {
            assert_eq!(again, body, "encoding again gives other bytes");
            walk(view, package);
        }
    }
    interpreted(layouts, type_id, body);
}

/// Decoding into a record that held something else gives the same.
fn reuse(package: &Package, body: &[u8]) {
    let mut reused =
        Package { sequence: Some(1), entries: vec![Default::default(); 3], ..Package::default() };
    assert_eq!(decode_into(body, &mut reused), Ok(()));
    assert_eq!(&reused, package);
}

/// The view gives what decoding gives.
fn walk(view: PackageView<'_>, package: &Package) {
    assert_eq!((view.kind(), view.source_time()), (package.kind, package.source_time));
    assert_eq!((view.match_time(), view.sequence()), (package.match_time, package.sequence));
    assert_eq!(view.entries().len(), package.entries.len());
    for (entry, owned) in view.entries().iter().zip(&package.entries) {
        assert_eq!(body_of(entry), body_of_owned(owned));
    }
}

fn body_of(entry: EntryView<'_>) -> &[u8] {
    match entry {
        EntryView::Trade(record) => record.as_bytes(),
        EntryView::Level1(record) => record.as_bytes(),
        EntryView::Level2Snapshot(record) => record.as_bytes(),
        EntryView::Level2Update(record) => record.as_bytes(),
        EntryView::SequenceRange(record) => record.as_bytes(),
    }
}

fn body_of_owned(entry: &Entry) -> Vec<u8> {
    let mut body = Vec::new();
    match entry {
        Entry::Trade(record) => encode(record, &mut body),
        Entry::Level1(record) => encode(record, &mut body),
        Entry::Level2Snapshot(record) => encode(record, &mut body),
        Entry::Level2Update(record) => encode(record, &mut body),
        Entry::SequenceRange(record) => encode(record, &mut body),
    }
    body
}

fn seed(number: u64) -> Vec<u8> {
    let mut record = RecordValue::default();
    Values::new(market_layouts(), number).fill(package_type(), &mut record);
    let mut body = Vec::new();
    market_layouts().encode(&record, &mut body).expect("a random record is valid");
    body
}
