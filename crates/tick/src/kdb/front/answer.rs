//! Answers requests of clients: subscriptions and updates of a plant, queries of an RDB.

use super::access::Rights;
use super::ask::{Ask, Condition, Operator, Select, ask_of};
use super::filter::Filter;
use super::hub::{Hub, State};
use super::served::Served;
use super::subscriber::{Connection, Slow};
use super::update::schema_of;
use crate::answer::Answer;
use crate::column::Column;
use crate::date::Date;
use crate::kdb::convert::{empty_table, table_of, update_of, what};
use crate::kind::{Kind, NANOS_PER_DAY, nanos_of_kdb_datetime, nanos_of_kdb_timestamp};
use crate::names::stream_name;
use crate::query::Query;
use crate::table::{SYM, TIME, Table};
use std::sync::{Arc, MutexGuard};
use tapedb_kdb_ipc::{Atom, Dictionary, Elements, Symbol, Symbols, Value, Vector};
use tapedb_schema::Timestamp;

/// Most cells of an answer.
const ANSWER_CELLS_MAX: u64 = 64_000_000;

/// The names in `.u` of a tickerplant.
const NAMES_OF_U: [&str; 13] =
    ["", "add", "d", "del", "end", "endofday", "i", "j", "l", "L", "sub", "t", "upd"];

/// Answers one connection.
pub(super) struct Answerer<'a> {
    pub served: &'a Served,
    pub hub: Option<&'a Arc<Hub>>,
    pub connection: &'a Connection,
    pub rights: &'a dyn Rights,
    /// Whether the client waits for the answer: then its updates are logged before the answer.
    pub is_synchronous: bool,
    /// Whether rows have been accepted that are not logged yet.
    pub collected: bool,
    /// Rows that have been accepted.
    pub rows: usize,
    /// Nothing is published while a request that subscribes is answered: all of its answer is of one moment.
    pub state: Option<MutexGuard<'a, State>>,
}

type Answered = Result<Value, String>;

impl<'a> Answerer<'a> {
    /// The answer to a request.
    ///
    /// # Errors
    /// The error for the client.
    pub fn answer(&mut self, request: Value) -> Answered {
        let ask = ask_of(request).map_err(|error| error.0)?;
        let answer = self.evaluate(ask);
        self.state = None;
        answer
    }

    fn evaluate(&mut self, ask: Ask) -> Answered {
        match ask {
            Ask::Value(value) => Ok(value),
            Ask::Name(name) => self.named(&name),
            Ask::List(items) => {
                let values = items.into_iter().map(|item| self.evaluate(item));
                values.collect::<Result<_, _>>().map(Value::collect)
            }
            Ask::Select(select) => self.select(&select),
            Ask::Call(name, arguments) => self.call(&name, arguments),
        }
    }

    fn named(&mut self, name: &str) -> Answered {
        match name.strip_prefix(".u.") {
            Some(field @ ("i" | "j" | "L" | "d" | "t" | "l")) => return self.of_plant(field),
            Some(_) => return Err(format!("{name}: not known here")),
            None => {}
        }
        match name {
            ".z.p" | ".z.P" => {
                Ok(Atom::Timestamp(crate::kind::kdb_timestamp_of_nanos(crate::clock::now().0)).into())
            }
            ".z.d" | ".z.D" => Ok(Atom::Date(self.date()?.to_kdb()).into()),
            table => self.select(&Select { table: table.into(), ..Select::default() }),
        }
    }

