//! How far a table is, in Delta's log: what never changes is in the table's properties, and numbers are transaction numbers.

use super::log::{OURS, State};
use crate::error::Error;
use crate::progress::{
    COMMIT, LOST, MESSAGES, Progress, ROWS, SEQUENCES, STALE, STREAM, SYMBOLS, is_property_of_table,
};
use crate::spec::metadata::now_ms;
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;

/// Names of transaction numbers that are one number.
const NUMBERS: [&str; 3] = [MESSAGES, ROWS, LOST];
/// How many symbols the stream had, and the checksum of their names.
const SYMBOLS_CHECKSUM: &str = "tapedb.symbols-checksum";

/// The properties of a new table.
pub(crate) fn properties(progress: &Progress) -> Map<String, Json> {
    let mut configuration = Map::new();
    set(&mut configuration, progress);
    configuration
}

/// Sets what is in properties. The stream's name follows when they change for another reason: each change may disturb others.
pub(crate) fn set(configuration: &mut Map<String, Json>, progress: &Progress) {
    let before = configuration.clone();
    if progress.stale.is_none() {
        configuration.remove(STALE);
    }
    for (key, value) in progress.properties().into_iter().filter(|(key, _)| is_property_of_table(key)) {
        configuration.insert(key, value.into());
    }
    let name = before.get(STREAM).cloned();
    let mut named_before = configuration.clone();
    if let Some(name) = name {
        named_before.insert(STREAM.into(), name);
    }
    if named_before == before {
        *configuration = before;
    }
}

/// The actions that state the numbers.
pub(crate) fn transactions(progress: &Progress) -> Vec<Json> {
    let (count, checksum) = progress.symbols;
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let mut numbers: Vec<(String, i64)> = (0..)
        .zip(&progress.sequences)
        .map(|(space, end)| (format!("{SEQUENCES}.{space}"), number(*end)))
        .collect();
    numbers.extend([
        (MESSAGES.into(), number(progress.messages)),
        (ROWS.into(), number(progress.rows)),
        (LOST.into(), number(progress.lost)),
        (SYMBOLS.into(), i64::from(count)),
        (SYMBOLS_CHECKSUM.into(), checksum.cast_signed()),
        (OURS.into(), i64::from_str_radix(&progress.commit, 16).unwrap_or(0)),
    ]);
    let now = now_ms();
    let action = |(name, version): (String, i64)| json!({ "txn": { "appId": name, "version": version, "lastUpdated": now } });
    numbers.into_iter().map(action).collect()
}

/// What a version states; `None`: it was not made by TapeDB.
///
/// # Errors
/// When it was changed, so that it states nothing.
pub(crate) fn of(state: &State) -> Result<Option<Progress>, Error> {
    let number = |name: &str| state.transactions.get(name).copied();
    let mut stated: BTreeMap<String, String> = BTreeMap::new();
    for (key, value) in state.configuration().into_iter().flatten() {
        stated.extend(value.as_str().map(|value| (key.clone(), value.to_string())));
    }
    let ends: Vec<String> =
        (0..).map_while(|space| number(&format!("{SEQUENCES}.{space}"))).map(|end| end.to_string()).collect();
    stated.insert(SEQUENCES.into(), ends.join(","));
    stated.extend(NUMBERS.iter().filter_map(|name| Some((name.to_string(), number(name)?.to_string()))));
    if let (Some(count), Some(checksum)) = (number(SYMBOLS), number(SYMBOLS_CHECKSUM)) {
        stated.insert(SYMBOLS.into(), format!("{count}:{:016x}", checksum.cast_unsigned()));
    }
    if let Some(commit) = number(OURS) {
        stated.insert(COMMIT.into(), if commit == 0 { String::new() } else { format!("{commit:016x}") });
    }
    Progress::of(|key| stated.get(key).map(String::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_properties_and_back() {
        let mut progress = Progress {
            stream: "bars".into(),
            stream_id: u64::MAX,
            record: "Bar".into(),
            shape: "flatten levels".into(),
            sequences: vec![10, 20],
            messages: 25,
            rows: 26,
            lost: 1,
            symbols: (3, u64::MAX - 1),
            commit: crate::progress::new_commit(),
            stale: Some("days".into()),
        };
        let mut state = State::default();
        state.metadata.insert("configuration".into(), Json::Object(properties(&progress)));
        let apply = |state: &mut State, progress: &Progress| {
            for action in transactions(progress) {
                let version = action["txn"]["version"].as_i64().unwrap();
                state.transactions.insert(action["txn"]["appId"].as_str().unwrap().into(), version);
            }
        };
        apply(&mut state, &progress);
        assert_eq!(of(&state).unwrap().unwrap(), progress);
        // A renamed stream alone changes no property.
        let mut configuration = properties(&progress);
        let before = configuration.clone();
        progress.stream = "other".into();
        set(&mut configuration, &progress);
        assert_eq!(configuration, before);
        progress.stale = None;
        set(&mut configuration, &progress);
        assert_eq!((configuration.get(STALE), &configuration[STREAM]), (None, &json!("other")));
        state.transactions.remove(ROWS);
        assert!(of(&state).is_err());
        assert_eq!(of(&State::default()).unwrap(), None);
    }
}
