//! Removes the names of streams from errors of users who may not see them.

use crate::users::User;
use tapedb_engine::Error;

/// An error without the names of streams that the user may not see.
pub(crate) fn redacted(user: &User, error: Error) -> Error {
    match error {
        Error::NoStream { name, known } => {
            let known = known.into_iter().filter(|name| user.may_see(name)).take(10).collect();
            Error::NoStream { name, known }
        }
        Error::Renamed { name, new } if !user.may_see(&new) => Error::Deleted { name },
        Error::Repeated(first) => match first.first() {
            Error::Renamed { name, new } if !user.may_see(new) => Error::Deleted { name: name.clone() },
            _ => Error::Repeated(first),
        },
        error => error,
    }
}
