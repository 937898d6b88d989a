//! Users and their rights: the users file.
//!
//! ```toml
//! [[user]]
//! name = "feed"
//! password = "$argon2id$…"                             # made by `tapedb user passwd`
//! tokens = [{ name = "laptop", hash = "blake2b:…" }]   # made by `tapedb user token`
//! rights = [{ streams = "us.*", may = ["read", "write"] }]
//! limits = { connections_max = 10 }
//! ```
//!
//! `acts_for = ["*"]` lets a user log in for others, with their rights: that of a server which asks other servers for its users.
//!
//! The user `anonymous` is every client without credentials; without this user, credentials are required.

use crate::error::{ConfigError, EditError};
use crate::pattern;
use crate::secret;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::path::Path;
use std::{fs, io};

/// The user of clients without credentials.
pub const ANONYMOUS: &str = "anonymous";
const NAME_BYTES_MAX: usize = 80;
/// A longer file is refused.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// All users of a server.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Users {
    /// The users, each name once.
    #[serde(rename = "user", default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<User>,
}

/// A user.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct User {
    /// The name: 1 to 80 bytes without control characters.
    pub name: String,
    /// The hash of the password ([`hash_password`](crate::hash_password)).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub password: Option<String>,
    /// Tokens for programs; each program can have its own.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub tokens: Vec<Token>,
    /// Rights. None, if this is empty.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub rights: Vec<Right>,
    /// Names of users for whom this one may log in, as the servers of a cluster do for the users who ask them: `*` matches any text.
    /// The connection then has the other user's rights to read, and limits.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub acts_for: Vec<String>,
    /// Limits of the user, where they differ from the configuration.
    #[serde(skip_serializing_if = "UserLimits::is_empty", default)]
    pub limits: UserLimits,
}

/// The hash of a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Token {
    /// Its name, by which it can be removed.
    pub name: String,
    /// Its hash ([`hash_token`](crate::hash_token)).
    pub hash: String,
}

/// What a user may do with some streams.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Right {
    /// Names of streams: `*` matches any text, `?` one character.
    pub streams: String,
    /// Allowed operations.
    pub may: Vec<May>,
}

/// An operation on a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum May {
    /// See it and read its messages.
    Read,
    /// See it and append to it.
    Write,
    /// Create it.
    Create,
    /// See it, change its settings and schema, rename and delete it, and delete what is in it.
    Admin,
}

/// Limits of one user; `None`: the configured limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserLimits {
    /// Connections at once.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub connections_max: Option<usize>,
    /// Watches at once.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub watches_max: Option<usize>,
    /// Queries at once.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub queries_max: Option<usize>,
    /// Bytes of memory for the operators of all queries.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub query_bytes_max: Option<usize>,
    /// Milliseconds that a query may run; 0: unlimited.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub query_ms_max: Option<u64>,
    /// Rows of a query; 0: unlimited.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub query_rows_max: Option<u64>,
    /// Bytes per second to and from the user.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bytes_per_second_max: Option<u64>,
}

impl UserLimits {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl May {
    /// The name in the users file.
    pub fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Create => "create",
            Self::Admin => "admin",
        }
    }
}

impl User {
    /// Whether the user may do something with a stream.
    pub fn may(&self, what: May, stream: &str) -> bool {
        self.rights.iter().any(|right| right.may.contains(&what) && pattern::matches(&right.streams, stream))
    }

    /// Whether the user may log in for another one.
    pub fn may_act_for(&self, user: &str) -> bool {
        self.acts_for.iter().any(|names| pattern::matches(names, user))
    }

    /// Whether the user may see that a stream exists.
    pub fn may_see(&self, stream: &str) -> bool {
        [May::Read, May::Write, May::Admin].iter().any(|what| self.may(*what, stream))
    }

    /// A user with all rights: every client of a server without users.
    pub fn unrestricted() -> Self {
        let may = vec![May::Read, May::Write, May::Create, May::Admin];
        let rights = vec![Right { streams: "*".into(), may }];
        Self { name: ANONYMOUS.into(), rights, ..Self::default() }
    }

    fn check(&self) -> Result<(), String> {
        check_name(&self.name)?;
        if self.password.as_ref().is_some_and(|hash| !secret::is_password_hash(hash)) {
            return Err("the password is not an Argon2 hash; set it with `tapedb user passwd`".into());
        }
        if let Some(token) = self.tokens.iter().find(|token| !secret::is_token_hash(&token.hash)) {
            return Err(format!("token {:?} is not a hash; create it with `tapedb user token`", token.name));
        }
        Ok(())
    }
}

fn check_name(name: &str) -> Result<(), String> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
        return Err(format!("the name of a user has 1 to {NAME_BYTES_MAX} bytes and no control characters"));
    }
    Ok(())
}

