//! Whether the rows of a table are still those of the stream: messages are deleted, rewritten, lost, and symbols are renamed.

use crate::error::Error;
use crate::files::date;
use crate::format::Version;
use crate::progress::{Progress, checksum};
use crate::publisher::Publisher;
use crate::rows::DAY;
use crate::table::check_rows;
use tapedb_engine::Stream;
use tapedb_schema::Timestamp;

/// How a table differs from its stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stale {
    /// Why all of the table is to be written again; empty: days are enough.
    pub whole: Vec<String>,
    /// Days whose rows are others than the stream's messages.
    pub days: Vec<StaleDay>,
}

/// A day whose rows are not those of the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaleDay {
    /// The day since 1970, in UTC.
    pub day: i32,
    /// Rows of the table.
    pub in_table: u64,
    /// Messages of the stream.
    pub in_stream: u64,
}

impl StaleDay {
    /// The day, such as `2024-01-02`.
    pub fn date(&self) -> String {
        date(self.day)
    }
}

impl Stale {
    /// Whether the table is as the stream.
    pub fn is_none(&self) -> bool {
        self.whole.is_empty() && self.days.is_empty()
    }

    /// In one line; `None`: it is not stale.
    pub fn text(&self) -> Option<String> {
        if let Some(why) = self.whole.first() {
            return Some(why.clone());
        }
        let (first, last) = (self.days.first()?, self.days.last()?);
        let days = self.days.len();
        Some(match days {
            1 => format!("messages of {} have been deleted, rewritten or lost", first.date()),
            _ => format!(
                "messages of {days} days from {} to {} have been deleted, rewritten or lost",
                first.date(),
                last.date()
            ),
        })
    }
}

/// What is stale, as far as it is to be marked.
pub(crate) fn quick(
    publisher: &Publisher,
    version: &dyn Version,
    progress: &Progress,
) -> Result<Option<String>, Error> {
    if is_renamed(&publisher.stream.symbols(), progress) {
        return Ok(Some(RENAMED.into()));
    }
    let stream = &publisher.stream;
    let count = stream.cursor().to_sequences(progress.sequences.clone());
    if count.columns(&publisher.record.name, [""; 0]).count()? == progress.messages {
        return Ok(None);
    }
    Ok(compare(publisher, version, progress)?.text())
}

const RENAMED: &str = "symbols have been renamed";

/// All that is stale.
pub(crate) fn compare(
    publisher: &Publisher,
    version: &dyn Version,
    progress: &Progress,
) -> Result<Stale, Error> {
    let Publisher { stream, record, table, columns, .. } = publisher;
    let mut stale = Stale::default();
    let wrong = [
        check_rows(&table.name, version, progress),
        check_end(&table.name, &stream.next_sequences()?, &progress.sequences),
    ];
    stale.whole.extend(wrong.into_iter().filter_map(Result::err).map(|error| error.to_string()));
    if is_renamed(&stream.symbols(), progress) {
        stale.whole.push(RENAMED.into());
    }
    if !stale.whole.is_empty() {
        return Ok(stale);
    }
    let first = first_day(stream)?;
    if columns.flattened.is_some() {
        // Rows are entries, and files do not state how many messages they are of.
        let count = stream.cursor().to_sequences(progress.sequences.clone());
        let count = count.columns(&record.name, [""; 0]).count()?;
        if count != progress.messages && first.is_none() {
            stale.whole.push(format!(
                "the stream has {count} of the {} messages that were published: others have been deleted, rewritten or lost",
                progress.messages
            ));
        }
        return Ok(stale);
    }
    let in_table = version.rows_of_days()?;
    let Some(in_stream) = days_of(stream)? else {
        let gone = |(day, rows): (&i32, &u64)| StaleDay { day: *day, in_table: *rows, in_stream: 0 };
        stale.days = if first.is_none() { in_table.iter().map(gone).collect() } else { Vec::new() };
        return Ok(stale);
    };
    let all = in_table.keys().copied().chain(in_stream.clone());
    let (least, most) = all.fold((i32::MAX, i32::MIN), |(least, most), day| (least.min(day), most.max(day)));
    for day in least.max(first.unwrap_or(i32::MIN))..=most {
        let in_table = in_table.get(&day).copied().unwrap_or(0);
        if in_table == 0 && !in_stream.contains(&day) {
            continue;
        }
        let (from, to) = times(day);
        let cursor = stream.cursor().from(from).to(to).to_sequences(progress.sequences.clone());
        let count = cursor.columns(&record.name, [""; 0]).count()?;
        if count != in_table {
            stale.days.push(StaleDay { day, in_table, in_stream: count });
        }
    }
    Ok(stale)
}

/// The first day that the stream certainly has all of, where it drops old messages: what it has dropped stays in the table. `None`: it
/// keeps all.
pub(crate) fn first_day(stream: &Stream) -> Result<Option<i32>, Error> {
    let retention = stream.options().retention;
    if retention.age.is_none() && retention.bytes.is_none() {
        return Ok(None);
    }
    let times = stream.stats()?.times;
    Ok(Some(times.map_or(i32::MAX, |(first, _)| first.0.div_euclid(DAY) as i32 + 1)))
}

/// The days from the stream's first message to its last.
fn days_of(stream: &Stream) -> Result<Option<std::ops::RangeInclusive<i32>>, Error> {
    let day = |time: Timestamp| time.0.div_euclid(DAY) as i32;
    Ok(stream.stats()?.times.map(|(first, last)| day(first)..=day(last)))
}

/// When a day begins and ends; the first and the last that there are end with the times.
pub(crate) fn times(day: i32) -> (Timestamp, Timestamp) {
    let time = |day: i64| Timestamp(day.saturating_mul(DAY));
    (time(i64::from(day)), time(i64::from(day) + 1))
}

/// Whether one of the symbols that the stream had when the table was last published has another name now.
pub(crate) fn is_renamed(names: &[String], progress: &Progress) -> bool {
    let (count, known) = progress.symbols;
    let names = names.iter().take(count as usize).map(String::as_str);
    checksum(names) != known
}

/// Checks that the stream has as many messages as the table counts.
///
/// # Errors
/// When it has fewer: it is an older state of the stream.
pub(crate) fn check_end(name: &str, next: &[u64], reached: &[u64]) -> Result<(), Error> {
    let Some((next, reached)) = next.iter().zip(reached).find(|(next, reached)| next < reached) else {
        return Ok(());
    };
    Err(Error::Table(format!(
        "{name}: the table has messages up to sequence number {reached}, and the stream only up to {next}: the stream was restored from a \
         backup; `tapedb publish --repair` writes what it has now"
    )))
}
