//! Receivers: the destinations of messages, by channel.

use tapedb_wire::{ToClient, WireError};

/// Receives the messages of a channel.
pub(crate) trait Receiver: Send + Sync {
    /// Processes a message. Must be quick, and send no requests.
    fn receive(&self, message: ToClient<'_>) -> Result<(), WireError>;
    /// The connection is lost; no message follows.
    fn lost(&self);
    /// Whether messages must be received at once, even while no thread waits for them.
    fn is_urgent(&self) -> bool {
        false
    }
}
