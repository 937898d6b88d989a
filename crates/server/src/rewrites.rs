//! Rewrites belong to users: the number that a client made up means another rewrite for each of them, so nobody adds to one
//! that is not his, whatever number he guesses.

use crate::shared::Shared;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;
use tapedb_engine::{Command, Replacement};

/// A rewrite of which nothing came for so long is given up.
pub(crate) const IDLE_MAX: Duration = Duration::from_secs(300);

/// Numbers of the database's rewrites, by user and the client's number.
#[derive(Debug, Default)]
pub(crate) struct Owners(RandomState);

impl Owners {
    fn number(&self, user: &str, rewrite: u64) -> u64 {
        self.0.hash_one((user, rewrite))
    }
}

impl Shared {
    /// The database's number of a user's rewrite.
    pub fn rewrite_of(&self, user: &str, rewrite: u64) -> u64 {
        self.owners.number(user, rewrite)
    }

    /// A command with the database's number of the rewrite that it is about.
    pub fn own_rewrite(&self, user: &str, mut command: Command) -> Command {
        if let Command::BeginRewrite(Replacement { rewrite, .. })
        | Command::CommitRewrite { rewrite, .. }
        | Command::DropRewrite { rewrite, .. } = &mut command
        {
            *rewrite = self.rewrite_of(user, *rewrite);
        }
        command
    }
}
