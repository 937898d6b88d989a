//! `book('feed', 'AAPL', at, depth)`: the levels of a symbol's order books at a time, as a table.

use crate::error::{Error, wrapped};
use crate::open::{OpenStream, Part};
use crate::parameters::Parameters;
use crate::snapshot::Snapshot;
use datafusion::arrow::array::{
    ArrayRef, Decimal128Array, Float64Array, RecordBatch, StringViewArray, TimestampNanosecondArray,
    UInt32Array,
};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::catalog::streaming::StreamingTable;
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, ScalarValue, plan_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion::sql::sqlparser::ast::{
    Expr as AstExpr, FunctionArg, FunctionArgExpr, Ident, ObjectName, ObjectNamePart, TableAlias,
    TableFactor, Value,
};
use std::sync::Arc;
use tapedb_arrow::Decimals;
use tapedb_market::{BookState, PriceLevel, Side, Units};
use tapedb_market_streams::{BookAt, BookError, BookReplay, BookRequest, StreamBooks};
use tapedb_schema::Timestamp;

/// Name of the function in queries.
const NAME: &str = "book";

/// Name of the function as DataFusion finds it: no stream can have it.
pub(crate) const FUNCTION: &str = "book()";

/// Levels of each side, unless another number is asked for.
const DEPTH: usize = 10;

const USAGE: &str = "write book('stream', 'symbol', time, depth): time and depth may be left out, and all are constants or parameters";

/// Gives `book(…)` in the text of a query the name that the function has, and opens its stream. Returns the columns of the table.
pub(crate) fn resolve(
    factor: &mut TableFactor,
    snapshot: &Snapshot,
    parameters: &Parameters,
) -> Option<SchemaRef> {
    let TableFactor::Table { name, alias, args: Some(args), .. } = factor else { return None };
    let [ObjectNamePart::Identifier(function)] = &name.0[..] else { return None };
    if function.quote_style.is_some() || !function.value.eq_ignore_ascii_case(NAME) {
        return None;
    }
    *name = ObjectName(vec![ObjectNamePart::Identifier(Ident::new(FUNCTION))]);
    if alias.is_none() {
        let name = Ident::with_quote('"', NAME);
        *alias = Some(TableAlias { explicit: false, name, columns: Vec::new(), at: None });
    }
    let wanted = args.args.first().and_then(|first| text(first, parameters));
    if let Some(stream) = wanted.as_deref().and_then(|wanted| snapshot.name_of(wanted)) {
        // What is wrong with it is an error when the function is called.
        let _ = snapshot.stream(stream);
    }
    Some(schema(snapshot.decimals()))
}

/// A text, or a parameter that is one.
fn text(argument: &FunctionArg, parameters: &Parameters) -> Option<String> {
    let FunctionArg::Unnamed(FunctionArgExpr::Expr(AstExpr::Value(value))) = argument else { return None };
    match &value.value {
        Value::SingleQuotedString(text) => Some(text.clone()),
        Value::Placeholder(id) => {
            let value = parameters.0.as_ref()?.get_placeholders_with_values(id).ok()?;
            value.value.try_as_str().flatten().map(str::to_string)
        }
        _ => None,
    }
}

/// The function, for one query.
#[derive(Debug)]
pub(crate) struct Book {
    pub snapshot: Arc<Snapshot>,
    pub parameters: Parameters,
}

impl Book {
    /// The value of an argument.
    fn constant(&self, argument: &Expr) -> Result<ScalarValue> {
        let with_values = argument.clone().transform_up(|expr| match (&expr, &self.parameters.0) {
            (Expr::Placeholder(placeholder), Some(values)) => {
                let found = values.get_placeholders_with_values(&placeholder.id)?;
                Ok(Transformed::yes(Expr::Literal(found.value, found.metadata)))
            }
            _ => Ok(Transformed::no(expr)),
        })?;
        let simplifier = ExprSimplifier::new(SimplifyContext::default());
        match simplifier.simplify(simplifier.coerce(with_values.data, &DFSchema::empty())?)? {
            Expr::Literal(value, _) => Ok(value),
            Expr::Placeholder(placeholder) => plan_err!("there is no value for {}", placeholder.id),
            other => plan_err!("{other} is no constant; {USAGE}"),
        }
    }
}

