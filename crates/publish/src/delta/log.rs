//! Delta's log: versions, and what the table is after them.
//!
//! Always true: a [`State`] is what all versions up to its own make of the table, whether they were read one by one or from a checkpoint.

use super::checkpoint;
use crate::error::Error;
use crate::files::{DAY_PARTITION, day_of};
use crate::place::Place;
use crate::progress::COMMIT;
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;

/// How long a removed file is remembered, unless the table states another time: readers of older versions still need it, and what
/// cleans up goes by that.
const REMEMBERED_MS: i64 = 7 * 86_400_000;

/// The transaction number that only commits of ours have.
pub(crate) const OURS: &str = COMMIT;

/// Versions before a checkpoint that are looked at for changes of others.
const LOOK_BACK_MAX: u64 = 1000;

/// Where the log is.
#[derive(Debug)]
pub(crate) struct Log {
    pub place: Place,
    /// Its folder, without a slash at its end.
    pub url: String,
}

/// A table after a version.
#[derive(Debug, Clone, Default)]
pub(crate) struct State {
    pub version: u64,
    /// Versions of the protocol for readers and writers.
    pub protocol: (i64, i64),
    pub metadata: Map<String, Json>,
    /// Transaction numbers by application.
    pub transactions: BTreeMap<String, i64>,
    /// Files with rows, by path.
    pub files: BTreeMap<String, LoggedFile>,
    /// Actions that removed files, by path.
    pub removed: BTreeMap<String, Json>,
    /// What others have done to rows since the last commit of ours.
    pub changed: Option<String>,
    /// The text of the version.
    text: Vec<u8>,
}

/// A file with rows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LoggedFile {
    /// What added it.
    pub action: Json,
    pub day: Option<i32>,
    /// Rows that are not deleted.
    pub rows: Option<u64>,
}

impl Log {
    fn file_of(&self, version: u64) -> String {
        format!("{}/{version:020}.json", self.url)
    }

    /// Creates a version; `false`: there is one.
    ///
    /// # Errors
    /// When it cannot be written. It may exist all the same.
    pub fn create(&self, version: u64, text: &[u8]) -> Result<bool, Error> {
        self.place.create(&self.file_of(version), text)
    }

    /// The newest version, from one that is known or from the files; `None`: there is no table.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn newest(&self, known: Option<std::sync::Arc<State>>) -> Result<Option<State>, Error> {
        let known = known.map(std::sync::Arc::unwrap_or_clone);
        let state = match known {
            // Another table may be in the place of the one that is known.
            Some(known)
                if self.place.read(&self.file_of(known.version))?.is_some_and(|text| text == known.text) =>
            {
                Some(known)
            }
            _ => self.checkpoint_or_first()?,
        };
        let Some(mut state) = state else { return Ok(None) };
        while let Some(text) = self.place.read(&self.file_of(state.version + 1))? {
            let version = state.version + 1;
            state.apply(version, &text).map_err(|what| self.damaged(version, &what))?;
        }
        if state.metadata.is_empty() || state.protocol == (0, 0) {
            return Err(self.damaged(state.version, "nothing states the table's schema"));
        }
        Ok(Some(state))
    }

    /// The state of the newest checkpoint, or of the first version.
    fn checkpoint_or_first(&self) -> Result<Option<State>, Error> {
        let names = self.place.list(&self.url)?;
        if let Some((version, files)) = newest_checkpoint(&names) {
            let mut state = State { version, ..State::default() };
            for name in files {
                let url = format!("{}/{name}", self.url);
                let bytes = self.place.read(&url)?.ok_or_else(|| self.damaged(version, "it was removed"))?;
                for action in checkpoint::read(bytes)
                    .map_err(|what| self.damaged(version, &format!("{name}: {what}")))?
                {
                    state.act(&action).map_err(|what| self.damaged(version, &what))?;
                }
            }
            state.text = self.place.read(&self.file_of(version))?.unwrap_or_default();
            state.changed = self.changes_before(version)?;
            return Ok(Some(state));
        }
        let Some(text) = self.place.read(&self.file_of(0))? else {
            return match names.iter().filter_map(|name| version_of(name)).min() {
                None => Ok(None),
                Some(least) => {
                    Err(self.damaged(least, "versions before it are missing, and no checkpoint has them"))
                }
            };
        };
        let mut state = State::default();
        state.apply(0, &text).map_err(|what| self.damaged(0, &what))?;
        Ok(Some(state))
    }

    /// What others did to rows between the last commit of ours and a checkpoint.
    fn changes_before(&self, version: u64) -> Result<Option<String>, Error> {
        for version in (version.saturating_sub(LOOK_BACK_MAX)..=version).rev() {
            let Some(text) = self.place.read(&self.file_of(version))? else { break };
            let actions = actions_of(&text).map_err(|what| self.damaged(version, &what))?;
            if actions.iter().any(is_ours) {
                break;
            }
            if let Some(what) = change_of(version, &actions) {
                return Ok(Some(what));
            }
        }
        Ok(None)
    }

    /// Writes a checkpoint of a state, and the hint that it exists. What fails is left: the versions state the same.
    pub fn write_checkpoint(&self, state: &State) {
        let actions = state.actions();
        let Ok(bytes) = checkpoint::write(&actions) else { return };
        let url = format!("{}/{:020}.checkpoint.parquet", self.url, state.version);
        if self.place.create(&url, &bytes).is_ok_and(|created| created) {
            let hint = json!({
                "version": state.version, "size": actions.len(), "sizeInBytes": bytes.len(), "numOfAddFiles": state.files.len(),
            });
            self.place.replace(&format!("{}/_last_checkpoint", self.url), hint.to_string().as_bytes());
        }
    }

    fn damaged(&self, version: u64, what: &str) -> Error {
        Error::Table(format!("{}: version {version} of the table: {what}", self.url))
    }
}

