//! `ohlcv(price, size)`: open, high, low, close and volume in one pass.

use super::fold::Fold;
use super::sum::{fits, overflow};
use datafusion::arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, Decimal128Array, Float64Array, Int64Array,
    PrimitiveArray, StructArray, UInt64Array,
};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{
    DataType, Decimal128Type, Field, Fields, Float64Type, Int64Type, UInt64Type,
};
use datafusion::error::Result;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

/// The fields of a bar.
pub(super) fn fields(price: &DataType, size: &DataType) -> Fields {
    let prices = ["open", "high", "low", "close"].map(|name| Field::new(name, price.clone(), true));
    let volume = match size {
        DataType::Decimal128(_, scale) => DataType::Decimal128(38, *scale),
        other => other.clone(),
    };
    prices.into_iter().chain([Field::new("volume", volume, true)]).collect()
}

/// A price in its order: NaN is greater than all other numbers.
pub(super) trait Price: Copy + Default + Debug + Send + Sync + 'static {
    fn is_less(self, than: Self) -> bool;
}

impl Price for f64 {
    fn is_less(self, than: Self) -> bool {
        self < than || (than.is_nan() && !self.is_nan())
    }
}

impl Price for i64 {
    fn is_less(self, than: Self) -> bool {
        self < than
    }
}

impl Price for i128 {
    fn is_less(self, than: Self) -> bool {
        self < than
    }
}

/// The aggregate, of prices of a type.
pub(super) struct Bars<T> {
    pub fields: Fields,
    pub of: PhantomData<fn() -> T>,
}

/// A bar; without the number of its first row there is none.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Bar<N> {
    open: N,
    high: N,
    low: N,
    close: N,
    first_at: Option<u64>,
    last_at: u64,
    volume: Volume,
}

/// A sum; that of integers and decimals is exact.
#[derive(Debug, Clone, Copy, Default)]
struct Volume {
    exact: i128,
    float: f64,
    is_there: bool,
}

