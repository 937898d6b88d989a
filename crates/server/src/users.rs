//! Who may do what: the users file.
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
//! A user named `anonymous` is whoever does not say who he is; without one, everybody must.

use crate::config::ConfigError;
use crate::pattern;
use crate::secret;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::path::Path;
use std::{fs, io};

/// The user whom nobody needs to log in as.
pub const ANONYMOUS: &str = "anonymous";
const NAME_BYTES_MAX: usize = 80;
/// A longer file is no users file.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// All users of a server.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Users {
    /// The users, each name once.
    #[serde(rename = "user", default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<User>,
}

/// One who may connect.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct User {
    /// What he is called: 1 to 80 bytes without control characters.
    pub name: String,
    /// What is kept of his password ([`hash_password`](crate::hash_password)).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub password: Option<String>,
    /// His tokens: for programs, each of which can be given one of its own.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub tokens: Vec<Token>,
    /// What he may do. Nothing, if this is empty.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub rights: Vec<Right>,
    /// What is too much of him, where it is not what the configuration says.
    #[serde(skip_serializing_if = "UserLimits::is_empty", default)]
    pub limits: UserLimits,
}

/// What is kept of a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Token {
    /// What it is called: so that it can be taken away again.
    pub name: String,
    /// Its hash ([`hash_token`](crate::hash_token)).
    pub hash: String,
}

/// What a user may do with some streams.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Right {
    /// Which streams, by name: `*` stands for any text, `?` for one character.
    pub streams: String,
    /// What he may do with them.
    pub may: Vec<May>,
}

/// Something that a user may do with a stream.
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

/// What is too much of one user; `None`: as the configuration says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserLimits {
    /// His connections at once.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub connections_max: Option<usize>,
    /// His watches at once.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub watches_max: Option<usize>,
    /// Bytes a second to and from him.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bytes_per_second_max: Option<u64>,
}

impl UserLimits {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl May {
    /// The word in the users file.
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
    /// Whether he may do something with a stream.
    pub fn may(&self, what: May, stream: &str) -> bool {
        self.rights.iter().any(|right| right.may.contains(&what) && pattern::matches(&right.streams, stream))
    }

    /// Whether he may know that a stream is there.
    pub fn may_see(&self, stream: &str) -> bool {
        [May::Read, May::Write, May::Admin].iter().any(|what| self.may(*what, stream))
    }

    /// One who may do everything: whoever connects to a server without users.
    pub(crate) fn almighty() -> Self {
        let may = vec![May::Read, May::Write, May::Create, May::Admin];
        let rights = vec![Right { streams: "*".into(), may }];
        Self { name: ANONYMOUS.into(), rights, ..Self::default() }
    }

    fn check(&self) -> Result<(), String> {
        check_name(&self.name)?;
        if self.password.as_ref().is_some_and(|hash| !secret::is_password_hash(hash)) {
            return Err("the password is no Argon2 hash; set it with `tapedb user passwd`".into());
        }
        if let Some(token) = self.tokens.iter().find(|token| !secret::is_token_hash(&token.hash)) {
            return Err(format!("token {:?} is no hash; make it with `tapedb user token`", token.name));
        }
        Ok(())
    }
}

fn check_name(name: &str) -> Result<(), String> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
        return Err(format!("a user's name has 1 to {NAME_BYTES_MAX} bytes and no control characters"));
    }
    Ok(())
}

