//! Which column is which field.

use super::file::Records;
use super::times::Times;
use crate::error::ImportError;
use csv::ByteRecord;
use jiff::tz::TimeZone;
use tapedb_schema::TimeUnit;

/// Where symbols come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TableSymbol {
    /// A column.
    Column(String),
    /// One symbol for all rows.
    All(String),
}

/// How to read tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableOptions {
    /// The column of the time.
    pub time: String,
    /// The column of the date, where `time` is a time of day.
    pub date: Option<String>,
    /// Unit of times that are numbers; without it, the size of a file's first time shows it.
    pub time_unit: Option<TimeUnit>,
    /// IANA name of the zone of times that have none.
    pub zone: Option<String>,
    /// Where symbols come from.
    pub symbol: TableSymbol,
    /// Columns whose fields have other names: column, then field; an empty field leaves the column out.
    pub renamed: Vec<(String, String)>,
    /// Names of the columns of files without a header.
    pub columns: Option<Vec<String>>,
    /// What separates cells.
    pub delimiter: u8,
}

/// A file's columns.
pub(super) struct Header {
    pub(super) time: usize,
    pub(super) date: Option<usize>,
    pub(super) symbol: Option<usize>,
    /// Column and field of all others.
    pub(super) fields: Vec<(usize, String)>,
    /// Columns without a name, which may have empty cells only.
    pub(super) unnamed: Vec<usize>,
    pub(super) count: usize,
}

impl TableOptions {
    /// How times are read.
    pub(super) fn times(&self, records: &Records) -> Result<Times, ImportError> {
        let zone = self.zone.as_deref().map(TimeZone::get).transpose();
        let wrong = |error: jiff::Error| ImportError::WrongFormat {
            path: records.place.path.clone(),
            reason: format!("--zone: {error}"),
        };
        Ok(Times { unit: self.time_unit, zone: zone.map_err(wrong)?, guessed: false })
    }

    /// Reads the header, unless the options have it.
    pub(super) fn header(&self, records: &mut Records) -> Result<Header, ImportError> {
        let names = match &self.columns {
            Some(names) => names.clone(),
            None => {
                let mut record = ByteRecord::new();
                let path = records.place.path.clone();
                let wrong = |reason: &str| ImportError::WrongFormat { path, reason: reason.into() };
                if !records.next(&mut record)? {
                    return Err(wrong("the file has no header"));
                }
                if record.as_slice().contains(&0) || record.as_slice().starts_with(b"\xff\xfe") {
                    return Err(wrong("the file is no text in UTF-8, but perhaps in UTF-16; convert it"));
                }
                let names = record.iter().map(|name| String::from_utf8_lossy(name).trim().to_string());
                names.map(|name| name.trim_start_matches('\u{feff}').to_string()).collect()
            }
        };
        self.of_names(&names)
            .map_err(|reason| ImportError::WrongFormat { path: records.place.path.clone(), reason })
    }

    fn of_names(&self, names: &[String]) -> Result<Header, String> {
        let place = |wanted: &str, option: &str| {
            names.iter().position(|name| name == wanted).ok_or_else(|| {
                format!("there is no column {wanted:?} ({option}); there are {}", names.join(", "))
            })
        };
        if let Some((at, name)) =
            names.iter().enumerate().find(|(at, name)| !name.is_empty() && names[..*at].contains(name))
        {
            return Err(format!(
                "column {} has the name {name:?} of another; name them with --columns",
                at + 1
            ));
        }
        let time = place(&self.time, "--time")?;
        let date = self.date.as_ref().map(|date| place(date, "--date-column")).transpose()?;
        let symbol = match &self.symbol {
            TableSymbol::Column(name) => Some(place(name, "--symbol")?),
            TableSymbol::All(_) => None,
        };
        for (column, _) in &self.renamed {
            place(column, "--map")?;
        }
        let (mut fields, mut unnamed) = (Vec::new(), Vec::new());
        for (at, name) in names.iter().enumerate() {
            if [Some(time), date, symbol].contains(&Some(at)) {
                continue;
            }
            let renamed = self.renamed.iter().find(|(column, _)| column == name);
            let field = renamed.map_or_else(|| field_name(name), |(_, field)| field.clone());
            if !field.is_empty() {
                fields.push((at, field));
            } else if renamed.is_none() {
                unnamed.push(at);
            }
        }
        Ok(Header { time, date, symbol, fields, unnamed, count: names.len() })
    }
}

/// Names that messages have in their headers.
const HEADER_NAMES: [&str; 4] = ["symbol", "time", "timestamp", "type"];

/// A column's name as that of a field: words in lower case with underscores; an underscore behind a name that the header has.
fn field_name(column: &str) -> String {
    let letters = column.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' });
    let name: String = letters.collect::<String>().to_ascii_lowercase();
    match name {
        name if name.starts_with(|letter: char| letter.is_ascii_digit()) => format!("_{name}"),
        name if HEADER_NAMES.contains(&name.as_str()) => format!("{name}_"),
        name => name,
    }
}
