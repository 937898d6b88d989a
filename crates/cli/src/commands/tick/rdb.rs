//! `tapedb tick rdb`: the current day in memory.

use super::ask::{self, Answers, Reply, Request, asked};
use super::kdb::KdbArgs;
use super::place::{PlantAt, open_to_write};
use crate::creation::CreateArgs;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use tapedb_access::Authenticator;
use tapedb_terminal::{
    Failure, Ui,
    awake::{self, AwakeArgs},
};
use tapedb_tick::kdb::front::Served;
use tapedb_tick::{Hdb, Rdb, RdbOptions, RdbStatus, TickError};

/// Time between two checks of its state.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// An RDB: holds today's tables of a plant in memory as columns, and answers queries.
///
/// At the start it replays the day, over the network if the plant is on another machine, and continues live. At the end of a day it
/// moves the day to the HDB and continues to answer queries; days that the HDB lacks are moved first.
///
/// Example: tapedb tick rdb --plant tape://localhost:7847 --hdb hdb.tape --create
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    plant: PlantAt,

    /// Only these tables, for example trade,quote [default: all].
    #[arg(long, value_delimiter = ',', value_name = "A,B")]
    tables: Vec<String>,

    /// The HDB: URL of a server, or a directory that this process opens for writing. Without it, days are dropped when they end.
    #[arg(long, value_name = "DIR|URL")]
    hdb: Option<PathBuf>,

    #[command(flatten)]
    creation: CreateArgs,

    #[command(flatten)]
    ask: ask::AskArgs,

    #[command(flatten)]
    kdb: KdbArgs,

    /// File with the users for clients of kdb+; see `tapedb user`. Without it, every client may read all tables.
    #[arg(long, value_name = "FILE", requires = "kdb")]
    users: Option<PathBuf>,

    #[command(flatten)]
    awake: AwakeArgs,
}

/// Runs an RDB until a signal arrives.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    let awake = args.awake.keep()?;
    if let Some(awake) = &awake {
        ui.note(&awake::description(awake));
    }
    let (mut plan, is_lost) = args.plant.open_noting()?;
    if !args.tables.is_empty() {
        if args.hdb.is_some() {
            return Err(Failure::usage(
                "an RDB with only some tables cannot move whole days; omit --hdb or --tables",
            ));
        }
        plan = plan.only(&args.tables)?;
    }
    let hdb = args
        .hdb
        .as_deref()
        .map(|place| open_to_write(place, args.creation.create))
        .transpose()?
        .map(Hdb::new);
    let known = plan.clone();
    let rdb = Arc::new(Rdb::start(plan, RdbOptions { hdb: hdb.clone(), ..RdbOptions::default() })?);
    let asked = args
        .ask
        .serve("rdb", Arc::new(Asked { rdb: rdb.clone(), hdb, plant: args.plant.name.clone(), is_lost }))?;
    tell(&rdb, ask::address_of(asked.as_ref()), ui)?;
    let authenticator =
        Authenticator::open(args.users.clone()).map_err(|error| Failure::usage(error.to_string()))?;
    let served = |_: Option<&str>| Ok(Served::rdb(known.clone(), rdb.clone()));
    let _fronts = args.kdb.serve(&authenticator, args.users.is_some(), served, ui)?;
    let mut reported = None;
    while !ui.is_interrupted() {
        thread::sleep(LOOK_INTERVAL);
        watch(&rdb, &mut reported, ui);
    }
    Ok(())
}

fn tell(rdb: &Rdb, asked: Option<String>, ui: &Ui) -> Result<(), Failure> {
    if ui.json() {
        return ui.print_json(&json!({ "rdb": rdb.day().date.to_string(), "ask": asked }));
    }
    let tables: Vec<&str> = rdb.tables().map(|table| table.name()).collect();
    let mut text = format!("an RDB of {}; it is {}\n", tables.join(", "), rdb.day().date);
    if let Some(asked) = asked {
        text.push_str(&format!("  queries on {asked} (tapedb tick query)\n"));
    }
    ui.print(&text)
}

/// Warns once about a failure of the RDB.
pub fn watch(rdb: &Rdb, reported: &mut Option<String>, ui: &Ui) {
    let failure = rdb.status().failure;
    if failure != *reported {
        match &failure {
            Some(failure) => ui.warn(&format!("the RDB: {failure}; retrying")),
            None => ui.note("the RDB continues"),
        }
        *reported = failure;
    }
}

/// Answers for an RDB, and for the HDB that it hands days over to.
pub struct Asked {
    pub rdb: Arc<Rdb>,
    pub hdb: Option<Hdb>,
    pub plant: String,
    /// Whether the connection to the plant is lost.
    pub is_lost: Arc<AtomicBool>,
}

impl Answers for Asked {
    fn answer(&self, request: Request) -> Result<Reply, TickError> {
        let rows = match request {
            Request::Status => {
                let is_lost = self.is_lost.load(Ordering::Acquire);
                return Ok(Reply::Object(status(&self.rdb.status(), is_lost)));
            }
            Request::EndOfDay { .. } => return Err(asked("a plant ends days; ask it")),
            Request::Query(rows) => rows,
        };
        let (query, date) = rows.query()?;
        match (date, &self.hdb) {
            (None, _) if rows.count => Ok(Reply::Object(json!({ "rows": self.rdb.count(&query)? }))),
            (None, _) => Ok(Reply::Rows(self.rdb.query(&query)?)),
            (Some(date), hdb) => {
                let in_memory = self.rdb.query_date(date, &query);
                let answer = match (in_memory, hdb) {
                    (Err(TickError::Asked { .. }), Some(hdb)) => {
                        hdb.query(&self.plant, Some(date), &query)?
                    }
                    (in_memory, _) => in_memory?,
                };
                Ok(Reply::rows(answer, rows.count))
            }
        }
    }
}

fn status(status: &RdbStatus, is_lost: bool) -> Value {
    let table = |(table, rows, next): &(String, u64, u64)| json!({ "table": table, "rows": rows, "next_sequence": next });
    let tables: Vec<Value> = status.tables.iter().map(table).collect();
    let ending: Vec<String> = status.ending.iter().map(ToString::to_string).collect();
    json!({
        "date": status.date.to_string(), "tables": tables, "ending": ending, "live": status.is_live && !is_lost,
        "connected": !is_lost,
        "bytes": status.bytes, "missed": status.missed, "failure": status.failure,
    })
}
