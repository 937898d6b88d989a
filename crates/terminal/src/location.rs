//! Where a database is: in a directory, or behind a server.

use crate::Failure;
use std::path::{Path, PathBuf};
use tapedb_client::Address;

/// The URL, if the argument is one instead of a directory.
pub fn url_of(db: &Path) -> Option<&str> {
    db.to_str().filter(|text| Address::is_remote(text))
}

/// The directory, for commands that work on files only.
pub fn directory(db: &Path) -> Result<&Path, Failure> {
    match url_of(db) {
        None => Ok(db),
        Some(url) => {
            let place =
                Address::parse(url).map_or_else(|error| error.url, |(address, _)| address.to_string());
            let what = if place.starts_with("tape") { "a server" } else { "an object store" };
            Err(Failure::usage(format!(
                "this command works on a database's files, and {place} is {what}; run it on the machine that has the files"
            )))
        }
    }
}

/// Parser of an argument that must be a directory and not a URL.
pub fn local(text: &str) -> Result<PathBuf, String> {
    directory(Path::new(text)).map(Path::to_path_buf).map_err(|failure| failure.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_refused_without_their_password() {
        assert_eq!(directory(Path::new("demo.tape")).unwrap(), Path::new("demo.tape"));
        let refused = directory(Path::new("tape://ann:hunter2@h")).unwrap_err().to_string();
        assert!(refused.contains("tape://h:7847 is a server") && !refused.contains("hunter2"), "{refused}");
    }
}
