//! The addresses of the server.

mod backup;
pub(crate) mod book;
mod catalog;
mod chart;
mod gaps;
mod heatmap;
mod histogram;
mod imports;
pub(crate) mod login;
mod messages;
mod operations;
mod plants;
pub(crate) mod query;
pub(crate) mod rates;
mod stream;
pub(crate) mod streams;
mod users;

use crate::failure::Failure;
use crate::state::Shared;
use crate::{assets, guard, live, pages};
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, post};

/// The description of the interface.
const OPENAPI: &str = include_str!("openapi.json");

/// Every address of the interface with its methods. A test compares them with the description.
fn routes() -> Vec<(&'static str, &'static [&'static str], MethodRouter<Shared>)> {
    vec![
        ("/api/login", &["post"], post(login::login)),
        ("/api/logout", &["post"], post(login::logout)),
        ("/api/session", &["get"], get(login::session)),
        ("/api/streams", &["get"], get(streams::list)),
        (
            "/api/streams/{name}",
            &["get", "patch", "delete"],
            get(stream::describe).patch(stream::alter).delete(stream::delete),
        ),
        ("/api/streams/{name}/symbols", &["get"], get(stream::symbols)),
        ("/api/streams/{name}/messages", &["get"], get(messages::read)),
        ("/api/streams/{name}/histogram", &["get"], get(histogram::read)),
        ("/api/streams/{name}/chart", &["get"], get(chart::read)),
        ("/api/streams/{name}/book", &["get"], get(book::read)),
        ("/api/streams/{name}/heatmap", &["get"], get(heatmap::read)),
        ("/api/streams/{name}/gaps", &["get"], get(gaps::read)),
        ("/api/catalog", &["get"], get(catalog::read)),
        ("/api/query", &["post"], post(query::run)),
        ("/api/queries/{id}", &["delete"], delete(query::cancel)),
        ("/api/connections", &["get"], get(operations::connections)),
        ("/api/connections/{id}", &["delete"], delete(operations::kill)),
        ("/api/topics", &["get"], get(operations::topics)),
        ("/api/users", &["get"], get(users::list)),
        ("/api/users/{name}", &["put", "delete"], axum::routing::put(users::put).delete(users::delete)),
        ("/api/reload", &["post"], post(operations::reload)),
        ("/api/plants", &["get"], get(plants::list)),
        ("/api/plants/{name}/end-day", &["post"], post(plants::end_day)),
        (
            "/api/backup",
            &["get", "post", "delete"],
            get(backup::show).post(backup::start).delete(backup::cancel),
        ),
        ("/api/imports", &["get", "post"], get(imports::list).post(imports::upload)),
        ("/api/imports/{id}", &["post", "delete"], post(imports::start).delete(imports::remove)),
        ("/api/ws", &["get"], get(live::open)),
    ]
}

/// All that the server answers.
pub(crate) fn router(state: Shared) -> Router {
    let mut router = Router::new()
        .route("/health", get(pages::health))
        .route("/status", get(pages::status))
        .route("/metrics", get(pages::metrics));
    if state.has_api {
        router = router.route("/api/openapi.json", get(openapi));
        for (path, _, methods) in routes() {
            router = router.route(path, methods);
        }
        router = router.fallback(assets::answer);
    } else {
        router = router.fallback(only_pages);
    }
    router
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(state.options.limits.body_bytes_max))
        .layer(from_fn_with_state(state.clone(), guard::guard))
        .with_state(state)
}

async fn openapi() -> Response {
    ([(CONTENT_TYPE, "application/json")], OPENAPI).into_response()
}

async fn wrong_method() -> Failure {
    Failure::form(
        StatusCode::METHOD_NOT_ALLOWED,
        "the address has other methods; /api/openapi.json lists them",
    )
}

async fn only_pages() -> Failure {
    Failure::not_found(
        "pages are /health, /status and /metrics: other machines reach this address, and the server has no users. Set `users` for the \
         console and the interface",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_description_has_every_address() {
        let description: serde_json::Value = serde_json::from_str(OPENAPI).unwrap();
        assert_eq!(description["openapi"], "3.1.0");
        assert_eq!(description["info"]["version"], env!("CARGO_PKG_VERSION"));
        let paths = description["paths"].as_object().unwrap();
        let described: BTreeSet<(String, String)> = paths
            .iter()
            .filter(|(path, _)| path.starts_with("/api/") && *path != "/api/openapi.json")
            .flat_map(|(path, methods)| {
                methods
                    .as_object()
                    .unwrap()
                    .keys()
                    .filter(|key| *key != "parameters")
                    .map(|method| (path.clone(), method.clone()))
            })
            .collect();
        let routed: BTreeSet<(String, String)> = routes()
            .iter()
            .flat_map(|(path, methods, _)| {
                methods.iter().map(|method| ((*path).to_string(), (*method).to_string()))
            })
            .collect();
        assert_eq!(described, routed);
        for (path, methods) in paths {
            for (method, operation) in
                methods.as_object().unwrap().iter().filter(|(key, _)| *key != "parameters")
            {
                assert!(
                    operation["summary"].is_string() && operation["responses"]["200"].is_object()
                        || path == "/api/ws",
                    "{method} {path}"
                );
            }
        }
    }
}
