//! Producer ids in the log.
//!
//! After a lost connection a client sends batches again, and the server recognizes them by producer and number
//! ([wire.md](../../../docs/format/wire.md)). A client that could store batches under another user's producer could
//! have that producer's next batches treated as repeats: acknowledged and not stored. So the producer that a client
//! sends is not the one in the log: the id in the log is a hash of it and the user's name, under a key that only the
//! database has. Always true: clients of two users have different producers (with a probability of 2^-64 of a
//! collision), and no client can choose one, although readers see the existing ones.

use tapedb_access::{digest, random};
use tapedb_engine::Database;

/// Computes producer ids.
#[derive(Debug)]
pub(crate) struct ProducerIds {
    key: [u8; 32],
}

impl ProducerIds {
    /// The ids of a database: the same as long as it exists, so a producer stays the same when the server restarts.
    ///
    /// # Errors
    /// A system without a random number generator.
    pub fn of(db: &Database) -> Result<Self, String> {
        let new = random()?;
        let key = db.secret(new).unwrap_or_else(|error| {
            tracing::warn!(%error, "batches in flight when this server ends may be stored twice");
            new
        });
        Ok(Self { key })
    }

    /// The id of a client of a user; 0, no producer, stays 0.
    pub fn id(&self, user: &str, client: u64) -> u64 {
        if client == 0 {
            return 0;
        }
        let digest = digest(&[&self.key, user.as_bytes(), &client.to_le_bytes()]);
        let (id, _) = digest.split_first_chunk().unwrap_or((&[1; 8], &[]));
        u64::from_le_bytes(*id).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_belong_to_the_user_and_the_database() {
        let (ids, others) = (ProducerIds { key: [1; 32] }, ProducerIds { key: [2; 32] });
        assert_eq!(ids.id("ann", 7), ids.id("ann", 7));
        for other in [ids.id("bob", 7), ids.id("ann", 8), others.id("ann", 7), 7] {
            assert_ne!(ids.id("ann", 7), other);
        }
        assert_eq!(ids.id("ann", 0), 0);
    }
}
