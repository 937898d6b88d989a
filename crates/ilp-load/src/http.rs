//! Requests over HTTP and their answers, whatever receives them: `/write`, `/api/v2/write`, `/settings`, `/ping`.

use crate::error::WriteError;
use crate::load::{LineConnection, LineLoader, Pending};
use flate2::read::MultiGzDecoder;
use serde_json::json;
use std::borrow::Cow;
use std::io::Read;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use tapedb_access::{AuthenticatedUser, Authenticator, Credentials, Refusal, User};
use tapedb_ilp::Precision;

/// Longest name of a table or a field that QuestDB's clients send.
const NAME_BYTES_MAX: usize = 80;
/// Longest `Idempotency-Key`.
const REQUEST_NAME_BYTES_MAX: usize = 255;

/// A request.
#[derive(Debug, Clone, Copy)]
pub struct HttpRequest<'a> {
    /// `GET`, `POST`, …
    pub method: &'a str,
    /// Path and query, as in the request line.
    pub path: &'a str,
    /// The headers, names in any case.
    pub headers: &'a [(&'a str, &'a [u8])],
    /// The body as it was sent.
    pub body: &'a [u8],
    /// The client's address.
    pub address: Option<IpAddr>,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpResponse {
    /// The status.
    pub status: u16,
    /// Headers beside those of the body's type and length.
    pub headers: Vec<(&'static str, String)>,
    /// The body, JSON; may be empty.
    pub body: String,
}

/// Answers requests.
#[derive(Debug)]
pub struct LineGateway {
    loader: LineLoader,
    logins: Authenticator,
    errors: AtomicU64,
}

/// What a request failed for.
struct Failure {
    status: u16,
    /// As QuestDB's and InfluxDB's clients have it.
    code: &'static str,
    what: String,
    line: Option<u64>,
}

impl Failure {
    fn new(status: u16, code: &'static str, what: impl Into<String>) -> Self {
        Self { status, code, what: what.into(), line: None }
    }
}

impl HttpRequest<'_> {
    /// A header that is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(header, _)| header.eq_ignore_ascii_case(name));
        found.and_then(|(_, value)| str::from_utf8(value).ok()).map(str::trim)
    }

    fn has_header(&self, name: &str) -> bool {
        self.headers.iter().any(|(header, _)| header.eq_ignore_ascii_case(name))
    }

    /// A parameter of the query.
    fn parameter(&self, name: &str) -> Option<Cow<'_, str>> {
        let query = self.path.split_once('?')?.1;
        let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        pairs.into_iter().find(|(found, _)| *found == name).map(|(_, value)| decoded(value))
    }
}

impl LineGateway {
    /// Writes with a loader, for users that `logins` authenticates.
    pub fn new(loader: LineLoader, logins: Authenticator) -> Self {
        Self { loader, logins, errors: AtomicU64::new(0) }
    }

    /// What writes the lines.
    pub fn loader(&self) -> &LineLoader {
        &self.loader
    }

    /// Authentication.
    pub fn logins(&self) -> &Authenticator {
        &self.logins
    }

    /// Whether a path is one that this answers.
    pub fn has_path(path: &str) -> bool {
        matches!(path.split('?').next(), Some("/write" | "/api/v2/write" | "/settings" | "/ping"))
    }

    /// The answer to a request. It may sleep and write to the disk: not for a thread that others wait for.
    pub fn answer(&self, connection: &mut LineConnection, request: &HttpRequest<'_>) -> HttpResponse {
        let path = request.path.split('?').next().unwrap_or_default();
        let address = request.address.map(|address| address.to_string());
        // For traces; parameters may hold a password.
        let span = tracing::info_span!(
            target: "tapedb::trace",
            "ilp",
            "otel.kind" = "server",
            "http.request.method" = request.method,
            "url.path" = path,
            "client.address" = address,
            "http.request.body.size" = request.body.len(),
            "http.response.status_code" = tracing::field::Empty,
            traceparent = request.header("traceparent"),
        );
        let response = span.in_scope(|| self.answer_of(connection, request, path));
        span.record("http.response.status_code", u64::from(response.status));
        response
    }

    fn answer_of(
        &self,
        connection: &mut LineConnection,
        request: &HttpRequest<'_>,
        path: &str,
    ) -> HttpResponse {
        let answered = match (request.method, path) {
            ("GET" | "HEAD", "/settings") => Ok(self.settings(request.method == "GET")),
            ("GET" | "HEAD" | "POST", "/ping") => Ok(pong()),
            ("POST", "/write" | "/api/v2/write") => self.write(connection, request).map(|()| empty(204)),
            (_, "/write" | "/api/v2/write" | "/settings" | "/ping") => Err(Failure::new(
                405,
                "method not allowed",
                format!("{path} has no method {}", request.method),
            )),
            _ => Err(Failure::new(404, "not found", "paths are /write, /api/v2/write, /settings and /ping")),
        };
        answered.unwrap_or_else(|failure| self.failed(path, failure))
    }

