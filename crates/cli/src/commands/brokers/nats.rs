//! `tapedb nats`: JetStream streams as sources and sinks.

use super::shared::{IntakeArgs, OutletArgs, Watching, failure, open_outlet, print_status};
use crate::args::StreamArgs;
use std::path::PathBuf;
use tapedb_brokers::nats::{self, Address, Login, Server};
use tapedb_terminal::{Failure, Ui};

/// Streams of NATS JetStream as sources and sinks, each message once.
///
/// How far an import is, the stream has: messages and positions are written together, so a restart, a kill and a lost server change
/// nothing. How far an export is, the last message of the JetStream stream states.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  tapedb nats import --db my.tapedb ticks --jetstream TICKS --server nats://broker:4222 --follow
  tapedb nats import --db my.tapedb ticks --jetstream TICKS --time ts --symbol sym --map px=price --on-bad-record bad
  tapedb nats export --db my.tapedb ticks --jetstream TICKS --subject ticks --create-stream --follow
  tapedb nats import --db my.tapedb ticks --jetstream TICKS --status";

#[derive(clap::Subcommand, Debug)]
enum Command {
    Import(Box<Import>),
    Export(Box<Export>),
}

/// How servers are reached.
#[derive(clap::Args, Debug)]
struct ServerArgs {
    /// Servers of one cluster: nats://host:4222 or, with TLS, tls://host:4222; nats://user@host names a user. The password comes from
    /// TAPEDB_NATS_PASSWORD, a token from TAPEDB_NATS_TOKEN; TAPEDB_CA names a PEM file of authorities to trust.
    #[arg(long, value_name = "URL,…", default_value = "nats://127.0.0.1:4222")]
    server: String,

    /// File with credentials: the JWT and seed that `nsc` writes, or the seed of an nkey alone.
    #[arg(long, value_name = "FILE", env = "TAPEDB_NATS_CREDS")]
    creds: Option<PathBuf>,
}

impl ServerArgs {
    fn server(&self) -> Result<Server, Failure> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let read = |path: &PathBuf| {
            std::fs::read_to_string(path).map_err(|error| {
                Failure::new(format!("cannot read {}: {error}; check the path", path.display()))
            })
        };
        Ok(Server {
            addresses: Address::list(&self.server).map_err(Failure::usage)?,
            login: Login {
                user: None,
                password: variable("TAPEDB_NATS_PASSWORD"),
                token: variable("TAPEDB_NATS_TOKEN"),
                credentials: self.creds.as_ref().map(read).transpose()?,
            },
            authorities: variable("TAPEDB_CA").map(PathBuf::from),
        })
    }
}

/// Append the messages of a JetStream stream to a stream, which must exist: see `tapedb create`.
///
/// Messages are objects of JSON as `tapedb load` takes them, or rows as `tapedb nats export --format row` writes them. A message without
/// "symbol" has the last word of its subject, one without "timestamp" the time at which the server stored it.
///
/// Reads what is there and ends; with --follow it goes on until Ctrl-C or SIGTERM. Each message is stored once, whatever is killed.
#[derive(clap::Args, Debug)]
struct Import {
    #[command(flatten)]
    stream: StreamArgs,

    #[command(flatten)]
    server: ServerArgs,

    /// The JetStream stream.
    #[arg(long, value_name = "NAME")]
    jetstream: String,

    /// Only messages of these subjects, for example ticks.AAPL or ticks.>. May be repeated.
    #[arg(long, value_name = "SUBJECT")]
    subject: Vec<String>,

    #[command(flatten)]
    intake: IntakeArgs,

    /// Go on with messages that arrive, until Ctrl-C or SIGTERM.
    #[arg(long)]
    follow: bool,

    /// Print where the import stands, and import nothing.
    #[arg(long, conflicts_with = "follow")]
    status: bool,
}

/// Publish the messages of a stream to a JetStream stream, in their order.
///
/// Subjects are --subject and the symbol, with _ in place of what a subject cannot have. Headers state the exact symbol, time, record type,
/// stream and sequence number. The JetStream stream takes one space of one stream and no other publisher; a second export is refused by the
/// server.
///
/// Publishes what is there and ends; with --follow it goes on until Ctrl-C or SIGTERM.
#[derive(clap::Args, Debug)]
struct Export {
    #[command(flatten)]
    stream: StreamArgs,

    #[command(flatten)]
    server: ServerArgs,

    /// The JetStream stream.
    #[arg(long, value_name = "NAME")]
    jetstream: String,

    /// What stands before the symbol in subjects [default: the name of the JetStream stream].
    #[arg(long, value_name = "SUBJECT")]
    subject: Option<String>,

    /// Create the JetStream stream if there is none: on files, with no limits, one replica.
    #[arg(long)]
    create_stream: bool,

    #[command(flatten)]
    outlet: OutletArgs,

    /// Print where the export stands, and export nothing.
    #[arg(long, conflicts_with = "follow")]
    status: bool,
}

/// Runs the command.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    ui.signals().give_time_to_finish()?;
    match args.command {
        Command::Import(args) => import(&args, ui),
        Command::Export(args) => export(&args, ui),
    }
}

fn import(args: &Import, ui: &Ui) -> Result<(), Failure> {
    let server = args.server.server()?;
    let options = nats::ImportOptions {
        stream: args.jetstream.clone(),
        subjects: args.subject.clone(),
        follow: args.follow,
    };
    let (_db, mut intake) = args.intake.open(&args.stream, ui)?;
    if args.status {
        return print_status(&[nats::import_status(&server, &options, &mut intake).map_err(failure)?], ui);
    }
    let mut watching = Watching::new("importing", ui);
    let result = nats::import(&server, &options, &mut intake, &mut watching);
    let way = format!("from JetStream stream {:?} into stream {:?}", args.jetstream, args.stream.name);
    watching.finish(result, ("imported", &way), &args.stream.name)
}

fn export(args: &Export, ui: &Ui) -> Result<(), Failure> {
    let server = args.server.server()?;
    let outlet = &args.outlet;
    let options = nats::ExportOptions {
        stream: args.jetstream.clone(),
        subject: args.subject.clone(),
        create: args.create_stream,
        space: outlet.space,
        symbols: outlet.symbols.clone(),
        types: outlet.types.clone(),
        encoding: outlet.format,
        from_sequence: outlet.from_sequence,
        follow: outlet.follow,
    };
    let stream = open_outlet(&args.stream, outlet.follow, ui)?;
    if args.status {
        return print_status(&[nats::export_status(&server, &stream, &options).map_err(failure)?], ui);
    }
    let mut watching = Watching::new("exporting", ui);
    let result = nats::export(&server, &stream, &options, &mut watching);
    let way = format!("of stream {:?} to JetStream stream {:?}", args.stream.name, args.jetstream);
    watching.finish(result, ("exported", &way), &args.stream.name)
}
