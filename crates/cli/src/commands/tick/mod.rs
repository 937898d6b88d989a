//! `tapedb tick`: tickerplant, RDB, HDB, chained plants and a feed, each a process or all in one.

mod all;
mod ask;
mod chain;
mod eod;
mod feed;
mod hdb;
mod kdb;
mod place;
mod plant;
mod query;
mod rdb;
#[cfg(feature = "web")]
mod shown;
mod socket;

use tapedb_terminal::{Failure, Ui};

/// Tickerplant, RDB, HDB: what a kdb+tick installation does.
///
/// A plant takes updates from feeds, logs and publishes them; an RDB holds the current day in memory and answers queries; at the end
/// of a day it moves the day to the HDB. Each is a process, and they connect over the network. See docs/TICK.md.
///
/// Examples:
///   tapedb tick plant --db tp.tape --create --tables sym.q
///   tapedb tick rdb --plant tape://localhost:7847 --hdb hdb.tape --create
///   tapedb tick feed --plant tape://localhost:7847 --table trade
///   tapedb tick query trade --symbols S0001 --last
///   tapedb tick all --db tp.tape --hdb hdb.tape --create --tables sym.q
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(subcommand)]
    role: Role,
}

#[derive(clap::Subcommand, Debug)]
enum Role {
    Plant(Box<plant::Args>),
    Rdb(rdb::Args),
    Hdb(Box<hdb::Args>),
    Chain(Box<chain::Args>),
    Feed(feed::Args),
    All(Box<all::Args>),
    Query(query::Args),
    Eod(eod::Args),
}

/// Runs a role.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    match args.role {
        Role::Plant(args) => plant::run(*args, ui),
        Role::Rdb(args) => rdb::run(args, ui),
        Role::Hdb(args) => hdb::run(*args, ui),
        Role::Chain(args) => chain::run(*args, ui),
        Role::Feed(args) => feed::run(args, ui),
        Role::All(args) => all::run(*args, ui),
        Role::Query(args) => query::run(args, ui),
        Role::Eod(args) => eod::run(args, ui),
    }
}
