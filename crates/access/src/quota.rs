//! Quotas of a user, shared by all of the user's connections: connections, watches, queries, bytes per second.

use crate::limits::AccessLimits;
use crate::users::User;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The quotas of all connected users.
#[derive(Debug, Default)]
pub struct Quotas(Mutex<HashMap<String, Arc<UserQuota>>>);

/// One user's quotas.
#[derive(Debug)]
pub struct UserQuota {
    connections: Arc<AtomicUsize>,
    watches: Arc<AtomicUsize>,
    queries: Arc<AtomicUsize>,
    /// Bytes per second to and from the user.
    pub rate_limit: RateLimit,
}

/// One of a limited number; given back when dropped.
#[derive(Debug)]
pub struct Permit(Arc<AtomicUsize>);

impl Permit {
    /// Takes a permit, if fewer than `most` are taken.
    pub fn take(taken: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        let one_more = |count: usize| (count < most).then_some(count + 1);
        taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).ok()?;
        Some(Self(taken.clone()))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Quotas {
    /// The user's quota, and a permit for one more connection; `None` when the user has reached the limit.
    pub fn open(&self, user: &User, limits: &AccessLimits) -> Option<(Arc<UserQuota>, Permit)> {
        let mut quotas = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Quotas of users without connections are dropped when the next connection is opened.
        quotas.retain(|_, quota| quota.connections.load(Ordering::Acquire) > 0);
        let quota = quotas.entry(user.name.clone()).or_insert_with(|| Arc::new(UserQuota::new(user, limits)));
        let most = user.limits.connections_max.unwrap_or(limits.connections_per_user_max);
        let permit = Permit::take(&quota.connections, most)?;
        Some((quota.clone(), permit))
    }
}

impl UserQuota {
    fn new(user: &User, limits: &AccessLimits) -> Self {
        let rate_limit = RateLimit::new(bytes_per_second_max(user, limits));
        Self { connections: Arc::default(), watches: Arc::default(), queries: Arc::default(), rate_limit }
    }

    /// Applies changed limits.
    pub fn update(&self, user: &User, limits: &AccessLimits) {
        self.rate_limit.per_second.store(bytes_per_second_max(user, limits), Ordering::Relaxed);
    }

    /// A permit for one more watch.
    pub fn watch(&self, user: &User, limits: &AccessLimits) -> Option<Permit> {
        Permit::take(&self.watches, user.limits.watches_max.unwrap_or(limits.watches_per_user_max))
    }

    /// A permit for one more query.
    pub fn query(&self, user: &User, limits: &AccessLimits) -> Option<Permit> {
        Permit::take(&self.queries, user.limits.queries_max.unwrap_or(limits.queries_per_user_max))
    }
}

fn bytes_per_second_max(user: &User, limits: &AccessLimits) -> u64 {
    user.limits.bytes_per_second_max.unwrap_or(limits.bytes_per_second_max)
}

/// Limits bytes per second. A burst of one second's bytes is allowed.
#[derive(Debug)]
pub struct RateLimit {
    /// 0: unlimited.
    per_second: AtomicU64,
    /// When all bytes so far are within the limit.
    paid_at: Mutex<Instant>,
}

impl RateLimit {
    fn new(per_second: u64) -> Self {
        Self { per_second: AtomicU64::new(per_second), paid_at: Mutex::new(Instant::now()) }
    }

    /// Counts bytes.
    pub fn count(&self, bytes: u64, now: impl FnOnce() -> Instant) {
        let per_second = self.per_second.load(Ordering::Relaxed);
        if per_second > 0 && bytes > 0 {
            let price =
                Duration::from_nanos((u128::from(bytes) * 1_000_000_000 / u128::from(per_second)) as u64);
            let mut paid_at = self.paid_at.lock().unwrap_or_else(PoisonError::into_inner);
            *paid_at = (*paid_at).max(now()) + price;
        }
    }

    /// How long to wait before more bytes may be transferred; zero: not at all.
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
    fn connections_and_watches_of_a_user_are_limited() {
        let quotas = Quotas::default();
        let user = User { name: "ann".into(), ..User::unrestricted() };
        let limits =
            AccessLimits { connections_per_user_max: 2, watches_per_user_max: 1, ..AccessLimits::default() };
        let first = quotas.open(&user, &limits).unwrap();
        let second = quotas.open(&user, &limits).unwrap();
        assert!(quotas.open(&user, &limits).is_none());
        assert!(quotas.open(&User::unrestricted(), &limits).is_some(), "another user");
        let watch = first.0.watch(&user, &limits).unwrap();
        assert!(second.0.watch(&user, &limits).is_none(), "counted over all connections");
        drop((watch, first));
        assert!(second.0.watch(&user, &limits).is_some());
        assert!(quotas.open(&user, &limits).is_some());
    }

    #[test]
    fn a_rate_limit_allows_a_burst_of_one_second() {
        let rate_limit = RateLimit::new(1000);
        let now = Instant::now();
        rate_limit.count(1000, || now);
        assert_eq!(rate_limit.wait(|| now), Duration::ZERO);
        rate_limit.count(500, || now);
        let wait = rate_limit.wait(|| now);
        assert!(wait > Duration::from_millis(400) && wait <= Duration::from_millis(500), "{wait:?}");
        assert_eq!(rate_limit.wait(|| now + Duration::from_millis(500)), Duration::ZERO);
        let free = RateLimit::new(0);
        free.count(u64::MAX, || now);
        assert_eq!(free.wait(|| now), Duration::ZERO);
    }
}
