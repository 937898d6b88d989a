//! The engine's suite on a database behind a server, over each transport.

/// The suite over one transport.
macro_rules! suite {
    ($transport:ident) => {
        /// The databases of the suite.
        pub mod place {
            pub type Home = crate::served::Home<crate::served::$transport>;

            /// Random databases of `model`; `TAPEDB_TRIALS` times as many. The engine's own tests have more: what differs here
            /// is the transport alone.
            pub const WORLDS: u64 = 3;

            /// A new database, and its server.
            pub fn new_database() -> (Home, tapedb_engine::Database) {
                Home::with_database()
            }
        }

        #[path = "../../../engine/tests/it/appended_columns.rs"]
        mod appended_columns;
        #[path = "../../../engine/tests/it/changing.rs"]
        mod changing;
        #[path = "../../../engine/tests/it/columns.rs"]
        mod columns;
        #[path = "../../../engine/tests/it/conformance.rs"]
        mod conformance;
        #[path = "../../../engine/tests/it/dropping.rs"]
        mod dropping;
        #[path = "../../../engine/tests/it/hostile_columns.rs"]
        mod hostile_columns;
        #[path = "../../../engine/tests/it/live.rs"]
        mod live;
        #[path = "../../../engine/tests/it/model.rs"]
        mod model;
        #[path = "../../../engine/tests/it/versions.rs"]
        mod versions;
    };
}

#[path = "."]
mod tcp {
    suite!(Tcp);
}

#[path = "."]
mod tls {
    suite!(Tls);
}

#[path = "."]
mod unix {
    suite!(Unix);
}

#[path = "."]
mod memory {
    suite!(Memory);
}
