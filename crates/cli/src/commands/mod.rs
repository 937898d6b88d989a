//! The commands, one file or folder each, grouped by what they work on.

pub mod brokers;
pub mod demo;
pub mod maintenance;
pub mod manual;
pub mod market;
pub mod messages;
pub mod serve;
pub mod shell;
#[cfg(feature = "sql")]
pub mod sql;
pub mod streams;
pub mod tick;
pub mod topic;
