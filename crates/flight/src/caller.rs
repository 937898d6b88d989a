//! The user of a call.

use crate::connection::Peer;
use crate::shared::SharedState;
use crate::status::status;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use tapedb_access::{AuditEntry, AuthenticatedUser, May, QueryLimits, User};
use tapedb_engine::QueryUser;
use tapedb_schema::Timestamp;
use tonic::{Code, Request, Status};

/// The user of a call, and where the call comes from.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub user: Arc<AuthenticatedUser>,
    /// The user's name, which never changes.
    pub name: String,
    pub peer: Peer,
}

impl Caller {
    /// The caller that admission has found.
    ///
    /// # Errors
    /// When there is none: a defect.
    pub fn of<T>(request: &Request<T>) -> Result<Self, Status> {
        let found = request.extensions().get::<Self>().cloned();
        found.ok_or_else(|| status(Code::Unauthenticated, "the call has no user"))
    }

    /// The user with the rights of now.
    ///
    /// # Errors
    /// When the user was removed, or the secret is not valid any more.
    pub fn present(&self) -> Result<Arc<User>, Status> {
        let gone =
            || status(Code::Unauthenticated, "the user was removed, or its password is not valid any more");
        self.user.user().ok_or_else(gone)
    }

    /// The user as queries see it, and its limits.
    ///
    /// # Errors
    /// As [`Caller::present`].
    pub fn query_user(&self, shared: &SharedState) -> Result<(QueryUser, QueryLimits), Status> {
        let user = self.present()?;
        let limits = QueryLimits::of(&user, &shared.options.access.limits);
        let (name, memory_bytes) = (user.name.clone(), limits.memory_bytes);
        let may_read = Arc::new(move |stream: &str| user.may(May::Read, stream));
        Ok((QueryUser { name, may_read, memory_bytes }, limits))
    }

    /// Writes an entry of the audit log.
    pub fn audit(&self, shared: &SharedState, event: &str, stream: &str) {
        audit(shared, &self.peer, &self.name, event, stream);
    }
}

/// Writes an entry of the audit log.
pub(crate) fn audit(shared: &SharedState, peer: &Peer, user: &str, event: &str, stream: &str) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as i64);
    let address = peer.0.address.to_string();
    let entry = AuditEntry { event, user, address: &address, stream, what: "flight" };
    shared.options.access.audit.write(Timestamp(now), entry);
}
