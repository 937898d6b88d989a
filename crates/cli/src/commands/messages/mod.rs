//! Commands on messages: write, read, replace, delete.

pub mod erase;
#[cfg(feature = "parquet")]
pub mod export;
pub mod generate;
pub mod import;
pub mod load;
pub mod read;
pub mod rewrite;
pub mod tail;
