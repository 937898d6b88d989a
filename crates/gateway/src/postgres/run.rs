//! Runs statements of a session.

use crate::postgres::catalog::{self, Asked};
use crate::postgres::copy::Copy;
use crate::postgres::copy_in::CopyIn;
use crate::postgres::failure::Failure;
use crate::postgres::output;
use crate::postgres::parameter;
use crate::postgres::session::{FLUSH_BYTES, Prepared, Session, Transaction};
use crate::postgres::source::{self, Source, Step, Writer};
use crate::postgres::statement::{CopyOptions, Kind, type_name};
use crate::postgres::types::{Column, Type};
use datafusion::common::ScalarValue;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};
use tapedb_access::{May, QueryLimits, User};
use tapedb_engine::{Query, QueryUser};
use tapedb_query::Parameters;
use tapedb_query::arrow::array::{ArrayRef, RecordBatch, StringArray};
use tapedb_query::arrow::datatypes::{DataType, Field, Schema};

/// How long rows are waited for before it is checked whether they are still wanted.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// How often it is checked while there are rows.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Memory and time to find the columns of a table that is copied into.
const COPY_QUERY_BYTES: usize = 16 << 20;
const COPY_QUERY_TIME: Duration = Duration::from_secs(30);

/// What a statement does.
pub(crate) enum Begun {
    /// It has rows; what is done, and how many rows of them are wanted.
    Rows(Box<Source>, &'static str, Option<usize>),
    Copy(Box<Source>, Copy),
    CopyIn(Box<CopyIn>),
    /// It is done.
    Done(String),
    Empty,
}

impl Session {
    /// Begins a statement.
    pub fn begin(&mut self, kind: &Kind, text: &str, values: &[ScalarValue]) -> Result<Begun, Failure> {
        self.entry.is_cancelled.store(false, Ordering::Release);
        self.backend.statements.fetch_add(1, Ordering::Relaxed);
        self.present_user()?;
        if self.transaction == Transaction::Failed
            && !matches!(kind, Kind::Commit | Kind::Rollback | Kind::Nothing("ROLLBACK"))
        {
            return Err(Failure::new("25P02", "the transaction has failed; end it with ROLLBACK"));
        }
        let done = |tag: &str| Ok(Begun::Done(tag.into()));
        match kind {
            Kind::Empty => Ok(Begun::Empty),
            Kind::Query => Ok(Begun::Rows(Box::new(self.query(text, values)?), "SELECT", None)),
            Kind::Catalog => {
                let (schema, batches) = catalog::run(&self.asked()?, text, values)?;
                Ok(Begun::Rows(Box::new(Source::ready(&schema, batches)), "SELECT", None))
            }
            Kind::Show(name) => Ok(Begun::Rows(Box::new(self.show(name)?), "SHOW", None)),
            Kind::Set { name, value } => {
                self.set(name, value.as_deref())?;
                done(if value.is_some() { "SET" } else { "RESET" })
            }
            Kind::Begin => {
                match self.transaction {
                    Transaction::None => self.transaction = Transaction::Open,
                    _ => output::warning(&mut self.out, "25001", "there is a transaction already"),
                }
                done("BEGIN")
            }
            Kind::Commit | Kind::Rollback => {
                let tag = match (kind, self.transaction) {
                    (Kind::Commit, Transaction::Open | Transaction::None) => "COMMIT",
                    _ => "ROLLBACK",
                };
                if self.transaction == Transaction::None {
                    output::warning(&mut self.out, "25P01", "there is no transaction");
                }
                self.transaction = Transaction::None;
                done(tag)
            }
            Kind::DiscardAll => {
                self.discard();
                done("DISCARD ALL")
            }
            Kind::Deallocate(name) => {
                match name {
                    None => self.statements.clear(),
                    Some(name) => {
                        let missing =
                            || Failure::new("26000", format!("there is no prepared statement {name:?}"));
                        self.statements.remove(name).ok_or_else(missing)?;
                    }
                }
                done("DEALLOCATE")
            }
            Kind::Declare { name, query, is_held } => {
                if self.transaction == Transaction::None && !is_held {
                    return Err(Failure::new("25P01", "a cursor needs a transaction: BEGIN, or WITH HOLD"));
                }
                if self.cursors.contains_key(name) {
                    return Err(Failure::new("42P03", format!("there is a cursor {name:?} already")));
                }
                if self.cursors.len() >= CURSORS_MAX {
                    return Err(Failure::new(
                        "53400",
                        format!("the session has {CURSORS_MAX} cursors; close some"),
                    ));
                }
                let source = match crate::postgres::statement::kind(query) {
                    Kind::Query => Box::new(self.query(query, values)?),
                    kind => match self.begin(&kind, query, values)? {
                        Begun::Rows(source, _, None) => source,
                        _ => return Err(Failure::new("42P11", "a cursor is for a query")),
                    },
                };
                self.cursors.insert(name.clone(), (source, *is_held));
                done("DECLARE CURSOR")
            }
            Kind::Fetch { name, rows } => {
                let missing = || Failure::new("34000", format!("there is no cursor {name:?}"));
                let (source, _) = self.cursors.get_mut(name).ok_or_else(missing)?;
                // While its rows are sent the cursor is empty; it gets back what is left.
                let columns = source.columns.clone();
                let left =
                    std::mem::replace(&mut **source, Source::ready(&Arc::new(Schema::empty()), Vec::new()));
                source.columns = columns;
                Ok(Begun::Rows(Box::new(left), "FETCH", *rows))
            }
            Kind::Close(name) => {
                match name {
                    None => self.cursors.clear(),
                    Some(name) => {
                        let missing = || Failure::new("34000", format!("there is no cursor {name:?}"));
                        self.cursors.remove(name).ok_or_else(missing)?;
                    }
                }
                done("CLOSE CURSOR")
            }
            Kind::CopyOut { query, options } => {
                let begun = match crate::postgres::statement::kind(query) {
                    Kind::Query => Begun::Rows(Box::new(self.query(query, values)?), "", None),
                    kind @ (Kind::Catalog | Kind::Show(_)) => self.begin(&kind, query, values)?,
                    _ => return Err(Failure::new("42601", "COPY is for a query")),
                };
                match begun {
                    Begun::Rows(source, ..) => Ok(Begun::Copy(source, Copy::new(options.clone()))),
                    other => Ok(other),
                }
            }
            Kind::CopyIn { table, columns, options } => {
                Ok(Begun::CopyIn(Box::new(self.copy_target(table, columns, options.clone())?)))
            }
            Kind::Nothing(tag) => done(tag),
            Kind::Refused(what) => Err(Failure::unsupported(what.clone())),
        }
    }

