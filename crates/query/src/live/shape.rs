//! How a query can run live, or why it cannot.

use crate::asof::{AsOf, Direction};
use crate::error::Error;
use crate::table::{Column as Origin, Table};
use datafusion::common::Column;
use datafusion::common::tree_node::TreeNode;
use datafusion::datasource::default_table_source::source_as_provider;
use datafusion::logical_expr::{Expr, LogicalPlan};

/// How a query is divided into slices.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Shape {
    /// Each message makes rows by itself: slices of the order of arrival, of this stream.
    Messages(String),
    /// Rows of as-of joins: slices of time.
    Times,
    /// Groups by a bucket of time: slices that end where this expression of the time changes.
    Buckets(Box<Expr>),
}

/// Functions that divide the time into buckets.
const BUCKETS: [&str; 3] = ["time_bucket", "date_bin", "date_trunc"];

/// The shape of a plan as it was written, before it is optimized.
///
/// # Errors
/// When the query cannot run live: what is in the way, and what to do.
pub(crate) fn shape_of(plan: &LogicalPlan) -> Result<Shape, Error> {
    let mut found = Found::default();
    found.visit(plan)?;
    match (found.bucket, found.has_asof, &found.streams[..]) {
        (Some(bucket), _, _) => Ok(Shape::Buckets(Box::new(bucket))),
        (None, true, _) => Ok(Shape::Times),
        (None, false, [stream]) => Ok(Shape::Messages(stream.clone())),
        _ => Err(refused("a query without a table", "read a stream")),
    }
}

/// What was found in a plan.
#[derive(Debug, Default)]
struct Found {
    streams: Vec<String>,
    has_asof: bool,
    bucket: Option<Expr>,
}

