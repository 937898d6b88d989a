//! The console's files.

use crate::support::Place;
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::path::Path;

#[test]
fn the_console_or_a_page_without_it_is_there() {
    let place = Place::new();
    let index = place.ask("GET", "/", &[("Accept", "text/html")], "");
    assert_eq!((index.status, index.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert!(index.body.contains("TapeDB"), "{index:?}");
    assert_eq!(
        place.ask("GET", "/streams/x", &[("Accept", "text/html")], "").body,
        index.body,
        "the state is in the address"
    );
    assert_eq!(place.ask("GET", "/assets/none.js", &[("Accept", "*/*")], "").status, 404);
    assert_eq!(place.get("/api/none").json()["code"], "not_found");
    assert_eq!(place.get("/api/openapi.json").json()["openapi"], "3.1.0");
    assert_eq!(place.send("POST", "/", "", &serde_json::json!({})).status, 405);
}

/// The built files belong to the sources beside them.
#[test]
fn the_console_was_built_from_its_sources() {
    let console = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../console");
    let Ok(text) = std::fs::read_to_string(console.join("dist/manifest.json")) else {
        assert!(!console.join("src").exists(), "the sources are there: build them with `make console`");
        return;
    };
    let manifest: serde_json::Value = serde_json::from_str(&text).unwrap();
    for (path, hash) in manifest["sources"].as_object().unwrap() {
        let source = std::fs::read(console.join(path));
        let source =
            source.unwrap_or_else(|error| panic!("{path}: {error}; build the console with `make console`"));
        let digest = Sha256::digest(&source).iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
        assert_eq!(
            hash.as_str(),
            Some(digest.as_str()),
            "{path} has changed; build the console with `make console`"
        );
    }
}
