//! Queries whose streams are all on one server: it runs them as they are.

use super::answer::Answer;
use crate::error::Error;
use crate::names;
use crate::open::Part;
use crate::options::Options;
use crate::parameters::Parameters;
use crate::snapshot::Snapshot;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::sql::parser::Statement;

/// Sends a query to the only server that has its streams; `None`: there is not one, or the query is also about others.
///
/// # Errors
/// Those of the query; when the server cannot be reached.
pub(crate) fn begin(
    (statement, text): (&mut Statement, &str),
    parameters: &Parameters,
    options: &Options,
    snapshot: &Snapshot,
) -> Result<Option<(SchemaRef, Answer)>, Error> {
    let is_explained = matches!(statement, Statement::Explain(_));
    names::resolve(statement, snapshot, parameters)?;
    // Plans here state which server does what, and lists of tables are those of all servers.
    if is_explained || text.to_lowercase().contains("information_schema") {
        return Ok(None);
    }
    match only(&snapshot.open_parts()) {
        Some(part) => part.member.begin(text, parameters, options).map(Some),
        None => Ok(None),
    }
}

/// The part whose server has all streams; `None`: there is none.
fn only(streams: &[Vec<Part>]) -> Option<&Part> {
    let first = streams.first()?.first()?;
    let is_there = |parts: &Vec<Part>| parts.len() == 1 && parts[0].member.name == first.member.name;
    streams.iter().all(is_there).then_some(first)
}
