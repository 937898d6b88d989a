//! `tapedb alter`: other settings for a stream that is there.

use crate::args::{DatabaseArgs, open_stream};
use crate::failure::Failure;
use crate::settings::{Settings, SettingsArgs};
use crate::ui::Ui;
use serde::Serialize;

/// Change the settings of a stream; those that are not named stay as they are.
///
/// Durability, spaces and schema stay what they were when the stream was created. What retention no longer keeps is
/// purged by whole segments, by the process that writes, soon after.
///
/// Example: tapedb alter --db demo.tape feed --keep-for 30d --cold-after 1d
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    db: DatabaseArgs,

    /// The stream.
    #[arg(value_name = "STREAM")]
    stream: String,

    #[command(flatten)]
    settings: SettingsArgs,
}

#[derive(Serialize)]
struct Altered<'a> {
    altered: &'a str,
    #[serde(flatten)]
    settings: Settings,
}

/// Changes the settings.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    if args.settings.is_empty() {
        return Err(Failure::usage("nothing to alter; name a setting, such as --keep-for 30d"));
    }
    // For reading first: that makes no database where there was none.
    drop(args.db.open_to_read()?.stream(&args.stream)?);
    let db = args.db.open_to_write()?;
    let stream = open_stream(&db, &args.stream, ui)?;
    stream.alter(args.settings.on(stream.options()))?;
    if ui.json() {
        return ui.print_json(&Altered { altered: &args.stream, settings: Settings::of(&stream) });
    }
    let text = stream.describe();
    let comments = text.lines().take_while(|line| line.starts_with("//"));
    ui.print(&comments.map(|line| format!("{}\n", line.trim_start_matches("// "))).collect::<String>())
}
