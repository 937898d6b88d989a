//! `tapedb alter`: change the settings or the schema of a stream.

mod schema;

use crate::args::{StreamArgs, open_stream};
use crate::commands::streams::settings::{Settings, SettingsArgs};
use schema::{Alteration, SchemaArgs};
use serde::Serialize;
use tapedb_terminal::{Failure, Ui};

/// Change the settings or the schema of a stream; settings that are not given keep their value.
///
/// A new schema (--schema) is compared with the current one: additions, removals and conversions are shown by type and field;
/// --dry-run shows them and changes nothing. Stored messages stay readable, with defaults for fields that they lack. A change that
/// loses stored values is refused unless --allow-loss names the kind of loss; a conversion without a rule is always refused.
/// Programs that have the stream open continue with their schema. See docs/format/schema.md, "Versions".
///
/// Durability and spaces cannot be changed. Messages beyond the new retention are purged soon after, in whole segments, by the
/// process that writes.
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
    schema: Option<Alteration>,
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
        args.settings.check_tier(stream.options().offload)?;
        stream.alter(args.settings.on(stream.options()))?;
    }
    if ui.json() {
        let schema = altering.as_ref().map(|altering| altering.described(false));
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
