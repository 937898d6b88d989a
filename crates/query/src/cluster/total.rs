//! The sum of the counts of servers: of no rows it is 0, as a count is, and never null.

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, Signature};
use std::sync::Arc;

/// The function; it is the session's `sum` otherwise.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct TotalCount {
    pub sum: Arc<AggregateUDF>,
}

impl AggregateUDFImpl for TotalCount {
    fn name(&self) -> &'static str {
        "total_count"
    }

    fn signature(&self) -> &Signature {
        self.sum.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.sum.return_type(types)
    }

    fn is_nullable(&self) -> bool {
        false
    }

    fn default_value(&self, _: &DataType) -> Result<ScalarValue> {
        Ok(ScalarValue::Int64(Some(0)))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.sum.state_fields(args)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.sum.accumulator(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.sum.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        self.sum.create_groups_accumulator(args)
    }
}
