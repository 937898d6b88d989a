//! Looking after files: what is stored, whether it is sound, mending it, and copies of it.

pub(crate) mod backup;
pub(crate) mod check;
pub(crate) mod check_blocks;
pub(crate) mod check_segments;
pub(crate) mod identity;
pub(crate) mod repair;
pub(crate) mod stored;
