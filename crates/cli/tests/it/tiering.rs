//! Old segments in a folder as object store: `alter --tier`, `tier`, reading, `check --objects`, and the store alone.

use crate::support::*;
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn old_segments_go_to_a_store_and_are_read_as_before() {
    let place = Place::new();
    place.run("generate --stream feed --messages 5k").good();
    assert!(place.run("alter feed --after 1d").bad(2).contains("--tier"));
    assert!(place.run("tier feed").bad(2).contains("alter --tier"));
    let url = format!("file://{}", place.path("store").display());
    let said = place.run(&format!("alter feed --tier {url} --after 90d")).good();
    assert!(said.contains(&format!("old segments in {url}, after 90d")), "{said}");
    let settings = place.run("desc feed --json").json().remove(0)["settings"].clone();
    assert_eq!(
        (&settings["tier"], &settings["tier_after_seconds"]),
        (&url.as_str().into(), &7_776_000.0.into())
    );
    place.run("seal feed").good();
    let before = place.totals("feed");
    assert!(place.run("tier feed").good().contains("moved 0 segments"));
    let moved = place.run("tier feed --now --json").json().remove(0);
    assert!(
        moved["segments"].as_u64().unwrap() > 0 && moved["segments"] == moved["segments_in_tier"],
        "{moved}"
    );
    assert_eq!(place.totals("feed"), before);
    place.run("check feed").good();
    place.run("check feed --objects").good();
    let rows = |db: &str| Run::plain(&format!("read --db {db} feed --json")).good();
    let read = rows(&place.db().display().to_string());
    assert!(rows(&url) == read && read.lines().count() > 1000);
    let target = place.path("again");
    assert!(Run::plain(&format!("restore {url} {}", target.display())).good().contains("restored"));
    assert!(rows(&target.display().to_string()) == read);
    // What is in the store is changed by others.
    let segment = find(&place.path("store")).expect("a segment");
    let mut bytes = fs::read(&segment).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&segment, bytes).unwrap();
    place.run("check feed").good();
    let found = place.run("check feed --objects");
    assert_eq!(found.code, 1, "{}", found.out);
    assert!(Run::plain(&format!("read --db {url}x feed")).bad(1).contains("tapedb-owner"));
    let refused = place.run("alter feed --tier s3:/x");
    assert!(refused.code == 2 && refused.err.contains("s3://bucket/prefix"), "{}", refused.err);
}

/// The first piece of a segment.
fn find(folder: &Path) -> Option<PathBuf> {
    fs::read_dir(folder).ok()?.find_map(|entry| {
        let path = entry.ok()?.path();
        match path.is_dir() {
            true => find(&path),
            false => path.to_str().is_some_and(|path| path.ends_with(".seg.0")).then_some(path),
        }
    })
}