    fn settings(&self, has_body: bool) -> HttpResponse {
        let body = json!({
            "config": {
                "release.type": "TapeDB",
                "release.version": env!("CARGO_PKG_VERSION"),
                "line.proto.support.versions": [1, 2, 3],
                "ilp.proto.transports": ["tcp", "http"],
                "cairo.max.file.name.length": NAME_BYTES_MAX,
            },
            "preferences": {},
            "preferences.version": 0,
        });
        HttpResponse { body: if has_body { body.to_string() } else { String::new() }, ..empty(200) }
    }

    fn write(&self, connection: &mut LineConnection, request: &HttpRequest<'_>) -> Result<(), Failure> {
        // Before anything else, and logged in or not: browsers state where a page is from that sends something.
        if request.has_header("origin") || request.header("sec-fetch-site").is_some_and(|site| site != "none")
        {
            return Err(Failure::new(403, "forbidden", "requests of web pages are refused"));
        }
        let user = self.user(request).inspect_err(|failure| {
            if matches!(failure.status, 401 | 429) {
                let address = request.address.map(|address| address.to_string()).unwrap_or_default();
                self.loader.audit("refused", "", &address, "", &failure.what);
            }
        })?;
        let precision = request.parameter("precision").unwrap_or_default();
        let precision = Precision::of_name(&precision).ok_or_else(|| {
            Failure::new(400, "invalid", format!("{precision:?} is not a precision: n, us, ms, s, m or h"))
        })?;
        let name = request.header("idempotency-key");
        if name.is_some_and(|name| name.is_empty() || name.len() > REQUEST_NAME_BYTES_MAX) {
            let what = format!("Idempotency-Key has 1 to {REQUEST_NAME_BYTES_MAX} bytes");
            return Err(Failure::new(400, "invalid", what));
        }
        let mut pending = self.loader.pending();
        let lines = self.lines(request, &mut pending)?;
        let stored = self.loader.write_once(connection, &lines, precision, &user, name);
        stored.map(drop).map_err(|error| {
            let (status, code) = match &error {
                WriteError::Refused { .. } => (400, "invalid"),
                WriteError::Denied { .. } => (403, "forbidden"),
                WriteError::Busy { .. } => (503, "unavailable"),
                WriteError::Storage(_) => (500, "internal error"),
            };
            Failure { status, code, what: error.to_string(), line: error.line() }
        })
    }

    /// The user of the request, with the rights that the user has now.
    fn user(&self, request: &HttpRequest<'_>) -> Result<std::sync::Arc<User>, Failure> {
        let refused = |refusal: Refusal| match refusal {
            Refusal::Wrong => {
                Failure::new(401, "unauthorized", "the name, the password or the token is wrong")
            }
            Refusal::Missing => {
                Failure::new(401, "unauthorized", "credentials are required: basic, or a token")
            }
            Refusal::TooOften => {
                Failure::new(429, "too many requests", "too many wrong passwords; wait, then try again")
            }
        };
        let authenticated = self.login(request)?.map_err(refused)?;
        authenticated.user().ok_or_else(|| refused(Refusal::Wrong))
    }

    fn login(&self, request: &HttpRequest<'_>) -> Result<Result<AuthenticatedUser, Refusal>, Failure> {
        let login = |credentials| Ok(self.logins.login(request.address, credentials));
        let named = |text: &str| {
            text.split_once(':').map(|(user, password)| (user.to_string(), password.to_string()))
        };
        let Some(authorization) = request.header("authorization") else {
            if request.has_header("authorization") {
                return Err(Failure::new(400, "invalid", "the header Authorization is not UTF-8"));
            }
            let (user, password) = (request.parameter("u"), request.parameter("p"));
            return match (user, password) {
                (Some(user), Some(password)) => {
                    login(Credentials::Password { user: &user, password: &password })
                }
                _ => login(Credentials::None),
            };
        };
        let (scheme, secret) = authorization.split_once(' ').unwrap_or((authorization, ""));
        let secret = secret.trim();
        match scheme.to_ascii_lowercase().as_str() {
            "basic" => {
                let Some((user, password)) = tapedb_access::basic_credentials(secret) else {
                    return Err(Failure::new(400, "invalid", "the header Authorization is not valid"));
                };
                login(Credentials::Password { user: &user, password: &password })
            }
            // InfluxDB's clients of version 1 send name and password like this.
            "token" if secret.contains(':') => {
                let (user, password) = named(secret).unwrap_or_default();
                login(Credentials::Password { user: &user, password: &password })
            }
            "token" | "bearer" => login(Credentials::Token(secret)),
            _ => Err(Failure::new(
                400,
                "invalid",
                "the header Authorization is neither Basic, Bearer nor Token",
            )),
        }
    }

