//! What runs beside the server in the same process, and is seen with it.

use crate::metrics::Page;
use std::fmt::Debug;

/// Something that runs beside a server in the same process, such as copies of topics: its numbers are on the server's page of
/// metrics, and what somebody should look at is told by its health. See [`Server::accompany`](crate::Server::accompany).
pub trait Companion: Debug + Send + Sync {
    /// Adds its metrics to the page. Called for each request, on a thread of the request's.
    fn metrics(&self, page: &mut Page);

    /// What somebody should look at: what it is about, and what is wrong. While there is something, `/health` says `degraded`.
    fn problems(&self) -> Vec<(String, String)>;
}
