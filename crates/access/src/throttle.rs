//! Limits wrong passwords: a user has some failures free from each address, and gets one back at a fixed rate.
//!
//! Failures are counted by user and address: wrong passwords of one user neither block other users behind the same
//! address (of a gateway or proxy), nor the same user at another address. Clients on this machine are not limited:
//! mistakes of one program must not stop another. Neither are tokens, which cannot be guessed. A login without a free
//! failure is delayed, one after the other, rather than refused; it is refused only when many others wait already.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

/// Pairs of user and address that are counted; above this number, those without recent failures are removed.
const PAIRS_MAX: usize = 4096;
/// The longest delay: clients would not wait longer for the answer.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// Failures by user and address. An IPv6 address counts as its 64-bit network, which one machine can have completely.
#[derive(Debug)]
pub(crate) struct Throttle {
    failures_max: u32,
    forgotten_after: Duration,
    /// When each pair will have all its failures back: more failures, later time.
    full_at: HashMap<Pair, Instant>,
    /// Names may be long, so only their hash is stored.
    names: RandomState,
}

/// The hash of a user's name, and an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Pair(u64, IpAddr);

impl Throttle {
    pub fn new(failures_max: u32, forgotten_after_ms: u64) -> Self {
        let forgotten_after = Duration::from_millis(forgotten_after_ms);
        Self { failures_max, forgotten_after, full_at: HashMap::new(), names: RandomState::new() }
    }

    /// How long a login must wait; `None`: it is refused. A delayed login is counted as a failure in advance.
    pub fn admit(&mut self, user: &str, address: Option<IpAddr>, now: Instant) -> Option<Duration> {
        let left = self.left(user, address, now);
        if left > WAIT_MAX {
            return None;
        }
        if !left.is_zero() {
            self.failed(user, address, now);
        }
        Some(left)
    }

    /// The time until the user has a failure free from this address.
    pub fn left(&self, user: &str, address: Option<IpAddr>, now: Instant) -> Duration {
        let full_at = self.pair(user, address).and_then(|pair| self.full_at.get(&pair));
        let spent = full_at.map_or(Duration::ZERO, |full_at| full_at.saturating_duration_since(now));
        let free = self.forgotten_after.saturating_mul(self.failures_max.saturating_sub(1));
        spent.saturating_sub(free)
    }

    /// Counts a failure.
    pub fn failed(&mut self, user: &str, address: Option<IpAddr>, now: Instant) {
        let Some(pair) = self.pair(user, address) else { return };
        if self.full_at.len() >= PAIRS_MAX {
            self.forget(now);
        }
        let full_at = self.full_at.entry(pair).or_insert(now);
        *full_at = (*full_at).max(now) + self.forgotten_after;
    }

    /// A login succeeded: its earlier failures were mistakes, and are not counted any more.
    pub fn succeeded(&mut self, user: &str, address: Option<IpAddr>) {
        if let Some(pair) = self.pair(user, address) {
            self.full_at.remove(&pair);
        }
    }

    /// The pair that is counted; `None`: not limited.
    fn pair(&self, user: &str, address: Option<IpAddr>) -> Option<Pair> {
        let address = network(address).filter(|_| !is_here(address))?;
        Some(Pair(self.names.hash_one(user), address))
    }

    /// Removes pairs without counted failures; if there are none, the half with the fewest.
    fn forget(&mut self, now: Instant) {
        self.full_at.retain(|_, full_at| *full_at > now);
        if self.full_at.len() >= PAIRS_MAX {
            let mut times: Vec<Instant> = self.full_at.values().copied().collect();
            let middle = times.len() / 2;
            let (_, median, _) = times.select_nth_unstable(middle);
            let median = *median;
            self.full_at.retain(|_, full_at| *full_at > median);
        }
    }
}

/// Whether it is an address of this machine.
fn is_here(address: Option<IpAddr>) -> bool {
    address.is_none_or(|address| address.to_canonical().is_loopback())
}

/// The address, or network, that is counted as one.
pub fn network(address: Option<IpAddr>) -> Option<IpAddr> {
    Some(match address?.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        v4 => v4,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn address(text: &str) -> Option<IpAddr> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn failures_expire() {
        let now = Instant::now();
        let mut throttle = Throttle::new(2, 100);
        let there = address("192.0.2.1");
        throttle.failed("ann", there, now);
        assert_eq!(throttle.admit("ann", there, now), Some(MS(0)));
        throttle.failed("ann", there, now);
        assert_eq!(throttle.left("ann", there, now), MS(100));
        assert_eq!(throttle.left("ann", there, now + MS(100)), MS(0), "one has expired");
        for (user, from) in [("bob", there), ("ann", address("192.0.2.2"))] {
            assert_eq!(throttle.left(user, from, now), MS(0), "{user} from {from:?}");
        }
        throttle.succeeded("ann", there);
        assert_eq!(throttle.left("ann", there, now), MS(0));
    }

    #[test]
    fn delayed_logins_queue_up_to_a_limit() {
        let now = Instant::now();
        let mut throttle = Throttle::new(1, 2000);
        let there = address("192.0.2.1");
        throttle.failed("ann", there, now);
        let waits: Vec<_> = (0..4).map(|_| throttle.admit("ann", there, now)).collect();
        assert_eq!(waits, [Some(MS(2000)), Some(MS(4000)), None, None]);
    }

    #[test]
    fn clients_of_this_machine_are_not_counted() {
        let now = Instant::now();
        let mut throttle = Throttle::new(1, 1_000_000);
        for here in [None, address("127.0.0.1"), address("::1"), address("::ffff:127.0.0.1")] {
            throttle.failed("ann", here, now);
            assert_eq!(throttle.admit("ann", here, now), Some(MS(0)), "{here:?}");
        }
    }

    #[test]
    fn an_ipv6_network_is_one_address() {
        let now = Instant::now();
        let mut throttle = Throttle::new(1, 100);
        throttle.failed("ann", address("2001:db8::1"), now);
        assert_eq!(throttle.left("ann", address("2001:db8::2"), now), MS(100));
        assert_eq!(throttle.left("ann", address("2001:db8:0:1::1"), now), MS(0));
        throttle.failed("ann", address("::ffff:192.0.2.1"), now);
        assert_eq!(throttle.left("ann", address("192.0.2.1"), now), MS(100));
    }

    #[test]
    fn many_pairs_take_bounded_memory() {
        let now = Instant::now();
        let mut throttle = Throttle::new(1, 100);
        for i in 0..20_000u32 {
            throttle.failed("ann", Some(IpAddr::V4(i.into())), now + Duration::from_micros(i.into()));
        }
        assert!(throttle.full_at.len() <= PAIRS_MAX, "{}", throttle.full_at.len());
    }
}
