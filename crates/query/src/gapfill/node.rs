//! Gap filling as a logical operator.

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{DFSchema, DFSchemaRef, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// What a bucket without a value has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Fill {
    /// The last value before it.
    Locf,
    /// The value on the line between those before and after it.
    Interpolate,
}

impl Fill {
    pub fn name(self) -> &'static str {
        match self {
            Self::Locf => "locf",
            Self::Interpolate => "interpolate",
        }
    }
}

/// What is filled how. Columns are those of the input.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Filling {
    /// The column that has the beginnings of the buckets.
    pub bucket: usize,
    /// The columns that series of buckets are distinguished by.
    pub keys: Vec<usize>,
    /// Columns behind those of the input: what they are filled from, how, and their names.
    pub fills: Vec<(usize, Fill, String)>,
    /// Width, zone and origin of the buckets.
    pub arguments: Vec<ScalarValue>,
    /// First and last time.
    pub times: (i64, i64),
}

/// Gap filling.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct GapFill {
    pub input: Arc<LogicalPlan>,
    pub filling: Filling,
    schema: DFSchemaRef,
}

impl GapFill {
    /// # Errors
    /// When two columns have the same name.
    pub fn new(input: LogicalPlan, filling: Filling) -> Result<Self> {
        let mut fields: Vec<_> =
            input.schema().iter().map(|(table, field)| (table.cloned(), field.clone())).collect();
        for (index, (_, field)) in fields.iter_mut().enumerate() {
            let is_aggregate = index != filling.bucket && !filling.keys.contains(&index);
            if is_aggregate && !is_count(field) {
                *field = Arc::new(field.as_ref().clone().with_nullable(true));
            }
        }
        for (from, fill, name) in &filling.fills {
            let ty = match fill {
                Fill::Locf => fields[*from].1.data_type().clone(),
                Fill::Interpolate => DataType::Float64,
            };
            fields.push((None, Arc::new(Field::new(name, ty, true))));
        }
        let schema = Arc::new(DFSchema::new_with_metadata(fields, Default::default())?);
        Ok(Self { input: Arc::new(input), filling, schema })
    }
}

/// Whether a column counts: of no rows that is 0, and never null.
pub(super) fn is_count(field: &Field) -> bool {
    !field.is_nullable() && matches!(field.data_type(), DataType::Int64 | DataType::UInt64)
}

impl PartialOrd for GapFill {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        if self == other { Some(Ordering::Equal) } else { None }
    }
}

impl UserDefinedLogicalNodeCore for GapFill {
    fn name(&self) -> &'static str {
        "GapFill"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fills: Vec<&str> = self.filling.fills.iter().map(|(_, _, name)| name.as_str()).collect();
        write!(f, "GapFill: {}", fills.join(", "))
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        match inputs.pop() {
            Some(input) => Self::new(input, self.filling.clone()),
            None => datafusion::common::internal_err!("gap filling has an input"),
        }
    }
}
