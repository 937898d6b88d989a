//! Why an address cannot be listened on, and what to do: the same text for every protocol.

use std::net::SocketAddr;
use std::{error, fmt, io};

/// An address that cannot be listened on. Its text names the setting.
#[derive(Debug)]
pub struct ListenError {
    setting: &'static str,
    address: SocketAddr,
    source: io::Error,
}

impl ListenError {
    /// `setting`: the name of the address in the configuration, such as `postgres`.
    pub fn new(setting: &'static str, address: SocketAddr, source: io::Error) -> Self {
        Self { setting, address, source }
    }
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { setting, address, source } = self;
        // The option has the setting's name, but for those of the line protocol.
        let option = match *setting {
            "ilp.http" => "ilp",
            "ilp.tcp" => "ilp-tcp",
            setting => setting,
        };
        let other = if *setting == "listen" { "" } else { ", or to `off`" };
        write!(f, "cannot listen on {address} (`{setting}`): {source}; ")?;
        match source.kind() {
            io::ErrorKind::AddrInUse => write!(
                f,
                "another program uses the port: end that program, or set `{setting}` (--{option}) to another port, to port 0 for one that is \
                 free{other}"
            ),
            io::ErrorKind::AddrNotAvailable => write!(
                f,
                "this machine does not have the address: set `{setting}` (--{option}) to one that it has, to 127.0.0.1 for this machine alone, to \
                 0.0.0.0 for all{other}"
            ),
            io::ErrorKind::PermissionDenied => write!(
                f,
                "this program may not use the port: set `{setting}` (--{option}) to a port from 1024 on{other}"
            ),
            _ => write!(f, "set `{setting}` (--{option}) to another address{other}"),
        }
    }
}

impl error::Error for ListenError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        Some(&self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_names_the_setting_and_what_to_do() {
        let text = |setting, kind: io::ErrorKind| {
            ListenError::new(setting, ([127, 0, 0, 1], 5432).into(), kind.into()).to_string()
        };
        let used = text("postgres", io::ErrorKind::AddrInUse);
        for part in ["listen on 127.0.0.1:5432", "`postgres` (--postgres) to another port", "or to `off`"] {
            assert!(used.contains(part), "{used}");
        }
        assert!(!text("listen", io::ErrorKind::AddrInUse).contains("off"));
        assert!(text("ilp.tcp", io::ErrorKind::PermissionDenied).contains("(--ilp-tcp) to a port from 1024"));
        assert!(text("flight", io::ErrorKind::AddrNotAvailable).contains("0.0.0.0"));
    }
}
