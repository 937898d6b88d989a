//! Authentication with the server's users for other protocols.

use crate::audit::AuditLog;
use crate::error::ConfigError;
use crate::limits::AccessLimits;
use crate::login::{Credentials, Identity, Logins, Refusal};
use crate::quota::Quotas;
use crate::users::{May, User};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Authenticates users who connect over another protocol than this server's. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Authenticator {
    logins: Arc<Logins>,
}

impl Authenticator {
    /// For the users of a file; without a file every client may do everything.
    ///
    /// # Errors
    /// As [`Users::read`](crate::Users::read).
    pub fn open(users: Option<PathBuf>) -> Result<Self, ConfigError> {
        Ok(Self { logins: Arc::new(Logins::new(users, &AccessLimits::default())?) })
    }

    /// For the users of a server.
    pub fn new(logins: Arc<Logins>) -> Self {
        Self { logins }
    }

    /// Authenticates by name and password, or as the anonymous user where both are empty. `None`: refused.
    pub fn authenticate(
        &self,
        address: Option<IpAddr>,
        user: &str,
        password: &str,
    ) -> Option<AuthenticatedUser> {
        let credentials = match (user, password) {
            ("", "") => Credentials::None,
            (user, password) => Credentials::Password { user, password },
        };
        self.login(address, credentials).ok()
    }

    /// Authenticates by any credentials. It may sleep, and hash a password: not for a thread that others wait for.
    ///
    /// # Errors
    /// Why the client is refused.
    pub fn login(
        &self,
        address: Option<IpAddr>,
        credentials: Credentials<'_>,
    ) -> Result<AuthenticatedUser, Refusal> {
        let identity = self.logins.login(address, credentials)?;
        Ok(AuthenticatedUser { logins: self.logins.clone(), identity: Mutex::new(Some(identity)) })
    }

    /// Whether there is a users file. Without one every client may do everything.
    pub fn has_users(&self) -> bool {
        self.logins.path().is_some()
    }

    /// The users and their throttle.
    pub fn logins(&self) -> &Arc<Logins> {
        &self.logins
    }
}

/// What the protocols of a server share about users: each login, connection, query and event counts over all of them. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Access {
    /// Checks logins.
    pub authenticator: Authenticator,
    /// Connections, queries and bytes of users.
    pub quotas: Arc<Quotas>,
    /// The audit log.
    pub audit: Arc<AuditLog>,
    /// Limits of users.
    pub limits: AccessLimits,
}

/// A user authenticated by an [`Authenticator`].
#[derive(Debug)]
pub struct AuthenticatedUser {
    logins: Arc<Logins>,
    /// `None`: the user has been removed since.
    identity: Mutex<Option<Identity>>,
}

impl AuthenticatedUser {
    /// Whether the user may do something with a stream now, by the latest version of the users file.
    pub fn may(&self, what: May, stream: &str) -> bool {
        self.user().is_some_and(|user| user.may(what, stream))
    }

    /// The user with the rights and limits of the latest version of the users file; `None`: the user was removed, or the secret is
    /// not valid any more.
    pub fn user(&self) -> Option<Arc<User>> {
        let mut identity = self.identity.lock().unwrap_or_else(PoisonError::into_inner);
        if identity.as_ref().is_some_and(|identity| self.logins.is_outdated(identity)) {
            *identity = identity.as_ref().and_then(|identity| self.logins.review(identity));
        }
        identity.as_ref().map(|identity| identity.user.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Right, User, Users, hash_password};

    #[test]
    fn users_are_those_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users.toml");
        let (password, right) =
            (hash_password("secret").unwrap(), Right { streams: "tp/*".into(), may: vec![May::Read] });
        let user =
            User { name: "ann".into(), password: Some(password), rights: vec![right], ..User::default() };
        Users { users: vec![user] }.write(&path).unwrap();
        let authenticator = Authenticator::open(Some(path.clone())).unwrap();
        let ann = authenticator.authenticate(None, "ann", "secret").unwrap();
        assert!(ann.may(May::Read, "tp/trade") && !ann.may(May::Write, "tp/trade"));
        for (user, password) in [("ann", "wrong"), ("", ""), ("bob", "")] {
            assert!(authenticator.authenticate(None, user, password).is_none(), "{user}");
        }
        Users::default().write(&path).unwrap();
        authenticator.logins.reload().unwrap();
        assert!(!ann.may(May::Read, "tp/trade"), "the user was removed");
        let anybody = Authenticator::open(None).unwrap().authenticate(None, "x", "y").unwrap();
        assert!(anybody.may(May::Admin, "tp/trade"));
    }
}
