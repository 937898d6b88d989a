//! Window joins and markouts as a logical operator.

use crate::asof::pair::Pair;
use datafusion::arrow::datatypes::{DataType, Field, IntervalUnit};
use datafusion::common::{DFSchema, DFSchemaRef, TableReference};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, UserDefinedLogicalNodeCore};
use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// The rows of the right side that belong to a row of the left side, by how much later they are: both bounds included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd)]
pub(super) struct Window {
    pub from: i64,
    pub to: i64,
    /// Whether the last row before them belongs to them, unless one is at their beginning.
    pub prevailing: bool,
}

/// What is made of these rows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Outcome {
    /// A column for each of these aggregates.
    Aggregates(Vec<Expr>),
    /// For each of these offsets a row, with the last row of the right side up to it. The column of offsets has this qualifier.
    Offsets(String, Vec<i64>),
}

/// A window join or a markout.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in super::super) struct Around {
    pub pair: Pair,
    pub(super) window: Window,
    pub(super) outcome: Outcome,
    schema: DFSchemaRef,
}

impl Around {
    /// # Errors
    /// When an aggregate has no type, or columns have the same qualified name.
    pub(super) fn new(pair: Pair, (window, outcome): (Window, Outcome)) -> Result<Self> {
        let (left, right) = (&pair.left, &pair.right);
        let owned = |(table, field): (Option<&TableReference>, &Arc<Field>)| (table.cloned(), field.clone());
        let mut fields: Vec<_> = left.schema().iter().map(owned).collect();
        match &outcome {
            Outcome::Aggregates(aggregates) => {
                for (number, aggregate) in aggregates.iter().enumerate() {
                    let ty = aggregate.get_type(right.schema())?;
                    fields.push((None, Arc::new(Field::new(super::select::column(number), ty, true))));
                }
            }
            Outcome::Offsets(name, _) => {
                let offset = Field::new("offset", DataType::Interval(IntervalUnit::MonthDayNano), false);
                fields.push((Some(TableReference::bare(name.as_str())), Arc::new(offset)));
                let nullable = |field: Arc<Field>| Arc::new((*field).clone().with_nullable(true));
                fields
                    .extend(right.schema().iter().map(owned).map(|(table, field)| (table, nullable(field))));
            }
        }
        let schema = Arc::new(DFSchema::new_with_metadata(fields, HashMap::new())?);
        Ok(Self { pair, window, outcome, schema })
    }

    /// The same join of other sides.
    ///
    /// # Errors
    /// As [`Around::new`].
    pub fn of(&self, left: LogicalPlan, right: LogicalPlan) -> Result<Self> {
        Self::new(self.pair.of(left, right), (self.window, self.outcome.clone()))
    }

    /// What is done, for plans.
    pub(super) fn describe(window: Window, offsets: Option<&[i64]>) -> String {
        match offsets {
            Some(offsets) => format!("offsets={offsets:?}"),
            None if window.prevailing => format!("from={}, to={}, prevailing", window.from, window.to),
            None => format!("from={}, to={}", window.from, window.to),
        }
    }

    fn offsets(&self) -> Option<&[i64]> {
        match &self.outcome {
            Outcome::Aggregates(_) => None,
            Outcome::Offsets(_, offsets) => Some(offsets),
        }
    }
}

impl PartialOrd for Around {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        if self == other { Some(Ordering::Equal) } else { None }
    }
}

impl UserDefinedLogicalNodeCore for Around {
    fn name(&self) -> &'static str {
        match self.outcome {
            Outcome::Aggregates(_) => "WindowJoin",
            Outcome::Offsets(..) => "HorizonJoin",
        }
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.pair.left, &self.pair.right]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        let mut exprs = self.pair.exprs();
        if let Outcome::Aggregates(aggregates) = &self.outcome {
            exprs.extend(aggregates.iter().cloned());
        }
        exprs
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}, {}", self.name(), Self::describe(self.window, self.offsets()), self.pair)?;
        if let Outcome::Aggregates(aggregates) = &self.outcome {
            let names: Vec<_> = aggregates.iter().map(ToString::to_string).collect();
            write!(f, ", aggregates=[{}]", names.join(", "))?;
        }
        Ok(())
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let mut exprs = exprs.into_iter();
        let pair = self.pair.with(&mut exprs, inputs)?;
        let outcome = match &self.outcome {
            Outcome::Aggregates(_) => Outcome::Aggregates(exprs.collect()),
            offsets => offsets.clone(),
        };
        Self::new(pair, (self.window, outcome))
    }

    fn necessary_children_exprs(&self, columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let lefts = self.pair.left.schema().fields().len();
        let left = columns.iter().copied().filter(|column| *column < lefts).collect();
        let right = match self.outcome {
            Outcome::Aggregates(_) => Vec::new(),
            Outcome::Offsets(..) => {
                columns.iter().filter(|column| **column > lefts).map(|column| column - lefts - 1).collect()
            }
        };
        Some(vec![left, right])
    }
}
