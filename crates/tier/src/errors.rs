//! Errors of stores by what a user does about them.

use object_store::Error;
use tapedb_engine::{ObjectError, ObjectFault};

/// The engine's error for one of a store.
pub(crate) fn convert(error: &Error, credentials: &str) -> ObjectError {
    // The innermost ones state what the server answered, and may hold the whole page: its first line is enough.
    let mut text = error.to_string();
    if let Some(end) = text.char_indices().nth(600).map(|(end, _)| end) {
        text.truncate(end);
        text.push('…');
    }
    let text = text.replace(['\n', '\r'], " ");
    let denied =
        |what: &str| ObjectError::new(ObjectFault::Denied, format!("{what}: {text}; check {credentials}"));
    match error {
        Error::NotFound { .. } => ObjectError::new(ObjectFault::Missing, text),
        Error::PermissionDenied { .. } => denied("the store refuses the right"),
        Error::Unauthenticated { .. } => denied("the store refuses the credentials"),
        Error::AlreadyExists { .. }
        | Error::Precondition { .. }
        | Error::NotSupported { .. }
        | Error::InvalidPath { .. } => ObjectError::new(ObjectFault::Wrong, text),
        _ if ["301", "PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraint"]
            .iter()
            .any(|word| text.contains(word)) =>
        {
            denied("the bucket is in another region")
        }
        _ if text.contains("InstanceCredentials") || text.contains("169.254.169.254") => {
            denied("there are no credentials: the environment has none, and this machine has no role")
        }
        _ if text.contains("400 Bad Request") || text.contains("416 ") => {
            ObjectError::new(ObjectFault::Wrong, text)
        }
        _ => ObjectError::new(ObjectFault::Unavailable, text),
    }
}
