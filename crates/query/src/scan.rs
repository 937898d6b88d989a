//! The operator that reads a table.

use crate::dictionaries::{SharedValues, with_dictionaries};
use crate::error::Error;
use crate::reader::{BySymbol, ByTime, Reading, read, read_by_symbol, read_by_time};
use crate::table::{Column, Table};
use crate::wanted::{TimeOrder, Wanted};
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column as ColumnExpr;
use datafusion::physical_expr::{
    ConstExpr, EquivalenceProperties, LexOrdering, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, Time,
};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Instant;
use tapedb_arrow::BATCH_ROWS_MAX;
use tapedb_engine::{Number, ReadCounts, RowChooser};
use tapedb_schema::Timestamp;
use tokio::sync::mpsc;

/// Batches that are read ahead of the operators.
const READ_AHEAD: usize = 2;

/// Rows of a partition, at least: for fewer of them another thread is not worth its start.
pub(crate) const PARTITION_ROWS: u64 = 200_000;

/// Reads the messages of a table.
#[derive(Debug, Clone)]
pub(crate) struct Scan {
    table: Arc<Table>,
    wanted: Wanted,
    /// Columns of the table.
    projection: Vec<usize>,
    schema: SchemaRef,
    /// Those of its columns that are dictionaries.
    dictionaries: BTreeMap<usize, Arc<SharedValues>>,
    order: TimeOrder,
    limit: Option<usize>,
    /// First and last times of the partitions, ascending.
    partitions: Vec<(i64, i64)>,
    /// Whether the operator above reads by symbol, with [`Scan::by_symbol`].
    is_by_symbol: bool,
    /// What is known exactly.
    known: Option<Known>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

/// Exact statistics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Known {
    /// Rows, if they were counted.
    pub rows: Option<usize>,
    /// Times of the first and last row.
    pub times: (i64, i64),
}

impl Scan {
    /// A scan in any order, in up to `partitions_max` partitions of different times; with a limit, the first rows by time.
    ///
    /// # Errors
    /// When the stream cannot be read.
    pub fn new(
        table: Arc<Table>,
        wanted: Wanted,
        projection: Vec<usize>,
        limit: Option<usize>,
        partitions_max: usize,
    ) -> Result<Self, Error> {
        let schema =
            Arc::new(table.schema().project(&projection).unwrap_or_else(|_| (**table.schema()).clone()));
        let is_ordered = limit.is_some() || table.latest.is_some() || table.open.in_order;
        let order = if is_ordered { TimeOrder::Ascending } else { TimeOrder::None };
        let is_one = order != TimeOrder::None || projection.is_empty();
        let partitions = if is_one { Vec::new() } else { partitions(&table, &wanted, partitions_max)? };
        let properties =
            Arc::new(properties(&schema, &table, &projection, &wanted, order, partitions.len().max(1)));
        let metrics = ExecutionPlanMetricsSet::new();
        Ok(Self {
            table,
            wanted,
            projection,
            schema,
            dictionaries: BTreeMap::new(),
            order,
            limit,
            partitions,
            is_by_symbol: false,
            known: None,
            properties,
            metrics,
        })
    }

    /// The same rows, with dictionaries in those of these columns that are read as such; `None`: there are none.
    pub fn with_dictionaries(&self, columns: &BTreeSet<usize>) -> Option<Self> {
        let is_one = |at: &&usize| self.table.is_dictionary(self.projection[**at]);
        let columns: BTreeSet<usize> = columns.iter().filter(is_one).copied().collect();
        if columns.is_empty() || self.is_by_symbol {
            return None;
        }
        let mut scan = self.clone();
        scan.schema = with_dictionaries(&self.schema, &columns);
        scan.dictionaries = columns.into_iter().map(|at| (at, Arc::default())).collect();
        scan.set_properties();
        Some(scan)
    }

