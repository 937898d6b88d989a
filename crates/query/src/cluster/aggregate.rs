//! Lets servers group their own rows.
//!
//! Where no symbol is on two servers and rows are grouped by symbol, each server has whole groups: all functions are computed there. Otherwise
//! each server computes counts, sums, least and greatest values of its rows, and they are put together here; sums are wide enough for
//! this, so that only the whole sum has to fit its type. What neither way can do exactly is computed here, of rows.

use super::table::{ClusterTable, GroupedTable};
use super::text::sql;
use super::total::TotalCount;
use crate::aggregates;
use crate::open::Part;
use crate::table::Column as Origin;
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, TableReference};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{AggregateFunction, NullTreatment};
use datafusion::logical_expr::{
    Aggregate, AggregateUDF, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, cast, lit, when,
};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// Name of the table of groups in plans.
const GROUPS: &str = "groups";

/// Functions that a server computes as this one would, of the whole rows of a group.
const WHOLE: [&str; 22] = [
    "arg_max",
    "arg_min",
    "avg",
    "bool_and",
    "bool_or",
    "corr",
    "count",
    "ema",
    "first",
    "first_value",
    "last",
    "last_value",
    "max",
    "median",
    "min",
    "ohlcv",
    "stddev",
    "stddev_pop",
    "sum",
    "twap",
    "var",
    "vwap",
];

/// The rule. What it does not know stays as it is.
#[derive(Debug)]
pub(crate) struct GroupThere {
    sum: Arc<AggregateUDF>,
    min: Arc<AggregateUDF>,
    max: Arc<AggregateUDF>,
}

impl Default for GroupThere {
    fn default() -> Self {
        let (sum, min, max) = aggregates::sum_min_max();
        Self { sum: Arc::new(sum), min: Arc::new(min), max: Arc::new(max) }
    }
}

impl OptimizerRule for GroupThere {
    fn name(&self) -> &'static str {
        "group_there"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Aggregate(aggregate) = &plan else { return Ok(Transformed::no(plan)) };
        match self.rewritten(aggregate)? {
            Some(new) => Ok(Transformed::yes(new)),
            None => Ok(Transformed::no(plan)),
        }
    }
}

/// Rows of a table, as expressions of its columns.
struct Flat {
    table: ClusterTable,
    /// One for each column of the plan.
    columns: Vec<Expr>,
    conditions: Vec<Expr>,
}

/// Makes a value of aggregates.
type ValueOf = dyn Fn(&[Expr]) -> Result<Expr>;

/// How an aggregate is put together of those of the servers.
struct Parted {
    /// What servers compute, and its types.
    there: Vec<(String, DataType)>,
    /// What becomes of it here: aggregates of the columns from a number on.
    here: Vec<Expr>,
    /// The value, of these.
    value: Box<ValueOf>,
}

impl GroupThere {
    fn rewritten(&self, aggregate: &Aggregate) -> Result<Option<LogicalPlan>> {
        let Some(flat) = flat(&aggregate.input)? else { return Ok(None) };
        let schema = aggregate.input.schema();
        let substituted = |expr: &Expr| flat.of(expr, |column| schema.maybe_index_of_column(column));
        let keys: Vec<Expr> = aggregate.group_expr.iter().map(substituted).collect::<Result<_>>()?;
        let calls: Vec<Expr> = aggregate.aggr_expr.iter().map(substituted).collect::<Result<_>>()?;
        let Some(key_texts) = keys.iter().map(sql).collect::<Option<Vec<_>>>() else { return Ok(None) };
        let Some(conditions) = flat.conditions.iter().map(sql).collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        let parts = flat.table.parts_for(&flat.conditions);
        let is_symbol = |expr: &Expr| matches!(expr, Expr::Column(column) if flat.table.table.column_of(&column.name) == Some(&Origin::Symbol));
        let are_whole =
            parts.len() == 1 || keys.iter().any(is_symbol) && flat.table.has_symbols_apart(&parts);
        let asked = Asked { flat: &flat, aggregate, parts, key_texts, conditions };
        if are_whole && let Some(texts) = calls.iter().map(whole).collect::<Option<Vec<_>>>() {
            return asked.whole(texts).map(Some);
        }
        match calls
            .iter()
            .zip(&aggregate.aggr_expr)
            .map(|(call, as_it_is)| self.parted(call, as_it_is, schema))
            .collect::<Result<Option<Vec<_>>>>()?
        {
            Some(calls) => asked.parted(calls).map(Some),
            None => Ok(None),
        }
    }

