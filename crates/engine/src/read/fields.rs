//! The columns that a program requests, and the columns that assign their values to rows.

use crate::error::{Error, Invalid, MissingColumn, NotFound};
use crate::read::value_range::{NumberRange, ValueRange};
use tapedb_segment::{ColumnKind, Damage, DamagedPart, Flaw, Head, Plan, Rule, StepKind};

/// Maximum number of field names in an error.
const KNOWN_MAX: usize = 20;

/// The columns to read of one record type.
///
/// Always true: `columns` has the numbers of all columns to decode, ascending; `asked` and their steps are indices into it, and
/// `level_of` has an entry for each; `levels` are in an order in which each is below an earlier one; `needed` states for each
/// column of the record type whether it is read from files.
#[derive(Debug, Clone)]
pub(crate) struct Fields {
    pub type_id: u16,
    pub asked: Vec<Field>,
    pub columns: Vec<u16>,
    /// Kinds of the columns.
    pub kinds: Vec<ColumnKind>,
    /// What values of the columns may be, by the schema of the stream.
    pub rules: Vec<Rule>,
    /// The level that the values of each column are at: 0 for the rows, otherwise a number of `levels` and 1.
    pub level_of: Vec<usize>,
    pub levels: Vec<FieldLevel>,
    /// `columns`, and columns that these were found to follow.
    pub needed: Vec<bool>,
    /// Blocks that have no value in one of these are left out.
    ranges: Vec<ValueRange>,
}

/// Values that lie below others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FieldLevel {
    /// The level above.
    pub above: usize,
    pub step: FieldStep,
}

/// A requested column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Field {
    pub kind: ColumnKind,
    pub values: usize,
    /// The steps from rows to values.
    pub steps: Vec<FieldStep>,
}

/// A column that determines which values exist below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FieldStep {
    pub values: usize,
    pub kind: StepKind,
}

impl Fields {
    /// Finds the columns of `paths` in a record type.
    ///
    /// # Errors
    /// When there is no such record type or no such column, or two columns have the path.
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
        let is_twice =
            |path: &&String| group.columns().iter().filter(|column| column.path == **path).count() > 1;
        if let Some(path) = paths.iter().find(is_twice) {
            let what = format!(
                "two columns of record type {record} have the path {path:?}, so that it names neither; give a nested record \
                 type another name, or read messages"
            );
            return Err(Error::Invalid(Invalid::Cursor { what }));
        }
        let ways: Vec<_> = numbers.iter().map(|number| group.way_to(*number)).collect();
        let above = ways.iter().copied().flatten().map(|(number, _)| *number);
        let mut columns: Vec<u16> = numbers.iter().copied().chain(above).collect();
        columns.sort_unstable();
        columns.dedup();
        // Every number is among the columns, so the search finds it.
        let index = |number: u16| columns.partition_point(|column| *column < number);
        let step = |(number, kind): &(u16, StepKind)| FieldStep { values: index(*number), kind: *kind };
        let asked = numbers.iter().zip(ways).map(|(number, way)| Field {
            kind: group.columns()[usize::from(*number)].kind,
            values: index(*number),
            steps: way.iter().map(step).collect(),
        });
        let asked = asked.collect();
        let mut needed = vec![false; group.columns().len()];
        columns.iter().for_each(|column| needed[usize::from(*column)] = true);
        let kinds = columns.iter().map(|number| group.columns()[usize::from(*number)].kind).collect();
        let rules = columns.iter().filter_map(|number| group.rule(*number)).collect();
        let (mut levels, mut level_of) = (Vec::new(), Vec::new());
        for number in &columns {
            // Steps to a step are steps to what is below it, so they are among the columns.
            let steps = group.way_to(*number).iter().map(step);
            level_of.push(steps.fold(0, |above, step| level_below(&mut levels, FieldLevel { above, step })));
        }
        Ok(Self { type_id, asked, columns, kinds, rules, level_of, levels, needed, ranges: Vec::new() })
    }

    /// Leaves out blocks in which no value of the column at a path is in a range.
    ///
    /// # Errors
    /// When there is no such column, or its values are no such numbers.
    pub fn skip_outside(
        &mut self,
        (plan, stream, record): (&Plan, &str, &str),
        (path, range): (&str, NumberRange),
    ) -> Result<(), Error> {
        let found = Self::find(plan, stream, record, &[path.into()])?;
        let number = found.columns[found.asked[0].values];
        self.ranges.push(ValueRange::new((path, number, found.asked[0].kind), range)?);
        Ok(())
    }

    /// Whether blocks are to be left out.
    pub fn has_ranges(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// Whether a block may have wanted values.
    pub fn may_match(&self, head: &Head) -> bool {
        self.ranges.iter().all(|range| range.may_be_in(head, self.type_id))
    }

    /// Whether columns of these fields have the form of the others': they fit in one chunk.
    pub fn has_form_of(&self, other: &Self) -> bool {
        self.asked == other.asked
            && self.kinds == other.kinds
            && self.levels == other.levels
            && self.level_of == other.level_of
    }

    /// Marks the missing column as needed, if it was not read: another one follows it.
    pub fn needs_too(&mut self, damage: &Damage) -> bool {
        let DamagedPart::Column { type_id: Some(type_id), column } = damage.part else { return false };
        let is_unread = matches!(damage.flaw, Flaw::Short { have: 0, .. }) && type_id == self.type_id;
        match self.needed.get_mut(usize::from(column)) {
            Some(needed) if is_unread && !*needed => {
                *needed = true;
                true
            }
            _ => false,
        }
    }

    /// Whether a column is read from files.
    pub fn needs(&self, type_id: u16, column: u16) -> bool {
        // Bodies that were stored whole are in column 0, which shows them.
        type_id == self.type_id && self.needed.get(usize::from(column)).copied().unwrap_or(false)
    }
}

