//! Plans queries and starts them.

use crate::aggregates::{RefuseDistinct, UseTimes};
use crate::arithmetic::CheckArithmetic;
use crate::as_of;
use crate::asof::{self, AsOfPlanner, PlanAsOf, PushThroughAsOf, SliceJoins};
use crate::book::{self, Book};
use crate::catalog::{AsOf, CATALOG, Latest, MAIN, Streams};
use crate::cluster::aggregate::GroupThere;
use crate::cluster::{Cluster, forward};
use crate::complexity;
use crate::dictionaries::{hand_out, promised, with_dictionaries};
use crate::distinct_from;
use crate::error::{Error, Reason};
use crate::extents::KnowExtents;
use crate::functions;
use crate::gapfill::{FillGaps, GapFillPlanner};
use crate::grouped::GroupBySymbol;
use crate::latest::{LATEST, UseLatest};
use crate::live::{LiveRows, Slice};
use crate::names;
use crate::options::{Options, Place};
use crate::order::UseTimeOrder;
use crate::parameters::Parameters;
use crate::pauses::PauseInJoins;
use crate::pool::CONSUMERS_NAMED;
use crate::room::{WORKER_STACK_BYTES, with_room};
use crate::rows::{Rows, Workers, too_long};
use crate::sample;
use crate::snapshot::{MayRead, Snapshot};
use crate::traced::stage;
use crate::upstream::UpstreamRows;
use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{CatalogProviderList, MemoryCatalogProviderList, Session};
use datafusion::error::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::execution::context::{QueryPlanner, SQLOptions, SessionContext};
use datafusion::execution::memory_pool::{FairSpillPool, TrackConsumersPool};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
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
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tapedb_engine::Database;
use tokio::runtime::Builder;
use tokio::time::{Instant, timeout_at};

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
    /// Several servers, of which queries read; `None`: they read the database.
    cluster: Option<Cluster>,
    /// Without a catalog, which each query has its own of.
    state: SessionState,
    workers: Arc<Workers>,
}

impl fmt::Debug for Sql {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sql").field("db", &self.inner.db).finish_non_exhaustive()
    }
}

/// Queries on a database as its methods.
pub trait DatabaseSql {
    /// Runs a query with the limits of [`Options::default`]. A program that runs many keeps a [`Sql`], whose threads go on.
    ///
    /// ```
    /// use tapedb_engine::Database;
    /// use tapedb_query::{DatabaseSql, Parameters};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// let db = Database::open(directory.path().join("db"))?;
    /// for batch in db.sql("SELECT 1 + 1 AS two")? {
    ///     assert_eq!(batch?.num_rows(), 1);
    /// }
    /// let rows = db.sql_with("SELECT $symbol AS symbol", &Parameters::named([("symbol", "AAPL")]))?;
    /// assert_eq!(rows.map(|batch| batch.map_or(0, |batch| batch.num_rows())).sum::<usize>(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Sql::query`].
    fn sql(&self, query: &str) -> Result<Rows, Error>;

    /// Runs a query with values for its parameters.
    ///
    /// # Errors
    /// As [`Sql::query_with`].
    fn sql_with(&self, query: &str, parameters: &Parameters) -> Result<Rows, Error>;
}

impl DatabaseSql for Database {
    fn sql(&self, query: &str) -> Result<Rows, Error> {
        self.sql_with(query, &Parameters::default())
    }

    fn sql_with(&self, query: &str, parameters: &Parameters) -> Result<Rows, Error> {
        Sql::new(self)?.query_with(query, parameters)
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
        Self::on(db, None, options)
    }

    /// Queries on several servers, whose streams are seen as those of one. `docs/SQL.md` states what each server does.
    /// [`Options::place`] does not matter, and views belong to one server.
    ///
    /// # Errors
    /// When threads cannot be started.
    pub fn of_cluster(cluster: Cluster, options: Options) -> Result<Self, Error> {
        let first = cluster.members().first().map(|member| member.database().clone());
        let first = first.ok_or_else(|| Error::query("the cluster has no servers; name some"))?;
        Self::on(&first, Some(cluster), options)
    }