/// The version whose file has a name.
fn version_of(name: &str) -> Option<u64> {
    name.strip_suffix(".json").filter(|number| number.len() == 20)?.parse().ok()
}

/// The newest checkpoint whose parts are all there.
fn newest_checkpoint(names: &[String]) -> Option<(u64, Vec<&str>)> {
    // By version and number of parts.
    let mut found: BTreeMap<(u64, usize), Vec<&str>> = BTreeMap::new();
    for name in names {
        let mut words = name.split('.');
        let version = words.next().filter(|number| number.len() == 20).and_then(|number| number.parse().ok());
        let Some(version) = version.filter(|_| words.next() == Some("checkpoint")) else { continue };
        let rest: Vec<&str> = words.collect();
        let parts = match rest[..] {
            ["parquet"] => Some(1),
            [_, parts, "parquet"] => parts.parse().ok(),
            _ => None,
        };
        if let Some(parts) = parts {
            found.entry((version, parts)).or_default().push(name);
        }
    }
    let whole = found.into_iter().rev().find(|((_, parts), names)| names.len() == *parts)?;
    Some((whole.0.0, whole.1))
}

/// The actions of a version.
fn actions_of(text: &[u8]) -> Result<Vec<Json>, String> {
    let text = str::from_utf8(text).map_err(|_| "it is not UTF-8")?;
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let action =
        |line| serde_json::from_str(line).map_err(|error| format!("a line of it is no JSON: {error}"));
    lines.map(action).collect()
}

fn is_ours(action: &Json) -> bool {
    action.get("txn").and_then(|txn| txn.get("appId")).and_then(Json::as_str) == Some(OURS)
}

/// How a version of others changes rows; `None`: it does not, or only rewrites files.
fn change_of(version: u64, actions: &[Json]) -> Option<String> {
    let changes = |action: &Json| {
        let file = action.get("add").or_else(|| action.get("remove"));
        file.is_some_and(|file| file.get("dataChange").and_then(Json::as_bool) != Some(false))
    };
    actions.iter().any(changes).then(|| {
        let operation =
            actions.iter().find_map(|action| action.get("commitInfo")?.get("operation")?.as_str());
        format!("version {version}, operation {}", operation.unwrap_or("unknown"))
    })
}

impl State {
    /// Applies the next version.
    pub fn apply(&mut self, version: u64, text: &[u8]) -> Result<(), String> {
        let actions = actions_of(text)?;
        for action in &actions {
            self.act(action)?;
        }
        if actions.iter().any(is_ours) {
            self.changed = None;
        } else if self.changed.is_none() {
            self.changed = change_of(version, &actions);
        }
        (self.version, self.text) = (version, text.to_vec());
        Ok(())
    }

