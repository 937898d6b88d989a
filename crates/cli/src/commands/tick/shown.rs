//! Plants in the console of their server.

use std::collections::BTreeMap;
use std::sync::Arc;
use tapedb_engine::Stream;
use tapedb_tick::{Day, Plant, Table};
use tapedb_web::{PlantList, PlantRow, PlantTable};

/// Plants, as the console shows them.
#[derive(Debug)]
pub struct Shown {
    plants: BTreeMap<String, Arc<Plant>>,
    day_ends: String,
}

impl Shown {
    /// These plants, whose days end as the words state.
    pub fn new(plants: &BTreeMap<String, Arc<Plant>>, day_ends: &str) -> Self {
        Self { plants: plants.clone(), day_ends: day_ends.into() }
    }
}

impl PlantList for Shown {
    fn plants(&self) -> Vec<PlantRow> {
        let table = |day: &Day, table: &Table, stream: &Stream| {
            let ever = stream.stats().map_or(0, |stats| stats.next_sequence);
            let today = ever.saturating_sub(day.first_of(table.name()));
            PlantTable { name: table.name().into(), stream: stream.name().into(), today, ever }
        };
        let row = |(name, plant): (&String, &Arc<Plant>)| {
            let day = plant.day();
            PlantRow {
                name: name.clone(),
                date: day.date.to_string(),
                day_ends: self.day_ends.clone(),
                kept_back: plant.kept_back(),
                tables: plant.plan().tables().iter().map(|(def, stream)| table(&day, def, stream)).collect(),
            }
        };
        self.plants.iter().map(row).collect()
    }

    fn end_day(&self, plant: &str) -> Result<String, String> {
        let plant = self.plants.get(plant).ok_or("there is no such plant")?;
        let day = plant.end_of_day(plant.day().date).map_err(|error| error.to_string())?;
        Ok(day.date.to_string())
    }
}
