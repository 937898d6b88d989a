//! Bodies of one version of a schema, read under another.
//!
//! The first two bytes choose the versions, the third a record type, the rest is the body.

use crate::Target;
use crate::values::Values;
use crate::versions::{Lost, Versions};
use std::sync::LazyLock;
use tapedb_codec::dynamic::RecordValue;
use tapedb_codec::evolve::{EVOLVED_BYTES_MAX, Evolution, EvolveError};

/// See the module.
pub const TARGET: Target = Target { name: "evolve", run, seed };

/// How many pairs of versions there are to choose from.
const PAIRS: usize = 400;
/// What stands in the output before.
const BEFORE: &[u8] = b"before";

static VERSIONS: LazyLock<Vec<(Versions, Evolution)>> = LazyLock::new(|| {
    let pair = |seed| {
        let versions = Versions::new(seed);
        let evolution = Evolution::new(&versions.written, &versions.read);
        (versions, evolution.expect("allowed changes are compatible"))
    };
    (0..PAIRS as u64).map(pair).collect()
});

/// What converting a valid body did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The body was copied.
    Same,
    /// The body was converted.
    Converted,
    /// The message has no counterpart in the reading schema.
    Refused,
}

/// What conversion makes of a valid body is what encoding the converted values gives; what it makes of another is an
/// error, or bytes that can be looked at safely.
pub fn run(input: &[u8]) {
    let [low, high, record, body @ ..] = input else { return };
    let (versions, evolution) = &VERSIONS[usize::from(u16::from_le_bytes([*low, *high])) % PAIRS];
    let type_id = u16::from(*record) % versions.written.records().len() as u16;
    if versions.written.check(type_id, body).is_ok() {
        valid(versions, evolution, type_id, body);
    } else {
        hostile(versions, evolution, type_id, body);
    }
}

/// A valid body: the conversion against values.
pub fn valid(versions: &Versions, evolution: &Evolution, type_id: u16, body: &[u8]) -> Outcome {
    let record = versions.written.decode(type_id, body).expect("what passes validation can be decoded");
    assert_eq!(evolution.target(type_id), versions.target(type_id));
    let mut out = BEFORE.to_vec();
    match (evolution.convert(type_id, body, &mut out), versions.expected(&record)) {
        (Ok(target), Ok(expected)) => {
            let mut bytes = BEFORE.to_vec();
            versions.read.encode(&expected, &mut bytes).expect("the expected record fits its schema");
            assert_eq!((target, &out), (expected.type_id, &bytes), "{record:?} became other bytes");
            if evolution.is_identity(type_id) { Outcome::Same } else { Outcome::Converted }
        }
        (Err(error), Err(lost)) => {
            assert_eq!(out, BEFORE);
            let no_target = matches!(error, EvolveError::NoTarget { .. });
            assert_eq!(no_target, versions.target(type_id).is_none(), "{error}");
            assert!(!matches!(error, EvolveError::Decode(_) | EvolveError::TooLong(_)), "{error}");
            assert!(lost == Lost::Message || no_target, "{error}");
            Outcome::Refused
        }
        (converted, expected) => panic!("{record:?}: {converted:?}, expected {expected:?}"),
    }
}

fn hostile(versions: &Versions, evolution: &Evolution, type_id: u16, body: &[u8]) {
    let mut out = BEFORE.to_vec();
    match evolution.convert(type_id, body, &mut out) {
        Ok(target) => {
            let converted = out.strip_prefix(BEFORE).expect("what was there stays");
            assert!(converted.len() <= EVOLVED_BYTES_MAX);
            let _ = versions.read.check(target, converted);
            let _ = versions.read.decode(target, converted);
        }
        Err(error) => {
            assert_eq!(out, BEFORE);
            assert!(!error.to_string().is_empty());
        }
    }
}

fn seed(number: u64) -> Vec<u8> {
    let pair = (number % PAIRS as u64) as u16;
    let layouts = &VERSIONS[usize::from(pair)].0.written;
    let type_id = (number / PAIRS as u64 % layouts.records().len() as u64) as u16;
    let mut record = RecordValue::default();
    Values::new(layouts, number).fill(type_id, &mut record);
    let [low, high] = pair.to_le_bytes();
    let mut input = vec![low, high, type_id as u8];
    layouts.encode(&record, &mut input).expect("a random record is valid");
    input
}
