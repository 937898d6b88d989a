//! Authentication: names and secrets are checked against the users file, and wrong passwords are limited.
//!
//! Always true: at most one password is hashed at a time, so logins use at most one core; a user with too many wrong
//! passwords from an address waits there, or is refused without a check; a correct password is cached (as a hash under
//! a key of this process), so that a thousand programs that reconnect do not queue. An authenticated client keeps its
//! proof: after a reload of the users file it shows whether the client would still be accepted.

use crate::error::{ConfigError, EditError};
use crate::limits::AccessLimits;
use crate::secret::{self, TOKEN_PREFIX};
use crate::throttle::Throttle;
use crate::users::{ANONYMOUS, May, User, Users};
use std::collections::HashSet;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread;
use std::time::Instant;

/// Cached correct passwords; further ones are hashed again.
const CACHED_MAX: usize = 4096;

/// Credentials of a client.
#[derive(Debug, Clone, Copy)]
pub enum Credentials<'a> {
    /// None.
    None,
    /// A name and a password.
    Password {
        /// The name.
        user: &'a str,
        /// The password.
        password: &'a str,
    },
    /// A token, which also identifies its user.
    Token(&'a str),
}

/// Why a client is refused. The client receives no more than this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The name, the password or the token is wrong.
    Wrong,
    /// No credentials were sent, and anonymous access is disabled.
    Missing,
    /// Too many passwords of this user from this address were wrong.
    TooOften,
}

/// An authenticated client.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The user, and the user's rights.
    pub user: Arc<User>,
    proof: Proof,
    /// Version of the users file: how often it had been reloaded.
    edition: u64,
}

/// How the client has authenticated: the stored hash of its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Proof {
    /// Without a secret.
    None,
    Password(String),
    Token(String),
    /// The one of a user who logged in for this one.
    For {
        by: String,
        proof: Box<Proof>,
    },
}

/// Separates the name of a user from the one for whom that user logs in; no name has such a character.
const FOR: char = '\u{1f}';

/// The name with which `by` logs in for `user`, with the password or a token of `by` as the password. The connection may read what `user`
/// may read, and change nothing.
pub fn name_for(by: &str, user: &str) -> String {
    format!("{by}{FOR}{user}")
}

/// Authenticates clients.
#[derive(Debug)]
pub struct Logins {
    /// `None`: every client may do everything.
    path: Option<PathBuf>,
    users: RwLock<Arc<Users>>,
    /// How often the users file has been reloaded.
    edition: AtomicU64,
    throttle: Mutex<Throttle>,
    cached: Mutex<CachedPasswords>,
    /// Held while the users file is changed.
    editing: Mutex<()>,
    /// Held while a password is hashed.
    comparing: Mutex<()>,
    /// Compared with where the user does not exist, so that the answer takes as long.
    dummy_hash: String,
}

#[derive(Debug)]
struct CachedPasswords {
    key: [u8; 32],
    right: HashSet<[u8; 32]>,
}

impl Logins {
    /// Reads the users file, if there is one.
    ///
    /// # Errors
    /// As [`Users::read`].
    pub fn new(path: Option<PathBuf>, limits: &AccessLimits) -> Result<Self, ConfigError> {
        let users = path.as_deref().map(Users::read).transpose()?.unwrap_or_default();
        let key = secret::random().map_err(ConfigError)?;
        let dummy_hash =
            secret::hash_password(&secret::new_token().map_err(ConfigError)?).map_err(ConfigError)?;
        Ok(Self {
            path,
            users: RwLock::new(Arc::new(users)),
            edition: AtomicU64::new(0),
            throttle: Mutex::new(Throttle::new(limits.login_failures_max, limits.login_failure_ms)),
            cached: Mutex::new(CachedPasswords { key, right: HashSet::new() }),
            editing: Mutex::new(()),
            comparing: Mutex::new(()),
            dummy_hash,
        })
    }

