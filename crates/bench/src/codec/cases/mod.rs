//! The cases: three messages, each encoded, decoded and validated by both codecs.
//!
//! A *lap* is one operation on every variant of a message. The sum of each lap is known in advance, so a case that skips work or
//! reads wrong values fails: bytes written, valid messages, or every field of every message decoded. A field costs one addition,
//! which is little compared with decoding it.

mod messages;

use crate::fields::{Fields, fold_ref, fold_value};
use messages::{books, empties, trades};
use std::hint::black_box;
use std::rc::Rc;
use tapedb_codec::dynamic::{Layouts, RecordValue};
use tapedb_codec::{SchemaBuilder, decode, decode_into, encode, view, view_trusted};

/// A message with the cases that are measured on it.
pub struct Subject {
    /// Prefix of its cases.
    pub name: &'static str,
    /// Mean bytes of the bodies.
    pub bytes: f64,
    /// Sum of all fields of all variants, computed from the source.
    pub checksum: u64,
    /// The cases.
    pub cases: Vec<Case>,
    proof: Box<dyn Fn() -> Result<(), String>>,
}

/// One case.
pub struct Case {
    /// `<message>.<what>`.
    pub name: String,
    /// Operations in a lap.
    pub operations: u64,
    /// The sum of a lap.
    expected: u64,
    laps: Laps,
}

/// Runs a number of laps; returns their sum.
type Laps = Box<dyn FnMut(u64) -> u64>;

