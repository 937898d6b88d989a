//! Names of plants, of their streams, and of an HDB's.

use crate::arrivals::ARRIVALS;
use crate::calendar::CALENDAR;
use crate::error::{TickError, asked};

/// Name of the stream of the days that an HDB has.
pub(crate) const DAYS: &str = "days";
/// Name of the stream of claims on days that are being handed over.
pub(crate) const HANDOVERS: &str = "handovers";
/// Most bytes of a plant's name.
pub const PLANT_NAME_BYTES_MAX: usize = 32;

/// Names of a plant's streams, and of an HDB's, that are no tables.
pub(crate) const RESERVED: [&str; 4] = [CALENDAR, ARRIVALS, DAYS, HANDOVERS];

/// Name of a stream of a plant.
pub(crate) fn stream_name(plant: &str, table: &str) -> String {
    format!("{plant}/{table}")
}

/// Checks the name of a table: it is not one of the streams beside the tables.
pub(crate) fn check_table(name: &str) -> Result<(), TickError> {
    match RESERVED.contains(&name) {
        true => asked(format!(
            "no table can be called {name}: plants and HDBs have other streams of the names {}",
            RESERVED.join(", ")
        )),
        false => Ok(()),
    }
}

/// Checks the name of a plant.
pub(crate) fn check_name(name: &str) -> Result<(), TickError> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
    match name.len() {
        1..=PLANT_NAME_BYTES_MAX if name.chars().all(is_plain) => Ok(()),
        _ => asked(format!(
            "{name:?} is not a valid name of a plant; take 1 to {PLANT_NAME_BYTES_MAX} letters, digits, _, - and ."
        )),
    }
}
