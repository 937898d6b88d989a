//! `tapedb topic`: rings in shared memory.

mod copy;
mod create;
mod delete;
pub mod folder;
mod list;
mod publish;
mod stat;
mod tail;

use tapedb_terminal::{Failure, Ui};

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
    Copy(Box<copy::Args>),
    Delete(delete::Args),
}

/// Runs the command.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    match args.command {
        Command::Create(args) => create::run(args, ui),
        Command::List(args) => list::run(args, ui),
        Command::Stat(args) => stat::run(args, ui),
        Command::Publish(args) => publish::run(args, ui),
        Command::Tail(args) => tail::run(args, ui),
        Command::Copy(args) => copy::run(*args, ui),
        Command::Delete(args) => delete::run(args, ui),
    }
}
