//! Addresses of databases, parsed from URLs.

use crate::Login;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

/// The port of a server where the URL contains none.
pub const PORT: u16 = 7847;

/// The address of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A directory on this machine, opened in this process.
    Directory(PathBuf),
    /// The object store of a database, by its URL: read in this process, without the database's directory.
    Objects(String),
    /// A server, over TCP.
    Tcp {
        /// Host name or IP address.
        host: String,
        /// The port.
        port: u16,
    },
    /// A server, over TCP with TLS.
    Tls {
        /// Host name or IP address; the certificate must be valid for it.
        host: String,
        /// The port.
        port: u16,
    },
    /// A server on this machine, over a Unix socket.
    Unix(PathBuf),
    /// A server on this machine, through shared memory: the Unix socket only wakes sleeping threads. The fastest
    /// transport, above all for clients that [poll](crate::Options::spin). Takes up to 1 MiB for each connection.
    SharedMemory(PathBuf),
}

/// A URL that is not valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressError {
    /// The URL, without secrets.
    pub url: String,
    /// The error.
    pub why: &'static str,
}

/// Schemes of object stores.
const OBJECT_SCHEMES: [&str; 4] = ["s3", "gs", "az", "file"];

impl Address {
    /// Parses `tape://[user[:password]@]host[:port]`, `tapes://…`, `tape+unix:///path/to.sock`,
    /// `tape+shm:///path/to.sock`, the URL of an object store (`s3://bucket/prefix`, `gs://`, `az://`, `file:///folder`), or the path
    /// of a directory; also returns the credentials in the URL. Bytes of user and password may be written as `%40`.
    ///
    /// # Errors
    /// [`AddressError`] for other schemes, and when a host or a port is missing or wrong.
    ///
    /// ```
    /// use tapedb_client::Address;
    ///
    /// let (address, _) = Address::parse("tape://localhost")?;
    /// assert_eq!(address, Address::Tcp { host: "localhost".into(), port: 7847 });
    /// assert_eq!(address.to_string(), "tape://localhost:7847");
    /// # Ok::<(), tapedb_client::AddressError>(())
    /// ```
    pub fn parse(url: &str) -> Result<(Self, Option<Login>), AddressError> {
        let Some((scheme, rest)) = url.split_once("://") else {
            return match url {
                "" => Err(invalid(url, "it is empty; write a directory or tape://host:port")),
                path => Ok((Self::Directory(path.into()), None)),
            };
        };
        if OBJECT_SCHEMES.contains(&scheme) {
            return Ok((Self::Objects(url.into()), None));
        }
        let (login, place) = split_login(url, rest)?;
        let address = match scheme {
            "tape" => host_port(url, place).map(|(host, port)| Self::Tcp { host, port }),
            "tapes" => host_port(url, place).map(|(host, port)| Self::Tls { host, port }),
            "tape+unix" if place.starts_with('/') => Ok(Self::Unix(place.into())),
            "tape+shm" if place.starts_with('/') => Ok(Self::SharedMemory(place.into())),
            "tape+unix" => {
                Err(invalid(url, "the path of a Unix socket begins with `/`: tape+unix:///run/tapedb.sock"))
            }
            "tape+shm" => Err(invalid(
                url,
                "the path of a Unix socket must follow, and begins with `/`: tape+shm:///run/tapedb.sock",
            )),
            _ => Err(invalid(
                url,
                "the scheme must be tape, tapes (TLS), tape+unix, tape+shm (shared memory), or of an object store: s3, gs, az or file",
            )),
        };
        Ok((address?, login))
    }

    /// Whether it is certainly on this machine: a directory, a Unix socket, shared memory, or a loopback address.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Directory(_) | Self::Unix(_) | Self::SharedMemory(_) => true,
            Self::Objects(_) => false,
            Self::Tcp { host, .. } | Self::Tls { host, .. } => {
                host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
            }
        }
    }

    /// Whether the text is a URL, of a server or of an object store, rather than a path of a directory.
    pub fn is_remote(text: &str) -> bool {
        text.contains("://")
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bracketed = |host: &str| if host.contains(':') { format!("[{host}]") } else { host.into() };
        match self {
            Self::Directory(path) => write!(f, "{}", path.display()),
            Self::Objects(url) => f.write_str(url),
            Self::Tcp { host, port } => write!(f, "tape://{}:{port}", bracketed(host)),
            Self::Tls { host, port } => write!(f, "tapes://{}:{port}", bracketed(host)),
            Self::Unix(path) => write!(f, "tape+unix://{}", path.display()),
            Self::SharedMemory(path) => write!(f, "tape+shm://{}", path.display()),
        }
    }
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not the address of a database: {}", self.url, self.why)
    }
}

