//! Which requests are refused before the handshake: those that a foreign web page could have sent.
//!
//! A page of another site may open a WebSocket to this machine, or to a name of its own that leads here. Its requests have the page's
//! `Origin`, or that name as `Host`. So a `Host` is an address, `localhost` or a name that the server was given, and an `Origin` is of this
//! machine or of that `Host`.

use std::net::IpAddr;

/// Whether a request may be served; `Err`: why not.
pub(crate) fn check(host: Option<&str>, origin: Option<&str>, names: &[String]) -> Result<(), &'static str> {
    let host = host.map(name_of).ok_or("the request has no Host")?;
    let is_own = host.parse::<IpAddr>().is_ok() || is_loopback(host);
    if !is_own && !names.iter().any(|name| name.eq_ignore_ascii_case(host)) {
        return Err(
            "this Host is not served; connect to the address itself, or name the host when the server starts",
        );
    }
    match origin {
        None => Ok(()),
        Some(origin) => {
            let of = origin.split_once("://").map(|(_, rest)| name_of(rest));
            let is_allowed = |of: &str| is_loopback(of) || of.eq_ignore_ascii_case(host);
            if of.is_some_and(is_allowed) { Ok(()) } else { Err("pages of this Origin are not served") }
        }
    }
}

/// The host of `host`, `host:port` or `[address]:port`.
fn name_of(authority: &str) -> &str {
    match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.rsplit_once(':').map_or(authority, |(host, _)| host),
    }
}

fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_pages_and_names_are_refused() {
        let names = ["replay.example".to_string()];
        for (host, origin) in [
            ("127.0.0.1:8001", None),
            ("localhost", Some("http://localhost:3000")),
            ("[::1]:8001", Some("http://[::1]:9")),
            ("192.168.1.5:8001", Some("https://192.168.1.5")),
            ("Replay.example:8001", Some("https://replay.example")),
        ] {
            assert_eq!(check(Some(host), origin, &names), Ok(()), "{host} {origin:?}");
        }
        for (host, origin) in [
            (None, None),
            (Some("evil.example:8001"), None),
            (Some("127.0.0.1.evil.example"), None),
            (Some("127.0.0.1:8001"), Some("https://evil.example")),
            (Some("127.0.0.1:8001"), Some("null")),
            (Some("127.0.0.1:8001"), Some("https://localhost.evil.example")),
            (Some(""), None),
        ] {
            assert!(check(host, origin, &names).is_err(), "{host:?} {origin:?}");
        }
    }
}