    /// An aggregate of parts; `None`: it cannot be made of parts, or not exactly.
    fn parted(
        &self,
        call: &Expr,
        as_it_is: &Expr,
        schema: &datafusion::common::DFSchema,
    ) -> Result<Option<Parted>> {
        let Some(AggregateFunction { func, params }) = function(call) else { return Ok(None) };
        if params.distinct || !params.order_by.is_empty() || params.null_treatment.is_some() {
            return Ok(None);
        }
        let (_, field) = as_it_is.to_field(schema)?;
        let ty = field.data_type().clone();
        let Some(arguments) = params.args.iter().map(sql).collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        let filter = match params.filter.as_deref().map(sql) {
            None => String::new(),
            Some(Some(filter)) => format!(" FILTER (WHERE {filter})"),
            Some(None) => return Ok(None),
        };
        let [argument] = &arguments[..] else { return Ok(None) };
        let of = |name: &str, argument: &str| format!("{name}({argument}){filter}");
        let only = |values: &[Expr]| Ok(values[0].clone());
        let fold = |there: String, ty: DataType, udaf: &Arc<AggregateUDF>| Parted {
            there: vec![(there, ty)],
            here: vec![call_of(udaf, 0)],
            value: Box::new(only),
        };
        Ok(Some(match (func.name(), &ty) {
            ("count", _) => {
                let total = Arc::new(AggregateUDF::new_from_impl(TotalCount { sum: self.sum.clone() }));
                fold(of("count", argument), DataType::Int64, &total)
            }
            ("min", _) => fold(of("min", argument), ty, &self.min),
            ("max", _) => fold(of("max", argument), ty, &self.max),
            ("sum", DataType::Float64) => fold(of("sum", argument), ty, &self.sum),
            ("sum", DataType::Int64 | DataType::UInt64) => {
                let wide = of("sum", &format!("arrow_cast({argument}, 'Decimal128(20, 0)')"));
                let ty = ty.clone();
                Parted {
                    there: vec![(wide, DataType::Decimal128(30, 0))],
                    here: vec![call_of(&self.sum, 0)],
                    value: Box::new(move |values| Ok(cast(values[0].clone(), ty.clone()))),
                }
            }
            ("sum", DataType::Decimal128(precision, _)) if *precision <= 28 => {
                let wide = ty.clone();
                Parted {
                    there: vec![(of("sum", argument), ty)],
                    here: vec![call_of(&self.sum, 0)],
                    value: Box::new(move |values| Ok(cast(values[0].clone(), wide.clone()))),
                }
            }
            ("avg", DataType::Float64) => Parted {
                there: vec![
                    (of("sum", argument), DataType::Float64),
                    (of("count", argument), DataType::Int64),
                ],
                here: vec![call_of(&self.sum, 0), call_of(&self.sum, 1)],
                value: Box::new(|values| {
                    let count = values[1].clone();
                    let average = values[0].clone() / cast(count.clone(), DataType::Float64);
                    when(count.gt(lit(0i64)), average).end()
                }),
            },
            _ => return Ok(None),
        }))
    }
}

/// A call of a function on a column that servers return, by its number among those of the aggregate.
fn call_of(udaf: &Arc<AggregateUDF>, column: usize) -> Expr {
    udaf.call(vec![Expr::Column(Column::from_name(column.to_string()))])
}

