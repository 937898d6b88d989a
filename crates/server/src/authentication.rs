//! Authentication with the server's users for other protocols.

use crate::config::{ConfigError, Limits};
use crate::login::{Credentials, Identity, Logins};
use crate::users::May;
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
        Ok(Self { logins: Arc::new(Logins::new(users, &Limits::default())?) })
    }

    pub(crate) fn new(logins: Arc<Logins>) -> Self {
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
        let identity = self.logins.login(address, credentials).ok()?;
        Some(AuthenticatedUser { logins: self.logins.clone(), identity: Mutex::new(Some(identity)) })
    }
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
        let mut identity = self.identity.lock().unwrap_or_else(PoisonError::into_inner);
        if identity.as_ref().is_some_and(|identity| self.logins.is_outdated(identity)) {
            *identity = identity.as_ref().and_then(|identity| self.logins.review(identity));
        }
        identity.as_ref().is_some_and(|identity| identity.user.may(what, stream))
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
