//! Tables and functions of SQL, for completion. Streams that the caller may not read are not in it.

use crate::api::query::rows_of;
use crate::caller::Caller;
use crate::failure::Failure;
use crate::state::Shared;
use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};
use tapedb_access::May;

const COLUMNS: &str = "SELECT table_schema, table_name, column_name, data_type, is_nullable FROM information_schema.columns \
     WHERE table_schema <> 'information_schema' ORDER BY table_schema, table_name, ordinal_position";
const FUNCTIONS: &str = "SELECT routine_name AS name, min(function_type) AS kind, min(description) AS description \
     FROM information_schema.routines GROUP BY routine_name ORDER BY routine_name";

/// The catalogue.
pub(crate) async fn read(State(state): State<Shared>, caller: Caller) -> Result<Json<Value>, Failure> {
    if state.server.query_engine().is_none() {
        return without_sql(state, caller).await;
    }
    let columns = rows_of(&state, caller.clone(), COLUMNS).await?;
    let functions = rows_of(&state, caller, FUNCTIONS).await?;
    let text = |row: &Value, name: &str| row[name].as_str().unwrap_or_default().to_string();
    let mut tables: Vec<(String, String, Vec<Value>)> = Vec::new();
    for row in &columns {
        let (stream, table) = (text(row, "table_schema"), text(row, "table_name"));
        let is_last = tables.last().is_some_and(|last| last.0 == stream && last.1 == table);
        if !is_last {
            tables.push((stream, table, Vec::new()));
        }
        if let Some((.., columns)) = tables.last_mut() {
            let is_nullable = text(row, "is_nullable") == "YES";
            columns.push(
                json!({ "name": row["column_name"], "type": row["data_type"], "nullable": is_nullable }),
            );
        }
    }
    let tables = tables.into_iter().map(|(stream, table, columns)| table_json(&stream, &table, columns));
    let kind = |row: &Value| text(row, "kind").to_lowercase();
    let functions = functions
        .iter()
        .map(|row| json!({ "name": row["name"], "kind": kind(row), "description": row["description"] }));
    Ok(Json(json!({ "tables": tables.collect::<Vec<_>>(), "functions": functions.collect::<Vec<_>>() })))
}

fn table_json(stream: &str, table: &str, columns: Vec<Value>) -> Value {
    json!({ "stream": stream, "table": table, "columns": columns })
}

/// Record types and their fields, from the schemas.
async fn without_sql(state: Shared, caller: Caller) -> Result<Json<Value>, Failure> {
    let shared = state.clone();
    let listed = state.workers.run(move || {
        let db = shared.server.database();
        let names = db.streams().map_err(|error| caller.failure(error))?;
        let mut tables = Vec::new();
        for name in names.iter().filter(|name| caller.user.may(May::Read, name)) {
            // One that cannot be opened is in the list of streams, with its failure.
            let Ok(stream) = db.stream(name) else { continue };
            for record in stream.schema().records.iter().filter(|record| record.message) {
                let columns = record.fields.iter().map(|field| {
                    json!({ "name": field.name, "type": field.ty.to_string(), "nullable": field.nullable })
                });
                tables.push(table_json(name, &record.name, columns.collect()));
            }
        }
        Ok(json!({ "tables": tables, "functions": [] }))
    });
    listed.await.map(Json)
}
