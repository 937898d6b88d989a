//! What all connections of one user share: how many there are, what they watch, how fast they may go.

use crate::config::Limits;
use crate::users::User;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The accounts of the users who are connected.
#[derive(Debug, Default)]
pub(crate) struct Accounts(Mutex<HashMap<String, Arc<Account>>>);

/// One user's account.
#[derive(Debug)]
pub(crate) struct Account {
    connections: Arc<AtomicUsize>,
    watches: Arc<AtomicUsize>,
    pub meter: Meter,
}

/// A place among so many; free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Place(Arc<AtomicUsize>);

impl Place {
    /// A place, if fewer than `most` are taken.
    pub fn take(taken: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        let one_more = |count: usize| (count < most).then_some(count + 1);
        taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).ok()?;
        Some(Self(taken.clone()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Accounts {
    /// The user's account, and a place for one more connection; `None` when he has all that he may have.
    pub fn open(&self, user: &User, limits: &Limits) -> Option<(Arc<Account>, Place)> {
        let mut accounts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Who is not connected has none; it is looked for where the next one comes.
        accounts.retain(|_, account| account.connections.load(Ordering::Acquire) > 0);
        let account =
            accounts.entry(user.name.clone()).or_insert_with(|| Arc::new(Account::new(user, limits)));
        let most = user.limits.connections_max.unwrap_or(limits.connections_per_user_max);
        let place = Place::take(&account.connections, most)?;
        Some((account.clone(), place))
    }
}

impl Account {
    fn new(user: &User, limits: &Limits) -> Self {
        let meter = Meter::new(bytes_per_second_max(user, limits));
        Self { connections: Arc::default(), watches: Arc::default(), meter }
    }

    /// Takes over the limits that the user has by now.
    pub fn renew(&self, user: &User, limits: &Limits) {
        self.meter.per_second.store(bytes_per_second_max(user, limits), Ordering::Relaxed);
    }

    /// A place for one more watch.
    pub fn watch(&self, user: &User, limits: &Limits) -> Option<Place> {
        Place::take(&self.watches, user.limits.watches_max.unwrap_or(limits.watches_per_user_max))
    }
}

fn bytes_per_second_max(user: &User, limits: &Limits) -> u64 {
    user.limits.bytes_per_second_max.unwrap_or(limits.bytes_per_second_max)
}

/// Lets so many bytes a second through. A second's worth may come at once.
#[derive(Debug)]
pub(crate) struct Meter {
    /// 0: any number.
    per_second: AtomicU64,
    /// Everything that was let through will have been paid for by then.
    paid_at: Mutex<Instant>,
}

impl Meter {
    fn new(per_second: u64) -> Self {
        Self { per_second: AtomicU64::new(per_second), paid_at: Mutex::new(Instant::now()) }
    }

    /// Counts bytes that went through.
    pub fn count(&self, bytes: u64, now: impl FnOnce() -> Instant) {
        let per_second = self.per_second.load(Ordering::Relaxed);
        if per_second > 0 && bytes > 0 {
            let price =
                Duration::from_nanos((u128::from(bytes) * 1_000_000_000 / u128::from(per_second)) as u64);
            let mut paid_at = self.paid_at.lock().unwrap_or_else(PoisonError::into_inner);
            *paid_at = (*paid_at).max(now()) + price;
        }
    }

    /// How long to wait before anything more may go through; zero: not at all.
    pub fn wait(&self, now: impl FnOnce() -> Instant) -> Duration {
        if self.per_second.load(Ordering::Relaxed) == 0 {
            return Duration::ZERO;
        }
        let paid_at = *self.paid_at.lock().unwrap_or_else(PoisonError::into_inner);
        paid_at.saturating_duration_since(now()).saturating_sub(Duration::from_secs(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_so_many_connections_and_no_more() {
        let accounts = Accounts::default();
        let user = User { name: "ann".into(), ..User::almighty() };
        let limits = Limits { connections_per_user_max: 2, watches_per_user_max: 1, ..Limits::default() };
        let first = accounts.open(&user, &limits).unwrap();
        let second = accounts.open(&user, &limits).unwrap();
        assert!(accounts.open(&user, &limits).is_none());
        assert!(accounts.open(&User::almighty(), &limits).is_some(), "another user");
        let watch = first.0.watch(&user, &limits).unwrap();
        assert!(second.0.watch(&user, &limits).is_none(), "over all connections");
        drop((watch, first));
        assert!(second.0.watch(&user, &limits).is_some());
        assert!(accounts.open(&user, &limits).is_some());
    }

    #[test]
    fn a_meter_lets_a_second_through_and_then_waits() {
        let meter = Meter::new(1000);
        let now = Instant::now();
        meter.count(1000, || now);
        assert_eq!(meter.wait(|| now), Duration::ZERO);
        meter.count(500, || now);
        let wait = meter.wait(|| now);
        assert!(wait > Duration::from_millis(400) && wait <= Duration::from_millis(500), "{wait:?}");
        assert_eq!(meter.wait(|| now + Duration::from_millis(500)), Duration::ZERO);
        let free = Meter::new(0);
        free.count(u64::MAX, || now);
        assert_eq!(free.wait(|| now), Duration::ZERO);
    }
}
