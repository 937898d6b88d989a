//! Rewrites belong to users: the number that a client chooses means another rewrite for each user, so a client cannot
//! add to a rewrite of another user by guessing its number.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;
use tapedb_engine::{Command, Replacement};

/// A rewrite without activity for this time is dropped.
pub(crate) const IDLE_MAX: Duration = Duration::from_secs(300);

/// Maps the numbers that clients choose to the database's numbers of rewrites, by user.
#[derive(Debug, Default)]
pub(crate) struct RewriteNumbers(RandomState);

impl RewriteNumbers {
    /// The database's number of a user's rewrite.
    pub fn number(&self, user: &str, rewrite: u64) -> u64 {
        self.0.hash_one((user, rewrite))
    }

    /// Replaces the rewrite number in a command by the database's.
    pub fn replace(&self, user: &str, mut command: Command) -> Command {
        if let Command::BeginRewrite(Replacement { rewrite, .. })
        | Command::CommitRewrite { rewrite, .. }
        | Command::DropRewrite { rewrite, .. } = &mut command
        {
            *rewrite = self.number(user, *rewrite);
        }
        command
    }
}
