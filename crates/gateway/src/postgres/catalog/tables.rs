//! The tables of the catalogue. Those that clients join and that have nothing here are empty.

use crate::postgres::catalog::asked::{Asked, DATABASE};
use crate::postgres::catalog::names::Names;
use crate::postgres::types::{TYPE, Type};
use datafusion::catalog::{CatalogProvider, MemoryCatalogProvider, MemorySchemaProvider, SchemaProvider};
use datafusion::datasource::MemTable;
use datafusion::error::Result;
use datafusion::execution::context::SessionContext;
use std::collections::HashMap;
use std::sync::Arc;
use tapedb_query::arrow::array::{
    ArrayRef, BooleanArray, Int16Array, Int32Array, Int64Array, ListBuilder, RecordBatch, StringArray,
    StringBuilder, new_null_array,
};
use tapedb_query::arrow::datatypes::{DataType, Field, Schema, SchemaRef};

/// The owner of everything.
pub(crate) const OWNER: i64 = 10;
/// `pg_catalog`.
const CATALOG: i64 = 11;

/// A value.
#[derive(Debug, Clone)]
enum V {
    Null,
    B(bool),
    I(i64),
    T(String),
}

fn t(text: impl Into<String>) -> V {
    V::T(text.into())
}

/// Columns of a table: `name` and a letter for its type. o: a number of an object, n: its name, c: a letter, t: text, b: bool, s, i, l:
/// integers of 16, 32 and 64 bits, T: texts, f: a double.
const PG: &[(&str, &str)] = &[
    ("pg_namespace", "oid:o nspname:n nspowner:o nspacl:T"),
    (
        "pg_class",
        "oid:o relname:n relnamespace:o reltype:o reloftype:o relowner:o relam:o relfilenode:o reltablespace:o relpages:i reltuples:f relallvisible:i reltoastrelid:o relhasindex:b relisshared:b relpersistence:c relkind:c relnatts:s relchecks:s relhasrules:b relhastriggers:b relhassubclass:b relrowsecurity:b relforcerowsecurity:b relispopulated:b relreplident:c relispartition:b relrewrite:o relfrozenxid:l relminmxid:l relacl:T reloptions:T relpartbound:t",
    ),
    (
        "pg_attribute",
        "attrelid:o attname:n atttypid:o attstattarget:i attlen:s attnum:s attndims:i attcacheoff:i atttypmod:i attbyval:b attalign:c attstorage:c attcompression:c attnotnull:b atthasdef:b atthasmissing:b attidentity:c attgenerated:c attisdropped:b attislocal:b attinhcount:i attcollation:o attacl:T attoptions:T attfdwoptions:T",
    ),
    (
        "pg_type",
        "oid:o typname:n typnamespace:o typowner:o typlen:s typbyval:b typtype:c typcategory:c typispreferred:b typisdefined:b typdelim:c typrelid:o typsubscript:t typelem:o typarray:o typinput:t typoutput:t typreceive:t typsend:t typmodin:t typmodout:t typanalyze:t typalign:c typstorage:c typnotnull:b typbasetype:o typtypmod:i typndims:i typcollation:o typdefaultbin:t typdefault:t typacl:T",
    ),
    (
        "pg_database",
        "oid:o datname:n datdba:o encoding:i datlocprovider:c datistemplate:b datallowconn:b datconnlimit:i datfrozenxid:l datminmxid:l dattablespace:o datcollate:t datctype:t daticulocale:t datcollversion:t datacl:T",
    ),
    (
        "pg_roles",
        "oid:o rolname:n rolsuper:b rolinherit:b rolcreaterole:b rolcreatedb:b rolcanlogin:b rolreplication:b rolconnlimit:i rolpassword:t rolvaliduntil:t rolbypassrls:b rolconfig:T",
    ),
    (
        "pg_user",
        "usename:n usesysid:o usecreatedb:b usesuper:b userepl:b usebypassrls:b passwd:t valuntil:t useconfig:T",
    ),
    (
        "pg_settings",
        "name:t setting:t unit:t category:t short_desc:t extra_desc:t context:t vartype:t source:t min_val:t max_val:t enumvals:T boot_val:t reset_val:t sourcefile:t sourceline:i pending_restart:b",
    ),
    (
        "pg_tables",
        "schemaname:n tablename:n tableowner:n tablespace:n hasindexes:b hasrules:b hastriggers:b rowsecurity:b",
    ),
    ("pg_am", "oid:o amname:n amhandler:t amtype:c"),
    ("pg_tablespace", "oid:o spcname:n spcowner:o spcacl:T spcoptions:T"),
    ("pg_attrdef", "oid:o adrelid:o adnum:s adbin:t"),
    ("pg_auth_members", "oid:o roleid:o member:o grantor:o admin_option:b"),
    ("pg_cast", "oid:o castsource:o casttarget:o castfunc:o castcontext:c castmethod:c"),
    (
        "pg_collation",
        "oid:o collname:n collnamespace:o collowner:o collprovider:c collisdeterministic:b collencoding:i collcollate:t collctype:t colliculocale:t collversion:t",
    ),
    (
        "pg_constraint",
        "oid:o conname:n connamespace:o contype:c condeferrable:b condeferred:b convalidated:b conrelid:o contypid:o conindid:o conparentid:o confrelid:o confupdtype:c confdeltype:c confmatchtype:c conislocal:b coninhcount:i connoinherit:b conkey:T confkey:T conbin:t",
    ),
    ("pg_conversion", "oid:o conname:n connamespace:o conowner:o"),
    ("pg_depend", "classid:o objid:o objsubid:i refclassid:o refobjid:o refobjsubid:i deptype:c"),
    ("pg_description", "objoid:o classoid:o objsubid:i description:t"),
    ("pg_shdescription", "objoid:o classoid:o description:t"),
    ("pg_enum", "oid:o enumtypid:o enumsortorder:f enumlabel:n"),
    ("pg_event_trigger", "oid:o evtname:n evtevent:n evtowner:o evtfoid:o evtenabled:c"),
    ("pg_extension", "oid:o extname:n extowner:o extnamespace:o extrelocatable:b extversion:t"),
    ("pg_foreign_data_wrapper", "oid:o fdwname:n fdwowner:o"),
    ("pg_foreign_server", "oid:o srvname:n srvowner:o srvfdw:o srvoptions:T"),
    ("pg_foreign_table", "ftrelid:o ftserver:o ftoptions:T"),
    (
        "pg_index",
        "indexrelid:o indrelid:o indnatts:s indnkeyatts:s indisunique:b indnullsnotdistinct:b indisprimary:b indisexclusion:b indimmediate:b indisclustered:b indisvalid:b indcheckxmin:b indisready:b indislive:b indisreplident:b indkey:T indcollation:T indclass:T indoption:T indexprs:t indpred:t",
    ),
    ("pg_indexes", "schemaname:n tablename:n indexname:n tablespace:n indexdef:t"),
    ("pg_inherits", "inhrelid:o inhparent:o inhseqno:i inhdetachpending:b"),
    ("pg_language", "oid:o lanname:n lanowner:o lanispl:b lanpltrusted:b"),
    ("pg_locks", "locktype:t database:o relation:o pid:i mode:t granted:b"),
    (
        "pg_matviews",
        "schemaname:n matviewname:n matviewowner:n tablespace:n hasindexes:b ispopulated:b definition:t",
    ),
    ("pg_opclass", "oid:o opcmethod:o opcname:n opcnamespace:o opcdefault:b"),
    ("pg_operator", "oid:o oprname:n oprnamespace:o oprowner:o oprkind:c"),
    ("pg_partitioned_table", "partrelid:o partstrat:c partnatts:s"),
    ("pg_policy", "oid:o polname:n polrelid:o polcmd:c polpermissive:b polroles:T polqual:t polwithcheck:t"),
    (
        "pg_proc",
        "oid:o proname:n pronamespace:o proowner:o prolang:o prokind:c prorettype:o proargtypes:T proargnames:T prosrc:t proretset:b proisstrict:b provolatile:c",
    ),
    (
        "pg_publication",
        "oid:o pubname:n pubowner:o puballtables:b pubinsert:b pubupdate:b pubdelete:b pubtruncate:b pubviaroot:b",
    ),
    ("pg_publication_rel", "oid:o prpubid:o prrelid:o prqual:t prattrs:T"),
    ("pg_publication_namespace", "oid:o pnpubid:o pnnspid:o"),
    ("pg_range", "rngtypid:o rngsubtype:o rngmultitypid:o rngcollation:o rngsubopc:o"),
    ("pg_rewrite", "oid:o rulename:n ev_class:o ev_type:c ev_enabled:c is_instead:b"),
    ("pg_seclabel", "objoid:o classoid:o objsubid:i provider:t label:t"),
    (
        "pg_sequence",
        "seqrelid:o seqtypid:o seqstart:l seqincrement:l seqmax:l seqmin:l seqcache:l seqcycle:b",
    ),
    ("pg_sequences", "schemaname:n sequencename:n sequenceowner:n"),
    ("pg_shdepend", "dbid:o classid:o objid:o objsubid:i refclassid:o refobjid:o deptype:c"),
    ("pg_stat_activity", "datid:o datname:n pid:i usename:n application_name:t state:t query:t"),
    ("pg_stat_user_tables", "relid:o schemaname:n relname:n seq_scan:l n_live_tup:l"),
    (
        "pg_statistic_ext",
        "oid:o stxrelid:o stxname:n stxnamespace:o stxowner:o stxkind:T stxkeys:T stxstattarget:i",
    ),
    ("pg_subscription", "oid:o subdbid:o subname:n subowner:o subenabled:b"),
    ("pg_timezone_names", "name:t abbrev:t is_dst:b"),
    (
        "pg_trigger",
        "oid:o tgrelid:o tgparentid:o tgname:n tgfoid:o tgtype:s tgenabled:c tgisinternal:b tgconstrrelid:o tgconstraint:o",
    ),
    ("pg_views", "schemaname:n viewname:n viewowner:n definition:t"),
];

