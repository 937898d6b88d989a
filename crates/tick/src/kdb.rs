//! kdb+ in and out: what its values are here, tables in its files, and its clients on a plant and an RDB.
//!
//! * [`convert`]: columns and updates of values, and values of columns.
//! * [`import`]: tables in logs and splayed tables.
//! * [`front`]: the address at which clients of kdb+ connect.

pub mod convert;
pub mod front;
pub mod import;
