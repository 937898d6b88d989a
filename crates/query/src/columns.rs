//! The columns that expressions read.

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::Column;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The columns of an expression.
///
/// # Errors
/// Those of the walk over the expression.
pub(crate) fn columns_of(expr: &PhysicalExprRef) -> Result<BTreeSet<usize>> {
    let mut columns = BTreeSet::new();
    expr.apply(|expr| {
        columns.extend(expr.downcast_ref::<Column>().map(Column::index));
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(columns)
}

/// The same expression of columns in other places.
///
/// # Errors
/// When an expression cannot have others below it.
pub(crate) fn moved(
    expr: &PhysicalExprRef,
    place: &dyn Fn(usize) -> Option<usize>,
) -> Result<PhysicalExprRef> {
    let replace = |expr: PhysicalExprRef| {
        let column = expr.downcast_ref::<Column>();
        let new = column.and_then(|column| Some(Column::new(column.name(), place(column.index())?)));
        Ok(new.map_or_else(|| Transformed::no(expr.clone()), |new| Transformed::yes(Arc::new(new) as _)))
    };
    expr.clone().transform_up(replace).data()
}