/// Tables of `information_schema`.
const INFORMATION: &[(&str, &str)] = &[
    (
        "schemata",
        "catalog_name:t schema_name:t schema_owner:t default_character_set_catalog:t default_character_set_schema:t default_character_set_name:t sql_path:t",
    ),
    (
        "tables",
        "table_catalog:t table_schema:t table_name:t table_type:t self_referencing_column_name:t reference_generation:t user_defined_type_catalog:t user_defined_type_schema:t user_defined_type_name:t is_insertable_into:t is_typed:t commit_action:t",
    ),
    (
        "columns",
        "table_catalog:t table_schema:t table_name:t column_name:t ordinal_position:i column_default:t is_nullable:t data_type:t character_maximum_length:i character_octet_length:i numeric_precision:i numeric_precision_radix:i numeric_scale:i datetime_precision:i interval_type:t character_set_name:t collation_name:t domain_name:t udt_catalog:t udt_schema:t udt_name:t is_identity:t is_generated:t is_updatable:t",
    ),
    ("views", "table_catalog:t table_schema:t table_name:t view_definition:t check_option:t is_updatable:t"),
    (
        "table_constraints",
        "constraint_catalog:t constraint_schema:t constraint_name:t table_catalog:t table_schema:t table_name:t constraint_type:t is_deferrable:t initially_deferred:t",
    ),
    (
        "key_column_usage",
        "constraint_catalog:t constraint_schema:t constraint_name:t table_catalog:t table_schema:t table_name:t column_name:t ordinal_position:i position_in_unique_constraint:i",
    ),
    (
        "constraint_column_usage",
        "table_catalog:t table_schema:t table_name:t column_name:t constraint_catalog:t constraint_schema:t constraint_name:t",
    ),
    (
        "referential_constraints",
        "constraint_catalog:t constraint_schema:t constraint_name:t unique_constraint_catalog:t unique_constraint_schema:t unique_constraint_name:t match_option:t update_rule:t delete_rule:t",
    ),
    (
        "routines",
        "specific_catalog:t specific_schema:t specific_name:t routine_catalog:t routine_schema:t routine_name:t routine_type:t data_type:t routine_definition:t",
    ),
    (
        "parameters",
        "specific_schema:t specific_name:t ordinal_position:i parameter_mode:t parameter_name:t data_type:t",
    ),
    ("sequences", "sequence_catalog:t sequence_schema:t sequence_name:t data_type:t"),
    ("triggers", "trigger_schema:t trigger_name:t event_object_schema:t event_object_table:t"),
];

