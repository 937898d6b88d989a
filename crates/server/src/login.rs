//! Who it is that connects: names and secrets against the users file, and how often one may be wrong.
//!
//! Always true: at most one password is compared at a time, whoever asks, so that logins take no more than one core; a
//! user who has been wrong too often from an address waits there, or is refused without any comparison; what was found right is remembered (as a
//! hash under a key of this process), so that a thousand programs which connect again do not queue. Who has been let in
//! keeps the proof of it: when the users are read again, it shows whether he would still be.

use crate::config::{ConfigError, Limits};
use crate::secret;
use crate::throttle::Throttle;
use crate::users::{ANONYMOUS, User, Users};
use std::collections::HashSet;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread;
use std::time::Instant;

/// Right passwords that are remembered; beyond, they are compared anew.
const REMEMBERED_MAX: usize = 4096;

/// What somebody says to be let in.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Credentials<'a> {
    /// Nothing.
    None,
    /// A name and a password.
    Password { user: &'a str, password: &'a str },
    /// A token, which names its user too.
    Token(&'a str),
}

/// Why somebody is not let in. He is told no more than this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The name, the password or the token is wrong.
    Wrong,
    /// Nothing was said, and nobody may be nobody.
    Missing,
    /// Too many passwords of that user were wrong from his address.
    TooOften,
}

/// Somebody who has been let in.
#[derive(Debug, Clone)]
pub(crate) struct Admitted {
    /// Who he is, and what he may do.
    pub user: Arc<User>,
    proof: Proof,
    /// The users file that said so: how often it had been read again.
    edition: u64,
}

/// How somebody has shown who he is: what was kept of his secret then.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Proof {
    /// He did not need to.
    None,
    Password(String),
    Token(String),
}

/// Lets users in.
#[derive(Debug)]
pub(crate) struct Logins {
    /// `None`: everybody may do everything.
    path: Option<PathBuf>,
    users: RwLock<Arc<Users>>,
    /// How often the users have been read again.
    edition: AtomicU64,
    throttle: Mutex<Throttle>,
    remembered: Mutex<Remembered>,
    /// Held while a password is compared.
    comparing: Mutex<()>,
    /// Compared with where there is no such user, so that answers take as long.
    nobody: String,
}

#[derive(Debug)]
struct Remembered {
    key: [u8; 32],
    right: HashSet<[u8; 32]>,
}

impl Logins {
    /// Reads the users file, if there is one.
    pub fn new(path: Option<PathBuf>, limits: &Limits) -> Result<Self, ConfigError> {
        let users = path.as_deref().map(Users::read).transpose()?.unwrap_or_default();
        let key = secret::random().map_err(ConfigError)?;
        let nobody =
            secret::hash_password(&secret::new_token().map_err(ConfigError)?).map_err(ConfigError)?;
        Ok(Self {
            path,
            users: RwLock::new(Arc::new(users)),
            edition: AtomicU64::new(0),
            throttle: Mutex::new(Throttle::new(limits.login_failures_max, limits.login_failure_ms)),
            remembered: Mutex::new(Remembered { key, right: HashSet::new() }),
            comparing: Mutex::new(()),
            nobody,
        })
    }

    /// Reads the users file again. Who is connected is to be [reviewed](Self::review).
    pub fn reload(&self) -> Result<(), ConfigError> {
        let Some(path) = &self.path else { return Ok(()) };
        let users = Users::read(path)?;
        *self.users.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(users);
        self.remembered().right.clear();
        self.edition.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Who somebody is. `address` is none over a Unix socket.
    pub fn login(&self, address: Option<IpAddr>, credentials: Credentials<'_>) -> Result<Admitted, Refusal> {
        // Before the users: what changes meanwhile is looked at again.
        let edition = self.edition();
        let admitted = |user, proof| Admitted { user: Arc::new(user), proof, edition };
        if self.path.is_none() {
            return Ok(admitted(User::almighty(), Proof::None));
        }
        let users = self.users();
        if let Credentials::None = credentials {
            let anonymous = users.get(ANONYMOUS).cloned().ok_or(Refusal::Missing);
            return anonymous.map(|user| admitted(user, Proof::None));
        }
        let found = match credentials {
            Credentials::Password { user, password } => self.by_password(&users, address, user, password)?,
            Credentials::Token(token) => by_token(&users, token),
            Credentials::None => None,
        };
        found.map(|(user, proof)| admitted(user, proof)).ok_or(Refusal::Wrong)
    }

    /// Whether the users have been read again since somebody was looked at.
    #[inline]
    pub fn is_outdated(&self, admitted: &Admitted) -> bool {
        self.edition.load(Ordering::Acquire) != admitted.edition
    }

    /// Who somebody is by now; `None`: he would not be let in any more, for he is not there, or what he showed is not good.
    pub fn review(&self, admitted: &Admitted) -> Option<Admitted> {
        let edition = self.edition();
        let users = self.users();
        let user = users.get(&admitted.user.name)?;
        let is_good = match &admitted.proof {
            Proof::None => true,
            Proof::Password(hash) => user.password.as_ref() == Some(hash),
            Proof::Token(hash) => user.tokens.iter().any(|token| token.hash == *hash),
        };
        let proof = admitted.proof.clone();
        is_good.then(|| Admitted { user: Arc::new(user.clone()), proof, edition })
    }

    fn edition(&self) -> u64 {
        self.edition.load(Ordering::Acquire)
    }

    fn users(&self) -> Arc<Users> {
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
        let hash = user.and_then(|user| user.password.as_deref()).unwrap_or(&self.nobody);
        let is_right = self.remembers(hash, password) || {
            let _one = self.comparing.lock().unwrap_or_else(PoisonError::into_inner);
            // Those who waited beside it may have failed meanwhile. (Who has waited has been counted.)
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
            self.remember(hash, password);
        }
        Ok(user.map(|user| (user.clone(), Proof::Password(hash.into()))))
    }

    fn remembers(&self, hash: &str, password: &str) -> bool {
        let remembered = self.remembered();
        remembered.right.contains(&remembered.digest(hash, password))
    }

    fn remember(&self, hash: &str, password: &str) {
        let mut remembered = self.remembered();
        if remembered.right.len() < REMEMBERED_MAX {
            let digest = remembered.digest(hash, password);
            remembered.right.insert(digest);
        }
    }

    fn remembered(&self) -> std::sync::MutexGuard<'_, Remembered> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn throttle(&self) -> std::sync::MutexGuard<'_, Throttle> {
        self.throttle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Remembered {
    fn digest(&self, hash: &str, password: &str) -> [u8; 32] {
        secret::digest(&[&self.key, hash.as_bytes(), password.as_bytes()])
    }
}

/// The user with that token. All are compared, in a time that does not tell which was nearly right.
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
    use crate::users::{May, Right, Token};

    fn logins(directory: &tempfile::TempDir) -> Logins {
        let path = directory.path().join("users.toml");
        let password = Some(secret::hash_password("secret").unwrap());
        let tokens = vec![Token { name: "t".into(), hash: secret::hash_token("tape_1") }];
        let users = vec![
            User { name: "ann".into(), password, ..User::default() },
            User { name: "program".into(), tokens, ..User::default() },
        ];
        Users { users }.write(&path).unwrap();
        let limits = Limits { login_failures_max: 3, login_failure_ms: 1_000_000, ..Limits::default() };
        Logins::new(Some(path), &limits).unwrap()
    }

    fn name(login: Result<Admitted, Refusal>) -> Result<String, Refusal> {
        login.map(|admitted| admitted.user.name.clone())
    }

    const HERE: Option<IpAddr> = Some(IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)));
    const RIGHT: Credentials<'_> = Credentials::Password { user: "ann", password: "secret" };
    const WRONG: Credentials<'_> = Credentials::Password { user: "ann", password: "Secret" };

