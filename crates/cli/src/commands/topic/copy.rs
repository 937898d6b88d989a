//! `tapedb topic copy`: copy a topic to a durable stream.

use super::folder::of_database;
use crate::args::DatabaseArgs;
use crate::commands::streams::settings::SettingsArgs;
use crate::creation::CreateArgs;
use serde_json::json;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tapedb_engine::StreamOptions;
use tapedb_terminal::{Failure, Ui, location, quantity, ui};
use tapedb_topic::{Folder, Topic, TopicError};
use tapedb_topic_copy::{CopyOptions, CopyProgress, TopicCopy};

/// Time between two checks for Ctrl-C.
const WAIT: Duration = Duration::from_millis(100);

/// Copy a topic to a durable stream.
///
/// Runs until Ctrl-C; copies every message in the topic's order. A restart continues where the copy stopped, if the topic still has
/// those messages. Missed messages are counted and reported; STREAM.carbon, a stream beside the copy, maps messages of the stream
/// to those of the topic. Publishers of a reliable topic wait for the copy, unless --lossy is given.
///
/// The topic is the one of that name in the database, or else one without a database.
///
/// Example: tapedb topic copy quotes --db market.tape --stream quotes --keep-for 15m
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    db: DatabaseArgs,

    #[command(flatten)]
    creation: CreateArgs,

    /// Folder with the topics' files, instead of the usual one.
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,

    /// The topic.
    #[arg(value_name = "TOPIC")]
    topic: String,

    /// The stream; created if it does not exist [default: the topic's name].
    #[arg(long, value_name = "STREAM")]
    stream: Option<String>,

    /// Miss messages instead of making publishers wait.
    #[arg(long)]
    lossy: bool,

    /// How long a message may wait for others before they are written together.
    #[arg(long, value_name = "DURATION", value_parser = quantity::duration, default_value = "1ms")]
    delay: Duration,

    /// Time between two reports of progress.
    #[arg(long, value_name = "DURATION", value_parser = quantity::duration, default_value = "10s")]
    every: Duration,

    /// End after this time [default: run until Ctrl-C].
    #[arg(long = "for", value_parser = quantity::duration, value_name = "DURATION")]
    duration: Option<Duration>,

    #[command(flatten)]
    settings: SettingsArgs,
}

/// Copies until a signal arrives or the time is over.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    ui.signals().give_time_to_finish()?;
    let db = args.db.open_or_create(args.creation.create)?;
    let topic = find(&args)?;
    let stream = args.stream.as_deref().unwrap_or(&args.topic);
    let settings = args.settings.on(StreamOptions::default());
    let options = CopyOptions { delay: args.delay, is_waited_for: !args.lossy, ..CopyOptions::default() };
    let mut copy = TopicCopy::open(&topic, &db, stream, settings, options)?;
    let deadline = args.duration.map(|duration| Instant::now() + duration);
    let (mut reported, mut missed) = (Instant::now(), 0);
    while !ui.is_interrupted() && deadline.is_none_or(|deadline| Instant::now() < deadline) {
        copy.step(WAIT)?;
        if reported.elapsed() >= args.every {
            reported = Instant::now();
            tell(&copy.progress(), ui)?;
        }
        let now_missed = copy.progress().missed;
        if now_missed > std::mem::replace(&mut missed, now_missed) {
            ui.warn(&format!("{now_missed} messages were overwritten before they could be copied"));
        }
    }
    copy.flush()?;
    tell(&copy.progress(), ui)?;
    ui.check_interrupt()
}

fn find(args: &Args) -> Result<Topic, Failure> {
    if let Some(folder) = &args.folder {
        return Ok(Topic::open(&Folder::at(folder), &args.topic)?);
    }
    if location::url_of(&args.db.db).is_none() {
        match Topic::open(&of_database(&args.db.db)?, &args.topic) {
            Err(TopicError::NotFound { .. }) => {}
            found => return Ok(found?),
        }
    }
    Ok(Topic::open(&Folder::shared(), &args.topic)?)
}

fn tell(progress: &CopyProgress, ui: &Ui) -> Result<(), Failure> {
    let CopyProgress { copied, missed, lag, lag_bytes, next_sequence } = *progress;
    if ui.json() {
        let object = json!({
            "copied": copied, "missed": missed, "lag": lag, "lag_bytes": lag_bytes, "next_sequence": next_sequence,
        });
        return ui.print_json(&object);
    }
    let numbers = [copied, missed, lag].map(ui::thousands);
    ui.print(&format!("{} messages copied, {} missed, {} behind\n", numbers[0], numbers[1], numbers[2]))
}
