//! The schemas that targets work on, prepared once.

use crate::sample;
use std::sync::LazyLock;
use tapedb_codec::SchemaBuilder;
use tapedb_codec::dynamic::Layouts;
use tapedb_market::{Bar, Package};

/// How many sample schemas there are to choose from.
pub const SAMPLES: usize = 50;

static LAYOUTS: LazyLock<Vec<Layouts>> =
    LazyLock::new(|| (0..SAMPLES as u64).map(|seed| prepared(sample::schema(seed))).collect());

static MARKET: LazyLock<Layouts> =
    LazyLock::new(|| prepared(SchemaBuilder::new().with::<Package>().with::<Bar>().finish()));

/// One of the sample schemas; every number chooses one.
pub fn sample_layouts(choice: usize) -> &'static Layouts {
    &LAYOUTS[choice % SAMPLES]
}

/// The schema of the market-data records.
pub fn market_layouts() -> &'static Layouts {
    &MARKET
}

/// Type id of the [`Package`] in [`market_layouts`].
pub fn package_type() -> u16 {
    MARKET.schema().record("Package").map_or(0, |(id, _)| id)
}

fn prepared(schema: tapedb_schema::Schema) -> Layouts {
    match Layouts::new(schema) {
        Ok(layouts) => layouts,
        Err(error) => panic!("a sample schema is not valid: {error}"),
    }
}
