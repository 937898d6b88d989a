//! Tables as DataFusion reads them.

use crate::error::wrapped;
use crate::predicate::{self, Exactness};
use crate::scan::Scan;
use crate::table::Table;
use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::union::UnionExec;
use std::sync::Arc;

#[async_trait]
impl TableProvider for Table {
    fn schema(&self) -> SchemaRef {
        Self::schema(self).clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let exactness = filters.iter().map(|filter| match predicate::exactness(filter, self) {
            Exactness::Exact => TableProviderFilterPushDown::Exact,
            Exactness::Inexact => TableProviderFilterPushDown::Inexact,
            Exactness::None => TableProviderFilterPushDown::Unsupported,
        });
        Ok(exactness.collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let all = || (0..self.width()).collect();
        let projection = projection.cloned().unwrap_or_else(all);
        let wanted = predicate::wanted(filters, self, state)?;
        let partitions = state.config().target_partitions();
        let scan = |table: &Self| -> Result<Arc<dyn ExecutionPlan>> {
            let table = Arc::new(table.clone());
            let scan = Scan::new(table, wanted.clone(), projection.clone(), limit, partitions);
            Ok(Arc::new(scan.map_err(wrapped)?))
        };
        if self.others.is_empty() {
            return scan(self);
        }
        UnionExec::try_new(std::iter::once(self).chain(&self.others).map(scan).collect::<Result<_>>()?)
    }
}
