//! `tapedb alter`: other settings, or another schema, for a stream that is there.

mod schema;

use crate::args::{StreamArgs, open_stream};
use crate::commands::streams::settings::{Settings, SettingsArgs};
use schema::{SchemaArgs, Told};
use serde::Serialize;
use tapedb_terminal::{Failure, Ui};

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
    stream: StreamArgs,

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
    let name = &args.stream.name;
    let stream = args.stream.open_to_read(ui)?;
    let altering = args.schema.compare(&stream, ui)?;
    if let Some(altering) = &altering {
        altering.show(ui)?;
        if args.schema.is_dry() {
            return altering.end_dry(name, ui);
        }
        altering.check_losses(&args.schema, &stream)?;
        altering.ask(&args.schema, name, ui)?;
    }
    drop(stream);
    let db = args.stream.db.open_to_write()?;
    if let Some(altering) = &altering {
        altering.make(&db, name)?;
    }
    let stream = open_stream(&db, name, ui)?;
    if !args.settings.is_empty() {
        stream.alter(args.settings.on(stream.options()))?;
    }
    if ui.json() {
        let schema = altering.as_ref().map(|altering| altering.told(false));
        return ui.print_json(&Altered { altered: name, settings: Settings::of(&stream), schema });
    }
    if altering.is_some() {
        ui.print(&format!("changed the schema of stream {name:?}\n"))?;
    }
    if args.settings.is_empty() {
        return Ok(());
    }
    let text = stream.describe();
    let comments = text.lines().take_while(|line| line.starts_with("//"));
    ui.print(&comments.map(|line| format!("{}\n", line.trim_start_matches("// "))).collect::<String>())
}
