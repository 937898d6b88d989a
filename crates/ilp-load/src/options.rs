//! What lines become.

use tapedb_engine::StreamOptions;
use tapedb_ilp::Limits;

/// How lines become messages.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// Names of the tag that has the symbol, the most important first; `symbol`, `sym`, `ticker` by default. Where no tag has one of
    /// these names, a text field may.
    pub symbols: Vec<String>,
    /// The symbol of lines that have none, `-` by default; `None`: such lines are refused.
    pub missing_symbol: Option<String>,
    /// Whether streams are created for tables that there is no stream for, and fields for new tags and fields: by users that have the
    /// right `create`. By default they are.
    pub create: bool,
    /// Options of streams that are created.
    pub stream: StreamOptions,
    /// What a line may have.
    pub limits: Limits,
    /// Bytes of the lines of a request, uncompressed: 128 MiB.
    pub request_bytes_max: usize,
    /// Bytes of all requests that are handled at one time, and of the columns that they become: 1 GiB.
    pub pending_bytes_max: usize,
    /// Tables of a request: 1,000.
    pub tables_max: usize,
    /// Columns of all tables of a request: 10,000.
    pub columns_max: usize,
    /// Rows times columns of a request, summed over its tables: 64 million.
    pub cells_max: usize,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            symbols: ["symbol", "sym", "ticker"].map(String::from).into(),
            missing_symbol: Some("-".into()),
            create: true,
            stream: StreamOptions::default(),
            limits: Limits::default(),
            request_bytes_max: 128 << 20,
            pending_bytes_max: 1 << 30,
            tables_max: 1_000,
            columns_max: 10_000,
            cells_max: 64_000_000,
        }
    }
}
