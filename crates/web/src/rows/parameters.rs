//! Values for the placeholders of a query, from JSON.

use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, NullArray, RecordBatch, StringArray, UInt64Array,
};
use arrow_ipc::writer::StreamWriter;
use serde_json::Value;
use std::sync::Arc;

const PARAMETERS_MAX: usize = 1000;

/// The values as an Arrow IPC stream of one row: an object for names, an array for `$1`, `$2`, …. An integer is a number without a
/// fraction; texts become what the query needs, such as a time.
///
/// # Errors
/// What is neither, and values that are arrays or objects.
pub(crate) fn parameters(values: Option<&Value>) -> Result<Vec<u8>, String> {
    let named: Vec<(String, &Value)> = match values {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(values)) => {
            values.iter().enumerate().map(|(index, value)| ((index + 1).to_string(), value)).collect()
        }
        Some(Value::Object(values)) => values.iter().map(|(name, value)| (name.clone(), value)).collect(),
        Some(_) => return Err("`params` is an object with names, or an array".into()),
    };
    if named.is_empty() {
        return Ok(Vec::new());
    }
    if named.len() > PARAMETERS_MAX {
        return Err(format!("at most {PARAMETERS_MAX} parameters"));
    }
    let columns = named.into_iter().map(|(name, value)| Ok((name, column(value)?, true)));
    let columns: Vec<(String, ArrayRef, bool)> = columns.collect::<Result<_, String>>()?;
    let failed = |error: arrow_schema::ArrowError| error.to_string();
    let batch = RecordBatch::try_from_iter_with_nullable(columns).map_err(failed)?;
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema()).map_err(failed)?;
    writer.write(&batch).map_err(failed)?;
    writer.finish().map_err(failed)?;
    writer.into_inner().map_err(failed)
}

fn column(value: &Value) -> Result<ArrayRef, String> {
    Ok(match value {
        Value::Null => Arc::new(NullArray::new(1)),
        Value::Bool(value) => Arc::new(BooleanArray::from(vec![*value])),
        Value::String(value) => Arc::new(StringArray::from(vec![value.as_str()])),
        Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(value), ..) => Arc::new(Int64Array::from(vec![value])),
            (_, Some(value), _) => Arc::new(UInt64Array::from(vec![value])),
            (.., Some(value)) => Arc::new(Float64Array::from(vec![value])),
            _ => return Err(format!("{number} is out of range")),
        },
        Value::Array(_) | Value::Object(_) => {
            return Err("a parameter is a text, a number, true, false or null".into());
        }
    })
}
