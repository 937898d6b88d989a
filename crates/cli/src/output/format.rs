//! The formats in which messages are printed, by name.

use clap::ValueEnum;
use std::fmt;
use std::path::Path;
use tapedb_terminal::Ui;

/// How messages are printed.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A line for people: time, symbol, type, fields
    Text,
    /// A canonical JSON object per line; "$stream" comes first when several streams are read
    Json,
    /// Columns of one record type; one row for each item of its array
    Csv,
    /// An Arrow IPC stream of one record type, for example for Polars or pyarrow; only of `tapedb read`
    #[value(hide = cfg!(not(feature = "arrow")))]
    Arrow,
    /// Nothing: validate, count and checksum
    None,
}

impl Format {
    /// The format chosen by the command's own option or by `--json`.
    pub fn chosen(own: Option<Self>, ui: &Ui) -> Self {
        own.unwrap_or(if ui.json() { Self::Json } else { Self::Text })
    }

    /// The format that a file's extension implies.
    pub fn of_name(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "csv" => Some(Self::Csv),
            "json" | "jsonl" | "ndjson" => Some(Self::Json),
            "txt" => Some(Self::Text),
            "arrow" | "arrows" => Some(Self::Arrow),
            _ => None,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text => "text",
            Self::Json => "json",
            Self::Csv => "csv",
            Self::Arrow => "arrow",
            Self::None => "none",
        })
    }
}
