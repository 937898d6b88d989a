//! A session: messages of a client, one after the other.

use crate::postgres::array;
use crate::postgres::backend::Backend;
use crate::postgres::catalog;
use crate::postgres::copy_in::CopyIn;
use crate::postgres::failure::Failure;
use crate::postgres::registry::Entry;
use crate::postgres::run::Begun;
use crate::postgres::settings::Settings;
use crate::postgres::socket::{Socket, is_waiting};
use crate::postgres::source::{Source, Writer};
use crate::postgres::statement::{self, Kind};
use crate::postgres::types::Column;
use crate::postgres::{output, parameter};
use datafusion::common::ScalarValue;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tapedb_access::{AuthenticatedUser, Permit, UserQuota};
use tapedb_pg_wire::{self as input, Bind, MESSAGE_BYTES_MAX, Malformed, Message};
use tapedb_query::arrow::datatypes::DataType;

/// Bytes that wait before they are sent.
pub(crate) const FLUSH_BYTES: usize = 64 << 10;
/// Prepared statements, and portals, of one session.
const NAMES_MAX: usize = 1000;
/// Bytes of the texts and values of all of them.
const HELD_BYTES_MAX: usize = 2 * MESSAGE_BYTES_MAX;

/// How long rows of a copy are waited for before it is checked whether it is to end.
const COPY_WAIT: Duration = Duration::from_millis(200);

/// Where a session is in a transaction. Transactions change nothing: each statement reads as of its own moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transaction {
    None = b'I' as isize,
    Open = b'T' as isize,
    Failed = b'E' as isize,
}

/// A prepared statement.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub text: String,
    pub kind: Kind,
    /// Types of its parameters.
    pub types: Vec<u32>,
    /// What the query makes of those that the client has not stated.
    pub inferred: Vec<Option<DataType>>,
    /// The columns of its rows, where they are known.
    pub columns: Option<Vec<Column>>,
}

/// A prepared statement with values.
pub(crate) struct Portal {
    pub statement: Arc<Prepared>,
    values: Vec<ScalarValue>,
    /// Bytes of the values.
    bytes: usize,
    /// Which columns are binary.
    results: Vec<bool>,
    state: PortalState,
}

enum PortalState {
    New,
    /// Rows are there, and the name of what was done.
    Rows(Box<Source>, &'static str),
    Done,
}

/// A session.
pub(crate) struct Session {
    pub socket: Socket,
    pub backend: Arc<Backend>,
    pub entry: Arc<Entry>,
    pub user: AuthenticatedUser,
    /// The user's name as the client states it.
    pub name: String,
    pub settings: Settings,
    pub out: Vec<u8>,
    pub quota: Option<(Arc<UserQuota>, Permit)>,
    pub transaction: Transaction,
    pub statements: HashMap<String, Arc<Prepared>>,
    portals: HashMap<String, Portal>,
    /// Cursors of `DECLARE`, and whether they outlive their transaction.
    pub cursors: HashMap<String, (Box<Source>, bool)>,
    /// After an error messages are skipped until `Sync`.
    is_skipping: bool,
    pub looked_at: Instant,
}

/// Whether a session goes on.
enum Next {
    Message,
    End,
}

impl Session {
    pub fn new(
        socket: Socket,
        backend: Arc<Backend>,
        entry: Arc<Entry>,
        user: AuthenticatedUser,
        name: String,
        settings: Settings,
    ) -> Self {
        Self {
            socket,
            backend,
            entry,
            user,
            name,
            settings,
            out: Vec::new(),
            quota: None,
            transaction: Transaction::None,
            statements: HashMap::new(),
            portals: HashMap::new(),
            cursors: HashMap::new(),
            is_skipping: false,
            looked_at: Instant::now(),
        }
    }

    /// Serves messages until the session ends.
    pub fn run(mut self) {
        if let Err(failure) = self.serve() {
            output::failure(&mut self.out, &failure);
            let until = Instant::now() + Duration::from_secs(1);
            let mut check = || match Instant::now() < until {
                true => Ok(()),
                false => Err(io::ErrorKind::TimedOut.into()),
            };
            let _ = self.socket.write(&self.out, &mut check);
        }
        self.socket.close();
    }

    fn serve(&mut self) -> Result<(), Failure> {
        self.greet()?;
        loop {
            let Some((kind, body)) = self.receive()? else { return Ok(()) };
            match self.message(kind, &body) {
                Ok(Next::Message) => {}
                Ok(Next::End) => return Ok(()),
                Err(failure) if failure.is_fatal => return Err(failure),
                Err(failure) => {
                    output::failure(&mut self.out, &failure);
                    if self.transaction == Transaction::Open {
                        self.transaction = Transaction::Failed;
                    }
                    match kind {
                        b'Q' => self.ready(),
                        _ => self.is_skipping = true,
                    }
                }
            }
        }
    }

