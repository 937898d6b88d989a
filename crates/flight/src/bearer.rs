//! Tokens that a handshake gives: each stands for a user for a time.
//!
//! Always true: only hashes of tokens are held; a token ends after a time without calls, after a longer time in any case, and when its
//! user is removed or has another password.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tapedb_access::{AuthenticatedUser, digest, random};

/// What tokens of handshakes begin with.
pub(crate) const PREFIX: &str = "flight_";
/// A token ends after so long without a call.
const IDLE_TIME: Duration = Duration::from_secs(8 * 3600);
/// A token ends after so long.
const WHOLE_TIME: Duration = Duration::from_secs(24 * 3600);
/// Tokens of one user: the one that was not used for longest ends.
const OF_USER_MAX: usize = 1000;
/// Tokens of all users: there is no further one.
const ALL_MAX: usize = 100_000;

/// The tokens that are good.
#[derive(Debug, Default)]
pub(crate) struct Bearers(Mutex<HashMap<[u8; 32], Bearer>>);

#[derive(Debug)]
struct Bearer {
    user: Arc<AuthenticatedUser>,
    name: String,
    begun: Instant,
    used: Instant,
}

impl Bearer {
    fn is_good(&self, now: Instant) -> bool {
        now.duration_since(self.used) < IDLE_TIME && now.duration_since(self.begun) < WHOLE_TIME
    }
}

impl Bearers {
    fn lock(&self) -> MutexGuard<'_, HashMap<[u8; 32], Bearer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new token; `None`: there are too many, or no random numbers.
    pub fn add(&self, user: Arc<AuthenticatedUser>, name: &str, now: Instant) -> Option<String> {
        let secret = random::<32>().ok()?;
        let hex: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        let token = format!("{PREFIX}{hex}");
        let mut all = self.lock();
        let of_user = all.values().filter(|bearer| bearer.name == name).count();
        if of_user >= OF_USER_MAX || all.len() >= ALL_MAX {
            all.retain(|_, bearer| bearer.is_good(now) && bearer.user.user().is_some());
        }
        if of_user >= OF_USER_MAX {
            let of_user = all.iter().filter(|(_, bearer)| bearer.name == name);
            if let Some(oldest) = of_user.min_by_key(|(_, bearer)| bearer.used).map(|(hash, _)| *hash) {
                all.remove(&oldest);
            }
        }
        if all.len() >= ALL_MAX {
            return None;
        }
        all.insert(digest(&[token.as_bytes()]), Bearer { user, name: name.into(), begun: now, used: now });
        Some(token)
    }

    /// The user of a token, and its name; `None`: the token is not good.
    pub fn user(&self, token: &str, now: Instant) -> Option<(Arc<AuthenticatedUser>, String)> {
        let hash = digest(&[token.as_bytes()]);
        let mut all = self.lock();
        let bearer = all.get_mut(&hash)?;
        if !bearer.is_good(now) || bearer.user.user().is_none() {
            all.remove(&hash);
            return None;
        }
        bearer.used = now;
        Some((bearer.user.clone(), bearer.name.clone()))
    }

    /// Ends a token.
    pub fn remove(&self, token: &str) {
        self.lock().remove(&digest(&[token.as_bytes()]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tapedb_access::{Authenticator, Credentials};

    fn user() -> Arc<AuthenticatedUser> {
        Arc::new(Authenticator::open(None).unwrap().login(None, Credentials::None).unwrap())
    }

    #[test]
    fn tokens_end_with_time() {
        let (bearers, start) = (Bearers::default(), Instant::now());
        let token = bearers.add(user(), "ann", start).unwrap();
        let hour = Duration::from_secs(3600);
        assert!(bearers.user(&token, start + 7 * hour).is_some());
        assert!(bearers.user(&token, start + 14 * hour).is_some(), "it was used in between");
        assert!(bearers.user(&token, start + 23 * hour).is_none(), "it was not used for nine hours");
        assert!(bearers.user("flight_00", start).is_none());
        let token = bearers.add(user(), "ann", start).unwrap();
        for hours in (7..24).step_by(7) {
            assert!(bearers.user(&token, start + hours * hour).is_some());
        }
        assert!(bearers.user(&token, start + 25 * hour).is_none(), "no use makes it last longer");
        let token = bearers.add(user(), "ann", start).unwrap();
        bearers.remove(&token);
        assert!(bearers.user(&token, start).is_none());
    }

    #[test]
    fn a_user_has_so_many_tokens() {
        let (bearers, start, user) = (Bearers::default(), Instant::now(), user());
        let first = bearers.add(user.clone(), "ann", start).unwrap();
        for _ in 0..OF_USER_MAX {
            bearers.add(user.clone(), "ann", start + Duration::from_secs(1)).unwrap();
        }
        assert_eq!(bearers.lock().len(), OF_USER_MAX);
        assert!(bearers.user(&first, start + Duration::from_secs(2)).is_none());
    }
}
