//! A part of the streams, and plans that are limited to it.

use crate::asof::AsOf;
use crate::error::Error;
use crate::snapshot::Snapshot;
use crate::table::{Column as Origin, Table};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, ScalarValue, internal_err};
use datafusion::datasource::default_table_source::source_as_provider;
use datafusion::logical_expr::{Expr, Extension, Filter, LogicalPlan, lit};
use std::sync::Arc;

/// A part of the streams of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Slice {
    /// Messages from these sequence numbers of a stream on; `None`: all.
    From(Option<(String, Vec<u64>)>),
    /// Times: the first, and the one behind the last, in nanoseconds since the Unix epoch.
    Times(i64, i64),
}

impl Slice {
    /// The plan with this part of its streams only.
    ///
    /// # Errors
    /// When columns of the header are missing, which is a defect.
    pub fn of(&self, plan: LogicalPlan, snapshot: &Snapshot) -> Result<LogicalPlan, Error> {
        match self {
            // The cursor ends there by itself.
            Self::From(None) => Ok(plan),
            Self::From(Some((stream, _))) => Ok(before(plan, snapshot.stream(stream)?.ends()?)?),
            Self::Times(from, to) => Ok(within(plan, *from, *to)?),
        }
    }
}

/// The plan with the messages before the ends of the spaces only: a cursor that begins in the middle goes on to the present.
fn before(plan: LogicalPlan, ends: &[u64]) -> datafusion::error::Result<LogicalPlan> {
    if let LogicalPlan::TableScan(scan) = &plan {
        let provider = source_as_provider(&scan.source)?;
        let Some(table) = (*provider).downcast_ref::<Table>() else { return Ok(plan) };
        let column = |kind: Origin| {
            let index = (0..table.width()).find(|index| *table.column(*index) == kind)?;
            let name = table.schema().field(index).name().clone();
            Some(Expr::Column(Column::new(Some(scan.table_name.clone()), name)))
        };
        let Some(sequence) = column(Origin::Sequence) else {
            return internal_err!("a table has no sequence numbers");
        };
        let conditions = ends.iter().zip(0_u32..).map(|(end, space)| {
            let is_before = sequence.clone().lt(lit(*end));
            match column(Origin::Space) {
                Some(column) => column.eq(lit(space)).and(is_before),
                None => is_before,
            }
        });
        let condition = conditions.reduce(Expr::or).unwrap_or_else(|| lit(true));
        return Ok(LogicalPlan::Filter(Filter::try_new(condition, Arc::new(plan))?));
    }
    let limited = plan.map_children(|input| before(input, ends).map(Transformed::yes))?;
    limited.data.recompute_schema()
}

/// The plan with the messages of some times only: of the right sides of as-of joins those that they can match too.
fn within(plan: LogicalPlan, from: i64, to: i64) -> datafusion::error::Result<LogicalPlan> {
    if let LogicalPlan::TableScan(scan) = &plan {
        // The first column of every table.
        let name = scan.source.schema().field(0).name().clone();
        let time = Expr::Column(Column::new(Some(scan.table_name.clone()), name));
        let at = |nanos| lit(ScalarValue::TimestampNanosecond(Some(nanos), Some("UTC".into())));
        let mut condition = time.clone().lt(at(to));
        if from > i64::MIN {
            condition = time.gt_eq(at(from)).and(condition);
        }
        return Ok(LogicalPlan::Filter(Filter::try_new(condition, Arc::new(plan))?));
    }
    if let LogicalPlan::Extension(extension) = &plan
        && let Some(join) = extension.node.as_any().downcast_ref::<AsOf>()
    {
        let earlier = from.saturating_sub(join.matching.tolerance.unwrap_or(i64::MAX));
        let left = within((*join.pair.left).clone(), from, to)?;
        let right = within((*join.pair.right).clone(), earlier, to)?;
        return Ok(LogicalPlan::Extension(Extension { node: Arc::new(join.of(left, right)?) }));
    }
    let limited = plan.map_children(|input| within(input, from, to).map(Transformed::yes))?;
    limited.data.recompute_schema()
}