/// What servers are asked for.
struct Asked<'a> {
    flat: &'a Flat,
    aggregate: &'a Aggregate,
    parts: Vec<Part>,
    key_texts: Vec<String>,
    conditions: Vec<String>,
}

impl Asked<'_> {
    /// The groups of all servers, each of which is whole.
    fn whole(self, calls: Vec<String>) -> Result<LogicalPlan> {
        let fields = self.aggregate.schema.fields();
        let named =
            |(index, field): (usize, &Arc<Field>)| field.as_ref().clone().with_name(format!("c{index}"));
        let fields = fields.iter().enumerate().map(named).collect();
        let groups = self.scan(calls, fields)?;
        let columns = (0..self.aggregate.schema.fields().len()).map(group_column).collect();
        self.named(groups, columns)
    }

    /// The groups of all servers put together.
    fn parted(self, calls: Vec<Parted>) -> Result<LogicalPlan> {
        let keys = self.key_texts.len();
        let fields = self.aggregate.schema.fields();
        let mut own: Vec<Field> = fields
            .iter()
            .take(keys)
            .enumerate()
            .map(|(index, field)| field.as_ref().clone().with_name(format!("c{index}")))
            .collect();
        let mut texts = Vec::new();
        let mut here = Vec::new();
        let mut values = Vec::new();
        for call in calls {
            let first = own.len();
            for (text, ty) in &call.there {
                let is_count = *ty == DataType::Int64 && text.starts_with("count");
                own.push(Field::new(format!("c{}", own.len()), ty.clone(), !is_count));
                texts.push(text.clone());
            }
            let begin = here.len();
            for expr in &call.here {
                let placed = expr.clone().transform(|expr| match &expr {
                    Expr::Column(column) => {
                        let offset: usize = column.name.parse().unwrap_or_default();
                        Ok(Transformed::yes(group_column(first + offset)))
                    }
                    _ => Ok(Transformed::no(expr)),
                })?;
                here.push(placed.data.alias(format!("v{}", here.len())));
            }
            let columns: Vec<Expr> =
                (begin..here.len()).map(|at| Expr::Column(Column::from_name(format!("v{at}")))).collect();
            values.push((call.value)(&columns)?);
        }
        let groups = self.scan(texts, own)?;
        let keys: Vec<Expr> = (0..keys).map(group_column).collect();
        let merged = LogicalPlanBuilder::from(groups).aggregate(keys.clone(), here)?.build()?;
        let columns = keys.into_iter().chain(values).collect();
        self.named(merged, columns)
    }

    fn scan(&self, calls: Vec<String>, fields: Vec<Field>) -> Result<LogicalPlan> {
        let mut request = self.flat.table.request(self.conditions.clone());
        request.keys = Some(self.key_texts.len());
        request.columns = self.key_texts.iter().cloned().chain(calls).collect();
        let table =
            GroupedTable { parts: self.parts.clone(), request, schema: Arc::new(Schema::new(fields)) };
        LogicalPlanBuilder::scan(GROUPS, provider_as_source(Arc::new(table)), None)?.build()
    }

    /// Columns with the names and types that the aggregate had.
    fn named(&self, plan: LogicalPlan, columns: Vec<Expr>) -> Result<LogicalPlan> {
        let names = self.aggregate.schema.iter();
        let named = columns
            .into_iter()
            .zip(names)
            .map(|(expr, (relation, field))| expr.alias_qualified(relation.cloned(), field.name().clone()));
        LogicalPlanBuilder::from(plan).project(named.collect::<Vec<_>>())?.build()
    }
}

fn group_column(index: usize) -> Expr {
    Expr::Column(Column::new(Some(TableReference::bare(GROUPS)), format!("c{index}")))
}

/// The call of a function, without its name.
fn function(expr: &Expr) -> Option<&AggregateFunction> {
    match expr {
        Expr::Alias(alias) => function(&alias.expr),
        Expr::AggregateFunction(call) => Some(call),
        _ => None,
    }
}

