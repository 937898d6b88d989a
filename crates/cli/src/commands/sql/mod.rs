//! `tapedb sql`: queries, from the command line, a script or a prompt.

mod output;
mod parameters;
mod prompt;
mod statements;

use crate::args::DatabaseArgs;
use crate::cluster;
use crate::output::{Output, arrow};
use crate::remote::ConnectArgs;
use clap::ValueEnum;
use output::{Form, Writer};
use prompt::Prompt;
use statements::Statements;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tapedb_query::{Error, Next, Options, Parameters, Place, Reason, Sql};
use tapedb_terminal::{Failure, Ui, quantity, ui};

/// Time between two checks for Ctrl-C.
const INTERRUPT_CHECK: Duration = Duration::from_millis(50);

/// Query streams with SQL.
///
/// A stream is a schema, and each of its message types a table: `bars.Bar`; a stream with one message type is also a table of its own
/// name. Tables have the columns time and symbol, then the fields, and sequence. All tables of a query are as of one moment. The
/// language is described in docs/SQL.md.
///
/// Without a query: a prompt with history and completion at a terminal, otherwise the statements of standard input, separated by
/// semicolons.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// Directory of the database, or URL of a server: tape://user@host:port, tapes:// (TLS), tape+unix:///path, tape+shm:///path
    /// (shared memory). The password comes from TAPEDB_PASSWORD or a prompt, a token from TAPEDB_TOKEN; TAPEDB_CA names a
    /// PEM file of authorities to trust.
    #[arg(long, value_name = "DIR|URL", required_unless_present = "cluster")]
    db: Option<PathBuf>,

    #[command(flatten)]
    connect: ConnectArgs,

    /// Query several servers, whose streams are seen as those of one: a TOML file with a `[[server]]` for each (docs/SQL.md).
    #[arg(long, value_name = "FILE", conflicts_with = "db")]
    cluster: Option<PathBuf>,

    /// The query; several, separated by semicolons, run one after another.
    #[arg(value_name = "QUERY")]
    query: Option<String>,

    /// Run the statements of this file.
    #[arg(long, value_name = "FILE", conflicts_with = "query")]
    file: Option<PathBuf>,

    /// A value for $1, $2, … in the query, in this order, or NAME=VALUE for $NAME; a text, which takes the type that it is compared with.
    ///
    /// A value for a number that contains such an equals sign is given with its number: 1=a=b.
    #[arg(long = "param", value_name = "[NAME=]VALUE", allow_hyphen_values = true)]
    params: Vec<String>,

    /// Where a query on a server's database runs: nearest (on the server, if it runs queries), here (the data is read from the server)
    /// or server.
    #[arg(long, value_enum, value_name = "PLACE", default_value = "nearest")]
    place: Where,

    /// Format of the output [default: the one of the name of --out; else table, json with --json].
    #[arg(long, value_enum, value_name = "FORMAT")]
    output: Option<Form>,

    /// Write to this new file instead of standard output. The extension implies the format: .csv, .json, .jsonl, .arrow, .arrows, .txt.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// The rows of a table that are shown; others are counted.
    #[arg(long, value_name = "N", value_parser = quantity::count, default_value = "1000")]
    table_rows: u64,

    /// No names of columns in the first line of csv.
    #[arg(long)]
    no_header: bool,

    /// Print on standard error how long each query took, and its rows.
    #[arg(long)]
    timing: bool,

    /// The type of decimal64 fields: float (the nearest), or digits and scale of a decimal, for example 18,4; a value that is not exact
    /// in it is an error.
    #[arg(long, value_name = "TYPE", default_value = "float")]
    decimals: String,

    /// Threads that compute [default: one for each processor].
    #[arg(long, value_name = "N", value_parser = quantity::count)]
    threads: Option<u64>,

    /// Memory for the state of operators; sorts and groups that need more continue on the disk.
    #[arg(long, value_name = "SIZE", value_parser = quantity::size, default_value = "1GiB")]
    memory: u64,

    /// Stop a query that runs longer, for example 30s.
    #[arg(long, value_name = "TIME", value_parser = quantity::duration)]
    time_limit: Option<Duration>,

    /// After history, go on with what arrives, until Ctrl-C: rows are printed as they come, by default as csv. Not every query can;
    /// docs/SQL.md states which.
    #[arg(long)]
    live: bool,

    /// How late messages may be: live groups and as-of joins wait so long for them, in the time of the messages, for example 500ms.
    #[arg(long, value_name = "TIME", value_parser = quantity::duration, requires = "live")]
    lateness: Option<Duration>,

    /// Stop a query that has more rows.
    #[arg(long, value_name = "N", value_parser = quantity::count)]
    max_rows: Option<u64>,
}

