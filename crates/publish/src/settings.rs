//! What is published how, and where: names, catalogues, options, and their text forms.

use crate::error::Error;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use tapedb_arrow::Decimals;

/// Namespace of tables that are named without one.
const NAMESPACE: &str = "default";

/// `CATALOG.TABLE` or `CATALOG.NAMESPACE.TABLE`; namespaces may have several parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableName {
    /// The catalogue's name: what its settings are found by.
    pub catalog: String,
    /// Parts of the namespace.
    pub namespace: Vec<String>,
    /// The table.
    pub table: String,
}

impl TableName {
    /// Another table of the same namespace.
    pub fn beside(&self, table: impl Into<String>) -> Self {
        Self { table: table.into(), ..self.clone() }
    }
}

impl FromStr for TableName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = |what: &str| Error::Settings(format!("{text:?} names no table: {what}"));
        let mut parts: Vec<String> = text.split('.').map(str::to_string).collect();
        let is_plain = |part: &String| {
            !part.is_empty() && part.chars().all(|letter| letter.is_alphanumeric() || "_-".contains(letter))
        };
        if !parts.iter().all(is_plain) {
            return Err(wrong("names are letters, digits, _ and -, with dots between them"));
        }
        let table = parts.pop().filter(|_| !parts.is_empty());
        let table = table.ok_or_else(|| wrong("write CATALOG.TABLE or CATALOG.NAMESPACE.TABLE"))?;
        let catalog = parts.remove(0);
        let namespace = if parts.is_empty() { vec![NAMESPACE.to_string()] } else { parts };
        Ok(Self { catalog, namespace, table })
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.catalog, self.namespace.join("."), self.table)
    }
}

/// Where a catalogue is: `KIND:PLACE`, and `,KEY=VALUE` behind it.
///
/// ```
/// use tapedb_publish::CatalogSettings;
///
/// let settings: CatalogSettings = "sql:/data/catalog.db,warehouse=/data/lake".parse()?;
/// assert_eq!(settings.place, "/data/catalog.db");
/// assert_eq!(settings.get("warehouse"), Some("/data/lake"));
/// # Ok::<(), tapedb_publish::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogSettings {
    /// What kind it is.
    pub kind: CatalogKind,
    /// Folder, file or URL.
    pub place: String,
    /// What else is set.
    more: BTreeMap<String, String>,
}

/// Kinds of catalogues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CatalogKind {
    /// Tables in a folder or bucket, without a catalogue beside them: Hadoop's.
    Folder,
    /// An SQLite database, as those of pyiceberg and of Iceberg's JDBC catalogue.
    Sql,
    /// A server that speaks Iceberg's REST protocol.
    Rest,
}

/// What each kind may have set.
const KEYS: [(CatalogKind, &str, &[&str]); 3] = [
    (CatalogKind::Folder, "folder", &[]),
    (CatalogKind::Sql, "sql", &["warehouse"]),
    (CatalogKind::Rest, "rest", &["warehouse", "token", "credential", "scope", "oauth2-server-uri"]),
];

impl CatalogSettings {
    /// A setting.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.more.get(key).map(String::as_str)
    }

    /// Sets what is not set yet, such as what the environment has.
    pub fn set_default(&mut self, key: &str, value: String) {
        self.more.entry(key.into()).or_insert(value);
    }
}

impl FromStr for CatalogSettings {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = |what: String| Error::Settings(format!("{text:?} is no catalogue: {what}"));
        let kinds = || KEYS.map(|(_, word, _)| format!("{word}:")).join(", ");
        let (word, rest) =
            text.split_once(':').ok_or_else(|| wrong(format!("it begins with one of {}", kinds())))?;
        let Some((kind, _, keys)) = KEYS.iter().find(|(_, known, _)| *known == word) else {
            return Err(wrong(format!("{word:?} is none of {}", kinds())));
        };
        let mut pieces = rest.split(',');
        let place = pieces.next().unwrap_or_default().to_string();
        if place.is_empty() {
            return Err(wrong("it has no place, such as a folder or a URL".into()));
        }
        let mut more = BTreeMap::new();
        for piece in pieces {
            let (key, value) =
                piece.split_once('=').ok_or_else(|| wrong(format!("{piece:?} is not KEY=VALUE")))?;
            if !keys.contains(&key) {
                return Err(wrong(format!("{key:?} is no setting of {word}: {}", keys.join(", "))));
            }
            more.insert(key.to_string(), value.to_string());
        }
        if *kind == CatalogKind::Sql && !more.contains_key("warehouse") {
            return Err(wrong("sql needs warehouse=FOLDER: where new tables have their files".into()));
        }
        Ok(Self { kind: *kind, place, more })
    }
}

