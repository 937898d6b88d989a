//! Messages through both codecs and JSON, and back: everything that is made must survive every way round.

use crate::compiled::{Codec, digest};
use crate::generated::CODECS;
use std::fmt::Display;
use tapedb_codec::dynamic::{Layouts, RecordValue};
use tapedb_testing::schemas::{SAMPLES, sample_layouts};
use tapedb_testing::values::Values;

/// What has been tried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages.
    pub messages: u64,
    /// Bytes of their bodies.
    pub body_bytes: u64,
    /// Messages that went through JSON: those whose type can stand alone.
    pub json: u64,
    /// Bytes of JSON.
    pub json_bytes: u64,
}

impl Counts {
    /// Adds what others have tried.
    pub fn add(&mut self, other: Self) {
        self.messages += other.messages;
        self.body_bytes += other.body_bytes;
        self.json += other.json;
        self.json_bytes += other.json_bytes;
    }
}

/// Makes messages and sends them round. Memory is used again from message to message.
#[derive(Debug, Default)]
pub struct Soak {
    /// What has been tried so far.
    pub counts: Counts,
    made: RecordValue,
    read: RecordValue,
    body: Vec<u8>,
    again: Vec<u8>,
    json: Vec<u8>,
    canonical: Vec<u8>,
    /// The message before of each record type, by schema and type id.
    before: Vec<Vec<Vec<u8>>>,
}

impl Soak {
    /// Nothing tried yet.
    pub fn new() -> Self {
        let before = CODECS.iter().map(|codecs| vec![Vec::new(); codecs.len()]).collect();
        Self { before, ..Self::default() }
    }

    /// Makes the message of that number and sends it round.
    ///
    /// # Panics
    /// When it does not come back as it was.
    pub fn one(&mut self, number: u64) {
        let sample = (number % SAMPLES as u64) as usize;
        let layouts = sample_layouts(sample);
        let type_id = (number / SAMPLES as u64 % layouts.records().len() as u64) as u16;
        Values::new(layouts, number).fill(type_id, &mut self.made);
        if let Err(what) = self.round_trip(layouts, sample, type_id) {
            panic!("TAPEDB_SEED={number} TAPEDB_MESSAGES=1: {what}\n{:?}", self.made);
        }
    }

    fn round_trip(&mut self, layouts: &Layouts, sample: usize, type_id: u16) -> Result<(), String> {
        self.body.clear();
        layouts.encode(&self.made, &mut self.body).map_err(text)?;
        self.interpreted(layouts, type_id)?;
        self.compiled(layouts, &CODECS[sample][usize::from(type_id)], sample, type_id)?;
        self.counts.messages += 1;
        self.counts.body_bytes += self.body.len() as u64;
        self.json(layouts, type_id)
    }

    fn interpreted(&mut self, layouts: &Layouts, type_id: u16) -> Result<(), String> {
        layouts.decode_into(type_id, &self.body, &mut self.read).map_err(text)?;
        self.again.clear();
        layouts.encode(&self.read, &mut self.again).map_err(text)?;
        same(&self.body, &self.again, "interpreter: decoded and encoded again")
    }

    fn compiled(
        &mut self,
        layouts: &Layouts,
        codec: &Codec,
        sample: usize,
        type_id: u16,
    ) -> Result<(), String> {
        let before = &mut self.before[sample][usize::from(type_id)];
        self.again.clear();
        (codec.again)(before, &self.body, &mut self.again).map_err(text)?;
        same(&self.body, &self.again, "compiled: decoded and encoded again")?;
        before.clone_from(&self.body);
        let compiled = (codec.view)(&self.body).map_err(text)?;
        let interpreted = digest(layouts.view(type_id, &self.body).map_err(text)?);
        if compiled == interpreted { Ok(()) } else { Err("the views of the two codecs differ".into()) }
    }

    fn json(&mut self, layouts: &Layouts, type_id: u16) -> Result<(), String> {
        if !layouts.records()[usize::from(type_id)].message {
            return Ok(());
        }
        self.json.clear();
        layouts.view_trusted(type_id, &self.body).map_err(text)?.write_json(&mut self.json);
        let parsed = layouts.from_json(str::from_utf8(&self.json).map_err(text)?).map_err(text)?;
        self.again.clear();
        layouts.encode(&parsed, &mut self.again).map_err(text)?;
        same(&self.body, &self.again, "by way of JSON")?;
        self.canonical.clear();
        layouts.view(parsed.type_id, &self.again).map_err(text)?.write_json(&mut self.canonical);
        self.counts.json += 1;
        self.counts.json_bytes += self.json.len() as u64;
        same(&self.json, &self.canonical, "JSON, then JSON again")
    }
}

fn text(error: impl Display) -> String {
    error.to_string()
}

fn same(a: &[u8], b: &[u8], how: &str) -> Result<(), String> {
    if a == b {
        return Ok(());
    }
    Err(format!("{how} differs: {:?} {:?}", String::from_utf8_lossy(a), String::from_utf8_lossy(b)))
}