    fn on(db: &Database, cluster: Option<Cluster>, options: Options) -> Result<Self, Error> {
        let unstarted = |error| Error::new(Reason::Internal, format!("threads cannot be started: {error}"));
        let runtime = Builder::new_multi_thread()
            .worker_threads(options.threads())
            .thread_name("tapedb-sql")
            .thread_stack_size(WORKER_STACK_BYTES)
            .enable_time()
            .build()
            .map_err(unstarted)?;
        let state = state(&options)?;
        let workers = Arc::new(Workers::new(runtime).map_err(unstarted)?);
        Ok(Self { inner: Arc::new(Inner { db: db.clone(), options, cluster, state, workers }) })
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
        self.query_as(text, parameters, &self.inner.options)
    }

    /// Runs a query with its own decimals, place, and limits of time and rows. Threads, memory and disk are those of this.
    ///
    /// # Errors
    /// As [`Sql::query_with`].
    pub fn query_as(&self, text: &str, parameters: &Parameters, options: &Options) -> Result<Rows, Error> {
        let Inner { db, workers, cluster, .. } = &*self.inner;
        if cluster.is_none()
            && options.place != Place::Here
            && !options.live
            && let Some((schema, rows)) = UpstreamRows::begin(db, options, text, parameters)?
        {
            return Ok(Rows::of_upstream(schema, rows, workers.clone()));
        }
        if cluster.is_none() && options.place == Place::Server {
            let what = match options.live {
                true => "live queries run in the client; let it run here",
                false => "the database has no server that runs queries; let it run here",
            };
            return Err(Error::new(Reason::Query, what));
        }
        let (text, parameters, options) = (text.into(), parameters.clone(), options.clone());
        let cluster = cluster.clone();
        self.start(Run { text, parameters, options, may_read: None, runtime: None, cluster })
    }

    /// Limits and settings.
    pub(crate) fn options(&self) -> &Options {
        &self.inner.options
    }

    /// What queries run in, unless they have another one.
    pub(crate) fn runtime(&self) -> &Arc<RuntimeEnv> {
        self.inner.state.runtime_env()
    }

    /// The database; of several servers that of the first.
    pub fn database(&self) -> &Database {
        &self.inner.db
    }

    /// Whether queries read from several servers.
    pub(crate) fn is_of_cluster(&self) -> bool {
        self.inner.cluster.is_some()
    }

    /// What plans queries.
    pub(crate) fn state(&self) -> &SessionState {
        &self.inner.state
    }

    /// Runs a query here.
    pub(crate) fn start(&self, run: Run) -> Result<Rows, Error> {
        if let Some(cluster) = &run.cluster {
            return self.start_on(cluster, &run);
        }
        if run.options.live {
            let live = LiveRows::begin(self, run)?;
            return Ok(Rows::of_live(live, self.inner.workers.clone()));
        }
        let planned = stage(true, || self.plan(&run, &Slice::From(None)))?;
        let rows = stage(false, || self.execute(&run, planned))?;
        Ok(rows.traced())
    }

    /// Runs a query on several servers: on the only one that has its streams, or with the parts of all put together here.
    fn start_on(&self, cluster: &Cluster, run: &Run) -> Result<Rows, Error> {
        let Inner { db, workers, .. } = &*self.inner;
        if run.options.live {
            return Err(Error::query(
                "live queries are of one server; ask that server instead of the cluster",
            ));
        }
        let begin = || {
            let snapshot = Snapshot::of_cluster(cluster, db, &run.options, run.may_read.as_ref())?;
            let snapshot = Arc::new(snapshot);
            let Run { text, parameters, options, .. } = run;
            let forwarded = forward::begin((&mut checked(text)?, text), parameters, options, &snapshot)?;
            match forwarded {
                Some(forwarded) => Ok((snapshot, Err(forwarded))),
                None => self
                    .planned_on(run, &Slice::From(None), snapshot.clone())
                    .map(|planned| (snapshot, Ok(planned))),
            }
        };
        match stage(true, || with_room(&run.text, begin))? {
            (snapshot, Err((schema, answer))) => {
                Ok(Rows::of_server(schema, answer, workers.clone(), snapshot).traced())
            }
            (_, Ok(planned)) => Ok(stage(false, || self.execute(run, planned))?.traced()),
        }
    }