    /// The same rows by time, in one partition; `None`: they are in the other order and limited.
    pub fn in_order(&self, order: TimeOrder) -> Option<Self> {
        if self.order == order {
            return Some(self.clone());
        }
        if self.limit.is_some() || self.is_by_symbol || self.table.latest.is_some() {
            return None;
        }
        let mut scan = self.clone();
        (scan.order, scan.partitions) = (order, Vec::new());
        scan.set_properties();
        Some(scan)
    }

    /// The same rows by symbol, for an operator that reads them with [`Scan::by_symbol`]; `None`: that is not possible, since there
    /// is a limit, or several spaces, whose rows of one time have no order by their sequence numbers, or rows are not messages.
    pub fn to_be_by_symbol(&self) -> Option<Self> {
        if self.limit.is_some() || self.table.open.stream.spaces() > 1 || !self.table.is_messages() {
            return None;
        }
        let mut scan = self.clone();
        (scan.order, scan.partitions, scan.is_by_symbol) = (TimeOrder::None, Vec::new(), true);
        scan.set_properties();
        Some(scan)
    }

    /// The same rows by symbol, for an operator that reads them with [`Scan::read_by_symbol`] and takes them in any order; `None`: they
    /// come in an order, or rows are not messages.
    pub fn to_be_grouped(&self) -> Option<Self> {
        let is_free = self.order == TimeOrder::None && self.limit.is_none() && !self.is_by_symbol;
        if !is_free || !self.table.is_messages() {
            return None;
        }
        let mut scan = self.clone();
        scan.is_by_symbol = true;
        Some(scan)
    }

    /// Whether the operator above reads it with [`Scan::by_symbol`] or [`Scan::read_by_symbol`].
    pub fn is_by_symbol(&self) -> bool {
        self.is_by_symbol
    }

    /// Whether all that it returns are messages of history, in one partition, so that [`Scan::in_partitions`] divides them.
    pub fn is_divisible(&self) -> bool {
        let is_one = self.partitions.is_empty() && self.limit.is_none();
        is_one && self.table.is_messages() && self.table.open.from.is_none() && !self.wanted.is_nothing()
    }

    /// The same rows in partitions of these first and last times, each of which is read as the scan is.
    pub fn in_partitions(&self, partitions: Vec<(i64, i64)>) -> Self {
        let mut scan = Self { partitions, known: None, ..self.clone() };
        scan.set_properties();
        scan
    }

    /// About how many messages are read.
    ///
    /// # Errors
    /// When the stream cannot be read.
    pub fn messages(&self) -> Result<u64, Error> {
        let messages = self.table.cursor(&self.wanted)?.stated_messages()?;
        let Some(symbols) = &self.wanted.symbols else { return Ok(messages) };
        let all = self.table.open.stream.census()?.symbols.max(1);
        Ok((u128::from(messages) * (symbols.len() as u128).min(all.into()) / u128::from(all)) as u64)
    }

    /// Times that divide the messages into up to so many parts of about equal size, ascending.
    ///
    /// # Errors
    /// When the stream cannot be read.
    pub fn cuts(&self, parts: usize) -> Result<Vec<i64>, Error> {
        let cuts = self.table.cursor(&self.wanted)?.division(parts)?;
        Ok(cuts.into_iter().map(|cut| cut.0).collect())
    }

    /// Reads some columns of a partition by symbol, in a thread of its own, with sequence numbers or not, without what `chooser` leaves
    /// out.
    ///
    /// # Errors
    /// When there are no such columns.
    pub fn by_symbol(
        &self,
        partition: usize,
        columns: &[usize],
        with_sequences: bool,
        chooser: Option<Arc<dyn RowChooser>>,
    ) -> Result<Reader<BySymbol>> {
        let reading = self.reading_of(partition, columns, BATCH_ROWS_MAX)?;
        let metrics = ReadingMetrics::new(&self.metrics, partition);
        Ok(Reader::start(
            metrics,
            |rows: &BySymbol| rows.batch.num_rows(),
            move |give| read_by_symbol(&reading, (with_sequences, chooser), give),
        ))
    }