    #[test]
    fn who_knows_the_secret_is_let_in() {
        let directory = tempfile::tempdir().unwrap();
        let logins = logins(&directory);
        assert_eq!(name(logins.login(HERE, RIGHT)), Ok("ann".into()));
        assert_eq!(name(logins.login(HERE, RIGHT)), Ok("ann".into()), "by memory");
        assert_eq!(name(logins.login(HERE, Credentials::Token("tape_1"))), Ok("program".into()));
        assert_eq!(name(logins.login(HERE, Credentials::None)), Err(Refusal::Missing));
        let without = Credentials::Password { user: "program", password: "" };
        assert_eq!(name(logins.login(HERE, without)), Err(Refusal::Wrong), "has no password");
    }

    #[test]
    fn who_is_wrong_too_often_is_not_listened_to() {
        let directory = tempfile::tempdir().unwrap();
        let logins = logins(&directory);
        for _ in 0..3 {
            assert_eq!(name(logins.login(HERE, WRONG)), Err(Refusal::Wrong));
        }
        assert_eq!(name(logins.login(HERE, RIGHT)), Err(Refusal::TooOften));
        let elsewhere = Some("192.0.2.2".parse().unwrap());
        assert_eq!(name(logins.login(elsewhere, RIGHT)), Ok("ann".into()), "from elsewhere");
        let bob = Credentials::Password { user: "bob", password: "secret" };
        assert_eq!(name(logins.login(HERE, bob)), Err(Refusal::Wrong), "who is looked at");
        for _ in 0..10 {
            assert_eq!(name(logins.login(HERE, Credentials::Token("tape_2"))), Err(Refusal::Wrong));
            assert_eq!(name(logins.login(None, WRONG)), Err(Refusal::Wrong), "on this machine");
        }
        assert_eq!(name(logins.login(HERE, Credentials::Token("tape_1"))), Ok("program".into()));
        assert_eq!(name(logins.login(None, RIGHT)), Ok("ann".into()));
    }

    #[test]
    fn what_was_taken_away_is_not_remembered() {
        let directory = tempfile::tempdir().unwrap();
        let logins = logins(&directory);
        assert!(logins.login(HERE, RIGHT).is_ok());
        Users::default().write(&directory.path().join("users.toml")).unwrap();
        assert!(logins.login(HERE, RIGHT).is_ok(), "not read yet");
        logins.reload().unwrap();
        assert_eq!(name(logins.login(HERE, RIGHT)), Err(Refusal::Wrong));
        std::fs::write(directory.path().join("users.toml"), "nonsense").unwrap();
        assert!(logins.reload().unwrap_err().to_string().contains("users.toml"));
    }

    #[test]
    fn who_is_in_stays_in_with_what_he_showed() {
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
        assert!(logins.review(&program).is_none(), "his token was taken away");
        users.get_mut("ann").unwrap().password = Some(secret::hash_password("secret").unwrap());
        users.write(&path).unwrap();
        logins.reload().unwrap();
        assert!(logins.review(&ann).is_none(), "his password was set anew");
    }

    #[test]
    fn without_a_users_file_everybody_may_do_everything() {
        let logins = Logins::new(None, &Limits::default()).unwrap();
        let admitted = logins.login(HERE, WRONG);
        assert_eq!(name(admitted.clone()), Ok(ANONYMOUS.into()));
        logins.reload().unwrap();
        assert!(!logins.is_outdated(&admitted.unwrap()), "there is nothing to read again");
    }
}
