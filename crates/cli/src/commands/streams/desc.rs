//! `tapedb desc`: describe one stream.

use crate::args::StreamArgs;
use crate::commands::streams::list::Summary;
use crate::commands::streams::settings::Settings;
use serde::Serialize;
use tapedb_terminal::{Failure, Ui};

/// Describe a stream: its schema as text that `tapedb create --schema` reads, with its content and settings as comments.
///
/// Example: tapedb desc --db demo.tape feed > feed.schema
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    stream: StreamArgs,
}

#[derive(Serialize)]
struct Described {
    #[serde(flatten)]
    summary: Summary,
    settings: Settings,
    message_types: Vec<String>,
    schema: String,
}

/// Describes a stream.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    let stream = args.stream.open_to_read(ui)?;
    let summary = Summary::of(&stream)?;
    if ui.json() {
        let messages = stream.schema().records.iter().filter(|record| record.message);
        let message_types = messages.map(|record| record.name.clone()).collect();
        return ui.print_json(&Described {
            summary,
            settings: Settings::of(&stream),
            message_types,
            schema: stream.schema().to_string(),
        });
    }
    let text = stream.describe();
    let (first, schema) = text.split_once('\n').unwrap_or((&text, ""));
    let schema = schema.trim_end();
    ui.print(&format!("{first}\n// {}\n// created {}\n{schema}\n", summary.content(), stream.created()))
}