/// Whether a table of the catalogue has no rows, whatever streams there are.
pub(crate) fn is_always_empty(name: &str) -> bool {
    const FILLED: [&str; 13] = [
        "pg_namespace",
        "pg_class",
        "pg_attribute",
        "pg_type",
        "pg_database",
        "pg_roles",
        "pg_user",
        "pg_settings",
        "pg_tables",
        "pg_am",
        "pg_tablespace",
        "pg_timezone_names",
        "pg_stat_activity",
    ];
    PG.iter().any(|(known, _)| *known == name) && !FILLED.contains(&name)
}

/// What drivers ask of the server's settings, beside those of a session.
const FIXED: [(&str, &str); 4] = [
    ("max_index_keys", "32"),
    ("max_identifier_length", "63"),
    ("block_size", "8192"),
    ("max_function_args", "100"),
];

/// Makes the tables known.
pub(crate) fn register(context: &SessionContext, asked: &Asked<'_>, names: &Names) -> Result<()> {
    let catalog = MemoryCatalogProvider::new();
    for (schema, tables) in [("pg_catalog", PG), ("information_schema", INFORMATION)] {
        let provider = MemorySchemaProvider::new();
        for (name, columns) in tables {
            let mut rows = rows(name, asked, names);
            let columns: Vec<(&str, u8)> = columns
                .split(' ')
                .filter_map(|column| column.split_once(':'))
                .map(|(name, letter)| (name, letter.as_bytes()[0]))
                .collect();
            rows.iter_mut().for_each(|row| row.resize(columns.len(), V::Null));
            let schema = schema_of(&columns);
            let batch = batch(&schema, &columns, &rows)?;
            provider
                .register_table((*name).into(), Arc::new(MemTable::try_new(schema, vec![vec![batch]])?))?;
        }
        catalog.register_schema(schema, Arc::new(provider))?;
    }
    context.register_catalog(DATABASE, Arc::new(catalog));
    Ok(())
}

