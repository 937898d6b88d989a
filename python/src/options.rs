//! The options of a stream, of keyword arguments.

use crate::failure::Failure;
use crate::time::time_of;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use std::time::Duration;
use tapedb_engine::{Durability, Late, StreamOptions};

/// The options with those replaced that `given` has: durability, late, spaces, bytes_max, file_bytes_max, keep_for, keep_bytes,
/// seal_after, cold_after.
pub fn with(mut options: StreamOptions, given: Option<&Bound<'_, PyDict>>) -> Result<StreamOptions, Failure> {
    for (key, value) in given.into_iter().flat_map(|given| given.iter()) {
        let key = key.extract::<String>()?;
        let refused =
            |possible: &str| Failure::Argument(format!("{key}={value} is not possible; give {possible}"));
        match key.as_str() {
            "durability" => {
                options.durability = match value.extract::<&str>() {
                    Ok("transient") => Durability::Transient,
                    Ok("async") => Durability::Async,
                    Ok("sync") => Durability::Sync,
                    _ => return Err(refused("\"transient\", \"async\" or \"sync\"")),
                }
            }
            "late" => {
                options.late = match value.extract::<&str>() {
                    Ok("accept") => Late::Accept,
                    Ok("refuse") => Late::Refuse,
                    _ => return Err(refused("\"accept\" or \"refuse\"")),
                }
            }
            "spaces" => options.spaces = value.extract().map_err(|_| refused("1 to 256"))?,
            "bytes_max" => options.bytes_max = value.extract().map_err(|_| refused("a number of bytes"))?,
            "file_bytes_max" => {
                options.file_bytes_max = value.extract().map_err(|_| refused("a number of bytes"))?
            }
            "keep_bytes" => {
                options.retention.bytes = match value.is_none() {
                    true => None,
                    false => Some(value.extract().map_err(|_| refused("a number of bytes, or None"))?),
                }
            }
            "keep_for" => options.retention.age = duration(&value, &refused)?,
            "seal_after" => options.seal_after = duration(&value, &refused)?,
            "cold_after" => options.cold_after = duration(&value, &refused)?,
            _ => {
                return Err(Failure::Argument(format!(
                    "streams have no option {key:?}; there is durability, late, spaces, bytes_max, file_bytes_max, keep_for, \
                     keep_bytes, seal_after, cold_after"
                )));
            }
        }
    }
    Ok(options)
}

/// A duration: a `timedelta`, seconds, a text such as `30d`, or `None`.
fn duration(
    value: &Bound<'_, PyAny>,
    refused: &dyn Fn(&str) -> Failure,
) -> Result<Option<Duration>, Failure> {
    let refused = || refused("seconds, a timedelta, a text such as \"30d\", or None");
    if value.is_none() {
        return Ok(None);
    }
    if let Ok(text) = value.cast::<PyString>() {
        // The options' own text form has the units.
        let (text, form) = (text.to_str()?, StreamOptions::default().to_text());
        let with_text = |line: &str| match line.split_once(' ') {
            Some(("seal_after", _)) => format!("seal_after {text}\n"),
            _ => format!("{line}\n"),
        };
        let found: Result<StreamOptions, _> = form.lines().map(with_text).collect::<String>().parse();
        return found.map(|found| found.seal_after).map_err(|_| refused());
    }
    let seconds = value.call_method0("total_seconds").and_then(|seconds| seconds.extract::<f64>());
    let seconds = seconds.or_else(|_| value.extract::<f64>()).map_err(|_| refused())?;
    Duration::try_from_secs_f64(seconds).map(Some).map_err(|_| refused())
}

/// The options as a dictionary: what [`with`] takes.
pub fn to_dict<'py>(py: Python<'py>, options: &StreamOptions) -> PyResult<Bound<'py, PyDict>> {
    let seconds = |duration: Option<Duration>| duration.map(|duration| duration.as_secs_f64());
    let all = PyDict::new(py);
    all.set_item("durability", durability(options.durability))?;
    all.set_item("late", if options.late == Late::Refuse { "refuse" } else { "accept" })?;
    all.set_item("spaces", options.spaces)?;
    all.set_item("bytes_max", options.bytes_max)?;
    all.set_item("file_bytes_max", options.file_bytes_max)?;
    all.set_item("keep_for", seconds(options.retention.age))?;
    all.set_item("keep_bytes", options.retention.bytes)?;
    all.set_item("seal_after", seconds(options.seal_after))?;
    all.set_item("cold_after", seconds(options.cold_after))?;
    Ok(all)
}

fn durability(durability: Durability) -> &'static str {
    match durability {
        Durability::Transient => "transient",
        Durability::Async => "async",
        Durability::Sync => "sync",
    }
}

/// Which messages a cursor or a table is to have.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Selection<'py> {
    symbols: Option<Vec<String>>,
    types: Option<Vec<String>>,
    start: Option<Bound<'py, PyAny>>,
    end: Option<Bound<'py, PyAny>>,
    live: bool,
    history: bool,
    reverse: bool,
    last: Option<u64>,
    last_values: bool,
    from_sequence: Option<u64>,
    resume: Option<String>,
}

impl Selection<'_> {
    /// Tells the builder of a cursor.
    pub fn apply(
        &self,
        mut builder: tapedb_engine::CursorBuilder,
    ) -> Result<tapedb_engine::CursorBuilder, Failure> {
        use tapedb_schema::Timestamp;
        if let Some(start) = &self.start {
            builder = builder.from(Timestamp(time_of(start)?));
        }
        if let Some(end) = &self.end {
            builder = builder.to(Timestamp(time_of(end)?));
        }
        if let Some(symbols) = &self.symbols {
            builder = builder.symbols(symbols);
        }
        if let Some(types) = &self.types {
            builder = builder.types(types);
        }
        if self.reverse {
            builder = builder.reverse();
        }
        if self.live {
            builder = builder.live();
        }
        if !self.history {
            if !self.live {
                return Err(Failure::Argument(
                    "history=False without live=True would read nothing; add live=True".into(),
                ));
            }
            builder = builder.skip_history();
        }
        if let Some(count) = self.last {
            builder = builder.last(count);
        }
        if self.last_values {
            builder = builder.last_values();
        }
        if let Some(sequence) = self.from_sequence {
            builder = builder.from_sequence(sequence);
        }
        if let Some(resume) = &self.resume {
            builder = builder.resume(&resume.parse()?);
        }
        Ok(builder)
    }
}