    /// The user as it is now.
    pub fn present_user(&self) -> Result<Arc<User>, Failure> {
        let gone = || {
            Failure::fatal(
                "28000",
                "the user was removed, or its password is not valid any more; the connection is closed",
            )
        };
        self.user.user().ok_or_else(gone)
    }

    /// The user as the engine sees it.
    fn query_user(&self) -> Result<(QueryUser, QueryLimits), Failure> {
        let user = self.present_user()?;
        let limits = QueryLimits::of(&user, &self.backend.options.access.limits);
        let (name, memory_bytes) = (user.name.clone(), limits.memory_bytes);
        let may_read = Arc::new(move |stream: &str| user.may(May::Read, stream));
        Ok((QueryUser { name, may_read, memory_bytes }, limits))
    }

    /// Begins a query of streams.
    fn query(&self, text: &str, values: &[ScalarValue]) -> Result<Source, Failure> {
        let user = self.present_user()?;
        let limits = &self.backend.options.access.limits;
        let permit = self.quota.as_ref().and_then(|(quota, _)| quota.query(&user, limits));
        let Some(permit) = permit else {
            return Err(Failure::new("53400", "the user has too many queries at once; end or close some"));
        };
        let (query_user, limits) = self.query_user()?;
        let time_limit = [limits.time, self.settings.statement_timeout()].into_iter().flatten().min();
        let query = Query {
            text: text.into(),
            parameters: Vec::new(),
            decimals: "float".into(),
            dictionaries: false,
            time_limit,
            rows_max: limits.rows,
        };
        let parameters = match values {
            [] => Parameters::default(),
            values => Parameters::numbered(values.iter().cloned()),
        };
        let rows = self.backend.options.queries.rows(&query, &parameters, &query_user)?;
        Ok(Source::query(rows, permit))
    }