    /// Reloads the users file. Connected clients are then to be [reviewed](Self::review).
    ///
    /// # Errors
    /// As [`Users::read`]; the users stay unchanged.
    pub fn reload(&self) -> Result<(), ConfigError> {
        let Some(path) = &self.path else { return Ok(()) };
        let users = Users::read(path)?;
        *self.users.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(users);
        self.cached().right.clear();
        self.edition.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Changes the users file, and reloads it.
    ///
    /// # Errors
    /// What `change` returns; a server without users; a file that cannot be read or written. The users then stay unchanged.
    pub fn edit(&self, change: impl FnOnce(&mut Users) -> Result<(), ConfigError>) -> Result<(), EditError> {
        let what = "the server has no users: start it with a users file, which `tapedb user add` creates";
        let path = self.path.as_deref().ok_or_else(|| EditError::Refused(ConfigError(what.into())))?;
        let _one = self.editing.lock().unwrap_or_else(PoisonError::into_inner);
        let unreadable = |error| EditError::Storage { error, is_full: false };
        // The file, which the command may have changed without a reload.
        let mut users = Users::read(path).map_err(unreadable)?;
        change(&mut users).map_err(EditError::Refused)?;
        users.replace(path)?;
        self.reload().map_err(unreadable)
    }

    /// Authenticates a client. `address` is `None` over a Unix socket. It may sleep, and hash a password.
    ///
    /// # Errors
    /// Why the client is refused.
    pub fn login(&self, address: Option<IpAddr>, credentials: Credentials<'_>) -> Result<Identity, Refusal> {
        // Read before the users: a reload in between is then noticed.
        let edition = self.edition();
        let identity = |user, proof| Identity { user: Arc::new(user), proof, edition };
        if self.path.is_none() {
            return Ok(identity(User::unrestricted(), Proof::None));
        }
        let users = self.users();
        if let Credentials::None = credentials {
            let anonymous = users.get(ANONYMOUS).cloned().ok_or(Refusal::Missing);
            return anonymous.map(|user| identity(user, Proof::None));
        }
        let found = match credentials {
            Credentials::Password { user, password } => match user.split_once(FOR) {
                None => self.by_password(&users, address, user, password)?,
                Some((by, user)) => self.for_another(&users, address, (by, user), password)?,
            },
            Credentials::Token(token) => by_token(&users, token),
            Credentials::None => None,
        };
        found.map(|(user, proof)| identity(user, proof)).ok_or(Refusal::Wrong)
    }

    /// The users file; `None`: every client may do everything.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Whether the users file was reloaded after this check.
    #[inline]
    pub fn is_outdated(&self, identity: &Identity) -> bool {
        self.edition.load(Ordering::Acquire) != identity.edition
    }

    /// Checks an identity again; `None`: the user was removed, or the secret is not valid any more.
    pub fn review(&self, identity: &Identity) -> Option<Identity> {
        let edition = self.edition();
        let users = self.users();
        let user = users.get(&identity.user.name)?;
        let is_good = match &identity.proof {
            Proof::For { by, proof } => {
                users.get(by).is_some_and(|by| by.may_act_for(&user.name) && is_valid(proof, by))
            }
            proof => is_valid(proof, user),
        };
        let proof = identity.proof.clone();
        let user = if matches!(proof, Proof::For { .. }) { reader(user) } else { user.clone() };
        is_good.then(|| Identity { user: Arc::new(user), proof, edition })
    }

    fn edition(&self) -> u64 {
        self.edition.load(Ordering::Acquire)
    }

    /// The users, as the file was read last.
    pub fn users(&self) -> Arc<Users> {
        self.users.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn by_password(
        &self,
        users: &Users,
        address: Option<IpAddr>,
        name: &str,
        password: &str,
    ) -> Result<Option<(User, Proof)>, Refusal> {
        let wait = self.throttle().admit(name, address, Instant::now()).ok_or(Refusal::TooOften)?;
        thread::sleep(wait);
        let user = users.get(name);
        let hash = user.and_then(|user| user.password.as_deref()).unwrap_or(&self.dummy_hash);
        let is_right = self.is_cached(hash, password) || {
            let _one = self.comparing.lock().unwrap_or_else(PoisonError::into_inner);
            // Other logins may have failed while this one waited for the lock. (A delayed login is counted already.)
            if wait.is_zero() && !self.throttle().left(name, address, Instant::now()).is_zero() {
                return Err(Refusal::TooOften);
            }
            secret::is_password(password, hash)
        };
        let user = user.filter(|user| is_right && user.password.is_some());
        match (&user, wait.is_zero()) {
            (Some(_), _) => self.throttle().succeeded(name, address),
            (None, true) => self.throttle().failed(name, address, Instant::now()),
            (None, false) => {}
        }
        if is_right {
            self.cache(hash, password);
        }
        Ok(user.map(|user| (user.clone(), Proof::Password(hash.into()))))
    }

    /// Authenticates one user, who may then act for another one. An unknown other one is refused like a wrong secret.
    fn for_another(
        &self,
        users: &Users,
        address: Option<IpAddr>,
        (by, user): (&str, &str),
        secret: &str,
    ) -> Result<Option<(User, Proof)>, Refusal> {
        let found = match secret.starts_with(TOKEN_PREFIX) {
            true => by_token(users, secret).filter(|(found, _)| found.name == by),
            false => self.by_password(users, address, by, secret)?,
        };
        let Some((by, proof)) = found.filter(|(by, _)| by.may_act_for(user)) else { return Ok(None) };
        let proof = Proof::For { by: by.name, proof: Box::new(proof) };
        Ok(users.get(user).map(|user| (reader(user), proof)))
    }

    fn is_cached(&self, hash: &str, password: &str) -> bool {
        let cached = self.cached();
        cached.right.contains(&cached.digest(hash, password))
    }

    fn cache(&self, hash: &str, password: &str) {
        let mut cached = self.cached();
        if cached.right.len() < CACHED_MAX {
            let digest = cached.digest(hash, password);
            cached.right.insert(digest);
        }
    }

    fn cached(&self) -> std::sync::MutexGuard<'_, CachedPasswords> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn throttle(&self) -> std::sync::MutexGuard<'_, Throttle> {
        self.throttle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CachedPasswords {
    fn digest(&self, hash: &str, password: &str) -> [u8; 32] {
        secret::digest(&[&self.key, hash.as_bytes(), password.as_bytes()])
    }
}

/// A user with the right to read alone, without others to act for.
fn reader(user: &User) -> User {
    let mut user = User { acts_for: Vec::new(), ..user.clone() };
    user.rights.iter_mut().for_each(|right| right.may.retain(|may| *may == May::Read));
    user
}

/// Whether a user still has a secret.
fn is_valid(proof: &Proof, user: &User) -> bool {
    match proof {
        Proof::None => true,
        Proof::Password(hash) => user.password.as_ref() == Some(hash),
        Proof::Token(hash) => user.tokens.iter().any(|token| token.hash == *hash),
        Proof::For { .. } => false,
    }
}

/// The user with a token. All tokens are compared, in a time that does not depend on how similar they are.
fn by_token(users: &Users, token: &str) -> Option<(User, Proof)> {
    let hash = secret::hash_token(token);
    let mut found = None;
    for user in &users.users {
        for known in &user.tokens {
            if secret::is_same(known.hash.as_bytes(), hash.as_bytes()) {
                found = Some(user);
            }
        }
    }
    found.map(|user| (user.clone(), Proof::Token(hash)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::users::{Right, Token};

    fn logins(directory: &tempfile::TempDir) -> Logins {
        let path = directory.path().join("users.toml");
        let password = Some(secret::hash_password("secret").unwrap());
        let tokens = vec![Token { name: "t".into(), hash: secret::hash_token("tape_1") }];
        let users = vec![
            User { name: "ann".into(), password, ..User::default() },
            User { name: "program".into(), tokens, ..User::default() },
        ];
        Users { users }.write(&path).unwrap();
        let limits =
            AccessLimits { login_failures_max: 3, login_failure_ms: 1_000_000, ..AccessLimits::default() };
        Logins::new(Some(path), &limits).unwrap()
    }

    fn name(login: Result<Identity, Refusal>) -> Result<String, Refusal> {
        login.map(|identity| identity.user.name.clone())
    }

    const HERE: Option<IpAddr> = Some(IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)));
    const RIGHT: Credentials<'_> = Credentials::Password { user: "ann", password: "secret" };
    const WRONG: Credentials<'_> = Credentials::Password { user: "ann", password: "Secret" };

    #[test]
    fn correct_secrets_are_accepted() {
        let directory = tempfile::tempdir().unwrap();
        let logins = logins(&directory);
        assert_eq!(name(logins.login(HERE, RIGHT)), Ok("ann".into()));
        assert_eq!(name(logins.login(HERE, RIGHT)), Ok("ann".into()), "cached");
        assert_eq!(name(logins.login(HERE, Credentials::Token("tape_1"))), Ok("program".into()));
        assert_eq!(name(logins.login(HERE, Credentials::None)), Err(Refusal::Missing));
        let without = Credentials::Password { user: "program", password: "" };
        assert_eq!(name(logins.login(HERE, without)), Err(Refusal::Wrong), "has no password");
    }

    #[test]
    fn too_many_wrong_passwords_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let logins = logins(&directory);
        for _ in 0..3 {
            assert_eq!(name(logins.login(HERE, WRONG)), Err(Refusal::Wrong));
        }
        assert_eq!(name(logins.login(HERE, RIGHT)), Err(Refusal::TooOften));
        let elsewhere = Some("192.0.2.2".parse().unwrap());
        assert_eq!(name(logins.login(elsewhere, RIGHT)), Ok("ann".into()), "from another address");
        let bob = Credentials::Password { user: "bob", password: "secret" };
        assert_eq!(name(logins.login(HERE, bob)), Err(Refusal::Wrong), "it is checked");
        for _ in 0..10 {
            assert_eq!(name(logins.login(HERE, Credentials::Token("tape_2"))), Err(Refusal::Wrong));
            assert_eq!(name(logins.login(None, WRONG)), Err(Refusal::Wrong), "on this machine");
        }
        assert_eq!(name(logins.login(HERE, Credentials::Token("tape_1"))), Ok("program".into()));
        assert_eq!(name(logins.login(None, RIGHT)), Ok("ann".into()));
    }

    #[test]
    fn removed_users_are_not_cached() {
        let directory = tempfile::tempdir().unwrap();
        let logins = logins(&directory);
        assert!(logins.login(HERE, RIGHT).is_ok());
        Users::default().write(&directory.path().join("users.toml")).unwrap();
        assert!(logins.login(HERE, RIGHT).is_ok(), "not reloaded yet");
        logins.reload().unwrap();
        assert_eq!(name(logins.login(HERE, RIGHT)), Err(Refusal::Wrong));
        std::fs::write(directory.path().join("users.toml"), "nonsense").unwrap();
        assert!(logins.reload().unwrap_err().to_string().contains("users.toml"));
    }

    #[test]
    fn an_identity_is_valid_while_its_secret_is() {
        let directory = tempfile::tempdir().unwrap();
        let (logins, path) = (logins(&directory), directory.path().join("users.toml"));
        let ann = logins.login(HERE, RIGHT).unwrap();
        let program = logins.login(HERE, Credentials::Token("tape_1")).unwrap();
        assert!(!logins.is_outdated(&ann));
        let mut users = Users::read(&path).unwrap();
        users.get_mut("ann").unwrap().rights = vec![Right { streams: "*".into(), may: vec![May::Read] }];
        users.get_mut("program").unwrap().tokens.clear();
        users.write(&path).unwrap();
        logins.reload().unwrap();
        assert!(logins.is_outdated(&ann) && logins.is_outdated(&program));
        let ann = logins.review(&ann).unwrap();
        assert!(!logins.is_outdated(&ann) && ann.user.may(May::Read, "s"));
        assert!(logins.review(&program).is_none(), "the token was removed");
        users.get_mut("ann").unwrap().password = Some(secret::hash_password("secret").unwrap());
        users.write(&path).unwrap();
        logins.reload().unwrap();
        assert!(logins.review(&ann).is_none(), "the password was changed");
    }

    #[test]
    fn a_user_acts_for_others_with_their_rights() {
        let directory = tempfile::tempdir().unwrap();
        let (logins, path) = (logins(&directory), directory.path().join("users.toml"));
        let mut users = Users::read(&path).unwrap();
        let cluster = User {
            name: "cluster".into(),
            tokens: vec![Token { name: "t".into(), hash: secret::hash_token("tape_2") }],
            acts_for: vec!["a*".into()],
            ..User::default()
        };
        users.users.push(cluster);
        users.get_mut("ann").unwrap().rights =
            vec![Right { streams: "bars".into(), may: vec![May::Read, May::Admin] }];
        users.write(&path).unwrap();
        logins.reload().unwrap();
        let of = |by: &str, user: &str, secret: &str| {
            let user = name_for(by, user);
            logins.login(HERE, Credentials::Password { user: &user, password: secret })
        };
        let ann = of("cluster", "ann", "tape_2").unwrap();
        assert!(
            ann.user.name == "ann" && ann.user.may(May::Read, "bars") && !ann.user.may(May::Read, "other")
        );
        assert!(!ann.user.may(May::Admin, "bars"), "it reads");
        for (by, user, secret) in [
            ("cluster", "program", "tape_2"),
            ("cluster", "anybody", "tape_2"),
            ("cluster", "ann", "tape_1"),
            ("cluster", "ann", "tape_3"),
            ("program", "ann", "tape_1"),
            ("ann", "ann", "secret"),
            ("ann", "cluster", "secret"),
            ("cluster", "", "tape_2"),
        ] {
            assert_eq!(name(of(by, user, secret)), Err(Refusal::Wrong), "{by} for {user} with {secret}");
        }
        assert!(logins.review(&ann).is_some());
        users.get_mut("cluster").unwrap().acts_for.clear();
        users.write(&path).unwrap();
        logins.reload().unwrap();
        assert!(logins.review(&ann).is_none(), "it may not act for others any more");
    }

    #[test]
    fn edited_users_apply_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let logins = logins(&directory);
        let ann = logins.login(HERE, RIGHT).unwrap();
        let refused = logins.edit(|_| Err(ConfigError("no".into())));
        assert_eq!(refused, Err(EditError::Refused(ConfigError("no".into()))));
        assert!(!logins.is_outdated(&ann));
        logins
            .edit(|users| {
                users.users.retain(|user| user.name != "ann");
                Ok(())
            })
            .unwrap();
        assert!(logins.is_outdated(&ann) && logins.review(&ann).is_none());
        assert!(Users::read(&directory.path().join("users.toml")).unwrap().get("ann").is_none());
        assert!(Logins::new(None, &AccessLimits::default()).unwrap().edit(|_| Ok(())).is_err());
    }

    #[test]
    fn without_a_users_file_every_client_may_do_everything() {
        let logins = Logins::new(None, &AccessLimits::default()).unwrap();
        let identity = logins.login(HERE, WRONG);
        assert_eq!(name(identity.clone()), Ok(ANONYMOUS.into()));
        logins.reload().unwrap();
        assert!(!logins.is_outdated(&identity.unwrap()), "there is no file to reload");
    }
}
