//! What is asked by whom.

use crate::postgres::backend::Backend;
use crate::postgres::settings::Settings;
use tapedb_engine::QueryUser;

/// Name of the database.
pub(crate) const DATABASE: &str = "tapedb";

/// What a query of the catalogue may know.
pub(crate) struct Asked<'a> {
    pub backend: &'a Backend,
    pub user: QueryUser,
    /// The user's name as the client states it.
    pub name: &'a str,
    pub settings: &'a Settings,
    /// Number of the connection.
    pub process: i32,
}
