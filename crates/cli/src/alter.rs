//! `tapedb alter`: other settings, or another schema, for a stream that is there.

mod schema;

use crate::args::{DatabaseArgs, open_stream};
use crate::failure::Failure;
use crate::settings::{Settings, SettingsArgs};
use crate::ui::Ui;
use schema::{SchemaArgs, Told};
use serde::Serialize;

/// Change the settings or the schema of a stream; what is not named stays as it is.
///
/// A new schema (--schema) is compared with the one there is: what is added, dropped and converted is shown, type by type and
/// field by field; --dry-run shows it and does nothing else. Messages that are stored stay readable and get defaults where they
/// lack fields. What stored values could not be read any more is refused unless --allow-loss names its kind; what has no rule
/// is refused always. Programs that have the stream open go on with the schema they know. See docs/format/schema.md, "Versions".
///
/// Durability and spaces stay what they were when the stream was created. What retention no longer keeps is purged by whole
/// segments, by the process that writes, soon after.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    db: DatabaseArgs,

    /// The stream.
    #[arg(value_name = "STREAM")]
    stream: String,

    #[command(flatten)]
    schema: SchemaArgs,

    #[command(flatten)]
    settings: SettingsArgs,
}

const EXAMPLES: &str = "\
Examples:
  tapedb alter --db demo.tape feed --keep-for 30d --cold-after 1d
  tapedb desc --db demo.tape feed > feed.schema
  (edit feed.schema)
  tapedb alter --db demo.tape feed --schema feed.schema --dry-run
  tapedb alter --db demo.tape feed --schema feed.schema";

#[derive(Serialize)]
struct Altered<'a> {
    altered: &'a str,
    #[serde(flatten)]
    settings: Settings,
    #[serde(flatten)]
    schema: Option<Told>,
}

/// Changes the settings, the schema, or both.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    if args.settings.is_empty() && !args.schema.is_chosen() {
        return Err(Failure::usage(
            "nothing to alter; name a setting, such as --keep-for 30d, or --schema FILE",
        ));
    }
    // For reading first: that makes no database where there was none.
    let stream = open_stream(&args.db.open_to_read()?, &args.stream, ui)?;
    let altering = args.schema.compare(&stream, ui)?;
    if let Some(altering) = &altering {
        altering.show(ui)?;
        if args.schema.is_dry() {
            return altering.end_dry(&args.stream, ui);
        }
        altering.check_losses(&args.schema, &stream)?;
        altering.ask(&args.schema, &args.stream, ui)?;
    }
    drop(stream);
    let db = args.db.open_to_write()?;
    if let Some(altering) = &altering {
        altering.make(&db, &args.stream)?;
    }
    let stream = open_stream(&db, &args.stream, ui)?;
    if !args.settings.is_empty() {
        stream.alter(args.settings.on(stream.options()))?;
    }
    if ui.json() {
        let schema = altering.as_ref().map(|altering| altering.told(false));
        return ui.print_json(&Altered { altered: &args.stream, settings: Settings::of(&stream), schema });
    }
    if altering.is_some() {
        ui.print(&format!("changed the schema of stream {:?}\n", args.stream))?;
    }
    if args.settings.is_empty() {
        return Ok(());
    }
    let text = stream.describe();
    let comments = text.lines().take_while(|line| line.starts_with("//"));
    ui.print(&comments.map(|line| format!("{}\n", line.trim_start_matches("// "))).collect::<String>())
}
