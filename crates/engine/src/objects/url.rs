//! The URL of an object store, as an option of a stream.

use crate::error::{Error, Invalid};
use std::fmt;
use std::str::FromStr;

/// The URL of a place in an object store, such as `s3://bucket/prefix` or `file:///folder`: without a slash at its end, at most
/// [`StoreUrl::BYTES_MAX`] bytes. Credentials are never part of it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct StoreUrl {
    bytes: [u8; Self::BYTES_MAX],
    len: u8,
}

impl StoreUrl {
    /// Longest URL. Options of a stream are copied often, so it is in place.
    pub const BYTES_MAX: usize = 200;

    /// The text.
    pub fn as_str(&self) -> &str {
        // It was a text when it was made.
        str::from_utf8(&self.bytes[..usize::from(self.len)]).unwrap_or_default()
    }
}

impl FromStr for StoreUrl {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let refused = |what| Error::Invalid(Invalid::Options { what });
        let text = text.trim_end_matches('/');
        let Some((scheme, place)) = text.split_once("://") else {
            return Err(refused("the object tier is a URL, such as s3://bucket/prefix or file:///folder"));
        };
        let is_scheme = !scheme.is_empty()
            && scheme.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        if !is_scheme
            || place.is_empty()
            || text.contains(|letter: char| letter.is_whitespace() || letter.is_control())
        {
            return Err(refused(
                "the URL of the object tier needs a scheme, a place, and no spaces: write s3://bucket/prefix",
            ));
        }
        if place.split('/').next().is_some_and(|authority| authority.contains('@')) {
            return Err(refused(
                "the URL of the object tier is stored and shown, so it has no credentials; they come from the environment",
            ));
        }
        if place.split('/').any(|segment| segment == ".." || segment == ".") {
            return Err(refused(
                "the URL of the object tier has a segment `.` or `..`; write the place itself",
            ));
        }
        if text.len() > Self::BYTES_MAX {
            return Err(refused(
                "the URL of the object tier is longer than 200 bytes; choose a shorter prefix",
            ));
        }
        let mut bytes = [0; Self::BYTES_MAX];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        Ok(Self { bytes, len: text.len() as u8 })
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_a_scheme_and_a_place_and_no_credentials() {
        for (text, expected) in
            [("s3://bucket/a/b/", "s3://bucket/a/b"), ("file:///x", "file:///x"), ("gs://b", "gs://b")]
        {
            assert_eq!(text.parse::<StoreUrl>().unwrap().to_string(), expected);
        }
        let long = format!("s3://{}", "x".repeat(200));
        for text in [
            "",
            "s3:/x",
            "s3://",
            "S3://x",
            "s3://a b",
            "s3://key:secret@host/b",
            "file:///a/../b",
            "://x",
            &long,
        ] {
            assert!(text.parse::<StoreUrl>().is_err(), "{text}");
        }
    }
}
