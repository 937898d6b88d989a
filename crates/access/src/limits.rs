//! Limits of users that every protocol of a server counts together.

use crate::users::User;
use std::time::Duration;

/// Limits of users and of the audit log. The configuration of a server describes each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccessLimits {
    /// Connections of one user at once.
    pub connections_per_user_max: usize,
    /// Watches of one user at once.
    pub watches_per_user_max: usize,
    /// Queries of one user at once.
    pub queries_per_user_max: usize,
    /// Bytes of memory for the operators of all queries of one user.
    pub query_bytes_per_user_max: usize,
    /// Milliseconds that a query may run; 0: unlimited.
    pub query_ms_max: u64,
    /// Rows of a query; 0: unlimited.
    pub query_rows_max: u64,
    /// Bytes per second to and from one user; 0: unlimited.
    pub bytes_per_second_max: u64,
    /// Failed passwords that a user has free from one address.
    pub login_failures_max: u32,
    /// Milliseconds until a failed login is no longer counted.
    pub login_failure_ms: u64,
    /// Bytes of the audit log before it is rotated.
    pub audit_bytes_max: u64,
    /// Rotated audit logs that are stored.
    pub audit_files_max: u32,
}

impl Default for AccessLimits {
    fn default() -> Self {
        Self {
            connections_per_user_max: 4096,
            watches_per_user_max: 16_384,
            queries_per_user_max: 16,
            query_bytes_per_user_max: 512 << 20,
            query_ms_max: 0,
            query_rows_max: 0,
            bytes_per_second_max: 0,
            login_failures_max: 5,
            login_failure_ms: 10_000,
            audit_bytes_max: 16 << 20,
            audit_files_max: 9,
        }
    }
}

/// The limits of one user's queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueryLimits {
    /// The time that a query may run.
    pub time: Option<Duration>,
    /// The rows that a query may have.
    pub rows: Option<u64>,
    /// Bytes of memory for the operators of all queries of the user.
    pub memory_bytes: usize,
}

impl QueryLimits {
    /// The limits of a user: the user's own, else those of all users.
    pub fn of(user: &User, limits: &AccessLimits) -> Self {
        let some = |own: Option<u64>, all: u64| Some(own.unwrap_or(all)).filter(|most| *most > 0);
        Self {
            time: some(user.limits.query_ms_max, limits.query_ms_max).map(Duration::from_millis),
            rows: some(user.limits.query_rows_max, limits.query_rows_max),
            memory_bytes: user.limits.query_bytes_max.unwrap_or(limits.query_bytes_per_user_max),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::users::UserLimits;

    #[test]
    fn a_users_own_limits_come_first() {
        let limits = AccessLimits { query_ms_max: 5, ..AccessLimits::default() };
        let own = UserLimits { query_rows_max: Some(7), query_ms_max: Some(0), ..UserLimits::default() };
        let ann = User { limits: own, ..User::default() };
        let of = |user: &User| {
            let QueryLimits { time, rows, .. } = QueryLimits::of(user, &limits);
            (time, rows)
        };
        assert_eq!(of(&User::default()), (Some(Duration::from_millis(5)), None));
        assert_eq!(of(&ann), (None, Some(7)), "0 is unlimited");
    }
}
