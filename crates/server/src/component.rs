//! Components that run beside the server in the same process, and are monitored with it.

use crate::metrics_page::MetricsPage;
use std::fmt::Debug;

/// A component that runs beside a server in the same process, such as topic copies: its metrics are on the server's
/// metrics page, and its problems are part of the server's health. See
/// [`Server::add_component`](crate::Server::add_component).
pub trait Component: Debug + Send + Sync {
    /// Adds its metrics to the page. Called for each request, on the request's thread.
    fn metrics(&self, page: &mut MetricsPage);

    /// Its problems: the subject, and what is wrong. While there is one, `/health` reports `degraded`.
    fn problems(&self) -> Vec<(String, String)>;
}
