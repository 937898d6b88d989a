//! What a rival must be able to do.

/// What went wrong, in words.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Carries messages of `N` 64-bit words from one publisher to one subscriber, losing none.
pub trait Medium: Sync {
    /// Its publisher.
    type Publisher<const N: usize>: Publish<N>;
    /// Its subscriber.
    type Subscriber<const N: usize>: Subscribe<N>;

    /// Makes the publisher, on the thread that will use it.
    fn publisher<const N: usize>(&self) -> Result<Self::Publisher<N>, Failure>;

    /// Makes the subscriber, on the thread that will use it.
    fn subscriber<const N: usize>(&self) -> Result<Self::Subscriber<N>, Failure>;
}

/// The sending end.
pub trait Publish<const N: usize> {
    /// Whether what is published now reaches the subscriber.
    fn is_connected(&self) -> bool;

    /// Publishes, or says `false` when there is no room now. Some rivals wait themselves instead.
    fn publish(&mut self, message: &[u64; N]) -> Result<bool, Failure>;
}

/// The receiving end.
pub trait Subscribe<const N: usize> {
    /// Gives what has come, up to as much as the rival likes to give at once; returns how many messages.
    fn poll(&mut self, found: impl FnMut(&[u64; N])) -> Result<usize, Failure>;
}
