//! What is chosen for a client.

use crate::Address;
use crate::event::Listener;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tapedb_wire::Login as WireLogin;

/// Who a client says it is. Does not show its secret.
#[derive(Clone, PartialEq, Eq, Default)]
pub enum Login {
    /// Nobody in particular.
    #[default]
    Anyone,
    /// A user with a password.
    Password {
        /// The user's name.
        user: String,
        /// The password.
        password: String,
    },
    /// Whoever has this token.
    Token(String),
}

impl Login {
    /// A user with a password.
    pub fn password(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self::Password { user: user.into(), password: password.into() }
    }

    /// Whoever has this token.
    pub fn token(token: impl Into<String>) -> Self {
        Self::Token(token.into())
    }

    pub(crate) fn as_wire(&self) -> WireLogin<'_> {
        match self {
            Self::Anyone => WireLogin::Anyone,
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

/// Whether messages are compared with their schema as they come, before readers get them. Checksums are compared always.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Validate {
    /// Those of servers on other machines: over TCP and TLS, but for loopback addresses.
    #[default]
    Auto,
    /// Those of every server.
    Always,
    /// None: the server is believed to send what it has checked itself.
    Never,
}

impl Validate {
    /// Whether messages of a server at this address are compared with their schema.
    pub fn applies_to(self, address: &Address) -> bool {
        match self {
            Self::Auto => !address.is_here(),
            Self::Always => true,
            Self::Never => false,
        }
    }
}

/// What is chosen for a client beyond the address.
#[derive(Debug, Clone)]
pub struct Options {
    /// Who wants in.
    pub login: Login,
    /// What the client is called in the server's logs.
    pub program: String,
    /// Connections: files and loaders are spread over them. 1 to 64.
    pub connections: usize,
    /// Certificates of authorities that are trusted, in a PEM file; `None`: those that the system trusts.
    pub tls_roots: Option<PathBuf>,
    /// How long connecting and being let in may take.
    pub connect_timeout: Duration,
    /// How long a server that cannot be reached at first is tried again. A server that refuses the client is not.
    pub wait: Duration,
    /// Whether messages are compared with their schema before readers get them. What is wrong is left out, with an error for each
    /// batch and block; columns are then made of rows, and come at the rate of these.
    pub validate: Validate,
    /// Ends [`Options::wait`] early once it is true, as after Ctrl-C.
    pub give_up: Option<Arc<AtomicBool>>,
    /// Is told when a connection is lost, and when it is there again.
    pub on_connection: Option<Listener>,
    /// How long a call waits for a lost connection to come back before it fails.
    pub patience: Duration,
    /// Bytes of batches that a loader sends before the first of them is acknowledged.
    pub load_window_bytes: usize,
    /// So long whoever waits at a connection looks again and again whether something has come, before it sleeps: being woken
    /// takes tens of microseconds on virtual machines. Costs a core, so 0 unless chosen; 50 µs suit a busy stream.
    pub spin: Duration,
    /// Bytes that are asked for ahead of a cursor that reads a file from front to back.
    pub read_ahead_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            login: Login::Anyone,
            program: concat!("tapedb-client ", env!("CARGO_PKG_VERSION")).into(),
            connections: 1,
            tls_roots: None,
            connect_timeout: Duration::from_secs(10),
            wait: Duration::ZERO,
            validate: Validate::Auto,
            give_up: None,
            on_connection: None,
            patience: Duration::from_secs(30),
            load_window_bytes: 8 << 20,
            spin: Duration::ZERO,
            read_ahead_bytes: 2 << 20,
        }
    }
}

impl Options {
    /// Whether nobody waits for the first connection any more.
    pub(crate) fn is_given_up(&self) -> bool {
        self.give_up.as_ref().is_some_and(|give_up| give_up.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_on_other_machines_are_not_believed() {
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
    fn secrets_are_not_shown() {
        let options = Options { login: Login::password("ann", "hunter2"), ..Options::default() };
        let shown = format!("{options:?} {:?}", Login::token("hunter2"));
        assert!(shown.contains("ann") && !shown.contains("hunter2"), "{shown}");
    }
}
