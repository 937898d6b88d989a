//! The engine's suite on a database behind a server, over TCP.

/// Where the suite's databases are.
pub mod place {
    use crate::plain::{Plain, lock};
    use crate::support::reopen;
    use std::sync::Mutex;
    use std::time::Duration;
    use tapedb_client::Client;
    use tapedb_engine::Database;

    /// A new database, and its home.
    pub fn new_database() -> (Home, Database) {
        let mut home = Home::new();
        let db = home.open();
        (home, db)
    }

    /// A place for one database, and what serves it.
    pub struct Home {
        directory: tempfile::TempDir,
        server: Mutex<Option<Plain>>,
    }

    impl Home {
        pub fn new() -> Self {
            Self { directory: tempfile::tempdir().unwrap(), server: Mutex::default() }
        }

        /// The database: made, or opened once all of it that was open has been closed.
        pub fn open(&mut self) -> Database {
            let mut server = lock(&self.server);
            *server = None;
            let started = server.insert(Plain::start(reopen(&self.directory.path().join("db"))));
            connect(started.url())
        }

        /// The same database, as another process has it.
        pub fn beside(&self) -> Database {
            let url = lock(&self.server).as_ref().map(Plain::url);
            connect(url.unwrap_or_default())
        }
    }

    /// Loaders that are dropped after their server, with messages in them, shall not wait for it long.
    fn connect(url: String) -> Database {
        Client::at(url).patience(Duration::from_millis(100)).connect().unwrap()
    }
}

#[path = "../../../engine/tests/it/columns.rs"]
mod columns;
#[path = "../../../engine/tests/it/conformance.rs"]
mod conformance;
#[path = "../../../engine/tests/it/live.rs"]
mod live;
#[path = "../../../engine/tests/it/model.rs"]
mod model;