/// Sizes of rows.
pub(super) enum Sizes<'a> {
    Float(&'a Float64Array),
    Int(&'a Int64Array),
    Unsigned(&'a UInt64Array),
    Decimal(&'a Decimal128Array),
}

impl Sizes<'_> {
    /// Adds those of rows to a sum.
    fn add(&self, rows: Range<usize>, volume: &mut Volume, ty: &DataType) -> Result<()> {
        let nulls = match self {
            Self::Float(sizes) => sizes.nulls(),
            Self::Int(sizes) => sizes.nulls(),
            Self::Unsigned(sizes) => sizes.nulls(),
            Self::Decimal(sizes) => sizes.nulls(),
        };
        for row in rows.filter(|row| nulls.is_none_or(|nulls| nulls.is_valid(*row))) {
            let exact = match self {
                Self::Float(sizes) => {
                    volume.float += sizes.values()[row];
                    0
                }
                Self::Int(sizes) => sizes.values()[row].into(),
                Self::Unsigned(sizes) => sizes.values()[row].into(),
                Self::Decimal(sizes) => sizes.values()[row],
            };
            let Some(sum) = volume.exact.checked_add(exact) else { return overflow(ty) };
            volume.exact = sum;
            volume.is_there = true;
        }
        Ok(())
    }
}

impl<T: ArrowPrimitiveType> Bars<T> {
    fn price_type(&self) -> &DataType {
        self.fields[0].data_type()
    }

    fn volume_type(&self) -> &DataType {
        self.fields[4].data_type()
    }

    fn prices(&self, values: impl Iterator<Item = Option<T::Native>>) -> ArrayRef {
        let values: PrimitiveArray<T> = values.collect();
        Arc::new(values.with_data_type(self.price_type().clone()))
    }

    fn volumes(&self, states: &[Bar<T::Native>]) -> Result<ArrayRef>
    where
        T::Native: Price,
    {
        let ty = self.volume_type();
        let exact = states.iter().map(|state| state.volume.is_there.then_some(state.volume.exact));
        Ok(match ty {
            DataType::Float64 => {
                let floats = states.iter().map(|state| state.volume.is_there.then_some(state.volume.float));
                Arc::new(floats.collect::<Float64Array>())
            }
            DataType::Int64 => {
                let narrow = |sum: Option<i128>| sum.map(i64::try_from).transpose();
                match exact.map(narrow).collect::<Result<Int64Array, _>>() {
                    Ok(sums) => Arc::new(sums),
                    Err(_) => return overflow(ty),
                }
            }
            DataType::UInt64 => {
                let narrow = |sum: Option<i128>| sum.map(u64::try_from).transpose();
                match exact.map(narrow).collect::<Result<UInt64Array, _>>() {
                    Ok(sums) => Arc::new(sums),
                    Err(_) => return overflow(ty),
                }
            }
            _ => {
                let sums: Decimal128Array = exact.collect();
                if sums.iter().flatten().any(|sum| !fits(sum, 38)) {
                    return overflow(ty);
                }
                Arc::new(sums.with_data_type(ty.clone()))
            }
        })
    }
}

impl<T: ArrowPrimitiveType> Fold for Bars<T>
where
    T::Native: Price,
{
    type State = Bar<T::Native>;
    type Input<'a> = (&'a PrimitiveArray<T>, Sizes<'a>);

    fn input<'a>(&self, columns: &'a [ArrayRef]) -> Result<Self::Input<'a>> {
        let sizes = match columns[1].data_type() {
            DataType::Float64 => Sizes::Float(columns[1].as_primitive::<Float64Type>()),
            DataType::Int64 => Sizes::Int(columns[1].as_primitive::<Int64Type>()),
            DataType::UInt64 => Sizes::Unsigned(columns[1].as_primitive::<UInt64Type>()),
            _ => Sizes::Decimal(columns[1].as_primitive::<Decimal128Type>()),
        };
        Ok((columns[0].as_primitive(), sizes))
    }

    fn add(
        &self,
        state: &mut Self::State,
        (prices, sizes): &Self::Input<'_>,
        rows: Range<usize>,
        seen: u64,
    ) -> Result<()> {
        sizes.add(rows.clone(), &mut state.volume, self.volume_type())?;
        for row in rows.filter(|row| prices.is_valid(*row)) {
            let price = prices.values()[row];
            if state.first_at.is_none() {
                (state.open, state.high, state.low) = (price, price, price);
                state.first_at = Some(seen + row as u64);
            }
            if state.high.is_less(price) {
                state.high = price;
            }
            if price.is_less(state.low) {
                state.low = price;
            }
            state.close = price;
            state.last_at = seen + row as u64;
        }
        Ok(())
    }

    fn merge(&self, state: &mut Self::State, other: Self::State) -> Result<()> {
        let Some(sum) = state.volume.exact.checked_add(other.volume.exact) else {
            return overflow(self.volume_type());
        };
        let volume = Volume {
            exact: sum,
            float: state.volume.float + other.volume.float,
            is_there: state.volume.is_there || other.volume.is_there,
        };
        match (state.first_at, other.first_at) {
            (None, _) => *state = other,
            (_, None) => {}
            (Some(first_at), Some(other_at)) => {
                if other_at < first_at {
                    (state.open, state.first_at) = (other.open, other.first_at);
                }
                if other.last_at > state.last_at {
                    (state.close, state.last_at) = (other.close, other.last_at);
                }
                if state.high.is_less(other.high) {
                    state.high = other.high;
                }
                if other.low.is_less(state.low) {
                    state.low = other.low;
                }
            }
        }
        state.volume = volume;
        Ok(())
    }

    fn state_types(&self) -> Vec<DataType> {
        let price = self.price_type();
        let mut types = vec![price.clone(); 4];
        types.extend([DataType::UInt64, DataType::UInt64]);
        types.extend([DataType::Decimal128(38, 0), DataType::Float64, DataType::Boolean]);
        types
    }

    fn pack(&self, states: &[Self::State]) -> Result<Vec<ArrayRef>> {
        let exact: Decimal128Array = states.iter().map(|state| Some(state.volume.exact)).collect();
        Ok(vec![
            self.prices(states.iter().map(|state| Some(state.open))),
            self.prices(states.iter().map(|state| Some(state.high))),
            self.prices(states.iter().map(|state| Some(state.low))),
            self.prices(states.iter().map(|state| Some(state.close))),
            Arc::new(states.iter().map(|state| state.first_at).collect::<UInt64Array>()),
            Arc::new(states.iter().map(|state| Some(state.last_at)).collect::<UInt64Array>()),
            Arc::new(exact.with_data_type(DataType::Decimal128(38, 0))),
            Arc::new(states.iter().map(|state| Some(state.volume.float)).collect::<Float64Array>()),
            Arc::new(states.iter().map(|state| Some(state.volume.is_there)).collect::<BooleanArray>()),
        ])
    }

    fn unpack(&self, columns: &[ArrayRef]) -> Result<Vec<Self::State>> {
        let price = |column: usize, row: usize| columns[column].as_primitive::<T>().value(row);
        let at = |column: usize| columns[column].as_primitive::<UInt64Type>();
        let state = |row: usize| Bar {
            open: price(0, row),
            high: price(1, row),
            low: price(2, row),
            close: price(3, row),
            first_at: at(4).is_valid(row).then(|| at(4).value(row)),
            last_at: at(5).value(row),
            volume: Volume {
                exact: columns[6].as_primitive::<Decimal128Type>().value(row),
                float: columns[7].as_primitive::<Float64Type>().value(row),
                is_there: columns[8].as_boolean().value(row),
            },
        };
        Ok((0..columns[0].len()).map(state).collect())
    }

    fn finish(&self, states: &[Self::State]) -> Result<ArrayRef> {
        let there = |value: fn(&Self::State) -> T::Native| {
            self.prices(states.iter().map(move |state| state.first_at.map(|_| value(state))))
        };
        let columns = vec![
            there(|state| state.open),
            there(|state| state.high),
            there(|state| state.low),
            there(|state| state.close),
            self.volumes(states)?,
        ];
        let nulls = NullBuffer::from_iter(states.iter().map(|state| state.first_at.is_some()));
        Ok(Arc::new(StructArray::try_new(self.fields.clone(), columns, Some(nulls))?))
    }
}
