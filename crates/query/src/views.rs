//! Continuous views: streams that are kept up to date from a query with groups by a bucket of time, or of last values.
//!
//! [`statement`] finds the statements, [`registry`] keeps views and [`progress`] how far they are, each in a stream of the database,
//! [`view`] brings one up to date, and [`maintenance`] does so for all of them in a thread.
//!
//! Always true: the rows of a view before its `passed` time are those of its query on the messages before its `ends`, and it has no
//! others when it is opened. New rows are appended first and noted as passed then: what was appended and not noted is deleted when
//! the view is opened again. Rows of buckets with late messages are replaced, each range of them at once, before the messages are
//! noted: replacing them again gives the same. So each row is there once, wherever the process ends.

mod last;
mod maintenance;
mod progress;
mod registry;
mod statement;
mod target;
mod view;

use crate::error::Error;
use crate::options::Options;
use crate::parameters::Parameters;
use crate::rows::Rows;
use crate::session::Sql;
use registry::Registry;
use statement::Statement;
use view::Definition;

pub use maintenance::Views;

impl Sql {
    /// Runs a query, as [`Sql::query_as`], or a statement about continuous views: `CREATE VIEW name LIVE AS SELECT …`, `DROP VIEW
    /// name`, `SHOW VIEWS`. Views are kept up to date by [`Sql::maintain_views`], in the process that writes the database.
    ///
    /// # Errors
    /// As [`Sql::query_as`]; when the query cannot be a view, there is a stream of the name, or the database is open for reading only.
    pub fn run(&self, text: &str, parameters: &Parameters, options: &Options) -> Result<Rows, Error> {
        let Some(statement) = statement::parse(text)? else {
            return self.query_as(text, parameters, options);
        };
        if self.is_of_cluster() {
            return Err(Error::query("views are of one server; ask that server instead of the cluster"));
        }
        let db = self.database();
        let (columns, rows) = match statement {
            Statement::Create { name, query } => {
                let has_name = |stream: &String| stream.eq_ignore_ascii_case(&name);
                if db.streams()?.iter().any(has_name) {
                    return Err(Error::query(format!(
                        "there is a stream {name:?}; give the view another name"
                    )));
                }
                let definition = Definition::of(self, &name, &query)?;
                Registry::create(db)?.define(&name, &query)?;
                definition.create(db)?;
                ("view", vec![vec![name]])
            }
            Statement::Drop { name, if_exists } => {
                let registry = Registry::open(db)?;
                let views = registry.as_ref().map(Registry::views).transpose()?.unwrap_or_default();
                match (registry, crate::spelling::find(&name, views.keys().map(String::as_str))) {
                    (Some(registry), Some(name)) => {
                        // A view whose stream is gone is made again, so it ends only where it is noted.
                        registry.drop_view(name)?;
                        if db.streams()?.iter().any(|stream| stream == name) {
                            db.delete_stream(name)?;
                        }
                    }
                    _ if if_exists => {}
                    _ => {
                        let known: Vec<&str> = views.keys().map(String::as_str).collect();
                        let what = format!("there is no view {name:?}; there is {}", known.join(", "));
                        return Err(Error::query(what.trim_end_matches("; there is ")));
                    }
                }
                ("view", vec![vec![name]])
            }
            Statement::Show => {
                let registry = Registry::open(db)?;
                let views = registry.as_ref().map(Registry::views).transpose()?.unwrap_or_default();
                let noted = progress::all(db)?;
                let row = |(name, view): (&String, &registry::Entry)| {
                    let own = noted.get(name).filter(|noted| noted.defined == view.defined);
                    let until = own.filter(|noted| noted.passed.0 > i64::MIN);
                    let until = until.map_or(String::new(), |noted| noted.passed.to_string());
                    vec![name.clone(), until, view.query.clone()]
                };
                ("view, until, query", views.iter().map(row).collect())
            }
        };
        self.texts(columns, &rows)
    }

    /// Whether a text is a statement that changes the views of a database, which is then to be open for writing.
    pub fn changes_views(text: &str) -> bool {
        matches!(statement::parse(text), Ok(Some(Statement::Create { .. } | Statement::Drop { .. })))
    }

    /// Rows of texts.
    fn texts(&self, columns: &str, rows: &[Vec<String>]) -> Result<Rows, Error> {
        let quoted = |text: &String| format!("'{}'", text.replace('\'', "''"));
        let row = |row: &Vec<String>| format!("({})", row.iter().map(quoted).collect::<Vec<_>>().join(", "));
        let none = format!("({})", vec!["''"; columns.split(',').count()].join(", "));
        let values = if rows.is_empty() { none } else { rows.iter().map(row).collect::<Vec<_>>().join(", ") };
        let condition = if rows.is_empty() { " WHERE false" } else { "" };
        let names: Vec<String> = columns.split(", ").map(|name| format!("\"{name}\"")).collect();
        let names = names.join(", ");
        let text = format!("SELECT * FROM (VALUES {values}) AS rows({names}){condition}");
        let options = Options { place: crate::options::Place::Here, ..Options::default() };
        self.query_as(&text, &Parameters::default(), &options)
    }
}
