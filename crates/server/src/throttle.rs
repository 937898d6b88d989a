//! How often an address may be wrong: each has some failures free, and gets one back every so often.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

/// Addresses whose failures are counted; beyond, those that have been quiet for longest are forgotten.
const ADDRESSES_MAX: usize = 4096;

/// Failures by address. An IPv6 address counts as its network of 64 bits, all of which one machine can have.
#[derive(Debug)]
pub(crate) struct Throttle {
    failures_max: u32,
    forgotten_after: Duration,
    /// When each address will have all its failures back: the more of them, the later.
    full_at: HashMap<Option<IpAddr>, Instant>,
}

impl Throttle {
    pub fn new(failures_max: u32, forgotten_after_ms: u64) -> Self {
        let forgotten_after = Duration::from_millis(forgotten_after_ms);
        Self { failures_max, forgotten_after, full_at: HashMap::new() }
    }

    /// Whether the address has a failure left.
    pub fn allows(&self, address: Option<IpAddr>, now: Instant) -> bool {
        let Some(full_at) = self.full_at.get(&network(address)) else { return true };
        let spent = full_at.saturating_duration_since(now);
        spent <= self.forgotten_after.saturating_mul(self.failures_max.saturating_sub(1))
    }

    /// Counts a failure.
    pub fn failed(&mut self, address: Option<IpAddr>, now: Instant) {
        if self.full_at.len() >= ADDRESSES_MAX {
            self.forget(now);
        }
        let full_at = self.full_at.entry(network(address)).or_insert(now);
        *full_at = (*full_at).max(now) + self.forgotten_after;
    }

    /// Forgets who is in the clear; if nobody is, the half that is nearest to it.
    fn forget(&mut self, now: Instant) {
        self.full_at.retain(|_, full_at| *full_at > now);
        if self.full_at.len() >= ADDRESSES_MAX {
            let mut times: Vec<Instant> = self.full_at.values().copied().collect();
            let middle = times.len() / 2;
            let (_, median, _) = times.select_nth_unstable(middle);
            let median = *median;
            self.full_at.retain(|_, full_at| *full_at > median);
        }
    }
}

fn network(address: Option<IpAddr>) -> Option<IpAddr> {
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

    #[test]
    fn failures_come_back_with_time() {
        let (now, ms) = (Instant::now(), Duration::from_millis);
        let mut throttle = Throttle::new(2, 100);
        let address = Some("192.0.2.1".parse().unwrap());
        assert!(throttle.allows(address, now));
        throttle.failed(address, now);
        assert!(throttle.allows(address, now));
        throttle.failed(address, now);
        assert!(!throttle.allows(address, now) && !throttle.allows(address, now + ms(99)));
        assert!(throttle.allows(address, now + ms(100)), "one is back");
        throttle.failed(address, now + ms(100));
        assert!(!throttle.allows(address, now + ms(199)));
        assert!(throttle.allows(Some("192.0.2.2".parse().unwrap()), now));
    }

    #[test]
    fn an_ipv6_network_is_one_address() {
        let now = Instant::now();
        let mut throttle = Throttle::new(1, 100);
        throttle.failed(Some("2001:db8::1".parse().unwrap()), now);
        assert!(!throttle.allows(Some("2001:db8::2".parse().unwrap()), now));
        assert!(throttle.allows(Some("2001:db8:0:1::1".parse().unwrap()), now));
        throttle.failed(Some("::ffff:192.0.2.1".parse().unwrap()), now);
        assert!(!throttle.allows(Some("192.0.2.1".parse().unwrap()), now));
    }

    #[test]
    fn many_addresses_take_bounded_memory() {
        let now = Instant::now();
        let mut throttle = Throttle::new(1, 100);
        for i in 0..20_000u32 {
            throttle.failed(Some(IpAddr::V4(i.into())), now + Duration::from_micros(i.into()));
        }
        assert!(throttle.full_at.len() <= ADDRESSES_MAX, "{}", throttle.full_at.len());
    }
}
