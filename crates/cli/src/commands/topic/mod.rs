//! `tapedb topic`: rings in shared memory.

mod copy;
mod create;
mod delete;
mod list;
mod publish;
mod stat;
mod tail;

use std::path::{Path, PathBuf};
use tapedb_terminal::{Failure, Ui, location};
use tapedb_topic::{Folder, Topic};

/// Topics: messages through shared memory on this machine, with no server in between.
///
/// Publishers and subscribers open a topic by its name. Its messages are in memory and are lost when the machine stops;
/// `tapedb topic copy` writes them to a durable stream.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    Create(create::Args),
    List(list::Args),
    Stat(stat::Args),
    Publish(publish::Args),
    Tail(tail::Args),
    Copy(copy::Args),
    Delete(delete::Args),
}

/// Location of topics.
#[derive(clap::Args, Debug, Clone)]
struct FolderArgs {
    /// Topics of this database; without it, topics without a database.
    #[arg(long, value_name = "DIR", conflicts_with = "folder")]
    db: Option<PathBuf>,

    /// Folder with the topics' files, instead of the usual one.
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
}

impl FolderArgs {
    fn folder(&self) -> Result<Folder, Failure> {
        match (&self.folder, &self.db) {
            (Some(folder), _) => Ok(Folder::at(folder)),
            (None, Some(db)) => of_database(location::directory(db)?),
            (None, None) => Ok(Folder::shared()),
        }
    }

    fn open(&self, name: &str) -> Result<Topic, Failure> {
        Ok(Topic::open(&self.folder()?, name)?)
    }
}

fn of_database(directory: &Path) -> Result<Folder, Failure> {
    Ok(Folder::of_database(directory)?)
}

/// Runs the command.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    match args.command {
        Command::Create(args) => create::run(args, ui),
        Command::List(args) => list::run(args, ui),
        Command::Stat(args) => stat::run(args, ui),
        Command::Publish(args) => publish::run(args, ui),
        Command::Tail(args) => tail::run(args, ui),
        Command::Copy(args) => copy::run(args, ui),
        Command::Delete(args) => delete::run(args, ui),
    }
}