    /// What the client gets when its user is known.
    fn greet(&mut self) -> Result<(), Failure> {
        let gone = || Failure::fatal("28000", "the user was removed");
        let user = self.user.user().ok_or_else(gone)?;
        let access = &self.backend.options.access;
        let quota = access.quotas.open(&user, &access.limits);
        self.quota = Some(
            quota.ok_or_else(|| Failure::fatal("53300", "the user has too many connections; close some"))?,
        );
        output::message(&mut self.out, b'R', &0u32.to_be_bytes());
        let own = [("is_superuser", "off"), ("session_authorization", &self.name)];
        for (name, value) in self.settings.reported().chain(own) {
            output::parameter(&mut self.out, name, value);
        }
        output::key(&mut self.out, self.entry.process, self.entry.secret);
        self.ready();
        Ok(())
    }

    /// The next message; `None`: the client has left.
    fn receive(&mut self) -> Result<Option<(u8, Vec<u8>)>, Failure> {
        loop {
            let found = input::frame(self.socket.input(), MESSAGE_BYTES_MAX);
            if let Some((kind, body, length)) = found.map_err(Failure::protocol)? {
                let body = body.to_vec();
                self.socket.consume(length);
                return Ok(Some((kind, body)));
            }
            self.flush()?;
            if self.socket.set_read_timeout(None).is_err() {
                return Ok(None);
            }
            match self.socket.fill() {
                Ok(true) => {}
                Ok(false) if self.is_stopping() => return Err(Failure::shutting_down()),
                Err(error) if is_waiting(&error) => {}
                Ok(false) | Err(_) => return Ok(None),
            }
            if self.is_stopping() {
                return Err(Failure::shutting_down());
            }
        }
    }

    pub fn is_stopping(&self) -> bool {
        self.backend.registry.is_stopping.load(Ordering::Acquire)
    }

    fn message(&mut self, kind: u8, body: &[u8]) -> Result<Next, Failure> {
        if self.is_skipping && !matches!(kind, b'S' | b'X') {
            return Ok(Next::Message);
        }
        match input::message(kind, body).map_err(|Malformed(what)| Failure::protocol(what))? {
            Message::Query(text) => self.simple(text)?,
            Message::Parse { name, text, types } => self.prepare(name, text, types)?,
            Message::Bind(bind) => self.bind(&bind)?,
            Message::Describe { kind: b'S', name } => self.describe_statement(name)?,
            Message::Describe { name, .. } => self.describe_portal(name)?,
            Message::Execute { portal, rows } => self.execute(portal, rows)?,
            Message::Close { kind, name } => {
                match kind {
                    b'S' => drop(self.statements.remove(name)),
                    _ => drop(self.portals.remove(name)),
                }
                output::message(&mut self.out, b'3', &[]);
            }
            Message::Flush => self.flush()?,
            Message::Sync => {
                self.is_skipping = false;
                self.ready();
            }
            Message::Terminate => return Ok(Next::End),
            // Those of a COPY that has failed already.
            Message::CopyData(_) | Message::CopyDone | Message::CopyFail(_) => {}
            Message::FunctionCall => {
                return Err(Failure::fatal("0A000", "calls of functions are not supported; use SELECT"));
            }
            Message::Password(_) => return Err(Failure::protocol("a password where none is expected")),
        }
        Ok(Next::Message)
    }

    /// The session waits for the next statement.
    fn ready(&mut self) {
        if self.transaction == Transaction::None {
            self.portals.clear();
            self.cursors.retain(|_, (_, is_held)| *is_held);
        }
        output::message(&mut self.out, b'Z', &[self.transaction as u8]);
    }

    /// Runs statements at once.
    fn simple(&mut self, text: &str) -> Result<(), Failure> {
        let statements = statement::split(text);
        if statements.is_empty() {
            output::message(&mut self.out, b'I', &[]);
        }
        for text in statements {
            let _span = self.span("query");
            let kind = statement::kind(text);
            match self.begin(&kind, text, &[])? {
                Begun::Rows(mut source, tag, rows_max) => {
                    output::columns(&mut self.out, &source.columns, &[]);
                    let formats = vec![false; source.columns.len()];
                    let sent = self.send_rows(&mut source, &mut Writer::Rows(formats), rows_max);
                    self.keep_cursor(&kind, source);
                    output::complete(&mut self.out, &format!("{tag} {}", sent?));
                }
                done => self.finish(done)?,
            }
        }
        self.ready();
        Ok(())
    }