    /// Plans a query on a part of its streams.
    pub(crate) fn plan(&self, run: &Run, slice: &Slice) -> Result<Planned, Error> {
        with_room(&run.text, || self.planned(run, slice))
    }

    fn planned(&self, run: &Run, slice: &Slice) -> Result<Planned, Error> {
        let Inner { db, .. } = &*self.inner;
        let snapshot = match &run.cluster {
            Some(cluster) => Snapshot::of_cluster(cluster, db, &run.options, run.may_read.as_ref())?,
            None => Snapshot::new(db, &run.options, run.may_read.as_ref(), slice)?,
        };
        self.planned_on(run, slice, Arc::new(snapshot))
    }

    fn planned_on(&self, run: &Run, slice: &Slice, snapshot: Arc<Snapshot>) -> Result<Planned, Error> {
        let Inner { state, workers, .. } = &*self.inner;
        let Run { text, parameters, options, .. } = run;
        let limit = options.time_limit.filter(|_| !options.live);
        let deadline = limit.and_then(|limit| Some((Instant::now().checked_add(limit)?, limit)));
        let mut statement = checked(text)?;
        names::resolve(&mut statement, &snapshot, parameters)?;
        if let Some(ast) = names::ast_of(&mut statement) {
            let aggregates = state.aggregate_functions().keys().cloned().collect();
            sample::expand(ast, &aggregates)?;
            asof::window::select::move_aggregates(ast, &aggregates)?;
            asof::syntax::nest_joins(ast);
        }
        let catalogs = MemoryCatalogProviderList::new();
        catalogs.register_catalog(CATALOG.into(), Arc::new(Streams(snapshot.clone())));
        catalogs.register_catalog(LATEST.into(), Arc::new(Latest(snapshot.clone())));
        let until = |is_latest| Arc::new(AsOf { snapshot: snapshot.clone(), is_latest });
        catalogs.register_catalog(as_of::CATALOG.into(), until(false));
        catalogs.register_catalog(as_of::LATEST_CATALOG.into(), until(true));
        let mut state = state.clone();
        state.register_catalog_list(Arc::new(catalogs));
        let book = Book { snapshot: snapshot.clone(), parameters: parameters.clone() };
        state.register_udtf(book::FUNCTION, Arc::new(book));
        let parameters = parameters.0.clone();
        let plan = workers.block_on(within(deadline, async {
            let plan = state.statement_to_plan(statement).await?;
            SQLOptions::new()
                .with_allow_ddl(false)
                .with_allow_dml(false)
                .with_allow_statements(false)
                .verify_plan(&plan)?;
            match parameters {
                Some(parameters) => plan.with_param_values(parameters),
                None => Ok(plan),
            }
        }))?;
        let plan = slice.of(plan, &snapshot)?;
        let dictionaries = if options.dictionaries { promised(&plan) } else { BTreeSet::new() };
        Ok(Planned { state, plan, snapshot, deadline, dictionaries })
    }

    /// Starts a planned query.
    pub(crate) fn execute(&self, run: &Run, planned: Planned) -> Result<Rows, Error> {
        with_room(&run.text, || self.started(run, planned))
    }

    fn started(&self, run: &Run, planned: Planned) -> Result<Rows, Error> {
        let Planned { state, plan, snapshot, deadline, dictionaries } = planned;
        let workers = &self.inner.workers;
        let started = workers.block_on(within(deadline, async {
            let plan = hand_out(state.create_physical_plan(&plan).await?, &dictionaries)?;
            let context = match &run.runtime {
                Some(runtime) => Arc::new(TaskContext::from(&state).with_runtime(runtime.clone())),
                None => state.task_ctx(),
            };
            execute_stream(plan, context)
        }))?;
        let rows_max = run.options.rows_max.filter(|_| !run.options.live);
        Ok(Rows::new(started, workers.clone(), deadline, rows_max, snapshot))
    }
}

