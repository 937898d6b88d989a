//! Tickerplants beside the server, and their days.

use crate::caller::Caller;
use crate::failure::Failure;
use crate::state::Shared;
use axum::Json;
use axum::extract::{Path, State};
use serde_json::{Value, json};

/// The plants with those tables that the caller may see.
pub(crate) async fn list(State(state): State<Shared>, caller: Caller) -> Result<Json<Value>, Failure> {
    let shared = state.clone();
    let listed = state.workers.run(move || {
        let plants = shared.plants.get().map(|plants| plants.plants()).unwrap_or_default();
        let rows = plants.into_iter().filter_map(|plant| {
            let tables: Vec<Value> = plant
                .tables
                .iter()
                .filter(|table| caller.user.may_see(&table.stream))
                .map(|table| {
                    json!({
                        "name": table.name,
                        "stream": table.stream,
                        "today": table.today.to_string(),
                        "ever": table.ever.to_string(),
                    })
                })
                .collect();
            (!tables.is_empty()).then(|| {
                json!({
                    "name": plant.name,
                    "date": plant.date,
                    "day_ends": plant.day_ends,
                    "kept_back": plant.kept_back,
                    "tables": tables,
                })
            })
        });
        Ok(json!({ "plants": rows.collect::<Vec<_>>() }))
    });
    listed.await.map(Json)
}

/// Ends the day of a plant.
pub(crate) async fn end_day(
    State(state): State<Shared>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<Value>, Failure> {
    caller.check_admin()?;
    let shared = state.clone();
    let ended = state.workers.run(move || {
        let plants = shared.plants.get();
        let known = plants.filter(|plants| plants.plants().iter().any(|plant| plant.name == name));
        let plants = known.ok_or_else(|| Failure::not_found(format!("there is no plant {name:?}")))?;
        let ended = plants.end_day(&name);
        let what = ended
            .as_ref()
            .map_or_else(|error| format!("failed: {error}"), |date| format!("it is {date} now"));
        caller.audit("end of day", "", &format!("plant {name}: {what}"));
        Ok(json!({ "date": ended.map_err(Failure::invalid)? }))
    });
    ended.await.map(Json)
}
