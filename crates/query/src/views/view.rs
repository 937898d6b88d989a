//! One view: what its query is about, and how it is brought up to date.

use super::last::{self, Last};
use super::progress::{Progress, Steps};
use super::registry::Entry;
use super::target::{self, Columns};
use crate::error::{Error, Reason};
use crate::live::{Shape, Slice, begin_of, end_of, shape_of};
use crate::options::{Options, Place};
use crate::parameters::Parameters;
use crate::session::{Run, Sql};
use datafusion::arrow::array::RecordBatch;
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan};
use std::collections::BTreeMap;
use std::ops::Range;
use tapedb_engine::{Database, Durability, Stream, StreamOptions};
use tapedb_schema::Timestamp;

/// More ranges of late buckets than this are replaced as one: each replacement seals the view's log and writes a segment, which takes
/// longer than computing rows again that have not changed.
const RANGES_MAX: usize = 8;

/// More late buckets than this are taken for one range at once: a million of them are not held in memory.
const NOTED_MAX: usize = 4096;

/// What a view is.
#[derive(Debug)]
pub(super) struct Definition {
    name: String,
    run: Run,
    /// The stream of the query.
    source: String,
    kind: Kind,
    columns: Columns,
}

/// What the rows of a view are.
#[derive(Debug)]
enum Kind {
    /// Groups by this bucket of time.
    Buckets(Expr),
    /// The last row of each symbol.
    Last,
}

impl Definition {
    /// The view of a query.
    ///
    /// # Errors
    /// When the query is wrong, or cannot be a view.
    pub fn of(sql: &Sql, name: &str, query: &str) -> Result<Self, Error> {
        let run = Run {
            text: query.into(),
            parameters: Parameters::default(),
            options: Options { place: Place::Here, ..Options::default() },
            may_read: None,
            runtime: None,
            cluster: None,
        };
        let planned = sql.plan(&run, &Slice::From(None))?;
        let (kind, time) = match &planned.plan {
            LogicalPlan::Distinct(Distinct::On(distinct)) => (Kind::Last, last::time_of(distinct)?),
            plan => {
                let Shape::Buckets(bucket) = shape_of(plan)? else {
                    return Err(Error::query(
                        "a view has groups by a bucket of time, or last values; add GROUP BY time_bucket('1 minute', time), or write \
                         SELECT DISTINCT ON (symbol) … ORDER BY symbol, time DESC",
                    ));
                };
                let Some(time) = column_of(plan, &bucket) else {
                    return Err(Error::query("the view has no column with its bucket; add it to the SELECT"));
                };
                (Kind::Buckets(*bucket), time)
            }
        };
        let sources = planned.snapshot.open_names();
        let [source] = &sources[..] else {
            return Err(Error::query("a view is of one stream; joins cannot be views"));
        };
        if has_join(&planned.plan) {
            return Err(Error::query("a view is of one stream; joins cannot be views"));
        }
        let columns = Columns::of(&planned.schema(), time)?;
        // Names and types that a stream cannot have are refused at once.
        columns.schema(name)?;
        Ok(Self { name: name.into(), run, source: source.clone(), kind, columns })
    }

    /// Creates the stream of the view.
    ///
    /// # Errors
    /// When there is another one, or it cannot be written.
    pub fn create(&self, db: &Database) -> Result<Stream, Error> {
        let options = StreamOptions { durability: Durability::Sync, ..StreamOptions::default() };
        Ok(db.open_or_create_stream(&self.name, self.columns.schema(&self.name)?, options)?)
    }

    /// The rows of the query on a part of its stream.
    fn rows(
        &self,
        sql: &Sql,
        slice: &Slice,
    ) -> Result<impl Iterator<Item = Result<RecordBatch, Error>> + use<>, Error> {
        let planned = sql.plan(&self.run, slice)?;
        let mut rows = sql.execute(&self.run, planned)?;
        Ok(std::iter::from_fn(move || rows.next_batch().transpose()))
    }

    /// The rows of the query of a range of times.
    fn rows_between(
        &self,
        sql: &Sql,
        times: Range<i64>,
    ) -> Result<impl Iterator<Item = Result<RecordBatch, Error>> + use<>, Error> {
        self.rows(sql, &Slice::Times(times.start, times.end))
    }
}

/// A view that is kept up to date.
#[derive(Debug)]
pub(super) struct View {
    definition: Definition,
    target: Stream,
    progress: Progress,
    /// The rows of a view of last values.
    last: Last,
}

impl View {
    /// Opens a view where it was left: rows of buckets that were not noted are deleted.
    ///
    /// # Errors
    /// When the query has become wrong, or its stream is another one.
    pub fn open(sql: &Sql, (name, entry): (&str, &Entry), progress: Option<Progress>) -> Result<Self, Error> {
        let definition = Definition::of(sql, name, &entry.query)?;
        let db = sql.database();
        let source = db.stream(&definition.source)?;
        let is_there = db.streams()?.iter().any(|stream| stream == name);
        let target = definition.create(db)?;
        let progress = progress.filter(|_| is_there).unwrap_or_else(|| Progress {
            defined: entry.defined,
            created: source.created(),
            ends: vec![0; source.spaces() as usize],
            passed: Timestamp(i64::MIN),
        });
        let mut view = Self { definition, target, progress, last: Last::default() };
        view.check_source(&source)?;
        match view.definition.kind {
            Kind::Last => view.last = Last::open(&view.target)?,
            Kind::Buckets(_) => {
                if let Some((_, last)) = view.target.stats()?.times
                    && last >= view.progress.passed
                {
                    view.target.truncate(view.progress.passed)?;
                }
            }
        }
        Ok(view)
    }

