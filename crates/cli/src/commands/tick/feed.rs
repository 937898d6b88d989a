//! `tapedb tick feed`: a simulated feed.

use super::place::PlantAt;
use serde_json::json;
use std::time::{Duration, Instant};
use tapedb_terminal::{
    Failure, Ui,
    quantity::{count, duration},
    ui::rate,
};
use tapedb_tick::{Feed, FeedOptions};

/// A simulated feed: sends updates on a timer to a table with time, sym, price, size (and floats x0, x1 … after them).
///
/// The size of a row is its number.
///
/// Example: tapedb tick feed --plant tape://localhost:7847 --rows 100 --updates 5 --interval 1ms --seconds 10
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    plant: PlantAt,

    /// The table.
    #[arg(long, value_name = "TABLE", default_value = "trade")]
    table: String,

    /// Rows of an update.
    #[arg(long, value_name = "N", default_value_t = 1)]
    rows: usize,

    /// Updates per tick of the timer.
    #[arg(long, value_name = "N", default_value_t = 1)]
    updates: usize,

    /// Time between ticks; 0ms: full speed.
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = duration)]
    interval: Duration,

    /// Maximum time that an update waits for updates that follow at once: fewer, larger batches.
    #[arg(long, value_name = "TIME", default_value = "0us", value_parser = duration)]
    gather: Duration,

    /// Columns of floats after the others.
    #[arg(long, value_name = "N", default_value_t = 0)]
    extra_columns: usize,

    /// Number of symbols.
    #[arg(long, value_name = "N", default_value_t = 500)]
    symbols: usize,

    /// Number of the first row.
    #[arg(long, value_name = "N", default_value = "0", value_parser = count)]
    first: u64,

    /// End after this number of rows [default: run until Ctrl-C].
    #[arg(long, value_name = "COUNT", value_parser = count)]
    count: Option<u64>,

    /// End after this number of seconds.
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u64>,
}

/// Sends until the limit, or until a signal arrives.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    let plan = args.plant.open_to_write()?;
    let options = FeedOptions {
        table: args.table.clone(),
        rows_per_update: args.rows,
        updates_per_tick: args.updates,
        interval: args.interval,
        extra_columns: args.extra_columns,
        symbols: args.symbols,
        first: args.first,
        gather: args.gather,
    };
    let mut feed = Feed::open(&plan, options)?;
    let began = Instant::now();
    let end = args.count.map_or(u64::MAX, |count| args.first.saturating_add(count));
    let is_time_left = || args.seconds.is_none_or(|seconds| began.elapsed().as_secs() < seconds);
    feed.run(|next| next < end && is_time_left() && !ui.is_interrupted())?;
    let (rows, seconds) = (feed.next() - args.first, began.elapsed().as_secs_f64());
    if ui.json() {
        return ui.print_json(&json!({ "rows": rows, "seconds": seconds, "acknowledged": true }));
    }
    ui.print(&format!("{rows} rows sent and acknowledged, {}\n", rate(rows, seconds)))
}