    fn act(&mut self, action: &Json) -> Result<(), String> {
        let Some((kind, body)) = action.as_object().and_then(|action| action.iter().next()) else {
            return Err(format!("{action} is no action"));
        };
        let path = || {
            body.get("path").and_then(Json::as_str).map(str::to_string).ok_or(format!("{action} has no path"))
        };
        match kind.as_str() {
            "add" => {
                let path = path()?;
                self.removed.remove(&path);
                self.files.insert(path, LoggedFile::of(body));
            }
            "remove" => {
                let path = path()?;
                self.files.remove(&path);
                self.removed.insert(path, body.clone());
            }
            "metaData" => {
                self.metadata =
                    body.as_object().cloned().ok_or_else(|| format!("{action} is no metadata"))?;
            }
            "protocol" => {
                let number = |key: &str| body.get(key).and_then(Json::as_i64).unwrap_or(i64::MAX);
                self.protocol = (number("minReaderVersion"), number("minWriterVersion"));
            }
            "txn" => {
                let name = body.get("appId").and_then(Json::as_str);
                let (Some(name), Some(version)) = (name, body.get("version").and_then(Json::as_i64)) else {
                    return Err(format!("{action} has no number"));
                };
                self.transactions.insert(name.into(), version);
            }
            // Who has changed what, changes row by row, and what newer versions of the protocol have.
            _ => {}
        }
        Ok(())
    }

    /// All that a checkpoint states.
    fn actions(&self) -> Vec<Json> {
        let mut actions = vec![
            json!({ "protocol": { "minReaderVersion": self.protocol.0, "minWriterVersion": self.protocol.1 } }),
            json!({ "metaData": self.metadata }),
        ];
        let numbers = self.transactions.iter();
        actions
            .extend(numbers.map(|(name, version)| json!({ "txn": { "appId": name, "version": version } })));
        let oldest = crate::spec::metadata::now_ms() - self.remembered_ms();
        let is_recent = |action: &&Json| {
            action.get("deletionTimestamp").and_then(Json::as_i64).is_some_and(|time| time > oldest)
        };
        let without_change = |kind: &str, action: &Json| {
            let mut action = action.clone();
            action["dataChange"] = false.into();
            json!({ kind: action })
        };
        actions
            .extend(self.removed.values().filter(is_recent).map(|action| without_change("remove", action)));
        actions.extend(self.files.values().map(|file| without_change("add", &file.action)));
        actions
    }

    /// How long removed files are remembered: such as `interval 7 days`.
    fn remembered_ms(&self) -> i64 {
        let text = self.property("delta.deletedFileRetentionDuration").unwrap_or_default();
        let words: Vec<&str> = text.split_whitespace().filter(|word| *word != "interval").collect();
        let [number, unit] = words[..] else { return REMEMBERED_MS };
        let unit = match unit.trim_end_matches('s') {
            "week" => 7 * 86_400_000,
            "day" => 86_400_000,
            "hour" => 3_600_000,
            "minute" => 60_000,
            "second" => 1000,
            _ => return REMEMBERED_MS,
        };
        number.parse::<i64>().map_or(REMEMBERED_MS, |number| number.saturating_mul(unit))
    }

    pub fn configuration(&self) -> Option<&Map<String, Json>> {
        self.metadata.get("configuration")?.as_object()
    }

    /// A property of the table.
    pub fn property(&self, key: &str) -> Option<&str> {
        self.configuration()?.get(key)?.as_str()
    }

    pub fn partition_columns(&self) -> Vec<&str> {
        let columns = self.metadata.get("partitionColumns").and_then(Json::as_array);
        columns.map_or(Vec::new(), |columns| columns.iter().filter_map(Json::as_str).collect())
    }
}

impl LoggedFile {
    fn of(action: &Json) -> Self {
        let day = action.get("partitionValues").and_then(|values| values.get(DAY_PARTITION)?.as_str());
        let stats = action.get("stats").and_then(Json::as_str);
        let stats: Option<Json> = stats.and_then(|text| serde_json::from_str(text).ok());
        let deleted =
            action.get("deletionVector").and_then(|vector| vector.get("cardinality")?.as_u64()).unwrap_or(0);
        let rows = stats.and_then(|stats| stats.get("numRecords")?.as_u64());
        Self {
            action: action.clone(),
            day: day.and_then(day_of),
            rows: rows.map(|rows| rows.saturating_sub(deleted)),
        }
    }

