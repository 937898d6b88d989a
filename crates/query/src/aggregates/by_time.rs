//! `first_value(x ORDER BY time)` and `last_value(x ORDER BY time)` of numbers and times, without comparing rows by their columns: a time
//! is an integer, and rows of a group are often neighbours.
//!
//! Of rows with equal times the first one counts for the first value, and the last one for the last, in the order in which they come.

use super::fold::{AnyFold, Fold};
use super::runs::RunStates;
use datafusion::arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, Int64Array, PrimitiveArray};
use datafusion::arrow::buffer::ScalarBuffer;
use datafusion::arrow::datatypes::{
    DataType, Decimal128Type, Field, FieldRef, Float64Type, Int64Type, TimeUnit, TimestampNanosecondType,
    UInt64Type,
};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::functions_aggregate::first_last::{first_value_udaf, last_value_udaf};
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Expr, ExprSchemable, GroupsAccumulator, LogicalPlan,
    Signature, Volatility,
};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

/// The value of the row with the least or the greatest time.
struct ByTime<T> {
    ty: DataType,
    is_last: bool,
    of: PhantomData<fn() -> T>,
}

/// The row that counts so far, and its time; no time: there is no row.
#[derive(Debug, Clone, Copy, Default)]
struct Row<N> {
    value: Option<N>,
    time: Option<i64>,
}

impl<T> ByTime<T> {
    /// Whether a later row counts more.
    fn is_better(&self, time: i64, than: i64) -> bool {
        if self.is_last { time >= than } else { time < than }
    }
}

impl<T: ArrowPrimitiveType> Fold for ByTime<T> {
    type State = Row<T::Native>;
    type Input<'a> = (&'a PrimitiveArray<T>, &'a ScalarBuffer<i64>);

    fn input<'a>(&self, columns: &'a [ArrayRef]) -> Result<Self::Input<'a>> {
        let times = match columns[1].as_primitive_opt::<TimestampNanosecondType>() {
            Some(times) => times.values(),
            None => columns[1].as_primitive::<Int64Type>().values(),
        };
        Ok((columns[0].as_primitive(), times))
    }

    fn add(
        &self,
        state: &mut Self::State,
        (values, times): &Self::Input<'_>,
        rows: Range<usize>,
        _: u64,
    ) -> Result<()> {
        let Some(first) = times.get(rows.start) else { return Ok(()) };
        let (mut best, mut time) = (rows.start, *first);
        for (row, other) in rows.clone().zip(&times[rows]).skip(1) {
            if self.is_better(*other, time) {
                (best, time) = (row, *other);
            }
        }
        if state.time.is_none_or(|known| self.is_better(time, known)) {
            *state = Row { value: values.is_valid(best).then(|| values.value(best)), time: Some(time) };
        }
        Ok(())
    }

    /// Where rows are ordered by what ascends, one of the ends.
    fn counted(&self, (_, times): &Self::Input<'_>, rows: Range<usize>, ascending: &[i64]) -> Range<usize> {
        match std::ptr::eq(times.as_ptr(), ascending.as_ptr()) && !rows.is_empty() {
            true if self.is_last => rows.end - 1..rows.end,
            true => rows.start..rows.start + 1,
            false => rows,
        }
    }

    fn merge(&self, state: &mut Self::State, other: Self::State) -> Result<()> {
        let Some(time) = other.time else { return Ok(()) };
        if state.time.is_none_or(|known| self.is_better(time, known)) {
            *state = other;
        }
        Ok(())
    }

    fn state_types(&self) -> Vec<DataType> {
        vec![self.ty.clone(), DataType::Int64]
    }

    fn pack(&self, states: &[Self::State]) -> Result<Vec<ArrayRef>> {
        let times: Int64Array = states.iter().map(|state| state.time).collect();
        Ok(vec![self.finish(states)?, Arc::new(times)])
    }

    fn unpack(&self, columns: &[ArrayRef]) -> Result<Vec<Self::State>> {
        let (values, times) = (columns[0].as_primitive::<T>(), columns[1].as_primitive::<Int64Type>());
        Ok(values.iter().zip(times).map(|(value, time)| Row { value, time }).collect())
    }

    fn finish(&self, states: &[Self::State]) -> Result<ArrayRef> {
        let values: PrimitiveArray<T> = states.iter().map(|state| state.value).collect();
        Ok(Arc::new(values.with_data_type(self.ty.clone())))
    }
}

/// The fold of a type; `None`: it has none.
fn fold(ty: &DataType, is_last: bool) -> Option<Box<dyn AnyFold>> {
    macro_rules! by_time {
        ($of:ty) => {
            Box::new(ByTime::<$of> { ty: ty.clone(), is_last, of: PhantomData })
        };
    }
    Some(match ty {
        DataType::Float64 => by_time!(Float64Type),
        DataType::Int64 => by_time!(Int64Type),
        DataType::UInt64 => by_time!(UInt64Type),
        DataType::Decimal128(..) => by_time!(Decimal128Type),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => by_time!(TimestampNanosecondType),
        _ => return None,
    })
}