const EXAMPLES: &str = "\
Examples:
  tapedb sql --db demo.tape 'SELECT symbol, count(*) FROM bars GROUP BY symbol ORDER BY 2 DESC LIMIT 5'
  tapedb sql --db demo.tape 'SELECT * FROM bars.Bar WHERE symbol = $1 AND time >= $2' --param AAPL --param 2024-01-02 --out bars.csv
  tapedb sql --db demo.tape 'SHOW TABLES'
  tapedb sql --cluster cluster.toml 'SELECT symbol, sum(volume) FROM bars GROUP BY symbol'
  tapedb sql --db demo.tape";

/// Where a query runs.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
enum Where {
    /// On the server, if it runs queries; otherwise here
    Nearest,
    /// Here: blocks and columns are read from the server
    Here,
    /// On the server
    Server,
}

/// What runs queries and prints their rows.
struct Runner<'a> {
    sql: Sql,
    parameters: Parameters,
    args: &'a Args,
    form: Form,
    timing: bool,
    out: Output,
    ui: &'a Ui,
}

/// Runs queries.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    let form = args.form(ui)?;
    if form == Form::Arrow && args.out.is_none() && io::stdout().is_terminal() {
        return Err(Failure::usage("arrow is not for terminals; redirect the output, or use --out FILE"));
    }
    if form == Form::Table && args.live {
        return Err(Failure::usage(
            "a live query has no end, and a table is printed at its end; use --output csv or json",
        ));
    }
    if args.live && (args.time_limit.is_some() || args.max_rows.is_some()) {
        return Err(Failure::usage("a live query has no end; leave out --time-limit and --max-rows"));
    }
    let text = args.text()?;
    let changes = |text: &String| Statements::new(text).any(Sql::changes_views);
    let sql = match (&args.cluster, &args.db) {
        (Some(file), _) => Sql::of_cluster(cluster::open(file)?, args.options()?),
        (None, Some(db)) => {
            let db = DatabaseArgs { db: db.clone(), connect: args.connect.clone() };
            let db = match text.as_ref().is_some_and(changes) {
                true => db.open_to_write()?,
                false => db.open_to_read()?,
            };
            Sql::with_options(&db, args.options()?)
        }
        (None, None) => return Err(Failure::usage("there is no database; name it with --db DIR|URL")),
    };
    let sql = sql.map_err(failure)?;
    let out = args.out.as_deref().map(Output::to_file).transpose()?.unwrap_or_default();
    let parameters = parameters::of(&args.params)?;
    let mut runner = Runner { sql, parameters, args: &args, form, timing: args.timing, out, ui };
    let Some(text) = text else { return runner.converse() };
    let statements: Vec<&str> = Statements::new(&text).collect();
    if form == Form::Arrow && statements.len() > 1 {
        return Err(Failure::usage("an Arrow stream has the rows of one query; run the queries one by one"));
    }
    if statements.is_empty() {
        return Err(Failure::usage("there is no query; see `tapedb sql --help`"));
    }
    let keeps_views = args.live && statements.iter().all(|statement| Sql::changes_views(statement));
    statements.into_iter().try_for_each(|statement| runner.run(statement))?;
    if keeps_views { runner.maintain_views() } else { Ok(()) }
}

impl Args {
    /// The statements to run; `None`: ask for them.
    fn text(&self) -> Result<Option<String>, Failure> {
        let unreadable = |place: &str, error: io::Error| {
            Failure::new(format!("cannot read {place}: {error}; check where the statements are"))
        };
        match (&self.query, &self.file) {
            (Some(query), _) => Ok(Some(query.clone())),
            (None, Some(file)) => match std::fs::read_to_string(file) {
                Ok(text) => Ok(Some(text)),
                Err(error) => Err(unreadable(&file.display().to_string(), error)),
            },
            (None, None) if io::stdin().is_terminal() => Ok(None),
            (None, None) => {
                let mut text = String::new();
                match io::stdin().read_to_string(&mut text) {
                    Ok(_) => Ok(Some(text)),
                    Err(error) => Err(unreadable("standard input", error)),
                }
            }
        }
    }

    fn options(&self) -> Result<Options, Failure> {
        Ok(Options {
            threads: self
                .threads
                .map(|threads| usize::try_from(threads).unwrap_or(usize::MAX).clamp(1, 1_024)),
            memory_bytes: usize::try_from(self.memory).unwrap_or(usize::MAX),
            time_limit: self.time_limit,
            rows_max: self.max_rows,
            decimals: arrow::decimals(&self.decimals).map_err(Failure::usage)?,
            place: match self.place {
                Where::Nearest => Place::Nearest,
                Where::Here => Place::Here,
                Where::Server => Place::Server,
            },
            live: self.live,
            lateness: self.lateness.unwrap_or_default(),
            ..Options::default()
        })
    }

