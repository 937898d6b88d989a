//! A table whose stream several servers have parts of.

use super::request::Request;
use super::scan::ClusterScan;
use super::text::{quoted, sql};
use crate::error::Error;
use crate::open::{OpenStream, Part};
use crate::predicate;
use crate::table::{Column, Table};
use async_trait::async_trait;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::datasource::{ViewTable, provider_as_source};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A message type of a stream on several servers, or on one that is not the coordinator.
#[derive(Debug, Clone)]
pub(crate) struct ClusterTable {
    /// As the first server has it: the columns are those of all.
    pub table: Table,
    parts: Arc<[Part]>,
    /// Only the last message of each symbol on each server.
    is_latest: bool,
}

/// A table of a stream as DataFusion reads it.
///
/// # Errors
/// When the stream has no such message type, or it cannot be columns.
pub(crate) fn provider(
    stream: Arc<OpenStream>,
    name: &str,
    is_latest: bool,
) -> Result<Arc<dyn TableProvider>, Error> {
    let parts = stream.parts.clone();
    let table = Table::new(stream, name)?;
    let table = match is_latest {
        false => table,
        true => table.latest(i64::MAX).ok_or_else(|| {
            Error::query(format!("latest is for message types, and {name} is a record in messages"))
        })?,
    };
    if parts.is_empty() {
        return Ok(Arc::new(table));
    }
    let of_servers = ClusterTable { table, parts: parts.into(), is_latest };
    match is_latest && !of_servers.has_symbols_apart(&of_servers.parts) {
        false => Ok(Arc::new(of_servers)),
        true => Ok(Arc::new(of_servers.last_of_all()?)),
    }
}

impl ClusterTable {
    /// What servers are asked for, without columns.
    pub(super) fn request(&self, conditions: Vec<String>) -> Request {
        Request {
            stream: self.table.open.stream.name().into(),
            table: self.table.name.clone(),
            is_latest: self.is_latest,
            columns: Vec::new(),
            conditions,
            keys: None,
        }
    }

    /// The servers that may have rows that match: those that have one of the symbols. There is always one.
    pub(super) fn parts_for(&self, filters: &[Expr]) -> Vec<Part> {
        let wanted: Vec<BTreeSet<String>> =
            filters.iter().filter_map(|filter| predicate::listed(filter, &self.table)).collect();
        if wanted.is_empty() {
            return self.parts.to_vec();
        }
        let has_some = |part: &&Part| {
            let known: BTreeSet<String> = part.open.stream.symbols().into_iter().collect();
            wanted.iter().all(|symbols| !symbols.is_disjoint(&known))
        };
        let found: Vec<Part> = self.parts.iter().filter(has_some).cloned().collect();
        if found.is_empty() { self.parts.iter().take(1).cloned().collect() } else { found }
    }

    /// Whether no symbol is on two of the servers. Symbols that only an older message could have count too.
    pub(super) fn has_symbols_apart(&self, parts: &[Part]) -> bool {
        let mut seen = BTreeSet::new();
        parts.len() < 2
            || parts
                .iter()
                .all(|part| part.open.stream.symbols().into_iter().all(|symbol| seen.insert(symbol)))
    }

    /// The last messages of symbols, of which several servers may have one.
    fn last_of_all(self) -> Result<ViewTable> {
        let table = self.table.clone();
        let name = |wanted: &Column| {
            let index = (0..table.width()).find(|index| table.column(*index) == wanted)?;
            Some(table.schema().field(index).name().clone())
        };
        let scan = LogicalPlanBuilder::scan("parts", provider_as_source(Arc::new(self)), None)?;
        let column = |wanted| {
            let name = name(&wanted)?;
            Some(Expr::Column(datafusion::common::Column::new(Some("parts"), name)))
        };
        let symbol: Vec<Expr> = column(Column::Symbol).into_iter().collect();
        let later = [Column::Time, Column::Sequence].into_iter().filter_map(column);
        let sorts = symbol.iter().map(|symbol| symbol.clone().sort(true, false));
        let sorts = sorts.chain(later.map(|column| column.sort(false, true))).collect();
        let all = scan.schema().columns().into_iter().map(Expr::Column).collect();
        Ok(ViewTable::new(scan.distinct_on(symbol, all, Some(sorts))?.build()?, None))
    }
}

#[async_trait]
impl TableProvider for ClusterTable {
    fn schema(&self) -> SchemaRef {
        self.table.schema().clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        // The same program answers them there.
        let exactness = filters.iter().map(|filter| match sql(filter) {
            Some(_) => TableProviderFilterPushDown::Exact,
            None => TableProviderFilterPushDown::Unsupported,
        });
        Ok(exactness.collect())
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let projection = projection.cloned().unwrap_or_else(|| (0..self.table.width()).collect());
        let schema = Arc::new(self.table.schema().project(&projection)?);
        let mut request = self.request(filters.iter().filter_map(sql).collect());
        request.columns = schema.fields().iter().map(|field| quoted(field.name())).collect();
        let place =
            |wanted: &Column| projection.iter().position(|column| self.table.column(*column) == wanted);
        let is_one =
            |filter: &Expr| predicate::listed(filter, &self.table).is_some_and(|symbols| symbols.len() == 1);
        let one_value = place(&Column::Symbol).filter(|_| filters.iter().any(is_one));
        // Of records in several fields, those of one field come after those of the other: they are in no order of time.
        let time = place(&Column::Time);
        let parts = self.parts_for(filters);
        Ok(Arc::new(ClusterScan::new(parts, request, schema, (time, one_value), limit)))
    }
}

/// Groups that servers make of their rows.
#[derive(Debug)]
pub(super) struct GroupedTable {
    pub parts: Vec<Part>,
    pub request: Request,
    pub schema: Arc<Schema>,
}

#[async_trait]
impl TableProvider for GroupedTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let all = ClusterScan::new(
            self.parts.clone(),
            self.request.clone(),
            self.schema.clone(),
            (None, None),
            None,
        );
        match projection {
            Some(columns)
                if columns.len() < self.schema.fields().len()
                    || columns.windows(2).any(|pair| pair[0] >= pair[1]) =>
            {
                project(Arc::new(all), columns)
            }
            _ => Ok(Arc::new(all)),
        }
    }
}

/// Some columns of the groups: without their keys the servers would return other ones.
fn project(plan: Arc<dyn ExecutionPlan>, columns: &[usize]) -> Result<Arc<dyn ExecutionPlan>> {
    use datafusion::physical_expr::PhysicalExpr;
    use datafusion::physical_expr::expressions::Column as ColumnExpr;
    use datafusion::physical_plan::projection::ProjectionExec;
    let schema = plan.schema();
    let expr = |index: &usize| -> (Arc<dyn PhysicalExpr>, String) {
        let name = schema.field(*index).name();
        (Arc::new(ColumnExpr::new(name, *index)), name.clone())
    };
    Ok(Arc::new(ProjectionExec::try_new(columns.iter().map(expr).collect::<Vec<_>>(), plan)?))
}
