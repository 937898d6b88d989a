//! Removes the names of streams from errors of users who may not see them.

use crate::users::User;
use tapedb_engine::{Error, NotFound, Stale};

/// An error without the names of streams that the user may not see.
pub fn redacted(user: &User, error: Error) -> Error {
    match error {
        Error::NotFound(NotFound::Stream { name, known }) => {
            let known = known.into_iter().filter(|name| user.may_see(name)).take(10).collect();
            Error::NotFound(NotFound::Stream { name, known })
        }
        Error::Stale(Stale::Renamed { name, new }) if !user.may_see(&new) => {
            Error::Stale(Stale::Deleted { name })
        }
        Error::Repeated(first) => match first.first() {
            Error::Stale(Stale::Renamed { name, new }) if !user.may_see(new) => {
                Error::Stale(Stale::Deleted { name: name.clone() })
            }
            _ => Error::Repeated(first),
        },
        error => error,
    }
}
