//! `first` and `last` in windows whose rows also leave them at the front.

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::Accumulator;
use std::collections::VecDeque;

/// The values in the window.
#[derive(Debug)]
pub(super) struct Window {
    values: VecDeque<ScalarValue>,
    null: ScalarValue,
    is_last: bool,
    ignores_nulls: bool,
}

impl Window {
    /// # Errors
    /// When the type has no null.
    pub fn new(ty: &DataType, is_last: bool, ignores_nulls: bool) -> Result<Self> {
        Ok(Self { values: VecDeque::new(), null: ScalarValue::try_new_null(ty)?, is_last, ignores_nulls })
    }
}

impl Accumulator for Window {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for row in 0..values[0].len() {
            self.values.push_back(ScalarValue::try_from_array(&values[0], row)?);
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.values.drain(..values[0].len().min(self.values.len()));
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let is_wanted = |value: &&ScalarValue| !self.ignores_nulls || !value.is_null();
        let found = if self.is_last {
            self.values.iter().rev().find(is_wanted)
        } else {
            self.values.iter().find(is_wanted)
        };
        Ok(found.unwrap_or(&self.null).clone())
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        datafusion::common::internal_err!("windows are not merged")
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        datafusion::common::internal_err!("windows are not merged")
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.iter().map(ScalarValue::size).sum::<usize>()
    }
}
