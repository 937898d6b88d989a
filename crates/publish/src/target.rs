//! What is published to: a table of Iceberg or of Delta Lake.

use crate::catalog::open;
use crate::delta::DeltaTable;
use crate::error::Error;
use crate::format::Format;
use crate::iceberg::IcebergTable;
use crate::settings::{CatalogSettings, Options, TableName};
use std::fmt;
use std::sync::Arc;

/// A table, and what finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A table of Iceberg, in a catalogue.
    Iceberg {
        /// Its name.
        name: TableName,
        /// Where the catalogue is.
        catalog: CatalogSettings,
    },
    /// A table of Delta Lake: a folder or a prefix of a bucket.
    Delta {
        /// Its URL, without a slash at its end.
        url: String,
    },
}

impl Target {
    /// A table of Delta Lake in a folder, whose path may be relative, or below a URL such as `s3://bucket/lake/bars`.
    ///
    /// # Errors
    /// When it names none.
    ///
    /// ```
    /// use tapedb_publish::Target;
    ///
    /// assert_eq!(Target::delta("/data/lake/bars/")?.to_string(), "/data/lake/bars");
    /// # Ok::<(), tapedb_publish::Error>(())
    /// ```
    pub fn delta(place: &str) -> Result<Self, Error> {
        let wrong = |what: &str| Error::Settings(format!("{place:?} is no place of a Delta table: {what}"));
        let trimmed = place.trim_end_matches('/');
        if let Some((scheme, rest)) = trimmed.split_once("://") {
            let has_key = rest.split_once('/').is_some_and(|(_, key)| !key.is_empty());
            return match has_key && !scheme.is_empty() {
                true => Ok(Self::Delta { url: trimmed.into() }),
                false => Err(wrong("write a folder in the bucket, such as s3://bucket/lake/bars")),
            };
        }
        if trimmed.is_empty() {
            return Err(wrong("write a folder of its own, such as /data/lake/bars"));
        }
        let path = std::path::absolute(trimmed).map_err(|error| wrong(&error.to_string()))?;
        let path = path.to_str().ok_or_else(|| wrong("its path is not UTF-8"))?;
        Ok(Self::Delta { url: format!("file://{path}") })
    }

    /// The table of a record type, where a stream has several: its name is behind this one's.
    #[must_use]
    pub fn of_record(&self, record: &str) -> Self {
        let record = record.to_lowercase();
        match self {
            Self::Iceberg { name, catalog } => {
                let name = name.beside(format!("{}_{record}", name.table));
                Self::Iceberg { name, catalog: catalog.clone() }
            }
            Self::Delta { url } => Self::Delta { url: format!("{url}_{record}") },
        }
    }

    /// Opens the format. Only an SQLite database is touched.
    ///
    /// # Errors
    /// When the place is not valid, or options do not fit the format.
    pub(crate) fn open(&self, options: &Options) -> Result<Box<dyn Format>, Error> {
        match self {
            Self::Iceberg { name, catalog } => {
                let catalog = Arc::from(open::open(catalog, &name.catalog)?);
                Ok(Box::new(IcebergTable { catalog, name: name.clone() }))
            }
            Self::Delta { url } => {
                if options.symbol_buckets > 0 {
                    return Err(Error::Settings(
                        "Delta tables have no buckets of symbols: files of a day are by symbol, and their statistics state which they have"
                            .into(),
                    ));
                }
                Ok(Box::new(DeltaTable::open(url)?))
            }
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Iceberg { name, .. } => name.fmt(f),
            Self::Delta { url } => f.write_str(url.strip_prefix("file://").unwrap_or(url)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_delta_are_folders_or_urls() {
        assert_eq!(Target::delta("s3://bucket/a/b/").unwrap().to_string(), "s3://bucket/a/b");
        assert_eq!(Target::delta("/a/b").unwrap().of_record("Trade").to_string(), "/a/b_trade");
        assert!(Target::delta("a").unwrap().to_string().ends_with("/a"));
        for place in ["", "/", "s3://bucket", "://x/y"] {
            assert!(Target::delta(place).is_err(), "{place}");
        }
    }
}
