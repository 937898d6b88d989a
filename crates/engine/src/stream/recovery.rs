//! What opening a stream found and repaired.

use std::fmt;
use tapedb_log::{Damage, Recovery, SymbolRecovery};

/// What opening a stream found and repaired.
#[derive(Debug, Clone, Default)]
pub struct StreamRecovery {
    /// The logs' files, by space.
    pub logs: Vec<Recovery>,
    /// What is wrong with one of the two copies of the definition; the other one is good. (A writer has rewritten it.)
    pub definition: Option<String>,
    /// The symbol file.
    pub symbols: SymbolRecovery,
    /// Symbol ids that messages use although the symbol file has lost them. They get the name `?` and the id, so that no
    /// new symbol gets them. (Only writers look for them: in the last log file, or in all log files when the symbol file was cut,
    /// is damaged at its end or is empty.)
    pub symbols_lost: u32,
}

impl StreamRecovery {
    /// Whether everything was as a clean shutdown leaves it.
    pub fn is_clean(&self) -> bool {
        let symbols = &self.symbols;
        self.logs.iter().all(Recovery::is_clean)
            && symbols.cut_bytes == 0
            && symbols.damaged.is_empty()
            && self.symbols_lost == 0
            && self.definition.is_none()
    }

    /// What was found damaged in the logs.
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
            lost => write!(f, "; {lost} symbols of stored messages are lost and read as ?id"),
        }
    }
}