    /// Reads some columns of a partition by time, in a thread of its own, so many rows at once.
    ///
    /// # Errors
    /// When there are no such columns.
    pub fn by_time(&self, partition: usize, columns: &[usize], batch_rows: usize) -> Result<Reader<ByTime>> {
        let reading = self.reading_of(partition, columns, batch_rows)?;
        let metrics = ReadingMetrics::new(&self.metrics, partition);
        Ok(Reader::start(
            metrics,
            |rows: &ByTime| rows.batch.num_rows(),
            move |give| read_by_time(&reading, give),
        ))
    }

    /// Reads some columns of a partition by symbol, in this thread, until all is read or `give` returns `false`.
    ///
    /// # Errors
    /// When there are no such columns, or messages cannot be read.
    pub fn read_by_symbol(
        &self,
        partition: usize,
        columns: &[usize],
        mut give: impl FnMut(BySymbol) -> bool,
    ) -> Result<()> {
        let reading = self.reading_of(partition, columns, BATCH_ROWS_MAX)?;
        let mut metrics = ReadingMetrics::new(&self.metrics, partition);
        let mut since = metrics.begin();
        let done = read_by_symbol(&reading, (false, None), |rows| {
            metrics.add(since, rows.times.len());
            let is_wanted = give(rows);
            since = Instant::now();
            is_wanted
        });
        metrics.add(since, 0);
        done
    }

    /// The first and the last time of its messages; `None`: there is none.
    ///
    /// # Errors
    /// When the stream cannot be read.
    pub fn time_range(&self) -> Result<Option<(i64, i64)>, Error> {
        let times = self.table.cursor(&self.wanted)?.time_range()?;
        Ok(times.map(|(first, last)| (first.0, last.0)))
    }

    /// At least the number of its symbols.
    pub fn symbols_most(&self) -> usize {
        let all = self.table.open.stream.census().map_or(usize::MAX, |census| census.symbols as usize);
        self.wanted.symbols.as_ref().map_or(all, |symbols| all.min(symbols.len()))
    }

    /// The same rows, with exact statistics.
    pub fn knowing(&self, known: Known) -> Self {
        Self { known: Some(known), ..self.clone() }
    }

    /// The table.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// What is read.
    pub fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    /// Whether all rows are messages, and each message that is wanted is a row.
    pub fn is_messages(&self) -> bool {
        self.limit.is_none() && self.table.is_messages()
    }

    /// Whether rows come in the order of time.
    pub fn is_ascending(&self) -> bool {
        self.order == TimeOrder::Ascending
    }

    /// Whether every row of the table that is wanted is returned, and no other one.
    pub fn is_exact(&self) -> bool {
        self.limit.is_none() && self.wanted.ranges.is_empty() && self.table.is_messages()
    }

    /// Whether a column of the scan is the time.
    pub fn is_time(&self, column: usize) -> bool {
        self.projection.get(column).is_some_and(|column| *self.table.column(*column) == Column::Time)
    }

    /// Whether a column of the scan is the symbol.
    pub fn is_symbol(&self, column: usize) -> bool {
        self.projection.get(column).is_some_and(|column| *self.table.column(*column) == Column::Symbol)
    }

    /// Whether a column of the scan has one value in all rows: the only symbol that is wanted.
    pub fn is_one_value(&self, column: usize) -> bool {
        self.is_symbol(column) && self.wanted.symbols.as_ref().is_some_and(|symbols| symbols.len() == 1)
    }

    fn set_properties(&mut self) {
        let partitions = self.partitions.len().max(1);
        let Self { schema, table, projection, wanted, order, .. } = self;
        self.properties = Arc::new(properties(schema, table, projection, wanted, *order, partitions));
    }

