//! SQL over streams, with DataFusion.
//!
//! [`Sql`] runs queries on a database, local or behind a server: a stream is a schema, and each of its message types a table. All
//! tables of a query are as of one moment. `docs/SQL.md` describes the language.
//!
//! ```
//! use tapedb_engine::Database;
//! use tapedb_query::Sql;
//! use tapedb_schema::Timestamp;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! let db = Database::open(directory.path().join("db"))?;
//! let schema = "message Bar { close: decimal64, volume: u64 }".parse()?;
//! let stream = db.create_stream("bars", schema, Default::default())?;
//! let mut loader = stream.loader()?;
//! for (time, volume) in [(1, 5), (2, 7)] {
//!     let bar = format!(r#"{{"$type": "Bar", "close": "10.25", "volume": {volume}}}"#);
//!     loader.append_value("A", Timestamp(time), &stream.layouts().from_json(&bar)?)?;
//! }
//! loader.close()?;
//!
//! let sql = Sql::new(&db)?;
//! let batches = sql.query("SELECT symbol, sum(volume) AS volume FROM bars.Bar GROUP BY symbol")?.collect::<Result<Vec<_>, _>>()?;
//! assert_eq!(batches[0].num_rows(), 1);
//! # Ok(())
//! # }
//! ```

mod aggregates;
mod arithmetic;
mod as_of;
mod asof;
mod batches;
mod book;
mod bounded;
mod catalog;
mod cluster;
mod columns;
mod compact;
mod complexity;
mod decimal;
mod describe;
mod dictionaries;
mod distinct_from;
mod error;
mod extents;
mod functions;
mod gapfill;
mod grouped;
mod l2price;
mod latest;
mod live;
mod names;
mod nanoseconds;
mod nested;
mod next;
mod open;
mod options;
mod order;
mod parameters;
mod pauses;
mod pool;
mod predicate;
mod provider;
mod reader;
mod room;
mod rows;
mod sample;
mod scan;
mod service;
mod session;
mod snapshot;
mod spelling;
mod table;
mod time;
mod traced;
mod upstream;
mod views;
mod wanted;

pub use cluster::{Cluster, ClusterServer, ClusterServers};
pub use compact::compact;
pub use datafusion::arrow;
pub use describe::{Description, TableDescription};
pub use error::{Error, Reason};
pub use next::Next;
pub use options::{Options, Place};
pub use parameters::Parameters;
pub use rows::Rows;
pub use service::QueryService;
pub use session::{DatabaseSql, Sql};
pub use views::Views;
