//! Commands that serve a database, and manage who may use it.

pub mod cert;
pub mod copies;
pub mod server;
pub mod user;
