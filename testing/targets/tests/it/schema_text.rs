//! Texts of random schemas, whole and damaged.

use tapedb_schema::Schema;
use tapedb_testing::sample::{self, SplitMix64};

#[test]
fn printed_samples_read_back() {
    for seed in 0..1000 {
        let sample = sample::schema(seed);
        assert_eq!(sample.to_string().parse(), Ok(sample), "seed {seed}");
    }
}

/// Cuts, repeats, swaps and foreign characters in valid texts: what still reads must read back.
#[test]
fn mutated_texts_neither_panic_nor_change_on_the_way_round() {
    const FOREIGN: [&str; 14] = [
        "{",
        "}",
        "<",
        ">",
        "|",
        "?",
        "=",
        "\"",
        "\\",
        "///",
        "[alias ",
        "ü",
        "array<",
        "-99999999999999999999",
    ];
    let mut accepted = 0;
    for seed in 0..3000 {
        let mut random = SplitMix64::new(seed);
        let mut text: Vec<char> = sample::schema(seed % 50).to_string().chars().take(3000).collect();
        for _ in 0..1 + random.below(3) {
            let at = random.below(text.len());
            match random.below(4) {
                0 => drop(text.drain(at..(at + 1 + random.below(8)).min(text.len()))),
                1 => drop(text.splice(at..at, FOREIGN[random.below(FOREIGN.len())].chars())),
                2 => text[at] = char::from(32 + random.below(95) as u8),
                _ => text.truncate(text.len() - random.below(20).min(text.len() - 1)),
            }
        }
        let text: String = text.into_iter().collect();
        if let Ok(schema) = text.parse::<Schema>() {
            accepted += 1;
            assert_eq!(schema.to_string().parse(), Ok(schema), "seed {seed}");
        }
    }
    assert!(
        accepted > 100,
        "only {accepted} mutated texts were read: the mutations are too coarse to test much"
    );
}
