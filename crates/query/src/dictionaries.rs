//! Symbols and enums as dictionaries in the rows of a query, where clients read Arrow: a key of four bytes for each row instead of a text.
//!
//! Operators work on texts ([`Table`]). A column that comes straight from a table, whatever conditions, orders and limits its rows pass, is
//! a dictionary all the same: which ones these are depends on the query and the tables alone ([`promised`]), not on how it is carried out.
//! Scans return the keys that they read where no operator above looks at the column ([`Scan::with_dictionaries`]); where one does, the texts
//! that come out become dictionaries again.

use crate::scan::Scan;
use crate::table::Table;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, DictionaryArray, Int32Array, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Int32Type, Schema, SchemaRef};
use datafusion::datasource::source_as_provider;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::{CastExpr, Column};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use std::any::Any;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

/// The type of symbols and enums.
pub(crate) fn dictionary_type() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

/// The columns of a plan that are symbols or enums of a table as they are.
pub(crate) fn promised(plan: &LogicalPlan) -> BTreeSet<usize> {
    match plan {
        LogicalPlan::TableScan(scan) => {
            let Ok(provider) = source_as_provider(&scan.source) else { return BTreeSet::new() };
            let Some(table) = (provider.as_ref() as &dyn Any).downcast_ref::<Table>() else {
                return BTreeSet::new();
            };
            let all: Vec<usize> = (0..table.width()).collect();
            let columns = scan.projection.as_deref().unwrap_or(&all);
            (0..columns.len()).filter(|at| table.is_dictionary(columns[*at])).collect()
        }
        LogicalPlan::Projection(projection) => {
            let below = promised(&projection.input);
            let is_promised = |expr: &Expr| match expr.clone().unalias_nested().data {
                Expr::Column(column) => {
                    let place = projection.input.schema().maybe_index_of_column(&column);
                    place.is_some_and(|place| below.contains(&place))
                }
                _ => false,
            };
            (0..projection.expr.len()).filter(|at| is_promised(&projection.expr[*at])).collect()
        }
        LogicalPlan::Filter(filter) => promised(&filter.input),
        LogicalPlan::Sort(sort) => promised(&sort.input),
        LogicalPlan::Limit(limit) => promised(&limit.input),
        LogicalPlan::SubqueryAlias(alias) => promised(&alias.input),
        _ => BTreeSet::new(),
    }
}

/// The columns with dictionaries in some of them.
pub(crate) fn with_dictionaries(schema: &Schema, columns: &BTreeSet<usize>) -> SchemaRef {
    let fields = schema.fields().iter().enumerate().map(|(at, field)| match columns.contains(&at) {
        true => Arc::new(Field::clone(field).with_data_type(dictionary_type())),
        false => field.clone(),
    });
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
}

/// The same rows, with dictionaries in these columns.
///
/// # Errors
/// When operators do not take them: a defect.
pub(crate) fn hand_out(
    plan: Arc<dyn ExecutionPlan>,
    columns: &BTreeSet<usize>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = kept(&plan, columns)?.unwrap_or(plan);
    let schema = plan.schema();
    let is_text = |at: &usize| !matches!(schema.field(*at).data_type(), DataType::Dictionary(..));
    if !columns.iter().any(is_text) {
        return Ok(plan);
    }
    let exprs = schema.fields().iter().enumerate().map(|(at, field)| {
        let column: PhysicalExprRef = Arc::new(Column::new(field.name(), at));
        let expr = match columns.contains(&at) && is_text(&at) {
            true => Arc::new(CastExpr::new(column, dictionary_type(), None)) as PhysicalExprRef,
            false => column,
        };
        ProjectionExpr { expr, alias: field.name().clone() }
    });
    let exprs: Vec<ProjectionExpr> = exprs.collect();
    Ok(Arc::new(ProjectionExec::try_new(exprs, plan)?))
}

/// The same operator, with dictionaries in those of the columns that pass it untouched from a scan; `None`: there are none.
fn kept(plan: &Arc<dyn ExecutionPlan>, columns: &BTreeSet<usize>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if columns.is_empty() {
        return Ok(None);
    }
    if let Some(scan) = plan.downcast_ref::<Scan>() {
        return Ok(scan.with_dictionaries(columns).map(|scan| Arc::new(scan) as _));
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let below = below_projection(projection, columns);
        return kept(projection.input(), &below)?
            .map(|input| Ok(Arc::new(ProjectionExec::try_new(projection.expr().to_vec(), input)?) as _))
            .transpose();
    }
    let below = if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        below_filter(filter, columns)
    } else if plan.is::<CoalescePartitionsExec>()
        || plan.is::<GlobalLimitExec>()
        || plan.is::<LocalLimitExec>()
        || plan.is::<CooperativeExec>()
    {
        columns.clone()
    } else {
        return Ok(None);
    };
    let [input] = &plan.children()[..] else { return Ok(None) };
    kept(input, &below)?.map(|input| replace_children_if_necessary(plan.clone(), vec![input])).transpose()
}

