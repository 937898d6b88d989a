//! `tapedb._tapedb`: the engine, the client and topics as Python objects. `tapedb/*.py` is what people import.
//!
//! Each call of the engine runs without the interpreter's lock, and no panic leaves it: see `held`. Python's exceptions are made in
//! `failure`, values are converted in `value`, and the classes of messages are made in `types`.

mod arrays;
mod batch;
mod collect;
mod cursor;
mod database;
mod failure;
mod held;
mod loader;
mod options;
mod query;
mod reader;
mod record;
mod schema;
mod server;
mod stream;
mod time;
#[cfg(target_os = "linux")]
mod topic;
mod types;
mod value;

use pyo3::prelude::*;

/// The module.
#[pymodule(gil_used = false)]
mod _tapedb {
    #[pymodule_export]
    use super::arrays::batch_of_columns;
    #[pymodule_export]
    use super::batch::{Batch, Buffer};
    #[pymodule_export]
    use super::collect::collect;
    #[pymodule_export]
    use super::cursor::Cursor;
    #[pymodule_export]
    use super::database::{Database, open};
    #[pymodule_export]
    use super::held::{ending, forked, imported};
    #[pymodule_export]
    use super::loader::Loader;
    #[pymodule_export]
    use super::reader::Batches;
    #[pymodule_export]
    use super::record::{Field, Message, Record};
    #[pymodule_export]
    use super::schema::{check_schema, schema_of_arrow};
    #[pymodule_export]
    use super::server::{Server, serve};
    #[pymodule_export]
    use super::stream::Stream;
    #[pymodule_export]
    use super::time::{format_time, nanos};
    #[cfg(target_os = "linux")]
    #[pymodule_export]
    use super::topic::{Publisher, Subscriber, Topic, delete_topic, list_topics, open_topic};

    /// Whether queries run on databases of this process.
    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const has_sql: bool = cfg!(feature = "sql");

    /// The version of the package.
    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
