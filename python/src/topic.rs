//! Topics: messages through shared memory, without a server.

use crate::cursor::timeout_of;
use crate::failure::Failure;
use crate::held::{Held, detached, guarded};
use crate::record::{Header, Record};
use crate::time::time_of;
use crate::types::Types;
use crate::value::{Misfit, fill_from_dict, fill_from_object};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tapedb_codec::dynamic::RecordValue;
use tapedb_schema::{Schema, Timestamp};
use tapedb_topic::{
    Delivery, Folder, Publisher as Publishing, Sent, Subscriber as Subscribing, Topic as Engine,
    TopicOptions, Waiting,
};

/// Waits are cut into pieces of this length; after each, signals are looked for.
const SLICE: Duration = Duration::from_millis(50);

/// The folder of topics: one that is named, a database's, or the user's.
fn folder_of(folder: Option<PathBuf>, database: Option<PathBuf>) -> Result<Folder, Failure> {
    Ok(match (folder, database) {
        (Some(folder), _) => Folder::at(folder),
        (None, Some(database)) => Folder::of_database(database)?,
        (None, None) => Folder::shared(),
    })
}

/// Opens a topic; creates it when a schema is given and there is none.
#[pyfunction]
#[pyo3(signature = (name, *, folder, database, schema, delivery, ring_bytes, symbols_bytes, stall, known))]
#[expect(clippy::too_many_arguments, reason = "Python has them as keyword arguments, in one place")]
pub fn open_topic(
    py: Python<'_>,
    name: String,
    folder: Option<PathBuf>,
    database: Option<PathBuf>,
    schema: Option<&str>,
    delivery: &str,
    ring_bytes: Option<u64>,
    symbols_bytes: Option<u64>,
    stall: Option<f64>,
    known: Py<PyDict>,
) -> PyResult<Topic> {
    let mut options = TopicOptions::default();
    options.delivery = match delivery {
        "reliable" => Delivery::Reliable,
        "lossy" => Delivery::Lossy,
        other => {
            let text = format!("delivery={other:?} is not possible; give \"reliable\" or \"lossy\"");
            return Err(Failure::Argument(text).into());
        }
    };
    options.ring_bytes = ring_bytes.unwrap_or(options.ring_bytes);
    options.symbols_bytes = symbols_bytes.unwrap_or(options.symbols_bytes);
    options.stall = timeout_of(stall)?.unwrap_or(options.stall);
    let schema = schema.map(|text| text.parse::<Schema>().map_err(tapedb_engine::Error::from)).transpose();
    let schema = schema.map_err(Failure::from)?;
    let folder = folder_of(folder, database)?;
    let topic = detached(py, || {
        guarded(|| match schema {
            Some(schema) => Ok(Engine::open_or_create(&folder, &name, &schema, &options)?),
            None => Ok(Engine::open(&folder, &name)?),
        })
    })?;
    let types = Arc::new(Types::new(py, topic.layouts().clone(), known));
    Ok(Topic { name: topic.name().into(), topic: Held::new("topic", topic), types })
}

/// Names of the topics of a folder.
#[pyfunction]
pub fn list_topics(folder: Option<PathBuf>, database: Option<PathBuf>) -> PyResult<Vec<String>> {
    Ok(folder_of(folder, database)?.list().map_err(Failure::from)?)
}

/// Deletes a topic.
#[pyfunction]
pub fn delete_topic(name: &str, folder: Option<PathBuf>, database: Option<PathBuf>) -> PyResult<()> {
    Ok(Engine::delete(&folder_of(folder, database)?, name).map_err(Failure::from)?)
}

/// An open topic.
#[pyclass(frozen, module = "tapedb._tapedb")]
pub struct Topic {
    topic: Held<Engine>,
    types: Arc<Types>,
    name: String,
}

#[pymethods]
impl Topic {
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    #[getter]
    fn schema(&self) -> String {
        self.types.layouts.schema().to_string()
    }

    #[getter]
    fn path(&self, py: Python<'_>) -> PyResult<PathBuf> {
        Ok(self.topic.run(py, |topic| Ok::<_, Failure>(topic.path().to_path_buf()))?)
    }

    fn publisher(&self, py: Python<'_>, exclusive: bool) -> PyResult<Publisher> {
        let publisher = self.topic.run(py, |topic| match exclusive {
            true => topic.exclusive_publisher(),
            false => topic.publisher(),
        })?;
        Ok(Publisher { publisher: Held::new("publisher", publisher), types: self.types.clone() })
    }