impl Users {
    /// Reads the users from TOML.
    ///
    /// # Errors
    /// What the text says wrong, names that are there twice, and secrets that are not hashed.
    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        let users: Self =
            toml::from_str(text).map_err(|error| ConfigError(error.to_string().trim_end().to_string()))?;
        users.check().map(|()| users)
    }

    /// Reads the users from a file.
    ///
    /// # Errors
    /// When it cannot be read, and as [`from_toml`](Self::from_toml).
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let told = |what: String| ConfigError(format!("users file {}: {what}", path.display()));
        let bytes =
            fs::metadata(path).map_err(|error| told(format!("{error}; `tapedb user add` makes one")))?.len();
        if bytes > FILE_BYTES_MAX {
            return Err(told(format!("it has {bytes} bytes, where at most {FILE_BYTES_MAX} are believed")));
        }
        let text = fs::read_to_string(path).map_err(|error| told(error.to_string()))?;
        Self::from_toml(&text).map_err(|error| told(error.0))
    }

    /// Writes the users to a file in place of what it held, all or nothing; only its owner can read it, who stays the same.
    ///
    /// # Errors
    /// When they contradict themselves, or the system refuses.
    pub fn write(&self, path: &Path) -> Result<(), ConfigError> {
        self.check()?;
        let text = toml::to_string(self).map_err(|error| ConfigError(error.to_string()))?;
        let draft = path.with_extension("toml.draft");
        let written = write_private(&draft, text.as_bytes())
            .and_then(|()| keep_owner(path, &draft))
            .and_then(|()| fs::rename(&draft, path));
        written
            .map_err(|error| ConfigError(format!("cannot write the users file {}: {error}", path.display())))
    }

    /// The user of that name.
    pub fn get(&self, name: &str) -> Option<&User> {
        self.users.iter().find(|user| user.name == name)
    }

    /// The user of that name, to be changed.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut User> {
        self.users.iter_mut().find(|user| user.name == name)
    }

    fn check(&self) -> Result<(), ConfigError> {
        let mut seen = HashSet::new();
        for user in &self.users {
            let told = |what: String| ConfigError(format!("user {:?}: {what}", user.name));
            user.check().map_err(told)?;
            if !seen.insert(&user.name) {
                return Err(told("he is there twice; keep one".into()));
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

/// A file that root writes anew stays readable for the server that it is there for.
#[cfg(unix)]
fn keep_owner(old: &Path, new: &Path) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, chown};
    match (fs::metadata(old), fs::metadata(new)?) {
        (Ok(old), made) if (old.uid(), old.gid()) != (made.uid(), made.gid()) => {
            chown(new, Some(old.uid()), Some(old.gid()))
        }
        _ => Ok(()),
    }
}

#[cfg(not(unix))]
fn keep_owner(_: &Path, _: &Path) -> io::Result<()> {
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
    fn rights_are_by_pattern() {
        let users = Users::from_toml(TEXT).unwrap();
        let feed = users.get("feed").unwrap();
        assert!(feed.may(May::Write, "us.ticks") && feed.may(May::Create, "eu.ticks"));
        assert!(!feed.may(May::Write, "eu.ticks") && !feed.may(May::Admin, "us.ticks"));
        assert!(feed.may_see("us.ticks") && !feed.may_see("eu.ticks"));
        assert_eq!(feed.limits.connections_max, Some(3));
        assert!(!users.get(ANONYMOUS).unwrap().may_see("us.ticks"));
        assert!(User::almighty().may(May::Admin, "anything"));
    }

    #[test]
    fn a_file_is_written_whole_and_for_its_owner_only() {
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
    fn what_is_wrong_is_named() {
        for (text, told) in [
            ("[[user]]\nname = ''", "1 to 80 bytes"),
            ("[[user]]\nname = 'a'\n[[user]]\nname = 'a'", "user \"a\": he is there twice"),
            ("[[user]]\nname = 'a'\npassword = 'plain'", "tapedb user passwd"),
            ("[[user]]\nname = 'a'\ntokens = [{ name = 't', hash = 'tape_1' }]", "token \"t\" is no hash"),
            ("[[user]]\nname = 'a'\nrights = [{ streams = '*', may = ['fly'] }]", "unknown variant `fly`"),
            ("[[users]]\nname = 'a'", "unknown field `users`"),
        ] {
            let error = Users::from_toml(text).unwrap_err().to_string();
            assert!(error.contains(told), "{text}: {error}");
        }
    }
}
