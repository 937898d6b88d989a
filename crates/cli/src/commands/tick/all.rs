//! `tapedb tick all`: plant, RDB and HDB in one process.

use super::ask::{self, Answers, Reply, Request};
use super::kdb::KdbArgs;
use super::{place, plant, rdb};
use crate::commands::serve::server;
use std::path::PathBuf;
use std::sync::Arc;
use tapedb_engine::Database;
use tapedb_terminal::{Failure, Ui};
use tapedb_tick::{Hdb, Rdb, RdbOptions, TickError};

/// Plant, RDB and HDB in one process.
///
/// Feeds and subscribers reach the plant over the network as usual. With several plants, the first one by name has the RDB.
///
/// Example: tapedb tick all --db tp.tape --hdb hdb.tape --create --tables sym.q
#[derive(clap::Args, Debug)]
#[group(skip)]
pub struct Args {
    #[command(flatten)]
    plants: plant::PlantArgs,

    /// Directory of the HDB's database, or URL of its server.
    #[arg(long, value_name = "DIR|URL")]
    hdb: Option<PathBuf>,

    #[command(flatten)]
    server: server::Args,

    #[command(flatten)]
    ask: ask::AskArgs,

    #[command(flatten)]
    kdb: KdbArgs,
}

/// Runs all roles until a signal arrives.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    let config = args.server.config()?;
    let db = Database::open(&config.database)?;
    let hdb = args
        .hdb
        .as_deref()
        .map(|place| place::open_to_write(place, config.create))
        .transpose()?
        .map(Hdb::new);
    let plants = args.plants.open(&db, hdb.clone(), config.create)?;
    let Some((name, plant)) = plants.plants.iter().next() else {
        return Err(Failure::usage("no plant is given; give one with --tables"));
    };
    let rdb = Rdb::start(plant.plan().clone(), RdbOptions { hdb: hdb.clone(), ..RdbOptions::default() })?;
    let rdb = Arc::new(rdb);
    let serving = args.server.start(&config, Some(db), ui)?;
    plants.show(&serving);
    let answers = Asked {
        plants: plant::Asked(plants.plants.clone()),
        rdb: rdb::Asked { rdb: rdb.clone(), hdb, plant: name.clone(), is_lost: Arc::default() },
    };
    let asked = args.ask.serve("all", Arc::new(answers))?;
    plants.tell(ask::address_of(asked.as_ref()), ui)?;
    let served = |wanted: Option<&str>| {
        let served = plants.served(wanted)?;
        // The RDB belongs to one plant.
        Ok(if wanted.is_none_or(|wanted| wanted == name) { served.with_rdb(rdb.clone()) } else { served })
    };
    let fronts = args.kdb.serve(&serving.authenticator(), config.users.is_some(), served, ui)?;
    serving.add_component(fronts);
    let mut reported = None;
    serving.run(ui, || {
        rdb::watch(&rdb, &mut reported, ui);
        plants.tick(ui)
    })
}

/// Answers for all roles.
struct Asked {
    plants: plant::Asked,
    rdb: rdb::Asked,
}

impl Answers for Asked {
    fn answer(&self, request: Request) -> Result<Reply, TickError> {
        match request {
            Request::EndOfDay { .. } => self.plants.answer(request),
            request => self.rdb.answer(request),
        }
    }
}