fn schema_of(columns: &[(&str, u8)]) -> SchemaRef {
    let field = |(name, letter): &(&str, u8)| {
        let (ty, known) = match letter {
            b'o' => (DataType::Int64, Some("oid")),
            b'n' => (DataType::Utf8, Some("name")),
            b'c' => (DataType::Utf8, Some("char")),
            b'b' => (DataType::Boolean, None),
            b's' => (DataType::Int16, None),
            b'i' => (DataType::Int32, None),
            b'l' => (DataType::Int64, None),
            b'f' => (DataType::Float32, None),
            b'T' => (DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true))), None),
            _ => (DataType::Utf8, None),
        };
        let known = known.map(|known| (TYPE.to_string(), known.to_string()));
        Field::new(*name, ty, true).with_metadata(HashMap::from_iter(known))
    };
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

fn batch(schema: &SchemaRef, columns: &[(&str, u8)], rows: &[Vec<V>]) -> Result<RecordBatch> {
    let array = |(index, (_, letter)): (usize, &(&str, u8))| -> ArrayRef {
        let values = || rows.iter().map(|row| &row[index]);
        let number = |value: &V| if let V::I(number) = value { Some(*number) } else { None };
        match letter {
            b'b' => Arc::new(BooleanArray::from_iter(
                values().map(|value| if let V::B(value) = value { Some(*value) } else { None }),
            )),
            b's' => Arc::new(Int16Array::from_iter(
                values().map(|value| number(value).map(|number| number as i16)),
            )),
            b'i' => Arc::new(Int32Array::from_iter(
                values().map(|value| number(value).map(|number| number as i32)),
            )),
            b'o' | b'l' => Arc::new(Int64Array::from_iter(values().map(number))),
            b'f' => new_null_array(&DataType::Float32, rows.len()),
            b'T' => {
                let mut lists = ListBuilder::new(StringBuilder::new());
                rows.iter().for_each(|_| lists.append(false));
                Arc::new(lists.finish())
            }
            _ => Arc::new(StringArray::from_iter(
                values().map(|value| if let V::T(text) = value { Some(text.as_str()) } else { None }),
            )),
        }
    };
    Ok(RecordBatch::try_new(schema.clone(), columns.iter().enumerate().map(array).collect())?)
}