    /// Sends what has no rows, or those of `COPY`.
    fn finish(&mut self, begun: Begun) -> Result<(), Failure> {
        match begun {
            Begun::Done(tag) => output::complete(&mut self.out, &tag),
            Begun::Empty => output::message(&mut self.out, b'I', &[]),
            Begun::Copy(mut source, mut copy) => {
                output::copy_out(&mut self.out, source.columns.len(), copy.is_binary());
                copy.header(&source.columns, &mut self.out);
                let mut writer = Writer::Copy(copy);
                let rows = self.send_rows(&mut source, &mut writer, None)?;
                if let Writer::Copy(mut copy) = writer {
                    copy.finish(&mut self.out);
                }
                output::complete(&mut self.out, &format!("COPY {rows}"));
            }
            Begun::CopyIn(mut copy) => match self.copy_in(&mut copy) {
                Ok(rows) => output::complete(&mut self.out, &format!("COPY {rows}")),
                Err(failure) => return Err(copy.failed(failure)),
            },
            Begun::Rows(..) => {}
        }
        Ok(())
    }

    /// Takes rows until the client ends them. Returns how many were stored.
    fn copy_in(&mut self, copy: &mut CopyIn) -> Result<u64, Failure> {
        output::copy_in(&mut self.out, copy.columns(), copy.is_binary());
        loop {
            let Some((kind, body)) = self.receive_row()? else {
                return Err(Failure::fatal("08006", "the client has left"));
            };
            match input::message(kind, &body).map_err(|Malformed(what)| Failure::protocol(what))? {
                Message::CopyData(bytes) => {
                    if let Some((quota, _)) = &self.quota {
                        quota.rate_limit.count(bytes.len() as u64, Instant::now);
                    }
                    copy.take(bytes)?;
                }
                Message::CopyDone => return copy.finish(),
                Message::CopyFail(why) => {
                    return Err(Failure::new("57014", format!("the client has given up: {why}")));
                }
                Message::Flush | Message::Sync => {}
                _ => return Err(Failure::protocol("a message between the rows of COPY")),
            }
        }
    }

    /// The next message of a copy; while there is none, what ends the session is looked for. `None`: the client has left.
    fn receive_row(&mut self) -> Result<Option<(u8, Vec<u8>)>, Failure> {
        loop {
            if self.is_stopping() {
                return Err(Failure::shutting_down());
            }
            if self.entry.is_cancelled.swap(false, Ordering::AcqRel) {
                return Err(Failure::cancelled());
            }
            if self.user.user().is_none() {
                return Err(Failure::fatal("28000", "the user was removed; the connection is closed"));
            }
            let found = input::frame(self.socket.input(), MESSAGE_BYTES_MAX);
            if let Some((kind, body, length)) = found.map_err(Failure::protocol)? {
                let body = body.to_vec();
                self.socket.consume(length);
                return Ok(Some((kind, body)));
            }
            self.flush()?;
            if self.socket.set_read_timeout(Some(COPY_WAIT)).is_err() {
                return Ok(None);
            }
            match self.socket.fill() {
                Ok(true) => {}
                Err(error) if is_waiting(&error) => {}
                Ok(false) | Err(_) => return Ok(None),
            }
        }
    }

    fn prepare(&mut self, name: &str, text: &str, types: Vec<u32>) -> Result<(), Failure> {
        let statements = statement::split(text);
        let text = match statements[..] {
            [] => "",
            [only] => only,
            _ => return Err(Failure::new("42601", "a prepared statement is one statement")),
        };
        if !name.is_empty() && self.statements.contains_key(name) {
            return Err(Failure::new("42P05", format!("there is a prepared statement {name:?} already")));
        }
        self.check_held(text.len())?;
        let kind = statement::kind(text);
        let count = statement::parameters(text).max(types.len());
        if count > usize::from(u16::MAX) {
            return Err(Failure::new(
                "54023",
                format!("{count} parameters, where at most {} are allowed", u16::MAX),
            ));
        }
        let mut prepared = Prepared { text: text.into(), kind, types, inferred: Vec::new(), columns: None };
        prepared.types.resize(count, 0);
        if matches!(prepared.kind, Kind::Catalog)
            && let Some((text, types)) = catalog::plainer(text)
        {
            (prepared.text, prepared.types) = (text.into(), types.into());
        }
        if prepared.types.contains(&0) {
            self.describe(&mut prepared)?;
        }
        self.statements.insert(name.into(), Arc::new(prepared));
        output::message(&mut self.out, b'1', &[]);
        Ok(())
    }

