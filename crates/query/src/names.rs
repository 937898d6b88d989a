//! Names in queries, replaced by those of streams, tables and columns.

use crate::book;
use crate::latest;
use crate::nanoseconds;
use crate::parameters::Parameters;
use crate::snapshot::Snapshot;
use crate::spelling::find;
use crate::table::Table;
use datafusion::arrow::datatypes::{DataType, Fields, SchemaRef};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, ObjectNamePart, Query, Select, SelectItem, Statement as Ast, TableAlias,
    TableFactor, Visit, VisitMut, Visitor, VisitorMut,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

/// Replaces names in a statement that differ by case alone from those of streams, tables and columns, and opens the streams that it
/// names, all as of one moment. Quoted names are taken as they are.
/// Where no table has a column `time_ns` and the statement gives no such name, it is what [`nanoseconds`] describes.
pub(crate) fn resolve(
    statement: &mut Statement,
    snapshot: &Snapshot,
    parameters: &Parameters,
) -> Result<(), crate::Error> {
    let Some(ast) = ast_of(statement) else { return Ok(()) };
    let mut tables =
        Tables { snapshot, parameters, own: BTreeSet::new(), found: Vec::new(), columns: Vec::new() };
    let _ = Visit::visit(&*ast, &mut Own(&mut tables.own));
    let _ = VisitMut::visit(ast, &mut tables);
    let Tables { found, own, columns: others, .. } = tables;
    snapshot.fix()?;
    let mut columns = Columns { known: BTreeSet::new(), own, by_lower: BTreeMap::new() };
    others.iter().for_each(|schema| columns.add(schema.fields()));
    for (stream, table) in found {
        // What cannot be a table is an error with more words later.
        if let Ok(found) = snapshot.stream(&stream).and_then(|open| Table::new(open, &table)) {
            columns.add(found.schema().fields());
        }
        columns.known.extend([stream, table]);
    }
    for name in &columns.known {
        columns.by_lower.entry(name.to_lowercase()).or_default().insert(name.clone());
    }
    let _ = VisitMut::visit(ast, &mut columns);
    if !columns.known.iter().chain(&columns.own).any(|name| name.eq_ignore_ascii_case("time_ns")) {
        nanoseconds::expand(ast);
    }
    Ok(())
}

/// The statement of SQL in it, if it is one.
pub(crate) fn ast_of(statement: &mut Statement) -> Option<&mut Ast> {
    match statement {
        Statement::Statement(ast) => Some(ast),
        Statement::Explain(explain) => ast_of(&mut explain.statement),
        _ => None,
    }
}

/// Collects the names that a statement gives itself.
struct Own<'a>(&'a mut BTreeSet<String>);

impl Own<'_> {
    fn add_alias(&mut self, alias: &Option<TableAlias>) {
        if let Some(alias) = alias {
            self.0.insert(alias.name.value.clone());
            self.0.extend(alias.columns.iter().map(|column| column.name.value.clone()));
        }
    }
}

impl Visitor for Own<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        for table in query.with.iter().flat_map(|with| &with.cte_tables) {
            self.add_alias(&Some(table.alias.clone()));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        for item in &select.projection {
            if let SelectItem::ExprWithAlias { alias, .. } = item {
                self.0.insert(alias.value.clone());
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table { alias, .. }
            | TableFactor::Derived { alias, .. }
            | TableFactor::TableFunction { alias, .. }
            | TableFactor::Function { alias, .. }
            | TableFactor::UNNEST { alias, .. }
            | TableFactor::NestedJoin { alias, .. } => self.add_alias(alias),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Finds the tables of a statement, and writes their names as they are.
struct Tables<'a> {
    snapshot: &'a Snapshot,
    parameters: &'a Parameters,
    own: BTreeSet<String>,
    found: Vec<(String, String)>,
    /// Columns of functions.
    columns: Vec<SchemaRef>,
}

impl VisitorMut for Tables<'_> {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let Some((stream, table)) = latest::resolve(factor, self.snapshot) {
            self.found.push((stream, table));
        } else if let Some(columns) = book::resolve(factor, self.snapshot, self.parameters) {
            self.columns.push(columns);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &mut ObjectName) -> ControlFlow<()> {
        let mut parts = relation.0.iter_mut().map(|part| match part {
            ObjectNamePart::Identifier(ident) => Some(ident),
            ObjectNamePart::Function(_) => None,
        });
        match (parts.next().flatten(), parts.next().flatten(), parts.next()) {
            (Some(only), None, None) => {
                if !self.own.contains(&only.value)
                    && let Some(stream) = self.snapshot.name_of(&only.value)
                {
                    replace(only, stream);
                    if let Ok(open) = self.snapshot.stream(stream)
                        && let [table] = &open.messages()[..]
                    {
                        self.found.push((stream.to_string(), table.clone()));
                    }
                }
            }
            (Some(stream), Some(table), None) => {
                if let Some(name) = self.snapshot.name_of(&stream.value) {
                    replace(stream, name);
                    let tables = self.snapshot.stream(name).map(|open| open.tables()).unwrap_or_default();
                    if let Some(found) = find(&table.value, tables.iter().map(String::as_str)) {
                        replace(table, found);
                        self.found.push((name.to_string(), found.to_string()));
                    }
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Writes names of columns as they are.
struct Columns {
    /// Names of streams, tables and columns.
    known: BTreeSet<String>,
    /// Names that the statement gives.
    own: BTreeSet<String>,
    /// The known names by their lower-case letters.
    by_lower: BTreeMap<String, BTreeSet<String>>,
}

impl Columns {
    fn add(&mut self, fields: &Fields) {
        for field in fields {
            self.known.insert(field.name().clone());
            match field.data_type() {
                DataType::Struct(inner) => self.add(inner),
                DataType::List(item) => self.add(&Fields::from(vec![item.clone()])),
                _ => {}
            }
        }
    }

    fn correct(&self, ident: &mut Ident) {
        if ident.quote_style.is_some() || self.known.contains(&ident.value) || self.own.contains(&ident.value)
        {
            return;
        }
        let like = self.by_lower.get(&ident.value.to_lowercase());
        if let Some(like) = like.filter(|like| like.len() == 1).and_then(|like| like.first()) {
            ident.value = like.clone();
        }
    }
}

impl VisitorMut for Columns {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(ident) => self.correct(ident),
            Expr::CompoundIdentifier(parts) => parts.iter_mut().for_each(|part| self.correct(part)),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn replace(ident: &mut Ident, name: &str) {
    if ident.quote_style.is_none() {
        ident.value = name.into();
    }
}