    fn call(&mut self, name: &str, arguments: Vec<Ask>) -> Answered {
        match (name, &arguments[..]) {
            (".u.upd" | "upd" | "insert", [table, Ask::Value(rows)]) => {
                let table = self.name_of(table)?;
                self.update(&table, rows)
            }
            (".u.upd" | "upd" | "insert", [table, rows]) => {
                let (table, rows) = (self.name_of(table)?, self.value_of(rows)?);
                self.update(&table, &rows)
            }
            (".u.sub", [table, symbols]) => self.subscribe(table, symbols, false),
            (".u.add", [table, symbols]) => self.subscribe(table, symbols, true),
            (".u.del", [table, ..]) => self.unsubscribe(table),
            (".u.slow", [how]) => self.set_slow(how),
            (".u.end", [date]) => {
                let date = self.value_of(date)?;
                self.end_day(Some(&date))
            }
            (".u.endofday", _) => self.end_day(None),
            (".u", [fields]) => {
                let fields = symbols_of(&self.value_of(fields)?).ok_or("type: names of .u are symbols")?;
                let values = fields.iter().map(|field| self.of_plant(&field.text()));
                let mut values: Vec<Value> = values.collect::<Result<_, _>>()?;
                if values.len() == 1 { Ok(values.remove(0)) } else { Ok(Value::collect(values)) }
            }
            ("key", [of]) => {
                let of = self.name_of(of)?;
                self.names_in(&of)
            }
            ("tables", _) => Ok(self.tables().into()),
            ("cols", [table]) => Ok(names_of(self.table(&self.name_of(table)?)?).into()),
            ("meta", [table]) => Ok(meta(self.table(&self.name_of(table)?)?)),
            ("count", [Ask::Select(select)]) => self.count(&select.clone()),
            ("count", [table]) => {
                let table = self.name_of(table)?;
                self.count(&Select { table, ..Select::default() })
            }
            (".z.p" | ".z.P" | ".z.d" | ".z.D", []) => self.named(name),
            _ => Err(format!("{name}: not known here with {} arguments", arguments.len())),
        }
    }

    /// `` key `.u `` and the like: the names in a namespace; of a table, itself.
    fn names_in(&self, of: &str) -> Answered {
        match of {
            ".u" if self.hub.is_some() => Ok(NAMES_OF_U.into_iter().collect::<Symbols>().into()),
            "" | "." => Ok(self.tables().into()),
            table if self.table(table).is_ok() => Ok(Value::symbol(table)),
            // As q answers for an unknown name.
            _ => Ok(Value::list(Vec::new())),
        }
    }

    /// `.u.i` and the like.
    fn of_plant(&mut self, field: &str) -> Answered {
        let date = self.date()?;
        let tables = self.tables();
        let state = self.state()?;
        let long = |value: Option<u64>| Value::from(value.map_or(i64::MIN, |value| value as i64));
        match field {
            "i" | "j" => Ok(long(state.count())),
            "L" => {
                let path = state.log_path().map_or(String::new(), |path| format!(":{}", path.display()));
                Ok(Value::symbol(&path))
            }
            "l" => Ok(long(None)),
            "d" => Ok(Atom::Date(date.to_kdb()).into()),
            "t" => Ok(tables.into()),
            other => Err(format!(".u.{other}: not known here")),
        }
    }

    fn date(&self) -> Result<Date, String> {
        match (&self.served.rdb, self.hub, &self.state) {
            (_, _, Some(state)) => Ok(state.date),
            (_, Some(hub), None) => Ok(hub.lock().date),
            (Some(rdb), ..) => Ok(rdb.day().date),
            _ => Err("nothing is served here".into()),
        }
    }

    fn state(&mut self) -> Result<&mut State, String> {
        if self.state.is_none() {
            let hub = self.hub.ok_or("this is no tickerplant: subscribe at the plant")?;
            self.state = Some(hub.lock());
        }
        self.state.as_deref_mut().ok_or_else(|| "this is no tickerplant".into())
    }