/// How a table is made and written.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Digits and scale of decimals in a field, by its name; in all others decimals without a scale of their own are doubles.
    pub scales: BTreeMap<String, Decimals>,
    /// The field whose entries have a row each, instead of being a list in the row of their message.
    pub flatten: Option<String>,
    /// Partitions by symbol within a day: so many buckets; 0: none.
    pub symbol_buckets: u32,
    /// A file ends when it has about so many bytes.
    pub file_bytes: u64,
    /// Most rows of a row group: what a reader of one symbol reads at least.
    pub row_group_rows: usize,
    /// Bytes of rows that are sorted together in memory.
    pub memory_bytes: usize,
    /// Level of zstd, 1 to 22.
    pub zstd_level: i32,
}

impl Default for Options {
    /// Files of 128 MB, row groups of 131,072 rows, 1 GiB of memory, zstd at level 3.
    fn default() -> Self {
        Self {
            scales: BTreeMap::new(),
            flatten: None,
            symbol_buckets: 0,
            file_bytes: 128_000_000,
            row_group_rows: 1 << 17,
            memory_bytes: 1 << 30,
            zstd_level: 3,
        }
    }
}

impl Options {
    /// What decides the table's columns and partitions, as text: a table is continued with the same only.
    pub fn shape(&self) -> String {
        let mut words: Vec<String> =
            self.scales.iter().map(|(field, decimals)| format!("scale {field}={decimals}")).collect();
        words.extend(self.flatten.iter().map(|field| format!("flatten {field}")));
        if self.symbol_buckets > 0 {
            words.push(format!("buckets {}", self.symbol_buckets));
        }
        words.join("; ")
    }

    /// Checks what does not depend on a stream.
    ///
    /// # Errors
    /// [`Error::Settings`].
    pub fn check(&self) -> Result<(), Error> {
        let wrong = |what: &str| Err(Error::Settings(what.into()));
        if !(1_000_000..=2_000_000_000).contains(&self.file_bytes) {
            return wrong("the size of files is 1 MB to 2 GB; 128 to 512 MB suit most engines");
        }
        if self.row_group_rows == 0 || self.memory_bytes < 1 << 24 {
            return wrong("row groups have at least one row, and rows at least 16 MiB of memory");
        }
        if self.symbol_buckets > 4096 {
            return wrong(
                "there are at most 4096 buckets of symbols: each has a file of its own for each day",
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_a_catalogue_and_perhaps_a_namespace() {
        let name: TableName = "lake.bars".parse().unwrap();
        assert_eq!(name.to_string(), "lake.default.bars");
        let name: TableName = "lake.market.eu.bars".parse().unwrap();
        assert_eq!((name.namespace, name.table), (vec!["market".into(), "eu".into()], "bars".into()));
        for text in ["", "bars", "lake.", ".bars", "lake..bars", "lake.a/b", "lake.a b"] {
            assert!(text.parse::<TableName>().is_err(), "{text}");
        }
    }

    #[test]
    fn catalogues_have_a_kind_a_place_and_settings() {
        let settings: CatalogSettings = "rest:http://host:8181/api,warehouse=w,token=a=b".parse().unwrap();
        assert_eq!((settings.kind, &*settings.place), (CatalogKind::Rest, "http://host:8181/api"));
        assert_eq!((settings.get("token"), settings.get("scope")), (Some("a=b"), None));
        for text in [
            "",
            "/data",
            "hive:thrift://x",
            "folder:",
            "sql:/x",
            "folder:/x,warehouse=/y",
            "rest:http://x,token",
        ] {
            assert!(text.parse::<CatalogSettings>().is_err(), "{text}");
        }
    }
}
