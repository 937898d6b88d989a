//! The depth of a book over time: how much was there at each price, and the trades.

use crate::api::book::check_symbol;
use crate::api::histogram::{Range, part_of, range};
use crate::api::messages::selected;
use crate::caller::Caller;
use crate::failure::Failure;
use crate::market::{FoundTrade, Trades, recorded_gaps};
use crate::params::{Params, time};
use crate::state::Shared;
use crate::work;
use axum::Json;
use axum::extract::{Path, State};
use serde::Deserialize;
use serde_json::{Value, json};
use tapedb_access::May;
use tapedb_engine::Stream;
use tapedb_market::{Side, SymbolBooks};
use tapedb_market_streams::{BookReplay, StreamBooks};
use tapedb_schema::{Decimal64, Timestamp};

const COLUMNS_MAX: usize = 2000;
const ROWS_MAX: usize = 400;
/// Levels of each side that are looked at.
const LEVELS: usize = 400;
/// Levels of each side that are inside the picture, if rows suffice.
const LEVELS_SHOWN: usize = 25;
/// Trades in the answer, the largest ones.
const TRADES_MAX: usize = 5000;
/// Messages between two checks whether the picture is still wanted.
const STEP: usize = 10_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    symbol: String,
    #[serde(default, deserialize_with = "time")]
    from: Option<Timestamp>,
    #[serde(default, deserialize_with = "time")]
    to: Option<Timestamp>,
    columns: Option<usize>,
    rows: Option<usize>,
}

/// A heatmap.
pub(crate) async fn read(
    State(state): State<Shared>,
    caller: Caller,
    Path(name): Path<String>,
    Params(wanted): Params<Wanted>,
) -> Result<Json<Value>, Failure> {
    let shared = state.clone();
    let drawn = state.workers.run(move || {
        let stream = caller.stream(&name, May::Read)?;
        check_symbol(&stream, &wanted.symbol)?;
        draw(&shared, &caller, &stream, &wanted)
    });
    drawn.await.map(Json)
}

/// Prices and sizes of a moment, both sides.
type Levels = Vec<(f64, f64)>;

fn draw(state: &Shared, caller: &Caller, stream: &Stream, wanted: &Wanted) -> Result<Value, Failure> {
    let failure = |error| caller.failure(error);
    let of_book = |error| Failure::of_book(&caller.user, error);
    let symbols = [wanted.symbol.clone()];
    let Range { from, to } = range(stream, wanted.from, wanted.to, &symbols).map_err(failure)?;
    let columns = wanted.columns.unwrap_or(300).clamp(1, COLUMNS_MAX);
    let rows = wanted.rows.unwrap_or(80).clamp(1, ROWS_MAX);
    let mut replay = BookReplay::new(stream).map_err(of_book)?;
    let before = Timestamp(from.nanos().saturating_sub(1));
    let db = state.server.database();
    let found = stream.recent_book_at(db, &state.books, &wanted.symbol, before).map_err(of_book)?;
    let id = stream.symbols().iter().position(|known| *known == wanted.symbol).unwrap_or(0) as u32;
    replay.restore(id, found.books);
    let types = Trades::types(stream);
    let mut cursor = selected(stream, Some(from), Some(to), &symbols).types(types).open().map_err(failure)?;
    let (mut trades, mut finder) = (Vec::new(), Trades::default());
    let (mut moments, mut extent): (Vec<Levels>, Option<(f64, f64)>) = (Vec::with_capacity(columns), None);
    let mut take_moment = |replay: &BookReplay, extent: &mut Option<(f64, f64)>| {
        let levels = replay.books().symbol(id).map(|books| levels(books, extent)).unwrap_or_default();
        moments.push(levels);
        moments.len()
    };
    let (mut column, mut count) = (0, 0usize);
    while let Some(message) = cursor.next().map_err(failure)? {
        while column < columns && message.time() >= part_of(from, to, column + 1, columns) {
            column = take_moment(&replay, &mut extent);
        }
        replay.apply(&message).map_err(failure)?;
        finder.each(&message, |trade| trades.push(trade)).map_err(failure)?;
        count += 1;
        if count.is_multiple_of(STEP) {
            work::check()?;
            keep_largest(&mut trades);
        }
    }
    while column < columns {
        column = take_moment(&replay, &mut extent);
    }
    keep_largest(&mut trades);
    trades.sort_by_key(|trade| trade.time);
    let grid = Grid::new(extent, rows);
    let gaps = recorded_gaps(stream, selected(stream, Some(from), Some(to), &[]), &wanted.symbol)
        .map_err(failure)?;
    let times: Vec<String> =
        (0..columns).map(|column| part_of(from, to, column, columns).nanos().to_string()).collect();
    Ok(json!({
        "from": from.nanos().to_string(),
        "to": to.nanos().to_string(),
        "times": times,
        "prices": grid.prices(),
        "sizes": moments.iter().map(|levels| grid.column(levels)).collect::<Vec<_>>(),
        "trades": trades.iter().map(FoundTrade::json).collect::<Vec<_>>(),
        "gaps": gaps,
    }))
}

