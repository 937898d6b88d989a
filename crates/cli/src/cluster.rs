//! The servers of a cluster: `--cluster` of `tapedb sql` and `tapedb server`, a TOML file.
//!
//! ```toml
//! [[server]]
//! name = "east"                             # in plans and errors; without it the URL
//! url = "tapes://east.example.com:7847"     # a directory too for `tapedb sql`
//! user = "cluster"
//! token_file = "/etc/tapedb/cluster.token"  # or password_file
//! ca = "/etc/tapedb/ca.pem"
//!
//! [[server]]
//! name = "west"
//! here = true                               # the database of this `tapedb server`
//! ```

use crate::remote;
use serde::Deserialize;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tapedb_access::name_for;
use tapedb_client::{Address, Client, Login};
use tapedb_engine::{Database, Error};
use tapedb_query::{Cluster, ClusterServer, ClusterServers};
use tapedb_terminal::Failure;

/// How long a request waits for a lost server: a query is to end with an error rather than to wait.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Connections for users that are kept for their next queries, for each server.
const CONNECTIONS_MAX: usize = 64;

/// The file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    server: Vec<Entry>,
}

/// A server in the file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: Option<String>,
    url: Option<String>,
    #[serde(default)]
    here: bool,
    user: Option<String>,
    token_file: Option<PathBuf>,
    password_file: Option<PathBuf>,
    ca: Option<PathBuf>,
}

impl File {
    fn read(path: &Path) -> Result<Vec<Entry>, Failure> {
        let refused = |what: String| Failure::usage(format!("{}: {what}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|error| refused(error.to_string()))?;
        let file: Self =
            toml::from_str(&text).map_err(|error| refused(error.to_string().trim_end().into()))?;
        if file.server.is_empty() {
            return Err(refused(
                "it names no server; add one: [[server]], url = \"tape://host:port\"".into(),
            ));
        }
        for entry in &file.server {
            entry.check().map_err(|what| refused(format!("server {}: {what}", entry.name())))?;
        }
        Ok(file.server)
    }
}

impl Entry {
    fn name(&self) -> String {
        let place = self.url.clone().unwrap_or_else(|| "here".into());
        self.name.clone().unwrap_or(place)
    }

    fn check(&self) -> Result<(), String> {
        match (&self.url, self.here) {
            (None, false) => {
                return Err("it has no url; write url = \"tape://host:port\", or here = true".into());
            }
            (Some(_), true) => return Err("it has a url and here = true; remove one of them".into()),
            _ => {}
        }
        if let Some(url) = &self.url {
            let (_, login) = Address::parse(url).map_err(|error| error.to_string())?;
            if login.is_some() {
                return Err("its url has a user; write user = \"…\" with token_file or password_file".into());
            }
        }
        if self.token_file.is_some() && self.password_file.is_some() {
            return Err("it has a token and a password; remove one of them".into());
        }
        let has_secret = self.token_file.is_some() || self.password_file.is_some();
        match (&self.user, has_secret) {
            (None, true) => Err("it has no user; write user = \"…\", whose secret that is".into()),
            (Some(_), false) => Err("its user has no secret; write token_file or password_file".into()),
            _ => Ok(()),
        }
    }

    /// The user and the secret, and whether it is a token.
    fn secret(&self) -> Result<Option<(String, String, bool)>, String> {
        let (path, is_token) = match (&self.token_file, &self.password_file) {
            (Some(path), _) => (path, true),
            (None, Some(path)) => (path, false),
            (None, None) => return Ok(None),
        };
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(self.user.clone().map(|user| (user, text.trim().to_string(), is_token)))
    }

    /// The login of its own account.
    fn login(&self) -> Result<Login, String> {
        Ok(match self.secret()? {
            None => Login::Anonymous,
            Some((_, token, true)) => Login::token(token),
            Some((user, password, false)) => Login::password(user, password),
        })
    }

    /// The login for a user, as whom its account acts. Without an account the server is to have no users.
    fn login_for(&self, user: &str) -> Result<Login, String> {
        Ok(match self.secret()? {
            None => Login::Anonymous,
            Some((by, secret, _)) => Login::password(name_for(&by, user), secret),
        })
    }

    fn connect(&self, login: Login) -> Result<Database, String> {
        let url = self.url.clone().unwrap_or_default();
        let mut client = Client::at(url).login(login).reconnect_timeout(RECONNECT_TIMEOUT);
        if let Some(ca) = &self.ca {
            client = client.tls_roots(ca);
        }
        client.connect().map_err(|error| error.to_string())
    }
}

/// Opens the servers of a file, with the credentials that it names, or else those of the environment.
pub fn open(path: &Path) -> Result<Cluster, Failure> {
    let mut databases = Vec::new();
    for entry in File::read(path)? {
        let name = entry.name();
        let failed = |what: String| Failure::new(format!("server {name}: {what}"));
        let db = match &entry.url {
            None => {
                let what =
                    "here = true is for `tapedb server`; write the url or the directory of the database";
                return Err(Failure::usage(format!("{}: server {name}: {what}", path.display())));
            }
            Some(url) if !Address::is_remote(url) => {
                Database::open_read_only(url).map_err(|error| failed(error.to_string()))?
            }
            Some(url) if entry.user.is_none() => {
                remote::connect(url).map_err(|error| failed(error.to_string()))?
            }
            Some(_) => entry.login().and_then(|login| entry.connect(login)).map_err(failed)?,
        };
        databases.push((entry.name(), db));
    }
    Cluster::new(databases).map_err(|error| Failure::new(error.to_string()))
}

/// The servers of a file as a server reaches them for its users.
#[derive(Debug)]
pub struct Peers {
    servers: Vec<Peer>,
}

#[derive(Debug)]
struct Peer {
    entry: Entry,
    /// The connection of its own account, which lists streams.
    own: Mutex<Option<Database>>,
    /// Connections for users; the one that was used last is behind.
    users: Mutex<VecDeque<(String, Database)>>,
}

impl Peers {
    /// Reads the file. Servers are connected to when a query needs them: they may start later.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let entries = File::read(path)?;
        let refused = |what: String| Failure::usage(format!("{}: {what}", path.display()));
        if entries.iter().filter(|entry| entry.here).count() > 1 {
            return Err(refused("two servers are here; remove one of them".into()));
        }
        let local =
            entries.iter().find(|entry| entry.url.as_deref().is_some_and(|url| !Address::is_remote(url)));
        if let Some(entry) = local {
            let name = entry.name();
            return Err(refused(format!(
                "server {name} is a directory; write here = true, or the URL of its server"
            )));
        }
        for entry in &entries {
            // A file that is missing is noticed now.
            entry.secret().map_err(|what| refused(format!("server {}: {what}", entry.name())))?;
        }
        let peer = |entry| Peer { entry, own: Mutex::default(), users: Mutex::default() };
        Ok(Self { servers: entries.into_iter().map(peer).collect() })
    }
}

impl ClusterServers for Peers {
    fn servers(&self, user: &str) -> Result<Vec<ClusterServer>, Error> {
        let server = |peer: &Peer| {
            let name = peer.entry.name();
            let failed = |what: String| Error::Remote { code: 100, text: format!("server {name}: {what}") };
            let remote = match peer.entry.here {
                true => None,
                false => {
                    let streams = peer.streams().map_err(failed)?;
                    Some((peer.for_user(user).map_err(failed)?, streams))
                }
            };
            Ok(ClusterServer { name, remote })
        };
        self.servers.iter().map(server).collect()
    }
}

impl Peer {
    /// Names of all streams that its account sees.
    fn streams(&self) -> Result<Vec<String>, String> {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        let db = match &*own {
            Some(db) => db.clone(),
            None => own.insert(self.entry.connect(self.entry.login()?)?).clone(),
        };
        drop(own);
        db.streams().map_err(|error| error.to_string())
    }