/// Creates the subject of a name.
type Create = fn(&'static str) -> Subject;

/// The subjects, and what creates them.
const SUBJECTS: [(&str, Create); 3] = [
    ("empty", |name| Subject::new(name, empties())),
    ("trade", |name| Subject::new(name, trades())),
    ("book", |name| Subject::new(name, books())),
];

/// The cases of each subject.
const WORKS: [&str; 8] = [
    "compiled.encode",
    "compiled.decode",
    "compiled.decode.copy",
    "interpreted.encode",
    "interpreted.decode",
    "interpreted.decode.copy",
    "validate",
    "validate.interpreted",
];

/// The names of all cases.
pub fn names() -> Vec<String> {
    SUBJECTS.iter().flat_map(|(name, _)| WORKS.map(|work| format!("{name}.{work}"))).collect()
}

/// All subjects.
pub fn subjects() -> Vec<Subject> {
    subjects_with(|_| true)
}

/// The subjects with the cases that are selected by their names. Others are not created, which takes long under valgrind.
pub fn subjects_with(is_selected: impl Fn(&str) -> bool) -> Vec<Subject> {
    let selects = |name: &str| WORKS.iter().any(|work| is_selected(&format!("{name}.{work}")));
    let create = |(name, create): &(&'static str, Create)| {
        selects(name).then(|| {
            let mut subject = create(name);
            subject.cases.retain(|case| is_selected(&case.name));
            subject
        })
    };
    SUBJECTS.iter().filter_map(create).collect()
}

impl Case {
    /// Runs `laps` laps.
    ///
    /// # Errors
    /// When the sum is wrong.
    pub fn run(&mut self, laps: u64) -> Result<(), String> {
        let (expected, found) = (self.expected.wrapping_mul(laps), (self.laps)(laps));
        if found == expected {
            return Ok(());
        }
        Err(format!(
            "{}: {laps} laps sum up to {found:#x} instead of {expected:#x}; please report this",
            self.name
        ))
    }
}

impl Subject {
    fn new<T: Fields + PartialEq>(name: &'static str, values: Vec<T>) -> Self {
        let ring = Rc::new(Ring::new(name, values));
        let bytes = ring.bytes() as f64 / ring.values.len() as f64;
        let (checksum, cases) = (ring.checksum(), cases(name, &ring));
        Self { name, bytes, checksum, cases, proof: Box::new(move || ring.prove()) }
    }

    /// Proves that both codecs write the same bytes, read the source from them, and refuse longer bodies.
    ///
    /// # Errors
    /// When they do not.
    pub fn prove(&self) -> Result<(), String> {
        (self.proof)().map_err(|what| format!("{}: {what}; please report this", self.name))
    }
}

/// The variants of a message, in every form that a case starts from.
struct Ring<T> {
    values: Vec<T>,
    records: Vec<RecordValue>,
    bodies: Vec<Vec<u8>>,
    layouts: Layouts,
    type_id: u16,
}

/// Every case of one message.
fn cases<T: Fields>(name: &str, ring: &Rc<Ring<T>>) -> Vec<Case> {
    let count = ring.values.len() as u64;
    let case = |what: &str, expected: u64, laps: Laps| Case {
        name: format!("{name}.{what}"),
        operations: count,
        expected,
        laps,
    };
    let (bytes, checksum) = (ring.bytes(), ring.checksum());
    let works: [(u64, Laps); WORKS.len()] = [
        (bytes, compiled_encode(ring.clone())),
        (checksum, compiled_decode(ring.clone())),
        (checksum, compiled_copy(ring.clone())),
        (bytes, interpreted_encode(ring.clone())),
        (checksum, interpreted_decode(ring.clone())),
        (checksum, interpreted_copy(ring.clone())),
        (count, compiled_validate(ring.clone())),
        (count, interpreted_validate(ring.clone())),
    ];
    WORKS.iter().zip(works).map(|(what, (expected, laps))| case(what, expected, laps)).collect()
}

fn compiled_encode<T: Fields>(ring: Rc<Ring<T>>) -> Laps {
    let mut out = Vec::new();
    Box::new(move |count| {
        laps(count, &ring.values, |value| {
            out.clear();
            encode(value, &mut out);
            black_box(&out).len() as u64
        })
    })
}

fn interpreted_encode<T: Fields>(ring: Rc<Ring<T>>) -> Laps {
    let mut out = Vec::new();
    Box::new(move |count| {
        laps(count, &ring.records, |record| {
            out.clear();
            // A failure writes nothing and changes the sum; also below.
            let _ = ring.layouts.encode(record, &mut out);
            black_box(&out).len() as u64
        })
    })
}

fn compiled_decode<T: Fields>(ring: Rc<Ring<T>>) -> Laps {
    Box::new(move |count| {
        laps(count, &ring.bodies, |body| {
            message_sum(T::fold_view(view_trusted::<T>(body), u64::wrapping_add))
        })
    })
}

fn interpreted_decode<T: Fields>(ring: Rc<Ring<T>>) -> Laps {
    Box::new(move |count| {
        laps(count, &ring.bodies, |body| match ring.layouts.view_trusted(ring.type_id, body) {
            Ok(record) => message_sum(fold_ref(record, u64::wrapping_add)),
            Err(_) => 0,
        })
    })
}

fn compiled_copy<T: Fields>(ring: Rc<Ring<T>>) -> Laps {
    let mut value = T::default();
    Box::new(move |count| {
        laps(count, &ring.bodies, |body| match decode_into(body, &mut value) {
            Ok(()) => message_sum(black_box(&value).fold(u64::wrapping_add)),
            Err(_) => 0,
        })
    })
}

fn interpreted_copy<T: Fields>(ring: Rc<Ring<T>>) -> Laps {
    let mut record = RecordValue::default();
    Box::new(move |count| {
        laps(count, &ring.bodies, |body| match ring.layouts.decode_into(ring.type_id, body, &mut record) {
            Ok(()) => message_sum(fold_value(black_box(&record), u64::wrapping_add)),
            Err(_) => 0,
        })
    })
}

fn compiled_validate<T: Fields>(ring: Rc<Ring<T>>) -> Laps {
    Box::new(move |count| laps(count, &ring.bodies, |body| view::<T>(body).is_ok().into()))
}

fn interpreted_validate<T: Fields>(ring: Rc<Ring<T>>) -> Laps {
    Box::new(move |count| {
        laps(count, &ring.bodies, |body| ring.layouts.check(ring.type_id, body).is_ok().into())
    })
}

/// Laps of `operation` over `ring`, each on a value that the compiler cannot predict.
#[inline(always)]
fn laps<I>(count: u64, ring: &[I], mut operation: impl FnMut(&I) -> u64) -> u64 {
    let mut sum = 0u64;
    for _ in 0..count {
        for item in ring {
            sum = sum.wrapping_add(operation(black_box(item)));
        }
    }
    sum
}

/// A message without fields counts too.
#[inline(always)]
fn message_sum(fields: u64) -> u64 {
    fields.wrapping_add(1)
}

impl<T: Fields + PartialEq> Ring<T> {
    fn new(name: &str, values: Vec<T>) -> Self {
        let mut schema = SchemaBuilder::new();
        let type_id = T::register(&mut schema);
        let layouts = Layouts::new(schema.finish()).expect("derives make valid schemas");
        let bodies: Vec<Vec<u8>> = values.iter().map(encoded).collect();
        let record = |body: &Vec<u8>| layouts.decode(type_id, body).unwrap_or_else(|e| panic!("{name}: {e}"));
        let records = bodies.iter().map(record).collect();
        Self { values, records, bodies, layouts, type_id }
    }

    fn prove(&self) -> Result<(), String> {
        for ((value, record), body) in self.values.iter().zip(&self.records).zip(&self.bodies) {
            self.prove_one(value, record, body)?;
        }
        Ok(())
    }

    fn prove_one(&self, value: &T, record: &RecordValue, body: &[u8]) -> Result<(), String> {
        let (layouts, type_id) = (&self.layouts, self.type_id);
        let mut interpreted = Vec::new();
        layouts.encode(record, &mut interpreted).map_err(|error| error.to_string())?;
        if interpreted != body || encoded(value) != body {
            return Err("the two codecs write different bytes".into());
        }
        let mut viewed = RecordValue::default();
        viewed.assign(layouts.view(type_id, body).map_err(|error| error.to_string())?);
        if decode::<T>(body).as_ref() != Ok(value) || viewed != *record {
            return Err("the value read differs from the value written".into());
        }
        let longer = [body, &[0]].concat();
        if view::<T>(&longer).is_ok() || layouts.check(type_id, &longer).is_ok() {
            return Err("a body with an extra byte is valid".into());
        }
        Ok(())
    }
}

impl<T: Fields> Ring<T> {
    /// Bytes of all bodies.
    fn bytes(&self) -> u64 {
        self.bodies.iter().map(|body| body.len() as u64).sum()
    }

    /// Sum over all fields of all variants.
    fn checksum(&self) -> u64 {
        let sums = self.values.iter().map(|value| message_sum(value.fold(u64::wrapping_add)));
        sums.fold(0, u64::wrapping_add)
    }
}

fn encoded<T: Fields>(value: &T) -> Vec<u8> {
    let mut body = Vec::new();
    encode(value, &mut body);
    body
}
