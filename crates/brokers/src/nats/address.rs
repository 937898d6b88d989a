//! Where NATS servers are.

use std::fmt;
use std::str::FromStr;

/// One server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// Its name or number.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Whether it must use TLS; without it, TLS is used when the server demands it.
    pub tls: bool,
    /// The user, where the URL names one.
    pub user: Option<String>,
}

impl Address {
    /// Those of a list with commas.
    ///
    /// # Errors
    /// When one is none, or states a password: others on the machine could see it.
    pub fn list(text: &str) -> Result<Vec<Self>, String> {
        text.split(',').map(|part| part.trim().parse()).collect()
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{} is no address of NATS; write nats://host:4222 or tls://host:4222",
                without_password(text)
            )
        };
        let (tls, rest) = match text.split_once("://") {
            Some(("nats", rest)) => (false, rest),
            Some(("tls", rest)) => (true, rest),
            Some(_) => return Err(wrong()),
            None => (false, text),
        };
        let (user, place) = match rest.rsplit_once('@') {
            Some((user, place)) => (Some(user), place),
            None => (None, rest),
        };
        if user.is_some_and(|user| user.contains(':')) {
            return Err(
                "other users can see a password on the command line; set TAPEDB_NATS_PASSWORD instead".into(),
            );
        }
        let (host, port) = match place.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, rest)) => (host, rest.strip_prefix(':')),
            None => place.rsplit_once(':').map_or((place, None), |(host, port)| (host, Some(port))),
        };
        let port = port.map_or(Ok(4222), |port| port.trim_end_matches('/').parse().map_err(|_| wrong()))?;
        if host.is_empty() || host.contains(['/', ' ']) {
            return Err(wrong());
        }
        Ok(Self { host: host.into(), port, tls, user: user.map(str::to_string) })
    }
}

fn without_password(text: &str) -> String {
    match text.rsplit_once('@') {
        Some((_, place)) => format!("…@{place}"),
        None => text.into(),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, .. } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let of = |text: &str| {
            text.parse::<Address>().map(|address| (address.to_string(), address.tls, address.user))
        };
        assert_eq!(of("nats://a:1"), Ok(("a:1".into(), false, None)));
        assert_eq!(of("a"), Ok(("a:4222".into(), false, None)));
        assert_eq!(of("tls://ann@[::1]:7/"), Ok(("[::1]:7".into(), true, Some("ann".into()))));
        for bad in ["http://a", "nats://", "a:b", "nats://a/b"] {
            assert!(of(bad).unwrap_err().contains("nats://host:4222"), "{bad}");
        }
        let secret = of("nats://ann:hunter2@a:1").unwrap_err();
        assert!(secret.contains("TAPEDB_NATS_PASSWORD") && !secret.contains("hunter2"), "{secret}");
        let wrong = of("http://ann:hunter2@a:1").unwrap_err();
        assert!(!wrong.contains("hunter2"), "{wrong}");
        assert_eq!(Address::list("a:1, b:2").expect("two").len(), 2);
    }
}
