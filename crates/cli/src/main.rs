//! The `tapedb` command: writes, reads, follows, serves and maintains databases.
//!
//! [`commands`] has a file for each command; [`args`] the arguments that several share, [`remote`] opens databases behind a
//! server, [`input`] reads messages and answers, [`output`] prints messages.

mod args;
mod checksum;
#[cfg(feature = "sql")]
mod cluster;
mod commands;
mod creation;
mod input;
mod output;
mod program;
mod remote;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use commands::brokers::kafka;
#[cfg(feature = "nats")]
use commands::brokers::nats;
use commands::maintenance::{backup, check, inspect, repair, restore, seal, tier};
use commands::market::{bars, book, gaps};
#[cfg(feature = "parquet")]
use commands::messages::export;
#[cfg(feature = "publish")]
use commands::messages::publish;
use commands::messages::{erase, generate, import, load, read, replay, rewrite, tail};
use commands::serve::{cert, server, user};
#[cfg(feature = "sql")]
use commands::sql;
use commands::streams::{alter, create, delete, desc, list, rename, symbols};
use commands::{demo, manual, shell, tick, topic};
use program::Program;
use std::process::ExitCode;
use tapedb_terminal::signals::Signals;
use tapedb_terminal::{Failure, Ui};

/// TapeDB records, replays and streams market data.
///
/// A database is a directory of streams; a stream is a durable, time-ordered sequence of typed messages. One process
/// writes to a database at a time; any number of processes can read it.
#[derive(Parser, Debug)]
#[command(name = "tapedb", version = VERSION, max_term_width = 110, after_long_help = EXAMPLES)]
struct Cli {
    /// Print one JSON object per line, also for errors and warnings (on standard error).
    #[arg(long, global = true)]
    json: bool,

    #[command(subcommand)]
    command: Command,
}

/// The version, and the commit of the sources if it is known.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), env!("TAPEDB_COMMIT"));

const EXAMPLES: &str = "\
Examples:
  tapedb generate --db demo.tape --create --stream feed --messages 1M
  tapedb streams --db demo.tape
  tapedb read --db demo.tape feed --limit 5
  tapedb tail --db demo.tape feed

Exit codes: 0 done, 1 failed (or `check` found damage), 2 wrong usage, 130 interrupted.";

#[derive(Subcommand, Debug)]
enum Command {
    Streams(list::Args),
    Desc(desc::Args),
    Symbols(symbols::Args),
    Create(create::Args),
    Alter(alter::Args),
    Rename(rename::Args),
    Seal(seal::Args),
    Tier(tier::Args),
    Rewrite(rewrite::Args),
    Truncate(erase::TruncateArgs),
    Purge(erase::PurgeArgs),
    Clear(erase::ClearArgs),
    Delete(delete::Args),
    Check(check::Args),
    Inspect(inspect::Args),
    Repair(repair::Args),
    Backup(backup::Args),
    Restore(restore::Args),
    Generate(generate::Args),
    Import(import::Args),
    #[cfg(feature = "parquet")]
    Export(Box<export::Args>),
    #[cfg(feature = "publish")]
    Publish(Box<publish::Args>),
    #[cfg_attr(not(feature = "kafka"), command(hide = true))]
    Kafka(kafka::Args),
    #[cfg(feature = "nats")]
    Nats(nats::Args),
    Load(load::Args),
    Read(read::Args),
    Tail(tail::Args),
    Replay(replay::Args),
    Book(book::Args),
    Gaps(gaps::Args),
    Bars(bars::Args),
    #[cfg(feature = "sql")]
    Sql(Box<sql::Args>),
    Topic(topic::Args),
    Server(Box<server::ServerCommand>),
    Cert(cert::Args),
    User(user::Args),
    Tick(Box<tick::Args>),
    Shell(shell::Args),
    Demo(demo::Args),
    #[cfg(feature = "bench")]
    Bench(tapedb_bench::Args),
    Completions(manual::CompletionsArgs),
    Man(manual::ManArgs),
}

fn main() -> ExitCode {
    // First: a signal from here on ends the command in order, and a process that is the first of its container would ignore it before.
    let signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(failure) => return failure.report(json_is_wanted()),
    };
    #[cfg(feature = "tier")]
    tapedb_tier::register();
    if let Some(bytes) =
        std::env::var("TAPEDB_OBJECT_CACHE").ok().and_then(|text| tapedb_terminal::quantity::size(&text).ok())
    {
        tapedb_engine::set_object_cache_bytes(bytes);
    }
    let threads = std::env::var("TAPEDB_MAINTENANCE_THREADS").ok().and_then(|text| text.parse().ok());
    if let Some(threads) = threads {
        tapedb_engine::set_maintenance_threads(threads);
    }
    tapedb_engine::set_strands(std::env::var("TAPEDB_STRANDS").is_ok_and(|text| text == "1"));
    let words = without_empty_variables(Cli::command()).try_get_matches();
    let cli = match words.and_then(|words| Cli::from_arg_matches(&words)) {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() && json_is_wanted() => return Failure::from(error).report(true),
        Err(error) => error.exit(),
    };
    match run(cli.command, &Ui::new(cli.json, signals)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(cli.json),
    }
}