    /// The tables that this client may see.
    fn visible(&self) -> Vec<&'a Table> {
        let tables = self.served.plan().tables().iter().map(|(table, _)| table);
        tables.filter(|table| self.may_see(table.name())).collect()
    }

    fn tables(&self) -> Symbols {
        self.visible().iter().map(|table| table.name()).collect()
    }

    /// # Errors
    /// The table's name, as kdb+ answers for an unknown table.
    fn table(&self, name: &str) -> Result<&'a Table, String> {
        let table =
            self.served.plan().tables().iter().map(|(table, _)| table).find(|table| table.name() == name);
        table.filter(|table| self.may_see(table.name())).ok_or_else(|| name.to_string())
    }

    fn may_see(&self, table: &str) -> bool {
        let stream = stream_name(self.served.plan().name(), table);
        self.rights.may_read(&stream) || self.rights.may_write(&stream)
    }

    fn index(&self, table: &str) -> Result<usize, String> {
        let index = self.served.plan().tables().iter().position(|(other, _)| other.name() == table);
        index.ok_or_else(|| table.to_string())
    }

    /// A table's name, as a name, a symbol or a text.
    fn name_of(&self, ask: &Ask) -> Result<String, String> {
        match ask {
            Ask::Name(name) => Ok(name.clone()),
            Ask::Value(value) => match value.as_name() {
                Some(name) => Ok(String::from_utf8_lossy(name).into_owned()),
                None => Err(format!("type: a table is named by a symbol, not by {}", what(value))),
            },
            _ => Err("type: a table is named by a symbol".into()),
        }
    }

    fn value_of(&mut self, ask: &Ask) -> Answered {
        match ask {
            Ask::Value(value) => Ok(value.clone()),
            other => self.evaluate(other.clone()),
        }
    }

    fn update(&mut self, name: &str, rows: &Value) -> Answered {
        let plant = self.served.plant.as_ref().ok_or("this is no tickerplant: send updates to the plant")?;
        let table = self.table(name)?;
        self.may(|rights, stream| rights.may_write(stream), name, "write to")?;
        self.state = None;
        let columns = update_of(table, rows).map_err(|error| format!("{name}: {error}"))?;
        let rows = columns.first().map_or(0, Column::len);
        if rows > 0 && self.is_synchronous {
            plant.update(name, &columns).map_err(|error| error.to_string())?;
        } else if rows > 0 {
            plant.collect(name, &columns).map_err(|error| error.to_string())?;
            self.collected = true;
        }
        self.rows += rows;
        Ok(Value::nothing())
    }

    fn may(&self, may: impl Fn(&dyn Rights, &str) -> bool, table: &str, what: &str) -> Result<(), String> {
        let stream = stream_name(self.served.plan().name(), table);
        if may(self.rights, &stream) { Ok(()) } else { Err(format!("access: you may not {what} {table}")) }
    }

    fn subscribe(&mut self, tables: &Ask, symbols: &Ask, adds: bool) -> Answered {
        let (tables, symbols) = (self.value_of(tables)?, self.value_of(symbols)?);
        let names = symbols_of(&tables)
            .ok_or_else(|| format!("type: tables are named by symbols, not by {}", what(&tables)))?;
        let filter = filter_of(&symbols)?;
        if let [one] = &names[..]
            && !one.as_bytes().is_empty()
        {
            return self.subscribe_to(&one.text(), filter, adds);
        }
        let all = names.iter().all(|name| name.as_bytes().is_empty());
        let names: Vec<String> = match all {
            true => self.tables().iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect(),
            false => names.iter().map(|name| name.text().into_owned()).collect(),
        };
        let pairs = names.iter().map(|name| self.subscribe_to(name, filter.clone(), adds));
        pairs.collect::<Result<_, _>>().map(Value::list)
    }

    /// The table's name and its columns.
    fn subscribe_to(&mut self, name: &str, filter: Filter, adds: bool) -> Answered {
        let table = self.table(name)?;
        self.may(|rights, stream| rights.may_read(stream), name, "read")?;
        let (index, connection) = (self.index(name)?, self.connection);
        self.state()?.subscribe(connection, index, filter, adds)?;
        Ok(schema_of(table))
    }

    fn unsubscribe(&mut self, tables: &Ask) -> Answered {
        let name = self.name_of(tables)?;
        let index = if name.is_empty() { None } else { Some(self.index(&name)?) };
        let id = self.connection.id;
        self.state()?.unsubscribe(id, index);
        Ok(Value::nothing())
    }

    fn set_slow(&mut self, how: &Ask) -> Answered {
        let slow = match self.name_of(how)?.as_str() {
            "replay" => Slow::Replay,
            "disconnect" => Slow::Disconnect,
            "conflate" => Slow::Conflate,
            other => {
                return Err(format!("{other}: subscribers that are slow replay, disconnect or conflate"));
            }
        };
        let id = self.connection.id;
        self.state()?.set_slow(id, slow);
        Ok(Value::nothing())
    }

    fn end_day(&mut self, date: Option<&Value>) -> Answered {
        let plant = self.served.plant.as_ref().ok_or("this is no tickerplant: end days at the plant")?;
        if !self.rights.may_end_days(self.served.plan().name()) {
            return Err("access: you may not end days".into());
        }
        let date = match date {
            None => plant.day().date,
            Some(Value::Atom(Atom::Date(days))) => Date::of_kdb(*days),
            Some(other) => return Err(format!("type: .u.end takes a date, not {}", what(other))),
        };
        self.state = None;
        plant.end_of_day(date).map_err(|error| error.to_string())?;
        Ok(Value::nothing())
    }

    fn count(&mut self, select: &Select) -> Answered {
        let (table, query) = (self.table(&select.table)?, self.query(select)?);
        self.may(|rights, stream| rights.may_read(stream), table.name(), "read")?;
        if select.counts_all()
            && let Some(plant) = &self.served.plant
        {
            // The logged rows, published and in the RDB or not: a feed that reconnects goes on from there.
            self.state = None;
            let rows = plant.rows(table.name()).map_err(|error| error.to_string())?;
            return Ok((rows as i64).into());
        }
        match (&self.served.rdb, self.hub) {
            (Some(rdb), _) => {
                // A long query must not delay updates to others.
                self.state = None;
                let count = rdb.count(&query).map_err(|error| error.to_string())?;
                Ok((count as i64).into())
            }
            (None, Some(_)) if select.counts_all() => {
                let index = self.index(table.name())?;
                let rows = self.state()?.rows(index);
                Ok((rows as i64).into())
            }
            _ => Err("the plant answers no selections: ask the RDB".into()),
        }
    }

    fn select(&mut self, select: &Select) -> Answered {
        let table = self.table(&select.table)?;
        self.may(|rights, stream| rights.may_read(stream), table.name(), "read")?;
        let Some(rdb) = &self.served.rdb else {
            // As in a tickerplant that publishes each update: a table without rows.
            let is_all = select.conditions.is_empty() && select.columns.is_empty();
            return if is_all {
                Ok(empty_table(table))
            } else {
                Err("the plant answers no selections: ask the RDB".into())
            };
        };
        // A long query must not delay updates to others.
        self.state = None;
        let query = self.query(select)?;
        let rows = rdb.count(&query).map_err(|error| error.to_string())?;
        let rows = select.limit.map_or(rows, |limit| rows.min(limit.unsigned_abs()));
        let cells = rows.saturating_mul(table.columns().len() as u64);
        if cells > ANSWER_CELLS_MAX {
            return Err(format!(
                "limit: {rows} rows are too many for an answer; select fewer, as in select[1000] from …"
            ));
        }
        let answer = rdb.query(&query).map_err(|error| error.to_string())?;
        Ok(if select.by_symbol { keyed_by_symbol(answer) } else { table_of_answer(&answer) })
    }

    fn query(&self, select: &Select) -> Result<Query, String> {
        let mut query = Query::table(&select.table);
        if !select.columns.is_empty() {
            query = query.columns(select.columns.clone());
        }
        query.last_by_symbol = select.by_symbol;
        query.limit = select.limit;
        for condition in &select.conditions {
            self.add(condition, &mut query)?;
        }
        Ok(query)
    }

    fn add(&self, condition: &Condition, query: &mut Query) -> Result<(), String> {
        let Condition { column, operator, value } = condition;
        match (column.as_str(), operator) {
            (SYM, Operator::Equal | Operator::In) => {
                let symbols = symbols_of(value).ok_or("type: symbols are compared with symbols")?;
                query.symbols = Some(symbols.iter().map(|symbol| symbol.text().into_owned()).collect());
            }
            (TIME, Operator::Within) => {
                let (Some(from), Some(to)) = (value.item(0), value.item(1)) else {
                    return Err("length: within takes two times".into());
                };
                query.from = Some(self.time(&from)?);
                query.to = Some(after(self.time(&to)?));
            }
            (TIME, Operator::AtLeast) => query.from = Some(self.time(value)?),
            (TIME, Operator::More) => query.from = Some(after(self.time(value)?)),
            (TIME, Operator::Less) => query.to = Some(self.time(value)?),
            (TIME, Operator::AtMost) => query.to = Some(after(self.time(value)?)),
            _ => return Err(format!("{column}: rows are selected here by sym = and in, and by time")),
        }
        Ok(())
    }

    /// A time for a query of the RDB: times of day are today's.
    fn time(&self, value: &Value) -> Result<Timestamp, String> {
        let midnight = self.served.rdb.as_ref().map_or(0, |rdb| rdb.day().midnight.0);
        let of_day = |kind: Kind, value: i64| Ok(Timestamp(kind.nanos_of_time(value, midnight)));
        match value.as_atom() {
            Some(Atom::Timestamp(value)) => Ok(Timestamp(nanos_of_kdb_timestamp(*value))),
            Some(Atom::Datetime(days)) => {
                nanos_of_kdb_datetime(*days).map(Timestamp).ok_or_else(|| "type: no time".into())
            }
            Some(Atom::Date(days)) => {
                Ok(Timestamp(i64::from(Date::of_kdb(*days).0).saturating_mul(NANOS_PER_DAY)))
            }
            Some(Atom::Timespan(value)) => of_day(Kind::Timespan, *value),
            Some(Atom::Time(value)) => of_day(Kind::Time, i64::from(*value)),
            Some(Atom::Second(value)) => of_day(Kind::Second, i64::from(*value)),
            Some(Atom::Minute(value)) => of_day(Kind::Minute, i64::from(*value)),
            _ => Err(format!("type: time is compared with a time, not with {}", what(value))),
        }
    }
}

