//! The aggregate functions of markets, as DataFusion has them.

use super::ema::Exponential;
use super::fold::{AnyFold, of_fold};
use super::keys::is_key;
use super::ohlcv::{self, Bars};
use super::pick::{By, Edge, Pick};
use super::runs::RunStates;
use super::twap::ByTime;
use super::vwap::ByVolume;
use super::window::Window;
use datafusion::arrow::datatypes::{
    DataType, Decimal128Type, Field, FieldRef, Fields, Float64Type, Int64Type, TimeUnit,
    TimestampNanosecondType, UInt64Type,
};
use datafusion::common::plan_err;
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDFImpl, Documentation, GroupsAccumulator, Signature, Volatility,
};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use std::marker::PhantomData;
use std::sync::{Arc, LazyLock};

/// A function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Function {
    kind: Kind,
    signature: Signature,
}

/// Which one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    First,
    Last,
    ArgMin,
    ArgMax,
    Vwap,
    Twap,
    Ema,
    Ohlcv,
}

/// All of them.
pub(super) const KINDS: [Kind; 8] =
    [Kind::First, Kind::Last, Kind::ArgMin, Kind::ArgMax, Kind::Vwap, Kind::Twap, Kind::Ema, Kind::Ohlcv];

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Last => "last",
            Self::ArgMin => "arg_min",
            Self::ArgMax => "arg_max",
            Self::Vwap => "vwap",
            Self::Twap => "twap",
            Self::Ema => "ema",
            Self::Ohlcv => "ohlcv",
        }
    }

    /// Arguments, as the documentation has them, and what it says.
    fn words(self) -> (&'static [&'static str], &'static str) {
        match self {
            Self::First => (&["x"], "The value of the first row, in the order of the stream."),
            Self::Last => (&["x"], "The value of the last row, in the order of the stream."),
            Self::ArgMin => {
                (&["x", "by"], "The value of x in the row with the least value of the second argument.")
            }
            Self::ArgMax => {
                (&["x", "by"], "The value of x in the row with the greatest value of the second argument.")
            }
            Self::Vwap => (&["price", "size"], "The average price, each with its size as weight."),
            Self::Twap => {
                (&["price", "time"], "The average price, each for as long as it lasts until the next one.")
            }
            Self::Ema => {
                (&["x", "weight"], "The exponential moving average of the values in the order of their rows.")
            }
            Self::Ohlcv => (
                &["price", "size"],
                "First, highest, lowest and last price and the sum of sizes, as a struct.",
            ),
        }
    }

    /// The fold of arguments of these types.
    fn fold(self, types: &[DataType], ignores_nulls: bool) -> Result<Box<dyn AnyFold>> {
        let ty = types[0].clone();
        let pick = |by| Box::new(Pick { ty: ty.clone(), by, ignores_nulls });
        Ok(match self {
            Self::First | Self::Last => edge(&ty, self == Self::Last, ignores_nulls),
            Self::ArgMin => pick(By::Min),
            Self::ArgMax => pick(By::Max),
            Self::Vwap => Box::new(ByVolume),
            Self::Twap => Box::new(ByTime),
            Self::Ema => Box::new(Exponential),
            Self::Ohlcv => {
                let fields = ohlcv::fields(&types[0], &types[1]);
                match ty {
                    DataType::Int64 => Box::new(Bars::<Int64Type> { fields, of: PhantomData }),
                    DataType::Decimal128(..) => Box::new(Bars::<Decimal128Type> { fields, of: PhantomData }),
                    _ => Box::new(Bars::<Float64Type> { fields, of: PhantomData }),
                }
            }
        })
    }
}

/// `first` or `last`: numbers and times have a faster one.
fn edge(ty: &DataType, is_last: bool, ignores_nulls: bool) -> Box<dyn AnyFold> {
    macro_rules! edge {
        ($of:ty) => {
            Box::new(Edge::<$of> { ty: ty.clone(), is_last, ignores_nulls, of: PhantomData })
        };
    }
    match ty {
        DataType::Float64 => edge!(Float64Type),
        DataType::Int64 => edge!(Int64Type),
        DataType::UInt64 => edge!(UInt64Type),
        DataType::Decimal128(..) => edge!(Decimal128Type),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => edge!(TimestampNanosecondType),
        _ => {
            let by = if is_last { By::Last } else { By::First };
            Box::new(Pick { ty: ty.clone(), by, ignores_nulls })
        }
    }
}

impl Function {
    pub fn new(kind: Kind) -> Self {
        Self { kind, signature: Signature::user_defined(Volatility::Immutable) }
    }

    fn start(&self, args: &AccumulatorArgs<'_>) -> Result<Box<dyn AnyFold>> {
        if args.is_distinct {
            return plan_err!("there is no {}(DISTINCT …); leave out DISTINCT", self.kind.name());
        }
        let types: Vec<DataType> = args.expr_fields.iter().map(|field| field.data_type().clone()).collect();
        self.kind.fold(&types, args.ignore_nulls)
    }

    fn wrong<T>(&self, what: &str) -> Result<T> {
        let (arguments, _) = self.kind.words();
        plan_err!("{what}; write {}({})", self.kind.name(), arguments.join(", "))
    }

