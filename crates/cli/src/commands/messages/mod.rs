//! Commands on messages: write, read, replace, delete.

pub mod erase;
pub mod generate;
pub mod import;
pub mod load;
pub mod read;
pub mod rewrite;
pub mod tail;
