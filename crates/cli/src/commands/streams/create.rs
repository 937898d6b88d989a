//! `tapedb create`: a new stream.

use crate::args::DatabaseArgs;
use crate::commands::streams::list::Summary;
use crate::commands::streams::settings::SettingsArgs;
use crate::input::StandardInput;
use clap::ValueEnum;
use std::io::Read;
use std::path::{Path, PathBuf};
use tapedb_engine::{Durability, StreamOptions};
use tapedb_schema::{MAX_TEXT_BYTES, Schema};
use tapedb_terminal::{Failure, Ui, quantity};

/// Create a stream, and the database if there is none.
///
/// The schema is text as `tapedb desc` prints it, for example: message Tick { price: decimal64, size: u32? }
///
/// Settings but for durability and spaces can be changed later: see `tapedb alter`.
///
/// Example: tapedb create --db demo.tape ticks --schema ticks.schema --durability sync --keep-for 30d
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    db: DatabaseArgs,

    /// Name of the new stream.
    #[arg(value_name = "STREAM")]
    stream: String,

    /// File with the schema; - reads standard input.
    #[arg(long, value_name = "FILE")]
    schema: PathBuf,

    /// What acknowledged messages survive: async a killed process, sync also a power cut. A transient stream is in the memory of the
    /// process that writes it, and holds only its newest messages.
    #[arg(long, value_enum, default_value_t = DurabilityArg::Async)]
    durability: DurabilityArg,

    /// Spaces: parts of the stream that are written independently; at most 256.
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    spaces: u32,

    /// How much each space of a transient stream holds, for example 1GiB (256MiB unless set); at least 64KiB.
    #[arg(long, value_name = "SIZE", value_parser = quantity::size)]
    bytes_max: Option<u64>,

    #[command(flatten)]
    settings: SettingsArgs,
}

#[derive(ValueEnum, Debug, Clone, Copy)]
enum DurabilityArg {
    Transient,
    Async,
    Sync,
}

/// Creates the stream.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    let schema = read_schema(&args.schema, ui)?;
    let durability = match args.durability {
        DurabilityArg::Transient => Durability::Transient,
        DurabilityArg::Async => Durability::Async,
        DurabilityArg::Sync => Durability::Sync,
    };
    let default = StreamOptions::default();
    let bytes_max = args.bytes_max.unwrap_or(default.bytes_max);
    let options = StreamOptions { durability, spaces: args.spaces, bytes_max, ..default };
    let options = args.settings.on(options);
    let db = args.db.open_or_create(true)?;
    let stream = db.create_stream(&args.stream, schema, options)?;
    if ui.json() {
        return ui.print_json(&Summary::of(&stream)?);
    }
    ui.print(&format!("created stream {:?}\n", stream.name()))
}

/// The schema in a file, or on standard input if the path is `-`.
pub fn read_schema(path: &Path, ui: &Ui) -> Result<Schema, Failure> {
    let text = read_text(path, ui);
    ui.check_interrupt()?;
    let text = text.map_err(|error| {
        Failure::new(format!("cannot read the schema {}: {error}; see --schema", path.display()))
    })?;
    text.parse().map_err(|error| Failure::new(format!("{}: {error}", path.display())))
}

/// The file's text, up to the maximum length of a schema.
fn read_text(path: &Path, ui: &Ui) -> std::io::Result<String> {
    let mut text = String::new();
    let limit = MAX_TEXT_BYTES as u64 + 1;
    if path == Path::new("-") {
        StandardInput::new(ui).take(limit).read_to_string(&mut text)?;
    } else {
        std::fs::File::open(path)?.take(limit).read_to_string(&mut text)?;
    }
    Ok(text)
}