    fn number(&self, ty: &DataType, name: &str) -> Result<DataType> {
        match ty {
            DataType::Null => Ok(DataType::Float64),
            ty if ty.is_numeric() => Ok(DataType::Float64),
            other => self.wrong(&format!("{name} is a number, not {other}")),
        }
    }

    /// The type of an exact price or size; others are doubles.
    fn exact(&self, ty: &DataType, name: &str, is_price: bool) -> Result<DataType> {
        match ty {
            DataType::Decimal128(..) => Ok(ty.clone()),
            DataType::UInt64 if is_price => Ok(DataType::Decimal128(20, 0)),
            ty if ty.is_unsigned_integer() && !is_price => Ok(DataType::UInt64),
            ty if ty.is_integer() => Ok(DataType::Int64),
            other => self.number(other, name),
        }
    }
}

impl AggregateUDFImpl for Function {
    fn name(&self) -> &'static str {
        self.kind.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let (arguments, _) = self.kind.words();
        if types.len() != arguments.len() {
            return self.wrong(&format!(
                "{} has {} arguments, not {}",
                self.kind.name(),
                arguments.len(),
                types.len()
            ));
        }
        let as_is = types[0].clone();
        Ok(match self.kind {
            Kind::First | Kind::Last => vec![as_is],
            Kind::ArgMin | Kind::ArgMax if !is_key(&types[1]) => {
                return self.wrong(&format!("rows cannot be compared by values of type {}", types[1]));
            }
            Kind::ArgMin | Kind::ArgMax => types.to_vec(),
            Kind::Vwap => vec![self.number(&types[0], "the price")?, self.number(&types[1], "the size")?],
            Kind::Ema => vec![self.number(&types[0], "the value")?, self.number(&types[1], "the weight")?],
            Kind::Ohlcv => {
                vec![self.exact(&types[0], "the price", true)?, self.exact(&types[1], "the size", false)?]
            }
            Kind::Twap => {
                let DataType::Timestamp(_, zone) = &types[1] else {
                    return self.wrong(&format!("the second argument of twap is the time, not {}", types[1]));
                };
                let time = DataType::Timestamp(TimeUnit::Nanosecond, zone.clone());
                vec![self.number(&types[0], "the price")?, time]
            }
        })
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(match self.kind {
            Kind::First | Kind::Last | Kind::ArgMin | Kind::ArgMax => types[0].clone(),
            Kind::Vwap | Kind::Twap | Kind::Ema => DataType::Float64,
            Kind::Ohlcv => DataType::Struct(ohlcv::fields(&types[0], &types[1])),
        })
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let types: Vec<DataType> = args.input_fields.iter().map(|field| field.data_type().clone()).collect();
        let states = self.kind.fold(&types, false)?.types();
        let field = |(index, ty): (usize, DataType)| {
            Field::new(format_state_name(args.name, &format!("state{index}")), ty, true)
        };
        Ok(states.into_iter().enumerate().map(field).collect::<Fields>().iter().cloned().collect())
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(self.start(&args)?.one())
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        match self.kind {
            Kind::First | Kind::Last => {
                let ty = args.return_field.data_type();
                Ok(Box::new(Window::new(ty, self.kind == Kind::Last, args.ignore_nulls)?))
            }
            _ => self.accumulator(args),
        }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        !args.is_distinct
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(self.start(&args)?.groups())
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        match self.kind {
            Kind::Vwap => AggregateOrderSensitivity::Insensitive,
            _ => AggregateOrderSensitivity::HardRequirement,
        }
    }

    fn supports_null_handling_clause(&self) -> bool {
        matches!(self.kind, Kind::First | Kind::Last)
    }

    fn documentation(&self) -> Option<&Documentation> {
        static PAGES: LazyLock<Vec<(Kind, Documentation)>> =
            LazyLock::new(|| KINDS.map(|kind| (kind, documentation(kind))).into());
        PAGES.iter().find(|(kind, _)| *kind == self.kind).map(|(_, page)| page)
    }
}

fn documentation(kind: Kind) -> Documentation {
    let (arguments, words) = kind.words();
    let section = datafusion::logical_expr::aggregate_doc_sections::DOC_SECTION_GENERAL;
    let syntax = format!("{}({})", kind.name(), arguments.join(", "));
    let page = Documentation::builder(section, words, syntax);
    arguments.iter().fold(page, |page, name| page.with_argument(*name, "An expression.")).build()
}

/// Whether the result of a function depends on the order of its rows, so that they are read by time.
pub(crate) fn needs_order(name: &str) -> bool {
    let ordered = KINDS.iter().filter(|kind| **kind != Kind::Vwap);
    ordered
        .map(|kind| kind.name())
        .chain(["first_value", "last_value", "nth_value", "array_agg"])
        .any(|known| known == name)
}

/// The states of runs of rows in any order, if the function is one of these.
pub(super) fn runs(function: &AggregateFunctionExpr) -> Option<Box<dyn RunStates>> {
    let of: &Function = function.fun().inner().downcast_ref()?;
    (of.kind == Kind::Vwap).then(|| of_fold(ByVolume))
}

/// Whether a function is one of these.
pub(super) fn is_one(name: &str) -> bool {
    KINDS.iter().any(|kind| kind.name() == name)
}

/// The functions with their names.
pub(super) fn all() -> impl Iterator<Item = Arc<dyn AggregateUDFImpl>> {
    KINDS.into_iter().map(|kind| Arc::new(Function::new(kind)) as _)
}