impl Users {
    /// Reads the users from TOML.
    ///
    /// # Errors
    /// An error in the text, a name that occurs twice, or a secret that is not hashed.
    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        let users: Self =
            toml::from_str(text).map_err(|error| ConfigError(error.to_string().trim_end().to_string()))?;
        users.check().map(|()| users)
    }

    /// Reads the users from a file.
    ///
    /// # Errors
    /// A file that cannot be read, and as [`from_toml`](Self::from_toml).
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let fail = |what: String| ConfigError(format!("users file {}: {what}", path.display()));
        let bytes = fs::metadata(path)
            .map_err(|error| fail(format!("{error}; `tapedb user add` creates one")))?
            .len();
        if bytes > FILE_BYTES_MAX {
            return Err(fail(format!("it has {bytes} bytes, where at most {FILE_BYTES_MAX} are allowed")));
        }
        let text = fs::read_to_string(path).map_err(|error| fail(error.to_string()))?;
        Self::from_toml(&text).map_err(|error| fail(error.0))
    }

    /// Replaces the file atomically; only its owner can read it, and the owner stays the same.
    ///
    /// # Errors
    /// Contradictions in the users, or an error of the operating system.
    pub fn write(&self, path: &Path) -> Result<(), ConfigError> {
        self.replace(path).map_err(|error| match error {
            EditError::Refused(error) | EditError::Storage { error, .. } => error,
        })
    }

    /// [`write`](Self::write), whose error tells whose fault it is.
    pub(crate) fn replace(&self, path: &Path) -> Result<(), EditError> {
        self.check().map_err(EditError::Refused)?;
        let text =
            toml::to_string(self).map_err(|error| EditError::Refused(ConfigError(error.to_string())))?;
        let draft = path.with_extension("toml.draft");
        let written = write_private(&draft, text.as_bytes())
            .and_then(|()| copy_owner(path, &draft))
            .and_then(|()| fs::rename(&draft, path));
        written.map_err(|error| {
            // Half a draft is of no use, where one was written.
            let _ = fs::remove_file(&draft);
            let is_full = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
            let advice = match is_full {
                true => "free space on its disk",
                false => "its directory must be writable for this program",
            };
            let text = format!("cannot write the users file {}: {error}; {advice}", path.display());
            EditError::Storage { error: ConfigError(text), is_full }
        })
    }

    /// The user of that name.
    pub fn get(&self, name: &str) -> Option<&User> {
        self.users.iter().find(|user| user.name == name)
    }

    /// The user of that name, mutable.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut User> {
        self.users.iter_mut().find(|user| user.name == name)
    }

    fn check(&self) -> Result<(), ConfigError> {
        let mut seen = HashSet::new();
        for user in &self.users {
            let fail = |what: String| ConfigError(format!("user {:?}: {what}", user.name));
            user.check().map_err(fail)?;
            if !seen.insert(&user.name) {
                return Err(fail("the name occurs twice; remove one".into()));
            }
        }
        Ok(())
    }
}

fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    use io::Write;
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// A file that root writes again must stay readable for the server.
#[cfg(unix)]
fn copy_owner(old: &Path, new: &Path) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, chown};
    match (fs::metadata(old), fs::metadata(new)?) {
        (Ok(old), made) if (old.uid(), old.gid()) != (made.uid(), made.gid()) => {
            chown(new, Some(old.uid()), Some(old.gid()))
        }
        _ => Ok(()),
    }
}

#[cfg(not(unix))]
fn copy_owner(_: &Path, _: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "
        [[user]]
        name = 'feed'
        rights = [{ streams = 'us.*', may = ['read', 'write'] }, { streams = '*', may = ['create'] }]
        limits = { connections_max = 3 }
        [[user]]
        name = 'anonymous'
        rights = [{ streams = 'public', may = ['read'] }]";

    #[test]
    fn rights_match_patterns() {
        let users = Users::from_toml(TEXT).unwrap();
        let feed = users.get("feed").unwrap();
        assert!(feed.may(May::Write, "us.ticks") && feed.may(May::Create, "eu.ticks"));
        assert!(!feed.may(May::Write, "eu.ticks") && !feed.may(May::Admin, "us.ticks"));
        assert!(feed.may_see("us.ticks") && !feed.may_see("eu.ticks"));
        assert_eq!(feed.limits.connections_max, Some(3));
        assert!(!users.get(ANONYMOUS).unwrap().may_see("us.ticks"));
        assert!(User::unrestricted().may(May::Admin, "anything"));
    }

    #[test]
    fn a_file_is_written_atomically_for_its_owner_only() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("users.toml");
        let mut users = Users::from_toml(TEXT).unwrap();
        users.get_mut("feed").unwrap().password = Some(secret::hash_password("secret").unwrap());
        users.get_mut("feed").unwrap().tokens =
            vec![Token { name: "laptop".into(), hash: secret::hash_token("tape_1") }];
        users.write(&path).unwrap();
        assert_eq!(Users::read(&path), Ok(users));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "no draft is left");
    }

    #[test]
    fn errors_name_their_cause() {
        for (text, fail) in [
            ("[[user]]\nname = ''", "1 to 80 bytes"),
            ("[[user]]\nname = 'a'\n[[user]]\nname = 'a'", "user \"a\": the name occurs twice"),
            ("[[user]]\nname = 'a'\npassword = 'plain'", "tapedb user passwd"),
            ("[[user]]\nname = 'a'\ntokens = [{ name = 't', hash = 'tape_1' }]", "token \"t\" is not a hash"),
            ("[[user]]\nname = 'a'\nrights = [{ streams = '*', may = ['fly'] }]", "unknown variant `fly`"),
            ("[[users]]\nname = 'a'", "unknown field `users`"),
        ] {
            let error = Users::from_toml(text).unwrap_err().to_string();
            assert!(error.contains(fail), "{text}: {error}");
        }
    }
}
