//! Record batches of bars, and rows of the feed, through a server over TCP.

use super::{bars, batches};
use crate::pool::{Pool, load};
use crate::remote::Serving;
use crate::report::Report;
use crate::storage::steps;
use std::path::Path;
use tapedb_codec::SchemaBuilder;
use tapedb_engine::StreamOptions;
use tapedb_market::{Bar, Package};
use tapedb_terminal::{Failure, Ui};

/// `arrow.remote` and `read.remote.feed`: the server has a process of its own.
pub fn measure(
    path: &Path,
    (bars_pool, feed): (&Pool<Bar>, &Pool<Package>),
    messages: u64,
    report: &mut Report,
    ui: &Ui,
) -> Result<(), Failure> {
    let serving = Serving::start(path, None, 0)?;
    let db = serving.connect()?;
    let stream =
        db.create_stream("bars", SchemaBuilder::new().with::<Bar>().finish(), StreamOptions::default())?;
    let expected = load(&stream, bars_pool, messages, u64::MAX, ui)?;
    stream.seal()?;
    let expected = bars::Expected::of(&stream, expected)?;
    let found = batches::measure(&stream, "Bar", true, "arrow.remote", report)?;
    batches::check("arrow.remote", &expected.batches, &found)?;
    db.delete_stream("bars")?;
    let schema = SchemaBuilder::new().with::<Package>().finish();
    let stream = db.create_stream("feed", schema, StreamOptions::default())?;
    let expected = load(&stream, feed, (messages / 4).max(1), u64::MAX, ui)?;
    stream.seal()?;
    steps::rows::<Package>(&stream, "read.remote.feed", 1, expected, report)?;
    db.delete_stream("feed")?;
    Ok(())
}
