//! Options of a plant.

use crate::calendar::DayEnd;
use crate::hdb::Hdb;
use std::time::Duration;
use tapedb_engine::StreamOptions;

/// When updates are logged, and when subscribers get them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Publish {
    /// Each update is logged and published when it arrives.
    #[default]
    Each,
    /// Each update is logged when it arrives; subscribers receive updates at this interval.
    Every(Duration),
    /// Updates collect in memory, and are logged and published at this interval. Updates that have not been logged are lost
    /// with the process.
    LogEvery(Duration),
}

/// Options of a plant.
#[derive(Debug, Clone)]
pub struct PlantOptions {
    /// Options of new streams; existing ones keep theirs.
    pub stream: StreamOptions,
    /// When days end; `None`: only when they are ended by hand.
    pub day_end: Option<DayEnd>,
    /// When updates are logged and published.
    pub publish: Publish,
    /// How many days that ended are kept; `None`: all.
    pub keep_days: Option<u32>,
    /// The HDB that days are handed over to: no day is purged before it has it.
    pub hdb: Option<Hdb>,
    /// Pause before a day is compared with the HDB again that was missing there or different.
    pub compare_pause: Duration,
}

impl Default for PlantOptions {
    /// Days end at midnight UTC; each update is logged and published when it arrives; all days are kept.
    fn default() -> Self {
        Self {
            stream: StreamOptions::default(),
            day_end: Some(DayEnd::default()),
            publish: Publish::default(),
            keep_days: None,
            hdb: None,
            compare_pause: Duration::from_secs(5),
        }
    }
}
