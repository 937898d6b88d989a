//! The rows of a live query, slice by slice.

use super::bucket::begin_of;
use super::shape::{Shape, shape_of};
use super::slice::Slice;
use crate::error::{Error, Reason};
use crate::next::Next;
use crate::rows::Rows;
use crate::session::{Planned, Run, Sql};
use datafusion::arrow::datatypes::SchemaRef;
use std::time::{Duration, Instant};
use tapedb_engine::Database;
use tapedb_schema::Timestamp;

/// How long to wait before looking again whether something has arrived.
const POLL: Duration = Duration::from_millis(10);

/// A stream without new messages for so long does not hold up others, and its last messages have no more of the same time.
const IDLE: Duration = Duration::from_secs(1);

/// The longest pause after a slice: as long as the work on it, so that reading the same again for each slice takes half a thread at most.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// A live query.
#[derive(Debug)]
pub(crate) struct LiveRows {
    sql: Sql,
    run: Run,
    shape: Shape,
    schema: SchemaRef,
    /// The columns as the query states them.
    columns: SchemaRef,
    /// The rows of the slice that is being read.
    current: Option<Rows>,
    /// Where the next slice begins.
    next: Slice,
    /// When the work on the slice began, and when the next one may.
    times: (Instant, Instant),
    /// The streams of the query, and how far they are.
    streams: Vec<Progress>,
}

/// How far a stream is.
#[derive(Debug)]
struct Progress {
    name: String,
    created: Timestamp,
    ends: Vec<u64>,
    /// Its latest time.
    time: Option<i64>,
    changed: Instant,
}

impl LiveRows {
    /// Begins with history.
    ///
    /// # Errors
    /// When the query is wrong, or cannot run live.
    pub fn begin(sql: &Sql, run: Run) -> Result<Self, Error> {
        let planned = sql.plan(&run, &Slice::From(None))?;
        let shape = shape_of(&planned.plan)?;
        let columns = planned.schema();
        let now = Instant::now();
        let of = |name: String| -> Result<Progress, Error> {
            let created = planned.snapshot.stream(&name)?.stream.created();
            Ok(Progress { name, created, ends: Vec::new(), time: None, changed: now })
        };
        let streams = planned.snapshot.open_names().into_iter().map(of).collect::<Result<_, _>>()?;
        let (first, next) = match &shape {
            Shape::Messages(stream) => {
                let next = after(&planned, stream)?;
                (planned, next)
            }
            // It is known later how far history goes: the first slice is empty, and has the columns.
            _ => (sql.plan(&run, &Slice::Times(0, 0))?, Slice::Times(i64::MIN, i64::MIN)),
        };
        let first = sql.execute(&run, first)?;
        let (sql, schema, times) = (sql.clone(), first.schema(), (now, now));
        Ok(Self { sql, run, shape, schema, columns, current: Some(first), next, times, streams })
    }

    /// The columns.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Names of the streams that it reads.
    pub fn streams(&self) -> Vec<String> {
        self.streams.iter().map(|stream| stream.name.clone()).collect()
    }

    /// The next batch, if it is there in time; `None`: whenever it comes.
    ///
    /// # Errors
    /// As [`Rows::next_batch`].
    pub fn next_until(&mut self, until: Option<Instant>) -> Result<Next, Error> {
        loop {
            if let Some(rows) = &mut self.current {
                match rows.next_at(until)? {
                    Next::End => {
                        let now = Instant::now();
                        self.times.1 = now + now.duration_since(self.times.0).clamp(POLL, PAUSE_MAX);
                        self.current = None;
                    }
                    next => return Ok(next),
                }
                continue;
            }
            let now = Instant::now();
            if now >= self.times.1 {
                self.times = (now, now + POLL);
                if self.begin_slice()? {
                    continue;
                }
            }
            let wait = self.times.1.saturating_duration_since(Instant::now());
            let left = until.map_or(wait, |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() && until.is_some() {
                return Ok(Next::Waiting);
            }
            std::thread::sleep(left.min(wait));
        }
    }

    /// Begins the next slice; `false`: there is nothing in it yet.
    fn begin_slice(&mut self) -> Result<bool, Error> {
        if !self.look()? && matches!(self.shape, Shape::Messages(_)) {
            return Ok(false);
        }
        if let Shape::Messages(stream) = &self.shape {
            let planned = self.planned(&self.next)?;
            self.next = after(&planned, stream)?;
            self.current = Some(self.sql.execute(&self.run, planned)?);
            return Ok(true);
        }
        let Slice::Times(_, from) = self.next else { return Ok(false) };
        let Some(to) = self.passed()?.filter(|to| *to > from) else { return Ok(false) };
        let slice = Slice::Times(from, to);
        let planned = self.planned(&slice)?;
        self.next = slice;
        self.current = Some(self.sql.execute(&self.run, planned)?);
        Ok(true)
    }

    fn planned(&self, slice: &Slice) -> Result<Planned, Error> {
        let planned = self.sql.plan(&self.run, slice)?;
        if planned.schema().fields() != self.columns.fields() {
            let what =
                "the schema of a stream has changed, and the columns of the query with it; start it again";
            return Err(Error::new(Reason::Query, what));
        }
        Ok(planned)
    }

    /// Looks how far the streams are; whether one of them has new messages.
    fn look(&mut self) -> Result<bool, Error> {
        let db: &Database = self.sql.database();
        let is_timed = !matches!(self.shape, Shape::Messages(_));
        let mut is_changed = false;
        for progress in &mut self.streams {
            let stream = db.stream(&progress.name)?;
            if stream.created() != progress.created {
                let what = format!(
                    "stream {:?} has been deleted and created again; start the query again",
                    progress.name
                );
                return Err(Error::new(Reason::Query, what));
            }
            let ends = stream.next_sequences()?;
            if ends == progress.ends {
                continue;
            }
            (progress.ends, progress.changed, is_changed) = (ends, Instant::now(), true);
            if is_timed {
                progress.time = stream.stats()?.times.map(|(_, last)| last.0);
            }
        }
        Ok(is_changed)
    }

    /// The time before which there is everything, but for late messages.
    fn passed(&self) -> Result<Option<i64>, Error> {
        let times = || self.streams.iter().filter_map(|stream| Some((stream.time?, stream.changed)));
        let active = times().filter(|(_, changed)| changed.elapsed() < IDLE).map(|(time, _)| time).min();
        let Some(latest) = times().map(|(time, _)| time).max() else { return Ok(None) };
        let lateness = i64::try_from(self.run.options.lateness.as_nanos()).unwrap_or(i64::MAX);
        match &self.shape {
            Shape::Buckets(bucket) => {
                let time = active.unwrap_or(latest).saturating_sub(lateness);
                Ok(Some(begin_of(bucket, time, self.sql.state())?))
            }
            // Of the latest time more may come at once, and after a while no more.
            _ => Ok(Some(active.map_or(latest.saturating_add(1), |time| time.saturating_sub(lateness)))),
        }
    }
}

/// The part of a stream behind that of a plan.
fn after(planned: &Planned, stream: &str) -> Result<Slice, Error> {
    let ends = planned.snapshot.stream(stream)?.ends()?.to_vec();
    Ok(Slice::From(Some((stream.into(), ends))))
}