    /// The stream that rows are copied into, and its columns.
    fn copy_target(&self, table: &str, columns: &str, options: CopyOptions) -> Result<CopyIn, Failure> {
        let user = self.present_user()?;
        let name = user.name.clone();
        // A stream that the user may write has columns for it, whether it may read them or not.
        let writer = user.clone();
        let may_read =
            Arc::new(move |stream: &str| writer.may(May::Write, stream) || writer.may(May::Read, stream));
        let asked = QueryUser { name, may_read, memory_bytes: COPY_QUERY_BYTES };
        let query = Query {
            text: format!("SELECT {columns} FROM {table} LIMIT 0"),
            parameters: Vec::new(),
            decimals: "float".into(),
            dictionaries: false,
            time_limit: Some(COPY_QUERY_TIME),
            rows_max: None,
        };
        let queries = &self.backend.options.queries;
        let rows = queries.rows(&query, &Parameters::default(), &asked)?;
        let (schema, streams) = (rows.schema(), rows.streams());
        drop(rows);
        let [stream] = &streams[..] else {
            return Err(Failure::new("42809", format!("{table} is no table of a stream")));
        };
        if !user.may(May::Write, stream) {
            let text = format!("user {:?} has no right to write stream {stream:?}", user.name);
            return Err(Failure::new("42501", text));
        }
        let stream =
            queries.database().stream(stream).map_err(|error| Failure::new("58000", error.to_string()))?;
        let record = type_name(table).and_then(|(name, is_exact)| {
            let mut records = stream.schema().records.iter().filter(|record| record.message);
            let is_named =
                |record: &str| if is_exact { record == name } else { record.eq_ignore_ascii_case(name) };
            records.find(|record| is_named(&record.name)).map(|record| record.name.clone())
        });
        // What the stream gives itself is among all columns, and in no row that is copied in.
        let given = |name: &str| columns == "*" && matches!(name, "sequence" | "space");
        let fields: Vec<_> = schema.fields().iter().filter(|field| !given(field.name())).cloned().collect();
        CopyIn::new(&stream, record, &Arc::new(Schema::new(fields)), options)
    }

    /// What a query of the catalogue may know.
    fn asked(&self) -> Result<Asked<'_>, Failure> {
        let (user, _) = self.query_user()?;
        Ok(Asked {
            backend: &self.backend,
            user,
            name: &self.name,
            settings: &self.settings,
            process: self.entry.process,
        })
    }

    fn show(&self, name: &str) -> Result<Source, Failure> {
        let texts = |values: Vec<&str>| Arc::new(StringArray::from(values)) as ArrayRef;
        let (names, columns) = match name {
            "all" => {
                let (names, values): (Vec<_>, Vec<_>) = self.settings.all().unzip();
                (vec!["name", "setting"], vec![texts(names), texts(values)])
            }
            _ => {
                let missing = || Failure::new("42704", format!("there is no setting {name:?}"));
                (vec![name], vec![texts(vec![self.settings.get(name).ok_or_else(missing)?])])
            }
        };
        let fields: Vec<Field> = names.iter().map(|name| Field::new(*name, DataType::Utf8, false)).collect();
        let schema = Arc::new(Schema::new(fields));
        let batch = RecordBatch::try_new(schema.clone(), columns)
            .map_err(|error| Failure::new("XX000", error.to_string()))?;
        Ok(Source::ready(&schema, vec![batch]))
    }

    fn set(&mut self, name: &str, value: Option<&str>) -> Result<(), Failure> {
        let before: Vec<String> = self.settings.reported().map(|(_, value)| value.into()).collect();
        self.settings.set(name, value)?;
        let changed = self.settings.reported().zip(before).filter(|((_, now), before)| now != before);
        changed.for_each(|((name, now), _)| output::parameter(&mut self.out, name, now));
        Ok(())
    }

