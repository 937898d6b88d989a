//! Messages that look for trouble, which the input turns where it likes: written into blocks and read in every way, they are
//! what they were, and what the reference decoder says.

use crate::Target;
use crate::blocks::{Message, push_all};
use crate::trouble;
use tapedb_segment::trials::{Random, at_every_level, block};
use tapedb_segment::{BlockBuilder, BlockOptions, Plan, Tier};

/// See the module.
pub const TARGET: Target = Target { name: "segment_values", run, seed };

/// Whatever the messages: each comes back from its block.
pub fn run(input: &[u8]) {
    let mut random = Random::of(input);
    let (layouts, messages) = trouble::messages(&mut random);
    compare(&Plan::new(layouts.clone()), &messages, &mut random);
}

/// Writes messages in some blocks of one builder, so that later ones are encoded as the ones before were, and compares
/// what is read of each, in every way and at every level of SIMD, with what was written.
///
/// # Panics
/// When they differ.
pub fn compare(plan: &Plan, messages: &[Message], random: &mut Random) {
    let tier = random.pick(&[Tier::Hot, Tier::Hot, Tier::Cold]);
    let mut builder = BlockBuilder::new(BlockOptions { rows: usize::MAX, tier, ..BlockOptions::default() });
    let mut rest = messages;
    while !rest.is_empty() {
        let most = if random.below(2) == 0 { rest.len() } else { 1 + random.below(rest.len()) };
        let mut count = 0;
        while count < most && !builder.is_full() {
            push_all(&mut builder, &rest[count..count + 1]);
            count += 1;
        }
        let (here, behind) = rest.split_at(count);
        rest = behind;
        let mut bytes = Vec::new();
        builder.finish(plan, &mut bytes);
        at_every_level(|level| {
            let rows = block(plan, &bytes, random);
            let rows = rows.unwrap_or_else(|| panic!("{level}: the reference refuses a block"));
            assert!(rows == here, "{level}: the reference does not give what was written");
        });
    }
}

/// Numbers that turn the first choices.
fn seed(number: u64) -> Vec<u8> {
    let mut random = Random::new(number);
    (0..random.below(200)).map(|_| random.number() as u8).collect()
}
