//! Reloads: the users file and the certificate are read again while the server runs.

use crate::state::ServerState;
use std::fmt;
use tapedb_access::ConfigError;

/// What a reload has done. Each part is reloaded or stays as it is, whatever becomes of the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reload {
    /// The users file; `None`: the server has none.
    pub users: Option<Result<(), ConfigError>>,
    /// Certificate and key; `None`: the server has none.
    pub certificate: Option<Result<(), ConfigError>>,
}

impl Reload {
    /// Whether nothing has failed.
    pub fn is_ok(&self) -> bool {
        self.parts().all(|(_, done)| done.is_ok())
    }

    fn parts(&self) -> impl Iterator<Item = (&'static str, &Result<(), ConfigError>)> {
        let parts = [("users", &self.users), ("certificate", &self.certificate)];
        parts.into_iter().filter_map(|(name, done)| Some((name, done.as_ref()?)))
    }
}

impl fmt::Display for Reload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.users.is_none() && self.certificate.is_none() {
            return f.write_str("the server has neither a users file nor a certificate");
        }
        for (index, (name, done)) in self.parts().enumerate() {
            f.write_str(if index == 0 { "" } else { "; " })?;
            match done {
                Ok(()) => write!(f, "{name}: reloaded")?,
                Err(error) => write!(f, "{name}: unchanged, {error}")?,
            }
        }
        Ok(())
    }
}

impl ServerState {
    /// Reads the users file and the certificate again, and checks the rights of connected clients.
    pub fn reload(&self) -> Reload {
        let users = self.logins.path().map(|_| self.logins.reload());
        if users.as_ref().is_some_and(Result::is_ok) {
            self.wake_all();
        }
        let certificate = self.encryption.as_ref().map(|encryption| encryption.reload());
        let done = Reload { users, certificate };
        match done.is_ok() {
            true => tracing::info!("reload: {done}"),
            false => tracing::error!("reload: {done}"),
        }
        done
    }
}
