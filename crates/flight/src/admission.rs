//! Admission of calls: each has a user before anything of it is read but its headers.

use crate::bearer;
use crate::caller::{Caller, audit};
use crate::connection::Peer;
use crate::service::Service;
use crate::shared::Shared;
use crate::status::{shutting_down, status};
use arrow_flight::flight_service_server::FlightServiceServer;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tapedb_access::{AuthenticatedUser, Credentials, Refusal};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tonic::body::Body;
use tonic::codegen::http::{HeaderMap, Request, Response};
use tonic::codegen::{BoxFuture, Service as Call};
use tonic::{Code, Status};
use tracing::{Instrument, Span};

/// Bytes of a message of an upload.
const UPLOAD_BYTES_MAX: usize = 64 << 20;
/// Bytes of any other message.
const MESSAGE_BYTES_MAX: usize = 4 << 20;
/// Bytes of a message that is sent; each is bounded by the batch that it has.
const SENT_BYTES_MAX: usize = i32::MAX as usize;
/// Logins whose passwords are checked at once, and how long others wait for them.
const LOGINS_MAX: usize = 16;
const LOGIN_WAIT: Duration = Duration::from_secs(10);
/// What tokens of users begin with.
const TOKEN_PREFIX: &str = "tape_";

/// The service, behind the admission of its calls.
#[derive(Clone)]
pub(crate) struct Admission {
    shared: Shared,
    logins: Arc<Semaphore>,
    uploads: FlightServiceServer<Service>,
    others: FlightServiceServer<Service>,
}

impl Admission {
    pub fn new(shared: Shared) -> Self {
        let service = Arc::new(Service(shared.clone()));
        let server = |bytes_max| {
            FlightServiceServer::from_arc(service.clone())
                .max_decoding_message_size(bytes_max)
                .max_encoding_message_size(SENT_BYTES_MAX)
        };
        let logins = Arc::new(Semaphore::new(LOGINS_MAX));
        Self { shared, logins, uploads: server(UPLOAD_BYTES_MAX), others: server(MESSAGE_BYTES_MAX) }
    }

    /// Finds the caller.
    async fn admit(&self, request: &mut Request<Body>) -> Result<(), Status> {
        if self.shared.is_stopping.load(Ordering::Acquire) {
            return Err(shutting_down());
        }
        let peer = request.extensions().get::<Peer>().cloned();
        let peer = peer.ok_or_else(|| status(Code::Internal, "the call has no connection"))?;
        let caller = self.caller(request.headers(), &peer).await?;
        peer.authenticated();
        request.extensions_mut().insert(caller);
        Ok(())
    }

    async fn caller(&self, headers: &HeaderMap, peer: &Peer) -> Result<Caller, Status> {
        let authenticator = &self.shared.options.access.authenticator;
        let address = Some(peer.ip());
        let sent = Sent::of(headers);
        if !authenticator.has_users() {
            return self.checked(peer, "", authenticator.login(address, Credentials::None));
        }
        if !matches!(sent, Sent::Nothing) && !peer.is_private() {
            return Err(status(
                Code::Unauthenticated,
                "passwords and tokens are accepted over TLS or on this machine alone; connect with grpc+tls to a server that has a certificate",
            ));
        }
        match sent {
            Sent::Nothing => self.checked(peer, "", authenticator.login(address, Credentials::None)),
            Sent::Invalid => {
                Err(status(Code::Unauthenticated, "the header authorization is neither Basic nor Bearer"))
            }
            Sent::Token(token) if token.starts_with(bearer::PREFIX) => {
                let found = self.shared.bearers.user(&token, Instant::now());
                let (user, name) = found.ok_or_else(|| {
                    status(Code::Unauthenticated, "the token of the handshake has ended; log in again")
                })?;
                Ok(Caller { user, name, peer: peer.clone() })
            }
            Sent::Token(token) => {
                self.checked(peer, "", authenticator.login(address, Credentials::Token(&token)))
            }
            Sent::Password { user, password } => {
                let _one = timeout(LOGIN_WAIT, self.logins.acquire()).await.map_err(|_| {
                    status(Code::ResourceExhausted, "too many logins at once; try again later")
                })?;
                let login = {
                    let (authenticator, user) = (authenticator.clone(), user.clone());
                    move || login(&authenticator, address, &user, &password)
                };
                let login = spawn_blocking(login).await.map_err(crate::status::internal)?;
                self.checked(peer, &user, login)
            }
        }
    }

