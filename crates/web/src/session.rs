//! Sessions of browsers: a random token in a cookie, and its hash here.
//!
//! Always true: a session's token is nowhere but in its cookie; a session ends when it was not used for a time, after a time, when
//! its user's rights or secret change, and at a logout; there are at most [`SESSIONS_MAX`].

use crate::options::WebLimits;
use axum::http::HeaderMap;
use axum::http::header::COOKIE;
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tapedb_access::{AuthenticatedUser, User, digest, random};

/// Sessions at once; a further one ends the one that was unused for longest.
const SESSIONS_MAX: usize = 4096;
/// Bytes of a token: 256 bits.
const TOKEN_BYTES: usize = 32;

/// The hash of a session's token.
pub(crate) type SessionKey = [u8; 32];

/// The sessions.
#[derive(Debug)]
pub(crate) struct Sessions {
    /// The cookie's name.
    cookie: String,
    is_secure: bool,
    idle: Duration,
    time: Duration,
    open: Mutex<HashMap<SessionKey, Session>>,
}

#[derive(Debug)]
struct Session {
    user: Arc<AuthenticatedUser>,
    /// The user at the login.
    at_login: Arc<User>,
    began: Instant,
    used: Instant,
}

impl Sessions {
    /// No sessions. Browsers send the cookies of one host to all its ports, so the name has the port.
    pub fn new(port: u16, is_secure: bool, limits: &WebLimits) -> Self {
        let prefix = if is_secure { "__Host-" } else { "" };
        Self {
            cookie: format!("{prefix}tapedb-{port}"),
            is_secure,
            idle: limits.session_idle,
            time: limits.session_time,
            open: Mutex::default(),
        }
    }

    /// Begins a session; returns the value of `Set-Cookie`.
    ///
    /// # Errors
    /// A system without random numbers; a user that was removed since.
    pub fn begin(&self, user: AuthenticatedUser, now: Instant) -> Result<String, String> {
        let at_login = user.user().ok_or("the user was removed")?;
        let token = random::<TOKEN_BYTES>()?.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
        let mut open = self.open();
        open.retain(|_, session| !self.is_over(session, now));
        if open.len() >= SESSIONS_MAX
            && let Some(oldest) = open.iter().min_by_key(|(_, session)| session.used).map(|(key, _)| *key)
        {
            open.remove(&oldest);
        }
        let session = Session { user: Arc::new(user), at_login, began: now, used: now };
        open.insert(key(&token), session);
        Ok(self.header(&token, self.time.as_secs()))
    }

    /// The key of the session that the request names.
    pub fn key_of(&self, headers: &HeaderMap) -> Option<SessionKey> {
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs =
            cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(name, _)| *name == self.cookie).map(|(_, token)| key(token))
    }

    /// The user of a session, which is used now; `None`: it has ended.
    pub fn user(&self, key: &SessionKey, now: Instant) -> Option<Arc<User>> {
        self.look(key, now, true)
    }

    /// The user of a session, whose idle time goes on; `None`: it has ended.
    pub fn watching(&self, key: &SessionKey, now: Instant) -> Option<Arc<User>> {
        self.look(key, now, false)
    }

    fn look(&self, key: &SessionKey, now: Instant, is_use: bool) -> Option<Arc<User>> {
        let mut open = self.open();
        let session = open.get_mut(key)?;
        let user = session.user.user().filter(|_| !self.is_over(session, now));
        let user = user.filter(|user| user.rights == session.at_login.rights);
        match &user {
            Some(_) if is_use => session.used = now,
            Some(_) => {}
            None => drop(open.remove(key)),
        }
        user
    }

    /// Ends a session; returns the value of `Set-Cookie` that removes the cookie.
    pub fn end(&self, key: Option<SessionKey>) -> String {
        if let Some(key) = key {
            self.open().remove(&key);
        }
        self.header("", 0)
    }

    fn header(&self, token: &str, seconds: u64) -> String {
        let secure = if self.is_secure { "; Secure" } else { "" };
        format!("{}={token}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}", self.cookie)
    }

    fn is_over(&self, session: &Session, now: Instant) -> bool {
        now.saturating_duration_since(session.used) >= self.idle
            || now.saturating_duration_since(session.began) >= self.time
    }

    fn open(&self) -> MutexGuard<'_, HashMap<SessionKey, Session>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Only the hash of a token is compared, so the time that takes tells nothing of it.
