//! The suite on a remote database, behind a [`Loopback`].

/// Databases for the suite.
pub mod place {
    use crate::loopback::Loopback;
    use crate::support::reopen;
    use std::sync::{Arc, Mutex};
    use tapedb_engine::Database;

    /// Random databases of `model`; `TAPEDB_TRIALS` times as many.
    pub const WORLDS: u64 = 12;

    /// A new database, and its home.
    pub fn new_database() -> (Home, Database) {
        let mut home = Home::new();
        let db = home.open();
        (home, db)
    }

    /// A directory for one database, and its server side.
    pub struct Home {
        directory: tempfile::TempDir,
        server: Mutex<Option<Arc<Loopback>>>,
    }

    impl Home {
        pub fn new() -> Self {
            Self { directory: tempfile::tempdir().unwrap(), server: Mutex::default() }
        }

        /// The database: made, or opened once all of it that was open has been closed.
        pub fn open(&mut self) -> Database {
            let mut server = self.server.lock().unwrap();
            *server = None;
            let loopback = Loopback::new(reopen(&self.directory.path().join("db")));
            *server = Some(loopback.clone());
            Database::open_upstream(loopback)
        }

        /// The same database, as another process has it.
        pub fn beside(&self) -> Database {
            Database::open_upstream(self.server.lock().unwrap().clone().unwrap())
        }
    }
}

#[path = "appended_columns.rs"]
mod appended_columns;
#[path = "busy.rs"]
mod busy;
#[path = "changing.rs"]
mod changing;
#[path = "columns.rs"]
mod columns;
#[path = "conformance.rs"]
mod conformance;
#[path = "dropping.rs"]
mod dropping;
#[path = "ends.rs"]
mod ends;
#[path = "hostile_columns.rs"]
mod hostile_columns;
#[path = "live.rs"]
mod live;
#[path = "model.rs"]
mod model;
#[path = "versions.rs"]
mod versions;
