//! Blocks against the reference decoder: messages that look for trouble, and those of any schema, at every level of SIMD,
//! whole and in every part. `TAPEDB_TRIALS=50` tries fifty times as many; a failure names its `TAPEDB_TRIAL_SEED`.

use tapedb_segment::Plan;
use tapedb_segment::trials::{Random, each_seed};
use tapedb_testing::blocks;
use tapedb_testing::schemas::{market_layouts, sample_layouts};
use tapedb_testing::targets::segment_values::compare;
use tapedb_testing::trouble;

#[test]
fn messages_that_look_for_trouble_come_back() {
    each_seed("messages that look for trouble", 60, |seed| {
        let mut random = Random::new(seed);
        let (layouts, messages) = trouble::messages(&mut random);
        compare(&Plan::new(layouts.clone()), &messages, &mut random);
    });
}

#[test]
fn messages_of_any_schema_come_back() {
    each_seed("messages of any schema", 30, |seed| {
        let mut random = Random::new(seed);
        let layouts = if seed % 10 == 0 { market_layouts() } else { sample_layouts(seed as usize) };
        let messages = blocks::messages(layouts, seed, random.count());
        compare(&Plan::new(layouts.clone()), &messages, &mut random);
    });
}
