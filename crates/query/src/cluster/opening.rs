//! Servers behind connections, and databases of this process as servers.

use super::answer::{AnswerRows, named};
use super::member::{Member, Place as MemberPlace};
use super::{Cluster, ClusterServer};
use crate::error::Error;
use crate::next::Next;
use crate::options::{Options, Place};
use crate::parameters::Parameters;
use crate::rows::Rows;
use crate::session::{Run, Sql};
use crate::snapshot::MayRead;
use crate::upstream::UpstreamRows;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::execution::runtime_env::RuntimeEnv;
use std::sync::Arc;
use std::time::Instant;
use tapedb_engine::Database;

impl Cluster {
    /// Servers by name. A database in this process counts as a server too. The order of the servers is that of messages with
    /// equal times.
    ///
    /// # Errors
    /// When there is none, a name occurs twice, a server cannot be reached, or threads cannot be started.
    ///
    /// ```no_run
    /// use tapedb_client::Client;
    /// use tapedb_query::{Cluster, Options, Sql};
    ///
    /// let mut servers = Vec::new();
    /// for url in ["tape://a.example.com", "tape://b.example.com"] {
    ///     servers.push((url.to_string(), Client::at(url).connect()?));
    /// }
    /// let sql = Sql::of_cluster(Cluster::new(servers)?, Options::default())?;
    /// for batch in sql.query("SELECT symbol, sum(volume) FROM bars GROUP BY symbol")? {
    ///     println!("{} rows", batch?.num_rows());
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(servers: impl IntoIterator<Item = (String, Database)>) -> Result<Self, Error> {
        let member = |(name, db): (String, Database)| {
            let is_remote = db.server_status().map_err(|error| named(&name, error.into()))?.is_some();
            let place: Box<dyn MemberPlace> = match is_remote {
                true => Box::new(There(db)),
                false => Box::new(Here { sql: Sql::new(&db)?, may_read: None, runtime: None }),
            };
            Ok(Arc::new(Member { name, place, streams: None }))
        };
        Self::of(servers.into_iter().map(member).collect::<Result<Vec<_>, Error>>()?)
    }

    /// The servers of a user of a server; `here` runs what is asked of the server's own database.
    ///
    /// # Errors
    /// As [`Cluster::new`].
    pub(crate) fn for_user(
        servers: Vec<ClusterServer>,
        here: &Sql,
        may_read: &MayRead,
        runtime: &Arc<RuntimeEnv>,
    ) -> Result<Self, Error> {
        let member = |ClusterServer { name, remote }| {
            let (place, streams): (Box<dyn MemberPlace>, _) = match remote {
                Some((db, streams)) => (Box::new(There(db)), Some(streams)),
                None => {
                    let (may_read, runtime) = (Some(may_read.clone()), Some(runtime.clone()));
                    (Box::new(Here { sql: here.clone(), may_read, runtime }), None)
                }
            };
            Arc::new(Member { name, place, streams })
        };
        Self::of(servers.into_iter().map(member).collect())
    }
}

/// A server behind a connection.
#[derive(Debug)]
struct There(Database);

impl MemberPlace for There {
    fn database(&self) -> &Database {
        &self.0
    }

    fn begin(
        &self,
        text: &str,
        parameters: &Parameters,
        options: &Options,
    ) -> Result<(SchemaRef, Box<dyn AnswerRows>), Error> {
        match UpstreamRows::begin(&self.0, options, text, parameters)? {
            Some((schema, rows)) => Ok((schema, Box::new(rows))),
            None => {
                let what = "it runs no queries; start a `tapedb server` that was built with SQL there";
                Err(Error::query(what))
            }
        }
    }
}

impl AnswerRows for UpstreamRows {
    fn next_until(&mut self, until: Instant) -> Result<Next, Error> {
        Self::next_until(self, Some(until))
    }
}

/// A database of this process, with the rights of a user and in the user's memory.
#[derive(Debug)]
struct Here {
    sql: Sql,
    may_read: Option<MayRead>,
    runtime: Option<Arc<RuntimeEnv>>,
}

impl MemberPlace for Here {
    fn database(&self) -> &Database {
        self.sql.database()
    }

    fn begin(
        &self,
        text: &str,
        parameters: &Parameters,
        options: &Options,
    ) -> Result<(SchemaRef, Box<dyn AnswerRows>), Error> {
        let rows = self.sql.start(Run {
            text: text.into(),
            parameters: parameters.clone(),
            options: Options { place: Place::Here, ..options.clone() },
            may_read: self.may_read.clone(),
            runtime: self.runtime.clone(),
            cluster: None,
        })?;
        Ok((rows.schema(), Box::new(rows)))
    }
}

impl AnswerRows for Rows {
    fn next_until(&mut self, until: Instant) -> Result<Next, Error> {
        self.next_at(Some(until))
    }
}
