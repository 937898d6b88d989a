//! Tickets: what a query is to do, sealed by the server for one user and for a time, so that the server holds nothing for those that are
//! never used.
//!
//! ```text
//! 16 bytes  number of the ticket, random
//!  8 bytes  seconds since 1970, little-endian, when it ends
//!  1 byte   0: the text of a query follows; 1: the number of a prepared statement
//!           text or number
//! 32 bytes  hash of the server's key, the user's name and all before
//! ```

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tapedb_access::{digest, is_same, random};

/// How long a ticket is good.
pub(crate) const TIME: Duration = Duration::from_secs(15 * 60);
/// Tickets that were cancelled before they were used.
const CANCELLED_MAX: usize = 10_000;
const HEAD_BYTES: usize = 25;
const SEAL_BYTES: usize = 32;

/// The number of a ticket, of a prepared statement.
pub(crate) type Id = [u8; 16];

/// What a ticket is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Purpose {
    Query(String),
    Prepared(Id),
}

/// Seals tickets, and opens them.
#[derive(Debug)]
pub(crate) struct Tickets {
    key: [u8; 32],
    /// Tickets that are not good any more, and when they would have ended.
    cancelled: Mutex<HashMap<Id, u64>>,
}

/// Why a ticket is not good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bad {
    /// It is none of this server for this user.
    Forged,
    /// Its time has passed.
    Ended,
    Cancelled,
}

impl Tickets {
    /// # Errors
    /// When the system has no random numbers.
    pub fn new() -> Result<Self, String> {
        Ok(Self { key: random()?, cancelled: Mutex::default() })
    }

    /// A ticket, and when it ends.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub fn seal(&self, user: &str, purpose: &Purpose, now: SystemTime) -> Result<(Vec<u8>, u64), String> {
        let ends = seconds(now) + TIME.as_secs();
        let mut bytes = random::<16>()?.to_vec();
        bytes.extend(ends.to_le_bytes());
        match purpose {
            Purpose::Query(text) => {
                bytes.push(0);
                bytes.extend(text.as_bytes());
            }
            Purpose::Prepared(id) => {
                bytes.push(1);
                bytes.extend(id);
            }
        }
        let seal = digest(&[&self.key, user.as_bytes(), &bytes]);
        bytes.extend(seal);
        Ok((bytes, ends))
    }

    /// What a ticket of a user is for.
    ///
    /// # Errors
    /// Why it is not good.
    pub fn open(&self, user: &str, ticket: &[u8], now: SystemTime) -> Result<(Id, Purpose), Bad> {
        let (id, ends, purpose) = self.read(user, ticket).ok_or(Bad::Forged)?;
        if ends <= seconds(now) {
            return Err(Bad::Ended);
        }
        let cancelled = self.cancelled.lock().unwrap_or_else(PoisonError::into_inner);
        if cancelled.contains_key(&id) { Err(Bad::Cancelled) } else { Ok((id, purpose)) }
    }

    /// Makes a ticket of a user void. Returns its number; `None`: it is none, or too many are void.
    pub fn cancel(&self, user: &str, ticket: &[u8], now: SystemTime) -> Option<Id> {
        let (id, ends, _) = self.read(user, ticket)?;
        let mut cancelled = self.cancelled.lock().unwrap_or_else(PoisonError::into_inner);
        if cancelled.len() >= CANCELLED_MAX {
            cancelled.retain(|_, ends| *ends > seconds(now));
        }
        if cancelled.len() >= CANCELLED_MAX {
            return None;
        }
        cancelled.insert(id, ends);
        Some(id)
    }

    fn read(&self, user: &str, ticket: &[u8]) -> Option<(Id, u64, Purpose)> {
        let (bytes, seal) = ticket.split_at_checked(ticket.len().checked_sub(SEAL_BYTES)?)?;
        if !is_same(&digest(&[&self.key, user.as_bytes(), bytes]), seal) {
            return None;
        }
        let (head, rest) = bytes.split_at_checked(HEAD_BYTES)?;
        let id = head[..16].try_into().ok()?;
        let ends = u64::from_le_bytes(head[16..24].try_into().ok()?);
        let purpose = match head[24] {
            0 => Purpose::Query(String::from_utf8(rest.into()).ok()?),
            _ => Purpose::Prepared(rest.try_into().ok()?),
        };
        Some((id, ends, purpose))
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tickets_are_for_one_user_and_a_time() {
        let (tickets, now) = (Tickets::new().unwrap(), SystemTime::now());
        for purpose in
            [Purpose::Query("SELECT 1".into()), Purpose::Query(String::new()), Purpose::Prepared([7; 16])]
        {
            let (ticket, _) = tickets.seal("ann", &purpose, now).unwrap();
            assert_eq!(tickets.open("ann", &ticket, now).unwrap().1, purpose);
            assert_eq!(tickets.open("bob", &ticket, now), Err(Bad::Forged));
            assert_eq!(tickets.open("ann", &ticket, now + TIME), Err(Bad::Ended));
            assert_eq!(
                Tickets::new().unwrap().open("ann", &ticket, now),
                Err(Bad::Forged),
                "of another server"
            );
        }
    }

    #[test]
    fn no_changed_byte_is_taken() {
        let (tickets, now) = (Tickets::new().unwrap(), SystemTime::now());
        let (ticket, _) = tickets.seal("ann", &Purpose::Query("SELECT 1".into()), now).unwrap();
        for at in 0..ticket.len() {
            let mut forged = ticket.clone();
            forged[at] ^= 1;
            assert_eq!(tickets.open("ann", &forged, now), Err(Bad::Forged), "byte {at}");
            assert_eq!(tickets.open("ann", &ticket[..at], now), Err(Bad::Forged), "{at} bytes");
        }
    }

    #[test]
    fn a_cancelled_ticket_is_void() {
        let (tickets, now) = (Tickets::new().unwrap(), SystemTime::now());
        let (ticket, _) = tickets.seal("ann", &Purpose::Prepared([1; 16]), now).unwrap();
        assert_eq!(tickets.cancel("bob", &ticket, now), None);
        assert!(tickets.open("ann", &ticket, now).is_ok());
        assert!(tickets.cancel("ann", &ticket, now).is_some());
        assert_eq!(tickets.open("ann", &ticket, now), Err(Bad::Cancelled));
    }
}