    fn check_held(&self, more: usize) -> Result<(), Failure> {
        let texts = self.statements.values().map(|statement| statement.text.len()).sum::<usize>();
        let values = self.portals.values().map(|portal| portal.bytes).sum::<usize>();
        let names = self.statements.len().max(self.portals.len() + self.cursors.len());
        if names >= NAMES_MAX || texts + values + more > HELD_BYTES_MAX {
            return Err(Failure::new(
                "53400",
                "the session has too many prepared statements, portals or cursors; close some",
            ));
        }
        Ok(())
    }

    fn bind(&mut self, bind: &Bind<'_>) -> Result<(), Failure> {
        let statement = self.statement(bind.statement)?;
        let count = statement.types.len();
        if bind.values.len() != count {
            let values = bind.values.len();
            return Err(Failure::new(
                "08P01",
                format!("{values} values, where the statement has {count} parameters"),
            ));
        }
        if bind.formats.len() > 1 && bind.formats.len() != count {
            return Err(Failure::new("08P01", format!("{} formats for {count} values", bind.formats.len())));
        }
        if !bind.portal.is_empty() && self.portals.contains_key(bind.portal) {
            return Err(Failure::new("42P03", format!("there is a portal {:?} already", bind.portal)));
        }
        let bytes = bind.values.iter().flatten().map(|value| value.len()).sum();
        self.check_held(bytes)?;
        let format = |index: usize| match bind.formats[..] {
            [] => false,
            [only] => only,
            _ => bind.formats[index],
        };
        let values = statement.types.iter().zip(&bind.values).enumerate();
        let values = values.map(|(index, (oid, value))| {
            let inferred = statement.inferred.get(index).and_then(Option::as_ref);
            parameter::value(*oid, format(index), *value).map(|value| array::as_inferred(value, inferred))
        });
        let values = values.collect::<Result<_, _>>()?;
        let portal =
            Portal { statement, values, bytes, results: bind.results.clone(), state: PortalState::New };
        self.portals.insert(bind.portal.into(), portal);
        output::message(&mut self.out, b'2', &[]);
        Ok(())
    }

    fn statement(&self, name: &str) -> Result<Arc<Prepared>, Failure> {
        let missing = || Failure::new("26000", format!("there is no prepared statement {name:?}"));
        self.statements.get(name).cloned().ok_or_else(missing)
    }

    fn describe_statement(&mut self, name: &str) -> Result<(), Failure> {
        let mut statement = self.statement(name)?;
        if statement.columns.is_none() {
            let Prepared { text, kind, types, inferred, .. } = &*statement;
            let mut described = Prepared {
                text: text.clone(),
                kind: kind.clone(),
                types: types.clone(),
                inferred: inferred.clone(),
                columns: None,
            };
            self.describe(&mut described)?;
            statement = Arc::new(described);
            self.statements.insert(name.into(), statement.clone());
        }
        output::parameters(&mut self.out, &statement.types);
        self.describe_columns(statement.columns.as_deref(), &[])
    }

    /// Sends columns; `None`: there are none.
    fn describe_columns(&mut self, columns: Option<&[Column]>, results: &[bool]) -> Result<(), Failure> {
        match columns {
            None => output::message(&mut self.out, b'n', &[]),
            Some(columns) => output::columns(&mut self.out, columns, &formats(results, columns.len())?),
        }
        Ok(())
    }

    fn describe_portal(&mut self, name: &str) -> Result<(), Failure> {
        let Some(mut portal) = self.portals.remove(name) else {
            let columns = self.cursors.get(name).map(|(source, _)| source.columns.clone());
            let missing = || Failure::new("34000", format!("there is no portal {name:?}"));
            return self.describe_columns(Some(&columns.ok_or_else(missing)?), &[]);
        };
        if matches!(portal.state, PortalState::New) && has_rows(&portal.statement.kind) {
            match &portal.statement.kind {
                Kind::Fetch { .. } => {
                    let columns = self.columns_of(&portal.statement.kind);
                    let results = portal.results.clone();
                    self.portals.insert(name.into(), portal);
                    return self.describe_columns(columns.as_deref(), &results);
                }
                kind => {
                    if let Begun::Rows(source, tag, _) =
                        self.begin(kind, &portal.statement.text, &portal.values)?
                    {
                        portal.state = PortalState::Rows(source, tag);
                    }
                }
            }
        }
        let columns = match &portal.state {
            PortalState::Rows(source, _) => Some(source.columns.clone()),
            _ => None,
        };
        let results = portal.results.clone();
        self.portals.insert(name.into(), portal);
        self.describe_columns(columns.as_deref(), &results)
    }

