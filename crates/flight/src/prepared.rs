//! Prepared statements: a text, and the values that a client has bound.
//!
//! Always true: a statement is its user's alone; a user has so many, and all have so many bytes.

use crate::status::{of_query, status};
use crate::ticket::Id;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tapedb_access::random;
use tapedb_query::Parameters;
use tapedb_query::arrow::array::RecordBatch;
use tonic::{Code, Status};

/// Statements of one user, and of all.
const OF_USER_MAX: usize = 1000;
const ALL_MAX: usize = 100_000;
/// Bytes of the texts and values of one user.
const BYTES_OF_USER_MAX: usize = 64 << 20;
/// A statement that is not used for so long is dropped when a place is needed.
const IDLE_TIME: Duration = Duration::from_secs(3600);
/// Rows of values: the statement runs once for each.
pub(crate) const ROWS_MAX: usize = 1000;

/// The values of one run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Values(pub Parameters);

/// A statement.
#[derive(Debug)]
pub(crate) struct Statement {
    user: String,
    text: String,
    /// Names of its parameters.
    parameters: Vec<String>,
    values: Option<Vec<Values>>,
    bytes: usize,
    used: Instant,
}

/// The prepared statements.
#[derive(Debug, Default)]
pub(crate) struct Statements(Mutex<HashMap<Id, Statement>>);

fn missing() -> Status {
    status(Code::NotFound, "there is no such prepared statement; it was closed, or is another user's")
}

fn too_many() -> Status {
    status(Code::ResourceExhausted, "the user has too many prepared statements, or too long ones; close some")
}

impl Statements {
    fn lock(&self) -> MutexGuard<'_, HashMap<Id, Statement>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new statement.
    ///
    /// # Errors
    /// When there are too many.
    pub fn add(&self, user: &str, text: String, parameters: Vec<String>) -> Result<Id, Status> {
        let id = random::<16>().map_err(crate::status::internal)?;
        let now = Instant::now();
        let mut all = self.lock();
        let is_full = |all: &HashMap<Id, Statement>| {
            let (count, bytes) = held(all, user);
            count >= OF_USER_MAX || bytes + text.len() > BYTES_OF_USER_MAX || all.len() >= ALL_MAX
        };
        if is_full(&all) {
            all.retain(|_, statement| now.duration_since(statement.used) < IDLE_TIME);
        }
        if is_full(&all) {
            return Err(too_many());
        }
        let bytes = text.len();
        all.insert(id, Statement { user: user.into(), text, parameters, values: None, bytes, used: now });
        Ok(id)
    }

    /// Binds values: a row for each run.
    ///
    /// # Errors
    /// When there is no such statement, its parameters are others, or there are too many values.
    pub fn bind(&self, user: &str, id: &[u8], batches: &[RecordBatch]) -> Result<(), Status> {
        let mut all = self.lock();
        let (_, held) = held(&all, user);
        let statement = of_user(&mut all, user, id)?;
        let bytes: usize = batches.iter().map(RecordBatch::get_array_memory_size).sum();
        if held - statement.bytes + statement.text.len() + bytes > BYTES_OF_USER_MAX {
            return Err(too_many());
        }
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        if rows > ROWS_MAX {
            let text = format!(
                "{rows} rows of parameters, where at most {ROWS_MAX} are allowed; upload rows with an ingest"
            );
            return Err(status(Code::InvalidArgument, text));
        }
        let mut values = Vec::with_capacity(rows);
        for batch in batches {
            for row in 0..batch.num_rows() {
                values.push(Values(statement.values_of(&batch.slice(row, 1))?));
            }
        }
        statement.bytes = statement.text.len() + bytes;
        statement.values = Some(values);
        statement.used = Instant::now();
        Ok(())
    }

    /// The text and values of a statement.
    ///
    /// # Errors
    /// When there is no such statement, or its parameters have no values.
    pub fn run(&self, user: &str, id: &[u8]) -> Result<(String, Vec<Values>), Status> {
        let mut all = self.lock();
        let statement = of_user(&mut all, user, id)?;
        statement.used = Instant::now();
        let values = match &statement.values {
            Some(values) => values.clone(),
            None if statement.parameters.is_empty() => vec![Values::default()],
            None => {
                let names = statement.parameters.join(", $");
                return Err(status(
                    Code::InvalidArgument,
                    format!("the parameters ${names} have no values; bind them"),
                ));
            }
        };
        Ok((statement.text.clone(), values))
    }

