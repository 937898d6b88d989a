//! Queries of the catalogue as clients send them, changed into what DataFusion runs.

use crate::postgres::catalog::known;
use crate::postgres::catalog::names::Names;
use crate::postgres::catalog::tables::{is_always_empty, type_number};
use crate::postgres::failure::Failure;
use crate::postgres::types::UNIQUE;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, Ident, Join, JoinOperator, ObjectName, ObjectNamePart, Query, Select, SelectItem,
    SetExpr, Statement as Ast, TableFactor, UnaryOperator, Value, Visit, VisitMut, Visitor, VisitorMut,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// The statement of SQL in it, if it is one.
pub(crate) fn ast_of(statement: &mut Statement) -> Option<&mut Ast> {
    match statement {
        Statement::Statement(ast) => Some(ast),
        Statement::Explain(explain) => ast_of(&mut explain.statement),
        _ => None,
    }
}

/// Changes a query.
///
/// # Errors
/// When it names a table that is not there as a number.
pub(crate) fn rewrite(ast: &mut Ast, names: &Names) -> Result<(), Failure> {
    if let Ast::Query(query) = ast {
        name_columns(query);
    }
    match VisitMut::visit(ast, &mut Rewrite { names }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(failure) => Err(failure),
    }
}

/// Gives columns the names that PostgreSQL gives them, each once.
fn name_columns(query: &mut Query) {
    let SetExpr::Select(select) = &mut *query.body else { return };
    let has_wildcard =
        |item: &SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
    let has_wildcard = select.projection.iter().any(has_wildcard);
    let mut taken = BTreeSet::new();
    for (index, item) in select.projection.iter_mut().enumerate() {
        let (expr, name) = match item {
            SelectItem::UnnamedExpr(expr) => (expr.clone(), name_of(expr)),
            SelectItem::ExprWithAlias { expr, alias } => (expr.clone(), folded(alias)),
            _ => continue,
        };
        let is_new = taken.insert(name.clone());
        let name = if is_new && !has_wildcard { name } else { format!("{name}{UNIQUE}{index}") };
        *item = SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', name) };
    }
}

/// The name that PostgreSQL gives a column.
fn name_of(expr: &Expr) -> String {
    match expr {
        Expr::Identifier(ident) => folded(ident),
        Expr::CompoundIdentifier(parts) => parts.last().map_or_else(String::new, folded),
        Expr::Function(function) => last(&function.name).to_ascii_lowercase(),
        Expr::Cast { expr, data_type, .. } => match name_of(expr) {
            name if name == "?column?" => data_type.to_string().to_ascii_lowercase(),
            name => name,
        },
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => name_of(inner),
        Expr::Case { .. } => "case".into(),
        Expr::Exists { .. } => "exists".into(),
        Expr::Subquery(query) => match &*query.body {
            SetExpr::Select(select) => match select.projection.first() {
                Some(SelectItem::UnnamedExpr(expr)) => name_of(expr),
                Some(SelectItem::ExprWithAlias { alias, .. }) => folded(alias),
                _ => "?column?".into(),
            },
            _ => "?column?".into(),
        },
        _ => "?column?".into(),
    }
}

/// A name as PostgreSQL takes it: without quotes, in small letters.
fn folded(ident: &Ident) -> String {
    match ident.quote_style {
        None => ident.value.to_lowercase(),
        Some(_) => ident.value.clone(),
    }
}

fn last(name: &ObjectName) -> &str {
    match name.0.last() {
        Some(ObjectNamePart::Identifier(ident)) => &ident.value,
        _ => "",
    }
}

struct Rewrite<'a> {
    names: &'a Names,
}

