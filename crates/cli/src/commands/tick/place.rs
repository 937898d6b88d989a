//! Where plants and HDBs are.

use crate::creation;
use crate::remote::{self, ConnectArgs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tapedb_engine::Database;
use tapedb_terminal::{Failure, location};
use tapedb_tick::Plan;

/// Name of a plant that is not named.
pub const PLANT: &str = "tp";

/// A plant, wherever it is.
#[derive(clap::Args, Debug)]
pub struct PlantAt {
    /// Where the plant is: URL of its server (tape://host:port), or directory of its database.
    #[arg(long, value_name = "URL|DIR")]
    plant: PathBuf,

    /// Name of the plant.
    #[arg(long, value_name = "NAME", default_value = PLANT)]
    pub name: String,

    #[command(flatten)]
    connect: ConnectArgs,
}

impl PlantAt {
    /// The plant, to be read.
    pub fn open(&self) -> Result<Plan, Failure> {
        let db = match location::url_of(&self.plant) {
            Some(url) => remote::connect_reporting(url, &self.connect)?,
            None => Database::open_read_only(&self.plant)?,
        };
        Ok(Plan::open(&db, &self.name)?)
    }

    /// The plant, to be read; and whether the connection to it is lost, now and later.
    pub fn open_noting(&self) -> Result<(Plan, Arc<AtomicBool>), Failure> {
        let is_lost = Arc::new(AtomicBool::new(false));
        let Some(url) = location::url_of(&self.plant) else { return Ok((self.open()?, is_lost)) };
        let db = remote::connect_watching(url, &self.connect, is_lost.clone())?;
        // What it waited for at first is there.
        is_lost.store(false, Ordering::Release);
        Ok((Plan::open(&db, &self.name)?, is_lost))
    }

    /// The plant, to be written.
    pub fn open_to_write(&self) -> Result<Plan, Failure> {
        let db = match location::url_of(&self.plant) {
            Some(url) => remote::connect_reporting(url, &self.connect)?,
            None => open_to_write(&self.plant, false)?,
        };
        Ok(Plan::open(&db, &self.name)?)
    }
}

/// A database, to be written: behind a server, or here, where it is made if it is not there and that is asked for.
pub fn open_to_write(place: &Path, create: bool) -> Result<Database, Failure> {
    creation::check(place, create)?;
    match location::url_of(place) {
        Some(url) => remote::connect(url),
        None => Ok(Database::open(place)?),
    }
}