    /// Finds the columns of a statement, and the types of its parameters that are not stated.
    pub fn describe(&self, prepared: &mut Prepared) -> Result<(), Failure> {
        let description = match &prepared.kind {
            Kind::Query => {
                self.backend.options.queries.describe(&prepared.text, false, &self.query_user()?.0)?
            }
            Kind::Catalog => catalog::describe(&self.asked()?, &prepared.text)?,
            Kind::CopyOut { query, .. } if !prepared.types.is_empty() => {
                self.backend.options.queries.describe(query, false, &self.query_user()?.0)?
            }
            kind => {
                prepared.columns = self.columns_of(kind);
                prepared.types.iter_mut().for_each(|oid| *oid = parameter::oid_of(*oid, None));
                return Ok(());
            }
        };
        prepared.inferred = prepared
            .types
            .iter_mut()
            .enumerate()
            .map(|(index, oid)| {
                let inferred = description.parameters.get(&(index + 1).to_string());
                let inferred = inferred.and_then(Option::as_ref).filter(|_| parameter::is_unstated(*oid));
                *oid = parameter::oid_of(*oid, inferred);
                inferred.cloned()
            })
            .collect();
        if !matches!(prepared.kind, Kind::CopyOut { .. }) {
            prepared.columns = Some(source::columns(&description.columns));
        }
        Ok(())
    }

    /// The columns of what is no query.
    pub fn columns_of(&self, kind: &Kind) -> Option<Vec<Column>> {
        let text = |name: &str| Column { name: name.into(), ty: Type::Text };
        match kind {
            Kind::Fetch { name, .. } => self.cursors.get(name).map(|(source, _)| source.columns.clone()),
            Kind::Show(name) if name == "all" => Some(vec![text("name"), text("setting")]),
            Kind::Show(name) => Some(vec![text(name)]),
            _ => None,
        }
    }

    /// Sends rows, at most so many. Returns their number.
    pub fn send_rows(
        &mut self,
        source: &mut Source,
        writer: &mut Writer,
        rows_max: Option<usize>,
    ) -> Result<u64, Failure> {
        let mut sent = 0;
        loop {
            let left = rows_max.map_or(usize::MAX, |most| most - sent);
            if left == 0 {
                return Ok(sent as u64);
            }
            self.check(source)?;
            let (batch, rows) = match source.step(left, CHECK_INTERVAL)? {
                Step::End => return Ok(sent as u64),
                Step::Waiting => {
                    self.flush()?;
                    self.look()?;
                    continue;
                }
                Step::Rows(batch, rows) => (batch, rows),
            };
            sent += rows.len();
            let cells = source::cells(&batch, &source.columns)?;
            for row in rows {
                match writer {
                    Writer::Rows(formats) => source::row(&cells, formats, row, &mut self.out),
                    Writer::Copy(copy) => copy.row(&cells, row, &mut self.out),
                }
                if self.out.len() >= FLUSH_BYTES {
                    self.flush()?;
                    self.pace(source)?;
                }
            }
        }
    }

    /// Whether the rows are still wanted, and may be read.
    fn check(&mut self, source: &mut Source) -> Result<(), Failure> {
        if self.entry.is_cancelled.swap(false, Ordering::AcqRel) {
            return Err(Failure::cancelled());
        }
        if self.is_stopping() {
            return Err(Failure::shutting_down());
        }
        let user = self.present_user()?;
        if let Some(stream) = source.streams().iter().find(|stream| !user.may(May::Read, stream)) {
            return Err(Failure::new(
                "42501",
                format!("user {:?} has no right to read stream {stream:?}", user.name),
            ));
        }
        if self.looked_at.elapsed() > LOOK_INTERVAL {
            self.look()?;
        }
        Ok(())
    }

    /// Whether the client is still there.
    fn look(&mut self) -> Result<(), Failure> {
        self.looked_at = Instant::now();
        match self.socket.is_gone() && !self.is_stopping() {
            true => Err(Failure::fatal("08006", "the client has left")),
            false => Ok(()),
        }
    }

    /// Waits until the user may be sent more.
    fn pace(&mut self, source: &mut Source) -> Result<(), Failure> {
        loop {
            let wait =
                self.quota.as_ref().map_or(Duration::ZERO, |(quota, _)| quota.rate_limit.wait(Instant::now));
            if wait.is_zero() {
                return Ok(());
            }
            thread::sleep(wait.min(CHECK_INTERVAL));
            self.check(source)?;
        }
    }
}

/// Cursors of one session.
const CURSORS_MAX: usize = 100;