impl VisitorMut for Rewrite<'_> {
    type Break = Failure;

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Failure> {
        // pg_catalog is where names without a schema are looked up, and the database has one name.
        if let TableFactor::Table { name, .. } = factor
            && name.0.len() == 3
        {
            name.0.remove(0);
        }
        if let TableFactor::Derived { subquery, .. } = factor
            && let Some(plainer) = known::plainer_subquery(&subquery.to_string())
            && let Ok(mut parsed) = Parser::parse_sql(&PostgreSqlDialect {}, plainer)
            && let Some(Ast::Query(query)) = parsed.pop()
        {
            *subquery = query;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Failure> {
        let new = match expr {
            Expr::Subquery(query) => scalar(query),
            Expr::Exists { subquery, negated } => reads_nothing(subquery).then(|| boolean(*negated)),
            Expr::InSubquery { expr, negated, subquery } if subquery.to_string().contains("search_path") => {
                // Grafana asks which schemas are in the search path.
                Some(Expr::InList { expr: expr.clone(), list: vec![text("public")], negated: *negated })
            }
            // ARRAY(SELECT …) of what is not there.
            Expr::Function(function)
                if matches!(function.args, FunctionArguments::Subquery(_))
                    && last(&function.name).eq_ignore_ascii_case("array") =>
            {
                Some(null())
            }
            _ => None,
        };
        if let Some(new) = new {
            *expr = new;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Failure> {
        let new = match expr {
            Expr::Function(function) => {
                if function.name.0.len() > 1 {
                    let last = function.name.0.pop();
                    function.name.0 = last.into_iter().collect();
                }
                // A function without parentheses.
                let is_catalog = last(&function.name).eq_ignore_ascii_case("current_catalog");
                is_catalog.then(|| call("current_database", []))
            }
            Expr::Collate { expr, .. } => Some((**expr).clone()),
            // Functions are names here, not numbers.
            Expr::BinaryOp { left, op: BinaryOperator::NotEq, right }
                if is_function(left) && is_zero(right) =>
            {
                Some(Expr::IsNotNull(left.clone()))
            }
            Expr::BinaryOp { left, op: BinaryOperator::Eq, right } if is_function(left) && is_zero(right) => {
                Some(Expr::IsNull(left.clone()))
            }
            Expr::BinaryOp { op, .. } => {
                if let BinaryOperator::PGCustomBinaryOperator(parts) = op {
                    match parts.last().map(String::as_str) {
                        Some("~") => *op = BinaryOperator::PGRegexMatch,
                        Some("!~") => *op = BinaryOperator::PGRegexNotMatch,
                        Some("~*") => *op = BinaryOperator::PGRegexIMatch,
                        Some("~~") => *op = BinaryOperator::PGLikeMatch,
                        Some("!~~") => *op = BinaryOperator::PGNotLikeMatch,
                        Some("=") => *op = BinaryOperator::Eq,
                        _ => {}
                    }
                }
                None
            }
            Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } if !is_query(right) => {
                Some(has(right, left))
            }
            Expr::AllOp { left, compare_op: BinaryOperator::NotEq, right } if !is_query(right) => {
                Some(Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(has(right, left)) })
            }
            Expr::Cast { expr, data_type, .. } => match self.cast(expr, data_type) {
                Ok(new) => new,
                Err(failure) => return ControlFlow::Break(failure),
            },
            _ => None,
        };
        if let Some(new) = new {
            *expr = new;
        }
        ControlFlow::Continue(())
    }
}

impl Rewrite<'_> {
    /// What a cast to a type that DataFusion has not stands for.
    fn cast(&self, expr: &Expr, ty: &DataType) -> Result<Option<Expr>, Failure> {
        let ty = match ty {
            DataType::Custom(name, _) => last(name).to_ascii_lowercase(),
            DataType::Regclass => "regclass".into(),
            _ => return Ok(None),
        };
        let literal = match expr {
            Expr::Value(value) => match &value.value {
                Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => Some(text.as_str()),
                _ => None,
            },
            _ => None,
        };
        let cast = |data_type| {
            Some(Expr::Cast {
                kind: CastKind::Cast,
                expr: Box::new(expr.clone()),
                data_type,
                array: false,
                format: None,
            })
        };
        Ok(match (ty.as_str(), literal) {
            ("regclass", Some(name)) if name.parse::<i64>().is_err() => {
                let missing = || Failure::new("42P01", format!("there is no table {name:?}"));
                Some(number(self.names.table(name).ok_or_else(missing)?))
            }
            ("regclass", _) => Some(call("tapedb_regclass", [expr.clone()])),
            ("regtype", Some(name)) if name.parse::<i64>().is_err() => {
                let missing = || Failure::new("42704", format!("there is no type {name:?}"));
                Some(number(type_number(name).ok_or_else(missing)?))
            }
            ("regtype", _) => Some(call("format_type", [expr.clone(), null()])),
            ("regnamespace", Some(name)) if name.parse::<i64>().is_err() => {
                let found = self.names.schemas.iter().find(|(schema, _)| schema == name.trim_matches('"'));
                Some(number(found.map_or(0, |(_, oid)| *oid)))
            }
            ("regnamespace", _) => Some(call("tapedb_regnamespace", [expr.clone()])),
            ("regrole", _) => Some(call("tapedb_regrole", [expr.clone()])),
            ("oid" | "xid" | "int8", _) => cast(DataType::BigInt(None)),
            ("int4", _) => cast(DataType::Int(None)),
            ("int2", _) => cast(DataType::SmallInt(None)),
            ("bool", _) => cast(DataType::Boolean),
            ("float8", _) => cast(DataType::DoublePrecision),
            (
                "name"
                | "text"
                | "char"
                | "varchar"
                | "regproc"
                | "regprocedure"
                | "regoper"
                | "cstring"
                | "information_schema.sql_identifier"
                | "sql_identifier",
                _,
            ) => cast(DataType::Text),
            _ => None,
        })
    }
}

