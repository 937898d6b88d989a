//! The same users at doors that this crate knows nothing of.

use crate::config::{ConfigError, Limits};
use crate::login::{Credentials, Logins};
use crate::users::User;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

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
    pub fn enter(&self, address: Option<IpAddr>, user: &str, password: &str) -> Option<User> {
        let credentials = match (user, password) {
            ("", "") => Credentials::None,
            (user, password) => Credentials::Password { user, password },
        };
        self.logins.login(address, credentials).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{May, Users, hash_password};

    #[test]
    fn users_are_those_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users.toml");
        let user =
            User { name: "ann".into(), password: Some(hash_password("secret").unwrap()), ..User::default() };
        Users { users: vec![user] }.write(&path).unwrap();
        let entrance = Entrance::open(Some(path)).unwrap();
        let name = |user, password| entrance.enter(None, user, password).map(|user| user.name);
        assert_eq!(name("ann", "secret").as_deref(), Some("ann"));
        assert_eq!((name("ann", "wrong"), name("", ""), name("bob", "")), (None, None, None));
        let anybody = Entrance::open(None).unwrap().enter(None, "x", "y").unwrap();
        assert!(anybody.may(May::Admin, "tp/trade"));
    }
}