/// The text of an aggregate of whole groups.
fn whole(call: &Expr) -> Option<String> {
    let AggregateFunction { func, params } = function(call)?;
    if !WHOLE.contains(&func.name()) {
        return None;
    }
    let mut arguments = params.args.iter().map(sql).collect::<Option<Vec<_>>>()?.join(", ");
    if params.distinct {
        arguments.insert_str(0, "DISTINCT ");
    }
    if !params.order_by.is_empty() {
        let sort = |sort: &datafusion::logical_expr::SortExpr| {
            let direction = if sort.asc { "ASC" } else { "DESC" };
            let nulls = if sort.nulls_first { "FIRST" } else { "LAST" };
            Some(format!("{} {direction} NULLS {nulls}", sql(&sort.expr)?))
        };
        let sorts = params.order_by.iter().map(sort).collect::<Option<Vec<_>>>()?;
        arguments.push_str(&format!(" ORDER BY {}", sorts.join(", ")));
    }
    let mut text = format!("{}({arguments})", func.name());
    if let Some(filter) = &params.filter {
        text.push_str(&format!(" FILTER (WHERE {})", sql(filter)?));
    }
    match params.null_treatment {
        Some(NullTreatment::IgnoreNulls) => text.push_str(" IGNORE NULLS"),
        Some(NullTreatment::RespectNulls) | None => {}
    }
    Some(text)
}

impl Flat {
    /// An expression of a plan's columns as one of the table's.
    fn of(&self, expr: &Expr, place: impl Fn(&Column) -> Option<usize>) -> Result<Expr> {
        let replaced = expr.clone().transform(|expr| {
            let Expr::Column(column) = &expr else { return Ok(Transformed::no(expr)) };
            match place(column).and_then(|index| self.columns.get(index)) {
                Some(new) => Ok(Transformed::new(
                    new.clone(),
                    true,
                    datafusion::common::tree_node::TreeNodeRecursion::Jump,
                )),
                None => datafusion::common::internal_err!("a column is in no table: {column}"),
            }
        })?;
        Ok(replaced.data)
    }
}

/// The rows of a plan that reads one table of servers, with conditions and expressions alone.
fn flat(plan: &LogicalPlan) -> Result<Option<Flat>> {
    Ok(match plan {
        LogicalPlan::TableScan(scan) if scan.fetch.is_none() => {
            let provider = source_as_provider(&scan.source)?;
            let Some(table) = provider.downcast_ref::<ClusterTable>() else { return Ok(None) };
            let own = |name: &str| Expr::Column(Column::from_name(name));
            let columns = scan.projected_schema.fields().iter().map(|field| own(field.name())).collect();
            let unqualified = |expr: &Expr| {
                let bare = expr.clone().transform(|expr| match expr {
                    Expr::Column(column) => Ok(Transformed::yes(own(&column.name))),
                    other => Ok(Transformed::no(other)),
                })?;
                Ok(bare.data)
            };
            let conditions = scan.filters.iter().map(unqualified).collect::<Result<_>>()?;
            Some(Flat { table: table.clone(), columns, conditions })
        }
        LogicalPlan::SubqueryAlias(alias) => flat(&alias.input)?,
        LogicalPlan::Filter(filter) => {
            let Some(mut below) = flat(&filter.input)? else { return Ok(None) };
            let schema = filter.input.schema();
            let condition = below.of(&filter.predicate, |column| schema.maybe_index_of_column(column))?;
            below.conditions.push(condition);
            Some(below)
        }
        LogicalPlan::Projection(projection) => {
            let Some(below) = flat(&projection.input)? else { return Ok(None) };
            let schema = projection.input.schema();
            let place = |column: &Column| schema.maybe_index_of_column(column);
            let columns = projection.expr.iter().map(|expr| below.of(expr, place)).collect::<Result<_>>()?;
            Some(Flat { columns, ..below })
        }
        _ => None,
    })
}