    #[pyo3(signature = (*, symbols, types, oldest, waiting, back_pressure))]
    fn subscribe(
        &self,
        py: Python<'_>,
        symbols: Option<Vec<String>>,
        types: Option<Vec<String>>,
        oldest: bool,
        waiting: &str,
        back_pressure: bool,
    ) -> PyResult<Subscriber> {
        let waiting = match waiting {
            "spin" => Waiting::Spin,
            "yield" => Waiting::Yield,
            "park" => Waiting::Park,
            "back_off" => Waiting::BackOff,
            other => {
                let text = format!(
                    "waiting={other:?} is not possible; give \"spin\", \"yield\", \"park\" or \"back_off\""
                );
                return Err(Failure::Argument(text).into());
            }
        };
        let subscriber = self.topic.run(py, |topic| {
            let mut builder = topic.subscriber().waiting(waiting);
            if let Some(symbols) = symbols {
                builder = builder.symbols(symbols);
            }
            if let Some(types) = types {
                builder = builder.types(types);
            }
            if oldest {
                builder = builder.from_oldest();
            }
            if !back_pressure {
                builder = builder.without_back_pressure();
            }
            builder.open()
        })?;
        Ok(Subscriber {
            reading: Held::new("subscriber", Reading { subscriber, symbols: HashMap::new() }),
            types: self.types.clone(),
            topic: PyString::intern(py, &self.name).unbind(),
        })
    }

    /// Publishers and subscribers, each a dictionary.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.topic.run(py, |topic| Ok::<_, Failure>(topic.stats()))?;
        let found = PyDict::new(py);
        found.set_item("publishers", stats.publishers.len())?;
        found.set_item("subscribers", stats.subscribers.len())?;
        found.set_item(
            "next_sequence",
            self.topic.run(py, |topic| Ok::<_, Failure>(topic.position().next_sequence))?,
        )?;
        Ok(found)
    }

    /// Fails when the topic was deleted or replaced.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        Ok(self.topic.run(py, |topic| topic.check())?)
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        Ok(self.topic.close(py)?)
    }
}

/// Publishes into a topic.
#[pyclass(frozen, module = "tapedb._tapedb")]
pub struct Publisher {
    publisher: Held<Publishing>,
    types: Arc<Types>,
}

