//! The values of `testing/vectors/kdb.txt`.

use crate::{unhex, value_of};
use std::path::Path;

#[test]
fn golden_values_stay_what_they_were() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testing/vectors/kdb.txt");
    let text = std::fs::read_to_string(path).expect("the vectors");
    let vectors: Vec<(&str, &str)> =
        text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(' ')).collect();
    assert!(vectors.len() >= 87);
    for (hex, shown) in vectors {
        assert_eq!(value_of(&unhex(hex), shown).to_string(), shown, "{hex}");
    }
}
