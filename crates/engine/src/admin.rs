//! Administration of files: what is stored, checking it, repairing it, and copying it.

pub(crate) mod backup;
pub(crate) mod check;
pub(crate) mod check_blocks;
pub(crate) mod check_segments;
pub(crate) mod checker;
pub(crate) mod finding;
pub(crate) mod from_store;
pub(crate) mod identity;
pub(crate) mod repair;
pub(crate) mod stored;
