//! The operator that asks servers.

use super::merge::{Merge, Piece};
use super::request::Request;
use crate::error::{Error, Reason, wrapped};
use crate::next::Next;
use crate::open::Part;
use crate::options::Options;
use crate::parameters::Parameters;
use crate::wanted::TimeOrder;
use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::common::Statistics;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column as ColumnExpr;
use datafusion::physical_expr::{
    ConstExpr, EquivalenceProperties, LexOrdering, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{self, Sender};

/// Batches of a server that wait to be taken.
const READ_AHEAD: usize = 2;

/// Time between two looks whether the rows are still wanted.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Asks servers for the rows of a table, or for groups of them.
#[derive(Debug, Clone)]
pub(crate) struct ClusterScan {
    parts: Vec<Part>,
    request: Arc<Request>,
    schema: SchemaRef,
    /// The column of the time, and of the symbol where it has one value in all rows.
    time: Option<usize>,
    one_value: Option<usize>,
    order: TimeOrder,
    limit: Option<usize>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl ClusterScan {
    /// A scan that returns the rows of each server in a partition of its own; with a limit, the first rows by time.
    pub fn new(
        parts: Vec<Part>,
        request: Request,
        schema: SchemaRef,
        (time, one_value): (Option<usize>, Option<usize>),
        limit: Option<usize>,
    ) -> Self {
        let order = if limit.is_some() { TimeOrder::Ascending } else { TimeOrder::None };
        let mut scan = Self {
            parts,
            request: Arc::new(request),
            properties: Arc::new(properties(&schema, (time, one_value), order, 1)),
            schema,
            time,
            one_value,
            order,
            limit,
            metrics: ExecutionPlanMetricsSet::new(),
        };
        scan.set_properties();
        scan
    }

    /// The same rows by time, in one partition; `None`: they are in the other order and limited, or they are groups.
    pub fn in_order(&self, order: TimeOrder) -> Option<Self> {
        if self.order == order {
            return Some(self.clone());
        }
        if self.limit.is_some() || self.request.keys.is_some() {
            return None;
        }
        let mut scan = Self { order, ..self.clone() };
        scan.set_properties();
        Some(scan)
    }

    /// Whether a column is the time.
    pub fn is_time(&self, column: usize) -> bool {
        self.time == Some(column)
    }

    /// Whether a column has one value in all rows: the only symbol that is wanted.
    pub fn is_one_value(&self, column: usize) -> bool {
        self.one_value == Some(column)
    }

    fn set_properties(&mut self) {
        let partitions = if self.order == TimeOrder::None { self.parts.len() } else { 1 };
        let columns = (self.time, self.one_value);
        self.properties = Arc::new(properties(&self.schema, columns, self.order, partitions));
    }

    /// What a server is asked.
    fn question(&self, part: &Part) -> Result<Question> {
        let ends = part.open.ends().map_err(wrapped)?;
        let schema = match self.order {
            TimeOrder::None if self.schema.fields().is_empty() => {
                Arc::new(Schema::new(vec![Field::new("any", DataType::Boolean, true)]))
            }
            TimeOrder::None => self.schema.clone(),
            _ => {
                let ty = DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
                let time = Arc::new(Field::new("time", ty, false));
                Arc::new(Schema::new(self.schema.fields().iter().cloned().chain([time]).collect::<Vec<_>>()))
            }
        };
        Ok(Question {
            part: part.clone(),
            text: self.request.text(ends, self.order, self.limit),
            options: Options { rows_max: None, live: false, ..part.open.options.clone() },
            schema,
        })
    }

    /// The rows of one server, as they come.
    fn of_one(&self, partition: usize) -> Result<SendableRecordBatchStream> {
        let question = self.question(&self.parts[partition])?;
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let mut builder = RecordBatchReceiverStream::builder(self.schema.clone(), READ_AHEAD);
        let sender = builder.tx();
        let width = self.schema.fields().len();
        builder.spawn_blocking(move || {
            question.ask(&|| !sender.is_closed(), &mut |batch| {
                let batch = first_columns(&batch, width)?;
                metrics.record_output(batch.num_rows());
                Ok(sender.blocking_send(Ok(batch)).is_ok())
            })
        });
        Ok(builder.build())
    }

    /// The rows of all servers by time.
    fn merged(&self, rows_max: usize) -> Result<SendableRecordBatchStream> {
        let metrics = BaselineMetrics::new(&self.metrics, 0);
        let mut builder = RecordBatchReceiverStream::builder(self.schema.clone(), READ_AHEAD);
        let mut pieces = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            let question = self.question(part)?;
            let (sender, receiver) = mpsc::channel(READ_AHEAD);
            pieces.push(receiver);
            builder.spawn_blocking(move || {
                question.send(&sender);
                Ok(())
            });
        }
        let mut merge = Merge::new(pieces, self.order == TimeOrder::Descending, rows_max, self.limit);
        let (sender, width) = (builder.tx(), self.schema.fields().len());
        builder.spawn(async move {
            while let Some(batch) = merge.next().await? {
                let batch = first_columns(&batch, width)?;
                metrics.record_output(batch.num_rows());
                if sender.send(Ok(batch)).await.is_err() {
                    break;
                }
            }
            Ok(())
        });
        Ok(builder.build())
    }
}

/// A query for a server.
struct Question {
    part: Part,
    text: String,
    options: Options,
    /// The columns that must come.
    schema: SchemaRef,
}

impl Question {
    /// Gives the batches of the answer while they are wanted.
    fn ask(
        &self,
        is_wanted: &dyn Fn() -> bool,
        give: &mut dyn FnMut(RecordBatch) -> Result<bool>,
    ) -> Result<()> {
        let member = &self.part.member;
        let (schema, mut answer) =
            member.begin(&self.text, &Parameters::default(), &self.options).map_err(wrapped)?;
        let types = |schema: &Schema| {
            schema.fields().iter().map(|field| field.data_type().clone()).collect::<Vec<_>>()
        };
        if types(&schema) != types(&self.schema) {
            let what = format!(
                "it returned other columns than it was asked for ({}, not {}); bring all servers to one version",
                names(&schema),
                names(&self.schema)
            );
            return Err(wrapped(member.failed(Error::new(Reason::Database, what))));
        }
        while is_wanted() {
            match answer.next_until(Instant::now() + CHECK_INTERVAL).map_err(wrapped)? {
                Next::Waiting => {}
                Next::End => return Ok(()),
                Next::Batch(batch) => {
                    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
                    let columns = batch.columns().to_vec();
                    let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns, &rows)?;
                    if !give(batch)? {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// Sends the batches of the answer, and then that it has ended or its error.
    fn send(&self, sender: &Sender<Result<Piece>>) {
        let mut is_stopped = false;
        let done = self.ask(&|| !sender.is_closed(), &mut |batch| {
            is_stopped = sender.blocking_send(Ok(Piece::Batch(batch))).is_err();
            Ok(!is_stopped)
        });
        // It is received only where the rows are still wanted.
        let _ = sender.blocking_send(done.map(|()| Piece::End));
    }
}

fn names(schema: &Schema) -> String {
    schema.fields().iter().map(|field| field.data_type().to_string()).collect::<Vec<_>>().join(", ")
}

/// The batch without the columns that only the merge needs.
fn first_columns(batch: &RecordBatch, width: usize) -> Result<RecordBatch> {
    Ok(batch.project(&(0..width).collect::<Vec<_>>())?)
}

fn properties(
    schema: &SchemaRef,
    (time, one_value): (Option<usize>, Option<usize>),
    order: TimeOrder,
    partitions: usize,
) -> PlanProperties {
    let column = |index: usize| -> Arc<dyn PhysicalExpr> {
        Arc::new(ColumnExpr::new(schema.field(index).name(), index))
    };
    let mut equivalence = EquivalenceProperties::new(schema.clone());
    if let (Some(index), true) = (time, order != TimeOrder::None) {
        let options = SortOptions { descending: order == TimeOrder::Descending, nulls_first: false };
        let by_time = LexOrdering::new([PhysicalSortExpr::new(column(index), options)]);
        equivalence = EquivalenceProperties::new_with_orderings(schema.clone(), by_time);
    }
    if let Some(index) = one_value {
        // A failure is a missing optimisation.
        let _ = equivalence.add_constants([ConstExpr::from(column(index))]);
    }
    PlanProperties::new(
        equivalence,
        Partitioning::UnknownPartitioning(partitions),
        EmissionType::Incremental,
        Boundedness::Bounded,
    )
}

impl DisplayAs for ClusterScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.parts.iter().map(|part| part.member.name.as_str()).collect();
        write!(f, "ClusterScan: servers=[{}]", names.join(", "))?;
        // The numbers differ from server to server.
        write!(f, ", each runs {}", self.request.text(&[], self.order, self.limit))
    }
}

impl ExecutionPlan for ClusterScan {
    fn name(&self) -> &'static str {
        "ClusterScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        match self.order {
            TimeOrder::None => self.of_one(partition),
            _ => self.merged(context.session_config().batch_size()),
        }
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>, DataFusionError> {
        Ok(Arc::new(Statistics::new_unknown(&self.schema)))
    }

    fn supports_limit_pushdown(&self) -> bool {
        false
    }

    fn fetch(&self) -> Option<usize> {
        self.limit
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        let limit = limit?;
        let order = if self.order == TimeOrder::None { TimeOrder::Ascending } else { self.order };
        let mut scan = self.in_order(order)?;
        scan.limit = Some(self.limit.map_or(limit, |before| before.min(limit)));
        Some(Arc::new(scan))
    }
}