    fn reading(&self, partition: usize, batch_rows: usize) -> Reading {
        let mut wanted = self.wanted.clone();
        if let Some((from, last)) = self.partitions.get(partition) {
            (wanted.from, wanted.last) = (wanted.from.max(*from), wanted.last.min(*last));
        }
        Reading {
            table: self.table.clone(),
            wanted,
            projection: self.projection.clone(),
            schema: self.schema.clone(),
            dictionaries: self.dictionaries.clone(),
            order: self.order,
            limit: self.limit.map(|limit| limit as u64),
            batch_rows,
        }
    }

    /// What to read of some columns of a partition.
    fn reading_of(&self, partition: usize, columns: &[usize], batch_rows: usize) -> Result<Reading> {
        let mut reading = self.reading(partition, batch_rows);
        reading.schema = Arc::new(reading.schema.project(columns)?);
        reading.projection = columns.iter().map(|column| self.projection[*column]).collect();
        Ok(reading)
    }

    fn statistics(&self, partition: Option<usize>) -> Statistics {
        let mut statistics = Statistics::new_unknown(&self.schema);
        match &self.known {
            Some(known) if partition.is_none() => {
                statistics.num_rows = known.rows.map_or(Precision::Absent, Precision::Exact);
                for (index, column) in statistics.column_statistics.iter_mut().enumerate() {
                    column.null_count = if self.schema.field(index).is_nullable() {
                        Precision::Absent
                    } else {
                        Precision::Exact(0)
                    };
                    if self.is_time(index) {
                        *column = of_times(known.times);
                    }
                }
            }
            _ => {
                let messages = self
                    .table
                    .open
                    .stream
                    .census()
                    .map(|census| census.sealed_messages + census.log_messages);
                if let Ok(messages) = messages {
                    let share = if partition.is_some() { self.partitions.len().max(1) as u64 } else { 1 };
                    statistics.num_rows = Precision::Inexact((messages / share) as usize);
                }
            }
        }
        match self.limit {
            Some(limit) => {
                statistics.with_fetch(Some(limit), 0, 1).unwrap_or(Statistics::new_unknown(&self.schema))
            }
            None => statistics,
        }
    }
}

/// Rows that a thread reads.
#[derive(Debug)]
pub(crate) struct Reader<T> {
    batches: mpsc::Receiver<T>,
    /// `None`: it has ended.
    task: Option<SpawnedTask<Result<()>>>,
}

impl<T: Send + 'static> Reader<T> {
    /// Starts a thread, in which `read` gives what it reads until that is not wanted.
    fn start(
        mut metrics: ReadingMetrics,
        rows_of: impl Fn(&T) -> usize + Send + 'static,
        read: impl FnOnce(&mut dyn FnMut(T) -> bool) -> Result<()> + Send + 'static,
    ) -> Self {
        let (sender, batches) = mpsc::channel(READ_AHEAD);
        let task = SpawnedTask::spawn_blocking(move || {
            let mut since = metrics.begin();
            let done = read(&mut |rows| {
                metrics.add(since, rows_of(&rows));
                let is_wanted = sender.blocking_send(rows).is_ok();
                since = Instant::now();
                is_wanted
            });
            metrics.add(since, 0);
            done
        });
        Self { batches, task: Some(task) }
    }

    /// The next rows; `None`: that was all.
    ///
    /// # Errors
    /// When messages cannot be read.
    pub async fn next(&mut self) -> Result<Option<T>> {
        if let Some(rows) = self.batches.recv().await {
            return Ok(Some(rows));
        }
        if let Some(task) = self.task.take() {
            task.join_unwind().await.map_err(|error| DataFusionError::External(Box::new(error)))??;
        }
        Ok(None)
    }
}

/// What is measured of reading, on the thread that reads.
struct ReadingMetrics {
    baseline: BaselineMetrics,
    time: Time,
    bytes: Count,
    blocks: Count,
    blocks_skipped: Count,
    segments_skipped: Count,
    /// What the thread had read when it was last added.
    noted: ReadCounts,
}

