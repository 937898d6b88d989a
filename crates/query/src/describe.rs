//! What a query and the tables of a user look like, for protocols that are asked before rows are.

use crate::dictionaries::with_dictionaries;
use crate::error::Error;
use crate::live::Slice;
use crate::options::Options;
use crate::parameters::Parameters;
use crate::service::QueryService;
use crate::session::Run;
use crate::snapshot::{MayRead, Snapshot};
use crate::table::Table;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use std::collections::BTreeMap;
use tapedb_engine::QueryUser;

/// A query that was planned and not started.
#[derive(Debug, Clone)]
pub struct Description {
    /// The columns of its rows.
    pub columns: SchemaRef,
    /// Its parameters without `$`, and their types, as far as the query states them.
    pub parameters: BTreeMap<String, Option<DataType>>,
}

/// A table that a user may read.
#[derive(Debug, Clone)]
pub struct TableDescription {
    /// Name of the stream.
    pub stream: String,
    /// Name of the message type.
    pub table: String,
    /// The columns.
    pub columns: SchemaRef,
}

impl QueryService {
    /// The columns and parameters of a query, as it runs with `dictionaries` ([`Options::dictionaries`]).
    ///
    /// # Errors
    /// When it cannot be planned.
    pub fn describe(&self, text: &str, dictionaries: bool, user: &QueryUser) -> Result<Description, Error> {
        let run = Run {
            text: text.into(),
            parameters: Parameters::default(),
            options: Options { dictionaries, ..self.sql().options().clone() },
            may_read: Some(MayRead(user.may_read.clone())),
            runtime: None,
            cluster: self.cluster(user)?,
        };
        let planned = self.sql().plan(&run, &Slice::From(None))?;
        let mut parameters = planned.plan.get_parameter_types()?;
        for name in limits(&planned.plan)? {
            // What a limit is, needs no statement.
            parameters.entry(name).or_default().get_or_insert(DataType::Int64);
        }
        for (name, ty) in implied(&planned.plan)? {
            parameters.entry(name).or_default().get_or_insert(ty);
        }
        let parameters = parameters.into_iter();
        let parameters =
            parameters.map(|(name, ty)| (name.trim_start_matches('$').to_string(), ty)).collect();
        Ok(Description { columns: planned.schema(), parameters })
    }

    /// The tables that a user may read, by streams, with columns as rows have them with `dictionaries` ([`Options::dictionaries`]). Streams
    /// that cannot be opened are left out.
    ///
    /// # Errors
    /// When streams cannot be listed.
    pub fn tables(&self, dictionaries: bool, user: &QueryUser) -> Result<Vec<TableDescription>, Error> {
        let may_read = MayRead(user.may_read.clone());
        let options: &Options = self.sql().options();
        let db = self.sql().database();
        let snapshot = match self.cluster(user)? {
            Some(cluster) => Snapshot::of_cluster(&cluster, db, options, Some(&may_read))?,
            None => Snapshot::new(db, options, Some(&may_read), &Slice::From(None))?,
        };
        let mut found = Vec::new();
        for stream in snapshot.names() {
            let Ok(open) = snapshot.stream(stream) else { continue };
            for table in open.tables() {
                if let Ok(known) = Table::new(open.clone(), &table) {
                    let is_one = |at: &usize| dictionaries && known.is_dictionary(*at);
                    let columns = (0..known.width()).filter(is_one).collect();
                    let columns = with_dictionaries(known.schema(), &columns);
                    found.push(TableDescription { stream: stream.clone(), table, columns });
                }
            }
        }
        Ok(found)
    }
}

/// The types of arrays of which something is an item, `x = ANY($1)`, and of what is cast, `$1::numeric[]`.
fn implied(plan: &LogicalPlan) -> Result<Vec<(String, DataType)>, Error> {
    let mut found = Vec::new();
    plan.apply_with_subqueries(|node| {
        let inputs = node.inputs();
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                if let Expr::Cast(cast) = part
                    && let Expr::Placeholder(placeholder) = &*cast.expr
                {
                    found.push((placeholder.id.clone(), part.get_type(plan.schema())?));
                } else if let Expr::ScalarFunction(call) = part
                    && call.name() == "array_has"
                    && let [Expr::Placeholder(placeholder), item] = call.args.as_slice()
                    && let Some(ty) = inputs.iter().find_map(|input| item.get_type(input.schema()).ok())
                {
                    let ty = match ty {
                        DataType::Dictionary(_, value) => *value,
                        ty => ty,
                    };
                    found.push((placeholder.id.clone(), DataType::new_list(ty, true)));
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// The parameters of `LIMIT` and `OFFSET`.
fn limits(plan: &LogicalPlan) -> Result<Vec<String>, Error> {
    let mut names = Vec::new();
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Limit(limit) = node {
            for expr in [&limit.skip, &limit.fetch].into_iter().flatten() {
                expr.apply(|part| {
                    if let Expr::Placeholder(placeholder) = part {
                        names.push(placeholder.id.clone());
                    }
                    Ok(TreeNodeRecursion::Continue)
                })?;
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(names)
}
