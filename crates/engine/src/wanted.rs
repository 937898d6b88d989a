//! Which messages a live cursor wants of a server.

/// Which messages of a stream are wanted, apart from their times.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Wanted {
    /// Names of symbols; `None`: all.
    pub symbols: Option<Vec<String>>,
    /// The version of the schema that `types` are of. Of other versions all record types are wanted.
    pub schema_version: u16,
    /// Record types by their numbers; `None`: all.
    pub types: Option<Vec<u16>>,
}
