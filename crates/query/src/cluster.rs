//! Queries over several servers: each is asked in SQL for its part, and the parts are put together here.
//!
//! [`table`] is a stream of several servers as one table, [`request`] what a server is asked for, [`scan`] the operator that asks and
//! [`merge`] its rows by time. [`aggregate`] lets servers group their own rows where that is exact, [`text`] writes expressions as SQL, and
//! [`forward`] sends queries whose streams are all on one server there as they are. [`member`] is a server as all of these see it, and
//! [`opening`] makes one of a connection or of a database of this process.
//!
//! Always true: a server answers with all rows of its part or the query fails with an error that names the server. All parts of a
//! stream have one schema. A server is asked for the messages below the sequence numbers that were noted when the query began.

pub(crate) mod aggregate;
pub(crate) mod answer;
pub(crate) mod forward;
pub(crate) mod member;
mod merge;
mod opening;
mod request;
pub(crate) mod scan;
pub(crate) mod table;
mod text;
mod total;

use crate::error::{Error, Reason};
use member::Member;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use tapedb_engine::Database;

/// The most servers of a cluster.
const SERVERS_MAX: usize = 64;

/// Several servers, whose streams a query sees as those of one. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Cluster {
    members: Arc<[Arc<Member>]>,
}

/// Opens the servers of a cluster for users of a server that is one of them or stands before them.
pub trait ClusterServers: Send + Sync + fmt::Debug {
    /// The servers in their order, with the rights that a user has there.
    ///
    /// # Errors
    /// When a server cannot be reached or refuses the user.
    fn servers(&self, user: &str) -> Result<Vec<ClusterServer>, tapedb_engine::Error>;
}

/// A server of a cluster, as one user may use it.
#[derive(Debug)]
pub struct ClusterServer {
    /// Its name, for plans and errors.
    pub name: String,
    /// Its database and the names of all streams there, also of those that the user may not read: a query that needs one of these fails,
    /// where it would otherwise miss a part. `None`: it is the server that asks.
    pub remote: Option<(Database, Vec<String>)>,
}

impl Cluster {
    /// # Errors
    /// When there is no server, there are too many, or a name occurs twice.
    fn of(members: Vec<Arc<Member>>) -> Result<Self, Error> {
        let mut names = BTreeSet::new();
        if let Some(twice) = members.iter().find(|member| !names.insert(&member.name)) {
            let what = format!("server {:?} is in the cluster twice; remove one of them", twice.name);
            return Err(Error::query(what));
        }
        match members.len() {
            0 => Err(Error::query("the cluster has no servers; name some")),
            many if many > SERVERS_MAX => {
                let what = format!("the cluster has {many} servers, where at most {SERVERS_MAX} are allowed");
                Err(Error::new(Reason::Limit, what))
            }
            _ => Ok(Self { members: members.into() }),
        }
    }

    /// The servers.
    pub(crate) fn members(&self) -> &[Arc<Member>] {
        &self.members
    }
}
