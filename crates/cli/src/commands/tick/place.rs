//! Locations of plants and HDBs.

use crate::creation;
use crate::remote::{self, ConnectArgs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tapedb_engine::Database;
use tapedb_terminal::{Failure, location};
use tapedb_tick::Plan;

/// Default name of a plant.
pub const PLANT: &str = "tp";

/// The location of a plant.
#[derive(clap::Args, Debug)]
pub struct PlantAt {
    /// URL of the plant's server (tape://host:port), or directory of its database.
    #[arg(long, value_name = "URL|DIR")]
    plant: PathBuf,

    /// Name of the plant.
    #[arg(long, value_name = "NAME", default_value = PLANT)]
    pub name: String,

    #[command(flatten)]
    connect: ConnectArgs,
}

impl PlantAt {
    /// Opens the plant for reading.
    pub fn open(&self) -> Result<Plan, Failure> {
        let db = match location::url_of(&self.plant) {
            Some(url) => remote::connect_reporting(url, &self.connect)?,
            None => Database::open_read_only(&self.plant)?,
        };
        Ok(Plan::open(&db, &self.name)?)
    }

    /// Opens the plant for reading; the flag shows whether the connection is lost.
    pub fn open_noting(&self) -> Result<(Plan, Arc<AtomicBool>), Failure> {
        let is_lost = Arc::new(AtomicBool::new(false));
        let Some(url) = location::url_of(&self.plant) else { return Ok((self.open()?, is_lost)) };
        let db = remote::connect_watching(url, &self.connect, is_lost.clone())?;
        // It is connected now, perhaps after a wait.
        is_lost.store(false, Ordering::Release);
        Ok((Plan::open(&db, &self.name)?, is_lost))
    }

    /// Opens the plant for writing.
    pub fn open_to_write(&self) -> Result<Plan, Failure> {
        let db = match location::url_of(&self.plant) {
            Some(url) => remote::connect_reporting(url, &self.connect)?,
            None => open_to_write(&self.plant, false)?,
        };
        Ok(Plan::open(&db, &self.name)?)
    }
}

/// Opens a database for writing; a local one is created if it does not exist and `create` is set.
pub fn open_to_write(place: &Path, create: bool) -> Result<Database, Failure> {
    creation::check(place, create)?;
    match location::url_of(place) {
        Some(url) => remote::connect(url),
        None => Ok(Database::open(place)?),
    }
}
