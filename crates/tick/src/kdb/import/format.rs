//! The formats of kdb+'s files.

use std::fmt;

/// A format of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Logs of tickerplants.
    Log,
    /// Splayed tables: their folders, or the folder of a database with folders of tables.
    Splayed,
    /// Databases whose splayed tables are partitioned by date.
    Hdb,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 3] = [Self::Log, Self::Splayed, Self::Hdb];

    /// The name, as in commands.
    pub fn name(self) -> &'static str {
        match self {
            Self::Log => "kdb-log",
            Self::Splayed => "kdb-splayed",
            Self::Hdb => "kdb-hdb",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