#[pymethods]
impl Publisher {
    /// Publishes one message; returns its sequence number, or `None` when there was no space within `timeout` seconds.
    #[pyo3(signature = (symbol, time, record=None, /, *, r#type=None, timeout=None, **fields: "Any"))]
    #[expect(clippy::too_many_arguments, reason = "Python has them as keyword arguments")]
    fn publish(
        &self,
        py: Python<'_>,
        symbol: &str,
        time: &Bound<'_, PyAny>,
        record: Option<&Bound<'_, PyAny>>,
        r#type: Option<&str>,
        timeout: Option<f64>,
        fields: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Option<u64>> {
        let (time, timeout) = (time_of(time)?, timeout_of(timeout)?);
        let value = self.value(py, record, r#type, fields)?;
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            let sent = self.publisher.run(py, |publisher| {
                let left =
                    deadline.map_or(SLICE, |deadline| deadline.saturating_duration_since(Instant::now()));
                publisher.set_timeout(left.min(SLICE));
                publisher.publish_value(symbol, Timestamp(time), &value)
            })?;
            match sent {
                Sent::Published { sequence } => return Ok(Some(sequence)),
                Sent::BackPressured(_) if deadline.is_some_and(|deadline| Instant::now() >= deadline) => {
                    return Ok(None);
                }
                Sent::BackPressured(_) => crate::held::check_signals(py)?,
            }
        }
    }

    #[getter]
    fn is_closed(&self) -> bool {
        self.publisher.is_closed()
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        Ok(self.publisher.close(py)?)
    }
}

impl Publisher {
    fn value(
        &self,
        py: Python<'_>,
        record: Option<&Bound<'_, PyAny>>,
        name: Option<&str>,
        fields: Option<&Bound<'_, PyDict>>,
    ) -> Result<RecordValue, Failure> {
        let types = &*self.types;
        let class = record.map(|record| record.get_type().name()).transpose()?;
        let class = class.as_ref().map(|class| class.to_str()).transpose()?;
        let named = name.or(class).and_then(|name| types.type_id(name));
        let text = "the topic has several message types, or none of this name; say which one: type=\"…\"";
        let type_id = named.or_else(|| types.only_message().filter(|_| name.is_none()));
        let type_id = type_id.ok_or_else(|| Failure::mismatch("type", text))?;
        let mut value = RecordValue { type_id, fields: Vec::new() };
        let none = PyDict::new(py);
        let filled = match record.map(|record| (record, record.cast::<PyDict>())) {
            Some((_, Ok(fields))) => fill_from_dict(types, &mut value, fields, &["type", "symbol", "time"]),
            Some((record, Err(_))) => fill_from_object(types, &mut value, record),
            None => fill_from_dict(types, &mut value, fields.unwrap_or(&none), &[]),
        };
        filled.map_err(|Misfit { path, what }| {
            let record = &types.layouts.records()[usize::from(type_id)].name;
            let dot = if path.is_empty() { "" } else { "." };
            Failure::mismatch(format!("{record}{dot}{path}"), format!("not published: {what}"))
        })?;
        Ok(value)
    }
}

/// Reads a topic.
#[pyclass(frozen, module = "tapedb._tapedb")]
pub struct Subscriber {
    reading: Held<Reading>,
    types: Arc<Types>,
    topic: Py<PyString>,
}

struct Reading {
    subscriber: Subscribing,
    symbols: HashMap<u32, Py<PyString>>,
}

/// A message that was taken out of the ring.
struct Taken {
    time: i64,
    sequence: u64,
    type_id: u16,
    symbol: u32,
    /// The symbol's name, where it has not been seen before.
    name: Option<String>,
    body: Vec<u8>,
}

impl Subscriber {
    fn next_within<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<Duration>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            crate::held::check_signals(py)?;
            let left = deadline.map_or(SLICE, |deadline| deadline.saturating_duration_since(Instant::now()));
            let taken = self.reading.run(py, |reading| {
                let Reading { subscriber, symbols } = reading;
                let Some(message) = subscriber.next_within(left.min(SLICE))? else { return Ok(None) };
                let record = message.record()?;
                let symbol = message.symbol_id();
                Ok::<_, Failure>(Some(Taken {
                    time: message.time().0,
                    sequence: message.sequence(),
                    type_id: message.type_id(),
                    symbol,
                    name: (!symbols.contains_key(&symbol)).then(|| message.symbol().to_string()),
                    body: record.as_bytes().to_vec(),
                }))
            })?;
            match taken {
                Some(taken) => return self.message(py, taken).map(Some),
                None if deadline.is_some_and(|deadline| Instant::now() >= deadline) => return Ok(None),
                None => {}
            }
        }
    }

    fn message<'py>(&self, py: Python<'py>, taken: Taken) -> PyResult<Bound<'py, PyAny>> {
        let symbol = self.reading.with(py, |reading| {
            if let Some(name) = taken.name {
                reading.symbols.insert(taken.symbol, PyString::intern(py, &name).unbind());
            }
            Ok(reading.symbols.get(&taken.symbol).map(|symbol| symbol.clone_ref(py)))
        })?;
        let header = Header {
            time: taken.time,
            sequence: taken.sequence,
            space: 0,
            symbol: symbol.unwrap_or_else(|| PyString::intern(py, "").unbind()),
            stream: self.topic.clone_ref(py),
        };
        Record::object(py, &self.types, taken.type_id, &taken.body, Some(header))
    }
}

#[pymethods]
impl Subscriber {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.next_within(py, None)
    }

    /// The next message, waiting at most that many seconds.
    #[pyo3(signature = (timeout=None) -> "Message | None")]
    fn next<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.next_within(py, timeout_of(timeout)?)
    }

    /// States that the subscriber is alive though it reads nothing.
    fn touch(&self, py: Python<'_>) -> PyResult<()> {
        self.reading.with(py, |reading| {
            reading.subscriber.touch();
            Ok(())
        })
    }

    /// Messages that were overwritten before they were read.
    #[getter]
    fn missed(&self, py: Python<'_>) -> PyResult<u64> {
        self.reading.with(py, |reading| Ok(reading.subscriber.missed()))
    }

    /// Sequence number of the next message.
    #[getter]
    fn next_sequence(&self, py: Python<'_>) -> PyResult<u64> {
        self.reading.with(py, |reading| Ok(reading.subscriber.next_sequence()))
    }

    #[getter]
    fn is_closed(&self) -> bool {
        self.reading.is_closed()
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        Ok(self.reading.close(py)?)
    }
}
