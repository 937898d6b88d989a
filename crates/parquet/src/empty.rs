//! Structs without fields, which Parquet does not have: with one field that is always null, and back.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, LargeListArray, ListArray, RecordBatch, StructArray};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use std::collections::HashMap;
use std::sync::Arc;
use tapedb_arrow::TYPE_KEY;

/// [`TYPE_KEY`] of the field that stands for no fields.
const NOTHING: &str = "nothing";

/// The schema with fields in structs that have none.
pub fn filled_schema(schema: &Schema) -> SchemaRef {
    let fields: Fields = schema.fields().iter().map(filled_field).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

fn filled_field(field: &FieldRef) -> FieldRef {
    Arc::new(field.as_ref().clone().with_data_type(filled_type(field.data_type())))
}

fn filled_type(ty: &DataType) -> DataType {
    match ty {
        DataType::Struct(fields) if fields.is_empty() => {
            let metadata = HashMap::from([(TYPE_KEY.to_string(), NOTHING.to_string())]);
            let field = Field::new(NOTHING, DataType::Boolean, true).with_metadata(metadata);
            DataType::Struct(Fields::from(vec![field]))
        }
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(filled_field).collect()),
        DataType::List(item) => DataType::List(filled_field(item)),
        other => other.clone(),
    }
}

/// A batch of the schema with fields in structs that have none.
///
/// # Errors
/// When the batch has another schema.
pub fn filled(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    if batch.schema_ref() == schema {
        return Ok(batch.clone());
    }
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(array, field)| filled_array(array, field.data_type()));
    RecordBatch::try_new(schema.clone(), columns.collect::<Result<_, _>>()?)
}

fn filled_array(array: &ArrayRef, ty: &DataType) -> Result<ArrayRef, ArrowError> {
    if array.data_type() == ty {
        return Ok(array.clone());
    }
    Ok(match ty {
        DataType::Struct(fields) => {
            let old = array.as_struct();
            let columns: Vec<ArrayRef> = if old.num_columns() == 0 {
                vec![Arc::new(BooleanArray::new_null(old.len()))]
            } else {
                let pairs = old.columns().iter().zip(fields);
                pairs
                    .map(|(array, field)| filled_array(array, field.data_type()))
                    .collect::<Result<_, _>>()?
            };
            Arc::new(StructArray::try_new(fields.clone(), columns, old.nulls().cloned())?)
        }
        DataType::List(item) => {
            let (_, offsets, values, nulls) = array.as_list::<i32>().clone().into_parts();
            let values = filled_array(&values, item.data_type())?;
            Arc::new(ListArray::try_new(item.clone(), offsets, values, nulls)?)
        }
        _ => array.clone(),
    })
}

/// A batch as it was before [`filled`].
///
/// # Errors
/// None for a batch that is valid.
pub fn emptied(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let schema = batch.schema();
    if !schema.fields().iter().any(|field| has_nothing(field.data_type())) {
        return Ok(batch.clone());
    }
    let fields = schema.fields().iter().zip(batch.columns());
    let fields: Vec<(FieldRef, ArrayRef)> =
        fields.map(|(field, array)| emptied_field(field, array)).collect::<Result<_, _>>()?;
    let (fields, columns): (Vec<FieldRef>, Vec<ArrayRef>) = fields.into_iter().unzip();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
}

fn is_nothing(fields: &Fields) -> bool {
    fields.len() == 1 && fields[0].metadata().get(TYPE_KEY).is_some_and(|ty| ty == NOTHING)
}

fn has_nothing(ty: &DataType) -> bool {
    match ty {
        DataType::Struct(fields) => {
            is_nothing(fields) || fields.iter().any(|field| has_nothing(field.data_type()))
        }
        DataType::List(item) | DataType::LargeList(item) => has_nothing(item.data_type()),
        _ => false,
    }
}

fn emptied_field(field: &FieldRef, array: &ArrayRef) -> Result<(FieldRef, ArrayRef), ArrowError> {
    let array = emptied_array(array)?;
    let field = field.as_ref().clone().with_data_type(array.data_type().clone());
    Ok((Arc::new(field), array))
}

fn emptied_array(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    Ok(match array.data_type() {
        ty if !has_nothing(ty) => array.clone(),
        DataType::Struct(fields) if is_nothing(fields) => {
            Arc::new(StructArray::new_empty_fields(array.len(), array.nulls().cloned()))
        }
        DataType::Struct(fields) => {
            let old = array.as_struct();
            let pairs = fields.iter().zip(old.columns());
            let pairs: Vec<_> =
                pairs.map(|(field, array)| emptied_field(field, array)).collect::<Result<_, _>>()?;
            let (fields, columns): (Vec<FieldRef>, Vec<ArrayRef>) = pairs.into_iter().unzip();
            Arc::new(StructArray::try_new(fields.into(), columns, old.nulls().cloned())?)
        }
        DataType::List(item) => {
            let (_, offsets, values, nulls) = array.as_list::<i32>().clone().into_parts();
            let (item, values) = emptied_field(item, &values)?;
            Arc::new(ListArray::try_new(item, offsets, values, nulls)?)
        }
        DataType::LargeList(item) => {
            let (_, offsets, values, nulls) = array.as_list::<i64>().clone().into_parts();
            let (item, values) = emptied_field(item, &values)?;
            Arc::new(LargeListArray::try_new(item, offsets, values, nulls)?)
        }
        _ => array.clone(),
    })
}
