//! Blocks against the reference decoder: messages that look for trouble, of every schema, at every level of SIMD, whole and
//! in every part. `TAPEDB_TRIALS=50` tries fifty times as many; a failure names its `TAPEDB_TRIAL_SEED`.

use tapedb_segment::trials::{Random, at_every_level, block, each_seed};
use tapedb_segment::{BlockBuilder, BlockOptions, Plan, Tier};
use tapedb_testing::blocks::{self, Message};
use tapedb_testing::schemas::{market_layouts, sample_layouts};
use tapedb_testing::trouble;

/// Writes messages in some blocks of one builder, so that later ones are encoded as the ones before were, and compares
/// what is read of each in every way.
fn compare(plan: &Plan, messages: &[Message], random: &mut Random) {
    let tier = random.pick(&[Tier::Hot, Tier::Hot, Tier::Cold]);
    let mut builder = BlockBuilder::new(BlockOptions { rows: usize::MAX, tier, ..BlockOptions::default() });
    let mut rest = messages;
    while !rest.is_empty() {
        let (here, behind) =
            rest.split_at(if random.below(2) == 0 { rest.len() } else { 1 + random.below(rest.len()) });
        rest = behind;
        blocks::push_all(&mut builder, here);
        let mut bytes = Vec::new();
        builder.finish(plan, &mut bytes);
        at_every_level(|level| {
            let rows = block(plan, &bytes, random)
                .unwrap_or_else(|| panic!("{level}: the reference refuses a block"));
            assert!(rows == here, "{level}: the reference does not give what was written");
        });
    }
}

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
