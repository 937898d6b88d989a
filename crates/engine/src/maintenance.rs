//! What is done to stored messages in the background: sealing, merging, and purging of what is old.

pub(crate) mod context;
pub(crate) mod pace;
pub(crate) mod retention;
pub(crate) mod seal;
pub(crate) mod thread;
pub(crate) mod verify;
