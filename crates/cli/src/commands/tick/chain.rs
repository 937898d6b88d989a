//! `tapedb tick chain`: a chained plant.

use super::kdb::KdbArgs;
use super::place::PlantAt;
use crate::commands::serve::server;
use serde_json::json;
use std::time::Duration;
use tapedb_engine::{Database, Durability, StreamOptions};
use tapedb_terminal::{Failure, Ui, quantity::duration};
use tapedb_tick::kdb::front::Served;
use tapedb_tick::{Chain, ChainOptions, Plan};

/// A chained plant: subscribes to a plant and publishes again, from its own server.
///
/// Subscribers read it like the plant. A restart continues where it stopped; ends of days are forwarded.
///
/// Example: tapedb tick chain --plant tape://localhost:7847 --db chain.tape --listen 127.0.0.1:7857 --http off --every 100ms
#[derive(clap::Args, Debug)]
#[group(skip)]
pub struct Args {
    #[command(flatten)]
    plant: PlantAt,

    /// Its name here [default: the plant's name].
    #[arg(long = "as", value_name = "NAME")]
    called: Option<String>,

    /// Only these tables, for example trade,quote [default: all].
    #[arg(long, value_delimiter = ',', value_name = "A,B")]
    tables: Vec<String>,

    /// Publish at this interval [default: at once].
    #[arg(long, value_name = "TIME", value_parser = duration)]
    every: Option<Duration>,

    /// Keep messages only in memory, up to this size for each table, for example 256MiB [default: on the disk].
    #[arg(long, value_name = "SIZE", value_parser = tapedb_terminal::quantity::size)]
    in_memory: Option<u64>,

    #[command(flatten)]
    server: server::Args,

    #[command(flatten)]
    kdb: KdbArgs,
}

/// Runs a chained plant until a signal arrives.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    let config = args.server.config()?;
    let mut source = args.plant.open()?;
    if !args.tables.is_empty() {
        source = source.only(&args.tables)?;
    }
    let stream = match args.in_memory {
        Some(bytes_max) => {
            StreamOptions { durability: Durability::Transient, bytes_max, ..Default::default() }
        }
        None => StreamOptions::default(),
    };
    let db = Database::open(&config.database)?;
    let name = args.called.as_deref().unwrap_or(&args.plant.name);
    let chain = Chain::start(source, &db, name, ChainOptions { stream, every: args.every })?;
    let chained = db.clone();
    let serving = args.server.start(&config, Some(db), ui)?;
    if ui.json() {
        ui.print_json(&json!({ "chain": name }))?;
    }
    let served = |_: Option<&str>| Ok(Served::chained(Plan::open(&chained, name)?));
    let fronts = args.kdb.serve(&serving.authenticator(), config.users.is_some(), served, ui)?;
    serving.add_component(fronts);
    let mut reported = None;
    serving.run(ui, || {
        let failure = chain.failure();
        if let Some(what) = failure.as_ref().filter(|_| failure != reported) {
            ui.warn(&format!("the chain: {what}; retrying"));
        }
        reported = failure;
        Ok(())
    })
}
