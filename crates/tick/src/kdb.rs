//! kdb+ in and out: what its values are here, and tables in its files.
//!
//! * [`convert`]: columns and updates of values, and values of columns.
//! * [`import`]: tables in logs and splayed tables.

pub mod convert;
pub mod import;