    /// The action that removes it.
    pub fn removal(&self, now: i64) -> Json {
        let of = |key: &str| self.action.get(key).cloned().unwrap_or(Json::Null);
        json!({ "remove": {
            "path": of("path"),
            "deletionTimestamp": now,
            "dataChange": true,
            "extendedFileMetadata": true,
            "partitionValues": of("partitionValues"),
            "size": of("size"),
        } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_whole_checkpoint_is_found() {
        let names = |names: &[&str]| names.iter().map(|name| format!("{name:0>20}")).collect::<Vec<_>>();
        let version = |number: u64, rest: &str| format!("{number:020}.{rest}");
        let all = [
            version(10, "checkpoint.parquet"),
            version(20, "checkpoint.0000000001.0000000002.parquet"),
            version(20, "checkpoint.0000000002.0000000002.parquet"),
            version(30, "checkpoint.0000000001.0000000002.parquet"),
            version(40, "checkpoint.80a083e8-7026.json"),
            version(41, "json"),
            "_last_checkpoint".into(),
        ];
        let (newest, parts) = newest_checkpoint(&all).unwrap();
        assert_eq!((newest, parts.len()), (20, 2));
        assert_eq!(newest_checkpoint(&names(&["1.json"])), None);
        assert_eq!((version_of(&all[5]), version_of(&all[0])), (Some(41), None));
    }

    #[test]
    fn versions_make_a_state_and_a_checkpoint_states_it() {
        let first = br#"{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}
{"metaData":{"id":"x","format":{"provider":"parquet","options":{}},"schemaString":"{}","partitionColumns":["time_day"],"configuration":{"a":"b"},"createdTime":5}}
{"txn":{"appId":"tapedb.commit","version":7}}
{"add":{"path":"time_day=2024-01-02/a","partitionValues":{"time_day":"2024-01-02"},"size":1,"modificationTime":2,"dataChange":true,"stats":"{\"numRecords\":3}"}}
"#;
        let rewritten = br#"{"commitInfo":{"operation":"OPTIMIZE"}}
{"remove":{"path":"time_day=2024-01-02/a","deletionTimestamp":9999999999999,"dataChange":false}}
{"add":{"path":"b","partitionValues":{"time_day":null},"size":1,"modificationTime":2,"dataChange":false,"tags":{"x":"y"}}}
"#;
        let deleted = br#"{"commitInfo":{"operation":"DELETE"}}
{"remove":{"path":"b","dataChange":true}}
"#;
        let mut state = State::default();
        state.apply(0, first).unwrap();
        assert_eq!(state.files["time_day=2024-01-02/a"].rows, Some(3));
        assert_eq!(state.files["time_day=2024-01-02/a"].day, Some(19_724));
        state.apply(1, rewritten).unwrap();
        assert_eq!((state.changed.clone(), state.files["b"].rows), (None, None));
        let mut read = State { version: 1, ..State::default() };
        for action in checkpoint::read(checkpoint::write(&state.actions()).unwrap()).unwrap() {
            read.act(&action).unwrap();
        }
        assert_eq!(
            (&read.metadata, read.protocol, &read.transactions),
            (&state.metadata, (1, 2), &state.transactions)
        );
        assert_eq!(read.files, state.files);
        assert_eq!(read.removed.len(), 1);
        assert_eq!(read.property("a"), Some("b"));
        state.apply(2, deleted).unwrap();
        assert!(state.changed.unwrap().contains("version 2, operation DELETE"));
        for bad in [&b"{"[..], b"[]", b"{\"add\":{}}", b"{\"txn\":{}}", b"\xff"] {
            assert!(State::default().apply(0, bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn removed_files_are_remembered_as_long_as_the_table_states() {
        for (text, ms) in
            [("interval 2 days", 172_800_000), ("1 week", REMEMBERED_MS), ("soon", REMEMBERED_MS)]
        {
            let mut state = State::default();
            state
                .metadata
                .insert("configuration".into(), json!({ "delta.deletedFileRetentionDuration": text }));
            assert_eq!(state.remembered_ms(), ms, "{text}");
        }
    }
}
