//! How to import.

use super::fx::FxProvider;
use tapedb_schema::TimeUnit;

/// What to do at a line that cannot be read, or whose row no stream could hold. Damaged or cut files always stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnBadLine {
    /// Stop with an error.
    #[default]
    Stop,
    /// Skip up to this many lines of a file and count them, then stop.
    Skip(u64),
}

impl OnBadLine {
    pub(super) fn skips(self, skipped: u64) -> bool {
        matches!(self, Self::Skip(most) if skipped < most)
    }
}

/// How to import.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ImportOptions {
    /// What to do at a bad line.
    pub on_bad_line: OnBadLine,
    /// Provider of the FX quotes; default: by the folders' names.
    pub fx_provider: Option<FxProvider>,
    /// Zone of the times in FX files, local time minus UTC in seconds; default: the provider's.
    pub fx_utc_offset_seconds: Option<i32>,
    /// Symbol of the FX quotes; default: by the file's or member's name.
    pub fx_symbol: Option<String>,
    /// Round numbers of more than 16 digits to the nearest of 16, in captures and files of crypto venues, and count them; else they are
    /// bad lines.
    pub round_numbers: bool,
    /// Unit of the times of receipt in captures, since 1970; default: by their size.
    pub receive_time_unit: Option<TimeUnit>,
}
