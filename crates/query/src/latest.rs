//! The last message of each symbol: `latest('feed.Quote')`, and `DISTINCT ON (symbol) … ORDER BY symbol, time DESC`.
//!
//! Both read tables that have nothing else: the engine finds these messages from the end of a stream.

use crate::as_of;
use crate::cluster::table::ClusterTable;
use crate::predicate::{self, Exactness};
use crate::snapshot::Snapshot;
use crate::table::{Column, Table};
use datafusion::common::tree_node::Transformed;
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::error::Result;
use datafusion::logical_expr::expr::Sort;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    Distinct, DistinctOn, Expr, Filter, LogicalPlan, LogicalPlanBuilder, SubqueryAlias, TableScan,
};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use datafusion::sql::sqlparser::ast::{
    Expr as AstExpr, FunctionArg, FunctionArgExpr, Ident, ObjectName, ObjectNamePart, TableAlias,
    TableFactor, Value,
};
use std::any::Any;
use std::sync::Arc;

/// Name of the catalog whose tables have only the last message of each symbol.
pub(crate) const LATEST: &str = "latest";

/// Replaces `latest('stream.Type')` and `as_of('stream.Type', sequence)` in the text of a query by a name that stands for that table: its stream and type.
pub(crate) fn resolve(factor: &mut TableFactor, snapshot: &Snapshot) -> Option<(String, String)> {
    let TableFactor::Table { name, alias, args, .. } = factor else { return None };
    let [ObjectNamePart::Identifier(function)] = &name.0[..] else { return None };
    let [argument, numbers @ ..] = &args.as_ref()?.args[..] else { return None };
    let is_as_of = function.value.eq_ignore_ascii_case(as_of::FUNCTION);
    if !is_as_of && !function.value.eq_ignore_ascii_case(LATEST) || is_as_of && numbers.is_empty() {
        return None;
    }
    let ends = numbers.iter().map(as_of::number).collect::<Option<Vec<u64>>>()?;
    let wanted = text(argument)?;
    let pair = pair(argument);
    let ident = |text: &str| ObjectNamePart::Identifier(Ident::with_quote('"', text));
    *args = None;
    let found = pair.and_then(|pair| exactly(pair, snapshot)).or_else(|| find(&wanted, snapshot));
    let Some((stream, table)) = found else {
        // The error of a table that does not exist.
        *name = ObjectName(wanted.split('.').map(ident).collect());
        return None;
    };
    let key = if ends.is_empty() { stream.clone() } else { as_of::key(&ends, &stream) };
    let catalog = match (is_as_of, ends.is_empty()) {
        (true, _) => as_of::CATALOG,
        (false, false) => as_of::LATEST_CATALOG,
        (false, true) => LATEST,
    };
    *name = ObjectName([catalog, &key, &table].map(ident).into());
    if alias.is_none() {
        *alias = Some(TableAlias {
            explicit: false,
            name: Ident::with_quote('"', &table),
            columns: Vec::new(),
            at: None,
        });
    }
    Some((stream, table))
}

/// A name as text or as it is.
fn text(argument: &FunctionArg) -> Option<String> {
    let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = argument else { return None };
    match expr {
        AstExpr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text.clone()),
            _ => None,
        },
        AstExpr::Identifier(ident) => Some(ident.value.clone()),
        AstExpr::CompoundIdentifier(parts) => {
            Some(parts.iter().map(|part| part.value.as_str()).collect::<Vec<_>>().join("."))
        }
        _ => None,
    }
}

/// The stream and the table that two names in a row are.
fn pair(argument: &FunctionArg) -> Option<(String, String)> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(AstExpr::CompoundIdentifier(parts))) => match &parts[..] {
            [stream, table] => Some((stream.value.clone(), table.value.clone())),
            _ => None,
        },
        _ => None,
    }
}

/// The stream and the table of these very names.
fn exactly((stream, table): (String, String), snapshot: &Snapshot) -> Option<(String, String)> {
    let has_it = snapshot.has(&stream) && snapshot.stream(&stream).ok()?.tables().contains(&table);
    has_it.then_some((stream, table))
}

/// The stream and the table of a name. A stream with one message type may stand for it.
fn find(wanted: &str, snapshot: &Snapshot) -> Option<(String, String)> {
    let bare = snapshot.name_of(wanted).and_then(|stream| {
        let open = snapshot.stream(stream).ok()?;
        match &open.messages()[..] {
            [only] => Some((stream.to_string(), only.clone())),
            _ => None,
        }
    });
    bare.or_else(|| {
        wanted.match_indices('.').find_map(|(at, _)| {
            let stream = snapshot.name_of(&wanted[..at])?;
            let tables = snapshot.stream(stream).ok()?.tables();
            let table = crate::spelling::find(&wanted[at + 1..], tables.iter().map(String::as_str))?;
            Some((stream.to_string(), table.to_string()))
        })
    })
}

/// The rule for `DISTINCT ON`. What it does not know stays as it is.
#[derive(Debug)]
pub(crate) struct UseLatest;

impl OptimizerRule for UseLatest {
    fn name(&self) -> &'static str {
        "use_latest"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Distinct(Distinct::On(distinct)) = &plan else { return Ok(Transformed::no(plan)) };
        match rewritten(distinct)? {
            Some(new) => Ok(Transformed::yes(new)),
            None => Ok(Transformed::no(plan)),
        }
    }
}

