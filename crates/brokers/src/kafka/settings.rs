//! Where brokers are, and librdkafka's settings: parsed and shown without librdkafka.

use crate::error::Error;
use std::fmt;
use std::path::Path;

/// How brokers are reached.
#[derive(Clone, Default)]
pub struct Settings {
    /// Host and port of some of the brokers, with commas.
    pub brokers: String,
    /// Names and values of librdkafka.
    pub properties: Vec<(String, String)>,
}

/// What imports and exports decide themselves.
const DECIDED: [&str; 9] = [
    "bootstrap.servers",
    "metadata.broker.list",
    "isolation.level",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "auto.offset.reset",
    "enable.partition.eof",
    "transactional.id",
    "enable.idempotence",
];

impl Settings {
    /// Adds `name=value`.
    ///
    /// # Errors
    /// When it is none, or is decided by the command.
    pub fn set(&mut self, pair: &str) -> Result<(), Error> {
        let (name, value) = pair.split_once('=').ok_or_else(|| {
            Error::Settings(format!("{:?} is no setting of Kafka; write NAME=VALUE", shortened(pair)))
        })?;
        let (name, value) = (name.trim(), value.trim());
        if DECIDED.contains(&name) {
            return Err(Error::Settings(format!(
                "{name} is decided by the command, for each message is to be there once"
            )));
        }
        self.properties.retain(|(known, _)| known != name);
        self.properties.push((name.into(), value.into()));
        Ok(())
    }

    /// Adds the settings of a file of properties, as Kafka's tools take them: secrets are better there than on a command line.
    ///
    /// # Errors
    /// When it cannot be read, or a line is no setting. The error does not show the line.
    pub fn read(&mut self, path: &Path) -> Result<(), Error> {
        let shown = path.display();
        let text = std::fs::read_to_string(path)
            .map_err(|error| Error::Settings(format!("cannot read {shown}: {error}; check the path")))?;
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with(['#', '!']) {
                continue;
            }
            if !line.contains('=') {
                return Err(Error::Settings(format!("line {number} of {shown} is no NAME=VALUE")));
            }
            self.set(line)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Settings {
    /// Without secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |(name, value): &(String, String)| {
            format!("{name}={}", if is_secret(name) { "…" } else { value })
        };
        let properties: Vec<String> = self.properties.iter().map(shown).collect();
        f.debug_struct("Settings").field("brokers", &self.brokers).field("properties", &properties).finish()
    }
}

/// Whether a setting's value is shown nowhere.
fn is_secret(name: &str) -> bool {
    ["password", "secret", "token", "sasl.oauthbearer.config", ".pem", "jaas"]
        .iter()
        .any(|word| name.contains(word))
}

fn shortened(text: &str) -> String {
    text.chars().take(20).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown_and_what_is_decided_is_refused() {
        let mut settings = Settings::default();
        settings.set("sasl.password=hunter2").expect("it is one");
        settings.set("linger.ms = 5").expect("it is one");
        let shown = format!("{settings:?}");
        assert!(shown.contains("linger.ms=5") && !shown.contains("hunter2"), "{shown}");
        for bad in ["isolation.level=read_uncommitted", "transactional.id=x", "nothing"] {
            assert!(settings.set(bad).is_err(), "{bad}");
        }
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("client.properties");
        std::fs::write(&path, "# a comment\n\nsasl.username=ann\nsasl.password=a=b\n").expect("written");
        settings.read(&path).expect("read");
        assert!(settings.properties.contains(&("sasl.password".into(), "a=b".into())));
        std::fs::write(&path, "hunter2\n").expect("written");
        let error = settings.read(&path).unwrap_err().to_string();
        assert!(error.contains("line 1") && !error.contains("hunter2"), "{error}");
    }
}
