//! What breaks TapeDB on purpose: a function over bytes for everything that reads bytes it did not write.
//!
//! A [`Target`] takes any bytes and panics only when TapeDB breaks a promise: it panics, reads wrongly, disagrees with
//! itself. The same functions run three ways: on stable in every test run, seeded and bounded (`tests/it/targets.rs`);
//! over the kept inputs of `testing/corpus`; and as long as one likes under libFuzzer (`fuzz/`).
//!
//! * [`sample`]: random schemas.
//! * [`values`]: random messages of any schema.
//! * [`versions`]: random changes of a schema, and what they make of messages.
//! * [`mutate`]: inputs that are nearly right.
//! * [`trouble`]: messages whose fields are what encodings are bad at.
//!
//! Nothing but tests depends on this crate.

pub mod blocks;
pub mod mutate;
pub mod sample;
pub mod schemas;
pub mod targets;
pub mod trouble;
pub mod values;
pub mod versions;

/// A fuzz target.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name: of its corpus directory and of its libFuzzer binary.
    pub name: &'static str,
    /// Takes any bytes. Panics when a promise is broken.
    pub run: fn(&[u8]),
    /// Inputs that are right, for mutation to start from; the same number gives the same input.
    pub seed: fn(u64) -> Vec<u8>,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    targets::schema_text::TARGET,
    targets::row_layout::TARGET,
    targets::compiled_row::TARGET,
    targets::json_text::TARGET,
    targets::evolve::TARGET,
    targets::batch::TARGET,
    targets::batch_columns::TARGET,
    targets::log_file::TARGET,
    targets::log_recovery::TARGET,
    targets::segment_file::TARGET,
    targets::segment_columns::TARGET,
    targets::segment_values::TARGET,
    targets::symbols_file::TARGET,
    targets::dbn::TARGET,
    targets::itch::TARGET,
    targets::captures::TARGET,
    targets::frames::TARGET,
    targets::importers::TARGET,
    targets::tables::TARGET,
    targets::wire::TARGET,
    targets::pg_wire::TARGET,
    targets::kdb::TARGET,
    targets::ilp::TARGET,
    targets::arrow_ipc::TARGET,
    targets::parquet::TARGET,
    targets::objects::TARGET,
];

/// The target of that name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
