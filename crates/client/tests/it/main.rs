//! The client against servers: opening, lost connections, and cursors and loaders that survive them.

#![allow(missing_docs, reason = "tests")]
#![allow(clippy::duplicate_mod, reason = "the suite runs over each transport")]

mod basics;
mod connecting;
#[path = "../../../engine/tests/it/counting.rs"]
#[allow(dead_code, reason = "shared with the engine's tests")]
mod counting;
mod cuts;
mod killed;
#[path = "../../../engine/tests/it/last.rs"]
mod last;
#[cfg(target_os = "linux")]
mod memory_use;
mod over;
mod plain;
mod process;
mod proxy;
mod refused;
mod rewriting;
mod rights;
mod served;
mod some;
#[cfg(target_os = "linux")]
mod stalled;
#[path = "../../../engine/tests/it/support.rs"]
#[allow(dead_code, reason = "shared with the engine's tests")]
mod support;
