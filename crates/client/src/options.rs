//! Options of a client.

use crate::Address;
use crate::event::Listener;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tapedb_wire::Login as WireLogin;

/// A client's credentials. `Debug` does not show the secret.
#[derive(Clone, PartialEq, Eq, Default)]
pub enum Login {
    /// No credentials.
    #[default]
    Anonymous,
    /// A user with a password.
    Password {
        /// The user's name.
        user: String,
        /// The password.
        password: String,
    },
    /// An access token.
    Token(String),
}

impl Login {
    /// A user with a password.
    pub fn password(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self::Password { user: user.into(), password: password.into() }
    }

    /// An access token.
    pub fn token(token: impl Into<String>) -> Self {
        Self::Token(token.into())
    }

    pub(crate) fn as_wire(&self) -> WireLogin<'_> {
        match self {
            Self::Anonymous => WireLogin::Anonymous,
            Self::Password { user, password } => WireLogin::Password { user, password },
            Self::Token(token) => WireLogin::Token(token),
        }
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_wire().fmt(f)
    }
}

/// Whether received messages are validated against their schema before readers get them. Checksums are always verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Validate {
    /// For servers on other machines: over TCP and TLS, except loopback addresses.
    #[default]
    Auto,
    /// For every server.
    Always,
    /// For no server: servers are trusted to have validated their messages.
    Never,
}

impl Validate {
    /// Whether messages of a server at this address are validated.
    pub fn applies_to(self, address: &Address) -> bool {
        match self {
            Self::Auto => !address.is_local(),
            Self::Always => true,
            Self::Never => false,
        }
    }
}

/// Options of a client, besides the address.
#[derive(Debug, Clone)]
pub struct Options {
    /// Credentials.
    pub login: Login,
    /// The program's name in the server's logs.
    pub program: String,
    /// Number of connections: files and loaders are distributed over them. 1 to 64.
    pub connections: usize,
    /// A PEM file of trusted certificate authorities; `None`: those of the system.
    pub tls_roots: Option<PathBuf>,
    /// Timeout for connecting and authenticating.
    pub connect_timeout: Duration,
    /// How long a server that cannot be reached at first is tried again. A server that refuses the client is not tried
    /// again.
    pub wait: Duration,
    /// Whether received messages are validated against their schema. Invalid ones are left out, with an error for each
    /// batch and block; columns are then built from rows, at the speed of rows.
    pub validate: Validate,
    /// Ends [`Options::wait`] early when it is true, such as after Ctrl-C.
    pub give_up: Option<Arc<AtomicBool>>,
    /// Called when a connection is lost, and when it is restored.
    pub on_connection: Option<Listener>,
    /// How long a call waits for a lost connection to be restored before it fails.
    pub reconnect_timeout: Duration,
    /// Bytes of batches that a loader may have in flight.
    pub load_window_bytes: usize,
    /// How long a thread that waits for messages polls before it sleeps: a wake-up takes tens of microseconds on
    /// virtual machines. Polling uses a core, so the default is 0; 50 µs suit a busy stream.
    pub spin: Duration,
    /// Bytes of read-ahead for a cursor that reads a file sequentially. All files of a connection together have at most sixteen times
    /// as many, and one request of 128 KiB each.
    pub read_ahead_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            login: Login::Anonymous,
            program: concat!("tapedb-client ", env!("CARGO_PKG_VERSION")).into(),
            connections: 1,
            tls_roots: None,
            connect_timeout: Duration::from_secs(10),
            wait: Duration::ZERO,
            validate: Validate::Auto,
            give_up: None,
            on_connection: None,
            reconnect_timeout: Duration::from_secs(30),
            load_window_bytes: 8 << 20,
            spin: Duration::ZERO,
            read_ahead_bytes: 2 << 20,
        }
    }
}

impl Options {
    /// Whether the first connection is to be given up.
    pub(crate) fn is_given_up(&self) -> bool {
        self.give_up.as_ref().is_some_and(|give_up| give_up.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_on_other_machines_are_not_trusted() {
        let applies = |validate: Validate, url: &str| validate.applies_to(&Address::parse(url).unwrap().0);
        for here in [
            "tape://localhost",
            "tapes://127.0.0.2:9",
            "tape://[::1]",
            "tape+unix:///a",
            "tape+shm:///a",
            "a.tapedb",
        ] {
            assert!(!applies(Validate::Auto, here), "{here}");
            assert!(applies(Validate::Always, here) && !applies(Validate::Never, here), "{here}");
        }
        for there in [
            "tape://ticks.example.com",
            "tapes://10.0.0.1",
            "tape://localhost.example.com",
            "tape://[fe80::1]",
        ] {
            assert!(applies(Validate::Auto, there) && !applies(Validate::Never, there), "{there}");
        }
    }

    #[test]
    fn debug_output_hides_secrets() {
        let options = Options { login: Login::password("ann", "hunter2"), ..Options::default() };
        let shown = format!("{options:?} {:?}", Login::token("hunter2"));
        assert!(shown.contains("ann") && !shown.contains("hunter2"), "{shown}");
    }
}
