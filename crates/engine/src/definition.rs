//! A stream's definition: the file `stream.tape`, text for people and programs, sealed by a checksum.
//!
//! ```text
//! tapedb-stream 1
//! checksum 9ae0daaf
//! id 4c1d95052de1a1f5
//! created 2026-03-01T08:00:00Z
//! durability async
//! late accept
//! file_bytes_max 67108864
//! spaces 1
//! schema 1
//!
//! message Tick {
//!     price: decimal64,
//! }
//! ```

use crate::error::Error;
use std::path::Path;
use tapedb_log::{Durability, FILE_BYTES_MAX_DEFAULT};
use tapedb_schema::{Schema, Timestamp};

/// First word of the file, and its version.
const MAGIC: &str = "tapedb-stream 1";

/// What a stream does with a message that is older than the last one it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Late {
    /// Takes it; history gives it back where it belongs in time.
    #[default]
    Accept,
    /// Refuses it with [`Error::Late`].
    Refuse,
}

/// What a stream promises; chosen when it is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamOptions {
    /// What an acknowledged message survives.
    pub durability: Durability,
    /// What happens to late messages.
    pub late: Late,
    /// A log file that would grow past this many bytes is followed by a new one; 64 MiB unless set, at most 1 GiB.
    /// A file holds one batch at least. Opening a stream for writing reads its last file, so small files open sooner;
    /// every older file costs one small index file to be read.
    pub file_bytes_max: u64,
    /// Spaces: independent lanes that can be written at the same time; 1 unless set, at most [`SPACES_MAX`]. What
    /// is refused as late is so in each space by itself.
    pub spaces: u32,
}

/// The most spaces of a stream.
pub const SPACES_MAX: u32 = 256;

impl Default for StreamOptions {
    fn default() -> Self {
        let file_bytes_max = FILE_BYTES_MAX_DEFAULT;
        Self { durability: Durability::default(), late: Late::default(), file_bytes_max, spaces: 1 }
    }
}

/// All that is fixed about a stream.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Definition {
    pub id: u64,
    pub created: Timestamp,
    pub options: StreamOptions,
    pub schema_version: u16,
    pub schema: Schema,
}

impl Definition {
    /// The content of the file.
    pub fn to_text(&self) -> String {
        let body = self.body();
        format!("{MAGIC}\nchecksum {:08x}\n{body}", checksum(&body))
    }

    fn body(&self) -> String {
        let Self { id, created, options, schema_version, schema } = self;
        let (durability, late) = (durability_name(options.durability), late_name(options.late));
        let StreamOptions { file_bytes_max, spaces, .. } = options;
        format!(
            "id {id:016x}\ncreated {created}\ndurability {durability}\nlate {late}\n\
             file_bytes_max {file_bytes_max}\nspaces {spaces}\nschema {schema_version}\n\n{schema}"
        )
    }

    /// Reads the content of the file at `path`.
    pub fn parse(text: &str, path: &Path) -> Result<Self, Error> {
        let bad = |what: String| Error::Definition { path: path.into(), what };
        let rest = text
            .strip_prefix(MAGIC)
            .and_then(|rest| rest.strip_prefix("\nchecksum "))
            .ok_or_else(|| bad(format!("does not begin with {MAGIC:?} and a checksum")))?;
        let (stated, body) = rest.split_once('\n').unwrap_or((rest, ""));
        let found = format!("{:08x}", checksum(body));
        if stated != found {
            return Err(bad(format!("is damaged: its checksum is {found}, it says {stated}")));
        }
        Self::parse_body(body, path)
    }

    fn parse_body(body: &str, path: &Path) -> Result<Self, Error> {
        let bad = |what: String| Error::Definition { path: path.into(), what };
        let (head, schema) = body.split_once("\n\n").ok_or_else(|| bad("has no schema".into()))?;
        let value = |key: &str| {
            let line = head.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
            line.ok_or_else(|| bad(format!("has no line {key:?}")))
        };
        let unknown = |key: &str, value: &str| bad(format!("has an unknown {key} {value:?}"));
        let durability = match value("durability")? {
            "async" => Durability::Async,
            "sync" => Durability::Sync,
            other => return Err(unknown("durability", other)),
        };
        let late = match value("late")? {
            "accept" => Late::Accept,
            "refuse" => Late::Refuse,
            other => return Err(unknown("late", other)),
        };
        let file_bytes_max = value("file_bytes_max")?;
        let file_bytes_max = file_bytes_max.parse().map_err(|e| bad(format!("file_bytes_max: {e}")))?;
        let spaces = value("spaces")?;
        let spaces = spaces.parse().ok().filter(|spaces| (1..=SPACES_MAX).contains(spaces));
        let spaces = spaces.ok_or_else(|| bad(format!("spaces: not from 1 to {SPACES_MAX}")))?;
        Ok(Self {
            id: u64::from_str_radix(value("id")?, 16).map_err(|e| bad(format!("id: {e}")))?,
            created: value("created")?.parse().map_err(|e| bad(format!("created: {e}")))?,
            options: StreamOptions { durability, late, file_bytes_max, spaces },
            schema_version: value("schema")?.parse().map_err(|e| bad(format!("schema: {e}")))?,
            schema: schema.parse().map_err(|e| bad(format!("schema: {e}")))?,
        })
    }
}

/// `transient`, `async` or `sync`.
pub(crate) fn durability_name(durability: Durability) -> &'static str {
    match durability {
        Durability::Transient => "transient",
        Durability::Async => "async",
        Durability::Sync => "sync",
    }
}

/// `accept` or `refuse`.
pub(crate) fn late_name(late: Late) -> &'static str {
    match late {
        Late::Accept => "accept",
        Late::Refuse => "refuse",
    }
}

pub(crate) fn checksum(body: &str) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, body.as_bytes()) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Definition {
        Definition {
            id: 0x4c1d_9505_2de1_a1f5,
            created: "2026-03-01T08:00:00Z".parse().unwrap(),
            options: StreamOptions {
                durability: Durability::Sync,
                late: Late::Refuse,
                file_bytes_max: 1 << 20,
                spaces: 4,
            },
            schema_version: 1,
            schema: "enum Side { BID, ASK }\nmessage Tick { side: Side, price: decimal64 }".parse().unwrap(),
        }
    }

    #[test]
    fn round_trips() {
        let text = sample().to_text();
        assert_eq!(Definition::parse(&text, Path::new("stream.tape")).unwrap(), sample(), "{text}");
    }

    #[test]
    fn the_page_shows_a_definition() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/format/database.md");
        let (page, text) = (std::fs::read_to_string(path).unwrap(), sample().to_text());
        assert!(page.contains(&text), "docs/format/database.md must show:\n{text}");
    }

    #[test]
    fn every_changed_bit_is_noticed() {
        let text = sample().to_text();
        for at in 0..text.len() {
            for bit in 0..7 {
                let mut bytes = text.clone().into_bytes();
                bytes[at] ^= 1 << bit;
                let hostile = String::from_utf8(bytes).unwrap();
                let error = Definition::parse(&hostile, Path::new("stream.tape")).unwrap_err();
                assert!(error.to_string().contains("stream.tape"), "{error}");
            }
        }
    }
}
