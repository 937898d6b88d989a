//! The error of a configuration or a users file.

use std::fmt;

/// What is wrong with a configuration or a users file, and how to fix it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError(pub String);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

/// Why users were not changed; they are as before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EditError {
    /// The change is not valid, or the server has no users file.
    Refused(ConfigError),
    /// The users file cannot be read or written, which is no fault of the caller.
    Storage {
        /// What has failed, and what to do.
        error: ConfigError,
        /// Whether the disk has no space.
        is_full: bool,
    },
}

impl fmt::Display for EditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) | Self::Storage { error, .. } => error.fmt(f),
        }
    }
}

impl std::error::Error for EditError {}
