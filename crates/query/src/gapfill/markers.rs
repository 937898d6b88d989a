//! `time_bucket_gapfill`, `locf` and `interpolate` in the text of a query. The rule replaces them.

use super::node::Fill;
use crate::time::time_bucket::TimeBucket;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::plan_err;
use datafusion::error::Result;
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_DATETIME;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::LazyLock;

/// The functions.
pub(crate) fn functions() -> Vec<ScalarUDF> {
    let fills = [Fill::Locf, Fill::Interpolate].map(|fill| ScalarUDF::new_from_impl(Marker::new(fill)));
    fills.into_iter().chain([ScalarUDF::new_from_impl(TimeBucket::gapfill())]).collect()
}

/// `locf` or `interpolate`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Marker {
    pub fill: Fill,
    signature: Signature,
}

impl Marker {
    fn new(fill: Fill) -> Self {
        Self { fill, signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Marker {
    fn name(&self) -> &'static str {
        self.fill.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match (self.fill, &types[0]) {
            (Fill::Locf, ty) => Ok(ty.clone()),
            (Fill::Interpolate, ty) if ty.is_numeric() || ty.is_null() => Ok(DataType::Float64),
            (Fill::Interpolate, ty) => plan_err!("interpolate is of numbers, not {ty}"),
        }
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        plan_err!(
            "{} is of an aggregate in a query with GROUP BY time_bucket_gapfill(…), such as {}(last(price))",
            self.name(),
            self.name()
        )
    }

    fn documentation(&self) -> Option<&Documentation> {
        static LOCF: LazyLock<Documentation> =
            LazyLock::new(|| page("locf", "The last value before, in buckets without one."));
        static INTERPOLATE: LazyLock<Documentation> = LazyLock::new(|| {
            page(
                "interpolate",
                "The value on the line between those before and after, in buckets without one.",
            )
        });
        Some(if self.fill == Fill::Locf { &LOCF } else { &INTERPOLATE })
    }
}

fn page(name: &str, words: &str) -> Documentation {
    Documentation::builder(DOC_SECTION_DATETIME, words, format!("{name}(aggregate)"))
        .with_argument("aggregate", "An aggregate of a query with GROUP BY time_bucket_gapfill(…).")
        .build()
}