    fn check_source(&self, source: &Stream) -> Result<(), Error> {
        if source.created() == self.progress.created {
            return Ok(());
        }
        let what =
            format!("stream {:?} of the view was deleted and created again; drop the view", source.name());
        Err(Error::new(Reason::Query, what))
    }

    /// Brings the view up to date; `false`: there was nothing new, or it is too early.
    ///
    /// # Errors
    /// When messages cannot be read or rows written. The view is then to be opened again.
    pub fn step(&mut self, sql: &Sql, steps: &mut Steps) -> Result<bool, Error> {
        let source = sql.database().stream(&self.definition.source)?;
        self.check_source(&source)?;
        // First: messages that arrive later are new in the next step, whether the rows of this one have them or not.
        let ends = source.next_sequences()?;
        if ends == self.progress.ends || !self.last.is_due() {
            return Ok(false);
        }
        let latest = source.stats()?.times.map(|(_, last)| last.0);
        let passed = match &self.definition.kind {
            Kind::Buckets(bucket) => self.step_buckets(sql, &source, (bucket, latest))?,
            Kind::Last => {
                // All of them are found from the end of the stream.
                let is_first = self.progress.ends.iter().all(|end| *end == 0);
                let from = Some((source.name().to_string(), self.progress.ends.clone()));
                let rows = self.definition.rows(sql, &Slice::From(from.filter(|_| !is_first)))?;
                self.last.replace(sql, (&self.target, &self.definition.columns), rows)?;
                latest.unwrap_or(i64::MIN)
            }
        };
        self.progress = Progress { ends, passed: Timestamp(passed), ..self.progress.clone() };
        steps.note(&self.definition.name, &self.progress)?;
        Ok(true)
    }

    /// Corrects the rows of buckets with late messages, and appends those of closed buckets: before which time they are now.
    fn step_buckets(
        &self,
        sql: &Sql,
        source: &Stream,
        (bucket, latest): (&Expr, Option<i64>),
    ) -> Result<i64, Error> {
        let Definition { columns, .. } = &self.definition;
        for (from, to) in self.late(sql, source, bucket)? {
            let rows = self.definition.rows_between(sql, from..to)?;
            target::replace(&self.target, columns, from..to, rows)?;
        }
        let passed = self.progress.passed.0;
        let Some(latest) = latest else { return Ok(passed) };
        let begin = begin_of(bucket, latest, sql.state())?;
        if begin > passed {
            let rows = self.definition.rows_between(sql, passed..begin)?;
            target::append(&self.target, columns, rows)?;
        }
        Ok(begin.max(passed))
    }

    /// The buckets before the passed time that new messages are in, neighbours together.
    fn late(&self, sql: &Sql, source: &Stream, bucket: &Expr) -> Result<BTreeMap<i64, i64>, Error> {
        let mut found: BTreeMap<i64, i64> = BTreeMap::new();
        if self.progress.passed.0 == i64::MIN {
            return Ok(found);
        }
        let mut cursor = source.cursor().from_sequences(self.progress.ends.iter().copied()).open()?;
        while let Some(message) = cursor.next()? {
            let time = message.time().0;
            let is_known = || found.range(..=time).next_back().is_some_and(|(_, to)| time < *to);
            if time >= self.progress.passed.0 || is_known() {
                continue;
            }
            let begin = begin_of(bucket, time, sql.state())?;
            found.insert(begin, end_of(bucket, begin, sql.state())?);
            if found.len() > NOTED_MAX
                && let (Some((from, _)), Some((_, to))) = (found.first_key_value(), found.last_key_value())
            {
                found = BTreeMap::from([(*from, *to)]);
            }
        }
        let mut merged: BTreeMap<i64, i64> = BTreeMap::new();
        for (from, to) in found {
            match merged.last_entry() {
                Some(mut last) if *last.get() >= from => *last.get_mut() = to,
                _ => _ = merged.insert(from, to),
            }
        }
        if merged.len() > RANGES_MAX
            && let (Some((from, _)), Some((_, to))) = (merged.first_key_value(), merged.last_key_value())
        {
            return Ok(BTreeMap::from([(*from, *to)]));
        }
        Ok(merged)
    }
}

/// The column of a plan that has the bucket.
fn column_of(plan: &LogicalPlan, bucket: &Expr) -> Option<usize> {
    let plain = |expr: &Expr| {
        let mut expr = expr.clone();
        while let Expr::Alias(alias) = expr {
            expr = *alias.expr;
        }
        expr
    };
    match plan {
        LogicalPlan::Projection(projection) => {
            let inner = column_of(&projection.input, bucket)?;
            let is_it = |expr: &Expr| {
                matches!(plain(expr), Expr::Column(column)
                    if projection.input.schema().maybe_index_of_column(&column) == Some(inner))
            };
            projection.expr.iter().position(is_it)
        }
        LogicalPlan::SubqueryAlias(alias) => column_of(&alias.input, bucket),
        LogicalPlan::Filter(filter) => column_of(&filter.input, bucket),
        LogicalPlan::Aggregate(aggregate) => {
            aggregate.group_expr.iter().position(|group| plain(group) == *bucket)
        }
        _ => None,
    }
}

/// Whether a plan has a join: late messages of its other side would change rows of other times.
fn has_join(plan: &LogicalPlan) -> bool {
    plan.inputs().len() > 1 || plan.inputs().into_iter().any(has_join)
}