    /// A span for traces, until it is dropped. The text of the statement is not in it, since it may hold what is secret.
    fn span(&self, operation: &str) -> tracing::span::EnteredSpan {
        tracing::info_span!(
            target: "tapedb::trace",
            "postgres",
            "otel.kind" = "server",
            "db.operation.name" = operation,
            "client.address" = %self.socket.address(),
        )
        .entered()
    }

    fn execute(&mut self, name: &str, rows: usize) -> Result<(), Failure> {
        let _span = self.span("execute");
        let missing = || Failure::new("34000", format!("there is no portal {name:?}"));
        let mut portal = self.portals.remove(name).ok_or_else(missing)?;
        let mut rows_max = Some(rows).filter(|rows| *rows > 0);
        if matches!(portal.state, PortalState::New) {
            let statement = portal.statement.clone();
            match self.begin(&statement.kind, &statement.text, &portal.values)? {
                Begun::Rows(source, tag, most) => {
                    portal.state = PortalState::Rows(source, tag);
                    rows_max = most.or(rows_max);
                }
                begun => {
                    portal.state = PortalState::Done;
                    // A statement such as DISCARD may have removed it.
                    self.portals.insert(name.into(), portal);
                    return self.finish(begun);
                }
            }
        }
        let PortalState::Rows(mut source, tag) = std::mem::replace(&mut portal.state, PortalState::Done)
        else {
            output::complete(&mut self.out, "SELECT 0");
            self.portals.insert(name.into(), portal);
            return Ok(());
        };
        let results = formats(&portal.results, source.columns.len())?;
        let sent = self.send_rows(&mut source, &mut Writer::Rows(results), rows_max);
        let is_fetch = matches!(portal.statement.kind, Kind::Fetch { .. });
        if is_fetch {
            self.keep_cursor(&portal.statement.kind, source);
        } else if rows_max.is_some_and(|most| sent.as_ref().is_ok_and(|sent| *sent == most as u64)) {
            portal.state = PortalState::Rows(source, tag);
            output::message(&mut self.out, b's', &[]);
            self.portals.insert(name.into(), portal);
            return Ok(());
        }
        output::complete(&mut self.out, &format!("{tag} {}", sent?));
        self.portals.insert(name.into(), portal);
        Ok(())
    }

    /// Puts the rows that a cursor has left back.
    fn keep_cursor(&mut self, kind: &Kind, source: Box<Source>) {
        if let Kind::Fetch { name, .. } = kind
            && let Some((kept, _)) = self.cursors.get_mut(name)
        {
            *kept = source;
        }
    }

    /// Forgets all that the client has prepared.
    pub fn discard(&mut self) {
        self.statements.clear();
        self.portals.clear();
        self.cursors.clear();
        self.settings = Settings::new();
    }

    /// Sends what waits. While the client does not take it, what ends the session is looked for.
    pub fn flush(&mut self) -> Result<(), Failure> {
        if self.out.is_empty() {
            return Ok(());
        }
        let (entry, backend) = (&self.entry, &self.backend);
        let mut check = || match backend.registry.is_stopping.load(Ordering::Acquire)
            || entry.is_cancelled.load(Ordering::Acquire)
        {
            true => Err(io::ErrorKind::Interrupted.into()),
            false => Ok(()),
        };
        // A message that was sent in part cannot be followed by another.
        let gone = |_| Failure::fatal("08006", "the client does not take what it is sent");
        self.socket.write(&self.out, &mut check).map_err(gone)?;
        if let Some((quota, _)) = &self.quota {
            quota.rate_limit.count(self.out.len() as u64, Instant::now);
        }
        self.out.clear();
        Ok(())
    }
}

/// Whether a statement has rows.
fn has_rows(kind: &Kind) -> bool {
    matches!(kind, Kind::Query | Kind::Catalog | Kind::Show(_) | Kind::Fetch { .. })
}

/// Whether each column is binary.
fn formats(results: &[bool], columns: usize) -> Result<Vec<bool>, Failure> {
    match results {
        [] => Ok(vec![false; columns]),
        [only] => Ok(vec![*only; columns]),
        _ if results.len() == columns => Ok(results.to_vec()),
        _ => Err(Failure::new("08P01", format!("{} formats for {columns} columns", results.len()))),
    }
}
