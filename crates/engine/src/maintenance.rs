//! Background maintenance of stored messages: sealing, merging, and purging of old ones.

mod choose;
pub(crate) mod context;
pub(crate) mod cut;
pub(crate) mod describe;
pub mod forced;
pub(crate) mod offload;
pub(crate) mod pace;
pub(crate) mod part;
mod queue;
pub(crate) mod retention;
pub(crate) mod seal;
pub(crate) mod strands;
pub(crate) mod sweep;
pub(crate) mod thread;
pub(crate) mod verify;
