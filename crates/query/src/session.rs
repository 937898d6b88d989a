//! Plans queries and starts them.

use crate::aggregates;
use crate::arithmetic::CheckArithmetic;
use crate::asof::{self, AsOfPlanner, PlanAsOf, PushThroughAsOf};
use crate::catalog::{CATALOG, MAIN, Streams};
use crate::error::{Error, Reason};
use crate::extents::KnowExtents;
use crate::names;
use crate::options::Options;
use crate::order::UseTimeOrder;
use crate::rows::{Rows, Workers, too_long};
use crate::snapshot::Snapshot;
use async_trait::async_trait;
use datafusion::catalog::{CatalogProviderList, MemoryCatalogProviderList, Session};
use datafusion::common::{ParamValues, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::execution::context::{QueryPlanner, SQLOptions, SessionContext};
use datafusion::execution::memory_pool::{FairSpillPool, TrackConsumersPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{Optimizer, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use datafusion::prelude::SessionConfig;
use datafusion::sql::parser::{DFParserBuilder, ParserInput, Statement};
use datafusion::sql::sqlparser::ast::Statement as Ast;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;
use tapedb_engine::Database;
use tokio::runtime::Builder;
use tokio::time::{Instant, timeout_at};

/// Consumers of memory that an error names.
const CONSUMERS_NAMED: NonZeroUsize = NonZeroUsize::new(3).unwrap();

/// Runs queries on a database. Cheap to clone; queries may run at once.
///
/// It has threads of its own. Calls block, so they are not for threads of an asynchronous runtime.
#[derive(Clone)]
pub struct Sql {
    inner: Arc<Inner>,
}

struct Inner {
    db: Database,
    options: Options,
    /// Without a catalog, which each query has its own of.
    state: SessionState,
    workers: Arc<Workers>,
}

impl fmt::Debug for Sql {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sql").field("db", &self.inner.db).finish_non_exhaustive()
    }
}

/// Values for `$1`, `$2`, … or `$name` in a query.
#[derive(Debug, Clone, Default)]
pub struct Parameters(Option<ParamValues>);

impl Parameters {
    /// Values for `$1`, `$2`, ….
    pub fn numbered(values: impl IntoIterator<Item = impl Into<ScalarValue>>) -> Self {
        let values: Vec<ScalarValue> = values.into_iter().map(Into::into).collect();
        Self(Some(values.into()))
    }

    /// Values for names: `$symbol`.
    pub fn named(values: impl IntoIterator<Item = (impl Into<String>, impl Into<ScalarValue>)>) -> Self {
        let values = values.into_iter().map(|(name, value)| (name.into(), value.into()));
        Self(Some(values.collect::<std::collections::HashMap<String, ScalarValue>>().into()))
    }
}

impl Sql {
    /// Queries on a database, with the limits of [`Options::default`].
    ///
    /// # Errors
    /// When threads cannot be started.
    pub fn new(db: &Database) -> Result<Self, Error> {
        Self::with_options(db, Options::default())
    }

    /// Queries on a database.
    ///
    /// # Errors
    /// When threads cannot be started.
    pub fn with_options(db: &Database, options: Options) -> Result<Self, Error> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(options.threads())
            .thread_name("tapedb-sql")
            .enable_time()
            .build()
            .map_err(|error| Error::new(Reason::Internal, format!("threads cannot be started: {error}")))?;
        let state = state(&options)?;
        let workers = Arc::new(Workers::new(runtime));
        Ok(Self { inner: Arc::new(Inner { db: db.clone(), options, state, workers }) })
    }

    /// Runs a query. All of its tables are as of now.
    ///
    /// # Errors
    /// When the text is no query, its names or types are wrong, or streams cannot be read.
    pub fn query(&self, text: &str) -> Result<Rows, Error> {
        self.query_with(text, &Parameters::default())
    }

    /// Runs a query with values for its parameters.
    ///
    /// # Errors
    /// As [`Sql::query`]; when a parameter has no value.
    pub fn query_with(&self, text: &str, parameters: &Parameters) -> Result<Rows, Error> {
        let Inner { db, options, state, workers } = &*self.inner;
        let deadline = options.time_limit.and_then(|limit| Some((Instant::now().checked_add(limit)?, limit)));
        let mut statement = parse(text)?;
        let snapshot = Arc::new(Snapshot::new(db, options)?);
        names::resolve(&mut statement, &snapshot)?;
        if let Some(ast) = names::ast_of(&mut statement) {
            asof::syntax::nest_joins(ast);
        }
        let catalogs = MemoryCatalogProviderList::new();
        catalogs.register_catalog(CATALOG.into(), Arc::new(Streams(snapshot)));
        let mut state = state.clone();
        state.register_catalog_list(Arc::new(catalogs));
        let parameters = parameters.0.clone();
        let started = workers.block_on(within(deadline, async {
            let mut plan = state.statement_to_plan(statement).await?;
            SQLOptions::new()
                .with_allow_ddl(false)
                .with_allow_dml(false)
                .with_allow_statements(false)
                .verify_plan(&plan)?;
            if let Some(parameters) = parameters {
                plan = plan.with_param_values(parameters)?;
            }
            let plan = state.create_physical_plan(&plan).await?;
            execute_stream(plan, state.task_ctx())
        }))?;
        Ok(Rows::new(started, workers.clone(), deadline, options.rows_max))
    }
}

/// The result of DataFusion's work, if it is there in time.
async fn within<T>(
    deadline: Option<(Instant, Duration)>,
    work: impl Future<Output = Result<T, DataFusionError>>,
) -> Result<T, Error> {
    match deadline {
        None => Ok(work.await?),
        Some((at, limit)) => match timeout_at(at, work).await {
            Ok(done) => Ok(done?),
            Err(_) => Err(too_long(limit)),
        },
    }
}

/// The one statement of a text.
fn parse(text: &str) -> Result<Statement, Error> {
    let tokens = asof::syntax::tokens(text).map_err(|error| DataFusionError::SQL(Box::new(error), None))?;
    let mut statements = DFParserBuilder::new(ParserInput::Tokens(tokens)).build()?.parse_statements()?;
    match (statements.pop_front(), statements.len()) {
        (Some(Statement::Statement(only)), 0) if matches!(*only, Ast::ShowTables { .. }) => parse(TABLES),
        (Some(only), 0) if reads(&only) => Ok(only),
        (Some(other), 0) => {
            let text = other.to_string();
            let words: Vec<_> = text.split_whitespace().take(2).collect();
            let what = format!("queries read and change nothing; {} is not supported", words.join(" "));
            Err(Error::new(Reason::Query, what))
        }
        (None, _) => Err(Error::new(Reason::Query, "the query is empty")),
        (Some(_), more) => {
            let what = format!("there are {} statements; run them one by one", more + 1);
            Err(Error::new(Reason::Query, what))
        }
    }
}

/// Whether a statement reads.
fn reads(statement: &Statement) -> bool {
    match statement {
        Statement::Explain(explain) => reads(&explain.statement),
        Statement::Statement(ast) => matches!(
            **ast,
            Ast::Query(_)
                | Ast::Explain { .. }
                | Ast::ExplainTable { .. }
                | Ast::ShowTables { .. }
                | Ast::ShowColumns { .. }
                | Ast::ShowFunctions { .. }
                | Ast::ShowVariable { .. }
        ),
        _ => false,
    }
}

/// What `SHOW TABLES` stands for: DataFusion's own lists its views too.
const TABLES: &str = "SELECT table_schema AS stream, table_name AS \"table\" FROM information_schema.tables \
    WHERE table_schema <> 'information_schema' ORDER BY table_schema, table_name";

/// What all queries share: settings, functions, rules and limits.
fn state(options: &Options) -> Result<SessionState, Error> {
    let pool = TrackConsumersPool::new(FairSpillPool::new(options.memory_bytes), CONSUMERS_NAMED);
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(pool)).build_arc()?;
    let mut config = SessionConfig::new()
        .with_target_partitions(options.threads())
        .with_information_schema(true)
        .with_create_default_catalog_and_schema(false)
        .with_default_catalog_and_schema(CATALOG, MAIN);
    let settings = config.options_mut();
    // Names are as they are written: `names` finds those that differ by case.
    settings.sql_parser.enable_ident_normalization = false;
    // Scans divide themselves.
    settings.optimizer.enable_round_robin_repartition = false;
    let state = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(runtime)
        .with_default_features()
        .with_physical_optimizer_rules(rules())
        .with_relation_planners(vec![Arc::new(PlanAsOf)])
        .with_query_planner(Arc::new(Planner))
        .with_optimizer_rules(logical_rules())
        .build();
    let context = SessionContext::new_with_state(state);
    context.add_analyzer_rule(Arc::new(CheckArithmetic));
    aggregates::all().into_iter().for_each(|function| context.register_udaf(function));
    Ok(context.state())
}

