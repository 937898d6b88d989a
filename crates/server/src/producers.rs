//! What the producers of batches are called in the log.
//!
//! A batch that is sent again after a lost connection is known by its producer and its number ([wire.md](../../../docs/format/wire.md)).
//! Whoever could have batches stored under another's producer could have the other's next batches taken for repeats, acknowledged and
//! not stored. So what a client calls itself is no producer yet: the id in the log is a hash of it and of the user's name, under a key
//! that only the database has. Always true: clients of two users have different producers (but for one case in 2^64), and no client can
//! choose one, although readers see those that there are.

use crate::secret;
use tapedb_engine::Database;

/// Gives producers their ids.
#[derive(Debug)]
pub(crate) struct ProducerIds {
    key: [u8; 32],
}

impl ProducerIds {
    /// Those of a database: the same for as long as it exists, so that who loads through a restart of the server stays who it is.
    ///
    /// # Errors
    /// A system without randomness.
    pub fn of(db: &Database) -> Result<Self, String> {
        let new = secret::random()?;
        let key = db.secret(new).unwrap_or_else(|error| {
            tracing::warn!(%error, "batches that are under way when this server ends may be stored twice");
            new
        });
        Ok(Self { key })
    }

    /// The id of a user's client that calls itself `client`; 0, which is nobody, stays so.
    pub fn id(&self, user: &str, client: u64) -> u64 {
        if client == 0 {
            return 0;
        }
        let digest = secret::digest(&[&self.key, user.as_bytes(), &client.to_le_bytes()]);
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
