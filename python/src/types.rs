//! The record types of a stream or topic as Python has them: a class for each record type, an object for each enum symbol.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyString, PyType};
use tapedb_codec::dynamic::{Layouts, Value};
use tapedb_schema::{Field, Literal, RecordType, Schema};

/// A schema, and its counterparts in Python, each made when it is first needed.
pub struct Types {
    pub layouts: Layouts,
    /// Python classes and enums that records and enums of these names are shown as.
    known: Py<PyDict>,
    /// By record type: of messages, and of records nested in others.
    classes: [Vec<PyOnceLock<Py<PyType>>>; 2],
    symbols: Vec<PyOnceLock<Vec<Py<PyAny>>>>,
    /// By record type: the values of fields that a message leaves out; `None`: it may not.
    pub defaults: Vec<Vec<Option<Value>>>,
    /// By record type: the names of the fields, as Python looks attributes and keys up.
    names: Vec<Vec<Py<PyString>>>,
}

impl Types {
    pub fn new(py: Python<'_>, layouts: Layouts, known: Py<PyDict>) -> Self {
        let schema = layouts.schema();
        let of_record =
            |record: &RecordType| record.fields.iter().map(|field| default_of(schema, field)).collect();
        let defaults = schema.records.iter().map(of_record).collect();
        let names_of = |record: &RecordType| {
            record.fields.iter().map(|field| PyString::intern(py, &field.name).unbind()).collect()
        };
        let names = schema.records.iter().map(names_of).collect();
        let classes = [(); 2].map(|()| layouts.records().iter().map(|_| PyOnceLock::new()).collect());
        let symbols = layouts.schema().enums.iter().map(|_| PyOnceLock::new()).collect();
        Self { layouts, known, classes, symbols, defaults, names }
    }

    /// The class of a record type's messages, or of its nested records.
    pub fn class<'py>(
        &self,
        py: Python<'py>,
        type_id: u16,
        is_message: bool,
    ) -> PyResult<&Bound<'py, PyType>> {
        let class =
            self.classes[usize::from(is_message)][usize::from(type_id)].get_or_try_init(py, || {
                let record = &self.layouts.schema().records[usize::from(type_id)];
                let fields = record
                    .fields
                    .iter()
                    .map(|field| (&field.name, &field.doc, field.ty.to_string(), field.nullable));
                let fields = PyList::new(py, fields)?;
                let user = self.known.bind(py).get_item(&record.name)?;
                let module = py.import(intern!(py, "tapedb._records"))?;
                let class = module.getattr("class_of")?.call1((
                    &record.name,
                    &record.doc,
                    fields,
                    is_message,
                    user,
                ))?;
                Ok::<_, PyErr>(class.cast_into::<PyType>()?.unbind())
            })?;
        Ok(class.bind(py))
    }

    /// The name of a field.
    pub fn name<'py>(&self, py: Python<'py>, type_id: u16, index: usize) -> &Bound<'py, PyString> {
        self.names[usize::from(type_id)][index].bind(py)
    }

    /// The objects of an enum's symbols, by their ordinals.
    pub fn symbols(&self, py: Python<'_>, index: usize) -> PyResult<&[Py<PyAny>]> {
        let symbols = self.symbols[index].get_or_try_init(py, || {
            let found = &self.layouts.schema().enums[index];
            let class = self.known.bind(py).get_item(&found.name)?;
            let symbol = |(name, _): &(String, i64)| {
                let text = PyString::intern(py, name).into_any();
                let member = class.as_ref().and_then(|class| class.get_item(&text).ok());
                member.unwrap_or(text).unbind()
            };
            Ok::<_, PyErr>(found.symbols.iter().map(symbol).collect())
        })?;
        Ok(symbols)
    }

    /// The record type of messages when there is one alone.
    pub fn only_message(&self) -> Option<u16> {
        let mut messages = self.layouts.records().iter().filter(|record| record.message);
        match (messages.next(), messages.next()) {
            (Some(only), None) => Some(only.type_id),
            _ => None,
        }
    }

    /// The id of the record type of that name.
    pub fn type_id(&self, name: &str) -> Option<u16> {
        self.layouts.schema().record(name).map(|(id, _)| id)
    }
}

/// The value of a field that a message leaves out: its default, or null; `None`: it may not be left out.
fn default_of(schema: &Schema, field: &Field) -> Option<Value> {
    match &field.default {
        None | Some(Literal::Null) => field.nullable.then_some(Value::Null),
        Some(_) => {
            // The codec fills defaults in where it reads JSON: of a record with this field alone.
            let record = RecordType {
                name: "Defaults".into(),
                message: true,
                fields: vec![field.clone()],
                doc: String::new(),
            };
            let alone = Schema { enums: schema.enums.clone(), records: vec![record] };
            Layouts::new(alone).ok()?.from_json("{}").ok()?.fields.pop()
        }
    }
}