fn rewritten(distinct: &DistinctOn) -> Result<Option<LogicalPlan>> {
    let Some(table) = last_of(distinct) else { return Ok(None) };
    let last = last_time(&distinct.input, &table);
    let is_here = table.open.from.is_none() && table.open.parts.is_empty();
    match last.filter(|_| table.is_messages() && is_here) {
        Some(last) => from_end(distinct, last),
        None => Ok(by_arrival(distinct, &table)),
    }
}

/// The table of which a plan selects the last row of each symbol, among those that its conditions want.
pub(crate) fn last_of(distinct: &DistinctOn) -> Option<Table> {
    let sorts = distinct.sort_expr.as_ref()?;
    let [on] = &distinct.on_expr[..] else { return None };
    let (table, _) = table_below(&distinct.input)?;
    let [by_symbol, by_time, rest @ ..] = &sorts[..] else { return None };
    let is = |expr: &Expr, wanted: &Column| matches!(expr, Expr::Column(column) if table.column_of(&column.name) == Some(wanted));
    let by_sequence = |sort: &Sort| is(&sort.expr, &Column::Sequence) && !sort.asc;
    let is_last = is(on, &Column::Symbol)
        && by_symbol.expr == *on
        && is(&by_time.expr, &Column::Time)
        && !by_time.asc
        && (rest.is_empty() || (rest.len() == 1 && by_sequence(&rest[0]) && table.open.stream.spaces() == 1));
    is_last.then_some(table)
}

/// The same rows, found by the engine from the end of the stream.
fn from_end(distinct: &DistinctOn, last: i64) -> Result<Option<LogicalPlan>> {
    let Some([by_symbol, ..]) = distinct.sort_expr.as_deref() else { return Ok(None) };
    let input = with_latest(&distinct.input, last)?;
    let new = LogicalPlanBuilder::from(input)
        .sort([by_symbol.clone()])?
        .project(distinct.select_expr.clone())?
        .build()?;
    let is_same = new.schema().fields() == distinct.schema.fields()
        && new.schema().iter().zip(distinct.schema.iter()).all(|(new, old)| new.0 == old.0);
    Ok(is_same.then_some(new))
}

/// The same plan, in which the last one in the order of the stream counts among rows of equal times.
fn by_arrival(distinct: &DistinctOn, table: &Table) -> Option<LogicalPlan> {
    let sorts = distinct.sort_expr.as_ref().filter(|sorts| sorts.len() == 2)?;
    if table.open.stream.spaces() > 1 {
        // Their numbers say nothing about each other.
        return None;
    }
    let column = |wanted: Column| {
        let is_it = |field: &str| table.column_of(field) == Some(&wanted);
        let found = distinct.input.schema().iter().find(|(_, field)| is_it(field.name()))?;
        Some(Sort::new(Expr::Column(found.into()), false, true))
    };
    let arrival = column(Column::Sequence)?;
    let sorts = sorts.iter().cloned().chain([arrival]).chain(column(Column::Entry)).collect();
    let new = DistinctOn { sort_expr: Some(sorts), ..distinct.clone() };
    Some(LogicalPlan::Distinct(Distinct::On(new)))
}

/// The table that a plan reads with conditions alone.
fn table_below(plan: &LogicalPlan) -> Option<(Table, &TableScan)> {
    match plan {
        LogicalPlan::Filter(filter) => table_below(&filter.input),
        LogicalPlan::SubqueryAlias(alias) => table_below(&alias.input),
        LogicalPlan::TableScan(scan) if scan.fetch.is_none() && scan.filters.is_empty() => {
            let provider = source_as_provider(&scan.source).ok()?;
            let provider = provider.as_ref() as &dyn Any;
            let of_servers = || provider.downcast_ref::<ClusterTable>().map(|of_servers| &of_servers.table);
            let table = provider.downcast_ref::<Table>().or_else(of_servers)?;
            Some((table.clone(), scan))
        }
        _ => None,
    }
}

/// The last time that the conditions want; `None`: they are not about times and symbols alone.
fn last_time(plan: &LogicalPlan, table: &Table) -> Option<i64> {
    match plan {
        LogicalPlan::Filter(filter) => {
            let mut last = last_time(&filter.input, table)?;
            for condition in split_conjunction(&filter.predicate) {
                if predicate::exactness(condition, table) != Exactness::Exact {
                    return None;
                }
                last = last.min(predicate::times(condition, table).map_or(i64::MAX, |(_, last)| last));
            }
            Some(last)
        }
        LogicalPlan::SubqueryAlias(alias) => last_time(&alias.input, table),
        _ => Some(i64::MAX),
    }
}

/// The same plan, of the last messages until a time.
fn with_latest(plan: &LogicalPlan, last: i64) -> Result<LogicalPlan> {
    Ok(match plan {
        LogicalPlan::Filter(filter) => {
            let input = Arc::new(with_latest(&filter.input, last)?);
            LogicalPlan::Filter(Filter::try_new(filter.predicate.clone(), input)?)
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let input = Arc::new(with_latest(&alias.input, last)?);
            LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(input, alias.alias.clone())?)
        }
        other => match table_below(other).and_then(|(table, scan)| Some((table.latest(last)?, scan))) {
            Some((latest, scan)) => LogicalPlan::TableScan(TableScan {
                source: provider_as_source(Arc::new(latest)),
                ..scan.clone()
            }),
            None => other.clone(),
        },
    })
}