/// Number of a level, which is added if it is not there yet.
fn level_below(levels: &mut Vec<FieldLevel>, level: FieldLevel) -> usize {
    let found = levels.iter().position(|other| *other == level).unwrap_or_else(|| {
        levels.push(level);
        levels.len() - 1
    });
    found + 1
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

    #[test]
    fn a_path_of_two_columns_names_neither() {
        let schema =
            "message M { x: record<my|my.B>, y: i64 } record my { B: record<C> } record my.B { f: i64 }
            record C { f: i64 }";
        let plan = Plan::new(Layouts::new(schema.parse().unwrap()).unwrap());
        let find = |path: &str| Fields::find(&plan, "s", "M", &[path.into()]);
        let error = find("x.my.B.f").unwrap_err().to_string();
        assert!(error.contains("two columns of record type M have the path"), "{error}");
        assert!(find("y").is_ok());
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

    #[test]
    fn values_below_the_same_ones_share_a_level() {
        let schema = "record A { x: i8, z: i8 } record B { y: string? }
            message M { n: i64?, some: array<record<A|B>?>, last: i8 }";
        let plan = Plan::new(Layouts::new(schema.parse().unwrap()).unwrap());
        let paths = ["last", "some.A.z", "some.A.x", "some.B.y", "n"].map(String::from);
        let fields = Fields::find(&plan, "s", "M", &paths).unwrap();
        // n?, n, some, some[]?, some[], x, z, y?, y, last
        assert_eq!(fields.level_of, [0, 1, 0, 2, 3, 4, 4, 5, 6, 0]);
        let above: Vec<usize> = fields.levels.iter().map(|level| level.above).collect();
        assert_eq!(above, [0, 0, 2, 3, 3, 5]);
        assert!(fields.has_form_of(&fields.clone()));
        assert!(!fields.has_form_of(&Fields::find(&plan, "s", "M", &paths[..4]).unwrap()));
    }
}
