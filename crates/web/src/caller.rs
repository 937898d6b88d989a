//! Who calls: the user of a session, of a token or password in the request, or every client of a server without users.

use crate::failure::Failure;
use crate::session::SessionKey;
use crate::state::Shared;
use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;
use tapedb_access::{AuditEntry, AuthenticatedUser, Credentials, May, Refusal, User};
use tapedb_engine::Stream;

/// The addresses of a connection: the client's, and the one that it connected to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ends {
    pub client: SocketAddr,
    pub server: SocketAddr,
}

/// The caller of a request.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub user: Arc<User>,
    pub session: Option<SessionKey>,
    /// A user who has authenticated without a session.
    authenticated: Option<Arc<AuthenticatedUser>>,
    pub address: SocketAddr,
    state: Shared,
}

impl Caller {
    /// The user, whose rights are as they are now; `None`: the session has ended.
    pub fn still(&self) -> Option<Arc<User>> {
        self.now(true)
    }

    /// [`Caller::still`], which is no use of the session: a tab that is left open does not keep it alive.
    pub fn watching(&self) -> Option<Arc<User>> {
        self.now(false)
    }

    fn now(&self, is_use: bool) -> Option<Arc<User>> {
        match (&self.session, &self.authenticated) {
            (Some(key), _) if is_use => self.state.sessions.user(key, Instant::now()),
            (Some(key), _) => self.state.sessions.watching(key, Instant::now()),
            (None, Some(user)) => user.user(),
            (None, None) => Some(self.user.clone()),
        }
    }

    /// A stream, if the caller may do something with it. To a caller who may not see it, it does not exist.
    ///
    /// # Errors
    /// 404, 403, the engine's.
    pub fn stream(&self, name: &str, what: May) -> Result<Stream, Failure> {
        self.check(name, what)?;
        self.open(name)
    }

    /// A stream whose rights were checked.
    ///
    /// # Errors
    /// The engine's.
    pub fn open(&self, name: &str) -> Result<Stream, Failure> {
        self.state.server.database().stream(name).map_err(|error| self.failure(error))
    }

    /// Checks that the caller may see a stream.
    ///
    /// # Errors
    /// 404.
    pub fn check_seen(&self, name: &str) -> Result<(), Failure> {
        if self.user.may_see(name) { Ok(()) } else { Err(Failure::no_stream(name)) }
    }

    /// Checks a right.
    ///
    /// # Errors
    /// 404 for a stream that the caller may not see, 403.
    pub fn check(&self, name: &str, what: May) -> Result<(), Failure> {
        self.check_seen(name)?;
        if self.user.may(what, name) {
            return Ok(());
        }
        self.audit("forbidden", name, what.word());
        Err(Failure::denied(format!(
            "user {:?} has no right to {} stream {name:?}",
            self.user.name,
            what.word()
        )))
    }

    /// Checks the right to administer the server.
    ///
    /// # Errors
    /// 403.
    pub fn check_admin(&self) -> Result<(), Failure> {
        if self.user.may(May::Admin, "*") {
            return Ok(());
        }
        self.audit("forbidden", "", "administer the server");
        Err(Failure::denied(format!("user {:?} has no right to administer all streams", self.user.name)))
    }

    /// Writes an entry of the audit log.
    pub fn audit(&self, event: &str, stream: &str, what: &str) {
        let address = format!("http {}", self.address);
        self.state.server.audit(AuditEntry { event, user: &self.user.name, address: &address, stream, what });
    }

    /// An error of the engine, as the caller may see it.
    pub fn failure(&self, error: tapedb_engine::Error) -> Failure {
        Failure::of(&self.user, error)
    }
}

impl FromRequestParts<Shared> for Caller {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &Shared) -> Result<Self, Failure> {
        let address = address(parts);
        let caller = |user, session, authenticated| Self {
            user,
            session,
            authenticated,
            address,
            state: state.clone(),
        };
        if let Some(key) = state.sessions.key_of(&parts.headers)
            && let Some(user) = state.sessions.user(&key, Instant::now())
        {
            return Ok(caller(user, Some(key), None));
        }
        let user = match Sent::of(&parts.headers) {
            Some(sent) => login(state, address.ip(), sent).await?,
            // The anonymous user, or every client of a server without users.
            None => state
                .authenticator
                .login(Some(address.ip()), Credentials::None)
                .map_err(|_| Failure::login())?,
        };
        let authenticated = Arc::new(user);
        let user = authenticated.user().ok_or_else(Failure::login)?;
        Ok(caller(user, None, Some(authenticated)))
    }
}

/// The client's address.
pub(crate) fn address(parts: &Parts) -> SocketAddr {
    let ends = parts.extensions.get::<ConnectInfo<Ends>>();
    ends.map_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0)), |ends| ends.0.client)
}

/// Credentials in a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sent {
    Password { user: String, password: String },
    Token(String),
}

impl Sent {
    /// The credentials of the header `Authorization`: `Bearer` with a token, or `Basic` with a name and a password.
    fn of(headers: &HeaderMap) -> Option<Self> {
        let (kind, value) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
        if kind.eq_ignore_ascii_case("bearer") {
            return Some(Self::Token(value.trim().into()));
        }
        if !kind.eq_ignore_ascii_case("basic") {
            return None;
        }
        let (user, password) = tapedb_access::basic_credentials(value)?;
        Some(Self::Password { user, password })
    }
}

/// Authenticates, with the throttle of all protocols.
///
/// # Errors
/// 401, 429.
pub(crate) async fn login(state: &Shared, address: IpAddr, sent: Sent) -> Result<AuthenticatedUser, Failure> {
    let authenticator = state.authenticator.clone();
    let work = move || {
        let credentials = match &sent {
            Sent::Password { user, password } => Credentials::Password { user, password },
            Sent::Token(token) => Credentials::Token(token),
        };
        authenticator.login(Some(address), credentials).map_err(|refusal| match refusal {
            Refusal::Missing => Failure::login(),
            Refusal::Wrong => Failure::wrong(),
            Refusal::TooOften => Failure::too_many(
                "too many passwords of this user from this address were wrong; try again later",
            ),
        })
    };
    state.workers.run(work).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(header: &str) -> Option<Sent> {
        Sent::of(&HeaderMap::from_iter([(AUTHORIZATION, header.parse().unwrap())]))
    }

    #[test]
    fn credentials_are_read() {
        let ann = Sent::Password { user: "ann".into(), password: "a:b".into() };
        assert_eq!(sent("Basic YW5uOmE6Yg=="), Some(ann.clone()));
        assert_eq!(sent("basic YW5uOmE6Yg"), Some(ann));
        assert_eq!(sent("Bearer tape_1"), Some(Sent::Token("tape_1".into())));
        for wrong in ["Basic YW5u", "Basic !", "Basic", "Digest x", "Basic /////w=="] {
            assert_eq!(sent(wrong), None, "{wrong}");
        }
    }
}