    /// The lines of a request, decompressed within the limit.
    fn lines<'r>(
        &self,
        request: &HttpRequest<'r>,
        pending: &mut Pending<'_>,
    ) -> Result<Cow<'r, [u8]>, Failure> {
        let most = self.loader.options().request_bytes_max;
        let too_long = || {
            let what = format!("the lines of a request have more than {most} bytes; send fewer at once");
            Failure::new(413, "request too large", what)
        };
        let busy = || Failure::new(503, "unavailable", "the server has too many lines in memory; try again");
        if request.body.len() > most {
            return Err(too_long());
        }
        if !pending.add(request.body.len()) {
            return Err(busy());
        }
        match request.header("content-encoding").unwrap_or("identity").to_ascii_lowercase().as_str() {
            "identity" | "" => Ok(Cow::Borrowed(request.body)),
            "gzip" | "x-gzip" => {
                let mut lines = Vec::new();
                let mut decoder = MultiGzDecoder::new(request.body).take(most as u64 + 1);
                let mut piece = vec![0; 64 << 10];
                loop {
                    let read = decoder.read(&mut piece).map_err(|error| {
                        Failure::new(400, "invalid", format!("the body is not valid gzip: {error}"))
                    })?;
                    if read == 0 {
                        break;
                    }
                    if !pending.add(read) {
                        return Err(busy());
                    }
                    lines.extend_from_slice(&piece[..read]);
                    if lines.len() > most {
                        return Err(too_long());
                    }
                }
                Ok(Cow::Owned(lines))
            }
            other => Err(Failure::new(
                415,
                "unsupported media type",
                format!("Content-Encoding {other} is not gzip"),
            )),
        }
    }

    fn failed(&self, path: &str, failure: Failure) -> HttpResponse {
        let Failure { status, code, what, line } = failure;
        let mut body = json!({ "code": code, "message": what });
        if let Some(line) = line {
            body["line"] = line.into();
        }
        if path == "/write" {
            let number = self.errors.fetch_add(1, Ordering::Relaxed) + 1;
            body["errorId"] = format!("tapedb-{number}").into();
            tracing::debug!(number, status, what, "lines were not written");
        }
        let headers = match status {
            401 => vec![("WWW-Authenticate", "Basic realm=\"tapedb\", charset=\"UTF-8\"".into())],
            429 | 503 => vec![("Retry-After", "1".into())],
            _ => Vec::new(),
        };
        HttpResponse { status, headers, body: body.to_string() }
    }
}

fn empty(status: u16) -> HttpResponse {
    HttpResponse { status, headers: Vec::new(), body: String::new() }
}

fn pong() -> HttpResponse {
    let version = concat!("tapedb-", env!("CARGO_PKG_VERSION"));
    HttpResponse { headers: vec![("X-Influxdb-Version", version.into())], ..empty(204) }
}

/// A value of a query, without its escapes.
fn decoded(value: &str) -> Cow<'_, str> {
    if !value.contains(['%', '+']) {
        return Cow::Borrowed(value);
    }
    let (bytes, mut decoded, mut at) = (value.as_bytes(), Vec::new(), 0);
    while let Some(&byte) = bytes.get(at) {
        let digits = bytes.get(at + 1..at + 3).and_then(|digits| str::from_utf8(digits).ok());
        let escaped = digits.filter(|digits| !digits.starts_with('+'));
        match (byte, escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok())) {
            (b'%', Some(escaped)) => {
                decoded.push(escaped);
                at += 3;
                continue;
            }
            (b'+', _) => decoded.push(b' '),
            _ => decoded.push(byte),
        }
        at += 1;
    }
    Cow::Owned(String::from_utf8_lossy(&decoded).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_decoded() {
        assert_eq!(decoded("a%20b+c%2"), "a b c%2");
        let request = HttpRequest {
            method: "POST",
            path: "/write?u=a%40b&precision=ms",
            headers: &[],
            body: b"",
            address: None,
        };
        assert_eq!(request.parameter("u").as_deref(), Some("a@b"));
        assert_eq!(request.parameter("precision").as_deref(), Some("ms"));
        assert_eq!(request.parameter("p"), None);
    }
}
