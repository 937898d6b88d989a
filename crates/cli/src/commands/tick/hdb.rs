//! `tapedb tick hdb`: a database of ended days.

use super::ask::{self, Answers, Reply, Request, asked};
use super::place::PLANT;
use crate::commands::serve::server;
use serde_json::json;
use std::sync::Arc;
use tapedb_engine::Database;
use tapedb_terminal::{Failure, Ui};
use tapedb_tick::{Hdb, TickError};

/// An HDB: a server for a database of ended days.
///
/// RDBs move days to it; every reader of streams can read them, by date or by time.
///
/// Example: tapedb tick hdb --db hdb.tape --create --listen 127.0.0.1:7849 --http off
#[derive(clap::Args, Debug)]
#[group(skip)]
pub struct Args {
    #[command(flatten)]
    server: server::Args,

    #[command(flatten)]
    ask: ask::AskArgs,
}

/// Runs an HDB until a signal arrives.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    let config = args.server.config()?;
    let db = Database::open(&config.database)?;
    let serving = args.server.start(&config, Some(db.clone()), ui)?;
    let asked = args.ask.serve("hdb", Arc::new(Asked(Hdb::new(db))))?;
    let address = ask::address_of(asked.as_ref());
    match (ui.json(), &address) {
        (true, _) => ui.print_json(&json!({ "ask": address }))?,
        (false, Some(address)) => ui.print(&format!("  queries on {address} (tapedb tick query)\n"))?,
        (false, None) => {}
    }
    serving.run(ui, || Ok(()))
}

/// Answers for an HDB.
pub struct Asked(pub Hdb);

impl Answers for Asked {
    fn answer(&self, request: Request) -> Result<Reply, TickError> {
        match request {
            Request::Status => {
                let dates = self.0.dates(PLANT)?;
                let dates: Vec<String> = dates.iter().map(ToString::to_string).collect();
                Ok(Reply::Object(json!({ "dates": dates })))
            }
            Request::EndOfDay { .. } => Err(asked("only a plant can end a day; ask the plant")),
            Request::Query(rows) => {
                let (query, date) = rows.query()?;
                let plant = rows.plant.as_deref().unwrap_or(PLANT);
                Ok(Reply::rows(self.0.query(plant, date, &query)?, rows.count))
            }
        }
    }
}
