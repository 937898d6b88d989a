//! The columns that a program requests, and the columns that assign their values to rows.

use crate::error::{Error, Invalid, MissingColumn, NotFound};
use tapedb_segment::{ColumnKind, Plan, StepKind};

/// Maximum number of field names in an error.
const KNOWN_MAX: usize = 20;

/// The columns to read of one record type.
///
/// Always true: `columns` has the numbers of all columns to decode, ascending; `asked` and their steps are indices into it;
/// `needed` states for each column of the record type whether it is read from files.
#[derive(Debug, Clone)]
pub(crate) struct Fields {
    pub type_id: u16,
    pub asked: Vec<Field>,
    pub columns: Vec<u16>,
    /// `columns`, and columns that these were found to follow.
    pub needed: Vec<bool>,
}

/// A requested column.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    pub kind: ColumnKind,
    pub values: usize,
    /// The steps from rows to values.
    pub steps: Vec<FieldStep>,
}

/// A column that determines which values exist below it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FieldStep {
    pub values: usize,
    pub kind: StepKind,
}

impl Fields {
    /// Finds the columns of `paths` in a record type.
    ///
    /// # Errors
    /// When there is no such record type or no such column.
    pub fn find(plan: &Plan, stream: &str, record: &str, paths: &[String]) -> Result<Self, Error> {
        let layouts = plan.layouts();
        let found = layouts.schema().record(record).filter(|(_, record)| record.message);
        let Some((type_id, group)) = found.and_then(|(id, _)| Some((id, plan.group(id)?))) else {
            let why = "there is no such message type; see `desc` for those there are";
            return Err(Error::Invalid(Invalid::Type { stream: stream.into(), record: record.into(), why }));
        };
        let numbers = paths.iter().map(|path| {
            number_of(plan, type_id, path).ok_or_else(|| {
                let known =
                    group.columns().iter().take(KNOWN_MAX).map(|column| column.path.clone()).collect();
                let (stream, field) = (stream.into(), format!("{record}.{path}"));
                Error::NotFound(NotFound::Column(Box::new(MissingColumn { stream, field, known })))
            })
        });
        let numbers = numbers.collect::<Result<Vec<u16>, Error>>()?;
        let ways: Vec<_> = numbers.iter().map(|number| group.way_to(*number)).collect();
        let above = ways.iter().flatten().map(|(number, _)| *number);
        let mut columns: Vec<u16> = numbers.iter().copied().chain(above).collect();
        columns.sort_unstable();
        columns.dedup();
        // Every number is among the columns, so the search finds it.
        let index = |number: u16| columns.partition_point(|column| *column < number);
        let step = |(number, kind): (u16, StepKind)| FieldStep { values: index(number), kind };
        let asked = numbers.iter().zip(ways).map(|(number, way)| Field {
            kind: group.columns()[usize::from(*number)].kind,
            values: index(*number),
            steps: way.into_iter().map(step).collect(),
        });
        let asked = asked.collect();
        let mut needed = vec![false; group.columns().len()];
        columns.iter().for_each(|column| needed[usize::from(*column)] = true);
        Ok(Self { type_id, asked, columns, needed })
    }

    /// Whether a column is read from files.
    pub fn needs(&self, type_id: u16, column: u16) -> bool {
        // Bodies that were stored whole are in column 0, which shows them.
        type_id == self.type_id && self.needed.get(usize::from(column)).copied().unwrap_or(false)
    }
}

/// Number of the column at a path, in which `[]` may be left out.
fn number_of(plan: &Plan, type_id: u16, path: &str) -> Option<u16> {
    let group = plan.group(type_id)?;
    let is_it = |found: &str| found.replace("[]", "") == path;
    let loosely = || group.columns().iter().position(|column| is_it(&column.path)).map(|index| index as u16);
    group.column(path).or_else(loosely)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tapedb_codec::dynamic::Layouts;

    fn ways(schema: &str, path: &str) -> Option<Vec<(u16, String)>> {
        let plan = Plan::new(Layouts::new(schema.parse().unwrap()).unwrap());
        let fields = Fields::find(&plan, "s", "M", &[path.into()]).ok()?;
        let steps = fields.asked[0].steps.iter();
        Some(steps.map(|step| (fields.columns[step.values], format!("{:?}", step.kind))).collect())
    }

    fn step(column: u16, kind: &str) -> (u16, String) {
        (column, kind.into())
    }

    #[test]
    fn a_value_hangs_from_all_that_lies_around_it() {
        let schema = "record A { x: i8 } record my.B { y: string? }
            message M { n: i64?, one: record<A>, some: array<record<A|my.B>?>, grid: array<array<u8>> }";
        assert_eq!(ways(schema, "n"), Some(vec![step(0, "Present")]));
        assert_eq!(ways(schema, "n?"), Some(vec![]));
        assert_eq!(ways(schema, "one.x"), Some(vec![]));
        let some = [step(3, "Items"), step(4, "Present"), step(5, "Is(1)"), step(7, "Present")];
        assert_eq!(ways(schema, "some[].my.B.y"), Some(some.to_vec()));
        assert_eq!(ways(schema, "some.my.B.y"), Some(some.to_vec()));
        assert_eq!(ways(schema, "some"), Some(vec![]));
        assert_eq!(ways(schema, "grid[][]"), Some(vec![step(9, "Items"), step(10, "Items")]));
        assert_eq!(ways(schema, "some[].C.y"), None);
    }
}