/// The states of runs of rows, if the function is one of these.
pub(super) fn runs(function: &AggregateFunctionExpr) -> Option<Box<dyn RunStates>> {
    let of: &Function = function.fun().inner().downcast_ref()?;
    Some(fold(function.field().data_type(), of.is_last)?.runs())
}

/// The functions that the rule puts in. No query names them.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Function {
    is_last: bool,
    signature: Signature,
}

impl Function {
    fn start(&self, ty: &DataType) -> Result<Box<dyn AnyFold>> {
        match fold(ty, self.is_last) {
            Some(fold) => Ok(fold),
            None => datafusion::common::internal_err!("{} is not of {ty}", self.name()),
        }
    }
}

impl AggregateUDFImpl for Function {
    fn name(&self) -> &'static str {
        if self.is_last { "last_by_time" } else { "first_by_time" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let types = self.start(args.input_fields[0].data_type())?.types();
        let name = |index| format_state_name(args.name, &format!("state{index}"));
        Ok(types.into_iter().enumerate().map(|(at, ty)| Arc::new(Field::new(name(at), ty, true))).collect())
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(self.start(args.expr_fields[0].data_type())?.one())
    }

    fn groups_accumulator_supported(&self, _: AccumulatorArgs<'_>) -> bool {
        true
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(self.start(args.expr_fields[0].data_type())?.groups())
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// The rule.
#[derive(Debug)]
pub(crate) struct UseTimes;

impl OptimizerRule for UseTimes {
    fn name(&self) -> &'static str {
        "use_times"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Aggregate(aggregate) = &plan else { return Ok(Transformed::no(plan)) };
        let schema = aggregate.input.schema().clone();
        let names = NamePreserver::new_for_projection();
        plan.map_expressions(|expr| {
            let name = names.save(&expr);
            let done = expr.transform_down(|expr| match by_time(&expr, &schema)? {
                Some(by_time) => Ok(Transformed::yes(by_time)),
                None => Ok(Transformed::no(expr)),
            })?;
            Ok(done.update_data(|expr| name.restore(expr)))
        })
    }
}

/// The same aggregate by time, if it is one of these.
fn by_time(expr: &Expr, schema: &datafusion::common::DFSchema) -> Result<Option<Expr>> {
    static FUNCTIONS: LazyLock<[Arc<AggregateUDF>; 2]> = LazyLock::new(|| {
        [false, true].map(|is_last| {
            let signature = Signature::any(2, Volatility::Immutable);
            Arc::new(AggregateUDF::new_from_impl(Function { is_last, signature }))
        })
    });
    let Expr::AggregateFunction(AggregateFunction { func, params }) = expr else { return Ok(None) };
    let is_last = if *func == last_value_udaf() {
        true
    } else if *func == first_value_udaf() {
        false
    } else {
        return Ok(None);
    };
    let AggregateFunctionParams { args, distinct: false, filter, order_by, null_treatment: None } = params
    else {
        return Ok(None);
    };
    let ([value], [sort]) = (&args[..], &order_by[..]) else { return Ok(None) };
    let by = sort.expr.get_type(schema)?;
    let is_time = matches!(by, DataType::Int64 | DataType::Timestamp(TimeUnit::Nanosecond, _));
    let is_known = fold(&value.get_type(schema)?, is_last).is_some();
    if !is_time || !is_known || !sort.asc || sort.expr.nullable(schema)? {
        return Ok(None);
    }
    Ok(Some(Expr::AggregateFunction(AggregateFunction::new_udf(
        FUNCTIONS[usize::from(is_last)].clone(),
        vec![value.clone(), sort.expr.clone()],
        false,
        filter.clone(),
        Vec::new(),
        None,
    ))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{Float64Array, TimestampNanosecondArray};

    fn found(is_last: bool, rows: &[(i64, Option<f64>)], parts: usize) -> Option<f64> {
        let fold = ByTime::<Float64Type> { ty: DataType::Float64, is_last, of: PhantomData };
        let mut whole = Row::default();
        for rows in rows.chunks(rows.len().div_ceil(parts)) {
            let values: Float64Array = rows.iter().map(|row| row.1).collect();
            let times: TimestampNanosecondArray = rows.iter().map(|row| Some(row.0)).collect();
            let columns: Vec<ArrayRef> = vec![Arc::new(values), Arc::new(times)];
            let mut state = Row::default();
            fold.add(&mut state, &fold.input(&columns).unwrap(), 0..rows.len(), 0).unwrap();
            let packed = fold.pack(&[state]).unwrap();
            fold.merge(&mut whole, fold.unpack(&packed).unwrap()[0]).unwrap();
        }
        whole.value
    }

    #[test]
    fn the_first_of_the_first_time_and_the_last_of_the_last() {
        let rows =
            [(5, Some(1.0)), (3, Some(2.0)), (3, Some(3.0)), (9, Some(4.0)), (9, None), (9, Some(5.0))];
        for parts in [1, 2, 3, 6] {
            assert_eq!(found(false, &rows, parts), Some(2.0), "{parts}");
            assert_eq!(found(true, &rows, parts), Some(5.0), "{parts}");
            assert_eq!(found(true, &rows[..5], parts), None, "{parts}: a null is a value");
            assert_eq!(found(false, &[(i64::MIN, None), (i64::MAX, Some(1.0))], parts.min(2)), None);
        }
    }
}