/// One query, and how it runs.
#[derive(Debug)]
pub(crate) struct Run {
    pub text: String,
    pub parameters: Parameters,
    pub options: Options,
    /// `None`: all streams.
    pub may_read: Option<MayRead>,
    /// Memory and disk of its own.
    pub runtime: Option<Arc<RuntimeEnv>>,
    /// Several servers instead of the database.
    pub cluster: Option<Cluster>,
}

/// A query that can start.
pub(crate) struct Planned {
    state: SessionState,
    pub plan: LogicalPlan,
    pub snapshot: Arc<Snapshot>,
    deadline: Option<(Instant, Duration)>,
    /// The columns that are dictionaries in its rows.
    dictionaries: BTreeSet<usize>,
}

impl Planned {
    /// The columns of its rows.
    pub fn schema(&self) -> SchemaRef {
        with_dictionaries(self.plan.schema().inner(), &self.dictionaries)
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

/// The one statement of a text, if it is not too large.
fn checked(text: &str) -> Result<Statement, Error> {
    let mut statement = parse(text)?;
    if let Some(ast) = names::ast_of(&mut statement) {
        complexity::check(ast)?;
        distinct_from::bind(ast);
    }
    Ok(statement)
}

/// The one statement of a text.
fn parse(text: &str) -> Result<Statement, Error> {
    let sql_error = |error| DataFusionError::SQL(Box::new(error), None);
    let mut tokens = asof::syntax::tokens(text)?;
    sample::replace(&mut tokens).map_err(sql_error)?;
    functions::replace_description(&mut tokens);
    let mut statements = DFParserBuilder::new(ParserInput::Tokens(tokens)).build()?.parse_statements()?;
    match (statements.pop_front(), statements.len()) {
        (Some(Statement::Statement(only)), 0) if matches!(*only, Ast::ShowTables { .. }) => parse(TABLES),
        (Some(Statement::Statement(only)), 0) if matches!(*only, Ast::ShowFunctions { .. }) => {
            parse(&functions::listing(&only)?)
        }
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
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(pool))
        .with_max_temp_directory_size(options.disk_bytes)
        .build_arc()?;
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
    context.add_analyzer_rule(Arc::new(RefuseDistinct));
    functions::register(&context);
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
        let planner = DefaultPhysicalPlanner::with_extension_planners(vec![
            Arc::new(AsOfPlanner),
            Arc::new(GapFillPlanner),
        ]);
        planner.create_physical_plan(plan, session).await
    }
}

/// DataFusion's rules for logical plans, behind ours: conditions are to be where DataFusion finds them.
fn logical_rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let mut rules: Vec<Arc<dyn OptimizerRule + Send + Sync>> = Optimizer::new().rules;
    let at = rules.iter().position(|rule| rule.name() == "push_down_filter").map_or(rules.len(), |at| at + 1);
    rules.insert(at, Arc::new(PushThroughAsOf));
    // Behind it, so that conditions are known, and before rules that take aggregates apart.
    rules.insert(at + 1, Arc::new(GroupThere::default()));
    let at = rules.iter().position(|rule| rule.name() == "replace_distinct_aggregate").unwrap_or(0);
    rules.insert(at, Arc::new(UseLatest));
    rules.insert(at, Arc::new(FillGaps));
    rules.push(Arc::new(UseTimes));
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
    put_before("EnsureRequirements", Arc::new(GroupBySymbol));
    put_before("EnsureRequirements", Arc::new(UseTimeOrder));
    rules.push(Arc::new(SliceJoins));
    rules.push(Arc::new(PauseInJoins));
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
        assert_eq!(at("group_by_symbol") + 1, at("use_time_order"));
        assert_eq!(at("use_time_order") + 1, at("EnsureRequirements"));
        assert!(at("aggregate_statistics") < at("use_time_order"));
    }
}