/// The columns below a projection that it passes on as these, and in no other way.
fn below_projection(projection: &ProjectionExec, columns: &BTreeSet<usize>) -> BTreeSet<usize> {
    let (mut passed, mut used) = (BTreeSet::new(), BTreeSet::new());
    for (at, ProjectionExpr { expr, .. }) in projection.expr().iter().enumerate() {
        match expr.downcast_ref::<Column>() {
            Some(column) if columns.contains(&at) => drop(passed.insert(column.index())),
            _ => used.extend(collect_columns(expr).iter().map(Column::index)),
        }
    }
    &passed - &used
}

/// The columns below a filter that it passes on as these, without a condition on them.
fn below_filter(filter: &FilterExec, columns: &BTreeSet<usize>) -> BTreeSet<usize> {
    let place = |at: &usize| filter.projection().as_ref().map_or(*at, |places| places[*at]);
    let used = collect_columns(filter.predicate()).iter().map(Column::index).collect();
    &columns.iter().map(place).collect::<BTreeSet<_>>() - &used
}

/// The values of a dictionary that all partitions of a scan share: clients get them again only when there are more of them.
#[derive(Debug, Default)]
pub(crate) struct SharedValues(Mutex<Values>);

#[derive(Debug, Default)]
struct Values {
    keys: HashMap<Arc<str>, i32>,
    texts: Vec<Arc<str>>,
    /// The texts; `None`: there are more.
    array: Option<ArrayRef>,
}

impl Values {
    fn key(&mut self, text: &str) -> i32 {
        if let Some(key) = self.keys.get(text) {
            return *key;
        }
        let (key, text) = (self.texts.len() as i32, Arc::<str>::from(text));
        self.keys.insert(text.clone(), key);
        self.texts.push(text);
        self.array = None;
        key
    }
}

/// Dictionaries of one partition, with the shared values.
#[derive(Debug)]
pub(crate) struct Keys {
    shared: Arc<SharedValues>,
    /// The values of the partition's dictionary, which grow, and their shared keys.
    known: Option<ArrayRef>,
    keys: Vec<i32>,
    /// Whether the shared keys are the partition's own.
    are_equal: bool,
}

impl Keys {
    pub fn new(shared: Arc<SharedValues>) -> Self {
        Self { shared, known: None, keys: Vec::new(), are_equal: true }
    }

    /// The same texts.
    ///
    /// # Errors
    /// For keys without a value: a defect.
    pub fn of(&mut self, dictionary: &DictionaryArray<Int32Type>) -> Result<ArrayRef> {
        let values = dictionary.values();
        let mut shared = self.shared.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.known.as_ref().is_some_and(|known| Arc::ptr_eq(known, values)) {
            let texts = values.as_string::<i32>();
            for row in self.keys.len()..texts.len() {
                let key = shared.key(texts.value(row));
                self.are_equal &= key as usize == row;
                self.keys.push(key);
            }
            self.known = Some(values.clone());
        }
        let Values { texts, array, .. } = &mut *shared;
        let all = || Arc::new(StringArray::from_iter_values(texts.iter())) as ArrayRef;
        let values = array.get_or_insert_with(all).clone();
        drop(shared);
        let keys = dictionary.keys();
        let keys = match self.are_equal {
            true => keys.clone(),
            // Under a null there may be any key.
            false => {
                let key = |key: &i32| self.keys.get(*key as usize).copied().unwrap_or_default();
                Int32Array::new(keys.values().iter().map(key).collect(), keys.nulls().cloned())
            }
        };
        Ok(Arc::new(DictionaryArray::try_new(keys, values)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(array: &ArrayRef) -> Vec<Option<String>> {
        let texts = array.as_dictionary::<Int32Type>().downcast_dict::<StringArray>().unwrap();
        texts.into_iter().map(|text| text.map(Into::into)).collect()
    }

    #[test]
    fn partitions_share_values_that_grow() {
        let shared = Arc::<SharedValues>::default();
        let (mut first, mut second) = (Keys::new(shared.clone()), Keys::new(shared));
        let of = |texts: &[Option<&str>]| texts.iter().copied().collect::<DictionaryArray<Int32Type>>();
        let one = first.of(&of(&[Some("A"), Some("B"), None])).unwrap();
        let two = second.of(&of(&[Some("B"), None, Some("C")])).unwrap();
        assert_eq!(texts(&one), [Some("A".into()), Some("B".into()), None]);
        assert_eq!(texts(&two), [Some("B".into()), None, Some("C".into())]);
        let again = second.of(&of(&[Some("B"), Some("C")])).unwrap();
        let [two, again] = [two, again].map(|array| array.as_dictionary::<Int32Type>().values().clone());
        assert!(Arc::ptr_eq(&two, &again), "values that do not grow are the same");
        assert_eq!(two.len(), 3);
    }
}
