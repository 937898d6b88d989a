//! Settings of a session, as clients set and ask for them.

use crate::postgres::failure::Failure;
use std::collections::BTreeMap;
use std::time::Duration;

/// Settings that one session may have beside those that are known.
const OTHERS_MAX: usize = 100;
/// Bytes of a value.
const VALUE_BYTES_MAX: usize = 4096;

/// Those that have a value from the start. Clients of `server_version` 15 know what is here.
const KNOWN: [(&str, &str); 24] = [
    ("application_name", ""),
    ("bytea_output", "hex"),
    ("client_encoding", "UTF8"),
    ("client_min_messages", "notice"),
    ("datestyle", "ISO, MDY"),
    ("default_transaction_isolation", "read committed"),
    ("default_transaction_read_only", "on"),
    ("extra_float_digits", "3"),
    ("in_hot_standby", "off"),
    ("integer_datetimes", "on"),
    ("intervalstyle", "postgres"),
    ("is_superuser", "off"),
    ("lc_collate", "C"),
    ("lc_ctype", "C"),
    ("max_identifier_length", "63"),
    ("search_path", "public"),
    ("server_encoding", "UTF8"),
    ("server_version", "15.0"),
    ("server_version_num", "150000"),
    ("standard_conforming_strings", "on"),
    ("statement_timeout", "0"),
    ("timezone", "UTC"),
    ("transaction_isolation", "read committed"),
    ("transaction_read_only", "on"),
];

/// Those that clients are sent at the start and when they change, and their names there.
const REPORTED: [(&str, &str); 11] = [
    ("application_name", "application_name"),
    ("client_encoding", "client_encoding"),
    ("datestyle", "DateStyle"),
    ("default_transaction_read_only", "default_transaction_read_only"),
    ("in_hot_standby", "in_hot_standby"),
    ("integer_datetimes", "integer_datetimes"),
    ("intervalstyle", "IntervalStyle"),
    ("server_encoding", "server_encoding"),
    ("server_version", "server_version"),
    ("standard_conforming_strings", "standard_conforming_strings"),
    ("timezone", "TimeZone"),
];

/// The settings of a session.
#[derive(Debug, Clone)]
pub(crate) struct Settings(BTreeMap<String, String>);

impl Settings {
    pub fn new() -> Self {
        Self(KNOWN.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect())
    }

    /// Sets one; `None`: to what it was at the start.
    ///
    /// # Errors
    /// When it cannot have the value.
    pub fn set(&mut self, name: &str, value: Option<&str>) -> Result<(), Failure> {
        let name = name.to_ascii_lowercase();
        let start = KNOWN.iter().find(|(known, _)| *known == name);
        let Some(value) = value.or(start.map(|(_, value)| *value)) else {
            self.0.remove(&name);
            return Ok(());
        };
        let fixed = |only: &str| Err(Failure::new("22023", format!("{name} is {only} here")));
        match name.as_str() {
            "client_encoding"
                if !matches!(value.to_ascii_lowercase().replace('-', "").as_str(), "utf8" | "unicode") =>
            {
                return fixed("UTF8");
            }
            "timezone"
                if !matches!(
                    value.to_ascii_uppercase().as_str(),
                    "UTC" | "GMT" | "ETC/UTC" | "Z" | "0" | "+00:00"
                ) =>
            {
                // Clients send the zone of their machine. Times are sent with their offset, so that they are right all the same.
                return Ok(());
            }
            "server_version" | "server_version_num" | "server_encoding" | "integer_datetimes"
            | "is_superuser" => {
                return Err(Failure::new("55P02", format!("{name} cannot be changed")));
            }
            "statement_timeout" if duration(value).is_none() => {
                return Err(Failure::new("22023", format!("{value:?} is no time; write milliseconds or 5s")));
            }
            // Others change nothing: values have one form.
            "bytea_output" | "datestyle" | "intervalstyle" => return Ok(()),
            _ => {}
        }
        if value.len() > VALUE_BYTES_MAX || start.is_none() && self.0.len() >= KNOWN.len() + OTHERS_MAX {
            return Err(Failure::new("53400", "the session has too many settings, or one too long"));
        }
        self.0.insert(name, value.into());
        Ok(())
    }

    /// The value of one.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(&name.to_ascii_lowercase()).map(String::as_str)
    }

    /// All names and values.
    pub fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Name and value as the client gets them, of all that it gets.
    pub fn reported(&self) -> impl Iterator<Item = (&'static str, &str)> {
        REPORTED.iter().map(|(name, sent)| (*sent, self.get(name).unwrap_or_default()))
    }

    /// The time that a statement may take; `None`: unlimited.
    pub fn statement_timeout(&self) -> Option<Duration> {
        self.get("statement_timeout").and_then(duration).filter(|limit| !limit.is_zero())
    }
}

/// Milliseconds, or a number with a unit.
fn duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number: u64 = text[..digits].parse().ok()?;
    let millis = match text[digits..].trim() {
        "" | "ms" => 1,
        "s" => 1_000,
        "min" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    number.checked_mul(millis).map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_those_of_a_session() {
        let mut settings = Settings::new();
        settings.set("Application_Name", Some("psql")).unwrap();
        assert_eq!(settings.get("application_name"), Some("psql"));
        settings.set("application_name", None).unwrap();
        assert_eq!(settings.get("application_name"), Some(""));
        settings.set("statement_timeout", Some("5s")).unwrap();
        assert_eq!(settings.statement_timeout(), Some(Duration::from_secs(5)));
        assert!(settings.set("statement_timeout", Some("soon")).is_err());
        assert!(settings.set("client_encoding", Some("LATIN1")).is_err());
        assert!(settings.set("server_version", Some("1")).is_err());
        for number in 0..OTHERS_MAX {
            settings.set(&format!("a.{number}"), Some("x")).unwrap();
        }
        assert!(settings.set("a.more", Some("x")).is_err());
    }
}