    /// The caller, or why there is none. `name` is as the client states it.
    fn checked(
        &self,
        peer: &Peer,
        name: &str,
        login: Result<AuthenticatedUser, Refusal>,
    ) -> Result<Caller, Status> {
        let refused = |text: String| {
            audit(&self.shared, peer, name, "refused", "");
            status(Code::Unauthenticated, text)
        };
        match login {
            Ok(user) => {
                let present = user.user().ok_or_else(|| refused("the user was removed".into()))?;
                let name = present.name.clone();
                Ok(Caller { user: Arc::new(user), name, peer: peer.clone() })
            }
            Err(Refusal::Wrong) if name.is_empty() => Err(refused("the token is wrong".into())),
            Err(Refusal::Wrong) => Err(refused(format!("user {name:?} or its password is wrong"))),
            Err(Refusal::Missing) => Err(refused(
                "the server has no anonymous user; log in with a name and a password, or a token".into(),
            )),
            Err(Refusal::TooOften) => {
                audit(&self.shared, peer, name, "refused", "");
                let text =
                    format!("too many wrong passwords of user {name:?} from this address; try again later");
                Err(status(Code::ResourceExhausted, text))
            }
        }
    }
}

/// Checks a name with a password, or with a token in its place.
fn login(
    authenticator: &tapedb_access::Authenticator,
    address: Option<std::net::IpAddr>,
    user: &str,
    password: &str,
) -> Result<AuthenticatedUser, Refusal> {
    let credentials = match password {
        "" if user == tapedb_access::ANONYMOUS => Credentials::None,
        "" => return Err(Refusal::Wrong),
        token if token.starts_with(TOKEN_PREFIX) => Credentials::Token(token),
        password => Credentials::Password { user, password },
    };
    let found = authenticator.login(address, credentials)?;
    // A token has a user of its own.
    match found.user() {
        Some(present) if present.name == user => Ok(found),
        _ => Err(Refusal::Wrong),
    }
}

/// Credentials of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Sent {
    Nothing,
    Invalid,
    Password { user: String, password: String },
    Token(String),
}

impl Sent {
    fn of(headers: &HeaderMap) -> Self {
        let Some(value) = headers.get("authorization") else { return Self::Nothing };
        let Some((kind, value)) = value.to_str().ok().and_then(|value| value.split_once(' ')) else {
            return Self::Invalid;
        };
        let value = value.trim();
        if kind.eq_ignore_ascii_case("bearer") {
            return Self::Token(value.into());
        }
        let sent = kind.eq_ignore_ascii_case("basic").then(|| tapedb_access::basic_credentials(value));
        match sent.flatten() {
            Some((user, password)) => Self::Password { user, password },
            None => Self::Invalid,
        }
    }
}

impl Call<Request<Body>> for Admission {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Response<Body>, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let mut all = self.clone();
        let span = span_of(&request);
        let answer =
            async move {
                if let Err(refused) = all.admit(&mut request).await {
                    return Ok(refused.into_http());
                }
                if !request.uri().path().ends_with("/DoPut") {
                    return all.others.call(request).await;
                }
                let uploads = all.shared.uploads.clone();
                match timeout(LOGIN_WAIT, uploads.acquire_owned()).await {
                    Ok(Ok(permit)) => {
                        request.extensions_mut().insert(Arc::new(permit));
                        all.uploads.call(request).await
                    }
                    _ => Ok(status(Code::ResourceExhausted, "too many uploads at once; try again later")
                        .into_http()),
                }
            };
        Box::pin(answer.instrument(span))
    }
}

/// The span of a call for traces. It goes on while rows are sent.
fn span_of(request: &Request<Body>) -> Span {
    let parent = request.headers().get("traceparent").and_then(|value| value.to_str().ok());
    let address = request.extensions().get::<Peer>().map(|peer| peer.ip().to_string());
    tracing::info_span!(
        target: "tapedb::trace",
        "flight",
        "otel.kind" = "server",
        "rpc.system" = "grpc",
        "rpc.method" = request.uri().path().rsplit('/').next(),
        "client.address" = address,
        traceparent = parent,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_those_of_the_header() {
        let sent = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("authorization", value.parse().unwrap());
            Sent::of(&headers)
        };
        let password =
            |user: &str, password: &str| Sent::Password { user: user.into(), password: password.into() };
        assert_eq!(sent("Basic YW5uOnNlY3JldA=="), password("ann", "secret"));
        assert_eq!(sent("basic YW5uOnNlY3JldA"), password("ann", "secret"));
        assert_eq!(sent("BASIC YW5uOmE6Yg=="), password("ann", "a:b"));
        assert_eq!(sent("Bearer tape_1"), Sent::Token("tape_1".into()));
        for invalid in
            ["Basic", "Basic !", "Basic YW5u", "Basic A", "Digest YW5uOnNlY3JldA==", "Basic /////w=="]
        {
            assert_eq!(sent(invalid), Sent::Invalid, "{invalid}");
        }
        assert_eq!(Sent::of(&HeaderMap::new()), Sent::Nothing);
    }
}
