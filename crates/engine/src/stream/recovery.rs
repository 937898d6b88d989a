//! Result of opening a stream: faults found and repaired.

use std::fmt;
use tapedb_log::{Damage, Recovery, SymbolRecovery};

/// Result of opening a stream: faults found and repaired.
#[derive(Debug, Clone, Default)]
pub struct StreamRecovery {
    /// The logs' files, by space.
    pub logs: Vec<Recovery>,
    /// The fault of one of the two copies of the definition; the other one is good. (A writer has rewritten it.)
    pub definition: Option<String>,
    /// The symbol file.
    pub symbols: SymbolRecovery,
    /// Symbol ids that messages use but the symbol file has lost. They get the name `?` and the id, so that no new symbol
    /// gets them. (Only writers search for them: in the last log file, or in all log files when the symbol file was cut, is
    /// damaged at its end or is empty.)
    pub symbols_lost: u32,
}

impl StreamRecovery {
    /// Whether all files were as after a clean shutdown.
    pub fn is_clean(&self) -> bool {
        let symbols = &self.symbols;
        self.logs.iter().all(Recovery::is_clean)
            && symbols.cut_bytes == 0
            && symbols.damaged.is_empty()
            && self.symbols_lost == 0
            && self.definition.is_none()
    }

    /// The damage found in the logs.
    pub fn damaged(&self) -> impl Iterator<Item = &Damage> {
        self.logs.iter().flat_map(|log| &log.damaged)
    }
}

impl fmt::Display for StreamRecovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(damage) = &self.definition {
            write!(f, "{damage}; ")?;
        }
        match &self.logs[..] {
            [log] => write!(f, "{log}; ")?,
            logs => {
                logs.iter().enumerate().try_for_each(|(space, log)| write!(f, "space {space}: {log}; "))?;
            }
        }
        write!(f, "{}", self.symbols)?;
        match self.symbols_lost {
            0 => Ok(()),
            lost => write!(f, "; {lost} symbols of stored messages are lost and are read as ?id"),
        }
    }
}
