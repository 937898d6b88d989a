//! Functions of PostgreSQL's catalogue.

use crate::postgres::catalog::asked::{Asked, DATABASE};
use crate::postgres::catalog::names::{KNOWN, Names};
use crate::postgres::catalog::tables::{OWNER, format_type};
use datafusion::error::Result;
use datafusion::execution::context::SessionContext;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use tapedb_query::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int64Array, ListArray, ListBuilder, StringArray, StringBuilder,
};
use tapedb_query::arrow::compute::cast;
use tapedb_query::arrow::datatypes::{DataType, Field};

/// Computes texts of rows, from the texts of arguments.
type Compute = dyn Fn(&[Option<&str>]) -> Option<String> + Send + Sync;

/// A function of some arguments of any types.
struct Function {
    name: String,
    /// The type of its values.
    ty: DataType,
    signature: Signature,
    compute: Arc<Compute>,
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Function {}

impl Hash for Function {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.ty.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let texts: Vec<ArrayRef> =
            args.args.into_iter().map(|value| text_of(value, rows)).collect::<Result<_>>()?;
        let value = |row: usize| {
            let arguments: Vec<Option<&str>> = texts
                .iter()
                .map(|column| {
                    let column = column.as_string::<i32>();
                    column.is_valid(row).then(|| column.value(row))
                })
                .collect();
            (self.compute)(&arguments)
        };
        let values: Vec<Option<String>> = (0..rows).map(value).collect();
        Ok(ColumnarValue::Array(match &self.ty {
            DataType::List(_) => Arc::new(lists(&values)) as ArrayRef,
            DataType::Boolean => Arc::new(BooleanArray::from_iter(
                values.iter().map(|value| value.as_ref().map(|value| value == "t")),
            )),
            DataType::Int64 => Arc::new(Int64Array::from_iter(
                values.iter().map(|value| value.as_ref().and_then(|value| value.parse().ok())),
            )),
            _ => Arc::new(StringArray::from_iter(values)),
        }))
    }
}

/// Arguments that are no texts, such as lists, are unknown to functions.
fn text_of(value: ColumnarValue, rows: usize) -> Result<ArrayRef> {
    let array = value.into_array(rows)?;
    let text = match array.data_type() {
        DataType::List(_) | DataType::Struct(_) => Arc::new(StringArray::new_null(rows)),
        _ => cast(&array, &DataType::Utf8)?,
    };
    Ok(text)
}

/// Lists of texts, which `compute` separates by commas.
fn lists(values: &[Option<String>]) -> ListArray {
    let mut lists = ListBuilder::new(StringBuilder::new());
    for value in values {
        if let Some(value) = value {
            value.split(',').for_each(|item| lists.values().append_value(item));
        }
        lists.append(value.is_some());
    }
    lists.finish()
}

