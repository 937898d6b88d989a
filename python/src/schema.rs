//! Schemas: texts checked, and Arrow's as TapeDB's.

use crate::failure::Failure;
use pyo3::prelude::*;
use pyo3_arrow::PySchema;
use pyo3_arrow::input::AnyRecordBatch;
use tapedb_engine::Error;
use tapedb_schema::Schema;

/// The canonical text of a schema, which is checked.
#[pyfunction]
pub fn check_schema(text: &str) -> PyResult<String> {
    let schema: Schema = text.parse().map_err(Error::from).map_err(Failure::from)?;
    schema.validate().map_err(Error::from).map_err(Failure::from)?;
    Ok(schema.to_string())
}

/// The schema text of a message type with the fields of an Arrow schema, but for `ignored` ones.
#[pyfunction]
pub fn schema_of_arrow(schema: &Bound<'_, PyAny>, name: &str, ignored: Vec<String>) -> PyResult<String> {
    let schema = match schema.extract::<PySchema>() {
        Ok(schema) => schema.into_inner(),
        // A table: it has the schema of its columns.
        Err(error) => schema.extract::<AnyRecordBatch>().map_err(|_| error)?.schema()?,
    };
    let ignored: Vec<&str> = ignored.iter().map(String::as_str).collect();
    let text = tapedb_arrow::schema_text(&schema, name, &ignored).map_err(Failure::from)?;
    check_schema(&text)
}
