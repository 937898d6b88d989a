//! Single requests to the pages and the REST interface of a server, over HTTP or HTTPS: for commands that ask a server for something
//! that the protocol of clients does not have.

use crate::certificate_verifier;
use crate::socket::{tcp, tls_config};
use crate::{Login, Options};
use data_encoding::BASE64;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Maximum bytes of an answer.
const ANSWER_BYTES_MAX: u64 = 64 << 20;
/// Time without progress.
const TIME_MAX: Duration = Duration::from_secs(10);

/// Where a server answers HTTP: `http://host[:port]` or `https://host[:port]`, with what may follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebAddress {
    host: String,
    port: u16,
    is_encrypted: bool,
    /// A name before the host: `https://ann@host`.
    pub user: Option<String>,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebAnswer {
    /// The status.
    pub status: u16,
    /// The first line.
    pub first_line: String,
    /// The body.
    pub body: String,
}

impl WebAddress {
    /// Parses a URL; `None`: its scheme is another one.
    ///
    /// # Errors
    /// What is wrong with it.
    ///
    /// ```
    /// use tapedb_client::WebAddress;
    ///
    /// let address = WebAddress::parse("https://ann@[::1]/status", 7848).expect("https")?;
    /// assert_eq!(address.to_string(), "https://[::1]:7848");
    /// assert_eq!(address.user.as_deref(), Some("ann"));
    /// assert!(WebAddress::parse("tape://localhost", 7848).is_none());
    /// # Ok::<(), String>(())
    /// ```
    pub fn parse(url: &str, usual_port: u16) -> Option<Result<Self, String>> {
        let (scheme, rest) = url.split_once("://")?;
        let is_encrypted = match scheme {
            "http" => false,
            "https" => true,
            _ => return None,
        };
        let place = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let (user, place) = match place.rsplit_once('@') {
            Some((user, _)) if user.contains(':') => {
                return Some(Err("other users can see a password on the command line".into()));
            }
            Some((user, place)) => (Some(user.to_string()), place),
            None => (None, place),
        };
        let (host, port) = match place.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, port)) => (host, port.strip_prefix(':')),
            None => place.split_once(':').map_or((place, None), |(host, port)| (host, Some(port))),
        };
        let port = port.map_or(Ok(usual_port), str::parse);
        Some(match port {
            Ok(port) if !host.is_empty() => Ok(Self { host: host.into(), port, is_encrypted, user }),
            Ok(_) => Err(format!("{url:?} has no host")),
            Err(_) => Err(format!("{url:?} has a port that is not a number up to 65535")),
        })
    }

    /// Sends a request without a body to a server of TapeDB. The login and the trusted authorities are those of the options.
    ///
    /// # Errors
    /// A server that cannot be reached, or whose certificate is refused, with what to do.
    pub fn ask(&self, method: &str, path: &str, options: &Options) -> io::Result<WebAnswer> {
        self.send(method, path, &[("X-TapeDB", "1")], b"", options)
    }

    /// Sends a request with headers and a body to any server. The login and the trusted authorities are those of the options.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
        options: &Options,
    ) -> io::Result<WebAnswer> {
        let tcp = tcp(&self.host, self.port, options.connect_timeout)?;
        tcp.set_read_timeout(Some(TIME_MAX))?;
        tcp.set_write_timeout(Some(TIME_MAX))?;
        // The address, not the name: the server refuses names that it was not given, which only browsers must send.
        let host = tcp.peer_addr()?;
        let login = match &options.login {
            Login::Anonymous => String::new(),
            Login::Token(token) => format!("Authorization: Bearer {token}\r\n"),
            Login::Password { user, password } => {
                format!("Authorization: Basic {}\r\n", BASE64.encode(format!("{user}:{password}").as_bytes()))
            }
        };
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let lines = format!("{headers}{login}");
        if lines.lines().count() != lines.matches("\r\n").count() || lines.contains('\0') {
            return Err(io::Error::other("a header or the login has control characters"));
        }
        let length = body.len();
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {length}\r\n{lines}\r\n"
        )
        .into_bytes();
        request.extend_from_slice(body);
        if !self.is_encrypted {
            return exchange(tcp, &request);
        }
        let name = ServerName::try_from(self.host.clone()).map_err(io::Error::other)?;
        let connection = ClientConnection::new(tls_config(options)?, name).map_err(io::Error::other)?;
        exchange(StreamOwned::<ClientConnection, TcpStream>::new(connection, tcp), &request)
            .map_err(explained)
    }
}

impl fmt::Display for WebAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_encrypted { "https" } else { "http" };
        match self.host.contains(':') {
            true => write!(f, "{scheme}://[{}]:{}", self.host, self.port),
            false => write!(f, "{scheme}://{}:{}", self.host, self.port),
        }
    }
}

fn exchange(mut socket: impl Read + Write, request: &[u8]) -> io::Result<WebAnswer> {
    socket.write_all(request)?;
    socket.flush()?;
    let mut bytes = Vec::new();
    match socket.take(ANSWER_BYTES_MAX).read_to_end(&mut bytes) {
        // A server may end TLS without a farewell; the length of the answer shows whether all of it is there.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && !bytes.is_empty() => {}
        read => drop(read?),
    }
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let first_line = head.lines().next().unwrap_or_default().to_string();
    let status = first_line.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let stated = head.lines().filter_map(|line| line.split_once(':')).find_map(|(name, value)| {
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok()).flatten()
    });
    if stated.is_some_and(|stated| body.len() < stated) {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the answer breaks off"));
    }
    Ok(WebAnswer { status, first_line, body: body.into() })
}

/// What to do about a certificate that is refused.
fn explained(error: io::Error) -> io::Error {
    match error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidCertificate(wrong)) => {
            io::Error::other(certificate_verifier::refusal(wrong))
        }
        Some(rustls::Error::InvalidMessage(_)) => io::Error::other("it does not use TLS; write http://"),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed() {
        let shown =
            |url| WebAddress::parse(url, 7848).map(|parsed| parsed.map(|address| address.to_string()));
        assert_eq!(shown("http://a"), Some(Ok("http://a:7848".into())));
        assert_eq!(shown("https://a:1/x?y"), Some(Ok("https://a:1".into())));
        assert_eq!(shown("https://[::1]:2"), Some(Ok("https://[::1]:2".into())));
        assert_eq!(shown("tape://a"), None);
        assert_eq!(shown("a"), None);
        for wrong in ["http://", "http://a:b", "http://ann:secret@a", "https://:1"] {
            let error = shown(wrong).unwrap().unwrap_err();
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn half_an_answer_is_an_error() {
        struct Half(&'static [u8]);
        impl Read for Half {
            fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
                self.0.read(bytes)
            }
        }
        impl Write for Half {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let answer = |text: &'static str| exchange(Half(text.as_bytes()), b"");
        assert_eq!(answer("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap().body, "ok");
        assert!(answer("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok").is_err());
        assert_eq!(answer("tape").unwrap().status, 0);
    }
}