impl std::error::Error for AddressError {}

fn invalid(url: &str, why: &'static str) -> AddressError {
    let shown = match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, place))) => format!("{scheme}://…@{place}"),
        _ => url.into(),
    };
    AddressError { url: shown, why }
}

/// The credentials before the last `@`, and the rest after it.
fn split_login<'u>(url: &str, rest: &'u str) -> Result<(Option<Login>, &'u str), AddressError> {
    let Some((login, place)) = rest.rsplit_once('@') else { return Ok((None, rest)) };
    let (user, password) = login.split_once(':').unwrap_or((login, ""));
    let text = |part: &str| {
        decoded(part).ok_or_else(|| {
            invalid(url, "a `%` in the login is not followed by two hexadecimal digits of UTF-8")
        })
    };
    Ok((Some(Login::password(text(user)?, text(password)?)), place))
}

fn host_port(url: &str, place: &str) -> Result<(String, u16), AddressError> {
    let place = place.strip_suffix('/').unwrap_or(place);
    let (host, port) = match place.strip_prefix('[').map(|rest| rest.split_once(']')) {
        Some(Some((host, port))) => (host, port.strip_prefix(':')),
        Some(None) => return Err(invalid(url, "a `[` is not closed")),
        None => match place.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (place, None),
        },
    };
    if host.is_empty() || host.contains('/') {
        return Err(invalid(url, "`://` must be followed by a host, and nothing may follow the port"));
    }
    let port = port.map_or(Ok(PORT), |port| {
        port.parse().map_err(|_| invalid(url, "the port is not a number up to 65535"))
    });
    Ok((host.into(), port?))
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => digit(rest.next()?)? << 4 | digit(rest.next()?)?,
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_parsed() {
        let tcp = |host: &str, port| Address::Tcp { host: host.into(), port };
        for (url, address, again) in [
            ("./db", Address::Directory("./db".into()), "./db"),
            ("tape://h:1", tcp("h", 1), "tape://h:1"),
            ("tape://[::1]:9/", tcp("::1", 9), "tape://[::1]:9"),
            ("tape://[::1]", tcp("::1", PORT), "tape://[::1]:7847"),
            ("tapes://h", Address::Tls { host: "h".into(), port: PORT }, "tapes://h:7847"),
            ("tape+unix:///run/t.sock", Address::Unix("/run/t.sock".into()), "tape+unix:///run/t.sock"),
            ("tape+shm:///run/t.sock", Address::SharedMemory("/run/t.sock".into()), "tape+shm:///run/t.sock"),
        ] {
            assert_eq!(Address::parse(url), Ok((address.clone(), None)), "{url}");
            assert_eq!(address.to_string(), again);
        }
    }

    #[test]
    fn credentials_are_parsed() {
        let (address, login) = Address::parse("tape://ann:p%40ss@h").unwrap();
        assert_eq!(
            (address.to_string().as_str(), login),
            ("tape://h:7847", Some(Login::password("ann", "p@ss")))
        );
        assert_eq!(Address::parse("tape://ann@h").unwrap().1, Some(Login::password("ann", "")));
        assert!(Address::parse("tape://a%zz@h").is_err());
    }

    #[test]
    fn errors_contain_no_secrets() {
        for url in [
            "",
            "http://h",
            "tape://",
            "tape://h:x",
            "tape://h:1/db",
            "tape+unix://x",
            "tape+shm://x",
            "tape://[::1",
            "tape://:1",
        ] {
            assert!(Address::parse(url).is_err(), "{url}");
        }
        let error = Address::parse("http://ann:hunter2@h").unwrap_err().to_string();
        assert!(error.contains("scheme") && !error.contains("hunter2"), "{error}");
    }
}