    /// The format of --output, or of the file's extension; both must agree.
    fn form(&self, ui: &Ui) -> Result<Form, Failure> {
        let named = self
            .out
            .as_deref()
            .map(Path::extension)
            .and_then(|extension| Form::of_name(extension?.to_str()?));
        match (self.output, named) {
            (Some(wanted), Some(named)) if wanted != named => Err(Failure::usage(
                "the name of --out implies another format than --output; change one of them",
            )),
            (Some(form), _) | (None, Some(form)) => Ok(form),
            (None, None) if ui.json() => Ok(Form::Json),
            (None, None) => Ok(if self.live { Form::Csv } else { Form::Table }),
        }
    }
}

impl Runner<'_> {
    /// Runs one statement and prints its rows.
    fn run(&mut self, statement: &str) -> Result<(), Failure> {
        let start = Instant::now();
        let options = self.args.options()?;
        let mut rows = self.sql.run(statement, &self.parameters, &options).map_err(failure)?;
        let mut writer = Writer::new(self.form, &rows.schema(), self.args.table_rows, !self.args.no_header)?;
        let mut count = 0u64;
        loop {
            match rows.next_within(INTERRUPT_CHECK).map_err(failure)? {
                Next::Batch(batch) => {
                    count += batch.num_rows() as u64;
                    writer.write(&batch, &mut self.out.buffer)?;
                    self.out.drain()?;
                }
                // What has come of a live query is not held back.
                Next::Waiting if self.args.live => {
                    self.out.flush()?;
                }
                Next::Waiting => {}
                Next::End => break,
            }
            if self.args.live && self.ui.is_interrupted() {
                break;
            }
            self.ui.check_interrupt()?;
        }
        writer.finish(&mut self.out.buffer)?;
        self.out.flush()?;
        self.ui.check_interrupt()?;
        if self.timing {
            self.ui.note(&format!("{} rows in {:.3} s", ui::thousands(count), start.elapsed().as_secs_f64()));
        }
        Ok(())
    }

    /// Keeps the views of the database up to date until Ctrl-C. Those of a server's database are the server's task.
    fn maintain_views(&self) -> Result<(), Failure> {
        if self.sql.database().server_status()?.is_some() {
            return Ok(());
        }
        let (sender, failures) = std::sync::mpsc::channel();
        let views = self.sql.maintain_views(move |view, error| {
            // The receiver lives as long as the views.
            let _ = sender.send(format!("view {view}: {error}"));
        });
        let _views = views.map_err(failure)?;
        while !self.ui.is_interrupted() {
            if let Ok(failure) = failures.recv_timeout(INTERRUPT_CHECK) {
                self.ui.note(&failure);
            }
        }
        Ok(())
    }

    /// Asks for statements.
    fn converse(&mut self) -> Result<(), Failure> {
        let mut prompt = Prompt::new(self.sql.database())?;
        self.ui.note("TapeDB SQL; a statement ends with a semicolon; \\help lists commands, \\quit ends it.");
        while let Some(text) = prompt.ask()? {
            let done = match text.trim().trim_end_matches(';').trim() {
                "" => Ok(()),
                "\\quit" | "\\q" | "quit" | "exit" => break,
                "\\help" | "\\h" | "\\?" | "help" => self.ui.print(prompt::HELP),
                "\\timing" => {
                    self.timing = !self.timing;
                    self.ui.note(if self.timing { "timing is on" } else { "timing is off" });
                    Ok(())
                }
                "\\tables" | "\\d" => self.run("SHOW TABLES"),
                command if command.starts_with("\\d ") => self.run(&format!("DESCRIBE {}", &command[3..])),
                command if command.starts_with('\\') => {
                    Err(Failure::usage(format!("there is no command {command}; \\help lists them")))
                }
                _ => Statements::new(&text).try_for_each(|statement| self.run(statement)),
            };
            match done {
                Ok(()) => {}
                Err(Failure::OutputClosed) => return Err(Failure::OutputClosed),
                Err(failure) => {
                    failure.report(self.ui.json());
                    // Ctrl-C has ended the query, not the prompt.
                    self.ui.forget_interrupt();
                    self.out.buffer.clear();
                }
            }
        }
        prompt.keep_history();
        Ok(())
    }
}

fn failure(error: Error) -> Failure {
    match error.reason() {
        Reason::Query => Failure::usage(error.to_string()),
        _ => Failure::new(error.to_string()),
    }
}
