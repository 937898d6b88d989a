//! Commands that serve a database, and manage its users.

pub mod cert;
pub mod copies;
#[cfg(feature = "web")]
mod imports;
pub mod lines;
pub mod server;
mod traces;
pub mod user;
