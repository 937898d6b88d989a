//! What a request must have before it is looked at: the right host, no foreign origin; and the headers of every answer.
//!
//! A web page of another site must not reach the server, logged in or not: it may send requests to the loopback, and resolve a name of
//! its own to it.

use crate::caller::Ends;
use crate::failure::Failure;
use crate::state::Shared;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, ORIGIN, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::net::{IpAddr, SocketAddr};

/// The header that only a page of this server, or a program, can send.
pub(crate) const OWN_HEADER: &str = "x-tapedb";
/// The policy of the console: everything comes from the server itself. Svelte makes its templates under a policy of its own.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; \
     connect-src 'self'; worker-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'; trusted-types svelte-trusted-html";

/// Refuses foreign requests, and adds the headers of every answer.
pub(crate) async fn guard(State(state): State<Shared>, request: Request, next: Next) -> Response {
    let server = request.extensions().get::<ConnectInfo<Ends>>().map_or(state.address, |ends| ends.0.server);
    let checked = check(&request, &state.options.hosts, server);
    let mut response = match checked {
        Ok(()) => next.run(request).await,
        Err(failure) => failure.into_response(),
    };
    let headers = response.headers_mut();
    let fixed: [(HeaderName, &'static str); 6] = [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

fn check(request: &Request, hosts: &[String], server: SocketAddr) -> Result<(), Failure> {
    let headers = request.headers();
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    // A browser always sends it.
    let Some(host) = host.filter(|_| headers.get_all(HOST).iter().count() == 1) else {
        let what = "the request names no host";
        return Err(Failure::foreign(StatusCode::BAD_REQUEST, what));
    };
    if !is_own(host, hosts, server) {
        let what =
            format!("this server is not {host:?}; `http_hosts` lists the names by which it is reached");
        return Err(Failure::foreign(StatusCode::MISDIRECTED_REQUEST, what));
    }
    let foreign = |what| Err(Failure::foreign(StatusCode::FORBIDDEN, what));
    let origins: Vec<_> = headers.get_all(ORIGIN).iter().collect();
    if !origins.iter().all(|origin| is_same_origin(origin, host)) {
        return foreign("the request comes from another origin");
    }
    let is_api = request.uri().path().starts_with("/api");
    if is_api && !is_same_site(headers) {
        return foreign("the request comes from another site");
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) && !headers.contains_key(OWN_HEADER) {
        return foreign("the request lacks the header `X-TapeDB: 1`");
    }
    Ok(())
}

/// Whether a browser states that the request is made by a page of this server, or by its user.
fn is_same_site(headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    site.is_none_or(|site| matches!(site, b"same-origin" | b"none"))
}

fn is_same_origin(origin: &HeaderValue, host: &str) -> bool {
    let origin = origin.to_str().unwrap_or_default();
    let of = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    of.is_some_and(|of| of.eq_ignore_ascii_case(host))
}

/// Whether `Host` names this server: a name of the loopback, the address of the connection, or a configured name.
fn is_own(host: &str, hosts: &[String], server: SocketAddr) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !port.is_empty() && port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => host,
    };
    if name.eq_ignore_ascii_case("localhost")
        || hosts.iter().any(|own| own.eq_ignore_ascii_case(host) || own.eq_ignore_ascii_case(name))
    {
        return true;
    }
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    let address = address.parse::<IpAddr>().ok().map(|address| address.to_canonical());
    address.is_some_and(|address| {
        address == IpAddr::from([127, 0, 0, 1])
            || address == IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1])
            || address == server.ip().to_canonical()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

    fn checked(method: &str, path: &str, headers: &[(&str, &str)]) -> u16 {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let hosts = ["db.example:7848".to_string(), "metrics".to_string()];
        let server = "192.0.2.1:7848".parse().unwrap();
        match check(&request.body(Body::empty()).unwrap(), &hosts, server) {
            Ok(()) => 200,
            Err(failure) => failure.status.as_u16(),
        }
    }

    #[test]
    fn only_own_hosts_are_served() {
        for host in [
            "localhost",
            "LOCALHOST:7848",
            "127.0.0.1:1",
            "[::1]:7848",
            "[::1]",
            "192.0.2.1:7848",
            "db.example:7848",
            "metrics",
            "metrics:80",
            "[::ffff:192.0.2.1]:1",
        ] {
            assert_eq!(checked("GET", "/health", &[("host", host)]), 200, "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "192.0.2.2",
            "db.example",
            "db.example:80",
            "127.0.0.2",
            "localhost@evil.example",
            "",
            "x:y",
            "[::1",
            "2130706433",
            "localhost:",
        ] {
            assert_eq!(checked("GET", "/health", &[("host", host)]), 421, "{host}");
        }
        assert_eq!(checked("GET", "/health", &[]), 400);
        assert_eq!(checked("GET", "/health", &[("host", "localhost"), ("host", "evil.example")]), 400);
    }

    #[test]
    fn foreign_origins_are_refused() {
        let get = |origin| checked("GET", "/api/ws", &[("host", "localhost:7848"), ("origin", origin)]);
        assert_eq!(get("http://localhost:7848"), 200);
        for origin in
            ["http://localhost:7849", "http://localhost", "null", "http://evil.example", "", "localhost:7848"]
        {
            assert_eq!(get(origin), 403, "{origin}");
        }
        let post = |headers: &[(&str, &str)]| {
            checked("POST", "/api/query", &[&[("host", "localhost")], headers].concat())
        };
        assert_eq!(post(&[]), 403, "a form of another page could send it");
        assert_eq!(post(&[("x-tapedb", "1")]), 200);
        assert_eq!(post(&[("x-tapedb", "1"), ("origin", "http://evil.example")]), 403);
        let from = |site| checked("GET", "/api/streams", &[("host", "localhost"), ("sec-fetch-site", site)]);
        assert_eq!((from("same-origin"), from("none")), (200, 200));
        assert_eq!((from("cross-site"), from("same-site")), (403, 403));
        let link = [("host", "localhost"), ("sec-fetch-site", "cross-site")];
        assert_eq!(checked("GET", "/", &link), 200, "a link to the console");
    }
}