impl ReadingMetrics {
    fn new(metrics: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        let counter = |name| MetricBuilder::new(metrics).counter(name, partition);
        Self {
            baseline: BaselineMetrics::new(metrics, partition),
            time: MetricBuilder::new(metrics).subset_time("time_reading", partition),
            bytes: counter("bytes_read"),
            blocks: counter("blocks_read"),
            blocks_skipped: counter("blocks_skipped"),
            segments_skipped: counter("segments_skipped"),
            noted: ReadCounts::default(),
        }
    }

    /// Begins on the thread that reads.
    fn begin(&mut self) -> Instant {
        self.noted = ReadCounts::of_this_thread();
        Instant::now()
    }

    /// Notes what has been read since: a batch, or what came behind the last one.
    fn add(&mut self, since: Instant, rows: usize) {
        self.time.add_duration(since.elapsed());
        self.baseline.record_output(rows);
        let all = ReadCounts::of_this_thread();
        let more = all.since(self.noted);
        self.noted = all;
        let counters = [
            (&self.bytes, more.bytes),
            (&self.blocks, more.blocks),
            (&self.blocks_skipped, more.blocks_skipped),
            (&self.segments_skipped, more.segments_skipped),
        ];
        for (counter, count) in counters {
            counter.add(count as usize);
        }
    }
}

/// Statistics of the column of times.
fn of_times((first, last): (i64, i64)) -> ColumnStatistics {
    let time = |time| Precision::Exact(ScalarValue::TimestampNanosecond(Some(time), Some("UTC".into())));
    let mut column = ColumnStatistics::new_unknown();
    column.null_count = Precision::Exact(0);
    (column.min_value, column.max_value) = (time(first), time(last));
    column
}

/// First and last times of partitions of about equal size.
fn partitions(table: &Table, wanted: &Wanted, partitions_max: usize) -> Result<Vec<(i64, i64)>, Error> {
    let census = table.open.stream.census()?;
    let rows = census.sealed_messages + census.log_messages;
    let parts = (rows / PARTITION_ROWS).min(partitions_max as u64) as usize;
    if parts < 2 || wanted.is_nothing() {
        return Ok(Vec::new());
    }
    let cuts = table.cursor(wanted)?.division(parts)?;
    Ok(between(cuts.into_iter().map(|cut| cut.0)))
}

/// First and last times of the partitions between these times, ascending: the first one ends before the first time, and the last one
/// begins at the last time.
pub(crate) fn between(cuts: impl IntoIterator<Item = i64>) -> Vec<(i64, i64)> {
    let mut from = i64::MIN;
    let mut partitions = Vec::new();
    for cut in cuts {
        partitions.push((from, cut - 1));
        from = cut;
    }
    partitions.push((from, i64::MAX));
    partitions
}

fn properties(
    schema: &SchemaRef,
    table: &Table,
    projection: &[usize],
    wanted: &Wanted,
    order: TimeOrder,
    partitions: usize,
) -> PlanProperties {
    let place = |wanted: &Column| projection.iter().position(|column| table.column(*column) == wanted);
    let column = |index: usize| -> Arc<dyn PhysicalExpr> {
        Arc::new(ColumnExpr::new(schema.field(index).name(), index))
    };
    let mut equivalence = EquivalenceProperties::new(schema.clone());
    // From sequence numbers on, messages come as they arrived.
    let is_by_time = order != TimeOrder::None && table.open.from.is_none();
    if let (Some(index), true) = (place(&Column::Time), is_by_time) {
        let options = SortOptions { descending: order == TimeOrder::Descending, nulls_first: false };
        let by_time = LexOrdering::new([PhysicalSortExpr::new(column(index), options)]);
        equivalence = EquivalenceProperties::new_with_orderings(schema.clone(), by_time);
    }
    if let (Some(index), Some(symbols)) = (place(&Column::Symbol), &wanted.symbols)
        && symbols.len() == 1
    {
        // Of one symbol the order by symbol and time is that by time. A failure is a missing optimisation.
        let _ = equivalence.add_constants([ConstExpr::from(column(index))]);
    }
    PlanProperties::new(
        equivalence,
        Partitioning::UnknownPartitioning(partitions),
        EmissionType::Incremental,
        Boundedness::Bounded,
    )
}