/// The levels of all venues; extends the range of prices that is shown.
fn levels(books: &SymbolBooks, extent: &mut Option<(f64, f64)>) -> Levels {
    let mut levels = Levels::new();
    for venue in books.venues() {
        for side in [Side::Bid, Side::Ask] {
            for (index, level) in venue.levels(side).take(LEVELS).enumerate() {
                let price = books.price_units().decimal(level.price).to_f64();
                levels.push((price, books.size_units().decimal(level.size).to_f64()));
                if index < LEVELS_SHOWN {
                    let (low, high) = extent.unwrap_or((price, price));
                    *extent = Some((low.min(price), high.max(price)));
                }
            }
        }
    }
    levels
}

fn keep_largest(trades: &mut Vec<FoundTrade>) {
    if trades.len() > TRADES_MAX {
        let by_size = |a: &FoundTrade, b: &FoundTrade| b.size.to_f64().total_cmp(&a.size.to_f64());
        trades.select_nth_unstable_by(TRADES_MAX, by_size);
        trades.truncate(TRADES_MAX);
    }
}

/// Rows of equal height, at about as many round prices as are wanted, over the prices that are shown.
struct Grid {
    low: f64,
    step: f64,
    /// Digits behind the point of a row's price.
    digits: usize,
    rows: usize,
}

impl Grid {
    fn new(extent: Option<(f64, f64)>, rows: usize) -> Self {
        let Some((low, high)) = extent else { return Self { low: 0.0, step: 0.0, digits: 0, rows: 0 } };
        let least = (high - low) / (rows.max(2) - 1) as f64;
        if least <= 0.0 {
            return Self { low, step: 0.0, digits: 0, rows: 1 };
        }
        let power = least.log10().floor();
        let round =
            [1.0, 2.0, 5.0].into_iter().find(|round| round * 10f64.powf(power) >= least * (1.0 - 1e-9));
        let (round, power) = round.map_or((1.0, power + 1.0), |round| (round, power));
        let step = round * 10f64.powf(power);
        let low = (low / step + 1e-6).floor() * step;
        let rows = ((high - low) / step + 1e-6).floor() as usize + 1;
        Self { low, step, digits: (-power).clamp(0.0, 16.0) as usize, rows }
    }

    /// The lowest price of each row.
    fn prices(&self) -> Vec<String> {
        if self.step == 0.0 {
            return (0..self.rows).map(|_| Decimal64::from_f64(self.low).to_string()).collect();
        }
        (0..self.rows).map(|row| format!("{:.*}", self.digits, self.low + self.step * row as f64)).collect()
    }

    /// The sizes of each row.
    fn column(&self, levels: &Levels) -> Vec<f64> {
        let mut sizes = vec![0.0; self.rows];
        for (price, size) in levels {
            let row = if self.step > 0.0 {
                ((price - self.low) / self.step + 1e-6).floor()
            } else {
                price - self.low
            };
            if row >= 0.0 && row < self.rows as f64 {
                sizes[row as usize] += size;
            }
        }
        sizes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_go_to_the_rows_of_their_prices() {
        let grid = Grid::new(Some((10.0, 12.0)), 3);
        assert_eq!(grid.prices(), ["10", "11", "12"]);
        assert_eq!(
            grid.column(&vec![(10.0, 1.0), (10.5, 2.0), (12.0, 4.0), (13.0, 8.0), (9.0, 8.0)]),
            [3.0, 0.0, 4.0]
        );
        let grid = Grid::new(Some((4184.25, 4267.5)), 80);
        assert_eq!((&*grid.prices()[0], &*grid.prices()[1], grid.rows), ("4184", "4186", 42), "round prices");
        assert_eq!(Grid::new(Some((0.00123, 0.00186)), 80).prices()[..2], ["0.00123", "0.00124"]);
        assert_eq!(Grid::new(Some((5.0, 5.0)), 3).prices(), ["5"]);
        assert_eq!(Grid::new(Some((5.0, 5.0)), 3).column(&vec![(5.0, 1.0)]), [1.0]);
        assert!(Grid::new(None, 3).column(&vec![(5.0, 1.0)]).is_empty());
    }
}
