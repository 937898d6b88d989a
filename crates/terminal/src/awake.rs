//! Keeps processors awake while a command serves or measures.

use crate::Failure;
use tapedb_shm::Awake;

/// Whether processors are kept awake.
#[derive(clap::Args, Debug, Clone, Copy)]
pub struct AwakeArgs {
    /// Keep the machine's processors from halting: a wake-up then takes half the time or less.
    ///
    /// One thread of idle priority spins on each. Processors show as 100 % busy, take power, leave less to their hyperthreads
    /// and use up the budget of a burstable machine or of a container with a quota. One command on a machine is enough.
    #[arg(long)]
    pub keep_awake: bool,
}

impl AwakeArgs {
    /// Starts it if the flag is given.
    pub fn keep(self) -> Result<Option<Awake>, Failure> {
        keep(self.keep_awake)
    }
}

/// Starts it if `wanted`.
pub fn keep(wanted: bool) -> Result<Option<Awake>, Failure> {
    let kept = wanted.then(Awake::keep).transpose();
    kept.map_err(|error| Failure::new(format!("{error} (leave --keep-awake out)")))
}

/// A short remark for the machine line of a benchmark.
pub fn remark(awake: &Awake) -> &'static str {
    if awake.bars_deep_sleep() { "processors kept awake, deep sleep barred" } else { "processors kept awake" }
}

/// What is kept awake, for a log line.
pub fn description(awake: &Awake) -> String {
    let deep = if awake.bars_deep_sleep() { ", and from deep sleep" } else { "" };
    format!("{} processors are kept from halting{deep}", awake.cores())
}