impl Found {
    fn visit(&mut self, plan: &LogicalPlan) -> Result<(), Error> {
        if plan.expressions().iter().any(has_subquery) {
            return Err(refused("a subquery in an expression", "join it, or run it before"));
        }
        match plan {
            LogicalPlan::Projection(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Unnest(_) => {}
            LogicalPlan::TableScan(scan) => {
                let provider = source_as_provider(&scan.source)?;
                match (*provider).downcast_ref::<Table>() {
                    Some(table) if table.latest.is_some() => {
                        return Err(refused("latest", "read all messages of the stream"));
                    }
                    Some(table) => self.streams.push(table.open.stream.name().into()),
                    None => return Err(refused("a table that is no stream", "read a stream")),
                }
            }
            LogicalPlan::Aggregate(aggregate) => {
                if self.bucket.is_some() {
                    return Err(refused(
                        "groups of groups",
                        "run the outer query on a stream of the inner one's rows",
                    ));
                }
                self.bucket = Some(bucket_of(&aggregate.group_expr, &aggregate.input)?);
            }
            LogicalPlan::Extension(extension) => match extension.node.as_any().downcast_ref::<AsOf>() {
                Some(join) => {
                    self.has_asof = true;
                    check_join(join)?;
                }
                None => return Err(refused(extension.node.name(), "leave it out")),
            },
            LogicalPlan::Sort(_) => {
                return Err(refused("ORDER BY", "leave it out: rows come by time, then as they arrive"));
            }
            LogicalPlan::Limit(_) => return Err(refused("LIMIT", "leave it out, and stop reading")),
            LogicalPlan::Distinct(_) => return Err(refused("DISTINCT", "group by a bucket of time")),
            LogicalPlan::Window(_) => {
                return Err(refused("window functions", "group by a bucket of time, or use an as-of join"));
            }
            LogicalPlan::Join(_) => return Err(refused("joins other than as-of joins", "use ASOF JOIN")),
            LogicalPlan::Union(_) => return Err(refused("UNION", "run its queries one by one")),
            LogicalPlan::Explain(_) | LogicalPlan::Analyze(_) => {
                return Err(refused("EXPLAIN", "leave live out"));
            }
            LogicalPlan::EmptyRelation(_) | LogicalPlan::Values(_) => {
                return Err(refused("a query without a table", "read a stream"));
            }
            other => return Err(refused(&other.display().to_string(), "leave it out")),
        }
        plan.inputs().into_iter().try_for_each(|input| self.visit(input))
    }
}

fn refused(what: &str, instead: &str) -> Error {
    Error::query(format!("{what} cannot run live; {instead}"))
}

fn has_subquery(expr: &Expr) -> bool {
    let is_one = |expr: &Expr| {
        Ok(matches!(
            expr,
            Expr::InSubquery(_) | Expr::Exists(_) | Expr::ScalarSubquery(_) | Expr::SetComparison(_)
        ))
    };
    expr.exists(is_one).unwrap_or(true)
}

fn check_join(join: &AsOf) -> Result<(), Error> {
    if join.matching.direction != Direction::Backward {
        return Err(refused(
            "an as-of join to the next or nearest row",
            "join to the last one: t.time >= q.time",
        ));
    }
    if join.matching.tolerance.is_none() {
        let instead = "add one to its condition: t.time - q.time <= INTERVAL '1 hour'";
        return Err(refused("an as-of join without a tolerance", instead));
    }
    let (left, right) = &join.pair.times;
    let is_time = |expr: &Expr, side| matches!(expr, Expr::Column(column) if is_time(side, column));
    if is_time(left, &join.pair.left) && is_time(right, &join.pair.right) {
        return Ok(());
    }
    Err(refused("an as-of join by other columns than time", "join by the column time of the streams"))
}

/// The bucket of time that is among what is grouped by, without its alias.
fn bucket_of(groups: &[Expr], input: &LogicalPlan) -> Result<Expr, Error> {
    let instead = "group by a bucket of time: time_bucket(INTERVAL '1 minute', time)";
    if groups.iter().any(|group| matches!(group, Expr::GroupingSet(_))) {
        return Err(refused("GROUPING SETS, CUBE and ROLLUP", instead));
    }
    let is_bucket = |expr: &&Expr| {
        let Expr::ScalarFunction(function) = expr else { return false };
        // Of the time itself: a bucket of an expression begins at another time than its first message.
        let is_of_time = matches!(function.args.get(1), Some(Expr::Column(column)) if is_time(input, column));
        BUCKETS.contains(&function.func.name()) && is_of_time && expr.column_refs().len() == 1
    };
    let plain = groups.iter().map(|group| match group {
        Expr::Alias(alias) => &*alias.expr,
        group => group,
    });
    let mut buckets = plain.filter(is_bucket);
    buckets.next().cloned().ok_or_else(|| refused("an aggregate without a bucket of time", instead))
}

/// Whether a column is the time of the stream that a plan's slices are of.
fn is_time(plan: &LogicalPlan, column: &Column) -> bool {
    match plan {
        LogicalPlan::TableScan(scan) => source_as_provider(&scan.source).is_ok_and(|provider| {
            (*provider)
                .downcast_ref::<Table>()
                .is_some_and(|table| table.column_of(&column.name) == Some(&Origin::Time))
        }),
        LogicalPlan::Projection(projection) => {
            let Ok(index) = plan.schema().index_of_column(column) else { return false };
            let mut expr = &projection.expr[index];
            while let Expr::Alias(alias) = expr {
                expr = &alias.expr;
            }
            matches!(expr, Expr::Column(inner) if is_time(&projection.input, inner))
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let Ok(index) = plan.schema().index_of_column(column) else { return false };
            is_time(&alias.input, &Column::from(alias.input.schema().qualified_field(index)))
        }
        LogicalPlan::Filter(filter) => is_time(&filter.input, column),
        LogicalPlan::Unnest(unnest) => {
            unnest.input.schema().has_column(column) && is_time(&unnest.input, column)
        }
        LogicalPlan::Extension(extension) => match extension.node.as_any().downcast_ref::<AsOf>() {
            Some(join) => join.pair.left.schema().has_column(column) && is_time(&join.pair.left, column),
            None => false,
        },
        _ => false,
    }
}
