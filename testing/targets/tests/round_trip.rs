//! Random messages of fifty random schemas: bytes and JSON, there and back.
//!
//! `TAPEDB_MESSAGES` sets how many messages (default 50,000; 20 million for the long run), `TAPEDB_SEED` where they
//! begin.

use tapedb_codec::dynamic::{Layouts, RecordValue};
use tapedb_testing::schemas::{SAMPLES, sample_layouts};
use tapedb_testing::values::Values;

fn setting(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text:?} is not a number")),
        Err(_) => default,
    }
}

/// Memory that is used again for every message.
#[derive(Default)]
struct Buffers {
    made: RecordValue,
    read: RecordValue,
    body: Vec<u8>,
    again: Vec<u8>,
    json: Vec<u8>,
    canonical: Vec<u8>,
}

#[test]
fn random_messages_survive_bytes_and_json() {
    let (messages, first) = (setting("TAPEDB_MESSAGES", 50_000), setting("TAPEDB_SEED", 0));
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                let mut buffers = Buffers::default();
                (first + thread..first + messages)
                    .step_by(threads as usize)
                    .for_each(|seed| one(seed, &mut buffers));
            });
        }
    });
}

fn one(seed: u64, buffers: &mut Buffers) {
    let layouts = sample_layouts(seed as usize);
    let types = layouts.records().len() as u64;
    let type_id = (seed / SAMPLES as u64 % types) as u16;
    Values::new(layouts, seed).fill(type_id, &mut buffers.made);
    if let Err(what) = round_trip(layouts, type_id, buffers) {
        panic!("TAPEDB_SEED={seed} TAPEDB_MESSAGES=1: {what}\n{:?}", buffers.made);
    }
}

fn round_trip(layouts: &Layouts, type_id: u16, buffers: &mut Buffers) -> Result<(), String> {
    let Buffers { made, read, body, again, json, canonical } = buffers;
    [&mut *body, again, json, canonical].into_iter().for_each(Vec::clear);
    let text = |e: &dyn std::fmt::Display| e.to_string();
    layouts.encode(made, body).map_err(|e| text(&e))?;
    layouts.decode_into(type_id, body, read).map_err(|e| text(&e))?;
    layouts.encode(read, again).map_err(|e| text(&e))?;
    same(body, again, "decoded and encoded again")?;
    layouts.view(type_id, body).map_err(|e| text(&e))?.write_json(json);
    if !layouts.records()[usize::from(type_id)].message {
        return Ok(());
    }
    let parsed = layouts.from_json(str::from_utf8(json).map_err(|e| text(&e))?).map_err(|e| text(&e))?;
    again.clear();
    layouts.encode(&parsed, again).map_err(|e| text(&e))?;
    same(body, again, "by way of JSON")?;
    layouts.view(type_id, again).map_err(|e| text(&e))?.write_json(canonical);
    same(json, canonical, "JSON, then JSON again")
}

fn same(a: &[u8], b: &[u8], how: &str) -> Result<(), String> {
    if a == b {
        return Ok(());
    }
    Err(format!("{how} differs: {:?} {:?}", String::from_utf8_lossy(a), String::from_utf8_lossy(b)))
}
