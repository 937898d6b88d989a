//! What clients ask about the server: its facts, its tables, its types. A user gets what it may read, and no trace of the rest.

use crate::caller::Caller;
use crate::facts::Facts;
use crate::rows::{Messages, ready};
use crate::shared::Shared;
use crate::status::{internal, of_query};
use arrow_flight::sql::{
    CommandGetCatalogs, CommandGetDbSchemas, CommandGetSqlInfo, CommandGetTableTypes, CommandGetTables,
    CommandGetXdbcTypeInfo,
};
use std::sync::Arc;
use tapedb_query::TableDescription;
use tapedb_query::arrow::array::RecordBatch;
use tapedb_query::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use tokio::task::spawn_blocking;
use tonic::Status;

/// Name of the catalogue. Its schemas are the streams, and their tables the message types.
const CATALOG: &str = "tapedb";
const TABLE: &str = "TABLE";

/// A question about the server.
#[derive(Debug)]
pub(crate) enum Question {
    Catalogs(CommandGetCatalogs),
    Schemas(CommandGetDbSchemas),
    Tables(CommandGetTables),
    TableTypes(CommandGetTableTypes),
    Info(CommandGetSqlInfo),
    Types(CommandGetXdbcTypeInfo),
    PrimaryKeys,
    ForeignKeys,
}

impl Question {
    /// The columns of the answer.
    pub fn schema(self, shared: &Shared) -> SchemaRef {
        let Facts { info, types } = &shared.facts;
        match self {
            Self::Catalogs(asked) => asked.into_builder().schema(),
            Self::Schemas(asked) => asked.into_builder().schema(),
            Self::Tables(asked) => asked.into_builder().schema(),
            Self::TableTypes(asked) => asked.into_builder().schema(),
            Self::Info(asked) => asked.into_builder(info).schema(),
            Self::Types(asked) => asked.into_builder(types).schema(),
            Self::PrimaryKeys => primary_keys(),
            Self::ForeignKeys => foreign_keys(),
        }
    }

    /// The answer.
    ///
    /// # Errors
    /// When streams cannot be listed, or the user was removed.
    pub async fn answer(self, shared: &Shared, caller: &Caller) -> Result<Messages, Status> {
        let Facts { info, types } = &shared.facts;
        let batch = match self {
            Self::Catalogs(asked) => {
                let mut answer = asked.into_builder();
                answer.append(CATALOG);
                answer.build()
            }
            Self::Schemas(asked) => {
                let mut answer = asked.into_builder();
                let mut streams: Vec<String> =
                    tables(shared, caller).await?.into_iter().map(|table| table.stream).collect();
                streams.dedup();
                streams.iter().for_each(|stream| answer.append(CATALOG, stream));
                answer.build()
            }
            Self::Tables(asked) => {
                let mut answer = asked.into_builder();
                for TableDescription { stream, table, columns } in tables(shared, caller).await? {
                    answer.append(CATALOG, stream, table, TABLE, &columns).map_err(internal)?;
                }
                answer.build()
            }
            Self::TableTypes(asked) => {
                let mut answer = asked.into_builder();
                answer.append(TABLE);
                answer.build()
            }
            Self::Info(asked) => asked.into_builder(info).build(),
            Self::Types(asked) => asked.into_builder(types).build(),
            Self::PrimaryKeys => Ok(RecordBatch::new_empty(primary_keys())),
            Self::ForeignKeys => Ok(RecordBatch::new_empty(foreign_keys())),
        };
        ready(&batch.map_err(internal)?)
    }
}

/// The tables that a user may read.
async fn tables(shared: &Shared, caller: &Caller) -> Result<Vec<TableDescription>, Status> {
    let (user, _) = caller.query_user(shared)?;
    let queries = shared.options.queries.clone();
    let found = spawn_blocking(move || queries.tables(true, &user)).await.map_err(internal)?;
    found.map_err(|error| of_query(&error))
}

fn columns(fields: &[(&str, DataType, bool)]) -> SchemaRef {
    let fields = fields.iter().map(|(name, ty, is_nullable)| Field::new(*name, ty.clone(), *is_nullable));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Messages have no keys: the columns of an answer without rows.
fn primary_keys() -> SchemaRef {
    use DataType::{Int32, Utf8};
    columns(&[
        ("catalog_name", Utf8, true),
        ("db_schema_name", Utf8, true),
        ("table_name", Utf8, false),
        ("column_name", Utf8, false),
        ("key_name", Utf8, true),
        ("key_sequence", Int32, false),
    ])
}

fn foreign_keys() -> SchemaRef {
    use DataType::{Int32, UInt8, Utf8};
    columns(&[
        ("pk_catalog_name", Utf8, true),
        ("pk_db_schema_name", Utf8, true),
        ("pk_table_name", Utf8, false),
        ("pk_column_name", Utf8, false),
        ("fk_catalog_name", Utf8, true),
        ("fk_db_schema_name", Utf8, true),
        ("fk_table_name", Utf8, false),
        ("fk_column_name", Utf8, false),
        ("key_sequence", Int32, false),
        ("fk_key_name", Utf8, true),
        ("pk_key_name", Utf8, true),
        ("update_rule", UInt8, false),
        ("delete_rule", UInt8, false),
    ])
}