/// Whether --json is given, for a command line that cannot be parsed.
fn json_is_wanted() -> bool {
    std::env::args_os().take_while(|word| word != "--").any(|word| word == "--json")
}

/// The command line without the variables of the environment that are empty: these count as not set.
fn without_empty_variables(command: clap::Command) -> clap::Command {
    let is_empty = |arg: &clap::Arg| {
        arg.get_env().is_some_and(|name| std::env::var_os(name).is_some_and(|value| value.is_empty()))
    };
    command
        .mut_args(|arg| if is_empty(&arg) { arg.env(clap::builder::Resettable::Reset) } else { arg })
        .mut_subcommands(without_empty_variables)
}

/// This program, for the commands that work on its command line.
static PROGRAM: Program = Program { definition: Cli::command, run: run_words };

/// Runs a command of the shell.
fn run_words(words: Vec<String>, ui: &Ui) -> Result<(), Failure> {
    let words = std::iter::once("tapedb".to_string()).chain(words);
    let words = without_empty_variables(Cli::command()).try_get_matches_from(words);
    match words.and_then(|words| Cli::from_arg_matches(&words)) {
        Ok(Cli { command: Command::Shell(_), .. }) => Err(Failure::usage("this is the shell already")),
        Ok(cli) => run(cli.command, ui),
        // Requested help is not a failure.
        Err(error) if !error.use_stderr() => ui.print(&error.to_string()),
        Err(error) => {
            let refused = Failure::from(error);
            Err(Failure::usage(format!("{refused}; `help` lists the commands")))
        }
    }
}

fn run(command: Command, ui: &Ui) -> Result<(), Failure> {
    match command {
        Command::Streams(args) => list::run(args, ui),
        Command::Desc(args) => desc::run(args, ui),
        Command::Symbols(args) => symbols::run(args, ui),
        Command::Create(args) => create::run(args, ui),
        Command::Alter(args) => alter::run(args, ui),
        Command::Rename(args) => rename::run(args, ui),
        Command::Seal(args) => seal::run(args, ui),
        Command::Tier(args) => tier::run(args, ui),
        Command::Rewrite(args) => rewrite::run(args, ui),
        Command::Truncate(args) => erase::truncate(args, ui),
        Command::Purge(args) => erase::purge(args, ui),
        Command::Clear(args) => erase::clear(args, ui),
        Command::Delete(args) => delete::run(args, ui),
        Command::Check(args) => check::run(args, ui),
        Command::Inspect(args) => inspect::run(args, ui),
        Command::Repair(args) => repair::run(args, ui),
        Command::Backup(args) => backup::run(args, ui),
        Command::Restore(args) => restore::run(args, ui),
        Command::Generate(args) => generate::run(args, ui),
        Command::Import(args) => import::run(&args, ui),
        #[cfg(feature = "parquet")]
        Command::Export(args) => export::run(*args, ui),
        #[cfg(feature = "publish")]
        Command::Publish(args) => publish::run(*args, ui),
        Command::Kafka(args) => kafka::run(args, ui),
        #[cfg(feature = "nats")]
        Command::Nats(args) => nats::run(args, ui),
        Command::Load(args) => load::run(args, ui),
        Command::Read(args) => read::run(args, ui),
        Command::Tail(args) => tail::run(args, ui),
        Command::Replay(args) => replay::run(args, ui),
        Command::Book(args) => book::run(args, ui),
        Command::Gaps(args) => gaps::run(args, ui),
        Command::Bars(args) => bars::run(args, ui),
        #[cfg(feature = "sql")]
        Command::Sql(args) => sql::run(*args, ui),
        Command::Topic(args) => topic::run(args, ui),
        Command::Server(args) => server::run(*args, ui),
        Command::Cert(args) => cert::run(args, ui),
        Command::User(args) => user::run(args, ui),
        Command::Tick(args) => tick::run(*args, ui),
        Command::Shell(args) => shell::run(args, &PROGRAM, ui),
        Command::Demo(args) => demo::run(args, ui),
        #[cfg(feature = "bench")]
        Command::Bench(args) => tapedb_bench::run(args, ui),
        Command::Completions(args) => manual::completions(args, &PROGRAM, ui),
        Command::Man(args) => manual::man(&args, &PROGRAM, ui),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }
}