fn text_of(number: Number) -> String {
    match number {
        Number::Int(number) => number.to_string(),
        Number::Unsigned(number) => number.to_string(),
        Number::Float(number) => number.to_string(),
        Number::Decimal(number) => number.to_string(),
    }
}

impl DisplayAs for Scan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { table, wanted, schema, order, limit, .. } = self;
        let names: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        write!(f, "Scan: {}.{}, columns=[{}]", table.open.stream.name(), table.name, names.join(", "))?;
        if let Some(place) = &table.place {
            write!(f, ", in={}.{}", place.message, place.field)?;
        }
        if let Some(last) = table.latest {
            let until = if last < i64::MAX { format!(" until {}", Timestamp(last)) } else { String::new() };
            write!(f, ", latest of each symbol{until}")?;
        }
        if wanted.from > i64::MIN {
            write!(f, ", from={}", Timestamp(wanted.from))?;
        }
        if wanted.last < i64::MAX {
            write!(f, ", last={}", Timestamp(wanted.last))?;
        }
        if let Some(symbols) = &wanted.symbols {
            let first: Vec<_> = symbols.iter().take(5).map(String::as_str).collect();
            let more = if symbols.len() > first.len() { ", …" } else { "" };
            write!(f, ", symbols={}: [{}{more}]", symbols.len(), first.join(", "))?;
        }
        for (field, (least, most)) in &wanted.ranges {
            let bound = |sign, bound: &Option<Number>| {
                bound.map(|number| format!("{field} {sign} {}", text_of(number)))
            };
            let bounds: Vec<_> = [bound(">=", least), bound("<=", most)].into_iter().flatten().collect();
            write!(f, ", skips blocks without {}", bounds.join(" and "))?;
        }
        match order {
            TimeOrder::None if self.is_by_symbol => write!(f, ", order=symbol")?,
            TimeOrder::None => write!(f, ", order=stored")?,
            TimeOrder::Ascending => write!(f, ", order=time")?,
            TimeOrder::Descending => write!(f, ", order=time DESC")?,
        }
        if let Some(limit) = limit {
            write!(f, ", limit={limit}")?;
        }
        write!(f, ", partitions={}", self.partitions.len().max(1))
    }
}

impl ExecutionPlan for Scan {
    fn name(&self) -> &'static str {
        "Scan"
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
        let reading = self.reading(partition, context.session_config().batch_size());
        let mut metrics = ReadingMetrics::new(&self.metrics, partition);
        let mut builder = RecordBatchReceiverStream::builder(self.schema.clone(), READ_AHEAD);
        let sender = builder.tx();
        builder.spawn_blocking(move || {
            let mut since = metrics.begin();
            let done = read(&reading, |batch| {
                metrics.add(since, batch.num_rows());
                let is_wanted = sender.blocking_send(Ok(batch)).is_ok();
                since = Instant::now();
                is_wanted
            });
            metrics.add(since, 0);
            done
        });
        Ok(builder.build())
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        Ok(Arc::new(self.statistics(args.partition())))
    }

    fn supports_limit_pushdown(&self) -> bool {
        false
    }

    fn fetch(&self) -> Option<usize> {
        self.limit
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        let limit = limit.filter(|_| !self.is_by_symbol)?;
        let mut scan =
            if self.order == TimeOrder::None { self.in_order(TimeOrder::Ascending)? } else { self.clone() };
        scan.limit = Some(self.limit.map_or(limit, |before| before.min(limit)));
        scan.known = None;
        Some(Arc::new(scan))
    }
}