fn rows(table: &str, asked: &Asked<'_>, names: &Names) -> Vec<Vec<V>> {
    use V::{B, I, Null};
    let owner = || I(OWNER);
    match table {
        "pg_namespace" => {
            let own = [
                ("pg_catalog".to_string(), CATALOG),
                ("public".into(), 2200),
                ("information_schema".into(), 13_000),
            ];
            own.iter().chain(&names.schemas).map(|(name, oid)| vec![I(*oid), t(name), owner()]).collect()
        }
        "pg_class" => names
            .tables
            .iter()
            .map(|table| {
                vec![
                    I(table.oid),
                    t(&table.name),
                    I(table.schema_oid),
                    I(0),
                    I(0),
                    owner(),
                    I(2),
                    I(table.oid),
                    I(0),
                    I(0),
                    Null,
                    I(0),
                    I(0),
                    B(false),
                    B(false),
                    t("p"),
                    t("r"),
                    I(table.columns.len() as i64),
                    I(0),
                    B(false),
                    B(false),
                    B(false),
                    B(false),
                    B(false),
                    B(true),
                    t("d"),
                    B(false),
                    I(0),
                    I(0),
                    I(0),
                ]
            })
            .collect(),
        "pg_attribute" => names
            .tables
            .iter()
            .flat_map(|table| {
                table.columns.iter().enumerate().map(|(index, (column, is_nullable))| {
                    let (ty, size) = (&column.ty, column.ty.size());
                    vec![
                        I(table.oid),
                        t(&column.name),
                        I(ty.oid().into()),
                        I(-1),
                        I(size.into()),
                        I(index as i64 + 1),
                        I(matches!(ty, Type::Array(_)).into()),
                        I(-1),
                        I(ty.modifier().into()),
                        B((1..=8).contains(&size)),
                        t("i"),
                        t("p"),
                        t(""),
                        B(!is_nullable),
                        B(false),
                        B(false),
                        t(""),
                        t(""),
                        B(false),
                        B(true),
                        I(0),
                        I(0),
                    ]
                })
            })
            .collect(),
        "pg_type" => types(),
        "pg_database" => vec![vec![
            I(5),
            t(DATABASE),
            owner(),
            I(6),
            t("c"),
            B(false),
            B(true),
            I(-1),
            I(0),
            I(0),
            I(1663),
            t("C"),
            t("C"),
        ]],
        "pg_roles" => vec![vec![
            I(OWNER),
            t(asked.name),
            B(false),
            B(true),
            B(false),
            B(false),
            B(true),
            B(false),
            I(-1),
            t("********"),
            Null,
            B(false),
        ]],
        "pg_user" => {
            vec![vec![t(asked.name), I(OWNER), B(false), B(false), B(false), B(false), t("********")]]
        }
        "pg_settings" => asked
            .settings
            .all()
            .chain(FIXED)
            .map(|(name, value)| {
                vec![
                    t(name),
                    t(value),
                    Null,
                    t("Settings of a session"),
                    t(""),
                    Null,
                    t("user"),
                    t("string"),
                    t("session"),
                    Null,
                    Null,
                    Null,
                    t(value),
                    t(value),
                    Null,
                    Null,
                    B(false),
                ]
            })
            .collect(),
        "pg_tables" => names
            .tables
            .iter()
            .map(|table| {
                vec![
                    t(&table.schema),
                    t(&table.name),
                    t(asked.name),
                    Null,
                    B(false),
                    B(false),
                    B(false),
                    B(false),
                ]
            })
            .collect(),
        "pg_am" => vec![vec![I(2), t("heap"), Null, t("t")]],
        "pg_tablespace" => vec![vec![I(1663), t("pg_default"), owner()]],
        "pg_timezone_names" => vec![vec![t("UTC"), t("UTC"), B(false)]],
        "pg_stat_activity" => vec![vec![
            I(5),
            t(DATABASE),
            I(asked.process.into()),
            t(asked.name),
            t(asked.settings.get("application_name").unwrap_or_default()),
            t("active"),
        ]],
        "schemata" => {
            names.schemas.iter().map(|(name, _)| vec![t(DATABASE), t(name), t(asked.name)]).collect()
        }
        "tables" => names
            .tables
            .iter()
            .map(|table| {
                vec![
                    t(DATABASE),
                    t(&table.schema),
                    t(&table.name),
                    t("BASE TABLE"),
                    Null,
                    Null,
                    Null,
                    Null,
                    Null,
                    t("NO"),
                    t("NO"),
                ]
            })
            .collect(),
        "columns" => names
            .tables
            .iter()
            .flat_map(|table| {
                table.columns.iter().enumerate().map(|(index, (column, is_nullable))| {
                    let ty = &column.ty;
                    let digits = match ty {
                        Type::Numeric(Some((digits, scale))) => {
                            [I((*digits).into()), I(10), I((*scale).into())]
                        }
                        Type::Int2 => [I(16), I(2), I(0)],
                        Type::Int4 => [I(32), I(2), I(0)],
                        Type::Int8 => [I(64), I(2), I(0)],
                        Type::Float8 => [I(53), I(2), Null],
                        _ => [Null, Null, Null],
                    };
                    let name = if matches!(ty, Type::Array(_)) {
                        "ARRAY".into()
                    } else {
                        format_type(ty.oid(), None)
                    };
                    let mut row = vec![
                        t(DATABASE),
                        t(&table.schema),
                        t(&table.name),
                        t(&column.name),
                        I(index as i64 + 1),
                        Null,
                        t(if *is_nullable { "YES" } else { "NO" }),
                        t(name),
                        Null,
                        Null,
                    ];
                    row.extend(digits);
                    let has_micros = matches!(ty, Type::Timestamp | Type::Timestamptz | Type::Time);
                    row.extend([
                        if has_micros { I(6) } else { Null },
                        Null,
                        Null,
                        Null,
                        Null,
                        t(DATABASE),
                        t("pg_catalog"),
                        t(type_name(ty.oid())),
                        t("NO"),
                        t("NEVER"),
                        t("NO"),
                    ]);
                    row
                })
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// Types: number, name, category, the name that is shown, number of the array.
const TYPES: [(i64, &str, &str, &str, i64); 19] = [
    (16, "bool", "B", "boolean", 1000),
    (17, "bytea", "U", "bytea", 1001),
    (18, "char", "Z", "\"char\"", 1002),
    (19, "name", "S", "name", 1003),
    (20, "int8", "N", "bigint", 1016),
    (21, "int2", "N", "smallint", 1005),
    (23, "int4", "N", "integer", 1007),
    (25, "text", "S", "text", 1009),
    (26, "oid", "N", "oid", 1028),
    (114, "json", "U", "json", 199),
    (700, "float4", "N", "real", 1021),
    (701, "float8", "N", "double precision", 1022),
    (1043, "varchar", "S", "character varying", 1015),
    (1082, "date", "D", "date", 1182),
    (1083, "time", "D", "time without time zone", 1183),
    (1114, "timestamp", "D", "timestamp without time zone", 1115),
    (1184, "timestamptz", "D", "timestamp with time zone", 1185),
    (1186, "interval", "T", "interval", 1187),
    (1700, "numeric", "N", "numeric", 1231),
];

fn types() -> Vec<Vec<V>> {
    use V::{B, I, Null};
    let row = |oid: i64, name: String, size: i64, category: &str, element: i64, array: i64| {
        vec![
            I(oid),
            t(&name),
            I(CATALOG),
            I(OWNER),
            I(size),
            B((1..=8).contains(&size)),
            t("b"),
            t(category),
            B(false),
            B(true),
            t(","),
            I(0),
            Null,
            I(element),
            I(array),
            t(in_out(&name, "in")),
            t(in_out(&name, "out")),
            t(in_out(&name, "recv")),
            t(in_out(&name, "send")),
            Null,
            Null,
            Null,
            t("i"),
            t("p"),
            B(false),
            I(0),
            I(-1),
            I(0),
            I(0),
        ]
    };
    TYPES
        .iter()
        .flat_map(|(oid, name, category, _, array)| {
            let size = Type::of_oid(*oid as u32).map_or(-1, |ty| ty.size());
            [
                row(*oid, (*name).into(), size.into(), category, 0, *array),
                row(*array, format!("_{name}"), -1, "A", *oid, 0),
            ]
        })
        .collect()
}

/// The name of a function that reads or writes a type.
fn in_out(name: &str, what: &str) -> String {
    match name {
        _ if name.starts_with('_') => format!("array_{what}"),
        "json" | "date" | "time" | "timestamp" | "timestamptz" | "interval" | "numeric" => {
            format!("{name}_{what}")
        }
        _ => format!("{name}{what}"),
    }
}

/// The name of a type as it is shown.
pub(crate) fn format_type(oid: u32, modifier: Option<i64>) -> String {
    let oid = i64::from(oid);
    for (own, _, _, shown, array) in TYPES {
        if own == oid {
            return match modifier {
                Some(modifier) if own == 1700 && modifier > 4 => {
                    format!("numeric({},{})", (modifier - 4) >> 16, (modifier - 4) & 0xffff)
                }
                _ => shown.into(),
            };
        }
        if array == oid {
            return format!("{shown}[]");
        }
    }
    "???".into()
}

/// The name of a type in the catalogue.
fn type_name(oid: u32) -> String {
    let oid = i64::from(oid);
    let found = TYPES.iter().find_map(|(own, name, _, _, array)| match () {
        () if *own == oid => Some((*name).to_string()),
        () if *array == oid => Some(format!("_{name}")),
        () => None,
    });
    found.unwrap_or_else(|| "unknown".into())
}

/// The number of a type by one of its names.
pub(crate) fn type_number(name: &str) -> Option<i64> {
    let name = name.trim_start_matches("pg_catalog.").trim_matches('"');
    TYPES.iter().find(|(_, own, _, shown, _)| *own == name || *shown == name).map(|(oid, ..)| *oid)
}
