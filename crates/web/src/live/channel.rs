//! A channel: what a tab gets frames of.

use crate::failure::Failure;
use tapedb_access::{May, User};

/// A live channel.
pub(crate) trait Channel: Send {
    /// Its name in frames.
    fn name(&self) -> &'static str;

    /// Whether it is time to look at it.
    fn is_due(&self) -> bool {
        true
    }

    /// Writes what is new as JSON, if something is. It may read, so it is called where that is allowed.
    ///
    /// # Errors
    /// What ends the channel.
    fn look(&mut self, user: &User, out: &mut Vec<u8>) -> Result<bool, Failure>;

    /// It is paused, or goes on. While it is paused, it is not looked at.
    fn pause(&mut self, is_paused: bool) {
        let _ = is_paused;
    }
}

/// Checks that a user may still read a stream.
///
/// # Errors
/// 404.
pub(crate) fn check_read(user: &User, stream: &str) -> Result<(), Failure> {
    if user.may(May::Read, stream) { Ok(()) } else { Err(Failure::no_stream(stream)) }
}
