//! Checked arithmetic: sums, differences and products of integers and decimals that do not fit their type are errors.
//!
//! DataFusion's own operators wrap around. A rule replaces them by functions of the same name to the eye, before constants are
//! computed.

use datafusion::arrow::compute::kernels::numeric::{add, mul, sub};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::type_coercion::binary::BinaryTypeCoercer;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::physical_expr_common::datum::apply;
use std::sync::{Arc, LazyLock};

/// The rule.
#[derive(Debug)]
pub(crate) struct CheckArithmetic;

impl AnalyzerRule for CheckArithmetic {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|plan| {
            let schema = merge_schema(&plan.inputs());
            let names = NamePreserver::new(&plan);
            plan.map_expressions(|expr| {
                let name = names.save(&expr);
                let checked = expr.transform_up(|expr| check(expr, &schema))?;
                Ok(checked.update_data(|expr| name.restore(expr)))
            })
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "check_arithmetic"
    }
}

/// The checked form of an operation, if it has one.
fn check(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if function(op).is_some() && is_exact(&left, schema) && is_exact(&right, schema) =>
        {
            Ok(Transformed::yes(call(op, *left, *right)))
        }
        Expr::Negative(value) if is_exact(&value, schema) => {
            let zero = ScalarValue::new_zero(&value.get_type(schema)?)?;
            Ok(Transformed::yes(call(Operator::Minus, Expr::Literal(zero, None), *value)))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Whether the numbers of an expression are integers or decimals.
fn is_exact(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|ty| ty.is_integer() || ty.is_decimal())
}

fn call(op: Operator, left: Expr, right: Expr) -> Expr {
    match function(op) {
        Some(function) => Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![left, right])),
        None => Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right))),
    }
}

/// The checked function of an operator.
fn function(op: Operator) -> Option<Arc<ScalarUDF>> {
    static FUNCTIONS: LazyLock<[Arc<ScalarUDF>; 3]> = LazyLock::new(|| {
        [Operator::Plus, Operator::Minus, Operator::Multiply].map(|op| {
            let signature = Signature::any(2, Volatility::Immutable);
            Arc::new(ScalarUDF::new_from_impl(Checked { op, signature }))
        })
    });
    let index = match op {
        Operator::Plus => 0,
        Operator::Minus => 1,
        Operator::Multiply => 2,
        _ => return None,
    };
    Some(FUNCTIONS[index].clone())
}

/// An operation whose result must fit its type.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Checked {
    op: Operator,
    signature: Signature,
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &'static str {
        match self.op {
            Operator::Plus => "checked_add",
            Operator::Minus => "checked_sub",
            _ => "checked_mul",
        }
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        let texts: Vec<_> = args.iter().map(ToString::to_string).collect();
        Ok(texts.join(&format!(" {} ", self.op)))
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let texts: Vec<_> = args.iter().map(|arg| arg.schema_name().to_string()).collect();
        Ok(texts.join(&format!(" {} ", self.op)))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        BinaryTypeCoercer::new(&types[0], &self.op, &types[1]).get_result_type()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = &args.args[..] else {
            return datafusion::common::internal_err!("{} needs two arguments", self.name());
        };
        match self.op {
            Operator::Plus => apply(left, right, add),
            Operator::Minus => apply(left, right, sub),
            _ => apply(left, right, mul),
        }
    }
}