    /// The text of a statement, and whether it has parameters.
    ///
    /// # Errors
    /// When there is no such statement.
    pub fn text(&self, user: &str, id: &[u8]) -> Result<(String, bool), Status> {
        let mut all = self.lock();
        let statement = of_user(&mut all, user, id)?;
        Ok((statement.text.clone(), !statement.parameters.is_empty()))
    }

    /// Ends a statement.
    pub fn close(&self, user: &str, id: &[u8]) {
        let mut all = self.lock();
        if of_user(&mut all, user, id).is_ok()
            && let Ok(id) = Id::try_from(id)
        {
            all.remove(&id);
        }
    }
}

/// How many statements a user has, and how many bytes.
fn held(all: &HashMap<Id, Statement>, user: &str) -> (usize, usize) {
    let of_user = all.values().filter(|statement| statement.user == user);
    of_user.fold((0, 0), |(count, bytes), statement| (count + 1, bytes + statement.bytes))
}

fn of_user<'a>(
    all: &'a mut HashMap<Id, Statement>,
    user: &str,
    id: &[u8],
) -> Result<&'a mut Statement, Status> {
    let id = Id::try_from(id).map_err(|_| missing())?;
    all.get_mut(&id).filter(|statement| statement.user == user).ok_or_else(missing)
}

impl Statement {
    /// The values of one row: by names where the statement has names, else in order.
    fn values_of(&self, row: &RecordBatch) -> Result<Parameters, Status> {
        let is_numbered = self.parameters.iter().all(|name| name.parse::<usize>().is_ok());
        if !is_numbered {
            return Parameters::of_row(row).map_err(|error| of_query(&error));
        }
        let most = self.parameters.iter().filter_map(|name| name.parse::<usize>().ok()).max().unwrap_or(0);
        if row.num_columns() != most {
            let text = format!("{} values, where the statement has {most} parameters", row.num_columns());
            return Err(status(Code::InvalidArgument, text));
        }
        Parameters::in_order(row).map_err(|error| of_query(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tapedb_query::arrow::array::{ArrayRef, Int64Array};

    fn row(values: &[i64]) -> RecordBatch {
        let columns = (0..2).map(|column| {
            let array: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
            (format!("c{column}"), array)
        });
        RecordBatch::try_from_iter(columns).unwrap()
    }

    #[test]
    fn statements_are_their_users_own() {
        let all = Statements::default();
        let id = all.add("ann", "SELECT $1, $2".into(), vec!["1".into(), "2".into()]).unwrap();
        assert_eq!(all.run("ann", &id).unwrap_err().code(), Code::InvalidArgument, "no values");
        all.bind("ann", &id, &[row(&[1, 2])]).unwrap();
        assert_eq!(all.run("ann", &id).unwrap().1.len(), 2);
        assert_eq!(all.run("bob", &id).unwrap_err().code(), Code::NotFound);
        assert_eq!(all.bind("bob", &id, &[row(&[1])]).unwrap_err().code(), Code::NotFound);
        all.close("bob", &id);
        assert!(all.run("ann", &id).is_ok());
        all.close("ann", &id);
        assert_eq!(all.run("ann", &id).unwrap_err().code(), Code::NotFound);
        assert_eq!(all.run("ann", b"x").unwrap_err().code(), Code::NotFound);
    }

    #[test]
    fn statements_and_values_are_limited() {
        let all = Statements::default();
        let id = all.add("ann", "SELECT $1".into(), vec!["1".into()]).unwrap();
        assert_eq!(
            all.bind("ann", &id, &[row(&[1])]).unwrap_err().code(),
            Code::InvalidArgument,
            "two columns"
        );
        let many = row(&vec![1; ROWS_MAX + 1]);
        assert_eq!(all.bind("ann", &id, &[many]).unwrap_err().code(), Code::InvalidArgument);
        assert_eq!(
            all.add("ann", "x".repeat(BYTES_OF_USER_MAX), vec![]).unwrap_err().code(),
            Code::ResourceExhausted
        );
        for _ in 1..OF_USER_MAX {
            all.add("ann", "SELECT 1".into(), vec![]).unwrap();
        }
        assert_eq!(all.add("ann", "SELECT 1".into(), vec![]).unwrap_err().code(), Code::ResourceExhausted);
        assert!(all.add("bob", "SELECT 1".into(), vec![]).is_ok());
    }
}
