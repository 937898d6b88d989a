//! Queries for the users of a server: with their rights, and within limits for each of them and for all.

use crate::cluster::{Cluster, ClusterServers};
use crate::compact::compact;
use crate::error::Error;
use crate::next::Next;
use crate::options::Options;
use crate::parameters::Parameters;
use crate::pool::{SharedBytes, UserPool};
use crate::rows::Rows;
use crate::session::{Run, Sql};
use crate::snapshot::MayRead;
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::ipc::writer::StreamWriter;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tapedb_engine::{Database, Error as EngineError, Query, QueryEngine, QueryRows, QueryStep, QueryUser};

/// Runs the queries of a server's clients.
///
/// `Server::serve_queries` of `tapedb-server` takes it.
#[derive(Debug)]
pub struct QueryService {
    sql: Sql,
    /// What the operators of all queries use.
    total: Arc<SharedBytes>,
    /// The memory of users with running queries.
    users: Mutex<HashMap<String, UserMemory>>,
    /// The servers that queries read from beside this one.
    servers: Option<Arc<dyn ClusterServers>>,
}

/// The memory of a user's queries.
#[derive(Debug)]
struct UserMemory {
    bytes: usize,
    runtime: Weak<RuntimeEnv>,
}

impl QueryService {
    /// Queries on a database; [`Options::memory_bytes`] and [`Options::disk_bytes`] are limits for all users together.
    ///
    /// # Errors
    /// When threads cannot be started.
    pub fn new(db: &Database, options: Options) -> Result<Self, Error> {
        let total = Arc::new(SharedBytes::new(options.memory_bytes));
        Ok(Self { sql: Sql::with_options(db, options)?, total, users: Mutex::default(), servers: None })
    }

    /// The same, over several servers: queries see the streams of all of them as those of one.
    pub fn with_cluster(self, servers: Arc<dyn ClusterServers>) -> Self {
        Self { servers: Some(servers), ..self }
    }

    /// The servers that a user's queries read from; `None`: only this database.
    ///
    /// # Errors
    /// When one cannot be reached or refuses the user.
    pub(crate) fn cluster(&self, user: &QueryUser) -> Result<Option<Cluster>, Error> {
        let Some(servers) = &self.servers else { return Ok(None) };
        let servers = servers.servers(&user.name)?;
        let may_read = MayRead(user.may_read.clone());
        Cluster::for_user(servers, &self.sql, &may_read, &self.runtime(user)?).map(Some)
    }

    /// The database.
    pub fn database(&self) -> &Database {
        self.sql.database()
    }

    /// What runs the queries.
    pub(crate) fn sql(&self) -> &Sql {
        &self.sql
    }

    /// What the queries of a user run in: they share memory.
    fn runtime(&self, user: &QueryUser) -> Result<Arc<RuntimeEnv>, Error> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        users.retain(|_, memory| memory.runtime.strong_count() > 0);
        let known = users.get(&user.name).filter(|memory| memory.bytes == user.memory_bytes);
        if let Some(runtime) = known.and_then(|memory| memory.runtime.upgrade()) {
            return Ok(runtime);
        }
        let pool = UserPool::new(user.memory_bytes, self.total.clone());
        let built = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(pool)).build()?;
        // Temporary files count for all users together.
        let runtime = Arc::new(RuntimeEnv { disk_manager: self.sql.runtime().disk_manager.clone(), ..built });
        let memory = UserMemory { bytes: user.memory_bytes, runtime: Arc::downgrade(&runtime) };
        users.insert(user.name.clone(), memory);
        Ok(runtime)
    }

    /// Runs a query of a user. The bytes of parameters in `query` are not read: `parameters` has the values.
    ///
    /// # Errors
    /// As [`Sql::query_with`].
    pub fn rows(&self, query: &Query, parameters: &Parameters, user: &QueryUser) -> Result<Rows, Error> {
        let options = Options {
            decimals: query.decimals.parse().map_err(Error::query)?,
            time_limit: query.time_limit,
            rows_max: query.rows_max,
            dictionaries: query.dictionaries,
            ..self.sql.options().clone()
        };
        self.sql.start(Run {
            text: query.text.clone(),
            parameters: parameters.clone(),
            options,
            may_read: Some(MayRead(user.may_read.clone())),
            runtime: Some(self.runtime(user)?),
            cluster: self.cluster(user)?,
        })
    }
}

impl QueryEngine for QueryService {
    fn begin(&self, query: &Query, user: &QueryUser) -> Result<Box<dyn QueryRows>, EngineError> {
        let parameters = Parameters::from_bytes(&query.parameters).map_err(EngineError::from)?;
        let rows = self.rows(query, &parameters, user).map_err(EngineError::from)?;
        let writer = StreamWriter::try_new(Vec::new(), &rows.schema()).map_err(unwritable)?;
        Ok(Box::new(RowBytes { rows, writer: Box::new(writer), is_ended: false }))
    }
}

/// The rows of a query as bytes.
struct RowBytes {
    rows: Rows,
    writer: Box<StreamWriter<Vec<u8>>>,
    /// Whether the end of the stream is written.
    is_ended: bool,
}

impl fmt::Debug for RowBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowBytes").field("rows", &self.rows).finish_non_exhaustive()
    }
}

impl QueryRows for RowBytes {
    fn next(&mut self, timeout: Duration, out: &mut Vec<u8>) -> Result<QueryStep, EngineError> {
        // The schema waits there at first.
        if self.writer.get_ref().is_empty() {
            if self.is_ended {
                return Ok(QueryStep::End);
            }
            match self.rows.next_within(timeout).map_err(EngineError::from)? {
                Next::Waiting => return Ok(QueryStep::Waiting),
                Next::Batch(batch) => self.writer.write(&compact(&batch).map_err(EngineError::from)?),
                Next::End => {
                    self.is_ended = true;
                    self.writer.finish()
                }
            }
            .map_err(unwritable)?;
        }
        out.clear();
        std::mem::swap(out, self.writer.get_mut());
        Ok(QueryStep::Bytes)
    }

    fn streams(&self) -> Vec<String> {
        self.rows.streams()
    }
}

fn unwritable(error: ArrowError) -> EngineError {
    let what = format!("rows cannot be sent: {error}; cast the columns to other types");
    EngineError::from(Error::query(what))
}
