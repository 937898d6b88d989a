//! Tables: CSV files of any origin, whose header says which column is which field.
//!
//! [`infer_schema`] makes a schema of a file's first rows, [`TableRows`] turns rows into messages of a schema. Values are converted exactly
//! or refused, with file and line. What maps to what is in `docs/IMPORT.md`.

mod cells;
mod file;
mod infer;
mod mapping;
mod quotes;
mod rows;
#[cfg(test)]
mod tests;
mod times;

pub use file::{TableFile, find_tables};
pub use infer::{ROWS_LOOKED_AT, infer_schema};
pub use mapping::{TableOptions, TableSymbol};
pub use rows::{TableRow, TableRows};
