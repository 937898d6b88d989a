//! Times in and out: integers of nanoseconds, texts, and what Python's libraries have.

use crate::failure::Failure;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyInt, PyString};
use tapedb_schema::{TimeOfDay, Timestamp};

/// A time as nanoseconds since 1970, UTC.
pub fn time_of(value: &Bound<'_, PyAny>) -> Result<i64, Failure> {
    if let Ok(number) = value.cast::<PyInt>()
        && !value.is_instance_of::<PyBool>()
    {
        return number.extract().map_err(|_| {
            Failure::Argument(format!("time {value} is beyond the range of nanoseconds: 1677 to 2262"))
        });
    }
    if let Ok(text) = value.cast::<PyString>() {
        let text = text.to_str()?;
        let time: Result<Timestamp, _> = text.parse();
        return time.map(|time| time.0).map_err(|error| Failure::Argument(format!("{text:?}: {error}")));
    }
    Ok(helper(value, "nanos_of")?.extract()?)
}

/// A time of day as nanoseconds since midnight.
pub fn time_of_day(value: &Bound<'_, PyAny>) -> Result<TimeOfDay, Failure> {
    let refused = || Failure::Argument(format!("{value} is not a time of day: 00:00 to 23:59:59.999999999"));
    if let Ok(text) = value.cast::<PyString>() {
        return text.to_str()?.parse().map_err(|_| refused());
    }
    let nanos = if value.is_instance_of::<PyInt>() {
        value.extract()
    } else {
        helper(value, "nanos_of_day")?.extract()
    };
    TimeOfDay::from_nanos(nanos.map_err(|_| refused())?).ok_or_else(refused)
}

/// What `tapedb/_times.py` makes of a value.
fn helper<'py>(value: &Bound<'py, PyAny>, name: &'static str) -> PyResult<Bound<'py, PyAny>> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let py = value.py();
    let module =
        MODULE.get_or_try_init(py, || Ok::<_, PyErr>(py.import(intern!(py, "tapedb._times"))?.unbind()))?;
    module.bind(py).getattr(name)?.call1((value,))
}

/// Nanoseconds since 1970, UTC, of whatever TapeDB takes as a time.
#[pyfunction]
pub fn nanos(value: &Bound<'_, PyAny>) -> PyResult<i64> {
    Ok(time_of(value)?)
}

/// The ISO 8601 text of nanoseconds since 1970.
#[pyfunction]
pub fn format_time(nanos: i64) -> String {
    Timestamp(nanos).to_string()
}
