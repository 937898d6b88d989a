//! PostgreSQL's catalogue, with what the user may see: a stream is a schema, its message types are tables. Queries of it run in a
//! session of DataFusion of their own, which has no other tables: neither streams nor files.

mod asked;
mod functions;
mod known;
mod names;
mod rewrite;
mod tables;

pub(crate) use crate::postgres::catalog::asked::Asked;
pub(crate) use crate::postgres::catalog::known::plainer;

use crate::postgres::catalog::asked::DATABASE;
use crate::postgres::failure::Failure;
use datafusion::common::ScalarValue;
use datafusion::config::Dialect;
use datafusion::error::DataFusionError;
use datafusion::execution::context::{SQLOptions, SessionContext};
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionConfig;
use datafusion::sql::parser::Statement;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tapedb_query::Description;
use tapedb_query::arrow::array::RecordBatch;
use tapedb_query::arrow::datatypes::{DataType, Field, Schema, SchemaRef};

/// Time for a query of the catalogue.
const TIME_MAX: Duration = Duration::from_secs(30);
/// Memory for its operators.
const MEMORY_BYTES: usize = 256 << 20;
/// Threads of a query of the catalogue.
const THREADS: usize = 1;

/// Runs a query of the catalogue.
pub(crate) fn run(
    asked: &Asked<'_>,
    text: &str,
    values: &[ScalarValue],
) -> Result<(SchemaRef, Vec<RecordBatch>), Failure> {
    let (context, statement) = match prepare(asked, text)? {
        Prepared::Query(context, statement) => (*context, *statement),
        Prepared::Nothing(schema) => return Ok((schema, Vec::new())),
    };
    let work = async {
        let mut plan = plan(&context, statement).await?;
        if !values.is_empty() {
            plan = plan.with_param_values(values.to_vec())?;
        }
        let schema = plan.schema().inner().clone();
        let physical = context.state().create_physical_plan(&plan).await?;
        Ok((schema, collect(physical, context.task_ctx()).await?))
    };
    let timed = async { tokio::time::timeout(TIME_MAX, work).await };
    match asked.backend.runtime.block_on(timed) {
        Ok(done) => done.map_err(failure),
        Err(_) => Err(Failure::new("57014", "the query of the catalogue ran longer than 30 s, the limit")),
    }
}

/// The columns and parameters of a query of the catalogue.
pub(crate) fn describe(asked: &Asked<'_>, text: &str) -> Result<Description, Failure> {
    let (context, statement) = match prepare(asked, text)? {
        Prepared::Query(context, statement) => (*context, *statement),
        Prepared::Nothing(columns) => return Ok(Description { columns, parameters: BTreeMap::new() }),
    };
    let plan = asked.backend.runtime.block_on(plan(&context, statement)).map_err(failure)?;
    let parameters = plan.get_parameter_types().map_err(failure)?.into_iter();
    let parameters = parameters.map(|(name, ty)| (name.trim_start_matches('$').to_string(), ty)).collect();
    Ok(Description { columns: plan.schema().inner().clone(), parameters })
}

/// A query that was looked at.
enum Prepared {
    /// What plans it, and the query as DataFusion understands it.
    Query(Box<SessionContext>, Box<Statement>),
    /// It has no rows.
    Nothing(SchemaRef),
}

fn prepare(asked: &Asked<'_>, text: &str) -> Result<Prepared, Failure> {
    let found = names::Names::of(asked)?;
    let mut config = SessionConfig::new()
        .with_target_partitions(THREADS)
        .with_create_default_catalog_and_schema(false)
        .with_default_catalog_and_schema(DATABASE, "pg_catalog");
    config.options_mut().sql_parser.dialect = Dialect::PostgreSQL;
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(GreedyMemoryPool::new(MEMORY_BYTES)));
    let runtime = runtime.build_arc().map_err(failure)?;
    let context = SessionContext::new_with_config_rt(config, runtime);
    tables::register(&context, asked, &found).map_err(failure)?;
    functions::register(&context, asked, &found);
    let mut statement = context.state().sql_to_statement(text, &Dialect::PostgreSQL).map_err(failure)?;
    if let Some(ast) = rewrite::ast_of(&mut statement) {
        if let Some(names) = rewrite::columns_of_nothing(ast) {
            let fields: Vec<Field> =
                names.iter().map(|name| Field::new(name, DataType::Utf8, true)).collect();
            return Ok(Prepared::Nothing(Arc::new(Schema::new(fields))));
        }
        rewrite::rewrite(ast, &found)?;
    }
    Ok(Prepared::Query(Box::new(context), Box::new(statement)))
}

async fn plan(context: &SessionContext, statement: Statement) -> Result<LogicalPlan, DataFusionError> {
    let plan = context.state().statement_to_plan(statement).await?;
    SQLOptions::new()
        .with_allow_ddl(false)
        .with_allow_dml(false)
        .with_allow_statements(false)
        .verify_plan(&plan)?;
    Ok(plan)
}

fn failure(error: DataFusionError) -> Failure {
    let text = error.strip_backtrace();
    let state = match () {
        () if text.contains("table '") => "42P01",
        () if text.contains("No field named") => "42703",
        () if text.contains("Invalid function") => "42883",
        () if text.contains("ParserError") => "42601",
        () => "0A000",
    };
    Failure::new(state, format!("{text}; this query names PostgreSQL's catalogue, which has no streams"))
}
