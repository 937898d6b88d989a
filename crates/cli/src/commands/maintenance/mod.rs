//! Commands on a database's files: seal, move to an object store, check, inspect, repair, back up, restore.

pub mod backup;
pub mod check;
pub mod inspect;
pub mod repair;
pub mod restore;
pub mod seal;
pub mod sealed;
pub mod tier;
