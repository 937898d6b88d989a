//! What a running as-of join is made of.

use super::node::Match;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;

/// A side of a join.
#[derive(Debug, Clone)]
pub(super) struct Side {
    pub input: Arc<dyn ExecutionPlan>,
    pub time: PhysicalExprRef,
    pub keys: Vec<PhysicalExprRef>,
}

/// What a join does with the rows of its sides.
#[derive(Debug, Clone)]
pub(super) struct Joining {
    pub matching: Match,
    pub is_inner: bool,
    pub schema: SchemaRef,
}