fn after(time: Timestamp) -> Timestamp {
    Timestamp(time.0.saturating_add(1))
}

/// The symbols of a filter: the empty one is all.
fn filter_of(value: &Value) -> Result<Filter, String> {
    let symbols = match value {
        value if value.is_nothing() || value.is_empty() => return Ok(Filter::All),
        value => symbols_of(value)
            .ok_or_else(|| format!("type: a filter is of symbols, not of {}", what(value)))?,
    };
    if symbols.iter().any(|symbol| symbol.as_bytes().is_empty()) {
        return Ok(Filter::All);
    }
    Ok(Filter::Symbols(symbols.iter().map(|symbol| symbol.as_bytes().to_vec()).collect()))
}

/// One symbol, several, or texts, which some clients send instead. `None`: the value is something else.
fn symbols_of(value: &Value) -> Option<Vec<Symbol>> {
    match value {
        Value::Vector(Vector { elements: Elements::Symbol(symbols), .. }) => {
            Some(symbols.iter().map(Symbol::new).collect())
        }
        Value::List(list) => list.items.iter().map(|item| item.as_name().map(Symbol::new)).collect(),
        other => other.as_name().map(|name| vec![Symbol::new(name)]),
    }
}

fn names_of(table: &Table) -> Symbols {
    table.columns().iter().map(|column| column.name.as_bytes()).collect()
}

