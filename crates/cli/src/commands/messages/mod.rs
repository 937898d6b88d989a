//! Commands on messages: write, read, replay, replace, delete.

pub mod erase;
#[cfg(feature = "parquet")]
pub mod export;
pub mod generate;
pub mod import;
pub mod load;
#[cfg(feature = "publish")]
pub mod publish;
pub mod read;
pub mod replay;
pub mod rewrite;
pub mod tail;
