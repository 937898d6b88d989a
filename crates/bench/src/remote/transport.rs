//! How a client reaches a server.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// How a client reaches a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum Transport {
    /// TCP on loopback.
    Tcp,
    /// A Unix socket.
    Uds,
    /// Shared memory, requested on the Unix socket.
    Shm,
}

impl Transport {
    /// Its short name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Uds => "uds",
            Self::Shm => "shm",
        }
    }

    /// The case, with the transport as a suffix unless that is TCP.
    pub fn case(self, case: &str) -> String {
        match self {
            Self::Tcp => case.into(),
            Self::Uds | Self::Shm => format!("{case}.{}", self.name()),
        }
    }
}