/// `meta`: a table of columns and their types, without foreign keys, and of attributes only the `g` of `sym`.
fn meta(table: &Table) -> Value {
    let types = table.columns().iter().map(|column| column.kind.letter() as u8).collect();
    let none: Symbols = table.columns().iter().map(|_| "").collect();
    let attributes: Symbols =
        table.columns().iter().map(|column| if column.name == SYM { "g" } else { "" }).collect();
    let keys = tapedb_kdb_ipc::Table::new(["c"].iter().collect(), vec![names_of(table).into()]);
    let values = tapedb_kdb_ipc::Table::new(
        ["t", "f", "a"].iter().collect(),
        vec![Elements::Char(types).into(), none.into(), attributes.into()],
    );
    match (keys, values) {
        (Ok(keys), Ok(values)) => Value::dictionary(keys.into(), values.into()),
        _ => Value::nothing(),
    }
}

fn table_of_answer(answer: &Answer) -> Value {
    let (defs, columns): (Vec<_>, Vec<Column>) = answer.columns.iter().cloned().unzip();
    table_of(&defs, &columns)
}

/// A table with `sym` as its key, in order of symbols, as in `select by sym`.
fn keyed_by_symbol(answer: Answer) -> Value {
    let is_key = |column: &(crate::table::ColumnDef, Column)| column.0.name == SYM;
    let (keys, values) = answer.columns.into_iter().partition(is_key);
    let part = |columns| table_of_answer(&Answer { table: String::new(), columns });
    Value::Dictionary(Box::new(Dictionary { is_sorted: false, keys: part(keys), values: part(values) }))
}