impl TableFunctionImpl for Book {
    fn call_with_args(&self, args: TableFunctionArgs<'_, '_>) -> Result<Arc<dyn TableProvider>> {
        let values: Vec<ScalarValue> =
            args.exprs().iter().map(|argument| self.constant(argument)).collect::<Result<_>>()?;
        let (stream, symbol, rest) = match &values[..] {
            [stream, symbol, rest @ ..] if rest.len() <= 2 => (stream, symbol, rest),
            _ => return plan_err!("book has {} arguments; {USAGE}", values.len()),
        };
        let (Some(Some(stream)), Some(Some(symbol))) = (stream.try_as_str(), symbol.try_as_str()) else {
            return plan_err!("stream and symbol of book are texts; {USAGE}");
        };
        let open = match self.snapshot.name_of(stream) {
            Some(name) => self.snapshot.stream(name).map_err(wrapped)?,
            None => return Err(wrapped(self.snapshot.no_stream(stream))),
        };
        let open = of_symbol(open, symbol)?;
        BookReplay::new(&open.stream).map_err(failed)?;
        let ty = DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
        let time = match rest.first() {
            Some(time) if !time.is_null() => match time.cast_to(&ty)? {
                ScalarValue::TimestampNanosecond(Some(time), _) => time,
                _ => return plan_err!("{time} is no time; {USAGE}"),
            },
            _ => i64::MAX,
        };
        let depth = match rest.get(1) {
            Some(depth) if !depth.is_null() => match depth.cast_to(&DataType::Int64)? {
                ScalarValue::Int64(Some(depth)) if depth > 0 => usize::try_from(depth).unwrap_or(usize::MAX),
                _ => return plan_err!("the depth of book is a number of levels, 1 or more, not {depth}"),
            },
            _ => DEPTH,
        };
        let schema = schema(self.snapshot.decimals());
        let levels = Levels {
            snapshot: self.snapshot.clone(),
            open,
            symbol: symbol.into(),
            time: Timestamp(time),
            depth,
            schema: schema.clone(),
        };
        Ok(Arc::new(StreamingTable::try_new(schema, vec![Arc::new(levels)])?))
    }
}

fn failed(error: BookError) -> DataFusionError {
    wrapped(match error {
        BookError::Stream(error) => error.into(),
        other => Error::query(other.to_string()),
    })
}

/// The columns.
fn schema(decimals: Decimals) -> SchemaRef {
    let number = match decimals {
        Decimals::Decimal128 { precision, scale } => DataType::Decimal128(precision, scale as i8),
        Decimals::Float64 | Decimals::Raw => DataType::Float64,
    };
    let time = DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
    Arc::new(Schema::new(vec![
        Field::new("symbol", DataType::Utf8View, false),
        Field::new("exchange", DataType::Utf8View, true),
        Field::new("kind", DataType::Utf8View, false),
        Field::new("state", DataType::Utf8View, false),
        Field::new("side", DataType::Utf8View, false),
        Field::new("level", DataType::UInt32, false),
        Field::new("price", number.clone(), false),
        Field::new("size", number, false),
        Field::new("orders", DataType::UInt32, true),
        Field::new("changed", time, true),
    ]))
}

/// The levels of one call.
#[derive(Debug)]
struct Levels {
    snapshot: Arc<Snapshot>,
    open: Arc<OpenStream>,
    symbol: String,
    time: Timestamp,
    depth: usize,
    schema: SchemaRef,
}

impl PartitionStream for Levels {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut builder = RecordBatchReceiverStream::builder(self.schema.clone(), 1);
        let sender = builder.tx();
        let (snapshot, schema, depth) = (self.snapshot.clone(), self.schema.clone(), self.depth);
        let (open, symbol, time) = (self.open.clone(), self.symbol.clone(), self.time);
        builder.spawn_blocking(move || {
            let ends = open.ends().map_err(wrapped)?;
            let request = BookRequest { symbol: &symbol, time, ends: Some(ends) };
            let is_wanted = &mut || !sender.is_closed();
            let db = snapshot.database_of(&open);
            let found = open.stream.book_while(&db, &request, is_wanted).map_err(failed)?;
            if let Some(found) = found {
                let batch = batch_of(&found, &symbol, depth, &schema)?;
                // The query may have stopped by now.
                let _ = sender.blocking_send(Ok(batch));
            }
            Ok(())
        });
        builder.build()
    }
}

