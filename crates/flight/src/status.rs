//! Errors as clients get them.

use tapedb_query::{Error, Reason};
use tonic::{Code, Status};

/// Bytes of a text. It travels in a header, and clients limit these.
const TEXT_BYTES_MAX: usize = 2000;

/// A status with a text that is not too long.
pub(crate) fn status(code: Code, text: impl Into<String>) -> Status {
    let mut text = text.into();
    if text.len() > TEXT_BYTES_MAX {
        let end = (0..=TEXT_BYTES_MAX).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    Status::new(code, text)
}

/// The server stops.
pub(crate) fn shutting_down() -> Status {
    status(Code::Unavailable, "the server is shutting down; connect again later")
}

/// A query was cancelled.
pub(crate) fn cancelled() -> Status {
    status(Code::Cancelled, "the query was cancelled")
}

/// A query fails.
pub(crate) fn of_query(error: &Error) -> Status {
    let text = error.to_string();
    let code = match error.reason() {
        Reason::Query if text.contains("there is no stream") || text.contains("there is no table") => {
            Code::NotFound
        }
        Reason::Query | Reason::Value => Code::InvalidArgument,
        Reason::Limit if text.contains("ran longer") => Code::DeadlineExceeded,
        Reason::Limit => Code::ResourceExhausted,
        _ => Code::Internal,
    };
    status(code, text)
}

/// A defect.
pub(crate) fn internal(error: impl std::fmt::Display) -> Status {
    status(Code::Internal, error.to_string())
}

/// What is not supported, and what is in its place.
pub(crate) fn unsupported(text: impl Into<String>) -> Status {
    status(Code::Unimplemented, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters() {
        let long = status(Code::Internal, "ü".repeat(5000));
        assert!(long.message().len() <= TEXT_BYTES_MAX + 3 && long.message().ends_with("ü…"));
        assert_eq!(status(Code::Internal, "short").message(), "short");
    }
}
