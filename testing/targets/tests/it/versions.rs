//! Random messages of random versions of random schemas: what conversion makes of their bytes is what encoding their
//! converted values gives.
//!
//! `TAPEDB_MESSAGES` sets how many messages (default 50,000), `TAPEDB_SEED` where they begin.

use tapedb_codec::dynamic::RecordValue;
use tapedb_codec::evolve::Evolution;
use tapedb_testing::targets::evolve::{Outcome, valid};
use tapedb_testing::values::Values;
use tapedb_testing::versions::Versions;

const MESSAGES_PER_SCHEMA: u64 = 50;

fn setting(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text:?} is not a number")),
        Err(_) => default,
    }
}

#[test]
fn converted_bytes_are_encoded_converted_values() {
    let (messages, first) = (setting("TAPEDB_MESSAGES", 50_000), setting("TAPEDB_SEED", 0));
    let mut outcomes = [0; 3];
    for seed in first / MESSAGES_PER_SCHEMA..(first + messages).div_ceil(MESSAGES_PER_SCHEMA) {
        let versions = Versions::new(seed);
        let evolution = Evolution::new(&versions.written, &versions.read)
            .unwrap_or_else(|e| panic!("schema {seed}: {e}\n{}", versions.read.schema()));
        let types = versions.written.records().len() as u64;
        for number in seed * MESSAGES_PER_SCHEMA..(seed + 1) * MESSAGES_PER_SCHEMA {
            let (mut record, mut body) = (RecordValue::default(), Vec::new());
            let type_id = (number % types) as u16;
            Values::new(&versions.written, number).fill(type_id, &mut record);
            versions.written.encode(&record, &mut body).expect("a random record is valid");
            outcomes[valid(&versions, &evolution, type_id, &body) as usize] += 1;
        }
    }
    let [same, converted, refused] =
        [Outcome::Same, Outcome::Converted, Outcome::Refused].map(|outcome| outcomes[outcome as usize]);
    println!("{same} copied, {converted} converted, {refused} refused");
    let few = messages / 50;
    assert!(same > few && converted > 10 * few && refused > few, "{outcomes:?}");
}
