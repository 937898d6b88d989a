//! Values for the placeholders of a query.

use crate::error::{Error, Reason};
use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{Field, Schema};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::ipc::writer::StreamWriter;
use datafusion::common::metadata::ScalarAndMetadata;
use datafusion::common::{ParamValues, ScalarValue};
use std::collections::HashMap;
use std::sync::Arc;
use tapedb_arrow_ipc::{Decoder, Limits};

/// The most bytes of values that a query may come with.
const BYTES_MAX: usize = 16 << 20;

/// Values for `$1`, `$2`, … or `$name` in a query.
#[derive(Debug, Clone, Default)]
pub struct Parameters(pub(crate) Option<ParamValues>);

impl Parameters {
    /// Values for `$1`, `$2`, ….
    pub fn numbered(values: impl IntoIterator<Item = impl Into<ScalarValue>>) -> Self {
        let values: Vec<ScalarValue> = values.into_iter().map(Into::into).collect();
        Self(Some(values.into()))
    }

    /// Values for names: `$symbol`.
    pub fn named(values: impl IntoIterator<Item = (impl Into<String>, impl Into<ScalarValue>)>) -> Self {
        let values = values.into_iter().map(|(name, value)| (name.into(), value.into()));
        Self(Some(values.collect::<HashMap<String, ScalarValue>>().into()))
    }

    /// The values of the one row of a batch, for the names of its columns. Columns that are called `1`, `2`, … are values for `$1`,
    /// `$2`, ….
    ///
    /// # Errors
    /// When there is not exactly one row.
    pub fn of_row(batch: &RecordBatch) -> Result<Self, Error> {
        let values = values_of(batch)?;
        let schema = batch.schema();
        let names = schema.fields().iter().map(|field| field.name().clone());
        if names.clone().enumerate().all(|(index, name)| name == (index + 1).to_string()) {
            return Ok(Self::numbered(values));
        }
        Ok(Self::named(names.zip(values)))
    }

    /// The values of the one row of a batch, whatever its columns are called: the first is that of `$1`.
    ///
    /// # Errors
    /// When there is not exactly one row.
    pub fn in_order(batch: &RecordBatch) -> Result<Self, Error> {
        Ok(Self::numbered(values_of(batch)?))
    }

    /// An Arrow IPC stream of one row, whose columns have the names of the placeholders; empty: there are no values.
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        let named: Vec<(String, &ScalarAndMetadata)> = match &self.0 {
            None => return Ok(Vec::new()),
            Some(ParamValues::List(values)) => {
                values.iter().enumerate().map(|(index, value)| ((index + 1).to_string(), value)).collect()
            }
            Some(ParamValues::Map(values)) => {
                values.iter().map(|(name, value)| (name.clone(), value)).collect()
            }
        };
        let columns: Vec<ArrayRef> =
            named.iter().map(|(_, value)| value.value.to_array()).collect::<Result<_, _>>()?;
        let fields = named.iter().zip(&columns);
        let fields = fields.map(|((name, _), column)| Field::new(name, column.data_type().clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        let written = RecordBatch::try_new_with_options(schema.clone(), columns, &options)
            .and_then(|batch| write(&batch))
            .map_err(|error| Error::new(Reason::Query, format!("the parameters cannot be sent: {error}")))?;
        if written.len() > BYTES_MAX {
            let bytes = written.len();
            let what = format!("the parameters have {bytes} bytes, where at most {BYTES_MAX} are allowed");
            return Err(Error::new(Reason::Limit, what));
        }
        Ok(written)
    }

    /// What [`Parameters::to_bytes`] wrote, or anything else.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        if bytes.is_empty() {
            return Ok(Self::default());
        }
        let invalid = |what: String| Error::new(Reason::Query, format!("the parameters are damaged: {what}"));
        let limits = Limits {
            metadata_bytes_max: BYTES_MAX,
            body_bytes_max: BYTES_MAX,
            rows_max: 1,
            expanded_bytes_max: BYTES_MAX,
        };
        let (mut decoder, mut rest) = (Decoder::new(limits), bytes);
        match decoder.decode(&mut rest).map_err(|error| invalid(error.to_string()))? {
            Some(batch) => Self::of_row(&batch),
            None => Err(invalid("there is no row".into())),
        }
    }
}

/// The values of the one row of a batch.
fn values_of(batch: &RecordBatch) -> Result<Vec<ScalarValue>, Error> {
    if batch.num_rows() != 1 {
        let what = format!("the parameters are {} rows, where one is expected", batch.num_rows());
        return Err(Error::new(Reason::Query, what));
    }
    let value = |column: &ArrayRef| ScalarValue::try_from_array(column, 0);
    Ok(batch.columns().iter().map(value).collect::<Result<_, _>>()?)
}

fn write(batch: &RecordBatch) -> Result<Vec<u8>, ArrowError> {
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema())?;
    writer.write(batch)?;
    writer.finish()?;
    writer.into_inner()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again(parameters: &Parameters) -> ParamValues {
        Parameters::from_bytes(&parameters.to_bytes().unwrap()).unwrap().0.unwrap()
    }

    #[test]
    fn values_are_the_same_on_the_other_side() {
        let ParamValues::List(values) = again(&Parameters::numbered([
            ScalarValue::from("A"),
            ScalarValue::from(7i64),
            ScalarValue::Null,
        ])) else {
            panic!("numbered")
        };
        let values: Vec<_> = values.into_iter().map(|value| value.value).collect();
        assert_eq!(values, [ScalarValue::from("A"), ScalarValue::from(7i64), ScalarValue::Null]);
        let ParamValues::Map(values) = again(&Parameters::named([("symbol", "A"), ("side", "B")])) else {
            panic!("named")
        };
        assert_eq!(values["side"].value, ScalarValue::from("B"));
        assert!(Parameters::from_bytes(&Parameters::default().to_bytes().unwrap()).unwrap().0.is_none());
        let none = Parameters::numbered(Vec::<ScalarValue>::new());
        assert!(matches!(again(&none), ParamValues::List(values) if values.is_empty()));
    }

    #[test]
    fn bytes_that_are_no_values_are_refused() {
        let whole = Parameters::numbered(["A"]).to_bytes().unwrap();
        for bytes in [b"x".as_slice(), b"12345678", &whole[..whole.len() / 2]] {
            assert!(Parameters::from_bytes(bytes).is_err());
        }
        let large = Parameters::numbered(["x".repeat(BYTES_MAX)]).to_bytes().unwrap_err();
        assert_eq!(large.reason(), Reason::Limit, "{large}");
    }
}