/// The stream of the server that has a symbol, where several have the stream.
fn of_symbol(open: Arc<OpenStream>, symbol: &str) -> Result<Arc<OpenStream>> {
    let has_it = |part: &&Part| part.open.stream.symbols().iter().any(|known| known == symbol);
    let found: Vec<&Part> = open.parts.iter().filter(has_it).collect();
    match found[..] {
        [] => Ok(open.parts.first().map_or(open.clone(), |part| part.open.clone())),
        [only] => Ok(only.open.clone()),
        [one, other, ..] => {
            let (one, other) = (&one.member.name, &other.member.name);
            plan_err!(
                "servers {one} and {other} both have messages of {symbol}, of which no book can be made; ask one of them"
            )
        }
    }
}

/// The rows: venue by venue, bids and asks, each from the best one.
fn batch_of(found: &BookAt, symbol: &str, depth: usize, schema: &SchemaRef) -> Result<RecordBatch> {
    let books = &found.books;
    let known = books.venues().iter().filter(|venue| venue.state() != BookState::Unknown);
    let sides = known.flat_map(|venue| [(venue, Side::Bid), (venue, Side::Ask)]);
    let mut rows = Vec::new();
    for (venue, side) in sides {
        let levels = venue.levels(side).take(depth);
        rows.extend((1u32..).zip(levels).map(|(number, level)| (venue, side, number, level)));
    }
    let exchanges = rows.iter().map(|(venue, ..)| venue.exchange().map(|exchange| exchange.to_string()));
    let side = |side: &Side| if *side == Side::Bid { "BID" } else { "ASK" };
    let changed = rows.iter().map(|(venue, ..)| venue.changed().map(Timestamp::nanos));
    let changed: TimestampNanosecondArray = changed.collect();
    let numbers = |units: Units, of: fn(&PriceLevel) -> i64, column: usize| {
        let values = rows.iter().map(|(.., level)| of(level));
        numbers(values, units, schema.field(column).data_type())
    };
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|_| Some(symbol)).collect::<StringViewArray>()),
        Arc::new(exchanges.collect::<StringViewArray>()),
        Arc::new(rows.iter().map(|(venue, ..)| Some(venue.kind().name())).collect::<StringViewArray>()),
        Arc::new(rows.iter().map(|(venue, ..)| Some(venue.state().name())).collect::<StringViewArray>()),
        Arc::new(rows.iter().map(|(_, of, ..)| Some(side(of))).collect::<StringViewArray>()),
        Arc::new(rows.iter().map(|(_, _, number, _)| *number).collect::<UInt32Array>()),
        numbers(books.price_units(), |level| level.price, 6)?,
        numbers(books.size_units(), |level| level.size, 7)?,
        Arc::new(
            rows.iter()
                .map(|(.., level)| (level.orders > 0).then_some(level.orders))
                .collect::<UInt32Array>(),
        ),
        Arc::new(changed.with_timezone("UTC")),
    ];
    Ok(RecordBatch::try_new(schema.clone(), columns)?)
}

/// Numbers of units as a column of a type.
fn numbers(values: impl Iterator<Item = i64>, units: Units, ty: &DataType) -> Result<ArrayRef> {
    let DataType::Decimal128(precision, scale) = ty else {
        return Ok(Arc::new(values.map(|value| units.decimal(value).to_f64()).collect::<Float64Array>()));
    };
    let exact = |value: i64| {
        let number = rescaled(value.into(), units.scale(), *scale);
        let fits = |number: &i128| number.unsigned_abs() < 10u128.pow((*precision).into());
        number.filter(fits).ok_or_else(|| {
            let number = units.decimal(value);
            DataFusionError::Execution(format!("{number} is not exact as decimal({precision},{scale})"))
        })
    };
    let found = values.map(exact).collect::<Result<Vec<i128>>>()?;
    let found = Decimal128Array::from(found).with_precision_and_scale(*precision, *scale)?;
    Ok(Arc::new(found))
}

/// A number of 10^-from as one of 10^-to, if it is exact.
fn rescaled(value: i128, from: u8, to: i8) -> Option<i128> {
    let shift = i32::from(to) - i32::from(from);
    let factor = 10i128.checked_pow(shift.unsigned_abs())?;
    if shift >= 0 { value.checked_mul(factor) } else { (value % factor == 0).then_some(value / factor) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_exact_in_other_units_or_refused() {
        assert_eq!(rescaled(125, 2, 4), Some(12_500));
        assert_eq!(rescaled(1_250, 3, 2), Some(125));
        assert_eq!(rescaled(1_251, 3, 2), None);
        assert_eq!(rescaled(i128::MAX, 0, 1), None);
        assert_eq!(rescaled(-7, 0, 0), Some(-7));
    }
}