    /// The connection for a user.
    fn for_user(&self, user: &str) -> Result<Database, String> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let known = users.iter().position(|(name, _)| name == user).and_then(|at| users.remove(at));
        let db = match known {
            Some((_, db)) => db,
            None => self.entry.connect(self.entry.login_for(user)?)?,
        };
        users.push_back((user.into(), db.clone()));
        if users.len() > CONNECTIONS_MAX {
            users.pop_front();
        }
        Ok(db)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<String>, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let entries = File::read(file.path()).map_err(|error| error.to_string())?;
        Ok(entries.iter().map(Entry::name).collect())
    }

    #[test]
    fn files_name_servers() {
        let text = "[[server]]\nurl = 'tape://a'\n[[server]]\nname = 'b'\nhere = true\n";
        assert_eq!(read(text).unwrap(), ["tape://a", "b"]);
        for (text, what) in [
            ("", "names no server"),
            ("[[server]]\nname = 'a'", "has no url"),
            ("[[server]]\nurl = 'tape://a'\nhere = true", "remove one"),
            ("[[server]]\nurl = 'http://a'", "scheme"),
            ("[[server]]\nurl = 'tape://ann@a'", "has a user"),
            ("[[server]]\nurl = 'tape://a'\nuser = 'ann'", "no secret"),
            ("[[server]]\nurl = 'tape://a'\ntoken_file = 'x'", "no user"),
            ("[[server]]\nurl = 'tape://a'\nuser = 'u'\ntoken_file = 'x'\npassword_file = 'y'", "remove one"),
            ("[[server]]\nurls = 'tape://a'", "urls"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(what), "{text}: {error}");
        }
    }
}