/// A query within a value: `None` where it stays. DataFusion has those with a row for each other row only as aggregates.
fn scalar(query: &mut Query) -> Option<Expr> {
    if reads_nothing(query) {
        return Some(null());
    }
    let SetExpr::Select(select) = &mut *query.body else { return None };
    let [SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }] = &mut select.projection[..]
    else {
        return None;
    };
    let is_aggregate = Visit::visit(&*expr, &mut Aggregates { depth: 0 }).is_break();
    if !is_aggregate && !select.from.is_empty() {
        *expr = call("max", [expr.clone()]);
        query.order_by = None;
        query.limit_clause = None;
    }
    None
}

/// Names of the columns of a query that has no rows, whatever streams there are: it need not be planned.
pub(crate) fn columns_of_nothing(ast: &Ast) -> Option<Vec<String>> {
    let Ast::Query(query) = ast else { return None };
    if !reads_nothing(query) {
        return None;
    }
    names_of(&query.body)
}

fn names_of(body: &SetExpr) -> Option<Vec<String>> {
    match body {
        SetExpr::Select(select) => select
            .projection
            .iter()
            .map(|item| match item {
                SelectItem::UnnamedExpr(expr) => Some(name_of(expr)),
                SelectItem::ExprWithAlias { alias, .. } => Some(folded(alias)),
                _ => None,
            })
            .collect(),
        SetExpr::SetOperation { left, .. } => names_of(left),
        SetExpr::Query(query) => names_of(&query.body),
        _ => None,
    }
}

/// Whether a query has no rows because it reads a table that is always empty, and does not count them.
fn reads_nothing(query: &Query) -> bool {
    query.with.is_none() && is_nothing(&query.body)
}

fn is_nothing(body: &SetExpr) -> bool {
    match body {
        SetExpr::Select(select) => {
            let Select { from, projection, .. } = &**select;
            let is_counted = projection.iter().any(|item| {
                let mut aggregates = Aggregates { depth: 0 };
                Visit::visit(item, &mut aggregates).is_break()
            });
            !is_counted
                && from.iter().any(|table| {
                    let keeps = |join: &Join| is_inner(&join.join_operator) || is_left(&join.join_operator);
                    is_empty(&table.relation) && table.joins.iter().all(keeps)
                        || table.joins.iter().all(keeps)
                            && table
                                .joins
                                .iter()
                                .any(|join| is_empty(&join.relation) && is_inner(&join.join_operator))
                })
        }
        SetExpr::SetOperation { left, right, .. } => is_nothing(left) && is_nothing(right),
        SetExpr::Query(query) => reads_nothing(query),
        _ => false,
    }
}

const AGGREGATES: [&str; 8] =
    ["count", "max", "min", "sum", "array_agg", "string_agg", "bool_or", "bool_and"];

/// Breaks at an aggregate that is in no query within.
struct Aggregates {
    depth: usize,
}

impl Visitor for Aggregates {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(function)
                if self.depth == 0
                    && AGGREGATES.contains(&last(&function.name).to_ascii_lowercase().as_str()) =>
            {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

fn is_inner(join: &JoinOperator) -> bool {
    matches!(join, JoinOperator::Join(_) | JoinOperator::Inner(_) | JoinOperator::CrossJoin(_))
}

fn is_left(join: &JoinOperator) -> bool {
    matches!(join, JoinOperator::Left(_) | JoinOperator::LeftOuter(_))
}

fn is_empty(factor: &TableFactor) -> bool {
    match factor {
        TableFactor::Table { name, .. } => is_always_empty(&last(name).to_ascii_lowercase()),
        TableFactor::Derived { subquery, .. } => reads_nothing(subquery),
        _ => false,
    }
}

/// Whether it is a column with the function of a type.
fn is_function(expr: &Expr) -> bool {
    let name = name_of(expr);
    matches!(
        name.as_str(),
        "typreceive" | "typsend" | "typinput" | "typoutput" | "typanalyze" | "typmodin" | "typmodout"
    )
}

fn is_zero(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if matches!(&value.value, Value::Number(number, _) if number == "0"))
}

fn is_query(expr: &Expr) -> bool {
    match expr {
        Expr::Subquery(_) => true,
        Expr::Nested(inner) => is_query(inner),
        _ => false,
    }
}

/// Whether a list has a value.
fn has(list: &Expr, value: &Expr) -> Expr {
    call("array_has", [list.clone(), value.clone()])
}

fn call<const N: usize>(name: &str, arguments: [Expr; N]) -> Expr {
    let argument = |expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(expr));
    let list = FunctionArgumentList {
        duplicate_treatment: None,
        args: arguments.into_iter().map(argument).collect(),
        clauses: Vec::new(),
    };
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(list),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

fn null() -> Expr {
    Expr::value(Value::Null)
}

fn boolean(value: bool) -> Expr {
    Expr::value(Value::Boolean(value))
}

fn text(value: &str) -> Expr {
    Expr::value(Value::SingleQuotedString(value.into()))
}

fn number(value: i64) -> Expr {
    Expr::value(Value::Number(value.to_string(), false))
}