/// Makes the functions known.
pub(crate) fn register(context: &SessionContext, asked: &Asked<'_>, names: &Names) {
    let add = |name: &str, ty: DataType, compute: Arc<Compute>| {
        let signature =
            Signature::one_of(vec![TypeSignature::Nullary, TypeSignature::VariadicAny], Volatility::Stable);
        context.register_udf(ScalarUDF::new_from_impl(Function {
            name: name.into(),
            ty,
            signature,
            compute,
        }));
    };
    let fixed = |name: &str, ty: DataType, value: Option<&str>| {
        let value = value.map(str::to_string);
        add(name, ty, Arc::new(move |_| value.clone()));
    };
    let process = asked.process.to_string();
    let version = format!("PostgreSQL 15.0 (TapeDB {})", env!("CARGO_PKG_VERSION"));
    for (name, value) in [
        ("version", version.as_str()),
        ("current_database", DATABASE),
        ("current_catalog", DATABASE),
        ("current_schema", "public"),
        ("current_user", asked.name),
        ("session_user", asked.name),
        ("current_role", asked.name),
        ("user", asked.name),
        ("pg_encoding_to_char", "UTF8"),
        ("pg_size_pretty", "0 bytes"),
        ("pg_get_keywords", ""),
        ("pg_postmaster_start_time", "2000-01-01 00:00:00+00"),
        ("pg_get_userbyid", asked.name),
        ("pg_client_encoding", "UTF8"),
        ("pg_advisory_unlock_all", ""),
    ] {
        fixed(name, DataType::Utf8, Some(value));
    }
    for name in [
        "obj_description",
        "col_description",
        "shobj_description",
        "pg_get_expr",
        "pg_get_constraintdef",
        "pg_get_indexdef",
        "pg_get_viewdef",
        "pg_get_triggerdef",
        "pg_get_ruledef",
        "pg_get_functiondef",
        "pg_get_partkeydef",
        "pg_get_serial_sequence",
        "pg_tablespace_location",
        "pg_get_statisticsobjdef_columns",
        "pg_get_function_result",
        "pg_get_function_arguments",
        "pg_get_function_identity_arguments",
        "inet_server_addr",
        "inet_client_addr",
        "pg_get_statisticsobjdef",
        "pg_describe_object",
    ] {
        fixed(name, DataType::Utf8, None);
    }
    for name in [
        "pg_table_is_visible",
        "pg_type_is_visible",
        "pg_function_is_visible",
        "pg_operator_is_visible",
        "pg_collation_is_visible",
        "has_schema_privilege",
        "has_table_privilege",
        "has_database_privilege",
        "has_any_column_privilege",
        "has_column_privilege",
    ] {
        fixed(name, DataType::Boolean, Some("t"));
    }
    for name in [
        "pg_is_in_recovery",
        "pg_relation_is_publishable",
        "has_function_privilege",
        "pg_is_other_temp_schema",
        "pg_has_role",
    ] {
        fixed(name, DataType::Boolean, Some("f"));
    }
    fixed("pg_backend_pid", DataType::Int64, Some(&process));
    fixed("pg_my_temp_schema", DataType::Int64, Some("0"));
    for name in [
        "pg_relation_size",
        "pg_total_relation_size",
        "pg_table_size",
        "pg_indexes_size",
        "pg_database_size",
        "txid_current",
        "inet_server_port",
    ] {
        fixed(name, DataType::Int64, Some("0"));
    }
    let list = DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true)));
    add(
        "current_schemas",
        list,
        Arc::new(|arguments| {
            Some(match arguments {
                [Some("true"), ..] => "pg_catalog,public".into(),
                _ => "public".into(),
            })
        }),
    );
    add(
        "format_type",
        DataType::Utf8,
        Arc::new(|arguments| {
            let oid = arguments.first().copied().flatten()?.parse().ok()?;
            Some(format_type(oid, arguments.get(1).copied().flatten().and_then(|text| text.parse().ok())))
        }),
    );
    add(
        "quote_ident",
        DataType::Utf8,
        Arc::new(|arguments| arguments.first().copied().flatten().map(quote_ident)),
    );
    let settings: HashMap<String, String> =
        asked.settings.all().map(|(name, value)| (name.into(), value.into())).collect();
    add(
        "current_setting",
        DataType::Utf8,
        Arc::new(move |arguments| {
            settings.get(&arguments.first().copied().flatten()?.to_ascii_lowercase()).cloned()
        }),
    );
    add(
        "set_config",
        DataType::Utf8,
        Arc::new(|arguments| arguments.get(1).copied().flatten().map(Into::into)),
    );
    let tables: HashMap<String, String> = names
        .tables
        .iter()
        .map(|table| {
            (table.oid.to_string(), format!("{}.{}", quote_ident(&table.schema), quote_ident(&table.name)))
        })
        .chain(KNOWN.iter().map(|(name, oid)| (oid.to_string(), (*name).into())))
        .collect();
    add(
        "tapedb_regclass",
        DataType::Utf8,
        Arc::new(move |arguments| {
            let oid = arguments.first().copied().flatten()?;
            Some(tables.get(oid).cloned().unwrap_or_else(|| if oid == "0" { "-".into() } else { oid.into() }))
        }),
    );
    let schemas: HashMap<String, String> =
        names.schemas.iter().map(|(name, oid)| (oid.to_string(), quote_ident(name))).collect();
    add(
        "tapedb_regnamespace",
        DataType::Utf8,
        Arc::new(move |arguments| {
            let oid = arguments.first().copied().flatten()?;
            Some(schemas.get(oid).cloned().unwrap_or_else(|| oid.into()))
        }),
    );
    let found: HashMap<String, i64> = names
        .tables
        .iter()
        .flat_map(|table| {
            let quoted = format!("{}.{}", quote_ident(&table.schema), quote_ident(&table.name));
            [
                (quoted, table.oid),
                (format!("{}.{}", table.schema, table.name), table.oid),
                (table.name.clone(), table.oid),
            ]
        })
        .collect();
    add(
        "to_regclass",
        DataType::Int64,
        Arc::new(move |arguments| found.get(arguments.first().copied().flatten()?).map(i64::to_string)),
    );
    fixed("tapedb_regrole", DataType::Utf8, Some(asked.name));
    fixed("tapedb_owner", DataType::Int64, Some(&OWNER.to_string()));
}

/// A name, within quotes where it needs them.
fn quote_ident(name: &str) -> String {
    let is_plain = name
        .bytes()
        .enumerate()
        .all(|(index, byte)| byte.is_ascii_lowercase() || byte == b'_' || index > 0 && byte.is_ascii_digit());
    if is_plain && !name.is_empty() { name.into() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_quotes_where_they_need_them() {
        assert_eq!(quote_ident("bars_1"), "bars_1");
        assert_eq!(quote_ident("Bar"), "\"Bar\"");
        assert_eq!(quote_ident("a\"b"), "\"a\"\"b\"");
        assert_eq!(lists(&[Some("a,b".into()), None]).len(), 2);
    }
}