fn key(token: &str) -> SessionKey {
    digest(&[token.as_bytes()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use tapedb_access::{Authenticator, May, Right, Users, hash_password};

    struct Place {
        _folder: tempfile::TempDir,
        authenticator: Authenticator,
        sessions: Sessions,
    }

    fn place(is_secure: bool) -> Place {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users.toml");
        let rights = vec![Right { streams: "a".into(), may: vec![May::Read] }];
        let password = Some(hash_password("secret").unwrap());
        let ann = User { name: "ann".into(), password, rights, ..User::default() };
        Users { users: vec![ann] }.write(&path).unwrap();
        let limits = WebLimits {
            session_idle: Duration::from_secs(10),
            session_time: Duration::from_secs(25),
            ..WebLimits::default()
        };
        let authenticator = Authenticator::open(Some(path)).unwrap();
        Place { _folder: folder, authenticator, sessions: Sessions::new(7, is_secure, &limits) }
    }

    impl Place {
        fn login(&self, now: Instant) -> (String, SessionKey) {
            let ann = self.authenticator.authenticate(None, "ann", "secret").unwrap();
            let header = self.sessions.begin(ann, now).unwrap();
            let cookie = header.split(';').next().unwrap().to_string();
            let headers = HeaderMap::from_iter([(COOKIE, format!("x=1; {cookie}").parse().unwrap())]);
            (header, self.sessions.key_of(&headers).unwrap())
        }
    }

    #[test]
    fn cookies_are_strict() {
        let now = Instant::now();
        let (plain, _) = place(false).login(now);
        assert!(
            plain.starts_with("tapedb-7=")
                && plain.ends_with("; Path=/; HttpOnly; SameSite=Strict; Max-Age=25")
        );
        let token = plain.split(['=', ';']).nth(1).unwrap();
        assert_eq!(token.len(), 64, "256 bits");
        let place = place(true);
        let (secure, _) = place.login(now);
        assert!(secure.starts_with("__Host-tapedb-7=") && secure.ends_with("; Secure"), "{secure}");
        let stored = format!("{:?}", place.sessions);
        let token = secure.split(['=', ';']).nth(1).unwrap();
        assert!(!stored.contains(token), "only its hash is stored");
    }

    #[test]
    fn sessions_end() {
        let (place, now) = (place(false), Instant::now());
        let at = |seconds| now + Duration::from_secs(seconds);
        let user = |key: &SessionKey, time| place.sessions.user(key, time).map(|user| user.name.clone());
        let (_, key) = place.login(now);
        assert_eq!(user(&key, at(9)).as_deref(), Some("ann"));
        assert_eq!(user(&key, at(18)).as_deref(), Some("ann"), "it was used");
        assert_eq!(user(&key, at(26)), None, "after a time in any case");
        let (_, key) = place.login(now);
        assert_eq!(user(&key, at(10)), None, "unused");
        let (_, key) = place.login(now);
        assert!(place.sessions.end(Some(key)).contains("Max-Age=0"));
        assert_eq!(user(&key, now), None);
        assert_eq!(user(&[0; 32], now), None);
    }

    #[test]
    fn sessions_end_with_a_change_of_rights() {
        let (place, now) = (place(false), Instant::now());
        let (_, key) = place.login(now);
        place.authenticator.logins().reload().unwrap();
        assert!(place.sessions.user(&key, now).is_some(), "nothing has changed");
        let more = Right { streams: "b".into(), may: vec![May::Read] };
        let edited = place.authenticator.logins().edit(|users| {
            users.get_mut("ann").unwrap().rights.push(more);
            Ok(())
        });
        edited.unwrap();
        assert!(place.sessions.user(&key, now).is_none());
    }
}