/// The planner of queries: DataFusion's, with our operators.
#[derive(Debug)]
struct Planner;

#[async_trait]
impl QueryPlanner for Planner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>, DataFusionError> {
        let planner = DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(AsOfPlanner)]);
        planner.create_physical_plan(plan, session).await
    }
}

/// DataFusion's rules for logical plans, behind ours: conditions are to be where DataFusion finds them.
fn logical_rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let mut rules: Vec<Arc<dyn OptimizerRule + Send + Sync>> = Optimizer::new().rules;
    let at = rules.iter().position(|rule| rule.name() == "push_down_filter").map_or(rules.len(), |at| at + 1);
    rules.insert(at, Arc::new(PushThroughAsOf));
    rules
}

/// DataFusion's rules for physical plans, and ours between them.
fn rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules = PhysicalOptimizer::new().rules;
    let mut put_before = |name: &str, rule: Arc<dyn PhysicalOptimizerRule + Send + Sync>| {
        let at = rules.iter().position(|other| other.name() == name);
        rules.insert(at.unwrap_or(0), rule);
    };
    put_before("aggregate_statistics", Arc::new(KnowExtents));
    put_before("EnsureRequirements", Arc::new(UseTimeOrder));
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_where_they_belong() {
        let names: Vec<String> = rules().iter().map(|rule| rule.name().to_string()).collect();
        let at =
            |name: &str| names.iter().position(|other| other == name).unwrap_or_else(|| panic!("{names:?}"));
        assert_eq!(at("know_extents") + 1, at("aggregate_statistics"));
        assert_eq!(at("use_time_order") + 1, at("EnsureRequirements"));
        assert!(at("aggregate_statistics") < at("use_time_order"));
    }
}
