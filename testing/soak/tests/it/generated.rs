//! The Rust types of the sample schemas are those that the generator writes, and stand for those schemas.

use std::path::Path;
use tapedb_codec::dynamic::Layouts;
use tapedb_schema::Schema;
use tapedb_soak::generate::source;
use tapedb_soak::generated::CODECS;
use tapedb_testing::schemas::{SAMPLES, sample_layouts};

#[test]
fn the_file_is_what_the_generator_writes() {
    let schemas: Vec<&Schema> = (0..SAMPLES).map(|i| sample_layouts(i).schema()).collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/generated.rs");
    let text = source(&schemas);
    if std::env::var("TAPEDB_GENERATE").is_ok_and(|yes| yes == "1") {
        std::fs::write(&path, &text).expect("the file can be written");
    }
    let file = std::fs::read_to_string(&path).expect("the file");
    let same = file == text;
    assert!(same, "src/generated.rs is old: TAPEDB_GENERATE=1 cargo test -p tapedb-soak --test it generated");
}

#[test]
fn the_types_have_the_layouts_of_the_samples() {
    assert_eq!(CODECS.len(), SAMPLES);
    for (number, codecs) in CODECS.iter().enumerate() {
        let layouts = sample_layouts(number);
        assert_eq!(codecs.len(), layouts.records().len());
        for (codec, (id, record)) in codecs.iter().zip((0..).zip(layouts.records())) {
            let compiled = Layouts::new((codec.schema)()).expect("a valid schema");
            let (own, _) = compiled.schema().record(codec.name).expect("of that name");
            assert_eq!(codec.name, record.name);
            assert!(layouts.same_layout(id, &compiled, own), "schema {number}, {}", codec.name);
        }
    }
}
