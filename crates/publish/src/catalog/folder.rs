//! Tables in a folder or bucket without a catalogue beside them, as Hadoop's catalogue has them: `namespace/table/metadata/v3.metadata.json`
//! is the third version, and creating the fourth is the commit.

use crate::catalog::{Catalog, Creation, Loaded, changed, read_metadata};
use crate::error::Error;
use crate::format::CommitFailure;
use crate::place::Place;
use crate::settings::TableName;
use serde_json::Value as Json;

/// A folder or bucket with tables.
#[derive(Debug)]
pub struct FolderCatalog {
    place: Place,
    /// The URL of the folder, without a slash at its end.
    url: String,
}

/// What names the newest version, or one before it.
const HINT: &str = "version-hint.text";

impl FolderCatalog {
    /// The tables of a folder, such as `/data/lake` or `s3://bucket/lake`.
    ///
    /// # Errors
    /// When its path is not absolute, or this program has no store of its scheme.
    pub fn open(folder: &str) -> Result<Self, Error> {
        let url = url_of(folder)?;
        Ok(Self { place: Place::of(&url)?, url })
    }

    fn location(&self, name: &TableName) -> String {
        format!("{}/{}/{}", self.url, name.namespace.join("/"), name.table)
    }

    /// The newest version of a table's metadata, and its file; `None`: there is none.
    fn newest(&self, location: &str) -> Result<Option<(u64, String)>, Error> {
        let metadata = format!("{location}/metadata");
        let hint = self.place.read(&format!("{metadata}/{HINT}"))?;
        let hint = hint.and_then(|text| String::from_utf8(text).ok()?.trim().parse::<u64>().ok());
        let versions = |names: Vec<String>| {
            let versions = names.into_iter().filter_map(|name| Some((version_of(&name)?, name)));
            versions.max_by_key(|(version, _)| *version)
        };
        let mut newest = None;
        if let Some(hint) = hint {
            // A version that was committed after the hint was written, or the hint could not be.
            let mut version = hint;
            while self.place.read(&format!("{metadata}/{}", file_of(version)))?.is_some() {
                newest = Some((version, file_of(version)));
                version += 1;
            }
        }
        let newest = match newest {
            Some(newest) => Some(newest),
            None => versions(self.place.list(&metadata)?),
        };
        Ok(newest.map(|(version, name)| (version, format!("{metadata}/{name}"))))
    }

    fn put(&self, location: &str, version: u64, content: &[u8]) -> Result<String, CommitFailure> {
        let file = format!("{location}/metadata/{}", file_of(version));
        match self.place.create(&file, content) {
            Ok(true) => {
                self.place
                    .replace_hint(&format!("{location}/metadata/{HINT}"), version.to_string().as_bytes());
                Ok(file)
            }
            Ok(false) => Err(CommitFailure::Conflict(format!("version {version} of {location} exists"))),
            Err(error) => Err(CommitFailure::Unknown(error)),
        }
    }
}

impl Catalog for FolderCatalog {
    fn load(&self, name: &TableName) -> Result<Option<Loaded>, Error> {
        let location = self.location(name);
        let Some((version, file)) = self.newest(&location)? else { return Ok(None) };
        let hint = format!("{location}/metadata/{HINT}");
        if self.place.read(&hint)?.is_none_or(|text| text != version.to_string().as_bytes()) {
            self.place.replace_hint(&hint, version.to_string().as_bytes());
        }
        let metadata = read_metadata(&self.place, &file)?;
        Ok(metadata.map(|metadata| Loaded { metadata, location: file }))
    }

    fn create(&self, name: &TableName, creation: &Creation) -> Result<Loaded, CommitFailure> {
        let location = self.location(name);
        let metadata = creation.metadata(&location);
        let file = self.put(&location, 1, &metadata.to_json())?;
        Ok(Loaded { metadata, location: file })
    }

    fn commit(
        &self,
        _name: &TableName,
        base: &Loaded,
        requirements: &[Json],
        updates: &[Json],
    ) -> Result<Loaded, CommitFailure> {
        let (metadata, expired) = changed(base, requirements, updates)?;
        let file = base.location.rsplit('/').next().unwrap_or_default();
        let version = version_of(file)
            .ok_or_else(|| Error::Table(format!("{} is no version of a table in a folder", base.location)))?;
        let table = base.location.strip_suffix(&format!("/metadata/{file}")).unwrap_or(&base.location);
        let location = self.put(table, version + 1, &metadata.to_json())?;
        expired.iter().for_each(|file| self.place.remove(file));
        Ok(Loaded { metadata, location })
    }

    fn describe(&self) -> String {
        format!("the folder {}", self.url)
    }
}

/// A folder as the URL that tables have in their metadata.
pub(crate) fn url_of(folder: &str) -> Result<String, Error> {
    let folder = folder.trim_end_matches('/');
    if folder.contains("://") {
        return Ok(folder.into());
    }
    match folder.starts_with('/') {
        true => Ok(format!("file://{folder}")),
        false => Err(Error::Settings(format!(
            "{folder:?} is no absolute path; tables have the whole path of their files in them"
        ))),
    }
}

fn file_of(version: u64) -> String {
    format!("v{version}.metadata.json")
}

fn version_of(name: &str) -> Option<u64> {
    let version = name.strip_prefix('v')?;
    let version =
        version.strip_suffix(".gz.metadata.json").or_else(|| version.strip_suffix(".metadata.json"))?;
    version.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_in_names() {
        for (name, version) in [
            ("v1.metadata.json", Some(1)),
            ("v12.gz.metadata.json", Some(12)),
            ("v.metadata.json", None),
            ("00001-x.metadata.json", None),
            ("version-hint.text", None),
        ] {
            assert_eq!(version_of(name), version, "{name}");
        }
        assert_eq!(url_of("/data/lake/").unwrap(), "file:///data/lake");
        assert!(url_of("data").is_err());
    }
}
