//! A second reader of Delta tables, which goes by the versions alone: what others read is not what the writer remembers.

use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// What the versions of a table make of it.
#[derive(Debug, Default)]
pub struct DeltaLog {
    /// Paths of files, and what was stated of them.
    pub files: BTreeMap<String, Json>,
    pub transactions: BTreeMap<String, i64>,
    pub metadata: Json,
    pub versions: u64,
    /// Operations, from the first version on.
    pub operations: Vec<String>,
}

impl DeltaLog {
    /// Reads all versions; `None`: there is no table.
    pub fn read(table: &Path) -> Option<Self> {
        let mut log = Self::default();
        while let Ok(text) = fs::read_to_string(version(table, log.versions)) {
            log.apply(&text);
            log.versions += 1;
        }
        (log.versions > 0).then_some(log)
    }

    fn apply(&mut self, text: &str) {
        let mut added = BTreeSet::new();
        for line in text.lines() {
            let action: Json = serde_json::from_str(line).unwrap();
            let (kind, body) = action.as_object().unwrap().iter().next().unwrap();
            let path = body["path"].as_str().unwrap_or_default().to_string();
            match kind.as_str() {
                "add" => {
                    assert!(added.insert(path.clone()), "{path} is added twice in a version");
                    assert!(self.files.insert(path, body.clone()).is_none());
                }
                "remove" => drop(self.files.remove(&path).expect("a file that is removed was there")),
                "txn" => {
                    let name = body["appId"].as_str().unwrap().to_string();
                    self.transactions.insert(name, body["version"].as_i64().unwrap());
                }
                "metaData" => self.metadata = body.clone(),
                "commitInfo" => self.operations.push(body["operation"].as_str().unwrap().into()),
                "protocol" => {}
                other => panic!("an action {other}"),
            }
        }
    }

    /// The stated rows of all files.
    pub fn rows(&self) -> u64 {
        let stats = self.files.values().map(|file| file["stats"].as_str().unwrap());
        stats.map(|text| serde_json::from_str::<Json>(text).unwrap()["numRecords"].as_u64().unwrap()).sum()
    }

    /// What the table states, under the names of properties.
    pub fn properties(&self) -> BTreeMap<String, String> {
        let configuration = self.metadata["configuration"].as_object().unwrap();
        let mut all: BTreeMap<String, String> =
            configuration.iter().map(|(key, value)| (key.clone(), value.as_str().unwrap().into())).collect();
        let sequences: Vec<String> = (0..)
            .map_while(|space| self.transactions.get(&format!("tapedb.sequences.{space}")))
            .map(i64::to_string)
            .collect();
        all.insert("tapedb.sequences".into(), sequences.join(","));
        all.insert("tapedb.rows".into(), self.transactions["tapedb.rows"].to_string());
        all
    }

    pub fn columns(&self) -> Vec<String> {
        let schema: Json = serde_json::from_str(self.metadata["schemaString"].as_str().unwrap()).unwrap();
        schema["fields"]
            .as_array()
            .unwrap()
            .iter()
            .map(|field| field["name"].as_str().unwrap().into())
            .collect()
    }
}

/// The file of a version.
pub fn version(table: &Path, number: u64) -> std::path::PathBuf {
    table.join("_delta_log").join(format!("{number:020}.json"))
}
