//! What orders rows of the same time where a side is not read by the column `time` of a table, but sorted first.
//!
//! Rows of a table are then in the order of the stream within equal times: by `time`, `space` and `sequence`, as far as the side has them.
//! Rows of groups and joins are in no stream: all of their columns order them, so that the result is the same each time.

use crate::table::{Column, Table};
use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan};

/// Expressions that order rows of a side with the same time.
///
/// # Errors
/// When the side is no plan that DataFusion can read from.
pub(super) fn of(side: &LogicalPlan, time: &Expr) -> Result<Vec<Expr>> {
    let columns = side.schema().columns();
    let origins: Vec<_> =
        columns.iter().map(|column| origin(side, &Expr::Column(column.clone()))).collect::<Result<_>>()?;
    if origin(side, time)? == Some(Column::Time) {
        return Ok(Vec::new());
    }
    let of_stream = [Column::Time, Column::Space, Column::Sequence];
    let found: Vec<_> = of_stream
        .iter()
        .filter_map(|wanted| origins.iter().position(|origin| origin.as_ref() == Some(wanted)))
        .collect();
    let is_stream = found.iter().any(|index| origins[*index] == Some(Column::Sequence));
    let chosen = if is_stream { found } else { (0..columns.len()).collect() };
    let expr = |index: usize| {
        let is_ordered = !side.schema().field(index).data_type().is_nested();
        is_ordered.then(|| Expr::Column(columns[index].clone()))
    };
    Ok(chosen.into_iter().filter_map(expr).filter(|expr| expr != time).collect())
}

/// The column of a table that an expression is, if rows come as the table has them: in its order, all or some of them.
fn origin(plan: &LogicalPlan, expr: &Expr) -> Result<Option<Column>> {
    let Expr::Column(column) = expr else { return Ok(None) };
    match plan {
        LogicalPlan::TableScan(scan) => {
            let provider = source_as_provider(&scan.source)?;
            let table = provider.downcast_ref::<Table>();
            Ok(table.and_then(|table| table.column_of(&column.name)).cloned())
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let Some(index) = plan.schema().maybe_index_of_column(column) else { return Ok(None) };
            let (table, field) = alias.input.schema().qualified_field(index);
            origin(&alias.input, &Expr::Column((table, field).into()))
        }
        LogicalPlan::Projection(projection) => {
            let Some(index) = plan.schema().maybe_index_of_column(column) else { return Ok(None) };
            let mut expr = &projection.expr[index];
            while let Expr::Alias(alias) = expr {
                expr = &alias.expr;
            }
            origin(&projection.input, expr)
        }
        LogicalPlan::Filter(filter) => origin(&filter.input, expr),
        _ => Ok(None),
    }
}
