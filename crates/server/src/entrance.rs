//! The same users at doors that this crate knows nothing of.

use crate::config::{ConfigError, Limits};
use crate::login::{Admitted, Credentials, Logins};
use crate::users::May;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Lets users in who connect over another protocol than this server's. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Entrance {
    logins: Arc<Logins>,
}

impl Entrance {
    /// For the users of a file; without one, whoever comes may do everything.
    ///
    /// # Errors
    /// As [`Users::read`](crate::Users::read).
    pub fn open(users: Option<PathBuf>) -> Result<Self, ConfigError> {
        Ok(Self { logins: Arc::new(Logins::new(users, &Limits::default())?) })
    }

    pub(crate) fn of(logins: Arc<Logins>) -> Self {
        Self { logins }
    }

    /// Who somebody is: by name and password, or nobody in particular where both are empty. `None`: he may not come in.
    pub fn enter(&self, address: Option<IpAddr>, user: &str, password: &str) -> Option<Visitor> {
        let credentials = match (user, password) {
            ("", "") => Credentials::None,
            (user, password) => Credentials::Password { user, password },
        };
        let admitted = self.logins.login(address, credentials).ok()?;
        Some(Visitor { logins: self.logins.clone(), admitted: Mutex::new(Some(admitted)) })
    }
}

/// Somebody who has been let in by an [`Entrance`].
#[derive(Debug)]
pub struct Visitor {
    logins: Arc<Logins>,
    /// `None`: he has been removed since.
    admitted: Mutex<Option<Admitted>>,
}

impl Visitor {
    /// Whether he may do something with a stream, now: as the users file says that was read last.
    pub fn may(&self, what: May, stream: &str) -> bool {
        let mut admitted = self.admitted.lock().unwrap_or_else(PoisonError::into_inner);
        if admitted.as_ref().is_some_and(|admitted| self.logins.is_outdated(admitted)) {
            *admitted = admitted.as_ref().and_then(|admitted| self.logins.review(admitted));
        }
        admitted.as_ref().is_some_and(|admitted| admitted.user.may(what, stream))
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
        let entrance = Entrance::open(Some(path.clone())).unwrap();
        let ann = entrance.enter(None, "ann", "secret").unwrap();
        assert!(ann.may(May::Read, "tp/trade") && !ann.may(May::Write, "tp/trade"));
        for (user, password) in [("ann", "wrong"), ("", ""), ("bob", "")] {
            assert!(entrance.enter(None, user, password).is_none(), "{user}");
        }
        Users::default().write(&path).unwrap();
        entrance.logins.reload().unwrap();
        assert!(!ann.may(May::Read, "tp/trade"), "he is not there any more");
        let anybody = Entrance::open(None).unwrap().enter(None, "x", "y").unwrap();
        assert!(anybody.may(May::Admin, "tp/trade"));
    }
}
